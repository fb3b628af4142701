"""What can be known of a loss, and what a kind of loss has to say of itself.

A kind of loss is one `Kind`, a row of the table in `pabi.describe.loss_kinds`; that of a linear model's
loss is made by `pabi.describe.linear_losses`. The accountant knows losses by these rows alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from pabi.describe.moduli import Modulus
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE, SHARE, Check

Pairs = tuple[tuple[float, float], ...]
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What a loss guarantees of one record.

    Attributes
    ----------
    curvature : (float, float) or None
        [lo, hi]; None if nothing is known.
    gradient_bound : float or None
        The largest norm of its gradient; None if unknown.
    glm, separable : bool
        Whether its gradient is a scalar function of the parameters times a fixed vector, and whether it is a
        sum of functions of one coordinate each. That makes clipping of norms, and of coordinates, harmless.
    convex_holder : tuple of (float, float)
        Pairs (p, M): the loss is convex on all of ℝ^d with a p-Hölder gradient of constant M.
    dissipative : (float, float) or None
        (λ, κ) with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ.
    monotone : float or None
        The smoothness β, ∞ if there is none, of what is no gradient but a monotone field, that of
        convex–concave descent–ascent.
    """

    curvature: tuple[float, float] | None = None
    gradient_bound: float | None = None
    glm: bool = False
    convex_holder: Pairs = ()
    dissipative: tuple[float, float] | None = None
    separable: bool = False
    monotone: float | None = None

    @property
    def convex(self) -> bool:
        """Whether the loss is known to be convex."""
        return bool(self.convex_holder) or (self.curvature is not None and self.curvature[0] >= 0.0)

    @property
    def least_curvature(self) -> float | None:
        """The largest known m with ⟨g(x) − g(y), x − y⟩ ≥ m‖x − y‖², g the gradient or the field."""
        if self.curvature is not None:
            return self.curvature[0]
        return 0.0 if self.convex or self.monotone is not None else None

    @property
    def steepness(self) -> float:
        """The Lipschitz constant of the gradient or the field; ∞ if none is known."""
        if self.curvature is not None:
            return max(map(abs, self.curvature))
        return math.inf if self.monotone is None else self.monotone


Constraints = Mapping[str, Check]


def holder_pairs(name: str, value: Any) -> Pairs:
    """The pairs (exponent in [0, 1], constant > 0) by increasing exponent, of equal ones the least constant.

    Raises InvalidInput naming the field.
    """
    expected = "expected at least one pair (exponent in [0, 1], constant > 0)"
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInput(name, f"{expected}, got {value!r}")
    least: dict[float, float] = {}
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidInput(name, f"{expected}, got {pair!r}")
        exponent = SHARE(name, pair[0])
        least[exponent] = min(POSITIVE(name, pair[1]), least.get(exponent, math.inf))
    return tuple(sorted(least.items()))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of loss.

    required, optional
        Its parameters by name, each with its constraint.
    facts
        (parameters) ↦ what follows from them.
    sentences
        (subject, parameters, facts) ↦ what the user must be able to stand behind, each sentence of the first
        about the subject, "each record's loss (…)".
    ordered
        Two required parameters of which the first may not exceed the second; None if there are none.
    rows
        (parameters, e, clips) ↦ moduli of x ↦ x − e·g(x), g the gradient of one record, that do not follow
        from `facts`; None if there are none. They are made of `Modulus.linear`, `affine` and `sqrt`. A mean
        of gradients inherits them, since its step is the mean of their steps. `clips`: whether gradients may
        be clipped, which few rows survive. Trainers raise the noise in place of scaling such gradients down.
    clipped
        (parameters, C) ↦ what follows from them of the loss clipped convexly to gradients of norm C; None
        where nobody knows how.
    """

    required: Constraints
    optional: Constraints = field(default_factory=dict)
    facts: Callable[[Parameters], Facts]
    sentences: Callable[[str, Parameters, Facts], list[str]]
    ordered: tuple[str, str] | None = None
    rows: Callable[[Parameters, Fraction, bool], list[Modulus]] | None = None
    clipped: Callable[[Parameters, float], Facts] | None = None


ITERATES = "a convex set that holds all iterates"


def curvature_known(subject: str, _: Parameters, facts: Facts) -> list[str]:
    """The sentence of a loss of which the curvature is all there is to say."""
    assert facts.curvature is not None
    lo, hi = facts.curvature
    return [f"{subject} has curvature in [{lo!r}, {hi!r}] on {ITERATES}"]

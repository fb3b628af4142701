"""What is known about a loss, and what it says about one gradient step.

A loss here is one record's loss, as a function of the parameters. Its curvature lies in [lo, hi]
when ∇f(x) − ∇f(y) = A(x − y) for some symmetric A with lo·I ⪯ A ⪯ hi·I: a convex M-smooth loss has
[0, M], an m-strongly convex one [m, M], a nonconvex M-smooth one [−M, M], an m-weakly convex one
[−m, M]. A step of size η on such a loss stretches distances by at most max(|1 − η·lo|, |1 − η·hi|)
(Bok, Su, Altschuler, Lemma 2.8, whose proof needs no signs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self, final

import numpy as np

from pabi.describe import gradient_steps
from pabi.describe.gradient_steps import Gradients, OwnRows
from pabi.describe.loss_facts import Facts, Kind
from pabi.describe.loss_kinds import KINDS, checked
from pabi.describe.moduli import Modulus, known
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import Array, fraction_up


@final
@dataclass(frozen=True)
class Loss:
    """What is known about one record's loss; build it with a constructor such as `Loss.logistic`.

    `kind` and `parameters` (name, value) say which loss, `l2` is λ of a regulariser (λ/2)‖x‖² that
    training applies exactly, outside clipping and batch, so that it does not enter the sensitivity.

    Norms are Euclidean. Curvatures have the unit of a gradient over that of the iterate, gradient bounds
    that of a gradient; `feature_norm` bounds the vector that the model sees, intercept included. Every
    constructor raises InvalidInput for constants that are negative, NaN or infinite, or where the derived
    ones overflow. `glm`, `separable` and `gradient_bound` are the user's word, and become assumptions. What a
    kind says stands in one table, `pabi.describe.loss_kinds`; a subclass would say something else.
    Source: Bok, Su, Altschuler 2024, Lemma 2.8; docs, "Theory", 7 and 8.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    l2: float = 0.0

    def __post_init__(self) -> None:
        given = checked(self.kind, dict(self.parameters))
        object.__setattr__(self, "l2", validate.number("l2", self.l2, at_least=0.0))
        object.__setattr__(self, "parameters", tuple(given.items()))
        for fact in (*(self.curvature or ()), self.gradient_bound or 0.0):
            if not math.isfinite(fact):
                first = next(iter(self._row.required))
                raise InvalidInput(first, f"the constants of this {self.kind} loss overflow")

    @classmethod
    def _of(cls, kind: str, l2: float, **parameters: Any) -> Self:
        kept = {k: v for k, v in parameters.items() if v is not None and v is not False}
        return cls(kind, tuple(kept.items()), l2)

    @classmethod
    def logistic(cls, feature_norm: float, l2: float = 0.0) -> Self:
        """Binary logistic loss, ‖x‖ ≤ `feature_norm` = R: curvature [0, R²/4], gradient ≤ R."""
        return cls._of("logistic", l2, feature_norm=feature_norm)

    @classmethod
    def softmax(cls, feature_norm: float, l2: float = 0.0) -> Self:
        """Multinomial logistic loss, ‖x‖ ≤ R: curvature [0, R²/2], gradient ≤ √2·R.

        Not a GLM in the sense of `glm`: clipping its gradients can break nonexpansiveness, so bound
        the features instead.
        """
        return cls._of("softmax", l2, feature_norm=feature_norm)

    @classmethod
    def squared(cls, feature_norm: float, residual_bound: float, l2: float = 0.0) -> Self:
        """½(x·θ − y)² with the residual clipped at B: curvature [0, R²], gradient ≤ R·B."""
        return cls._of("squared", l2, feature_norm=feature_norm, residual_bound=residual_bound)

    @classmethod
    def huber(cls, feature_norm: float, threshold: float, l2: float = 0.0) -> Self:
        """Huber loss with threshold k: curvature [0, R²], gradient ≤ k·R."""
        return cls._of("huber", l2, feature_norm=feature_norm, threshold=threshold)

    @classmethod
    def smoothed_hinge(cls, feature_norm: float, smoothing: float, l2: float = 0.0) -> Self:
        """Hinge loss smoothed over a width γ: curvature [0, R²/γ], gradient ≤ R."""
        return cls._of("smoothed_hinge", l2, feature_norm=feature_norm, smoothing=smoothing)

    @classmethod
    def poisson(
        cls, feature_norm: float, predictor_bound: float, count_bound: float, l2: float = 0.0
    ) -> Self:
        """Poisson loss, counts ≤ c_max, continued linearly beyond a linear predictor of z_max:
        curvature [0, R²·e^z_max], gradient ≤ R·max(c_max, e^z_max)."""
        bounds = {"predictor_bound": predictor_bound, "count_bound": count_bound}
        return cls._of("poisson", l2, feature_norm=feature_norm, **bounds)

    @classmethod
    def convex(
        cls,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """Convex and M-smooth: curvature [0, M]."""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        return cls._of("convex", l2, smoothness=smoothness, **stated)

    @classmethod
    def strongly_convex(
        cls,
        strong_convexity: float,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """m-strongly convex and M-smooth: curvature [m, M]."""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        own = {"strong_convexity": strong_convexity, "smoothness": smoothness}
        return cls._of("strongly_convex", l2, **own, **stated)

    @classmethod
    def nonconvex(
        cls,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """M-smooth, maybe nonconvex: curvature [−M, M]."""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        return cls._of("nonconvex", l2, smoothness=smoothness, **stated)

    @classmethod
    def weakly_convex(
        cls,
        weak_convexity: float,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """m-weakly convex and M-smooth: curvature [−m, M]."""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        own = {"weak_convexity": weak_convexity, "smoothness": smoothness}
        return cls._of("weakly_convex", l2, **own, **stated)

    @classmethod
    def lipschitz(
        cls, constant: float, l2: float = 0.0, *, glm: bool = False, separable: bool = False
    ) -> Self:
        """Convex, with (sub)gradients of norm at most L = `constant`; it need not be differentiable."""
        return cls._of("lipschitz", l2, constant=constant, glm=glm, separable=separable)

    @classmethod
    def weakly_smooth(
        cls,
        pairs: Sequence[tuple[float, float]],
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """Convex on all of ℝ^d, with ‖∇f(x) − ∇f(y)‖ ≤ M‖x − y‖^p for every one of `pairs` (p, M), p in
        [0, 1]. (Bravo, Flores-Mella, Guzmán, §2 and §4.)"""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        return cls._of("weakly_smooth", l2, pairs=pairs, **stated)

    @classmethod
    def holder(
        cls,
        exponent: float,
        constant: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """Maybe nonconvex, with ‖∇f(x) − ∇f(y)‖ ≤ M‖x − y‖^p: p = `exponent` in [0, 1], M = `constant`, in
        units of a gradient over those of the iterate to the power p. p = 1 is `nonconvex(M)`. Steps push near
        points apart, so that only runs with much noise a step gain from hiding the path. (Chien, Li 2024;
        docs, "Theory", 7.)"""
        return cls._of(
            "holder",
            l2,
            exponent=exponent,
            constant=constant,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

    @classmethod
    def dissipative(
        cls,
        offset: float,
        rate: float,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
        separable: bool = False,
    ) -> Self:
        """β-smooth with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ: contracting at distances that are large
        enough. λ = `offset`, κ = `rate`, β = `smoothness`. (Bravo, Flores-Mella, Guzmán, §2.)"""
        stated = {"gradient_bound": gradient_bound, "glm": glm, "separable": separable}
        return cls._of("dissipative", l2, offset=offset, rate=rate, smoothness=smoothness, **stated)

    @classmethod
    def saddle(cls, constant: float, smoothness: float | None = None, l2: float = 0.0) -> Self:
        """Convex–concave f(u, v), updated by descent in u and ascent in v: the field (∇_u f, −∇_v f) is
        monotone, of norm at most L = `constant`, and β-Lipschitz if `smoothness` says so. (Bravo,
        Flores-Mella, Guzmán, Remark 3.6.) λ pulls u and v towards 0."""
        return cls._of("saddle", l2, constant=constant, smoothness=smoothness)

    @classmethod
    def unknown(cls, l2: float = 0.0, *, gradient_bound: float | None = None) -> Self:
        """Nothing is known of the curvature: only composition applies."""
        return cls._of("unknown", l2, gradient_bound=gradient_bound)

    def with_l2(self, l2: float) -> Self:
        """The same loss with the regulariser (l2/2)‖x‖²."""
        return replace(self, l2=l2)

    @property
    def _row(self) -> Kind:
        return KINDS[self.kind]

    @property
    def _facts(self) -> Facts:
        return self._row.facts(dict(self.parameters))

    @property
    def _own_rows(self) -> OwnRows | None:
        rows, given = self._row.rows, dict(self.parameters)
        return None if rows is None else lambda step, clips: rows(given, step, clips)

    def _gradients(self, clip_norm: float | None, clipping: str) -> Gradients:
        return Gradients(self._facts, clip_norm, clipping)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the user must be able to stand behind of each record's loss; none if nothing is known."""
        listed = ", ".join(f"{name} = {value!r}" for name, value in self.parameters)
        subject = f"each record's loss ({self.kind}: {listed})"
        return tuple(self._row.sentences(subject, dict(self.parameters), self._facts))

    @property
    def curvature(self) -> tuple[float, float] | None:
        """[lo, hi] of one record's loss without the regulariser, or None if unknown."""
        return self._facts.curvature

    @property
    def least_curvature(self) -> float | None:
        """The largest known m with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ m‖x − y‖² for one record's loss without the
        regulariser, or None: the lower end of its curvature, 0 for what is merely convex."""
        return self._facts.least_curvature

    @property
    def dissipativity(self) -> tuple[float, float] | None:
        """(λ, κ) with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ for one record's loss, or None."""
        return self._facts.dissipative

    @property
    def gradient_bound(self) -> float | None:
        """The largest norm of one record's gradient (regulariser excluded), or None if unknown."""
        return self._facts.gradient_bound

    @property
    def glm(self) -> bool:
        """Whether each record's gradient is a scalar function times a fixed vector."""
        return self._facts.glm

    @property
    def has_potential(self) -> bool:
        """Whether steps follow the gradient of the function itself, not the field of descent–ascent."""
        return self._facts.monotone is None

    @property
    def scalable(self) -> bool:
        """Whether what is known of a gradient holds of every smaller multiple of it as well: not where the
        curvature is above 0, nor where more is known than the facts all kinds share."""
        curvature = self._facts.curvature
        return self._row.rows is None and (curvature is None or curvature[0] <= 0.0)

    @property
    def slopes_say_all(self) -> bool:
        """Whether a `modulus` that is linear is no smaller than `slopes`."""
        return self._row.rows is None

    def clips(self, clip_norm: float | None, clipping: str = "norm") -> bool:
        """Whether clipping at `clip_norm` can ever change a gradient."""
        return self._gradients(clip_norm, clipping).clips

    def effective_curvature(
        self, clip_norm: float | None, clipping: str = "norm"
    ) -> tuple[float, float] | None:
        """The curvature interval of the clipped gradients; None where they need not be those of any
        smooth loss.

        Where clipping is harmless it only shrinks derivatives, so that [lo, hi] becomes
        [min(lo, 0), max(hi, 0)].
        """
        return self._gradients(clip_norm, clipping).curvature

    @property
    def steepness(self) -> float:
        """The Lipschitz constant of one record's gradient, clipped or not; ∞ if there is none."""
        return self._facts.steepness

    def slopes(
        self,
        step_sizes: Array,
        clip_norm: float | None = None,
        batch_fraction: Fraction = Fraction(1),
        clipping: str = "norm",
    ) -> Array:
        """The least slopes of one step, rounded up, one for each step size.

        `batch_fraction` is (records in the batch) / (the number the sum is divided by); 0 is an
        empty batch, a step of regulariser and noise alone. With the regulariser λ and curvature in
        [lo, hi] the slope is max over h in {lo, hi} of |1 − η(λ + fraction·h)|; otherwise see
        `pabi.describe.gradient_steps`. Raises NotApplicable where no slope is known.
        """
        gradients = self._gradients(clip_norm, clipping)
        if batch_fraction and math.isinf(gradients.facts.steepness):
            raise NotApplicable(
                f"a loss of kind {self.kind} bounds no curvature, so that its steps have no slope"
            )
        return gradient_steps.slopes(gradients, step_sizes, batch_fraction, self.l2)

    def modulus(
        self,
        step_size: float,
        clip_norm: float | None = None,
        batch_fraction: float | Fraction = 1.0,
        clipping: str = "norm",
    ) -> Modulus:
        """The modulus of continuity of one gradient step of size `step_size`: the least of all that is
        known (see `pabi.describe.gradient_steps`).

        `batch_fraction` ≥ 0 is the batch's record count over its divisor; `clipping`: as in a run. Where
        nothing is known the modulus is `Modulus.unbounded()`, whose `.linear` is None.
        """
        eta = Fraction(validate.number("step_size", step_size, above=0.0))
        if not isinstance(batch_fraction, Fraction):
            batch_fraction = validate.number("batch_fraction", batch_fraction, at_least=0.0)
        fraction = Fraction(batch_fraction)
        if clip_norm is not None:
            validate.number("clip_norm", clip_norm, above=0.0)
        gradients = self._gradients(clip_norm, clipping)
        kept = 1 - eta * Fraction(self.l2)
        if fraction == 0:
            return known(Modulus.linear, fraction_up(abs(kept)))
        rows = [Modulus.unbounded()]
        try:
            slope = self.slopes(np.array([eta], dtype=np.float64), clip_norm, fraction, clipping)
            rows.append(known(Modulus.linear, float(slope[0])))
        except NotApplicable:
            pass
        if kept > 0:
            data = gradient_steps.gaps(gradients, eta * fraction / kept, self._own_rows)
            rows.extend(row.scaled(fraction_up(kept)) for row in data)
        return Modulus.minimum(*rows)

    def to_dict(self) -> dict[str, Any]:
        """The table of a run file: kind, parameters, l2."""
        return {"kind": self.kind, **dict(self.parameters), **({"l2": self.l2} if self.l2 else {})}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Self:
        """The loss that `to_dict` describes."""
        rest = {k: v for k, v in table.items() if k not in ("kind", "l2")}
        return cls(str(table.get("kind", "")), tuple(rest.items()), table.get("l2", 0.0))


def parameter_names(kind: object) -> tuple[str, ...]:
    """The parameters a loss of this kind takes, the optional ones included."""
    if not isinstance(kind, str) or kind not in KINDS:
        return ()
    return (*KINDS[kind].required, *KINDS[kind].optional)


def checked_loss(value: Any) -> Loss:
    """`value` if it is a Loss.

    Raises InvalidInput, for subclasses too: nothing is proven of what they override.
    """
    if type(value) is Loss:
        return value
    kind = type(value).__name__
    got = f"a {kind}, of which nothing is proven" if isinstance(value, Loss) else repr(value)
    raise InvalidInput("loss", f"expected a pabi.Loss, got {got}")

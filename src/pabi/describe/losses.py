"""What is known about a loss, and what it says about one gradient step.

A loss here is one record's loss, as a function of the parameters. Its curvature lies in [lo, hi]
when ∇f(x) − ∇f(y) = A(x − y) for some symmetric A with lo·I ⪯ A ⪯ hi·I: a convex M-smooth loss has
[0, M], an m-strongly convex one [m, M], a nonconvex M-smooth one [−M, M], an m-weakly convex one
[−m, M]. A step of size η on such a loss stretches distances by at most max(|1 − η·lo|, |1 − η·hi|)
(Bok, Su, Altschuler, Lemma 2.8, whose proof needs no signs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, final

import numpy as np

from pabi.describe import gradient_steps
from pabi.describe.gradient_steps import Gradients
from pabi.describe.loss_constructors import StatedLoss
from pabi.describe.loss_facts import Facts
from pabi.describe.loss_kinds import KINDS
from pabi.describe.moduli import Modulus, finite_or_unbounded
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import Array, fraction_up

CONVEX = ("residual", "ball")  # the ways to clip that make another convex loss of a loss


@final
@dataclass(frozen=True)
class Loss(StatedLoss):
    """What is known about one record's loss; build it with a constructor such as `Loss.logistic`.

    Norms are Euclidean. Curvatures have the unit of a gradient over that of the iterate, gradient bounds that
    of a gradient. `glm`, `separable` and `gradient_bound` are the user's word, and become assumptions. What a
    kind says stands in one table, `pabi.describe.loss_kinds`; a subclass would say something else.

    Parameters
    ----------
    kind : str
        Which loss: the name of its constructor.
    parameters : tuple of (str, value)
        The constructor's arguments that say something, `l2` aside.
    l2 : float, ≥ 0
        λ of a regulariser (λ/2)‖x‖² that training applies exactly, outside clipping and batch, so that it
        does not enter the sensitivity.

    Raises
    ------
    InvalidInput
        For constants that are negative, NaN or infinite, or where the derived ones overflow.

    References
    ----------
    Bok, Su, Altschuler 2024, Lemma 2.8; docs, "Theory", 7 and 8.
    """

    def _gradients(self, clip_norm: float | None, clipping: str) -> Gradients:
        if clipping not in CONVEX:
            return Gradients(self._facts, clip_norm, clipping)
        # A loss like any other, whose gradients are as they are.
        return Gradients(self._facts if clip_norm is None else self._clipped(clip_norm))

    def _clipped(self, clip_norm: float) -> Facts:
        """What is known of the loss clipped convexly. Raises InvalidInput where nobody knows how."""
        if self._row.clipped is None:
            raise InvalidInput("clipping", no_residual(self.kind))
        return self._row.clipped(dict(self.parameters), clip_norm)

    @property
    def has_residual(self) -> bool:
        """Whether it is a linear model's loss, which can be clipped convexly (`clipping="residual"`)."""
        return self._row.clipped is not None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the user must be able to stand behind, about each record's loss; none if nothing is known."""
        listed = ", ".join(f"{name} = {value!r}" for name, value in self.parameters)
        subject = f"each record's loss ({self.kind}: {listed})"
        return tuple(self._row.sentences(subject, dict(self.parameters), self._facts))

    @property
    def curvature(self) -> tuple[float, float] | None:
        """[lo, hi] of one record's loss without the regulariser, or None if unknown."""
        return self._facts.curvature

    @property
    def least_curvature(self) -> float | None:
        """The largest known m with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ m‖x − y‖², None if there is none.

        It speaks of one record's loss without the regulariser: the lower end of its curvature, 0 for what is
        merely convex.
        """
        return self._facts.least_curvature

    @property
    def dissipativity(self) -> tuple[float, float] | None:
        """(λ, κ) with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ for one record's loss, None if unknown."""
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
        """Whether what is known of a gradient holds of every smaller multiple of it as well.

        It does not where the curvature is above 0, nor where more is known than the facts all kinds share.
        """
        curvature = self._facts.curvature
        return self._row.rows is None and (curvature is None or curvature[0] <= 0.0)

    @property
    def holds_of_zero(self) -> bool:
        """Whether what is known of a record's loss holds of the loss 0, that of a user without records.

        It does not where the curvature is above 0, nor of a dissipative loss.
        """
        curvature = self._facts.curvature
        no_less = curvature is None or curvature[0] <= 0.0 <= curvature[1]
        return no_less and self._facts.dissipative is None

    @property
    def slopes_say_all(self) -> bool:
        """Whether a `modulus` that is linear is no smaller than `slopes`."""
        return self._row.rows is None

    def clips(self, clip_norm: float | None, clipping: str = "norm") -> bool:
        """Whether clipping can ever change a gradient.

        Parameters
        ----------
        clip_norm : float or None
            The norm that each record's gradient is clipped to, in its unit; None where it is not clipped.
        clipping : str
            "norm", "coordinates", "residual" or "ball", as in a run.

        Returns
        -------
        bool
            False where the loss's own gradient bound is as small, and where the loss itself is clipped
            ("residual", "ball"): the gradients are then its own.

        Raises
        ------
        InvalidInput
            For another `clipping`.
        """
        return self._gradients(clip_norm, clipping).clips

    def effective_curvature(
        self, clip_norm: float | None, clipping: str = "norm"
    ) -> tuple[float, float] | None:
        """The curvature interval of the clipped gradients.

        Where clipping is harmless it only shrinks derivatives, so that [lo, hi] becomes
        [min(lo, 0), max(hi, 0)]. A loss that is clipped convexly ("residual", "ball") has a curvature of its
        own.

        Parameters
        ----------
        clip_norm : float or None
            The norm that each record's gradient is clipped to, in its unit; None where it is not clipped.
        clipping : str
            "norm", "coordinates", "residual" or "ball", as in a run.

        Returns
        -------
        (float, float) or None
            [lo, hi]; None where the clipped gradients need not be those of any smooth loss.

        Raises
        ------
        InvalidInput
            For another `clipping`.
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
        """The least slopes of one step, rounded up.

        With the regulariser λ and curvature in [lo, hi] the slope is max over h in {lo, hi} of
        |1 − η(λ + fraction·h)|; otherwise see `pabi.describe.gradient_steps`.

        Parameters
        ----------
        step_sizes : array of floats, > 0
            η, in units of the iterate over those of a gradient.
        clip_norm : float or None
            The norm that each record's gradient is clipped to, in its unit; None where it is not clipped.
        batch_fraction : Fraction, ≥ 0
            The records in the batch over the number that the sum is divided by. 0 is an empty batch, a step
            of regulariser and noise alone.
        clipping : str
            "norm", "coordinates", "residual" or "ball", as in a run.

        Returns
        -------
        array, shape of step_sizes
            One slope for each step size.

        Raises
        ------
        NotApplicable
            Where no slope is known.
        InvalidInput
            For another `clipping`.

        References
        ----------
        Bok, Su, Altschuler 2024, Lemma 2.8; docs, "Clipping".
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
        """The modulus of continuity of one gradient step: the least of all that is known.

        What is known stands in `pabi.describe.gradient_steps`.

        Parameters
        ----------
        step_size : float, > 0
            η, in units of the iterate over those of a gradient.
        clip_norm : float or None
            The norm that each record's gradient is clipped to, in its unit; None where it is not clipped.
        batch_fraction : float or Fraction, ≥ 0
            The records in the batch over the number that the sum is divided by.
        clipping : str
            "norm", "coordinates", "residual" or "ball", as in a run.

        Returns
        -------
        Modulus
            `Modulus.unbounded()`, whose `.linear` is None, where nothing is known.

        Raises
        ------
        InvalidInput
            For a number outside of its range, and for another `clipping`.

        References
        ----------
        Bok, Su, Altschuler 2024, Lemma 2.8; Bravo, Flores-Mella, Guzmán, §2; docs, "Theory", 7 and 8.
        """
        eta = Fraction(validate.number("step_size", step_size, above=0.0))
        if not isinstance(batch_fraction, Fraction):
            batch_fraction = validate.number("batch_fraction", batch_fraction, at_least=0.0)
        fraction = Fraction(batch_fraction)
        if clip_norm is not None:
            validate.number("clip_norm", clip_norm, above=0.0)
        gradients = self._gradients(clip_norm, clipping)
        shrunk = 1 - eta * Fraction(self.l2)  # what the regulariser leaves of a distance
        if fraction == 0:
            return finite_or_unbounded(Modulus.linear, fraction_up(abs(shrunk)))
        rows = [Modulus.unbounded()]
        try:
            slope = self.slopes(np.array([eta], dtype=np.float64), clip_norm, fraction, clipping)
            rows.append(finite_or_unbounded(Modulus.linear, float(slope[0])))
        except NotApplicable:
            pass
        if shrunk > 0:
            own = self._row.rows and partial(self._row.rows, dict(self.parameters))
            data = gradient_steps.gaps(gradients, eta * fraction / shrunk, own)
            rows.extend(row.scaled(fraction_up(shrunk)) for row in data)
        return Modulus.minimum(*rows)


def no_residual(kind: str) -> str:
    """Why a loss of this kind is not clipped convexly."""
    able = ", ".join(name for name, row in KINDS.items() if row.clipped is not None)
    return f'"residual" and "ball" clip the losses of linear models alone ({able}), got a loss of kind {kind}'


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
    what = f"a {kind}, of which nothing is proven" if isinstance(value, Loss) else repr(value)
    raise InvalidInput("loss", f"expected a pabi.Loss, got {what}")

"""What is known about a loss, and what it says about one gradient step.

A loss here is one record's loss, as a function of the parameters. Its curvature lies in [lo, hi]
when ∇f(x) − ∇f(y) = A(x − y) for some symmetric A with lo·I ⪯ A ⪯ hi·I: a convex M-smooth loss has
[0, M], an m-strongly convex one [m, M], a nonconvex M-smooth one [−M, M], an m-weakly convex one
[−m, M]. A step of size η on such a loss stretches distances by at most max(|1 − η·lo|, |1 − η·hi|)
(Bok, Su, Altschuler, Lemma 2.8, whose proof needs no signs).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from pabi import validate
from pabi.errors import InvalidInput, NotApplicable
from pabi.moduli import Modulus
from pabi.rounding import Array, fraction_down, fraction_up, one_minus_product, up


@dataclass(frozen=True)
class Facts:
    """What a kind of loss guarantees: curvature [lo, hi] (None: nothing known), the largest
    gradient norm of one record (None: unknown), and whether its gradient is a scalar function of
    the parameters times a fixed vector (`glm`), which is what makes clipping harmless.

    `holder`: pairs (p, M), the loss being convex on all of ℝ^d with a p-Hölder gradient of constant M.
    `dissipative`: (λ, κ) with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ."""

    curvature: tuple[float, float] | None = None
    gradient_bound: float | None = None
    glm: bool = False
    holder: tuple[tuple[float, float], ...] = ()
    dissipative: tuple[float, float] | None = None


def _mul(*factors: float) -> Fraction:
    product = Fraction(1)
    for f in factors:
        product *= Fraction(f)
    return product


def _exp_up(x: float) -> float:
    try:
        return up(up(math.exp(x)))
    except OverflowError:
        return math.inf


def _poisson(p: dict[str, Any]) -> Facts:
    r, rate = p["feature_norm"], _exp_up(p["predictor_bound"])
    if math.isinf(rate):
        raise InvalidInput(
            "predictor_bound", f"exp({p['predictor_bound']!r}) is not a finite number"
        )
    hi = fraction_up(_mul(r, r, rate))
    return Facts((0.0, hi), fraction_up(_mul(r, max(p["count_bound"], rate))), True)


def _generic(curvature: Callable[[dict[str, Any]], tuple[float, float] | None]) -> Any:
    return lambda p: Facts(curvature(p), p.get("gradient_bound"), bool(p.get("glm", False)))


# For each kind: its parameters and what follows from them. `feature_norm` R bounds the vector the
# model sees, intercept included; the constants are the classical ones, rounded up.
_KINDS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Facts]]] = {
    "logistic": (
        ("feature_norm",),
        lambda p: Facts(
            (0.0, fraction_up(_mul(p["feature_norm"], p["feature_norm"]) / 4)),
            p["feature_norm"],
            True,
        ),
    ),
    "softmax": (
        ("feature_norm",),
        lambda p: Facts(
            (0.0, fraction_up(_mul(p["feature_norm"], p["feature_norm"]) / 2)),
            fraction_up(_mul(p["feature_norm"], up(math.sqrt(2.0)))),
        ),
    ),
    "squared": (
        ("feature_norm", "residual_bound"),
        lambda p: Facts(
            (0.0, fraction_up(_mul(p["feature_norm"], p["feature_norm"]))),
            fraction_up(_mul(p["feature_norm"], p["residual_bound"])),
            True,
        ),
    ),
    "huber": (
        ("feature_norm", "threshold"),
        lambda p: Facts(
            (0.0, fraction_up(_mul(p["feature_norm"], p["feature_norm"]))),
            fraction_up(_mul(p["feature_norm"], p["threshold"])),
            True,
        ),
    ),
    "smoothed_hinge": (
        ("feature_norm", "smoothing"),
        lambda p: Facts(
            (
                0.0,
                fraction_up(_mul(p["feature_norm"], p["feature_norm"]) / Fraction(p["smoothing"])),
            ),
            p["feature_norm"],
            True,
        ),
    ),
    "poisson": (("feature_norm", "predictor_bound", "count_bound"), _poisson),
    "convex": (("smoothness",), _generic(lambda p: (0.0, p["smoothness"]))),
    "strongly_convex": (
        ("strong_convexity", "smoothness"),
        _generic(lambda p: (p["strong_convexity"], p["smoothness"])),
    ),
    "nonconvex": (("smoothness",), _generic(lambda p: (-p["smoothness"], p["smoothness"]))),
    "weakly_convex": (
        ("weak_convexity", "smoothness"),
        _generic(lambda p: (-p["weak_convexity"], p["smoothness"])),
    ),
    "unknown": ((), _generic(lambda p: None)),
}
KINDS = tuple(_KINDS)
_GENERIC_OPTIONS = ("gradient_bound", "glm")
_ANY_SIGN = ("predictor_bound",)


@dataclass(frozen=True)
class Loss:
    """What is known about one record's loss; build it with a constructor such as `Loss.logistic`.

    `kind` and `parameters` (name, value) say which loss, `l2` is λ of a regulariser (λ/2)‖x‖² that
    training applies exactly, outside clipping and batch, so that it does not enter the sensitivity.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    l2: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidInput("kind", f"expected one of {', '.join(_KINDS)}, got {self.kind!r}")
        required, _ = _KINDS[self.kind]
        given = dict(self.parameters)
        for name in required:
            if name not in given:
                raise InvalidInput(name, f"missing: a {self.kind} loss needs it")
            bound = {} if name in _ANY_SIGN else {"above": 0.0}
            given[name] = validate.number(name, given[name], **bound)
        for name in sorted(set(given) - set(parameter_names(self.kind))):
            raise InvalidInput(name, f"a {self.kind} loss has no such parameter")
        if not isinstance(given.get("glm", False), bool):
            raise InvalidInput("glm", f"expected true or false, got {given['glm']!r}")
        if given.get("gradient_bound") is not None:
            given["gradient_bound"] = validate.number(
                "gradient_bound", given["gradient_bound"], above=0.0
            )
        lowest = {"strongly_convex": "strong_convexity", "weakly_convex": "weak_convexity"}
        if self.kind in lowest and given[lowest[self.kind]] > given["smoothness"]:
            raise InvalidInput(
                lowest[self.kind],
                f"expected at most smoothness = {given['smoothness']!r}, got {given[lowest[self.kind]]!r}",
            )
        object.__setattr__(self, "l2", validate.number("l2", self.l2, at_least=0.0))
        object.__setattr__(self, "parameters", tuple(given.items()))
        for fact in (*(self.curvature or ()), self.gradient_bound or 0.0):
            if not math.isfinite(fact):
                raise InvalidInput(required[0], f"the constants of this {self.kind} loss overflow")

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
        return cls._of(
            "poisson",
            l2,
            feature_norm=feature_norm,
            predictor_bound=predictor_bound,
            count_bound=count_bound,
        )

    @classmethod
    def convex(
        cls,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
    ) -> Self:
        """Convex and M-smooth: curvature [0, M]."""
        return cls._of("convex", l2, smoothness=smoothness, gradient_bound=gradient_bound, glm=glm)

    @classmethod
    def strongly_convex(
        cls,
        strong_convexity: float,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
    ) -> Self:
        """m-strongly convex and M-smooth: curvature [m, M]."""
        return cls._of(
            "strongly_convex",
            l2,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
        )

    @classmethod
    def nonconvex(
        cls,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
    ) -> Self:
        """M-smooth, maybe nonconvex: curvature [−M, M]."""
        return cls._of(
            "nonconvex", l2, smoothness=smoothness, gradient_bound=gradient_bound, glm=glm
        )

    @classmethod
    def weakly_convex(
        cls,
        weak_convexity: float,
        smoothness: float,
        l2: float = 0.0,
        *,
        gradient_bound: float | None = None,
        glm: bool = False,
    ) -> Self:
        """m-weakly convex and M-smooth: curvature [−m, M]."""
        return cls._of(
            "weakly_convex",
            l2,
            weak_convexity=weak_convexity,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
        )

    @classmethod
    def unknown(cls, l2: float = 0.0, *, gradient_bound: float | None = None) -> Self:
        """Nothing is known of the curvature: only composition applies."""
        return cls._of("unknown", l2, gradient_bound=gradient_bound)

    def with_l2(self, l2: float) -> Self:
        """The same loss with the regulariser (l2/2)‖x‖²."""
        return replace(self, l2=l2)

    @property
    def _facts(self) -> Facts:
        return _KINDS[self.kind][1](dict(self.parameters))

    @property
    def curvature(self) -> tuple[float, float] | None:
        """[lo, hi] of one record's loss without the regulariser, or None if unknown."""
        return self._facts.curvature

    @property
    def gradient_bound(self) -> float | None:
        """The largest norm of one record's gradient (regulariser excluded), or None if unknown."""
        return self._facts.gradient_bound

    @property
    def glm(self) -> bool:
        """Whether each record's gradient is a scalar function times a fixed vector."""
        return self._facts.glm

    def clips(self, clip_norm: float | None) -> bool:
        """Whether clipping at `clip_norm` can ever change a gradient."""
        bound = self.gradient_bound
        return clip_norm is not None and (bound is None or clip_norm < bound)

    def effective_curvature(self, clip_norm: float | None) -> tuple[float, float]:
        """The curvature interval of the clipped gradients, or NotApplicable with the reason.

        A scalar function times a fixed vector stays one when clipped, and clipping only shrinks its
        derivative, so [lo, hi] becomes [min(lo, 0), max(hi, 0)]. Any other clipped gradient field
        need not be the field of a smooth loss at all.
        """
        facts = self._facts
        if facts.curvature is None:
            raise NotApplicable(f"nothing is known about the curvature of a {self.kind} loss")
        lo, hi = facts.curvature
        if not self.clips(clip_norm):
            return lo, hi
        if not facts.glm:
            raise NotApplicable(
                f"clipping at {clip_norm!r} can break nonexpansiveness: the gradient of a {self.kind} "
                "loss is not known to be a scalar function times a fixed vector"
            )
        return min(lo, 0.0), max(hi, 0.0)

    def slopes(
        self,
        step_sizes: Array,
        clip_norm: float | None = None,
        batch_fraction: Fraction = Fraction(1),
    ) -> Array:
        """The least slopes of one step, rounded up, one for each step size.

        `batch_fraction` is (records in the batch) / (the number the sum is divided by); 0 is an
        empty batch, a step of regulariser and noise alone. With the regulariser λ the slope is
        max over h in {lo, hi} of |1 − η(λ + fraction·h)|. Raises NotApplicable as
        `effective_curvature` does.
        """
        lo, hi = self.effective_curvature(clip_norm) if batch_fraction else (0.0, 0.0)
        lam = Fraction(self.l2)
        with np.errstate(over="ignore", invalid="ignore"):
            _, shrink = one_minus_product(
                step_sizes, fraction_down(lam + batch_fraction * Fraction(lo))
            )
            overshoot, _ = one_minus_product(
                step_sizes, fraction_up(lam + batch_fraction * Fraction(hi))
            )
        slopes: Array = np.maximum(shrink, -overshoot)
        return slopes

    def modulus(
        self, step_size: float, clip_norm: float | None = None, batch_fraction: float = 1.0
    ) -> Modulus:
        """The modulus of continuity of one gradient step of size `step_size` (see `slopes`).

        `batch_fraction` ≥ 0 is the batch's record count over its divisor. Where nothing is known
        the modulus is `Modulus.unbounded()`, whose `.linear` is None.
        """
        eta = validate.number("step_size", step_size, above=0.0)
        fraction = Fraction(validate.number("batch_fraction", batch_fraction, at_least=0.0))
        if clip_norm is not None:
            validate.number("clip_norm", clip_norm, above=0.0)
        try:
            return Modulus.linear(float(self.slopes(np.array([eta]), clip_norm, fraction)[0]))
        except NotApplicable:
            return Modulus.unbounded()

    def to_dict(self) -> dict[str, Any]:
        """The table of a run file: kind, parameters, l2."""
        return {"kind": self.kind, **dict(self.parameters), **({"l2": self.l2} if self.l2 else {})}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Self:
        """The loss that `to_dict` describes."""
        rest = {k: v for k, v in table.items() if k not in ("kind", "l2")}
        return cls(str(table.get("kind", "")), tuple(rest.items()), table.get("l2", 0.0))


def parameter_names(kind: object) -> tuple[str, ...]:
    """The parameters a loss of this kind takes, the optional ones of generic kinds included."""
    if not isinstance(kind, str) or kind not in _KINDS:
        return ()
    required = _KINDS[kind][0]
    return required if "feature_norm" in required else (*required, *_GENERIC_OPTIONS)

"""Losses: one row a kind, constructors, and what a loss says about one gradient step.

Losses of linear models are classes, in `scalar_losses` and `vector_losses`; the latter has their table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np

from pabi.describe import gradient_steps
from pabi.describe.gradient_steps import (
    ITERATES,
    Constraints,
    Facts,
    Gradients,
    Kind,
    Pairs,
    Parameters,
    curvature_known,
    holder_pairs,
)
from pabi.describe.moduli import Modulus, finite_or_unbounded
from pabi.describe.vector_losses import LINEAR_LOSSES, kind_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be, require
from pabi.numbers.rounding import TINY, Array, fraction_up, up
from pabi.numbers.validate import NONNEGATIVE, POSITIVE, SHARE, Checked, by, flag, keep, optional

# The kinds of losses, one row of a table each: parameters, facts, sentences.
#
# To add a kind, write its row here, or its class in `pabi.describe.vector_losses` if it is the loss of a
# linear model, and its constructor in `pabi.describe.losses`. The verifier derives everything for itself,
# and needs a row of its own.


# What may be said of most losses; see `Facts`.
_CLIPPING: Constraints = {"glm": flag, "separable": flag}
_OPTIONS: Constraints = {"gradient_bound": optional(POSITIVE), **_CLIPPING}


def _stated(p: Parameters) -> dict[str, Any]:
    return {
        "gradient_bound": p.get("gradient_bound"),
        "glm": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }


# Smooth losses, by their curvature.


def _smooth(
    least: Callable[[Parameters], float],
    required: Constraints,
    ordered: tuple[str, str] | None = None,
) -> Kind:
    """The kind of losses of curvature [least, smoothness]."""
    return Kind(
        required={**required, "smoothness": POSITIVE},
        optional=_OPTIONS,
        ordered=ordered,
        facts=lambda p: Facts((least(p), p["smoothness"]), **_stated(p)),
        sentences=curvature_known,
    )


# Convex losses that need not be smooth.


def _lipschitz(p: Parameters) -> Facts:
    stated = _stated(p) | {"gradient_bound": p["constant"]}
    return Facts(convex_holder=((0.0, 2.0 * p["constant"]),), **stated)


def _about_lipschitz(subject: str, p: Parameters, _: Facts) -> list[str]:
    return [
        f"{subject} is convex, with subgradients of norm at most {p['constant']!r}, on {ITERATES}"
    ]


def _weakly_smooth(p: Parameters) -> Facts:
    smooth = [m for exponent, m in p["pairs"] if exponent == 1.0]
    bound = p.get("gradient_bound")
    bounded: Pairs = () if bound is None else ((0.0, 2.0 * bound),)
    curvature = (0.0, min(smooth)) if smooth else None
    return Facts(curvature, convex_holder=(*p["pairs"], *bounded), **_stated(p))


def _about_weakly_smooth(subject: str, p: Parameters, _: Facts) -> list[str]:
    pairs = ", ".join(f"{m!r}·‖x − y‖^{q!r}" for q, m in p["pairs"])
    return [f"{subject} is convex on all of ℝ^d, and its gradients differ by at most {pairs} there"]


# Losses with a Hölder gradient that need not be convex.

# ln of the distances at which a tangent touches: between two, it is at most 2 % of the power too high.
_TANGENTS = [math.log(1e-9) + 0.75 * i for i in range(56)]
_ABOVE = 1.0 + 1e-12  # above the roundings of logarithms and powers


def _holder(p: Parameters) -> Facts:
    exponent, constant = p["exponent"], p["constant"]
    curvature = (-constant, constant) if exponent == 1.0 else None
    return Facts(curvature, holder=((exponent, constant),), **_stated(p))


def _holder_rows(p: Parameters, step: Fraction, clips: bool) -> list[Modulus]:
    """Tangents of δ + eMδ^p, which is concave. A clip moves no two gradients apart: it survives any."""
    exponent, product = p["exponent"], fraction_up(step * Fraction(p["constant"]))
    if exponent == 1.0:
        return [
            finite_or_unbounded(Modulus.linear, fraction_up(1 + step * Fraction(p["constant"])))
        ]
    if exponent == 0.0:
        return [finite_or_unbounded(Modulus.affine, 1.0, product)]
    rows = []
    for log in _TANGENTS:
        power = (math.log(product) + exponent * log) if product > 0.0 else -math.inf
        rise, shift = power - log + math.log(exponent), power + math.log1p(-exponent)
        if max(rise, shift) < 700.0:
            slope = up(1.0 + math.exp(rise) * _ABOVE)
            rows.append(
                finite_or_unbounded(Modulus.affine, slope, max(math.exp(shift) * _ABOVE, TINY))
            )
    return rows


def _about_holder(subject: str, p: Parameters, _: Facts) -> list[str]:
    differ = f"{p['constant']!r}·‖x − y‖^{p['exponent']!r}"
    return [f"{subject} has gradients that differ by at most {differ} on {ITERATES}"]


# Dissipative losses.


def _dissipative(p: Parameters) -> Facts:
    smoothness = p["smoothness"]
    return Facts((-smoothness, smoothness), dissipative=(p["offset"], p["rate"]), **_stated(p))


def _dissipative_rows(p: Parameters, step: Fraction, clips: bool) -> list[Modulus]:
    """That of a step on β-smooth gradients with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ."""
    if clips:
        return []
    offset, rate, smoothness = (Fraction(p[name]) for name in ("offset", "rate", "smoothness"))
    kappa = max(Fraction(0), 1 - 2 * step * rate + (step * smoothness) ** 2)
    return [finite_or_unbounded(Modulus.sqrt, fraction_up(kappa), fraction_up(2 * step * offset))]


def _about_dissipative(subject: str, p: Parameters, facts: Facts) -> list[str]:
    return [
        *curvature_known(subject, p, facts),
        f"its gradients g satisfy ⟨g(x) − g(y), x − y⟩ ≥ {p['rate']!r}·‖x − y‖² − {p['offset']!r} there",
    ]


# Convex–concave functions.


def _about_saddle(subject: str, p: Parameters, _: Facts) -> list[str]:
    smooth = f" and {p['smoothness']!r}-Lipschitz" if "smoothness" in p else ""
    return [
        f"{subject} is convex in the variables that descend and concave in those that ascend; its field is "
        f"of norm at most {p['constant']!r}{smooth}, on {ITERATES}"
    ]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **{name: kind_of(cls) for name, cls in LINEAR_LOSSES.items()},
        "convex": _smooth(lambda p: 0.0, {}),
        "strongly_convex": _smooth(
            lambda p: p["strong_convexity"],
            {"strong_convexity": POSITIVE},
            ("strong_convexity", "smoothness"),
        ),
        "nonconvex": _smooth(lambda p: -p["smoothness"], {}),
        "weakly_convex": _smooth(
            lambda p: -p["weak_convexity"],
            {"weak_convexity": POSITIVE},
            ("weak_convexity", "smoothness"),
        ),
        "lipschitz": Kind(
            required={"constant": POSITIVE},
            optional=_CLIPPING,
            facts=_lipschitz,
            sentences=_about_lipschitz,
        ),
        "weakly_smooth": Kind(
            required={"pairs": holder_pairs},
            optional=_OPTIONS,
            facts=_weakly_smooth,
            sentences=_about_weakly_smooth,
        ),
        "holder": Kind(
            required={"exponent": SHARE, "constant": POSITIVE},
            optional=_OPTIONS,
            facts=_holder,
            rows=_holder_rows,
            sentences=_about_holder,
        ),
        "dissipative": Kind(
            required={"offset": NONNEGATIVE, "rate": POSITIVE, "smoothness": POSITIVE},
            optional=_OPTIONS,
            facts=_dissipative,
            rows=_dissipative_rows,
            sentences=_about_dissipative,
        ),
        "saddle": Kind(
            required={"constant": POSITIVE},
            optional={"smoothness": optional(POSITIVE)},
            facts=lambda p: Facts(
                gradient_bound=p["constant"], monotone=p.get("smoothness", math.inf)
            ),
            sentences=_about_saddle,
        ),
        # Nothing is known but perhaps the size of the gradients.
        "unknown": Kind(
            required={},
            optional=_OPTIONS,
            facts=lambda p: Facts(None, p.get("gradient_bound")),
            sentences=lambda subject, p, facts: [],
        ),
    }
)


def checked(kind: str, stated: Parameters) -> dict[str, Any]:
    """`stated` with every parameter checked and converted, in the same order. Raises InvalidInput."""
    must_be(kind in KINDS, "kind", f"one of {', '.join(KINDS)}", kind)
    row, values = KINDS[kind], dict(stated)
    for name, check in row.required.items():
        require(name in values, name, f"missing: a {kind} loss needs it")
        values[name] = check(name, values[name])
    for name in sorted(set(values) - {*row.required, *row.optional}):
        raise InvalidInput(name, f"a {kind} loss has no such parameter")
    for name, check in row.optional.items():
        if name in values:
            values[name] = check(name, values[name])
    if row.ordered is not None:
        low, high = row.ordered
        must_be(values[low] <= values[high], low, f"at most {high} = {values[high]!r}", values[low])
    return values


@lru_cache(maxsize=1024)
def _facts_of(kind: str, parameters: tuple[tuple[str, Any], ...]) -> Facts:
    """What is known of a loss of these parameters, asked for thousands of times while a run is accounted."""
    return KINDS[kind].facts(dict(parameters))


CONVEX = ("residual", "ball")  # the ways to clip that make another convex loss of a loss


@final
@dataclass(frozen=True)
class Loss(Checked):
    """What is known about one record's loss; build it with a constructor such as `Loss.logistic`.

    Norms are Euclidean. Curvatures have the unit of a gradient over that of the iterate, gradient bounds that
    of a gradient. `glm`, `separable` and `gradient_bound` are the user's word, and become assumptions. What a
    kind says stands in one table, `pabi.describe.losses`; a subclass would say something else.

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

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    l2: float = field(default=0.0, metadata=by(NONNEGATIVE))

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, parameters=tuple(checked(self.kind, dict(self.parameters)).items()))
        facts = self._facts
        for fact in (*(facts.curvature or ()), facts.gradient_bound or 0.0):
            if not math.isfinite(fact):
                first = next(iter(self._row.required))
                raise InvalidInput(first, f"the constants of this {self.kind} loss overflow")

    @property
    def _row(self) -> Kind:
        return KINDS[self.kind]

    @property
    def _facts(self) -> Facts:
        return _facts_of(self.kind, self.parameters)

    @classmethod
    def _of(cls, kind: str, l2: float, **parameters: Any) -> Self:
        stated = {k: v for k, v in parameters.items() if v is not None and v is not False}
        return cls(kind, tuple(stated.items()), l2)

    @classmethod
    def logistic(cls, feature_norm: float, l2: float = 0.0) -> Self:
        """The binary logistic loss: curvature [0, R²/4], gradient ≤ R.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("logistic", l2, feature_norm=feature_norm)

    @classmethod
    def softmax(
        cls, feature_norm: float, l2: float = 0.0, residual_cap: float | None = None
    ) -> Self:
        """The multinomial logistic loss: curvature [0, R²/2], gradient ≤ √2·R.

        With residuals capped at a the gradient is ≤ √2·a·R, and the curvature in [0, 2a(1 − a)R²] if
        a ≤ 1/2. The loss is no GLM in the sense of `glm`: clipping its gradients can break nonexpansiveness.
        Cap residuals instead, or bound the features.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        residual_cap : float in (0, 1], optional
            a: a record's gradient is min(1, a/(1 − q_y))·(q − e_y) times its features, q the probabilities of
            the classes and y its own. That is the gradient of a convex loss, too. Only `SoftmaxGradients` of
            this cap train it. None: 1, the loss itself.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("softmax", l2, feature_norm=feature_norm, residual_cap=residual_cap)

    @classmethod
    def one_vs_rest(
        cls, feature_norm: float, classes: int, smoothing: float | None = None, l2: float = 0.0
    ) -> Self:
        """K losses of a margin, each class against the others: curvature that of one, gradient ≤ √K·R.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        classes : int, ≥ 2
            K.
        smoothing : float, > 0, optional
            γ: smoothed hinge losses, of curvature [0, R²/γ]. None: logistic losses, of curvature [0, R²/4].
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        parameters = {"feature_norm": feature_norm, "classes": classes, "smoothing": smoothing}
        return cls._of("one_vs_rest", l2, **parameters)

    @classmethod
    def vector_huber(cls, feature_norm: float, threshold: float, l2: float = 0.0) -> Self:
        """The Huber loss of several outputs with threshold k: curvature [0, R²], gradient ≤ k·R.

        It is ½‖θᵀx − y‖², linear beyond residuals of norm k.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        threshold : float, > 0
            k, in units of y.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("vector_huber", l2, feature_norm=feature_norm, threshold=threshold)

    @classmethod
    def squared(cls, feature_norm: float, residual_bound: float, l2: float = 0.0) -> Self:
        """½(x·θ − y)² with the residual clipped at B: curvature [0, R²], gradient ≤ R·B.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        residual_bound : float, > 0
            B, in units of y.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("squared", l2, feature_norm=feature_norm, residual_bound=residual_bound)

    @classmethod
    def huber(cls, feature_norm: float, threshold: float, l2: float = 0.0) -> Self:
        """The Huber loss with threshold k: curvature [0, R²], gradient ≤ k·R.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        threshold : float, > 0
            k, in units of y.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("huber", l2, feature_norm=feature_norm, threshold=threshold)

    @classmethod
    def smoothed_hinge(cls, feature_norm: float, smoothing: float, l2: float = 0.0) -> Self:
        """The hinge loss smoothed over a width γ: curvature [0, R²/γ], gradient ≤ R.

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        smoothing : float, > 0
            γ, in units of the margin.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("smoothed_hinge", l2, feature_norm=feature_norm, smoothing=smoothing)

    @classmethod
    def poisson(
        cls, feature_norm: float, predictor_bound: float, count_bound: float, l2: float = 0.0
    ) -> Self:
        """The Poisson loss: curvature [0, R²·e^z_max], gradient ≤ R·max(c_max, e^z_max).

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        predictor_bound : float
            z_max: beyond this linear predictor the loss is continued linearly.
        count_bound : float, > 0
            c_max, a bound on the counts.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of(
            "poisson",
            l2,
            feature_norm=feature_norm,
            predictor_bound=predictor_bound,
            count_bound=count_bound,
        )

    @classmethod
    def gamma(cls, feature_norm: float, residual_bound: float, l2: float = 0.0) -> Self:
        """The loss of gamma regression with the log link, z + y·e^−z: curvature [0, (1 + B)·R²].

        It is continued linearly where a target exceeds 1 + B times its mean, so that gradients are at most
        R·max(B, 1).

        Parameters
        ----------
        feature_norm : float, > 0
            R, a bound on the norm of the vector that the model sees, intercept included.
        residual_bound : float, > 0
            B, of a target over its mean, less 1.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("gamma", l2, feature_norm=feature_norm, residual_bound=residual_bound)

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
        """A convex and M-smooth loss: curvature [0, M].

        Parameters
        ----------
        smoothness : float, > 0
            M, a gradient's unit over that of the iterate.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of(
            "convex",
            l2,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

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
        """An m-strongly convex and M-smooth loss: curvature [m, M].

        Parameters
        ----------
        strong_convexity : float, > 0
            m ≤ M, in the same unit as M.
        smoothness : float, > 0
            M, a gradient's unit over that of the iterate.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or a `strong_convexity` above `smoothness`.
        """
        return cls._of(
            "strongly_convex",
            l2,
            strong_convexity=strong_convexity,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

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
        """An M-smooth loss, maybe nonconvex: curvature [−M, M], for every record and every point.

        No network's: with ReLU no M holds, and without it none that does not depend on the weights.

        Parameters
        ----------
        smoothness : float, > 0
            M, a gradient's unit over that of the iterate.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of(
            "nonconvex",
            l2,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
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
        separable: bool = False,
    ) -> Self:
        """An m-weakly convex and M-smooth loss: curvature [−m, M].

        Parameters
        ----------
        weak_convexity : float, > 0
            m ≤ M, in the same unit as M.
        smoothness : float, > 0
            M, a gradient's unit over that of the iterate.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or a `weak_convexity` above `smoothness`.
        """
        return cls._of(
            "weakly_convex",
            l2,
            weak_convexity=weak_convexity,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

    @classmethod
    def lipschitz(
        cls, constant: float, l2: float = 0.0, *, glm: bool = False, separable: bool = False
    ) -> Self:
        """A convex loss with (sub)gradients of norm at most L; it need not be differentiable.

        Parameters
        ----------
        constant : float, > 0
            L, in units of the gradient.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
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
        """A convex loss on all of ℝ^d with Hölder gradients: ‖∇f(x) − ∇f(y)‖ ≤ M‖x − y‖^p.

        Parameters
        ----------
        pairs : sequence of (float, float)
            Pairs (p, M), p in [0, 1] and M > 0, for every one of which the bound holds; at least one.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.

        References
        ----------
        Bravo, Flores-Mella, Guzmán, §2 and §4.
        """
        return cls._of(
            "weakly_smooth",
            l2,
            pairs=pairs,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

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
        """A loss with Hölder gradients, maybe nonconvex: ‖∇f(x) − ∇f(y)‖ ≤ M‖x − y‖^p.

        Steps push near points apart, so that only runs with much noise a step gain from hiding the path.

        Parameters
        ----------
        exponent : float, in [0, 1]
            p; 1 is `nonconvex(M)`.
        constant : float, > 0
            M, in units of a gradient over those of the iterate to the power p.
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.

        References
        ----------
        Chien, Li 2024; docs, "Theory", 7.
        """
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
        """A β-smooth loss with ⟨∇f(x) − ∇f(y), x − y⟩ ≥ κ‖x − y‖² − λ.

        Steps contract at distances that are large enough.

        Parameters
        ----------
        offset : float, ≥ 0
            λ, in units of a gradient times those of the iterate.
        rate : float, > 0
            κ, in units of a gradient over those of the iterate.
        smoothness : float, > 0
            β, a gradient's unit over that of the iterate.
        l2 : float, ≥ 0
            The weight of the regulariser (l2/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.
        glm : bool
            Whether each record's gradient is a scalar function times a fixed vector. The user's word.
        separable : bool
            Whether the loss is a sum of functions of one coordinate each. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.

        References
        ----------
        Bravo, Flores-Mella, Guzmán, §2.
        """
        return cls._of(
            "dissipative",
            l2,
            offset=offset,
            rate=rate,
            smoothness=smoothness,
            gradient_bound=gradient_bound,
            glm=glm,
            separable=separable,
        )

    @classmethod
    def saddle(cls, constant: float, smoothness: float | None = None, l2: float = 0.0) -> Self:
        """A convex–concave f(u, v), updated by descent in u and ascent in v.

        The field (∇_u f, −∇_v f) is monotone.

        Parameters
        ----------
        constant : float, > 0
            L, a bound on the norm of the field, in units of the gradient.
        smoothness : float, optional, > 0
            β, a Lipschitz constant of the field; None if there is none.
        l2 : float, ≥ 0
            λ of the regulariser, which pulls u and v towards 0.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.

        References
        ----------
        Bravo, Flores-Mella, Guzmán, Remark 3.6.
        """
        return cls._of("saddle", l2, constant=constant, smoothness=smoothness)

    @classmethod
    def unknown(cls, l2: float = 0.0, *, gradient_bound: float | None = None) -> Self:
        """A loss of whose curvature nothing is known: only composition applies.

        Parameters
        ----------
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².
        gradient_bound : float, optional, > 0
            A bound on the norm of one record's gradient, in units of the gradient. The user's word.

        Returns
        -------
        Loss
            What is known about one record's loss.

        Raises
        ------
        InvalidInput
            For a constant outside of its range, or where those that follow from it overflow.
        """
        return cls._of("unknown", l2, gradient_bound=gradient_bound)

    def with_l2(self, l2: float) -> Self:
        """The same loss with another regulariser.

        Parameters
        ----------
        l2 : float, ≥ 0
            λ of the regulariser (λ/2)‖x‖².

        Returns
        -------
        Loss
            A new loss.

        Raises
        ------
        InvalidInput
            For a negative, NaN or infinite `l2`.
        """
        return replace(self, l2=l2)

    def to_dict(self) -> dict[str, Any]:
        """The table of a run file.

        Returns
        -------
        dict
            Kind, parameters and `l2`, which is left out where it is 0.
        """
        return {"kind": self.kind, **dict(self.parameters), **({"l2": self.l2} if self.l2 else {})}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Self:
        """The loss that a table describes.

        Parameters
        ----------
        table : dict
            As `to_dict` writes it.

        Returns
        -------
        Loss
            The loss of that kind.

        Raises
        ------
        InvalidInput
            For an unknown kind or parameter, a missing one, or a constant outside of its range.
        """
        rest = {k: v for k, v in table.items() if k not in ("kind", "l2")}
        return cls(str(table.get("kind", "")), tuple(rest.items()), table.get("l2", 0.0))

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
    def cone(self) -> Fraction | None:
        """cos² of the angle of a cone in which a record's gradient stays, around a direction that does not
        change; None if any direction is possible."""
        return self._facts.cone

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

    @property
    def continuity(self) -> tuple[tuple[float, float], ...]:
        """The pairs (p, M) of which it is known that ‖g(x) − g(y)‖ ≤ M‖x − y‖^p, g one record's gradient,
        clipped or not."""
        smooth = [(1.0, self.steepness)] if math.isfinite(self.steepness) else []
        return (*smooth, *self._facts.convex_holder, *self._facts.holder)

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
    raise InvalidInput("loss", f"expected a pabi.Loss (of a network Loss.unknown()), got {what}")


LOSS = by(lambda _, value: checked_loss(value))

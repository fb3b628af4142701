"""The constructors of losses: one for each kind, which is a row of the table in `loss_kinds`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pabi.describe.loss_facts import Facts, Kind
from pabi.describe.loss_kinds import KINDS, checked
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import NONNEGATIVE, convert, keep


@dataclass(frozen=True)
class StatedLoss:
    """A loss as its constructor says it: kind, parameters and regulariser; see `Loss`."""

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    l2: float = 0.0

    def __post_init__(self) -> None:
        keep(self, parameters=tuple(checked(self.kind, dict(self.parameters)).items()))
        convert(self, l2=NONNEGATIVE)
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
        return self._row.facts(dict(self.parameters))

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

"""Coefficients one can publish: the linear logit nearest to a clipped one, and the noise that is in them.

All of it follows from what is released: the description of the run, the map, the trained weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pabi.describe.runs import NoisySGD
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.statistics import NoisySecondMoments
from pabi.execute.large_records import RowMap
from pabi.learn.plans import floor_of, square_of_scale
from pabi.learn.rows import BoundedRows, norm_within_ranges
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.showing import plain

_POINTS = 256  # of predictors, and as many opposite ones
_POINTS_OF_CURVATURE = 64  # of them: a point takes 2·K² derivatives
_PULL = 1e-6  # towards the identity, where predictors tell nothing
_STEP = 1e-4  # of difference quotients
_LEAST_SCALE = 1e-3
_NO_SPREAD = 1e-12


class RowLaw(NamedTuple):
    """What is known of rows as a linear model sees them: mean (w,), second moments (w, w) or (w,)."""

    mean: Array
    second: Array

    @classmethod
    def of_map(cls, row_map: RowMap, moments: NoisySecondMoments, constant: float | None) -> RowLaw:
        """From the released moments Σ, which the map P = c·(Σ + λ)^(−1/2) still holds.

        Moments with a constant feature are means.
        """
        P, level, square = row_map.matrix, floor_of(moments), moments.feature_norm**2
        own = square_of_scale(row_map, moments)
        mean = np.zeros(len(P))
        if constant is not None:
            mean[-1] = constant
        if row_map.diagonal:
            return cls(mean, square * np.maximum(own / P**2 - level, 0.0))
        inverse = np.linalg.inv(P)
        second = square * (own * inverse @ inverse - level * np.eye(len(P)))
        if constant is not None and second[-1, -1] > square * level:
            mean = constant / second[-1, -1] * second[-1]
        return cls(mean, second)

    @classmethod
    def of_norm(cls, norm: float, width: int, constant: float | None) -> RowLaw:
        """That of rows of this norm in no direction more than in another, beside the constant."""
        columns = width - (constant is not None)
        second, mean = np.full(width, norm**2 / max(columns, 1)), np.zeros(width)
        if constant is not None:
            mean[-1], second[-1] = constant, constant**2
        return cls(mean, second)

    def points(self, theta: Array) -> Array:
        """(m, K) predictors x·θ as they would be if rows were normal; the same for the same θ."""
        mean = self.mean @ theta
        product = self.second[:, None] * theta if self.second.ndim == 1 else self.second @ theta
        values, vectors = np.linalg.eigh(theta.T @ product - np.outer(mean, mean))
        root = vectors * np.sqrt(np.maximum(values, _NO_SPREAD))
        drawn = np.random.default_rng(0).standard_normal((_POINTS, len(mean)))
        return np.asarray(mean + np.concatenate([drawn, -drawn]) @ root.T)


def nearest_logits(points: Array, shares: Array, *, shifted: bool) -> tuple[float, Array]:
    """(a, b), for which the softmax of a·z + b is nearest to `shares` in the mean over points z.

    Nearest is of the least cross entropy. a > 0, and b sums to 0; it is 0 unless `shifted`. `points` and
    `shares` are (m, K).
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax, softmax

    classes = points.shape[1]

    def objective(at: Array) -> tuple[float, Array]:
        scores = at[0] * points + at[1:]
        off = (softmax(scores, axis=1) - shares) / len(points)
        pull = np.concatenate([[at[0] - 1.0], at[1:]])
        value = -np.sum(shares * log_softmax(scores, axis=1)) / len(points)
        slope = np.concatenate([[np.sum(off * points)], off.sum(axis=0)])
        return float(value + 0.5 * _PULL * pull @ pull), slope + _PULL * pull

    start = np.concatenate([[1.0], np.zeros(classes)])
    bounds = [(_LEAST_SCALE, None)] + [(None, None) if shifted else (0.0, 0.0)] * classes
    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500}
    best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(best.x[0]), best.x[1:] - np.mean(best.x[1:])


def mean_curvature(loss: LinearLoss, points: Array, shares: Array, most: float | None) -> Array:
    """(K, K): the loss's mean second derivative in predictors, of labels that have these shares.

    `points`: (m, K), or (m, 1) margins of two classes, whose `shares` (m, 2) begin with the label −1.
    """
    few = np.linspace(0, len(points) - 1, min(len(points), _POINTS_OF_CURVATURE)).astype(np.intp)
    points, shares = points[few], shares[few]
    bound = None if most is None else np.full(len(points), most)
    outputs = points.shape[1]
    total = np.zeros((outputs, outputs))
    for label in range(shares.shape[1]):
        gradient = _gradient_at(loss, label, bound)
        for k in range(outputs):
            step = _STEP * np.eye(outputs)[k]
            quotient = (gradient(points + step) - gradient(points - step)) / (2.0 * _STEP)
            total[k] += np.mean(shares[:, label, None] * quotient, axis=0)
    return (total + total.T) / 2.0


def _gradient_at(loss: LinearLoss, label: int, bound: Array | None) -> Callable[[Array], Array]:
    """The derivatives of a label's loss in predictors (m, K)."""

    def gradient(points: Array) -> Array:
        if loss.response == "sign":
            sign = 2.0 * label - 1.0
            margins = sign * points[:, 0]
            loss.differentiate(margins, np.empty(0), bound)
            return sign * margins[:, None]
        moved = points.copy()
        loss.differentiate(moved, np.full(len(moved), label, dtype=np.intp), bound)
        return moved

    return gradient


def noise_variances(run: NoisySGD, curvatures: Array) -> Array:
    """The variance that noise leaves in the last iterate, along directions of these curvatures, any shape.

    v ← (1 − η(h + λ))²·v + (ης)², h being 0 in steps that cool down. Where h is 0 it is the most that noise
    can leave: no step of a convex loss carries iterates apart by more (the Poincaré inequality of Gauss).
    """
    variances = np.zeros(np.shape(curvatures))
    steps, noise = run.schedule(0, run.steps)
    with_data = np.arange(run.steps) < run.data_steps
    changed = (np.diff(steps) != 0.0) | (np.diff(noise) != 0.0) | (np.diff(with_data) != 0)
    first = np.concatenate([[0], np.flatnonzero(changed) + 1])
    for start, count in zip(first, np.diff([*first, run.steps]), strict=True):
        factor = 1.0 - steps[start] * (curvatures * with_data[start] + run.loss.l2)
        less = np.maximum(1.0 - factor**2, 0.0)
        with np.errstate(divide="ignore"):  # where one step takes all away
            logarithms = count * np.log1p(-np.minimum(less, 1.0))
        damped = less > 0.0
        summed = np.where(damped, -np.expm1(logarithms) / np.where(damped, less, 1.0), float(count))
        variances = np.exp(logarithms) * variances + (steps[start] * noise[start]) ** 2 * summed
    return variances


class Fold(NamedTuple):
    """How coefficients follow from what is trained, and what noise is in that.

    A coefficient is Σ rows[f, i]·x[i, j]·outputs[k, j], and x[i, j] has the variance `variances[i, j]`.
    `rows`: (w, w), the constant of an intercept last, or (w,) where each column has a number of its own.
    """

    rows: Array
    variances: Array
    outputs: Array

    @classmethod
    def of(cls, run: NoisySGD, row_map: RowMap | None, *, width: int, outputs: int) -> Fold:
        """Where nothing is known of the curvature: with the most noise that there can be."""
        most = float(noise_variances(run, np.zeros(())))
        rows = np.ones(width) if row_map is None else row_map.matrix * (row_map.norm / row_map.unit)
        return cls(rows, np.full((width, outputs), most), np.eye(outputs))

    @classmethod
    def damped(
        cls, run: NoisySGD, row_map: RowMap, moments: NoisySecondMoments, curvature: Array
    ) -> Fold:
        """Where the mean curvature in predictors is `curvature`, (K, K), and rows are as released."""
        scale, level = row_map.norm / row_map.unit, floor_of(moments)
        if row_map.diagonal:
            sizes, rows = row_map.matrix, row_map.matrix * scale
        else:
            sizes, vectors = np.linalg.eigh(row_map.matrix)
            rows = vectors * (sizes * scale)
        own = square_of_scale(row_map, moments)
        second = (scale * moments.feature_norm) ** 2 * np.maximum(own - level * sizes**2, 0.0)
        of_outputs, turned = np.linalg.eigh(curvature)
        variances = noise_variances(run, second[:, None] * np.maximum(of_outputs, 0.0))
        return cls(rows, variances, turned)

    def stds(self, centre: Array, reach: Array, constant: float) -> tuple[Array, Array]:
        """Standard deviations of the weights (K, d) and constants (K,) in the units of the columns.

        `constant`: of the last row, 0 where it is none of an intercept.
        """
        d, variances = len(reach), self.variances @ np.square(self.outputs).T
        if self.rows.ndim == 1:
            weights = np.square(self.rows[:d] / reach)[:, None] * variances[:d]
            own = np.square(centre) @ weights + np.square(constant * self.rows[-1]) * variances[-1]
        else:
            columns = self.rows[:d] / reach[:, None]
            last = constant * self.rows[-1] - centre @ columns
            weights, own = np.square(columns) @ variances, np.square(last) @ variances
        return np.sqrt(weights).T, np.sqrt(own)


@dataclass(frozen=True)
class CoefficientTable:
    """Coefficients with what noise is in them; `print` shows a table.

    Attributes
    ----------
    level : float
        The share of fits to the same records whose intervals hold the coefficient without noise.
    estimated : bool
        Whether standard deviations are estimates by the private second moments. If not, they are the most
        that noise can do, by the description of the run alone.
    note : str
        What predictions are made of beside these coefficients; empty where they are all that predicts.
    rows : tuple of dict
        One a coefficient, intercepts last: "output" (the class or the number of the target, None where there
        is one predictor), "column", "coefficient", "std", "low", "high" and "within_noise", whether the
        interval holds 0.
    """

    level: float
    estimated: bool
    note: str
    rows: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as numbers, texts, lists and mappings, for JSON or a data frame.

        Returns
        -------
        dict
            The attributes by name; "rows" is a list of mappings.

        Raises
        ------
        Nothing.
        """
        return {**vars(self), "rows": [dict(row) for row in self.rows]}

    def __str__(self) -> str:
        numbers = ("coefficient", "std", "low", "high")
        cells = [["", *numbers, ""]]
        for row in self.rows:
            of = "" if row["output"] is None else f"{row['output']}: "
            mark = "within the noise" if row["within_noise"] else ""
            cells.append([f"{of}{row['column']}", *(plain(row[key]) for key in numbers), mark])
        widths = [max(len(line[i]) for line in cells) for i in range(5)]
        lines = []
        for name, *line, mark in cells:
            aligned = (cell.rjust(width) for cell, width in zip(line, widths[1:], strict=True))
            lines.append("  ".join([name.ljust(widths[0]), *aligned, mark]).rstrip())
        how = "as the private second moments tell" if self.estimated else "the most it can do"
        lines.append(
            f"Intervals of {plain(100.0 * self.level)} %, of the noise alone ({how}): that the records are "
            "a sample is not in them."
        )
        hidden = sum(row["within_noise"] for row in self.rows)
        if hidden:
            may = "are" if self.estimated else "may be"
            lines.append(
                f"{hidden} of {len(self.rows)} coefficients {may} within the noise: even their signs say "
                "nothing."
            )
        return "\n".join([*lines, *([self.note] if self.note else [])])


def table_of(
    facts: tuple[float, bool, str],
    outputs: Sequence[Any],
    columns: Sequence[str],
    *,
    values: Array,
    stds: Array,
) -> CoefficientTable:
    """The table of (K, columns) values and as many standard deviations; `facts`: its first three fields."""
    width = NormalDist().inv_cdf((1.0 + facts[0]) / 2.0)
    rows = []
    for k, output in enumerate(outputs):
        for column, value, std in zip(columns, values[k], stds[k], strict=True):
            low, high = float(value - width * std), float(value + width * std)
            row = {"output": output, "column": column, "coefficient": float(value)}
            row |= {"std": float(std), "low": low, "high": high}
            rows.append(row | {"within_noise": low <= 0.0 <= high})
    return CoefficientTable(*facts, tuple(rows))


# What `summary` says of models that coefficients are not enough for.
NOT_THESE = "Predictions are not those of these coefficients"
SWITCH = "Fit with linear_predictor=True for coefficients that predict."


class HasCoefficients(BoundedRows):
    """Fitted linear models: what their coefficients are worth, from what is public."""

    run_: NoisySGD
    coef_: Array
    intercept_: Array
    preconditioner_: RowMap | None
    moments_: NoisySecondMoments | None
    linear_predictor: bool | str
    max_sample_weight: float | None
    _EQUAL: ClassVar[bool]

    def _scale_of_predictors(self) -> float:
        """What one unit of the predictor that is trained amounts to, in units of predictions."""
        return 1.0

    @property
    def linear_predictor_(self) -> bool:
        """Whether the fitted model's coefficients are all that predicts."""
        row_map = getattr(self, "preconditioner_", None)
        if self._EQUAL and row_map is not None:
            return not row_map.equal
        return self.linear_predictor is True

    @property
    def _scales_rows(self) -> bool:
        """Whether rows within the bounds are scaled in predictions, as preconditioning does in training."""
        # Models of 0.1.0 have none.
        return getattr(self, "preconditioner_", None) is not None and not self.linear_predictor_

    @property
    def coef_std_(self) -> Array:
        """How far noise moves `coef_`: standard deviations, of its shape (`summary`)."""
        return self._stds()[0]

    @property
    def intercept_std_(self) -> Array:
        """How far noise moves `intercept_`: standard deviations, of its shape (`summary`)."""
        return self._stds()[1]

    def _stds(self) -> tuple[Array, Array, bool]:
        """`coef_std_`, `intercept_std_`, and whether they are estimates or the most there can be.

        All of it follows from what is released.
        """
        check_is_fitted(self)
        outputs = len(np.atleast_2d(self.coef_))
        row_map, moments = (getattr(self, name, None) for name in ("preconditioner_", "moments_"))
        weighted = self.max_sample_weight is not None or getattr(self, "class_weight", None)
        curvature = None if weighted else self._curvature(outputs)
        if row_map is None or moments is None or curvature is None:
            width = self._width + self.fit_intercept
            fold, estimated = Fold.of(self.run_, row_map, width=width, outputs=outputs), False
        else:
            fold, estimated = Fold.damped(self.run_, row_map, moments, curvature), True
        weights, constants = fold.stds(*self._map(), self._intercept_feature or 0.0)
        scale = self._scale_of_coefficients()
        shape = np.shape(self.coef_)
        weights, constants = (scale * weights.T).T, scale * constants
        return weights.reshape(shape), constants.reshape(shape[:-1]), estimated

    def _scale_of_coefficients(self) -> Any:
        """What one unit of a predictor that is trained is in those of `coef_`; one number, or one a row."""
        return self._scale_of_predictors()

    def _curvature(self, outputs: int) -> Array | None:
        """(K, K): the loss's mean curvature in predictors, as far as what is released tells; else None."""
        return None

    def _row_law(self) -> RowLaw:
        """What is known of the rows that training saw."""
        constant, d = self._intercept_feature, self._width
        if self.preconditioner_ is None or self.moments_ is None:
            return RowLaw.of_norm(self._row_norm(d), d + (constant is not None), constant)
        return RowLaw.of_map(self.preconditioner_, self.moments_, constant)

    def summary(
        self, level: float = 0.95, columns: Sequence[str] | None = None
    ) -> CoefficientTable:
        """The coefficients in the units of the columns, with intervals of the noise.

        Standard deviations are those of the training's noise. They follow from the description of the run
        and from what it releases, so that the table costs nothing. Along each direction
        v ← (1 − ηh)²·v + (ης)² at every step. With preconditioning h is estimated from the released second
        moments, for logistic models with `linear_predictor`, counts, and least squares within a
        `target_range` whose `residual_bound` is "auto". Otherwise, and with weights, it counts as 0, which is
        the most that noise can do where no step expands (with clipping="norm" some may, where there are
        several classes). Not in the table are: that the records are a sample, the order of batches, what
        noise in the second moments does to the map (`moments_` says how large it is), and how far a short
        training is from the optimum.

        Parameters
        ----------
        level : float, in (0, 1)
            Of the intervals: coefficient ± the normal quantile times its standard deviation.
        columns : sequence of d str, optional
            Names of the columns, such as `pipeline[:-1].get_feature_names_out()`. None: those of the fitted
            table, or x0, x1, ….

        Returns
        -------
        CoefficientTable
            `print` shows it, with a warning of coefficients within the noise; `to_dict()` has its numbers.

        Raises
        ------
        InvalidInput
            `level` is out of its range, or there are not d names.
        NotFittedError
            `fit` was not called before.

        References
        ----------
        docs, "Coefficients".
        """
        level = validate.number("level", level, above=0.0, below=1.0)
        stds, own, estimated = self._stds()
        values = np.column_stack([np.atleast_2d(self.coef_), np.ravel(self.intercept_)])
        spread = np.column_stack([np.atleast_2d(stds), np.ravel(own)])
        names = self._names(columns)
        if self.fit_intercept or self.feature_ranges is not None:
            names.append("intercept")
        values, spread = values[:, : len(names)], spread[:, : len(names)]
        outputs = self._names_of_outputs(len(values))
        note = " ".join(filter(None, (self._beside_coefficients(), self._of_shorter_rows())))
        return table_of((level, estimated, note), outputs, names, values=values, stds=spread)

    def _names(self, stated: Sequence[str] | None) -> list[str]:
        """Those of the columns, as stated, as fitted, or by their numbers."""
        d = self._width
        if stated is not None and len(stated) != d:
            raise InvalidInput("columns", f"expected {d} names, got {len(stated)}")
        seen = getattr(self, "feature_names_in_", None) if stated is None else stated
        return [f"x{j}" for j in range(d)] if seen is None else [str(name) for name in seen]

    def _beside_coefficients(self) -> str:
        """What predictions are made of beside the coefficients; empty where of nothing."""
        if not self._scales_rows:
            return ""
        if self._EQUAL:
            return f"{NOT_THESE}: every row is scaled to one norm as well. {SWITCH}"
        return f"{NOT_THESE} for rows that preconditioning makes too long, which are shortened. {SWITCH}"

    def _of_shorter_rows(self) -> str:
        """That longer rows are shortened, where a row can be; known of the columns' own coefficients."""
        d = self.n_features_in_
        norm = self._row_norm(d)
        if self._width != d or (self.feature_ranges is not None and norm >= norm_within_ranges(d)):
            return ""
        return f"Rows longer than feature_norm = {plain(norm)} are shortened to it before they are predicted."

    def _names_of_outputs(self, outputs: int) -> list[Any]:
        """What each row of `coef_` is of, None where there is one."""
        return [None] if outputs == 1 else list(range(outputs))

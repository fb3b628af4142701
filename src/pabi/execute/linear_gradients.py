"""Gradients of linear models: one weight a record, two matrix products a step.

The gradient of a linear model's loss at a record is residual·x, with a residual that depends on the
predictor x·θ and the target alone. So its norm is |residual|·‖x‖, clipping is a change of the
residual, and the sum over a batch is Xᵀ·residuals: no gradient of a single record is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, Self, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.describe.runs import NoisySGD
from pabi.describe.scalar_losses import Clipped, LinearLoss, Logistic
from pabi.describe.vector_losses import Softmax, executable
from pabi.execute.blocks import Rows, dense_lengths, part_of
from pabi.execute.cells import PLAIN, cells_of, doubles_of, table_of
from pabi.execute.hiding import unshown
from pabi.execute.large_records import LargeRecords, records_of
from pabi.execute.layouts import Layout
from pabi.execute.records import MOST_ROWS, Records, RowBlock, as_labels
from pabi.execute.sources import Parts
from pabi.execute.sums import GradientSum, Limit, Total, UserRows, longest_chain
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import HALF_ULP, TINY, Array, fraction_up

Residual = Callable[..., Array]

_FAR = 1e100  # beyond it an offset is as good as infinite
_PAIRS = "expected labels all in {0, 1} or all in {-1, 1}"


class LinearGradients:
    """Per-record gradients residual(x·θ, y)·x, for `pabi.learn.train`, which sums them directly.

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix, Records, LargeTable or LargeRecords
        Features, finite; with `Records` they are brought within a public norm. A large table is read in
        passes.
    targets : (n, …) array
        What `residual` is given beside the predictor, row by row.
    residual : callable
        (predictor (m,) or (m, K), targets (m, …)) ↦ array of real numbers of the predictor's shape, row by
        row: one of its own, or the predictor, overwritten.
    outputs : int, optional
        K: θ has shape (width, K). None: one output, θ of shape (width,).
    steepness : float, optional
        By how much the residual changes per unit of the predictor at most, in Euclidean norms: a record x has
        curvature in [0, steepness·‖x‖²], which `train` compares with what the loss promises.

    Attributes
    ----------
    records : Records
        The features.
    shape : tuple of int
        (width,) or (width, K), that of θ.

    Raises
    ------
    InvalidInput
        `X`, or `theta` where it is called; no message shows data.

    Notes
    -----
    Calling it with θ and m rows returns the gradients themselves, (m, *θ.shape).

    References
    ----------
    docs, "Training", the fast path.
    """

    def __init__(
        self,
        X: Any,
        targets: NDArray[Any] | Parts,
        residual: Residual,
        outputs: int | None = None,
        steepness: float | None = None,
    ) -> None:
        self.records = (X if isinstance(X, Records) else records_of(X))._held()
        own = targets if isinstance(targets, Parts) else Parts.of(np.asarray(targets), "y")
        self._targets = own.mapped(np.array)  # which nobody changes afterwards
        self._residual = residual
        self.steepness = steepness
        self._weights: Parts | None = None
        self._offsets: Array | None = None
        self.shape = (self.records.width,) if outputs is None else (self.records.width, outputs)
        self.layout = self._new_layout()

    def _new_layout(self) -> Layout | None:
        """Where the rows of a large table are to lie while they are trained on."""
        large = isinstance(self.records, LargeRecords)
        return Layout(self.records, self._targets, self._weights) if large else None  # type: ignore[arg-type]

    def _blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The requested rows, block by block, with their targets and weights."""
        if self.layout is not None:
            return self.layout.blocks(rows)
        return (
            self._with_cells(block, part_of(rows, block.part))
            for block in self.records.blocks(rows)
        )

    def _with_cells(self, block: RowBlock, rows: Rows) -> RowBlock:
        weight = None if self._weights is None else self._weights.array[rows]
        offset = None if self._offsets is None else self._offsets[rows]
        return block._replace(target=self._targets.array[rows], weight=weight, offset=offset)

    def _predictor(self, block: RowBlock, theta: Array, anywhere: bool = False) -> Array:
        """(m,) or (m, K): x·θ of the block's rows, and what is added to it."""
        predictor = self.records.predictor(block, theta, anywhere)
        if block.offset is not None:
            predictor += block.offset
        return predictor

    def __call__(self, theta: ArrayLike, rows: NDArray[np.intp]) -> Array:
        """(m, *θ.shape): each gradient at `theta` of the m `rows`, unclipped."""
        return self._each(theta, rows, anywhere=False)

    def _each(self, theta: ArrayLike, rows: NDArray[np.intp], *, anywhere: bool = True) -> Array:
        """The same; `anywhere`: to the last bit, wherever among the rows one stands."""
        point = self._point(theta)
        weights = [
            _weighted(self._alike(self._predictor(block, point, anywhere), block.target), block)
            for block in self._blocks(rows)
        ]
        weight = np.concatenate(weights) if weights else np.zeros((0, *self.shape[1:]))
        x = self.records.dense_of(self._blocks(rows))
        return np.asarray(weight[:, None] * (x if weight.ndim == 1 else x[:, :, None]))

    def clipped_sum(self, x: Array, rows: Rows, limit: Limit, shares: Array | None = None) -> Array:
        """Σ of the gradients over `rows`, each within `limit` and then times its share in [0, 1], if it has
        one."""
        point = self._point(x)
        total, room = Total(point.shape), MOST_ROWS  # how many more rows `term` may hold
        # In the order in memory that products come in.
        term = np.zeros(point.shape, order="C" if self.records.sparse else "F")
        for block in self._blocks(rows):
            predictor = self._predictor(block, point, limit.anywhere)
            weight = _weighted(self._cut(predictor, block.target, block.norm, limit), block)
            # Where a predictor overflows, the record is left out: it must not turn the sum into NaN.
            weight[~np.isfinite(weight)] = 0.0
            weight *= limit.shrink
            if limit.clip is not None:
                weight = _clipped(weight, block.norm, limit.clip)
            if shares is not None:
                own = shares[part_of(rows, block.part)]
                weight = weight * (own if weight.ndim == 1 else own[:, None])
            room -= len(weight)
            if room < 0:
                total.add(term)
                term.fill(0.0)
                room = MOST_ROWS - len(weight)
            self.records.add_weighted(block, weight, term)
        total.add(term)
        return total.value

    def weighted(self, weights: ArrayLike | Parts) -> Self:
        """The same gradients, each times the weight of its record.

        Weights are applied after residuals are clipped. Since no weight is above 1, no gradient is longer and
        no loss more curved than without.

        Parameters
        ----------
        weights : (n,) array-like, in [0, 1]
            A record's depends on that record and public numbers alone.

        Returns
        -------
        LinearGradients
            Of the same class.

        Raises
        ------
        InvalidInput
            `weights`; no message shows them.
        """
        own = weights if isinstance(weights, Parts) else Parts.of(cells_of(weights), "weights")
        other = copy(self)
        other._weights = own.mapped(_checked_weights)
        require(
            own.array is None or own.array.shape == (self.records.n,),
            "weights",
            f"expected {self.records.n} numbers, one a row of X",
        )
        other.layout = other._new_layout()
        return other

    def _within_norm(self, norm: float) -> Self:
        """The same gradients at rows scaled down to `norm`; rows that were given a norm keep it."""
        if self.records.feature_norm is not None:
            return self
        other = copy(self)
        other.records = self.records._within_norm(norm)
        other.layout = other._new_layout()
        return other

    @property
    def has_weights(self) -> bool:
        """Whether records have weights."""
        return self._weights is not None

    def additions(self, batch: int) -> int:
        """The longest chain of additions in a sum over `batch` rows.

        Within `MOST_ROWS` rows every row is one addition; sums of as many are added with compensation.
        """
        return min(batch, MOST_ROWS)

    def _cut(self, predictor: Array, target: Any, norm: Array, limit: Limit) -> Array:
        """The residuals of records of these norms, of the loss as `limit` clips it."""
        assert limit.residual is None  # a loss that nobody knows is not clipped (`engine`)
        return self._alike(predictor, target)

    def _alike(self, predictor: Array, target: Any) -> Array:
        """The residuals. Raises InvalidInput for others than one a predictor: rows would be mixed."""
        shape = predictor.shape
        residual = np.asarray(unshown("residual", partial(self._residual, predictor, target)))
        require(
            residual.shape == shape,
            "residual",
            f"expected it to return shape {shape}, got {residual.shape}",
        )
        require(
            residual.dtype.kind in PLAIN,
            "residual",
            f"expected it to return real numbers, got dtype {residual.dtype}",
        )
        return residual.astype(np.float64)  # norms of shorter numbers would round too far

    def _point(self, theta: ArrayLike) -> Array:
        point = np.asarray(theta, dtype=np.float64)
        require(
            point.shape == self.shape, "theta", f"expected shape {self.shape}, got {point.shape}"
        )
        return point


def _weighted(residual: Array, block: RowBlock) -> Array:
    """The residuals of a block, each times the weight of its record, where there are weights."""
    if block.weight is not None:
        residual *= block.weight if residual.ndim == 1 else block.weight[:, None]
    return residual


def _checked_weights(cells: Any) -> Array:
    """(m,) float64 weights in [0, 1]. Raises InvalidInput, which shows none."""
    values = np.array(doubles_of("weights", cells_of(cells)))  # which nobody changes afterwards
    require(np.all((values >= 0.0) & (values <= 1.0)), "weights", "expected numbers in [0, 1]")
    return values


def _clipped(weight: Array, norm: Array, clip: float) -> Array:
    """Residuals so small that residual·x has norm at most `clip`, where ‖x‖ ≤ `norm`."""
    size = np.abs(weight) if weight.ndim == 1 else np.multiply(*dense_lengths(weight))
    longest = size * norm
    if not (longest > clip).any():
        return weight
    # Row by row: a record that is not clipped must not notice that another one is.
    margin = 1.0 - (16 + weight.size // len(weight)) * HALF_ULP  # as in clip_norms
    factor = np.where(longest > clip, clip / np.maximum(longest, clip) * margin, 1.0)
    return np.asarray(weight * (factor if weight.ndim == 1 else factor[:, None]))


class LossGradients(LinearGradients):
    """The gradients of one of pabi's own losses, which alone can be clipped convexly.

    `classes`: K, where targets are classes.
    """

    def __init__(self, loss: LinearLoss, X: Any, y: Any, classes: int | None = None) -> None:
        named = (y,) if isinstance(y, str) else ()
        records = X if isinstance(X, Records) else records_of(X, without=named)
        column = records.column(y) if isinstance(records, LargeRecords) else y
        targets = _read_targets(loss, column, records.n, classes)
        outputs = targets.first().shape[1] if loss.response == "vector" else classes
        super().__init__(records, targets, _residual_of(loss), outputs, fraction_up(loss.steepness))
        self.loss = loss
        self._in_ball = _residual_of(loss.in_ball())

    def _cut(self, predictor: Array, target: Any, norm: Array, limit: Limit) -> Array:
        residual = self._in_ball if limit.in_ball else self._residual
        # What derivatives in the predictor are clipped to; None where the loss is not clipped.
        most = None if limit.residual is None else limit.residual / np.maximum(norm, TINY)
        return residual(predictor, target, most)


def shifted(gradients: LossGradients, offsets: Array) -> LossGradients:
    """The gradients of the losses at x·θ + o, o a fixed offset of each record; those are losses as well.

    Whatever o is, ℓ(· + o, y) is as convex, as steep and as curved as ℓ(·, y), clipped or not, since all that
    is known of a loss holds at every predictor (docs, "Theory", section 7). In doubles a large offset would
    make the predictor coarse where the loss is not flat. So an offset of numbers is taken off the target, and
    one of softmax predictors is counted from the record's largest, which leaves probabilities as they are.

    `offsets`: (n,), or (n, K) of K predictors; each row depends on its record and public numbers alone, and
    counts as 0 where it has numbers that are not finite. `gradients`: of rows in memory.
    """
    assert gradients.layout is None
    own = np.array(offsets, dtype=np.float64).reshape(gradients.records.n, *gradients.shape[1:])
    own[~np.isfinite(own.reshape(len(own), -1)).all(axis=1)] = 0.0
    own = own.clip(-_FAR, _FAR)
    other, loss = copy(gradients), gradients.loss
    if loss.response == "vector" or isinstance(loss, Clipped):
        other._targets = gradients._targets.mapped(lambda targets: targets - own)
        return other
    other._offsets = own - own.max(axis=1, keepdims=True) if isinstance(loss, Softmax) else own
    return other


class LogisticGradients(LossGradients):
    """Gradients of the logistic loss log(1 + exp(−y·xᵀθ)), which are −y·x/(1 + exp(y·xᵀθ)).

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Labels, all in {0, 1} or all in {−1, 1}; 1 is the positive class. Where ‖x‖ ≤ R the loss is
        `Loss.logistic(feature_norm=R)`.

    Raises
    ------
    InvalidInput
        `X` or `y`; no message shows data.

    References
    ----------
    The logistic loss of Bok, Su, Altschuler 2024, §5.
    """

    def __init__(self, X: Any, y: ArrayLike) -> None:
        super().__init__(Logistic(), X, y)


class OneVsRestGradients(LossGradients):
    """Gradients of K logistic losses at once, class k against the others; θ has shape (width, K).

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Class numbers 0..K − 1. Where ‖x‖ ≤ R the loss is `Loss.one_vs_rest(feature_norm=R, classes=K)`.
    classes : int, ≥ 2
        K.

    Raises
    ------
    InvalidInput
        `X`, `y` or `classes`; no message shows data.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, X: Any, y: ArrayLike, classes: int) -> None:
        super().__init__(executable("one_vs_rest", classes=classes), X, y, classes)


class SoftmaxGradients(LossGradients):
    """Gradients of the softmax loss log Σ_k exp(x·θ_k) − x·θ_y; θ has shape (width, K).

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Class numbers 0..K − 1. Where ‖x‖ ≤ R the loss is `Loss.softmax(feature_norm=R)`.
    classes : int, ≥ 2
        K.
    residual_cap : float in (0, 1]
        a: gradients are scaled by min(1, a/(1 − q_y)), q_y the probability of the record's class, and the
        loss is `Loss.softmax(feature_norm=R, residual_cap=a)`. 1 leaves them as they are.

    Attributes
    ----------
    residual_cap : float
        The cap a, which `train` compares with that of the loss.

    Raises
    ------
    InvalidInput
        `X`, `y`, `classes` or `residual_cap`; no message shows data.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, X: Any, y: ArrayLike, classes: int, residual_cap: float = 1.0) -> None:
        super().__init__(executable("softmax", residual_cap=residual_cap), X, y, classes)
        self.residual_cap = float(residual_cap)


class SquaredGradients(LossGradients):
    """Gradients of ½(x·θ − y)² with the residual clipped.

    It is also the Huber loss of that threshold: `Loss.squared`, `Loss.huber`.

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Targets, finite.
    residual_bound : float, > 0, in units of y
        What the residual x·θ − y is clipped at.

    Raises
    ------
    InvalidInput
        `X`, `y` or `residual_bound`; no message shows data.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, X: Any, y: ArrayLike, residual_bound: float) -> None:
        super().__init__(executable("squared", residual_bound=residual_bound), X, y)


class VectorHuberGradients(LossGradients):
    """Gradients of ½‖θᵀx − y‖² with residual vectors scaled down to a norm; θ has shape (width, K).

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n, K) array-like
        Targets, finite. Where ‖x‖ ≤ R the loss is `Loss.vector_huber(feature_norm=R, threshold=threshold)`.
    threshold : float, > 0, in units of y
        The norm of the longest residual vector that counts as it is.

    Raises
    ------
    InvalidInput
        `X`, `y` or `threshold`; no message shows data.

    References
    ----------
    docs, "Convex clipping".
    """

    def __init__(self, X: Any, y: ArrayLike, threshold: float) -> None:
        super().__init__(executable("vector_huber", threshold=threshold), X, y)


class SmoothedHingeGradients(LossGradients):
    """Gradients of a smoothed hinge loss: −y·x times min(1, max(0, 1 − y·xᵀθ)/γ).

    The hinge loss max(0, 1 − y·xᵀθ) is smoothed over a width γ: `Loss.smoothed_hinge`.

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Labels, all in {0, 1} or all in {−1, 1}; with `classes` class numbers 0..K − 1.
    smoothing : float, > 0
        γ.
    classes : int, ≥ 2, optional
        K: each class has a loss of its own, of this class against the others, and θ has shape (width, K):
        `Loss.one_vs_rest`. None: two classes, and θ has shape (width,).

    Raises
    ------
    InvalidInput
        `X`, `y`, `smoothing` or `classes`; no message shows data.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, X: Any, y: ArrayLike, smoothing: float, classes: int | None = None) -> None:
        if classes is None:
            super().__init__(executable("smoothed_hinge", smoothing=smoothing), X, y)
        else:
            loss = executable("one_vs_rest", classes=classes, smoothing=smoothing)
            super().__init__(loss, X, y, classes)


class PoissonGradients(LossGradients):
    """Gradients of the Poisson loss exp(x·θ) − y·xᵀθ, continued linearly: `Loss.poisson`.

    Parameters
    ----------
    X : (n, d) array-like, memory-mapped array, scipy sparse matrix or Records
        Features, finite; with `Records` they are brought within a public norm.
    y : (n,) array-like
        Counts, ≥ 0.
    predictor_bound : float, at most 700
        The predictor beyond which the loss is linear.
    count_bound : float, > 0
        Larger counts are taken as this one.

    Raises
    ------
    InvalidInput
        `X`, `y` or a bound; no message shows data.

    References
    ----------
    docs, "Training".
    """

    def __init__(self, X: Any, y: ArrayLike, predictor_bound: float, count_bound: float) -> None:
        bounds = {"predictor_bound": predictor_bound, "count_bound": count_bound}
        super().__init__(executable("poisson", **bounds), X, y)


def fast_sum(
    gradients: LinearGradients, run: NoisySGD, groups: UserRows | None = None
) -> GradientSum:
    """The sum that `gradients` compute by themselves, without ever forming one of a record.

    With `groups` batches are of users, of each of whom the mean is added.
    """
    limit = Limit.of(run, gradients.additions(longest_chain(run, MOST_ROWS)))
    if groups is None:
        return lambda x, rows: gradients.clipped_sum(x, rows, limit)
    return lambda x, users: gradients.clipped_sum(x, groups.rows(users), limit, groups.shares)


# Residuals: derivatives in the predictor, which is overwritten. They own what they return, so that it may be
# scaled in place.


def _residual_of(loss: LinearLoss) -> Residual:
    """(predictor, targets, most) ↦ the derivatives of `loss`; `most`: see `LinearLoss.differentiate`."""

    def residual(predictor: Array, target: Any, most: Array | None = None) -> Array:
        with np.errstate(over="ignore"):  # of exponentials: derivatives are then the right limits
            loss.differentiate(predictor, target, most)
        return predictor

    def signed(predictor: Array, sign: Array, most: Array | None = None) -> Array:
        predictor *= sign
        residual(predictor, sign, most)
        predictor *= sign
        return predictor

    match loss.response:
        case "sign":
            return signed
        case "number" | "vector" | "class":
            return residual
        case _:
            assert_never(loss.response)


# Targets.


def targets_of(loss: LinearLoss, y: ArrayLike, n: int, classes: int | None = None) -> Any:
    """(n,) targets as `loss` reads them: labels ±1, numbers, or class numbers. Raises InvalidInput."""
    match loss.response:
        case "sign":
            return signs(y, n)
        case "number":
            return loss.admitted(finite_targets(y, n))
        case "vector":
            return finite_vectors(y, n)
        case "class":
            return _codes(y, n, classes)
        case _:
            assert_never(loss.response)


def _read_targets(loss: LinearLoss, y: Any, n: int, classes: int | None) -> Parts:
    """The targets as `loss` reads them, all of which are checked once."""
    if not isinstance(y, Parts):
        return Parts.of(targets_of(loss, y, n, classes), "y")
    if y.array is not None:
        return y.mapped(lambda cells: targets_of(loss, cells, n, classes))
    targets = y.mapped(lambda cells: targets_of(loss, cells, len(cells), classes))
    (y.mapped(_OnePair()) if loss.response == "sign" else targets).counted(n)
    return targets


class _OnePair:
    """The signs of labels part by part, which are all in {0, 1} or all in {−1, 1} over all parts."""

    def __init__(self) -> None:
        self._negative: set[int] = set()

    def __call__(self, cells: NDArray[Any]) -> Array:
        """The signs of a part. Raises InvalidInput where it has other labels than the parts before."""
        one_part = signs(cells, len(cells))
        self._negative |= {int(label) for label in np.unique(cells).tolist()} - {1}
        require(len(self._negative) <= 1, "y", _PAIRS)
        return one_part


def finite_vectors(y: ArrayLike, n: int) -> Array:
    """(n, K) numbers as float64. Raises InvalidInput naming `y`."""
    shape = np.shape(y)
    require(
        len(shape) == 2 and shape[0] == n and shape[1] != 0,
        "y",
        f"expected shape ({n}, K), a row of K numbers a row of X, got {shape}",
    )
    columns = [finite_targets(column, n) for column in table_of(y, "y").T]
    return np.column_stack(columns)


def signs(y: ArrayLike, n: int) -> Array:
    """(n,) labels as ±1. Raises InvalidInput naming `y`."""
    labels = as_labels(y, n)
    if labels.dtype.kind in "biuf":
        for negative in (0, -1):
            if np.all((labels == negative) | (labels == 1)):
                return np.where(labels == 1, 1.0, -1.0)
    raise InvalidInput("y", _PAIRS)


def _codes(y: ArrayLike, n: int, classes: int | None) -> NDArray[np.intp]:
    most = validate.integer("classes", classes, at_least=2) - 1
    codes = as_labels(y, n)
    require(
        codes.dtype.kind in "iu" and not np.any(codes < 0) and not np.any(codes > most),
        "y",
        f"expected class numbers 0..{most}",
    )
    return codes.astype(np.intp)


def finite_targets(y: ArrayLike, n: int) -> Array:
    """(n,) numbers as float64. Raises InvalidInput naming `y`."""
    targets = doubles_of("y", as_labels(y, n))
    require(np.all(np.isfinite(targets)), "y", "expected finite numbers")
    return targets

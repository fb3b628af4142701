"""Rows of bounded norm: what is multiplied is what was bounded, whoever else may write to the data.

Rows are brought within their norm whenever they are read, in memory of our own. Rows that are read many times
are copied once, in the type they have, and measured there. So data that change between two readings change
what is computed, and never by more than the norm allows.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.execute.blocks import (
    Rows,
    add_weighted_sum,
    block_length,
    by_row,
    clip_norms,
    copy_rows,
    dense_blocks,
    dense_lengths,
    part_of,
    predictors,
    rows_in,
)
from pabi.execute.cells import PLAIN, cells_of, doubles_of, table_of, typed, where
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import HALF_ULP, Array, up
from pabi.numbers.validate import centres_and_reaches

MOST_ROWS = 4096  # of a block: sums of that many terms round by at most a relative 2⁻⁴¹
LARGEST = 2.0**250  # of entries, norms and their inverses: products of three stay normal
_NORMS = {"at_least": 1.0 / LARGEST, "at_most": LARGEST}
# Relative: more than all roundings of a norm's or factor's few operations, and of a range's ends.
_FEW_ROUNDINGS, _ROUNDINGS_OF_ENDS = 8.0 * HALF_ULP, 2.0**-40
# A row whose factor is above it was within the norm, but for roundings, those of single precision too.
SHORTENED = 1.0 - 2.0**-20


class RowBlock(NamedTuple):
    """Some rows of the data as float64, dense or CSR, before they are scaled down.

    `part`: which of the requested rows. `scale`: (m,) factors ≤ 1 that bring the rows within the
    norm, None for all ones. `norm`: (m,) their norms after scaling, rounded up, intercept included. `target`,
    `weight`, `offset`: those of the rows, where they are stored with them.
    """

    part: slice
    features: Any
    scale: Array | None
    norm: Array
    target: Any = None
    weight: Array | None = None
    offset: Any = None


class Records:
    """(n, d) features, each row scaled down to `feature_norm` where it is longer.

    Parameters
    ----------
    X : (n, d) array, pandas frame, memory-mapped array or scipy sparse matrix
        Real and finite. A dense one is kept by reference and bounded whenever it is read, a sparse one is
        copied. Blocks are float64.
    feature_norm : float, optional
        R > 0, public. None: the rows are taken as they are, and R is unbounded.
    intercept_scaling : float, optional
        κ > 0: a last feature of constant κ, which the scaling leaves alone. The model then sees
        vectors of norm at most √(R² + κ²). None: no such feature.
    ranges : (2, d) or (2,) array, optional
        Public ranges. A feature is clipped to its range, which is then mapped onto [−1, 1]. A
        sparse matrix needs ranges (−h, h), which keep zeros.

    Attributes
    ----------
    n, d : int
        Rows and columns of X.
    sparse : bool
        Whether X is held as a sparse matrix.
    shortened : bool
        Whether some row was scaled down or clipped, a fact about the data.

    Raises
    ------
    InvalidInput
        X or a parameter is wrong; the error names it, and no message shows data.

    References
    ----------
    docs, "Clipping": bounding features keeps gradient steps nonexpansive.
    """

    # (factors or None, norms) of all rows; None where the data may change.
    _bounds: tuple[Array | None, Array] | None = None
    _names: Sequence[str] | None = None  # of columns, as errors say them

    def __init__(
        self,
        X: Any,
        feature_norm: float | None = None,
        intercept_scaling: float | None = None,
        ranges: Any = None,
    ) -> None:
        matrix = _matrix(X)
        own = not isinstance(matrix, np.ndarray)
        self._take(matrix, feature_norm, intercept_scaling, ranges, own=own)

    @classmethod
    def _of_own(cls, table: Any, feature_norm: float) -> Self:
        """Rows of a table that this library made, and that nobody else knows."""
        records = cls.__new__(cls)
        records._take(table, feature_norm, None, None, own=True)
        return records

    def _take(
        self,
        matrix: Any,
        feature_norm: float | None,
        intercept_scaling: float | None,
        ranges: Any,
        *,
        own: bool,
    ) -> None:
        """Looks at all rows once; what was measured is kept where `own` says that nobody else has them."""
        self._X = matrix
        self.n, d = (int(side) for side in matrix.shape)
        self.sparse = not isinstance(matrix, np.ndarray)
        self._declare(d, feature_norm, intercept_scaling, ranges)
        measured = self._measured()
        self._bounds = measured if own else None

    def _held(self) -> Records:
        """The same rows, measured once, in memory that nobody else writes to.

        A mapped file is not copied: its rows are bounded whenever they are read.
        """
        if self._bounds is not None or _is_mapped(self._X):
            return self
        own = copy(self)
        own._X = np.empty(self._X.shape, self._X.dtype)
        length = block_length(self.d, MOST_ROWS)
        for first in range(0, self.n, length):
            part = slice(first, min(first + length, self.n))
            copy_rows(self._X[part], own._X[part])
        own._bounds = own._measured()
        return own

    def _within_norm(self, norm: float) -> Self:
        """The same rows, of no norm so far, scaled down to one.

        Raises InvalidInput beside an intercept, whose feature such a norm counts.
        """
        require(
            self.intercept_scaling is None,
            "feature_norm",
            "expected Records with one beside intercept_scaling",
        )
        other = copy(self)
        other._feature_norm = validate.number("feature_norm", norm, **_NORMS)
        if other._bounds is not None:
            other._bounds = other._measured()
        return other

    def _declare(
        self, d: int, feature_norm: float | None, intercept_scaling: float | None, ranges: Any
    ) -> None:
        """Sets what does not depend on the rows."""
        self.d = d
        self._feature_norm, self._intercept_scaling = feature_norm, intercept_scaling
        norms = {"feature_norm": feature_norm, "intercept_scaling": intercept_scaling}
        for field, norm in norms.items():
            if norm is not None:
                validate.number(field, norm, **_NORMS)
        self._centre, self._reach = centres_and_reaches(ranges, self.d, sparse=self.sparse)
        self.shortened = False

    def __len__(self) -> int:
        return self.n

    # Rows that were measured stay within the bounds they were measured for.

    @property
    def feature_norm(self) -> float | None:
        """R, None where it is unbounded."""
        return self._feature_norm

    @property
    def intercept_scaling(self) -> float | None:
        """κ, None without the feature of an intercept."""
        return self._intercept_scaling

    @property
    def centre(self) -> Array | None:
        """(d,) centres of the ranges, read-only; None without ranges."""
        return self._centre

    @property
    def reach(self) -> Array | None:
        """(d,) half widths of the ranges, read-only; None without ranges."""
        return self._reach

    @property
    def width(self) -> int:
        """How many features the model sees, the intercept's included."""
        return self.d + (self.intercept_scaling is not None)

    def blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The requested rows in order, block by block."""
        for part, features in self._raw(rows, own=self._bounds is None):
            yield RowBlock(part, features, *self._bounds_of(part_of(rows, part), features))

    def _bounds_of(self, rows: Rows, features: Any) -> tuple[Array | None, Array]:
        """(factors or None, norms) of rows, which are `features` where nothing is known of them yet."""
        if self._bounds is None:
            return self._bounded(features)
        scale, norm = self._bounds
        return (None if scale is None else scale[rows]), norm[rows]

    def dense(self, rows: Rows) -> Array:
        """(m, width) float64: the rows as the model sees them."""
        return self.dense_of(self.blocks(rows))

    def dense_of(self, blocks: Iterator[RowBlock]) -> Array:
        """(m, width) float64: the rows of some blocks as the model sees them."""
        parts = []
        for block in blocks:
            features = block.features.toarray() if self.sparse else np.array(block.features)
            if block.scale is not None:
                features *= block.scale[:, None]
            if self.intercept_scaling is not None:
                constant = np.full(len(features), self.intercept_scaling)
                features = np.column_stack([features, constant])
            parts.append(features)
        return np.concatenate(parts) if parts else np.zeros((0, self.width))

    def as_seen(self, block: RowBlock) -> Any:
        """(m, width) CSR: the block's rows of a sparse table as the model sees them."""
        from scipy.sparse import csr_matrix, hstack

        rows = block.features
        if block.scale is not None:
            data = rows.data * np.repeat(block.scale, np.diff(rows.indptr))
            rows = csr_matrix((data, rows.indices, rows.indptr), rows.shape)
        if self.intercept_scaling is None:
            return rows
        constant = np.full((rows.shape[0], 1), self.intercept_scaling)
        return hstack([rows, csr_matrix(constant)], format="csr")

    def predictor(self, block: RowBlock, theta: Array, anywhere: bool = False) -> Array:
        """(m,) or (m, K): x·θ of the block's rows, for θ of shape (width,) or (width, K).

        `anywhere`: whether a row's must be the same to the last bit wherever in a block it stands.
        """
        product = self._product(block.features, theta[: self.d], anywhere)
        if block.scale is not None:
            product *= block.scale if product.ndim == 1 else block.scale[:, None]
        if self.intercept_scaling is not None:
            product += self.intercept_scaling * theta[-1]
        return product

    def add_weighted(self, block: RowBlock, weight: Array, total: Array) -> None:
        """Adds Σ weight_i·x_i over the block's rows to `total`, of the shape of θ."""
        if self.intercept_scaling is not None:
            total[-1] += self.intercept_scaling * weight.sum(axis=0)
        if block.scale is not None:
            weight = weight * (block.scale if weight.ndim == 1 else block.scale[:, None])
        self._add_product(block.features, weight, total[: self.d])

    def _product(self, features: Any, theta: Array, anywhere: bool) -> Array:
        """`features` @ `theta`, which may be overwritten."""
        if self.sparse:  # whose products go row by row
            return np.asarray(features @ theta)
        if not anywhere:
            return predictors(features, theta)
        subscripts = "ij,j->i" if theta.ndim == 1 else "ij,kj->ik"
        return by_row(subscripts, features, np.ascontiguousarray(theta.T))

    def _add_product(self, features: Any, weight: Array, total: Array) -> None:
        """Adds `features`ᵀ @ `weight` to `total`. (On a device both products are others.)"""
        if self.sparse:
            total += features.T @ weight
        else:
            add_weighted_sum(features, weight, total)

    # Reading.

    def _raw(self, rows: Rows, *, own: bool) -> Iterator[tuple[slice, Any]]:
        """(part, float64 block) of the requested rows, ranges applied; `own`: in memory of our own."""
        if self.sparse:
            yield from self._sparse_blocks(rows)
            return
        for part, block in dense_blocks(self._X, rows, MOST_ROWS, own or self.reach is not None):
            yield part, self._within_ranges(block)

    def _sparse_blocks(self, rows: Rows) -> Iterator[tuple[slice, Any]]:
        from scipy.sparse import csr_matrix

        X = self._X
        count = rows_in(rows)
        for first in range(0, count, MOST_ROWS):
            part = slice(first, min(first + MOST_ROWS, count))
            chosen = part_of(rows, part)
            if isinstance(chosen, slice):  # a view: slicing the matrix would copy it
                low, high = X.indptr[chosen.start], X.indptr[chosen.stop]
                block = csr_matrix(
                    (
                        X.data[low:high].astype(np.float64, copy=False),
                        X.indices[low:high],
                        X.indptr[chosen.start : chosen.stop + 1] - low,
                    ),
                    shape=(part.stop - part.start, self.d),
                    copy=False,
                )
            else:
                block = X[chosen].astype(np.float64, copy=False)
            if self.reach is not None:
                with np.errstate(over="ignore"):  # a warning would tell of a row
                    data = block.data / self.reach[block.indices]
                block = csr_matrix(
                    (np.clip(data, -1.0, 1.0), block.indices, block.indptr), block.shape
                )
            yield part, block

    def _within_ranges(self, block: Array) -> Array:
        if self.reach is None or self.centre is None:
            return block
        with np.errstate(over="ignore"):  # a warning would tell of a row
            block -= self.centre
            block /= self.reach
        return np.clip(block, -1.0, 1.0, out=block)

    def _measured(self) -> tuple[Array | None, Array]:
        """(factors that bring every row within the norm or None, norms rounded up), in one pass."""
        scale, norm = np.ones(self.n), np.empty(self.n)
        for part, features in self._raw(slice(0, self.n), own=False):
            scale[part], norm[part] = self._bounded(features)
        self.shortened = bool(np.any(scale < SHORTENED)) or self._out_of_range()
        return (None if np.all(scale == 1.0) else scale), norm

    def _bounded(self, features: Any) -> tuple[Array, Array]:
        """(factors that bring rows within the norm, their norms after that, rounded up, intercept included).

        Each is computed from its row alone.
        """
        peak, length = _lengths(features)
        if not np.all(peak <= LARGEST):
            named = self._names is not None  # of dense rows
            first = int(np.argmin((np.abs(features) <= LARGEST).all(axis=0))) if named else 0
            message = "expected finite numbers up to 2^250, got NaN or larger"
            raise InvalidInput("X", message + where(self._names, first))
        length *= 1.0 + (self.d + 16) * HALF_ULP  # at least the true norm
        norm, scale = peak * length, np.ones(len(peak))
        if self.feature_norm is not None:
            beyond = norm > self.feature_norm
            # Below the exact factor by more than everything that rounds on the way.
            factor = self.feature_norm / np.where(beyond, length, 1.0) / np.where(beyond, peak, 1.0)
            scale = np.where(beyond, factor * (1.0 - _FEW_ROUNDINGS), 1.0)
            norm = np.minimum(norm, self.feature_norm)
        if self.intercept_scaling is not None:
            norm = np.hypot(norm, self.intercept_scaling) * (1.0 + _FEW_ROUNDINGS)
        return scale, norm

    def _out_of_range(self) -> bool:
        if self.sparse and self.reach is not None:
            return bool(np.any(np.abs(self._X.data) > self.reach[self._X.indices]))
        blocks = (self._X[i : i + MOST_ROWS] for i in range(0, self.n, MOST_ROWS))
        return self.reach is not None and any(map(self._beyond_ranges, blocks))

    def _beyond_ranges(self, rows: NDArray[Any]) -> bool:
        """Whether some of these dense rows, as they are stored, are outside the declared ranges."""
        if self.reach is None or self.centre is None:
            return False
        low, high = self.centre - self.reach, self.centre + self.reach
        slack = _ROUNDINGS_OF_ENDS * (np.abs(low) + np.abs(high))
        return bool(np.any((rows < low - slack) | (rows > high + slack)))


def seen_norm(feature_norm: float, intercept_scaling: float | None) -> float:
    """The norm of the vector that the model sees, √(R² + κ²), rounded up."""
    if intercept_scaling is None:
        return feature_norm
    return up(up(float(np.hypot(feature_norm, intercept_scaling))))


def refuse_longer(records: Records, norm: float, where: str = "") -> None:
    """Raises InvalidInput where rows, intercept included, may be longer than the `norm` stated `where`."""
    bound, scaling = records.feature_norm, records.intercept_scaling
    if bound is None:
        return
    require(
        Fraction(bound) ** 2 + Fraction(scaling or 0.0) ** 2 <= Fraction(norm) ** 2,
        "feature_norm",
        f"expected at least {seen_norm(bound, scaling)!r}{where}, the norm of the rows declared, got "
        f"{norm!r}",
    )


def _lengths(features: Any) -> tuple[Array, Array]:
    """(largest entry, norm relative to it) of each row; the true norm is their product."""
    if isinstance(features, np.ndarray):
        return dense_lengths(features)
    m = features.shape[0]
    row = np.repeat(np.arange(m), np.diff(features.indptr))
    peak = np.zeros(m)
    np.maximum.at(peak, row, np.abs(features.data))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        unit = features.data / np.where((peak > 0.0) & np.isfinite(peak), peak, 1.0)[row]
        return peak, np.sqrt(np.bincount(row, unit * unit, minlength=m))


def numbers_of(rows: Rows) -> NDArray[np.intp]:
    """The numbers of the rows in memory of their own, which whoever gets it may change."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows.copy()


def _is_mapped(array: Any) -> bool:
    """Whether an array lies in a file that is mapped into memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def _own_csr(X: Any) -> Any:
    """A copy of a sparse matrix as CSR, each entry once."""
    from scipy.sparse import csr_matrix

    rows = X.tocsr()
    require(rows.dtype.kind in "fiub", "X", f"expected real numbers, got dtype {rows.dtype}")
    # What the matrix says of itself is not believed: it may have been written to since it was found out.
    parts = [np.array(part) for part in (rows.data, rows.indices, rows.indptr)]
    try:
        matrix = csr_matrix(tuple(parts), shape=rows.shape)
        matrix.check_format(full_check=True)
    except ValueError:
        raise InvalidInput("X", "expected a sparse matrix whose indices are within it") from None
    if not matrix.has_canonical_format:  # repeated entries would hide a row's length
        matrix.sum_duplicates()
    return matrix


def _matrix(X: Any) -> Any:
    """`X` as a real two-dimensional array, not copied if it has numbers, or as a CSR matrix of our own."""
    if hasattr(X, "tocsr"):
        matrix = _own_csr(X)
    else:
        matrix = table_of(X).view()  # of a shape of its own
        if matrix.dtype.kind not in PLAIN:
            matrix = doubles_of("X", matrix)
    require(
        matrix.ndim == 2 and 0 not in matrix.shape,
        "X",
        f"expected shape (n, d), not empty, got {matrix.shape}",
    )
    return matrix


def as_labels(y: ArrayLike, n: int) -> NDArray[Any]:
    """`y` as a (n,) array. Raises InvalidInput naming `y`."""
    labels = np.array(typed(cells_of(y)))  # which is checked, and which nobody changes afterwards
    require(labels.shape == (n,), "y", f"expected shape ({n},), one a row of X, got {labels.shape}")
    return labels


def bound_rows(X: ArrayLike, feature_norm: float) -> Array:
    """The rows of `X`, each longer than `feature_norm` scaled down to it and never above it.

    Each row is treated by itself, so this costs no privacy.

    Parameters
    ----------
    X : (n, d) array-like
        Features, real and finite.
    feature_norm : float, at least 1e-290, in units of the features
        A public constant, not read off the data.

    Returns
    -------
    array
        (n, d) float64. Shorter rows are as they were.

    Raises
    ------
    InvalidInput
        `X` or `feature_norm` is wrong; a norm below 1e-290 is refused as `clip_norm`.

    References
    ----------
    docs, "Clipping": bounding features keeps gradient steps nonexpansive, and clipping gradients may not.
    """
    bound = validate.number("feature_norm", feature_norm, above=0.0)
    return clip_norms(_finite(X), bound)


def with_intercept(X: ArrayLike, scaling: float = 1.0) -> Array:
    """The rows of `X` with a last column of the constant `scaling`, the intercept's feature.

    Parameters
    ----------
    X : (n, d) array-like
        Features, real and finite.
    scaling : float, > 0, in units of the features
        A public constant.

    Returns
    -------
    array
        (n, d + 1) float64. Rows of norm at most R become rows of norm at most √(R² + scaling²), the
        `feature_norm` of the loss.

    Raises
    ------
    InvalidInput
        `X` or `scaling` is wrong.

    References
    ----------
    `intercept_scaling` of scikit-learn's liblinear models.
    """
    constant = validate.number("scaling", scaling, above=0.0)
    features = _finite(X)
    return np.column_stack([features, np.full(len(features), constant)])


def _finite(X: ArrayLike) -> Array:
    features = np.array(_matrix(X), dtype=np.float64)
    require(np.all(np.isfinite(features)), "X", "expected finite numbers")
    return features

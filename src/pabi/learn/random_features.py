"""Random features of tables as a scikit-learn transformer: a public seed, and nothing learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pabi.execute.cells import PassesTable
from pabi.execute.tables import checked, refuse_collection, tagged
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

# Frequencies of Fourier features of a Gaussian kernel, drawn from a public seed.
#
# Directions are orthonormal within each block of at most d, and lengths are those of independent Gaussian
# vectors. So each frequency by itself is a standard Gaussian, and averages over them scatter less than
# those over independent ones (Yu et al. 2016, "Orthogonal random features", Thm 1).


@lru_cache(maxsize=4)
def frequencies(seed: int, d: int, count: int) -> Array:
    """(d, count), read-only: the same for the same numbers, but for roundings.

    A fitted model holds the seed and not the frequencies, so they have to be the same in later versions of
    NumPy. NumPy promises that of `RandomState` alone (NEP 19).
    """
    drawn = np.random.RandomState(seed)
    blocks = [_orthonormal(drawn, d, min(d, count - first)) for first in range(0, count, d)]
    lengths = np.sqrt(drawn.chisquare(d, size=count))
    result = np.concatenate(blocks, axis=1) * lengths
    result.flags.writeable = False
    return result


def _orthonormal(drawn: np.random.RandomState, d: int, count: int) -> Array:
    """(d, count): orthonormal columns, uniformly among all such.

    The signs make the factorisation unique, so that it is a function of the draws and not of the solver.
    """
    q, r = np.linalg.qr(drawn.standard_normal((d, count)))
    return np.asarray(q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0))


LENGTH = 1.0  # of the kernel, over the norm of rows; measured, see docs, "Tables: random features"
LARGEST = 1e12  # of columns over `length`: phases are finite
# More than all roundings make of a norm: one to single precision, of a relative 2⁻²⁴, and those of doubles.
_BELOW_ONE = 1.0 - 2.0**-22
_BATCH = 1 << 18  # entries at once
_LAST_SEED = 2**32 - 1


@tagged(input_tags__sparse=True, transformer_tags__preserves_dtype=["float32"])
class RandomFeatures(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Random Fourier features of a Gaussian kernel, by a public map that treats every row by itself.

    A linear model of them is close to a kernel machine with the kernel exp(−‖u − v‖²/(2·length²)). Nothing is
    fitted: the settings and the number of columns fix the map, and a row of the features depends on its own
    row of the table alone. So it needs no privacy budget, and neighbouring data sets stay neighbouring.

    Parameters
    ----------
    feature_ranges : (low, high), (2, d) array or dict from columns to (low, high), optional
        Public ranges. Columns are clipped to them and mapped onto [−1, 1]. None: they stay as they are.
    n_components : int
        How many Fourier features, at least 1. Each frequency has a cosine and a sine; of an odd number the
        last has no sine.
    length : float or "auto"
        The length scale of the kernel, in units of the mapped columns, from 10⁻¹² to 10¹². "auto": √d for d
        columns with ranges and 1 without, the norm that `feature_norm` takes rows to have at most.
    linear : bool
        Whether the mapped columns stand beside the Fourier features, before them. Both then have half of the
        squared norm that a row may have.
    seed : int
        From which frequencies are drawn, in 0..2³² − 1. Public.

    Attributes
    ----------
    n_features_in_ : int
        d, after `fit`.
    feature_names_in_ : array of str
        The columns, after `fit` on a table with names.

    Raises
    ------
    InvalidInput
        A setting is wrong; the error names it. As in scikit-learn the methods raise it, not the constructor.

    Notes
    -----
    No row of the features is longer than 1, whatever is rounded: a public `feature_norm`. With `linear=0` all
    have norm 1, but for 3·10⁻⁷. Where columns have no ranges, those beside the Fourier features are scaled
    down in rows longer than 1.

    Choose the settings, `seed` among them, without looking at private rows: what is read off them is covered
    by no guarantee.

    References
    ----------
    Rahimi and Recht 2007, "Random features for large-scale kernel machines", Algorithm 1.

    Yu et al. 2016, "Orthogonal random features", Thm 1: orthogonal frequencies, whose features scatter less.
    """

    def __init__(
        self,
        feature_ranges: Any = None,
        n_components: int = 500,
        *,
        length: float | str = "auto",
        linear: bool = True,
        seed: int = 0,
    ) -> None:
        self.feature_ranges = feature_ranges
        self.n_components = n_components
        self.length = length
        self.linear = linear
        self.seed = seed

    def fit(self, X: Any, y: Any = None) -> Self:
        """This transformer, with settings and the columns checked; nothing is learned from the rows.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Real and finite. Of a large table no row is read.
        y : object
            Not looked at. Where it names a column of a large table, that is no feature.

        Returns
        -------
        self
            The transformer, with `n_features_in_`.

        Raises
        ------
        InvalidInput
            A setting or X is wrong. The error, a ValueError, names the setting or X, and shows no entry.
        """
        refuse_collection(X)
        rows = X
        if isinstance(X, PassesTable):
            X.introduce(self, y)
        else:
            rows = checked(self, X)
        self._settings()
        self._declared(sparse=issparse(rows))
        return self

    def transform(self, X: Any) -> Any:
        """The features of rows, each from its own row and the settings alone.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, scipy sparse matrix or LargeTable
            Real and finite. Of a sparse matrix the features are dense. Of a large table comes a large table,
            which is made anew in every pass over it.

        Returns
        -------
        array or LargeTable
            (n, n_components) float32, d columns more with the linear part: columns, cosines, sines. A data
            frame of the named features where `set_output` says so.

        Raises
        ------
        InvalidInput
            A setting or X is wrong, or X has other columns than before. No message shows an entry.
        NotFittedError
            `fit` was not called before.
        """
        check_is_fitted(self)
        refuse_collection(X)
        if isinstance(X, PassesTable):
            # Where this one is fitted again, rows stay what they are.
            return X.made_by(self, copy(self)._features)
        return self._features(checked(self, X, reset=False))

    def _features(self, rows: Any) -> NDArray[np.float32]:
        """The features of rows in memory."""
        cosines, sines, length, seed = self._settings()
        drawn = frequencies(seed, self.n_features_in_, cosines)
        beside = self.n_features_in_ if self.linear else 0
        size = _BELOW_ONE * math.sqrt((0.5 if self.linear else 1.0) / cosines)
        features = np.empty((rows.shape[0], beside + cosines + sines), np.float32)
        for part, mapped in self._mapped(rows):
            phases = _scaled(mapped, length) @ drawn
            if self.linear:
                features[part, :beside] = self._short(mapped)
            features[part, beside : beside + cosines] = size * np.cos(phases)
            features[part, beside + cosines :] = size * np.sin(phases[:, :sines])
        return features

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the features: the columns of the linear part, cosines, sines.

        Parameters
        ----------
        input_features : array of str, optional
            The names of the columns, where `fit` saw none.

        Returns
        -------
        array
            Such as `x0`, …, `cos0`, …, `sin0`, ….

        Raises
        ------
        InvalidInput
            A setting is wrong.
        NotFittedError
            `fit` was not called before.
        """
        columns = super().get_feature_names_out(input_features)
        cosines, sines, *_ = self._settings()
        waves = [*(f"cos{j}" for j in range(cosines)), *(f"sin{j}" for j in range(sines))]
        return np.array([*(columns if self.linear else ()), *waves], dtype=object)

    def _settings(self) -> tuple[int, int, float, int]:
        """(how many cosines, how many sines, length of the kernel, seed), after a look at every setting."""
        validate.flag("linear", self.linear)
        count = validate.integer("n_components", self.n_components, at_least=1)
        seed = validate.integer("seed", self.seed, at_least=0, at_most=_LAST_SEED)
        return count - count // 2, count // 2, self._length(), seed

    def _length(self) -> float:
        if isinstance(self.length, str) and self.length == "auto":
            return LENGTH * self._radius
        if isinstance(self.length, str):
            raise InvalidInput("length", f'expected "auto" or a number, got {self.length!r}')
        return validate.number("length", self.length, at_least=1.0 / LARGEST, at_most=LARGEST)

    @property
    def _radius(self) -> float:
        """R: the longest row there can be within ranges, without them what rows are expected to have."""
        return 1.0 if self.feature_ranges is None else math.sqrt(self.n_features_in_)

    def _declared(self, *, sparse: bool) -> tuple[Array | None, Array | None]:
        """Centres and half widths of the ranges."""
        names = getattr(self, "feature_names_in_", None)
        ranges = validate.by_column(self.feature_ranges, names, self.n_features_in_)
        return validate.centres_and_reaches(ranges, self.n_features_in_, sparse=sparse)

    def _mapped(self, rows: Any) -> Iterator[tuple[slice, Any]]:
        """(which rows, their columns within the ranges, as float64, dense or CSR)."""
        centre, reach = self._declared(sparse=issparse(rows))
        size = max(1, _BATCH // max(rows.shape[1], self.n_components))
        for first in range(0, rows.shape[0], size):
            part = slice(first, first + size)
            block = rows[part].astype(np.float64)  # a copy
            if issparse(block):
                block.sum_duplicates()  # entries are clipped, not the parts that they are stored in
            yield part, _within(block, centre, reach)

    def _short(self, mapped: Any) -> Array:
        """Mapped columns with at most half of a row's squared norm, which is at most R² within ranges."""
        dense = mapped.toarray() if issparse(mapped) else mapped
        longest = np.float64(self._radius)
        if self.feature_ranges is None:
            longest = np.maximum(1.0, np.linalg.norm(dense, axis=1, keepdims=True))
        return np.asarray(_BELOW_ONE * math.sqrt(0.5) / longest * dense)


def _within(block: Any, centre: Array | None, reach: Array | None) -> Any:
    """Rows of float64 clipped to their ranges and mapped onto [−1, 1]; as they are without ranges."""
    if centre is None or reach is None:
        return block
    with np.errstate(over="ignore"):  # infinities are clipped, too
        if issparse(block):  # whose ranges have centre 0
            data = np.clip(block.data / reach[block.indices], -1.0, 1.0)
            return csr_matrix((data, block.indices, block.indptr), block.shape)
        return np.clip((block - centre) / reach, -1.0, 1.0)


def _scaled(mapped: Any, length: float) -> Any:
    """Rows over `length`. Raises InvalidInput, without an entry, for those that are too large."""
    entries = mapped.data if issparse(mapped) else mapped
    if not np.all(np.abs(entries) <= LARGEST * length):
        raise InvalidInput("X", "expected finite entries of at most 10¹² times `length`")
    return mapped / length

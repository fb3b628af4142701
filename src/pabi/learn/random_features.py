"""Random features of tables, by a public seed and nothing learnt, and private models of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from pabi.describe.accounted import changed, checked_adjacency
from pabi.describe.runs import COUNT
from pabi.execute.blocks import by_row
from pabi.execute.large_records import records_of
from pabi.execute.large_tables import LargeTable
from pabi.execute.records import Records, RowBlock
from pabi.execute.sources import Parts
from pabi.execute.tables import checked, refuse_collection, tagged
from pabi.learn.classifiers import PrivateLogisticRegression
from pabi.learn.estimators import PrivateLinearModel
from pabi.learn.plans import Size, TrainingPlan, budget, documented
from pabi.learn.regressors import PrivateLinearRegression
from pabi.learn.rows import (
    Given,
    ReadsTables,
    norm_within_ranges,
    number_or_auto,
    users_of_rows,
)
from pabi.numbers import validate
from pabi.numbers.errors import require
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
    result = np.concatenate(blocks, axis=1) * np.sqrt(drawn.chisquare(d, size=count))
    result.flags.writeable = False
    return result


def _orthonormal(drawn: np.random.RandomState, d: int, count: int) -> Array:
    """(d, count): orthonormal columns, uniformly among all such.

    The signs make the factorisation unique, so that it is a function of the draws and not of the solver.
    """
    q, r = np.linalg.qr(drawn.standard_normal((d, count)))
    return np.asarray(q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0))


LARGEST = 1e12  # of columns over `length`: phases are finite
_ROUNDED = 1.0 + 1e-9  # a row that was brought to a norm may be longer by roundings
# More than all roundings make of a norm: one to single precision, of a relative 2⁻²⁴, and those of doubles.
_BELOW_ONE = 1.0 - 2.0**-22


@tagged(input_tags__sparse=True, transformer_tags__preserves_dtype=["float32"])
class RandomFeatures(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ReadsTables,
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
        How many Fourier features, at least 1, or 0 beside the mapped columns. Each frequency has a cosine and
        a sine; of an odd number the last has no sine.
    feature_norm : float, > 0, in units of the mapped columns, or "auto", optional
        R, to which longer rows are scaled down, as in the estimators. "auto": √d for d columns with ranges, 1
        without. None: no row is scaled down, and R is that of "auto" all the same.
    length : float or "auto"
        The length scale of the kernel, in units of the mapped columns, from R·10⁻¹² to 10¹². "auto": R.
    linear : bool or float in (0, 1)
        Whether the mapped columns stand beside the Fourier features, before them. A number is the part of the
        squared norm that they may have; True is a half.
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
    No row of the features is longer than 1, whatever is rounded: a public `feature_norm`. With `linear=False`
    all have norm 1, but for 3·10⁻⁷. Mapped columns beside Fourier features are scaled down in rows longer
    than R.

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
        feature_norm: float | str | None = None,
        length: float | str = "auto",
        linear: bool | float = True,
        seed: int = 0,
    ) -> None:
        self.feature_ranges = feature_ranges
        self.n_components = n_components
        self.feature_norm = feature_norm
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
        if isinstance(X, LargeTable):
            X.introduce(self, y)
        else:
            X = checked(self, X)
        self._settings()
        validate.centres_and_reaches(self._ranges(), self.n_features_in_, sparse=issparse(X))
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
        refuse_collection(X)
        return self._images(X)

    def _image(self, cells: Any) -> NDArray[np.float32]:
        return self._of(self._within(cells))

    def _within(self, rows: Any) -> Records:
        """Rows in memory within the bounds that are declared."""
        self._settings()
        dense = rows if issparse(rows) else np.ascontiguousarray(rows)
        return Records(dense, self._norm, ranges=self._ranges())

    def _of(self, records: Records) -> NDArray[np.float32]:
        """The features of rows within their bounds."""
        share, beside = self._share(), self._width - self.n_components
        features = np.empty((records.n, self._width), np.float32)
        for block in records.blocks(slice(0, records.n)):
            if beside:
                longest = np.maximum(self._radius, block.norm)[:, None]
                short = records.dense_of(iter([block])) / longest
                features[block.part, :beside] = _BELOW_ONE * math.sqrt(share) * short
            waves = self._waves(block) if self.n_components else 0.0
            features[block.part, beside:] = _BELOW_ONE * math.sqrt(1.0 - share) * waves
        return features

    def _waves(self, block: RowBlock) -> Array:
        """Cosines and sines, of norm 1. Raises InvalidInput, which shows no entry, for a row too large."""
        cosines, length = self.n_components - self.n_components // 2, self._length()
        require(
            np.all(block.norm <= LARGEST * _ROUNDED * length),
            "X",
            "expected finite rows of at most 10¹² times `length`",
        )
        drawn = frequencies(self.seed, self.n_features_in_, cosines) / length
        if issparse(block.features):  # whose products go row by row
            phases = block.features @ drawn
        else:
            phases = by_row("ij,kj->ik", block.features, np.ascontiguousarray(drawn.T))
        if block.scale is not None:
            phases *= block.scale[:, None]
        sines = np.sin(phases[:, : self.n_components - cosines])
        return np.hstack([np.cos(phases), sines]) / math.sqrt(cosines)

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
        self._settings()
        sines = self.n_components // 2
        waves = [f"cos{j}" for j in range(self.n_components - sines)] + [
            f"sin{j}" for j in range(sines)
        ]
        return np.array([*(columns if self.linear else ()), *waves], dtype=object)

    def _settings(self) -> None:
        """Raises InvalidInput for a setting that is wrong."""
        validate.integer("n_components", self.n_components, at_least=0 if self._share() else 1)
        validate.integer("seed", self.seed, at_least=0, at_most=2**32 - 1)
        self._length()

    @property
    def _width(self) -> int:
        """How many features there are, after `fit`."""
        return self.n_components + (self.n_features_in_ if self.linear else 0)

    def _share(self) -> float:
        """The part of a row's squared norm that mapped columns have."""
        if isinstance(self.linear, bool | np.bool_):
            return (0.5 if self.n_components else 1.0) if self.linear else 0.0
        share = validate.number("linear", self.linear, above=0.0, below=1.0)
        return share if self.n_components else 1.0

    def _length(self) -> float:
        usual, least = self._radius, self._radius / LARGEST
        return number_or_auto("length", self.length, usual, at_least=least, at_most=LARGEST)

    @property
    def _norm(self) -> float | None:
        """The norm to which rows are brought, None where they are not."""
        if self.feature_norm is None:
            return None
        return number_or_auto("feature_norm", self.feature_norm, self._usual, above=0.0)

    @property
    def _usual(self) -> float:
        """The longest row there can be within ranges; 1 without."""
        return 1.0 if self.feature_ranges is None else norm_within_ranges(self.n_features_in_)

    @property
    def _radius(self) -> float:
        """R: the norm that rows have at most, or are expected to have."""
        return self._usual if self._norm is None else self._norm


# Private models of random features.
#
# The path that noise allows is in proportion to n·μ, and directions that are alike share it. So the number of
# features is at most a part of n·μ, and no more than a tenth of n. All of this was set on the tables that
# benchmarks/proving_ground/random_features.py names DEVELOPED.


OF_RECORDS, MOST = 0.1, 500  # features over n, and altogether
SHORT = 0.3  # the length of the kernel, over R
COLUMNS = 0.8  # the part of the squared norm of mapped columns
CONSTANT = 0.3  # beside rows of norm 1


@dataclass(eq=False, repr=False, kw_only=True)
class _OnRandomFeatures(PrivateLinearModel):
    """A linear model of random features of its rows. How many there are follows from public numbers."""

    _OF_PATH: ClassVar[float] = 0.2  # features over n·μ
    _FEWEST: ClassVar[int] = 100  # where there would be fewer there are none
    _ENOUGH_OF_FEATURES: ClassVar[float] = 5.0  # a longer path fits chance, which many features can

    n_components: int | str = "auto"
    length: float | str = "auto"
    seed: int = 0
    intercept_scaling: float = CONSTANT

    def _map_for(self, n: int, d: int) -> RandomFeatures:
        """The features of n records, or users, of d columns."""
        features = RandomFeatures(
            self.feature_ranges,
            self._components(n),
            feature_norm=self.feature_norm,
            length=self.length,
            linear=COLUMNS,
            seed=self.seed,
        )
        features.n_features_in_ = d
        if isinstance(self.length, str) and self.length == "auto":
            features.length = SHORT * features._radius
        return features

    def _components(self, n: int) -> int:
        """How many features: as stated, or as many as noise allows to teach."""
        if number_or_auto("n_components", self.n_components, None) is not None:
            return self.n_components  # type: ignore[return-value]
        mu = budget(*self._price()) / changed(checked_adjacency(self.adjacency))
        count = int(min(self._OF_PATH * n * mu, OF_RECORDS * n, MOST))
        return count if count >= self._FEWEST else 0

    def _enough(self, size: Size) -> float:
        # Classes that are compared want larger predictors.
        compared = size.outputs > 1 and self._EQUAL
        usual = compared or not self._components(size.n)
        return super()._enough(size) if usual else self._ENOUGH_OF_FEATURES

    def _planned(self, n: int, d: int, outputs: int, unit: str | None = None) -> TrainingPlan:
        features = self._map_for(COUNT("n", n), COUNT("d", d))
        features._settings()
        return super()._planned(n, features._width, outputs, unit)

    def _train(
        self, X: Any, targets: Parts, outputs: int = 1, *, beside: Given, **others: Any
    ) -> None:
        rows = X.shape[0]
        groups, _ = users_of_rows(beside.groups, self.users, rows)
        self._take(self._map_for(rows if groups is None else groups.users, self.n_features_in_))
        super()._train(X, targets, outputs, beside=beside, **others)

    def _take(self, features: RandomFeatures) -> None:
        """Sets `features_`."""
        if hasattr(self, "feature_names_in_"):
            features.feature_names_in_ = self.feature_names_in_
        self.features_ = features

    def _feature_settings(self) -> dict[str, Any]:
        return {name: getattr(self.features_, name) for name in ("n_components", "length")}

    def _recall(self, settings: Any) -> None:
        self._take(self._map_for(1, self.n_features_in_).set_params(**settings))

    @property
    def _width(self) -> int:
        return self.features_._width

    def _row_norm(self, d: int) -> float:
        return 1.0

    def _ranges(self) -> None:
        """None: features have none."""

    def _records(self, X: Any) -> Records:
        if isinstance(X, LargeTable):
            return records_of(self.features_.transform(X), 1.0, self._intercept_feature)
        within = self.features_._within(X)
        records = records_of(self.features_._of(within), 1.0, self._intercept_feature)
        records.shortened = within.shortened
        return records

    def _names(self, stated: Sequence[str] | None) -> list[str]:
        own = self.features_.get_feature_names_out().tolist()
        return super()._names(own if stated is None else stated)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateKernelClassifier(_OnRandomFeatures, PrivateLogisticRegression):
    """A private kernel machine: logistic regression on random features of the columns, with a proven (ε, δ).

    It learns what columns mean together, which no linear model can. It is `PrivateLogisticRegression` behind
    `RandomFeatures`, whose number and lengths follow from public numbers alone. Where ε and records are too
    few for random features it is the linear model.

    Parameters
    ----------
    $TARGET
    $KERNEL
    multi_class : str
        As of `PrivateLogisticRegression`.
    $CLASSES
    $SETTINGS

    Attributes
    ----------
    features_ : RandomFeatures
        The map from X to the features that the model is linear in. Nothing in it is learnt.
    coef_ : (1, D) or (K, D) array
        The weights of these D features: one row for two classes, K rows for K > 2 classes. With
        `linear_predictor=True` `features_.transform(X) @ coef_.T + intercept_` is all that predicts.
    intercept_ : (1,) or (K,) array
        The constant of each row of `coef_`.
    coef_std_, intercept_std_ : arrays of their shapes
        How far noise moves them (`summary`).
    classes_ : (K,) array
        The labels, ascending.
    link_ : (array, array)
        As of `PrivateLogisticRegression`.
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Tables: random features".

    Rahimi and Recht 2007, "Random features for large-scale kernel machines", Algorithm 1.
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class PrivateKernelRegressor(_OnRandomFeatures, PrivateLinearRegression):
    """A private kernel machine: least squares on random features of the columns, with a proven (ε, δ).

    It is `PrivateLinearRegression` behind `RandomFeatures`, as `PrivateKernelClassifier` is logistic
    regression behind them.

    Parameters
    ----------
    $TARGET
    $KERNEL
    $TARGET_RANGE
    residual_bound : float, > 0, in units of y, or "auto"
        As of `PrivateLinearRegression`.
    $SETTINGS

    Attributes
    ----------
    features_ : RandomFeatures
        The map from X to the features that the model is linear in. Nothing in it is learnt.
    coef_ : (D,) or (K, D) array
        The weights of these D features; a row for each target, where there are several. `predict` is
        `features_.transform(X) @ coef_.T + intercept_`, but for rows that preconditioning makes too long,
        which are shortened unless `linear_predictor=True`.
    intercept_ : float or (K,) array
        The constant.
    coef_std_, intercept_std_ : of their shapes
        How far noise moves them (`summary`).
    $RELEASED

    Notes
    -----
    $WEIGHTS

    References
    ----------
    docs, "Tables: random features".
    """

    # Noise counts by its square here, where classes only need the order of predictors.
    _OF_PATH: ClassVar[float] = 0.02
    _FEWEST: ClassVar[int] = 50
    _ENOUGH_OF_FEATURES: ClassVar[float] = 10.0

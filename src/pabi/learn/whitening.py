"""The map that makes features alike in all directions, from noisy second moments.

Noise and step size are the same in all directions, so that features are dear whose second moments differ by
orders of magnitude. Second moments Σ̃ are released once, with noise; the map is (Σ̃₊ + λI)^(−1/2), Σ̃₊ the
part of Σ̃ above 0 and λ the size of the noise's own eigenvalues. It sees the release and public numbers only,
so that it costs nothing more (docs, "Private preconditioning").
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from pabi.account.calibration import calibrate
from pabi.describe.neighbours import Unit, checked_adjacency
from pabi.describe.second_moments import NoisySecondMoments
from pabi.execute.groups import UserRows
from pabi.execute.records import Records
from pabi.execute.row_maps import RowMap
from pabi.execute.second_moments import ReleasedMoments, second_moments
from pabi.guarantees.guarantee import Guarantee, compose
from pabi.numbers.errors import PrivacyWarning
from pabi.numbers.rounding import Array

SHARE = 0.1  # of the budget's μ², by default: about a third of μ
WIDEST = 4096  # columns of a matrix of second moments; of wider data only the diagonal is released
TOO_NOISY = (
    "epsilon is too small for preconditioning so many columns of so few rows: the model is trained without, "
    "and nothing is spent on it; give precondition=None, or a larger share of the budget"
)
_FLAT = 0.5  # noise over the largest second moment there can be: from it on nothing is seen
_FINEST = 2.0**-40  # of the largest second moment: rows are mapped in single precision
_TYPICAL = 2.0  # R² over the mean square of norms, where rows are not scaled to one norm


def planned(
    n: int,
    width: int,
    *,
    norm: float,
    epsilon: float,
    delta: float,
    adjacency: str,
    share: float = 1.0,
    noise_std: float | None = None,
    unit: Unit = "record",
) -> NoisySecondMoments:
    """The release of second moments that costs a share of the budget's μ², or has this noise.

    `n`, `width`: of the table as the model sees it. `norm`: the largest of a row's.
    """
    blank = NoisySecondMoments(
        n,
        width,
        norm,
        adjacency=checked_adjacency(adjacency),
        diagonal=width > WIDEST,
        unit=unit,
    )
    if noise_std is not None:
        return replace(blank, noise_std=noise_std)
    whole = calibrate(blank, epsilon, delta)
    return (
        whole
        if share == 1.0
        else replace(whole, noise_std=whole.moment_noise_std / math.sqrt(share))
    )


def noise_level(moments: NoisySecondMoments) -> float:
    """About the largest eigenvalue, or entry of the diagonal, of the noise on Σ x·xᵀ/n, over R²."""
    return moments.moment_noise_std / moments.feature_norm**2 * _spread(moments) / moments.n


def _spread(moments: NoisySecondMoments) -> float:
    """The same of noise of standard deviation 1 on the sum itself."""
    d = moments.dimension
    return math.sqrt(2.0 * math.log(2.0 * d)) if moments.diagonal else math.sqrt(2.0 * d)


def resolves(moments: NoisySecondMoments) -> bool:
    """Whether the noise leaves anything to be seen: no second moment is above R²."""
    return noise_level(moments) < _FLAT


def resolving(moments: NoisySecondMoments) -> float:
    """The standard deviation of noise below which `resolves` says yes of such moments."""
    return _FLAT * moments.n * moments.feature_norm**2 / _spread(moments)


def released_moments(
    moments: NoisySecondMoments,
    records: Records,
    random_state: Any,
    delta: float,
    groups: UserRows | None = None,
) -> ReleasedMoments:
    """The release itself; what draws after it from the same `random_state` has other noise.

    Whoever trains afterwards warns of a state that is not secret, once for both.
    """
    if isinstance(random_state, int | np.integer):
        random_state = np.random.default_rng([1, int(random_state)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return second_moments(moments, records, random_state, delta=delta, groups=groups)


def together(*guarantees: Guarantee) -> Guarantee:
    """What the releases cost in all."""
    return guarantees[0] if len(guarantees) == 1 else compose(*guarantees)


def whitening(values: Array, moments: NoisySecondMoments, *, norm: float, equal: bool) -> RowMap:
    """The map from the released `values`, to rows of norm `norm`, all of them (`equal`) or at most.

    Where rows keep their proportions, it is scaled such that the mean square of their norms is about half of
    `norm`², so that few are longer than that.
    """
    mean = values / (moments.n * moments.feature_norm**2)
    noise = max(noise_level(moments), _FINEST)
    if moments.diagonal:
        square = np.maximum(mean, 0.0)
        matrix = 1.0 / np.sqrt(square + noise)
    else:
        eigenvalues, vectors = np.linalg.eigh(mean)
        square = np.maximum(eigenvalues, 0.0)
        matrix = (vectors / np.sqrt(square + noise)) @ vectors.T
    if not equal:
        mapped = float(np.sum(square / (square + noise)))  # mean square of norms
        matrix = matrix / math.sqrt(_TYPICAL * max(mapped, 1.0))
    return RowMap(matrix, moments.feature_norm, norm, equal)

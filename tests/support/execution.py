"""What tests of training share: crashes, exact norms, laws of draws, silent generators, no price."""

from __future__ import annotations

import os
import traceback
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from pabi import NoisySGD
from pabi.describe.accounted import SHOWN

RARE = 1e-6  # how often right draws fail a test of their law


class Crash(BaseException):
    """What no sensible handler catches."""


class OrdinaryNoise:
    """The noise of a step in doubles, on no grid, which tests can compute again."""

    def __init__(self, noise_std, moved, dimension):
        self.noise_std = noise_std

    def __call__(self, sums, generator):
        return sums + self.noise_std * generator.standard_normal(sums.shape)


class Unpriced:
    """Promises nothing, and takes whatever is said of it."""

    method, besides, assumptions = "composition", (), (SHOWN,)

    def assuming(self, *sentences: str) -> Unpriced:
        return self

    def for_testing(self) -> Unpriced:
        return self

    def noting(self, notes: Any) -> Unpriced:
        return self


@pytest.fixture
def unpriced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No accounting and no waiting for the disk."""
    monkeypatch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class Silent(np.random.Generator):
    """A generator without noise, which shuffles as it is told."""

    def __init__(self, permutations=()):
        super().__init__(np.random.PCG64(0))
        self.permutations = iter(permutations)

    def standard_normal(self, size=None, *args, **kwargs):
        return np.zeros(size)

    def permutation(self, x, axis=0):
        return np.array(next(self.permutations))


def held(path):
    """The arrays of a checkpoint."""
    with np.load(path, allow_pickle=False) as content:
        return {name: np.array(content[name]) for name in content.files}


def spoil(path, **changes):
    """Replaces arrays of a checkpoint; those that are None are left out."""
    content = {name: array for name, array in (held(path) | changes).items() if array is not None}
    with path.open("wb") as file:
        np.savez(file, **content)


def frames_of(error):
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def norm_squared(array):
    """The exact squared Euclidean norm of an array of doubles."""
    return sum((Fraction(float(v)) ** 2 for v in np.ravel(array)), Fraction(0))


def apart_squared(first, second):
    """The exact squared distance of two arrays of doubles."""
    pairs = zip(np.ravel(first), np.ravel(second), strict=True)
    return sum(((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in pairs), Fraction(0))


def assert_law(observed, law):
    """Pearson's test of values against {value: probability}, rare ones pooled; nothing else may occur."""
    counts, total = Counter(observed), len(observed)
    assert set(counts) <= set(law)
    common = [value for value, p in law.items() if p * total >= 10.0]
    cells = [(counts[value], law[value] * total) for value in common]
    rest = total - sum(expected for _, expected in cells)
    if rest > 1.0:
        cells.append((total - sum(count for count, _ in cells), rest))
    if len(cells) > 1:
        statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
        assert chi2.sf(statistic, len(cells) - 1) > RARE
        # Numbers that agree too well would not be independent draws.
        assert chi2.cdf(statistic, len(cells) - 1) > RARE or len(cells) < 10

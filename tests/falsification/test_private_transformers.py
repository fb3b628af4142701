"""Attacks on the private transformers as a whole: what one record moves all that they release.

A transformer asks, hears noisy answers and asks again. Given the same answers it asks adjacent tables the
same. So what it reveals is known exactly: the distance of all exact answers, in units of their noise. It must
not exceed μ of the guarantee, whatever the answers were. Answers are those of the first table.
"""

import math

import numpy as np
import pytest

from pabi.execute import statistics
from pabi.execute.noise import noisy
from pabi.learn import PrivateCategories, PrivateImputer, PrivateRanges, PrivateScaler
from pabi.tradeoff import Gaussian, Product

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

BUDGET = (2.0, 1e-5)
N, COLUMNS = 2000, 2
BOUNDED = {"feature_ranges": (-5.0, 5.0)}
MADE = {
    "ranges": lambda **c: PrivateRanges(*BUDGET, **c),
    "bounded ranges": lambda **c: PrivateRanges(*BUDGET, bounds=(-9.0, 9.0), **c),
    "scaler": lambda **c: PrivateScaler(*BUDGET, **c),
    "bounded scaler": lambda **c: PrivateScaler(*BUDGET, **BOUNDED, **c),
    "levels": lambda **c: PrivateCategories(*BUDGET, **c),
    "mean": lambda **c: PrivateImputer(*BUDGET, **c),
    "bounded mean": lambda **c: PrivateImputer(*BUDGET, **BOUNDED, **c),
    "median": lambda **c: PrivateImputer(*BUDGET, strategy="median", **c),
    "most frequent": lambda **c: PrivateImputer(*BUDGET, strategy="most_frequent", **c),
}
LEVELS = ("levels", "most frequent")
# Records whose values are at the ends of ranges, beyond them, or missing.
ODD = (-1e300, -9.0, -5.0, -1.0, 0.0, 1.0, 5.0, 9.0, 1e300, math.nan)


class Transcript:
    """In place of the noise that releases go through: the first fit writes down what it heard, the second one
    hears the same, and both write down the sums on the grid of the noise."""

    def __init__(self):
        self.heard, self.values, self.noises, self.place = [], [], [], None

    def __call__(self, sums, noise, grid, generator):
        values = np.rint(sums / grid) * grid
        if self.place is None:
            self.heard.append(noisy(sums, noise, grid, generator))
            self.values.append(values)
            self.noises.append((noise, grid))
            return self.heard[-1]
        heard, before = self.heard[self.place], self.values[self.place]
        assert values.shape == before.shape
        assert (noise, grid) == self.noises[self.place]
        self.values[self.place] = values - before
        self.place += 1
        return heard

    def again(self):
        self.place = 0

    @property
    def moved(self):
        """How far all answers are apart, in units of their noise."""
        assert self.place == len(self.heard) > 0
        pairs = zip(self.values, self.noises, strict=True)
        return math.sqrt(math.fsum(float(np.sum(np.square(v / s))) for v, (s, _) in pairs))


def revealed(make, table, other, monkeypatch, adjacency):
    """(how far two tables are apart, μ of the guarantee)."""
    transcript = Transcript()
    monkeypatch.setattr(statistics, "noisy", transcript)
    guarantee = make(adjacency=adjacency, random_state=0).fit(table).guarantee_
    transcript.again()
    make(adjacency=adjacency, random_state=0).fit(other)
    curve = guarantee.curve
    if isinstance(curve, Product):  # beside a probability of failure
        ((curve, _),) = curve.factors
    assert isinstance(curve, Gaussian)
    return transcript.moved, curve.mu


def tables(name, adjacency, rng):
    """Two adjacent tables: one record is replaced, or it is missing in the second."""
    table = np.round(rng.standard_normal((N, COLUMNS)) * 2.0)
    if name in LEVELS:
        table = np.clip(table, -2.0, 2.0)
    odd = (-2.0, 0.0, 2.0) if name in LEVELS else ODD
    first, second = rng.choice(odd, size=(2, COLUMNS))
    table[0] = first
    if adjacency == "zero_out":
        return table, table[1:]
    other = table.copy()
    other[0] = second
    return table, other


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("pairs", [6, pytest.param(100, marks=pytest.mark.nightly)])
def test_one_record_moves_all_that_is_released_by_no_more_than_is_stated(name, pairs, monkeypatch):
    for adjacency in ["replace_one", "zero_out"]:
        rng = np.random.default_rng(1)
        worst = 0.0
        for _ in range(pairs):
            table, other = tables(name, adjacency, rng)
            moved, mu = revealed(MADE[name], table, other, monkeypatch, adjacency)
            assert moved <= mu * (1.0 + 1e-9), adjacency
            worst = max(worst, moved / mu)
        assert worst > 0.6, adjacency  # so that the attack is one


def test_two_records_are_more_than_one(monkeypatch):
    """The same attack on tables that differ in two records exceeds what is stated of one."""
    for name in ["bounded ranges", "bounded scaler", "bounded mean"]:
        table = np.zeros((N, COLUMNS))
        other = table.copy()
        table[:2], other[:2] = -5.0, 5.0
        moved, mu = revealed(MADE[name], table, other, monkeypatch, "replace_one")
        assert moved > 1.2 * mu, name

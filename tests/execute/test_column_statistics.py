"""What is released of columns: exact sums, the described noise, and no question beyond the described ones."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import pabi
from pabi.execute.sources import Parts
from pabi.execute.statistics import FINENESS, Question, column_moments, conclusions, level_counts
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused


class Silent:
    """A generator whose noise rounds to 0."""

    def integers(self, low, high, size, dtype):
        return np.full(size, high - 1, dtype)


SILENT = Silent()


def described(statistic, n, columns, **changes):
    fields = {"noise_std": 2.0**-10, "adjacency": "zero_out", **changes}
    return pabi.NoisyColumnStatistics(n, columns, statistic, **fields)


def test_moments_are_the_sums_of_rounded_cells():
    """Cells beyond the range count as its ends."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 3))
    X[::7, 1], X[0, 0], X[1, 0] = math.nan, 9.0, -9.0
    sums = column_moments(described("moments", 500, 3), Parts.of(X), SILENT)
    for j in range(3):
        x = np.clip(X[~np.isnan(X[:, j]), j], -1.0, 1.0)
        assert sums[0, j] == pytest.approx(x.sum(), abs=len(x) / FINENESS)
        assert sums[1, j] == pytest.approx((1.0 - x * x).sum(), abs=4.0 * len(x) / FINENESS)
        assert sums[2, j] == 500 - len(x)


def released_of(x):
    """What one cell adds, as whole numbers over 2²⁰."""
    sums = column_moments(
        described("moments", 1, 1, noise_std=1e-300), Parts.of(np.array([[x]])), SILENT
    )
    return [Fraction(float(value)) for value in sums[:, 0]]


def test_rounded_cells_stay_within_the_stated_sensitivity():
    """In exact arithmetic, of all pairs of cells near the ends, 0 and ±1/√2, and of some at random."""
    rng = np.random.default_rng(1)
    ends = [k / FINENESS for k in (-FINENESS, 1 - FINENESS, 3 - FINENESS, -2, -1, 0)]
    random = [float(x) for x in rng.uniform(-1.0, 1.0, 20)]
    cells = [*ends, *(-x for x in ends), *random, math.sqrt(0.5), math.nan, 1.0 - 1e-9]
    parts = [released_of(x) for x in cells]
    alone = [sum(x * x for x in part) for part in parts]
    pairs = [
        sum((x - y) ** 2 for x, y in zip(one, other, strict=True))
        for one, other in itertools.product(parts, repeat=2)
    ]
    assert max(alone) == 1
    assert max(pairs) == 4


def test_counts_are_of_values_up_to_the_threshold():
    X = np.array([[3.0], [math.nan], [1.0], [2.0], [2.0]])

    def asking(j):
        answers = []
        for threshold in (0.5, 2.0, math.inf):
            answers.append((yield Question(threshold)))
        return tuple(answers)

    def answers(questions):
        one = described("counts", 5, 1, questions=questions)
        return conclusions(one, Parts.of(X), asking, SILENT)

    assert list(answers(3)) == [(0.0, 3.0, 4.0)]
    with pytest.raises(InvalidInput, match="questions"):
        answers(2)


def test_a_search_sees_noisy_answers_only():
    """The noise of every answer is fresh and normal, of the described standard deviation."""
    answers = []

    def asking(j):
        for _ in range(2000):
            answers.append((yield Question(0.0)))
        return ()

    one = described("counts", 50, 2, questions=2000, noise_std=3.0)
    conclusions(one, Parts.of(np.zeros((50, 2))), asking, np.random.default_rng(5))
    noise = (np.array(answers) - 50.0) / 3.0
    assert stats.kstest(noise, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.06


def test_the_noise_on_moments_and_levels_is_the_described_one():
    rng = np.random.default_rng(6)
    wide = column_moments(
        described("moments", 4, 1500, noise_std=7.0), Parts.of(np.ones((4, 1500))), rng
    )
    noise = (wide - np.array([[4.0], [0.0], [0.0]])) / 7.0
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    names = [[str(k) for k in range(3000)]]
    one = described("levels", 1, 1, noise_std=7.0)
    (counts,) = level_counts(one, [["x"]], rng, levels=names)
    assert stats.kstest(np.array(list(counts.values())) / 7.0, "norm").pvalue > 1e-3


def shown(cells, threshold, generator, noise=1.0):
    one = described("levels", len(cells), 1, noise_std=noise, threshold=threshold)
    return level_counts(one, [cells], generator)[0]


def test_a_level_of_one_record_is_shown_as_often_as_the_failure_says():
    rng = np.random.default_rng(7)
    times = sum("lone" in shown(["lone"], 1.0, rng) for _ in range(4000))
    low, high = stats.binom.ppf([1e-4, 1.0 - 1e-4], 4000, stats.norm.sf(1.0))
    assert low <= times <= high


def test_without_noise_one_record_is_never_shown_and_two_are():
    """Levels come sorted, whatever the order of records."""
    assert list(shown(["lone", "pair", "pair"], 0.5, SILENT)) == ["pair"]
    cells = ["b", "a", "", "10", "b", "a", "", "10"]
    one, other = (shown(order, 0.0, SILENT) for order in (cells, cells[::-1]))
    assert list(one) == list(other) == ["", "10", "a", "b"]


def test_declared_levels_are_all_counted_and_no_other():
    one = described("levels", 3, 1)
    (counts,) = level_counts(one, [["a", "a", "z"]], SILENT, levels=[["b", "a"]])
    assert counts == {"b": 0.0, "a": 2.0}
    with pytest.raises(InvalidInput, match="threshold"):
        level_counts(one, [["a", "a", "z"]], SILENT)


@every(
    ("changes", "field"),
    [({"n": 4}, "n"), ({"columns": 2}, "columns"), ({"statistic": "counts"}, "statistic")],
)
def test_other_tables_are_refused(changes, field):
    fields = {"n": 3, "columns": 1, "statistic": "moments", "noise_std": 1.0, **changes}
    refused(field, column_moments, pabi.NoisyColumnStatistics(**fields), np.zeros((3, 1)), SILENT)

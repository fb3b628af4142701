"""Attacks on statistics of columns: all outcomes of levels of tiny tables, and the best test on moments."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import pabi
from pabi.execute.sources import Parts
from pabi.execute.statistics import column_moments

NOISE, Z = 0.8, 1.2
LEVELS = "abc"


def outcome_probabilities(column):
    """(shown levels) ↦ probability, for one column of levels."""
    counts = Counter(column)
    out = {}
    for pattern in itertools.product((False, True), repeat=len(counts)):
        probability, shown = 1.0, []
        for (level, count), seen in zip(sorted(counts.items()), pattern, strict=True):
            p = stats.norm.sf((1.0 + Z * NOISE - count) / NOISE)
            probability *= p if seen else 1.0 - p
            shown += [level] * seen
        out[tuple(shown)] = probability
    return out


def of_all_columns(columns):
    """The same of several columns, drawn independently."""
    out = {(): 1.0}
    for column in columns:
        out = {
            (*before, one): p * q
            for before, p in out.items()
            for one, q in outcome_probabilities(column).items()
        }
    return out


def delta_between(one, other, epsilon):
    """The hockey-stick divergence of two discrete laws."""
    return sum(
        max(0.0, one.get(y, 0.0) - math.exp(epsilon) * other.get(y, 0.0))
        for y in set(one) | set(other)
    )


def adjacent(adjacency, columns, n):
    """All pairs of tables of n records that differ in the last one; a zeroed record has no level."""
    for rest in itertools.product(LEVELS, repeat=(n - 1) * columns):
        before = [list(rest[j::columns]) for j in range(columns)]
        records = list(itertools.product(LEVELS, repeat=columns))
        for record in records[:1] if columns > 1 else records:
            whole = [[*b, x] for b, x in zip(before, record, strict=True)]
            if adjacency == "zero_out":
                yield whole, before
                continue
            for other in records:
                yield whole, [[*b, x] for b, x in zip(before, other, strict=True)]


def law_of_users(users):
    """(shown levels) ↦ probability, of one column, where each of these users is one of their rows."""
    out = {}
    draws = list(itertools.product(*(rows for rows in users if rows)))
    for column in draws:
        for shown, p in outcome_probabilities(column).items():
            out[shown] = out.get(shown, 0.0) + p / len(draws)
    return out


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_no_outcome_of_levels_beats_the_curve_where_all_rows_of_a_user_are_others(adjacency):
    one = pabi.NoisyColumnStatistics(
        3, 1, "levels", noise_std=NOISE, threshold=Z, adjacency=adjacency, unit="user"
    )
    guarantee, epsilons = one.guarantee(0.5), (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
    claims = [guarantee.delta(epsilon) for epsilon in epsilons]
    everything = ["", "a", "d", "aad", "abc", "defg"]  # a letter a row
    worst = [0.0] * len(epsilons)
    for beside in (("a", "b"), ("ab", "bbc"), ("", "")):
        laws = [law_of_users([*beside, rows]) for rows in everything]
        instead = laws[:1] if adjacency == "zero_out" else laws
        for pair in itertools.chain(
            itertools.product(laws, instead), itertools.product(instead, laws)
        ):
            divergences = [delta_between(*pair, epsilon) for epsilon in epsilons]
            worst = [max(pair) for pair in zip(worst, divergences, strict=True)]
    assert all(got <= claim for got, claim in zip(worst, claims, strict=True))
    assert worst[-1] == pytest.approx(stats.norm.sf(Z), rel=1e-9)  # of a level that is theirs alone
    # Were all levels of a user counted by their shares, somebody with many would be shown by one of them.
    many = stats.norm.sf(Z + (1.0 - 1.0 / 60.0) / NOISE)
    assert 1.0 - (1.0 - many) ** 60 > claims[-1]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("columns", "n"), [(1, 4), (2, 2)])
def test_no_outcome_of_levels_beats_the_curve(adjacency, columns, n):
    one = pabi.NoisyColumnStatistics(
        n, columns, "levels", noise_std=NOISE, threshold=Z, adjacency=adjacency
    )
    guarantee = one.guarantee(0.5)
    epsilons = (0.0, 0.5, 1.0, 2.0, 4.0)
    claims = [guarantee.delta(epsilon) for epsilon in epsilons]
    worst = [0.0] * len(epsilons)
    for table, other in adjacent(adjacency, columns, n):
        laws = of_all_columns(table), of_all_columns(other)
        for k, epsilon in enumerate(epsilons):
            worst[k] = max(
                worst[k], delta_between(*laws, epsilon), delta_between(*laws[::-1], epsilon)
            )
    assert all(attack <= claim * (1.0 + 1e-9) for attack, claim in zip(worst, claims, strict=True))
    # Where hardly anything of the Gaussian is left, a lone level in every column is all that there is.
    failure = 1.0 - stats.norm.cdf(Z) ** columns
    assert worst[-1] >= failure * (1.0 - 1e-9)


def test_a_threshold_that_is_lower_than_stated_is_caught():
    """With levels of one record shown above 1 + Z/2 noises the attack exceeds what Z claims."""
    guarantee = pabi.NoisyColumnStatistics(
        1, 1, "levels", noise_std=50.0, threshold=Z, adjacency="zero_out"
    ).guarantee(0.5)
    lone = stats.norm.sf(Z / 2.0)
    assert lone > guarantee.delta(1.0)


@pytest.mark.parametrize(("adjacency", "other"), [("replace_one", -1.0), ("zero_out", None)])
def test_the_best_test_on_moments_reaches_the_claim_and_does_not_beat_it(adjacency, other):
    """Records of ones against −1 in every column, or against nothing, by the code that releases them."""
    n, d, noise = 2, 3, 2.5
    one = pabi.NoisyColumnStatistics(n, d, "moments", noise_std=noise, adjacency=adjacency)
    mu = one.guarantee(1e-3).mu
    rest = np.zeros((n - 1, d))
    with_record = np.vstack([rest, np.ones((1, d))])
    rng = np.random.default_rng(0)

    def scores(table):
        described = (
            one
            if len(table) == n
            else pabi.NoisyColumnStatistics(
                n - 1, d, "moments", noise_std=noise, adjacency=adjacency
            )
        )
        sums = [column_moments(described, Parts.of(table), rng)[0].sum() for _ in range(3000)]
        return np.array(sums) / (noise * math.sqrt(d))

    without = rest if other is None else np.vstack([rest, np.full((1, d), other)])
    present, absent = scores(with_record), scores(without)
    apart = float(np.mean(present) - np.mean(absent))
    assert apart == pytest.approx(mu, abs=4.0 * math.sqrt(2.0 / 3000.0))

"""Released second moments: the sums against rational arithmetic, the noise against its stated law."""

import itertools
import math
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse, stats

import pabi
from pabi.execute import statistics as module
from pabi.execute.noise import noisy
from pabi.execute.sources import Parts
from pabi.execute.statistics import (
    FINENESS,
    Question,
    column_moments,
    conclusions,
    level_counts,
    noise_factor,
    second_moments,
)
from pabi.learn import Records
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff.guarantee import TESTING
from support.every_case import every, refused
from support.execution import frames_of

DELTA = 1e-3
RECORDS = Records(np.eye(3), feature_norm=2.0, intercept_scaling=1.5)  # of norm 2.5
HALF_ULP = 2.0**-53
forms = every("diagonal", [False, True])


def release(records, random_state=1, **changes):
    """What is released of `records`, with noise that is small against integers unless stated."""
    fields = {"n": records.n, "dimension": records.width, "noise_std": 1e-9}
    if records.feature_norm is not None:
        fields["feature_norm"] = math.hypot(records.feature_norm, records.intercept_scaling or 0.0)
        fields["feature_norm"] *= 1.0 + 1e-15
    moments = pabi.NoisySecondMoments(**fields | changes)
    return second_moments(moments, records, random_state, delta=DELTA)


def exactly(rows, diagonal, kind=np.int64):
    """The sums over integer rows in integers; `object`: without end."""
    rows = rows.astype(kind)
    return (rows * rows).sum(axis=0) if diagonal else rows.T @ rows


@forms
@pytest.mark.parametrize("shape", [(1, 1), (50, 3), (9000, 4), (4200, 270), (3, 700)])
@every("held_as", ["float64", "float32", "int16", "fortran", "sparse"])
def test_sums_of_integers_are_exact(shape, held_as, diagonal):
    """Over several blocks of rows and several strips of columns."""
    X = np.random.default_rng(0).integers(-9, 10, shape)
    match held_as:
        case "fortran":
            kept = np.asfortranarray(X, dtype=np.float64)
        case "sparse":
            kept = sparse.csr_matrix(X * (X % 7 == 0), dtype=np.float64)
            X = kept.toarray().astype(np.int64)
        case dtype:
            kept = X.astype(dtype)
    values, _ = release(Records(kept, feature_norm=1e4), diagonal=diagonal)
    assert np.array_equal(np.rint(values), exactly(X, diagonal, np.float64))
    assert np.max(np.abs(values - np.rint(values))) < 1e-8


@forms
def test_sums_round_by_less_than_the_noise_makes_room_for(diagonal):
    """Integers of 25 bits, whose squares fill a double, so that every addition rounds."""
    n, d = 10_000, 3
    X = np.random.default_rng(1).integers(2**24, 2**25, (n, d))
    radius = math.ceil(2**25 * math.sqrt(d))
    sums = module._sums_of_squares if diagonal else module._products
    computed = sums(Records(X.astype(np.float64), feature_norm=float(radius)))
    error = computed.astype(object) - exactly(X, diagonal, object)
    if not diagonal:
        error = np.triu(error.astype(np.float64))
        error = error + np.triu(error, 1).T  # as it is released
    room = 2.0 * n * (4096 + 16.0) * HALF_ULP
    off = float(np.linalg.norm(error.astype(np.float64)))
    assert 0.0 < off <= room / 2.0 * radius**2


def test_sums_of_many_blocks_do_not_drift():
    """A million equal rows, whose squares are no doubles: blocks are added up with compensation."""
    X = np.full((1_000_000, 1), 0.1)
    computed = module._products(Records(X, feature_norm=1.0))[0, 0]
    truth = 10**6 * Fraction(0.1) ** 2
    assert abs(Fraction(float(computed)) - truth) <= truth * 4096 * HALF_ULP


@every("strip", [1, 7, 256])
def test_the_matrix_is_symmetric_and_sealed(monkeypatch, strip):
    monkeypatch.setattr(module, "_STRIP", strip)
    X = np.random.default_rng(4).standard_normal((40, 20))
    released = release(Records(X, feature_norm=5.0), noise_std=2.0)
    assert np.array_equal(released.values, released.values.T)
    assert not released.values.flags.writeable
    assert released.values.base is None or not released.values.base.flags.writeable
    monkeypatch.setattr(module, "_STRIP", 256)
    again = release(Records(X, feature_norm=5.0), noise_std=2.0)
    assert np.max(np.abs(again.values - released.values)) <= 2.0 * 2.0**-19


def noise_of(count, d, diagonal, **changes):
    """(count, k): what is drawn of the noise, in units in which the stated law is N(0, I)."""
    generator = np.random.default_rng(6)
    records = Records(np.zeros((7, d)), feature_norm=1.0)
    fields = {"noise_std": 4.0, "diagonal": diagonal, **changes}
    drawn = np.array([release(records, generator, **fields).values for _ in range(count)])
    if diagonal:
        return drawn / 4.0
    upper = np.triu_indices(d)
    return drawn[:, *upper] / np.where(upper[0] == upper[1], 4.0, 4.0 * math.sqrt(0.5))


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_noise_has_the_stated_covariance(diagonal):
    """N times the mean square of every number is χ²_N, and N times that of every correlation about χ²_1."""
    N, d = 1000, 4
    z = noise_of(N, d, diagonal)
    k = z.shape[1]
    assert k == (d if diagonal else d * (d + 1) // 2)
    low, high = stats.chi2.ppf([0.001 / 6.0, 1.0 - 0.001 / 6.0], N * k)
    assert low < np.sum(z * z) < high
    each = np.sum(z * z, axis=0)
    assert np.all(stats.chi2.sf(each, N) > 0.0005 / k)
    assert np.all(stats.chi2.cdf(each, N) > 0.0005 / k)
    products = (z.T @ z)[np.triu_indices(k, 1)] ** 2 / N
    assert np.sum(products) < stats.chi2.isf(0.0005, len(products))
    assert abs(np.sum(z)) < 4.0 * math.sqrt(N * k)
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.001


@forms
def test_the_noise_does_not_depend_on_the_records(diagonal):
    """The same seed on other records: what differs is the sum, up to the grid."""
    X = np.random.default_rng(7).integers(-3, 4, (50, 5))
    one, other = (
        release(Records(rows, feature_norm=9.0), 8, noise_std=1.0, diagonal=diagonal).values
        for rows in (X.astype(np.float64), np.zeros((50, 5)))
    )
    difference = one - other
    assert np.max(np.abs(difference - exactly(X, diagonal).astype(np.float64))) <= 2.0**-19


@forms
@every("noise_std", [1e-300, 1e-6, 3.0, 1e12])
def test_what_is_released_lies_on_a_grid(monkeypatch, noise_std, diagonal):
    """So fine that rounding the sums to it adds less than 2⁻²² of R², or what the noise is raised by."""
    X = np.random.default_rng(9).standard_normal((30, 6))
    seen = []
    monkeypatch.setattr(module, "noisy", lambda *a: seen.append((a[0].size, *a[1:3])) or noisy(*a))
    records = Records(X, feature_norm=1.5)
    values = release(records, noise_std=noise_std, diagonal=diagonal).values
    ((grid,),) = {(grid,) for *_, grid in seen}
    assert math.frexp(grid)[0] == 0.5
    assert np.all(values / grid % 1.0 == 0.0)
    assert np.any(values / grid % 4.0 != 0.0) or noise_std < 1e-99
    assert all(s <= 2**46 * grid and (s <= 1e-99 or 2**19 * grid <= s) for _, s, _ in seen)
    moved = grid * (math.sqrt(6.0) if diagonal else 6.0) / 1.5**2
    assert moved <= 2.0**-22 or noise_std >= 1e12
    assert noise_std * (1.0 + moved) <= seen[0][1] <= noise_std * (1.01 + 3.0 * moved)


def test_the_noise_is_raised_by_what_rounding_may_add(monkeypatch):
    """Of the sensitivity R², the lesser of the two; so it is more than enough of √2·R²."""
    for n in (1, 4096, 10**6, 10**9):
        room = 2.0 * n * (min(n, 4096) + 16.0) * HALF_ULP
        assert 1.0 + room <= noise_factor(n) <= 1.0 + room + 1.01 * room**2 + 1e-15
    refused("n", noise_factor, 10**12)
    one = noise_of(3, 4, False)
    monkeypatch.setattr(module, "noise_factor", lambda *_: 2.0)
    np.testing.assert_allclose(noise_of(3, 4, False), 2.0 * one, atol=1e-5)


@forms
def test_secret_noise_is_fresh(diagonal):
    records = Records(np.eye(3), feature_norm=1.0)
    moments = pabi.NoisySecondMoments(3, 3, 1.0, noise_multiplier=2.0, diagonal=diagonal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (second_moments(moments, records, delta=0.1) for _ in range(2))
    assert np.all(one.values != other.values)
    assert one.values.shape == ((3,) if diagonal else (3, 3))
    assert one.guarantee.curve == moments.guarantee(0.1).curve
    assert one.guarantee.tuned_at == 0.1
    assert TESTING not in one.guarantee.assumptions


@every("random_state", [0, np.random.default_rng(0)])
def test_known_noise_protects_nobody(random_state):
    records = Records(np.eye(3), feature_norm=1.0)
    moments = pabi.NoisySecondMoments(3, 3, 1.0, noise_std=2.0)
    with pytest.warns(pabi.PrivacyWarning, match="testing only") as seen:
        values, guarantee = second_moments(moments, records, random_state, delta=0.1)
    assert seen[0].filename == __file__
    assert TESTING in guarantee.assumptions
    assert guarantee.certificate is None
    if random_state == 0:
        assert np.array_equal(release(records, 0, noise_std=2.0).values, values)


def test_a_large_delta_is_warned_of_and_a_longer_norm_may_be_stated():
    moments = pabi.NoisySecondMoments(3, 3, 1.0, noise_std=2.0)
    with pytest.warns(pabi.PrivacyWarning, match="exceeds 1/n"):
        second_moments(moments, Records(np.eye(3), feature_norm=1.0), delta=0.5)
    values, _ = release(RECORDS, feature_norm=99.0)
    assert np.rint(values[3, 3] / 1.5**2) == 3.0


WRONG = {
    "n": [{"n": 4}],
    "dimension": [{"dimension": 3}],
    "feature_norm": [
        *({"feature_norm": norm} for norm in (2.0, 1e130, math.nextafter(2.5, 0.0))),
        {"records": Records(np.eye(3), intercept_scaling=1.5)},
    ],
    "noise_std": [{"noise_std": 1e14}, {"noise_std": None}],
    "random_state": [{"random_state": "seed"}, {"random_state": -1}],
    "records": [{"records": np.eye(3)}],
    "moments": [{"moments": pabi.Cyclic(3)}],
    "delta": [{"delta": 1.0}],
}


@every("field", WRONG)
def test_bad_input_names_the_field(monkeypatch, field):
    """And nothing is computed from the data."""
    monkeypatch.setattr(module, "_rows", lambda records: pytest.fail("the data was touched"))
    fields = {"n": 3, "dimension": 4, "feature_norm": 2.5, "noise_std": 1.0}
    for changes in WRONG[field]:
        stated = pabi.NoisySecondMoments(**{k: changes.get(k, v) for k, v in fields.items()})
        given = changes.get("moments", stated), changes.get("records", RECORDS)
        state, delta = changes.get("random_state"), changes.get("delta", DELTA)
        refused(field, second_moments, *given, state, delta=delta)


@forms
@every("held_as", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_exceptions_carry_nothing(monkeypatch, error, held_as, diagonal):
    """Whatever interrupts a release when the sums are there: no frame below has a sum or a generator left."""

    def interrupted(sums, noise_std, grid, generator):
        raise error("a bug")

    monkeypatch.setattr(module, "noisy", interrupted)
    records = Records(held_as(np.eye(3)), feature_norm=1.0)
    moments = pabi.NoisySecondMoments(3, 3, 1.0, noise_std=2.0, diagonal=diagonal)
    with pytest.raises(error) as caught:
        second_moments(moments, records, delta=0.1)
    here = sys._getframe().f_code
    below = [f for f in frames_of(caught.value)[1:] if f.f_code is not here]
    names = [f.f_code.co_name for f in below]
    assert names[:5] == ["second_moments", "noisy_moments", "release", "released", "unseen"]
    assert [f.f_locals for f in below[5:] if f.f_locals] == []
    hidden = np.ndarray, np.random.Generator, np.random.BitGenerator
    assert not [v for f in below for v in f.f_locals.values() if isinstance(v, hidden)]


# Columns: exact sums, the described noise, and no question beyond the described ones.


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

"""Batches of users: iterates equal to those of a loop over users, and refusals of what is not known."""

import datetime
import itertools
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import pabi
from pabi import Cyclic, FullBatch, InvalidInput, Loss, NoisySGD, Poisson, ShuffleOnce
from pabi.execute import sums
from pabi.execute.engine import clipped_sum
from pabi.execute.large_records import RowMap
from pabi.execute.records import Records
from pabi.execute.statistics import _products, _roots, _sums_of_squares
from pabi.execute.sums import Limit, UserRows, per_record_sum
from pabi.learn import LogisticGradients, OneVsRestGradients, second_moments, train
from support.every_case import every, refused

RNG = np.random.default_rng(5)
M, D, USERS, STEPS = 60, 3, 12, 4
X = RNG.normal(size=(M, D))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
Y = np.arange(M) % 2
IDS = RNG.integers(0, 10, size=M)  # users 10 and 11 have no rows


FULL = FullBatch()


def run_of(batches=FULL, **fields):
    given = {"steps": STEPS, "step_size": 0.5, "noise_std": 0.3, "unit": "user"} | fields
    return NoisySGD(given.pop("loss", Loss.logistic(1.0, l2=0.1)), USERS, batches, **given)


def clipped(gradient, most):
    return gradient * min(1.0, most / max(np.linalg.norm(gradient), 1e-300))


def by_loop(gradient_of, rows_of, run, seed):
    """The iterate of a loop over users, each with the mean of clipped gradients, in full batches."""
    x, noise = np.zeros(D), np.random.default_rng(seed)
    for _ in range(STEPS):
        total = np.zeros(D)
        for rows in rows_of:
            if len(rows):
                total += np.mean([clipped(gradient_of(x, i), run.clip_norm) for i in rows], axis=0)
        xi = run.noise_std * noise.standard_normal(D)  # on the iterate, as the path is hidden
        x = x - run.step_size * (total / USERS + run.loss.l2 * x - xi)
    return x


def logistic(x, i):
    sign = 2 * Y[i] - 1
    return -sign * X[i] / (1.0 + np.exp(sign * X[i] @ x))


ROWS = [np.flatnonzero(u == IDS) for u in range(USERS)]


@every("how", ["norm", "residual", "own gradients"])
def test_gradients_are_averaged_by_user(unrounded, how):
    """One predictor: clipping convexly is scaling down."""

    def own(x, rows):
        return np.array([logistic(x, i) for i in rows])

    run = run_of(clip_norm=0.4, clipping="residual" if how == "residual" else "norm")
    gradients = LogisticGradients(X, Y)
    if how == "own gradients":
        loss = Loss.convex(0.25, l2=0.1, gradient_bound=1.0)
        run, gradients = run_of(loss=loss, clip_norm=0.4), own
    got = train(run, gradients, np.zeros(D), np.random.default_rng(3), groups=IDS)
    assert got.x == pytest.approx(by_loop(logistic, ROWS, run, 3), abs=1e-6)
    assert got.guarantee.unit == "user"


def test_one_row_each_is_what_it_was_without_users():
    gradients = LogisticGradients(X[:USERS], Y[:USERS])
    one, other = (
        train(run_of(clip_norm=0.4, unit=unit), gradients, np.zeros(D), 1, groups=groups)
        for unit, groups in (("user", RNG.permutation(USERS)), ("record", None))
    )
    assert one.x == pytest.approx(other.x, abs=1e-6)
    assert (one.guarantee.unit, other.guarantee.unit) == ("user", "record")
    assert one.guarantee.epsilon(1e-3) == other.guarantee.epsilon(1e-3)


@every(
    "batches",
    [
        *(ShuffleOnce(5), Poisson(5), pabi.Reshuffle(5), Cyclic(5)),
        pabi.BallsInBins(5, redraw="epoch"),
    ],
)
def test_every_scheme_draws_users(batches):
    """Almost without noise the sum over an epoch of ones is that of the users with rows."""
    loss = Loss.convex(1.0, gradient_bound=1.0)
    given = {"epochs": 1, "step_size": 1.0, "noise_std": 1e-6, "clip_norm": 1.0, "unit": "user"}
    run, seen = NoisySGD(loss, USERS, batches, **given), []

    def gradients(x, rows):
        seen.extend(rows.tolist())
        return np.full((len(rows), 1), -1.0)

    got = train(run, gradients, np.zeros(1), np.random.default_rng(2), groups=IDS)
    drawn, times = {int(IDS[i]) for i in seen}, np.bincount(seen, minlength=M)
    assert all(len(set(times[rows].tolist())) == 1 for rows in ROWS if len(rows))
    if not isinstance(batches, Poisson):
        assert len(drawn) == len(set(IDS.tolist()))
        assert got.x[0] == pytest.approx(len(drawn) / 5, abs=1e-4)


def test_many_rows_are_summed_in_parts(monkeypatch):
    """As many gradients as are held at once, and the exact sum of all."""
    monkeypatch.setattr(sums, "_HELD", 30)
    run, asked = run_of(loss=Loss.unknown(), clip_norm=1.0), []

    def gradients(x, rows):
        asked.append(len(rows))
        return np.full((len(rows), D), 1.0 / np.sqrt(D))

    total = per_record_sum(gradients, run, UserRows.of(np.zeros(100, int), USERS))
    value = total(np.zeros(D), slice(0, USERS))
    assert max(asked) == 10
    assert np.linalg.norm(value) <= 1.0
    assert value == pytest.approx(np.full(D, 1.0 / np.sqrt(D)), rel=1e-9)


@every(
    "ids",
    [
        *(IDS, IDS.astype(str), IDS.astype(str).astype(object), IDS.astype(float)),
        pd.Series(IDS.astype(str), index=np.arange(M)[::-1]),
        *(pd.Series(IDS).astype("category"), IDS.tolist(), IDS + 10**12),
    ],
)
def test_ids_of_any_kind_make_the_same_users(ids):
    groups = UserRows.of(ids, USERS)
    assert (groups.users, len(groups)) == (USERS, M)
    sets = {frozenset(groups.rows(np.array([u])).tolist()) for u in range(USERS)}
    assert sets == {frozenset(rows.tolist()) for rows in ROWS}
    for u in range(USERS):
        own = groups.rows(np.array([u]))
        assert groups.shares[own].sum() <= 1.0
        assert groups.shares[own].sum() == pytest.approx(float(len(own) > 0), abs=1e-12)
    assert groups.rows(slice(0, USERS)).tolist() == groups.rows(np.arange(USERS)).tolist()
    numbers = groups.users_of_rows()
    assert all(len(set(numbers[rows].tolist())) == 1 for rows in ROWS if len(rows))


def test_a_list_of_the_enrolled_decides_their_numbers():
    names = [f"u{k}" for k in range(USERS)]
    groups = UserRows.of([names[k] for k in IDS], names)
    assert groups.placed
    assert all(groups.rows(np.array([u])).tolist() == ROWS[u].tolist() for u in range(USERS))
    some = groups.among(np.array([3, 10, 1]))
    assert [some.rows(np.array([j])).size for j in range(3)] == [len(ROWS[u]) for u in (3, 10, 1)]


@every(
    ("ids", "users", "field"),
    [
        *((IDS, 5, "groups"), (IDS.astype(str), 9, "groups"), (IDS, [1, 2, 3], "groups")),
        *((IDS, users, "users") for users in ([*range(12), 3], 0, 2.5, [[1], [2]])),
        (np.where(IDS == 3, np.nan, IDS), 12, "groups"),
        (np.array(["a", None], object), 12, "groups"),
        (IDS[:, None], 12, "groups"),
        ([], 12, "groups"),
    ],
)
def test_wrong_ids_are_refused_without_showing_them(ids, users, field):
    refused(field, UserRows.of, ids, users)


BIG = 2**60
OTHERS = {
    "large integers": [BIG + k for k in (0, 1, 2, 1, 0, 3)],
    "text": ["a", "a\0", "b", "a\0", "1", "b"],
    "numbers": [0, 1, 2, 1, 0, 2],
    "doubles": [0.5, 1.0, 2.0, 1.0, 0.5, 3.0],
    "dates": [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")] * 3,
    "truth": [True, False, True, True, False, True],
}
ODD = [
    *(8.5, "x", b"x", 10**400, (1, "a"), -1, 2.0**70, "nan", np.int8(7)),
    pd.Timestamp("1999-01-01"),
]


def parted(groups, rows):
    """Which of the first rows belong together."""
    numbers = groups.users_of_rows()[:rows].tolist()
    return {tuple(i for i, one in enumerate(numbers) if one == user) for user in set(numbers)}


@every("form", [list, pd.Series, tuple, lambda ids: pd.Series(ids, dtype=object)])
@pytest.mark.parametrize("kind", OTHERS)
@every("odd", ODD)
def test_an_odd_id_neither_merges_nor_parts_others(form, kind, odd):
    others = OTHERS[kind]
    if form is pd.Series and kind == "large integers" and isinstance(odd, float):
        form = list  # pandas would have rounded them
    expected = parted(UserRows.of(others), 6)
    assert expected == {tuple(i for i in range(6) if others[i] == one) for one in others}
    for users in (None, 100):
        assert parted(UserRows.of(form([*others, odd]), users), 6) == expected
    listed = UserRows.of(form([*others, odd]), [*dict.fromkeys([*others, odd])])
    assert parted(listed, 6) == expected


def test_ids_are_told_apart_as_python_does():
    """A declared user of another type is the same user."""
    same = [(1, 1.0), (1, np.int64(1)), ("a", np.str_("a")), (BIG, float(BIG)), (True, 1)]
    apart = [(1, "1"), ("a", "a\0"), (BIG, BIG + 1), (b"a", "a"), ("a", "a ")]
    assert all(UserRows.of(list(pair)).users == 1 for pair in same)
    assert all(UserRows.of(list(pair)).users == 2 for pair in apart)
    users = [BIG + 3 * k for k in range(100)]
    odd = [*users[:-1], float(users[0])]
    assert parted(UserRows.of(odd, users), 100) == {(0, 99), *((i,) for i in range(1, 99))}
    assert UserRows.of(users, [*users[:-1], np.int64(users[-1])]).users == 100


# numpy finds its numbers equal to integers that round to them, and hashes repeat after 2⁶¹ − 1.
EDGE, ROUNDED = 2**120, 2**120 + 2**61 - 1
MIDNIGHT = datetime.datetime(2020, 1, 1)


@every(
    ("odd", "same", "other"),
    [
        (np.float64(EDGE), EDGE, ROUNDED),
        (np.float32(EDGE), EDGE, ROUNDED),
        (np.longdouble(EDGE), EDGE, ROUNDED),
        ((0, np.float64(EDGE)), (0, EDGE), (0, ROUNDED)),
        (pd.Timestamp(MIDNIGHT), np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00:01")),
        (pd.Timestamp(MIDNIGHT), MIDNIGHT, np.datetime64("2020-01-02")),
        (np.datetime64("2020", "Y"), MIDNIGHT, datetime.date(2020, 1, 1)),
        (np.timedelta64(24, "h"), datetime.timedelta(1), 1),
        (np.timedelta64(1, "D"), pd.Timedelta(1, "D"), np.int64(1)),
    ],
)
def test_which_ids_are_the_same_does_not_depend_on_others(odd, same, other):
    for turn in itertools.permutations(range(3)):
        numbers = UserRows.of([(odd, same, other)[i] for i in turn]).users_of_rows().tolist()
        first, second, third = (numbers[turn.index(i)] for i in range(3))
        assert first == second != third
    assert UserRows.of([same, other]).users == 2
    assert UserRows.of([odd, same], [other, same]).users_of_rows().tolist() == [1, 1]
    with pytest.raises(InvalidInput, match="not among the declared users"):
        UserRows.of([odd], [other])


TIMES = [
    *(np.timedelta64(1), np.timedelta64(1, "Y"), np.timedelta64(2**60, "W")),
    *(np.datetime64(1, "ns"), np.datetime64(2**60, "W"), np.datetime64("10000-01-01")),
]


@every("time", TIMES)
def test_times_that_python_has_not_are_refused(time):
    for ids, users in itertools.product(([1, time], [("a", time)]), (None, 20, [1, 2])):
        assert "expected times" in refused("groups", UserRows.of, ids, users)
    assert "expected times" in refused("users", UserRows.of, [1], np.array([time]))


def test_whole_numbers_number_users_whatever_their_type():
    """Times do not."""
    for ids in ([2, 1.0, 0], np.array([2.0, 1.0, 0.0]), [np.longdouble(2), np.True_, Decimal(0)]):
        groups = UserRows.of(ids, 5)
        assert groups.placed
        assert groups.users_of_rows().tolist() == [2, 1, 0]
    for odd in (2.5, np.timedelta64(5, "D"), datetime.timedelta(5)):
        groups = UserRows.of([5, odd, 1], 20)
        assert not groups.placed
        assert parted(groups, 3) == {(0,), (1,), (2,)}


@every("missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), np.inf, [1], {"a": 1}])
def test_rows_without_an_id_are_refused(missing):
    for ids in ([1, 2, missing], ["a", missing], np.array(["a", missing, "b"], dtype=object)):
        assert "expected " in refused("groups", UserRows.of, ids, 4)
    for ids in (np.array(["2020", "NaT"], dtype="M8[D]"), np.array([1j, 2j])):
        refused("groups", UserRows.of, ids)


@every("kind", ["i8", "f8", "U3", "M8[D]", "O"])
def test_a_masked_id_is_a_missing_one(kind):
    cells = np.array([1, 2, 3, 4]).astype(kind)
    refused("groups", UserRows.of, np.ma.array(cells, mask=[0, 1, 0, 1]))
    assert UserRows.of(np.ma.array(cells)).users == 4


UNEQUAL = [
    *(lambda: (1.0, float("nan")), lambda: (1, ("a", (np.float32("nan"),))), lambda: (1, pd.NaT)),
    *(lambda: ("a", None), lambda: (1, np.inf), lambda: (1, object()), object, lambda: 1j),
    *(lambda: frozenset({float("nan")}), lambda: frozenset({1}), lambda: np.ma.masked),
    *(lambda: Decimal("NaN"), lambda: Decimal("sNaN")),
]


@every("fresh", UNEQUAL)
def test_ids_that_do_not_equal_their_like_are_refused(fresh):
    """Each row's would be a user of its own, and one person as many users as they have rows."""
    for users in (None, 9, [1, 2]):
        refused("groups", UserRows.of, [fresh() for _ in range(3)], users)
    refused("users", UserRows.of, [1, 2], [1, 2, fresh()])


def test_known_ids_are_told_apart_by_their_values():
    for make in (
        lambda k: uuid.UUID(int=k),
        lambda k: (k, ("a", float(k))),
        lambda k: Decimal(k),
        lambda k: datetime.date(2020, 1, k),
        lambda k: pd.Timestamp(2020, 1, k),
        lambda k: np.datetime64(f"2020-01-{k:02}"),
        lambda k: bytes([k]),
    ):
        groups = UserRows.of([make(k) for k in (1, 2, 1, 3, 2)])
        assert groups.users_of_rows().tolist() == [0, 1, 0, 2, 1]
    assert UserRows.of(pd.MultiIndex.from_tuples([(1, "a"), (2, "a"), (1, "a")])).users == 2


def test_users_and_groups_belong_together():
    gradients = LogisticGradients(X, Y)
    for field, run, groups in (
        ("groups", run_of(), None),
        ("groups", run_of(), IDS[:-1]),
        ("groups", run_of(Cyclic(5)), IDS.astype(str)),
        ("unit", run_of(unit="record"), IDS),
    ):
        refused(field, train, run, gradients, np.zeros(D), 0, groups=groups)
    with pytest.raises(InvalidInput, match="^groups: "):
        train(run_of(), None, np.zeros(D), 0, clipped_gradient_sum=lambda x, r, c: x, groups=IDS)
    for loss in (Loss.strongly_convex(0.1, 1.0), Loss.dissipative(1.0, 0.5, 1.0)):
        refused("unit", run_of, loss=loss, clip_norm=1.0)  # a user without rows has no such loss


# A row's contribution must not depend on where the row is, since other users' rows move it.


def test_a_row_contributes_the_same_wherever_it_is():
    gradients = OneVsRestGradients(RNG.normal(size=(300, 37)), np.arange(300) % 3, 3)
    stated = run_of(loss=Loss.one_vs_rest(100.0, 3), clip_norm=1.0, clipping="residual")
    limit, theta, shares = Limit.of(stated, 4096), RNG.normal(size=(37, 3)), np.zeros(300)
    assert limit.anywhere
    shares[123] = 1.0
    alone = gradients.clipped_sum(theta, np.array([123]), limit)
    assert np.array_equal(alone, gradients.clipped_sum(theta, np.arange(300), limit, shares))


def test_coordinates_of_a_row_are_the_same_wherever_it_is():
    """As where batches are drawn anew. All other rows are zero, so that the sums are those of one."""
    rng, rows = np.random.default_rng(8), np.zeros((300, 37))
    rows[123] = rng.normal(size=37)
    gradients = OneVsRestGradients(Records(rows, 50.0), np.arange(300) % 3, 3)
    clips = {"clip_norm": 1.0, "clipping": "coordinates"}
    stated = {"steps": STEPS, "step_size": 0.5, "noise_std": 0.3} | clips
    run = NoisySGD(Loss.one_vs_rest(50.0, 3), 300, Poisson(100), **stated)
    total = clipped_sum(run, gradients)
    for theta in rng.normal(size=(20, 37, 3)):
        alone = total(theta, np.array([123]))
        assert np.array_equal(alone, total(theta, np.arange(300)))
        assert np.array_equal(alone, total(theta, np.arange(120, 145)))


def test_a_mapped_row_is_the_same_wherever_it_is():
    wide = RNG.normal(size=(500, 41))
    root = RNG.normal(size=(41, 41))
    row_map = RowMap(root + root.T, 50.0, 1.0, True)
    table = row_map.table(Records(wide, 50.0), anywhere=True)
    for first in (1, 7, 130):
        moved = row_map.table(Records(wide[first:], 50.0), anywhere=True)
        assert np.array_equal(table[first:], moved)
    assert table == pytest.approx(row_map.table(Records(wide, 50.0)), abs=1e-5)


@every("intercept", [None, 0.5])
@every("sparse", [False, True])
def test_second_moments_are_means_of_users(intercept, sparse):
    from scipy.sparse import csr_matrix

    records = Records(csr_matrix(X) if sparse else X, 1.0, intercept)
    seen = records.dense(slice(0, M))
    expected = sum(seen[rows].T @ seen[rows] / len(rows) for rows in ROWS if len(rows))
    factors = _roots(UserRows.of(IDS, USERS))
    triangle = np.triu(_products(records, factors))
    assert triangle == pytest.approx(np.triu(expected), abs=1e-12)
    assert _sums_of_squares(records, factors) == pytest.approx(np.diag(expected), abs=1e-12)
    assert np.trace(_products(records, factors)) <= np.trace(expected)


def test_moments_and_groups_belong_together():
    records = Records(X, 1.0)
    moments = pabi.NoisySecondMoments(USERS, D, 1.0, noise_std=1.0, unit="user")
    got = second_moments(moments, records, 0, delta=0.01, groups=IDS)
    assert got.guarantee.unit == "user"
    by_record = pabi.NoisySecondMoments(M, D, 1.0, noise_std=1.0)
    for wrong, groups in ((moments, None), (by_record, IDS), (moments, IDS[1:])):
        with pytest.raises(InvalidInput):
            second_moments(wrong, records, 0, delta=0.01, groups=groups)

"""The batches of runs in a fixed or a permuted order and in bins, and which secrets a run can be in."""

import itertools
import math
import stat
from collections import Counter

import numpy as np
import pytest

import pabi
from pabi.execute.batches import batch_rows, fits
from pabi.learn import train
from support.every_case import every
from support.execution import Crash, assert_law

pytestmark = [
    pytest.mark.filterwarnings("ignore::pabi.numbers.errors.PrivacyWarning"),
    pytest.mark.usefixtures("free"),
]

SMALL = [(n, size) for n in range(1, 7) for size in range(1, n + 1)]


def run_of(n, batches, steps=12):
    return pabi.NoisySGD(
        pabi.Loss.logistic(1.0), n=n, batches=batches, steps=steps, step_size=0.1, noise_std=1.0
    )


def rows_of(served, n):
    """The rows of a batch as a tuple."""
    return tuple(np.arange(n)[served].tolist())


def cut(rows, size):
    return [tuple(rows[a : a + size]) for a in range(0, len(rows), size)]


def epochs_of(n, batches, count, seed=0, secret=None):
    """The batches of so many epochs, a list each."""
    order = batch_rows(run_of(n, batches), np.random.default_rng(seed), secret)
    per_epoch = -(-n // batches.batch_size(n))
    steps = iter(range(count * per_epoch))
    return [
        [rows_of(order.batch(k), n) for k in itertools.islice(steps, per_epoch)]
        for _ in range(count)
    ]


class NoDraws:
    """A generator that nobody may draw from."""

    def __getattr__(self, name):
        raise AssertionError(f"drawn: {name}")


@every(("n", "size"), SMALL)
def test_rows_in_order_need_no_randomness(n, size):
    """Every epoch is the rows cut into batches, the last one as long as is left."""
    batches = [pabi.Cyclic(size), *([pabi.FullBatch()] if size == n else [])]
    for scheme in batches:
        order = batch_rows(run_of(n, scheme), NoDraws())
        wanted = cut(range(n), size)
        found = [rows_of(order.batch(k), n) for k in range(3 * len(wanted))]
        assert found == wanted * 3
        assert order.secret is None


@pytest.mark.parametrize(
    ("n", "size", "spare"),
    [*((3, 1, 0), (4, 1, 0), (4, 2, 0), (5, 2, 0), (4, 3, 0)), (3, 1, 1), (5, 2, 1), (5, 2, 2)],
)
@pytest.mark.parametrize("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_all_partitions_in_order_are_equally_likely(kind, n, size, spare):
    """Of all records but so many, all of which are equally likely to be left out."""
    drawn, found, run = n - spare, [], run_of(n, kind(size, spare))
    for seed in range(3000):
        order = batch_rows(run, np.random.default_rng(seed))
        epoch = [rows_of(order.batch(k), n) for k in range(-(-drawn // size))]
        assert len(set(itertools.chain(*epoch))) == drawn
        assert [len(b) for b in epoch] == [len(b) for b in cut(range(drawn), size)]
        found.append(tuple(frozenset(b) for b in epoch))
    orders = itertools.permutations(range(n), drawn)
    partitions = {tuple(frozenset(b) for b in cut(p, size)) for p in orders}
    assert_law(found, dict.fromkeys(partitions, 1 / len(partitions)))


@every("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
@every("n, size, spare", [(7, 3, 1), (8, 3, 2), (9, 2, 3), (12, 4, 8)])
def test_spare_records_are_the_last_of_the_permutation(kind, n, size, spare):
    """The same ones in all epochs, or others in each. So many records have to be left for a batch."""
    drawn = n - spare
    run = run_of(n, kind(size, spare), steps=40)
    order, period = batch_rows(run, np.random.default_rng(2)), -(-drawn // size)
    left_out = []
    for first in range(0, 8 * period, period):
        epoch = [rows_of(order.batch(k), n) for k in range(first, first + period)]
        assert epoch == cut(order.secret[:drawn].tolist(), size)
        left_out.append(frozenset(range(n)) - set(itertools.chain(*epoch)))
        assert left_out[-1] == set(order.secret[drawn:].tolist())
    assert (len(set(left_out)) == 1) is (kind is pabi.ShuffleOnce)
    with pytest.raises(pabi.InvalidInput, match="spare"):
        run_of(n, kind(size, n))


@every("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_gradients_of_spare_records_are_never_asked_for(kind):
    """In training. The gradients of all others are, once an epoch."""
    asked = Counter()

    def gradients(x, rows):
        asked.update(rows.tolist())
        return np.zeros((len(rows), 1))

    run = run_of(7, kind(3, 4), steps=30)
    train(run, gradients, [0.0], 5)
    assert sum(asked.values()) == 30 * 3
    assert set(asked.values()) == {30} if kind is pabi.ShuffleOnce else len(asked) == 7


def test_orders_of_different_epochs_are_independent():
    """All 36 pairs of permutations of three records are equally likely, one epoch and two apart."""
    epochs = epochs_of(3, pabi.Reshuffle(1), 9000, seed=4)
    orders = [tuple(b[0] for b in epoch) for epoch in epochs]
    pairs = list(itertools.product(itertools.permutations(range(3)), repeat=2))
    for apart in (1, 2):
        found = zip(orders[:: apart + 1], orders[apart :: apart + 1], strict=True)
        assert_law(list(found), dict.fromkeys(pairs, 1 / 36))


@every("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
@every("step", range(1, 6))
def test_a_run_goes_on_in_its_order(kind, step):
    """Within an epoch in the one that it was in; a new epoch may have a new one."""
    secret = np.array([3, 0, 4, 1, 2])
    wanted = cut(secret.tolist(), 2) * 2
    order = batch_rows(run_of(5, kind(2)), np.random.default_rng(0), secret)
    if kind is pabi.ShuffleOnce or step % 3:
        within = range(step, 3 * (step // 3 + 1))
        assert [rows for k in within for rows in [tuple(order.batch(k).tolist())]] == [
            wanted[k] for k in within
        ]
        assert np.array_equal(order.secret, secret)
    else:
        order.batch(step)
        assert sorted(order.secret.tolist()) == list(range(5))
        assert not np.array_equal(order.secret, secret)  # of 120, with this seed


BINS_AFRESH = pabi.BallsInBins(2, redraw="epoch")


@pytest.mark.parametrize("apart", [1, 2])
def test_bins_of_different_epochs_are_independent(apart):
    """All 64 pairs of ways to put three records into two bins, one epoch and two apart."""
    epochs = epochs_of(3, BINS_AFRESH, 9000, seed=4)
    ways = [tuple(int(i in epoch[1]) for i in range(3)) for epoch in epochs]
    pairs = list(itertools.product(itertools.product(range(2), repeat=3), repeat=2))
    found = list(zip(ways[:: apart + 1], ways[apart :: apart + 1], strict=True))
    assert_law(found, dict.fromkeys(pairs, 1 / 64))


@every("cap", [None, 5])
def test_every_record_is_in_one_bin_an_epoch(cap):
    """But where its bin is beyond the cap, and empty; the secret in force is that of the epoch."""
    run = run_of(10, pabi.BallsInBins(4, cap, redraw="epoch"), steps=90)
    order, secrets = batch_rows(run, np.random.default_rng(1)), []
    for first in range(0, 90, 3):
        epoch = []
        for k in range(first, first + 3):
            rows = order.batch(k)
            epoch.append([] if rows is None else rows.tolist())
            secrets.append(order.secret)
        bins = [np.flatnonzero(order.secret == j).tolist() for j in range(3)]
        assert epoch == [rows if len(rows) <= (cap or 10) else [] for rows in bins]
        assert all(np.array_equal(secret, secrets[-1]) for secret in secrets[-3:])
    assert len({secret.tobytes() for secret in secrets}) == 30


@every("redraw", ["once", "epoch"])
@every("step", range(1, 5))
def test_a_run_goes_on_in_its_bins(redraw, step):
    """Within an epoch in those that it was in; a new epoch may have new ones."""
    secret = np.array([1, 0, 0, 1, 0, 1, 1, 1])
    run = run_of(8, pabi.BallsInBins(4, redraw=redraw))
    order = batch_rows(run, np.random.default_rng(0), secret)
    rows = order.batch(step)
    kept = redraw == "once" or step % 2 == 1
    assert np.array_equal(order.secret, secret) is kept  # of 256, with this seed
    assert np.array_equal(rows, np.flatnonzero(order.secret == step % 2))


@every("n", [1, 2, 3])
@every("kind", [pabi.ShuffleOnce, pabi.Reshuffle])
def test_a_secret_order_is_a_permutation(n, kind):
    """Of all arrays of numbers up to n, exactly n! are."""
    run = run_of(n, kind(1))
    every = itertools.product(range(-1, n + 1), repeat=n)
    taken = [secret for secret in every if fits(run, np.array(secret))]
    assert taken == list(itertools.permutations(range(n)))
    assert len(taken) == math.factorial(n)


@every(("n", "size"), [(1, 1), (3, 2), (3, 1)])
@every("redraw", ["once", "epoch"])
def test_secret_bins_are_any_numbers_of_batches(n, size, redraw):
    run, bins = run_of(n, pabi.BallsInBins(size, redraw=redraw)), -(-n // size)
    every = itertools.product(range(-1, bins + 1), repeat=n)
    taken = [secret for secret in every if fits(run, np.array(secret))]
    assert taken == list(itertools.product(range(bins), repeat=n))


@every("kind", [pabi.ShuffleOnce, pabi.Reshuffle, pabi.BallsInBins])
@every(
    "secret", [None, np.arange(3), np.arange(5), np.arange(4).reshape(2, 2), np.array(0)]

)  # fmt: skip
def test_secrets_of_another_form_do_not_fit(kind, secret):
    assert not fits(run_of(4, kind(1)), secret)
    assert fits(run_of(4, kind(1)), np.arange(4))


@every("batches", [pabi.FullBatch(), pabi.Cyclic(2), pabi.FixedSize(2), pabi.Poisson(2, cap=3)])
def test_runs_without_a_secret_fit_none(batches):
    assert fits(run_of(4, batches), None)
    assert not fits(run_of(4, batches), np.arange(4))


KEPT = 0.9  # of the clock at every step
START = [1.0, 0.0]


def bins_run(n, size, cap=None, redraw="once", **changes):
    given = {"epochs": 3, "step_size": 0.1, "noise_std": 1e-6}
    given |= {"gradient_sensitivity": 1.0} | changes
    loss = pabi.Loss.convex(smoothness=1.0, l2=(1.0 - KEPT) / 0.1)
    batches = pabi.BallsInBins(size, cap, redraw=redraw)
    return pabi.NoisySGD(loss, n=n, batches=batches, **given)


class Noted:
    """Gradients of a clock and of a sum of 2^i; `steps`: the rows that each step asked for."""

    def __init__(self, crash_at=None):
        self.steps, self._crash_at = {}, crash_at

    def __call__(self, x, rows):
        assert len(rows) > 0
        k = round(np.log(x[0]) / np.log(KEPT))
        if self._crash_at is not None and k >= self._crash_at:
            raise Crash
        self.steps.setdefault(k, []).extend(rows.tolist())
        return np.stack([np.zeros(len(rows)), 2.0**rows], axis=1)


def bins_of(run, seed, **others) -> tuple:
    """The rows of every step with data, as sorted tuples."""
    noted = Noted()
    train(run, noted, START, seed, **others)
    assert set(noted.steps) <= set(range(run.data_steps))
    return tuple(tuple(sorted(noted.steps.get(k, []))) for k in range(run.data_steps))


def law_of_bins(n, bins, cap=None) -> dict:
    """{the rows of all bins: probability}, over all ways to throw."""
    law: Counter = Counter()
    for fallen in itertools.product(range(bins), repeat=n):
        rows = [tuple(i for i in range(n) if fallen[i] == j) for j in range(bins)]
        held = tuple(() if cap is not None and len(r) > cap else r for r in rows)
        law[held] += float(bins) ** -n
    return law


@pytest.mark.parametrize("runs", [600, pytest.param(8000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("n", "size", "cap"),
    [(3, 1, None), (4, 2, None), (5, 3, None), (4, 2, 2), (3, 1, 1), (4, 2, 3)],
)
def test_every_assignment_has_its_own_probability(n, size, cap, runs):
    run = bins_run(n, size, cap, epochs=1)
    bins = -(-n // size)
    assert run.steps == bins
    generator = np.random.default_rng(n * 100 + size * 10 + (cap or 0))
    assert_law([bins_of(run, generator) for _ in range(runs)], law_of_bins(n, bins, cap))


@every(("size", "cap"), [(3, None), (3, 4), (1, 1)])
def test_sums_are_divided_by_the_size(size, cap):
    """Whatever the bin holds: the last iterate by hand, but for noise of a millionth."""
    run = bins_run(7, size, cap, epochs=2, cooldown_steps=2)
    for seed in range(10):
        noted = Noted()
        result = train(run, noted, START, seed)
        x = 0.0
        for k in range(run.steps):
            total = sum(2.0**row for row in noted.steps.get(k, []))
            x = KEPT * x - 0.1 * total / size
        assert result.x[1] == pytest.approx(x, abs=1e-5)
        assert result.x[0] == pytest.approx(KEPT**run.steps, abs=1e-5)


@every("n, size, cap", [(40, 10, None), (12, 3, 3)])
@every("at", [1, 3, 5, 8])
def test_a_resumed_run_goes_on_with_the_same_bins(tmp_path, n, size, cap, at):
    """From a file that its owner alone may read, and that is gone at the end; empty ones stay empty."""
    run = bins_run(n, size, cap, epochs=4)
    for seed in range(5):
        path, before, after = tmp_path / f"{seed}.ckpt", Noted(at), Noted()
        with pytest.raises(Crash):
            train(run, before, START, seed, checkpoint=path, checkpoint_seconds=0.0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        train(run, after, START, 1000 + seed, resume=path)
        assert list(tmp_path.iterdir()) == []
        assert set(before.steps) <= set(range(at))
        assert set(after.steps) <= set(range(at, run.steps))
        steps = [sorted((before.steps | after.steps).get(k, [])) for k in range(run.steps)]
        assert all(rows == steps[k % 4] for k, rows in enumerate(steps))
        if cap is None:
            assert sorted(itertools.chain(*steps[:4])) == list(range(n))


@every("n, size", [(40, 10), (5, 1)])
@every("at", [1, 3, 5, 8])
def test_a_resumed_run_goes_on_with_the_bins_of_its_epoch(tmp_path, n, size, at):
    """Every record is used once in every epoch, the one with the crash included."""
    run = bins_run(n, size, redraw="epoch", epochs=4)
    for seed in range(5):
        path, before, after = tmp_path / f"{seed}.ckpt", Noted(at), Noted()
        try:
            train(run, before, START, seed, checkpoint=path, checkpoint_seconds=0.0)
        except Crash:
            train(run, after, START, 1000 + seed, resume=path)
        steps = [sorted((before.steps | after.steps).get(k, [])) for k in range(run.steps)]
        period = run.steps_per_epoch
        epochs = [steps[first : first + period] for first in range(0, run.steps, period)]
        assert all(sorted(itertools.chain(*epoch)) == list(range(n)) for epoch in epochs)
        assert all(one != other for one, other in itertools.combinations(epochs, 2)) or n < 10


def test_bins_come_from_the_operating_system():
    """Forty records fall alike twice by chance with probability 4⁻⁴⁰."""
    found = {bins_of(bins_run(40, 10, epochs=1), None) for _ in range(2)}
    assert len(found) == 2
    assert (
        bins_of(bins_run(40, 10), 5) == bins_of(bins_run(40, 10), 5) != bins_of(bins_run(40, 10), 6)
    )

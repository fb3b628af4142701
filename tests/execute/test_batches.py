"""The batches of runs in a fixed or a permuted order and in bins, and which secrets a run can be in."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chisquare
from tests.support.falsification.selections import masses

import pabi
from pabi.execute import batches as module
from pabi.execute.batches import (
    Binomial,
    Buckets,
    batch_rows,
    drawn_order,
    fits,
    is_order,
    whole_order,
)
from pabi.execute.checkpoint import TrialLaw, secret_generator
from support.every_case import every, refused
from support.execution import assert_law

pytestmark = [
    pytest.mark.usefixtures("free"),
]

SMALL = [(n, size) for n in range(1, 7) for size in range(1, n + 1)]


def run_of(n, batches, steps=12):
    return pabi.NoisySGD(
        pabi.Loss.logistic(1.0), n=n, batches=batches, steps=steps, step_size=0.1, noise_std=1.0
    )


def rows_of(served, n):
    """The rows of a batch as a tuple."""
    return () if served is None else tuple(np.arange(n)[served].tolist())


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


@every("apart", [1, 2])
@every("kind", [pabi.Reshuffle(1), pabi.BallsInBins(2, redraw="epoch")])
def test_different_epochs_are_independent(kind, apart):
    """All 36 pairs of permutations, or all 64 pairs of ways into two bins, are equally likely."""
    epochs = epochs_of(3, kind, 9000, seed=4)
    orders = [tuple(frozenset(rows) for rows in epoch) for epoch in epochs]
    found = list(zip(orders[:: apart + 1], orders[apart :: apart + 1], strict=True))
    assert len(set(orders)) == (6 if kind.kind == "reshuffle" else 8)
    pairs = list(itertools.product(set(orders), repeat=2))
    assert_law(found, dict.fromkeys(pairs, 1 / len(pairs)))


RESUMED = [
    *((kind(2), np.array([3, 0, 4, 1, 2]), 3) for kind in (pabi.ShuffleOnce, pabi.Reshuffle)),
    (pabi.BallsInBins(3), np.array([1, 0, 0, 1, 0]), 2),
    (pabi.BallsInBins(3, redraw="epoch"), np.array([1, 0, 0, 1, 0]), 2),
]


@every("batches, secret, period", RESUMED)
@every("step", range(1, 6))
def test_a_run_goes_on_in_its_order(batches, secret, period, step):
    """Within an epoch in the one that it was in; a new epoch may have a new one."""
    order = batch_rows(run_of(5, batches), np.random.default_rng(1), secret)
    rows = order.batch(step).tolist()
    kept = batches in (pabi.ShuffleOnce(2), pabi.BallsInBins(3)) or step % period > 0
    assert np.array_equal(order.secret, secret) is kept  # of 32 bins or more, with this seed
    bins = "balls" in batches.kind
    first = step % period * 2
    wanted = (
        np.flatnonzero(order.secret == step % period) if bins else order.secret[first : first + 2]
    )
    assert rows == wanted.tolist()


@every("cap", [None, 5])
def test_every_record_is_in_one_bin_an_epoch(cap):
    """But where its bin is beyond the cap, and empty; the secret in force is that of the epoch."""
    run = run_of(10, pabi.BallsInBins(4, cap, redraw="epoch"), steps=90)
    order, secrets = batch_rows(run, np.random.default_rng(1)), []
    for first in range(0, 90, 3):
        epoch = []
        for k in range(first, first + 3):
            epoch.append(list(rows_of(order.batch(k), 10)))
            secrets.append(order.secret)
        bins = [np.flatnonzero(order.secret == j).tolist() for j in range(3)]
        assert epoch == [rows if len(rows) <= (cap or 10) else [] for rows in bins]
        assert all(np.array_equal(secret, secrets[-1]) for secret in secrets[-3:])
    assert len({secret.tobytes() for secret in secrets}) == 30


@every("n", [1, 2, 3])
def test_secrets_are_permutations_or_numbers_of_batches(n):
    """Of all arrays of numbers up to n, and nothing else of another form; other runs have none."""
    for kind in (pabi.ShuffleOnce, pabi.Reshuffle, pabi.BallsInBins):
        run = run_of(n, kind(1))
        arrays = itertools.product(range(-1, n + 1), repeat=n)
        taken = [secret for secret in arrays if fits(run, np.array(secret))]
        bins = itertools.product(range(n), repeat=n)
        assert taken == list(bins if kind is pabi.BallsInBins else itertools.permutations(range(n)))
        one = np.arange(n)
        for other in (None, one[1:], np.arange(n + 1), one[None], np.array(0)):
            assert not fits(run, other)
    for batches in (pabi.FullBatch(), pabi.Cyclic(1), pabi.FixedSize(1), pabi.Poisson(1, cap=3)):
        assert fits(run_of(n, batches), None)
        assert not fits(run_of(n, batches), np.arange(n))


@pytest.mark.parametrize(
    ("n", "size", "cap"),
    [(3, 1, None), (4, 2, None), (5, 3, None), (4, 2, 2), (3, 1, 1), (4, 2, 3)],
)
def test_every_assignment_to_bins_has_its_own_probability(n, size, cap):
    law = Counter()
    for fallen in itertools.product(range(bins := -(-n // size)), repeat=n):
        rows = [tuple(i for i in range(n) if fallen[i] == j) for j in range(bins)]
        law[tuple(() if cap is not None and len(r) > cap else r for r in rows)] += bins**-n
    run, found = run_of(n, pabi.BallsInBins(size, cap)), []
    for seed in range(3000):
        order = batch_rows(run, np.random.default_rng(seed))
        found.append(tuple(rows_of(order.batch(k), n) for k in range(bins)))
    assert_law(found, law)


# Numbers of trials, and orders of many records in buckets.


@every(("gamma", "shape"), [(0.1, 1.0), (0.1, 0.0), (0.3, -0.5), (0.2, 2.5), (0.9, 0.0)])
def test_draws_follow_the_law(gamma, shape):
    """χ² over cells of at least 20 expected draws; it fails by chance once in a million runs."""
    law, generator, draws = TrialLaw(gamma, shape), secret_generator(), 4000
    drawn = np.array([law.draw(generator) for _ in range(draws)])
    expected = draws * masses(gamma, shape, 400)
    cells = int(np.argmax(expected < 20.0)) or 1
    counts = np.bincount(np.minimum(drawn, cells + 1), minlength=cells + 2)[1:]
    rest = draws - expected[:cells].sum()
    statistic = ((counts[:-1] - expected[:cells]) ** 2 / expected[:cells]).sum()
    statistic += (counts[-1] - rest) ** 2 / rest
    assert statistic < stats.chi2(cells).isf(1e-6)


class Scripted:
    """A generator that gives these bytes."""

    def __init__(self, *words):
        self.words = list(words)

    def bytes(self, count):
        return self.words.pop(0).to_bytes(count, "little")


def test_a_draw_in_doubt_reveals_more_bits():
    """P(K = 1) = 1/2 exactly: a uniform number that begins with 2⁶³ − 1 units of 2⁻⁶⁴ ends at the edge."""
    law = TrialLaw(0.5, 1.0)
    cases = {(2**63 - 1, 0): 1, (2**63, 7): 2, (0,): 1, (2**64 - 1, 7): 65}
    assert all(law.draw(Scripted(*words)) == drawn for words, drawn in cases.items())


@every("shape", [-0.5, 0.0, 1.0])
def test_quantiles(shape):
    cumulative, law = np.cumsum(masses(0.05, shape, 2000)), TrialLaw(0.05, shape)
    for share in (0.5, 0.99):
        assert law.quantile(share) == int(np.argmax(cumulative >= share)) + 1
    for gamma in (0.0, 1.0):
        refused("gamma", TrialLaw, gamma, shape)
    refused("shape", TrialLaw, 0.5, -1.0)


@pytest.mark.parametrize("n", [module.BUCKET + 1, 5 * module.BUCKET - 7])
def test_many_records_are_all_there_once(n):
    secret = drawn_order(n, np.random.default_rng(4))
    order = whole_order(secret, n)
    assert np.array_equal(np.sort(order), np.arange(n))
    assert is_order(secret, n)
    assert is_order(order, n)
    # A uniform order has about one fixed point, and neighbours anywhere.
    assert np.sum(order == np.arange(n)) < 15
    assert np.mean(np.abs(np.diff(order))) == pytest.approx(n / 3.0, rel=0.02)
    for none in (np.zeros(5, int), np.arange(6), np.zeros(4, int)):
        assert not is_order(none, 5)


@pytest.mark.parametrize(("n", "bucket"), [(3, 1), (3, 2), (5, 2)])
def test_every_order_is_as_likely(monkeypatch, n, bucket):
    """All orders of a few records, in buckets of which each has as many as chance has it."""
    monkeypatch.setattr(module, "BUCKET", bucket)
    generator = np.random.default_rng(5)
    counts = dict.fromkeys(permutations(range(n)), 0)
    for _ in range(max(360, 15 * len(counts))):
        counts[tuple(whole_order(drawn_order(n, generator), n).tolist())] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_the_order_is_that_of_the_buckets():
    n = 3 * module.BUCKET
    buckets = Buckets(drawn_order(n, np.random.default_rng(6)), n)
    label = np.concatenate([labels for _, labels in buckets.labels()])
    parts = [np.flatnonzero(label == j) for j in range(buckets.count)]
    parts = [part[buckets.inside(j, len(part))] for j, part in enumerate(parts)]
    assert np.array_equal(np.concatenate(parts), whole_order(buckets.secret, n))
    assert buckets.sizes().tolist() == [len(part) for part in parts]


@every("n, expected", [(1, 1), (5, 5), (5, 1), (7, 3), (50, 1), (50, 49), (300, 150), (1000, 3)])
def test_probabilities_of_sizes_are_exact(n, expected):
    """In rational arithmetic: apart by less than 2⁻¹⁸⁰ from the binomial."""
    sizes = Binomial(n, Fraction(expected, n))
    weights = np.diff(np.array([0, *sizes._cumulative], dtype=object))
    p, total = Fraction(expected, n), sizes._cumulative[-1]
    off = Fraction(1)
    for k in range(n + 1):
        at = k - sizes._first
        found = Fraction(int(weights[at]), total) if 0 <= at < len(weights) else Fraction(0)
        exact = math.comb(n, k) * p**k * (1 - p) ** (n - k)
        assert abs(found - exact) < Fraction(1, 2**180)
        off -= found
    assert off == 0


def test_every_random_number_stands_for_the_right_size():
    """The ends of each size's share of the numbers below the total; larger numbers are drawn again."""
    sizes = Binomial(7, Fraction(3, 7))
    total = sizes._cumulative[-1]
    length = 8 * ((total.bit_length() + 7) // 8)
    shift = length - total.bit_length()
    low = 0
    for k, high in enumerate(sizes._cumulative):
        for value in (low, high - 1):
            assert sizes.draw(Scripted(value << shift)) == k + sizes._first
        low = high
    assert sizes.draw(Scripted((1 << length) - 1, total << shift, 0)) == sizes._first

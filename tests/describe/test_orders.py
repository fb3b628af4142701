"""What a batch scheme means for one record, against all permutations, assignments and subsets of a few.

Probabilities are compared as fractions, sizes and tails as binomials computed exactly or by scipy.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import BallsInBins, Cyclic, FixedSize, FullBatch, Poisson, Reshuffle, ShuffleOnce
from pabi.describe import batches as b
from pabi.describe.batches import (
    KnownUses,
    RandomSizes,
    SecretOrder,
    binomial_tail,
    fractions,
    order_of,
)
from support.every_case import every, refused, refuses

SMALL = [(n, size) for n in range(1, 6) for size in range(1, n + 1)]


def cut(records, size):
    return [tuple(records[a : a + size]) for a in range(0, len(records), size)]


def sizes_of(order):
    """As the description has them: (of every batch but the last, of the last)."""
    return order.sizes.size, order.sizes.last


@every(("n", "size"), SMALL)
def test_cyclic_batches_are_the_rows_in_order(n, size):
    order, batches = order_of(Cyclic(size), n, 7), cut(range(n), size)
    assert isinstance(order, KnownUses)
    assert order.period == len(batches)
    assert sizes_of(order) == (len(batches[0]), len(batches[-1]))
    assert order.sizes.most == max(map(len, batches))
    assert not order.fresh
    assert not order.displaces


@every("n", [1, 4])
def test_a_full_batch_is_one_batch_of_all(n):
    order = order_of(FullBatch(), n, 3)
    assert order == KnownUses(1, b.FixedSizes(n, n))


@every(("scheme", "redrawn"), [(ShuffleOnce, True), (Reshuffle, False)])
@every(("n", "size", "spare"), [(n, size, m) for n, size in SMALL for m in range(n - size + 1)])
def test_permutations_put_a_record_anywhere(scheme, redrawn, n, size, spare):
    """All permutations, of which the first n − spare places are cut into batches: how many of them put record
    0 into batches i to j."""
    order = order_of(scheme(size, spare=spare), n, 7)
    assert isinstance(order, SecretOrder)
    assert order.once is redrawn
    batches, places = cut(range(n - spare), size), Counter()
    for permutation in itertools.permutations(range(n)):
        place = permutation.index(0)
        places[place // size if place < n - spare else None] += 1
    assert order.period == len(batches)
    assert sizes_of(order) == (size, len(batches[-1]))
    for i, j in itertools.combinations_with_replacement(range(order.period), 2):
        exact = Fraction(sum(places[k] for k in range(i, j + 1)), math.factorial(n))
        assert order.share(i, j) == exact
    assert order.spare == Fraction(places[None], math.factorial(n)) == Fraction(spare, n)


def test_what_is_wrong_is_named():
    for scheme in (ShuffleOnce, Reshuffle):
        for field, size, spare in (("spare", 1, 10), ("spare", 1, 12), ("size", 7, 4)):
            refused(field, order_of, scheme(size, spare), 10, 3)
    refuses(partial(Reshuffle, 2), {"spare": [-1, 1.5, "2", None, True]})
    refuses(partial(BallsInBins, 2), {"redraw": ["every epoch", "", None, 1, True]})
    probabilities = [0.0, -0.1, 1.1, math.nan, "1", True]
    refuses(partial(Poisson, 3), {"probability": probabilities, "cap": [2]})
    refused("cap", BallsInBins, 100, cap=50)
    refused("size", Poisson(3, probability=0.3).per_epoch, 2)


@every("steps", [0, 1, 3, 4, 10])
def test_bins_that_are_drawn_anew_have_a_batch_for_every_step(steps):
    order = order_of(BallsInBins(2, redraw="epoch"), 8, steps)
    assert order.redrawn is b.Redrawn.EVERY_EPOCH
    assert order.spare == 0
    assert order.sizes == RandomSizes(8, Fraction(1, 4), steps, None)


def test_options_are_shown_where_they_are_taken():
    assert repr(ShuffleOnce(3)) == "ShuffleOnce(size=3)"
    assert repr(Reshuffle(3, 2)) == "Reshuffle(size=3, spare=2)"
    assert repr(BallsInBins(3)) == "BallsInBins(size=3, cap=None)"
    assert repr(BallsInBins(3, 5, redraw="epoch")) == "BallsInBins(size=3, cap=5, redraw='epoch')"


@every(("n", "size"), SMALL)
def test_balls_are_thrown_independently(n, size):
    """All assignments of records to bins: the law of one record's bin, and of its bin's size."""
    order = order_of(BallsInBins(size, cap=n), n, 7)
    bins = -(-n // size)
    assert isinstance(order, SecretOrder)
    assert order.period == bins
    assert order.redrawn is b.Redrawn.ONCE
    everyone = list(itertools.product(range(bins), repeat=n))
    for j in range(bins):
        assert order.share(j, j) == Fraction(sum(a[0] == j for a in everyone), len(everyone))
        counts = Counter(a.count(j) for a in everyone)
        p = order.sizes.probability
        for k in range(n + 1):
            law = math.comb(n, k) * p**k * (1 - p) ** (n - k)
            assert law == Fraction(counts[k], len(everyone))
    assert order.sizes.draws == bins  # different batches, which come back in every epoch


@every(("n", "size"), SMALL)
def test_fixed_sizes_are_subsets_of_that_size(n, size):
    order = order_of(FixedSize(size), n, 7)
    subsets = list(itertools.combinations(range(n), size))
    assert isinstance(order, b.FreshSubsets)
    assert order.probability == Fraction(sum(0 in s for s in subsets), len(subsets))
    assert sizes_of(order) == (size, size)
    # Where a record is not drawn another one is.
    assert order.displaces
    assert order.fresh


@every(("n", "size"), SMALL)
@every("cap", [None, 5, 99])
def test_poisson_batches_take_each_record_by_itself(n, size, cap):
    order = order_of(Poisson(size, cap), n, 7)
    assert isinstance(order, b.FreshSubsets)
    assert order.probability == Fraction(size, n)
    assert order.sizes == RandomSizes(n, Fraction(size, n), draws=7, cap=cap)
    assert order.sizes.most == (n if cap is None else min(n, cap))
    assert not order.displaces
    assert order.fresh


def test_a_probability_beside_the_divisor():
    for probability, per_epoch in {1e-6: 10**6, 1 / 235: 235, 0.3: 4, 1.0: 1}.items():
        batches = Poisson(3, probability=probability)
        order = order_of(batches, 10, 7)
        assert order.probability == Fraction(probability)
        assert order.sizes == RandomSizes(10, Fraction(probability), draws=7, cap=None)
        assert batches.batch_size(10) == 3
        assert batches.per_epoch(10) == per_epoch


@every(("n", "size"), SMALL)
def test_parts_of_the_divisor_of_fixed_batches(n, size):
    batches = cut(range(n), size)
    found = fractions(order_of(Cyclic(size), n, 7).sizes, size, 0.0)
    assert found.full == (Fraction(len(batches[0]), size),)
    assert found.last == (Fraction(len(batches[-1]), size),)
    assert (found.cap, found.random_cap, found.failure) == (size, None, 0.0)


@every("cap", [1, 3, 7, 20])
def test_parts_of_the_divisor_under_a_cap(cap):
    """No batch is beyond it, so that nothing can fail, nor has one more records than there are."""
    found = fractions(RandomSizes(10, Fraction(3, 10), 5, cap), 3, 0.0)
    assert found.full == found.last == (0, Fraction(min(cap, 10), 3))
    assert found.random_cap == found.cap == min(cap, 10)
    assert found.failure == 0.0


def exact_tail(n, p, cap):
    """P(Bin(n, p) > cap)."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(cap + 1, n + 1))


@settings(deadline=None)  # the first call imports
@given(st.integers(1, 25), st.floats(0.0, 1.0), st.integers(0, 25))
def test_tails_are_never_below_the_binomial(n, p, cap):
    """In rational arithmetic. Above the first term over 1 − r they are by roundings only, r the ratio of the
    first two terms, as long as that falls."""
    exact = exact_tail(n, Fraction(p), cap)
    found = binomial_tail(n, p, cap)
    assert exact <= Fraction(found) <= 1
    k = cap + 1
    if k > n or p == 0.0:
        assert found == 0.0
    elif p < 1.0:
        first = math.comb(n, k) * Fraction(p) ** k * (1 - Fraction(p)) ** (n - k)
        ratio = Fraction(n - k, k + 1) * Fraction(p) / (1 - Fraction(p))
        if ratio < 1:
            most = first / (1 - ratio) * (1 + Fraction(1, 10**8))
            assert found <= max(min(1, most), Fraction(1, 2**1022))


@every(("n", "p"), [(50, 0.3), (10**4, 0.01), (10**6, 1e-4), (10**6, 0.5), (10**9, 1e-6)])
def test_tails_of_large_binomials(n, p):
    """By scipy; the bound is useful, within a factor of the standard deviation."""
    from scipy.stats import binom

    spread = math.sqrt(n * p * (1 - p))
    for z in (1.5, 3.0, 6.0):
        cap = math.ceil(n * p + z * spread)
        exact = binom.sf(cap, n, p)
        assert exact * (1 - 1e-6) <= binomial_tail(n, p, cap) <= 2.0 * exact


@every(("n", "p", "cap"), [(10**5, 1e-5, 400), (10**12, 1e-9, 9000)])
def test_a_tail_beyond_the_doubles_is_not_nothing(n, p, cap):
    assert 0.0 < binomial_tail(n, p, cap) < 1e-300


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 1000),
    st.floats(-12.0, 0.0).map(lambda x: 10.0**x),
)  # fmt: skip
def test_what_is_covered_is_the_least_that_is_known_to_do(n, size, draws, allowed):
    """A union bound over the batches: no more than what is allowed, and one record less would be more,
    unless that is fewer than are expected."""
    p = Fraction(min(size, n), n)
    sizes = RandomSizes(n, p, draws, None)
    cap, failure = sizes.covered(allowed)
    assert min(1, draws * exact_tail(n, p, cap)) <= Fraction(failure)
    assert failure <= allowed
    assert 0 <= cap <= n
    less = cap - 1
    assert less < n * p or draws * binomial_tail(n, float(p) * (1 + 1e-15), less) > allowed


def test_all_records_are_covered_where_nothing_may_fail():
    assert RandomSizes(30, Fraction(1, 3), 5, None).covered(0.0) == (30, 0.0)
    found = fractions(RandomSizes(30, Fraction(1, 3), 5, None), 10, 0.0)
    assert found.full == found.last == (0, 3)
    assert (found.random_cap, found.failure) == (30, 0.0)

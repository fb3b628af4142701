"""What bounds are made of: written, read, put together and compared, whatever the kind."""

import itertools
import json
import math
from fractions import Fraction

import pytest
from flint import ctx

from pabi.tradeoff import Gaussian, Mixture, TradeOff
from pabi.verification import factors
from pabi.verification.arithmetic import BITS
from pabi.verification.bounds import JointBound, all_together, best_curve, read_bounds, uncovered
from pabi.verification.factors.allocations import Allocation, Allocations, LabelGroup
from pabi.verification.factors.closed_forms import (
    AdjacentChain,
    BoundedRanges,
    Failure,
    Gaussians,
    GroupFactors,
    Laplaces,
    PureFactors,
    Rounding,
)
from pabi.verification.factors.divergences import Divergence, Divergences, Selection, Selections
from pabi.verification.factors.mixtures import Sampled, SampledGaussians, SecretMixtures

GAUSSIAN = '{"kind": "gaussian", "mu": 0.5}'
LINK = json.dumps(Mixture([Gaussian(0.5), Gaussian(1.0)], [0.5, 0.5]).to_dict(), sort_keys=True)
ONE = {
    Gaussians: Gaussians.single(0.7),
    SampledGaussians: SampledGaussians((Sampled("subsampled", 0.25, 1.5, 3),)),
    BoundedRanges: BoundedRanges(((0.5, 2),)),
    PureFactors: PureFactors(((0.125, 1),)),
    Laplaces: Laplaces(((0.25, 3),)),
    Divergences: Divergences((Divergence(8.0, 0.25, 2),)),
    Failure: Failure(Fraction(1, 1024)),
    Rounding: Rounding(Fraction(1, 256) ** 2),
    Selections: Selections((Selection(GAUSSIAN, 10.0, 0.5, 1),)),
    GroupFactors: GroupFactors((AdjacentChain(LINK, 3, 1),)),
    SecretMixtures: SecretMixtures.single(((Fraction(1, 2), 0.5), (Fraction(1, 2), 1.0)), False),
    Allocations: Allocations(
        (Allocation((LabelGroup(Fraction(3, 4), (0.5,), 9),), False, True, 2),)
    ),
}
MORE = {
    Gaussians: Gaussians(((Fraction(1, 2), 0.5), (Fraction(1, 2), 2.0))),
    SampledGaussians: SampledGaussians((Sampled("poisson_subsampled", 0.25, 1.5, 1),)),
    BoundedRanges: BoundedRanges(((3.0, 1),)),
    PureFactors: PureFactors(((4.0, 2),)),
    Laplaces: Laplaces(((2.0, 1),)),
    Divergences: Divergences((Divergence(8.0, 2.0, 1),)),
    Failure: Failure(Fraction(1, 16)),
    Rounding: Rounding(Fraction(1, 8) ** 2),
    Selections: Selections((Selection(GAUSSIAN, 20.0, 0.75, 2),)),
    GroupFactors: GroupFactors((AdjacentChain(LINK, 4, 2),)),
    SecretMixtures: SecretMixtures.single(((Fraction(1, 4), 0.25), (Fraction(3, 4), 2.0)), True),
    Allocations: Allocations((Allocation((LabelGroup(Fraction(1), (0.25,), 9),), True, False, 3),)),
}


@pytest.fixture(autouse=True)
def _precise():
    with ctx.workprec(BITS):
        yield


def subsets(largest=None):
    for count in range((len(ONE) if largest is None else largest) + 1):
        yield from itertools.combinations(ONE.values(), count)


def test_every_kind_is_tried_here():
    assert set(factors.kinds()) == set(ONE) == set(MORE)


def test_what_is_written_is_what_is_read():
    """Each of 4096 bounds covers what it is written as, and is covered by it; the accountant reads it too."""
    for chosen in subsets():
        bound = JointBound.of(*chosen)
        curve = best_curve((bound,))
        assert TradeOff.from_dict(curve).to_dict() == curve or len(chosen) > 1
        if curve["kind"] == "subsampled":  # which stands in a product only
            curve = {"kind": "product", "factors": [curve | {"count": 1}]}
        (read,) = read_bounds(curve)
        assert read.missing(bound) is None
        assert bound.missing(read) is None


@pytest.mark.parametrize("kind", ONE, ids=lambda kind: kind.__name__)
def test_what_is_left_out_is_missing(kind):
    """Of every bound with this kind; the others are no substitute."""
    for chosen in subsets():
        bound = JointBound.of(*chosen)
        less = JointBound.of(*(factor for factor in chosen if type(factor) is not kind))
        assert (bound.missing(less) is None) == (kind not in map(type, chosen))
        assert less.missing(bound) is None


@pytest.mark.parametrize("kind", ONE, ids=lambda kind: kind.__name__)
def test_two_releases_reveal_more_than_either(kind):
    one, other = ONE[kind], MORE[kind]
    both, again = JointBound.of(one, other), JointBound.of(other, one)
    assert both.missing(again) is None
    assert again.missing(both) is None
    for alone in (one, other):
        assert JointBound.of(alone).missing(both) is None
        assert both.missing(JointBound.of(alone)) is not None


def test_nothing_is_left_of_what_reveals_nothing():
    """And nothing else is: a bound without cases proves nothing."""
    for kind in ONE:
        assert JointBound.of(kind()) == JointBound()
        assert JointBound.of(kind(), ONE[kind]) == JointBound.of(ONE[kind])
    assert (
        JointBound.of(Gaussians(())).missing(JointBound.of(Gaussians.single(9.0)))
        == "nothing is proven"
    )
    assert uncovered((), (JointBound(),)) == "nothing is proven"
    assert JointBound().epsilon(1e-5) == 0.0


@pytest.mark.parametrize("size", [3, pytest.param(6, marks=pytest.mark.nightly)])
def test_bounds_are_equal_whatever_came_first(size):
    """All orders of so many kinds: a sort that confuses some confuses two of them."""
    for chosen in subsets(size):
        found = {JointBound.of(*order) for order in itertools.permutations(chosen)}
        assert len(found) == 1


def test_orders_of_all_kinds_are_one_bound():
    """And each bound meets each once."""
    whole = tuple(ONE.values())
    turns = [whole[i:] + whole[:i] for i in range(len(whole))]
    assert len({JointBound.of(*turn) for order in turns for turn in (order, order[::-1])}) == 1
    some = tuple(JointBound.of(factor) for factor in whole)
    assert len(all_together(some, some)) == len(ONE) * (len(ONE) + 1) // 2


def test_a_failure_takes_from_delta():
    failing = JointBound.of(Gaussians.single(0.7), Failure(Fraction(1, 1024)))
    assert failing.epsilon(1 / 1024) == math.inf
    surely = JointBound.of(Gaussians.single(0.7))
    assert surely.epsilon(2 / 1024) < failing.epsilon(2 / 1024) <= 1.01 * surely.epsilon(1 / 1024)
    for other in (BoundedRanges, PureFactors):
        assert JointBound.of(Gaussians.single(0.7), ONE[other]).epsilon(0.5) == math.inf

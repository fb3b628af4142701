"""Random trees of events: pabi's ε against dp-accounting's privacy-loss distributions, from above and below.

Every leaf is made twice by `dp_accounting.pld` itself: with pessimistic losses, which are above the truth,
and with optimistic ones, which are below. The accountant of dp-accounting is not asked: it composes a
randomised response once, however often it is counted (0.6.0).
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import privacy_loss_distribution as pld

from pabi.integrations.dp_accounting import PabiAccountant

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
RELATIONS = ADD, REPLACE, NeighboringRelation.REPLACE_SPECIAL
TREES, ALWAYS, STEP = 504, 12, 1e-4
TOLERANCE = 1e-3  # relative, of ε: what pabi's readings of products aim at
REFUSED = (
    dp_event.UnsupportedDpEvent(),
    dp_event.ZCDpEvent(0.1),
    dp_event.SampledWithReplacementDpEvent(9, 3, NoOpDpEvent()),
)


class Tree(NamedTuple):
    event: Any
    relation: Any
    delta: float
    refused: bool


def between(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def leaf(rng, relation):
    kind = rng.integers(8)
    if kind == 0:
        return NoOpDpEvent()
    if kind in (1, 2):
        return GaussianDpEvent(between(rng, 0.7, 30.0))
    if kind == 3:
        return LaplaceDpEvent(between(rng, 1.0, 40.0))
    if kind == 4:
        return DiscreteLaplaceDpEvent(between(rng, 0.02, 0.6), int(rng.integers(1, 4)))
    if kind == 5 and relation is not ADD:
        return RandomizedResponseDpEvent(float(rng.uniform(0.4, 0.98)), int(rng.integers(1, 6)))
    share = between(rng, 0.003, 0.9)
    if kind == 6 and relation is not REPLACE:
        return PoissonSampledDpEvent(share, LaplaceDpEvent(between(rng, 0.5, 10.0)))
    return PoissonSampledDpEvent(share, GaussianDpEvent(between(rng, 0.7, 10.0)))


def branch(rng, relation, depth):
    kind = rng.integers(3) if depth else 0
    if kind == 0:
        return leaf(rng, relation)
    if kind == 1:
        return SelfComposedDpEvent(branch(rng, relation, depth - 1), int(rng.integers(1, 6)))
    return ComposedDpEvent([branch(rng, relation, depth - 1) for _ in range(rng.integers(1, 4))])


def tree(seed):
    rng = np.random.default_rng([2024, seed])
    relation = RELATIONS[rng.integers(3)]
    event, refused = branch(rng, relation, 3), bool(rng.random() < 0.03)
    if refused:
        event = ComposedDpEvent([event, REFUSED[rng.integers(len(REFUSED))]])
    return Tree(event, relation, between(rng, 1e-10, 1e-2), refused)


def leaves(event, count=1):
    if isinstance(event, ComposedDpEvent):
        return [pair for part in event.events for pair in leaves(part, count)]
    if isinstance(event, SelfComposedDpEvent):
        return leaves(event.event, event.count * count)
    return [(event, count)]


def losses(event, relation, above):
    """dp-accounting's distribution of one leaf, above or below the truth."""
    moved = 2 if relation is REPLACE else 1
    grid = {"pessimistic_estimate": above, "value_discretization_interval": STEP}
    dots = {**grid, "use_connect_dots": above}
    match event:
        case NoOpDpEvent() | RandomizedResponseDpEvent(num_buckets=1):
            nothing = pld.PrivacyLossDistribution.create_from_rounded_probability
            return nothing({0: 1.0}, 0.0, STEP, above)
        case GaussianDpEvent(noise_multiplier=noise):
            return pld.from_gaussian_mechanism(noise, sensitivity=moved, **dots)
        case LaplaceDpEvent(noise_multiplier=noise):
            return pld.from_laplace_mechanism(noise, sensitivity=moved, **dots)
        case DiscreteLaplaceDpEvent(noise_parameter=a, sensitivity=size):
            return pld.from_discrete_laplace_mechanism(a, moved * size, **dots)
        case RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            return pld.from_randomized_response(p, k, neighboring_relation=relation, **grid)
        case PoissonSampledDpEvent(sampling_probability=p, event=GaussianDpEvent() as inner):
            own = {"sampling_prob": p, "neighboring_relation": relation}
            return pld.from_gaussian_mechanism(inner.noise_multiplier, **own, **dots)
        case PoissonSampledDpEvent(sampling_probability=p, event=LaplaceDpEvent() as inner):
            return pld.from_laplace_mechanism(inner.noise_multiplier, sampling_prob=p, **dots)
    raise AssertionError(event)


def theirs(one, above):
    total = None
    for event, count in leaves(one.event):
        part = losses(event, one.relation, above)
        part = part if count == 1 else part.self_compose(count)
        total = part if total is None else total.compose(part)
    assert total is not None
    return float(total.get_epsilon_for_delta(one.delta))


NIGHTS = [range(k, min(k + 12, TREES)) for k in range(ALWAYS, TREES, 12)]


@pytest.mark.parametrize(
    "seeds",
    [
        *(range(k, k + 1) for k in range(ALWAYS)),
        *(pytest.param(some, marks=pytest.mark.nightly) for some in NIGHTS),
    ],
    ids=lambda seeds: f"{seeds.start} to {seeds.stop - 1}",
)
def test_random_trees_are_accounted_tightly_and_never_too_low(seeds):
    for seed in seeds:
        one = tree(seed)
        accountant = PabiAccountant(one.relation)
        if one.refused:
            assert not accountant.supports(one.event), seed
        else:
            epsilon = float(accountant.compose(one.event).get_epsilon(one.delta))
            assert theirs(one, above=False) <= epsilon, (seed, one)
            assert epsilon <= theirs(one, above=True) * (1.0 + TOLERANCE), (seed, one)

"""dp-accounting's events and pabi's guarantees, each as the other: against dp-accounting, and refusals."""

import math
import pickle
import re

import dp_accounting as dp
import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    privacy_accountant_test,
)
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld

import pabi
from pabi.integrations.dp_accounting import (
    PabiAccountant,
    UnsupportedEvent,
    from_event,
    to_event,
    to_pld,
)
from pabi.tradeoff import (
    ApproxDP,
    Best,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    Laplace,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    Selected,
    Subsampled,
    discrete_laplace,
    randomised_response,
    selected,
)
from support.every_case import every, refused

DELTA = 1e-5
ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
EVERY = (ADD, REPLACE, SPECIAL)
# What dp-accounting calls them at length.
Sampled = events.PoissonSampledDpEvent
Repeated = events.SelfComposedDpEvent
Composed = events.ComposedDpEvent
Response = events.RandomizedResponseDpEvent
Discrete = events.DiscreteLaplaceDpEvent
FixedSize = events.SampledWithoutReplacementDpEvent
Shifts = events.MixtureOfGaussiansDpEvent
Tree = events.SingleEpochTreeAggregationDpEvent
Repeat = events.RepeatAndSelectDpEvent
TWO_GAUSSIANS = Composed([GaussianDpEvent(4.0), Repeated(GaussianDpEvent(8.0), 4)])


class TestTheirOwnTest(privacy_accountant_test.PrivacyAccountantTest):
    """What dp-accounting asks of every accountant."""

    def _make_test_accountants(self):
        return [PabiAccountant(relation) for relation in EVERY]


# What an event means.


def accounted(event, relation):
    return PabiAccountant(relation).compose(event)


NOTHING = dict.fromkeys(EVERY, Gaussian(0.0))
INFINITE = dict.fromkeys(EVERY, Gaussian(math.inf))


def under(add, special=None, replace=None):
    """By relation; no special one is the same as adding."""
    table = {ADD: add, SPECIAL: add if special is None else special, REPLACE: replace}
    return {relation: curve for relation, curve in table.items() if curve is not None}


TREE_OF_THREE = Gaussian(0.5).self_compose(3)
MEANT = [
    (events.NoOpDpEvent(), NOTHING),
    (events.NonPrivateDpEvent(), INFINITE),
    (GaussianDpEvent(4.0), under(Gaussian(0.25), replace=Gaussian(0.5))),
    (GaussianDpEvent(0.0), INFINITE),
    # 1/16 + 4/64 = 1/8
    (TWO_GAUSSIANS, under(Gaussian(math.sqrt(0.125)), replace=Gaussian(math.sqrt(0.5)))),
    (LaplaceDpEvent(2.0), under(Laplace(0.5), replace=Laplace(1.0))),
    (Discrete(0.25, 2), under(discrete_laplace(0.25, 2), replace=discrete_laplace(0.25, 4))),
    (
        Response(0.5, 3),
        under(None, randomised_response(0.5, 3, blank=True), randomised_response(0.5, 3)),
    ),
    (
        Sampled(0.1, GaussianDpEvent(2.0)),
        under(PoissonSubsampled(0.5, 0.1), replace=PoissonReplaced(0.5, 0.1)),
    ),
    (Sampled(0.1, TWO_GAUSSIANS), under(PoissonSubsampled(math.sqrt(0.125), 0.1))),
    (Sampled(0.1, LaplaceDpEvent(2.0)), under(Laplace(0.5, 0.1))),
    (Sampled(0.1, events.NonPrivateDpEvent()), INFINITE),
    (
        FixedSize(100, 25, GaussianDpEvent(2.0)),
        under(None, FixedSizeSubsampled(1.0, 0.5, 0.5, 0.25), Subsampled(Gaussian(1.0), 0.25)),
    ),
    (
        FixedSize(100, 100, GaussianDpEvent(2.0)),
        under(None, Subsampled(Gaussian(0.5), 1.0), Subsampled(Gaussian(1.0), 1.0)),
    ),
    # A leaf among 5 lies in nodes of 3 levels, one among 4 in 3, one among 3 in 2.
    (Tree(2.0, [5, 2]), under(None, TREE_OF_THREE, Gaussian(1.0).self_compose(3))),
    (Tree(2.0, 4), under(None, TREE_OF_THREE)),
    (Tree(2.0, 3), under(None, Gaussian(0.5).self_compose(2))),
    (Shifts(2.0, [0.0, 1.0], [0.75, 0.25]), under(PoissonSubsampled(0.5, 0.25))),
    (Repeat(GaussianDpEvent(4.0), 10.0, 1.0), {ADD: selected(Gaussian(0.25), 10.0, 1.0)}),
    (Repeated(LaplaceDpEvent(2.0), 3), {ADD: Product([(Laplace(0.5), 3)])}),
    (Composed([]), NOTHING),
]


@every("event, curves", MEANT)
def test_an_event_means_what_the_table_says(event, curves):
    for relation, curve in curves.items():
        own = accounted(event, relation).curve
        if isinstance(curve, Gaussian) and 0.0 < curve.mu < math.inf:
            assert own.mu == pytest.approx(curve.mu, rel=1e-15)
        elif isinstance(curve, PoissonSubsampled):
            assert (own.mu, own.probability) == pytest.approx((curve.mu, curve.probability))
        else:
            assert own == curve


UNPROVEN = [
    (events.UnsupportedDpEvent(), EVERY, "nothing is known"),
    (events.ZCDpEvent(0.1), EVERY, "determine no trade-off function"),
    (events.SampledWithReplacementDpEvent(9, 3, GaussianDpEvent(1.0)), EVERY, "several times"),
    (events.TruncatedSubsampledGaussianDpEvent(9, 0.1, 3, 1.0), EVERY, "truncated"),
    (Shifts(1.0, [1.0, 2.0], [0.5, 0.5]), (ADD, SPECIAL), "several sens"),
    (Shifts(1.0, [1.0], [1.0]), (REPLACE,), "ADD_OR_REMOVE_ONE"),
    (Shifts(1.0, [1.0], [0.5]), (ADD,), "the sum 1"),
    (Response(0.5, 3), (ADD,), "expected REPLACE_ONE"),
    (FixedSize(9, 3, GaussianDpEvent(1.0)), (ADD,), "REPLACE_ONE"),
    (FixedSize(9, 3, LaplaceDpEvent(1.0)), (REPLACE,), "LaplaceDpEvent"),
    (FixedSize(3, 9, GaussianDpEvent(1.0)), (REPLACE,), "sample_size"),
    (Tree(1.0, 4), (ADD,), "REPLACE_SPECIAL"),
    (Tree(1.0, []), (SPECIAL,), "step_counts"),
    (Sampled(0.1, LaplaceDpEvent(1.0)), (REPLACE,), "REPLACE_SPECIAL"),
    (Sampled(0.1, Discrete(1.0, 1)), EVERY, "DiscreteLaplaceDpEvent"),
    (Sampled(0.1, Sampled(0.1, GaussianDpEvent(1.0))), EVERY, "PoissonSampledDpEvent on a batch"),
    (Sampled(1.5, GaussianDpEvent(1.0)), EVERY, "sampling_probability"),
    (GaussianDpEvent(-1.0), EVERY, "noise_multiplier"),
    (GaussianDpEvent("1"), EVERY, "noise_multiplier"),
    (Repeated(GaussianDpEvent(1.0), 0), EVERY, "count"),
    (Repeat(GaussianDpEvent(1.0), 10.0, math.inf), EVERY, "shape"),
    (events.DpEvent(), EVERY, "no proof"),
]


@every("event, relations, words", UNPROVEN)
def test_what_has_no_proof_is_refused_by_name_however_deep(event, relations, words):
    deep = Composed([events.NoOpDpEvent(), Repeated(event, 2)])
    for relation in relations:
        accountant = PabiAccountant(relation)
        for one in (event, deep):
            assert not accountant.supports(one)
            with pytest.raises(dp.UnsupportedEventError, match=words):
                accountant.compose(one)
        assert accountant.curve == Gaussian(0.0)
        if relation is not ADD:
            with pytest.raises(UnsupportedEvent, match=words) as refusal:
                from_event(deep, neighboring_relation=relation)
            assert refusal.value.event is event
            assert type(event).__name__ in str(refusal.value)
            assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_a_subclass_of_an_event_is_another_event():
    class LouderDpEvent(GaussianDpEvent):
        pass

    assert not PabiAccountant().supports(LouderDpEvent(1.0))


# The accountant beside dp-accounting's.


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (GaussianDpEvent(2.0), ADD),
        (GaussianDpEvent(2.0), REPLACE),
        (LaplaceDpEvent(2.0), SPECIAL),
        (Discrete(0.3, 3), ADD),
        (Response(0.6, 4), REPLACE),
        (Response(0.6, 4), SPECIAL),
        (Sampled(0.05, GaussianDpEvent(1.0)), ADD),
        (Sampled(0.05, GaussianDpEvent(1.0)), REPLACE),
        (Sampled(0.2, LaplaceDpEvent(0.7)), ADD),
        (Shifts(2.0, [0.0, 1.0], [0.9, 0.1]), ADD),  # theirs is slow at 1.0
    ],
    ids=str,
)
def test_one_event_costs_what_dp_accounting_says(event, relation):
    mine, theirs = accounted(event, relation), PLDAccountant(relation).compose(event)
    for delta in (1e-9, 1e-5, 1e-2):
        bound = theirs.get_epsilon(delta)
        assert bound * (1.0 - 1e-3) - 1e-4 <= mine.get_epsilon(delta) <= bound * (1.0 + 1e-6) + 1e-9
    for epsilon in (0.0, 0.1, 0.5):
        bound = theirs.get_delta(epsilon)
        assert mine.get_delta(epsilon) <= bound * (1.0 + 1e-6) + 1e-12
        assert mine.get_delta(epsilon) >= bound * (1.0 - 1e-3) - 1e-6


def test_a_randomised_response_is_counted_as_often_as_it_is_made():
    """dp-accounting 0.6.0 counts it once."""
    mine = accounted(Repeated(Response(0.5, 2), 10), REPLACE).get_epsilon(DELTA)
    one = pld.from_randomized_response(0.5, 2, value_discretization_interval=1e-4)
    assert mine == pytest.approx(one.self_compose(10).get_epsilon_for_delta(DELTA), rel=1e-3)


def test_composing_in_one_go_or_event_by_event_is_the_same():
    parts = (GaussianDpEvent(2.0), LaplaceDpEvent(3.0), LaplaceDpEvent(3.0))
    one = accounted(Composed(list(parts)), ADD)
    several = PabiAccountant()
    for part in parts[:2]:
        several.compose(part)
    several.compose(LaplaceDpEvent(3.0), 1)
    assert one.curve.epsilon(DELTA) == several.get_epsilon(DELTA)
    assert several.ledger == Composed([GaussianDpEvent(2.0), Repeated(LaplaceDpEvent(3.0), 2)])
    assert PabiAccountant().compose(parts[1], 2).curve == Product([(one.curve.factors[0][0], 2)])


# Guarantees.


def test_an_event_is_a_guarantee_under_the_adjacency_of_its_relation():
    event = Composed([GaussianDpEvent(2.0), LaplaceDpEvent(3.0)])
    blank = from_event(event, neighboring_relation=SPECIAL)
    other = from_event(event, neighboring_relation=REPLACE)
    assert (blank.adjacency, other.adjacency) == ("zero_out", "replace_one")
    assert blank.epsilon(DELTA) < other.epsilon(DELTA)
    assert any("contributes nothing to any sum" in sentence for sentence in blank.assumptions)
    assert not any("contributes nothing" in sentence for sentence in other.assumptions)
    for guarantee in (blank, other):
        assert f"the mechanism is {event!r}" in guarantee.assumptions
        assert pabi.verify(guarantee).ok


def stated(curve, adjacency="zero_out"):
    return pabi.Guarantee.from_tradeoff(
        curve, adjacency=adjacency, method="a mechanism", source="its makers"
    )


RELATIONS = {"zero_out": SPECIAL, "replace_one": REPLACE}
BLANK, REPLACED = ["zero_out"], ["replace_one"]
# Curves, and the adjacencies under which an event says them.
SAID = [
    *(
        (curve, [*RELATIONS])
        for curve in (Gaussian(0.3), Gaussian(0.0), Laplace(0.7), ApproxDP(0.7))
    ),
    (Laplace(0.7, 0.1), BLANK),
    (PoissonSubsampled(0.8, 0.1), BLANK),
    (FixedSizeSubsampled(0.8, 0.4, 0.4, 0.1), BLANK),
    *((curve, REPLACED) for curve in (PoissonReplaced(0.8, 0.1), Subsampled(Gaussian(0.8), 0.1))),
    *((curve, []) for curve in (ApproxDP(0.7, 1e-3), BoundedRange(0.4))),
    (Mixture([Gaussian(0.1), Gaussian(0.5)], [0.5, 0.5]), []),
    (Best([Gaussian(0.4), Laplace(0.3)]), []),
    (FixedSizeSubsampled(0.8, 0.4, 0.5, 0.1), []),
]
OTHERS_SAID = [
    (Gaussian(math.inf), [*RELATIONS]),
    (Product([(Laplace(0.7), 3), (Gaussian(0.3), 1), (ApproxDP(0.1), 2)]), [*RELATIONS]),
    (ApproxDP(800.0), [*RELATIONS]),
    *((Subsampled(Gaussian(0.8), 1e-12), []), (Selected(Gaussian(0.3), 10.0, 0.5), [])),
    (Product([(Gaussian(0.3), 1)], failure=1e-9), []),
]


def test_answers_are_events_that_dp_accounting_counts_one_by_one():
    """Five answers cost 1.001 there, and not 5, where one event says "five times"."""
    several = Product([(ApproxDP(1.0), 5)])
    for adjacency, relation in RELATIONS.items():
        theirs = PLDAccountant(relation).compose(to_event(stated(several, adjacency)))
        assert theirs.get_epsilon(DELTA) > 4.99
    many = stated(Product([(ApproxDP(1e-9), 10**5)]), "replace_one")
    assert "use to_pld" in refused("guarantee", to_event, many)


@every("curve, adjacencies", SAID + OTHERS_SAID)
def test_a_guarantee_that_becomes_an_event_comes_back_and_no_smaller(curve, adjacencies):
    for adjacency, relation in RELATIONS.items():
        guarantee = stated(curve, adjacency)
        if adjacency not in adjacencies:
            message = refused("guarantee", to_event, guarantee)
            assert re.search("no event says .* use to_pld", message), message
            continue
        again = from_event(to_event(guarantee), neighboring_relation=relation)
        for delta in (1e-9, 1e-5, 1e-2):
            low, high = curve.epsilon_bounds(delta)
            assert low <= again.epsilon(delta)
            assert again.epsilon(delta) == pytest.approx(high, rel=2e-3, abs=1e-9)


@every("curve", [*(curve for curve, _ in SAID), randomised_response(0.5, 3, blank=True)])
def test_a_distribution_is_never_below_the_guarantee_and_hardly_above(curve):
    losses = to_pld(stated(curve))
    for delta in (2e-3, 1e-2, 1e-5, 1e-9):
        epsilon = curve.epsilon(delta)
        theirs = losses.get_epsilon_for_delta(delta)
        assert theirs >= epsilon * (1.0 - 1e-12)
        # Of the best of several bounds it is the one that is least at 1e-5.
        if not isinstance(curve, Best) or delta == DELTA:
            assert theirs <= epsilon + 1e-4 or epsilon == theirs == math.inf
    for epsilon in (0.0, 0.2):
        assert losses.get_delta_for_epsilon(epsilon) >= curve.delta(epsilon) * (1.0 - 1e-12)


def test_a_selection_becomes_a_distribution():
    """Its own pair is the hull of points of δ: that is what is on the grid."""
    curve = selected(Gaussian(0.3), 10.0)
    losses = to_pld(stated(curve))
    for delta in (1e-3, 1e-6):
        assert losses.get_epsilon_for_delta(delta) >= curve.epsilon(delta) * (1.0 - 1e-9)
        assert losses.get_epsilon_for_delta(delta) <= curve.epsilon(delta) * 1.01


def test_both_orders_of_a_distribution_are_there():
    """Of one release removal is the worse; of several each order is composed by itself."""
    losses = to_pld(stated(PoissonSubsampled(0.8, 0.1))).self_compose(20)
    theirs = pld.from_gaussian_mechanism(
        1.25, sampling_prob=0.1, value_discretization_interval=1e-4
    )
    for epsilon in (-0.5, 0.0, 0.5):
        expected = theirs.self_compose(20).get_delta_for_epsilon(epsilon)
        assert losses.get_delta_for_epsilon(epsilon) == pytest.approx(expected, rel=1e-3)
    added, removed = losses._pmf_add, losses._pmf_remove
    assert added.get_delta_for_epsilon(0.5) < removed.get_delta_for_epsilon(0.5)


@every("failure", [1e-12, 1e-6, 0.01])
def test_a_distribution_fails_at_least_as_often_as_the_guarantee(failure):
    """Beside a loss that is infinite on its own, which a plain composition would count once only."""
    curve = Product([(Gaussian(0.3), 1), (ApproxDP(0.2, 0.25), 2)], failure)
    losses = to_pld(stated(curve))
    truth = 1.0 - 0.75**2 + failure
    assert losses.get_delta_for_epsilon(50.0) == pytest.approx(truth, rel=1e-9)
    assert losses.get_delta_for_epsilon(50.0) >= truth * (1.0 - 1e-13)
    assert losses.get_delta_for_epsilon(0.1) >= curve.delta_bounds(0.1)[0]


def run_of(l2, **fields):
    return pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=l2), step_size=0.1, **fields)


def test_a_run_composes_with_their_mechanisms_in_their_library():
    schedule = {"n": 2000, "batches": pabi.ShuffleOnce(100), "epochs": 3}
    own = run_of(0.01, **schedule, noise_std=0.03, adjacency="zero_out").guarantee(DELTA)
    foreign = pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
    theirs = to_pld(own).compose(foreign).get_epsilon_for_delta(DELTA)
    low, high = pabi.compose(own, stated(Laplace(0.5))).epsilon_bounds(DELTA, 1e-4)
    assert low <= theirs <= high * (1.0 + 1e-3)


def test_the_accountant_takes_guarantees_beside_events():
    one = stated(Laplace(0.5))
    both = accounted(GaussianDpEvent(4.0), SPECIAL)
    for wrong in (
        stated(one.curve, "replace_one"),
        stated(Gaussian(0.5), "replace_one").for_groups(2),
    ):
        with pytest.raises(pabi.InvalidInput):
            both.compose(wrong)
    with pytest.raises(TypeError):
        both.compose(0.5)
    truth = Product([(Gaussian(0.25), 1), (Laplace(0.5), 3)])
    assert both.compose(one, 3).get_epsilon(1e-6) == pytest.approx(truth.epsilon(1e-6), rel=1e-3)


def test_what_protects_nobody_or_some_alone_becomes_no_number_that_would_not_say_so():
    testing, accountant = stated(Gaussian(0.3)).for_testing(), PabiAccountant(SPECIAL)
    sentence = "the record is one of batch 3 (0-based); no other record is spoken of"
    of_one_batch = stated(Gaussian(0.3)).assuming(sentence)
    for make in (to_event, to_pld, accountant.compose):
        assert "testing only" in refused("guarantee", make, testing)
        assert "of batch 3 alone" in refused("guarantee", make, of_one_batch)
    assert accountant.get_epsilon(DELTA) == 0.0


def test_what_is_no_event_relation_or_guarantee_is_refused():
    """Nor is there a relation of dp-accounting between a model and one that is trained again."""
    event, own = GaussianDpEvent(2.0), stated(Gaussian(0.3))
    refused("neighboring_relation", PabiAccountant, "REPLACE_ONE")
    refused("neighboring_relation", from_event, event, neighboring_relation="zero_out")
    refused("event", from_event, 0.5, neighboring_relation=SPECIAL)
    sizes = refused("neighboring_relation", from_event, event, neighboring_relation=ADD)
    assert "REPLACE_SPECIAL" in sizes
    forgotten = run_of(0.1, n=100, batches=pabi.FullBatch(), steps=10, noise_std=0.1)
    for export in (to_event, to_pld):
        refused("guarantee", export, Gaussian(0.3))
        message = refused("adjacency", export, forgotten.unlearning(1e-5, steps=5))
        assert message.endswith("got 'retrained'")
    field = "value_discretization_interval"
    refused(field, to_pld, own, value_discretization_interval=0.0)

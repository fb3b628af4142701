"""dp-accounting's events and pabi's guarantees, each as the other: against dp-accounting, and refusals."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation, privacy_accountant_test
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    RepeatAndSelectDpEvent,
    SampledWithoutReplacementDpEvent,
    SampledWithReplacementDpEvent,
    SelfComposedDpEvent,
    SingleEpochTreeAggregationDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    UnsupportedDpEvent,
    ZCDpEvent,
)
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
from pabi.numbers.errors import InvalidInput
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
    TradeOff,
    discrete_laplace,
    randomised_response,
    selected,
)

DELTA = 1e-5
ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
EVERY = (ADD, REPLACE, SPECIAL)
TWO_GAUSSIANS = ComposedDpEvent(
    [GaussianDpEvent(4.0), SelfComposedDpEvent(GaussianDpEvent(8.0), 4)]
)


class TestTheirOwnTest(privacy_accountant_test.PrivacyAccountantTest):
    """What dp-accounting asks of every accountant."""

    def _make_test_accountants(self) -> list[PabiAccountant]:
        return [PabiAccountant(relation) for relation in EVERY]


# What an event means.

MEANT: list[tuple[Any, dict[Any, TradeOff]]] = [
    (NoOpDpEvent(), dict.fromkeys(EVERY, Gaussian(0.0))),
    (NonPrivateDpEvent(), dict.fromkeys(EVERY, Gaussian(math.inf))),
    (
        GaussianDpEvent(4.0),
        {ADD: Gaussian(0.25), SPECIAL: Gaussian(0.25), REPLACE: Gaussian(0.5)},
    ),
    (GaussianDpEvent(0.0), dict.fromkeys(EVERY, Gaussian(math.inf))),
    # 1/16 + 4/64 = 1/8
    (TWO_GAUSSIANS, {ADD: Gaussian(math.sqrt(0.125)), REPLACE: Gaussian(math.sqrt(0.5))}),
    (LaplaceDpEvent(2.0), {ADD: Laplace(0.5), SPECIAL: Laplace(0.5), REPLACE: Laplace(1.0)}),
    (
        DiscreteLaplaceDpEvent(0.25, 2),
        {
            ADD: discrete_laplace(0.25, 2),
            SPECIAL: discrete_laplace(0.25, 2),
            REPLACE: discrete_laplace(0.25, 4),
        },
    ),
    (
        RandomizedResponseDpEvent(0.5, 3),
        {REPLACE: randomised_response(0.5, 3), SPECIAL: randomised_response(0.5, 3, blank=True)},
    ),
    (
        PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)),
        {
            ADD: PoissonSubsampled(0.5, 0.1),
            SPECIAL: PoissonSubsampled(0.5, 0.1),
            REPLACE: PoissonReplaced(0.5, 0.1),
        },
    ),
    (
        PoissonSampledDpEvent(0.1, TWO_GAUSSIANS),
        {ADD: PoissonSubsampled(math.sqrt(0.125), 0.1)},
    ),
    (
        PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0)),
        {ADD: Laplace(0.5, 0.1), SPECIAL: Laplace(0.5, 0.1)},
    ),
    (PoissonSampledDpEvent(0.1, NonPrivateDpEvent()), dict.fromkeys(EVERY, Gaussian(math.inf))),
    (
        SampledWithoutReplacementDpEvent(100, 25, GaussianDpEvent(2.0)),
        {
            REPLACE: Subsampled(Gaussian(1.0), 0.25),
            SPECIAL: FixedSizeSubsampled(1.0, 0.5, 0.5, 0.25),
        },
    ),
    (
        SampledWithoutReplacementDpEvent(100, 100, GaussianDpEvent(2.0)),
        {REPLACE: Subsampled(Gaussian(1.0), 1.0), SPECIAL: Subsampled(Gaussian(0.5), 1.0)},
    ),
    # A leaf among 5 lies in nodes of 3 levels, one among 4 in 3, one among 3 in 2.
    (
        SingleEpochTreeAggregationDpEvent(2.0, [5, 2]),
        {SPECIAL: Gaussian(0.5).self_compose(3), REPLACE: Gaussian(1.0).self_compose(3)},
    ),
    (SingleEpochTreeAggregationDpEvent(2.0, 4), {SPECIAL: Gaussian(0.5).self_compose(3)}),
    (SingleEpochTreeAggregationDpEvent(2.0, 3), {SPECIAL: Gaussian(0.5).self_compose(2)}),
    (
        MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.75, 0.25]),
        {ADD: PoissonSubsampled(0.5, 0.25), SPECIAL: PoissonSubsampled(0.5, 0.25)},
    ),
    (
        RepeatAndSelectDpEvent(GaussianDpEvent(4.0), 10.0, 1.0),
        {ADD: selected(Gaussian(0.25), 10.0, 1.0)},
    ),
    (SelfComposedDpEvent(LaplaceDpEvent(2.0), 3), {ADD: Product([(Laplace(0.5), 3)])}),
    (ComposedDpEvent([]), dict.fromkeys(EVERY, Gaussian(0.0))),
]


def accounted(event: Any, relation: Any) -> PabiAccountant:
    return PabiAccountant(relation).compose(event)


@pytest.mark.parametrize(("event", "curves"), MEANT, ids=lambda value: type(value).__name__)
def test_an_event_means_what_the_table_says(event: Any, curves: dict[Any, TradeOff]):
    for relation, curve in curves.items():
        own = accounted(event, relation).curve
        if isinstance(curve, Gaussian) and 0.0 < curve.mu < math.inf:
            assert own.mu == pytest.approx(curve.mu, rel=1e-15)
        elif isinstance(curve, PoissonSubsampled):
            assert (own.mu, own.probability) == pytest.approx((curve.mu, curve.probability))
        else:
            assert own == curve


@pytest.mark.parametrize(
    ("event", "relations", "words"),
    [
        (UnsupportedDpEvent(), EVERY, "nothing is known"),
        (ZCDpEvent(0.1), EVERY, "determine no trade-off function"),
        (SampledWithReplacementDpEvent(9, 3, GaussianDpEvent(1.0)), EVERY, "several times"),
        (TruncatedSubsampledGaussianDpEvent(9, 0.1, 3, 1.0), EVERY, "truncated"),
        (MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.5]), (ADD, SPECIAL), "several sens"),
        (MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), (REPLACE,), "ADD_OR_REMOVE_ONE"),
        (MixtureOfGaussiansDpEvent(1.0, [1.0], [0.5]), (ADD,), "the sum 1"),
        (RandomizedResponseDpEvent(0.5, 3), (ADD,), "expected REPLACE_ONE"),
        (SampledWithoutReplacementDpEvent(9, 3, GaussianDpEvent(1.0)), (ADD,), "REPLACE_ONE"),
        (SampledWithoutReplacementDpEvent(9, 3, LaplaceDpEvent(1.0)), (REPLACE,), "LaplaceDpEvent"),
        (SampledWithoutReplacementDpEvent(3, 9, GaussianDpEvent(1.0)), (REPLACE,), "sample_size"),
        (SingleEpochTreeAggregationDpEvent(1.0, 4), (ADD,), "REPLACE_SPECIAL"),
        (SingleEpochTreeAggregationDpEvent(1.0, []), (SPECIAL,), "step_counts"),
        (PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0)), (REPLACE,), "REPLACE_SPECIAL"),
        (
            PoissonSampledDpEvent(0.1, DiscreteLaplaceDpEvent(1.0, 1)),
            EVERY,
            "DiscreteLaplaceDpEvent",
        ),
        (
            PoissonSampledDpEvent(0.1, PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))),
            EVERY,
            "PoissonSampledDpEvent on a batch",
        ),
        (PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0)), EVERY, "sampling_probability"),
        (GaussianDpEvent(-1.0), EVERY, "noise_multiplier"),
        (GaussianDpEvent("1"), EVERY, "noise_multiplier"),
        (SelfComposedDpEvent(GaussianDpEvent(1.0), 0), EVERY, "count"),
        (RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 10.0, math.inf), EVERY, "shape"),
        (DpEvent(), EVERY, "no proof"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_proof_is_refused_by_name_however_deep(event: Any, relations: Any, words: str):
    deep = ComposedDpEvent([NoOpDpEvent(), SelfComposedDpEvent(event, 2)])
    for relation in relations:
        accountant = PabiAccountant(relation)
        for one in (event, deep):
            assert not accountant.supports(one)
            with pytest.raises(dp_accounting.UnsupportedEventError, match=words):
                accountant.compose(one)
        assert accountant.curve == Gaussian(0.0)
        if relation is not ADD:
            with pytest.raises(UnsupportedEvent, match=words) as refusal:
                from_event(deep, neighboring_relation=relation)
            assert refusal.value.event is event
            assert type(event).__name__ in str(refusal.value)
            again = pickle.loads(pickle.dumps(refusal.value))
            assert str(again) == str(refusal.value)


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
        (DiscreteLaplaceDpEvent(0.3, 3), ADD),
        (RandomizedResponseDpEvent(0.6, 4), REPLACE),
        (RandomizedResponseDpEvent(0.6, 4), SPECIAL),
        (PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0)), ADD),
        (PoissonSampledDpEvent(0.05, GaussianDpEvent(1.0)), REPLACE),
        (PoissonSampledDpEvent(0.2, LaplaceDpEvent(0.7)), ADD),
        (MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.9, 0.1]), ADD),  # theirs is slow at 1.0
    ],
    ids=str,
)
def test_one_event_costs_what_dp_accounting_says(event: Any, relation: Any):
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
    event = SelfComposedDpEvent(RandomizedResponseDpEvent(0.5, 2), 10)
    mine = accounted(event, REPLACE).get_epsilon(DELTA)
    one = pld.from_randomized_response(0.5, 2, value_discretization_interval=1e-4)
    assert mine == pytest.approx(one.self_compose(10).get_epsilon_for_delta(DELTA), rel=1e-3)


def test_composing_in_one_go_or_event_by_event_is_the_same():
    parts = (GaussianDpEvent(2.0), LaplaceDpEvent(3.0), LaplaceDpEvent(3.0))
    one = accounted(ComposedDpEvent(list(parts)), ADD)
    several = PabiAccountant()
    for part in parts[:2]:
        several.compose(part)
    several.compose(LaplaceDpEvent(3.0), 1)
    assert one.curve.epsilon(DELTA) == several.get_epsilon(DELTA)
    assert several.ledger == ComposedDpEvent(
        [GaussianDpEvent(2.0), SelfComposedDpEvent(LaplaceDpEvent(3.0), 2)]
    )
    assert PabiAccountant().compose(parts[1], 2).curve == Product([(one.curve.factors[0][0], 2)])


def test_other_relations_are_refused():
    with pytest.raises(InvalidInput, match=r"^neighboring_relation: "):
        PabiAccountant("REPLACE_ONE")


# Guarantees.


def test_an_event_is_a_guarantee_under_the_adjacency_of_its_relation():
    event = ComposedDpEvent([GaussianDpEvent(2.0), LaplaceDpEvent(3.0)])
    blank = from_event(event, neighboring_relation=SPECIAL)
    other = from_event(event, neighboring_relation=REPLACE)
    assert (blank.adjacency, other.adjacency) == ("zero_out", "replace_one")
    assert blank.epsilon(DELTA) < other.epsilon(DELTA)
    assert any("contributes nothing to any sum" in sentence for sentence in blank.assumptions)
    assert not any("contributes nothing" in sentence for sentence in other.assumptions)
    for guarantee in (blank, other):
        assert f"the mechanism is {event!r}" in guarantee.assumptions
        assert pabi.verify(guarantee).ok


def test_data_sets_of_different_sizes_are_no_adjacency():
    with pytest.raises(InvalidInput, match=r"^neighboring_relation: .*REPLACE_SPECIAL"):
        from_event(GaussianDpEvent(2.0), neighboring_relation=ADD)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [((0.5, SPECIAL), "event"), ((GaussianDpEvent(1.0), "zero_out"), "neighboring_relation")],
)
def test_what_is_no_event_or_relation_is_refused(arguments: tuple[Any, Any], field: str):
    with pytest.raises(InvalidInput) as refusal:
        from_event(arguments[0], neighboring_relation=arguments[1])
    assert refusal.value.field == field


def stated(curve: TradeOff, adjacency: str = "zero_out") -> pabi.Guarantee:
    return pabi.Guarantee.from_tradeoff(
        curve, adjacency=adjacency, method="a mechanism", source="its makers"
    )


RELATIONS = {"zero_out": SPECIAL, "replace_one": REPLACE}
SAYABLE = [
    (Gaussian(0.3), "zero_out"),
    (Gaussian(0.3), "replace_one"),
    (Gaussian(0.0), "replace_one"),
    (Gaussian(math.inf), "zero_out"),
    (Laplace(0.7), "zero_out"),
    (Laplace(0.7), "replace_one"),
    (Laplace(0.7, 0.1), "zero_out"),
    (ApproxDP(0.9), "zero_out"),
    (ApproxDP(0.9), "replace_one"),
    (PoissonSubsampled(0.8, 0.1), "zero_out"),
    (PoissonReplaced(0.8, 0.1), "replace_one"),
    (Subsampled(Gaussian(0.8), 0.1), "replace_one"),
    (FixedSizeSubsampled(0.8, 0.4, 0.4, 0.1), "zero_out"),
    (Product([(Laplace(0.7), 3), (Gaussian(0.3), 1), (ApproxDP(0.1), 2)]), "zero_out"),
]


@pytest.mark.parametrize(("curve", "adjacency"), SAYABLE, ids=str)
def test_a_guarantee_that_becomes_an_event_comes_back_and_no_smaller(
    curve: TradeOff, adjacency: str
):
    event = to_event(stated(curve, adjacency))
    again = from_event(event, neighboring_relation=RELATIONS[adjacency])
    for delta in (1e-9, 1e-5, 1e-2):
        low, high = curve.epsilon_bounds(delta)
        assert low <= again.epsilon(delta)
        assert again.epsilon(delta) == pytest.approx(high, rel=2e-3, abs=1e-9)


@pytest.mark.parametrize(
    ("curve", "adjacency"),
    [
        (ApproxDP(0.7, 1e-6), "zero_out"),
        (BoundedRange(0.4), "zero_out"),
        (Mixture([Gaussian(0.1), Gaussian(0.5)], [0.5, 0.5]), "zero_out"),
        (Best([Gaussian(0.4), Laplace(0.3)]), "zero_out"),
        (Laplace(0.7, 0.1), "replace_one"),
        (PoissonSubsampled(0.8, 0.1), "replace_one"),
        (PoissonReplaced(0.8, 0.1), "zero_out"),
        (Subsampled(Gaussian(0.8), 0.1), "zero_out"),
        (Subsampled(Gaussian(0.8), 1e-12), "replace_one"),
        (FixedSizeSubsampled(0.8, 0.4, 0.4, 0.1), "replace_one"),
        (FixedSizeSubsampled(0.8, 0.4, 0.5, 0.1), "zero_out"),
        (Selected(Gaussian(0.3), 10.0, 0.5), "zero_out"),
        (Product([(Gaussian(0.3), 1)], failure=1e-9), "zero_out"),
    ],
    ids=str,
)
def test_a_curve_that_no_event_says_is_refused(curve: TradeOff, adjacency: str):
    with pytest.raises(InvalidInput, match=r"^guarantee: no event says .* use to_pld"):
        to_event(stated(curve, adjacency))


GRIDDED = [
    Gaussian(0.3),
    Gaussian(0.0),
    Laplace(0.7),
    Laplace(0.7, 0.1),
    ApproxDP(0.7),
    ApproxDP(0.7, 1e-3),
    BoundedRange(0.4),
    Mixture([Gaussian(0.1), Gaussian(0.5)], [0.5, 0.5]),
    PoissonSubsampled(0.8, 0.1),
    PoissonReplaced(0.8, 0.1),
    Subsampled(Gaussian(0.8), 0.1),
    FixedSizeSubsampled(0.8, 0.4, 0.5, 0.1),
    randomised_response(0.5, 3, blank=True),
    Best([Gaussian(0.4), Laplace(0.3)]),
]


@pytest.mark.parametrize("curve", GRIDDED, ids=str)
def test_a_distribution_is_never_below_the_guarantee_and_hardly_above(curve: TradeOff):
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
    curve = PoissonSubsampled(0.8, 0.1)
    losses = to_pld(stated(curve)).self_compose(20)
    theirs = pld.from_gaussian_mechanism(
        1.25, sampling_prob=0.1, value_discretization_interval=1e-4
    )
    for epsilon in (-0.5, 0.0, 0.5):
        expected = theirs.self_compose(20).get_delta_for_epsilon(epsilon)
        assert losses.get_delta_for_epsilon(epsilon) == pytest.approx(expected, rel=1e-3)
    assert losses._pmf_add.get_delta_for_epsilon(0.5) < losses._pmf_remove.get_delta_for_epsilon(
        0.5
    )


@pytest.mark.parametrize("failure", [1e-12, 1e-6, 0.01])
def test_a_distribution_fails_at_least_as_often_as_the_guarantee(failure: float):
    """Beside a loss that is infinite on its own, which a plain composition would count once only."""
    curve = Product([(Gaussian(0.3), 1), (ApproxDP(0.2, 0.25), 2)], failure)
    losses = to_pld(stated(curve))
    truth = 1.0 - 0.75**2 + failure
    assert losses.get_delta_for_epsilon(50.0) == pytest.approx(truth, rel=1e-9)
    assert losses.get_delta_for_epsilon(50.0) >= truth * (1.0 - 1e-13)
    assert losses.get_delta_for_epsilon(0.1) >= curve.delta_bounds(0.1)[0]


def test_a_run_composes_with_their_mechanisms_in_their_library():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.01),
        n=2000,
        batches=pabi.ShuffleOnce(100),
        epochs=3,
        step_size=0.1,
        noise_std=0.03,
        adjacency="zero_out",
    )
    own = run.guarantee(DELTA)
    foreign = pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
    theirs = to_pld(own).compose(foreign).get_epsilon_for_delta(DELTA)
    both = pabi.compose(own, stated(Laplace(0.5)))
    low, high = both.epsilon_bounds(DELTA, 1e-4)
    assert low <= theirs <= high * (1.0 + 1e-3)


def test_what_is_no_guarantee_is_refused():
    for call in (to_event, to_pld):
        with pytest.raises(InvalidInput, match=r"^guarantee: "):
            call(Gaussian(0.3))
    with pytest.raises(InvalidInput, match=r"^value_discretization_interval: "):
        to_pld(stated(Gaussian(0.3)), value_discretization_interval=0.0)


# The extra.


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pabi_does_not_load_it():
    assert (
        python("import sys, pabi, pabi.tradeoff; print('dp_accounting' in sys.modules)") == "False"
    )


def test_without_it_the_module_says_how_to_install_it():
    code = (
        "import sys; sys.modules['dp_accounting'] = None\n"
        "try:\n    import pabi.integrations.dp_accounting\n"
        "except ValueError as no: print(no)"
    )
    assert python(code) == (
        "dp-accounting: is not installed; in a checkout of pabi: pip install '.[dp-accounting]'"
    )


def test_guarantees_of_forgetting_are_refused():
    """dp-accounting compares data sets, and none of its relations is that to a retrained model."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.1),
        n=100,
        batches=pabi.FullBatch(),
        steps=10,
        step_size=0.5,
        noise_std=0.1,
    )
    forgotten = run.unlearning(1e-5, steps=5)
    for export in (to_event, to_pld):
        with pytest.raises(pabi.InvalidInput, match="^adjacency: .* got 'retrained'"):
            export(forgotten)


def test_the_accountant_takes_guarantees_beside_events():
    one = stated(Laplace(0.5))
    event = GaussianDpEvent(4.0)
    both = accounted(event, SPECIAL).compose(one, 3)
    truth = Product([(Gaussian(0.25), 1), (Laplace(0.5), 3)])
    assert both.get_epsilon(1e-6) == pytest.approx(truth.epsilon(1e-6), rel=1e-3)
    for wrong in (
        stated(Laplace(0.5), "replace_one"),
        stated(Gaussian(0.5), "replace_one").for_groups(2),
    ):
        with pytest.raises(pabi.InvalidInput):
            accounted(event, SPECIAL).compose(wrong)
    with pytest.raises(TypeError):
        accounted(event, SPECIAL).compose(0.5)

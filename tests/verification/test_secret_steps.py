"""Secret steps: what the checker makes of them, what it asks for and what it refuses."""

import functools
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import pabi
from pabi.account.analyses import secret_steps
from pabi.account.analyses.writing import SampledProof
from pabi.tradeoff import Gaussian, Product, RandomAllocation
from pabi.verification.anew import allocations
from pabi.verification.anew.allocations import Orders
from pabi.verification.factors.allocations import Allocation, Allocations, LabelGroup
from pabi.verification.granting import grant
from support.allocations import KINDS, delta_of_few, delta_with_hub, orders
from support.certificates import all_refused, forged, granted, refused, with_reading
from support.every_case import every

DELTA = 1e-5

# Sizes and weights of one to three labels.
FEW = [
    ((1.0,), (1.0,)),
    ((0.3,), (0.6,)),
    ((0.05, 0.05), (0.5, 0.5)),
    ((1.2, 0.3), (0.2, 0.7)),
    ((0.4, 0.2, 0.4), (0.3, 0.3, 0.3)),
]
# Levels of Orders: by how much δ may be above the truth.
LEVELS = ((0, 0.12), (1, 0.04), (2, 0.03), (3, 0.02))


def allocation(sizes, weights, opposite, displaces):
    labels = [LabelGroup(Fraction(w), (a,), 1) for a, w in zip(sizes, weights, strict=True)]
    return Allocation(tuple(labels), opposite, displaces)


@pytest.mark.nightly
@pytest.mark.parametrize(("level", "loose"), LEVELS)
@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
def test_delta_of_few_labels_at_every_level(opposite, displaces, level, loose):
    """In either order: never below the truth, and for bins a little above it.

    Displaced records are hidden well among many only."""
    for sizes, weights in FEW:
        found = Orders(allocation(sizes, weights, opposite, displaces), level)
        for order in orders(opposite):
            for epsilon in (0.0, 0.1, 0.7, 2.0):
                least = delta_of_few(
                    weights, sizes, epsilon, opposite, displaces, order, (20000, 1500, 100)
                )
                delta = found.delta(order, epsilon)
                assert delta >= least * (1.0 - 1e-9)
                if least > 1e-7 and not displaces:
                    assert delta <= (1.0 + loose) * least + 1e-10


@every(
    "opposite, displaces, groups",
    [
        (*kind, groups)
        for kind in KINDS
        for groups in ([(0.99, 0.5, 100)], [(0.999, 0.3, 10)], [(0.5, 0.4, 9), (0.4, 0.2, 40)])
    ],
)
def test_many_labels_against_the_accountant(opposite, displaces, groups):
    """Which computes on grids of its own kind: neither is far below the other."""
    shares, sizes, counts = zip(*groups, strict=True)
    curve = RandomAllocation(shares, sizes, counts, opposite, displaces)
    labels = tuple(LabelGroup(Fraction(w), (a,), n) for w, a, n in groups)
    found = Orders(Allocation(labels, opposite, displaces), 2)
    for epsilon in (0.0, 0.5 * curve.epsilon(DELTA), curve.epsilon(DELTA)):
        assert found.worst(epsilon) == pytest.approx(curve.delta(epsilon), rel=1e-2)


@pytest.mark.nightly
@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
def test_finer_laws_are_nearer(opposite, displaces):
    """What is left at infinite losses is next to nothing at every spacing."""
    laws = allocations.laws_of(allocation((0.4, 0.8), (0.3, 0.6), opposite, displaces))
    for spacing in (0.1, 0.03, 0.015):
        assert all(law.infinity <= 1e-6 for law in laws(1e-9, spacing))


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
def test_laws_of_few_labels(opposite, displaces):
    """Their δ at every ε of either sign is above the truth."""
    sizes, weights = (0.4, 0.8), (0.3, 0.6)
    forth, back = allocations.laws_of(allocation(sizes, weights, opposite, displaces))(1e-9, 0.1)
    last = len(orders(opposite)) - 1
    for law, order in ((forth, 0), (back, last)):
        for epsilon in (-1.0, -0.2, 0.0, 0.3, 1.0, 2.0):
            # The accountant's δ(−ε) = 1 − e^−ε + e^−ε·δ(ε) of the other order.
            way = order if epsilon >= 0.0 else last - order
            least = delta_of_few(weights, sizes, abs(epsilon), opposite, displaces, way)
            if epsilon < 0.0:
                least = -math.expm1(epsilon) + math.exp(epsilon) * least
            # `p` are the masses of losses under the first data set.
            gain = np.maximum(-np.expm1(epsilon - law.y), 0.0)
            found = float(law.p @ gain) + law.infinity
            assert found >= least * (1.0 - 1e-9)
            if least > 1e-4 and not displaces:
                assert found <= 1.2 * least


# Honest certificates.


def run(**changes):
    fields = {"loss": pabi.Loss.unknown(), "n": 1000, "batches": pabi.BallsInBins(100), "epochs": 1}
    fields |= {"step_size": 0.1, "clip_norm": 1.0, "noise_multiplier": 2.0}
    return pabi.NoisySGD(**{**fields, "adjacency": "zero_out", **changes})


def varied(steps, values=(2.0, 2.5)):
    """Noise that takes these values in turn, from one pass to the next."""
    return {
        "epochs": None,
        "steps": steps,
        "noise_multiplier": [values[k // 10 % len(values)] for k in range(steps)],
    }


REPLACED = {"adjacency": "replace_one"}
RUNS = {
    "bins": {},
    "bins, replaced": REPLACED,
    "four epochs": {"epochs": 4},
    "part of an epoch": {"epochs": 2.6},
    "never reached": {"epochs": 0.5},
    "never reached, replaced": {"epochs": 0.5, **REPLACED},
    "capped": {"batches": pabi.BallsInBins(100, 200)},
    "capped, replaced": {"batches": pabi.BallsInBins(100, 200), **REPLACED},
    "varied": varied(30),
    "half a shuffle": {"batches": pabi.Reshuffle(100), "epochs": 0.5, "noise_multiplier": 4.0},
    "half a shuffle once, replaced": {
        "batches": pabi.ShuffleOnce(100),
        "epochs": 0.5,
        "noise_multiplier": 4.0,
        **REPLACED,
    },
    "a full shuffle": {"batches": pabi.Reshuffle(100)},
    "a full shuffle once, replaced": {"batches": pabi.ShuffleOnce(300), **REPLACED},
    "a shuffle and a half": {
        "batches": pabi.Reshuffle(100),
        "epochs": 1.5,
        "noise_multiplier": 4.0,
    },
    "path": {"release": "path"},
    "large": {"epochs": 4, "noise_multiplier": 1.0, **REPLACED},
    "large, zeroed": {"noise_multiplier": 0.4, "batches": pabi.BallsInBins(500)},
    "seen": {"epochs": 16, "noise_multiplier": 1.0},
    "far in sight": {"epochs": 16, "noise_multiplier": 0.3},
    "one step": {"epochs": None, "steps": 1},
    "next to nothing": {"noise_multiplier": 1e6},
}


@functools.cache
def guarantee_of(name):
    return granted(secret_steps.apply, run(**RUNS[name]), DELTA)


def payload_of(name):
    return guarantee_of(name).certificate.payload


LONG = ("a shuffle and a half",)  # composed of a shuffle without a spare place
CASES = [pytest.param(name, marks=[pytest.mark.nightly] * (name in LONG)) for name in RUNS]


@pytest.mark.parametrize("name", CASES)
def test_what_is_proposed_is_granted(name):
    guarantee_of(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bins", "bins, replaced", "part of an epoch", "half a shuffle"])
def test_the_reading_is_near_the_checkers_own(name):
    """A reading below what the checker finds, or a share of it, is refused."""
    payload, epsilon = payload_of(name), guarantee_of(name).epsilon(DELTA)
    for factor in (0.0, 0.5, 0.98):
        refused(with_reading(payload, factor * epsilon, DELTA), "^(reading|time): ")
    assert pabi.verify(with_reading(payload, 1.01 * epsilon, DELTA)).ok


# Forgeries.


def curve_of(payload):
    """The claimed allocation, alone or in a product."""
    curve = payload["claim"]["tradeoff"]
    factors = [f for f in curve.get("factors", [curve]) if f["kind"] == "random_allocation"]
    return factors[0]


OTHER = {"zero_out": "replace_one", "replace_one": "zero_out"}


def less_claimed(payload):
    """Edits by which the claimed allocation reveals less than what is proven."""
    curve, path = curve_of(payload), "claim.tradeoff"
    if "factors" in payload["claim"]["tradeoff"]:
        path += f".factors.{payload['claim']['tradeoff']['factors'].index(curve)}"
    yield f"{path}.sizes.-1 *= 0.999999999"
    yield f"{path}.shares.-1 *= 0.999999999"
    yield f"{path}.counts.-1 += 1"
    yield f"{path}.opposite = {json.dumps(not curve['opposite'])}"
    yield f"{path}.displaces = {json.dumps(not curve['displaces'])}"
    yield from (f"{path}.{flag} = {x}" for flag in ("opposite", "displaces") for x in ("0", "null"))
    if "hub" in curve:
        yield f"del {path}.hub"
        yield f"{path}.hub *= 0.999999999"
        # More than rounding takes from the hub's share, and than readings are raised for it.
        yield from (f"{path}.shares.-1 *= {1.0 + more!r}" for more in (1e-9, 1e-13))
        yield f"{path}.shares.-1 = 1.0"
        yield f'{path}.hub = "last"'
    else:
        yield f"{path}.sizes.-1 = 0.0"


FORGED = """
run.batches = {"kind": "shuffle_once", "size": 100}
run.batches = {"kind": "poisson", "size": 100}
run.batches = {"kind": "cyclic", "size": 100}
run.batches.size = 200
run.n = 500
run.noise_multiplier *= 0.999999999
run.epochs += 1
theorem = "composition"
""".strip().splitlines()
SHUFFLES = [
    "half a shuffle",
    "half a shuffle once, replaced",
    "a full shuffle",
    "a full shuffle once, replaced",
]


@pytest.mark.parametrize("part", range(4))  # some take a second
@pytest.mark.parametrize("name", ["bins", "bins, replaced", *SHUFFLES])
def test_what_is_not_proven_is_refused(name, part):
    payload = payload_of(name)
    other = OTHER[payload["adjacency"]]
    edits = [*less_claimed(payload), 'run.batches = {"kind": "shuffle_once", "size": 200}']
    edits += [*FORGED, f'adjacency = "{other}"; run.adjacency = "{other}"'] * (name == "bins")
    edits += ["run.gradient_sensitivity = 1.0"] * (name == "bins, replaced")
    all_refused(payload, [(edit, "") for edit in edits[part::4]])


@pytest.mark.nightly  # until the time is over
@pytest.mark.parametrize("name", SHUFFLES[2:])
def test_a_lower_reading_is_refused(name):
    refused(with_reading(payload_of(name), 0.99 * guarantee_of(name).epsilon(DELTA), DELTA))


def test_a_hub_is_used_once():
    payload = payload_of("a full shuffle once, replaced")
    payload["run"]["epochs"] = 2
    refused(payload)
    # Not even with another share or size of all.
    curve_of(payload)["sizes"] = [9.0] * len(curve_of(payload)["sizes"])
    curve_of(payload)["hub"] = 9.0
    refused(payload)


def test_a_place_in_sight_is_still_accepted():
    """As older files have it: half a shuffle beside a Gaussian for a full one."""
    epochs = run(**RUNS["a shuffle and a half"])
    guarantee = granted(secret_steps.apply, epochs, DELTA)
    size = 0.25 * (1.0 + 1e-14)  # rounded up
    seen, half = Gaussian(size), RandomAllocation([0.5], [size], [5], False, True)
    older = grant(epochs, SampledProof("secret steps", epochs, Product([(seen, 1), (half, 1)])))
    assert pabi.verify(older.to_json()).ok
    source = "docs, Theory, 6.3 (Theorem 54); Dong, Roth, Su 2022, Cor. 3.3"
    assert pabi.verify(json.loads(older.to_json()) | {"source": source}).ok
    assert guarantee.assumptions == older.assumptions


def test_a_hub_covers_smaller_hubs_of_its_share():
    labels = (LabelGroup(Fraction(9, 10), (0.5,), 9),)
    hub, larger = (Allocation(labels, False, True, 1, a) for a in (0.5, 0.6))
    assert hub.covers(hub)
    assert larger.covers(hub)
    assert not hub.covers(larger)
    assert hub.covers(hub._replace(hub=0.0))
    assert not hub._replace(hub=0.0).covers(hub)
    fewer = hub._replace(labels=(LabelGroup(Fraction(8, 10), (0.5,), 9),))
    assert not hub.covers(fewer)
    for more, covered in ((Fraction(1, 2**48), True), (Fraction(1, 10**13), False)):
        less_left = hub._replace(labels=(LabelGroup(Fraction(9, 10) + more, (0.5,), 9),))
        assert less_left.covers(hub) is covered


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(("weight", "size", "hub"), [(0.5, 0.7, 0.7), (0.9, 0.4, 1.5)])
def test_a_label_and_a_hub_against_their_definition(weight, size, hub, opposite):
    """In either order: never below the truth, and little above it."""
    labels = (LabelGroup(Fraction(weight), (size,), 1),)
    found = Orders(Allocation(labels, opposite, True, 1, hub), 2)
    for order, epsilon in itertools.product(orders(opposite), (0.1, 0.7)):
        least = delta_with_hub(weight, size, hub, epsilon, opposite, order)
        assert least * (1.0 - 1e-3) <= found.delta(order, epsilon) <= 1.05 * least


@pytest.mark.parametrize("level", range(4))
def test_a_rare_large_value_keeps_its_digits(level):
    """One label that moves far: the sum is all but always 0, and δ is in closed form."""
    share, a, epsilon = Fraction(3, 13), 1.08, 10.7
    w, kappa = float(share), math.exp(epsilon)
    least = kappa + (1.0 / w - 1.0) * (kappa - 1.0)  # of L, with 2a
    z = math.log(least) / (2.0 * a) + a
    truth = w * (norm.sf(z - 2.0 * a) - least * norm.sf(z))
    found = Orders(Allocation((LabelGroup(share, (a,), 1),), True, True), level).worst(epsilon)
    assert truth <= found <= 1.02 * truth


def test_a_record_that_is_not_there_is_seen_in_no_label():
    """Where ε is large: all three have to be far below what is usual."""
    labels = (LabelGroup(Fraction(1), (5.0,), 3),)
    found = Orders(Allocation(labels, False, False), 0).delta(1, 30.0)
    assert 0.0 < found <= 1.001 * norm.cdf((math.log(3.0) - 30.0) / 5.0 + 2.5) ** 3


def test_the_failure_of_a_cap_cannot_be_left_out():
    payload = payload_of("capped")
    assert payload["claim"]["tradeoff"]["failure"] > 0.0
    for less in (0.0, 0.5, 1.0 - 1e-6):
        refused(forged(payload, f"claim.tradeoff.failure *= {less}"))
    refused(forged(payload, "run.batches.cap = 190"))  # is exceeded more often


def test_a_cap_that_nobody_reads_is_refused():
    refused(forged(payload_of("bins"), "cap = 7"), "^cap: ")
    refused(forged(payload_of("capped"), "cap = 200"), "^cap: ")


def test_claims_that_reveal_more_are_accepted():
    """Larger sizes and shares, and fewer labels, follow from what is proven."""
    payload = payload_of("part of an epoch")
    curve = curve_of(payload)
    assert len(curve["sizes"]) == 2
    curve["sizes"] = [max(curve["sizes"])] * 2
    assert pabi.verify(payload).ok


def test_the_largest_need_is_served_first_and_by_the_least_that_will_do():
    """Whatever the order in which epochs come: a small one leaves the large claims to large ones."""
    large, small = (
        Allocation((LabelGroup(Fraction(3, 5), (a,), 2),), False, True) for a in (0.5, 0.2)
    )
    claimed = Allocations((large._replace(times=2), small))
    for needed in itertools.permutations((large, small, large)):
        assert Allocations(needed).missing(claimed) is None
    assert Allocations((large, large, large)).missing(claimed)


def test_covering_takes_every_label_once():
    half = LabelGroup(Fraction(1, 2), (1.0,), 5)
    small = LabelGroup(Fraction(1, 2), (0.5,), 5)
    both = Allocation((half, small), False, False)
    assert both.covers(both)
    assert Allocation((half, half), False, False).covers(both)
    assert not both.covers(Allocation((half, half), False, False))
    assert not Allocation((half,), False, False).covers(both)
    assert not both.covers(both._replace(opposite=True))
    assert not both.covers(both._replace(displaces=True))
    likelier = LabelGroup(Fraction(3, 4), (1.0,), 5)
    assert Allocation((likelier, small), False, False).covers(both)
    assert not Allocation((likelier,), False, False).covers(both)

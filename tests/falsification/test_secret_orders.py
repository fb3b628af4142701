"""Secret batches of quadratics: records in random bins, and fresh permutations with latest uses."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import pabi
from pabi import Reshuffle
from pabi.account.best import outcomes
from pabi.account.shifts.epochs import Rests
from support.falsification.claims import EPSILONS, deltas, guarantees, refuted
from support.falsification.mixtures import Mixture, hockey_sticks
from support.falsification.secret_orders import (
    Quadratics,
    claimed_of_bins,
    claimed_of_latest_uses,
    random_quadratics,
    reshuffled,
    thrown,
    with_cap,
)

KINDS = ["alike", "mixed", "telling"]

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# The truth.


def test_two_gaussians_of_one_variance_have_the_closed_form():
    for mu in (0.05, 0.7, 3.0, 9.0):
        one = [Mixture(np.ones(1), np.array([m]), np.array([0.3])) for m in (0.0, 0.3 * mu)]
        wanted = deltas(pabi.tradeoff.Gaussian(mu))
        assert hockey_sticks(*one, EPSILONS) == pytest.approx(np.array([wanted] * 2), abs=1e-13)


def test_divergences_are_their_integrals():
    p = Mixture(np.array([0.2, 0.5, 0.3]), np.array([-2.0, 0.3, 1.0]), np.array([0.4, 0.1, 0.7]))
    q = Mixture(np.array([0.6, 0.4]), np.array([0.0, 1.6]), np.array([0.5, 0.25]))
    found = hockey_sticks(p, q, [0.5])
    y, step = np.linspace(-8.0, 8.0, 400_001, retstep=True)
    for order, (first, second) in enumerate(((p, q), (q, p))):
        excess = np.maximum(first.pdf(y) - math.exp(0.5) * second.pdf(y), 0.0)
        # The rule is exact to a few times the step squared, at the kinks.
        assert found[order, 0] == pytest.approx(excess.sum() * step, abs=20.0 * step**2)


def test_bins_are_filled_as_told():
    """Weights, places that stay, caps; and every record is equally likely in every bin, if not lost."""
    for rule, (n, bins, cap) in itertools.product(
        ["empty", "uncounted"], [(3, 2, 1), (4, 2, 3), (3, 3, 2), (3, 3, None)]
    ):
        weights, inside = thrown(n, bins, 2 * bins, cap, rule)
        assert weights.sum() == pytest.approx(1.0, rel=1e-13), (rule, n)
        assert np.array_equal(inside[:, :bins], inside[:, bins:]), (rule, n)
        assert inside[:, :bins].sum(axis=1).max() == 1, (rule, n)
        if rule != "uncounted":
            assert inside.sum(axis=2).max() == (cap or n), (rule, n)
        shares = np.tensordot(weights, inside[:, :bins], 1)
        assert np.allclose(shares, shares[0, 1] if rule != "uncounted" else shares[:1], atol=1e-14)
        if cap is None:
            assert shares[0, 0] == pytest.approx(1.0 / bins, rel=1e-13), (rule, n)


def test_permutations_of_alike_records_need_only_one_place():
    rng = np.random.default_rng(0)
    for n, size, steps in ((3, 1, 6), (4, 3, 3), (3, 2, 5)):
        found = random_quadratics(rng, 1, n, "alike")
        eta = rng.uniform(0.1, 1.0, steps)
        found = replace(
            found,
            curvature=np.full(n, found.bounds[1]),
            pull=np.append(2.0, np.zeros(n - 1)),
            other=-1.0,
            size=size,
            eta=eta,
            noise=np.ones(steps),
            cooldown=0,
        )
        few, all_of_them = (reshuffled(n, size, steps, alike) for alike in (True, False))
        assert len(few[0]) < len(all_of_them[0])
        truth = found.truth(few, EPSILONS)
        assert truth == pytest.approx(found.truth(all_of_them, EPSILONS), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("scheme", ["bins", "permutations"])
def test_the_law_is_that_of_the_algorithm(scheme):
    """Literal runs: records thrown or permuted, over-full bins left out, the iterate moved step by step.
    Their distribution function is within the Dvoretzky–Kiefer–Wolfowitz distance, at 1e-7."""
    rng = np.random.default_rng(1)
    t, runs = 5, 3000
    found = Quadratics(
        np.array([0.5, 2.0, -0.3, 1.0]),
        np.array([3.0, -1.0, 0.5, 6.0]),
        -3.0,
        2,
        rng.uniform(0.2, 1.0, t + 1),
        rng.uniform(0.3, 1.0, t + 1),
        (-0.3, 2.0),
        l2=0.2,
        cooldown=1,
        cap=2,
        start=0.7,
    )
    ends = np.empty(runs)
    for run in range(runs):
        x, bin_of = 0.7, rng.integers(0, 2, 4)
        for k in range(t + 1):
            if scheme == "permutations" and k % 2 == 0:
                bin_of = rng.permutation(4) // 2
            rows = np.flatnonzero(bin_of == k % 2) if k < t else np.zeros(0, dtype=int)
            rows = rows if len(rows) <= 2 else rows[:0]
            gradient = sum(found.curvature[i] * x - found.pull[i] for i in rows) / 2
            noise = found.noise[k] * rng.standard_normal()
            x -= found.eta[k] * (gradient + 0.2 * x + noise)
        ends[run] = x
    members = thrown(4, 2, t, 2) if scheme == "bins" else reshuffled(4, 2, t)
    ranks = np.arange(runs + 1) / runs
    for other in (False, True):
        law = found.law(members, other).cdf(np.sort(ends))
        gap = max(np.max(ranks[1:] - law), np.max(law - ranks[:-1]))
        near = gap < math.sqrt(math.log(2.0 / 1e-7) / (2.0 * runs))
        assert near != other  # the other data set is told apart


# The bounds as they are stated.


def bins_instance(rng, kind: str) -> Quadratics:
    found = random_quadratics(rng, 3, 4, kind)
    return with_cap(rng, found) if rng.random() < 0.6 else found


def truth_of_bins(found: Quadratics) -> np.ndarray:
    members = thrown(found.n, found.bins, found.data_steps, found.cap)
    return found.truth(members, EPSILONS)


def truth_of_permutations(found: Quadratics, alike: bool) -> np.ndarray:
    members = reshuffled(found.n, found.size, found.data_steps, alike)
    return found.truth(members, EPSILONS)


def telling(n: int, epochs: int, l2: float, change: float = 2.0, **others) -> Quadratics:
    """A record that pulls so hard on either data set that the release tells where it was: then nothing is
    lost by averaging. What goes before is nearly forgotten."""
    pull = np.append(1e4, np.zeros(n - 1))
    ones, none = np.ones(n * epochs), np.zeros(n)
    return Quadratics(none, pull, 1e4 - change, 1, ones, ones, (0.0, 1e-9), **{"l2": l2, **others})


def test_both_bounds_are_nearly_met():
    for n, epochs, l2 in [(3, 1, 0.9), (3, 2, 0.7), (4, 1, 0.9), (2, 2, 0.3)]:
        found = telling(n, epochs, l2)
        for truth, claim in (
            (truth_of_bins(found), claimed_of_bins(found)),
            (truth_of_permutations(found, True), claimed_of_latest_uses(found)),
        ):
            assert not refuted(truth, claim), (n, epochs)
            assert truth[0] > 0.94 * claim.delta(0.0), (n, epochs)


def test_a_first_and_only_step_meets_the_bound_of_bins():
    """One step of two: a record in the first bin is seen through the noise of that step alone."""
    found = replace(telling(2, 1, 0.5), eta=np.ones(1), noise=np.ones(1))
    assert truth_of_bins(found) == pytest.approx(deltas(claimed_of_bins(found)), rel=1e-9)


# What the library says.


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_bins_are_never_safer_than_guaranteed(kind, count):
    rng = np.random.default_rng([count, *kind.encode(), 3])
    for _ in range(count):
        found = bins_instance(rng, kind)
        run = found.run(pabi.BallsInBins(found.size, found.cap))
        truth, least = truth_of_bins(found), np.full(len(EPSILONS), np.inf)
        for name, claim in guarantees(run, float(10 ** rng.uniform(-5, -1))).items():
            assert not refuted(truth, claim), (name, found)
            least = np.minimum(least, deltas(claim))
        if found.cap is not None:  # so few places are solved one by one
            assert np.all(least <= deltas(claimed_of_bins(found)) * (1.0 + 1e-9) + 1e-15), found


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_permutations_are_never_safer_than_guaranteed(kind, count):
    rng = np.random.default_rng([count, *kind.encode(), 5])
    for _ in range(count):
        found = random_quadratics(rng, 4 if kind == "alike" else 3, 3, kind)
        truth = truth_of_permutations(found, kind == "alike")
        run, delta = found.run(Reshuffle(found.size)), float(10 ** rng.uniform(-5, -1))
        for name, claim in guarantees(run, delta).items():
            assert not refuted(truth, claim), (name, found)


def fading(n: int, epochs: int, c: float, fall: float, change: float) -> Quadratics:
    """Steps of slope c, alike in noise on the iterate, of which each moves it `fall` times as far as the one
    before."""
    eta = fall ** np.arange(float(n * epochs))
    pull, h = np.append(1e3, np.zeros(n - 1)), 1.0 - c  # c at the first step
    bounds = (min(h, 0.0), max(abs(h), 1e-9))
    return Quadratics(np.full(n, h), pull, 1e3 - change, 1, eta, 1.0 / eta, bounds)


def test_latest_uses_are_offered_where_steps_expand_or_fall():
    for c, fall in [(1.0, 0.2), (1.5, 0.5), (1.3, 1.0)]:
        found = fading(2, 4, c, fall, 3.0)
        rows = {row.method: row for row in found.run(Reshuffle(1)).explain(1e-3)}
        assert rows["latest uses"].applies, rows["latest uses"].reason
        claim = next(
            o.guarantee for o in outcomes(found.run(Reshuffle(1)), 1e-3) if o.name == "latest uses"
        )
        assert not refuted(truth_of_permutations(found, True), claim), (c, fall)


@pytest.mark.parametrize("count", [40, pytest.param(1500, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("share", "wrong"), [(1.0, False), (0.5, True)])
def test_epochs_cost_what_is_said_and_not_half_of_it(count, share, wrong, monkeypatch):
    """With what the older epochs cost halved, some of the same claims are refuted."""
    costing = Rests.costing
    monkeypatch.setattr(
        Rests,
        "costing",
        lambda self, r: (found := costing(self, r))._replace(cost=share * found.cost),
    )
    rng, refutations = np.random.default_rng(count), 0
    for kind in [*KINDS] * -(-count // len(KINDS)):
        found = random_quadratics(rng, 4 if kind == "alike" else 3, 3, kind)
        run, delta = found.run(Reshuffle(found.size)), float(10 ** rng.uniform(-5, -1))
        truth = truth_of_permutations(found, kind == "alike")
        for outcome in outcomes(run, delta, only="epoch by epoch"):
            if outcome.proposal is not None:
                refutations += refuted(truth, outcome.proposal.curve)
    assert (refutations > 0) == wrong


# Wrong bounds.


def forgetting(n: int) -> Quadratics:
    """Steps of full bins contract to a tenth, those of empty ones not at all."""
    return replace(telling(n, 1, 0.0, 1.0), curvature=np.full(n, 0.9), bounds=(0.9, 0.9), cap=n)


def hills() -> Quadratics:
    """Four records in two bins of two: three others that fall into the second bin push apart what the first
    left by 2.5, a full bin by 2."""
    given = {"bounds": (-1.0, 1.0), "size": 2, "eta": np.ones(2), "noise": np.array([1e-3, 1.0])}
    return replace(telling(4, 1, 0.0, 1.2), curvature=np.array([0.0, -1.0, -1.0, -1.0]), **given)


UNEVEN = {"2 that forget": forgetting(2), "4 that forget": forgetting(4), "hills": hills()}


def test_slopes_of_full_bins_are_caught():
    for name in UNEVEN:
        found = UNEVEN[name]
        truth = truth_of_bins(found)
        assert not refuted(truth, claimed_of_bins(found)), name
        full = (found.size,) if "forget" in name else (0, 1, 2)
        assert refuted(truth, claimed_of_bins(found, sizes=full)), name


def test_uneven_bins_are_never_safer_than_guaranteed():
    for found in UNEVEN.values():
        truth, run = truth_of_bins(found), found.run(pabi.BallsInBins(found.size, found.cap))
        for name, claim in guarantees(run, 1e-3).items():
            assert not refuted(truth, claim), (name, found)


def test_a_zeroed_record_that_does_not_count_is_caught():
    """Were it gone from the count, a bin that is empty on one data set would be whole on the other."""
    given = {"size": 2, "cap": 2, "eta": np.ones(2), "noise": np.ones(2), "zero_out": True}
    found = replace(telling(4, 1, 0.3), pull=np.array([1.0, 3.0, 3.0, 3.0]), other=0.0, **given)
    counted, without = (thrown(4, 2, 2, 2, rule) for rule in ("empty", "uncounted"))
    claim = claimed_of_bins(found)
    assert not refuted(found.truth(counted, EPSILONS), claim)
    assert refuted(found.truth(counted, EPSILONS, without), claim)


def test_an_older_use_that_keeps_its_last_sensitivity_is_caught():
    """Steps that expand or fall: an early use is worse than one in the last step of its epoch."""
    for c, fall in [(1.0, 0.2), (1.5, 0.5)]:
        found = fading(3, 3, c, fall, 3.0)
        truth = truth_of_permutations(found, True)
        assert not refuted(truth, claimed_of_latest_uses(found)), (c, fall)
        assert refuted(truth, claimed_of_latest_uses(found, grown=False)), (c, fall)


def test_half_of_the_change_is_caught():
    found = telling(3, 1, 0.9)
    told = replace(found, other=(found.pull[0] + found.other) / 2)
    assert refuted(truth_of_bins(found), claimed_of_bins(told))
    assert refuted(truth_of_permutations(found, True), claimed_of_latest_uses(told))


def test_a_known_place_is_caught():
    """The average over places does not cover a record whose place is always the last."""
    found = telling(3, 1, 0.9)
    weights, inside = thrown(3, 3, 3)
    last = inside[:, 2, 0]
    known = weights[last] / weights[last].sum(), inside[last]
    assert refuted(found.truth(known, EPSILONS), claimed_of_bins(found))
    mu = 2.0 / math.sqrt(1.0 + 0.1**2 + 0.1**4)
    wanted = norm.cdf(mu / 2) - norm.cdf(-mu / 2)
    assert found.truth(known, EPSILONS)[0] == pytest.approx(wanted, rel=1e-9)

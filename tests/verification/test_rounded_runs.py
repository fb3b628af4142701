"""Runs whose steps are computed: the checker widens by itself what it proves of a hidden path."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from flint import ctx

import pabi
from pabi.account.best import outcomes
from pabi.describe.unlearning import Unlearning
from pabi.tradeoff import Gaussian, Product
from pabi.verification.arithmetic import BITS, fraction_of
from pabi.verification.bounds import JointBound, square_below
from pabi.verification.factors.closed_forms import Failure, Gaussians, Rounding
from pabi.verification.renyi import divergence
from support.certificates import accepted, forged, refused, with_reading

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

R, DELTA = 1e-3, 1e-5
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.05)


def run_of(batches, **changes):
    given = {"n": 2000, "epochs": 4, "step_size": 0.5, "noise_std": 0.05, "rounding": R}
    return pabi.NoisySGD(LOSS, batches=batches, **{**given, **changes})


SUBJECTS = {
    "cyclic": run_of(pabi.Cyclic(100)),
    "shuffled": run_of(pabi.ShuffleOnce(100)),
    "reshuffled": run_of(pabi.Reshuffle(100)),
    "secret groups": run_of(pabi.ShuffleOnce(500, spare=100)),
    "poisson": run_of(pabi.Poisson(100), epochs=1),
    "poisson, zero out": run_of(pabi.Poisson(100, cap=200), epochs=1, adjacency="zero_out"),
    "bins": run_of(pabi.BallsInBins(200), epochs=2),
    "forgetting": Unlearning(run_of(pabi.ShuffleOnce(100)), ((40, 1),)),
    "forgetting, poisson": Unlearning(run_of(pabi.Poisson(100), epochs=1), ((20, 1),)),
}
HIDES_NOTHING = {"composition", "secret steps", "unlearning, composition"}


def rounded_by(subject, r):
    if isinstance(subject, Unlearning):
        return replace(subject, run=replace(subject.run, rounding=r))
    return replace(subject, rounding=r)


def stated_in(subject):
    return "run.run.rounding" if isinstance(subject, Unlearning) else "run.rounding"


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_hides_the_path_is_widened_and_checked(name):
    """A smaller rounding is a description of another run; a larger one, and the claims of exact steps, need
    more than is claimed."""
    subject = SUBJECTS[name]
    tried = 0
    answers = zip(outcomes(subject, DELTA), outcomes(rounded_by(subject, 0.0), DELTA), strict=True)
    for one, exact in answers:
        if one.guarantee is None or math.isinf(one.guarantee.epsilon(DELTA)):
            continue
        payload, own = one.guarantee.certificate.payload, exact.guarantee.certificate.payload
        place, before = stated_in(subject), exact.guarantee.epsilon(DELTA)
        assert "rounding" not in json.dumps(own)
        if one.name in HIDES_NOTHING:
            assert one.guarantee.curve == exact.guarantee.curve
            continue
        tried += 1
        assert one.guarantee.epsilon(DELTA) > before
        assert one.guarantee.assumptions == exact.guarantee.assumptions
        for more in (R * (1 + 1e-9), 0.5):
            refused(forged(payload, f"{place} = {more!r}"), "mu|rounding|failure")
        refused(forged(own, f"{place} = {R!r}"), "mu|rounding|failure")
        assert pabi.verify(forged(payload, f"{place} = 0.0")).ok
        if "mu" in payload["claim"]:
            refused(forged(payload, f"claim.mu += {-R!r}"), "mu")
            assert one.guarantee.mu == pytest.approx(exact.guarantee.mu + 2 * R, rel=1e-12)
        else:
            refused(forged(payload, "claim.tradeoff.rounding *= 0.999"), "rounding")
            refused(forged(payload, "del claim.tradeoff.rounding"), "rounding")
            less = 0.9 * one.guarantee.epsilon(DELTA)
            refused(with_reading(payload, less, DELTA), "reading|time")
    assert tried


def test_releases_selections_and_groups_of_computed_runs():
    one, other = SUBJECTS["shuffled"].guarantee(DELTA), SUBJECTS["cyclic"].guarantee(DELTA)
    third = run_of(pabi.ShuffleOnce(100), noise_std=0.07).guarantee(DELTA)
    exact = run_of(pabi.ShuffleOnce(100), rounding=0.0).guarantee(DELTA)
    both = pabi.compose(one, third)
    assert both.curve.rounding == pytest.approx(math.sqrt(2) * R)
    for guarantee in (
        *(both, pabi.compose(one, other), pabi.compose(one, exact), one.for_groups(3)),
        *(pabi.select(one, 10.0), pabi.select([one, third], 10.0)),
        pabi.select([one, third], 10.0, scoring=other),
    ):
        accepted(guarantee)


def test_a_budget_is_charged_for_rounding(tmp_path):
    releases = [SUBJECTS[name].guarantee(DELTA) for name in ("shuffled", "cyclic")]
    for order in (None, 8.0):
        ledger = pabi.Ledger(tmp_path / f"{order}.json", 30.0, DELTA, order=order)
        for release in releases:
            ledger.spend(release)
        accepted(ledger.guarantee)


def test_the_checkers_own_numbers():
    """Of Gaussians the truth is known; of a mixture of two that are nearly equal it is nearly the same."""
    with ctx.workprec(BITS):
        alone = JointBound.of(
            Gaussians.single(1.0), Failure(Fraction(1, 2**20)), Rounding(Fraction(1, 64) ** 2)
        )
        assert alone.parts == ((1, 1.0 + 1 / 32),)
        half = Fraction(1, 2)
        for r in (1e-8, 1 / 64, 1.0):
            mu = 1.0 + 2.0 * r
            nearly = JointBound.of(Gaussians(((half, 1.0), (half, 1.0 - 1e-12)))).computed(
                Fraction(r)
            )
            assert fraction_of(square_below(nearly)) >= (Fraction(mu) - Fraction(1e-12)) ** 2
            for order in (1.5, 8.0):
                assert fraction_of(divergence(nearly, order)) >= order * (mu - 1e-11) ** 2 / 2
            for delta in (1e-3, 1e-9):
                exact = Gaussian(mu - 1e-11).epsilon_bounds(delta)[0]
                own = nearly.epsilon(delta)
                # Without a target the checker's own grids err by 1e-3.
                assert exact <= own <= 1.001 * exact + 64.0 * r * math.sqrt(1.0 + exact)
                # The accountant's is proven by it.
                curve = Product(
                    [
                        (
                            pabi.tradeoff.Mixture(
                                [Gaussian(1.0), Gaussian(1.0 - 1e-12)], [0.5, 0.5]
                            ),
                            1,
                        )
                    ],
                    rounding=r,
                )
                assert nearly.epsilon(delta, curve.epsilon(delta)) <= curve.epsilon(delta)


@pytest.mark.parametrize(
    ("batches", "parameter"),
    [(pabi.Cyclic(100), "noise_std"), (pabi.ShuffleOnce(100), "noise_multiplier")],
)
def test_calibrated_runs_meet_their_target(batches, parameter):
    for target in ({"epsilon": 1.0, "delta": DELTA}, {"mu": 0.4}, {"tpr": 0.2, "fpr": 0.1}):
        run = pabi.calibrate(run_of(batches, noise_std=0.15), parameter=parameter, **target)
        assert run.rounding == R
        guarantee = run.guarantee(DELTA)
        if "epsilon" in target:
            assert 0.9 < guarantee.epsilon(DELTA) <= 1.0

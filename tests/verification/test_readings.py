"""The ε at δ of a verdict: the stated one where it is proven, the same in Python and on the command line."""

import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import pabi
from pabi.cli import main
from pabi.numbers.showing import shown
from pabi.verification import _least, _misread, _read
from pabi.verification.anew.secret_laws import laws_of
from pabi.verification.arithmetic import Limits, Refused, within
from pabi.verification.bounds import JointBound, read_bound
from pabi.verification.factors.mixtures import SecretParts
from support.certificates import with_reading

DELTA = 1e-5
SCHEMES = [
    pabi.FullBatch(),
    pabi.Cyclic(100),
    pabi.ShuffleOnce(100),
    pabi.BallsInBins(100),
    pabi.Poisson(100),
    pabi.FixedSize(100),
]


def a_run(batches, **changed):
    fields = {"epochs": 5, "step_size": 0.5, "noise_std": 0.05}
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
    return pabi.NoisySGD(loss, 2000, batches, **{**fields, **changed})


def command_line(tmp_path, capsys, text, *arguments):
    """The ε that `pabi verify` prints as proven, and its exit status."""
    file = tmp_path / "stated.json"
    file.write_text(text, "utf-8")
    status = main(["verify", str(file), *arguments])
    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if line.startswith("proven"))
    return line.split("; mu")[0].removeprefix("proven").strip(), status


@pytest.mark.parametrize("batches", SCHEMES, ids=lambda b: b.kind)
def test_a_verdict_says_what_the_guarantee_states(batches, tmp_path, capsys):
    guarantee = a_run(batches).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    for again in (False, True):
        verdict = pabi.verify(guarantee, again=again)
        assert verdict.reading == (stated, DELTA)
        said = shown(stated)
        assert verdict.reason.startswith(f"proven: ε = {said} at δ = {DELTA!r} (")
        printed, status = command_line(
            tmp_path, capsys, guarantee.to_json(), *["--again"][: int(again)]
        )
        assert (printed, status) == (f"epsilon {said} at delta {DELTA!r}", 0)


def test_a_calibrated_run_is_said_to_meet_its_target():
    run = pabi.calibrate(a_run(pabi.Poisson(100), noise_std=None), 1.0, DELTA)
    verdict = pabi.verify(run.guarantee(DELTA))
    assert verdict.reading is not None
    assert verdict.reading[0] <= 1.0


@pytest.mark.parametrize("batches", [pabi.Poisson(100), pabi.FixedSize(100)], ids=lambda b: b.kind)
def test_a_certificate_of_an_older_version_says_its_own_reading(batches, tmp_path, capsys):
    guarantee = a_run(batches).guarantee(1e-6)
    epsilon = 1.004 * guarantee.epsilon(1e-6)
    older = with_reading(guarantee.certificate.payload, epsilon, 1e-6)
    verdict = pabi.verify(older)
    assert verdict.reading == (epsilon, 1e-6)
    assert f"ε = {shown(epsilon)} at δ = 1e-06" in verdict.reason
    printed, _ = command_line(tmp_path, capsys, json.dumps(older))  # what is read of its function
    assert printed == f"epsilon {shown(guarantee.epsilon(1e-6))} at delta 1e-06"


@pytest.mark.parametrize("excess", [1.0 + 1e-9, 1.01, math.inf])
def test_asked_again_the_checker_refuses_an_epsilon_below_what_it_can_show(monkeypatch, excess):
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    monkeypatch.setattr(JointBound, "epsilon", lambda self, delta, enough: excess * stated)
    verdict = pabi.verify(guarantee, again=True)
    assert not verdict.ok
    assert verdict.reading is None
    assert verdict.reason.startswith("epsilon: the checker proves ")
    assert pabi.verify(guarantee).ok


def test_for_want_of_time_to_compose_it_again_an_epsilon_is_refused(monkeypatch):
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)

    def slow(self, delta, enough):
        raise Refused("time: nothing is decided within 9 s")

    monkeypatch.setattr(JointBound, "epsilon", slow)
    verdict = pabi.verify(guarantee, again=True)
    assert not verdict.ok
    assert "time" in verdict.reason
    assert pabi.verify(guarantee).reading == (guarantee.epsilon(DELTA), DELTA)


def test_several_bounds_are_read_like_one(monkeypatch):
    """What is stated of the best of a product and another bound is proven again as well."""
    product = a_run(pabi.Poisson(100)).guarantee(DELTA)
    verdict = pabi.verify(product)
    several = replace(verdict, bounds=(verdict.product, JointBound.gaussian(5.0)), product=None)
    file = json.loads(product.to_json())
    assert _read(several, file, True).ok
    file["epsilon"] *= 0.99
    assert not _read(several, file, True).ok


@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_what_is_less_than_the_sum_of_all_advantages_is_nothing(delta):
    """Very small batches of a million records: δ is more than all that may be told, or less."""
    loss = pabi.Loss.logistic(feature_norm=1.0)
    fields = {"steps": 4, "step_size": 0.5, "noise_std": 0.05, "adjacency": "zero_out"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pabi.PrivacyWarning)
        guarantee = pabi.NoisySGD(loss, 10**6, pabi.Poisson(1), **fields).guarantee(delta)
    verdict = pabi.verify(guarantee, again=True)
    assert verdict.ok, verdict.reason
    assert verdict.reading == (guarantee.epsilon(delta), delta)
    assert (verdict.reading[0] == 0.0) == (delta == 1e-5)


@pytest.mark.parametrize(
    "pick", [lambda curve: curve, lambda curve: pabi.tradeoff.Best([curve, curve])]
)
def test_an_epsilon_below_that_of_a_single_factor_is_refused(monkeypatch, pick):
    """Whatever the accountant makes of a product that the checker does not compose."""
    monkeypatch.setattr(pabi.tradeoff.Product, "_epsilon", lambda self, delta: 0.0)
    one = pabi.tradeoff.PoissonReplaced(8.0, 1e-17)
    curve = pick(pabi.tradeoff.Product([(one, 2), (pabi.tradeoff.BoundedRange(1e-30), 1)]))
    stated = {"epsilon": 0.0, "delta": 1e-20, "tradeoff": curve.to_dict()}
    assert _misread(stated).startswith("epsilon: a single factor reveals 16.7")
    assert _misread(stated | {"epsilon": one.epsilon(1e-20)}) is None


def test_no_time_is_lost_on_a_factor_of_which_nothing_is_known_from_below(monkeypatch):
    """Its ε would be computed from above, in seconds, and dropped."""
    hidden = pabi.tradeoff.RandomAllocation([1.0], [0.5], [10], False, False)
    assert hidden.epsilon_bounds(DELTA)[0] == 0.0
    monkeypatch.setattr(pabi.tradeoff.RandomAllocation, "epsilon_bounds", None)
    curve = pabi.tradeoff.Product([(hidden, 5), (pabi.tradeoff.Gaussian(0.5), 1)])
    assert _least(curve, DELTA) >= norm.isf(DELTA) * 0.25


ALONE = [
    pabi.tradeoff.PoissonSubsampled(1.0, 0.1),
    pabi.tradeoff.Subsampled(pabi.tradeoff.Gaussian(2.0), 0.01),
    pabi.tradeoff.PoissonReplaced(1.0, 0.1),
    pabi.tradeoff.FixedSizeSubsampled(2.0, 1.0, 1.0, 0.1),
    pabi.tradeoff.SecretMixture([0.0, 1.0], [0.1, 0.9]),
    pabi.tradeoff.SecretMixture([0.0, 1.0], [0.1, 0.9], opposite=True),
    pabi.tradeoff.Mixture([pabi.tradeoff.Gaussian(0.0), pabi.tradeoff.Gaussian(1.0)], [0.5, 0.5]),
]


@pytest.mark.parametrize("curve", ALONE, ids=lambda curve: curve.kind)
@pytest.mark.parametrize("delta", [0.02, 1e-6])
def test_of_one_release_the_closed_form_is_proven(curve, delta):
    """No grid would prove an ε that is right to all digits."""
    stated = curve.epsilon(delta) * (1.0 + 1e-9)
    bound = read_bound({"kind": "product", "factors": [{**curve.to_dict(), "count": 1}]})
    assert bound.epsilon(delta, stated) <= stated
    if stated:
        assert not bound.epsilon(delta, stated * 0.999) <= stated * 0.999


def test_a_smaller_target_is_answered_by_the_checker(tmp_path, capsys):
    """Not by what is stated, which is more."""
    guarantee = a_run(pabi.Poisson(100)).guarantee(DELTA)
    stated = guarantee.epsilon(DELTA)
    for factor, status in ((1.0, 0), (0.99, 1)):
        target = ("--epsilon", repr(factor * stated), "--delta", repr(DELTA))
        assert command_line(tmp_path, capsys, guarantee.to_json(), *target)[1] == status


@pytest.mark.parametrize("again", [False, True])
def test_a_smaller_epsilon_than_is_proven_is_refused(again):
    data = json.loads(a_run(pabi.Poisson(100)).guarantee(DELTA).to_json())
    data["epsilon"] *= 0.99
    verdict = pabi.verify(data, again=again)
    assert not verdict.ok
    assert verdict.reading is None


def test_without_a_reading_a_verdict_says_the_curve():
    guarantee = replace(a_run(pabi.Cyclic(100)).guarantee(DELTA), tuned_at=None)
    verdict = pabi.verify(guarantee)
    assert verdict.reading is None
    assert verdict.reason == f"proven: μ = {verdict.mu!r}"


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spacing", [0.06, 0.01])
def test_both_laws_of_a_secret_mixture_reveal_no_less(turned, spacing):
    """Against both orders of 0.1·N(0, 1) + 0.9·N(1, 1) and N(0, 1), integrated over z."""
    parts = ((Fraction(1, 10), 0.0), (Fraction(9, 10), 1.0))
    law = laws_of(SecretParts(parts, False))(1e-6, spacing)[turned]
    q_masses = law.p * np.exp(-law.y)
    assert law.p.sum() + law.infinity >= 1.0 - 1e-13
    assert q_masses.sum() >= 1.0 - 1e-12
    z = np.linspace(-12.0, 13.0, 250_001)
    q = norm.pdf(z)
    p = 0.1 * q + 0.9 * norm.pdf(z - 1.0)
    first, second = (q, p) if turned else (p, q)
    for epsilon in (0.0, 0.2, 1.0, 2.0):
        truth = np.maximum(0.0, first - math.exp(epsilon) * second).sum() * (z[1] - z[0])
        gain = law.p * np.maximum(0.0, -np.expm1(epsilon - law.y))
        found = gain.sum() + law.infinity
        assert truth * (1.0 - 1e-6) <= found <= truth * (1.0 + spacing) + 1e-9


def test_twenty_different_secret_mixtures_are_proven_in_time():
    curves = [
        pabi.tradeoff.SecretMixture([0.01 * j + 0.02 * k for k in range(8)], [0.125] * 8)
        for j in range(20)
    ]
    stated = pabi.tradeoff.Product([(curve, 1) for curve in curves]).epsilon(DELTA)
    factors = [{**curve.to_dict(), "count": 1} for curve in curves]
    bound = read_bound({"kind": "product", "factors": factors})
    with within(Limits(size=1, depth=1, unpacked=1, positions=1, seconds=8.0)):
        assert bound.epsilon(DELTA, stated) <= stated

"""Attacks on what is said of Langevin samplers, exponential mechanisms and the best of several bounds.

First the truth against closed forms, then the accountant against the truth, then certificates that lie, then
numbers that are hardly numbers. "Once wrong" marks what an attack has found.
"""

from __future__ import annotations

import copy
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import pabi
from pabi import Loss
from pabi.errors import InvalidInput
from pabi.tradeoff import Best, BoundedRange, Gaussian, PoissonSubsampled

sys.path.insert(0, str(Path(__file__).parent))

CONVEX = Loss.convex(1.0, gradient_bound=1.0)


def draw(loss=CONVEX, **changes):
    given = {"n": 100, "dimension": 2, "diameter": 1.0, "epsilon": 2.0} | changes
    return pabi.ExponentialMechanism(loss, **given)


def sampled_run(batches, adjacency="replace_one"):
    return pabi.NoisySGD(
        Loss.logistic(1.0),
        n=100,
        batches=batches,
        epochs=2,
        step_size=0.1,
        noise_std=0.2,
        adjacency=adjacency,
    )


def verified_by_command(table, capsys, monkeypatch, *options):
    """(exit status, standard output, standard error) of `pabi verify -`."""
    from pabi.cli import main

    text = io.TextIOWrapper(io.BytesIO(json.dumps(table).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    status = main(["verify", "-", *options])
    said = capsys.readouterr()
    return status, said.out, said.err


# Once wrong: composed with random batches.


@pytest.mark.parametrize(
    "batches", [pabi.FixedSize(10), pabi.Poisson(10)], ids=["fixed", "poisson"]
)
def test_the_command_reads_random_batches_beside_other_factors(batches, capsys, monkeypatch):
    """Once wrong: of several bounds it left the sampled factors and the failure out, and a gate passed."""
    found = pabi.compose(draw(epsilon=0.1).guarantee(1e-3), sampled_run(batches).guarantee(1e-3))
    truth = found.epsilon(1e-3)
    assert truth > 2.0
    for table in (json.loads(found.to_json()), found.certificate.payload):
        target = repr(0.9 * truth), repr(1.1 * truth)
        for epsilon, wanted in zip(target, (1, 0), strict=True):
            options = ("--epsilon", epsilon, "--delta", "1e-3")
            status, out, _ = verified_by_command(table, capsys, monkeypatch, *options)
            assert status == wanted, out


def test_the_command_reads_a_failure_alone(capsys, monkeypatch):
    """Once wrong: a claim that may fail was read as one that cannot."""
    payload = copy.deepcopy(draw().guarantee(1e-3).certificate.payload)
    claim = {"kind": "product", "failure": 0.01}
    claim["factors"] = [{"kind": "bounded_range", "epsilon": 2.0, "count": 1}]
    payload["claim"] = {"tradeoff": claim}
    assert pabi.verify(payload).ok
    status, out, _ = verified_by_command(
        payload, capsys, monkeypatch, "--epsilon", "9", "--delta", "1e-3"
    )
    assert (status, "NOT implied" in out) == (1, True)


def test_draws_compose_with_poisson_batches_in_both_orders():
    """Once wrong: refused, because only functions that are their own inverse had a best."""
    poisson = sampled_run(pabi.Poisson(10, cap=40), "zero_out").guarantee(1e-3)
    one = draw(adjacency="zero_out").guarantee(1e-3)
    forth, back = pabi.compose(one, poisson), pabi.compose(poisson, one)
    parts = [part.compose(poisson.curve) for part in (BoundedRange(1.0), Gaussian(2.0))]
    assert forth.epsilon(1e-3) == back.epsilon(1e-3)
    assert forth.epsilon(1e-3) >= poisson.epsilon(1e-3)
    assert Best(parts).epsilon(1e-3) == min(part.epsilon(1e-3) for part in parts)
    assert Best(parts).inverse() == Best(parts)
    verdict = pabi.verify(forth)
    assert verdict.ok, verdict.reason
    with pytest.raises(InvalidInput, match="orientation"):
        Best(parts).compose(PoissonSubsampled(1.0, 0.1, "remove"))


# Once wrong: diffusions.


@pytest.mark.parametrize("time", [1.0, 30.0, 60.0, 75.0, 80.0, 100.0, 1e6, 1e300])
@pytest.mark.parametrize("diameter", [None, 1.5, 1e3])
def test_certificates_of_long_dissipative_diffusions_hold(time, diameter):
    """Once wrong: next to z*, R(d) has no digits; after twice the last R(d) the certificate was refused."""
    loss = Loss.dissipative(1.0, 1.0, 2.0)
    given = {"n": 10, "inverse_temperature": 1.0, "gradient_gap": 0.2, "diameter": diameter}
    found = pabi.LangevinDiffusion(loss, time=time, **given).guarantee(1e-3)
    verdict = pabi.verify(found)
    assert verdict.ok, verdict.reason
    payload = copy.deepcopy(found.certificate.payload)
    payload["claim"]["mu"] *= 1.0 - 1e-9
    assert not pabi.verify(payload).ok
    if "distance" in payload:
        payload["distance"] = 1e300  # proves what holds for all times
        payload["claim"]["mu"] = 1.2325899394735
        assert pabi.verify(payload).ok == (diameter != 1.5 or time > 1.0)


@pytest.mark.parametrize("less", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("gap", [1e-1, 1e-6, 1e-12])
def test_a_regulariser_that_nearly_makes_convex_loses_no_digits(less, gap):
    """Once wrong: λ·log(d/d_0) and κ(d² − d_0²)/2 cancel, and what was left was too small, or refused."""
    loss = Loss.dissipative(1.0, 0.3, 1.0, l2=1.0 - less)
    for kappa in (1.0, 1e6):
        given = {"n": 10, "inverse_temperature": kappa, "gradient_gap": gap}
        for one in (
            pabi.LangevinDiffusion(loss, time=1e9, **given),
            pabi.ExponentialMechanism(loss, dimension=1, diameter=1e3, **given),
        ):
            verdict = pabi.verify(one.guarantee(1e-3))
            assert verdict.ok, verdict.reason


def test_what_underflows_on_the_way_is_not_nothing():
    """Once wrong: gap²β² was 0, and with it μ; or tanh(x)/x was."""
    given = {"n": 1, "gradient_gap": 1e-162, "inverse_temperature": 1.0, "time": 1e308}
    tiny = pabi.LangevinDiffusion(CONVEX, **given).guarantee(1e-3)
    assert tiny.mu >= 1e-162 * math.sqrt(0.5e308)
    steep = {"n": 1, "gradient_gap": 1e130, "inverse_temperature": 1e10, "time": 1e10}
    found = pabi.LangevinDiffusion(Loss.strongly_convex(1e300, 1e300), **steep).guarantee(1e-3)
    assert found.mu >= 1e130 * math.sqrt(1e10 / 1e300)
    least = {"n": 1, "gradient_gap": 1e-100, "inverse_temperature": 1e-250, "time": 1.0}
    small = pabi.LangevinDiffusion(CONVEX, diameter=1.0, **least).guarantee(1e-3)
    assert small.mu > 0.0
    for one in (tiny, found, small):
        assert pabi.verify(one).ok


def test_paths_that_part_beyond_all_numbers_still_have_a_path():
    """Once wrong: with a varying temperature nothing applied."""
    loss = Loss.nonconvex(1e6, gradient_bound=1.0)
    given = {"n": 10, "time": 1e5}
    varying = pabi.LangevinDiffusion(loss, inverse_temperature=[1.0, 1.0], **given).guarantee(1e-3)
    constant = pabi.LangevinDiffusion(loss, inverse_temperature=1.0, **given).guarantee(1e-3)
    assert varying.mu == pytest.approx(constant.mu, rel=1e-9)
    assert pabi.verify(varying).ok


# Once wrong: densities of convex–concave functions.


def test_a_convex_concave_function_is_no_convex_potential():
    """Once wrong: taken for log-concave. On [−½, ½], L = −200|v| ± gap·v/2 (concave in v, with no u) puts all
    mass at the two ends, in the ratio e^(±κ·gap/2): δ(0) = tanh(κ·gap/4)."""
    gap, kappa = 1.0, 10.0
    v = np.linspace(-0.5, 0.5, 20_001)
    p, q = (np.exp(kappa * (200.0 * np.abs(v) - 100.0 - side * gap * v)) for side in (0.5, -0.5))
    truth = 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()
    assert truth == pytest.approx(math.tanh(kappa * gap / 4.0), rel=1e-3)
    given = {"n": 1, "dimension": 1, "diameter": 1.0, "inverse_temperature": kappa}
    mechanism = pabi.ExponentialMechanism(Loss.saddle(200.5), **given, gradient_gap=gap)
    found = mechanism.guarantee(1e-3)
    assert found.advantage >= truth * (1.0 - 1e-9)
    assert found.method == "bounded range"
    assert pabi.verify(found).ok
    payload = copy.deepcopy(found.certificate.payload)
    for theorem in ("Gibbs measure", "bounded range and Gibbs measure"):
        payload["theorem"] = theorem
        assert not pabi.verify(payload).ok
    with pytest.raises(InvalidInput, match="loss"):
        pabi.IteratedExponentialMechanism(
            Loss.saddle(1.0, l2=1.0), 10, 1, 1.0, epsilons=[1.0, 2.0], failure=0.1
        )
    assert "needs potentials" in str(pabi.literature.compare(mechanism, 1e-3))

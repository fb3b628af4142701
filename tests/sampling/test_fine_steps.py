"""Diffusions by fine steps: what is executed is what is accounted."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi.sampling import diffusion, langevin
from pabi.sampling.chains import TAKEN, executed
from support.every_case import every, refused, refuses
from support.execution import OrdinaryNoise

from .laws import Recorder

LOSS = pabi.Loss.logistic(1.0, l2=0.1)


def described(beta=lambda t: 20.0 * t, **fields):
    given = {"n": 200, "inverse_temperature": beta, "time": 0.5, **fields}
    return pabi.LangevinDiffusion(given.pop("loss", LOSS), **given)


def pull(x):
    return x - 0.3


def drawn(given, **changes):
    defaults = {"gradient": pull, "x0": np.zeros(2), "random_state": 0, "delta": 1e-3}
    return diffusion(given, **(defaults | changes))


@every("release", ["last", "path"])
def test_a_constant_temperature_is_a_langevin_chain(release):
    ball, same = pabi.prox.ball(1.0), {"chains": 3, "release": release}
    given = described(20.0, release=release, diameter=2.0)
    draws = drawn(given, domain=ball, steps=40, chains=3, random_state=1)
    walk = {"inverse_temperature": 20.0, "step_size": 0.5 / 40, "steps": 40, "prox": ball}
    chain = pabi.LangevinChain(LOSS, n=200, **walk, **same)
    as_run = {n: getattr(draws.chain, n) for n in ("inverse_temperature", "rounding")}
    assert draws.chain == replace(chain, **as_run)
    assert (as_run["rounding"] > 0.0) == (release == "last")
    same = langevin(chain, pull, np.zeros(2), random_state=1, delta=1e-3)
    np.testing.assert_array_equal(draws.values, same.values)
    assert draws.guarantee.epsilon(1e-3) == same.guarantee.epsilon(1e-3)


@every(
    "beta, at",
    [
        (lambda t: 20.0 * t, lambda t: 20.0 * t),
        ([5.0, 10.0, 20.0], lambda t: [5.0, 10.0, 20.0][int(t / 0.5 * 3)]),
    ],
)
@every("release", ["last", "path"])
def test_steps_by_hand(monkeypatch, beta, at, release):
    monkeypatch.setattr("pabi.sampling.chains.StepNoise", OrdinaryNoise)
    recorder = Recorder()
    given, start = described(beta, release=release, diameter=1.0), np.array([0.4, 0.1])
    walk = {"x0": start, "domain": pabi.prox.ball(0.5), "steps": 6, "chains": 2}
    draws = drawn(given, **walk, random_state=recorder)
    x, eta, path = np.tile([0.4, 0.1], (2, 1)), 0.5 / 6, []
    for k in range(6):
        x = x - eta * at((k + 0.5) * eta) * pull(x) + math.sqrt(2 * eta) * recorder.calls[k]
        x = np.array([pabi.prox.ball(0.5)(p, 1.0) for p in x])
        path.append(x)
    wanted = np.array(path).swapaxes(0, 1)
    assert draws.release == release
    wanted = wanted if release == "path" else wanted[:, -1:]
    np.testing.assert_allclose(draws.values, wanted, atol=1e-6)


def test_what_is_accounted_is_never_less_than_what_is_executed():
    """Exactly: slopes, sensitivities and noise of the doubles that the sampler multiplies by."""
    sizes = np.geomspace(1e-12, 19.0, 60)  # up to where steps overshoot: curvature 1/4 + 0.1
    iteration = executed(described(), sizes, 0.125, 2.0)
    gap = 2 * Fraction(1) / 200
    for h, c, s in zip(sizes, iteration.slopes, iteration.step_sensitivity, strict=True):
        low, high = Fraction(0.1), Fraction(0.1) + Fraction(1, 4)
        exact = max(abs(1 - Fraction(h) * low), abs(1 - Fraction(h) * high))
        assert exact <= Fraction(c) <= exact + max(exact, 1) * Fraction(1, 10**15)
        assert Fraction(h) * gap <= Fraction(s) <= Fraction(h) * gap * (1 + Fraction(1, 10**14))
    assert iteration.step_noise_std == 0.125
    assert iteration.diameter == 2.0


def test_the_guarantee_is_that_of_the_executed_steps():
    given = described(diameter=2.0)
    draws = diffusion(given, pull, np.zeros(2), pabi.prox.ball(1.0), steps=50, delta=1e-3)
    eta = 0.5 / 50
    sizes = np.array([eta * (20.0 * (k + 0.5) * eta) for k in range(50)])
    wanted = pabi.NoisyIteration(
        contraction=np.maximum(np.abs(1 - 0.1 * sizes), np.abs(1 - 0.35 * sizes)),
        step_sensitivity=sizes * 0.01,
        step_noise_std=math.sqrt(2 * eta),
        diameter=2.0,
    ).guarantee(1e-3)
    assert draws.guarantee.mu == pytest.approx(wanted.mu, rel=1e-9)
    assert isinstance(draws.chain, pabi.NoisyIteration)
    assert draws.guarantee.certificate is not None
    said = " ".join(draws.guarantee.assumptions)
    assert TAKEN in said
    assert "norm at most 1.0" in said
    assert "curvature in" in said
    # It approaches the diffusion's as steps get finer.
    finer = [drawn(given, domain=pabi.prox.ball(1.0), steps=t) for t in (30, 300, 3000)]
    away = [abs(d.guarantee.mu / given.guarantee(1e-3).mu - 1) for d in finer]
    assert away[0] > away[1] > away[2]
    assert away[2] < 2e-3


def test_paths_and_several_chains_compose():
    steps, eta = 20, 0.5 / 20
    total = sum((eta * 20.0 * (k + 0.5) * eta * 0.01) ** 2 / (2 * eta) for k in range(steps))
    for release, chains in (("path", 1), ("path", 4), ("last", 4)):
        draws = drawn(described(release=release), steps=steps, chains=chains)
        assert draws.guarantee.mu <= math.sqrt(chains * total) * (1 + 1e-9)
        if release == "path":
            assert draws.guarantee.mu == pytest.approx(math.sqrt(chains * total), rel=1e-9)
            assert "every iterate may be released" in draws.guarantee.assumptions
        else:
            one = drawn(described(), steps=steps)
            assert draws.guarantee.mu == pytest.approx(2 * one.guarantee.mu, rel=1e-9)


def test_losses_without_slopes():
    weak = pabi.Loss.weakly_smooth([(0.5, 1.0)], gradient_bound=1.0)
    for loss in (pabi.Loss.lipschitz(1.0), weak):
        given = described(loss=loss, diameter=2.0)
        draws = drawn(given, gradient=np.sign, domain=pabi.prox.ball(1.0), steps=30)
        moduli = draws.chain.moduli
        assert [m.linear for m in moduli] == [None] * 30
        eta = 0.5 / 30
        for k, modulus in enumerate(moduli):
            h = eta * 20.0 * (k + 0.5) * eta
            assert modulus(0.7) == pytest.approx(loss.modulus(h)(0.7), rel=1e-9)


def test_refusals_are_one_line_and_name_the_field():
    def of(change):
        return lambda **arguments: drawn(described(**change), **({"steps": 10} | arguments))

    domains = [None, pabi.prox.ball(0.6), pabi.prox.l1(1.0)]
    refuses(of({"diameter": 1.0}), {"domain": domains})
    odd = [None, lambda x: x[0]]
    wrong = {"steps": [0], "chains": [0], "thin": [2], "x0": [[np.inf]], "gradient": odd}
    refuses(of({}), wrong)
    refuses(of({"release": "path"}), {"thin": [11]})
    given = described(lambda t: 1.0)
    object.__setattr__(given, "inverse_temperature", lambda t: math.nan)
    refused("inverse_temperature", drawn, given, steps=10)
    refused("diffusion", drawn, replace(LOSS), steps=10)

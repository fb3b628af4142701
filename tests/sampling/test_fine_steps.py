"""Diffusions by fine steps: what is executed is what is accounted."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi.execute.computed_steps import EXACT
from pabi.sampling import diffusion, langevin
from pabi.sampling.chains import TAKEN
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


def test_what_is_accounted_is_never_less_than_what_is_executed(monkeypatch):
    """Exactly: step sizes, sensitivities and noise of the doubles that the sampler multiplies by."""
    beta, drawn_with = np.geomspace(1e-12, 1900.0, 60), []
    monkeypatch.setattr(
        "pabi.sampling.chains.StepNoise",
        lambda noise_std, *rest: drawn_with.append(noise_std) or OrdinaryNoise(noise_std, *rest),
    )
    for release in ("last", "path"):
        given = described(beta, diameter=2.0, release=release)
        run = drawn(given, domain=pabi.prox.ball(1.0), steps=60).chain
        length, gap = Fraction(0.5 / 60), 2 * Fraction(1) / 200
        np.testing.assert_array_equal(run.step_size, 0.5 / 60 * beta)
        assert gap <= Fraction(run.sensitivity) / 200 <= gap * (1 + Fraction(1, 10**14))
        for h, std in zip(run.step_size.tolist(), run.noise_std.tolist(), strict=True):
            assert Fraction(h) * Fraction(std) <= Fraction(drawn_with[-1])
            if release == "path":
                # Without a rounding to pay for it is all of the diffusion's noise, and no more.
                assert (
                    1 - Fraction(1, 10**14)
                    <= (Fraction(h) * Fraction(std)) ** 2 / (2 * length)
                    <= 1
                )
        assert run.prox == pabi.prox.ball(1.0)


def test_the_guarantee_is_that_of_the_executed_steps():
    given = described(lambda t: 5.0 + 0.2 * t, time=20.0, diameter=2.0)
    draws = diffusion(given, pull, np.zeros(2), pabi.prox.ball(1.0), steps=200, delta=1e-3)
    eta = 20.0 / 200
    sizes = np.array([eta * (5.0 + 0.2 * (k + 0.5) * eta) for k in range(200)])
    wanted = pabi.NoisyIteration(
        contraction=np.maximum(np.abs(1 - 0.1 * sizes), np.abs(1 - 0.35 * sizes)),
        step_sensitivity=sizes * 0.01,
        step_noise_std=math.sqrt(2 * eta),
        diameter=2.0,
    ).guarantee(1e-3)
    # With a little more noise, which pays for what steps round.
    cost, most = draws.guarantee.epsilon(1e-3), wanted.epsilon(1e-3)
    assert most * (1 - 1e-3) <= cost <= most * (1 + 1e-9)
    assert isinstance(draws.chain, pabi.NoisySGD)
    assert 0.0 < draws.chain.rounding < 1e-8
    assert draws.guarantee.certificate is not None
    said = " ".join(draws.guarantee.assumptions)
    assert TAKEN in said
    assert "norm at most 1.0" in said
    assert "curvature in" in said
    assert EXACT not in said
    # It approaches the diffusion's as steps get finer.
    finer = [drawn(given, domain=pabi.prox.ball(1.0), steps=t) for t in (200, 1000, 5000)]
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
        beta = np.repeat([1.0, 1.2], 400)
        given = described(beta, loss=loss, n=2, time=8.0, diameter=1.0)
        draws = drawn(given, gradient=np.sign, domain=pabi.prox.ball(0.5), steps=800)
        assert draws.guarantee.method == "nonlinear shifts"
        assert draws.guarantee.mu < math.sqrt(0.01**2 * np.sum(beta**2) / 0.02)  # of the path
        assert 0.0 < draws.chain.rounding < 1e-4
        assert EXACT not in draws.guarantee.assumptions


def test_refusals_are_one_line_and_name_the_field():
    def of(change):
        return lambda **arguments: drawn(described(**change), **({"steps": 10} | arguments))

    domains = [None, pabi.prox.ball(0.6), pabi.prox.l1(1.0)]
    refuses(of({"diameter": 1.0}), {"domain": domains})
    odd = [None, lambda x: x[0]]
    wrong = {"steps": [0], "chains": [0], "thin": [2], "x0": [[np.inf]], "gradient": odd}
    refuses(of({}), wrong)
    refuses(of({"release": "path"}), {"thin": [11]})
    for bound in (1e-300, 1e305):  # which no gradients in doubles are known to keep
        assert f"got {bound}" in refused("loss", of({"loss": pabi.Loss.lipschitz(bound)}))
    given = described(lambda t: 1.0)
    object.__setattr__(given, "inverse_temperature", lambda t: math.nan)
    refused("inverse_temperature", drawn, given, steps=10)
    refused("diffusion", drawn, replace(LOSS), steps=10)

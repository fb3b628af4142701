"""Certificates are short, and long runs are checked in time."""

from __future__ import annotations

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Loss, NoisyIteration, NoisySGD
from support.certificates import DELTA

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def test_size_of_a_long_constant_run():
    run = NoisySGD(
        Loss.convex(smoothness=1.0, l2=0.01),
        n=10**6,
        batches=Cyclic(1000),
        steps=10**9,
        step_size=0.1,
        noise_std=1.0,
        gradient_sensitivity=10.0,
    )
    for changes in ({}, {"batches": FullBatch()}, {"diameter": 0.01}, {"release": "path"}):
        fields = {k: getattr(run, k) for k in run.__dataclass_fields__}
        g = NoisySGD(**{**fields, "epochs": None, **changes}).guarantee(delta=1e-7)
        assert len(g.certificate.to_json()) < 1000
        assert pabi.verify(g).ok
    long = NoisyIteration(
        contraction=0.9, step_sensitivity=1.0, step_noise_std=1.0, steps=10**9
    ).guarantee()
    assert len(long.certificate.to_json()) < 1000
    assert pabi.verify(long).ok


@pytest.mark.parametrize("t", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_size_of_many_different_steps(t):
    rng = np.random.default_rng(0)
    run = NoisySGD(
        Loss.convex(smoothness=1.0),
        n=100,
        batches=Cyclic(10),
        steps=t,
        step_size=rng.uniform(0.1, 1.0, t),
        noise_std=rng.uniform(0.1, 1.0, t),
        gradient_sensitivity=10.0,
    )
    g = run.guarantee(delta=DELTA, position=4)
    assert len(g.certificate.to_json()) < 50 * t
    assert pabi.verify(g.certificate.to_json()).ok
    it = NoisyIteration(
        contraction=rng.uniform(0.9, 1.05, t),
        step_sensitivity=rng.uniform(0.0, 1.0, t),
        step_noise_std=rng.uniform(0.1, 1.0, t),
    ).guarantee(delta=DELTA)
    assert len(it.certificate.to_json()) < 50 * t
    assert pabi.verify(it.certificate.to_json()).ok

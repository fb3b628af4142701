"""Certificates of a release of second moments and the training after it: accepted, refused when altered."""

import functools
import time

import pytest

import pabi
from pabi.learn.plans import planned
from pabi.tradeoff import Gaussian, Mixture
from support.certificates import all_refused, refused

EPSILON, DELTA, NORM = 1.0, 1e-5, 2.0**0.5
SHARE = 0.04
SIZES = {"pixels": (60_000, 785), "scattering features": (60_000, 3_970), "few": (2_000, 5)}
every_size = pytest.mark.parametrize("name", SIZES)


@functools.cache
def certified(name):
    """What an estimator composes: moments of a share of the budget, and a run that takes the rest."""
    n, width = SIZES[name]
    moments = planned(
        n, width, norm=NORM, epsilon=EPSILON, delta=DELTA, adjacency="zero_out", share=SHARE
    ).guarantee(DELTA)
    blank = pabi.NoisySGD(
        pabi.Loss.softmax(NORM),
        n=n,
        batches=pabi.ShuffleOnce(-(-n // 128)),
        epochs=20,
        step_size=0.2,
        clip_norm=0.5,
        clipping="residual",
        adjacency="zero_out",
    )
    run = pabi.calibrate(blank, EPSILON, DELTA, besides=[moments])
    return pabi.compose(moments, run.guarantee(DELTA)).assuming("preprocessing is public")


@every_size
def test_accepted_within_five_seconds(name):
    guarantee = certified(name)
    text = guarantee.to_json()
    begin = time.process_time()
    verdict = pabi.verify(text)
    assert time.process_time() - begin < 5.0
    assert verdict.ok, verdict.reason
    assert verdict.scope == "run"
    assert set(verdict.assumptions) == set(guarantee.assumptions)
    assert EPSILON * (1.0 - 1e-6) <= guarantee.epsilon(DELTA) <= EPSILON


def test_altered_guarantees_are_refused():
    """What no edit of a part alone does: those are refused for each kind of part."""
    data = certified("few").to_dict(certificate=True)
    all_refused(data, [(f"del certificate.parts.{i}", "") for i in (0, 1)])
    run = data["certificate"]["parts"][1]
    data["certificate"]["parts"] = [run, run]
    refused(data)
    weights, mus = zip(*run["claim"]["mixture"], strict=True)
    alone = Mixture([Gaussian(mu) for mu in mus], weights).to_dict()
    refused(certified("few").to_dict(certificate=True) | {"tradeoff": alone})

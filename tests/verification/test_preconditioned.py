"""Certificates of a release of second moments and the training after it: accepted, refused when altered."""

from __future__ import annotations

import copy
import functools
import time

import pytest

import pabi
from pabi.learn.plans import planned
from pabi.tradeoff import Gaussian, Mixture

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


def altered(name, change):
    """The verdict on the guarantee's file after `change`, which gets it and its certificate's two parts."""
    data = copy.deepcopy(certified(name).to_dict(certificate=True))
    change(data, *data["certificate"]["parts"])
    return pabi.verify(data)


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


def times(key, factor, *, part):
    """Multiplies a number of one part's description."""

    def change(data, *parts):
        parts[part]["run"][key] *= factor

    return change


def norm_of_the_loss(factor):
    def change(data, moments, run):
        run["run"]["loss"]["feature_norm"] *= factor

    return change


def removed(part):
    def change(data, *parts):
        del data["certificate"]["parts"][part]

    return change


def claimed_as_without_the_share(data, moments, run):
    """The moments are said to cost nothing to speak of."""
    moments["claim"]["mu"] *= 1e-3


def twice_the_same_part(data, *parts):
    data["certificate"]["parts"] = [parts[1], parts[1]]


def curve_of_the_run():
    """Less than what both parts cost."""
    run = certified("few").to_dict(certificate=True)["certificate"]["parts"][1]
    weights, mus = zip(*run["claim"]["mixture"], strict=True)
    return Mixture([Gaussian(mu) for mu in mus], weights).to_dict()


ALTERATIONS = {
    "half of the noise of the moments": times("noise_std", 0.5, part=0),
    "a little less of it": times("noise_std", 1.0 - 1e-12, part=0),
    "half of the noise of the run": times("noise_std", 0.5, part=1),
    "a little less noise of the run": times("noise_std", 1.0 - 1e-9, part=1),
    "moments of shorter rows than the run's": times("feature_norm", 0.5, part=0),
    "moments of longer rows": times("feature_norm", 2.0, part=0),
    "a run on longer rows": norm_of_the_loss(2.0),
    "a run on shorter rows": norm_of_the_loss(0.5),
    "more epochs": times("epochs", 2, part=1),
    "a lower clipping norm": times("clip_norm", 0.5, part=1),
    "the share is not spent": claimed_as_without_the_share,
    "no moments": removed(0),
    "no run": removed(1),
    "the run twice": twice_the_same_part,
    "the curve of the run alone": lambda data, *parts: data.update(tradeoff=curve_of_the_run()),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_altered_guarantees_are_refused(alteration):
    verdict = altered("few", ALTERATIONS[alteration])
    assert (verdict.ok, "\n" in verdict.reason) == (False, False), alteration


def test_what_is_left_unaltered_is_accepted():
    """The yardstick of the test above."""
    assert altered("few", lambda data, *parts: None).ok

"""Attacks on released second moments: with the best test on the worst pair, and with odd numbers."""

import math

import numpy as np
import pytest

import pabi
from pabi.execute import statistics as module
from pabi.execute.statistics import second_moments
from pabi.learn import Records
from support.computed_once import computed_once

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

RADIUS, NOISE, TIMES = 1.5, 2.0, 4000
SEEN = 1600  # so many show the least of the planted mistakes by eight more standard deviations
FAR = 4.0  # standard deviations of a share of so many releases
# What surrounds the record: rows of full length in between, whose sums are far larger than the noise.
CROWD = RADIUS * np.array([[math.cos(a), math.sin(a)] for a in np.linspace(0.0, 3.0, 50)])
FIRST, SECOND = RADIUS * np.eye(2)
WORST = {"replace_one": (FIRST, SECOND), "zero_out": (FIRST, np.zeros(2))}


@pytest.fixture
def accounted_once(monkeypatch):
    """Every release of one description promises the same."""
    computed_once(monkeypatch)


def statistics(record, seed, times, **changes):
    """What the attacker sees of data with this record, along the direction in which it moves the sum."""
    records = Records(np.vstack([CROWD, record]), feature_norm=RADIUS)
    moments = pabi.NoisySecondMoments(51, 2, RADIUS, noise_std=NOISE, **changes)
    one, other = (np.outer(x, x) for x in WORST[moments.adjacency])
    direction = one - other
    direction = np.diag(direction) if moments.diagonal else direction
    generator = np.random.default_rng(seed)
    released = (second_moments(moments, records, generator, delta=0.01) for _ in range(times))
    return np.array([np.sum(r.values * direction) for r in released]) / np.linalg.norm(direction)


def advantage(times, **changes):
    """TPR − FPR of the test that takes the side on which the sum is nearer."""
    one, other = (
        statistics(record, seed, times, **changes)
        for seed, record in enumerate(WORST[changes["adjacency"]])
    )
    threshold = (np.mean(one) + np.mean(other)) / 2.0
    return float(np.mean(one > threshold) - np.mean(other > threshold))


@pytest.mark.usefixtures("accounted_once")
@pytest.mark.parametrize("adjacency", WORST)
@pytest.mark.parametrize("diagonal", [False, True])
def test_the_best_test_tells_no_more_than_the_guarantee_and_no_less(adjacency, diagonal):
    changes = {"adjacency": adjacency, "diagonal": diagonal}
    bound = pabi.NoisySecondMoments(51, 2, RADIUS, noise_std=NOISE, **changes).guarantee(0.01)
    spread = FAR * math.sqrt(0.5 / TIMES)
    assert abs(advantage(TIMES, **changes) - bound.advantage) < spread


@pytest.mark.usefixtures("accounted_once")
@pytest.mark.parametrize(
    "planted", ["half of the noise", "R² in place of √2·R²", "too little beside the diagonal"]
)
def test_planted_mistakes_are_seen(monkeypatch, planted):
    """Less noise, be it everywhere or in some directions only, tells more than is proven."""
    changes = {"adjacency": "replace_one", "diagonal": False}
    bound = pabi.NoisySecondMoments(51, 2, RADIUS, noise_std=NOISE, **changes).guarantee(0.01)
    spread = FAR * math.sqrt(0.5 / SEEN)
    if planted == "too little beside the diagonal":
        slanted = math.sqrt(0.5) * RADIUS * np.array([[1.0, 1.0], [1.0, -1.0]])
        monkeypatch.setitem(WORST, "replace_one", tuple(slanted))
        monkeypatch.setattr(module, "_ROOT_HALF", 0.5)
    else:
        factor = 0.5 if planted == "half of the noise" else math.sqrt(0.5)
        monkeypatch.setattr(module, "noise_factor", lambda *_: factor)
    assert advantage(SEEN, **changes) > bound.advantage + spread


@pytest.mark.parametrize("noise_std", [1e-300, 2.0**41 * RADIUS**2])
def test_noise_at_its_ends_is_drawn(noise_std):
    moments = pabi.NoisySecondMoments(51, 2, RADIUS, noise_std=noise_std)
    records = Records(np.vstack([CROWD, FIRST]), feature_norm=RADIUS)
    values, guarantee = second_moments(moments, records, 1, delta=0.01)
    assert np.all(np.isfinite(values))
    assert guarantee.mu == pytest.approx(moments.sensitivity / noise_std, rel=1e-12)

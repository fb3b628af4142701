"""Runs of noisy SGD in the plane on clipped convex losses, whose steps push the two runs apart.

The record is used first: gradients (C, 0) and (−C, 0). Every later step is on one other record, a convex
quadratic clipped at C. All steps but the last have next to no noise, so that the last law is, up to that,
a Gaussian about the image of a point, and μ the distance of two images over its deviation.
"""

import math

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisyIteration, NoisySGD
from support.falsification.adversary import Knob, search

OTHERS = 6  # records after the first
WHISPER = 1e-10  # the early noise over the last one
# By how much it can move the last law in total variation, over 1/(standard deviation): OTHERS + 1 steps of
# slope at most 1.2; and half of that again for each of two coordinates.
FAR = 2 * (OTHERS + 1) * 1.2 ** (OTHERS + 1) * WHISPER

KNOBS = {"step": Knob(0.02, 0.6, "log")}
for _k in range(OTHERS):
    KNOBS |= {f"axis {_k}": Knob(0.0, math.pi), f"gradient {_k}": Knob(-math.pi, math.pi)}
    KNOBS |= {f"size {_k}": Knob(0.8, 1.5), f"across {_k}": Knob(0.0, 1.0)}


def unit(angle: float) -> np.ndarray:
    return np.array([math.cos(angle), math.sin(angle)])


def ends(point, clip: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Where the two runs end without noise: curvature 1 along `axis` and `across` along the other one, the
    gradient half way between the runs of size `size` at the angle `gradient`, both angles to what parts
    them. The curvatures are in [0, 1], and gradients that far apart are those of one quadratic."""
    step = point["step"]
    x, y = -step * clip * unit(0.0), step * clip * unit(0.0)
    for k in range(OTHERS):
        middle, parts = (x + y) / 2, math.atan2(*(y - x)[::-1])
        v = unit(parts + point[f"axis {k}"])
        w = np.array([-v[1], v[0]])
        curvature = np.outer(v, v) + point[f"across {k}"] * np.outer(w, w)
        pull = clip * point[f"size {k}"] * unit(parts + point[f"gradient {k}"])

        def image(z, curvature=curvature, middle=middle, pull=pull):
            g = pull + curvature @ (z - middle)
            return z - step * g * min(1.0, clip / float(np.linalg.norm(g)))

        x, y = image(x), image(y)
    return x, y


def stretch(point) -> float:
    """How far the runs end apart, over how far the record put them."""
    x, y = ends(point)
    return float(np.linalg.norm(x - y)) / (2.0 * point["step"])


def run_of(point) -> NoisySGD:
    noise = np.full(OTHERS + 1, WHISPER)
    noise[-1] = 1.0
    given = {"step_size": point["step"], "noise_std": noise, "clip_norm": 1.0}
    return NoisySGD(Loss.convex(1.0), n=OTHERS + 1, batches=Cyclic(1), epochs=1, **given)


def found_by_search(instances: int):
    return search(lambda point: math.log(stretch(point)), KNOBS, seed=1, instances=instances)


@pytest.fixture(scope="module")
def worst():
    return found_by_search(2500)


def test_clipped_convex_steps_stretch(worst):
    """Six of them, by more than a twentieth together, and each by less than it may."""
    slope = Loss.convex(1.0).modulus(worst.point["step"], clip_norm=1.0).linear
    assert math.log(1.05) < worst.score <= OTHERS * math.log(slope) + 1e-12


def test_the_run_is_not_safer_than_proven(worst):
    truth = stretch(worst.point) * 2.0  # over the last noise, both in units of the step size
    said = run_of(worst.point).guarantee(1e-6, position=0).mu
    assert said >= truth - FAR * math.sqrt(2 * math.pi) * math.exp(truth**2 / 8)


def test_a_claim_that_clipping_does_not_expand_is_refuted(worst):
    step, run = worst.point["step"], run_of(worst.point)
    s = np.zeros(OTHERS + 1)
    s[0] = 2.0 * step
    claim = NoisyIteration(1.0, s, step * np.asarray(run.noise_std)).guarantee(1e-6).mu
    truth = stretch(worst.point) * 2.0
    assert claim == pytest.approx(2.0, rel=1e-9)
    assert truth - FAR * math.sqrt(2 * math.pi) * math.exp(truth**2 / 8) > 1.05 * claim


@pytest.mark.parametrize("count", [60, pytest.param(8000, marks=pytest.mark.nightly)])
def test_random_runs(count):
    rng = np.random.default_rng(count)
    for _ in range(count):
        point = {name: knob.at(rng.random()) for name, knob in KNOBS.items()}
        truth = 2.0 * stretch(point)
        said = run_of(point).guarantee(1e-6, position=0).mu
        assert said >= truth - FAR * math.sqrt(2 * math.pi) * math.exp(truth**2 / 8), point


def test_inside_the_clip_the_plane_is_affine():
    """Isotropic curvature 1 and gradients of norm at most 0.8 + 2η: every step has the slope 1 − η."""
    point = {name: knob.at(0.3) for name, knob in KNOBS.items()} | {"step": 0.02}
    point |= {f"across {k}": 1.0 for k in range(OTHERS)} | {f"size {k}": 0.8 for k in range(OTHERS)}
    assert stretch(point) == pytest.approx(0.98**OTHERS, rel=1e-12)

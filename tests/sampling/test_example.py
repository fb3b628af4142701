"""What examples/posterior.py says of its potential is true."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "posterior.py"))


def test_the_constants_of_the_example_hold():
    """On pairs of points near and far, in and out of the ball, for records that use up their bounds."""
    chain = EXAMPLE["describe"]("last", 10, 1)
    p, B, n = EXAMPLE["P"], EXAMPLE["CHANGES"], EXAMPLE["RECORDS"]
    ((exponent, constant),) = dict(chain.loss.parameters)["pairs"]
    assert exponent == p
    radius, bound = EXAMPLE["RADIUS"], EXAMPLE["TARGET_BOUND"]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, B.shape[1])) * np.exp(rng.normal(size=(20_000, 1)) * 2)
    y = x + rng.normal(size=x.shape) * np.exp(rng.normal(size=(20_000, 1)) * 5 - 3)
    a = rng.normal(size=x.shape)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = bound * rng.choice([-1.0, 1.0], size=len(x))

    def gradient(points):
        residual = np.clip(np.sum(a * points, axis=1) - b, -(radius + bound), radius + bound)
        changes = points @ B.T
        prior = (p + 1) * np.abs(changes) ** p * np.sign(changes) @ B
        return 2 * residual[:, None] * a, prior / n

    (one, prior_one), (two, prior_two) = gradient(x), gradient(y)
    moved = np.linalg.norm(one + prior_one - two - prior_two, axis=1)
    ratio = moved / np.linalg.norm(x - y, axis=1) ** p
    assert np.max(ratio) <= constant
    assert np.max(ratio) > 0.3 * constant
    # Two records' squares, regulariser aside: at most the stated gap, and on the ball nothing is cut off.
    assert 2 * np.max(np.linalg.norm(one, axis=1)) <= chain.gradient_gap * n * (1 + 1e-12)
    inside = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True) / radius)
    assert np.all(np.abs(np.sum(a * inside, axis=1) - b) <= radius + bound)

"""Group normalisation against its definition, number by number."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from pabi.features.groups import group_normalised
from support.in_turn import in_turn


@in_turn(("channels", "groups"), [(6, 3), (6, 1), (6, 6), (81, 27)])
def test_every_group_of_every_image_is_normalised_by_itself(channels, groups):
    x = np.random.default_rng(0).normal(3.0, 2.0, (2, channels, 2, 3)).astype(np.float32)
    x[1] *= 1e-3
    result = group_normalised(x, groups)
    assert result.shape == x.shape
    assert result.dtype == np.float32
    size = channels // groups
    for image in range(2):
        for first in range(0, channels, size):
            part = x[image, first : first + size].astype(float).ravel().tolist()
            mean, variance = statistics.fmean(part), statistics.pvariance(part)
            truth = [(value - mean) / math.sqrt(variance + 1e-5) for value in part]
            measured = result[image, first : first + size].ravel()
            np.testing.assert_allclose(measured, truth, rtol=1e-4, atol=1e-4)


def test_a_group_without_variation_is_zero():
    x = np.full((1, 4, 3, 3), 0.3, np.float32)
    x[:, 2:] = np.arange(18).reshape(2, 3, 3)
    result = group_normalised(x, 2)
    np.testing.assert_allclose(result[:, :2], 0.0, atol=1e-4)
    assert np.square(result[:, 2:]).mean() == pytest.approx(1.0, rel=1e-5)

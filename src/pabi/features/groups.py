"""Group normalisation: every image by itself, with nothing learnt."""

from __future__ import annotations

import numpy as np

from pabi.features.cascade import Pixels

EPSILON = np.float32(1e-5)  # public; keeps groups without any variation at zero


def group_normalised(coefficients: Pixels, groups: int) -> Pixels:
    """(n, channels, h, w), with each image's groups of consecutive channels of mean 0 and variance 1.

    The mean and the variance are those over a group's channels and positions. EPSILON is added to the
    variance, so that it ends at most at 1.
    """
    each = coefficients.reshape(len(coefficients), groups, -1)
    centred = each - each.mean(axis=2, keepdims=True)
    variance = np.square(centred).mean(axis=2, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + EPSILON)).reshape(coefficients.shape)

"""Morlet wavelets and the Gaussian low-pass filter, as Fourier transforms on a periodic grid.

By Poisson's formula a Gaussian that is sampled and made periodic has the transform of the Gaussian, summed
over all aliases. So every filter is a sum of exponentials, real, and exact but for roundings.
"""

from __future__ import annotations

import math

import numpy as np

from pabi.numbers.rounding import Array

SIGMA, FREQUENCY = 0.8, 0.75 * math.pi  # the finest wavelet's width in pixels, and radians a pixel
_NEGLIGIBLE = math.sqrt(80.0)  # so many standard deviations away a Gaussian is below 1e-17


def morlets(shape: tuple[int, int], j: int, angles: int) -> Array:
    """(angles, H, W): the wavelets of scale 2ʲ in all directions of a half circle.

    In space one is g(u)·(exp(iξ·u) − K). The Gaussian g of mass 1 is longer across the wave than along it,
    and K makes the mean zero.
    """
    first = angles // 2 - 1
    turns = (math.pi * (first - k) / angles for k in range(angles))
    return np.stack([_morlet(shape, j, turn, 4.0 / angles) for turn in turns])


def low_pass(n: int, scales: int) -> Array:
    """(n,): one axis of the low-pass filter of scale 2^scales, which is a product over both axes."""
    deviation = SIGMA * 2.0 ** (scales - 1)
    frequency, periods = _frequencies(n, deviation)
    values = np.exp(-0.5 * (deviation * frequency) ** 2)
    return np.asarray(values.reshape(periods, n).sum(axis=0))


def low_band(spectrum: Array, level: int) -> Array:
    """The part of a filter's last axis that a grid of every 2^level-th pixel can hold without aliases."""
    n = spectrum.shape[-1]
    half = n >> (level + 1)
    return np.concatenate([spectrum[..., :half], spectrum[..., n - half :]], axis=-1)


def _morlet(shape: tuple[int, int], j: int, turn: float, slant: float) -> Array:
    width = SIGMA * 2.0**j
    along = np.array([math.cos(turn), math.sin(turn)])
    across = np.array([-along[1], along[0]])
    covariance = width**2 * (np.outer(along, along) + np.outer(across, across) / slant**2)
    narrowest = width * min(1.0, 1.0 / slant)
    wave = _gaussian(shape, covariance, FREQUENCY / 2.0**j * along, narrowest)
    envelope = _gaussian(shape, covariance, np.zeros(2), narrowest)
    return np.asarray(wave - wave[0, 0] / envelope[0, 0] * envelope)


def _gaussian(shape: tuple[int, int], covariance: Array, centre: Array, narrowest: float) -> Array:
    """(H, W): a Gaussian of mass 1 and of this covariance in space, times exp(i·centre·u)."""
    (rows, above), (columns, beside) = (_frequencies(n, narrowest) for n in shape)
    x, y = rows[:, None] - centre[0], columns - centre[1]
    form = covariance[0, 0] * x**2 + 2.0 * covariance[0, 1] * x * y + covariance[1, 1] * y**2
    values = np.exp(-0.5 * form).reshape(above, shape[0], beside, shape[1])
    return np.asarray(values.sum(axis=(0, 2)))


def _frequencies(n: int, narrowest: float) -> tuple[Array, int]:
    """(the frequencies of n pixels with all aliases that matter, in order; how many periods these are).

    `narrowest`: the least standard deviation in space of a Gaussian whose centre is at most `FREQUENCY`.
    """
    reach = math.ceil((FREQUENCY + _NEGLIGIBLE / narrowest) / (2.0 * math.pi))
    numbers = np.arange(-reach * n, (reach + 1) * n, dtype=np.float64)
    return 2.0 * math.pi / n * numbers, 2 * reach + 1

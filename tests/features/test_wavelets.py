"""The filters against their formulas in space, pixel by pixel and period by period."""

from __future__ import annotations

import math

import numpy as np

from pabi.features.wavelets import low_band, low_pass, morlets
from support.in_turn import in_turn

SHAPES = [((16, 24), 0, 8), ((16, 24), 1, 8), ((20, 12), 2, 3), ((12, 12), 0, 1), ((8, 8), 1, 2)]


def pixels(n: int) -> np.ndarray:
    """The pixels of seven periods of n, a row each."""
    return np.arange(n) + n * np.arange(-3, 4)[:, None]


def in_space(shape: tuple[int, int], j: int, turn: float, slant: float) -> np.ndarray:
    """g(u)·(exp(iξ·u) − K), made periodic, with K such that it adds up to zero."""
    width, xi = 0.8 * 2**j, 0.75 * math.pi / 2**j
    y, x = pixels(shape[0])[:, :, None, None], pixels(shape[1])[None, None, :, :]
    along = y * math.cos(turn) + x * math.sin(turn)
    across = -y * math.sin(turn) + x * math.cos(turn)
    gauss = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2))
    gauss *= slant / (2 * math.pi * width**2)
    wave = gauss * np.exp(1j * xi * along)
    return (wave - wave.sum() / gauss.sum() * gauss).sum(axis=(0, 2))


@in_turn(("shape", "j", "angles"), SHAPES)
def test_wavelets_are_the_transforms_of_their_formula(shape, j, angles):
    spectra = morlets(shape, j, angles)
    assert spectra.shape == (angles, *shape)
    for k, spectrum in enumerate(spectra):
        turn = math.pi * (angles // 2 - 1 - k) / angles
        truth = np.fft.fft2(in_space(shape, j, turn, 4 / angles))
        np.testing.assert_allclose(spectrum, truth, rtol=0, atol=1e-13)


@in_turn(("n", "scales"), [(12, 1), (36, 2), (40, 3)])
def test_the_low_pass_filter_is_the_transform_of_a_gaussian(n, scales):
    width = 0.8 * 2 ** (scales - 1)
    gauss = np.exp(-(pixels(n) ** 2) / (2 * width**2)) / math.sqrt(2 * math.pi * width**2)
    truth = np.fft.fft(gauss.sum(axis=0))
    np.testing.assert_allclose(low_pass(n, scales), truth, rtol=0, atol=1e-13)


@in_turn("level", [0, 1, 2])
def test_the_low_band_is_what_every_so_manieth_pixel_can_hold(level):
    n = 16
    coarse = n >> level
    for frequency in range(-n // 2, n // 2):
        wave = np.fft.fft(np.exp(2j * math.pi * frequency * np.arange(n) / n))
        seen = np.fft.ifft(low_band(wave, level)) / 2**level
        within = -coarse // 2 <= frequency < coarse // 2
        truth = within * np.exp(2j * math.pi * frequency * np.arange(coarse) / coarse)
        np.testing.assert_allclose(seen, truth, rtol=0, atol=1e-13)

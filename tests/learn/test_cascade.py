"""The transform against plain sums in space, against Kymatio, and against what its theory promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pabi.learn.scattering import cascade, paths, scattered

# Single precision: a coefficient's error is some units of 2⁻²⁴ of the largest pixel.
ROUNDING = 8 * 2.0**-24


def images(n: int, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, *shape), dtype=np.float32)


def periodic(shape: tuple[int, int], value) -> np.ndarray:
    """A function of pixels, made periodic, on the grid of one period."""
    y, x = np.mgrid[-3 * shape[0] : 4 * shape[0], -3 * shape[1] : 4 * shape[1]]
    return value(y, x).reshape(7, shape[0], 7, shape[1]).sum(axis=(0, 2))


def blur(shape: tuple[int, int], scales: int) -> np.ndarray:
    variance = (0.8 * 2 ** (scales - 1)) ** 2

    def value(y, x):
        return np.exp(-(x**2 + y**2) / (2 * variance)) / (2 * math.pi * variance)

    return periodic(shape, value)


def wavelet(shape: tuple[int, int], j: int, k: int, angles: int) -> np.ndarray:
    turn, slant = math.pi * (angles // 2 - 1 - k) / angles, 4 / angles
    width, xi = 0.8 * 2**j, 0.75 * math.pi / 2**j

    def gauss(y, x, frequency=0.0):
        along = y * math.cos(turn) + x * math.sin(turn)
        across = x * math.cos(turn) - y * math.sin(turn)
        exponent = -(along**2 + slant**2 * across**2) / (2 * width**2) + 1j * frequency * along
        return slant / (2 * math.pi * width**2) * np.exp(exponent)

    wave = periodic(shape, lambda y, x: gauss(y, x, xi))
    envelope = periodic(shape, gauss)
    return wave - wave.sum() / envelope.sum() * envelope


def on_level(kernel: np.ndarray, level: int) -> np.ndarray:
    """The kernel between pixels of a coarser grid: its waves that such a grid can hold."""
    waves = []
    for n in kernel.shape:
        m = n >> level
        k, u = np.arange(-m // 2, m // 2), np.arange(n)
        there = np.exp(-2j * math.pi * np.outer(k, u) / n)
        back = np.exp(2j * math.pi * np.outer(np.arange(m), k) / m) / m
        waves.append(back @ there)
    return waves[0] @ kernel @ waves[1].T


def convolved(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The sum over all pixels of their value times the kernel that is moved there."""
    total = np.zeros(x.shape, complex)
    for place in np.ndindex(x.shape):
        total += x[place] * np.roll(kernel, place, axis=(0, 1))
    return total


def directly(x: np.ndarray, scales: int, angles: int) -> dict:
    """The averages by path of a bordered image, at every 2ᴶ-th pixel."""
    low, level = blur(x.shape, scales), {(): 0}
    responses = {(): x}
    for path in paths(scales, angles, 2)[1:]:
        (j, k), before = path[-1], level[path[:-1]]
        kernel = on_level(wavelet(x.shape, j, k, angles), before)
        step = 2 ** (j - before)
        responses[path] = np.abs(convolved(responses[path[:-1]], kernel))[::step, ::step]
        level[path] = j
    return {
        path: convolved(u, on_level(low, level[path])).real[
            :: 2 ** (scales - level[path]), :: 2 ** (scales - level[path])
        ]
        for path, u in responses.items()
    }


@pytest.mark.parametrize(
    ("shape", "scales", "angles"), [((8, 9), 2, 3), ((7, 10), 1, 8), ((9, 8), 3, 2)]
)
def test_coefficients_are_plain_sums_in_space(shape, scales, angles):
    plan = cascade(shape, scales, angles, 2)
    (x,) = images(1, shape)
    size = 2**scales
    extra = [(n // size + 2) * size - n for n in shape]
    bordered = np.pad(x, [(e // 2, e - e // 2) for e in extra], mode="reflect")
    truth = directly(bordered.astype(float), scales, angles)
    coefficients = scattered(plan, x[None])[0]
    assert coefficients.shape[1:] == tuple(n // size for n in shape)
    for path, channel in zip(paths(scales, angles, 2), coefficients, strict=True):
        np.testing.assert_allclose(channel, truth[path][1:-1, 1:-1], rtol=0, atol=ROUNDING)


# Kymatio 0.3.0, backend numpy, on numpy 1.26 and scipy 1.14: Scattering2D(J, (h, w), L, 2) of the image
# ((3r² + 5c + rc) mod 17)/16 in row r and column c. (channel's path, position, coefficient)

KYMATIO = {
    (18, 21, 2, 8): [
        ((), (0, 0), 0.47735112405772),
        ((), (3, 4), 0.5952912253911835),
        (((0, 0),), (1, 2), 0.0964777694017573),
        (((0, 3),), (0, 0), 0.0553402091581704),
        (((0, 7),), (2, 3), 0.05074474878362269),
        (((1, 0),), (3, 0), 0.03981427460932165),
        (((1, 4),), (1, 1), 0.019725666677126306),
        (((1, 7),), (3, 4), 0.03280474246706189),
        (((0, 0), (1, 0)), (0, 4), 0.01867967519915243),
        (((0, 2), (1, 5)), (2, 2), 0.002635036789358982),
        (((0, 5), (1, 2)), (1, 3), 0.002803803819935906),
        (((0, 7), (1, 7)), (3, 4), 0.003275489734618737),
    ],
    (9, 8, 3, 3): [
        ((), (0, 0), 0.5016620064677892),
        (((0, 1),), (0, 0), 0.128580402236626),
        (((1, 2),), (0, 0), 0.044813147528814684),
        (((2, 2),), (0, 0), 0.039866781707178826),
        (((0, 0), (1, 2)), (0, 0), 0.00980559900897852),
        (((0, 1), (2, 1)), (0, 0), 0.006424121316574766),
        (((1, 2), (2, 2)), (0, 0), 0.00476960971502616),
    ],
}


@pytest.mark.parametrize("setting", KYMATIO)
def test_coefficients_are_those_of_kymatio(setting):
    height, width, scales, angles = setting
    r, c = np.mgrid[:height, :width]
    x = ((3 * r * r + 5 * c + r * c) % 17) / 16
    coefficients = scattered(cascade((height, width), scales, angles, 2), x[None].astype("f4"))[0]
    channels = paths(scales, angles, 2)
    for path, position, theirs in KYMATIO[setting]:
        # Every filter of theirs is divided by 3.1415 in place of π.
        filters = len(path) + 1
        ours = coefficients[channels.index(path)][position] * (math.pi / 3.1415) ** filters
        assert ours == pytest.approx(theirs, rel=1e-6)  # both in part in single precision

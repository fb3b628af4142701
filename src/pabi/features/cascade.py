"""The scattering transform: wavelets and moduli, once or twice, and averages of what they leave.

A modulus keeps where there is structure of a wavelet's scale and direction, and drops the phase, so that
averages over 2ᴶ pixels do not cancel. Responses of scale 2ʲ live on a grid of every 2ʲ-th pixel: their
level is j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from pabi.features.wavelets import low_band, low_pass, morlets

Pixels = NDArray[np.float32]
Path = tuple[tuple[int, int], ...]
"""A channel: the (scale, direction) of each of its wavelets, in order."""


@dataclass(frozen=True, eq=False)
class Cascade:
    """What images of one shape are transformed with. H × W are their sides with the border.

    `rows`, `columns`: (H, 1) and (W,), where each pixel of the bordered image comes from. `averages`: a
    level's matrices A (h′, H/2ʲ) and B (W/2ʲ, w′), of which A·u·B are the averages of u. `wavelets`: (L,
    H/2ⁱ, W/2ⁱ) the transforms of those of scale 2ʲ for responses of level i, by (j, i).
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    averages: tuple[tuple[Pixels, Pixels], ...]
    wavelets: dict[tuple[int, int], Pixels]
    max_order: int


def paths(scales: int, angles: int, max_order: int) -> tuple[Path, ...]:
    """The channels in order: the average, then one wavelet, then two of which the second is coarser."""
    wavelets = [(j, a) for j in range(scales) for a in range(angles)]
    pairs = [(one, two) for one in wavelets for two in wavelets if two[0] > one[0]]
    return ((), *((one,) for one in wavelets), *(pairs if max_order == 2 else ()))


@lru_cache(maxsize=8)
def cascade(shape: tuple[int, int], scales: int, angles: int, max_order: int) -> Cascade:
    """The filters for images of this shape, at least 2^scales in height and width."""
    height, width = shape
    averages = tuple(
        (_averages(height, scales, level), _averages(width, scales, level).T)
        for level in range(scales)
    )
    bordered = _bordered(height, scales), _bordered(width, scales)
    spectra = [morlets(bordered, j, angles) for j in range(scales)]
    levels = {(j, i): _on_level(spectra[j], j, i) for j in range(scales) for i in range(j + 1)}
    rows, columns = _border(height, scales)[:, None], _border(width, scales)
    return Cascade(rows, columns, averages, levels, max_order)


def scattered(plan: Cascade, images: Pixels) -> Pixels:
    """(n, channels, h′, w′) from (n, h, w): the averages along every path, each image by itself."""
    return np.concatenate(list(_averages_in_order(plan, images)), axis=1)


def _averages_in_order(plan: Cascade, images: Pixels) -> Iterator[Pixels]:
    x = images[:, plan.rows, plan.columns]
    yield _average(plan, 0, x[:, None])
    spectrum = fft.fft2(x)
    responses = [_moduli(plan, spectrum, j, 0) for j in range(len(plan.averages))]
    for j, response in enumerate(responses):
        yield _average(plan, j, response)
    if plan.max_order == 2:
        for j, response in enumerate(responses):
            yield from _second_order(plan, j, response)


def _second_order(plan: Cascade, level: int, responses: Pixels) -> Iterator[Pixels]:
    for a in range(responses.shape[1]):  # one direction at a time, which fits the cache
        spectrum = fft.fft2(responses[:, a])
        for j in range(level + 1, len(plan.averages)):
            yield _average(plan, j, _moduli(plan, spectrum, j, level))


def _average(plan: Cascade, level: int, u: Pixels) -> Pixels:
    above, beside = plan.averages[level]
    return above @ (u @ beside)


def _moduli(plan: Cascade, spectrum: NDArray[np.complex64], j: int, level: int) -> Pixels:
    """(n, L, …) of level j: the moduli of the responses of the wavelets of scale 2ʲ.

    To take every k-th pixel of a response is to add up the k × k parts of its transform.
    """
    wavelets, k = plan.wavelets[j, level], 1 << (j - level)
    height, width = (n // k for n in wavelets.shape[1:])
    total = np.zeros((len(spectrum), len(wavelets), height, width), np.complex64)
    for top in range(0, k * height, height):
        for left in range(0, k * width, width):
            part = np.s_[..., top : top + height, left : left + width]
            total += spectrum[:, None][part] * wavelets[part]
    return np.asarray(np.abs(fft.ifft2(total, overwrite_x=True)))


def _bordered(n: int, scales: int) -> int:
    """A multiple of 2^scales that leaves a border of up to 2^scales pixels on either side."""
    return ((n >> scales) + 2) << scales


def _border(n: int, scales: int) -> NDArray[np.intp]:
    """Which of n pixels each pixel of the bordered axis shows: the image is mirrored at its edges."""
    extra = _bordered(n, scales) - n
    return np.pad(np.arange(n), (extra // 2, extra - extra // 2), mode="reflect")


def _averages(n: int, scales: int, level: int) -> Pixels:
    """(n/2ᴶ, N/2^level): the low-pass filter at every 2ᴶ-th of N bordered pixels but those of the border."""
    kernel = fft.ifft(low_band(low_pass(_bordered(n, scales), scales), level)).real
    centres = np.arange(1, (n >> scales) + 1) << (scales - level)
    distances = centres[:, None] - np.arange(len(kernel))
    return np.asarray(kernel[distances % len(kernel)], np.float32)


def _on_level(spectra: NDArray[np.float64], j: int, level: int) -> Pixels:
    """The wavelets of scale 2ʲ for responses of `level`, over the number of parts that `_moduli` adds up."""
    both = low_band(low_band(spectra, level).swapaxes(1, 2), level).swapaxes(1, 2)
    return (both / 4.0 ** (j - level)).astype(np.float32)

"""The scattering transform as a scikit-learn transformer: public settings, and nothing learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from pabi.execute.cells import doubles_of, unmasked
from pabi.execute.tables import tagged
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array

# Morlet wavelets and the Gaussian low-pass filter, as Fourier transforms on a periodic grid.
#
# By Poisson's formula a Gaussian that is sampled and made periodic has the transform of the Gaussian,
# summed over all aliases. So every filter is a sum of exponentials, real, and exact but for roundings.


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


# The scattering transform: wavelets and moduli, once or twice, and averages of what they leave.
#
# A modulus keeps where there is structure of a wavelet's scale and direction, and drops the phase, so
# that averages over 2ᴶ pixels do not cancel. Responses of scale 2ʲ live on a grid of every 2ʲ-th pixel:
# their level is j.


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


# Group normalisation: every image by itself, with nothing learnt.


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


LARGEST = 1e12  # of scaled pixels: squares of what they become are still single precision
_BATCH = 1 << 14  # pixels at once, whose transforms fit a processor's cache


@tagged(
    requires_fit=False,
    input_tags__three_d_array=True,
    transformer_tags__preserves_dtype=["float32"],
)
class Scattering(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scattering features of images, by a public map that treats every image by itself.

    The map takes wavelets of J scales and L directions, the moduli of their responses, wavelets and moduli
    of those, and averages over 2ᴶ pixels. Nothing is fitted: the settings fix the map, and a row of the
    features depends on its own image alone. So it needs no privacy budget, and neighbouring data sets stay
    neighbouring.

    Parameters
    ----------
    shape : (int, int)
        (h, w), the height and width of the images in pixels.
    J : int
        Averages are over about 2ᴶ pixels, 2 ≤ 2ᴶ ≤ min(h, w). Each channel has ⌊h/2ᴶ⌋ × ⌊w/2ᴶ⌋ positions.
    L : int
        Directions of the wavelets, at least 1. The filters are made for 8.
    max_order : int
        How many wavelets a channel may have: 1 makes 1 + J·L channels, and 2 adds L²·J(J−1)/2. By default
        there are 81.
    groups : int, optional
        A divisor of the number of channels. The channels of an image are split into so many groups of
        consecutive ones, and each group is centred and scaled to variance 1 over its channels and
        positions. None: they stay as they are.
    scale : float
        > 0, by which pixels are divided: 255 for bytes. Public, whatever the images hold.

    Attributes
    ----------
    n_features_in_ : int
        h·w, after `fit`.
    feature_names_in_ : array of str
        The columns, after `fit` on a data frame.

    Raises
    ------
    InvalidInput
        A setting is wrong; the error names it. As in scikit-learn the methods raise it, not the constructor.

    Notes
    -----
    With `groups` a row of d features has norm at most √d, but for roundings: a public `feature_norm`.

    Choose the settings without looking at private images: what is read off them is covered by no guarantee.

    References
    ----------
    Bruna and Mallat 2013, "Invariant scattering convolution networks": the transform.

    Andreux et al. 2020, "Kymatio: scattering transforms in Python": the constants of the wavelets, and the
    borders. Features agree with Kymatio 0.3, but for its filters, which are 1.00003 times larger, because it
    takes 3.1415 for π.

    Wu and He 2018, "Group normalization": the groups, here without learnt parameters.

    Tramèr and Boneh 2021, "Differentially private learning needs better features (or much more data)": both
    in front of private training.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        J: int = 2,
        L: int = 8,
        *,
        max_order: int = 2,
        groups: int | None = 27,
        scale: float = 1.0,
    ) -> None:
        self.shape = shape
        self.J = J
        self.L = L
        self.max_order = max_order
        self.groups = groups
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """This transformer, with settings and the shape of the images checked; nothing is learned from them.

        Parameters
        ----------
        X : (n, h·w) or (n, h, w) array
            The images, whose pixels are not looked at.
        y : object
            Not looked at.

        Returns
        -------
        self
            The transformer, with `n_features_in_`.

        Raises
        ------
        InvalidInput
            A setting or the shape of X is wrong. The error, a ValueError, names the setting or X.
        """
        self._channels()
        self._images(X, reset=True)
        return self

    def transform(self, X: Any) -> Pixels:
        """The features of images, each row from its own image and the settings alone.

        Parameters
        ----------
        X : (n, h·w) or (n, h, w) array
            Images of real numbers: an array, a data frame of pixels, or a memory-mapped array, which is read
            part by part. Pixels are at most 10¹² times `scale` in size.

        Returns
        -------
        array
            (n, d) float32: for each channel its positions, row by row. A data frame of the named features
            where `set_output` says so.

        Raises
        ------
        InvalidInput
            A setting, the shape or type of X, or a pixel is wrong. No message shows pixels.
        """
        plan, channels = cascade(*self._geometry()), len(self._channels())
        images = self._images(X, reset=False)
        features = np.empty((len(images), channels * math.prod(self._positions)), np.float32)
        for rows, pixels in self._batches(images):
            coefficients = scattered(plan, pixels)
            if self.groups is not None:
                coefficients = group_normalised(coefficients, self.groups)
            features[rows] = coefficients.reshape(len(pixels), -1)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the features: the path of wavelets, then the row and the column of the position.

        Parameters
        ----------
        input_features : object
            Not looked at.

        Returns
        -------
        array
            (d,) str: `average_0_6`, `j0a3_0_6` with the wavelet of scale 2⁰ and direction 3, `j0a3_j1a5_0_6`.

        Raises
        ------
        InvalidInput
            A setting is wrong.
        """
        names = [_name(path) for path in self._channels()]
        height, width = self._positions
        return np.array(
            [f"{name}_{r}_{c}" for name in names for r in range(height) for c in range(width)],
            dtype=object,
        )

    @property
    def _positions(self) -> tuple[int, int]:
        """(h′, w′) of a channel."""
        (height, width), J, *_ = self._geometry()
        return height >> J, width >> J

    def _geometry(self) -> tuple[tuple[int, int], int, int, int]:
        """The arguments of `cascade`, checked."""
        sides = _sides(self.shape)
        most = min(sides).bit_length() - 1
        J = validate.integer("J", self.J, at_least=1, at_most=most, of="⌊log₂ min(h, w)⌋ = ")
        L = validate.integer("L", self.L, at_least=1)
        return sides, J, L, validate.integer("max_order", self.max_order, at_least=1, at_most=2)

    def _channels(self) -> tuple[Path, ...]:
        """The paths of the channels, after a look at every setting."""
        _, *wavelets = self._geometry()
        channels = paths(*wavelets)
        validate.POSITIVE("scale", self.scale)
        must_be(
            self.groups is None
            or len(channels) % validate.integer("groups", self.groups, at_least=1) == 0,
            "groups",
            f"a divisor of the {len(channels)} channels or None",
            self.groups,
        )
        return channels

    def _images(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """(n, h·w) or (n, h, w) of a real type, without a copy where there is an array."""
        images = _real(X)
        height, width = self.shape
        require(
            images.shape[1:] in ((height, width), (height * width,)),
            "X",
            f"expected rows of {height * width} pixels or images of {height} × {width}, got entries of shape "
            f"{images.shape[1:]}",
        )
        require(len(images), "X", "expected at least one image, got none")
        if reset:
            self.n_features_in_ = height * width
        if images.ndim == 2 and hasattr(self, "n_features_in_"):  # the names of columns, too
            validate_data(self, X, reset=reset, skip_check_array=True)
        return images

    def _batches(self, images: NDArray[Any]) -> Iterator[tuple[slice, Pixels]]:
        """(which rows, (m, h, w) their scaled pixels)."""
        size = max(1, _BATCH // (self.shape[0] * self.shape[1]))
        for first in range(0, len(images), size):
            rows = slice(first, first + size)
            yield rows, _scaled(images[rows].reshape(-1, *self.shape), float(self.scale))


def _sides(shape: Any) -> tuple[int, int]:
    try:
        height, width = shape
    except (TypeError, ValueError):
        raise InvalidInput("shape", f"expected two integers, (h, w), got {shape!r}") from None
    height = validate.integer("shape", height, at_least=2)
    return height, validate.integer("shape", width, at_least=2)


def _name(path: Path) -> str:
    return "_".join(f"j{j}a{a}" for j, a in path) or "average"


def _real(X: Any) -> NDArray[Any]:
    """X as an array of real numbers, in the type that it has."""
    require(not issparse(X), "X", "expected an array, got a sparse matrix")
    try:
        images = np.asarray(unmasked(X))
        images = doubles_of("X", images) if images.dtype == object else images
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("X", "expected an array of numbers, got something else") from None
    require(images.dtype.kind != "c", "X", "Complex data not supported")  # scikit-learn's words
    require(images.dtype.kind in "biuf", "X", "expected an array of numbers, got something else")
    return images


def _scaled(part: NDArray[Any], scale: float) -> Pixels:
    """The pixels divided by `scale`. Raises InvalidInput, without a pixel, for those that are too large."""
    with np.errstate(over="ignore"):
        pixels = np.divide(part, scale, dtype=np.float64)
    require(
        np.all(np.abs(pixels) <= LARGEST),
        "X",
        "expected finite pixels of at most 10¹² times `scale`",
    )
    return np.asarray(pixels, np.float32)

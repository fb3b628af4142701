"""The scattering transform as a scikit-learn transformer: public settings, and nothing learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

from pabi.features.cascade import Path, Pixels, cascade, paths, scattered
from pabi.features.cells import doubles_of, unmasked
from pabi.features.groups import group_normalised
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE

LARGEST = 1e12  # of scaled pixels: squares of what they become are still single precision
_BATCH = 1 << 14  # pixels at once, whose transforms fit a processor's cache


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
        POSITIVE("scale", self.scale)
        if self.groups is not None and _remainder(len(channels), self.groups):
            expected = f"expected a divisor of the {len(channels)} channels or None"
            raise InvalidInput("groups", f"{expected}, got {self.groups!r}")
        return channels

    def _images(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """(n, h·w) or (n, h, w) of a real type, without a copy where there is an array."""
        images = _real(X)
        height, width = self.shape
        if images.shape[1:] not in ((height, width), (height * width,)):
            expected = f"expected rows of {height * width} pixels or images of {height} × {width}"
            raise InvalidInput("X", f"{expected}, got entries of shape {images.shape[1:]}")
        if len(images) == 0:
            raise InvalidInput("X", "expected at least one image, got none")
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
            part = images[rows].reshape(-1, *self.shape)
            yield rows, _scaled(part, float(self.scale))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _sides(shape: Any) -> tuple[int, int]:
    try:
        height, width = shape
    except (TypeError, ValueError):
        raise InvalidInput("shape", f"expected two integers, (h, w), got {shape!r}") from None
    height = validate.integer("shape", height, at_least=2)
    return height, validate.integer("shape", width, at_least=2)


def _remainder(channels: int, groups: Any) -> int:
    return channels % validate.integer("groups", groups, at_least=1)


def _name(path: Path) -> str:
    return "_".join(f"j{j}a{a}" for j, a in path) or "average"


def _real(X: Any) -> NDArray[Any]:
    """X as an array of real numbers, in the type that it has."""
    if issparse(X):
        raise InvalidInput("X", "expected an array, got a sparse matrix")
    try:
        images = np.asarray(unmasked(X))
        images = doubles_of("X", images) if images.dtype == object else images
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("X", "expected an array of numbers, got something else") from None
    if images.dtype.kind == "c":
        raise InvalidInput("X", "Complex data not supported")  # scikit-learn's words
    if images.dtype.kind not in "biuf":
        raise InvalidInput("X", "expected an array of numbers, got something else")
    return images


def _scaled(part: NDArray[Any], scale: float) -> Pixels:
    """The pixels divided by `scale`. Raises InvalidInput, without a pixel, for those that are too large."""
    with np.errstate(over="ignore"):
        pixels = np.divide(part, scale, dtype=np.float64)
    if not np.all(np.abs(pixels) <= LARGEST):
        raise InvalidInput("X", "expected finite pixels of at most 10¹² times `scale`")
    return np.asarray(pixels, np.float32)

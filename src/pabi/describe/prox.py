"""Proximal maps and projections: what a run can apply after every step (`prox=`).

The proximal map of a closed convex function g is p(x, η) = argmin_u ½‖u − x‖² + η·g(u), and the
projection on a closed convex set that of its indicator, whatever η. Either is (firmly) nonexpansive,
all that the accountant uses of it besides the diameter of its range.

Norms are Euclidean over all entries, whatever the shape (Frobenius for matrices). Results are float64
arrays of the shape of `x`, which is left alone. Infinite entries of `x` count as the largest double,
and NaN stays NaN: an iterate is hidden, so that nothing may be said about its values.

Source: Parikh and Boyd, "Proximal algorithms", 2014, §1 and §6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.numbers import encoding, validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import (
    HALF_ULP,
    TINY,
    Array,
    power_of_two_near,
    root_of_fraction_up,
    soft,
    sum_of_products,
    sum_of_squares,
    thresholded,
    two_sum,
)
from pabi.numbers.rounding import add_towards as add_towards
from pabi.numbers.validate import NONNEGATIVE, NUMBER, Check, Checked, by, optional

# Parameters of proximal maps: as arguments, in tables and in a repr.


_SHOWN = 16  # array entries in a repr


def real_numbers(field: str, value: Any) -> Array:
    """The value as a float64 array. Raises InvalidInput, which says nothing of its entries."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidInput(field, "expected an array of real numbers") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(field, f"expected real numbers, got an array of dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def finite_numbers(field: str, value: Any) -> Array:
    """A read-only float64 array of finite numbers. Raises InvalidInput."""
    array = real_numbers(field, value) + 0.0  # no −0, which would compare as another number
    require(np.all(np.isfinite(array)), field, "expected finite numbers")
    return _frozen(array)


def number_or_array(field: str, value: Any) -> Any:
    """A float or a read-only array, infinities allowed. Raises InvalidInput."""
    array = real_numbers(field, value) + 0.0
    require(not np.any(np.isnan(array)), field, "expected numbers or infinities, got NaN")
    return float(array) if array.ndim == 0 else _frozen(array)


def _frozen(array: Array) -> Array:
    array = np.asarray(array)
    array.flags.writeable = False
    return array


def read_shape(field: str, value: Any) -> tuple[int, ...]:
    """The shape that an integer or a list of them says. Raises InvalidInput."""
    sizes = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return tuple(validate.integer(field, size, at_least=1, at_most=10**18) for size in sizes)


def written(value: Any) -> Any:
    """A parameter for JSON: numbers in nested lists, packed where there are many."""
    if value is None or isinstance(value, tuple):
        return value if value is None else list(value)
    array = np.asarray(value)
    packed = encoding.floats(array.ravel())
    if isinstance(packed, dict):
        return packed if array.ndim == 1 else {**packed, "shape": list(array.shape)}
    return _spelled(array.tolist())


def _spelled(value: Any) -> Any:
    """Infinities, which JSON lacks, as "inf" and "-inf"."""
    if isinstance(value, list):
        return [_spelled(v) for v in value]
    return value if math.isfinite(value) else str(value)


def read(field: str, value: Any, depth: int = 0) -> Any:
    """What `written` wrote. Arrays have at most 64 dimensions. Raises InvalidInput naming `field`."""
    if isinstance(value, list) and depth < 64:
        return [read(field, v, depth + 1) for v in value]
    if isinstance(value, Mapping):
        packed = {k: v for k, v in value.items() if k != "shape"}
        flat = encoding.read_floats(field, packed)
        shape = read_shape("shape", value["shape"]) if "shape" in value else flat.shape
        if math.prod(shape) != flat.size:
            raise InvalidInput(field, f"expected numbers of shape {shape}, got {flat.size} of them")
        return flat.reshape(shape)
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else value


def short(value: Any) -> str:
    """A parameter for a repr: large arrays by their shape alone."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return repr(value.tolist()) if value.size <= _SHOWN else f"<array of shape {value.shape}>"


_LARGEST = float(np.finfo(np.float64).max)
# Below TINY numbers lose precision, and the double of a length must be a double.
_LENGTH: Check = partial(validate.number, at_least=TINY, at_most=_LARGEST / 2.0)


@dataclass(frozen=True, eq=False, repr=False)
class ProximalMap(Checked):
    """A nonexpansive map x ↦ p(x, step_size); see the subclasses for which.

    Points and centres have the unit of the iterate. Constructors raise InvalidInput, naming the parameter.

    References
    ----------
    Parikh and Boyd 2014, §6.
    """

    @property
    def diameter(self) -> float | None:
        """An upper bound of the distance of any two results, None if there is none."""
        return None

    @property
    def point_shape(self) -> tuple[int, ...] | None:
        """The only shape that x may have, None if any will do."""
        return None

    def __call__(self, x: ArrayLike, step_size: float) -> Array:
        """The map's value at a point.

        Parameters
        ----------
        x : array of real numbers
            The point, of the shape `point_shape`; it is not changed.
        step_size : float, > 0
            η; projections ignore it.

        Returns
        -------
        float64 array of the shape of x
            p(x, step_size), a new array.

        Raises
        ------
        InvalidInput
            For another shape, for what are not numbers, and where it matters for a wrong `step_size`.
        """
        point = real_numbers("x", x)
        if self.point_shape is not None and point.shape != self.point_shape:
            raise InvalidInput("x", f"expected shape {self.point_shape}, got {point.shape}")
        with np.errstate(all="ignore"):
            return np.asarray(self._map(within_range(point), step_size))

    def _map(self, x: Array, step_size: float) -> Array:
        """The result for finite (or NaN) x, which may be returned itself."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The table [prox] of a run file.

        Returns
        -------
        dict
            Kind, parameters, and the diameter if there is one; JSON-ready.
        """
        parameters = {f.name: written(getattr(self, f.name)) for f in fields(self)}
        table = {"kind": type(self).__name__, **parameters, "diameter": self.diameter}
        return {name: value for name, value in table.items() if value is not None}

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> ProximalMap:
        """The map that a table describes.

        Parameters
        ----------
        table : mapping
            As `to_dict` writes it. Its kind and keys are those of one of pabi's maps.

        Returns
        -------
        ProximalMap
            The map of that kind.

        Raises
        ------
        InvalidInput
            For a parameter that is missing or wrong, and for a diameter below the map's own.
        """
        cls = KINDS[table["kind"]]
        parameters = {k: read(k, v) for k, v in table.items() if k not in ("kind", "diameter")}
        for f in fields(cls):
            if f.default is MISSING and f.name not in parameters:
                raise InvalidInput(f.name, f"missing from [prox]: {cls.__name__} needs it")
        built = cls(**parameters)
        if table.get("diameter") is not None:
            stated = validate.number("diameter", table["diameter"], at_least=0.0)
            if built.diameter is None or stated < built.diameter:
                least = "none, for it is unbounded" if built.diameter is None else built.diameter
                raise InvalidInput(
                    "diameter",
                    f"expected at least that of {built!r} in [prox] ({least}), got {stated!r}",
                )
        return built

    @property
    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, f.name) for f in fields(self))
        return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._key == self._key

    def __hash__(self) -> int:
        return hash((type(self), self._key))

    def __repr__(self) -> str:
        values = {f.name: v for f in fields(self) if (v := getattr(self, f.name)) is not None}
        named = [
            f"{name}={short(v)}" if len(values) > 1 else short(v) for name, v in values.items()
        ]
        return f"{type(self).__name__}({', '.join(named)})"


# Penalties. Their ranges are unbounded.


@dataclass(frozen=True, eq=False, repr=False)
class l1(ProximalMap):
    """Soft thresholding: entries move towards 0 by η·strength, and no further. g = strength·‖u‖₁.

    Parameters
    ----------
    strength : float, ≥ 0
        The weight of the penalty.

    Raises
    ------
    InvalidInput
        For a negative, NaN or infinite `strength`.

    References
    ----------
    Parikh and Boyd 2014, §6.5.2.
    """

    strength: float = field(metadata=by(NONNEGATIVE))

    def _map(self, x: Array, step_size: float) -> Array:
        return soft(x, _step(step_size) * self.strength)


@dataclass(frozen=True, eq=False, repr=False)
class l2(ProximalMap):
    """x/(1 + η·strength): shrinking towards 0. g = (strength/2)‖u‖², as in ridge regression.

    The accountant takes this map for nonexpansive and no more. A regulariser that it credits with its
    contraction is the `l2` of the loss.

    Parameters
    ----------
    strength : float, ≥ 0
        The weight of the penalty, which is the norm squared.

    Raises
    ------
    InvalidInput
        For a negative, NaN or infinite `strength`.

    References
    ----------
    Parikh and Boyd 2014, §6.1.1.
    """

    strength: float = field(metadata=by(NONNEGATIVE))

    def _map(self, x: Array, step_size: float) -> Array:
        return x / (1.0 + _step(step_size) * self.strength)


@dataclass(frozen=True, eq=False, repr=False)
class elastic_net(ProximalMap):
    """Soft thresholding by η·l1, then division by 1 + η·l2. g = l1·‖u‖₁ + (l2/2)‖u‖².

    Parameters
    ----------
    l1, l2 : float, ≥ 0
        The weights of the two penalties.

    Raises
    ------
    InvalidInput
        For a negative, NaN or infinite weight.

    References
    ----------
    Parikh and Boyd 2014, §6.5.3.
    """

    l1: float = field(metadata=by(NONNEGATIVE))
    l2: float = field(metadata=by(NONNEGATIVE))

    def _map(self, x: Array, step_size: float) -> Array:
        eta = _step(step_size)
        return soft(x, eta * self.l1) / (1.0 + eta * self.l2)


@dataclass(frozen=True, eq=False, repr=False)
class nuclear_norm(ProximalMap):
    """Soft thresholding of the singular values of a matrix. g = strength·(sum of singular values).

    The point x must be two-dimensional.

    Parameters
    ----------
    strength : float, ≥ 0
        The weight of the penalty.

    Raises
    ------
    InvalidInput
        For a negative, NaN or infinite `strength`.

    References
    ----------
    Cai, Candès, Shen 2010, Thm 2.1; Parikh and Boyd 2014, §6.7.3.
    """

    strength: float = field(metadata=by(NONNEGATIVE))

    def _map(self, x: Array, step_size: float) -> Array:
        require(x.ndim == 2, "x", f"expected a matrix, got shape {x.shape}")
        threshold = _step(step_size) * self.strength
        if np.isnan(x).any():
            return np.full_like(x, np.nan)  # the decomposition would raise, and so tell
        scale = power_of_two_near(float(np.max(np.abs(x), initial=0.0)))
        return within_range(thresholded(x / scale, threshold / scale) * scale)


# Projections. They ignore the step size.


@dataclass(frozen=True, eq=False, repr=False)
class ball(ProximalMap):
    """The projection on {u : ‖u − center‖ ≤ radius}.

    The true distance of a result from the center, not only the computed one, is at most `radius`: points are
    moved to a radius smaller by a relative (d + 16)·2⁻⁵² in dimension d, and those within half of that count
    as outside.

    Parameters
    ----------
    radius : float, > 0
        In units of the iterate.
    center : array of the shape of x, optional
        None (default) for the origin.

    Raises
    ------
    InvalidInput
        For a `radius` or `center` that is no finite number, or a ball that leaves the range of doubles.

    References
    ----------
    Parikh and Boyd 2014, §6.5.1.
    """

    radius: float = field(metadata=by(_LENGTH))
    center: Any = field(default=None, metadata=by(optional(finite_numbers)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.center is not None:
            peak = float(np.max(np.abs(self.center), initial=0.0))
            if peak > _LARGEST - 2.0 * self.radius:
                raise InvalidInput("center", "expected a ball within the range of doubles")

    @property
    def diameter(self) -> float:
        """The diameter of the ball, 2·radius."""
        return 2.0 * self.radius

    @property
    def point_shape(self) -> tuple[int, ...] | None:
        """The shape of the center, None where it is the origin."""
        return None if self.center is None else np.shape(self.center)

    def _map(self, x: Array, step_size: float) -> Array:
        offset = x if self.center is None else within_range(x - self.center)
        peak = float(np.max(np.abs(offset), initial=0.0))
        if peak == 0.0:
            return x
        # Relative to the largest entry nothing overflows. The computed length of d numbers is off by
        # at most about (d/2 + 2) half ulps in any order of summation; the rest loses a few more.
        unit = offset / peak
        target = self.radius / max(1.0, math.sqrt(np.vdot(unit, unit)))
        slack = (x.size + 16) * HALF_ULP
        if peak <= target * (1.0 - slack):
            return x
        inside: Array = unit * (target * (1.0 - 2.0 * slack))
        return inside if self.center is None else add_towards(self.center, inside)


@dataclass(frozen=True, eq=False, repr=False)
class box(ProximalMap):
    """The projection on {u : lower ≤ u ≤ upper}, entry by entry. Results are exact.

    Parameters
    ----------
    lower, upper : float or array of the shape of x
        The bounds, lower ≤ upper; infinite where there is none.
    shape : tuple of int, optional
        The shape of x, where both bounds are numbers: without it they say nothing of the dimension.

    Raises
    ------
    InvalidInput
        For bounds that are NaN, out of order or of shapes that disagree, or a wrong `shape`.

    References
    ----------
    Parikh and Boyd 2014, §6.2.4.
    """

    lower: Any = field(metadata=by(number_or_array))
    upper: Any = field(metadata=by(number_or_array))
    shape: Any = field(default=None, metadata=by(optional(read_shape)))

    def __post_init__(self) -> None:
        super().__post_init__()
        lower, upper = self.lower, self.upper
        try:
            shape = np.broadcast_shapes(np.shape(lower), np.shape(upper))
        except ValueError:
            raise InvalidInput(
                "upper", f"expected the shape of lower, {np.shape(lower)}, got {np.shape(upper)}"
            ) from None
        if np.any(np.asarray(lower) > upper) or np.any(np.equal(lower, upper) & np.isinf(lower)):
            raise InvalidInput("lower", "expected at most upper, with a number between them")
        if self.shape is not None and shape not in ((), self.shape):
            raise InvalidInput("shape", f"expected that of the bounds, {shape}, got {self.shape}")

    @property
    def point_shape(self) -> tuple[int, ...] | None:
        """The shape that was stated, or that of the bounds; None where both are numbers."""
        shape = np.broadcast_shapes(np.shape(self.lower), np.shape(self.upper))
        return self.shape if self.shape is not None else shape or None

    @cached_property
    def diameter(self) -> float | None:
        """‖upper − lower‖, rounded up; None if it is infinite or the shape unknown."""
        if self.point_shape is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            width, lost = two_sum(np.asarray(self.upper), -np.asarray(self.lower))
            widths = np.where(lost <= 0.0, width, np.nextafter(width, np.inf))
        if not np.all(np.isfinite(widths)):
            return None
        repeated = 1 if widths.ndim else math.prod(self.point_shape)
        length = root_of_fraction_up(repeated * sum_of_squares(widths))
        return length if math.isfinite(length) else None

    def _map(self, x: Array, step_size: float) -> Array:
        return np.clip(x, self.lower, self.upper)


@dataclass(frozen=True, eq=False, repr=False)
class simplex(ProximalMap):
    """The projection on {u : u ≥ 0, Σu = total}, over all entries of x together.

    The true sum of a result never exceeds `total` and falls short of it by a relative (4d + 32)·2⁻⁵³ at most
    in dimension d. x must have an entry.

    Parameters
    ----------
    total : float, > 0
        In units of the iterate.

    Raises
    ------
    InvalidInput
        For a `total` that is no finite number > 0, or whose double leaves the range of doubles.

    References
    ----------
    Parikh and Boyd 2014, §6.2.5; Duchi et al. 2008, Figure 1.
    """

    total: float = field(default=1.0, metadata=by(_LENGTH))

    @property
    def diameter(self) -> float:
        """The diameter of the simplex, √2·total, rounded up."""
        return root_of_fraction_up(2 * Fraction(self.total) ** 2)

    def _map(self, x: Array, step_size: float) -> Array:
        require(x.size != 0, "x", f"expected at least one entry, got shape {x.shape}")
        # In units of the total and from the largest entry down; what lies a unit below becomes 0.
        y = np.maximum((x - np.max(x)) / self.total, -1.0)
        descending = np.sort(y, axis=None)[::-1]
        thresholds = (np.cumsum(descending) - 1.0) / np.arange(1, x.size + 1)
        # Up to the last entry that is above its threshold they rise, and then they fall.
        weights = np.maximum(y - np.max(thresholds), 0.0)
        # The sum of d nonnegative numbers is off by at most d half ulps, their products by as many.
        share = self.total / np.sum(weights) * (1.0 - (2 * x.size + 16) * HALF_ULP)
        return np.asarray(weights * share)


@dataclass(frozen=True, eq=False, repr=False)
class halfspace(ProximalMap):
    """The projection on {u : <normal, u> ≤ offset}.

    Whether a point lies in the set is decided exactly, underflow aside: those that do stay, and results do.

    Parameters
    ----------
    normal : array of the shape of x
        Not all zero.
    offset : float
        Any finite number.

    Raises
    ------
    InvalidInput
        For entries that are not finite, a `normal` of zeros, or a boundary beyond the range of doubles.

    References
    ----------
    Parikh and Boyd 2014, §6.2.3.
    """

    normal: Any = field(metadata=by(finite_numbers))
    offset: float = field(metadata=by(NUMBER))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(np.any(self.normal), "normal", "expected an entry other than 0")
        if not math.isfinite(self._scaled[1]):
            raise InvalidInput(
                "offset", f"{self.offset!r} puts the boundary beyond the range of doubles"
            )

    @property
    def point_shape(self) -> tuple[int, ...]:
        """The shape of the normal."""
        return np.shape(self.normal)

    @cached_property
    def _scaled(self) -> tuple[Array, float]:
        """Normal and offset over a power of two, so that the normal has length about one."""
        scale = power_of_two_near(float(np.max(np.abs(self.normal))))
        with np.errstate(over="ignore"):
            return self.normal / scale, float(np.float64(self.offset) / scale)

    def _map(self, x: Array, step_size: float) -> Array:
        normal, offset = self._scaled
        scale = power_of_two_near(max(float(np.max(np.abs(x))), abs(offset)))
        level, square = offset / scale, float(np.vdot(normal, normal))
        excess = sum_of_products(normal, x / scale, level)
        step, moved = excess / square, x
        more = HALF_ULP * float(np.sum(np.abs(normal * (x / scale))) + abs(level)) / square
        while excess > 0.0:
            moved = within_range(x - step * normal * scale)
            excess = sum_of_products(normal, moved / scale, level)
            step, more = step + more, 2.0 * more  # should rounding have left the result outside
        return moved


KINDS: Mapping[str, type[ProximalMap]] = MappingProxyType(
    {
        cls.__name__: cls
        for cls in (l1, l2, elastic_net, nuclear_norm, ball, box, simplex, halfspace)
    }
)


def _step(step_size: float) -> float:
    return validate.number("step_size", step_size, above=0.0)


def within_range(x: Array) -> Array:
    """A copy of x projected on the box of all doubles, which is nonexpansive as well."""
    return np.clip(x, -_LARGEST, _LARGEST)

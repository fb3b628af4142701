"""How far one step can push two points apart.

A modulus of continuity of a map φ is a nondecreasing ω with ‖φ(x) − φ(y)‖ ≤ ω(‖x − y‖)
(Bravo, Flores-Mella, Guzmán, Def. 2.1), with ω(0) := 0, because distance zero means equality.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, TypeGuard, assert_never, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array, fraction_up, root_up
from pabi.numbers.showing import plain
from pabi.numbers.validate import NONNEGATIVE, Checked, by

_UP = 1.0 + 1e-15  # past the roundings of one evaluation


class _Linear:
    """`Modulus.linear(slope)` builds ω(δ) = slope·δ; `modulus.linear` reads the least such slope."""

    @overload
    def __get__(self, instance: None, owner: type[Modulus]) -> type[Linear]: ...
    @overload
    def __get__(self, instance: Modulus, owner: type[Modulus]) -> float | None: ...
    def __get__(self, instance: Modulus | None, owner: type[Modulus]) -> Any:
        return Linear if instance is None else instance.least_slope()


class Modulus(abc.ABC):
    """A nondecreasing bound ω on how one step stretches distances: callable, ω(0) = 0.

    `Modulus.linear(slope)` is ω(δ) = slope·δ, `.sqrt(kappa, h)` √(κδ² + h), `.affine(slope, shift)`
    slope·δ + shift, `.minimum(a, b, …)` the least of several, `.from_function(f)` any nondecreasing
    function, and `Modulus.unbounded()` says that nothing is known.

    These are all there are: a subclass from elsewhere is refused where a description takes moduli, because
    a guarantee would rest on what it answers. Instances are immutable and equal by value. Distances have the
    unit of the iterate. Constructors raise InvalidInput for constants that are negative, NaN or infinite.

    Attributes
    ----------
    linear : float or None
        Of an instance: the least c with ω(δ) ≤ cδ for every δ, None if there is none.

    References
    ----------
    Bravo, Flores-Mella, Guzmán, Def. 2.1; docs, "Theory", 4.4 and 7.
    """

    __slots__ = ()

    linear = _Linear()

    @abc.abstractmethod
    def _evaluate(self, distance: Array) -> Array:
        """ω at positive distances."""

    def least_slope(self) -> float | None:
        """The least linear bound.

        Returns
        -------
        float or None
            The least c with ω(δ) ≤ cδ for every δ, None if there is none, or none is known.
        """
        return None

    def __call__(self, distance: ArrayLike) -> float | Array:
        """ω at a distance, or at an array of distances.

        Parameters
        ----------
        distance : float or array, ≥ 0
            In units of the iterate.

        Returns
        -------
        float or array of the same shape
            In units of the iterate.

        Raises
        ------
        InvalidInput
            For a negative or NaN distance.
        """
        delta = np.asarray(distance, dtype=np.float64)
        must_be(not np.any(~(delta >= 0.0)), "distance", "nonnegative distances", distance)
        values = np.where(delta == 0.0, 0.0, self._evaluate(delta))
        return float(values) if values.ndim == 0 else values

    @abc.abstractmethod
    def scaled(self, factor: float) -> Modulus:
        """The multiple factor·ω: what a linear map of that slope leaves.

        Parameters
        ----------
        factor : float, ≥ 0
            The slope of the map.

        Returns
        -------
        Modulus
            The multiple, its constants rounded up.

        Raises
        ------
        InvalidInput
            For a negative factor.
        """

    def to_dict(self) -> dict[str, Any]:
        """The modulus as a table.

        Returns
        -------
        dict
            Kind and constants, JSON-ready.

        Raises
        ------
        InvalidInput
            For a function, which no table holds.
        """
        raise InvalidInput("moduli", f"{self!r} cannot be written to a file")

    @staticmethod
    def from_dict(table: Any) -> Modulus:
        """The modulus that a table describes.

        Parameters
        ----------
        table : dict
            As `to_dict` writes it.

        Returns
        -------
        Modulus
            The modulus of that kind.

        Raises
        ------
        InvalidInput
            For an unknown kind, or constants that are missing, unknown or outside of their range.
        """
        kinds = (*_KINDS, "minimum")
        kind: Any = table.get("kind") if isinstance(table, dict) else None
        must_be(kind in kinds, "moduli", f"a table with kind in {', '.join(kinds)}", table)
        rest = {name: value for name, value in table.items() if name != "kind"}
        if kind == "minimum":
            if set(rest) != {"parts"} or not isinstance(rest["parts"], list):
                raise InvalidInput("moduli", f"expected the parts of a minimum, got {table!r}")
            return Modulus.minimum(*map(Modulus.from_dict, rest["parts"]))
        build, names = _KINDS[kind]
        must_be(set(rest) == set(names), "moduli", ", ".join(names), table)
        return build(**rest)

    @staticmethod
    def sqrt(kappa: float, h: float) -> Modulus:
        """The modulus ω(δ) = √(κδ² + h).

        Parameters
        ----------
        kappa : float, ≥ 0
            κ, a squared slope.
        h : float, ≥ 0
            A squared distance; with 0 the modulus is linear.

        Returns
        -------
        Modulus
            For `h` = 0 the slope is rounded up.

        Raises
        ------
        InvalidInput
            For constants that are negative, NaN or infinite.
        """
        return Sqrt(kappa, h) if h else Linear(root_up(Sqrt(kappa, h).kappa))

    @staticmethod
    def affine(slope: float, shift: float) -> Modulus:
        """The modulus ω(δ) = slope·δ + shift for δ > 0.

        Parameters
        ----------
        slope : float, ≥ 0
            What a distance is multiplied by.
        shift : float, ≥ 0
            In units of the iterate.

        Returns
        -------
        Modulus
            Linear for a shift of 0.

        Raises
        ------
        InvalidInput
            For constants that are negative, NaN or infinite.
        """
        return Affine(slope, shift) if shift else Linear(slope)

    @staticmethod
    def minimum(*moduli: Modulus) -> Modulus:
        """The pointwise least of several moduli of one map.

        Parameters
        ----------
        *moduli : Modulus
            At least one.

        Returns
        -------
        Modulus
            The least, without the parts that never are it.

        Raises
        ------
        InvalidInput
            For none, and for a modulus that is not pabi's own.
        """
        flat = [part for modulus in moduli for part in parts_of(modulus)]
        require(flat, "moduli", "expected at least one modulus")
        least: list[Part] = []
        for part in flat:
            if not any(_below(other, part) for other in least):
                least = [other for other in least if not _below(part, other)] + [part]
        return least[0] if len(least) == 1 else Minimum(tuple(least))

    @staticmethod
    def from_function(function: Callable[[float], float]) -> Modulus:
        """A function as a modulus.

        Parameters
        ----------
        function : callable
            It maps a distance > 0 to a distance ≥ 0 and never decreases. This is checked on a grid of
            distances from 1e-9 to 1e9 and is an assumption between them.

        Returns
        -------
        Modulus
            It cannot be written to a file.

        Raises
        ------
        InvalidInput
            For what is no function, and for values on the grid that are negative, NaN or decrease.
        """
        return FromFunction(function)

    @staticmethod
    def unbounded() -> Modulus:
        """The modulus of a map of which nothing is known: ω(δ) = ∞ for δ > 0.

        Returns
        -------
        Modulus
            Its `linear` is None.
        """
        return Unbounded()


@dataclass(frozen=True, slots=True, repr=False)
class _Constants(Checked, Modulus):
    """A modulus that its kind and constants ≥ 0 describe, and nothing else."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The kind and the constants. Raises InvalidInput for a class from elsewhere."""
        known_modulus(self)
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def __repr__(self) -> str:
        constants = ", ".join(repr(getattr(self, f.name)) for f in fields(self))
        return f"Modulus.{self.kind}({constants})"


@dataclass(frozen=True, slots=True, repr=False)
class Linear(_Constants):
    """ω(δ) = slope·δ. Slope at most one: nonexpansive; below one: a contraction."""

    slope: float = field(metadata=by(NONNEGATIVE))

    kind: ClassVar[str] = "linear"

    def _evaluate(self, distance: Array) -> Array:
        return self.slope * distance if self.slope > 0.0 else np.zeros_like(distance)

    def least_slope(self) -> float:
        """The slope."""
        return self.slope

    def scaled(self, factor: float) -> Modulus:
        """A linear modulus, its slope rounded up."""
        return finite_or_unbounded(Linear, _product_up(self.slope, factor))


@dataclass(frozen=True, slots=True, repr=False)
class Sqrt(_Constants):
    """ω(δ) = √(κδ² + h), h > 0: nonsmooth, weakly smooth and dissipative losses."""

    kappa: float = field(metadata=by(NONNEGATIVE))
    h: float = field(metadata=by(NONNEGATIVE))

    kind: ClassVar[str] = "sqrt"

    def _evaluate(self, distance: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            straight = math.sqrt(self.kappa) * distance if self.kappa else np.zeros_like(distance)
            return np.asarray(np.hypot(straight, math.sqrt(self.h)) * _UP)

    def least_slope(self) -> float | None:
        """√κ, rounded up, for h = 0; None otherwise."""
        return None if self.h else root_up(self.kappa)

    def scaled(self, factor: float) -> Modulus:
        """A modulus of the same shape, its constants rounded up."""
        square = _product_up(factor, factor)
        return finite_or_unbounded(
            Modulus.sqrt, _product_up(self.kappa, square), _product_up(self.h, square)
        )


@dataclass(frozen=True, slots=True, repr=False)
class Affine(_Constants):
    """ω(δ) = slope·δ + shift, shift > 0: gradients of which only a bound is known."""

    slope: float = field(metadata=by(NONNEGATIVE))
    shift: float = field(metadata=by(NONNEGATIVE))

    kind: ClassVar[str] = "affine"

    def _evaluate(self, distance: Array) -> Array:
        straight = self.slope * distance if self.slope else np.zeros_like(distance)
        return (straight + self.shift) * _UP

    def least_slope(self) -> float | None:
        """The slope where there is no shift; None otherwise."""
        return None if self.shift else self.slope

    def scaled(self, factor: float) -> Modulus:
        """A modulus of the same shape, its constants rounded up."""
        return finite_or_unbounded(
            Modulus.affine, _product_up(self.slope, factor), _product_up(self.shift, factor)
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Minimum(Modulus):
    """The pointwise least of `parts`, none of which is one itself."""

    parts: tuple[Part, ...]

    def _evaluate(self, distance: Array) -> Array:
        return np.asarray(np.min([part._evaluate(distance) for part in self.parts], axis=0))

    def least_slope(self) -> float | None:
        """The least of the parts' slopes; None if no part has one."""
        # Near 0 the linear parts are the least ones.
        slopes = [c for part in self.parts if (c := part.least_slope()) is not None]
        return min(slopes) if slopes else None

    def scaled(self, factor: float) -> Modulus:
        """The least of the multiples of the parts."""
        return Modulus.minimum(*(part.scaled(factor) for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        """The tables of the parts. Raises InvalidInput where a part is a function."""
        return {"kind": "minimum", "parts": [part.to_dict() for part in parts_of(self)]}

    def __repr__(self) -> str:
        return f"Modulus.minimum({', '.join(map(repr, self.parts))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Minimum) and set(other.parts) == set(self.parts)

    def __hash__(self) -> int:
        return hash((Minimum, frozenset(self.parts)))


@dataclass(frozen=True, slots=True, repr=False)
class FromFunction(Modulus):
    """A modulus given as a function of one distance."""

    function: Callable[[float], float]
    factor: float = 1.0

    def __post_init__(self) -> None:
        must_be(callable(self.function), "function", "a function of a distance", self.function)
        grid = np.logspace(-9.0, 9.0, 181)
        values = self._evaluate(grid)
        bad = ~(values >= 0.0)
        if bad.any():
            k = int(np.argmax(bad))
            raise InvalidInput(
                "function",
                f"expected values ≥ 0, got {float(values[k])!r} "
                f"at the distance {plain(grid[k], 4)}",
            )
        falls = np.diff(values) < 0.0
        if falls.any():
            k = int(np.argmax(falls))
            raise InvalidInput(
                "function",
                f"expected a function that never decreases, got {float(values[k])!r} at the distance "
                f"{plain(grid[k], 4)} and {float(values[k + 1])!r} at {plain(grid[k + 1], 4)}",
            )

    def _evaluate(self, distance: Array) -> Array:
        values = [self.factor * float(self.function(d)) if d > 0.0 else 0.0 for d in distance.flat]
        return np.array(values, dtype=np.float64).reshape(distance.shape)

    def scaled(self, factor: float) -> Modulus:
        """The same function with the product of the factors, rounded up."""
        return FromFunction(self.function, _product_up(self.factor, factor))

    def __repr__(self) -> str:
        scale = "" if self.factor == 1.0 else f".scaled({self.factor!r})"
        return f"Modulus.from_function({self.function!r}){scale}"


@dataclass(frozen=True, slots=True, repr=False)
class Unbounded(_Constants):
    """ω(δ) = ∞ for δ > 0: only analyses that never let the two runs drift apart apply."""

    kind: ClassVar[str] = "unbounded"

    def _evaluate(self, distance: Array) -> Array:
        return np.full_like(distance, np.inf)

    def scaled(self, factor: float) -> Modulus:
        """Itself, or the modulus 0 for a factor of 0."""
        return Linear(0.0) if factor == 0.0 else self


Part = Linear | Sqrt | Affine | FromFunction | Unbounded
"""What a minimum may be made of."""
Known = Part | Minimum
"""All moduli there are: whatever matches over them ends in refusal or `assert_never`."""

_PARTS, _CLASSES = frozenset(get_args(Part)), frozenset(get_args(Known))


def known_modulus(modulus: object, where: str = "") -> Known:
    """`modulus`, if its class and those of its parts are pabi's own; a subclass of one of them is not.

    Raises InvalidInput for the field `moduli`; `where` completes "expected a modulus".
    """
    if not _is_known(modulus):
        raise InvalidInput(
            "moduli",
            f"expected a modulus{where} made by pabi.Modulus, which takes any function by from_function, "
            f"got {modulus!r}",
        )
    return modulus


def parts_of(modulus: Modulus) -> tuple[Part, ...]:
    """The moduli of which `modulus` is the pointwise least. Raises InvalidInput as `known_modulus`."""
    own = known_modulus(modulus)
    return own.parts if isinstance(own, Minimum) else (own,)


def _is_known(modulus: object) -> TypeGuard[Known]:
    if type(modulus) not in _CLASSES:
        return False
    return not isinstance(modulus, Minimum) or all(type(part) in _PARTS for part in modulus.parts)


def finite_or_unbounded(build: Callable[..., Modulus], *constants: float) -> Modulus:
    """The modulus that `build` makes of these constants; `Unbounded` where one of them overflows."""
    return build(*constants) if all(map(math.isfinite, constants)) else Unbounded()


def _below(one: Part, other: Part) -> bool:
    """Whether `one` is surely at most `other` everywhere."""
    if one == other or isinstance(other, Unbounded):
        return True
    if isinstance(one, FromFunction | Unbounded) or isinstance(other, FromFunction):
        return False
    (kappa, h, shift), (other_kappa, other_h, other_shift) = _shape(one), _shape(other)
    return kappa <= other_kappa and h <= other_h and shift <= other_shift


_KINDS: Mapping[str, tuple[Callable[..., Modulus], tuple[str, ...]]] = MappingProxyType(
    {
        "linear": (Linear, ("slope",)),
        "sqrt": (Modulus.sqrt, ("kappa", "h")),
        "affine": (Modulus.affine, ("slope", "shift")),
        "unbounded": (Unbounded, ()),
    }
)


def above_both(one: Modulus, other: Modulus) -> Modulus:
    """A modulus that is nowhere below either."""
    pairs = [(a, b) for a in parts_of(one) for b in parts_of(other)]
    if one == other:
        return one
    parts = [built for a, b in pairs if (built := _above_both(a, b)) is not None]
    return Modulus.minimum(*parts, Unbounded())


def _above_both(one: Part, other: Part) -> Modulus | None:
    """A modulus of one shape above both, or None where no shape is."""
    if isinstance(one, Linear | Affine) and isinstance(other, Linear | Affine):
        slope, _, shift = (max(pair) for pair in zip(_shape(one), _shape(other), strict=True))
        return Modulus.affine(slope, shift)
    if isinstance(one, Linear | Sqrt) and isinstance(other, Linear | Sqrt):
        kappa, h = (max(pair) for pair in zip(_squares(one), _squares(other), strict=True))
        return Modulus.sqrt(kappa, h)
    return None


def _shape(modulus: Linear | Sqrt | Affine) -> tuple[float, float, float]:
    """(slope, √h, shift) of √(slope²·δ² + h) + shift."""
    match modulus:
        case Linear():
            return modulus.slope, 0.0, 0.0
        case Sqrt():
            return math.sqrt(modulus.kappa), math.sqrt(modulus.h), 0.0
        case Affine():
            return modulus.slope, 0.0, modulus.shift
        case _:
            assert_never(modulus)


def _squares(modulus: Linear | Sqrt) -> tuple[float, float]:
    """(κ, h) of √(κδ² + h), rounded up."""
    match modulus:
        case Linear():
            return _product_up(modulus.slope, modulus.slope), 0.0
        case Sqrt():
            return modulus.kappa, modulus.h
        case _:
            assert_never(modulus)


def _product_up(a: float, b: float) -> float:
    return fraction_up(Fraction(a) * Fraction(b))


def table_of(modulus: Modulus) -> dict[str, Any] | None:
    """A modulus as a table, None for a function, which no table holds."""
    try:
        return modulus.to_dict()
    except InvalidInput:
        return None

"""The kinds of factors that a bound is made of: one class a kind, which knows all about it.

Each file declares its classes as `FACTORS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pabi.verification.arithmetic import (
    Refused,
    Weighted,
    closed,
    dominated,
    integer,
    nonnegative,
    timed,
)
from pabi.verification.discovery import declared

_NO_FACTORS = ("product", "best")  # trade-off functions that are no factors


class Factor(ABC):
    """All factors of one kind that hold together. Made without arguments it reveals nothing at all.

    Attributes
    ----------
    CURVES : mapping of str to tuple of str
        The trade-off functions in JSON that it reads, with their keys.
    ALONE : bool
        Whether such a function may stand outside of a product.
    KEY : str or None
        In place of functions, a key of the product itself that it reads.
    FINE : bool
        Whether what is proven of this kind comes in so many pieces that a composition goes on with what was
        claimed instead.
    """

    CURVES: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    ALONE: ClassVar[bool] = True
    KEY: ClassVar[str | None] = None
    FINE: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` factors as a trade-off function in JSON, or the value of `KEY`."""

    @classmethod
    @abstractmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        """The factors of several independent releases together."""

    @abstractmethod
    def missing(self, claimed: Self) -> str | None:
        """What of the factors the claimed ones do not cover; None if they cover all."""

    @abstractmethod
    def write(self, product: dict[str, Any]) -> None:
        """Adds the factors to a product in JSON: to its `factors`, or under `KEY`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of factors."""

    @property
    @abstractmethod
    def revealed(self) -> float:
        """About the zero-concentrated privacy of the factors; 0 where it tells no bounds apart."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The factors alone, in words."""


class Beside(Factor):
    """What a product states beside its factors: it is none, and tells no bounds on one release apart."""

    @property
    def size(self) -> int:
        """0."""
        return 0

    @property
    def revealed(self) -> float:
        """0."""
        return 0.0


F = TypeVar("F", bound=Factor)
E = TypeVar("E")


@dataclass(frozen=True)
class Listed(Factor, Generic[E]):
    """Factors that are listed one by one."""

    entries: tuple[E, ...] = ()

    @classmethod
    def merged(cls, factors: Sequence[Self]) -> Self:
        """The factors of all releases in one list."""
        return cls(tuple(entry for factor in factors for entry in factor.entries))


class Times(Protocol):
    """An entry that stands for so many factors."""

    @property
    def times(self) -> int:
        """How many there are."""


T = TypeVar("T", bound=Times)


class Repeated(Listed[T]):
    """Factors that are listed with how many of each there are, and that all bounds on one release share."""

    @property
    def size(self) -> int:
        """The number of factors."""
        return sum(one.times for one in self.entries)

    @property
    def revealed(self) -> float:
        """0, as they tell no bounds apart."""
        return 0.0


class Epsilons(Listed[tuple[float, int]]):
    """(ε, how many) of each, where a larger ε reveals more.

    `BESIDE`: what its function states beside ε, and the only value of each that is known. `CALLED`: the
    kind's name in a refusal. `TEXT`: one factor in words, around its ε. `SMALL`: the zero-concentrated
    privacy of a small ε, over ε².
    """

    BESIDE: ClassVar[Mapping[str, float]] = MappingProxyType({})
    CALLED: ClassVar[str]
    TEXT: ClassVar[str]
    SMALL: ClassVar[float]

    @classmethod
    def read(cls, curve: Any, count: int) -> Self:
        """`count` factors of the ε that a trade-off function in JSON states. Refused where another value of
        `BESIDE` stands there."""
        several(curve, count)
        for name, only in cls.BESIDE.items():
            if nonnegative(name, curve[name]) != only:
                raise Refused(f"{name}: expected {only:g}, got {curve[name]!r}")
        return cls(((nonnegative("epsilon", curve["epsilon"]), count),))

    def missing(self, claimed: Self) -> str | None:
        """A sentence if the claim has too few factors above some ε; else None."""
        needed = self._weighted()
        if dominated(needed, claimed._weighted()):
            return None
        worst = max(epsilon for _, epsilon in needed)
        return f"factors: {len(needed)} {self.CALLED} of up to {worst!r} are not covered by the claimed ones"

    def _weighted(self) -> list[Weighted]:
        return [(Fraction(n), epsilon) for epsilon, n in self.entries if epsilon > 0.0 and n]

    def write(self, product: dict[str, Any]) -> None:
        """Adds an entry for every ε to the `factors` of a product in JSON."""
        (kind,) = self.CURVES
        for epsilon, n in self.entries:
            if n:
                one = {"kind": kind, "epsilon": epsilon, **self.BESIDE}
                product["factors"].append(one | {"count": n})

    @property
    def size(self) -> int:
        """The number of factors, over all ε."""
        return sum(n for _, n in self.entries)

    @property
    def revealed(self) -> float:
        """About the zero-concentrated privacy: that of a small ε, at most ε, for each."""
        return sum(n * min(e, self.SMALL * e * e) for e, n in self.entries)

    @property
    def text(self) -> str:
        """The first factor, in words."""
        return self.TEXT.format(self.entries[0][0])


@cache
def kinds() -> tuple[type[Factor], ...]:
    """The classes of all kinds of factors."""
    return tuple(kind for kinds in declared(__name__, __path__, "FACTORS") for kind in kinds)


def _readers(names: Callable[[type[Factor]], Iterable[str]]) -> Mapping[str, type[Factor]]:
    """The kind that reads each of these names. Raises ValueError for a name that two kinds read."""
    readers: dict[str, type[Factor]] = {}
    for kind in kinds():
        for name in names(kind):
            if name in readers or name in _NO_FACTORS:
                raise ValueError(f"factors: {name!r} is read by two kinds")
            readers[name] = kind
    return MappingProxyType(readers)


@cache
def _by_curve() -> Mapping[str, type[Factor]]:
    return _readers(lambda kind: kind.CURVES)


@cache
def _by_key() -> Mapping[str, type[Factor]]:
    return _readers(lambda kind: () if kind.KEY is None else (kind.KEY,))


def nothing(kind: type[F]) -> F:
    """What reveals nothing of a kind, always the same object."""
    if kind not in _NOTHING:
        _NOTHING[kind] = kind()
    same: F = _NOTHING[kind]
    return same


_NOTHING: dict[type[Factor], Any] = {}


def read_alone(curve: Any) -> Factor:
    """The factor that a trade-off function in JSON is."""
    kind = _kind_of(curve)
    if not kind.ALONE:
        raise Refused(f"tradeoff: a certificate proves no {curve['kind']!r}")
    closed(f"a {curve['kind']}", curve, ("kind", *kind.CURVES[curve["kind"]]))
    return kind.read(curve, 1)


def read_counted(curve: Any) -> Factor:
    """The factors that one entry of a product in JSON is."""
    count, kind = integer("count", curve["count"]), _kind_of(curve)
    closed(f"a {curve['kind']}", curve, ("kind", "count", *kind.CURVES[curve["kind"]]))
    return kind.read(curve, count)


def read_keys(product: Any) -> list[Factor]:
    """What a product in JSON states beside its factors."""
    closed("a product", product, ("kind", "factors", *_by_key()))
    return [kind.read(product[key], 1) for key, kind in _by_key().items() if key in product]


def _kind_of(curve: Any) -> type[Factor]:
    name = curve["kind"]
    if not isinstance(name, str) or name not in _by_curve():
        raise Refused(f"tradeoff: a certificate proves no {name!r}")
    return _by_curve()[name]


class _Covering(Protocol):
    """What may stand for another of its kind."""

    def covers(self, needed: Self, /) -> bool:
        """Whether this reveals no less."""


C = TypeVar("C", bound=_Covering)


def unserved(
    needed: Sequence[tuple[C, int]], offered: Sequence[tuple[C, int]]
) -> list[tuple[C, int]]:
    """What is needed, and how many of each, that finds nothing of its own among the first that cover it."""
    left, missing = [times for _, times in offered], []
    for one, count in timed(needed):
        for i, (other, _) in enumerate(offered):
            if count and left[i] and other.covers(one):
                taken = min(count, left[i])
                count, left[i] = count - taken, left[i] - taken
        if count:
            missing.append((one, count))
    return missing


def several(curve: Any, count: int, most: int | None = None) -> int:
    """`count`, if a product may hold so many factors of this kind."""
    if count < 1 or (most is not None and count > most):
        raise Refused(f"factors: expected no {count} of {curve['kind']!r}")
    return count

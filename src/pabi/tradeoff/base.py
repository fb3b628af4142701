"""What a trade-off function can be asked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, overload

import numpy as np

from pabi.convert.inputs import array, extended, real_line
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, fraction_up
from pabi.numbers.validate import integer, number
from pabi.tradeoff.directions import Orientation
from pabi.tradeoff.pairs import Pair


class Table(Protocol):
    """The closed table of kinds, as seen from below: it names every kind, so it stands above this file."""

    @property
    def kinds(self) -> Mapping[str, type[TradeOff]]:
        """The classes by the name under which they are written to JSON."""

    def known(self, curve: object, field: str = "tradeoff") -> TradeOff:
        """`curve`, if its class and those of its parts are in the table. Raises InvalidInput on `field`."""

    def product(self, factors: Iterable[tuple[TradeOff, int]]) -> TradeOff:
        """f_1^⊗k_1 ⊗ f_2^⊗k_2 ⊗ …, numerically, of pairs (f, k)."""


class TradeOff(ABC):
    """A trade-off function f: what any test between two adjacent outputs must accept.

    f(α) is a lower bound on the type II error of every test with type I error at most α (Dong,
    Roth, Su 2022, Def. 2.1). Everything read off errs on the safe side: δ, ε, Rényi divergences and
    attack rates are upper bounds, f itself is a lower bound. Objects are immutable and equal by
    value. Constructors and readings raise InvalidInput for numbers out of range.

    The kinds are a closed table, `pabi.tradeoff.kinds`. A class from elsewhere may be shown by
    `explain(also=…)`; it is refused where functions are composed, written or read.

    A subclass sets `kind`, the name under which it is written to JSON, and implements the abstract
    methods; `_delta_array` where arrays can be faster, `_compose` and `_power` where a lossless rule exists.
    """

    kind: ClassVar[str]
    _table: ClassVar[Table]  # set once, by `pabi.tradeoff.kinds`

    @overload
    def __call__(self, alpha: float) -> float: ...
    @overload
    def __call__(self, alpha: Array | Sequence[float]) -> Array: ...
    def __call__(self, alpha: Any) -> Any:
        """A lower bound on the type II error at type I error `alpha` in [0, 1], scalar or array."""
        levels = array("alpha", alpha, at_least=0.0)
        if (levels > 1.0).any():
            worst = float(levels.max())
            raise InvalidInput("alpha", f"expected numbers in [0, 1], got {worst!r}")
        result = np.clip(self._tradeoff(levels.ravel()), 0.0, 1.0).reshape(levels.shape)
        return float(result) if np.ndim(alpha) == 0 else result

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Array | Sequence[float]) -> Array: ...
    def delta(self, epsilon: Any) -> Any:
        """An upper bound on the least δ at any real `epsilon`, scalar (proven) or array."""
        if np.ndim(epsilon) == 0:
            plain = epsilon.item() if isinstance(epsilon, np.ndarray) else epsilon
            return self._delta(real_line("epsilon", plain))
        grid = array("epsilon", epsilon)
        return self._delta_array(grid.ravel()).reshape(grid.shape)

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """An upper bound on the least ε ≥ 0 at `delta` ≥ 0; ∞ where there is none."""

    @abstractmethod
    def epsilon_bounds(self, delta: float, rtol: float = 1e-3) -> tuple[float, float]:
        """(lower, upper) bounds on the least ε at `delta`.

        They are at most a relative `rtol` apart where the numerics allow; closed forms ignore it
        and do far better.
        """

    @abstractmethod
    def rdp(self, order: float) -> float:
        """An upper bound on the Rényi divergence of `order` > 1."""

    @property
    @abstractmethod
    def zcdp(self) -> float:
        """A ρ such that the Rényi divergence of every order α > 1 is at most ρα."""

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR of a membership attack: δ(0)."""
        return self.delta(0.0)

    @overload
    def tpr(self, fpr: float) -> float: ...
    @overload
    def tpr(self, fpr: Array | Sequence[float]) -> Array: ...
    def tpr(self, fpr: Any) -> Any:
        """The largest true-positive rate of an attack at false-positive rate `fpr`: 1 - f."""
        accepted = np.asarray(self(fpr))
        result = 1.0 - accepted
        # One of the two differences is exact, so that this finds every rounding down.
        result = np.where(1.0 - result > accepted, np.nextafter(result, 2.0), result)
        return float(result) if np.ndim(fpr) == 0 else result

    def bayes_success(self, prior: float = 0.5) -> float:
        """The largest probability of guessing right whether the record is in, at `prior` in (0, 1).

        (1 - p) + p·δ(log((1 - p)/p)): for each test the success is p·TPR + (1 - p)·(1 - FPR).
        """
        p = number("prior", prior, above=0.0, below=1.0)
        size = abs(math.log1p(-p)) + abs(math.log(p))
        # δ falls with ε: a threshold rounded down errs on the safe side.
        threshold = 0.0 if p == 0.5 else math.log1p(-p) - math.log(p) - 1e-15 * size
        success = 1 - Fraction(p) * (1 - Fraction(self.delta(threshold)))
        return min(1.0, fraction_up(success))

    @property
    def orientation(self) -> Orientation:
        """ "symmetric": f is its own inverse. "both": the worse of two inverse functions, each of which
        is composed by itself. "remove", "add": one of those two."""
        return "symmetric"

    def inverse(self) -> TradeOff:
        """f^-1: the data sets in the opposite order."""
        return self

    def symmetrised(self) -> TradeOff:
        """min{f, f^-1}**: the worse of both orders."""
        return self

    def compose(self, other: TradeOff) -> TradeOff:
        """f ⊗ g, both mechanisms run on the same data, without loss.

        In closed form where there is one, otherwise a `Product`. Raises InvalidInput for "remove"
        with "add", or either with "both", and for a class that is not in `pabi.tradeoff`.
        """
        one, two = TradeOff._table.known(self), TradeOff._table.known(other)
        result = one._compose(two)
        if result is None:
            result = two._compose(one)
        return TradeOff._table.product(((one, 1), (two, 1))) if result is None else result

    def self_compose(self, k: int) -> TradeOff:
        """f ⊗ … ⊗ f, `k` ≥ 1 times; see `compose`."""
        return TradeOff._table.known(self)._power(integer("k", k, at_least=1))

    @abstractmethod
    def losses(self) -> tuple[Pair, ...]:
        """The privacy losses of the orders of the data sets that differ: (f,), or (f, f^-1)."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; infinity is written "inf". Raises InvalidInput for a foreign class."""
        curve = TradeOff._table.known(self)
        return {"kind": curve.kind, **curve._fields()}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> TradeOff:
        """The object written by `to_dict`. Raises InvalidInput."""
        kinds = TradeOff._table.kinds
        kind = data.get("kind") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise InvalidInput("kind", f"expected one of {', '.join(sorted(kinds))}, got {kind!r}")
        fields = _Noted({name: value for name, value in data.items() if name != "kind"})
        try:
            found = kinds[kind]._from_fields(fields)
        except KeyError as missing:
            raise InvalidInput(str(missing.args[0]), f"missing from a {kind} object") from None
        for name in fields:
            if name not in fields.read:
                raise InvalidInput(str(name), f"unknown key in a {kind} object")
        return found

    def _compose(self, other: TradeOff) -> TradeOff | None:
        """self ⊗ other, or None where this class knows no lossless rule."""
        return None

    def _power(self, k: int) -> TradeOff:
        """f ⊗ … ⊗ f, `k` ≥ 1 times, for a checked k."""
        if k == 1:
            return self
        square = self._compose(self)
        if square is None:
            return TradeOff._table.product(((self, k),))
        half = square._power(k // 2)
        return half.compose(self) if k % 2 else half

    @abstractmethod
    def _tradeoff(self, alpha: Array) -> Array:
        """Lower bounds on f, for a flat array in [0, 1]; clipped to [0, 1] by the caller."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """An upper bound on δ at any real or infinite `epsilon`."""

    def _delta_array(self, epsilon: Array) -> Array:
        return np.array([self._delta(e) for e in epsilon.tolist()], dtype=np.float64)

    @abstractmethod
    def _fields(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self: ...


class _Noted(dict[str, Any]):
    """A table that notes which of its keys were looked up."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def encode(x: float) -> float | str:
    """`x` for JSON, which has no infinity."""
    return "inf" if x == math.inf else x


def decode(field: str, value: Any) -> float:
    """The float written by `encode`."""
    return math.inf if value == "inf" else extended(field, value)

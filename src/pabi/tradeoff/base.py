"""Trade-off functions: what all answer, in which direction, and what supports them."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, assert_never, cast, overload

import numpy as np

from pabi.numbers.errors import InvalidInput, must_be
from pabi.numbers.gaussian import array, extended, nonnegative, real_line
from pabi.numbers.locking import tick
from pabi.numbers.rounding import EIGHT_ROUNDINGS, THREE_ROUNDINGS, Array, fraction_up
from pabi.numbers.validate import Check, integer, number
from pabi.tradeoff.pairs import Pair

# Which orders of the two adjacent data sets a trade-off function speaks of.


Direction = Literal["both", "remove", "add"]
# "symmetric": a function that is its own inverse, so that both orders are one.
Orientation = Literal["symmetric", "both", "remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("both", "remove", "add")

T = TypeVar("T")


def opposite(direction: Direction) -> Direction:
    """The direction with the data sets swapped."""
    match direction:
        case "both":
            return "both"
        case "remove":
            return "add"
        case "add":
            return "remove"
        case _:
            assert_never(direction)


def chosen(direction: Direction, remove: T, add: T) -> tuple[T, ...]:
    """What belongs to `direction`: `remove`, `add`, or both of them in that order."""
    match direction:
        case "both":
            return remove, add
        case "remove":
            return (remove,)
        case "add":
            return (add,)
        case _:
            assert_never(direction)


def one_order(orientation: Orientation) -> bool:
    """Whether a function speaks of one of the two orders only."""
    match orientation:
        case "symmetric" | "both":
            return False
        case "remove" | "add":
            return True
        case _:
            assert_never(orientation)


def common(orientations: Iterable[Orientation]) -> Orientation:
    """The orientation of a composition. Raises InvalidInput where the functions have different ones."""
    directions = set(orientations) - {"symmetric"}
    must_be(len(directions) <= 1, "orientation", "one throughout", sorted(directions))
    return directions.pop() if directions else "symmetric"


# What one point (ε', δ') of a trade-off function that is the same in both orders says at smaller ε.
#
# It means f(a) ≥ max{1 - δ' - e^ε'·a, e^-ε'·(1 - δ' - a)}, lines that meet on the diagonal, at a' = (1 -
# δ')/(1 + e^ε'). For 0 ≤ ε ≤ ε' the slope -e^ε is between theirs, so that δ(ε), the largest value of 1 -
# f(a) - e^ε·a, is at most that at the corner, 1 - (1 + e^ε)·a'. Any ε' is sound, and the best one has the
# largest a'.


class Corner(NamedTuple):
    """(ε', a'), a' rounded down."""

    epsilon: float
    level: float

    def least(self, epsilon: Array, delta: Array) -> Array:
        """The least of `delta`, bounds at `epsilon` ≥ 0, and of what follows from the corner up to ε'."""
        line = 1.0 - (1.0 + np.exp(np.minimum(epsilon, self.epsilon))) * self.level * (
            1.0 - EIGHT_ROUNDINGS
        )
        line = np.nextafter(line, math.inf)
        return np.where(epsilon <= self.epsilon, np.minimum(delta, line), delta)


def levels(epsilon: Array, delta: Array) -> Array:
    """(1 - δ')/(1 + e^ε') of each point, rounded down."""
    return np.asarray((1.0 - delta) / (1.0 + np.exp(epsilon)) * (1.0 - EIGHT_ROUNDINGS))


# The largest ε of grids and arrays: products of e^600 and a few probabilities are doubles.
FARTHEST = 600.0
RTOL = 1e-3  # the relative error of ε that is aimed at where none is asked for


# What reads what a file says of some fields, by their names.
Readers = Mapping[str, Check]


class KindTable(NamedTuple):
    """The closed table of kinds, as seen from below: it names every kind, so it stands above this file.

    `kinds`: the classes by the name under which they are written to JSON. `check(curve, field)`: `curve`, if
    its class and those of its parts are in the table; InvalidInput on `field` otherwise. `product`:
    f_1^⊗k_1 ⊗ f_2^⊗k_2 ⊗ …, numerically, of pairs (f, k).
    """

    kinds: Mapping[str, type[TradeOff]]
    check: Callable[[object, str], TradeOff]
    product: Callable[[Iterable[tuple[TradeOff, int]]], TradeOff]


class Readings(ABC):
    """What is read off a trade-off function, by itself or in a guarantee."""

    @property
    @abstractmethod
    def _function(self) -> TradeOff:
        """That which is read."""

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: Array | Sequence[float]) -> Array: ...
    def delta(self, epsilon: Any) -> Any:
        """An upper bound on the least δ at `epsilon`.

        Parameters
        ----------
        epsilon : float or array
            Any real ε, or an infinity.

        Returns
        -------
        float or array
            δ in [0, 1], of the shape of `epsilon`; proven for a single ε where the form is closed.

        Raises
        ------
        InvalidInput
            For what is no number.

        References
        ----------
        Dong, Roth, Su 2022, Prop. 2.12.
        """
        function = self._function
        if not isinstance(epsilon, (list, tuple, np.ndarray)) and np.ndim(epsilon) == 0:
            return function._delta(real_line("epsilon", epsilon))
        grid = array("epsilon", epsilon)
        if grid.ndim == 0:
            return function._delta(float(grid))
        return function._delta_array(grid.ravel()).reshape(grid.shape)

    def rdp(self, order: float) -> float:
        """An upper bound on the Rényi divergence.

        Parameters
        ----------
        order : float
            The order α > 1.

        Returns
        -------
        float
            In [0, ∞].

        Raises
        ------
        InvalidInput
            For an order of at most 1.

        References
        ----------
        Mironov 2017, Def. 4.
        """
        return self._function._rdp(order)

    @property
    def zcdp(self) -> float:
        """A ρ of zero-concentrated DP: the Rényi divergence of every order α > 1 is at most ρα."""
        return self._function.zcdp

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR of a membership attack: δ(0)."""
        return self.delta(0.0)

    @overload
    def tpr(self, fpr: float) -> float: ...
    @overload
    def tpr(self, fpr: Array | Sequence[float]) -> Array: ...
    def tpr(self, fpr: Any) -> Any:
        """The largest true-positive rate of a membership attack: 1 - f.

        Parameters
        ----------
        fpr : float or array
            False-positive rates, in [0, 1].

        Returns
        -------
        float or array
            In [0, 1], of the shape of `fpr`.

        Raises
        ------
        InvalidInput
            For a rate out of range.

        References
        ----------
        Dong, Roth, Su 2022, Def. 2.1.
        """
        accepted = np.asarray(self._function(fpr))
        result = 1.0 - accepted
        # One of the two differences is exact, so that this finds every rounding down.
        result = np.where(1.0 - result > accepted, np.nextafter(result, 2.0), result)
        return float(result) if np.ndim(fpr) == 0 else result

    def bayes_success(self, prior: float = 0.5) -> float:
        """The largest probability of guessing right whether the record is in the data.

        (1 - p) + p·δ(log((1 - p)/p)): for each test the success is p·TPR + (1 - p)·(1 - FPR).

        Parameters
        ----------
        prior : float
            The probability p that it is, in (0, 1).

        Returns
        -------
        float
            In [max(p, 1 - p), 1], rounded up.

        Raises
        ------
        InvalidInput
            For a prior out of range.

        References
        ----------
        Dong, Roth, Su 2022, Prop. 2.12.
        """
        p = number("prior", prior, above=0.0, below=1.0)
        size = abs(math.log1p(-p)) + abs(math.log(p))
        # δ falls with ε: a threshold rounded down errs on the safe side.
        threshold = math.log1p(-p) - math.log(p) - EIGHT_ROUNDINGS * size if p != 0.5 else 0.0
        success = 1 - Fraction(p) * (1 - Fraction(self.delta(threshold)))
        return min(1.0, fraction_up(success))


class TradeOff(Readings):
    """A trade-off function f: what any test between two adjacent outputs must accept.

    f(α) is a lower bound on the type II error of every test with type I error at most α. Calling the
    object evaluates f at α in [0, 1], a number or an array. Everything read off errs on the safe side: δ, ε,
    Rényi divergences and attack rates are upper bounds, f itself is a lower bound. Objects are immutable
    and equal by value. Constructors and readings raise InvalidInput for numbers out of range.

    The kinds are a closed table, `pabi.tradeoff.kinds`. A class from elsewhere may be shown by
    `explain(also=…)`; it is refused where functions are composed, written or read.

    A subclass is a dataclass, sets `kind` and implements the abstract methods; `_delta_array` where arrays
    can be faster, `_epsilon` where the lower bound is not needed, `_compose` and `_power` where a lossless
    rule exists, `_readers`, or `_fields` and `_from_fields`, where files do not hold its fields as they are.

    Attributes
    ----------
    kind : str
        The name under which the class is written to JSON.

    References
    ----------
    Dong, Roth, Su 2022, Def. 2.1.
    """

    kind: ClassVar[str]
    _table: ClassVar[KindTable]  # set once, by `pabi.tradeoff.kinds`
    _readers: ClassVar[Readers] = {}

    @property
    def _function(self) -> TradeOff:
        return self

    @overload
    def __call__(self, alpha: float) -> float: ...
    @overload
    def __call__(self, alpha: Array | Sequence[float]) -> Array: ...
    def __call__(self, alpha: Any) -> Any:
        """A lower bound on the type II error at type I error `alpha` in [0, 1], scalar or array."""
        levels = array("alpha", alpha, at_least=0.0)
        largest = float(levels.max(initial=0.0))
        must_be(largest <= 1.0, "alpha", "numbers in [0, 1]", largest)
        result = np.clip(self._tradeoff(levels.ravel()), 0.0, 1.0).reshape(levels.shape)
        return float(result) if levels.ndim == 0 else result

    def epsilon(self, delta: float) -> float:
        """An upper bound on the least ε ≥ 0 at `delta`.

        Parameters
        ----------
        delta : float
            δ ≥ 0; 1 or more gives 0.

        Returns
        -------
        float
            ε, in [0, ∞]; ∞ where there is none.

        Raises
        ------
        InvalidInput
            For a negative δ and for what is no number.

        References
        ----------
        Dong, Roth, Su 2022, Prop. 2.12.
        """
        return self._epsilon(nonnegative("delta", delta))

    def _underestimate(self, delta: float) -> float:
        """A number that ε at `delta` ≥ 0 is very likely not below, at hardly any cost: to tell what is worth
        reading. 0 where nothing is known."""
        return 0.0

    @property
    def _square(self) -> float | None:
        """μ² of a Gaussian that very likely reveals no more, at hardly any cost; None where none is known."""
        return None

    def epsilon_bounds(self, delta: float, rtol: float = RTOL) -> tuple[float, float]:
        """Bounds on the least ε ≥ 0 at `delta` from both sides.

        Parameters
        ----------
        delta : float
            δ ≥ 0; 1 or more gives 0.
        rtol : float
            How far apart the bounds may be, relatively, where the numerics allow; in (0, 1]. Below δ/100
            relatively to δ/100. Closed forms ignore it and do far better.

        Returns
        -------
        tuple of float
            (lower, upper), both in [0, ∞].

        Raises
        ------
        InvalidInput
            For a negative δ, for what is no number, and for an `rtol` out of range where it is used.

        References
        ----------
        Dong, Roth, Su 2022, Prop. 2.12.
        """
        return self._epsilon_bounds(nonnegative("delta", delta), rtol)

    @property
    @abstractmethod
    def zcdp(self) -> float:
        """A ρ such that the Rényi divergence of every order α > 1 is at most ρα."""

    @property
    def orientation(self) -> Orientation:
        """Which orders of the two data sets the function speaks of.

        "symmetric": f is its own inverse. "both": the worse of two inverse functions, each of which is
        composed by itself. "remove", "add": one of those two.
        """
        return "symmetric"

    def inverse(self) -> TradeOff:
        """f^-1: the data sets in the opposite order.

        Returns
        -------
        TradeOff
            Of the same class.
        """
        return self

    def symmetrised(self) -> TradeOff:
        """min{f, f^-1}**: the worse of both orders of the data sets.

        Returns
        -------
        TradeOff
            Of the same class.
        """
        return self

    def compose(self, other: TradeOff) -> TradeOff:
        """f ⊗ g, both mechanisms run on the same data, without loss.

        Parameters
        ----------
        other : TradeOff
            g, of a class in `pabi.tradeoff`.

        Returns
        -------
        TradeOff
            In closed form where there is one, otherwise a `Product`.

        Raises
        ------
        InvalidInput
            For "remove" with "add", or either with "both", and for a class that is not in `pabi.tradeoff`.

        References
        ----------
        Dong, Roth, Su 2022, Thm 3.2.
        """
        one, two = (TradeOff._table.check(curve, "tradeoff") for curve in (self, other))
        result = one._compose(two)
        if result is None:
            result = two._compose(one)
        return TradeOff._table.product(((one, 1), (two, 1))) if result is None else result

    def self_compose(self, k: int) -> TradeOff:
        """f ⊗ … ⊗ f, without loss.

        Parameters
        ----------
        k : int
            How often, ≥ 1.

        Returns
        -------
        TradeOff
            In closed form where there is one, otherwise a `Product`.

        Raises
        ------
        InvalidInput
            For a `k` that is no integer ≥ 1, and for a class that is not in `pabi.tradeoff`.

        References
        ----------
        Dong, Roth, Su 2022, Thm 3.2.
        """
        return TradeOff._table.check(self, "tradeoff")._power(integer("k", k, at_least=1))

    @abstractmethod
    def losses(self) -> tuple[Pair, ...]:
        """The privacy losses of the orders of the data sets that differ: (f,), or (f, f^-1)."""

    def to_dict(self) -> dict[str, Any]:
        """The function as a JSON-ready dictionary; infinity is written "inf".

        Returns
        -------
        dict
            The fields, and `kind`. Raises InvalidInput for a class that is not in `pabi.tradeoff`.
        """
        curve = TradeOff._table.check(self, "tradeoff")
        return {"kind": curve.kind, **curve._fields()}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> TradeOff:
        """The object written by `to_dict`.

        Parameters
        ----------
        data : dict
            The fields, and `kind`.

        Returns
        -------
        TradeOff
            Equal to the object that was written.

        Raises
        ------
        InvalidInput
            For an unknown kind, for missing, unknown or wrong fields.

        References
        ----------
        docs, "A guarantee's file".
        """
        tick()
        kinds = TradeOff._table.kinds
        kind = data.get("kind") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise InvalidInput("kind", f"expected one of {', '.join(sorted(kinds))}, got {kind!r}")
        fields = {name: value for name, value in data.items() if name != "kind"}
        try:
            curve = kinds[kind]._from_fields(fields)
        except KeyError as missing:
            raise InvalidInput(str(missing.args[0]), f"missing from a {kind} object") from None
        for name in fields:
            raise InvalidInput(str(name), f"unknown key in a {kind} object")
        return curve

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
        values = np.empty(epsilon.size)
        for i, e in enumerate(epsilon.tolist()):
            tick()
            values[i] = self._delta(e)
        return values

    def _epsilon(self, delta: float) -> float:
        """`epsilon`, for a checked δ."""
        return self._epsilon_bounds(delta, RTOL)[1]

    @abstractmethod
    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        """`epsilon_bounds`, for a checked δ."""

    @abstractmethod
    def _rdp(self, order: float) -> float:
        """`rdp`, for an order that is still to be checked: closed forms have one at ∞, others none."""

    def _fields(self) -> dict[str, Any]:
        """What `to_dict` writes beside the kind: all fields, but for the usual direction."""
        values = {name: getattr(self, field) for name, field in _arguments(self).items()}
        return {name: _written(value) for name, value in values.items() if value != "both"}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> Self:
        """The object whose `_fields` these are; takes what it reads out of `fields`."""
        make: Callable[..., Self] = cls
        names = [name for name in _arguments(cls) if name in fields or name != "direction"]
        values = ((name, fields.pop(name)) for name in names)
        readers = cls._readers
        return make(
            **{name: readers[name](name, x) if name in readers else x for name, x in values}
        )


class Directed(TradeOff):
    """A function of one order of the data sets, or the worse of both, by its `direction`."""

    direction: Direction

    def inverse(self) -> Self:
        """f^-1: the other direction.

        Returns
        -------
        TradeOff
            Of the same class; the same, for "both".
        """
        return self._towards(opposite(self.direction))

    def symmetrised(self) -> Self:
        """The worse of both directions.

        Returns
        -------
        TradeOff
            Of the same class and of direction "both".
        """
        return self._towards("both")

    def _towards(self, direction: Direction) -> Self:
        turned: Self = dataclasses.replace(cast("Any", self), direction=direction)
        return turned


def _arguments(curve: object) -> dict[str, str]:
    """What the constructor of a dataclass calls its fields ↦ their names."""
    return {f.name.removesuffix("_0"): f.name for f in dataclasses.fields(cast("Any", curve))}


def _written(value: Any) -> Any:
    """The value of a field for JSON."""
    if isinstance(value, TradeOff):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else encode(value)


def encode(x: float) -> float | str:
    """`x` for JSON, which has no infinity."""
    return "inf" if x == math.inf else x


def decode(field: str, value: Any) -> float:
    """The float written by `encode`. Raises InvalidInput naming `field`."""
    return math.inf if value == "inf" else extended(field, value)


# Trade-off functions from privacy profiles: every ε gives two lines that support f from below.


_ROWS = 1 << 21  # entries of the working arrays


def supported(alpha: Array, epsilon: Array, *, left: Array, right: Array) -> Array:
    """Lower bounds on f = T(P, Q) at `alpha` (n,), from upper bounds on δ of (Q, P), `left`, and of
    (P, Q), `right`, both (m,), at `epsilon` ≥ 0: max over them of 0, 1 - left - e^ε·α and
    e^-ε·(1 - right - α). Source: Dong, Roth, Su 2022, Prop. 2.11."""
    result = np.zeros_like(alpha)
    size = max(1, _ROWS // max(1, epsilon.size))
    for start in range(0, alpha.size, size):
        part = slice(start, start + size)
        lines = support_lines(
            alpha[part, None], epsilon[None, :], left[None, :], delta_right=right[None, :]
        )
        result[part] = lines.max(axis=1, initial=0.0)
    return result


def support_lines(
    alpha: Array, epsilon: Array, delta: Array, *, delta_right: Array | None = None
) -> Array:
    """The better of the two lines of `supported`, elementwise, rounded down; at least 0.

    `delta_right`: δ of the pair in the other order, or None where f is symmetric.
    """
    right = delta if delta_right is None else delta_right
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        cost = np.exp(epsilon) * alpha
        upper = (1.0 - delta) - cost - THREE_ROUNDINGS * (1.0 + cost)
        value = (1.0 - right) - alpha - THREE_ROUNDINGS
        lower = np.exp(-epsilon) * value * (1.0 - EIGHT_ROUNDINGS)
    return np.fmax(np.fmax(upper, lower), 0.0)

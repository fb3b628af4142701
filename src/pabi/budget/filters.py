"""The lines of a ledger's file, and what they cost together (docs, "Theory", 16).

What is charged is a double above the truth, sums are rational numbers, and limits are rounded down, so that
no rounding grants anything.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, assert_never

from pabi.describe.accounted import checked_protected
from pabi.numbers import validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.gaussian import gdp_epsilon_bounds, gdp_to_delta, gdp_to_epsilon
from pabi.numbers.renyi import rdp_to_epsilon
from pabi.numbers.rounding import bisected, fraction_down, fraction_up, root_of_fraction_up
from pabi.numbers.showing import exact
from pabi.tradeoff import Best, Gaussian, Grouped, Product, RenyiDP, Selected, TradeOff
from pabi.tradeoff.gaussian_below import gaussian_below
from pabi.tradeoff.guarantee import INDEPENDENT, Guarantee
from pabi.tradeoff.selection import (
    ENTERED,
    adaptively_composed,
    refusing_above,
    refusing_divergences_above,
)

# Between which a budget has its best order: from many nats and a large δ to few and a small one.
_ORDERS = (
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    9.0,
    10.0,
    12.0,
    14.0,
    16.0,
    20.0,
    24.0,
    32.0,
    48.0,
    64.0,
)
_LARGEST = 1e6  # μ or nats of a budget: more promises nothing


@dataclass(frozen=True)
class GaussianFilter:
    """Σμ² stays at most the square of the budget's `mu`; the whole is then G(mu)."""

    mu: float

    kind: ClassVar[str] = "gaussian"
    symbol: ClassVar[str] = "mu"

    @classmethod
    def of(cls, epsilon: float, delta: float) -> GaussianFilter:
        """That with the largest μ that is (ε, δ)-DP."""
        largest, _ = bisected(lambda mu: not cls(mu).meets(epsilon, delta), 0.0, _LARGEST)
        return cls(largest)

    @property
    def limit(self) -> Fraction:
        """μ² of the budget."""
        return Fraction(self.mu) ** 2

    def charge(self, curve: TradeOff) -> float:
        """The μ of a Gaussian below the curve."""
        return gaussian_below(curve)

    def size(self, charge: float) -> Fraction:
        """μ²."""
        return Fraction(charge) ** 2

    def left(self, spent: Fraction) -> float:
        """The largest μ that is still granted."""
        return root_of_fraction_down(max(self.limit - spent, Fraction(0)))

    def epsilon(self, spent: Fraction, delta: float) -> float:
        """ε of a Gaussian of this μ²."""
        return gdp_to_epsilon(root_of_fraction_up(spent), delta)

    def epsilon_left(self, spent: Fraction, delta: float) -> float:
        """ε of the Gaussian of what is left."""
        return gdp_epsilon_bounds(self.left(spent), delta)[0]

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether G(mu) is (ε, δ)-DP."""
        return gdp_to_delta(self.mu, epsilon) <= delta

    def to_dict(self) -> dict[str, Any]:
        """The kind and the budget's μ."""
        return {"kind": self.kind, "mu": self.mu}


@dataclass(frozen=True)
class RenyiFilter:
    """Σ of the Rényi divergences of one order, fixed beforehand, stays at most `rho`."""

    order: float
    rho: float

    kind: ClassVar[str] = "renyi"
    symbol: ClassVar[str] = "rho"

    @classmethod
    def of(cls, epsilon: float, delta: float, order: float) -> RenyiFilter:
        """That with the largest ρ from which (ε, δ) follows."""
        largest, _ = bisected(lambda rho: not cls(order, rho).meets(epsilon, delta), 0.0, _LARGEST)
        return cls(order, largest)

    @property
    def limit(self) -> Fraction:
        """The budget's ρ."""
        return Fraction(self.rho)

    def charge(self, curve: TradeOff) -> float:
        """The Rényi divergence of the order; ∞ of groups, whose divergence no checker derives."""
        return math.inf if _is_of_groups(curve) else curve.rdp(self.order)

    def size(self, charge: float) -> Fraction:
        """The divergence itself."""
        return Fraction(charge)

    def left(self, spent: Fraction) -> float:
        """The largest divergence that is still granted."""
        return fraction_down(max(self.limit - spent, Fraction(0)))

    def epsilon(self, spent: Fraction, delta: float) -> float:
        """ε that follows from the divergence."""
        if spent == 0:
            return 0.0
        return rdp_to_epsilon(orders=[self.order], rdp=[fraction_up(spent)], delta=delta)

    def epsilon_left(self, spent: Fraction, delta: float) -> float:
        """ε of the Gaussian whose divergence, αμ²/2, is what is left."""
        square = 2 * Fraction(self.left(spent)) / Fraction(self.order)
        return gdp_epsilon_bounds(root_of_fraction_down(square), delta)[0]

    def meets(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ)-DP follows from ρ."""
        return rdp_to_epsilon(orders=[self.order], rdp=[self.rho], delta=delta) <= epsilon

    def to_dict(self) -> dict[str, Any]:
        """The kind, the order and the budget's ρ."""
        return {"kind": self.kind, "order": self.order, "rho": self.rho}


_FIELDS: Mapping[str, tuple[type[GaussianFilter] | type[RenyiFilter], tuple[str, ...]]] = (
    MappingProxyType(
        {"gaussian": (GaussianFilter, ("mu",)), "renyi": (RenyiFilter, ("order", "rho"))}
    )
)


def filter_of(epsilon: float, delta: float, order: float | None) -> GaussianFilter | RenyiFilter:
    """The filter of a new ledger."""
    if order is None:
        return GaussianFilter.of(epsilon, delta)
    return RenyiFilter.of(epsilon, delta, order)


def best_order(curves: Sequence[TradeOff], epsilon: float, delta: float) -> float | None:
    """The order at which these releases take the least share of a budget; None where μ takes less."""

    def share(order: float | None) -> float:
        filters = filter_of(epsilon, delta, order)
        charges = [filters.charge(curve) for curve in curves]
        if not max(charges, default=0.0) < math.inf:
            return math.inf
        return float(sum(map(filters.size, charges), Fraction(0)) / filters.limit)

    return min((None, *_ORDERS), key=share)


def _is_of_groups(curve: TradeOff) -> bool:
    """Whether the function, or one that it is made of, is that of a group."""
    match curve:
        case Grouped():
            return True
        case Selected(base=base):
            return _is_of_groups(base)
        case Product(factors=factors):
            return any(_is_of_groups(factor) for factor, _ in factors)
        case Best(parts=parts):
            return any(map(_is_of_groups, parts))
        case _:
            return False


def read_filter(data: Any) -> GaussianFilter | RenyiFilter:
    """The filter that `to_dict` wrote. Raises InvalidInput."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InvalidInput("filter", f"expected one of {', '.join(_FIELDS)}, got {kind!r}")
    cls, names = _FIELDS[kind]
    require(set(data) == {"kind", *names}, "filter", f"expected {', '.join(names)}")
    return cls(*(validate.number(name, data[name], at_least=0.0) for name in names))


def root_of_fraction_down(square: Fraction) -> float:
    """The greatest double not above √square."""
    root = math.isqrt(square.numerator * square.denominator << 256)
    return fraction_down(Fraction(root, square.denominator << 128))


# The lines of a ledger's file, and what they cost together.


FORMAT, VERSION = "pabi.ledger", 1
START = "0" * 64
BEGINNING = b'{"format":"pabi.ledger",'  # of every file
_KEY = ',"hash":"'
_TAIL = len(_KEY) + 64 + 2  # of a line: the hash and what closes it
_OPENING = ("format", "version", "epsilon", "delta", "unit", "filter", "opened", "name")
_GRANTED = ("entry", "number", "at", "testing", "charge", "guarantee")
_COMMITTED = ("entry", "number", "at")


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sealed(body: dict[str, Any], before: str) -> bytes:
    """A line with this content, after the line with the hash `before`."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f'{text[:-1]}{_KEY}{_digest(before, text)}"}}\n'.encode()


def seal_of(line: bytes) -> str:
    """The hash that a line carries."""
    return line[-67:-3].decode("ascii", "replace")


def _digest(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


@dataclass(frozen=True)
class Opening:
    """The first line: the budget (ε, δ), the filter, when and under which random name it was opened."""

    epsilon: float
    delta: float
    filter: GaussianFilter | RenyiFilter
    opened: str = field(default_factory=now)
    name: str = field(default_factory=lambda: os.urandom(16).hex())
    unit: str = "record"

    def body(self) -> dict[str, Any]:
        """The content of the line."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "filter": self.filter.to_dict(),
            "opened": self.opened,
            "name": self.name,
        }

    @classmethod
    def read(cls, body: dict[str, Any]) -> Opening:
        """The opening with this content. Raises InvalidInput."""
        if body.get("format") != FORMAT or body.get("version") != VERSION:
            other = f"{body.get('format')!r}, version {body.get('version')!r}"
            raise InvalidInput("format", f"expected {FORMAT!r}, version {VERSION}, got {other}")
        _require(body, _OPENING)
        epsilon = validate.number("epsilon", body["epsilon"], above=0.0)
        delta = validate.number("delta", body["delta"], above=0.0, below=1.0)
        filters = read_filter(body["filter"])
        require(
            filters.meets(epsilon, delta), "filter", "expected one that keeps epsilon and delta"
        )
        unit = checked_protected(body["unit"])
        return cls(epsilon, delta, filters, str(body["opened"]), str(body["name"]), unit)

    @property
    def order(self) -> float | None:
        """The order of Rényi divergences that are charged; None where μ is."""
        return self.filter.order if isinstance(self.filter, RenyiFilter) else None

    def __str__(self) -> str:
        return budget_text(self.epsilon, self.delta, self.order, self.unit)


def budget_text(epsilon: float, delta: float, order: float | None, unit: str = "record") -> str:
    """A budget in words."""
    text = f"epsilon = {exact(epsilon)} at delta = {exact(delta)}"
    text += "" if unit == "record" else f", unit {unit}"
    return text if order is None else f"{text}, Rényi order {exact(order)}"


@dataclass(frozen=True)
class Line:
    """An entry: a reservation ("reserved"), one with its release ("spent"), or a release ("committed").

    `number`: of the reservation, from 1 on. `charge`, `testing` and `guarantee` are None of "committed".
    """

    entry: str
    number: int
    at: str
    testing: bool | None = None
    charge: float | None = None
    guarantee: dict[str, Any] | None = None

    def body(self) -> dict[str, Any]:
        """The content of the line."""
        keys = _COMMITTED if self.guarantee is None else _GRANTED
        return {key: getattr(self, key) for key in keys}

    @classmethod
    def read(cls, body: dict[str, Any]) -> Line:
        """The entry with this content. Raises InvalidInput."""
        entry = validate.choice("entry", body.get("entry"), ("reserved", "spent", "committed"))
        _require(body, _COMMITTED if entry == "committed" else _GRANTED)
        number = validate.integer("number", body["number"], at_least=1)
        if entry == "committed":
            return cls(entry, number, str(body["at"]))
        charge = validate.number("charge", body["charge"], at_least=0.0)
        require(
            isinstance(body["testing"], bool) and isinstance(body["guarantee"], dict),
            "guarantee",
            "expected a guarantee, and true or false for testing",
        )
        return cls(entry, number, str(body["at"]), body["testing"], charge, body["guarantee"])


@dataclass(frozen=True)
class Book:
    """What was read of a file so far.

    `granted`: the reservations in order. `committed`: the numbers of those that were. `spent`: the sum of the
    sizes of their charges. `seal`: the hash of the last line.
    """

    opening: Opening
    granted: tuple[Line, ...] = ()
    committed: frozenset[int] = frozenset()
    spent: Fraction = Fraction(0)
    seal: str = START
    lines: int = 1
    length: int = 0

    @property
    def adjacency(self) -> str | None:
        """That of the first reservation, None where there is none."""
        guarantee = self.granted[0].guarantee if self.granted else None
        return None if guarantee is None else str(guarantee.get("adjacency"))

    def with_lines(self, data: bytes) -> Book:
        """This book and the whole lines in `data`, which follow on it. Raises InvalidInput naming a line."""
        granted, committed = list(self.granted), set(self.committed)
        spent, seal = self.spent, self.seal
        for body, own in _bodies(data, self.seal, self.lines):
            line, seal = Line.read(body), own
            if line.charge is None:
                require(
                    line.number <= len(granted) and line.number not in committed,
                    "number",
                    f"nothing is to be committed as {line.number}",
                )
            elif line.number != len(granted) + 1:
                raise InvalidInput("number", f"expected {len(granted) + 1}, got {line.number}")
            else:
                granted.append(line)
                spent += self.opening.filter.size(line.charge)
            if line.entry != "reserved":
                committed.add(line.number)
        return replace(
            self,
            granted=tuple(granted),
            committed=frozenset(committed),
            spent=spent,
            seal=seal,
            lines=self.lines + data.count(b"\n"),
            length=self.length + len(data),
        )


def book_of(data: bytes) -> Book:
    """The book of a file with these whole lines, at least one. Raises InvalidInput."""
    require(data.startswith(BEGINNING), "format", "expected a ledger, got another file")
    first, _, rest = data.partition(b"\n")
    body, seal = next(_bodies(first + b"\n", START, 0))
    return Book(Opening.read(body), seal=seal, length=len(first) + 1).with_lines(rest)


def _bodies(data: bytes, seal: str, before: int) -> Iterator[tuple[dict[str, Any], str]]:
    """(content, hash) of whole lines, the first of which follows on `before` others and their `seal`."""
    for number, line in enumerate(data.split(b"\n")[:-1], before + 1):
        text = line.decode("utf-8", "replace")
        body, own = f"{text[:-_TAIL]}}}", text[-_TAIL:]
        require(
            own == f'{_KEY}{_digest(seal, body)}"}}',
            f"line {number}",
            "it was changed, or one before it was taken away",
        )
        seal = own[len(_KEY) : -2]
        content = parse_json(body)
        require(isinstance(content, dict), f"line {number}", "expected an object")
        yield content, seal


def _require(body: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Raises InvalidInput unless these are the keys."""
    for key in keys:
        require(key in body, key, "missing")
    for key in body:
        require(key in keys, str(key), "unknown key")


# What all releases of a ledger cost together: its budget, with a proof (docs, "Theory", 16).


NAME = "adaptive composition"
SOURCE = "Smith, Thakurta 2022; docs, Theory, 16 (Theorem 21)"
NAME_RENYI = "adaptive composition of divergences"
SOURCE_RENYI = "Feldman, Zrnic 2021; docs, Theory, 16 (Theorem 22)"


def guarantee_of(book: Book) -> Guarantee:
    """The budget of a ledger as the guarantee of all its releases, those that are still to come included.

    Raises InvalidInput without any entry.
    """
    require(book.granted, "ledger", "expected an entry: without any there is no adjacency")
    parts = [Guarantee.from_dict(line.guarantee) for line in book.granted]
    curve: TradeOff
    match book.opening.filter:
        case GaussianFilter(mu=mu):
            curve, bound, title = Gaussian(mu), refusing_above(mu), (NAME, SOURCE)
            proof = adaptively_composed(NAME, parts, mu=mu)
        case RenyiFilter(order=order, rho=rho):
            curve, title = RenyiDP(order, rho), (NAME_RENYI, SOURCE_RENYI)
            bound = refusing_divergences_above(order, rho)
            proof = adaptively_composed(NAME_RENYI, parts, tradeoff=curve.to_dict())
        case _:
            assert_never(book.opening.filter)
    sentences = [sentence for part in parts for sentence in part.assumptions]
    whole = Guarantee(
        curve,
        parts[0].adjacency,
        *title,
        tuple(dict.fromkeys((*sentences, INDEPENDENT, ENTERED, bound))),
        book.opening.delta,
        unit=parts[0].unit,
        besides=tuple(dict.fromkeys(s for part in parts for s in part.besides)),
        proof=proof,
    )
    return whole.for_testing() if any(line.testing for line in book.granted) else whole

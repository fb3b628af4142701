"""What a stranger may send, and its numbers, read and compared in rationals and balls."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from flint import arb, fmpq

from pabi.numbers.encoding import nesting, parse_json, read_floats, unpacking_at_most
from pabi.numbers.errors import InvalidInput
from pabi.numbers.locking import OutOfTime, until
from pabi.numbers.locking import in_time as look
from pabi.tradeoff.certificate import FORMAT, VERSIONS, Certificate, check_format
from pabi.tradeoff.guarantee import FORMAT as GUARANTEE
from pabi.tradeoff.guarantee import VERSIONS as GUARANTEE_VERSIONS

# What one verification may take, and refuse: a certificate comes from a stranger.


# Why a certificate is refused.


class Refused(Exception):
    """A check failed; the message says which, and at which step."""


T = TypeVar("T")
_OFTEN = 128  # operations between two looks at the clock


class Limits(NamedTuple):
    """What a verification may take before it refuses.

    `size`: characters of JSON. `depth`: of its nesting. `unpacked`: bytes of all packed arrays together.
    `positions`: steps, batches or releases that are gone through one by one. `seconds`: of processor time.
    """

    size: int
    depth: int
    unpacked: int
    positions: int
    seconds: float


_current: ContextVar[Limits | None] = ContextVar("_current", default=None)


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """Makes `positions` and `in_time` refuse beyond these limits, and unpacking as well. The accountant's
    functions look at the same clock where they read what was proven."""
    token = _current.set(limits)
    try:
        with unpacking_at_most(limits.unpacked), until(limits.seconds):
            yield
    finally:
        _current.reset(token)


def positions(name: str, count: int) -> int:
    """`count`, if so many may be gone through one by one."""
    limits = _current.get()
    if limits is not None and count > limits.positions:
        raise Refused(
            f"{name}: {count} are too many to go through one by one (positions: {limits.positions})"
        )
    return count


def timed(values: Iterable[T]) -> Iterator[T]:
    """`values`, one after another, as long as there is time."""
    for i, value in enumerate(values):
        if i % _OFTEN == 0:
            in_time()
        yield value


def in_time() -> None:
    """Refuses once the time is over; called every few hundred operations."""
    try:
        look()
    except OutOfTime as over:
        raise Refused(str(over)) from None


# Taking in what a stranger sends: no more is read than the limits allow.


# Characters of JSON for every object or array: read, each takes a hundred bytes or two.
_SPARSE = 16
_SENTENCE = 1000  # characters of a reason


class NoCertificate(Exception):
    """What is no certificate at all: the field, and what was expected."""

    def __init__(self, bad: InvalidInput) -> None:
        self.field, self.expected = bad.field, short(str(bad).removeprefix(f"{bad.field}: "))


def received(certificate: Any, limits: Limits) -> dict[str, Any]:
    """A certificate or guarantee as an object of a format and version that are known."""
    text = certificate
    if not isinstance(certificate, str):
        if not isinstance(certificate, dict):
            kind = type(certificate).__name__
            raise NoCertificate(InvalidInput("json", f"expected an object, got {kind}"))
        _check_object(certificate, limits)
        text = Certificate(certificate).to_json()
    if len(text) > limits.size:
        raise Refused(f"size: {len(text)} characters are more than are read (size: {limits.size})")
    # What does not begin as an object is none, however deep.
    if text.lstrip().startswith("{"):
        _check_nesting(*nesting(text, limits.depth, limits.size // _SPARSE), limits)
    try:
        data = parse_json(text)
        guarantee = isinstance(data, dict) and data.get("format") == GUARANTEE
        form = (GUARANTEE, GUARANTEE_VERSIONS) if guarantee else (FORMAT, VERSIONS)
        return check_format(data, *form)
    except InvalidInput as bad:
        raise NoCertificate(bad) from None


def _check_object(value: Any, limits: Limits) -> None:
    """Refuse an object that is too large or deep, or that holds itself, before it is walked through."""
    level, opened, left = [value], 0, limits.size
    for depth in range(1, limits.depth + 2):
        opened += len(level)
        _check_nesting(depth, opened, limits)
        inner: list[Any] = []
        for x in level:
            # The same text or list may be there many times.
            own = [*x, *x.values()] if isinstance(x, dict) else x
            left -= 1 + len(x) + sum(len(y) for y in own if isinstance(y, str))
            if left < 0:
                raise Refused(f"size: larger than what is read (size: {limits.size})")
            inner.extend(y for y in own if isinstance(y, (dict, list, tuple)))
        level = inner
        if not level:
            return


def _check_nesting(depth: int, opened: int, limits: Limits) -> None:
    if depth > limits.depth:
        raise Refused(f"depth: nested more than {limits.depth} deep (depth)")
    if opened > limits.size // _SPARSE:
        raise Refused(
            f"size: {opened} objects and arrays are more than are read (size: {limits.size})"
        )


def reason(bad: Exception) -> str:
    """Why there is no proof, in one sentence."""
    if isinstance(bad, Refused | OutOfTime):
        return str(bad)
    if isinstance(bad, KeyError):
        return f"malformed certificate: {bad.args[0] if bad.args else ''} is missing"
    if isinstance(bad, RecursionError):
        return "malformed certificate: nested too deeply"
    if isinstance(bad, MemoryError):
        return "memory: there is not enough to go through it"
    return f"malformed certificate: {bad}"


def short(text: str) -> str:
    """`text`, however much it quotes."""
    return text if len(text) <= _SENTENCE else text[: _SENTENCE - 1] + "…"


BITS = 256  # working precision, set for the time of a verification
_TIES = 1 + fmpq(1, 2**60)  # by so little a common slope is raised, to decide ties


def exact(x: float | int) -> Any:
    """The rational number (fmpq) that a double is."""
    return fmpq(*float(x).as_integer_ratio())


# Bits of a rational number; of more a stranger could make one that fills the memory.
_LONGEST = 1 << 16


def above(ball: Any) -> Any:
    """A rational number (fmpq) not below any number of a ball. Refused where it is too large to be one."""
    mantissa, power = map(int, ball.upper().man_exp())
    if power > _LONGEST:
        raise Refused("a number is too large to be compared")
    if power < -_LONGEST:  # of the same sign, and nearer to 0 than 2^−(_LONGEST/2)
        return 1 / fmpq(2) ** (_LONGEST // 2) if mantissa > 0 else fmpq(0)
    return fmpq(mantissa) * (fmpq(2) ** power if power >= 0 else 1 / fmpq(2) ** -power)


def fraction_of(x: Any) -> Fraction:
    """The Fraction that is equal to a rational number of python-flint."""
    return Fraction(int(x.p), int(x.q))


def double_below(x: Fraction) -> float:
    """The largest double not above `x`."""
    return -double_above(-x)


def double_above(x: Fraction) -> float:
    """The least double not below `x`."""
    value = float(x)
    return value if Fraction(value) >= x else math.nextafter(value, math.inf)


class EqualSteps(NamedTuple):
    """n equal steps: slope c, sensitivity s, noise σ (doubles, taken exactly)."""

    n: int
    c: float
    s: float
    sigma: float


Repeated = tuple[int, tuple[EqualSteps, ...]]  # how often, and what


class _Piece(NamedTuple):
    """Steps z ↦ C·z + d with capacity v: paying y at their end costs y²/v."""

    c: Any
    d: Any
    v: Any

    def then(self, later: _Piece) -> _Piece:
        """These steps and the later ones as one piece."""
        return _Piece(
            self.c * later.c, self.d * later.c + later.d, self.v * later.c * later.c + later.v
        )


def one_repetition(stretches: Sequence[EqualSteps]) -> _Piece:
    """The merged steps of one repetition, whose only demand must be in its first step."""
    total: _Piece | None = None
    for i, (n, c, s, sigma) in enumerate(stretches):
        if s > 0.0 and (i > 0 or n > 1):
            raise Refused("a repetition has a demand after its first step")
        slope, noise = arb(c), arb(sigma)
        here = _Piece(slope**n, arb(s), noise * noise * geometric(slope * slope, n))
        total = here if total is None else total.then(here)
    if total is None:
        raise Refused("an empty repetition")
    return total


def geometric(ratio: Any, terms: int) -> Any:
    """1 + r + … + r^(terms−1)."""
    gap = 1 - ratio
    if gap.is_zero():
        return arb(terms)
    return (1 - ratio**terms) / gap


def block_cost(groups: Sequence[Repeated], distance: Any, where: str) -> Any:
    """What it costs to pay off `distance` and the demands of `groups` at one common slope q.

    Paying q·(capacity) at every step leaves no step ahead of its demands if from every group's
    beginning on, and from the block's, the demands are at most q times the capacity. That covers the
    steps in between: within a repetition the demand comes first, and repetitions with C ≤ 1 have
    falling slopes, so that the cumulated demands lie above their chord.
    """
    pieces = []
    for times, stretches in timed(groups):
        one = one_repetition(stretches)
        if times > 1 and not one.d.is_zero() and not one.c <= 1:
            raise Refused(f"{where}: repetitions that expand are pooled")
        many = _Piece(
            one.c**times,
            one.d * geometric(one.c, times),
            one.v * geometric(one.c * one.c, times),
        )
        pieces.append(many)
    owed, room, scale = arb(0), arb(0), arb(1)
    suffixes = []
    for piece in reversed(pieces):
        owed, room = owed + piece.d * scale, room + piece.v * scale * scale
        scale = scale * piece.c
        suffixes.append((owed, room))
    owed = owed + distance * scale
    if not room > 0:
        raise Refused(f"{where}: no noise is left to pay with")
    q = owed / room * _TIES
    if not all(part <= q * capacity for part, capacity in suffixes):
        raise Refused(f"{where}: the block pays for demands before they arise")
    return q * q * room


def root_up(square: Any) -> float:
    """The least double whose square is not below `square`, a rational or an exact ball."""
    root = float(arb(square).sqrt().mid())
    if not root < math.inf:  # nor is NaN
        return math.inf
    candidate = math.nextafter(root, 0.0)
    while not arb(candidate) * arb(candidate) >= square:
        candidate = math.nextafter(candidate, math.inf)
    return candidate


def mu_of(cost: Any) -> float:
    """The least double μ with cost ≤ μ² for sure, of a ball; ∞ where there is none."""
    return root_up(cost.upper()) if cost.is_finite() else math.inf


_HAIR = 1.0 + 2.0**-41  # relative: more than the last bits, in which another machine may differ


def raised(mu: float) -> float:
    """What is stated where μ was found, so that whoever looks again finds no more."""
    return mu * _HAIR


def check_cost(cost: Any, mu: float, where: str) -> None:
    """Refuse unless Σ (a_k/σ_k)² ≤ μ² for sure."""
    if math.isinf(mu):
        return
    if not cost <= arb(mu) * arb(mu):
        proven = cost.sqrt().str(17, radius=False)
        raise Refused(f"{where}: mu: the payments cost {proven}, more than the claimed {mu!r}")


# Reading a certificate's numbers, refusing what is not of the form the checker knows.


_MOST = 10**18
# What every certificate begins with; version 1 has no `assumes`, and one about records has no `unit`.
HEADER = ("format", "version", "theorem", "adjacency", "unit", "assumes")


def integer(name: str, value: Any) -> int:
    """The integer from 0 to 10^18 that a field holds. Refused for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(f"{name}: expected an integer ≥ 0, got {value!r}")
    if value > _MOST:
        raise Refused(f"{name}: expected an integer of at most {_MOST}")
    return value


def nonnegative(name: str, value: Any) -> float:
    """The finite number ≥ 0 that a field holds. Refused for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"{name}: expected a number, got {value!r}")
    x = float(value)
    if not (0.0 <= x < math.inf):
        raise Refused(f"{name}: expected a finite number ≥ 0, got {value!r}")
    return x


def distances(name: str, value: Any) -> list[float]:
    """The finite numbers ≥ 0 that a field holds. Refused for anything else."""
    array = read_floats(name, value)
    if not ((array >= 0.0) & (array < math.inf)).all():
        raise Refused(f"{name}: expected finite numbers ≥ 0")
    return [float(x) for x in array]


def closed(what: str, table: dict[str, Any], keys: Collection[str]) -> None:
    """Refuse a key that the checker does not know: what nobody checks, nobody may rely on."""
    for key in table:
        if key not in keys:
            raise Refused(f"{str(key)[:40]}: unknown key in {what}")


def sentences(name: str, value: Any) -> tuple[str, ...]:
    """The sentences that a field lists. Refused for anything else."""
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise Refused(f"{name}: expected a list of sentences")
    return tuple(value)


def groups(value: Any) -> list[Repeated]:
    """The steps of a run-length encoding [[times, [[n, c, s, σ], …]], …]."""
    out: list[Repeated] = []
    for times, stretches in value:
        if integer("times", times) < 1 or not stretches:
            raise Refused("times: expected a repetition of something")
        read = []
        for n, c, s, sigma in stretches:
            if integer("n", n) < 1:
                raise Refused("n: expected at least one step")
            read.append(
                EqualSteps(n, nonnegative("c", c), nonnegative("s", s), nonnegative("sigma", sigma))
            )
        out.append((times, tuple(read)))
    return out


def columns(value: Any, names: Sequence[str] = ("c", "s", "sigma")) -> tuple[Any, ...]:
    """Written-out slopes, sensitivities and noises, all finite: packed arrays can hold NaN and ∞."""
    closed("steps", value, names)
    arrays = tuple(read_floats(name, value[name]) for name in names)
    for name, array in zip(names, arrays, strict=True):
        bad = ~((array >= 0.0) & (array < math.inf))
        if bad.any():
            k = int(bad.argmax())
            raise Refused(
                f"step {k + 1}: {name}: expected a finite number ≥ 0, got {float(array[k])!r}"
            )
    if len({len(array) for array in arrays}) > 1 or not len(arrays[0]):
        raise Refused("steps: expected columns of equal length")
    return arrays


# When claimed (weight, size) pairs cover those that are needed.


Weighted = tuple[Fraction, float]


def dominated(needed: Sequence[Weighted], claimed: Sequence[Weighted]) -> bool:
    """Whether the claim puts at least the needed weight on every range of sizes above some m."""
    claimed = sorted(claimed, key=lambda pair: -pair[1])
    granted = required = Fraction(0)
    i = 0
    for weight, size in sorted(needed, key=lambda pair: -pair[1]):
        required += weight
        while i < len(claimed) and claimed[i][1] >= size:
            granted += claimed[i][0]
            i += 1
        if granted < required:
            return False
    return True

"""Reading a certificate's numbers, refusing what is not of the form the checker knows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import EqualSteps, Repeated
from pabi.verification.refusal import Refused

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

"""The normal form of every analysis: a noisy iteration.

For k = 1..t: X_k = Π_k(φ_k(X_{k−1}) + Z_k) and X'_k = Π_k(φ'_k(X'_{k−1}) + Z'_k), with
Z_k, Z'_k ~ N(0, σ_k²I), ‖X_0 − X'_0‖ ≤ w_0, φ_k (or φ'_k) of modulus ω_k, ‖φ_k − φ'_k‖ ≤ s_k, and
Π_k nonexpansive onto a set of diameter D. Only X_t is released.

A schedule of slopes c_k, sensitivities s_k and noises σ_k is either one array each, or run-length
encoded (`Groups`), so that a constant run of 10⁹ steps stays a few numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pabi.describe.accounted import (
    ADJACENCY,
    HIDDEN,
    IF_ANY,
    SHOWN,
    UNIT,
    Accounted,
    Adjacency,
    Unit,
    adjacent,
    those_that_hold,
)
from pabi.describe.moduli import Modulus, known_modulus
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.validate import NONNEGATIVE, by, convert, keep, optional

MAX_ARRAY = 50_000_000  # steps beyond which a run-length schedule is never written out


class Stretch(NamedTuple):
    """`n` equal steps: slope c, sensitivity s, noise σ. Slope NaN: no linear modulus is known."""

    n: int
    c: float
    s: float
    sigma: float


class Group(NamedTuple):
    """A sequence of stretches, repeated `times` times."""

    times: int
    stretches: tuple[Stretch, ...]

    @property
    def steps(self) -> int:
        """The number of steps, repetitions included."""
        return self.times * sum(x.n for x in self.stretches)


class Groups(tuple[Group, ...]):
    """A run-length encoded schedule."""

    @property
    def steps(self) -> int:
        """The number of steps of all groups."""
        return sum(group.steps for group in self)

    def stretches(self) -> Iterator[tuple[int, Stretch]]:
        """Every stretch with the number of steps it covers over all repetitions."""
        for group in self:
            for stretch in group.stretches:
                yield group.times * stretch.n, stretch

    def columns(self) -> tuple[Column, Column, Column]:
        """Slopes, sensitivities and noises as array-likes."""
        return Column(self, "c"), Column(self, "s"), Column(self, "sigma")


class Column:
    """One column of a run-length schedule, read-only; `np.asarray` writes it out."""

    def __init__(self, groups: Groups, name: str) -> None:
        self.groups, self.name = groups, name

    def __len__(self) -> int:
        return self.groups.steps

    @property
    def shape(self) -> tuple[int]:
        """(number of steps,)."""
        return (len(self),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if len(self) > MAX_ARRAY:
            raise InvalidInput("steps", f"a schedule of {len(self)} steps is not written out")
        parts = []
        for group in self.groups:
            values = [getattr(x, self.name) for x in group.stretches]
            parts.append(np.tile(np.repeat(values, [x.n for x in group.stretches]), group.times))
        return np.concatenate(parts).astype(dtype or np.float64)

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and self.groups == other.groups and self.name == other.name

    def __hash__(self) -> int:
        return hash((self.groups, self.name))

    def __repr__(self) -> str:
        return f"<{self.name} of {len(self)} steps, run-length encoded>"


class Steps(NamedTuple):
    """A schedule written out: slopes, sensitivities and noises, each of shape (t,)."""

    c: Array
    s: Array
    sigma: Array

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.c)


Schedule = Groups | Steps


@dataclass(frozen=True, eq=False)
class NoisyIteration(Accounted):
    """A noisy iteration in normal form, as seen by the worst record.

    For k = 1..t: X_k = Π_k(φ_k(X_{k−1}) + Z_k), Z_k ~ N(0, σ_k²I), and only X_t is released. On adjacent data
    sets φ_k differ by at most s_k; each is of modulus ω_k, or slope c_k. These act on the iterate itself, not
    on gradients: sensitivities and noises have the unit of the iterate, slopes have none.

    Parameters
    ----------
    contraction : (t,) array, or float with `steps`
        c_k ≥ 0. Exactly one of it and `moduli` is stated.
    step_sensitivity : (t,) array, or float
        s_k ≥ 0. It follows one record: pass the worst one's.
    step_noise_std : (t,) array, or float
        σ_k ≥ 0, per coordinate. With 0 the guarantee is void where a difference remains to be hidden.
    diameter : float, optional, > 0
        Of the range of Π_k, None if unbounded.
    start : float, ≥ 0
        w_0, the distance of the starting points; 0 for privacy.
    adjacency : str
        "replace_one" (default) or "zero_out".
    steps : int, optional, ≥ 1
        t, where all entries are scalars.
    moduli : Modulus or sequence of t of them, optional
        ω_k, in place of `contraction`.
    unit : str
        "record" or "user": whom the guarantee protects.

    Raises
    ------
    InvalidInput
        For lengths that disagree, and for negative, NaN or infinite entries.

    References
    ----------
    docs, "Theory", 2.
    """

    contraction: Any = None
    step_sensitivity: Any = None
    step_noise_std: Any = None
    diameter: float | None = field(default=None, metadata=IF_ANY)
    start: float = field(default=0.0, metadata=by(NONNEGATIVE))
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    steps: int | None = None
    moduli: Modulus | Sequence[Modulus] | None = None
    unit: Unit = field(default="record", metadata=UNIT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.contraction, Column):
            keep(self, steps=len(self.contraction))
            return
        self._check_moduli()
        convert(
            self,
            step_sensitivity=_schedule,
            step_noise_std=_schedule,
            contraction=optional(_schedule),
        )
        lengths = {
            name: len(value)
            for name in ("contraction", "step_sensitivity", "step_noise_std", "moduli")
            if (value := getattr(self, name)) is not None
            and not isinstance(value, Modulus)
            and not validate.is_scalar(value)
        }
        if self.steps is None and not lengths:
            raise InvalidInput("steps", "missing: scalars need the number of steps")
        if self.steps is None:
            keep(self, steps=next(iter(lengths.values())))
        convert(self, steps=partial(validate.integer, at_least=1))
        for name, length in lengths.items():
            must_be(length == self.steps, name, f"{self.steps} entries, one per step", length)

    def _check_moduli(self) -> None:
        if (self.contraction is None) == (self.moduli is None):
            raise InvalidInput("contraction", "expected exactly one of contraction and moduli")
        if self.moduli is None:
            return
        if isinstance(self.moduli, Modulus) or not isinstance(self.moduli, Iterable):
            known_modulus(self.moduli)
            return
        moduli = tuple(self.moduli)
        for k, modulus in enumerate(moduli):
            known_modulus(modulus, f" at step {k + 1}")
        keep(self, moduli=moduli)

    @property
    def slopes(self) -> Any:
        """The least linear slopes, a float or (t,) array; NaN where there is none."""
        if self.moduli is None:
            return self.contraction
        moduli = (self.moduli,) if isinstance(self.moduli, Modulus) else self.moduli
        values = [np.nan if (c := m.linear) is None else c for m in moduli]
        return values[0] if isinstance(self.moduli, Modulus) else np.array(values)

    @property
    def every_modulus(self) -> list[Modulus]:
        """The modulus of every step."""
        assert self.steps is not None
        moduli = self.moduli
        return [moduli] * self.steps if isinstance(moduli, Modulus) else list(moduli or ())

    @property
    def schedule(self) -> Schedule:
        """The run-length form where every entry is a scalar, arrays otherwise."""
        if isinstance(self.contraction, Column):
            return self.contraction.groups
        assert self.steps is not None
        c, s, sigma = self.slopes, self.step_sensitivity, self.step_noise_std
        if all(validate.is_scalar(x) for x in (c, s, sigma)):
            return Groups((Group(self.steps, (Stretch(1, float(c), float(s), float(sigma)),)),))
        full = (np.broadcast_to(np.asarray(x, dtype=np.float64), self.steps) for x in (c, s, sigma))
        return Steps(*full)


def _schedule(name: str, value: Any) -> float | Array:
    require(value is not None, name, "missing: a noisy iteration needs it")
    return validate.schedule(name, value, positive=False)


def iteration_sentences(
    adjacency: Adjacency,
    diameter: float | None,
    start: float,
    hidden: bool,
    *,
    unit: Unit = "record",
) -> tuple[str, ...]:
    """What a guarantee of a bare iteration rests on, from the fields that matter.

    `hidden`: whether it needs the path to stay hidden.
    """
    return those_that_hold(
        *adjacent(adjacency, unit),
        HIDDEN if hidden else SHOWN,
        "moduli of continuity (slopes), step sensitivities and noises are as stated, for the "
        f"worst {unit}",
        "noise is Gaussian, fresh at every step, independent of the data and never revealed",
        hidden
        and diameter is not None
        and f"every map ends in a nonexpansive map onto a set of diameter {diameter!r}",
        hidden and start > 0.0 and f"the starting points are at most {start!r} apart",
    )

"""The modulus of every step of a run, whatever it is.

Steps come in three kinds: a full batch, the epoch's last batch, which may be short, and the cool-down. With
random batches all steps with data are of one kind, whose modulus is above those of all possible batches.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from pabi.describe.moduli import Linear, Modulus, Unbounded, above_both
from pabi.describe.orders import Fractions
from pabi.describe.runs import NoisySGD
from pabi.normal_forms.shapes import Shapes, shapes
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up

_MOST_VARYING = 200_000  # steps of a schedule that varies

_FULL, _LAST, _COOL = 0, 1, 2
_LINEAR = "every modulus is linear: see the other shifts"
_EMPTY = (Fraction(0),)  # what a step of the cool-down holds


class StepModuli:
    """The moduli of `run`, whose batches are such parts of their divisor as `fractions` says, and `idle` in
    the steps that use no record.

    Raises NotApplicable where a step's modulus is unknown, and where all are linear.
    """

    def __init__(
        self, run: NoisySGD, fractions: Fractions, idle: tuple[Fraction, ...] = _EMPTY
    ) -> None:
        self.run, self.fractions, self.idle = run, fractions, idle
        self._alike = fractions.full == fractions.last
        if not run.constant and run.steps > _MOST_VARYING:
            raise NotApplicable(
                f"more than {_MOST_VARYING} steps that vary, with moduli not linear"
            )
        if not run.constant and self._have_least_slopes():
            raise NotApplicable(_LINEAR)
        moduli = [self.table[kind] for kind in self._kinds_taken] if run.constant else self.table
        if any(isinstance(m, Unbounded) for m in moduli):
            raise NotApplicable(
                f"nothing is known of how far a {run.loss.kind} loss's steps stretch"
            )
        # Dissipativity may leave a slope that curvature alone does not give.
        if all(isinstance(m, Linear) for m in moduli) and run.loss.slopes_say_all:
            raise NotApplicable(_LINEAR)

    def _have_least_slopes(self) -> bool:
        """Whether every step of a schedule that varies has a slope of at most 1 − ηλ, and all else that is
        known of it is no less: its modulus is linear then, and need not be written down."""
        run = self.run
        parts = [f for f in (*self.fractions.full, *self.fractions.last, *self.idle) if f]
        sizes = np.unique(run.step_size)
        for some in (sizes[-1:], sizes):  # the longest step tells most of those that have none
            least = [fraction_up(1 - Fraction(x) * Fraction(run.loss.l2)) for x in some.tolist()]
            try:
                slopes = [run.loss.slopes(some, run.clip_norm, f, run.clipping) for f in parts]
            except NotApplicable:
                return False
            if not all((own <= least).all() for own in slopes):
                return False
        return run.loss.slopes_say_all

    @property
    def _kinds_taken(self) -> list[int]:
        run = self.run
        period = run.steps_per_epoch
        kinds = [_FULL] if period > 1 or self._alike else []
        kinds += [_LAST] if not self._alike and run.data_steps >= period else []
        return kinds + ([_COOL] if run.cooldown_steps else [])

    @property
    def alike(self) -> bool:
        """Whether the schedule is constant and all steps have one modulus."""
        return self.run.constant and len({self.table[kind] for kind in self._kinds_taken}) == 1

    @cached_property
    def above_data_steps(self) -> Modulus:
        """For a constant schedule: a modulus above those of all steps with data."""
        return _above([self.table[kind] for kind in self._kinds_taken if kind != _COOL])

    def _modulus(self, step: float, kind: int) -> Modulus:
        run = self.run
        fractions = {_FULL: self.fractions.full, _LAST: self.fractions.last, _COOL: self.idle}[kind]
        return _above([run.loss.modulus(step, run.clip_norm, f, run.clipping) for f in fractions])

    @cached_property
    def table(self) -> list[Modulus]:
        """The moduli of a full batch, a last one and the cool-down; all there are if the schedule varies."""
        if self.run.constant:
            return [self._modulus(self.run.step_size, kind) for kind in (_FULL, _LAST, _COOL)]
        return self._written[0]

    @cached_property
    def _written(self) -> tuple[list[Modulus], NDArray[np.intp]]:
        """(distinct moduli, which of them each step has) of a schedule that varies."""
        run, places = self.run, {}
        sizes = np.broadcast_to(np.asarray(run.step_size, dtype=np.float64), run.steps).tolist()
        which = np.empty(run.steps, dtype=np.intp)
        table: list[Modulus] = []
        for k, (step, kind) in enumerate(
            zip(sizes, self._kind(0, run.steps).tolist(), strict=True)
        ):
            if (step, kind) not in places:
                places[step, kind] = len(table)
                table.append(self._modulus(step, kind))
            which[k] = places[step, kind]
        return table, which

    def _kind(self, first: int, end: int) -> NDArray[np.intp]:
        k = np.arange(first, end)
        kind = np.full(k.size, _FULL, dtype=np.intp)
        if not self._alike:
            period = self.run.steps_per_epoch
            kind[k % period == period - 1] = _LAST
        kind[k >= self.run.data_steps] = _COOL
        return kind

    def _which(self, first: int, end: int) -> NDArray[np.intp]:
        return self._kind(first, end) if self.run.constant else self._written[1][first:end]

    @cached_property
    def _columns(self) -> Shapes:
        return shapes(self.table)

    def shapes(self, first: int, end: int) -> Shapes:
        """The moduli of the steps `first`, …, `end` − 1, counted from 0."""
        which, columns = self._which(first, end), self._columns
        return Shapes(columns.slope[:, which], columns.root[:, which], columns.shift[:, which])


def _above(moduli: list[Modulus]) -> Modulus:
    """A modulus above all there are."""
    return reduce(above_both, moduli)

"""Shifted interpolation where a step's modulus is more than a slope.

Steps on nonsmooth, weakly smooth, dissipative, nonconvex or clipped losses may push two near points apart
and still keep far ones together: their moduli ω are not linear. The interpolation is that of
`shifted_interpolation`, the shifts are those of `pabi.shifts.nonlinear`.

Which record is worst (docs, "The worst record"): if all steps are alike, the one used last, for any modulus.
Otherwise every position is solved; or, where that is too much, steps that differ because an epoch's last
batch is short are taken to be alike, with a modulus above both, and cool-down steps are left out.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pabi.analyses.secret_order import Case, shuffled_once
from pabi.analyses.shifted_interpolation import require_hidden_path
from pabi.assumptions import noisy_iteration, noisy_sgd
from pabi.errors import NotApplicable
from pabi.guarantee import Guarantee
from pabi.iteration import NoisyIteration
from pabi.moduli import Linear, Modulus, Unbounded
from pabi.positions import Uses, View, check_position
from pabi.rounding import Array, fraction_up
from pabi.runs import NoisySGD
from pabi.shifts.nonlinear import MOST_STEPS, Payments, solve
from pabi.shifts.records import mu_of
from pabi.shifts.shapes import Shapes, shapes
from pabi.step_moduli import StepModuli
from pabi.tradeoff import Gaussian, TradeOff, average

NAME = "nonlinear shifts"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, for any modulus (docs, Shifts imply GDP); Bravo, Flores-Mella, "
    "Guzmán, Thm 3.4"
)

_LAST_STEPS = 200_000  # that are looked at, where a diameter bounds what came before
_WORK = 300_000  # positions times steps up to which every position is solved
_BUCKETS = 12  # of positions under a secret order


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate for the worst record or for those of one batch, or, under a secret
    permutation, on average."""
    if isinstance(description, NoisyIteration):
        return _iteration(description)
    require_hidden_path(description)
    if description.batches.sampled:
        raise NotApplicable(
            "batches are drawn afresh at every step: see the one- and two-sided shifts"
        )
    if description.batches.kind == "reshuffle":
        raise NotApplicable(
            "with steps that can expand, an earlier use can be worse than a later one"
        )
    return _run(description, position)


class Solved(NamedTuple):
    """The proven μ of a record with these uses, and the payments that prove it (None: never used)."""

    uses: Uses
    mu: float
    payments: Payments | None


def _run(run: NoisySGD, position: int | None) -> Guarantee:
    from pabi.certificate import of_nonlinear_run

    records = _Records(run, position)
    cases: list[Case] | None = None
    curve: TradeOff
    if run.batches.kind == "shuffle_once":
        cases = shuffled_once(records.view, records.alike, _BUCKETS)
        solved = [records.solved(case.uses) for case in cases]
        curve = average([x.mu for x in solved], [fraction_up(case.weight) for case in cases])
    else:
        solved = [records.solved(records.view.uses(j)) for j in records.positions]
        curve = Gaussian(max(x.mu for x in solved))
    return Guarantee(
        curve,
        run.adjacency,
        NAME,
        SOURCE,
        noisy_sgd(run, position=position),
        _prove=lambda: of_nonlinear_run(run, NAME, curve, records.alike, solved, cases, position),
    )


class _Records:
    """The records of a run, each by its uses. `alike`: whether all steps are taken to be alike, so that a
    record used later is never safer; cool-down steps are left out then."""

    def __init__(self, run: NoisySGD, position: int | None) -> None:
        self.run, self.view, self.moduli = run, View(run), StepModuli(run)
        period, work = self.view.period, self.view.period * run.steps
        unlike = not self.moduli.alike
        self.alike = position is None and run.constant and (work > _WORK or not unlike)
        if position is not None:
            self.positions = [check_position(run, position)]
        elif self.alike:
            self.positions = [self.view.last_position]
        elif work <= _WORK:
            self.positions = list(range(period))
        else:
            raise NotApplicable(f"any of {period} positions can be the worst: too many to solve")
        self.end = run.data_steps if self.alike else run.steps
        bounded = math.isfinite(run.range_diameter)
        self.begin = max(0, self.end - _LAST_STEPS) if bounded else 0
        if self.end - self.begin > MOST_STEPS:
            raise NotApplicable(f"more than {MOST_STEPS} steps, and no diameter")
        if self.alike and isinstance(self.moduli.above_data_steps, Unbounded):
            raise NotApplicable(
                "the last batch of an epoch is short, and nothing covers both lengths"
            )

    @cached_property
    def _shape(self) -> Shapes:
        if not self.alike:
            return self.moduli.shapes(self.begin, self.end)
        one = shapes([self.moduli.above_data_steps])
        which = np.zeros(self.end - self.begin, dtype=np.intp)
        return Shapes(one.slope[:, which], one.root[:, which], one.shift[:, which])

    @cached_property
    def _steps(self) -> tuple[Array, Array]:
        """(s of a step that uses the record, σ)."""
        return self.run.step_constants(*self.run.schedule(self.begin, self.end))

    def solved(self, uses: Uses) -> Solved:
        """The bound for a record with these uses."""
        used = uses.steps(self.view.period)
        used = used[(used >= self.begin) & (used < self.end)] - self.begin
        if not uses.total:
            return Solved(uses, 0.0, None)
        every, sigma = self._steps
        s = np.zeros_like(every)
        s[used] = every[used]
        diameter = self.run.range_diameter
        start = diameter if self.begin else 0.0
        payments = solve(self._shape, s, sigma, diameter, start)
        payments = payments._replace(first=payments.first + self.begin)
        return Solved(uses, mu_of(payments.square), payments)


def _iteration(iteration: NoisyIteration) -> Guarantee:
    from pabi.certificate import of_nonlinear_iteration

    moduli, steps = iteration.moduli, iteration.steps
    assert steps is not None
    distinct = [moduli] if isinstance(moduli, Modulus) else list(moduli or ())
    if all(isinstance(m, Linear) for m in distinct):
        raise NotApplicable("every modulus is linear: see shifted interpolation")
    if all(isinstance(m, Unbounded) for m in distinct):
        raise NotApplicable("nothing is known of how far the steps stretch")
    if steps > MOST_STEPS:
        raise NotApplicable(f"more than {MOST_STEPS} steps, whose moduli are not linear")
    every = distinct * steps if isinstance(moduli, Modulus) else distinct
    s, sigma = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), steps)
        for x in (iteration.step_sensitivity, iteration.step_noise_std)
    )
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    payments = solve(shapes(every), s, sigma, diameter, iteration.start)
    mu = mu_of(payments.square)
    return Guarantee(
        Gaussian(mu),
        iteration.adjacency,
        NAME,
        SOURCE,
        noisy_iteration(iteration),
        _prove=lambda: of_nonlinear_iteration(iteration, NAME, mu, payments),
    )

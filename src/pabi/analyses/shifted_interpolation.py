"""Shifted interpolation: pay for what the last iterate still remembers.

The two runs are joined by a third that starts on the second and is shifted, step by step, onto the
first; only the shifts cost, and a contraction forgets (Bok, Su, Altschuler 2024, Thm C.3, here with the
optimal shifts of `pabi.shifts`). With a secret order of batches this is the bound for a record whose
place the attacker knows.
"""

from __future__ import annotations

import math

import numpy as np

from pabi.assumptions import noisy_iteration, noisy_sgd
from pabi.errors import NotApplicable
from pabi.guarantee import Guarantee
from pabi.iteration import Groups, NoisyIteration
from pabi.positions import View, check_position
from pabi.runs import NoisySGD
from pabi.shifts.records import Record, cyclic, energy_of, mu_of, record, solve_schedule
from pabi.tradeoff import Gaussian

NAME = "shifted interpolation"
MOST_SOLVED = 100_000  # positions solved one by one
SOURCE = "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate for the worst record, or for those of one batch."""
    if isinstance(description, NoisyIteration):
        return _iteration(description)
    return _run(description, position)


def require_hidden_path(run: NoisySGD) -> None:
    """NotApplicable unless only the last iterate of plain noisy SGD is released."""
    if run.release != "last":
        raise NotApplicable("the path is released, so nothing is forgotten")
    if run.update != "sgd":
        raise NotApplicable("the update is not plain noisy SGD, so no modulus is known")


def _run(run: NoisySGD, position: int | None) -> Guarantee:
    from pabi.certificate import of_run

    require_hidden_path(run)
    if run.batches.sampled:
        raise NotApplicable(
            "batches are drawn afresh at every step: see the one- and two-sided shifts"
        )
    view = View(run)
    if position is not None:
        records = cyclic(view, [check_position(run, position)])
    elif run.batches.kind == "reshuffle":
        raise NotApplicable("a record's place changes every epoch: see secret order")
    elif view.later_is_worse:
        records = [record(view, view.uses(view.last_position))]
    elif view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    else:
        records = cyclic(view)
    mu = max(r.mu for r in records)
    curve, said = Gaussian(mu), noisy_sgd(run, position=position)

    def prove_records() -> list[tuple[Record, None]]:
        return [(r, None) for r in records]

    return Guarantee(
        curve,
        run.adjacency,
        NAME,
        SOURCE,
        said,
        _prove=lambda: of_run(run, NAME, curve, prove_records(), position=position),
    )


def _iteration(iteration: NoisyIteration) -> Guarantee:
    from pabi.certificate import of_iteration

    schedule = iteration.schedule
    slopes = (
        np.array([x.c for _, x in schedule.stretches()])
        if isinstance(schedule, Groups)
        else schedule.c
    )
    if np.isnan(slopes).any():
        raise NotApplicable("a step's modulus is not linear")
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    schedule, shifts = solve_schedule(schedule, diameter, iteration.start)
    mu, said = mu_of(energy_of(shifts)), noisy_iteration(iteration)
    return Guarantee(
        Gaussian(mu),
        iteration.adjacency,
        NAME,
        SOURCE,
        said,
        _prove=lambda: of_iteration(iteration, NAME, mu, schedule, shifts),
    )

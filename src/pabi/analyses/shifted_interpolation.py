"""Shifted interpolation: pay for what the last iterate still remembers.

The two runs are joined by a third that starts on the second and is shifted, step by step, onto the
first; only the shifts cost, and a contraction forgets (Bok, Su, Altschuler 2024, Thm C.3, here with the
optimal shifts of `pabi.shifts`). With a secret order of batches this is the bound for a record whose
place the attacker knows.
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from pabi.analyses.writing import IterationProof, RunProof
from pabi.describe.iteration import Groups, NoisyIteration, sentences_of
from pabi.describe.orders import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.runs import NoisySGD, run_sentences
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView, check_position
from pabi.numbers.errors import NotApplicable
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


def run_of(description: NoisySGD | NoisyIteration) -> NoisySGD:
    """The description, if it is a run of noisy SGD; NotApplicable for a bare iteration."""
    if isinstance(description, NoisyIteration):
        raise NotApplicable("a bare iteration follows one record")
    return description


def require_hidden_path(run: NoisySGD) -> None:
    """NotApplicable unless only the last iterate of plain noisy SGD is released."""
    if run.release != "last":
        raise NotApplicable("the path is released, so nothing is forgotten")
    if not run.rule.plain:
        raise NotApplicable("the update is not plain noisy SGD, so no modulus is known")


def _run(run: NoisySGD, position: int | None) -> Guarantee:
    require_hidden_path(run)
    order, view = run.order, OrderedView(run)
    match order:
        case KnownUses():
            records = _worst(view, position)
        case SecretOrder():
            records = _of_any_place(view, order)
        case FreshSubsets():
            raise NotApplicable(
                "batches are drawn afresh at every step: see the one- and two-sided shifts"
            )
        case _:
            assert_never(order)
    curve, sentences = Gaussian(max(r.mu for r in records)), run_sentences(run, position=position)
    proof = RunProof(NAME, run, curve, [(r, None) for r in records], position, view=view)
    return Guarantee(curve, run.adjacency, NAME, SOURCE, sentences, proof=proof, unit=run.unit)


def _of_any_place(view: OrderedView, order: SecretOrder) -> list[Record]:
    """The records that can be the worst for an attacker who knows every record's place."""
    if not order.once:
        raise NotApplicable("a record's place changes every epoch: see secret order")
    match order.sizes:
        case FixedSizes():
            return _worst(view, None)
        case RandomSizes():
            raise NotApplicable("how many records a batch has is random: see secret order")
        case _:
            assert_never(order.sizes)


def _worst(view: OrderedView, position: int | None) -> list[Record]:
    """The records of one batch, or all that can be the worst."""
    if position is not None:
        return cyclic(view, [check_position(view.run, position)])
    if view.later_is_worse:
        return [record(view, view.uses(view.last_position))]
    if view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    return cyclic(view)


def _iteration(iteration: NoisyIteration) -> Guarantee:
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
    mu, sentences = mu_of(energy_of(shifts)), sentences_of(iteration)
    proof = IterationProof(NAME, iteration, mu, (schedule, shifts))
    return Guarantee(
        Gaussian(mu), iteration.adjacency, NAME, SOURCE, sentences, proof=proof, unit=iteration.unit
    )

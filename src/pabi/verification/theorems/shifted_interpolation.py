"""Shifted interpolation: payments under linear slopes, for the record that is worst off."""

from __future__ import annotations

import math
from typing import Any, assert_never

import numpy as np
from flint import arb

from pabi.verification.arithmetic import Refused, groups, integer, mu_of, raised
from pabi.verification.cases import (
    PAYMENT_KEYS,
    LinearCases,
    blocks_cost,
    check_same_steps,
    check_start,
    demands_within,
    flat,
    of_cases,
    read_blocks,
    without,
)
from pabi.verification.factors.closed_forms import Part
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.places import worst_position
from pabi.verification.replay import Claim, Replay, RoundedSteps, payments_of
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.subjects import (
    KEYS,
    Iteration,
    claims_some,
    named_with_cells,
    proven_of_iteration,
    written_out,
)
from pabi.verification.theorem import Payload, ProofCheck, Proven
from pabi.verification.theorems.mechanisms import LAST_POINT

OPTIMAL = "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts"
SOURCE = f"{OPTIMAL} (docs, Theory, 3, Theorem 1)"


def _ordered(run: OrderedRun, payload: Payload) -> list[Part]:
    """One case, or one for every position that could be the worst."""
    match run.scheme:
        case KnownPositions() | SecretOnce():
            check, later = LinearCases(run, payload), run.position is None and run.later_is_worse
            return worst_position(run, payload["cases"], check, later_is_worse=later)
        case SecretEveryEpoch():
            raise Refused("theorem: a record's place changes every epoch")
        case _:
            assert_never(run.scheme)


def _iteration(iteration: Iteration, payload: Payload) -> Proven:
    some = claims_some(payload, cases=1, case=PAYMENT_KEYS, steps=("c", "s", "sigma"))
    mu = mu_of(_cost(iteration, payload, payload["cases"][0])) if some else math.inf
    return proven_of_iteration(iteration, mu if "claim" in payload else raised(mu), hidden=True)


def _cost(iteration: Iteration, payload: Payload, case: dict[str, Any]) -> Any:
    """What the payments of `case` for the stated steps cost, a ball."""
    distance = check_start(case, iteration.diameter, iteration.start)
    if "blocks" not in case:
        steps = RoundedSteps(*written_out(payload))
        every = np.arange(len(steps.c))
        paid = payments_of(case, distance, every, steps.s, len(every))
        return Replay(steps).costs([Claim(paid)])[0]
    blocks = read_blocks(case)
    skipped, stated = integer("skipped", case["skipped"]), groups(payload["groups"])
    if case["tau"] not in (0, skipped):
        raise Refused(f"step {skipped + 1}: tau: expected the steps left out, or 0")
    if case["tau"] == 0 and skipped and (iteration.start > 0.0 or demands_within(stated, skipped)):
        raise Refused(f"step {skipped}: skipped: steps with something to pay are left out")
    check_same_steps(list(flat(blocks)), list(without(stated, skipped)))
    return blocks_cost(blocks, arb(distance), skipped)


THEOREMS = {
    "shifted interpolation": {
        **of_cases("shifted interpolation", SOURCE, _ordered, "steps"),
        Iteration: ProofCheck(
            KEYS, _iteration, named_with_cells("shifted interpolation", SOURCE, LAST_POINT)
        ),
    }
}

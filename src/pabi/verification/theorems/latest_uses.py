"""Latest uses: a place that changes every epoch, whatever the steps do, each use at the end of its range.

A use at step i is no worse than one at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of
step k (docs, "The worst record", rule (ii)). So one at the end of a range stands for a use anywhere in
it, if it has the largest of these numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, assert_never

from flint import arb

from pabi.verification.cases import CaseCheck, every_pair, of_cases, read_range, replay_case
from pabi.verification.factors.gaussians import Part
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun, UseSteps
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload
from pabi.verification.theorems.shifted_interpolation import SOURCE


def _ordered(run: OrderedRun, payload: Payload) -> list[Part]:
    match run.scheme:
        case SecretEveryEpoch():
            check, cases = _Latest(run), every_pair(run, payload["cases"])
            return [(weight, check(case, uses)) for case, weight, uses in cases]
        case KnownPositions() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)


class _Latest(CaseCheck):
    """Payments written out, for uses as large as they have to be."""

    def __init__(self, run: OrderedRun) -> None:
        super().__init__(run)
        self.steps, self.epochs = run.steps, -(-run.data // run.period)
        self.standing, last = cache(run.standing), run.period - 1
        begins = range(0, (self.epochs - 2) * run.period, run.period)
        self.older = {first + last: run.standing(first, first + last) for first in begins}

    def cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        """Σ (a_k/σ_k)² of the payments, for uses at the ends of the ranges that the case states."""
        run, own = self.run, dict(self.older)
        for epoch, covered in enumerate(map(read_range, case["ranges"]), self.epochs - 2):
            if covered is not None:
                first, last = (epoch * run.period + where for where in covered)
                own[last] = self.standing(first, last)
        demands = [own.get(k, arb(0)) for k in range(run.total)]
        return replay_case(case, self.steps._replace(s=demands), distance)


_NAMED = f"{SOURCE}, averaged over the record's last two positions (docs, The worst record)"
THEOREMS = {"latest uses": of_cases("latest uses", _NAMED, _ordered)}

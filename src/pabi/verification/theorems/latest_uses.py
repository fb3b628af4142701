"""Latest uses: a place that changes every epoch, whatever the steps do, each use at the end of its range.

A use at step i is no worse than one at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of
step k (docs, "The worst record", rule (ii)). So one at the end of a range stands for a use anywhere in
it, if it has the largest of these numbers.
"""

from __future__ import annotations

from typing import Any, assert_never

from flint import arb

from pabi.verification.cases import CaseCheck, every_pair, proven_by, read_range, replay_case
from pabi.verification.chains import of_runs
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun, UseSteps
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.shifted_interpolation import SOURCE


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=True)
    match run.scheme:
        case SecretEveryEpoch():
            check = _Latest(run)
            parts = [
                (weight, check(case, uses))
                for case, weight, uses in every_pair(run, payload["cases"])
            ]
        case KnownPositions() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)
    return Proven(assumptions, proven_by(run, parts))


class _Latest(CaseCheck):
    """Payments written out, for uses as large as they have to be."""

    def __init__(self, run: OrderedRun) -> None:
        super().__init__(run)
        self.steps, self.epochs = run.steps, -(-run.data // run.period)
        last = run.period - 1
        self.older = {
            e * run.period + last: self._standing(e, 0, last) for e in range(self.epochs - 2)
        }
        self.largest: dict[tuple[int, int, int], Any] = {}

    def cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        """Σ (a_k/σ_k)² of the payments, for uses at the ends of the ranges that the case states."""
        run, own = self.run, dict(self.older)
        for epoch, covered in zip((self.epochs - 2, self.epochs - 1), case["ranges"], strict=True):
            where = read_range(covered)
            if where is not None:
                key = epoch, *where
                if key not in self.largest:
                    self.largest[key] = self._standing(*key)
                own[epoch * run.period + where[1]] = self.largest[key]
        demands = [own.get(k, arb(0)) for k in range(run.total)]
        return replay_case(case, self.steps._replace(s=demands), distance)

    def _standing(self, epoch: int, a: int, b: int) -> Any:
        """The sensitivity at position b of the epoch that stands for a use at any of a..b."""
        first = epoch * self.run.period
        return self.run.standing(first + a, first + b)


THEOREMS = {
    "latest uses": of_runs(
        ordered=ProofCheck(
            ("run", "claim", "position", "cases"),
            _ordered,
            named(
                "latest uses",
                f"{SOURCE}, averaged over the record's last two positions (docs, The worst record)",
            ),
        )
    )
}

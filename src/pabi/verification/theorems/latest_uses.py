"""Latest uses: a place that changes every epoch, whatever the steps do, each use at the end of its range.

A use at step i is no worse than one at step j > i of the sensitivity s_i·Λ_{i+1}⋯Λ_j, Λ_k the slope of
step k (docs, "The worst record", rule (ii)). So one at the end of a range stands for a use anywhere in
it, if it has the largest of these numbers.
"""

from __future__ import annotations

from typing import Any, assert_never

from flint import arb

from pabi.verification.arithmetic import Steps, check_cost
from pabi.verification.cases import CASE, every_pair, proven_by, read_range
from pabi.verification.chains import of_runs
from pabi.verification.factors.gaussians import read_mu
from pabi.verification.limits import in_time, timed
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.payments import KEYS, check_start, replay_case
from pabi.verification.reading import closed
from pabi.verification.refusal import Refused
from pabi.verification.schemes import KnownUses, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, Proof, Proven, named
from pabi.verification.theorems.shifted_interpolation import SOURCE
from pabi.verification.uses import Uses, check_uses


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    said = run.said(hidden=True)
    match run.scheme:
        case SecretEveryEpoch():
            check = _Latest(run)
            parts = [
                (weight, check(case, uses))
                for case, weight, uses in every_pair(run, payload["cases"])
            ]
        case KnownUses() | SecretOnce():
            raise Refused("theorem: it is about places that change every epoch")
        case _:
            assert_never(run.scheme)
    return Proven(said, proven_by(run, parts))


class _Latest:
    """Checks the payments of one case after another, with uses as large as they have to be."""

    def __init__(self, run: OrderedRun) -> None:
        self.run, self.epochs = run, -(-run.data // run.period)
        self.slopes = [arb(c) for c in timed(run.slopes)]
        self.sigmas = [arb(run.sigma(k)) for k in timed(range(run.total))]
        self.s = [arb(s) for s in timed(run.sensitivities)]
        last = run.period - 1
        self.older = {
            e * run.period + last: self._standing(e, 0, last) for e in range(self.epochs - 2)
        }
        self.known: dict[tuple[int, int, int], Any] = {}

    def __call__(self, case: dict[str, Any], uses: Uses) -> float:
        """The μ of the case, if its payments prove it."""
        in_time()
        closed("a case", case, (*CASE, *KEYS))
        check_uses(case, uses)
        mu, run = read_mu(case["mu"]), self.run
        if uses.total == 0 or mu == float("inf"):
            return mu
        own = dict(self.older)
        for epoch, covered in zip((self.epochs - 2, self.epochs - 1), case["ranges"], strict=True):
            where = read_range(covered)
            if where is not None:
                key = epoch, *where
                if key not in self.known:
                    self.known[key] = self._standing(*key)
                own[epoch * run.period + where[1]] = self.known[key]
        demands = [own.get(k, arb(0)) for k in range(run.total)]
        distance = arb(check_start(case, run.diameter, 0.0))
        cost = replay_case(case, Steps(self.slopes, demands, self.sigmas), distance)
        check_cost(cost, mu, f"step {run.total}")
        return mu

    def _standing(self, epoch: int, a: int, b: int) -> Any:
        """The sensitivity at position b of the epoch that stands for a use at any of a..b."""
        first, largest, stretched = epoch * self.run.period, arb(0), arb(1)
        for k in timed(range(first + b, first + a - 1, -1)):
            largest = largest.max(self.s[k] * stretched)
            stretched *= self.slopes[k]
        return largest


THEOREMS = {
    "latest uses": of_runs(
        ordered=Proof(
            ("run", "claim", "position", "cases"),
            _ordered,
            named(
                "latest uses",
                f"{SOURCE}, averaged over the record's last two positions (docs, The worst record)",
            ),
        )
    )
}

"""Secret order: payments under linear slopes for every position that a record may be at, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from pabi.verification.cases import LinearCases, every_pair, every_position, proven_by
from pabi.verification.chains import of_runs
from pabi.verification.factors.gaussians import Part
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.shifted_interpolation import SOURCE


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=True)
    check, cases = LinearCases(run, payload), payload["cases"]
    match run.scheme:
        case SecretOnce():
            parts = every_position(run, cases, check, later_is_worse=None)
        case SecretEveryEpoch():
            parts = _every_pair(run, cases, check)
        case KnownPositions():
            raise Refused("theorem: the order of the batches is not secret")
        case _:
            assert_never(run.scheme)
    return Proven(assumptions, proven_by(run, parts))


def _every_pair(run: OrderedRun, cases: Sequence[Any], check: LinearCases) -> list[Part]:
    if not (run.nonexpansive() and run.later_is_worse):
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    return [(weight, check(case, uses)) for case, weight, uses in every_pair(run, cases)]


THEOREMS = {
    "secret order": of_runs(
        ordered=ProofCheck(
            ("run", "claim", "position", "cases", "steps"),
            _ordered,
            named("secret order", f"{SOURCE}, averaged over the record's position"),
        )
    )
}

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
    return Proven(assumptions, proven_by(run, averaged(run, payload)))


def averaged(run: OrderedRun, payload: Payload) -> list[Part]:
    """What is proven of a place that is secret, for all that it may be."""
    check, cases = LinearCases(run, payload), payload["cases"]
    match run.scheme:
        case SecretOnce():
            return every_position(run, cases, check)
        case SecretEveryEpoch():
            return _every_pair(run, cases, check)
        case KnownPositions():
            raise Refused("theorem: the order of the batches is not secret")
        case _:
            assert_never(run.scheme)


def _every_pair(run: OrderedRun, cases: Sequence[Any], check: LinearCases) -> list[Part]:
    if not run.moves_later():
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

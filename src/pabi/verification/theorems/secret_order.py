"""Secret order: payments under linear slopes for every position that a record may be at, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from pabi.verification.cases import LinearCases, every_pair, every_position, of_cases
from pabi.verification.factors.gaussians import Part
from pabi.verification.limits import Refused
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload
from pabi.verification.theorems.shifted_interpolation import SOURCE


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


_SOURCE = f"{SOURCE}, averaged over the record's position"
THEOREMS = {"secret order": of_cases("secret order", _SOURCE, averaged, "steps")}

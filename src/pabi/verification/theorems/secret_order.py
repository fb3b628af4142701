"""Secret order: payments under linear slopes for every position that a record may be at, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from flint import fmpq

from pabi.verification.arithmetic import fraction_of
from pabi.verification.cases import (
    LinearCases,
    Range,
    check_weight,
    every_position,
    proven_by,
    read_range,
)
from pabi.verification.chains import of_runs
from pabi.verification.factors.gaussians import Part
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.refusal import Refused
from pabi.verification.schemes import KnownUses, SecretEveryEpoch, SecretOnce
from pabi.verification.theorem import Payload, Proof, Proven, named
from pabi.verification.theorems.shifted_interpolation import SOURCE
from pabi.verification.uses import Uses


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    said = run.said(hidden=True)
    check, cases = LinearCases(run, payload), payload["cases"]
    match run.scheme:
        case SecretOnce():
            parts = every_position(run, cases, check, later_is_worse=None)
        case SecretEveryEpoch():
            parts = _every_pair(run, cases, check)
        case KnownUses():
            raise Refused("theorem: the order of the batches is not secret")
        case _:
            assert_never(run.scheme)
    return Proven(said, proven_by(run, parts))


def _every_pair(run: OrderedRun, cases: Sequence[Any], check: LinearCases) -> list[Part]:
    """Every pair of positions in the last two epochs, older uses at the end of their epochs."""
    if not (run.nonexpansive() and run.later_is_worse):
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    period, data = run.period, run.data
    epochs, length = -(-data // period), data % period or period
    before = sorted({read_range(case["ranges"][0]) for case in cases}, key=str)
    last = sorted({read_range(case["ranges"][1]) for case in cases}, key=str)
    _check_partition(before, period if epochs > 1 else 0, period)
    _check_partition(last, length, period)
    seen = set()
    proven = []
    for case in cases:
        pair = tuple(read_range(r) for r in case["ranges"])
        if pair in seen:
            raise Refused(f"ranges: {pair} comes twice")
        seen.add(pair)
        weight, then = fmpq(1), []
        for epoch, where, covered in (
            (epochs - 2, pair[0], period if epochs > 1 else 0),
            (epochs - 1, pair[1], length),
        ):
            if where is None:
                weight *= run.share(covered, period - 1)
            else:
                weight *= run.share(*where)
                then.append(epoch * period + where[1])
        uses = Uses(period - 1, max(0, epochs - 2), period=period, then=then)
        check_weight(case, fraction_of(weight))
        proven.append((fraction_of(weight), check(case, uses)))
    if len(seen) != len(before) * len(last):
        raise Refused("ranges: some pairs are missing")
    return proven


def _check_partition(ranges: Sequence[Range], length: int, period: int) -> None:
    """Refuse unless the ranges cut 0..length−1, and None stands for the rest of the epoch."""
    following = 0
    for a, b in sorted(r for r in ranges if r is not None):
        if a != following or b < a:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        following = b + 1
    if following != length or (None in ranges) != (length < period):
        raise Refused(f"ranges: expected 0..{length - 1} to be covered")


THEOREMS = {
    "secret order": of_runs(
        ordered=Proof(
            ("run", "claim", "position", "cases", "steps"),
            _ordered,
            named("secret order", f"{SOURCE}, averaged over the record's position"),
        )
    )
}

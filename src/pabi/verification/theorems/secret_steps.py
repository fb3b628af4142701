"""Secret steps: every iterate is released, and nobody knows in which of the batches the record is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, assert_never

import numpy as np
from flint import fmpq

from pabi.describe.batches import BallsInBins
from pabi.verification.allocations import Allocation, LabelGroup
from pabi.verification.arithmetic import Refused, closed, fraction_of, positions, root_up, timed
from pabi.verification.bounds import JointBound
from pabi.verification.factors import Factor
from pabi.verification.factors.closed_forms import Failure, Gaussians
from pabi.verification.factors.mixtures import Allocations
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce, binomial_tail
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven

_BINS, _SHUFFLED = (f"docs, Theory, 6.3 (Theorem {number})" for number in (53, 54))
_COMPOSED = "Dong, Roth, Su 2022, Cor. 3.3"

Label = tuple[Fraction, Any]  # its probability, and Σ (s_k/σ_k)² of its steps


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    closed("the plan", payload["plan"], ())
    assumptions = run.assumptions(hidden=False)
    match run.neighbours:
        case "zero_out":
            opposite = False
        case "replace_one":
            opposite = True
            if run.run.gradient_sensitivity is not None:
                raise Refused("gradient_sensitivity: it does not say what one record moves")
        case _:
            assert_never(run.neighbours)
    displaces = type(run.run.batches) is not BallsInBins
    if displaces and run.run.gradient_sensitivity is not None:
        raise Refused("gradient_sensitivity: it says nothing of the records that are displaced")
    alone = OrderedRun(replace(run.run, adjacency="zero_out"), run.scheme)
    factors = [
        _factor(labels, times, opposite, displaces) for labels, times in _drawn(alone) if labels
    ]
    return Proven(assumptions, (JointBound.of(*factors, Failure(_above_cap(run))),))


def _factor(labels: Counter[Label], times: int, opposite: bool, displaces: bool) -> Factor:
    """What is revealed of a place that is drawn so many times. Where the record takes the place of another
    and none is left out, the place is taken to be seen."""
    if displaces and sum(share * n for (share, _), n in labels.items()) == 1:
        largest = max(square for _, square in labels)
        return Gaussians.single(root_up(times * largest * (4 if opposite else 1)))
    groups = tuple(LabelGroup(share * n, root_up(x), n) for (share, x), n in labels.items())
    return Allocations((Allocation(groups, opposite, displaces, times),))


def _drawn(run: OrderedRun) -> list[tuple[Counter[Label], int]]:
    """(the labels of a place, how often it is drawn), each label with how many there are like it."""
    epochs, rest = divmod(run.data, run.period)
    match run.scheme:
        case SecretOnce():
            return [(_once(run, epochs, rest), 1)]
        case SecretEveryEpoch():
            pass
        case KnownPositions():
            raise Refused("theorem: everybody knows in which batch a record is")
        case _:
            assert_never(run.scheme)
    if not isinstance(run.noises, np.ndarray):
        one = run.privacy_loss(0)
        drawn = [(_labels(run, [one] * run.period), epochs)] if epochs else []
        return drawn + ([(_labels(run, [one] * rest), 1)] if rest else [])
    positions("steps", run.data)
    losses = [run.privacy_loss(k) for k in timed(range(run.data))]
    worst = [max(losses[a : a + run.period]) for a in range(0, run.data, run.period)]
    lengths = [run.period] * epochs + ([rest] if rest else [])
    return [
        (_labels(run, [x] * length), 1) for x, length in timed(zip(worst, lengths, strict=True))
    ]


def _once(run: OrderedRun, epochs: int, rest: int) -> Counter[Label]:
    used = run.period if epochs else rest
    if not isinstance(run.noises, np.ndarray):
        one = run.privacy_loss(0)
        return _labels(run, [one * (epochs + (j < rest)) for j in range(used)])
    positions("steps", run.data)
    losses = [run.privacy_loss(k) for k in timed(range(run.data))]
    return _labels(run, [sum(losses[j :: run.period], fmpq(0)) for j in range(used)])


def _labels(run: OrderedRun, squares: list[Any]) -> Counter[Label]:
    """The first batches of an epoch."""
    positions("batches", len(squares))
    return Counter(
        (fraction_of(run.scheme.share(j, j)), square) for j, square in timed(enumerate(squares))
    )


def _above_cap(run: OrderedRun) -> Fraction:
    """The probability that the record may bring a batch above the cap: that so many others are in one."""
    batches = run.run.batches
    cap = batches.cap if isinstance(batches, BallsInBins) else None
    if cap is None:
        return Fraction(0)
    bins = run.period if isinstance(run.scheme, SecretOnce) else run.data
    return min(Fraction(1), bins * binomial_tail(run.run.n, fmpq(1, run.period), cap - 1))


def _named(run: OrderedRun) -> tuple[Names, ...]:
    source = _BINS if type(run.run.batches) is BallsInBins else _SHUFFLED
    return tuple(Names("secret steps", text) for text in (source, f"{source}; {_COMPOSED}"))


THEOREMS = {
    "secret steps": of_runs(
        ordered=ProofCheck(("run", "claim", "position", "plan", "reading"), _ordered, _named)
    )
}

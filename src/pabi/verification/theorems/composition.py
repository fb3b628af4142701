"""Composition: every step is charged for what it reveals, Σ (s_k/σ_k)² over the uses of a record."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, assert_never

import numpy as np
from flint import arb, fmpq

from pabi.verification.arithmetic import check_cost, closed, columns, fraction_of, groups, root_up
from pabi.verification.bounds import JointBound
from pabi.verification.chains import of_runs
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.factors.gaussians import Gaussians, Part, read_mu
from pabi.verification.iterations import KEYS, claimed_mu, named_with_cells
from pabi.verification.iterations import proven as proven_of_iteration
from pabi.verification.limits import Refused, positions, timed
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.schemes import Exchange, KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.subjects import Iteration
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven, named
from pabi.verification.theorems.diffusions import PATH

_GAUSSIANS = "Dong, Roth, Su 2022, Cor. 3.3"
_REPLACED = f"{_GAUSSIANS}; docs, Random batches (Theorem 32a)"
_ZEROED = f"{_GAUSSIANS}; docs, Random batches (Theorem 40)"
_EXCHANGED = "Dong, Roth, Su 2022, Thm 4.2; Bok, Su, Altschuler 2024, Thm 4.8"


# Batches in an order.


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=False)
    if payload["cases"] != []:
        raise Refused("cases: composition has none")
    if "cap" in payload:
        raise Refused("cap: composition is about batches of any size")
    totals = totals_of(run, run.data)
    parts: list[Part]
    match run.scheme:
        case KnownPositions() | SecretEveryEpoch():
            mu = read_mu(payload["claim"]["mu"])
            check_cost(arb(max(total for total, _ in totals)), mu, "composition")
            parts = [(Fraction(1), mu)]
        case SecretOnce():
            parts = [(fraction_of(share), root_up(total)) for total, share in totals if share]
        case _:
            assert_never(run.scheme)
    return Proven(assumptions, (JointBound.of(Gaussians(tuple(parts))),))


def totals_of(run: OrderedRun, end: int) -> list[tuple[Any, Any]]:
    """(Σ (s_k/σ_k)² before step `end`, share of the records) for every position, equal ones together."""
    epochs, rest = divmod(end, run.period)
    if not isinstance(run.noises, np.ndarray):
        return _constant_totals(run, epochs, rest)
    positions("steps", end)
    losses = [run.privacy_loss(k) for k in timed(range(end))]
    if run.position is not None:
        return [(sum(timed(losses[run.position :: run.period]), fmpq(0)), fmpq(1))]
    match run.scheme:
        case SecretEveryEpoch():
            worst = (max(losses[a : a + run.period]) for a in range(0, end, run.period))
            return [(sum(timed(worst), fmpq(0)), fmpq(1))]
        case KnownPositions() | SecretOnce():
            used = min(run.period, end)
            totals = [
                (sum(timed(losses[j :: run.period]), fmpq(0)), run.share(j, j)) for j in range(used)
            ]
            if used < run.period:
                totals.append((fmpq(0), run.share(used, run.period - 1)))
            return totals
        case _:
            assert_never(run.scheme)


def _constant_totals(run: OrderedRun, epochs: int, rest: int) -> list[tuple[Any, Any]]:
    once, more = run.privacy_loss(0), 1 if rest else 0
    if run.position is not None:
        return [(once * (epochs + (1 if run.position < rest else 0)), fmpq(1))]
    match run.scheme:
        case SecretEveryEpoch():
            return [(once * (epochs + more), fmpq(1))]
        case KnownPositions() | SecretOnce():
            late = run.share(0, rest - 1) if rest else fmpq(1)
            return [(once * (epochs + more), late), (once * epochs, 1 - late)]
        case _:
            assert_never(run.scheme)


# Random batches.


def drawn(run: DrawnRun, payload: Payload) -> Proven:
    """One factor for every step with data, of what the record adds to the gradient sum over b·ς."""
    closed("the plan", payload["plan"], ())
    steps = [(0, run.data)]
    if isinstance(run.noises, np.ndarray):
        every = run.noises[np.minimum(np.arange(run.data), len(run.noises) - 1)]
        _, places, counts = np.unique(every, return_index=True, return_counts=True)
        steps = list(zip(places.tolist(), counts.tolist(), strict=True))
    positions("noises", len(steps))
    needed = [run.moved().over(run.size * run.noise(k), n) for k, n in steps]
    return Proven(run.assumptions(hidden=False), (run.bound(needed),))


def _named(run: DrawnRun) -> tuple[Names, ...]:
    """The method, and what it rests on; of two kinds of records also what older files say."""
    match run.exchange:
        case Exchange.PRESENCE:
            sources: tuple[str, ...] = (_GAUSSIANS,)
        case Exchange.EITHER:
            sources = _REPLACED, _EXCHANGED
        case Exchange.ZEROED:
            sources = _ZEROED, _EXCHANGED
        case Exchange.DISPLACED:
            sources = (_EXCHANGED,)
        case _:
            assert_never(run.exchange)
    return tuple(Names("composition", source) for source in sources)


# Steps as stated.


def _iteration(iteration: Iteration, payload: Payload) -> Proven:
    mu = claimed_mu(payload, cases=0, case=(), steps=("c", "s", "sigma"))
    if iteration.start > 0.0:
        raise Refused("start: composition needs equal starts")
    check_cost(_cost(payload), mu, "composition")
    return proven_of_iteration(iteration, mu, hidden=False)


def _cost(payload: Payload) -> Any:
    total = arb(0)
    if "groups" in payload:
        for times, stretches in groups(payload["groups"]):
            for n, _, s, sigma in stretches:
                total += times * n * _paid(s, sigma)
        return total
    s, sigma = columns(payload["steps"])[1:]
    positions("steps", len(s))
    for sensitivity, noise in timed(zip(s.tolist(), sigma.tolist(), strict=True)):
        total += _paid(sensitivity, noise)
    return total


def _paid(s: float, sigma: float) -> Any:
    if s == 0.0:
        return arb(0)
    if sigma == 0.0:
        return arb("inf")
    ratio = arb(s) / arb(sigma)
    return ratio * ratio


THEOREMS = {
    "composition": {
        **of_runs(
            ordered=ProofCheck(
                ("run", "claim", "position", "cases"), _ordered, named("composition", _GAUSSIANS)
            ),
            drawn=ProofCheck(
                ("run", "claim", "position", "plan", "reading"),
                drawn,
                _named,
            ),
        ),
        Iteration: ProofCheck(KEYS, _iteration, named_with_cells("composition", _GAUSSIANS, PATH)),
    }
}

"""Composition: pay for every noisy gradient as if it were published.

Each use of a record is a Gaussian mechanism with μ_k = s_k/σ_k, and they compose to
μ² = Σ (s_k/σ_k)² (Dong, Roth, Su 2022, Cor. 3.3). It needs no assumption on the loss and holds even if
every iterate is released.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.account.analyses.shifted_interpolation import DEFAULT_DELTA, product
from pabi.account.analyses.writing import IterationProof, RunProof, SampledProof
from pabi.account.facts.positions import check_position
from pabi.account.facts.sampled import SampledRun, every_step
from pabi.describe.batches import FreshSubsets, KnownUses, SecretOrder
from pabi.describe.iteration import Groups, NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.tradeoff import Gaussian, TradeOff, average
from pabi.verification.granting import COMPOSITION, Proposal

NAME = COMPOSITION


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of releasing every iterate."""
    if position is not None:
        check_position(run, position)
    order, end = run.order, run.data_steps
    curve: TradeOff
    match order:
        case FreshSubsets():
            return of_every_step(NAME, SampledRun(run, delta or DEFAULT_DELTA))
        case KnownUses():
            every = _by_place(run, end)
            spoken_of = [p.mu for p in every if position is None or p.first <= position <= p.last]
            curve = Gaussian(max(spoken_of))
        case SecretOrder():
            # A record may keep its place in the secret order: some are used once more than others, or never.
            curve = _by_own_place(run, order) if order.once else Gaussian(_redrawn(run, end))
        case _:
            assert_never(order)
    return RunProof(NAME, run, curve, position=position)


def _by_own_place(run: NoisySGD, order: SecretOrder) -> TradeOff:
    """What a record pays on average that keeps its place, or is in no batch at all."""
    every = _by_place(run, run.data_steps)
    mus, shares = [p.mu for p in every], [order.share(p.first, p.last) for p in every]
    if order.spare:
        mus, shares = [*mus, 0.0], [*shares, order.spare]
    return average(mus, [float(share) for share in shares])


def of_every_step(name: str, view: SampledRun) -> SampledProof:
    """The proof under random batches: one subsampled factor a step, with equal noises together."""
    sizes, counts = every_step(view.run, view.factor)
    pulls = sizes.times(float(view.demand.records))
    curve = product(0.0, [(pulls, counts)], view.probability, view.factor, 0.0)
    return SampledProof(name, view.description, curve)


def _root(total: float) -> float:
    return math.inf if math.isnan(total) else math.sqrt(total)


class Places(NamedTuple):
    """The positions `first`, …, `last` in the epoch, and the μ that a record in any of them pays."""

    mu: float
    first: int
    last: int


def worst(run: NoisySGD, end: int) -> float:
    """μ by step `end` of a record that pays most, whose place in every epoch may be any."""
    order = run.order
    if isinstance(order, SecretOrder) and not order.once:
        return _redrawn(run, end)
    return max(p.mu for p in _by_place(run, end))


def paid_once(run: NoisySGD, end: int) -> float | Array:
    """What one use costs: a number, or one for every step before `end`."""
    ratio, noise = run.sensitivity / run.batch_size, run.gradient_noise_std
    if isinstance(noise, np.ndarray):
        noise = noise[:end]
    return (ratio / noise) * (ratio / noise)


def _by_place(run: NoisySGD, end: int) -> list[Places]:
    """What a record pays before step `end` at every position of the epoch, equal positions together."""
    once, period = paid_once(run, end), run.steps_per_epoch
    epochs, rest = divmod(end, period)
    if not isinstance(once, np.ndarray):
        late = [Places(_root((epochs + 1) * once), 0, rest - 1)] if rest else []
        return [*late, Places(_root(epochs * once) if epochs else 0.0, rest, period - 1)]
    used = min(period, end)
    places = [Places(_root(_sum(once[j::period])), j, j) for j in range(used)]
    unused = [Places(0.0, used, period - 1)] if used < period else []
    return places + unused


def _redrawn(run: NoisySGD, end: int) -> float:
    """What a record pays at most that is used once an epoch anywhere: each epoch at its worst."""
    once, period = paid_once(run, end), run.steps_per_epoch
    if isinstance(once, np.ndarray):
        total = _sum(np.maximum.reduceat(once, np.arange(0, end, period)))
    else:
        total = -(-end // period) * once
    return _root(total)


def _sum(terms: Any) -> float:
    return float(np.sum(terms, dtype=np.longdouble))


def of_iteration(iteration: NoisyIteration, delta: float, position: int | None = None) -> Proposal:
    """The same of a bare iteration. Raises NotApplicable for runs that start apart."""
    if iteration.start > 0.0:
        raise NotApplicable("the runs start apart, which no noisy step has paid for")
    return IterationProof(NAME, iteration, Gaussian(_mu_of(iteration)))


def _mu_of(iteration: NoisyIteration) -> float:
    """√Σ (s_k/σ_k)² over the steps with s_k > 0; ∞ where one of them has no noise."""
    schedule = iteration.schedule
    if isinstance(schedule, Groups):
        stretches = [(n, x) for n, x in schedule.stretches() if x.s > 0.0]
        if any(x.sigma == 0.0 for _, x in stretches):
            return math.inf
        total = sum(n * (x.s / x.sigma) * (x.s / x.sigma) for n, x in stretches)
        return _root(total)
    used = schedule.s > 0.0
    s, sigma = schedule.s[used], schedule.sigma[used]
    if (sigma == 0.0).any():
        return math.inf
    return _root(_sum((s / sigma) * (s / sigma)))

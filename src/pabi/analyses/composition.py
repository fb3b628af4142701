"""Composition: pay for every noisy gradient as if it were published.

Each use of a record is a Gaussian mechanism with μ_k = s_k/σ_k, and they compose to
μ² = Σ (s_k/σ_k)² (Dong, Roth, Su 2022, Cor. 3.3). It needs no assumption on the loss and holds even if
every iterate is released.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from pabi.assumptions import noisy_iteration, noisy_sgd
from pabi.errors import NotApplicable
from pabi.guarantee import Guarantee
from pabi.iteration import Groups, NoisyIteration
from pabi.positions import check_position
from pabi.rounding import fraction_up, up
from pabi.runs import NoisySGD
from pabi.tradeoff import Gaussian, average

NAME = "composition"
SOURCE = "Dong, Roth, Su 2022, Cor. 3.3"


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of releasing every iterate."""
    if isinstance(description, NoisyIteration):
        return _iteration(description)
    return _run(description, position)


def _run(run: NoisySGD, position: int | None) -> Guarantee:
    from pabi.certificate import of_run

    totals = _totals(run)
    if position is not None:
        totals = totals[check_position(run, position)][None]
    if run.batches.kind == "shuffle_once":
        # A record keeps its place in the secret order: some are used once more than others.
        weights = [fraction_up(w) for w in position_weights(run)]
        mus = [_mu(x) for x in totals]
        curve = average(mus, weights)
    else:
        curve = Gaussian(_mu(float(totals.max())))
    said = noisy_sgd(run, hidden=False, position=position)
    return Guarantee(
        curve,
        run.adjacency,
        NAME,
        SOURCE,
        said,
        _prove=lambda: of_run(run, NAME, curve, position=position),
    )


def position_weights(run: NoisySGD) -> list[Fraction]:
    """The probability of each position of a batch in a secret order: |B_j|/n."""
    size, period = run.batch_size, run.steps_per_epoch
    last = Fraction(run.batches.last_size(run.n), run.n)
    return [Fraction(size, run.n)] * (period - 1) + [last]


def _totals(run: NoisySGD) -> Any:
    """Σ (L/(b·ς_k))² over the uses of each position, (steps_per_epoch,), up to rounding.

    Reshuffled batches use a record once an epoch anywhere: one entry, each epoch at its worst.
    """
    ratio = run.sensitivity / run.batch_size
    period, data = run.steps_per_epoch, run.data_steps
    noise = run.gradient_noise_std
    if not isinstance(noise, np.ndarray):
        epochs, rest = divmod(data, period)
        uses = np.full(period, float(epochs))
        uses[:rest] += 1.0
        if run.batches.kind == "reshuffle":
            uses = uses[:1]
        return uses * (ratio / noise) ** 2
    losses = np.zeros(-(-data // period) * period)
    losses[:data] = (ratio / noise[:data]) ** 2
    per_epoch = losses.reshape(-1, period)
    if run.batches.kind == "reshuffle":
        return np.array([math.fsum(per_epoch.max(axis=1))])
    return np.array([math.fsum(column) for column in per_epoch.T])


def _mu(total: float) -> float:
    """√total, rounded up past the few roundings of its terms."""
    return up(math.sqrt(total) * (1.0 + 2e-15)) if total > 0.0 else 0.0


def _iteration(iteration: NoisyIteration) -> Guarantee:
    from pabi.certificate import of_iteration

    if iteration.start > 0.0:
        raise NotApplicable("the runs start apart, which no noisy step has paid for")
    mu = _mu(_paid(iteration))
    said = noisy_iteration(iteration, hidden=False)
    return Guarantee(
        Gaussian(mu),
        iteration.adjacency,
        NAME,
        SOURCE,
        said,
        _prove=lambda: of_iteration(iteration, NAME, mu, None, None),
    )


def _paid(iteration: NoisyIteration) -> float:
    """Σ (s_k/σ_k)²; ∞ where a step with a demand has no noise."""
    schedule = iteration.schedule
    if isinstance(schedule, Groups):
        stretches = list(schedule.stretches())
        if any(x.s > 0.0 and x.sigma == 0.0 for _, x in stretches):
            return math.inf
        return math.fsum(n * (x.s / x.sigma) ** 2 for n, x in stretches if x.s > 0.0)
    used = schedule.s > 0.0
    s, sigma = schedule.s[used], schedule.sigma[used]
    if (sigma == 0.0).any():
        return math.inf
    with np.errstate(over="ignore"):
        return float(np.sum((s / sigma) ** 2, dtype=np.longdouble))

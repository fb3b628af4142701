"""Composition: pay for every noisy gradient as if it were published.

Each use of a record is a Gaussian mechanism with μ_k = s_k/σ_k, and they compose to
μ² = Σ (s_k/σ_k)² (Dong, Roth, Su 2022, Cor. 3.3). It needs no assumption on the loss and holds even if
every iterate is released.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.analyses.tuning import DEFAULT_DELTA, product
from pabi.analyses.writing import IterationProof, RunProof, SampledProof
from pabi.describe.iteration import Groups, NoisyIteration, sentences_of
from pabi.describe.neighbours import changed
from pabi.describe.orders import FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD, run_sentences
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import check_position
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import TINY, Array, fraction_up, up
from pabi.tradeoff import Gaussian, TradeOff, average

NAME = "composition"
_TERMS = 1.0 + 4e-15  # above the few roundings of (L/(b·ς_k))² and of their sum's root
SOURCE = "Dong, Roth, Su 2022, Cor. 3.3"
SOURCE_SAMPLED = "Dong, Roth, Su 2022, Thm 4.2; Bok, Su, Altschuler 2024, Thm 4.8"


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of releasing every iterate."""
    if isinstance(description, NoisyIteration):
        return _iteration(description)
    return _run(description, delta, position)


def _run(run: NoisySGD, delta: float, position: int | None) -> Guarantee:
    if position is not None:
        check_position(run, position)
    order, sentences = run.order, run_sentences(run, hidden=False, position=position)
    curve: TradeOff
    match order:
        case FreshSubsets():
            return _sampled(run, order, delta, sentences)
        case KnownUses():
            curve = Gaussian(max(use.mu for use in _at_places(run, position)))
        case SecretOrder():
            # A record may keep its place in the secret order: some are used once more than others.
            cases = _secret(run, order) if order.once else [(_redrawn(run), Fraction(1))]
            curve = average([c.mu for c, _ in cases], [fraction_up(share) for _, share in cases])
        case _:
            assert_never(order)
    proof = RunProof(NAME, run, curve, position=position)
    return Guarantee(curve, run.adjacency, NAME, SOURCE, sentences, proof=proof)


def _sampled(
    run: NoisySGD, order: FreshSubsets, delta: float, sentences: tuple[str, ...]
) -> Guarantee:
    """One subsampled factor a step, with equal noises together."""
    single = changed(run.adjacency) == 1 and not order.displaces
    probability = min(1.0, fraction_up(order.probability))
    curve = product(0.0, [_factors(run)], probability, single, 0.0)
    source = SOURCE if single else SOURCE_SAMPLED
    proof = SampledProof(NAME, run, curve, delta or DEFAULT_DELTA)
    return Guarantee(curve, run.adjacency, NAME, source, sentences, proof=proof)


def _factors(run: NoisySGD) -> tuple[Any, Any]:
    """(parameters of the steps' factors, how often each)."""
    ratio = fraction_up(Fraction(run.sensitivity) / run.batch_size)
    noise = run.gradient_noise_std
    if isinstance(noise, np.ndarray):
        return ratio / noise[: run.data_steps], np.ones(run.data_steps)
    return np.array([ratio / noise]), np.array([float(run.data_steps)])


class Paid(NamedTuple):
    """Σ (L/(b·ς_k))² over the uses of a record, and whether there are any."""

    total: float
    used: bool

    @property
    def mu(self) -> float:
        """√total, rounded up past the few roundings of its terms; never 0 for a record that is used."""
        if not self.used:
            return 0.0
        if math.isnan(self.total):
            return math.inf
        return up(math.sqrt(max(self.total, TINY)) * _TERMS)


def _once(run: NoisySGD) -> float | Array:
    """What one use costs: a number, or one for every step with data."""
    ratio, noise = run.sensitivity / run.batch_size, run.gradient_noise_std
    if isinstance(noise, np.ndarray):
        noise = noise[: run.data_steps]
    return (ratio / noise) * (ratio / noise)


def _at_places(run: NoisySGD, position: int | None) -> list[Paid]:
    """The records of batch `position`, or of all batches that can be the worst."""
    once, period = _once(run), run.steps_per_epoch
    epochs, rest = divmod(run.data_steps, period)
    if not isinstance(once, np.ndarray):
        most = epochs + (1 if (rest if position is None else position < rest) else 0)
        return [Paid(most * once, most > 0)]
    if position is not None:
        own = once[position::period]
        return [Paid(_sum(own), own.size > 0)]
    return [Paid(_sum(once[j::period]), True) for j in range(min(period, run.data_steps))]


def _redrawn(run: NoisySGD) -> Paid:
    """A record that is used once an epoch anywhere: each epoch at its worst."""
    once, period = _once(run), run.steps_per_epoch
    if not isinstance(once, np.ndarray):
        return Paid(-(-run.data_steps // period) * once, True)
    worst = np.maximum.reduceat(once, np.arange(0, run.data_steps, period))
    return Paid(_sum(worst), True)


def _secret(run: NoisySGD, order: SecretOrder) -> list[tuple[Paid, Fraction]]:
    """Every position with its probability, equal ones together."""
    once, period = _once(run), order.period
    epochs, rest = divmod(run.data_steps, period)
    if not isinstance(once, np.ndarray):
        late = order.share(0, rest - 1) if rest else Fraction(1)
        most = Paid((epochs + (1 if rest else 0)) * once, True)
        return [(most, late)] + ([(Paid(epochs * once, epochs > 0), 1 - late)] if late < 1 else [])
    used = min(period, run.data_steps)
    cases = [(Paid(_sum(once[j::period]), True), order.share(j, j)) for j in range(used)]
    if used < period:
        cases.append((Paid(0.0, False), order.share(used, period - 1)))
    return cases


def _sum(terms: Any) -> float:
    return float(np.sum(terms, dtype=np.longdouble))


def _iteration(iteration: NoisyIteration) -> Guarantee:
    if iteration.start > 0.0:
        raise NotApplicable("the runs start apart, which no noisy step has paid for")
    mu = _paid(iteration).mu
    sentences, proof = sentences_of(iteration, hidden=False), IterationProof(NAME, iteration, mu)
    return Guarantee(Gaussian(mu), iteration.adjacency, NAME, SOURCE, sentences, proof=proof)


def _paid(iteration: NoisyIteration) -> Paid:
    """Σ (s_k/σ_k)² over the steps with s_k > 0; ∞ where one of them has no noise."""
    schedule = iteration.schedule
    if isinstance(schedule, Groups):
        stretches = [(n, x) for n, x in schedule.stretches() if x.s > 0.0]
        if any(x.sigma == 0.0 for _, x in stretches):
            return Paid(math.inf, True)
        total = sum(n * (x.s / x.sigma) * (x.s / x.sigma) for n, x in stretches)
        return Paid(total, bool(stretches))
    used = schedule.s > 0.0
    s, sigma = schedule.s[used], schedule.sigma[used]
    if (sigma == 0.0).any():
        return Paid(math.inf, True)
    return Paid(_sum((s / sigma) * (s / sigma)), bool(used.any()))

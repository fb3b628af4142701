"""Composition: pay for every noisy gradient as if it were published.

Each use of a record is a Gaussian mechanism with μ_k = s_k/σ_k, and they compose to
μ² = Σ (s_k/σ_k)² (Dong, Roth, Su 2022, Cor. 3.3). It needs no assumption on the loss and holds even if
every iterate is released.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pabi.analyses.tuning import DEFAULT_DELTA, product
from pabi.assumptions import noisy_iteration, noisy_sgd
from pabi.errors import NotApplicable
from pabi.guarantee import Guarantee
from pabi.iteration import Groups, NoisyIteration
from pabi.positions import check_position
from pabi.rounding import TINY, fraction_up, up
from pabi.runs import NoisySGD
from pabi.tradeoff import Gaussian, average

if TYPE_CHECKING:
    from pabi.certificate import Certificate

NAME = "composition"
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
    from pabi.certificate import of_run

    if position is not None:
        check_position(run, position)
    if run.batches.sampled:
        return _sampled(run, delta)
    cases = _cases(run, position)
    mus = [_mu(total, used) for total, used, _ in cases]
    if run.batches.kind == "shuffle_once":
        # A record keeps its place in the secret order: some are used once more than others.
        curve: Any = average(mus, [fraction_up(share) for _, _, share in cases])
    else:
        curve = Gaussian(max(mus))
    return Guarantee(
        curve,
        run.adjacency,
        NAME,
        SOURCE,
        noisy_sgd(run, hidden=False, position=position),
        _prove=lambda: of_run(run, NAME, curve, position=position),
    )


def _sampled(run: NoisySGD, delta: float) -> Guarantee:
    """One subsampled factor a step, with equal noises together."""
    from pabi.certificate import of_sampled

    single = run.batches.kind == "poisson" and run.adjacency == "zero_out"
    curve = product(0.0, [_factors(run)], _probability(run), single, 0.0)
    source = SOURCE if single else SOURCE_SAMPLED
    said = noisy_sgd(run, hidden=False)

    def prove() -> Certificate:
        return of_sampled(run, NAME, curve, delta or DEFAULT_DELTA, {})

    return Guarantee(curve, run.adjacency, NAME, source, said, _prove=prove)


def _probability(run: NoisySGD) -> float:
    return min(1.0, fraction_up(Fraction(run.batch_size, run.n)))


def _factors(run: NoisySGD) -> tuple[Any, Any]:
    """(parameters of the steps' factors, how often each)."""
    ratio = fraction_up(Fraction(run.sensitivity) / run.batch_size)
    noise = run.gradient_noise_std
    if isinstance(noise, np.ndarray):
        return ratio / noise[: run.data_steps], np.ones(run.data_steps)
    return np.array([ratio / noise]), np.array([float(run.data_steps)])


def _cases(run: NoisySGD, position: int | None) -> list[tuple[float, bool, Fraction]]:
    """(Σ (L/(b·ς_k))² over the uses, whether there are any, share of the records) of every position.

    Equal positions come together. Reshuffled batches use a record once an epoch anywhere: one case,
    each epoch at its worst.
    """
    ratio = run.sensitivity / run.batch_size
    period, data = run.steps_per_epoch, run.data_steps
    epochs, rest = divmod(data, period)
    noise, whole = run.gradient_noise_std, Fraction(1)
    if not isinstance(noise, np.ndarray):
        once = (ratio / noise) * (ratio / noise)
        if position is not None:
            uses = epochs + (1 if position < rest else 0)
            return [(uses * once, uses > 0, whole)]
        most = epochs + (1 if rest else 0)
        late = share(run, 0, rest - 1) if rest else whole
        if run.batches.kind != "shuffle_once" or late == 1:
            return [(most * once, True, whole)]
        return [(most * once, True, late), (epochs * once, epochs > 0, 1 - late)]
    losses = (ratio / noise[:data]) * (ratio / noise[:data])
    if position is not None:
        own = losses[position::period]
        return [(_sum(own), own.size > 0, whole)]
    if run.batches.kind == "reshuffle":
        worst = np.maximum.reduceat(losses, np.arange(0, data, period))
        return [(_sum(worst), True, whole)]
    used = min(period, data)
    found = [(_sum(losses[j::period]), True, share(run, j, j)) for j in range(used)]
    return [*found, (0.0, False, share(run, used, period - 1))] if used < period else found


def share(run: NoisySGD, a: int, b: int) -> Fraction:
    """The share of the records that are in batches a..b: their probability in a secret order."""
    missing = run.batch_size - run.batches.last_size(run.n) if b == run.steps_per_epoch - 1 else 0
    return Fraction((b - a + 1) * run.batch_size - missing, run.n)


def _sum(terms: Any) -> float:
    return float(np.sum(terms, dtype=np.longdouble))


def _mu(total: float, used: bool) -> float:
    """√total, rounded up past the few roundings of its terms; never 0 for a record that is used."""
    if not used:
        return 0.0
    if math.isnan(total):
        return math.inf
    return up(math.sqrt(max(total, TINY)) * (1.0 + 4e-15))


def _iteration(iteration: NoisyIteration) -> Guarantee:
    from pabi.certificate import of_iteration

    if iteration.start > 0.0:
        raise NotApplicable("the runs start apart, which no noisy step has paid for")
    mu = _mu(*_paid(iteration))
    said = noisy_iteration(iteration, hidden=False)
    return Guarantee(
        Gaussian(mu),
        iteration.adjacency,
        NAME,
        SOURCE,
        said,
        _prove=lambda: of_iteration(iteration, NAME, mu, None, None),
    )


def _paid(iteration: NoisyIteration) -> tuple[float, bool]:
    """(Σ (s_k/σ_k)², whether any s_k > 0); ∞ where a step with a demand has no noise."""
    schedule = iteration.schedule
    if isinstance(schedule, Groups):
        stretches = [(n, x) for n, x in schedule.stretches() if x.s > 0.0]
        if any(x.sigma == 0.0 for _, x in stretches):
            return math.inf, True
        return sum(n * (x.s / x.sigma) * (x.s / x.sigma) for n, x in stretches), bool(stretches)
    used = schedule.s > 0.0
    s, sigma = schedule.s[used], schedule.sigma[used]
    if (sigma == 0.0).any():
        return math.inf, True
    return _sum((s / sigma) * (s / sigma)), bool(used.any())

"""Secret steps: every iterate is released, and nobody knows which of the steps use the record.

Nothing is asked of the loss. Where the places of the other records do not depend on the record's own (balls
in bins), a step is moved by what the record adds, and only the steps of one secret batch are. Where the
record takes the place of another (shuffles), a place that is in no batch is what the two exchange, so that
again one secret batch is moved, by two contributions (docs, "Theory", 6.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.account.analyses.composition import SOURCE as COMPOSED
from pabi.account.analyses.composition import paid_once, root_of_uses
from pabi.account.analyses.shifted_interpolation import DEFAULT_DELTA, run_of
from pabi.account.analyses.writing import SampledProof, promised
from pabi.describe.batches import (
    FixedSizes,
    FreshSubsets,
    KnownUses,
    RandomSizes,
    SecretOrder,
    binomial_tail,
)
from pabi.describe.iteration import NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import MANY_ROUNDINGS, fraction_up
from pabi.tradeoff import Gaussian, Product, RandomAllocation, TradeOff
from pabi.tradeoff.guarantee import Guarantee

NAME = "secret steps"
_BINS = "docs, Theory, 6.3 (Theorem 53)"
_SHUFFLED = "docs, Theory, 6.3 (Theorem 54)"

_MOST_SIZES = 8  # different sizes of labels in one factor, and different factors


class Batch(NamedTuple):
    """A batch that the record may be in: how likely it is, and how far its steps move, over the noise."""

    share: Fraction
    size: float


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of releasing every iterate when the record's batch stays secret."""
    run = run_of(description)
    order = _secret(run)
    displaces = isinstance(order.sizes, FixedSizes)
    factors = _factors(run, order, displaces)
    source = _SHUFFLED if displaces else _BINS
    if any(isinstance(factor, Gaussian) for factor in factors):
        source = f"{source}; {COMPOSED}"
    failure = _failure(order.sizes)
    curve: TradeOff = Product(factors.items(), failure)
    if failure == 0.0 and factors.total() == 1:
        (curve,) = factors
    return promised(SampledProof(NAME, run, curve, delta or DEFAULT_DELTA), source, hidden=False)


def _secret(run: NoisySGD) -> SecretOrder:
    """The order of a run that the theorems are about; NotApplicable for any other."""
    order = run.order
    match order:
        case SecretOrder():
            pass
        case KnownUses():
            raise NotApplicable("the batches come in a fixed order: there is no secret order")
        case FreshSubsets():
            raise NotApplicable(
                "the batches are drawn afresh at every step: there is no secret order"
            )
        case _:
            assert_never(order)
    if run.gradient_sensitivity is None:
        return order
    if run.adjacency == "replace_one":
        raise NotApplicable(
            "the stated sensitivity says how far two records are apart, not what one of them moves"
        )
    if isinstance(order.sizes, FixedSizes):
        raise NotApplicable(
            "the stated sensitivity says nothing of the records whose places the record takes"
        )
    return order


def _factors(run: NoisySGD, order: SecretOrder, displaces: bool) -> Counter[TradeOff]:
    """What a record reveals at most: one factor, or one of every epoch."""
    opposite = run.adjacency == "replace_one"

    def factor(batches: Sequence[Batch]) -> TradeOff:
        if displaces and sum(batch.share for batch in batches) == 1:
            # No place is left out: the place is seen.
            return Gaussian((2.0 if opposite else 1.0) * max(batch.size for batch in batches))
        groups = Counter(batches)
        shares = [fraction_up(batch.share * n) for batch, n in groups.items()]
        sizes = [batch.size for batch in groups]
        return RandomAllocation(shares, sizes, list(groups.values()), opposite, displaces)

    # What one record moves by itself is what it moves if its neighbour is zero.
    epochs = _by_epoch(replace(run, adjacency="zero_out"), order)
    factors: Counter[TradeOff] = Counter()
    for batches, times in epochs:
        factors[factor(batches)] += times
    if not any(isinstance(curve, RandomAllocation) for curve in factors):
        raise NotApplicable(
            "every place of the permutation is in some batch: with one spare place the order would hide"
        )
    return factors


def _failure(sizes: FixedSizes | RandomSizes) -> float:
    """The probability that the record may bring a batch above the cap, where there is one."""
    match sizes:
        case RandomSizes(cap=int(cap)):
            p = min(1.0, fraction_up(sizes.probability))
            return min(1.0, sizes.draws * binomial_tail(sizes.n, p, cap - 1))
        case FixedSizes() | RandomSizes():
            return 0.0
        case _:
            assert_never(sizes)


def _by_epoch(run: NoisySGD, order: SecretOrder) -> list[tuple[list[Batch], int]]:
    """(the batches in which a place is drawn, how often it is drawn): once for all epochs, or for each."""
    once, end, period = paid_once(run, run.data_steps), run.data_steps, order.period
    epochs, rest = divmod(end, period)
    if order.once:
        if isinstance(once, np.ndarray):
            used = min(period, end)
            return [(_batches(order, [once[j::period].sum() for j in range(used)]), 1)]
        late = [(epochs + 1) * once] * rest
        return [(_batches(order, late + [epochs * once] * (period - rest if epochs else 0)), 1)]
    if isinstance(once, np.ndarray):
        # An epoch whose noise varies counts as one of its least noise.
        worst = np.maximum.reduceat(once, np.arange(0, end, period)).tolist()
        sums = _few(worst[:epochs])
        drawn = [(_batches(order, [x] * period), n) for x, n in Counter(sums).items()]
        return drawn + ([(_batches(order, worst[-1:] * rest), 1)] if rest else [])
    drawn = [(_batches(order, [once] * period), epochs)] if epochs else []
    return drawn + ([(_batches(order, [once] * rest), 1)] if rest else [])


def _batches(order: SecretOrder, sums: Iterable[Any]) -> list[Batch]:
    """The first batches of an epoch, from Σ (L/(b·ς_k))² of the steps of each."""
    sizes = [root_of_uses(float(x), True) for x in _few(sums)]
    return [Batch(order.share(j, j), size) for j, size in enumerate(sizes)]


def _few(sums: Iterable[Any]) -> list[float]:
    """The numbers, some of them raised where they are many different ones."""
    values = [float(x) for x in sums]
    ends = np.unique(values)
    if ends.size <= _MOST_SIZES or ends[0] == 0.0:
        return values
    ends = np.geomspace(ends[0], ends[-1], _MOST_SIZES) * (1.0 + MANY_ROUNDINGS)
    return [float(ends[i]) for i in np.searchsorted(ends, values)]

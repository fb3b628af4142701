"""Secret order: average over where in the shuffled order the record fell.

The order is drawn uniformly, independently of the data, and never revealed, so that the release is a
mixture over the record's position J, and by joint convexity δ(ε) = Σ_j P(J = j)·δ_{G(μ_j)}(ε), μ_j
from the optimal shifts for position j (docs, "Secret order").

With one permutation for all epochs, or with records thrown into batches once, J is the batch. With a
fresh permutation every epoch, J are the batches of the last two epochs, and every older epoch uses the
record at its very end, which is worst when steps do not expand and step sensitivities do not fall. If
there are too many positions, a range of them is replaced by its latest one, where that is never safer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from pabi.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    MOST_SOLVED,
    require_hidden_path,
    run_of,
)
from pabi.analyses.writing import Case, RunProof
from pabi.describe.iteration import NoisyIteration
from pabi.describe.orders import FAILING, Fractions, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD, run_sentences
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView, Uses
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, fraction_up
from pabi.shifts.epochs import Record, cyclic, record
from pabi.tradeoff import Product, TradeOff, average

NAME = "secret order"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts, averaged over the record's position"
)

_MAX_POSITIONS = 2048  # positions solved one by one under shuffle-once
_MAX_LAST, _MAX_PREVIOUS = 256, 4  # under reshuffling, for the last two epochs; pairs are solved
MAX_WORK = 20_000_000  # steps times solves for schedules that vary


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate when the order of the batches stays secret."""
    run = run_of(description)
    order = secret_order(run)
    require_hidden_path(run)
    view = OrderedView(run, FAILING * (delta or DEFAULT_DELTA))
    if order.once:
        if not view.later_is_worse and view.period > MOST_SOLVED:
            raise NotApplicable(
                f"any of {view.period} positions can be the worst: too many to solve"
            )
        cases = shuffled_once(view, order, view.later_is_worse, _MAX_POSITIONS)
        records = cyclic(view, [case.uses.first for case in cases])
    else:
        cases = reshuffled(view, order)
        records = [record(view, case.uses) for case in cases]
    proof = averaged(NAME, run, records, cases, view.fractions)
    proof = replace(proof, view=view)
    return Guarantee(
        proof.curve, run.adjacency, NAME, SOURCE, run_sentences(run), proof=proof, unit=run.unit
    )


def secret_order(run: NoisySGD) -> SecretOrder:
    """The order of `run` if it is secret; NotApplicable for any other."""
    order = run.order
    match order:
        case SecretOrder():
            return order
        case KnownUses():
            raise NotApplicable("the batches come in a fixed order: there is no secret order")
        case FreshSubsets():
            raise NotApplicable(
                "the batches are drawn afresh at every step: there is no secret order"
            )
        case _:
            assert_never(order)


def averaged(
    name: str,
    run: NoisySGD,
    records: Sequence[Record],
    cases: Sequence[Case],
    sizes: Fractions,
    resting: Array | None = None,
) -> RunProof:
    """The mixture of G(μ) over the cases, of one record each, and its proof. With the probability that a
    batch is larger than `sizes` cover, nothing is claimed."""
    curve: TradeOff = average([r.mu for r in records], [fraction_up(c.weight) for c in cases])
    if sizes.failure > 0.0:
        curve = Product([(curve, 1)], sizes.failure)
    every = list(zip(records, cases, strict=True))
    return RunProof(name, run, curve, every, cap=sizes.random_cap, resting=resting)


def buckets(count: int, most: int) -> list[tuple[int, int]]:
    """0..count−1 cut into at most `most` ranges [first, last].

    μ rises steeply towards the last position, so half of the ranges are single positions at the end
    and the others are of nearly equal length.
    """
    single = count if count <= most else most // 2
    rest, k = count - single, most - most // 2
    wide = [(i * rest // k, (i + 1) * rest // k - 1) for i in range(k)] if rest else []
    return [*wide, *((i, i) for i in range(rest, count))]


def shuffled_once(
    view: OrderedView, order: SecretOrder, later_is_worse: bool, most: int
) -> list[Case]:
    """The cases of a record whose batch is chosen once for all epochs, each with its probability.

    Where records used later are never safer (`later_is_worse`), ranges of positions are replaced by their
    latest one, so that there are at most `most` cases. Sorted by their last use, positions run rest, …,
    period − 1 (last used in the last whole epoch) and then 0, …, rest − 1 (used in the partial one), where
    rest is the number of batches in the partial epoch. Positions that are never used come first.
    """
    run, period = view.run, view.period
    rest = run.data_steps % period
    cases = []
    for a, b in buckets(period, most if later_is_worse else period):
        first, last = (rest + a) % period, (rest + b) % period
        if first <= last:
            weight = order.share(first, last)
        else:
            weight = order.share(first, period - 1) + order.share(0, last)
        cases.append(Case(view.uses(last), weight, ((a, b),)))
    return cases


def reshuffled(view: OrderedView, order: SecretOrder) -> list[Case]:
    """The record's batches in the last two epochs, of which the last may be partial."""
    run = view.run
    if not view.nonexpansive:
        raise NotApplicable(
            "with steps that can expand, an earlier use can be worse than a later one"
        )
    if not view.later_is_worse:
        raise NotApplicable(
            "with falling step sensitivities, an earlier use can be worse than a later one"
        )
    if run.constant:
        return last_two_epochs(view, order, _MAX_LAST, _MAX_PREVIOUS)
    return last_two_epochs(view, order, max(1, min(_MAX_LAST, MAX_WORK // run.steps)), 1)


def last_two_epochs(
    view: OrderedView, order: SecretOrder, most: int, most_previous: int
) -> list[Case]:
    """A case for every pair of ranges of positions, at most `most` in the last epoch, which may be
    partial, and `most_previous` in the one before; a use in a range stands at its end, and older ones at
    those of their epochs."""
    run, period = view.run, view.period
    whole, rest = divmod(run.data_steps, period)
    epochs = whole + (1 if rest else 0)
    previous = places(order, period, most_previous) if epochs > 1 else [(None, Fraction(1))]
    final = places(order, rest or period, most)
    cases = []
    for last, p in final:
        for before, q in previous:
            then = [
                epoch * period + where[1]
                for epoch, where in ((epochs - 2, before), (epochs - 1, last))
                if where is not None
            ]
            older = max(0, epochs - 2)
            cases.append(Case(Uses(period - 1, older, tuple(then)), p * q, (before, last)))
    return cases


def places(
    order: SecretOrder, length: int, most: int
) -> list[tuple[tuple[int, int] | None, Fraction]]:
    """Buckets of the first `length` positions with their probabilities, and the chance of none."""
    cases: list[tuple[tuple[int, int] | None, Fraction]] = [
        ((a, b), order.share(a, b)) for a, b in buckets(length, most)
    ]
    if length == order.period:
        return cases
    return [*cases, (None, order.share(length, order.period - 1))]

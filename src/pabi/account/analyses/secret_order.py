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

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, assert_never

from pabi.analyses.shifted_interpolation import (
    DEFAULT_DELTA,
    MOST_SOLVED,
    require_hidden_path,
    run_of,
)
from pabi.analyses.writing import Case, RunProof, but_for, promised
from pabi.describe.iteration import NoisyIteration
from pabi.describe.orders import FAILING, Fractions, FreshSubsets, KnownUses, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView, Uses
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up
from pabi.shifts.epochs import Record, cyclic, record
from pabi.tradeoff import average

NAME = "secret order"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts, averaged over the record's position"
)

_MAX_POSITIONS = 2048  # positions solved one by one under shuffle-once
_MAX_LAST, _MAX_PREVIOUS = 256, 4  # under reshuffling, for the last two epochs; pairs are solved
MAX_WORK = 20_000_000  # steps times solves for schedules that vary

Solved = tuple[Record, Case]
Place = tuple[
    tuple[int, int] | None, Fraction
]  # positions, None for none of them, and a probability


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate when the order of the batches stays secret."""
    run, order = secret_run(description)
    view = OrderedView(run, FAILING * (delta or DEFAULT_DELTA))
    solved = solved_once(view, order) if order.once else reshuffled(view, order)
    return promised(averaged(NAME, view, solved, view.fractions, stated=True), SOURCE)


def secret_run(description: NoisySGD | NoisyIteration) -> tuple[NoisySGD, SecretOrder]:
    """A run whose order and path stay secret, and its order; NotApplicable for any other."""
    run = run_of(description)
    order = run.order
    match order:
        case SecretOrder():
            require_hidden_path(run)
            return run, order
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
    view: OrderedView,
    solved: Sequence[Solved],
    sizes: Fractions,
    *,
    stated: bool = False,
    **written: Any,
) -> RunProof:
    """The proof that the mixture of G(μ) over the cases covers a record. With the probability that a batch
    is larger than `sizes` cover, nothing is claimed. `stated`: whether the steps of `view` may be written
    out; `written`: what else the proof says."""
    weights = [fraction_up(case.weight) for _, case in solved]
    curve = but_for(average([record.mu for record, _ in solved], weights), sizes)
    steps, cap = view if stated else None, sizes.random_cap
    return RunProof(name, view.description, curve, solved, cap=cap, view=steps, **written)


def buckets(count: int, most: int) -> list[tuple[int, int]]:
    """0..count−1 cut into at most `most` ranges [first, last].

    μ rises steeply towards the last position, so half of the ranges are single positions at the end
    and the others are of nearly equal length.
    """
    single = count if count <= most else most // 2
    rest, k = count - single, most - most // 2
    wide = [(i * rest // k, (i + 1) * rest // k - 1) for i in range(k)] if rest else []
    return [*wide, *((i, i) for i in range(rest, count))]


def solved_once(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record whose batch is chosen once for all epochs, case by case."""
    later = view.later_is_worse
    if not later and view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    one_by_one = view.demand.forgets and not view.run.constant
    most = max(1, MAX_WORK // view.run.steps) if one_by_one else _MAX_POSITIONS
    return shuffled_once(view, order, lambda js: cyclic(view, js), later, min(most, _MAX_POSITIONS))


def shuffled_once(
    view: OrderedView,
    order: SecretOrder,
    solve: Callable[[list[int]], list[Record]],
    later_is_worse: bool,
    most: int,
) -> list[Solved]:
    """The cases of a record whose batch is chosen once for all epochs, each with its probability; of several
    records the worst one's batch counts. `solve`: what is proven of a record at each of these positions.

    Where records used later are never safer (`later_is_worse`), ranges of positions are replaced by their
    latest one, so that there are at most `most` cases. Sorted by their last use, positions run rest, …,
    period − 1 (last used in the last whole epoch) and then 0, …, rest − 1 (used in the partial one), where
    rest is the number of batches in the partial epoch. Positions that are never used come first. Where
    later positions may be safer, those of several records are in the order of what is proven.
    """
    period = view.period
    rest = view.run.data_steps % period
    ranges = buckets(period, most if later_is_worse else period)
    records = solve([(rest + b) % period for _, b in ranges])
    if view.demand.forgets and not later_is_worse:
        by_mu = sorted(range(period), key=lambda i: records[i].mu)
        ranges, records = [ranges[i] for i in by_mu], [records[i] for i in by_mu]
    shares = [_share(order, (rest + a) % period, (rest + b) % period) for a, b in ranges]
    return [
        (record, Case(record.uses, weight, (covered,)))
        for record, weight, covered in zip(
            records, view.demand.last_in(shares), ranges, strict=True
        )
    ]


def _share(order: SecretOrder, first: int, last: int) -> Fraction:
    """The probability of the positions `first`, …, `last`, which may go on in the next epoch."""
    if first <= last:
        return order.share(first, last)
    return order.share(first, order.period - 1) + order.share(0, last)


def reshuffled(view: OrderedView, order: SecretOrder) -> list[Solved]:
    """What is proven of a record by its batches in the last two epochs, of which the last may be partial."""
    if view.demand.forgets and not view.moves_later:
        raise NotApplicable(
            "steps that expand, or step sizes that fall: an earlier use can be worse than a later one"
        )
    if not (view.demand.forgets or view.nonexpansive):
        raise NotApplicable(
            "with steps that can expand, an earlier use can be worse than a later one"
        )
    if not view.later_is_worse:
        raise NotApplicable(
            "with falling step sensitivities, an earlier use can be worse than a later one"
        )
    most, previous = _MAX_LAST, _MAX_PREVIOUS
    if not view.run.constant:
        most, previous = max(1, min(_MAX_LAST, MAX_WORK // view.run.steps)), 1
    cases = last_two_epochs(view, order, most, previous)
    return [(record(view, case.uses), case) for case in cases]


def changing_places(
    description: NoisySGD | NoisyIteration, delta: float
) -> tuple[OrderedView, SecretOrder]:
    """A run with a secret order for every epoch, in which a later use need not be worse; NotApplicable for
    any other."""
    run, order = secret_run(description)
    if order.once:
        raise NotApplicable("a record keeps its place in all epochs: see secret order")
    view = OrderedView(run, FAILING * delta)
    if view.nonexpansive and view.later_is_worse:
        raise NotApplicable("later uses are worse as they are: see secret order")
    return view, order


def last_two_epochs(
    view: OrderedView, order: SecretOrder, most: int, most_previous: int
) -> list[Case]:
    """A case for every pair of ranges of positions, at most `most` in the last epoch, which may be
    partial, and `most_previous` in the one before; a use in a range stands at its end, and older ones at
    those of their epochs."""
    period = view.period
    older, rest = -(-view.run.data_steps // period) - 2, view.run.data_steps % period
    before = places(view, order, period, most_previous) if older >= 0 else [(None, Fraction(1))]
    cases = []
    for last, p in places(view, order, rest or period, most):
        for previous, q in before:
            epochs = enumerate((previous, last), older)
            then = tuple(epoch * period + where[1] for epoch, where in epochs if where is not None)
            uses = Uses(period - 1, max(0, older), then)
            cases.append(Case(uses, p * q, (previous, last)))
    return cases


def places(view: OrderedView, order: SecretOrder, length: int, most: int) -> list[Place]:
    """Ranges of the first `length` positions with the probability that the record, or the last of several,
    is in each, and the probability that none is."""
    ranges = buckets(length, most)
    weights = view.demand.last_in([order.share(a, b) for a, b in ranges])
    cases: list[Place] = list(zip(ranges, weights, strict=True))
    return cases if length == order.period else [*cases, (None, 1 - sum(weights, Fraction(0)))]

"""Shifted interpolation: pay for what the last iterate still remembers.

The two runs are joined by a third that starts on the second and is shifted, step by step, onto the
first; only the shifts cost, and a contraction forgets (Bok, Su, Altschuler 2024, Thm C.3, here with the
optimal shifts of `pabi.account.shifts`). With a secret order of batches this is the bound for a record whose
place the attacker knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, assert_never

import numpy as np

from pabi.account.analyses.writing import IterationProof, RunProof, SampledProof, computed
from pabi.account.facts.positions import OrderedView, check_position
from pabi.account.facts.sampled import (
    Pulls,
    RecordFactor,
    SampledRun,
    every_step,
    require_sampling,
)
from pabi.account.shifts.epochs import Record, cyclic, energy_of, record, solve_schedule
from pabi.account.shifts.random import prices_below
from pabi.describe.batches import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.iteration import Groups, NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import TINY, Array
from pabi.tradeoff import (
    FixedSizeSubsampled,
    Gaussian,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    Subsampled,
    TradeOff,
)
from pabi.verification.granting import Proposal

NAME = "shifted interpolation"
MOST_SOLVED = 100_000  # positions solved one by one


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate for the worst record, or for those of one batch."""
    require_hidden_path(run)
    order, view = in_order(run), OrderedView(run)
    if isinstance(order, SecretOrder):
        _require_one_place(order)
    records = worst(view, position if isinstance(order, KnownUses) else None)
    curve = Gaussian(max(r.mu for r in records))
    return computed(RunProof(NAME, run, curve, [(r, None) for r in records], position, view=view))


def require_hidden_path(run: NoisySGD) -> None:
    """NotApplicable unless only the last iterate of plain noisy SGD is released."""
    if run.release != "last":
        raise NotApplicable("the path is released, so nothing is forgotten")
    if not run.rule.plain:
        raise NotApplicable("the update is not plain noisy SGD, so no modulus is known")


def in_order(run: NoisySGD) -> KnownUses | SecretOrder:
    """The order of a run whose batches come in one; NotApplicable for any other."""
    order = run.order
    if isinstance(order, FreshSubsets):
        raise NotApplicable(
            "batches are drawn afresh at every step: see the one- and two-sided shifts"
        )
    return order


def _require_one_place(order: SecretOrder) -> None:
    """NotApplicable where a record has no place that an attacker may know in all epochs."""
    if not order.once:
        raise NotApplicable("a record's place changes every epoch: see secret order")
    match order.sizes:
        case FixedSizes():
            pass
        case RandomSizes():
            raise NotApplicable("how many records a batch has is random: see secret order")
        case _:
            assert_never(order.sizes)


def worst(view: OrderedView, position: int | None = None) -> list[Record]:
    """The records of one batch, or all that can be the worst."""
    if position is not None:
        return cyclic(view, [check_position(view.run, position)])
    if view.later_is_worse:
        return [record(view, view.uses(view.last_position))]
    if view.period > MOST_SOLVED:
        raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")
    return cyclic(view)


def of_iteration(iteration: NoisyIteration, delta: float, position: int | None = None) -> Proposal:
    """The same of a bare iteration."""
    schedule = iteration.schedule
    slopes = (
        np.array([x.c for _, x in schedule.stretches()])
        if isinstance(schedule, Groups)
        else schedule.c
    )
    if np.isnan(slopes).any():
        raise NotApplicable("a step's modulus is not linear")
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    schedule, shifts = solve_schedule(schedule, diameter, iteration.start)
    curve = Gaussian(math.sqrt(energy_of(shifts)))
    return IterationProof(NAME, iteration, curve, (schedule, shifts))


# Choosing the free parameters of an analysis of random batches at the δ asked for.
#
# Whatever is chosen is valid. The first guess is the tilt of a Gaussian limit (Bok, Su, Altschuler 2024,
# Props C.14 and C.15, choose by it alone); then the tilt is taken from the exact composition of the best
# plan so far, and what is reported is the exact composition.


DEFAULT_DELTA = 1e-10  # at which plans are compared where δ = 0 is asked for: ε is infinite there
_MARGIN = 1e-11  # relative, over the roundings of a factor's parameter
_LEAST = 1e-9  # a Gaussian parameter below which nothing is gained
_CLOSE = 2e-4  # relative: parameters so close are rounded up to the largest of them
_MOST_MU = 100.0  # of the Gaussian part of a plan: its ε is some thousands
_TRIALS = 5  # plans that are composed and compared
_BETTER = 0.9995  # by so much another plan must be better to go on
CLEARLY = 2.0  # times what composition costs: a plan that costs so much at one tilt wins at none
_COARSELY = 0.05  # of log μ: how far sizes are rounded down for that
_CLOSE_TILT = 0.1  # of log λ: tilts so close give much the same plan
_ALIKE = 1.0 + 1e-6  # times: sizes so close are rounded up to the largest
_MANY_BINS, _BINS = 1000, 40  # distinct parameters that are looked at, and that are composed


class TunedPlan(Protocol):
    """A choice of the free parameters of an analysis, and what it proves."""

    @property
    def curve(self) -> Product:
        """The trade-off function that these parameters prove."""

    @property
    def cost(self) -> float:
        """What they cost at the tilt that they are best for, as `pabi.account.shifts.random` has it."""

    def to_dict(self) -> dict[str, Any]:
        """The parameters, for a certificate."""


def sampled_view(description: NoisySGD | Unlearning, delta: float) -> SampledRun:
    """Noisy SGD with random batches of which only the last iterate is released; NotApplicable for any other
    description."""
    view = SampledRun(description, delta or DEFAULT_DELTA)
    require_sampling(view.run)
    require_hidden_path(view.run)
    return view


def of_tuned(name: str, view: SampledRun, plan_at: Callable[[float], TunedPlan]) -> SampledProof:
    """The proof by the plan of least ε. `plan_at`: the best plan for a tilt."""

    def most(power: float) -> float:
        return math.inf if view.demand.forgets else CLEARLY * _composed(view, power)

    best = tuned(plan_at, view.delta, most)
    return computed(SampledProof(name, view.description, best.curve, best.to_dict))


def _composed(view: SampledRun, power: float) -> float:
    """What composition costs at the tilt λ = `power`, or a little less."""
    sizes, counts = every_step(view.run, view.factor)
    prices = prices_below(view.factor, view.probability, power, sizes.apart, _COARSELY)
    return float(prices @ counts)


def tuned(
    plan_at: Callable[[float], TunedPlan],
    delta: float,
    most: Callable[[float], float],
) -> TunedPlan:
    """The plan of least ε at `delta` > 0 among those that are best for a few tilts λ; the first of them, if
    it costs more than `most` at its tilt.

    The first tilt is that of G(1), whatever the run, so that runs that differ only in what is forgotten are
    treated alike. Then it is that of the exact composition of the plan before, as long as that helps.
    """
    power = math.sqrt(2.0 * math.log(1.0 / delta))
    best, least = plan_at(power), math.inf
    if _reveals_all(best.curve):
        raise NotApplicable("no window at the end hides the distance with less than μ = 100")
    if best.cost > most(power):
        return best
    plan = best
    for _ in range(_TRIALS):
        if _reveals_all(plan.curve) or (plan is not best and plan.curve == best.curve):
            break
        epsilon, following = plan.curve.roughly(delta)
        if epsilon >= _BETTER * least:
            break
        best, least = plan, epsilon
        if abs(math.log(following / power)) < _CLOSE_TILT:
            break
        power = following
        plan = plan_at(power)
    return best


def _reveals_all(curve: Product) -> bool:
    """Whether its Gaussian part alone is beyond all use: composing it would take minutes."""
    return any(isinstance(one, Gaussian) and one.mu > _MOST_MU for one, _ in curve.factors)


def product(
    hidden: float | Mixture,
    records: Iterable[tuple[Pulls, Array]],
    probability: float,
    factor: RecordFactor,
    failure: float,
) -> Product:
    """`hidden`, a mixture or the μ of a Gaussian, ⊗ the records' factors, given by sizes and counts.

    Sizes are rounded up to at most 48 distinct ones.
    """
    records = list(records)
    columns = [
        np.concatenate([np.zeros(0), *x]) for x in zip(*(p for p, _ in records), strict=True)
    ]
    counts = np.concatenate([np.zeros(0), *(n for _, n in records)])
    sizes = np.stack(columns or [counts] * 3, axis=1) * (1.0 + _MARGIN)
    factors: list[tuple[TradeOff, int]] = [
        (_revealed(factor, size, probability), count) for size, count in binned(sizes, counts)
    ]
    if isinstance(hidden, Mixture):
        factors.append((Mixture([_raised(part.mu) for part in hidden.parts], hidden.weights), 1))
    elif not hidden <= 0.0:
        factors.append((_raised(math.inf if math.isnan(hidden) else hidden), 1))
    if not factors:
        factors.append((Gaussian(0.0), 1))
    return Product(factors, failure)


def _raised(mu: float) -> Gaussian:
    """G(μ), rounded up."""
    return Gaussian(max(mu * (1.0 + _MARGIN), _LEAST))


def _revealed(factor: RecordFactor, size: Array, probability: float) -> TradeOff:
    """The trade-off function of one factor of these sizes, as `Pulls` has them."""
    apart, norm, other = map(float, size)
    match factor:
        case RecordFactor.PRESENT:
            return PoissonSubsampled(apart, probability)
        case RecordFactor.REPLACED:
            return PoissonReplaced(max(0.5 * apart, TINY), probability)
        case RecordFactor.DISPLACING | RecordFactor.ZEROED:
            if max(size) <= _ALIKE * min(size):
                return Subsampled(Gaussian(float(max(size))), probability)
            return FixedSizeSubsampled(max(norm, TINY), max(other, TINY), apart, probability)
        case _:
            assert_never(factor)


def binned(sizes: Array, counts: Array) -> list[tuple[Array, int]]:
    """Pairs (sizes, count): close sizes are rounded up to few distinct ones, and 0 is left out.

    `sizes` is (k, m), `counts` (k,). Rows are told apart by their first entry.
    """
    sizes = np.where(np.isnan(sizes), np.inf, sizes)  # what is undefined hides nothing
    present = (sizes[:, 0] > 0.0) & (counts > 0)
    sizes, counts = sizes[present], counts[present]
    levels, index = np.unique(np.ceil(np.log(sizes[:, 0]) / _CLOSE), return_inverse=True)
    values = np.zeros((levels.size, sizes.shape[1]))
    np.maximum.at(values, index, sizes)
    totals = np.bincount(index, counts, levels.size).astype(np.float64)
    values, totals = _by_weight(values, totals, _MANY_BINS)
    values, totals = _by_cost(values, totals, _BINS)
    return [(v, round(float(n))) for v, n in zip(values, totals, strict=True)]


def _by_weight(values: Array, totals: Array, most: int) -> tuple[Array, Array]:
    """(values, totals) of at most `most` bins of increasing values, each bin with about an equal part of Σ
    total·value²."""
    if totals.size <= most:
        return values, totals
    weight = np.cumsum(totals * values[:, 0] ** 2)
    bins = np.minimum((weight / weight[-1] * most).astype(np.int64), most - 1)
    first = np.append(0, np.flatnonzero(np.diff(bins)) + 1)
    return np.maximum.reduceat(values, first, axis=0), np.asarray(np.add.reduceat(totals, first))


def _by_cost(values: Array, totals: Array, most: int) -> tuple[Array, Array]:
    """(values, totals) of at most `most` values: time and again the cheapest is raised to the next."""
    values, totals = values.copy(), totals.copy()
    price = np.expm1(np.minimum(values[:, 0] ** 2, 100.0))  # about what one factor costs
    while totals.size > most:
        i = int(np.argmin(totals[:-1] * np.diff(price)))
        totals[i + 1] += totals[i]
        values[i + 1] = np.maximum(values[i], values[i + 1])
        values, totals, price = (np.delete(x, i, axis=0) for x in (values, totals, price))
    return values, totals

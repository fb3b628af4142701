"""Batches drawn anew in every step: shifts that noise and chance hide, from one side and from both.

Those of a shuffled order are in `secret_order`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from pabi.account.analyses.shifted_interpolation import of_tuned, product, sampled_view
from pabi.account.facts.sampled import Blocks, Pulls, SampledRun
from pabi.account.shifts.random import (
    Cost,
    Descent,
    DrawnDistance,
    PayOff,
    Split,
    drawn_distance,
    lead_in,
    two_sided,
)
from pabi.describe.runs import NoisySGD
from pabi.numbers import encoding
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.tradeoff import Gaussian, Mixture, Product
from pabi.verification.granting import Proposal

# One-sided shift for random batches: a third run starts on the second and is led onto the first.
#
# From step τ on, where the two runs are at most w_τ apart, the third run follows the second's law but for
# two things: a shift towards the first run, which costs a Gaussian factor, and the record's own pull as
# the first run feels it, which costs a subsampled factor, because whether the record is in a batch is
# independent of where the runs are. The two share each step's noise. τ = 0 is composition. How far the
# runs are apart at τ depends on which batches had the record: either w_τ is what all of them would make
# it, or its law is charged for, a mixture of Gaussian factors. (Docs, "Random batches".)
#
# Fixed size, and Poisson under replace_one: Bok, Su, Altschuler 2024, Thm 4.10, for slopes of any size,
# with the forward distance in place of the diameter and the record's pulls compared at the distance they
# are. Poisson under zero_out: the record is there or not, so that its factor is O_p, each direction
# composed by itself, and that a step may charge for a part of its pull and leave the rest to the
# distance.


NAME = "one-sided shift"

_SHORTER = (0.7, 0.4, 0.2)  # of the best window with a sharp start
_LONGEST_LEAD = 4000  # steps
_UNLIKELY = 1e-3  # times δ: distances of less than this probability count as failures in a choice
_ROUNDS = 3

T = TypeVar("T")


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate under random batches, for slopes. Raises NotApplicable."""
    view = sampled_view(run, delta)
    view.window(1)  # NotApplicable here, if no modulus is known
    return of_tuned(NAME, view, lambda power: one_sided_plan(view, power))


@dataclass(frozen=True)
class OneSided:
    """How the distance is paid off over the last steps, which `blocks` cover, and, for a record that is
    there or not, which part of its pull each step right before them charges for; τ is before these. `law`:
    that of the distance, where it is not taken to be the largest."""

    view: SampledRun
    blocks: Blocks
    split: Split
    lead: Array
    cost: float
    law: DrawnDistance | None = None

    def to_dict(self) -> dict[str, Any]:
        """For a certificate."""
        before: dict[str, Any] = {}
        if self.lead.size:
            before["pulls"] = encoding.floats(self.lead)
        if self.law is not None:
            before["drawn"] = self.law.to_dict()
        return {"cap": self.view.covered.cap, **before, **pay_off_dict(self.blocks, self.split)}

    @cached_property
    def curve(self) -> Product:
        """The product that these payments prove."""
        view, split = self.view, self.split
        records = [pay_off_factors(view, self.blocks, split)]
        if self.lead.size:
            last = view.run.steps - self.blocks.steps
            _, _, sigma = view.columns(last - self.lead.size, last)
            charged = Pulls.of(view.factor, self.lead / sigma)
            records.append((charged, np.ones(self.lead.size)))
        hidden = split.gaussian if self.law is None else _mixture(split, self.law)
        return product(hidden, records, view.probability, view.factor, view.covered.failure)


def _mixture(split: Split, law: DrawnDistance) -> Mixture:
    """What it costs to pay off a distance of this law as `split` pays off the largest one."""
    mus = split.gaussian * (law.values / law.values[-1])
    return Mixture([Gaussian(mu) for mu in mus.tolist()], law.weights.tolist())


def one_sided_plan(view: SampledRun, power: float) -> OneSided:
    """The best start and payments for the tilt λ = `power`."""
    run = view.run
    if run.constant:
        _, _, s, sigma, _ = view.constants
        strongest = 2.0 * s / sigma
    else:
        blocks = view.window(min(view.most, 1000))
        busy = blocks.s > 0.0
        strongest = float(np.max(2.0 * blocks.s[busy] / blocks.sigma[busy], initial=1e-9))
    cost = Cost(view.factor, view.probability, power, 4.0 * strongest)
    pay_off = PayOff(cost, pulls_apart(view))

    def at(window: int) -> OneSided:
        part = view.window(window, pieces=48)
        start = view.distance(run.steps - window, view.factor.change)
        split = pay_off.best(part, start)
        return OneSided(view, part, split, np.zeros(0), split.cost)

    best = least_window(at, view.most, lambda plan: plan.cost)
    plans = [best]
    if view.single:
        least = max(run.cooldown_steps, 1)
        shorter = {max(least, round(share * best.blocks.steps)) for share in _SHORTER}
        led_in = (
            _led_in(view, pay_off, best.blocks.steps, min(n, run.steps)) for n in sorted(shorter)
        )
        plans += [plan for plan in led_in if plan is not None]

    def drawn(window: int) -> OneSided:
        return _drawn(view, pay_off, window, power) or best

    plans.append(least_window(drawn, min(4 * best.blocks.steps, view.most), lambda plan: plan.cost))
    return min(plans, key=lambda plan: plan.cost)


def _drawn(view: SampledRun, pay_off: PayOff, window: int, power: float) -> OneSided | None:
    """The best plan found that charges for the law of the distance; None where it says no more than the
    largest one, or the distance vanishes by itself."""
    law = drawn_distance(view, view.run.steps - window)
    if law is None:
        return None
    blocks, largest = view.window(window, pieces=48), float(law.values[-1])
    likely = law.weights[::-1].cumsum()[::-1] > _UNLIKELY * view.delta
    values, weights = law.values[likely], law.weights[likely]
    distance, best = float(values @ weights), None
    for _ in range(_ROUNDS):  # the shares are right for a distance that costs what its law does
        split = pay_off.best(blocks, distance)
        if not 0.0 < split.gaussian < math.inf:
            return None
        each = split.gaussian / distance
        hidden = _mixture_cost(each * values, weights, power)
        whole = split._replace(gaussian=each * largest, before=split.before * (largest / distance))
        apart, _, _ = pay_off_factors(view, blocks, whole)[0]
        total = hidden + float(pay_off.cost(apart) @ blocks.length)
        if best is None or total < best.cost:
            best = OneSided(view, blocks, whole, np.zeros(0), total, law)
        if hidden == 0.0:
            break
        distance = math.sqrt(hidden) / each
    return best


def _mixture_cost(mus: Array, weights: Array, power: float) -> float:
    """2·log-moment/(λ(λ + 1)) of a mixture of G(μ_j), λ = `power`; ∞ on overflow."""
    half = 0.5 * power * (power + 1.0)
    exponents = half * np.square(mus)
    top = float(exponents.max())
    with np.errstate(under="ignore"):
        if top < 1.0:
            return math.log1p(float(weights @ np.expm1(exponents))) / half
        return (top + math.log(float(weights @ np.exp(exponents - top)))) / half


def _led_in(view: SampledRun, pay_off: PayOff, window: int, shorter: int) -> OneSided | None:
    """The best plan that has no sharp start: the steps before a window of `shorter` steps charge for more and
    more of the record's pull. None if the distance overflows."""
    run = view.run
    blocks = view.window(shorter, pieces=48)
    last = run.steps - shorter
    first = max(0, last - min(_LONGEST_LEAD, 3 * window + 100))
    lead = lead_in(
        pay_off, blocks, view.columns(first, last), view.distance(first), run.range_diameter
    )
    if lead is None:
        return None
    charged = np.trim_zeros(lead.pulls, "f")
    return OneSided(view, blocks, lead.split, charged, lead.cost)


def least_window(at: Callable[[int], T], most: int, cost: Callable[[T], float]) -> T:
    """The cheapest plan tried among at(1), …, at(most), whose cost falls and then rises with the window.

    Powers of four below `most` are tried, the same ones however long the run is, then the longest below it if
    the last of them is the best, and windows between those around the best. The whole run is left to
    composition.
    """
    plans = {1: at(1)}
    window = 4
    while window < most:
        plans[window] = at(window)
        if window > 4096 and cost(plans[window]) > 4.0 * min(map(cost, plans.values())):
            break
        window *= 4
    last, least = max(plans), min(map(cost, plans.values()))
    if last < most - 1 and cost(plans[last]) <= least < math.inf:
        plans[most - 1] = at(most - 1)
    for _ in range(6):
        windows = sorted(plans)
        best = min(windows, key=lambda w: cost(plans[w]))
        place = windows.index(best)
        for other in windows[max(0, place - 1) : place + 2]:
            middle = round(math.sqrt(best * other))
            if middle not in plans:
                plans[middle] = at(middle)
    return min(plans.values(), key=cost)


def pay_off_dict(blocks: Blocks, split: Split) -> dict[str, Any]:
    """For a certificate: how many steps each block has, and the share of its noise that hides the shift."""
    return {
        "lengths": [int(n) for n in blocks.length],
        "shares": encoding.floats(split.share),
    }


def pay_off_factors(
    view: SampledRun, blocks: Blocks, split: Split, sides: float = 1.0
) -> tuple[Pulls, Array]:
    """(sizes, counts) of the record's factors while the distance is paid off, one of each a block."""
    apart = pulls_apart(view, sides)(blocks, split.before)
    sizes = Pulls.of(view.factor, blocks.s / blocks.sigma, apart)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = [np.where(blocks.s > 0.0, x / np.sqrt(1.0 - split.share), 0.0) for x in sizes]
    return Pulls(*factors), blocks.length.astype(np.float64)


def pulls_apart(view: SampledRun, sides: float = 1.0) -> Callable[[Blocks, Array], Array]:
    """How far apart the record's pulls on the two data sets can be, over the noise (β = 1), from the distance
    before a block, when each of `sides` runs is that far from its shifted one."""
    change = view.factor.change
    if not view.order.displaces:
        return lambda blocks, before: change * blocks.s / blocks.sigma

    def of(blocks: Blocks, before: Array) -> Array:
        # Pulls of norm at most s and change·s, that at one place differ by change·s at most.
        apart = change * blocks.s + sides * blocks.rho * before
        most = np.minimum((1.0 + change) * blocks.s, apart)
        return np.asarray(np.where(blocks.s > 0.0, most, 0.0) / blocks.sigma)

    return of


# Two-sided shift for random batches: both runs are replaced, each by one that lags behind.
#
# While the record is in a batch both shifted runs follow theirs by a step a ≤ s only; the rest stays as a
# distance z, and what the attacker sees of the record is hidden by sampling. (On the branch without the
# record nothing is shifted, so that the distance there is cz: paying more than s could not help.) In the
# last steps the distances are paid off whatever the batch holds, which costs a Gaussian factor of twice
# the distance, and the record's pull a subsampled one.
#
# Source: Bok, Su, Altschuler 2024, Thm C.13 (Thm 4.9), sharpened: the two pulls are compared at the
# distance they are, and the distance is paid off over several steps (docs, "Random batches").


TWO_SIDED = "two-sided shift"

_SHORTER_TWO_SIDED = (
    1.0,
    0.8,
    0.6,
    0.4,
)  # of the best pay-off without lagging: what is tried with it


def two_sided_shift(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate under random batches, where two records pull; constant schedules."""
    view = sampled_view(run, delta)
    if view.single:
        raise NotApplicable("the other data set's record pulls nowhere: see one-sided shift")
    if not view.run.constant:
        raise NotApplicable("step sizes or noises vary: see one-sided shift")
    view.window(1)
    if view.run.data_steps < 2:
        raise NotApplicable("one step leaves nothing to lag behind")
    return of_tuned(TWO_SIDED, view, lambda power: two_sided_plan(view, power))


@dataclass(frozen=True)
class TwoSided:
    """Payments while lagging, and how the distance that remains is paid off at the end."""

    view: SampledRun
    descent: Descent
    blocks: Blocks
    split: Split
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """For a certificate: the payments come right before the steps that the blocks cover."""
        payments = encoding.floats(self.descent.payments)
        pay_off = pay_off_dict(self.blocks, self.split)
        return {"cap": self.view.covered.cap, "payments": payments, **pay_off}

    @cached_property
    def curve(self) -> Product:
        """The product that these payments prove."""
        view, split, descent = self.view, self.split, self.descent
        lagging = stage(view, descent.before[:-1], descent.payments)
        final = pay_off_factors(view, self.blocks, split, 2.0)
        records = [(lagging, np.ones(descent.payments.size)), final]
        return product(split.gaussian, records, view.probability, view.factor, view.covered.failure)


def stage(view: SampledRun, z: Array, a: Array) -> Pulls:
    """The sizes of the factor of a step with payment a at distance z.

    The two shifted pulls have norms λ(cz + s) = a and, of a record that is zeroed, λ(cz + s/2). They differ
    by λ(2cz + change·s) under fixed size, by 2a under Poisson.
    """
    c, _, s, sigma, _ = view.constants
    if not view.order.displaces:
        return Pulls.of(view.factor, a / sigma)
    owed = c * z + s
    other = a * (c * z + view.factor.change * s) / (owed * sigma)
    return Pulls(a * (2.0 * c * z + view.factor.change * s) / (owed * sigma), a / sigma, other)


def two_sided_plan(view: SampledRun, power: float) -> TwoSided:
    """The best payments for the tilt λ = `power`."""
    run = view.run
    _, _, s, sigma, _ = view.constants
    cost = Cost(view.factor, view.probability, power, 8.0 * s / sigma)
    pay_off = PayOff(cost, pulls_apart(view, 2.0), doubled=2.0)
    highest = view.distance(run.data_steps)  # with s in every step, and within the diameter
    if not math.isfinite(highest):
        raise NotApplicable("the distance between the runs overflows")

    def at_once(n: int) -> tuple[int, float]:
        blocks = view.window(run.cooldown_steps + n)
        return n, pay_off.best(blocks, view.distance(run.data_steps - n)).cost

    alone, _ = least_window(at_once, min(view.most, run.data_steps) - 1, lambda choice: choice[1])
    lengths = sorted({1, *(max(1, round(share * alone)) for share in _SHORTER_TWO_SIDED)})
    finals = {n: view.window(run.cooldown_steps + n) for n in lengths}
    points = highest * np.linspace(0.0, 1.0, 15) ** 1.5
    table = np.array([[pay_off.best(finals[n], z).cost for z in points.tolist()] for n in lengths])
    best, least = None, math.inf
    for row, n in zip(table, lengths, strict=True):
        if not row.min() > least:
            plan = _lagging(view, pay_off, finals[n], points, row)
            if plan.cost < least:
                best, least = plan, plan.cost
    if best is None:
        raise NotApplicable("whatever is paid, the distance between the runs stays too large")
    return best


def _lagging(
    view: SampledRun, pay_off: PayOff, final: Blocks, points: Array, costs: Array
) -> TwoSided:
    """The best payments before the steps `final`, which cost `costs` from the distances `points`."""
    c, _, s, _, _ = view.constants
    descent = two_sided(
        c,
        s,
        view.distance,
        view.run.steps - final.steps,
        lambda z: np.interp(z, points, costs),
        lambda z, a: pay_off.cost(stage(view, z, a).apart),
    )
    split = pay_off.best(final, float(descent.before[-1]))
    return TwoSided(view, descent, final, split, descent.cost)

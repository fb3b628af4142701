"""Two-sided shift for random batches: both runs are replaced, each by one that lags behind.

While the record is in a batch both shifted runs follow theirs by a step a ≤ s only; the rest stays as a
distance z, and what the attacker sees of the record is hidden by sampling. (On the branch without the
record nothing is shifted, so that the distance there is cz: paying more than s could not help.) In the
last steps the distances are paid off whatever the batch holds, which costs a Gaussian factor of twice
the distance, and the record's pull a subsampled one.

Source: Bok, Su, Altschuler 2024, Thm C.13 (Thm 4.9), sharpened: the two pulls are compared at the
distance they are, and the distance is paid off over several steps (docs, "Random batches").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pabi.analyses.one_sided_shift import least_window, pay_off_dict, pay_off_factors, pulls_apart
from pabi.analyses.shifted_interpolation import product, sampled_view, tuned_guarantee
from pabi.describe.iteration import NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.sampled import Blocks, Pulls, SampledRun
from pabi.numbers import encoding
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.shifts.random import Cost, Descent, PayOff, Split, two_sided
from pabi.tradeoff import Product

NAME = "two-sided shift"
SOURCE = "Bok, Su, Altschuler 2024, Thm C.13, sharpened (docs, Random batches)"

_SHORTER = (1.0, 0.8, 0.6, 0.4)  # of the best pay-off without lagging: what is tried with it


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate under random batches of a constant schedule, where two records pull.
    Raises NotApplicable."""
    view = sampled_view(description, delta)
    if view.single:
        raise NotApplicable("the other data set's record pulls nowhere: see one-sided shift")
    if not view.run.constant:
        raise NotApplicable("step sizes or noises vary: see one-sided shift")
    view.window(1)
    if view.run.data_steps < 2:
        raise NotApplicable("one step leaves nothing to lag behind")
    return tuned_guarantee(NAME, SOURCE, view, lambda power: planned(view, power))


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


def planned(view: SampledRun, power: float) -> TwoSided:
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
    lengths = sorted({1, *(max(1, round(share * alone)) for share in _SHORTER)})
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

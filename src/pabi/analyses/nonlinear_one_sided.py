"""One-sided shift for random batches where a step's modulus is more than a slope.

As in `one_sided_shift`: over the last steps the shift towards the first run costs a Gaussian factor, the
record's own pull a subsampled one, and the two share each step's noise. Steps with data all give the shift
the same share of it; what a shift then costs is found by `pabi.shifts.nonlinear`. The record's membership is
independent of where the runs are, given the other records of the batch, so that one step's factor needs no
more of the loss than its modulus for every batch (docs, "Random batches", whose proof takes any modulus).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from pabi.analyses.one_sided_shift import SOURCE_POISSON, least_window
from pabi.analyses.shifted_interpolation import (
    CLEARLY,
    product,
    sampled_view,
    tuned_guarantee,
)
from pabi.describe.iteration import NoisyIteration
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.sampled import Pulls, SampledRun, every_step
from pabi.normal_forms.step_moduli import StepModuli
from pabi.numbers import encoding
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.shifts.nonlinear import StepPayments, parted, solve
from pabi.shifts.random import Cost, prices_below
from pabi.tradeoff import Product

NAME = "nonlinear one-sided shift"
SOURCE = "Bok, Su, Altschuler 2024, Thm 4.10, for any modulus (docs, Random batches)"

_SUM = 1.0 + 1e-14  # above the roundings of a modulus and of what is added to it
_QUOTIENT = 1.0 + 1e-15  # above those of a quotient of products
_LONGEST = 20_000  # steps of a window
_FARTHEST = 1_000_000  # steps through which the distance is followed
_SHARES = np.concatenate([np.geomspace(1e-4, 0.05, 12), np.linspace(0.1, 0.95, 18)])


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate under random batches, for any modulus. Raises NotApplicable."""
    view = sampled_view(description, delta)
    source = SOURCE_POISSON if view.single else SOURCE
    return tuned_guarantee(NAME, source, view, _Windows(view).planned)


@dataclass(frozen=True)
class Window:
    """The last steps of a run: what hiding the distance before them costs at all the noise of every step, and
    what sizes the record's factor has in each (0 in the cool-down)."""

    payments: StepPayments
    sizes: Pulls


@dataclass(frozen=True)
class SharedNoise:
    """A window whose steps with data give the shift the part `share` of their noise."""

    view: SampledRun
    window: Window
    share: float
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """For a certificate: the payments are those of the last steps."""
        payments = encoding.floats(self.window.payments.a)
        return {"cap": self.view.covered.cap, "payments": payments, "share": self.share}

    @cached_property
    def curve(self) -> Product:
        """The product that these payments prove."""
        window, view = self.window, self.view
        with np.errstate(divide="ignore", over="ignore"):
            gaussian = math.sqrt(window.payments.square / self.share)
        records = window.sizes.times(1.0 / math.sqrt(1.0 - self.share) * _QUOTIENT)
        factors = [(records, np.ones(records.apart.size))]
        return product(gaussian, factors, view.probability, view.factor, view.covered.failure)


class _Windows:
    """The windows of a run with random batches, with what they cost."""

    def __init__(self, view: SampledRun) -> None:
        self.run, self.view = view.run, view
        self.moduli = StepModuli(view.run, view.covered)
        self._known: dict[int, Window] = {}

    @cached_property
    def _steps(self) -> tuple[Array, Array, Array]:
        """(s, σ, ρ) of the longest window's steps; s and ρ are 0 in the cool-down."""
        run, first = self.run, max(0, self.run.steps - _LONGEST)
        s, sigma, rho = self.view.pull_columns(*run.schedule(first, run.steps))
        idle = np.arange(first, run.steps) >= run.data_steps
        return np.where(idle, 0.0, s), sigma, np.where(idle, 0.0, rho)

    @cached_property
    def _distances(self) -> Array:
        """How far apart the runs can be after so many steps, up to where no window begins any more."""
        run, diameter, change = self.run, self.run.range_diameter, self.view.factor.change
        if run.steps > _FARTHEST:
            raise NotApplicable(f"more than {_FARTHEST} steps, and no diameter")
        s, _, _ = self.view.pull_columns(*run.schedule(0, run.steps))
        s[run.data_steps :] = 0.0
        moduli = self.moduli.shapes(0, run.steps).evaluators()
        return parted(moduli, change * s, diameter, 0.0, _SUM)

    def _distance(self, steps: int) -> float:
        """How far apart the two runs can be after `steps` steps."""
        diameter = self.run.range_diameter
        if math.isfinite(diameter) and self.run.steps > _LONGEST:
            return diameter if steps else 0.0
        return float(self._distances[steps])

    def window(self, steps: int) -> Window:
        """The window of the last `steps` steps."""
        if steps not in self._known:
            run, begin = self.run, self.run.steps - steps
            s, sigma, rho = (x[len(x) - steps :] for x in self._steps)
            # A step of the cool-down has no record to hide: all its noise hides the shift. That is left
            # aside, so that what the shift costs is in proportion to 1/share.
            payments = solve(
                self.moduli.shapes(begin, run.steps),
                np.zeros(steps),
                sigma,
                math.inf,
                self._distance(begin),
            )
            change = self.view.factor.change
            pull = change * s
            if self.view.order.displaces:
                # ∞·0 is no number: where nothing bounds ρ, nothing is said of places that coincide.
                bounded = np.isfinite(rho)
                further = np.where(bounded, rho, 0.0) * payments.z[:-1]
                apart = np.where(bounded, pull + further, np.inf)
                pull = np.minimum((1.0 + change) * s, apart)
            sizes = Pulls.of(self.view.factor, s / sigma, pull / sigma).times(_QUOTIENT)
            self._known[steps] = Window(payments, sizes)
        return self._known[steps]

    def _least_energy(self, steps: int) -> float:
        """A bound from below on what hiding the distance before the last `steps` steps costs; 0 if unknown.

        Each modulus is at least a line through 0, and lines are paid off in closed form.
        """
        begin = self.run.steps - steps
        shape = self.moduli.shapes(begin, self.run.steps)
        slopes = shape.least_slopes
        if not np.isfinite(slopes).all():
            return 0.0
        with np.errstate(divide="ignore"):
            squares = 2.0 * np.log(slopes)
        # log Π c² over the steps after each
        later = np.append(np.cumsum(squares[:0:-1])[::-1], 0.0)
        top = float(later.max())
        _, sigma, _ = self._steps
        noise = sigma[len(sigma) - steps :]
        unit = float(noise.max())  # its square may be no double
        room = float((noise / unit) ** 2 @ np.exp(later - top))
        if room == 0.0:  # it underflows
            return 0.0
        factor = math.exp(min(later[0] + squares[0] - top, 700.0)) / room
        distance = self._distance(begin) / unit
        return distance * distance * factor if factor > 0.0 else 0.0

    def _worth_solving(self, power: float) -> Callable[[int], bool]:
        """Whether a window of so many steps may cost less than `CLEARLY` times what composition does, at
        the tilt λ = `power`."""
        factor, probability = self.view.factor, self.view.probability

        def costs(mus: Array) -> Array:
            return prices_below(factor, probability, power, mus)

        sizes, counts = every_step(self.run, factor)
        limit = CLEARLY * float(costs(sizes.apart) @ counts)
        s, sigma, _ = self._steps
        pulls = np.zeros_like(s)
        busy = s > 0.0
        pulls[busy] = costs(self.view.factor.change * s[busy] / sigma[busy])
        pulls = pulls[::-1].cumsum()

        def worth(steps: int) -> bool:
            return bool(self._least_energy(steps) / _SHARES[-1] + pulls[steps - 1] < limit)

        return worth

    def planned(self, power: float) -> SharedNoise:
        """The best window and share for the tilt λ = `power`.

        Raises NotApplicable where every window costs clearly more than composition.
        """
        run, view = self.run, self.view
        # Where one window has been solved, it is too late to save work.
        worth = (lambda steps: True) if self._known else self._worth_solving(power)

        @cache
        def cost() -> Cost:
            s, sigma, _ = self._steps
            strongest = float(np.max(2.0 * s / sigma, initial=1e-9))
            return Cost(view.factor, view.probability, power, 5.0 * strongest)

        def at(steps: int) -> SharedNoise | None:
            if not worth(steps):
                return None
            window = self.window(steps)
            records = cost()(window.sizes.apart[:, None] / np.sqrt(1.0 - _SHARES)).sum(axis=0)
            totals = window.payments.square / _SHARES + records
            i = int(np.argmin(totals))
            return SharedNoise(view, window, float(_SHARES[i]), float(totals[i]))

        plan = least_window(
            at, min(run.steps, _LONGEST), lambda x: math.inf if x is None else x.cost
        )
        if plan is None:
            raise NotApplicable(
                "hiding the distance before the last steps alone costs more than composition"
            )
        return plan

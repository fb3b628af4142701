"""Moduli of any shape: shifts of runs in an order, and of batches drawn anew.

Steps on nonsmooth, weakly smooth, dissipative, nonconvex or clipped losses may push two near points apart and
still keep far ones together. Which record is worst (docs, "The worst record"): if all steps are alike, the
one used last, for any modulus. Otherwise every position is solved; or, where that is too much, steps that
differ because an epoch's last batch is short are taken to be alike, with a modulus above both, and cool-down
steps are left out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from pabi.account.analyses.random_batches import least_window
from pabi.account.analyses.secret_order import averaged, shuffled_once
from pabi.account.analyses.shifted_interpolation import (
    CLEARLY,
    DEFAULT_DELTA,
    in_order,
    of_tuned,
    product,
    require_hidden_path,
    sampled_view,
)
from pabi.account.analyses.writing import (
    IterationProof,
    RunProof,
    computed,
    shifts_of,
)
from pabi.account.facts.positions import OrderedView, Uses, check_position
from pabi.account.facts.sampled import Pulls, SampledRun, every_step
from pabi.account.facts.step_moduli import Shapes, StepModuli, shapes
from pabi.account.shifts.epochs import Record
from pabi.account.shifts.nonlinear import MOST_STEPS, StepPayments, parted, solve
from pabi.account.shifts.random import Cost, prices_below
from pabi.describe.batches import FAILING, SecretOrder
from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Linear, Modulus, Unbounded, table_of
from pabi.describe.runs import NoisySGD
from pabi.numbers import encoding
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array, up
from pabi.tradeoff import Gaussian, Product
from pabi.verification.granting import Proposal

NAME = "nonlinear shifts"

_LARGEST = sys.float_info.max  # JSON has no ∞
_LAST_STEPS = 200_000  # that are looked at, where a diameter bounds what came before
MOST_WORK = 300_000  # positions times steps up to which every position is solved
_BUCKETS = 12  # of positions under a secret order


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate for the worst record or for those of one batch, or, under a secret
    permutation, on average."""
    require_hidden_path(run)
    order = in_order(run)
    if isinstance(order, SecretOrder):
        return _averaged(run, order, delta or DEFAULT_DELTA)
    return _of_worst(run, position)


def _of_worst(run: NoisySGD, position: int | None) -> Proposal:
    view = OrderedView(run)
    moduli = StepModuli(run, view.demand.fractions())
    alike, positions = _worst(view, moduli, position)
    steps = BentSteps.of(view, moduli, alike)
    steps.require_gain()
    solved = [steps.record(view.uses(j)) for j in positions]
    curve, cases = Gaussian(max(x.mu for x in solved)), [(x, None) for x in solved]
    return computed(RunProof(NAME, run, curve, cases, position, alike=alike))


def _averaged(run: NoisySGD, order: SecretOrder, delta: float) -> Proposal:
    if not order.once:
        raise NotApplicable(
            "a record's place changes every epoch: see secret order, latest uses and epoch by epoch"
        )
    view = OrderedView(run)
    fractions = view.demand.fractions(FAILING * delta)
    moduli = StepModuli(run, fractions)
    alike, _ = _worst(view, moduli, None)
    steps = BentSteps.of(view, moduli, alike)
    if run.data_steps % view.period == 0:  # all positions have as many uses
        steps.require_gain()
    solved = shuffled_once(
        view, order, lambda js: [steps.record(view.uses(j)) for j in js], alike, _BUCKETS
    )
    return computed(averaged(NAME, view, solved, fractions, alike=alike))


def _worst(
    view: OrderedView, moduli: StepModuli, position: int | None
) -> tuple[bool, Sequence[int]]:
    """(whether all steps are taken to be alike, so that a record used later is never safer, and cool-down
    steps are left out; the positions that can be worst)."""
    run, work = view.run, view.period * view.run.steps
    if position is not None:
        return False, [check_position(run, position)]
    if run.constant and (work > MOST_WORK or moduli.alike):
        return True, [view.last_position]
    if work <= MOST_WORK:
        return False, range(view.period)
    raise NotApplicable(f"any of {view.period} positions can be the worst: too many to solve")


@dataclass(frozen=True)
class BentSteps:
    """The steps of a run from `begin` on, whose moduli may have any shape: `s` of a step that uses the
    records, and σ. Where they do not begin with the run, the two runs are a diameter apart there."""

    view: OrderedView
    shape: Shapes
    s: Array
    sigma: Array
    begin: int = 0

    @classmethod
    def of(cls, view: OrderedView, moduli: StepModuli, alike: bool) -> BentSteps:
        """The last steps that matter. `alike`: whether all steps with data have one modulus above theirs, and
        the cool-down is left out."""
        run = view.run
        end = run.data_steps if alike else run.steps
        bounded = math.isfinite(run.range_diameter)
        begin = max(0, end - _LAST_STEPS) if bounded else 0
        if end - begin > MOST_STEPS:
            raise NotApplicable(f"more than {MOST_STEPS} steps, and no diameter")
        if not alike:
            shape = moduli.shapes(begin, end)
        elif isinstance(moduli.above_data_steps, Unbounded):
            raise NotApplicable(
                "the last batch of an epoch is short, and nothing covers both lengths"
            )
        else:
            shape = shapes([moduli.above_data_steps]).of(np.zeros(end - begin, dtype=np.intp))
        return cls(view, shape, *run.step_constants(*run.schedule(begin, end)), begin)

    def require_gain(self) -> None:
        """Raises NotApplicable where no payments beat composition (docs, "Shifts under any modulus").

        So it is if all noises are equal and being apart adds as much to the distance in every step as a use
        of the record does.
        """
        run, shape = self.view.run, self.shape
        if not run.constant or math.isfinite(run.range_diameter):
            return
        if shape.least_slopes.min() >= 1.0 and shape.least_shifts.min() >= self.s.max():
            raise NotApplicable(
                "a step apart costs as much as a use of the record: see composition"
            )

    def record(self, uses: Uses) -> Record:
        """The bound for a record with these uses."""
        if not uses.total:
            return Record(uses)
        end, used = self.begin + self.s.size, uses.steps(self.view.period)
        used = used[(used >= self.begin) & (used < end)] - self.begin
        s = np.zeros_like(self.s)
        s[used] = self.s[used]
        return replace(self, s=s).solved(uses)

    def solved(self, uses: Uses) -> Record:
        """The bound where every step uses the records; `uses`: what it is told to be about."""
        diameter = self.view.run.range_diameter
        start = diameter if self.begin else 0.0
        payments = solve(self.shape, self.s, self.sigma, diameter, start)
        return Record(uses, shifts=payments._replace(first=payments.first + self.begin))


def of_iteration(iteration: NoisyIteration, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate of a bare iteration."""
    moduli = [iteration.moduli] if isinstance(iteration.moduli, Modulus) else iteration.moduli or ()
    if all(isinstance(m, Linear) for m in moduli):
        raise NotApplicable("every modulus is linear: see shifted interpolation")
    if all(isinstance(m, Unbounded) for m in moduli):
        raise NotApplicable("nothing is known of how far the steps stretch")
    if _steps_of(iteration) > MOST_STEPS:
        raise NotApplicable(f"more than {MOST_STEPS} steps, whose moduli are not linear")
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    shape, (s, sigma) = shapes(iteration.every_modulus), _columns_of(iteration)
    payments = solve(shape, s, sigma, diameter, iteration.start)
    curve = Gaussian(math.sqrt(payments.square))
    return NonlinearIterationProof(NAME, iteration, curve, payments=payments)


def _steps_of(iteration: NoisyIteration) -> int:
    assert iteration.steps is not None
    return iteration.steps


def _columns_of(iteration: NoisyIteration) -> tuple[Array, Array]:
    """The sensitivity and the noise of every step."""
    s, sigma = (
        np.broadcast_to(np.asarray(x, dtype=np.float64), _steps_of(iteration))
        for x in (iteration.step_sensitivity, iteration.step_noise_std)
    )
    return s, sigma


@dataclass(frozen=True, eq=False)
class NonlinearIterationProof(IterationProof):
    """The proof of a bare iteration whose moduli are not all linear. A modulus known as a function only is
    written down by its values where they matter."""

    payments: StepPayments = field(kw_only=True)

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the steps, the claim and the payments."""
        iteration, every = self.subject, self.subject.every_modulus
        index = {m: i for i, m in enumerate(dict.fromkeys(every))}
        s, sigma = _columns_of(iteration)
        return {
            "run": None,
            **self.claimed(),
            "diameter": iteration.diameter,
            "start": iteration.start,
            "moduli": [table_of(m) for m in index],
            "which": encoding.floats([index[m] for m in every]) if len(index) > 1 else None,
            "steps": {"s": encoding.floats(s), "sigma": encoding.floats(sigma)},
            "cases": [self._case(every)],
        }

    def _case(self, every: Sequence[Modulus]) -> dict[str, Any]:
        case, payments = shifts_of(self.payments), self.payments
        functions = [k for k in range(payments.first, len(every)) if table_of(every[k]) is None]
        if not (functions and case):
            return case
        z = [min(float(payments.z[k - payments.first]), _LARGEST) for k in functions]
        values = [min(up(float(every[k](x))), _LARGEST) for k, x in zip(functions, z, strict=True)]
        return case | {"at": encoding.floats(z), "values": encoding.floats(values)}


# One-sided shift for random batches where a step's modulus is more than a slope.
#
# As in `one_sided_shift`: over the last steps the shift towards the first run costs a Gaussian factor,
# the record's own pull a subsampled one, and the two share each step's noise. Steps with data all give
# the shift the same share of it; what a shift then costs is found by `pabi.account.shifts.nonlinear`. The
# record's membership is independent of where the runs are, given the other records of the batch, so that
# one step's factor needs no more of the loss than its modulus for every batch (docs, "Random batches",
# whose proof takes any modulus).


ONE_SIDED = "nonlinear one-sided shift"

_SUM = 1.0 + 1e-14  # above the roundings of a modulus and of what is added to it
_QUOTIENT = 1.0 + 1e-15  # above those of a quotient of products
_LONGEST = 20_000  # steps of a window
_FARTHEST = 1_000_000  # steps through which the distance is followed
_SHARES = np.concatenate([np.geomspace(1e-4, 0.05, 12), np.linspace(0.1, 0.95, 18)])


def nonlinear_one_sided(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate under random batches, for any modulus. Raises NotApplicable."""
    view = sampled_view(run, delta)
    return of_tuned(ONE_SIDED, view, _Windows(view).planned)


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
        """The best window and share for the tilt λ = `power`."""
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

"""Shifted interpolation where a step's modulus is more than a slope.

Steps on nonsmooth, weakly smooth, dissipative, nonconvex or clipped losses may push two near points apart
and still keep far ones together: their moduli ω are not linear. The interpolation is that of
`shifted_interpolation`, the shifts are those of `pabi.shifts.nonlinear`.

Which record is worst (docs, "The worst record"): if all steps are alike, the one used last, for any modulus.
Otherwise every position is solved; or, where that is too much, steps that differ because an epoch's last
batch is short are taken to be alike, with a modulus above both, and cool-down steps are left out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pabi.analyses.secret_order import averaged, shuffled_once
from pabi.analyses.shifted_interpolation import DEFAULT_DELTA, in_order, require_hidden_path
from pabi.analyses.writing import IterationProof, RunProof, claim, promised, shifts_of
from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Linear, Modulus, Unbounded
from pabi.describe.orders import FAILING, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView, Uses, check_position
from pabi.normal_forms.step_moduli import Shapes, StepModuli, shapes
from pabi.numbers import encoding
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import Array, up
from pabi.shifts.epochs import Record, mu_of
from pabi.shifts.nonlinear import MOST_STEPS, StepPayments, solve
from pabi.tradeoff import Gaussian

NAME = "nonlinear shifts"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, for any modulus (docs, Shifts imply GDP); Bravo, Flores-Mella, "
    "Guzmán, Thm 3.4"
)

_LARGEST = sys.float_info.max  # JSON has no ∞
_LAST_STEPS = 200_000  # that are looked at, where a diameter bounds what came before
MOST_WORK = 300_000  # positions times steps up to which every position is solved
_BUCKETS = 12  # of positions under a secret order


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate for the worst record or for those of one batch, or, under a secret
    permutation, on average."""
    if isinstance(description, NoisyIteration):
        return _iteration(description)
    require_hidden_path(description)
    order = in_order(description)
    if isinstance(order, SecretOrder):
        return _averaged(description, order, delta or DEFAULT_DELTA)
    return _of_worst(description, position)


def _of_worst(run: NoisySGD, position: int | None) -> Guarantee:
    view = OrderedView(run)
    moduli = StepModuli(run, view.demand.fractions())
    alike, positions = _worst(view, moduli, position)
    steps = BentSteps.of(view, moduli, alike)
    steps.require_gain()
    solved = [steps.record(view.uses(j)) for j in positions]
    curve, cases = Gaussian(max(x.mu for x in solved)), [(x, None) for x in solved]
    return promised(RunProof(NAME, run, curve, cases, position, alike=alike), SOURCE)


def _averaged(run: NoisySGD, order: SecretOrder, delta: float) -> Guarantee:
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
    return promised(averaged(NAME, view, solved, fractions, alike=alike), SOURCE)


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


def _iteration(iteration: NoisyIteration) -> Guarantee:
    moduli = [iteration.moduli] if isinstance(iteration.moduli, Modulus) else iteration.moduli or ()
    if all(isinstance(m, Linear) for m in moduli):
        raise NotApplicable("every modulus is linear: see shifted interpolation")
    if all(isinstance(m, Unbounded) for m in moduli):
        raise NotApplicable("nothing is known of how far the steps stretch")
    if _steps_of(iteration) > MOST_STEPS:
        raise NotApplicable(f"more than {MOST_STEPS} steps, whose moduli are not linear")
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    shape, (s, sigma) = shapes(_moduli_of(iteration)), _columns_of(iteration)
    payments = solve(shape, s, sigma, diameter, iteration.start)
    curve = Gaussian(mu_of(payments.square))
    return promised(NonlinearIterationProof(NAME, iteration, curve, payments=payments), SOURCE)


def _steps_of(iteration: NoisyIteration) -> int:
    assert iteration.steps is not None
    return iteration.steps


def _moduli_of(iteration: NoisyIteration) -> list[Modulus]:
    """The modulus of every step."""
    moduli = iteration.moduli
    return [moduli] * _steps_of(iteration) if isinstance(moduli, Modulus) else list(moduli or ())


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
        iteration, every = self.subject, _moduli_of(self.subject)
        index = {m: i for i, m in enumerate(dict.fromkeys(every))}
        s, sigma = _columns_of(iteration)
        return {
            "run": None,
            "claim": claim(self.curve),
            "diameter": iteration.diameter,
            "start": iteration.start,
            "moduli": [_table(m) for m in index],
            "which": encoding.floats([index[m] for m in every]) if len(index) > 1 else None,
            "steps": {"s": encoding.floats(s), "sigma": encoding.floats(sigma)},
            "cases": [self._case(every)],
        }

    def _case(self, every: Sequence[Modulus]) -> dict[str, Any]:
        case, payments = shifts_of(self.payments), self.payments
        functions = [k for k in range(payments.first, len(every)) if _table(every[k]) is None]
        if not (functions and case):
            return case
        z = [min(float(payments.z[k - payments.first]), _LARGEST) for k in functions]
        values = [min(up(float(every[k](x))), _LARGEST) for k, x in zip(functions, z, strict=True)]
        return case | {"at": encoding.floats(z), "values": encoding.floats(values)}


def _table(modulus: Modulus) -> dict[str, Any] | None:
    """A modulus as JSON, None for a function."""
    try:
        return modulus.to_dict()
    except InvalidInput:
        return None

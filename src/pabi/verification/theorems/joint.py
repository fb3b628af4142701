"""Joint payments: a record in one of many bins, and what is paid for it if it is in each.

Stated are, for the use in every step with data, `now`, what is paid in that step, and `rate`: until the next
use of the same bin, or to the end, step k is paid rate·σ_k²·c_(k+1)⋯c_m, m the last of these steps. For every
bin the distances are replayed: it grows by slopes and uses, falls by payments, and has to be 0 at last. With
b_jk, what bin j pays in step k over the noise, and K = b·bᵀ, the stated α_j need α_i·α_j ≥ K_ij of any two
bins, and leave β_j² = K_jj − α_j² (docs, "Joint payments"). Doubles serve: all numbers are nonnegative, so
that sums, products and quotients keep their relative errors, for which there are margins. Distances that are
too small for that are paid for here.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import Refused, closed, positions, timed
from pabi.verification.bounds import JointBound
from pabi.verification.factors import Factor
from pabi.verification.factors.allocations import Allocation, Allocations, LabelGroup
from pabi.verification.factors.closed_forms import Failure, Gaussians
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.replay import RoundedSteps
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Payload, ProofCheck, Proven, named
from pabi.verification.theorems.secret_order import of_one_record

Array = NDArray[np.float64]

SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with payments chosen for all places together (docs, Theory, 6.5, "
    "Theorem 58)"
)

_MOST = 4_000_000  # bins times steps, each of which is gone through; half of them add up
_UP, _DOWN = 1.0 + 1e-10, 1.0 - 1e-10  # more than products of as many doubles err
_STEP = 1.0 + 1e-15  # more than three roundings
_LEAST, _LITTLE = 2.0**-800, 2.0**-100  # the least noise, and a distance in units of it


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    plan = payload["plan"]
    closed("the plan", plan, ("now", "rate", "common"))
    assumptions = run.assumptions(hidden=True)
    alone, opposite = of_one_record(run)
    if max(run.period, 2) * run.total > _MOST:
        raise Refused(f"theorem: more than {_MOST} steps of all bins")
    steps = alone.steps
    if not np.all(steps.sigma >= _LEAST):
        raise Refused("noise: expected some in every step, and more than doubles can hardly hold")
    now, rate = (_numbers(name, plan[name], run.data) for name in ("now", "rate"))
    paid = _paid(alone, steps, now, rate)
    _settle(alone, steps, paid)
    # Squares of what is raised to 2^-400 do not underflow.
    moved = np.where(paid > 0.0, np.maximum(paid / steps.sigma * _UP, 2.0**-400), 0.0)
    common = moved @ moved.T * _UP
    alpha = _numbers("common", plan["common"], run.period)
    _check_covered(common, alpha)
    beta = np.sqrt(np.maximum(np.diag(common) * _UP - alpha * alpha * _DOWN, 0.0)) * _UP
    kinds = Counter(zip(alpha.tolist(), beta.tolist(), strict=True))
    if not opposite:
        groups = [LabelGroup(Fraction(n, run.period), (b,), n, a) for (a, b), n in kinds.items()]
        factors: list[Factor] = [Allocations((Allocation(tuple(groups), False, False),))]
    else:
        # One number in common is a release of its own.
        groups = [LabelGroup(Fraction(n, run.period), (b,), n) for (_, b), n in kinds.items()]
        factors = [Allocations((Allocation(tuple(groups), True, False),))]
        factors.append(Gaussians.single(2.0 * float(alpha.max())))
    return Proven(assumptions, (JointBound.of(*factors, Failure(run.failure)),))


def _numbers(name: str, stated: Any, count: int) -> Array:
    """So many finite numbers ≥ 0."""
    positions(name, count)
    values = read_floats(name, stated)
    if values.size != count:
        raise Refused(f"{name}: expected {count} numbers, got {values.size}")
    if not np.all((values >= 0.0) & (values < math.inf)):
        raise Refused(f"{name}: expected finite numbers ≥ 0")
    return values


def _paid(run: OrderedRun, steps: RoundedSteps, now: Array, rate: Array) -> Array:
    """What every bin pays in every step, (bins, steps)."""
    paid = np.zeros((run.period, run.total))
    for k in timed(range(run.data)):
        end = k + run.period if k + run.period < run.data else run.total
        later = np.ones(end - k)
        with np.errstate(over="ignore", under="ignore"):
            later[:-1] = np.cumprod(steps.c[end - 1 : k : -1])[::-1]
        own = paid[k % run.period, k:end]
        own += rate[k] * steps.sigma[k:end] ** 2 * later
        own[0] += now[k]
    if not np.all(paid < math.inf):
        raise Refused("rate: expected finite payments")
    return paid


def _settle(run: OrderedRun, steps: RoundedSteps, paid: Array) -> None:
    """Refuse unless the payments bring the distance to 0, whichever the record's bin is. A bin that owes so
    little after a step that it might underflow pays more than that at once."""
    distance, columns = np.zeros(run.period), (column.tolist() for column in steps)
    for k, (c, s, sigma) in enumerate(timed(zip(*columns, strict=True))):
        owing = distance > 0.0
        distance *= c
        if k < run.data:
            distance[k % run.period] += s
            owing[k % run.period] = True
        distance = np.maximum(distance * _STEP - paid[:, k] * _DOWN, 0.0)
        settled = (owing & (distance <= _LITTLE * sigma)).nonzero()[0]
        if settled.size:
            paid[settled, k] += 2.0 * _LITTLE * sigma
            distance[settled] = 0.0
    # Also refuses what is not a number.
    if not np.all(distance <= 0.0):
        place = int(np.argmax(~(distance <= 0.0)))
        raise Refused(f"now, rate: bin {place} still owes something after the last step")


def _check_covered(common: Array, alpha: Array) -> None:
    """Refuse unless any two bins have at most the product of their numbers in common."""
    enough = common <= np.outer(alpha, alpha) * _DOWN  # as nothing is that is no number
    np.fill_diagonal(enough, np.diag(common) < math.inf)
    if not enough.all():
        i, j = np.argwhere(~enough)[0].tolist()
        raise Refused(f"common: bins {i} and {j} have more in common than is stated")


THEOREMS = {
    "joint payments": of_runs(
        ordered=ProofCheck(
            ("run", "claim", "position", "plan", "reading"),
            _ordered,
            named("joint payments", SOURCE),
        )
    )
}

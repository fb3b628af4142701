"""Nonlinear shifts: payments under moduli that need not be linear, for the record that is worst off or
averaged over a secret order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from flint import arb

from pabi.numbers.encoding import read_floats
from pabi.verification.arithmetic import Refused, columns, in_time, integer, mu_of, positions, timed
from pabi.verification.cases import (
    CaseCheck,
    ClaimedCase,
    check_start,
    of_cases,
)
from pabi.verification.derivation import Derived
from pabi.verification.factors.closed_forms import Part
from pabi.verification.losses import Omega, check_paid_off, least_of, pay_once, stated
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.places import every_position, worst_position
from pabi.verification.schemes import KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.subjects import (
    KEYS,
    Iteration,
    claims_some,
    named_with_cells,
    proven_of_iteration,
)
from pabi.verification.theorem import Payload, ProofCheck, Proven
from pabi.verification.theorems.mechanisms import LAST_POINT

_SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, for any modulus (docs, Theory, 3, Theorem 1); "
    "Bravo, Flores-Mella, Guzmán, Thm 3.4"
)


def _ordered(run: OrderedRun, payload: Payload) -> list[Part]:
    """If all steps are taken to be alike, a record used later is never safer."""
    alike, cases = payload["alike"], payload["cases"]
    if not isinstance(alike, bool) or (alike and not (run.constant and run.position is None)):
        raise Refused("alike: steps that vary are not alike, and one position needs none of it")
    check = NonlinearCases(run, alike)
    match run.scheme:
        case KnownPositions():
            return worst_position(run, cases, check, later_is_worse=alike)
        case SecretOnce():
            return every_position(run, cases, check, later_is_worse=alike)
        case SecretEveryEpoch():
            raise Refused("theorem: a record's place changes every epoch")
        case _:
            assert_never(run.scheme)


def pay(
    moduli: Sequence[Omega],
    s: Sequence[Any],
    sigma: Sequence[Any],
    *,
    distance: Any,
    payments: Sequence[float],
    first: int,
) -> Any:
    """Σ (a_k/σ_k)² of these payments from z = `distance` before step `first` (0-based), if the distances
    end at zero; Refused, naming the step, otherwise."""
    z, total = distance, arb(0)
    steps = zip(moduli, s, sigma, payments, strict=True)
    for k, (omega, demand, noise, a) in enumerate(steps, first):
        in_time()  # a modulus may have many rows
        cost, z = pay_once(omega, demand, noise, z, a, k)
        total += cost
    check_paid_off(z, first + len(payments))
    return total


class NonlinearCases(CaseCheck):
    """Payments under moduli; `alike`: every step with data has the largest of their moduli, and the cool-down
    is left out."""

    PAYMENTS = ("payments",)

    def __init__(self, run: OrderedRun, alike: bool = False) -> None:
        super().__init__(run)
        self.alike = alike
        self.end = run.data if alike else run.total

    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case, at every step from τ on."""
        return [self._cost(claim) for claim in claims]

    def _cost(self, claim: ClaimedCase) -> Any:
        used = set(claim.uses.all())
        positions("steps", self.end)
        return paid_off(
            self.run,
            claim.case,
            self.end,
            self._modulus,
            lambda k: arb(self.run.s(k)) if k in used else arb(0),
            arb(claim.distance),
        )

    def _modulus(self, k: int) -> Omega:
        """The modulus of step k that holds for every batch that it may have."""
        run = self.run
        if not self.alike:
            return run.modulus(k)
        kinds = run.kinds(0, min(run.data, run.period))
        fractions = tuple(sorted({f for j in kinds for f in run.fractions(j)}))
        return run.gradients.modulus(run.step_size(k), fractions)


def paid_off(
    run: Derived,
    case: dict[str, Any],
    end: int,
    modulus: Callable[[int], Omega],
    owed: Callable[[int], Any],
    distance: Any,
) -> Any:
    """Σ (a_k/σ_k)² of payments at every step from τ to `end`."""
    paid = read_floats("payments", case["payments"]).tolist()
    tau = integer("tau", case["tau"])
    if tau + len(paid) != end:
        raise Refused(f"payments: step {tau + len(paid)}: expected the last at step {end}")
    steps = range(tau, end)
    s, sigma = [owed(k) for k in steps], [arb(run.sigma(k)) for k in timed(steps)]
    moduli = [modulus(k) for k in steps]
    return pay(moduli, s, sigma, distance=distance, payments=paid, first=tau)


def _iteration(iteration: Iteration, payload: Payload) -> Proven:
    case = ("tau", "distance", "payments", "at", "values")
    some = claims_some(payload, cases=1, case=case, steps=("s", "sigma"))
    mu = mu_of(_cost(iteration, payload, payload["cases"][0])) if some else math.inf
    return proven_of_iteration(iteration, mu, hidden=True)


def _cost(iteration: Iteration, payload: Payload, case: dict[str, Any]) -> Any:
    """What the payments cost for moduli taken as stated, a ball.

    A modulus without a table is a function, which never decreases: what is stated of it at a distance
    holds for all smaller ones.
    """
    tables = payload["moduli"]
    s, sigma = (column.tolist() for column in columns(payload["steps"], ("s", "sigma")))
    positions("steps", len(s))
    which = [0] * len(s)
    if payload["which"] is not None:
        which = [int(i) for i in read_floats("which", payload["which"]).tolist()]
    if len(which) != len(s) or not 0 <= min(which) <= max(which) < len(tables):
        raise Refused("which: expected a modulus for every step")
    omegas = [None if table is None else least_of(stated(table)) for table in tables]
    tau = integer("tau", case["tau"])
    distance = arb(check_start(case, iteration.diameter, iteration.start))
    points = zip(
        read_floats("at", case.get("at", [])).tolist(),
        read_floats("values", case.get("values", [])).tolist(),
        strict=True,
    )
    moduli = []
    for k in range(tau, len(s)):
        modulus = omegas[which[k]]
        if modulus is None:
            point = next(points, None)
            if point is None:
                raise Refused(f"step {k + 1}: at: no value of its modulus is stated")
            modulus = _from_value(k, *point)
        moduli.append(modulus)
    paid = read_floats("payments", case["payments"]).tolist()
    demands, noises = ([arb(x) for x in column[tau:]] for column in (s, sigma))
    return pay(moduli, demands, noises, distance=distance, payments=paid, first=tau)


def _from_value(k: int, at: float, value: float) -> Omega:
    """What ω(at) = value says of smaller distances."""

    def omega(z: Any) -> Any:
        if z.is_zero():
            return arb(0)
        if not (z <= arb(at) and value >= 0.0):
            raise Refused(f"step {k + 1}: at: the distance there is larger than {at!r}")
        return arb(value)

    return omega


THEOREMS = {
    "nonlinear shifts": {
        **of_cases("nonlinear shifts", _SOURCE, _ordered, "alike"),
        Iteration: ProofCheck(
            (*KEYS, "moduli", "which"),
            _iteration,
            named_with_cells("nonlinear shifts", _SOURCE, LAST_POINT),
        ),
    }
}

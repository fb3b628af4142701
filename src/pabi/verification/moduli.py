"""Moduli of continuity in ball arithmetic, and payments under them.

A modulus is the least of several rows for z > 0, and 0 at 0. A row is √(κz² + h) + e, or any other function
that never decreases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

from flint import arb

from pabi.verification.arithmetic import above, closed, exact, nonnegative
from pabi.verification.limits import Refused, in_time

Omega = Callable[[Any], Any]  # a ball above a distance ↦ a ball above ω of it


class ModulusRow(Protocol):
    """One bound ω on how far apart a step can bring two points; it never decreases."""

    def scaled(self, factor: Any) -> ModulusRow:
        """factor·ω, for a rational factor ≥ 0."""

    def omega(self) -> Omega:
        """ω of balls above a distance z > 0."""


class Root(NamedTuple):
    """√(κz² + h) + e, of balls or rationals."""

    kappa: Any
    h: Any
    shift: Any

    def scaled(self, factor: Any) -> Root:
        """factor·(√(κz² + h) + e), as a root of the same form."""
        square = factor * factor
        return Root(square * self.kappa, square * self.h, factor * self.shift)

    def omega(self) -> Omega:
        """The function z ↦ √(κz² + h) + e on balls; a constant where κ = 0."""
        kappa, h, shift = arb(self.kappa), arb(self.h), arb(self.shift)
        if kappa.is_zero():  # 0·∞ is 0 here: a constant is one at every distance
            value = h.sqrt() + shift
            return lambda z: value
        return lambda z: (kappa * z * z + h).sqrt() + shift


class Function(NamedTuple):
    """factor·ω(z), ω any function of balls above a distance that gives balls above its values, and that
    never decreases."""

    function: Omega
    factor: Any = 1

    def scaled(self, factor: Any) -> Function:
        """The function times a further factor ≥ 0."""
        return self._replace(factor=factor * self.factor)

    def omega(self) -> Omega:
        """The function z ↦ factor·ω(z) on balls."""
        function, factor = self.function, arb(self.factor)
        return lambda z: factor * function(z)


def linear(slope: Any) -> Root:
    """The row z ↦ slope·z."""
    return Root(slope * slope, 0, 0)


def least_of(rows: Sequence[ModulusRow]) -> Omega:
    """The modulus made of these rows; without any it is ∞ for z > 0."""
    every = [row.omega() for row in rows]

    def omega(z: Any) -> Any:
        if z.is_zero():
            return arb(0)
        if not every:
            return arb("inf")
        return reduce(arb.min, [one(z) for one in every])

    return omega


def largest_of(moduli: Sequence[Omega]) -> Omega:
    """The modulus that is the largest of several at every distance."""
    if len(moduli) == 1:
        return moduli[0]
    return lambda z: reduce(arb.max, [modulus(z) for modulus in moduli])


def stated(table: Any) -> list[ModulusRow]:
    """The rows of a modulus that is taken as stated."""
    kind = table["kind"]
    if kind == "minimum":
        closed("a minimum", table, ("kind", "parts"))
        return [row for part in table["parts"] for row in stated(part)]
    if kind == "unbounded":
        closed("an unbounded modulus", table, ("kind",))
        return []
    names = {"linear": ("slope",), "sqrt": ("kappa", "h"), "affine": ("slope", "shift")}
    if kind not in names:
        raise Refused(f"moduli: the checker knows no {kind!r}")
    closed(f"a modulus of kind {kind}", table, ("kind", *names[kind]))
    p = {name: exact(nonnegative(name, table[name])) for name in names[kind]}
    if kind == "sqrt":
        return [Root(p["kappa"], p["h"], 0)]
    return [Root(p["slope"] ** 2, 0, p.get("shift", 0))]


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


def check_paid_off(z: Any, steps: int) -> None:
    """Refuse a distance z > 0 after the last of so many steps."""
    if not z.is_zero():
        raise Refused(f"step {steps}: the payments leave a distance of {z.str(5)} at the end")


def pay_once(omega: Omega, demand: Any, noise: Any, z: Any, a: float, k: int) -> tuple[Any, Any]:
    """((a/σ)², max(0, ω(z) + s − a)) of step k (0-based); the distance is rounded up."""
    if not 0.0 <= a < math.inf:
        raise Refused(f"step {k + 1}: payments: expected a finite number ≥ 0, got {a!r}")
    owed = omega(z) + demand - arb(a)
    cost = arb(0)
    if a > 0.0:
        if noise.is_zero():
            raise Refused(f"step {k + 1}: payments: no noise is there to pay with")
        cost = (arb(a) / noise) ** 2
    if owed <= 0:
        return cost, arb(0)
    return cost, arb(above(owed)) if owed.is_finite() else owed

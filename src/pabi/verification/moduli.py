"""Moduli of continuity in ball arithmetic, and payments under them.

A modulus is a list of rows (κ, h, e): it is the least of √(κz² + h) + e over them for z > 0, and 0 at 0.
Every row of a gradient step is derived again from the description, in exact rationals but for powers and
roots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from flint import arb, fmpq

from pabi.verification.derivation import Derived, above, exact
from pabi.verification.limits import in_time, timed
from pabi.verification.reading import closed, nonnegative
from pabi.verification.refusal import Refused

Omega = Callable[[Any], Any]  # a ball above a distance ↦ a ball above ω of it


class Row(NamedTuple):
    """√(κz² + h) + e, as balls or rationals."""

    kappa: Any
    h: Any
    shift: Any


def least_of(rows: Sequence[Row]) -> Omega:
    """The modulus made of these rows; without any it is ∞ for z > 0."""
    balls = [Row(arb(r.kappa), arb(r.h), arb(r.shift)) for r in rows]

    def omega(z: Any) -> Any:
        if z.is_zero():
            return arb(0)
        if not balls:
            return arb("inf")
        # 0·∞ is 0 here: a constant is one at every distance.
        squares = [arb(0) if r.kappa.is_zero() else r.kappa * z * z for r in balls]
        values = [(q + r.h).sqrt() + r.shift for q, r in zip(squares, balls, strict=True)]
        best = values[0]
        for value in values[1:]:
            best = best.min(value)
        return best

    return omega


def largest_of(moduli: Sequence[Omega]) -> Omega:
    """The pointwise largest of several."""
    if len(moduli) == 1:
        return moduli[0]

    def omega(z: Any) -> Any:
        values = [m(z) for m in moduli]
        best = values[0]
        for value in values[1:]:
            best = best.max(value)
        return best

    return omega


def stated(table: Any) -> list[Row]:
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
        return [Row(p["kappa"], p["h"], 0)]
    return [Row(p["slope"] ** 2, 0, p.get("shift", 0))]


def derived_rows(derived: Derived, k: int, fraction: Any) -> list[Row]:
    """All that the description says of a step of the size of step k on so large a part of a batch."""
    eta, kept = derived.step_size(k), 1 - derived.step_size(k) * derived.l2
    if fraction == 0:
        return [Row(kept * kept, 0, 0)]
    rows = []
    slope = derived.slope_at(eta, fraction)
    if slope is not None:
        rows.append(Row(slope * slope, 0, 0))
    if kept <= 0:
        return rows
    step = eta * fraction / kept
    for row in _gaps(derived, step):
        rows.append(Row(kept * kept * row.kappa, kept * kept * row.h, kept * row.shift))
    return rows


def _gaps(derived: Derived, step: Any) -> list[Row]:
    """Rows of x ↦ x − step·(mean of the gradients as clipped)."""
    facts, run, rows = derived.facts, derived.run, []
    clipped = derived.clips
    bounds = [exact(run.clip_norm)] if run.clip_norm is not None else []
    bounds += [facts.bound] if facts.bound is not None else []
    if bounds:
        most = min(bounds)
        if (facts.monotone and not clipped) or (facts.convex and derived.harmless):
            rows.append(Row(1, (2 * step * most) ** 2, 0))
        rows.append(Row(1, 0, 2 * step * most))
    if clipped:
        return rows
    if facts.holder:
        rows.append(Row(1, _holder(step, facts.holder), 0))
    if facts.dissipative is not None and facts.curvature is not None:
        offset, rate = facts.dissipative
        kappa = max(fmpq(0), 1 - 2 * step * rate + (step * facts.curvature[1]) ** 2)
        rows.append(Row(kappa, 2 * step * offset, 0))
    return rows


def _holder(step: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """The least gap 4(1 − p)/(1 + p)·(ηM/2)^(2/(1 − p)) found over the known exponents and those between,
    whose constants are weighted geometric means. Any exponent gives a valid one."""
    known = sorted(pairs)
    gaps = [_gap(step, p, arb(m)) for p, m in known]
    for low, high in timed(pairwise(known)):
        if low[0] < high[0]:
            gaps.append(_between(step, low, high))
    best = gaps[0]
    for gap in gaps[1:]:
        best = best.min(gap)
    return best


def _gap(step: Any, p: Any, constant: Any) -> Any:
    half = arb(step) * constant / 2
    if p == 1:
        return arb(0) if half <= 1 else arb("inf")
    ratio = 4 * (1 - p) / (1 + p)
    return arb(ratio) * (half.log() * arb(2 / (1 - p))).exp()


def _between(step: Any, low: tuple[Any, Any], high: tuple[Any, Any]) -> Any:
    (p, m), (q, n) = low, high
    log_half = math.log(float(Fraction(int(step.p), int(step.q)))) - math.log(2.0)
    log_m, log_n = float(arb(m).log().mid()), float(arb(n).log().mid())
    ends = float(Fraction(int(p.p), int(p.q))), float(Fraction(int(q.p), int(q.q)))

    def size(u: float) -> float:
        """The logarithm of the gap, roughly, where e^−u of the way is left."""
        share = -math.expm1(-u)
        x = ends[0] + share * (ends[1] - ends[0])
        if x >= 1.0:
            return math.inf
        log = log_half + (1.0 - share) * log_m + share * log_n
        return math.log(4.0 * (1.0 - x) / (1.0 + x)) + 2.0 / (1.0 - x) * log

    grid = [0.5 * i for i in range(57)]
    nearest = min(range(57), key=lambda i: size(grid[i]))
    a, b = grid[max(0, nearest - 1)], grid[min(56, nearest + 1)]
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = b - golden * (b - a), a + golden * (b - a)
        if size(left) <= size(right):
            b = right
        else:
            a = left
    share = exact(-math.expm1(-(a + b) / 2.0))
    exponent = p + share * (q - p)
    constant = (arb(m).log() * arb(1 - share) + arb(n).log() * arb(share)).exp()
    return _gap(step, exponent, constant)


def pay(
    moduli: Sequence[Omega],
    s: Sequence[Any],
    sigma: Sequence[Any],
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
    if not z.is_zero():
        last = first + len(payments)
        raise Refused(f"step {last}: the payments leave a distance of {z.str(5)} at the end")
    return total


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

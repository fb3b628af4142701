"""What labels reveal that move one more number together, ξ of N(0, 1), computed anew.

Label j multiplies by e^(αξ − α²/2) what it has by itself. In one order δ is ∫ φ(ξ)·V(ξ) dξ with
V = E(Σ w·e^(αξ − α²/2)·L − κ)⁺, in the other with V = E(1 − κ·Σ w·e^(αξ − α²/2)·L)⁺ (docs, "Joint payments").

1. *Few laws.* Of Σ w·e^(αξ − α²/2)·L = e^(aξ)·T: for a fixed number k, E(T − k)⁺ is convex in ξ, and
   E(1 − kT)⁺ in e^(−ρξ), if a is the largest α and ρ the range of all. So between two ξ they lie below their
   chords.
2. *Many ξ.* V is convex in ξ in the first order, in e^(aξ) in the second: it lies below chords between many
   ξ, whose means have closed forms.
3. *Ends.* V rises with ξ in the first order and falls in the second. On the side where it is large it counts
   as the mean of what is above 0, on the other one as where the ξ that are looked at end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from flint import arb, ctx

from pabi.verification.anew.label_sums import LabelPlaces, Side, Sides
from pabi.verification.anew.laws import Array, up, up_from_zero
from pabi.verification.arithmetic import BITS, timed

_LEAST = 1e-3  # a smaller α counts as this, and so does a smaller range
_FAR = 8.5  # ξ beyond the largest α, or below 0
_END = 7.0  # on the other side
_LAW = 0.5  # ξ between two laws, at most
_VALUE = 1e-12  # relative: more than a number computed here is off by
_WEIGHED = 3e-9  # relative: more than shares may differ from a sum of 1
_SUMMED = 1.0 + 1e-10
_ENOUGH = 1e-5  # of δ may lie beyond the last ξ

_CALL, _PUT = Side(1, 0), Side(0, 1)
# (labels, sides, t) ↦ upper bounds on E(Σ w·Y − t)⁺ for ε = 0, best near the first t.
Excess = Callable[[Sequence[LabelPlaces], Sides, Array], Array]


class CommonMoves:
    """Labels with what they move together, one α a group. `holds`: whether the first data set has the record;
    `apart`: between two laws, over the range of α; `fine`: ξ between two values of V."""

    def __init__(
        self,
        places: Sequence[LabelPlaces],
        alphas: Sequence[float],
        *,
        holds: bool,
        apart: float,
        fine: float,
    ) -> None:
        self.places, self.holds = places, holds
        self.alphas = [max(x, _LEAST) for x in alphas]
        top, least = max(self.alphas), min(self.alphas)
        self.range = max(top - least, _LEAST)
        self.base = 0.5 * (top + least) if holds else top
        first, last = (top + _FAR, -_END) if holds else (-_FAR, _END)
        step = min(_LAW, apart / self.range)
        laws = math.ceil(abs(last - first) / step)
        self.finer = math.ceil(step / fine)
        self.xi = np.linspace(first, last, laws * self.finer + 1)
        self.mass, self.rest, self.tail = self._masses()

    def _masses(self) -> tuple[Array, list[float], float]:
        """(what chords give each ξ, what lies beyond each, the mean of what is above 0 before the first)."""
        a, xi = arb(self.base), [arb(x) for x in self.xi.tolist()]
        root, sign = arb(2).sqrt(), -1 if self.holds else 1
        with ctx.workprec(BITS):
            # Counted from the first ξ on, which are the largest in the first order.
            before = [(-sign * x / root).erfc() / 2 for x in timed(xi)]
            if self.holds:
                value = xi
                moved = [(-(x * x) / 2).exp() / (2 * arb.pi()).sqrt() for x in timed(xi)]
            else:
                value = [(a * x).exp() for x in timed(xi)]
                moved = [(a * a / 2).exp() * (-(x - a) / root).erfc() / 2 for x in timed(xi)]
            mass: list[Any] = [arb(0) for _ in xi]
            for i in timed(range(len(xi) - 1)):
                p, mean = before[i + 1] - before[i], moved[i + 1] - moved[i]
                part = (mean - value[i] * p) / (value[i + 1] - value[i])
                mass[i + 1] += part
                mass[i] += p - part
            rest = [up(1 - x) for x in before]
            tail = before[0]
            if self.holds:
                parts = zip(self.places, self.alphas, strict=True)
                tails = ((one, ((xi[0] - alpha) / root).erfc() / 2) for one, alpha in parts)
                tail = sum((arb(one.weight) * one.count * x for one, x in tails), arb(0))
        tail *= 1.0 + _WEIGHED
        return np.array([up_from_zero(x) for x in mass]), rest, up(tail)

    def delta(self, epsilon: float, excess: Excess) -> float:
        """An upper bound on δ at ε ≥ 0."""
        xi, finer = self.xi, self.finer
        grown = np.exp(self.base * xi)
        kappa, value = math.exp(epsilon), np.zeros(xi.size)
        chord = xi if self.holds else np.exp(-self.range * xi)
        integral, beyond = 0.0, math.inf
        for k in range(0, xi.size, finer):
            near = np.arange(max(k - finer, 0), min(k + finer + 1, xi.size))
            near = np.concatenate([[k], near[near != k]])
            bound = self._at(float(xi[k]), grown[near], kappa, excess)
            for here, other in ((near < k, k - finer), (near > k, k + finer)):
                if here.any():
                    part = (chord[near[here]] - chord[other]) / (chord[k] - chord[other])
                    value[near[here]] += (part + _VALUE) * bound[here]
            value[k] += bound[0]
            if k:
                cell = slice(k - finer, k)
                integral += float(self.mass[cell] @ value[cell])
            beyond = self.rest[k] * float(bound[0]) + float(self.mass[k] * value[k])
            if beyond <= _ENOUGH * integral:
                break
        return (integral + beyond + self.tail) * _SUMMED

    def _at(self, xi: float, grown: Array, kappa: float, excess: Excess) -> Array:
        """V with the law of T at one ξ, where e^(aξ) is one of these numbers."""
        labels = []
        sign = 1.0 if self.holds else -1.0
        for one, alpha in zip(self.places, self.alphas, strict=True):
            label = copy(one)
            with ctx.workprec(BITS):
                growth = ((arb(alpha) - arb(self.base)) * arb(xi) - arb(alpha) ** 2 / 2).exp()
                label.weight = up(growth * arb(one.weight)) * (1.0 + sign * _WEIGHED)
            labels.append(label)
        mean = math.fsum(x.weight * x.count for x in labels)
        if self.holds:
            # Σ v·(L − 1) − (k − M) = T − k
            at = kappa / grown - mean
            slack = _VALUE * (kappa / grown + mean)
            return excess(labels, Sides(_CALL, _CALL), at - slack) * grown * _SUMMED
        # Σ v·(1 − L) − (M − 1/k) = 1/k − T
        level = kappa * grown
        slack = _VALUE * (1.0 / level + mean)
        bound = excess(labels, Sides(_PUT, _PUT), mean - 1.0 / level - slack)
        return np.minimum(bound * level * _SUMMED, 1.0)

"""Privacy losses of mixtures of Gaussians whose label stays secret.

P = Σ w_j·N(m_j, 1), m_j ≥ 0, against Q = N(0, 1), or against Q = Σ w_j·N(-m_j, 1), the mirror image of P. The
loss log dP/dQ grows with z, so that cells of losses are intervals of z (docs, "Theory", 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are loaded on first use

from pabi.numbers.rounding import Array
from pabi.tradeoff.pairs import (
    SQRT_2PI,
    Indices,
    LossCells,
    Masses,
    Pair,
    Rule,
    cells_of,
    convex_part,
    excess_of,
    mirrored,
    normal_mass,
)

FAR = 60.0  # Φ(-60) is below every positive double
_TABLE = 0.05  # spacing of the places between which Newton's method begins
_ROUNDS, _NEAR = 80, 1e-9  # of Newton's method, and by how much the last one moves
_SAME = 1e-15  # relative: a bracket so short that nothing in it is told apart
_ENTRIES = 1 << 20  # of a working array
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MATTERS = 50.0  # nats below the largest value of an integrand that are left out
_LEAST_DEPTH = 1e-12  # where the doubling starts that finds the least loss
_LARGEST_EXPONENT = 700.0  # whose power of e is a double
_SPACING = 0.1  # of the places at which an integrand is looked at first
_FARTHEST = 2_000.0  # the widest range of them


@dataclass(frozen=True)
class SecretLoss(Pair):
    """P = Σ w_j·N(m_j, 1) against Q = N(0, 1). `means`: 0 ≤ m_1 < m_2 < …, the last above 0; `weights` add
    to 1."""

    means: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def edge(self) -> float | None:
        """The least loss, if there is one, near which much of the mass lies."""
        if self.means[0] > 0.0:
            return None
        first, others = self.weights[0], math.fsum(self.weights[1:])
        return math.log(first) if others > 0.5 else math.log1p(-others)

    # What differs if Q is the mirror image of P.

    @property
    def _places_q(self) -> tuple[float, ...]:
        """Where Q has what P has at the means."""
        return (0.0,) * len(self.means)

    def log_q(self, z: Array) -> Array:
        """log of the density of Q over that of N(0, 1)."""
        return np.zeros_like(z)

    def mass_q(self, left: Array, right: Array) -> Array:
        """Q(left < z < right)."""
        return normal_mass(left, right)

    def slope_q(self, z: Array) -> Array:
        """The derivative of `log_q`."""
        return np.zeros_like(z)

    def rise_q(self, z: Array, step: Array) -> Array:
        """`log_q` at z + step less that at z."""
        return np.zeros_like(z)

    # Places and losses.

    def log_p(self, z: Array) -> Array:
        """log of the density of P over that of N(0, 1)."""
        return self._by_rows(z, self._log_mean)

    def _log_mean(self, z: Array) -> Array:
        means, weights = np.array(self.means), np.array(self.weights)
        powers = z[:, None] * means - 0.5 * means * means
        # Near 0 the first form alone keeps its digits, and elsewhere the second.
        grown = np.expm1(np.minimum(powers, _LARGEST_EXPONENT)) @ weights
        near = (grown > -0.5) & (grown < 1.0)
        logs = np.log1p(np.where(near, grown, 0.0))
        if not near.all():
            logs[~near] = _log_sum(self._exponents(z[~near]))
        return np.asarray(logs)

    def mass_p(self, left: Array, right: Array) -> Array:
        """P(left < z < right)."""
        total = np.zeros_like(left)
        for m, w in zip(self.means, self.weights, strict=True):
            total += w * normal_mass(left - m, right - m)
        return total

    def gap_at(self, z: Array) -> Array:
        """P(> z) - Q(> z), without cancellation."""
        ends = zip(self._places_q, self.means, self.weights, strict=True)
        return np.asarray(sum(w * normal_mass(z - m, z - q) for q, m, w in ends))

    def gap(self, left: Array, right: Array) -> Array:
        """P(left < z < right) - Q(left < z < right), 0 of the parts that P and Q have in common."""
        total = np.zeros_like(left)
        for q, m, w in zip(self._places_q, self.means, self.weights, strict=True):
            total += w * (normal_mass(left - m, right - m) - normal_mass(left - q, right - q))
        return total

    def slope_p(self, z: Array) -> Array:
        """The derivative of `log_p`: the mean of the m_j given z."""
        means = np.array(self.means)
        return self._by_rows(z, lambda part: np.asarray(self._shares(part) @ means))

    def rise_p(self, z: Array, step: Array) -> Array:
        """`log_p` at z + step less that at z, without cancellation."""
        means = np.array(self.means)

        def rise(part: Array) -> Array:
            at, by = part.T
            return np.asarray(
                np.log1p((self._shares(at) * np.expm1(means * by[:, None])).sum(axis=1))
            )

        return self._by_rows(np.stack([z, step], axis=1), rise)

    def losses_at(self, z: Array) -> Array:
        """The loss at every z."""
        return self.log_p(z) - self.log_q(z)

    def places(self, losses: Array) -> Array:
        """The z of these losses; -60 below the least, and 60 beyond the largest mean for larger ones.

        The losses of the table have its places exactly. Between two of them Newton's method is kept within
        the bracket: it would leave it where the loss is flat or its root next to the bracket's end.
        """
        grid, values = self._table
        after = np.clip(np.searchsorted(values, losses), 1, grid.size - 1)
        low, high = grid[after - 1], grid[after]
        z = np.where(losses == values[after], high, 0.5 * (low + high))
        z = np.where(losses <= values[0], grid[0], np.where(losses >= values[-1], grid[-1], z))
        between = (losses > values[0]) & (losses < values[-1]) & (losses != values[after])
        left = np.flatnonzero(between)
        for _ in range(_ROUNDS):
            if left.size == 0:
                break
            at = z[left]
            gap = self.losses_at(at) - losses[left]
            slope = np.maximum(self.slope_p(at) - self.slope_q(at), 1e-300)
            low[left] = np.where(gap < 0.0, at, low[left])
            high[left] = np.where(gap > 0.0, at, high[left])
            with np.errstate(over="ignore"):
                nearer = at - gap / slope
            inside = (nearer >= low[left]) & (nearer <= high[left])
            z[left] = np.where(inside, nearer, 0.5 * (low[left] + high[left]))
            moved = np.abs(z[left] - at)  # the next step of Newton's would be its square
            settled = (inside & (moved < _NEAR)) | (moved <= _SAME * (1.0 + np.abs(at)))
            left = left[~settled]
        return z

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        # Multiples of the spacing: 0 is one of them, and -z is where z is.
        most = math.ceil((FAR + self.means[-1]) / _TABLE)
        grid = _TABLE * np.arange(-math.ceil(FAR / _TABLE), most + 1, dtype=np.float64)
        return grid, np.maximum.accumulate(self.losses_at(grid))

    def _exponents(self, z: Array) -> Array:
        means = np.array(self.means)
        exponents: Array = np.log(np.array(self.weights)) + z[:, None] * means - 0.5 * means * means
        return exponents

    def _shares(self, z: Array) -> Array:
        """(z, parts) the probability of every label given z."""
        exponents = self._exponents(z)
        powers = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def _by_rows(self, rows: Array, of: Callable[[Array], Array]) -> Array:
        size = max(1, _ENTRIES // len(self.means))
        with np.errstate(under="ignore"):
            parts = [of(rows[i : i + size]) for i in range(0, len(rows), size)]
        return np.concatenate(parts) if parts else np.zeros(0)

    # As a pair.

    def cells(self, edges: Array) -> LossCells:
        """The cells by quadrature, wide ones by differences of normal probabilities."""
        z = self.places(edges)
        left, width = z[:-1], np.diff(z)
        size = width * (np.maximum(np.abs(left), np.abs(z[1:])) + 2.0 * self.means[-1] + 1.0)

        def quadrature(now: Indices, rule: Rule) -> tuple[Array, Array]:
            return self._by_quadrature(left[now], width[now], rule)

        def difference(wide: Indices) -> tuple[Array, Array]:
            inner = left[wide], z[1:][wide]
            own, other = self.mass_p(*inner), self.mass_q(*inner)
            return own, excess_of(self.gap(*inner), edges[:-1][wide], own=own, other=other)

        return cells_of(size, quadrature, difference)

    def _by_quadrature(self, left: Array, width: Array, rule: Rule) -> tuple[Array, Array]:
        mass, excess = np.zeros_like(left), np.zeros_like(left)
        for node, weight in zip(rule.nodes, rule.weights, strict=True):
            step = node * width
            z = left + step
            with np.errstate(under="ignore"):
                density = weight * np.exp(self.log_p(z) - 0.5 * z * z)
            mass += density
            excess -= density * np.expm1(self.rise_q(left, step) - self.rise_p(left, step))
        share = width / SQRT_2PI
        return mass * share, excess * share

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        loss, end = np.array([y]), np.array([np.inf])
        z = self.places(loss)
        own = self.mass_p(z, end)
        excess = excess_of(self.gap_at(z), loss, own=own, other=self.mass_q(z, end))
        return float(own[0]), float(excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high): the loss that N(0, 1) is rarely below, and that which N(m, 1) is rarely above, m the
        largest mean."""
        rare = float(scipy.special.ndtri(min(0.5, max(tail, 1e-305))))
        low = float(scipy.special.ndtri(min(0.5, max(slack / (1.0 + self.means[-1]), 1e-305))))
        ends = self.losses_at(np.array([low - 1.0, self.means[-1] - rare]))
        return float(ends[0]), max(0.0, float(ends[1]))

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), by quadrature."""
        return self.log_moment_of_q(1.0 + power)

    def log_moment_of_q(self, order: float) -> float:
        """log E_Q L^order, L the likelihood ratio: Gauss-Legendre on panels over which it is analytic.

        Where these would be too many it is that of the largest mean alone, which is never less.
        """
        far = self._far(order)
        if far > _FARTHEST:
            return 0.5 * order * (order - 1.0) * self.widest**2
        z, weight = self._panels(order, far)
        y = self.losses_at(z)
        log_q = self.log_q(z) - 0.5 * z * z
        exponent = order * y + log_q
        top = float(exponent.max())
        with np.errstate(under="ignore", over="ignore"):
            if top > 1.0:
                return top + math.log(float(weight @ np.exp(exponent - top)))
            low = np.minimum(y, _LARGEST_EXPONENT)
            terms = convex_part(np.expm1(low), low, order)
            return math.log1p(float(weight @ (np.exp(log_q) * terms)))

    @property
    def widest(self) -> float:
        """The distance of the two Gaussians that are farthest apart."""
        return self.means[-1]

    def _far(self, order: float) -> float:
        """Beyond ± this the integrand does not matter: Q·L^order is largest within |order| times `widest`."""
        return (1.0 + abs(order)) * self.widest + self.means[-1] + 40.0

    def _panels(self, order: float, far: float) -> tuple[Array, Array]:
        """Nodes and weights (over √2π) of panels that cover where the integrand matters.

        Between two means of weights in balance the log of Q may bend by (m/2)², |order| times which makes the
        integrand as narrow as 2/(m√|order|): several panels hold that.
        """
        scan = np.linspace(-far, far, 2 * math.ceil(far / _SPACING) + 1)
        y, log_q = self.losses_at(scan), self.log_q(scan) - 0.5 * scan * scan
        # L·Q and Q matter as well: they are taken from L^order·Q so that small moments do not cancel.
        exponent = np.maximum(np.maximum(order * y, y), 0.0) + log_q
        near = np.flatnonzero(exponent >= max(0.0, float(exponent.max())) - _MATTERS)
        begin, end = scan[max(0, near[0] - 1)], scan[min(near[-1] + 1, scan.size - 1)]
        narrow = self.means[-1] * max(2.0, math.sqrt(abs(order)))
        panels = max(16, math.ceil((end - begin) * max(1.0, narrow)))
        half = 0.5 * (end - begin) / panels
        left = begin + 2.0 * half * np.arange(panels)
        nodes = (left[:, None] + half * (1.0 + _NODES)).ravel()
        return nodes, np.tile(half * _WEIGHTS, panels) / SQRT_2PI


@dataclass(frozen=True)
class OppositeLoss(SecretLoss):
    """P = Σ w_j·N(m_j, 1) against Q = Σ w_j·N(-m_j, 1): the loss is odd in z."""

    symmetric = True

    @property
    def edge(self) -> None:
        """None: the losses below 0 are the mirror image of those above."""

    @property
    def widest(self) -> float:
        """The distance of the two Gaussians that are farthest apart."""
        return 2.0 * self.means[-1]

    @property
    def _places_q(self) -> tuple[float, ...]:
        return tuple(-m for m in self.means)

    def log_q(self, z: Array) -> Array:
        """log of the density of Q over that of N(0, 1)."""
        return self.log_p(-z)

    def mass_q(self, left: Array, right: Array) -> Array:
        """Q(left < z < right)."""
        return self.mass_p(-right, -left)

    def places(self, losses: Array) -> Array:
        """The z of these losses; 0 for a loss of 0, however flat the loss is there."""
        return np.where(losses == 0.0, 0.0, super().places(losses))

    def slope_q(self, z: Array) -> Array:
        """The derivative of `log_q`."""
        return -self.slope_p(-z)

    def rise_q(self, z: Array, step: Array) -> Array:
        """`log_q` at z + step less that at z."""
        return self.rise_p(-z, -step)

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(0, high): losses below 0 follow from those above."""
        return 0.0, super().reach(tail, slack)[1]


@dataclass(frozen=True)
class SwappedLoss(Pair):
    """N(0, 1) against Σ w_j·N(m_j, 1): the loss is minus that of the pair in the other order."""

    pair: SecretLoss

    @property
    def most(self) -> float:
        """The largest loss, -log w_1 if m_1 is 0."""
        return math.inf if self.pair.edge is None else -self.pair.edge

    @property
    def edge(self) -> float | None:
        """The largest loss, if there is one, near which much of the mass lies."""
        return None if self.pair.edge is None else -self.pair.edge

    def cells(self, edges: Array) -> LossCells:
        """The mirrored cells of the pair."""
        return mirrored(self.pair.cells, self._masses, edges)

    def _masses(self, low: Array, high: Array) -> Masses:
        inner = self.pair.places(low), self.pair.places(high)
        return Masses(self.pair.mass_p(*inner), self.pair.mass_q(*inner), self.pair.gap(*inner))

    def above(self, y: float) -> tuple[float, float]:
        """(mass, excess) of the losses above `y`."""
        if y >= self.most:
            return 0.0, 0.0
        loss, begin = np.array([y]), np.array([-np.inf])
        z = self.pair.places(-loss)
        own, other = self.pair.mass_q(begin, z), self.pair.mass_p(begin, z)
        excess = excess_of(self.pair.gap_at(z), loss, own=own, other=other)
        return float(own[0]), float(excess[0])

    def reach(self, tail: float, slack: float) -> tuple[float, float]:
        """(low, high), low found by doubling; high the largest loss, or that which is rarely exceeded."""
        m, depth = self.pair.means[-1], _LEAST_DEPTH
        while (1.0 + m) * float(
            scipy.special.ndtr(-self.pair.places(np.array([depth]))[0])
        ) > slack:
            depth *= 2.0
        rare = float(scipy.special.ndtri(min(0.5, max(tail, 1e-305))))
        high = -float(self.pair.losses_at(np.array([rare]))[0])
        return -depth, min(self.most, max(0.0, high)) if math.isinf(self.most) else self.most

    def finite_log_moment(self, power: float) -> float:
        """log E e^(power·Y), a moment of the pair of a negative order."""
        return self.pair.log_moment_of_q(-power)


def _log_sum(exponents: Array) -> Array:
    """log Σ e^x over every row."""
    top = exponents.max(axis=1)
    return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))

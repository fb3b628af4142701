"""Privacy-loss distributions: finitely many outcomes, listed or made from another trade-off function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pabi.numbers.errors import must_be, require
from pabi.numbers.gaussian import array
from pabi.numbers.rounding import MANY_ROUNDINGS, THREE_ROUNDINGS, Array
from pabi.numbers.validate import choice, keep, number
from pabi.tradeoff.base import (
    DIRECTIONS,
    Directed,
    Direction,
    Orientation,
    TradeOff,
    chosen,
    supported,
)
from pabi.tradeoff.grids import MISSING
from pabi.tradeoff.pairs import LARGEST_EXPONENT, Discrete, Pair

_TOTAL = 1e-12  # by how much the probabilities may miss 1
_PROBABILITY = (
    4e-15  # relative: a probability's error from quadrature or normalising, and that of e^ε
)
_MARGIN = 1e-14  # relative, over sums in extended precision and a few roundings
_QUADRATURE = 1e-13  # absolute, for every unit of loss: more than a sum of moments errs
_MOST_CELLS = 1 << 22


@dataclass(frozen=True, init=False)
class PrivacyLossDistribution(Directed):
    """T(P, Q) of two distributions on the same finitely many outcomes, of loss log(p/q) each.

    `pessimistic` and `optimistic` make one from any curve that is not a product; compositions are
    `Product`s, which choose their own grids. Readings take the probabilities to be exact but for a relative
    4e-15.

    Parameters
    ----------
    p, q : sequence of float, or array
        The probabilities under P and Q, of equal length, each summing to 1 (up to 1e-12). An outcome with
        q = 0 has the loss ∞. As fields they leave out what is impossible under both.
    direction : str
        "remove" is T(P, Q), "add" its inverse, "both" the worse of the two, each composed by itself.

    References
    ----------
    Sommer, Meiser, Mohammadi 2019.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    direction: Direction

    kind: ClassVar[str] = "privacy_loss_distribution"

    def __init__(
        self,
        p: Sequence[float] | Array,
        q: Sequence[float] | Array,
        direction: Direction = "both",
    ) -> None:
        one, two = _distribution("p", p), _distribution("q", q)
        must_be(one.size == two.size, "q", f"as many as p, {one.size}", two.size)
        possible = (one > 0.0) | (two > 0.0)
        keep(
            self,
            p=tuple(one[possible].tolist()),
            q=tuple(two[possible].tolist()),
            direction=choice("direction", direction, DIRECTIONS),
        )

    @classmethod
    def pessimistic(cls, curve: TradeOff, step: float, tail: float = 1e-15) -> Self:
        """A distribution on losses that are multiples of `step` and never below `curve`.

        δ is at least that of `curve`, and too large by O(step²) and `tail`.

        Parameters
        ----------
        curve : TradeOff
            Any in `pabi.tradeoff` with a privacy loss of its own.
        step : float
            The distance of neighbouring losses, > 0.
        tail : float
            In (0, 1): losses whose excess is so small may become infinite.

        Returns
        -------
        PrivacyLossDistribution
            Of the direction of `curve`; "both" for a symmetric one.

        Raises
        ------
        InvalidInput
            For numbers out of range, a step that needs more than 2²² cells, and a product or best.

        References
        ----------
        Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022.
        """
        return cls._discretised(curve, step, tail, _spread)

    @classmethod
    def optimistic(cls, curve: TradeOff, step: float, tail: float = 1e-15) -> Self:
        """The outcomes of `curve`, those with losses in the same cell of length `step` made one.

        δ is at most that of `curve`, and too small by O(step²) and `tail`.

        Parameters
        ----------
        curve : TradeOff
            Any in `pabi.tradeoff` with a privacy loss of its own.
        step : float
            The length of a cell, > 0.
        tail : float
            In (0, 1): losses whose excess is so small may be one outcome.

        Returns
        -------
        PrivacyLossDistribution
            Of the direction of `curve`; "both" for a symmetric one.

        Raises
        ------
        InvalidInput
            For numbers out of range, a step that needs more than 2²² cells, and a product or best.

        References
        ----------
        Blackwell 1953.
        """
        return cls._discretised(curve, step, tail, _merged)

    @classmethod
    def _discretised(cls, curve: TradeOff, step: float, tail: float, rule: _Rule) -> Self:
        curve = TradeOff._table.check(curve, "curve")
        step, tail = number("step", step, above=0.0), number("tail", tail, above=0.0, below=1.0)
        pair = curve.losses()[0]
        p, q = rule(_cells(pair, step, tail))
        if pair.symmetric:
            p, q = np.concatenate([p, q, [pair.atom]]), np.concatenate([q, p, [pair.atom]])
        p, q = _completed(p, q, apart=rule is _spread)
        match curve.orientation:
            case "add":  # whose pair is already in that order
                return cls(q, p, "add")
            case "symmetric":
                return cls(p, q, "both")
            case direction:
                return cls(p, q, direction)

    @property
    def values(self) -> Array:
        """The privacy losses of the outcomes, shape (m,); ±∞ where only one of the two has any mass."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._columns.p) - np.log(self._columns.q))

    @property
    def infinity_mass(self) -> float:
        """The probability under P of an infinite loss."""
        return math.fsum(a for a, b in zip(self.p, self.q, strict=True) if b == 0.0)

    @property
    def orientation(self) -> Orientation:
        """The direction; "symmetric" where P and Q are the same up to the names of the outcomes."""
        return "symmetric" if self._symmetric else self.direction

    @cached_property
    def _columns(self) -> _Columns:
        return _Columns(np.array(self.p), np.array(self.q))

    @cached_property
    def _symmetric(self) -> bool:
        pairs = list(zip(self.p, self.q, strict=True))
        return sorted(pairs) == sorted((b, a) for a, b in pairs)

    @property
    def _directions(self) -> list[_Columns]:
        forward, backward = self._columns, _Columns(*self._columns[::-1])
        return [forward] if self._symmetric else [*chosen(self.direction, forward, backward)]

    def losses(self) -> tuple[Discrete, ...]:
        """The losses of the directions, one or two."""
        return tuple(columns.pair() for columns in self._directions)

    def _epsilon_bounds(self, delta: float, rtol: float) -> tuple[float, float]:
        bounds = [columns.epsilon_bounds(delta) for columns in self._directions]
        return max(low for low, _ in bounds), max(high for _, high in bounds)

    def _rdp(self, order: float) -> float:
        power = number("order", order, above=1.0) - 1.0
        pairs = self.losses()
        worst = max(pair.log_moment(power) for pair in pairs)
        size = 1.0 + max(float(np.abs(pair.values).max()) for pair in pairs)
        return max(0.0, worst / power * (1.0 + MANY_ROUNDINGS) + _QUADRATURE * size)

    @property
    def zcdp(self) -> float:
        """The ρ = ε²/2, or ε where that is less; ε is the size of the largest loss.

        References
        ----------
        Bun, Steinke 2016, Prop. 3.3.
        """
        values, rounding = self._columns.losses()
        most = float((np.abs(values) + rounding).max())
        return min(most, 0.5 * most * most * (1.0 + _MARGIN))

    def _delta(self, epsilon: float) -> float:
        return max(columns.delta(epsilon) for columns in self._directions)

    def _tradeoff(self, alpha: Array) -> Array:
        # f is polygonal, with its corners where the losses are.
        finite = np.abs(self.values[np.isfinite(self.values)])
        epsilon = np.unique(np.append(finite[finite < LARGEST_EXPONENT], 0.0))
        swapped = self.inverse()._delta_array(epsilon)
        return supported(alpha, epsilon, left=swapped, right=self._delta_array(epsilon))

    def __repr__(self) -> str:
        return f"PrivacyLossDistribution({len(self.p)} outcomes, {self.direction!r})"


def _distribution(name: str, x: Any) -> Array:
    """`x` as an array of probabilities, shape (m,). Raises InvalidInput naming `name`."""
    values = array(name, x, at_least=0.0)
    flat = values.ndim == 1 and values.size > 0
    require(flat, name, f"expected a sequence of numbers, got the shape {values.shape}")
    total, expected = math.fsum(values.tolist()), "expected probabilities that sum to 1"
    require(abs(total - 1.0) <= _TOTAL, name, f"{expected}, got the sum {total!r}")
    return values


class _Columns(NamedTuple):
    """The probabilities of the outcomes in one order of the two distributions."""

    p: Array
    q: Array

    def losses(self) -> tuple[Array, Array]:
        """log p - log q of the outcomes, and more than these err: two logarithms may be far larger."""
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(self.p), np.log(self.q)
        rounding = THREE_ROUNDINGS * (np.abs(log_p) + np.abs(log_q))
        values = log_p - log_q
        return values, np.where((self.p == self.q) | np.isinf(values), 0.0, rounding)

    def delta(self, epsilon: float) -> float:
        """Σ (p - e^ε·q)⁺, rounded up."""
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.where(self.q > 0.0, np.exp(np.float64(epsilon)) * self.q, 0.0)
        terms = np.maximum(self.p * (1.0 + _PROBABILITY) - cost * (1.0 - _PROBABILITY), 0.0)
        return min(1.0, math.fsum(terms.tolist()) * (1.0 + _MARGIN))

    def epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """Between two losses δ(ε) is A - e^ε·B, of the masses of the outcomes with greater losses."""
        infinite = math.fsum(self.p[self.q == 0.0].tolist())
        if delta < infinite:
            return math.inf, math.inf
        if delta >= 1.0:
            return 0.0, 0.0
        values, rounding = self.losses()
        order = np.argsort(-values, kind="stable")
        a = np.cumsum(self.p[order], dtype=np.longdouble)
        b = np.cumsum(self.q[order], dtype=np.longdouble)
        # With k outcomes above ε the least ε is log((A - δ)/B); it is the largest of these.
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.log((a - delta) / b)
        roots = roots[(b > 0.0) & (a > delta)]
        epsilon = max(0.0, float(np.max(roots, initial=0.0)))
        low, gap = epsilon * (1.0 - _MARGIN), _MARGIN * (1.0 + epsilon)
        if epsilon == 0.0 and self.delta(0.0) <= delta:
            return 0.0, 0.0
        most = float((values + rounding).max(where=np.isfinite(values), initial=0.0))
        while epsilon < most and self.delta(epsilon) > delta:
            epsilon, gap = epsilon + gap, 2.0 * gap
        return low, min(epsilon, most)

    def pair(self) -> Discrete:
        """The finite losses, rounded up past the errors of logarithms, and the mass of the infinite one."""
        finite = (self.p > 0.0) & (self.q > 0.0)
        p, q = self.p[finite], self.q[finite]
        if not p.size:
            return Discrete(np.zeros(1), np.zeros(1), 1.0)
        losses, rounding = _Columns(p, q).losses()
        unique, place = np.unique(losses + rounding, return_inverse=True)
        masses = np.bincount(place, p, unique.size).astype(np.float64)
        infinity = math.fsum(self.p[self.q == 0.0].tolist())
        return Discrete(unique, masses, infinity, raised=2.0 * float(rounding.max()))


class _Cells(NamedTuple):
    """The masses of the cells of a pair, and of what is above, below and infinite."""

    edges: Array
    mass: Array
    excess: Array
    above: tuple[float, float]  # (mass, excess) over the last edge
    below: tuple[float, float]  # masses under P and Q
    infinity: float


def _cells(pair: Pair, step: float, tail: float) -> _Cells:
    low, high = pair.reach(tail, tail)
    first, last = math.floor(low / step), max(1, math.ceil(high / step))
    must_be(last - first <= _MOST_CELLS, "step", "one that needs fewer cells", step)
    edges = np.arange(first, last + 1, dtype=np.float64) * step
    mass, excess = pair.cells(edges)
    above = pair.above(float(edges[-1]))
    below = 0.0, 0.0
    if not pair.symmetric:
        under_q = np.exp(-edges[:-1]) * (mass - excess)
        rest = math.exp(-float(edges[-1])) * (above[0] - above[1])
        on_grid = pair.above(float(edges[0]))[0]
        below = (
            max(0.0, 1.0 - pair.infinity - on_grid),
            max(0.0, 1.0 - rest - math.fsum(under_q.tolist())),
        )
    return _Cells(edges, mass, excess, above, below, pair.infinity)


def _spread(cells: _Cells) -> tuple[Array, Array]:
    """The mass of every cell to its two ends, so that those under P and under Q are kept."""
    step = cells.edges[1] - cells.edges[0]
    right = np.minimum(cells.excess / -math.expm1(-step), cells.mass)
    p = np.append(cells.mass - right, 0.0)
    p[1:] += right
    mass, excess = cells.above
    p[-1] += max(0.0, mass - excess)
    p[0] += cells.below[0]
    q = p * np.exp(-cells.edges)
    unseen = max(0.0, cells.below[1] - cells.below[0] * math.exp(-float(cells.edges[0])))
    return np.append(p, [cells.infinity + excess, 0.0]), np.append(q, [0.0, unseen])


def _completed(p: Array, q: Array, *, apart: bool) -> tuple[Array, Array]:
    """With masses that add to 1: what is missing beyond rounding, nobody knows where, tells all (`apart`), or
    is in the first outcome."""
    lost = [x if (x := 1.0 - float(masses.sum())) > MISSING else 0.0 for masses in (p, q)]
    if apart and any(lost):
        p, q = np.append(p, [lost[0], 0.0]), np.append(q, [0.0, lost[1]])
    elif any(lost):
        p[0], q[0] = p[0] + lost[0], q[0] + lost[1]
    return p / p.sum(), q / q.sum()


def _merged(cells: _Cells) -> tuple[Array, Array]:
    """One outcome a cell, the lowest with all that is below it."""
    p, q = cells.mass.copy(), np.exp(-cells.edges[:-1]) * (cells.mass - cells.excess)
    p[0], q[0] = p[0] + cells.below[0], q[0] + cells.below[1]
    mass, excess = cells.above
    over = math.exp(-float(cells.edges[-1])) * (mass - excess)
    return np.append(p, [mass, cells.infinity]), np.append(q, [over, 0.0])


_Rule = Callable[[_Cells], tuple[Array, Array]]

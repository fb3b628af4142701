"""A run with random batches, seen step by step from its end.

Steps are kept in blocks of equal ones, so that a constant run of 10⁹ steps stays a few hundred
numbers. What a theorem needs of a step are its slope c, the norm s of what one record adds to it, its
noise σ, and ρ = η(hi − lo)/b, by which the difference of two pulls grows with the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.account.facts.demand import View
from pabi.describe.accounted import changed
from pabi.describe.batches import FAILING, Fractions, FreshSubsets
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import TINY, Array, fraction_up, up

_VARIATION = 0.08  # of log c² within a block
_LITTLE = 0.02  # of log c within a block of which every draw counts
_MOST_DRAWN = 1000  # such blocks: what lies further back is e^-20 of the whole where steps contract
_NEGLIGIBLE = 40.0  # c²ⁿ below e^-40 of the last step's weight is nothing
_MOST_WRITTEN = 50_000  # steps of a varying schedule that a window may hold
_MARGIN = 1e-12  # relative, over the roundings of sums and powers
_DISTANCE_MARGIN = 1e-11  # relative, over those of a difference of powers and a product
_LOG_MARGIN = 1e-15  # over those of a logarithm, relative to it
_LEAST_SLOPE = 1e-300  # in place of 0, whose logarithm is infinite
_LARGEST_LOG = 700.0  # whose exponential is well within the doubles


class RecordFactor(Enum):
    """What a step reveals of a record that may be drawn, as a kind of trade-off function.

    Its sizes are `Pulls`: the one, s, by which the record moves the sum on the data set that it is in; the
    one of what takes its place on the other; and m, how far apart the two can be. `other` and `change`: how
    large these are at one place, as multiples of s. A record that is drawn independently of others adds s,
    and two may pull in opposite ways; where it displaces another, s stands for two records, of which zeroing
    changes one.
    """

    PRESENT = "poisson_subsampled", 0.0, 1.0  # drawn or not, on one data set: O_p(m)
    REPLACED = "poisson_replaced", 1.0, 2.0  # on both, and nobody's place is taken: R_p(m/2)
    DISPLACING = "subsampled", 1.0, 1.0  # in place of another, on both: C_p(G(m)) where m = s
    # In place of another, or of nobody on the other data set; s is that of two gradients.
    ZEROED = "fixed_size_subsampled", 0.5, 0.5

    def __init__(self, kind: str, other: float, change: float) -> None:
        self.other, self.change = other, change


class Pulls(NamedTuple):
    """How far a drawn record moves the sum, over the noise: on the one data set at most `norm`, on the other
    at most `other`, and the two at most `apart`; arrays of one shape."""

    apart: Array
    norm: Array
    other: Array

    @classmethod
    def of(cls, factor: RecordFactor, norm: Array, apart: Array | None = None) -> Pulls:
        """Those of a record that adds at most `norm`; `apart` is larger for two places than for one."""
        other = factor.other * norm if factor.other else np.zeros_like(norm)
        return cls(factor.change * norm if apart is None else apart, norm, other)

    def times(self, factor: Array | float) -> Pulls:
        """So many times larger."""
        return Pulls(self.apart * factor, self.norm * factor, self.other * factor)


def every_step(run: NoisySGD, factor: RecordFactor) -> tuple[Pulls, Array]:
    """(sizes of the factors of all steps under random batches, how often each occurs), of one length."""
    ratio = fraction_up(Fraction(run.sensitivity) / run.batch_size)
    if factor is RecordFactor.REPLACED:  # of two records each adds half of that
        ratio = max(0.5 * ratio, TINY)
    noise = run.gradient_noise_std
    if isinstance(noise, np.ndarray):
        return Pulls.of(factor, ratio / noise[: run.data_steps]), np.ones(run.data_steps)
    return Pulls.of(factor, np.array([ratio / noise])), np.array([float(run.data_steps)])


@dataclass(frozen=True, eq=False)
class Blocks:
    """Equal steps together, in the order of the run: how many, and their c, s, σ and ρ; arrays (blocks,)."""

    length: NDArray[np.int64]
    c: Array
    s: Array
    sigma: Array
    rho: Array

    @property
    def steps(self) -> int:
        """The number of steps of all blocks."""
        return int(self.length.sum())

    @cached_property
    def later(self) -> Array:
        """log of the product of the slopes of all later blocks; read as e^later, 0 for slope 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.length > 0, self.length * np.log(self.c), 0.0)
        return np.append(np.cumsum(logs[::-1])[::-1][1:], 0.0)

    @cached_property
    def contraction(self) -> float:
        """The product of all slopes, rounded up: 0 only if one of them is."""
        if (self.c == 0.0).any():
            return 0.0
        log = float(np.sum(self.length * np.log(self.c)))
        return math.exp(max(min(log, _LARGEST_LOG), -690.0)) * (
            1.0 + _MARGIN + _LOG_MARGIN * abs(log)
        )

    @cached_property
    def room(self) -> Array:
        """Σ σ²W² over each block, W the product of the slopes of later steps; rounded down."""
        gap = -np.expm1(2.0 * np.log(np.maximum(self.c, _LEAST_SLOPE)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            powers = -np.expm1(2.0 * self.length * np.log(np.maximum(self.c, _LEAST_SLOPE)))
            terms = np.where(gap == 0.0, self.length, powers / gap)
            weight = np.square(self.sigma) * np.exp(2.0 * self.later) * terms
        return np.asarray(np.nan_to_num(weight, nan=0.0, posinf=1e300) * (1.0 - _MARGIN))


@dataclass(frozen=True)
class SampledRun(View):
    """A run that draws every batch afresh. Its numbers hold while batches are as `covered` says.

    That may fail with a share of the target `delta`. Raises
    NotApplicable where the loss gives no linear modulus. Several records that are followed are as one that
    pulls as they all do together, in a batch where any of them is.
    """

    delta: float

    @cached_property
    def order(self) -> FreshSubsets:
        """Raises NotApplicable unless batches are drawn afresh at every step."""
        return require_sampling(self.run)

    @cached_property
    def probability(self) -> float:
        """The probability that any of the records is in a batch, rounded up."""
        none = self.demand.none_in(self.order.probability)
        if none == 0 and self.demand.forgets:
            raise NotApplicable(
                "every batch holds one of the forgotten records: fewer are left than a batch"
            )
        return min(1.0, fraction_up(1 - none))

    @cached_property
    def record_norm(self) -> float:
        """The norm of the records' own gradients, or of the change when they take others' places."""
        run = self.run
        alone = run.record_gradient_bound
        if self.order.displaces or run.gradient_sensitivity is not None:
            alone = run.sensitivity
        assert alone is not None
        return self._of_all(alone)

    def _of_all(self, alone: float) -> float:
        """What one record does, as all of them together."""
        return fraction_up(Fraction(alone) * self.demand.records) if alone < math.inf else alone

    @property
    def factor(self) -> RecordFactor:
        """What a step reveals of the record that may be drawn."""
        if self.order.displaces:
            return (
                RecordFactor.ZEROED if changed(self.run.adjacency) == 1 else RecordFactor.DISPLACING
            )
        return RecordFactor.PRESENT if changed(self.run.adjacency) == 1 else RecordFactor.REPLACED

    @property
    def single(self) -> bool:
        """Whether the record is there or not, and nothing takes its place."""
        return self.factor is RecordFactor.PRESENT

    @cached_property
    def covered(self) -> Fractions:
        """The batches that the moduli must cover."""
        return self.demand.fractions(FAILING * self.delta)

    def _columns(self, step: Array, noise: Array) -> tuple[Array, Array, Array, Array, Array]:
        """(c with data, c without the records, s, σ, ρ) for these step sizes and noises."""
        demand = self.demand
        parts = demand.left(self.covered.full, demand.stages[-1].withdrawn)
        busy, cool = (self.slopes_over(step, x) for x in (parts, demand.idle(self.covered)))
        return busy, cool, *self.pull_columns(step, noise)

    def pull_columns(self, step: Array, noise: Array) -> tuple[Array, Array, Array]:
        """(s, σ, ρ) for these step sizes and noises."""
        norm = fraction_up(Fraction(self.record_norm) / self.run.batch_size)
        # By how much a difference of two records' gradients changes with the place; zeroed, of one's.
        spread = self._steepness
        if spread < math.inf:
            spread = fraction_up(Fraction(spread) / self.run.batch_size)
        return (
            np.nextafter(step * norm, np.inf),
            np.nextafter(step * noise, 0.0),
            np.nextafter(step * spread, np.inf),
        )

    @property
    def _steepness(self) -> float:
        run = self.run
        curvature = run.loss.effective_curvature(run.clip_norm, run.clipping)
        if changed(run.adjacency) == 1:
            return self._of_all(run.loss.steepness)
        if curvature is None:
            return self._of_all(2.0 * run.loss.steepness)
        lo, hi = curvature
        return self._of_all(fraction_up(Fraction(hi) - Fraction(lo)))

    @cached_property
    def constants(self) -> tuple[float, float, float, float, float]:
        """(c with data, c in the cool-down, s, σ, ρ) of a constant schedule."""
        step, noise = np.array([self.run.step_size]), np.array([self.run.gradient_noise_std])
        c, cool, s, sigma, rho = (float(x[0]) for x in self._columns(step, noise))
        if sigma == 0.0:
            raise NotApplicable("the noise on an iterate underflows")
        return c, cool, s, sigma, rho

    @cached_property
    def _arrays(self) -> tuple[Array, Array, Array, Array]:
        run = self.run
        step, noise = run.schedule(0, run.steps)
        c, cool, s, sigma, rho = self._columns(step, noise)
        idle = np.arange(run.steps) >= run.data_steps
        return np.where(idle, cool, c), np.where(idle, 0.0, s), sigma, np.where(idle, 0.0, rho)

    def columns(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """c, s and σ of the steps `first`, …, `last` - 1 (from 0), all with data; arrays."""
        if not self.run.constant:
            c, s, sigma, _ = (x[first:last] for x in self._arrays)
            return c, s, sigma
        c, _, s, sigma, _ = (np.full(last - first, x) for x in self.constants)
        return c, s, sigma

    @property
    def most(self) -> int:
        """The longest window that is looked at."""
        return self.run.steps if self.run.constant else min(self.run.steps, _MOST_WRITTEN)

    def window(self, steps: int, pieces: int = 1) -> Blocks:
        """The last `steps` steps, long stretches cut into blocks that contract little, and into at
        least `pieces` unless a single step forgets everything."""
        if not self.run.constant:
            return self._one_by_one(self.run.steps - steps, self.run.steps)
        c, cool, *_ = self.constants
        idle = min(steps, self.run.cooldown_steps)
        data_lengths = _lengths(c, steps - idle, pieces)
        return self._alike(data_lengths[::-1], _lengths(cool, idle, 1)[::-1])

    def before(self, steps: int) -> Blocks:
        """The last of the first `steps` steps: as many as matter, in blocks that contract very little."""
        if not self.run.constant:
            return self._one_by_one(max(0, steps - _MOST_DRAWN), steps)
        c, busy = self.constants[0], min(steps, self.run.data_steps)
        rate = abs(math.log(c)) if c > 0.0 else math.inf
        longest = max(1, min(busy, int(_LITTLE / rate) if rate > 0.0 else busy))
        whole = min(busy // longest, _MOST_DRAWN)
        rest = busy - whole * longest if whole < _MOST_DRAWN else 0
        data = [*([rest] if rest else []), *[longest] * whole]
        return self._alike(data, [steps - busy] if steps > busy else [])

    def _one_by_one(self, first: int, last: int) -> Blocks:
        """The steps `first`, …, `last` - 1 of a schedule that varies."""
        c, s, sigma, rho = (x[first:last] for x in self._arrays)
        lengths = np.ones(last - first, dtype=np.int64)
        return Blocks(lengths, c=c, s=s, sigma=sigma, rho=rho)

    def _alike(self, data: list[int], idle: list[int]) -> Blocks:
        """Blocks of so many steps of a constant schedule, those with data first."""
        c, cool, s, sigma, rho = self.constants
        n, m = len(data), len(idle)
        return Blocks(
            np.array([*data, *idle], dtype=np.int64),
            c=np.repeat([c, cool], [n, m]),
            s=np.repeat([s, 0.0], [n, m]),
            sigma=np.full(n + m, sigma),
            rho=np.repeat([rho, 0.0], [n, m]),
        )

    def distance(self, steps: int, pull: float = 1.0) -> float:
        """How far the two runs can be apart after `steps` steps, `pull`·s being added in each."""
        diameter = self.run.range_diameter
        if not self.run.constant:
            return float(self._distances(pull)[steps])
        c, cool, s, _, _ = self.constants
        busy = min(steps, self.run.data_steps)
        log = busy * math.log(c) if c > 0.0 else -math.inf
        if c == 1.0:
            total = busy * s
        elif log > _LARGEST_LOG:
            total = math.inf
        else:
            total = s * math.expm1(log) / (c - 1.0) if busy else 0.0
        idle = steps - busy
        if idle and total > 0.0:
            log = idle * math.log(cool) if cool > 0.0 else -math.inf
            total = math.inf if log > _LARGEST_LOG else total * math.exp(log)
            total = max(total, TINY) if cool > 0.0 else 0.0  # a little is not nothing
        return min(diameter, pull * total * (1.0 + _DISTANCE_MARGIN))

    def _distances(self, pull: float) -> Array:
        c, s, _, _ = self._arrays
        diameter, w = self.run.range_diameter, 0.0
        distances = np.zeros(len(c) + 1)
        for k, (slope, added) in enumerate(zip(c.tolist(), s.tolist(), strict=True)):
            w = min(diameter, up(up(slope * w) + up(pull * added)))
            distances[k + 1] = w
        return distances


def require_sampling(run: NoisySGD) -> FreshSubsets:
    """The order of a run whose batches are drawn afresh at every step; NotApplicable for any other."""
    order = run.order
    if not isinstance(order, FreshSubsets):
        raise NotApplicable("the batches are not drawn afresh at every step")
    return order


def _lengths(c: float, steps: int, pieces: int) -> list[int]:
    """Lengths of blocks, from the end of a stretch backwards."""
    if steps <= 0:
        return []
    rate = abs(math.log(c)) if c > 0.0 else math.inf
    longest = max(1, steps // pieces)
    if rate > 0.0:
        longest = max(1, min(longest, int(_VARIATION / rate)))
    matters = steps if rate == 0.0 else min(steps, math.ceil(_NEGLIGIBLE / rate))
    lengths = [longest] * (matters // longest)
    rest = steps - longest * len(lengths)
    return [*lengths, rest] if rest else lengths

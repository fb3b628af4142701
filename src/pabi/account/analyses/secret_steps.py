"""Secret steps: every iterate is released, and nobody knows which of the steps use the record.

Nothing is asked of the loss. Where the places of the other records do not depend on the record's own (balls
in bins), a step is moved by what the record adds, and only the steps of one secret batch are. Where the
record takes the place of another (shuffles), a place that is in no batch is what the two exchange, so that
again one secret batch is moved, by two contributions. Without such a place it is one of the last batch, the
hub, which the displaced record moves (docs, "Theory", 6.3).

Secret groups: the same for the last iterate alone. The batches of an epoch are cut into groups, and what a
record adds to a batch is paid for until the batch of the next group that it might be in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.account.analyses.composition import paid_once
from pabi.account.analyses.secret_order import secret_order_of
from pabi.account.analyses.shifted_interpolation import require_hidden_path
from pabi.account.analyses.writing import SampledProof, computed
from pabi.account.facts.positions import OrderedView
from pabi.describe.batches import FixedSizes, RandomSizes, SecretOrder, binomial_tail
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import MANY_ROUNDINGS, TINY, Array, fraction_up
from pabi.tradeoff import Gaussian, Product, RandomAllocation, TradeOff
from pabi.verification.granting import Proposal

NAME = "secret steps"

_NO_SPARE = (
    "every place of the permutation is in some batch: with one spare place the order would hide"
)
_TERMS = 1.0 + 5e-15  # above the few roundings of (L/(b·ς_k))² and of their sum's root
_LARGEST = 1.5  # by how much a hub moves its steps: where all move them further, none is secret
_MOST_SIZES = 8  # different sizes of labels in one factor, and different factors


class Batch(NamedTuple):
    """A batch that the record may be in: how likely it is, and how far its steps move, over the noise."""

    share: Fraction
    size: float


def apply(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of releasing every iterate when the record's batch stays secret."""
    order = _secret(run)
    factors = _factors(run, order, isinstance(order.sizes, FixedSizes))
    failure = _failure(order.sizes)
    curve: TradeOff = Product(factors.items(), failure)
    if failure == 0.0 and factors.total() == 1:
        (curve,) = factors
    return SampledProof(NAME, run, curve)


def _secret(run: NoisySGD) -> SecretOrder:
    """The order of a run that the theorems are about; NotApplicable for any other."""
    order = secret_order_of(run)
    if run.gradient_sensitivity is None:
        return order
    if run.adjacency == "replace_one":
        raise NotApplicable(
            "the stated sensitivity says how far two records are apart, not what one of them moves"
        )
    if isinstance(order.sizes, FixedSizes):
        raise NotApplicable(
            "the stated sensitivity says nothing of the records whose places the record takes"
        )
    return order


def _factors(run: NoisySGD, order: SecretOrder, displaces: bool) -> Counter[TradeOff]:
    """What a record reveals at most: one factor, or one of every epoch."""
    opposite = run.adjacency == "replace_one"
    # What one record moves by itself is what it moves if its neighbour is zero.
    epochs = _by_epoch(replace(run, adjacency="zero_out"), order)
    used_again = order.once and run.data_steps > order.period
    # The checker takes all full epochs to have a hub, or none.
    least = min((max(one.size for one in batches) for batches, _ in epochs if batches), default=0.0)
    seen = used_again or least > _LARGEST

    def factor(batches: Sequence[Batch]) -> TradeOff:
        hub = 0.0
        if displaces and sum(batch.share for batch in batches) == 1:
            # No place is left out.
            if len(batches) == 1 or seen:
                largest = max(batch.size for batch in batches)
                return Gaussian((2.0 if opposite else 1.0) * largest)
            # The displaced record goes to the last batch, after all others.
            *batches, last = batches
            hub = last.size
        groups = Counter(batches)
        shares = [fraction_up(batch.share * n) for batch, n in groups.items()]
        sizes = [batch.size for batch in groups]
        counts = list(groups.values())
        return RandomAllocation(shares, sizes, counts, opposite, displaces, hub=hub)

    factors: Counter[TradeOff] = Counter()
    for batches, times in epochs:
        factors[factor(batches)] += times
    if not any(isinstance(curve, RandomAllocation) for curve in factors):
        raise NotApplicable(_NO_SPARE)
    return factors


def _failure(sizes: FixedSizes | RandomSizes) -> float:
    """The probability that the record may bring a batch above the cap, where there is one."""
    match sizes:
        case RandomSizes(cap=int(cap)):
            p = min(1.0, fraction_up(sizes.probability))
            return min(1.0, sizes.draws * binomial_tail(sizes.n, p, cap - 1))
        case FixedSizes() | RandomSizes():
            return 0.0
        case _:
            assert_never(sizes)


def _by_epoch(run: NoisySGD, order: SecretOrder) -> list[tuple[list[Batch], int]]:
    """(the batches in which a place is drawn, how often it is drawn): once for all epochs, or for each."""
    once, end, period = paid_once(run, run.data_steps), run.data_steps, order.period
    epochs, rest = divmod(end, period)
    if order.once:
        if isinstance(once, np.ndarray):
            used = min(period, end)
            return [(_batches(order, [once[j::period].sum() for j in range(used)]), 1)]
        late = [(epochs + 1) * once] * rest
        return [(_batches(order, late + [epochs * once] * (period - rest if epochs else 0)), 1)]
    if isinstance(once, np.ndarray):
        # An epoch whose noise varies counts as one of its least noise.
        worst = np.maximum.reduceat(once, np.arange(0, end, period)).tolist()
        sums = _few(worst[:epochs])
        drawn = [(_batches(order, [x] * period), n) for x, n in Counter(sums).items()]
        return drawn + ([(_batches(order, worst[-1:] * rest), 1)] if rest else [])
    drawn = [(_batches(order, [once] * period), epochs)] if epochs else []
    return drawn + ([(_batches(order, [once] * rest), 1)] if rest else [])


def _batches(order: SecretOrder, sums: Iterable[Any]) -> list[Batch]:
    """The first batches of an epoch, from Σ (L/(b·ς_k))² of the steps of each."""
    sizes = [math.sqrt(max(x, TINY)) * _TERMS for x in _few(sums)]
    return [Batch(order.share(j, j), size) for j, size in enumerate(sizes)]


def _few(sums: Iterable[Any]) -> list[float]:
    """The numbers, some of them raised where they are many different ones."""
    values = [float(x) for x in sums]
    ends = np.unique(values)
    if ends.size <= _MOST_SIZES or ends[0] == 0.0:
        return values
    ends = np.geomspace(ends[0], ends[-1], _MOST_SIZES) * (1.0 + MANY_ROUNDINGS)
    return [float(ends[i]) for i in np.searchsorted(ends, values)]


# Secret groups.
#
# In every group of batches the record might have one place, at the same part of each group. That part is
# drawn, and everybody may know it. A label, the group of the record, moves its own steps until the place in
# the next group: its size is that of one use, paid for with the noise of these steps.


GROUPS = "secret groups"

_RANGES, _FEW_RANGES = 4, 2  # of the part, each at its worst; where there are several epochs
_SHRINKING, _LEAST_GROUP, _MOST_GROUP = 0.65, 2, 100  # groups towards the end of an epoch
_LONGEST = 4096  # steps that pay for one use
_LEAST_SLOPE = 1e-6  # smaller ones count as this
_MOST_STEPS = 200_000  # of different slopes
_MOST_KINDS, _COARSE = (
    8,
    0.02,
)  # kinds of labels; relative, how far apart sizes are where they are more
_SUMMED = 1e-10  # relative: more than the sum over the steps of a group errs


def groups(run: NoisySGD, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the last iterate when the record takes the place of another, and some place is left
    out."""
    order = _secret(run)
    require_hidden_path(run)
    if not isinstance(order.sizes, FixedSizes):
        raise NotApplicable("a record's place changes those of no others: see secret place")
    if not order.spare:
        raise NotApplicable(
            "every place of the permutation is in some batch: a spare place is asked for"
        )
    if not run.constant and run.steps > _MOST_STEPS:
        raise NotApplicable(f"more than {_MOST_STEPS} steps, which are looked at one by one")
    # What one record moves by itself is what it moves if its neighbour is zero.
    view = OrderedView(replace(run, adjacency="zero_out"))
    epochs = _Epochs(view, order)
    drawn = [(_curve(run, labels), times) for labels, times in epochs.drawn()]
    curve: TradeOff = drawn[0][0] if drawn == [(drawn[0][0], 1)] else Product(drawn)
    plan = {"offsets": epochs.ranges, "groups": [_partition(length) for length in epochs.lengths]}
    return computed(SampledProof(GROUPS, run, curve, lambda: plan))


Label = tuple[Fraction, tuple[float, ...]]  # its share, and its size in every range of the part


def _curve(run: NoisySGD, labels: Sequence[Label]) -> TradeOff:
    """What is revealed of labels of these shares and sizes."""
    kinds = Counter(labels)
    if len(kinds) > _MOST_KINDS:
        kinds = Counter(_coarser(labels))
    shares = [fraction_up(share * n) for (share, _), n in kinds.items()]
    sizes = [size for _, size in kinds]
    return RandomAllocation(
        shares, sizes, list(kinds.values()), run.adjacency == "replace_one", True
    )


def _coarser(labels: Sequence[Label]) -> list[Label]:
    """Labels of fewer different sizes, most of them raised a little."""
    sizes, step = np.array([size for _, size in labels]), math.log1p(_COARSE)
    with np.errstate(divide="ignore"):
        raised = np.exp(np.ceil(np.log(sizes) / step) * step) * (1.0 + MANY_ROUNDINGS)
    return [(share, tuple(size)) for (share, _), size in zip(labels, raised.tolist(), strict=True)]


def _partition(length: int) -> list[int]:
    """How many batches are in each group of an epoch of so many: few at the end, whose last steps have no
    others after them."""
    size = min(max(round(length**0.5), _LEAST_GROUP), _MOST_GROUP)
    tail = [size]
    while tail[-1] > _LEAST_GROUP:
        tail.append(max(_LEAST_GROUP, min(tail[-1] - 1, round(_SHRINKING * tail[-1]))))
    tail = tail[1:]
    while tail and sum(tail) + size > length:
        tail.pop(0)
    whole, left = divmod(length - sum(tail), size)
    return [left + size, *[size] * (whole - 1), *tail] if whole else [left, *tail]


class _Segments(NamedTuple):
    """From which step of an epoch to which one the uses of a group can be paid for: for every group and every
    range of the part, from its index in `owners` on, the worst cases. An `end` of the epoch's length or more
    is in the next one."""

    start: Array
    end: Array
    owners: NDArray[np.intp]
    shares: list[Fraction]
    ranges: int

    @classmethod
    def of(cls, order: SecretOrder, sizes: FixedSizes, length: int, ranges: int) -> _Segments:
        """Those of the first `length` batches of an epoch."""
        groups, batch = _partition(length), sizes.size
        begins = [sum(groups[:g]) for g in range(len(groups) + 1)]
        places = [size * batch for size in groups]
        if length == order.period:
            places[-1] += sizes.last - batch
        segments: list[tuple[int, int]] = []
        owners = []
        for g, here in enumerate(places):
            following = (g + 1) % len(groups)
            beyond = begins[g + 1] if following else length

            def segment(
                part: int, of: int, *, g: int = g, n: int = following, to: int = beyond
            ) -> Any:
                start, end = (part * places[i] // (of * batch) for i in (g, n))
                return begins[g] + start, to + end

            # Where the place moves on while the next one does not, fewer steps are left.
            moves = [j * batch for j in range(1, groups[g])]
            for i in range(ranges):
                owners.append(len(segments))
                segments.append(segment(i, ranges))
                within = (x for x in moves if i * here < x * ranges < (i + 1) * here)
                segments += [segment(x, here) for x in within]
        start, end = np.array(segments).T
        shares = [order.share(a, b - 1) for a, b in pairwise(begins)]
        return cls(start, end, np.array(owners), shares, ranges)

    def labels(self, squares: Array) -> list[Label]:
        """The labels, from the squares of their sizes in all these cases."""
        worst = np.maximum.reduceat(squares, self.owners).reshape(len(self.shares), self.ranges)
        sizes = np.sqrt(worst * (1.0 + _SUMMED)) * (1.0 + MANY_ROUNDINGS)
        return list(zip(self.shares, map(tuple, sizes.tolist()), strict=True))


class _Epochs:
    """The epochs of a run, in each of which, or in all, a record has a secret place."""

    def __init__(self, view: OrderedView, order: SecretOrder) -> None:
        assert isinstance(order.sizes, FixedSizes)
        self.view, self.order, self.period = view, order, order.period
        self.data, self.total = view.run.data_steps, view.run.steps
        self.whole, self.rest = divmod(self.data, self.period)
        sizes, once = order.sizes, order.once
        lengths = {self.period} if once or self.whole else set()
        self.lengths = sorted(lengths | ({self.rest} if self.rest and not once else set()))
        self.ranges = _RANGES if once or self.data <= self.period else _FEW_RANGES
        self.segments = {n: _Segments.of(order, sizes, n, self.ranges) for n in self.lengths}

    def drawn(self) -> Iterator[tuple[list[Label], int]]:
        """(the labels of a place, how often it is drawn)."""
        if self.order.once:
            segments = self.segments[self.period]
            yield segments.labels(self._in_all(segments)), 1
            return
        if self.whole:
            segments = self.segments[self.period]
            # Of several epochs none pays beyond its end: so they are alike.
            until = self.total if self.data == self.period else self.period
            some = range(1) if self.view.run.constant else range(self.whole)
            squares = [self._in_one(segments, epoch, self.period, until) for epoch in some]
            yield segments.labels(np.max(squares, axis=0)), self.whole
        if self.rest:
            segments, left = self.segments[self.rest], self.total - self.whole * self.period
            yield segments.labels(self._in_one(segments, self.whole, self.rest, left)), 1

    def _in_one(self, segments: _Segments, epoch: int, length: int, until: int) -> Array:
        """The squares of one epoch, whose last uses are paid for up to its step `until`."""
        end = np.where(segments.end < length, segments.end, until)
        return self._squares(*(epoch * self.period + x for x in (segments.start, end)))

    def _in_all(self, segments: _Segments) -> Array:
        """The squares of all epochs together, in each of which the place is the same."""
        epochs = -(-self.data // self.period)
        # Of a constant schedule, all but the last two are alike.
        alike = max(0, self.whole - 1) if self.view.run.constant else 0
        times = {0: alike} if alike else {}
        times |= dict.fromkeys(range(alike, epochs), 1)
        total = np.zeros(segments.start.size)
        for epoch, n in times.items():
            start, end = (epoch * self.period + x for x in (segments.start, segments.end))
            used = start < self.data
            end = np.where(end < self.data, end, self.total)
            total[used] += n * self._squares(start[used], end[used])
        return total

    def _squares(self, start: Array, end: Array) -> Array:
        """(s/σ)² of uses at these steps, each paid for with the noise of the steps before its end: what is
        left at step k, with W the product of the slopes after the use, is paid in proportion to (σ_k/W)²."""
        energy, product = np.zeros(start.size), np.ones(start.size)
        here = np.arange(start.size)
        with np.errstate(all="ignore"):
            for t in range(int(min(_LONGEST, np.max(end - start, initial=0)))):
                here = here[start[here] + t < end[here]]
                c, _, sigma = self._steps(start[here] + t)
                if t:
                    product[here] *= np.maximum(c, _LEAST_SLOPE)
                energy[here] += np.nan_to_num((sigma / product[here]) ** 2, nan=0.0)
            s = self._steps(start)[1]
            return np.where(energy > 0.0, s * s / energy, np.inf)

    def _steps(self, k: Array) -> tuple[Array, Array, Array]:
        """(slopes, sensitivities, noises) of these steps."""
        view = self.view
        if not view.run.constant:
            return tuple(column[k] for column in view.arrays)
        constants = view.constants
        c = np.where(k % self.period == self.period - 1, constants.last, constants.full)
        c = np.where(k < self.data, c, constants.cool)
        return c, np.full(k.size, constants.s), np.full(k.size, constants.sigma)

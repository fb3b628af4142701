"""Sums of clipped gradients whose rounding never carries them past the stated sensitivity.

A sum of at most B vectors of norm at most C, in which each coordinate goes through at most m additions
in any order, is off by at most B·C·(m + 16)·2⁻⁵³ in norm, and so is the one it is compared with. Every
gradient is therefore bounded by C·(1 − 2B(m + 16)·2⁻⁵³) instead of C: what rounding may add was taken
off before. For 1 500 records in blocks of 4 096 that is a relative 10⁻⁹. Where the curvature of the
gradients is counted on, neither scaling them nor clipping them below their bound would keep it: there
the noise is raised by the same factor instead (`noise_factor`).

Where batches are sampled, sums are compared that hold a record, another one in its place, or none:
their lengths differ, and records that both hold stand at different places. So B is the largest batch
that is ever summed (n, or the cap, for Poisson sampling, not the expected size), and a record's own
gradient is computed such that its place does not change it. Then a record that comes on top moves the
computed sum by at most C, one that takes another's place by at most 2C. A zeroed record is one that
is drawn and not summed.

Where batches are of users, a sum has a row for every record of theirs, of weight 1 over the number of their
records: the weights of a user sum to 1, so that the rounding is as of sums of as many vectors as there are
users, but in a chain as long as there may be rows. What users have beside one another moves rows about, so
that here, too, a record's gradient must not depend on its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pabi.describe.runs import NoisySGD
from pabi.execute.clipping import clip_coordinates, clip_norms
from pabi.execute.dense_blocks import Rows
from pabi.execute.groups import UserRows
from pabi.execute.hiding import read_only, returned, unshown
from pabi.execute.records import MOST_ROWS, numbers_of
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP
from pabi.numbers.rounding import TINY, Array, up

_HELD = 1 << 23  # numbers of per-record gradients in memory at once (64 MB)


@dataclass(frozen=True)
class Limit:
    """What one record may contribute to a sum.

    Its gradient is multiplied by `shrink` and then clipped to norm `clip`, which leaves room for the rounding
    of the sum, unless the noise does (`noise_factor`). `clip` is None where a run states its own sensitivity.
    `anywhere`: whether the gradient must be the same to the last bit wherever in a batch the record stands.
    `residual`: the gradient norm to which the loss itself is clipped convexly before that, None where it is
    not; `in_ball`: by the norm of all residuals.
    `coordinates`: first each of d coordinates is clipped to `coordinates`/√d, if it is not None; then `clip`
    is the loss's own promise, if it promises less.
    """

    clip: float | None
    shrink: float
    anywhere: bool = False
    coordinates: float | None = None
    residual: float | None = None
    in_ball: bool = False

    def of_residuals(self, norms: Array) -> tuple[Array, ...]:
        """The sizes to which derivatives in the predictor are clipped, for records of these norms.

        Empty where the loss is not clipped.
        """
        return () if self.residual is None else (self.residual / np.maximum(norms, TINY),)

    @classmethod
    def of(cls, run: NoisySGD, additions: int) -> Limit:
        """The limit for sums of one batch of `run` in which each coordinate sees `additions` in a chain."""
        anywhere = run.order.fresh or run.unit == "user"
        if run.gradient_sensitivity is not None:
            return cls(None, 1.0, anywhere)
        bound = run.record_gradient_bound
        assert bound is not None
        room = _room(run, additions)
        shrink = 1.0 - room if run.loss.scalable else 1.0
        clip = bound * shrink
        match run.clipping:
            case "norm":
                return cls(clip, shrink, anywhere)
            case "coordinates":
                assert run.clip_norm is not None
                return cls(clip, shrink, anywhere, coordinates=run.clip_norm * shrink)
            case "residual" | "ball":
                whole = run.clipping == "ball"
                return cls(clip, shrink, anywhere, residual=run.clip_norm, in_ball=whole)
            case other:
                raise InvalidInput(
                    "clipping", f"expected norm, coordinates, residual or ball, got {other!r}"
                )


def noise_factor(run: NoisySGD) -> float:
    """What the noise is multiplied by, at least 1, to hide what the rounding of sums may add.

    Not 1 where `Limit` leaves gradients as they are. A record then moves a computed sum by at most
    1 + room times the stated sensitivity, and distances that are larger by a factor, under noise that is
    larger by the same factor, cost no more: ω(λδ) ≤ λω(δ) for λ ≥ 1 and every modulus of a gradient step.
    """
    if run.gradient_sensitivity is not None or run.loss.scalable:
        return 1.0
    return up(1.0 / (1.0 - _room(run, longest_chain(run, MOST_ROWS))))


def longest_chain(run: NoisySGD, held: int) -> int:
    """The longest chain of additions in the sum over a batch, of which so many rows are added at once.

    How many rows the users of a batch have is a secret, so that nothing less than `held` is sure of them.
    """
    return held if run.unit == "user" else min(run.order.sizes.most, held)


def _room(run: NoisySGD, additions: int) -> float:
    """How much of the bound of a gradient two sums may differ by, because of rounding alone."""
    most = run.order.sizes.most
    room = rounding_room(most, additions)
    if not room < 0.5:
        raise InvalidInput(
            "batches", f"batches of up to {most} records are too large for sums in float64"
        )
    return room


def rounding_room(most: int, additions: int) -> float:
    """How much two sums of at most `most` terms may differ by because of rounding alone, if each coordinate
    sees `additions` in a chain; relative to the bound on a term."""
    return 2.0 * most * (additions + 16.0) * HALF_ULP


class GradientSum(Protocol):
    """(x, rows) ↦ the float64 sum of the records' clipped gradients, of the shape of x."""

    def __call__(self, x: Array, rows: Rows) -> Array:
        """The sum at `x` over `rows`."""


class RemoteGradients(ABC):
    """Gradients of records that are on other machines: only clipped sums of them come here.

    `n`: how many records there are. `example`: the gradients of a public record, by the code that runs there;
    what is refused of gradients in memory is refused of them. `assumed`: what a guarantee assumes of the
    other machines.
    """

    n: int
    example: Any
    assumed: tuple[str, ...]

    @abstractmethod
    def sum_for(self, run: NoisySGD, groups: UserRows | None) -> GradientSum:
        """The sum of a batch's clipped gradients, as of the same records in memory but for roundings."""


class Total:
    """A running sum of arrays that rounds as two additions do, however many there are (Kahan)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.value = np.zeros(shape)
        self._lost = np.zeros(shape)
        self._terms = 0

    def add(self, term: Array) -> None:
        """Adds `term` to `value`."""
        if self._terms == 0:
            self.value += term
        else:
            term = term - self._lost
            risen = self.value + term
            self._lost = (risen - self.value) - term
            self.value = risen
        self._terms += 1

    def add_at(self, where: Any, term: Array) -> None:
        """Adds `term` to the entries of `value` at the index `where`, which names none of them twice."""
        term = term - self._lost[where]
        risen = self.value[where] + term
        self._lost[where] = (risen - self.value[where]) - term
        self.value[where] = risen
        self._terms += 1


def per_record_sum(
    gradients: Callable[[Array, Any], ArrayLike], run: NoisySGD, groups: UserRows | None = None
) -> GradientSum:
    """The sum of what a callable (x, rows) ↦ (len(rows), *x.shape) returns, clipped record by record.

    A batch whose gradients would not fit in 64 MB is asked for in several parts. With `groups` batches are of
    users, of each of whom the mean is added.
    """

    def total(x: Array, rows: Rows) -> Array:
        indices = numbers_of(rows) if groups is None else groups.rows(rows)
        held = max(1, _HELD // max(x.size, 1))
        limit = Limit.of(run, longest_chain(run, min(held, MOST_ROWS)))
        result = Total(x.shape)
        for first in range(0, len(indices), held):
            part = indices[first : first + held].copy()  # the callee may do as it likes
            values = unshown("per_record_gradients", partial(gradients, read_only(x), part))
            each = returned("per_record_gradients", values, (len(part), *x.shape), _EACH)
            if limit.shrink != 1.0:
                each = each * limit.shrink
            if limit.coordinates is not None:
                each = clip_coordinates(each, limit.coordinates)
            if limit.clip is not None and limit.clip != limit.coordinates:
                each = clip_norms(each, limit.clip)
            if groups is not None:
                own = groups.shares[indices[first : first + held]]
                each = each * own.reshape(-1, *([1] * x.ndim))
            for row in range(0, len(each), MOST_ROWS):
                result.add(np.sum(each[row : row + MOST_ROWS], axis=0))
        return result.value

    return total


def stated_sum(
    clipped_gradient_sum: Callable[[Array, Any, float | None], ArrayLike], run: NoisySGD
) -> GradientSum:
    """What a callable (x, rows, clip_norm) ↦ x.shape returns, taken at its word."""
    bound = None if run.gradient_sensitivity is not None else run.record_gradient_bound

    def total(x: Array, rows: Rows) -> Array:
        ask = partial(clipped_gradient_sum, read_only(x), numbers_of(rows), bound)
        value = unshown("clipped_gradient_sum", ask)
        return returned("clipped_gradient_sum", value, x.shape, "x.shape")

    return total


_EACH = "(len(rows), *x.shape)"

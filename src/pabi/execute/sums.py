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

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Self
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.describe.runs import COUNT, NoisySGD
from pabi.execute.blocks import Rows, clip_coordinates, clip_norms
from pabi.execute.cells import cells_of, is_missing
from pabi.execute.hiding import read_only, returned, unshown
from pabi.execute.records import MOST_ROWS, numbers_of
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import EIGHT_ROUNDINGS, HALF_ULP, Array, up

# Rows that belong together: those of one user, who contributes their mean.
#
# A batch is one of users. What is summed over it are all rows of these users, each with 1 over the number
# of its user's rows: a sum of means, and nothing for a user without rows. How many rows a user has stays
# hidden, but for the time that a step takes.


_KINDS = "biufMmUSO"
_NUMBERS, _INFINITE = (int, float, Decimal, Fraction), (math.inf, -math.inf)
_OF_NUMPY, _TIMES = (np.integer, np.floating, np.bool_), (np.datetime64, np.timedelta64)
_KNOWN = (*_NUMBERS, *_OF_NUMPY, str, bytes, UUID)  # equal where their values are
_DATES = (datetime.date, datetime.time, datetime.timedelta, *_TIMES)
_EXPECTED = "expected ids that are numbers, text, bytes, dates, times, UUIDs, or tuples of these"
_UNKNOWN = "it holds an id that is not among the declared users"


@dataclass(frozen=True, eq=False)
class UserRows:
    """The rows of each of `users` users, numbered from 0.

    `ordered`: (m,) the rows, user by user. `starts`: (users + 1,) where each user's begin in it. `shares`:
    (m,) of every row 1 over the number of its user's rows, rounded down. `placed`: whether a user's number
    depends on their id alone, not on the ids of others.
    """

    users: int
    ordered: NDArray[np.intp]
    starts: NDArray[np.intp]
    shares: Array
    placed: bool

    @classmethod
    def of(cls, ids: Any, users: Any = None) -> Self:
        """The rows with these ids, one a row.

        `users`: the number of enrolled users, or the ids of all of them; None for those that have rows. With
        their number, ids 0, …, users − 1 are taken as numbers. Ids are the same where Python finds them
        equal: 1 and 1.0 are, 1 and "1" are not, and an odd one changes no other. They are numbers, text,
        bytes, dates, times, UUIDs or tuples of these, which are equal where their values are. Raises
        InvalidInput naming `groups` or `users`; no message shows data.
        """
        codes, count, placed = _coded(_checked(ids), users)
        counts = np.bincount(codes, minlength=count)
        shares = np.where(counts == 1, 1.0, (1.0 - EIGHT_ROUNDINGS) / np.maximum(counts, 1))
        return cls(
            users=count,
            ordered=np.argsort(codes, kind="stable").astype(np.intp, copy=False),
            starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.intp, copy=False),
            shares=shares[codes],
            placed=placed,
        )

    def __len__(self) -> int:
        return len(self.ordered)

    def rows(self, users: Rows) -> NDArray[np.intp]:
        """All rows of some users in turn, in memory of its own."""
        if isinstance(users, slice):
            return self.ordered[self.starts[users.start] : self.starts[users.stop]].copy()
        first, counts = self.starts[users], self.starts[users + 1] - self.starts[users]
        before = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(first - before, counts)
        return np.asarray(self.ordered[places])

    def among(self, users: NDArray[np.intp]) -> UserRows:
        """These users alone, numbered anew, with their rows in the order of `rows`."""
        counts = self.starts[users + 1] - self.starts[users]
        return UserRows(
            users=len(users),
            ordered=np.arange(counts.sum(), dtype=np.intp),
            starts=np.asarray(np.concatenate([[0], np.cumsum(counts)]), np.intp),
            shares=self.shares[self.rows(users)],
            placed=self.placed,
        )

    def drawn(self, generator: np.random.Generator) -> NDArray[np.intp]:
        """One row of every user who has some, uniformly at random; ascending."""
        counts = np.diff(self.starts)
        some = counts > 0
        return np.sort(self.ordered[self.starts[:-1][some] + generator.integers(counts[some])])

    def users_of_rows(self) -> NDArray[np.intp]:
        """(m,) the number of every row's user."""
        numbers = np.empty(len(self), np.intp)
        numbers[self.ordered] = np.repeat(np.arange(self.users), np.diff(self.starts))
        return numbers


def checked_groups(groups: UserRows | ArrayLike, users: Any, rows: int | None = None) -> UserRows:
    """The groups of so many enrolled users, which have as many ids as there are rows."""
    own = groups if isinstance(groups, UserRows) else UserRows.of(groups, users)
    require(
        users is None or own.users == users,
        "n",
        f"expected {own.users}, the number of users, got {users}",
    )
    require(rows is None or len(own) == rows, "groups", "expected as many ids as X has rows")
    return own


def are_listed(users: Any) -> bool:
    """Whether users are declared by their ids, not by their number."""
    return (
        getattr(users, "ndim", 1) > 0 and hasattr(users, "__len__") and not isinstance(users, str)
    )


def _checked(ids: Any) -> NDArray[Any]:
    """The ids as they are: numpy would make text or doubles of all of them where one is."""
    values = cells_of(ids)
    require(
        values.ndim == 1 and values.size,
        "groups",
        f"expected one id a row, got shape {values.shape}",
    )
    require(values.dtype.kind in _KINDS, "groups", f"{_EXPECTED}, got {values.dtype}")
    require(
        not _lacks_some("groups", values),
        "groups",
        "expected an id in every row, got a missing or infinite one",
    )
    return values


def _lacks_some(field: str, values: NDArray[Any]) -> bool:
    """Whether one, or a part of one, is missing or infinite. Raises InvalidInput for what is no id."""
    match values.dtype.kind:
        case "f":
            return not np.all(np.isfinite(values))
        case "M" | "m":
            return bool(np.any(np.isnat(values)))
        case "O":
            return any(
                is_missing(one) or (isinstance(one, _KNOWN) and one in _INFINITE)
                for one in _parts(field, values.tolist())
            )
        case _:
            return False


def _parts(field: str, ids: list[Any]) -> Iterator[Any]:
    """What ids are made of. Raises InvalidInput for what is no id: its equality may not be that of values."""
    pending = list(ids)
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            pending += one
        elif isinstance(one, (*_KNOWN, *_DATES)) or is_missing(one):
            yield one
        else:
            raise InvalidInput(field, f"{_EXPECTED}, got other objects")


def _listed(field: str, values: NDArray[Any]) -> list[Any]:
    """Python's objects, by which ids are told apart. Raises InvalidInput for times that it has not."""
    cells = list(values) if values.dtype.kind in "Mm" else values.tolist()
    return [_own(field, one) for one in cells]


def _own(field: str, one: Any) -> Any:
    """An id as Python's: numpy's equality rounds, so two that differ may both equal a third one."""
    if isinstance(one, tuple):
        return tuple(_own(field, part) for part in one)
    if isinstance(one, _TIMES):
        return _time(field, one)
    if isinstance(one, np.longdouble):  # which Python has not
        return Fraction(*one.as_integer_ratio())
    return one.item() if isinstance(one, _OF_NUMPY) else one


def _time(field: str, one: Any) -> Any:
    """The same time as Python's. Raises InvalidInput where there is none."""
    unit = np.datetime_data(one.dtype)[0]
    whole = one.astype(f"{one.dtype.kind}8[us]")
    vague = one.dtype.kind == "m" and unit in ("generic", "Y", "M")  # of no length
    require(
        not vague and whole.astype(one.dtype) == one and not isinstance(whole.item(), int),
        field,
        "expected times that Python has: of whole microseconds, in years up to 9999",
    )
    return whole.item()


def _coded(ids: NDArray[Any], users: Any) -> tuple[NDArray[np.intp], int, bool]:
    """(numbers of the rows' users, how many users there are, whether an id alone decides its number)."""
    if users is None:
        codes = _numbered(ids)
        return codes, int(codes.max()) + 1, False
    if are_listed(users):
        return *_among(ids, users), True
    count = COUNT("users", users)
    if (own := _as_numbers(ids, count)) is not None:
        return own, count, True
    codes = _numbered(ids)
    require(
        int(codes.max()) < count,
        "groups",
        f"expected the ids of at most {count} users, as declared",
    )
    return codes, count, False


def _as_numbers(ids: NDArray[Any], count: int) -> NDArray[np.intp] | None:
    """The ids as numbers of users, None unless all are whole numbers in 0, …, count − 1."""
    if ids.dtype.kind in "iuf":
        fits = ids.min() >= 0 and ids.max() < count and bool(np.all(ids == np.rint(ids)))
        return np.asarray(ids, np.intp) if fits else None
    if ids.dtype.kind != "O":
        return None
    listed = _listed("groups", ids)
    numbers = all(
        isinstance(one, _NUMBERS) and 0 <= one < count and one == int(one) for one in listed
    )
    return np.array(list(map(int, listed)), np.intp) if numbers else None


def _numbered(ids: NDArray[Any]) -> NDArray[np.intp]:
    """Numbers of the ids, the same for those that Python finds equal, such as 1 and 1.0, alone."""
    if ids.dtype.kind == "O":
        numbers: dict[Any, int] = {}
        return np.array(
            [numbers.setdefault(one, len(numbers)) for one in _listed("groups", ids)], np.intp
        )
    return np.asarray(np.unique(ids, return_inverse=True)[1], np.intp)


def _among(ids: NDArray[Any], users: Any) -> tuple[NDArray[np.intp], int]:
    """(the places of the ids in the list of all users, how many these are)."""
    listed = cells_of(users)
    require(
        listed.ndim == 1 and listed.size,
        "users",
        f"expected a number or a list of ids, got shape {listed.shape}",
    )
    require(
        not _lacks_some("users", listed),
        "users",
        "expected the id of every user, got a missing or infinite one",
    )
    own = _listed("users", listed)
    places = {one: place for place, one in enumerate(own)}
    require(len(places) == listed.size, "users", "expected every id once")
    codes = [places.get(one) for one in _listed("groups", ids)]
    require(None not in codes, "groups", _UNKNOWN)
    return np.array(codes, np.intp), listed.size


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


def least_move(run: NoisySGD) -> float:
    """The least distance of two means that a proof speaks of, where a record moves one: half the sensitivity,
    of two records of which one takes the other's place. Rounding adds as much to every distance."""
    return 0.5 * run.sensitivity / run.batch_size


BLOCK, LEAST_ROWS = (
    1 << 15,
    1024,
)  # of samplers: numbers, 256 KB, and records, where there are as many


def additions_of_blocks(n: int) -> int:
    """The additions that a coordinate of a sampler's sum goes through: those of a block, and one a block."""
    return min(n, BLOCK) + n // LEAST_ROWS + 1


def longest_chain(run: NoisySGD, held: int) -> int:
    """The longest chain of additions in the sum over a batch, of which so many rows are added at once.

    How many rows the users of a batch have is a secret, so that nothing less than `held` is sure of them.
    """
    return held if run.unit == "user" else min(run.order.sizes.most, held)


def _room(run: NoisySGD, additions: int) -> float:
    """How much of the bound of a gradient two sums may differ by, because of rounding alone."""
    most = run.order.sizes.most
    room = rounding_room(most, additions)
    require(
        room < 0.5, "batches", f"batches of up to {most} records are too large for sums in float64"
    )
    return room


def rounding_room(most: int, additions: int) -> float:
    """How much two sums of at most `most` terms may differ by because of rounding alone, if each coordinate
    sees `additions` in a chain; relative to the bound on a term."""
    return 2.0 * most * (additions + 16.0) * HALF_ULP


GradientSum = Callable[[Array, Rows], Array]
"""(x, rows) ↦ the float64 sum of the records' clipped gradients, of the shape of x."""


class RemoteGradients(ABC):
    """Gradients of records that are on other machines: only clipped sums of them come here.

    `example`: the gradients of a public record, by the code that runs there; what is refused of gradients in
    memory is refused of them. `assumed`: what a guarantee assumes of the other machines.
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
            # A hidden path whose rounding is charged for rests on gradients in doubles.
            short, shape = run.rounding == 0.0, (len(part), *x.shape)
            each = returned("per_record_gradients", values, shape, _EACH, short)
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

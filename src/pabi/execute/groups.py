"""Rows that belong together: those of one user, who contributes their mean.

A batch is one of users. What is summed over it are all rows of these users, each with 1 over the number of
its user's rows: a sum of means, and nothing for a user without rows. How many rows a user has stays hidden,
but for the time that a step takes.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.describe.stated_run import COUNT
from pabi.execute.dense_blocks import Rows
from pabi.features.cells import cells_of, is_missing
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import EIGHT_ROUNDINGS
from pabi.numbers.rounding import Array

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
        values = _checked(ids)
        codes, count, placed = _coded(values, users)
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

    def users_of_rows(self) -> NDArray[np.intp]:
        """(m,) the number of every row's user."""
        numbers = np.empty(len(self), np.intp)
        numbers[self.ordered] = np.repeat(np.arange(self.users), np.diff(self.starts))
        return numbers


def checked_groups(groups: UserRows | ArrayLike, users: Any, rows: int | None = None) -> UserRows:
    """The groups of so many enrolled users, which have as many ids as there are rows.

    Raises InvalidInput naming `groups`, or `n` where groups that were made before have other users.
    """
    own = groups if isinstance(groups, UserRows) else UserRows.of(groups, users)
    if users is not None and own.users != users:
        raise InvalidInput("n", f"expected {own.users}, the number of users, got {users}")
    if rows is not None and len(own) != rows:
        raise InvalidInput("groups", "expected as many ids as X has rows")
    return own


def are_listed(users: Any) -> bool:
    """Whether users are declared by their ids, not by their number."""
    return (
        getattr(users, "ndim", 1) > 0 and hasattr(users, "__len__") and not isinstance(users, str)
    )


def _checked(ids: Any) -> NDArray[Any]:
    """The ids as they are: numpy would make text or doubles of all of them where one is."""
    values = cells_of(ids)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput("groups", f"expected one id a row, got shape {values.shape}")
    if values.dtype.kind not in _KINDS:
        raise InvalidInput("groups", f"{_EXPECTED}, got {values.dtype}")
    if _lacks_some("groups", values):
        raise InvalidInput("groups", "expected an id in every row, got a missing or infinite one")
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
    if vague or whole.astype(one.dtype) != one or isinstance(whole.item(), int):
        raise InvalidInput(
            field, "expected times that Python has: of whole microseconds, in years up to 9999"
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
    if int(codes.max()) >= count:
        raise InvalidInput("groups", f"expected the ids of at most {count} users, as declared")
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
    if listed.ndim != 1 or listed.size == 0:
        raise InvalidInput("users", f"expected a number or a list of ids, got shape {listed.shape}")
    if _lacks_some("users", listed):
        raise InvalidInput("users", "expected the id of every user, got a missing or infinite one")
    own = _listed("users", listed)
    places = {one: place for place, one in enumerate(own)}
    if len(places) < listed.size:
        raise InvalidInput("users", "expected every id once")
    codes = [places.get(one) for one in _listed("groups", ids)]
    if None in codes:
        raise InvalidInput("groups", _UNKNOWN)
    return np.array(codes, np.intp), listed.size

"""Whose a row is: the users that `fit` is told of, and how many are enrolled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pabi.describe.stated_run import COUNT
from pabi.execute.groups import UserRows, checked_groups
from pabi.execute.records import Records
from pabi.learn.sentences import ENROLLED
from pabi.numbers.errors import InvalidInput


class Given(NamedTuple):
    """What `fit` got beside X and y: the ids of the rows' users, weights, and the file to keep its state in;
    None for none of them."""

    groups: Any = None
    weights: Any = None
    state: Any = None


class CheckedRows(NamedTuple):
    """Rows that were checked. `X`: an array, CSR or rows that are read in passes. `weights`: in [0, 1], None
    for all ones. `groups`: None where rows are records.

    Targets and weights of a large table are a `Column`.
    """

    X: Any
    records: Records
    targets: Any
    weights: Any = None
    groups: UserRows | None = None


def users_of_rows(ids: Any, users: Any, rows: int) -> tuple[UserRows | None, tuple[str, ...]]:
    """(the rows of every user, what the guarantee assumes of them); None where rows are records.

    `users`: how many are enrolled, their ids, or None for those who have rows. Raises InvalidInput.
    """
    declared = users if users is None or np.ndim(users) > 0 else COUNT("users", users)
    if ids is None:
        if declared is not None:
            raise InvalidInput("groups", "missing: users are declared, so expected a user a row")
        return None, ()
    groups = UserRows.of(ids, declared)
    return checked_groups(groups, None, rows), () if declared is not None else (ENROLLED,)

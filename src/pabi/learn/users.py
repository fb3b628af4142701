"""Whose a row is: the users that `fit` is told of, and how many are enrolled."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from pabi.describe.stated_run import COUNT
from pabi.execute.groups import UserRows, are_listed, checked_groups
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
    declared = users if users is None or are_listed(users) else COUNT("users", users)
    if ids is None:
        if declared is not None:
            raise InvalidInput("groups", "missing: users are declared, so expected a user a row")
        return None, ()
    groups = UserRows.of(ids, declared)
    return checked_groups(groups, None, rows), () if declared is not None else (ENROLLED,)


# Words that end, or are, the name of a column that says whose a row is.
_IDS = frozenset(
    {"id", "ids", "uid", "uuid", "guid", "ssn", "mrn", "email", "mail", "iban", "passport"}
)
_PEOPLE = frozenset(
    {
        "client",
        "customer",
        "household",
        "individual",
        "participant",
        "patient",
        "person",
        "respondent",
    }
    | {"subject", "user"}
)
# These are as often what is said of a person.
_ROLES = frozenset(
    {
        "account",
        "applicant",
        "borrower",
        "citizen",
        "device",
        "donor",
        "driver",
        "employee",
        "member",
    }
    | {
        "passenger",
        "player",
        "pupil",
        "student",
        "subscriber",
        "tenant",
        "visitor",
        "voter",
        "worker",
    }
)
_KEYS = frozenset({"address", "code", "hash", "key", "name", "no", "nr", "num", "number"})


def id_columns(names: Iterable[Any]) -> tuple[str, ...]:
    """The names of columns that look as if they said whose a row is.

    Where there is one, a person may have several rows. A guarantee for rows then says little of people: give
    their ids to `fit` as `groups`.

    Parameters
    ----------
    names : iterable of str
        The names of a table's columns; whatever is no string is passed over.

    Returns
    -------
    tuple of str
        Those such as "id", "patient", "customer_id", "userId", "user name" or "email", each once, in order.
        The names decide alone, never the data.

    Raises
    ------
    TypeError
        `names` cannot be iterated.

    References
    ----------
    docs, "Prepare data privately".
    """
    return tuple(dict.fromkeys(str(n) for n in names if isinstance(n, str) and _is_id(n)))


def _is_id(name: str) -> bool:
    """Whether a column is called as ids are: by its last word, or by a person and the key of one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = re.findall(r"[^\W_]+", spaced.lower())
    joined = "".join(words)
    if not words:
        return False
    if words[-1] in _IDS or words[0] == "id" or joined in _PEOPLE | {"socialsecuritynumber"}:
        return True
    whose = {word.removesuffix("s") for word in words[:-1]} & (_PEOPLE | _ROLES | _IDS)
    together = joined.endswith("id") and joined.removesuffix("id") in _PEOPLE | _ROLES
    return bool(whose and words[-1] in _KEYS) or together

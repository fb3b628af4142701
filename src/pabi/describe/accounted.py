"""What every description has: whom it protects, the sentences that it rests on, and what it can be asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast, get_args

import numpy as np

from pabi.describe.losses import Loss
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning, must_be, warn_once
from pabi.numbers.showing import plain
from pabi.numbers.validate import POSITIVE, Checked, by, optional

if TYPE_CHECKING:
    from pabi.account.changes import Explanation
    from pabi.tradeoff.guarantee import Guarantee

USUAL_DELTA = 1e-5  # at which a guarantee is read that was chosen at none


class Accounted(Checked):
    """A description: two are equal if they are of one kind and all fields are."""

    def guarantee(self, delta: float = 1e-5) -> Guarantee:
        """The best proven guarantee, chosen at one δ and valid at every δ.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ at which analyses are compared.

        Returns
        -------
        Guarantee
            Its `source` names the theorem.

        Raises
        ------
        InvalidInput
            For a δ outside of its range.
        NotApplicable
            When no analysis covers the description.

        Warns
        -----
        PrivacyWarning
            When `delta` exceeds 1/n.
        """
        warn_of_large_delta(getattr(self, "n", None), delta)
        return self._best(delta)

    def _best(self, delta: float, position: int | None = None) -> Guarantee:
        from pabi.account.best import best_guarantee

        return best_guarantee(cast("Any", self), delta, position)

    def explain(self, delta: float = 1e-5, also: Sequence[Any] = ()) -> Explanation:
        """Every analysis with its ε at one δ, or why it does not apply, as a table.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ of the ε that are shown.
        also : sequence of callables
            Functions of the description that return a trade-off function or a guarantee, each shown as a row.

        Returns
        -------
        Explanation
            One row for each analysis.

        Raises
        ------
        InvalidInput
            For a δ outside of its range.

        Warns
        -----
        PrivacyWarning
            When `delta` exceeds 1/n.
        """
        from pabi.account.changes import explain

        warn_of_large_delta(getattr(self, "n", None), delta)
        return explain(cast("Any", self), delta, also)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine: Any = self
        return all(same(getattr(self, f.name), getattr(other, f.name)) for f in fields(mine))

    __hash__ = None  # type: ignore[assignment]


def same(a: Any, b: Any) -> bool:
    """Whether two arguments of descriptions are equal, arrays entry by entry."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and bool(np.array_equal(a, b))
    return a is b or bool(a == b)


def warn_of_large_delta(n: int | None, delta: float) -> None:
    """Warns (PrivacyWarning), once in a process, where δ > 1/n promises little.

    Raises InvalidInput for a δ outside [0, 1).
    """
    checked = validate.number("delta", delta, at_least=0.0, below=1.0)
    if n is not None and checked > 1.0 / n:
        warn_once(
            f"delta = {delta!r} exceeds 1/n = {plain(1.0 / n, 3)}: publishing one record "
            "outright would satisfy it",
            PrivacyWarning,
        )


# Whom a guarantee protects: what two adjacent data sets differ by (adjacency), in one of what (unit).
#
# A guarantee of forgetting compares a model with one that was retrained, not two data sets. Its adjacency
# is "retrained", which no description of a training has.


Adjacency = Literal["replace_one", "zero_out"]
Compared = Adjacency | Literal["retrained"]
"""What a guarantee compares: adjacent data sets, or a model that forgot with one that was retrained."""
RETRAINED: Literal["retrained"] = "retrained"
Unit = Literal["record", "user"]
"""One record, or all records of one user, of whom there are `n`."""

UNITS: tuple[Unit, ...] = get_args(Unit)
MOST_GROUPED = 10**9  # units of a group
_GROUPS = re.compile(r"groups of ([2-9]|[1-9][0-9]{1,9}) (record|user)s")


def changed(adjacency: Adjacency) -> int:
    """How many contributions differ between adjacent data sets: one is replaced, or becomes zero."""
    match adjacency:
        case "replace_one":
            return 2
        case "zero_out":
            return 1
        case _:
            assert_never(adjacency)


def checked_adjacency(value: Any) -> Adjacency:
    """The canonical name of an adjacency, given by name or as a dp_accounting.NeighboringRelation."""
    name = getattr(value, "name", value)
    names: dict[str, Adjacency] = {
        "replace_one": "replace_one",
        "REPLACE_ONE": "replace_one",
        "zero_out": "zero_out",
        "REPLACE_SPECIAL": "zero_out",
    }
    if isinstance(name, str) and name in names:
        return names[name]
    if isinstance(name, str) and name.lower() in (
        "add_or_remove",
        "add_or_remove_one",
        "add_remove",
        "add_remove_one",
    ):
        raise InvalidInput(
            "adjacency",
            'adding or removing a record changes n and with it the batches; the nearest is "zero_out" '
            f'(the record\'s contribution becomes zero), expected "replace_one" or "zero_out", got {name!r}',
        )
    raise InvalidInput("adjacency", f'expected "replace_one" or "zero_out", got {value!r}')


def checked_comparison(value: Any) -> Compared:
    """The canonical name of what a guarantee compares. Raises InvalidInput."""
    return RETRAINED if type(value) is str and value == RETRAINED else checked_adjacency(value)


def require_alike(field: str, expected: object, other: object) -> None:
    """InvalidInput unless two guarantees agree in `field`, such as adjacency or unit."""
    if other == expected:
        return
    why = ""
    if field == "adjacency" and RETRAINED in (expected, other):
        why = (
            "; forgetting is compared with retraining, training with adjacent data, and neither bounds "
            "the other"
        )
    raise InvalidInput(field, f"expected {expected!r} throughout, got {other!r} too{why}")


def checked_unit(value: object) -> Unit:
    """The unit of this name. Raises InvalidInput."""
    names = " or ".join(f'"{unit}"' for unit in UNITS)
    must_be(type(value) is str and value in UNITS, "unit", names, value)
    return cast("Unit", value)


def checked_protected(value: object) -> str:
    """Whom a guarantee protects, in the one spelling: a unit, or groups of them. Raises InvalidInput."""
    match = _GROUPS.fullmatch(value) if type(value) is str else None
    if match is not None and int(match[1]) <= MOST_GROUPED:
        return match[0]
    if type(value) is str and value in UNITS:
        return value
    names = ", ".join(f'"{unit}"' for unit in UNITS)
    raise InvalidInput("unit", f'expected {names} or "groups of 2 records", got {value!r}')


def groups_of(size: int, unit: str) -> str:
    """The name of groups of so many units, of the unit itself for 1."""
    return unit if size == 1 else f"groups of {size} {unit}s"


def record_only(value: object) -> Unit:
    """The unit of a sampler or mechanism, which has no users. Raises InvalidInput."""
    unit = checked_unit(value)
    must_be(unit == "record", "unit", '"record", the only unit of samplers and mechanisms', unit)
    return unit


# As fields of descriptions declare them.
ADJACENCY = by(lambda _, value: checked_adjacency(value))
UNIT = by(lambda _, value: checked_unit(value))
IF_ANY = by(optional(POSITIVE))  # a number, or None
RECORDS = by(lambda _, value: record_only(value))


# The sentences about a run that several descriptions share.
#
# A guarantee's assumptions are such sentences. A description's own stand beside it.


ADJACENT: dict[tuple[Adjacency, Unit], str] = {
    ("replace_one", "record"): "adjacent data sets differ in one record, replaced by any other "
    "(replace_one)",
    (
        "zero_out",
        "record",
    ): "adjacent data sets differ in one record, whose contribution becomes zero while "
    "n and all divisors stay (zero_out)",
    (
        "replace_one",
        "user",
    ): "adjacent data sets differ in the records of one user, replaced by any others "
    "or by none (replace_one)",
    (
        "zero_out",
        "user",
    ): "adjacent data sets differ in one user, whose contribution becomes zero while "
    "n and all divisors stay (zero_out)",
}
USERS = (
    "n and batches count enrolled users in place of records, and their number does not depend on the data; a "
    "user contributes the mean of what their records contribute, and zero without records"
)
HIDDEN = "only the last iterate is released; every earlier iterate stays hidden"
SHOWN = "every iterate may be released"


def those_that_hold(*sentences: object) -> tuple[str, ...]:
    """The sentences among these: one that does not hold stands as False or None."""
    return tuple(sentence for sentence in sentences if isinstance(sentence, str))


def adjacent(adjacency: Adjacency, unit: Unit) -> list[str]:
    """What adjacent data sets differ in, and what a user is where they differ in one."""
    return [ADJACENT[adjacency, unit], *((USERS,) if unit == "user" else ())]


def group_sentences(size: int, unit: str, adjacency: Adjacency) -> tuple[str, ...]:
    """What a guarantee of groups of `size` units assumes beside what one unit's does."""
    changed = {
        "replace_one": "replaced by any others",
        "zero_out": "whose contributions become zero; that of one may become so where others' are",
    }
    return (
        f"protected are groups: of two data sets that differ in up to {size} {unit}s, {changed[adjacency]}",
    )


def about_gap(gradient_gap: float | None, loss: Loss) -> str:
    """How far one record moves the gradient: the stated gap of mean losses, or the loss's own bound."""
    if gradient_gap is not None:
        return (
            "the gradients of two adjacent data sets' mean losses differ by at most "
            f"{gradient_gap!r} (gradient_gap)"
        )
    return f"each record's gradient has norm at most {loss.gradient_bound!r}"


def about_mean_loss(loss: Loss) -> list[str]:
    """What is known about one record's loss, and the regulariser of their mean."""
    if not loss.l2:
        return list(loss.sentences)
    return [*loss.sentences, f"the mean loss includes the regulariser {loss.l2!r}·‖x‖²/2"]


# The sentences about a private selection: what its guarantee rests on beside what one trial rests on.


def selection_sentences(shape: float, gamma: float, settings: int, scored: bool) -> tuple[str, ...]:
    """What the release of the best of a random number of trials rests on.

    `settings`: how many a trial draws from. `scored`: whether private records score.
    """
    return those_that_hold(
        "the number of trials is drawn in secret from the truncated negative binomial law of shape "
        f"{shape!r} and γ = {gamma!r}, independent of the data",
        "the trials are independent runs of one mechanism, and which of two is better does not depend on the "
        "data beyond what they release",
        "only the best trial is released; the number of trials, their times and all others stay hidden",
        settings > 1
        and f"every trial draws one of {settings} settings, all equally likely, whatever the other trials "
        "gave",
        scored
        and "which records train and which records score does not depend on the data, and no record does "
        "both",
    )

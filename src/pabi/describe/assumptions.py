"""The sentences about a run that several descriptions share.

A guarantee's assumptions are such sentences. A description's own stand beside it.
"""

from __future__ import annotations

from pabi.describe.losses import Loss
from pabi.describe.neighbours import Adjacency, Unit

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

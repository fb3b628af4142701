"""The sentences about a run that several descriptions share.

A guarantee's assumptions are such sentences. A description's own stand beside it.
"""

from __future__ import annotations

from pabi.describe.losses import Loss
from pabi.describe.neighbours import Adjacency

ADJACENT: dict[Adjacency, str] = {
    "replace_one": "adjacent data sets differ in one record, replaced by any other (replace_one)",
    "zero_out": "adjacent data sets differ in one record, whose contribution becomes zero while "
    "n and all divisors stay (zero_out)",
}
HIDDEN = "only the last iterate is released; every earlier iterate stays hidden"
SHOWN = "every iterate may be released"


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

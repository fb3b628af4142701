"""The picture of an audit: what is promised, what the worst instance costs, and what trainings refute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pabi.draw.axes import axes_for, legend_within
from pabi.draw.lines import below_errors
from pabi.draw.themes import palette
from pabi.numbers.rounding import Array

if TYPE_CHECKING:
    from pabi.audits.audit import Audit
    from pabi.audits.laws import LawPair


def plot_audit(audit: Audit, ax: Any = None) -> Any:
    """Draw the trade-off curves of the guarantee and of the instance, and the points of the trainings.

    Parameters
    ----------
    audit : Audit
        What to draw.
    ax : matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib axes
        Those that were drawn on.

    Raises
    ------
    Nothing.
    """
    ax = axes_for(ax, 1, 1, figsize=(5.6, 5.2))
    colours = palette()
    fpr = np.concatenate(([0.0], np.logspace(-6, -2, 60), np.linspace(0.011, 1.0, 280)))
    promised = below_errors(fpr, np.asarray(audit.guarantee.curve(fpr)))
    ax.plot(*promised, color=colours.ours, linewidth=2, label="guarantee")
    if audit.law is not None:
        ax.plot(*exact_curve(audit.law), "--", color=colours.other, label="exact instance")
    label = f"{audit.trainings} trainings"
    ax.plot(*audit.curve.T, "o", color=colours.other, markersize=5, label=label)
    ax.plot([0, 1], [1, 0], ":", color=colours.neutral, label="perfect privacy")
    ax.set(
        xlabel="attacker's false-positive rate",
        ylabel="false-negative rate",
        title="What an attacker got",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    ax.set_aspect("equal")
    legend_within(ax, loc="upper right")
    return ax


def exact_curve(law: LawPair) -> tuple[Array, Array]:
    """(false-positive rates, false-negative rates) of the likelihood-ratio tests of an instance, hundreds.

    Tests that are not drawn are between two that are, on or below their chord.
    """
    _, fpr, fnr = law.rates
    some = np.searchsorted(fpr, np.linspace(0.0, fpr[-1], 400))
    some = np.unique(np.append(some, np.searchsorted(-fnr, -np.linspace(0.0, fnr[0], 400))))
    some = some[some < len(fpr)]
    return np.append(0.0, fpr[some]), np.append(1.0, fnr[some])

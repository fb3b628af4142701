"""What every description can be asked: its guarantee, and every analysis of it.

The answers are found above, in `pabi.account`. They are methods here because that is where people look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pabi.numbers import validate
from pabi.numbers.errors import PrivacyWarning
from pabi.numbers.showing import plain
from pabi.numbers.warning import outside, warn_once

if TYPE_CHECKING:
    from pabi.account.explanation import Explanation
    from pabi.guarantees.guarantee import Guarantee

USUAL_DELTA = 1e-5  # at which a guarantee is read that was chosen at none


class Accounted:
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
        from pabi.account.explanation import explain

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
            outside(),
        )

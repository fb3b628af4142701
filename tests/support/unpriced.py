"""What stands in for a guarantee while many runs are executed that nobody asks the price of."""

from __future__ import annotations

from typing import Any

from pabi.describe.accounted import SHOWN


class Unpriced:
    """Promises nothing, and takes whatever is said of it."""

    method, besides, assumptions = "composition", (), (SHOWN,)

    def assuming(self, *sentences: str) -> Unpriced:
        return self

    def for_testing(self) -> Unpriced:
        return self

    def noting(self, notes: Any) -> Unpriced:
        return self

"""What stands in for a guarantee while many runs are executed that nobody asks the price of."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pabi import NoisySGD
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


@pytest.fixture
def unpriced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No accounting and no waiting for the disk."""
    monkeypatch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
    monkeypatch.setattr(os, "fsync", lambda handle: None)

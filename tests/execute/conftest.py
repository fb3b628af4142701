"""Runs that are about their iterates, not about their price."""

import pytest

from support.execution import OrdinaryNoise, unpriced  # noqa: F401


@pytest.fixture
def unrounded(monkeypatch):
    """Noise in doubles, on no grid."""
    monkeypatch.setattr("pabi.execute.engine.StepNoise", OrdinaryNoise)


@pytest.fixture
def free(unpriced, unrounded):  # noqa: F811
    """Neither a price nor a grid."""

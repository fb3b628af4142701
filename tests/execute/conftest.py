"""Runs that are about their iterates, not about their price."""

import os

import pytest

from pabi import NoisySGD
from support.execution import OrdinaryNoise
from support.unpriced import Unpriced


@pytest.fixture
def unpriced(monkeypatch):
    """No accounting and no waiting for the disk."""
    monkeypatch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def unrounded(monkeypatch):
    """Noise in doubles, on no grid."""
    monkeypatch.setattr("pabi.execute.engine.StepNoise", OrdinaryNoise)


@pytest.fixture
def free(unpriced, unrounded):
    """Neither a price nor a grid."""

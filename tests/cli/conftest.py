import pytest

from support.computed_once import calibrated_once


@pytest.fixture(autouse=True)
def _calibrated_once(monkeypatch):
    """Most trainings of these tests are of the same few shapes of data and settings."""
    calibrated_once(monkeypatch)

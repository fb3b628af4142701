import pytest

from pabi.learn import StateFile
from support.computed_once import calibrated_once


@pytest.fixture(autouse=True)
def _calibrated_once(monkeypatch):
    """Most fits of these tests are of the same few shapes of data and settings."""
    calibrated_once(monkeypatch)


@pytest.fixture
def file(tmp_path):
    """Where a state is kept."""
    return StateFile(tmp_path / "state", StateFile.new_key())

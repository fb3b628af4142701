import pytest

from pabi.learn import StateFile
from support.computed_once import calibrated_once  # noqa: F401


@pytest.fixture
def file(tmp_path):
    """Where a state is kept."""
    return StateFile(tmp_path / "state", StateFile.new_key())

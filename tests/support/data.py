"""Public data sets that some tests use; they are not part of the repository."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3] / "shared" / "data"  # a folder beside the checkout


def data_file(name: str) -> Path:
    """The file of this name in the folder `$PABI_DATA`, or else in one beside the checkout; the test is
    skipped, with a reason, without it."""
    file = Path(os.environ.get("PABI_DATA", BESIDE)) / name
    if not file.exists():
        pytest.skip(f"{name} is missing: set PABI_DATA to its folder")
    return file

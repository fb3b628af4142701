"""Public data sets that some tests use; they are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def data_file(name: str) -> Path:
    """The file of this name in the folder `$PABI_DATA`; the test is skipped, with a reason, without it."""
    folder = os.environ.get("PABI_DATA")
    if folder is None or not (file := Path(folder) / name).exists():
        pytest.skip(f"{name} is missing: set PABI_DATA to its folder")
    return file

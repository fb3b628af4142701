"""Frameworks that pabi works with and does not need: without one its tests are skipped, but on CI."""

import os
import sys
from importlib import import_module
from typing import Any

import pytest

# CI installs them for this Python, see the Makefile.
_INSTALLED = "CI" in os.environ and sys.version_info[:2] == (3, 11)


def framework(module: str) -> Any:
    """The module; skips the tests of the module that asks, and fails instead where it has to be there."""
    if _INSTALLED:
        return import_module(module)
    group = "pip install --group frameworks"
    return pytest.importorskip(module, reason=f"needs {module}: {group}")

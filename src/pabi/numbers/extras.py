"""Packages that not everybody needs, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from pabi.numbers.errors import InvalidInput

Extra = Literal[
    "train",
    "zarr",
    "forget",
    "sampling",
    "torch",
    "opacus",
    "jax",
    "dp-accounting",
    "dask",
    "explore",
]


def extra(module: str, group: Extra) -> Any:
    """The module of this name, of a package that the optional dependencies `group` install.

    Raises InvalidInput that says how to install it where it is missing, and why it cannot be loaded where it
    is there, for instance since it needs a later numpy.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise _missing(module, group) from None
    except ImportError as bad:
        reason = " ".join(str(bad).split())
        raise InvalidInput(
            _package(module), f"is installed and cannot be loaded: {reason}"
        ) from None


def expect(module: str, group: Extra) -> None:
    """Raises what `extra` raises where the module is missing, and loads nothing: for what is used later."""
    if find_spec(module) is None:
        raise _missing(module, group)


def _missing(module: str, group: Extra) -> InvalidInput:
    return InvalidInput(
        _package(module), f"is not installed; in a checkout of pabi: pip install '.[{group}]'"
    )


def _package(module: str) -> str:
    return module.partition(".")[0].replace("_", "-")

"""Packages that not everybody needs, loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
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
    package = module.partition(".")[0].replace("_", "-")
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InvalidInput(
            package, f"is not installed; in a checkout of pabi: pip install '.[{group}]'"
        ) from None
    except ImportError as bad:
        reason = " ".join(str(bad).split())
        raise InvalidInput(package, f"is installed and cannot be loaded: {reason}") from None

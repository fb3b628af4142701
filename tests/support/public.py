"""Every public name of the package, and what it stands for."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pabi

# What is public although no list of a package's names holds it.
FURTHER = [
    "pabi.describe.files.from_dict",
    "pabi.describe.files.to_dict",
    "pabi.account.changes.Explanation",
    "pabi.mixing.total_variation_bound",
    "pabi.mixing.plot",
]


# Modules of other libraries' objects, which the package itself does not list.
INTEGRATIONS = ["pabi.integrations.torch"]


# Methods by which the parts of the package talk to one another.
INNER = {
    "losses",
    "additions",
    "clipped_sum",
    "add_weighted",
    "as_seen",
    "blocks",
    "dense",
    "dense_of",
    "predictor",
    "stored",
    "as_numbers",
    "derived",
    "column",
    "features",
    "width",
    "cells",
    "introduce",
    "beside",
    "made_by",
    "with_rows",
    "columns",
    "shape",
    "chosen",
    "read_by",
    "without",
}


def public() -> Iterator[str]:
    """Every public name: of the package, of its public modules, and of their classes' own members."""
    modules = ["pabi", *(f"pabi.{n}" for n in pabi.__all__ if inspect.ismodule(getattr(pabi, n)))]
    for module in [*modules, *INTEGRATIONS]:
        for name in getattr(importlib.import_module(module), "__all__", ()):
            full = f"{module}.{name}"
            yield full
            thing = getattr(importlib.import_module(module), name)
            if module == "pabi.literature" and inspect.ismodule(thing):
                yield from (
                    f"{full}.{theorem}"
                    for theorem, bound in vars(thing).items()
                    if hasattr(bound, "status")
                )
            if inspect.isclass(thing):
                yield from (f"{full}.{m}" for m in members(thing) if m not in INNER)
    yield from FURTHER


def members(cls: type) -> Iterator[str]:
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not owner.__module__.startswith("pabi"):
            continue
        member = vars(owner)[name]
        if inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod):
            yield name


def looked_up(name: str) -> Any:
    """What a name stands for, by whatever path; None where it cannot be looked up."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:k]))
        except (ImportError, pabi.InvalidInput):  # the latter where a framework is missing
            continue
        for part in parts[k:]:
            static = inspect.getattr_static(thing, part, None)
            thing = getattr(thing, part, None) if static is None else static
        return thing
    return None


def described(name: str) -> set[int]:
    """The identities of what a name stands for: a member may be documented in a base of its class."""
    owner, _, member = name.rpartition(".")
    bases = getattr(looked_up(owner), "__mro__", ())
    members = [vars(base)[member] for base in bases if member in vars(base)]
    return {id(thing) for thing in (looked_up(name), *members) if thing is not None}

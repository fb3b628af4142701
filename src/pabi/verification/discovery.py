"""One table made of what the files of a folder declare.

So a new theorem, or a new kind of factor, is one new file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any


def declared(package: str, folder: Iterable[str], name: str) -> Iterator[Any]:
    """What every file of a package's own folder calls `name`, by the order of the files' names."""
    for file in sorted(module.name for module in pkgutil.iter_modules(folder)):
        yield getattr(importlib.import_module(f"{package}.{file}"), name)

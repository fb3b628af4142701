"""Public features of images and tables: maps in which no data have a say, so they need no privacy budget.

What loads scikit-learn is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pabi.learn.random_features import RandomFeatures
    from pabi.learn.scattering import Scattering

__all__ = ["RandomFeatures", "Scattering"]

_LAZY = {
    "RandomFeatures": "pabi.learn.random_features",
    "Scattering": "pabi.learn.scattering",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pabi.features' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

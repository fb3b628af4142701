"""Which steps of a pipeline are private: what they learn has a guarantee of its own."""

from __future__ import annotations

from typing import Any

from pabi.learn.rows import BoundedRows


class PrivateStep:
    """A step whose `fit` releases what it learns with a guarantee, and learns nothing else."""


def is_private(step: Any) -> bool:
    """Whether it is one of pabi's private estimators or transformers, or a subclass of one."""
    return isinstance(step, (BoundedRows, PrivateStep))

"""Which steps of a pipeline are private: what they learn has a guarantee of its own."""

from __future__ import annotations

from typing import Any

from pabi.learn.rows import BoundedRows


class AllOrNothing:
    """Within it an estimator is fitted; where that fails, however, it is left as it was before.

    So nothing that one fit released stands under the guarantee of another. What was charged stays charged.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator, self._before = estimator, dict(vars(estimator))

    def __enter__(self) -> None:
        """Nothing: the estimator is changed in its place."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._estimator.__dict__ = self._before


class PrivateStep:
    """A step whose `fit` releases what it learns with a guarantee, and learns nothing else."""


def is_private(step: Any) -> bool:
    """Whether it is one of pabi's private estimators or transformers, or a subclass of one."""
    return isinstance(step, (BoundedRows, PrivateStep))

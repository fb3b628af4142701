"""Which steps of a pipeline are private: what they learn has a guarantee of its own, that of one fit.

Fits are counted where they happen, of an estimator and its clones together.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from pabi.learn.sentences import AGAIN
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from pabi.numbers.fields import flag
from pabi.numbers.warning import warn_once

# Of every private estimator and its clones one list, with an entry for every fit.
_FITS: weakref.WeakKeyDictionary[Any, list[None]] = weakref.WeakKeyDictionary()
_LAST = [0]  # the number of the last fit that this process knows of; `_turn` is an estimator's
_HIDDEN: ContextVar[bool] = ContextVar("_HIDDEN", default=False)


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
    """A step whose `fit` releases what it learns with a guarantee, and learns nothing else.

    Its clones count fits together. What travels to another process counts there alone; what comes from
    one, or from a file, was fitted before whatever is fitted here from then on.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        _LAST[0] = max(_LAST[0], turn_of(self))

    def __sklearn_clone__(self) -> Self:
        copied: Self = super().__sklearn_clone__()  # type: ignore[misc]
        _FITS[copied] = _fits_of(self)
        return copied


def is_private(step: Any) -> bool:
    """Whether it is one of pabi's private estimators or transformers, or of a subclass of one."""
    return isinstance(step, PrivateStep)


def fitted_before(step: Any, *, strict: Any, stacklevel: int) -> tuple[str, ...]:
    """What the guarantee of a fit does not cover, as sentences: fits of the same estimator before it.

    Warns of them, once in a process, on behalf of a caller so many frames up, unless a ledger counts them.
    Raises InvalidInput where `strict`.
    """
    strict, kind = flag("strict", strict), type(step).__name__
    if not _fits_of(step):
        return ()
    if strict:
        raise InvalidInput(
            "strict", f"expected one fit: this {kind}, or a clone of it, was fitted before"
        )
    if step.ledger is None:
        warn_once(
            f"{kind}, or a clone of it, was fitted before: guarantee_ is that of one fit; compose all of "
            "them (pabi.compose), give a ledger, search on public data, or use PrivateSearchCV",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )
    return (AGAIN,)


def count_fit(step: Any) -> None:
    """Counts a fit, for the estimator and its clones."""
    _fits_of(step).append(None)
    take_turn(step)


def take_turn(step: Any) -> None:
    """Numbers a fit after all that this process knows of; within `turns_hidden` it adds no number."""
    _LAST[0] += not _HIDDEN.get()
    step._turn = _LAST[0]


@contextmanager
def turns_hidden() -> Iterator[None]:
    """Within it all fits have one number, so that nobody sees later how many there were."""
    token = _HIDDEN.set(True)
    try:
        yield
    finally:
        _HIDDEN.reset(token)


def turn_of(step: Any) -> int:
    """The number of its fit among those of all private estimators; 0 where it has none."""
    turn = vars(step).get("_turn", 0)
    return turn if isinstance(turn, int) else 0


def count_anew(step: Any) -> None:
    """Counts its fits from now on, with those of clones that are made from now on."""
    _FITS[step] = []


def _fits_of(step: Any) -> list[None]:
    return _FITS.setdefault(step, [])

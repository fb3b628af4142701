"""Whether what holds a private estimator fits it more than once: it is tried with one that only counts."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from pabi.learn.private_steps import is_private
from pabi.learn.synthetic import Shape, cases
from pabi.learn.trials import trial

_WIDTH = 4
_SEEN: weakref.WeakKeyDictionary[Any, bool | None] = weakref.WeakKeyDictionary()


class _Twice(BaseException):
    """A second fit; no `except Exception` of a search stops it."""


def holds_private(step: Any) -> bool:
    """Whether a setting of the step is, or has within it, an estimator with a guarantee."""
    return any(is_private(value) for value in step.get_params(deep=True).values())


def fits_more_than_once(holder: Any) -> bool | None:
    """Whether a fit of `holder` fits a private estimator within it twice or more; None where that is unclear.

    Of a holder that was asked about before, the answer is as then.
    """
    try:
        if holder in _SEEN:
            return _SEEN[holder]
        _SEEN[holder] = _tried(holder)
        return _SEEN[holder]
    except TypeError:  # it has no hash
        return _tried(holder)


def _tried(holder: Any) -> bool | None:
    with trial():
        for case in cases(holder.get_params(deep=False), Shape(_WIDTH)):
            for labels, _ in case.labels:
                try:
                    _counting(holder).fit(case.tables[0], labels)
                except _Twice:
                    return True
                except Exception:  # of whatever kind: this is not what it expects
                    continue
                return False
    return None


def _counting(holder: Any) -> Any:
    """A copy in which private estimators count, and other steps pass on what they get."""
    blank = clone(holder)
    fits: list[None] = []
    for value in list(_estimators(blank)):
        kind = type(value)
        if is_private(value):
            value.__class__ = type(kind.__name__, (_Counter, kind), {"_fits": fits})
        elif hasattr(value, "transform") and not holds_private(value):
            value.__class__ = type(kind.__name__, (_Passing, kind), {})
    spending = ("n_jobs", "ledger")  # nothing is to be spent on a trial
    return blank.set_params(**{n: None for n in blank.get_params() if n.endswith(spending)})


def _estimators(holder: Any) -> Iterator[Any]:
    """Those among its settings, once each."""
    values = {id(value): value for value in holder.get_params(deep=True).values()}
    return (v for v in values.values() if hasattr(v, "fit") and not isinstance(v, type))


class _Counter:
    """In front of a private estimator: fits are counted, and nothing is learnt."""

    _fits: list[None]

    def fit(self, X: Any, y: Any = None) -> Any:
        self._fits.append(None)
        if len(self._fits) > 1:
            raise _Twice
        self.n_features_in_ = len(X[0]) if isinstance(X, list) else np.shape(X)[1]
        self.classes_ = np.unique(y) if y is not None else np.arange(2)
        self.coef_ = np.ones((len(self.classes_), self.n_features_in_))
        self.intercept_ = np.zeros(len(self.classes_))
        return self

    def transform(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return np.resize(self.classes_, np.shape(X)[0])

    def predict_proba(self, X: Any) -> Any:
        return np.full((np.shape(X)[0], len(self.classes_)), 1.0 / len(self.classes_))

    def decision_function(self, X: Any) -> Any:
        scores = np.outer(np.ones(np.shape(X)[0]), np.arange(len(self.classes_)))
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        return 0.0


class _Passing:
    """In front of a transformer: it learns nothing and changes nothing."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X

    def transform(self, X: Any) -> Any:
        return X

    def inverse_transform(self, X: Any) -> Any:
        return X

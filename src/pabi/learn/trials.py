"""Whether a step of a pipeline learns from data: it is tried, on tables that are made up.

A copy is fitted to two tables. What it then holds, and what it makes of rows that both tables have, may not
depend on the other rows. What is seen is what a step does, and neither its name nor its code.
"""

from __future__ import annotations

import copy
import inspect
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone

from pabi.learn.held import differing, held, same
from pabi.learn.synthetic import SHARED, Shape, TablePair, cases, label_cases, odd_cases

LEAK, UNKNOWN, LABEL_SET, HONEST = "leak", "unknown", "label set", "honest"
OTHER_ROWS = "the other rows that it transforms"
HIDDEN = "something that no attribute shows"
_TOLERANCE = 1e-4  # of single precision, whose sums depend on how many rows are mapped at once
_ONE_AT_A_TIME = (
    threading.RLock()
)  # numpy's generator and the filters of warnings are the process's
_HERE = threading.local()


@dataclass(frozen=True)
class Trial:
    """What came out: `verdict`, the names of what the step learns, and of all that copies of it held."""

    verdict: str
    learns: tuple[str, ...] = ()
    holds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Fit:
    """One fit: all that the step then holds, and what it makes of the shared rows.

    `within`: while it is fitted. `apart`: those rows alone, afterwards. `first`: the first of them alone.
    """

    held: dict[str, Any]
    within: Any
    apart: Any
    first: Any


# (class, shape, settings, outcome) of the last steps that learnt nothing: searches ask of them many times.
_HONEST: deque[tuple[type, Shape, dict[str, Any], Trial]] = deque(maxlen=32)


def trying() -> bool:
    """Whether this thread is in a trial, where nothing is anybody's data."""
    return getattr(_HERE, "trying", False)


@contextmanager
def trial() -> Iterator[None]:
    """A context without warnings, which leaves numpy's own generator as it was."""
    with _ONE_AT_A_TIME, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        before, state = trying(), np.random.get_state()  # noqa: NPY002
        _HERE.trying = True
        try:
            yield
        finally:
            _HERE.trying = before
            np.random.set_state(state)  # noqa: NPY002


def tried(step: Any, shape: Shape) -> Trial:
    """What is seen of a step when copies of it are fitted to made-up tables of this shape."""
    settings = step.get_params(deep=True)
    for kind, shaped, before, outcome in tuple(_HONEST):
        if type(step) is kind and shape == shaped and same(settings, before):
            return outcome
    with trial():
        outcome = _tried(step, shape)
    if outcome.verdict == HONEST:
        _HONEST.append((type(step), shape, settings, outcome))
    return outcome


def _tried(step: Any, shape: Shape) -> Trial:
    if _takes_labels_alone(step):
        return _tried_on_labels(step)
    outcome = _tried_on_tables(step, shape)
    if outcome.verdict != LEAK and (learns := _written_settings(step, shape)):
        return Trial(LEAK, learns)
    return outcome


def repeated(step: Any, shape: Shape) -> list[dict[str, Any]]:
    """What copies hold after fits to made-up tables, one of each kind that the step takes."""
    after: list[dict[str, Any]] = []
    with trial():
        for case in cases(step.get_params(deep=True), shape):
            for labels in case.labels:
                try:
                    after.append(_fit(step, case, 0, labels).held)
                except Exception:  # of whatever kind: this is not what the step expects
                    continue
                break
    return after


def fresh(step: Any) -> Any:
    """A copy that is not fitted, draws what it draws from a fixed seed, and works in this process alone."""
    try:
        blank = clone(step)
    except Exception:  # of whatever kind: the constructor is not of scikit-learn's manner
        blank = copy.deepcopy(step)
    changes = {"random_state": 0, "n_jobs": None, "verbose": False}
    settings = {name: changes.get(name.rpartition("__")[2], ...) for name in blank.get_params()}
    return blank.set_params(**{name: v for name, v in settings.items() if v is not ...})


def _tried_on_tables(step: Any, shape: Shape) -> Trial:
    """The verdict over all kinds of tables that the step takes; of other sizes only where it takes none."""
    settings = step.get_params(deep=True)
    verdicts: set[str] = set()
    holds: frozenset[str] = frozenset()
    for tables in chain((cases(settings, shape),), odd_cases(settings, shape)):
        for case in tables:
            if case.kind == "extremes" and not verdicts:
                continue  # what takes no other numbers may take very long over these
            outcome = _tried_on(step, case)
            if outcome is not None and outcome.verdict == LEAK:
                return outcome
            if outcome is not None:
                verdicts.add(outcome.verdict)
                holds |= outcome.holds
        if verdicts:
            break
    return Trial(HONEST if verdicts == {HONEST} else UNKNOWN, holds=holds)


def _tried_on(step: Any, case: TablePair) -> Trial | None:
    """What is seen on tables of one kind, None where the step does not take them."""
    for labels in case.labels:
        try:
            one, other = (_fit(step, case, which, labels) for which in (0, 1))
            outcome = _compared(one, one, other)
            if outcome.verdict != HONEST:  # it may be chance
                outcome = _compared(one, _fit(step, case, 0, labels), other)
        except Exception:  # of whatever kind: this is not what the step expects
            continue
        return outcome
    return None


def _fit(step: Any, case: TablePair, which: int, labels: tuple[Any, Any]) -> _Fit:
    np.random.seed(0)  # noqa: NPY002  # steps without a state of their own draw from it
    copied, table = fresh(step), copy.deepcopy(case.tables[which])
    arguments = (table,) if labels[which] is None else (table, labels[which])
    if hasattr(copied, "fit_transform"):
        within = _row_by_row(copied.fit_transform(*arguments), case.count)[SHARED]
    else:
        copied.fit(*arguments)
        within = None
    holds = held(copied)
    count = SHARED.stop - SHARED.start
    return _Fit(holds, within, _output(copied, case.rows, count), _output(copied, case.first, None))


def _compared(one: _Fit, again: _Fit, other: _Fit) -> Trial:
    random = differing(one.held, again.held)
    if learns := differing(one.held, other.held) - random:
        return Trial(LEAK, tuple(sorted(learns)))
    drawn = [name for name in random if not isinstance(one.held.get(name), int)]  # no address
    if drawn or not (_close(one.within, again.within) and _close(one.apart, again.apart)):
        return Trial(UNKNOWN)  # it draws: nothing can be compared
    if not (_close(one.within, other.within) and _close(one.apart, other.apart)):
        return Trial(LEAK, (HIDDEN,))
    alone = None if one.apart is None else one.apart[:1]
    moved = one.within is not None and not _close(one.within, one.apart)
    if moved or not _close(alone, one.first):
        return Trial(LEAK, (OTHER_ROWS,))
    return Trial(HONEST, holds=frozenset(one.held.keys() | other.held.keys()))


def _written_settings(step: Any, shape: Shape) -> tuple[str, ...]:
    """The settings into which a step that was made without any writes what it learns.

    A fitted step would not learn them again. scikit-learn's own never do.
    """
    if type(step).__module__.partition(".")[0] == "sklearn":
        return ()
    try:
        blank = type(step)()
    except Exception:  # of whatever kind: it cannot be made without arguments
        return ()
    learns = set(_tried_on_tables(blank, shape).learns)
    return tuple(sorted(learns & step.get_params(deep=False).keys()))


# Labels.


def _takes_labels_alone(step: Any) -> bool:
    """Whether the one thing that it is fitted to is y."""
    try:
        parameters = list(inspect.signature(step.fit).parameters)
    except (TypeError, ValueError):
        return False
    return parameters == ["y"]


def _tried_on_labels(step: Any) -> Trial:
    """Whether it learns the set of labels, or more of them."""
    verdict, learns = HONEST, set()
    pair: list[dict[str, Any]] = [{}]
    for labels_are, one, other in label_cases():
        try:
            pair = [held(fresh(step).fit(y)) for y in (one, other)]
        except Exception:  # of whatever kind
            return Trial(UNKNOWN)
        learns = differing(*pair)
        if learns:
            verdict = LEAK if labels_are == "same" else LABEL_SET
            break
    return Trial(verdict, tuple(sorted(learns)), frozenset(pair[0]))


# What a step makes of rows.


def _output(fitted: Any, rows: Any, count: int | None) -> Any:
    """What it makes of rows: features, or else predictions; None where it makes nothing of new rows."""
    for method in ("transform", "predict"):
        if hasattr(fitted, method):
            output = getattr(fitted, method)(copy.deepcopy(rows))
            return _values(output) if count is None else _row_by_row(output, count)
    return None


def _row_by_row(output: Any, count: int) -> Any:
    """The values, of so many rows. Raises ValueError of others: the step took the table for another."""
    values = _values(output)
    if values.shape[:1] != (count,):
        raise ValueError(count)
    return values


def _values(output: Any) -> Any:
    """An array, of a frame the names of columns with it: they may be learnt."""
    if isinstance(output, tuple):  # of rows and targets
        output = output[0]
    if issparse(output):
        return output.tocsr()
    if hasattr(output, "columns"):
        names = np.array([str(name) for name in output.columns], dtype=object)
        cells = np.asarray(output).astype(object)
        return np.stack([np.broadcast_to(names, cells.shape), cells], axis=-1)
    return np.asarray(output)


def _close(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    if issparse(one) or issparse(other):
        one, other = csr_matrix(one), csr_matrix(other)
        return bool(abs(one - other).max() <= _TOLERANCE * abs(one).max())
    if one.dtype.kind in "biufc" and other.dtype.kind in "biufc":
        size = float(np.nanmax(np.abs(one), initial=0.0))
        return np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * size, equal_nan=True)
    return all(_close_cells(a, b) for a, b in zip(one.ravel(), other.ravel(), strict=True))


def _close_cells(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=_TOLERANCE, equal_nan=True))
    return same(one, other)

"""Rows within public bounds, in memory or read in passes, whose they are, and which steps are private."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from pabi.describe.runs import COUNT
from pabi.execute.cells import cells_of, table_of, typed
from pabi.execute.large_records import records_of
from pabi.execute.large_tables import LargeTable, in_memory, large_table
from pabi.execute.records import LARGEST, Records, seen_norm
from pabi.execute.sources import Parts
from pabi.execute.sums import UserRows, are_listed, checked_groups
from pabi.execute.tables import checked, tagged
from pabi.learn.plans import AGAIN, ENROLLED
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning, must_be, require, warn_once
from pabi.numbers.rounding import HALF_ULP, Array

# Whose a row is: the users that `fit` is told of, and how many are enrolled.


class Given(NamedTuple):
    """What `fit` got beside X and y: the ids of the rows' users, weights, and the file to keep its state in;
    None for none of them. `assumed`: what the guarantee assumes of how these are read."""

    groups: Any = None
    weights: Any = None
    state: Any = None
    assumed: tuple[str, ...] = ()


class CheckedRows(NamedTuple):
    """Rows that were checked. `X`: an array, CSR or a large table. `weights`: in [0, 1], None for all ones.
    `groups`: None where rows are records."""

    X: Any
    records: Records
    targets: Parts
    weights: Parts | None = None
    groups: UserRows | None = None


def users_of_rows(ids: Any, users: Any, rows: int) -> tuple[UserRows | None, tuple[str, ...]]:
    """(the rows of every user, what the guarantee assumes of them); None where rows are records.

    `users`: how many are enrolled, their ids, or None for those who have rows.
    """
    declared = users if users is None or are_listed(users) else COUNT("users", users)
    if ids is None:
        require(declared is None, "groups", "missing: users are declared, so expected a user a row")
        return None, ()
    groups = checked_groups(UserRows.of(ids, declared), None, rows)
    return groups, (ENROLLED,) if declared is None else ()


# Words that end, or are, the name of a column that says whose a row is.
_IDS = frozenset(
    {"id", "ids", "uid", "uuid", "guid", "ssn", "mrn", "email", "mail", "iban", "passport"}
)
_PEOPLE = frozenset(
    {
        "client",
        "customer",
        "household",
        "individual",
        "participant",
        "patient",
        "person",
        "respondent",
    }
    | {"subject", "user"}
)
# These are as often what is said of a person.
_ROLES = frozenset(
    {
        "account",
        "applicant",
        "borrower",
        "citizen",
        "device",
        "donor",
        "driver",
        "employee",
        "member",
    }
    | {
        "passenger",
        "player",
        "pupil",
        "student",
        "subscriber",
        "tenant",
        "visitor",
        "voter",
        "worker",
    }
)
_KEYS = frozenset({"address", "code", "hash", "key", "name", "no", "nr", "num", "number"})


def id_columns(names: Iterable[Any]) -> tuple[str, ...]:
    """The names of columns that look as if they said whose a row is.

    Where there is one, a person may have several rows. A guarantee for rows then says little of people: give
    their ids to `fit` as `groups`.

    Parameters
    ----------
    names : iterable of str
        The names of a table's columns; whatever is no string is passed over.

    Returns
    -------
    tuple of str
        Those such as "id", "patient", "customer_id", "userId", "user name" or "email", each once, in order.
        The names decide alone, never the data.

    Raises
    ------
    TypeError
        `names` cannot be iterated.

    References
    ----------
    docs, "Prepare data privately".
    """
    return tuple(dict.fromkeys(str(n) for n in names if isinstance(n, str) and _is_id(n)))


def _is_id(name: str) -> bool:
    """Whether a column is called as ids are: by its last word, or by a person and the key of one."""
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    joined = "".join(words)
    if not words:
        return False
    if words[-1] in _IDS or words[0] == "id" or joined in _PEOPLE | {"socialsecuritynumber"}:
        return True
    whose = {word.removesuffix("s") for word in words[:-1]} & (_PEOPLE | _ROLES | _IDS)
    together = joined.endswith("id") and joined.removesuffix("id") in _PEOPLE | _ROLES
    return bool(whose and words[-1] in _KEYS) or together


# Estimators and transformers on tables, in memory or read in passes: what they read, each row by itself.


class ReadsTables:
    """A step that reads a table as its `_rules` say."""

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    feature_ranges: Any

    def _rules(self) -> Mapping[str, Any]:
        """Arguments of `checked`: what cells are, and which are refused."""
        return {}

    def _read(self, X: Any, *beside: Any, reset: bool = False) -> Parts:
        """The rows, checked: those of an array now, those of a large table whenever they are read.

        `reset`: the step is to be fitted to them; of what stands `beside`, names are those of columns.
        """
        if (table := large_table(X)) is not None:
            return table.read_by(self, *beside, reset=reset)
        return Parts.of(checked(self, X, reset=reset, **self._rules()))

    def _predicted(self, X: Any, change: Callable[[Any], NDArray[Any]]) -> Any:
        """What becomes of all rows, each by itself; a large table is read once."""
        check_is_fitted(self)
        return self._read(X).cut().together(change)

    def _images(self, X: Any) -> Any:
        """The images of the rows, each by itself; of a large table another, made anew in every pass."""
        check_is_fitted(self)
        if (table := large_table(X)) is not None:
            # Where this one is fitted again, rows stay what they are.
            return table.made_by(self, copy(self)._image)
        return self._image(self._read(X).array)

    def _image(self, cells: Any) -> Any:
        """What becomes of some rows."""
        raise NotImplementedError

    def _ranges(self) -> Any:
        """The declared ranges, in the order of the columns."""
        names = getattr(self, "feature_names_in_", None)
        return validate.by_column(self.feature_ranges, names, self.n_features_in_)


def scored(score: Callable[..., Any], X: Any, *, y: Any, sample_weight: Any) -> float:
    """`score(X, y, sample_weight)`, where targets and weights may be columns of a large table X.

    They are read into memory, as what is predicted is.
    """
    return float(score(X, in_memory(X, y, "y"), in_memory(X, sample_weight, "sample_weight")))


# Which steps of a pipeline are private: what they learn has a guarantee of its own, that of one fit.
#
# Fits are counted where they happen, of an estimator and its clones together.


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


class PrivateStep(ReadsTables):
    """A step whose `fit` releases what it learns with a guarantee, and learns nothing else.

    Its clones count fits together. What travels to another process counts there alone; what comes from
    one, or from a file, was fitted before whatever is fitted here from then on.
    """

    n_features_in_: int
    # In a pipeline with metadata routing every private step gets the users of the rows.
    __metadata_request__fit: ClassVar = {"groups": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        _LAST[0] = max(_LAST[0], turn_of(self))

    def __sklearn_clone__(self) -> Self:
        copied: Self = super().__sklearn_clone__()  # type: ignore[misc]
        _FITS[copied] = _FITS.setdefault(self, [])
        return copied


@dataclass(eq=False, repr=False)
class Budgeted(PrivateStep):
    """What the constructor of a step is told of its release, and whose the rows are."""

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    adjacency: str = "replace_one"
    random_state: Any = None
    ledger: Any = None
    strict: bool = False
    users: Any = None


def is_private(step: Any) -> bool:
    """Whether it is one of pabi's private estimators or transformers, or of a subclass of one."""
    return isinstance(step, PrivateStep)


def fitted_before(step: Any, *, strict: Any) -> tuple[str, ...]:
    """What the guarantee of a fit does not cover, as sentences: fits of the same estimator before it.

    Warns of them, once in a process, unless a ledger counts them. Raises InvalidInput where `strict`.
    """
    strict, kind = validate.flag("strict", strict), type(step).__name__
    if not _FITS.get(step):
        return ()
    require(
        not strict, "strict", f"expected one fit: this {kind}, or a clone of it, was fitted before"
    )
    if step.ledger is None:
        warn_once(
            f"{kind}, or a clone of it, was fitted before: guarantee_ is that of one fit; compose all of "
            "them (pabi.compose), give a ledger, search on public data, or use PrivateSearchCV",
            PrivacyWarning,
        )
    return (AGAIN,)


def count_fit(step: Any) -> None:
    """Counts a fit, for the estimator and its clones."""
    _FITS.setdefault(step, []).append(None)
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


_WIDER = (
    "some rows exceed feature_norm or feature_ranges and were scaled down: give wider feature_ranges or a "
    "larger feature_norm, from public knowledge"
)
_PRIVATE = (
    "whether it is one row or all of them is private and not said; this warning depends on the data: keep it "
    "to yourself"
)


@tagged(input_tags__sparse=True)
@dataclass(eq=False, repr=False)
class BoundedRows(Budgeted):
    """scikit-learn's checks of X, and its rows within the bounds that the constructor declares.

    `feature_norm`: R or "auto". `feature_ranges`: of every column, None without any. `intercept_scaling`: of
    a constant column, which `fit_intercept` adds.
    """

    feature_norm: float | str = "auto"
    _: KW_ONLY
    noise_std: float | None = None
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    feature_ranges: Any = None

    def _records(self, X: Any) -> Records:
        """The rows of `X` within the declared bounds."""
        norm, constant = self._row_norm(self.n_features_in_), self._intercept_feature
        return records_of(X, norm, constant, self._ranges())

    def _large(self, X: Any, *beside: Any) -> LargeTable | None:
        """A table that is read in passes, to be fitted to, None of one in memory; sets what checks of X set.

        `beside`: what stands beside the features; of it, names are those of columns.
        """
        table = LargeTable(X) if isinstance(X, np.memmap) else large_table(X)
        if table is None:
            return None
        table.introduce(self, *beside)
        return table.without(*beside)

    def _row_norm(self, d: int) -> float:
        """R for d columns, as stated or √d for features in [−1, 1]; without ranges 1."""
        usual = 1.0 if self.feature_ranges is None else norm_within_ranges(d)
        return number_or_auto("feature_norm", self.feature_norm, usual)

    @property
    def _intercept_feature(self) -> float | None:
        if not self.fit_intercept:
            return None
        return validate.number("intercept_scaling", self.intercept_scaling, above=0.0)

    @property
    def _width(self) -> int:
        """How many columns the model sees, but for the constant."""
        return self.n_features_in_

    def _seen_norm(self, d: int) -> float:
        """The largest norm of a row of d columns as the model sees it, the constant included."""
        return seen_norm(self._row_norm(d), self._intercept_feature)

    def _map(self) -> tuple[Array, Array]:
        """Centres and half widths of the declared ranges, 0 and 1 without them."""
        d = self._width
        blank = Records(np.zeros((1, d)), ranges=self._ranges())
        return (
            np.zeros(d) if blank.centre is None else blank.centre,
            np.ones(d) if blank.reach is None else blank.reach,
        )


def norm_within_ranges(d: int) -> float:
    """√d, a little above by more than `Records` rounds norms up: no row of d columns within ±1 is scaled."""
    return math.sqrt(d) * (1.0 + (d + 32) * HALF_ULP)


def warn_if_shortened(records: Records, advice: str = _WIDER) -> None:
    """Warns where some row was scaled down or clipped.

    One bit, for whoever holds the data; no model stores it, and nothing is counted. `advice`: what happened
    to rows, and what to do about it.
    """
    if records.shortened:
        warn_once(f"{advice}; {_PRIVATE}", UserWarning)


Auto = TypeVar("Auto")


def number_or_auto(name: str, value: Any, auto: Auto, **bounds: float) -> float | Auto:
    """A number the user gave, `auto` for "auto"."""
    if isinstance(value, str):
        must_be(value == "auto", name, '"auto" or a number', value)
        return auto
    return validate.number(name, value, **bounds)


# Requests to forget rows, and tables in which those that are forgotten may hold anything.


def checked_rows(rows: Any, n: int, forgotten: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of a request, ascending: positions, or where a mask is true. Raises InvalidInput."""
    require(
        not hasattr(rows, "to_numpy"),
        "rows",
        f"expected positions, counted from 0, got a {type(rows).__name__}, which may hold labels: of "
        "labels write frame.index.get_indexer(labels), of positions or a mask rows.to_numpy()",
    )
    each = rows.tolist() if isinstance(rows, np.ndarray) else rows
    require(
        not isinstance(each, (str, bytes)) and isinstance(each, Sequence) and len(each),
        "rows",
        "expected positions, counted from 0, one for each row to forget",
    )
    if any(isinstance(row, (bool, np.bool_)) for row in each):
        require(
            len(each) == n and all(isinstance(row, (bool, np.bool_)) for row in each),
            "rows",
            f"expected positions, or a mask of true and false for all {n} rows",
        )
        each = np.flatnonzero(np.array(each)).tolist()
    places = [validate.integer("rows", row, at_least=0, at_most=n - 1) for row in each]
    numbers = np.sort(np.array(places, dtype=np.intp))
    require(numbers.size, "rows", "expected one row to forget at least, got a mask without any")
    require(not np.any(np.diff(numbers) == 0), "rows", "expected each row once")
    again = np.intersect1d(numbers, forgotten)
    if again.size:
        raise InvalidInput("rows", f"row {again[0]} was forgotten before")
    return numbers


def with_blanks(X: Any, blank: NDArray[np.intp], wiped: bool) -> Any:
    """A copy of a table with zeros in these rows; where they hold numbers the table, unless `wiped`."""
    if issparse(X):
        rows = X.tocsr().copy()
        for row in blank.tolist():
            rows.data[rows.indptr[row] : rows.indptr[row + 1]] = 0
        return rows
    if hasattr(X, "iloc"):
        frame = X.copy()
        for column in range(frame.shape[1]):
            cells = frame.iloc[:, column].to_numpy(dtype=object, copy=True)
            cells[blank] = 0
            frame.isetitem(column, cells)
        return frame
    array = table_of(X)
    if not wiped and array.dtype.kind in "biuf" and np.all(np.abs(array[blank]) <= LARGEST):
        return array  # numbers that contribute nothing need no copy of the table
    array = array.copy()
    array[blank] = 0
    return array


def filled(values: Any, blank: NDArray[np.intp], fill: Any) -> NDArray[Any]:
    """A copy of targets or weights with `fill` at these places, whatever stood there."""
    column = typed(cells_of(values))
    numbers = column.dtype.kind not in "OUSmM" and np.asarray(fill).dtype.kind in "biuf"
    cells = column.copy() if numbers else column.astype(object)
    cells[blank] = fill
    return typed(cells)

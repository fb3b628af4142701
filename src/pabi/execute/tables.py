"""scikit-learn's checks of tables, without the data that some of its complaints show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_X_y, validate_data

from pabi.execute.cells import (
    PLAIN,
    columns_of,
    doubles_beside,
    doubles_of,
    refuse_other_types,
    table_of,
    unmasked,
    where,
)
from pabi.numbers.errors import InvalidInput, require

T = TypeVar("T")
_NONE = "no_validation"  # in the place of y, of scikit-learn's
_DTYPES = (np.float64, np.float32, np.uint8, np.int8, np.int16, np.int32, np.int64)


def tagged(**tags: Any) -> Callable[[T], T]:
    """A decorator of estimators that sets tags of scikit-learn's, by names with __ in place of dots.

    A function says what a tag is of an estimator.
    """

    def decorated(cls: T) -> T:
        def own_tags(self: Any) -> Any:
            every: Any = super(cls, self).__sklearn_tags__()  # type: ignore[arg-type]
            for name, value in tags.items():
                part, _, last = name.rpartition("__")
                of = getattr(every, part) if part else every
                setattr(of, last, value(self) if callable(value) else value)
            return every

        cls.__sklearn_tags__ = own_tags  # type: ignore[attr-defined]
        return cls

    return decorated


def refuse_collection(X: Any) -> None:
    """Raises InvalidInput for what would be read into memory as a whole before its rows are looked at."""
    home = type(X).__module__.partition(".")[0].strip("_")
    collections = ("get_fragments", "read_next_batch", "collect_schema")
    lazy = home in ("pyarrow", "polars") and any(hasattr(X, name) for name in collections)
    require(
        home not in ("dask", "zarr", "duckdb") and not (lazy and not hasattr(X, "get_columns")),
        "X",
        f"expected pabi.learn.LargeTable(X) for a table of {home}, which is read in passes",
    )


def checked(
    estimator: Any,
    X: Any,
    y: Any = _NONE,
    *,
    sparse: bool = True,
    dtype: Any = _DTYPES,
    reset: bool = True,
    **kwargs: Any,
) -> Any:
    """What scikit-learn's `validate_data` returns of X: an array, or with `sparse` a CSR matrix too, of real
    numbers unless `dtype` says otherwise; with `y`, both.

    No cell changes what becomes of another one, whatever their types.
    """
    refuse_collection(X)
    X = unmasked(X)
    rules = {"accept_sparse": "csr" if sparse else False, "dtype": dtype, **kwargs}
    try:
        cells, alone = _separate(X, numeric=dtype is not None), isinstance(y, str) and y == _NONE
        if cells is None:
            return validate_data(estimator, X, y, reset=reset, **rules)
        rules |= {"estimator": estimator, "input_name": "X"} if alone else {"estimator": estimator}
        # The first call knows the numbers, the second one the names of columns.
        result = check_array(cells, **rules) if alone else check_X_y(cells, y, **rules)
        validate_data(estimator, X, y, reset=reset, skip_check_array=True)
        return result
    except InvalidInput:
        raise
    except ValueError as bad:
        problem, field = str(bad), "X"
        if problem.startswith("Input ") and " contains " in problem:  # NaN, infinity, or too large
            field = "y" if problem.startswith("Input y ") else "X"
            problem = problem.partition("\n")[0]
            problem = problem.rstrip(".") + _odd_column(X) if field == "X" else problem
        elif "array=" in problem:
            problem = problem.partition(":\narray=")[0] + ". Reshape your data: one row a record"
        elif "Complex data" in problem:
            problem = "Complex data not supported"
        elif "inhomogeneous" in problem:
            problem = "expected rows of one length"
        else:
            raise
    raise InvalidInput(field, problem)  # outside of the handler: what was refused may show a cell


def _separate(X: Any, *, numeric: bool) -> NDArray[Any] | None:
    """The cells one by one, as doubles if `numeric`; None where scikit-learn takes each as it is anyway."""
    if hasattr(X, "tocsr"):
        return None
    refuse_other_types("X", getattr(X, "dtype", None))
    if isinstance(X, np.ndarray):
        return None if X.dtype.kind in PLAIN or not numeric else doubles_of("X", X)
    if not numeric:
        return table_of(X)
    if (columns := columns_of(X)) is None:
        return None if _is_plain(X) else doubles_of("X", table_of(X))
    if all(cells.dtype.kind in PLAIN for cells in columns):
        return None
    return doubles_beside(columns, _names(X))


def _names(X: Any) -> list[str] | None:
    """What the columns of a frame are called, None where they have no names."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return names if names and all(isinstance(name, str) for name in names) else None


def _odd_column(X: Any) -> str:
    """Where a frame holds what is not finite, nothing where columns have no names."""
    odd = (not np.all(np.isfinite(doubles_of("X", cells))) for cells in columns_of(X) or ())
    return where(_names(X), next((j for j, one in enumerate(odd) if one), 0))


def _is_plain(X: Any) -> bool:
    """Whether numpy finds nothing but numbers in it. Raises InvalidInput where they are no real ones."""
    try:
        dtype = np.asarray(X).dtype
    except OverflowError:
        return False
    refuse_other_types("X", dtype)
    return dtype.kind in PLAIN

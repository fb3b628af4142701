"""scikit-learn's checks of tables, without the data that some of its complaints show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from pabi.features.table_parts import TablePart
from pabi.numbers.errors import InvalidInput

_DTYPES = (np.float64, np.float32, np.uint8, np.int8, np.int16, np.int32, np.int64)


def refuse_collection(X: Any) -> None:
    """Raises InvalidInput for what would be read into memory as a whole before its rows are looked at."""
    home = type(X).__module__.partition(".")[0]
    if home in ("dask", "zarr") or (home == "pyarrow" and hasattr(X, "get_fragments")):
        raise InvalidInput(
            "X", f"expected pabi.learn.LargeTable(X) for a table of {home}, which is read in passes"
        )


def checked(
    estimator: Any, X: Any, *, sparse: bool = True, dtype: Any = _DTYPES, **kwargs: Any
) -> Any:
    """What scikit-learn's `validate_data` returns of X: an array, or with `sparse` a CSR matrix too, of real
    numbers unless `dtype` says otherwise."""
    if isinstance(X, TablePart):
        return _checked_part(X.cells, dtype, kwargs.get("ensure_all_finite", True))
    try:
        return validate_data(
            estimator, X, accept_sparse="csr" if sparse else False, dtype=dtype, **kwargs
        )
    except ValueError as bad:
        problem = str(bad)
        if "could not convert" in problem:
            problem = "expected numbers, got text"
        elif "array=" in problem:
            problem = problem.partition(":\narray=")[0] + ". Reshape your data: one row a record"
        elif "Complex data" in problem:
            problem = "Complex data not supported"
        else:
            raise
        raise InvalidInput("X", problem) from None


def _checked_part(cells: NDArray[Any], dtype: Any, finite: bool | str) -> NDArray[Any]:
    """The cells, of real numbers unless `dtype` is None. `finite`: as scikit-learn's `ensure_all_finite`."""
    if dtype is not None and cells.dtype.kind not in "fiub":
        raise InvalidInput("X", "expected numbers, got text")
    if cells.dtype.kind == "f" and finite is True and not np.all(np.isfinite(cells)):
        raise InvalidInput("X", "expected finite numbers, got NaN or infinity")
    if cells.dtype.kind == "f" and finite == "allow-nan" and np.any(np.isinf(cells)):
        raise InvalidInput(
            "X", "expected finite numbers, or NaN where one is missing, got infinity"
        )
    return cells

"""scikit-learn's checks of tables, without the data that some of its complaints show."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from pabi.numbers.errors import InvalidInput

_DTYPES = (np.float64, np.float32, np.uint8, np.int8, np.int16, np.int32, np.int64)


def checked(
    estimator: Any, X: Any, *, sparse: bool = True, dtype: Any = _DTYPES, **kwargs: Any
) -> Any:
    """What scikit-learn's `validate_data` returns of X: an array, or with `sparse` a CSR matrix too, of real
    numbers unless `dtype` says otherwise."""
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

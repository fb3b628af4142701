"""What a step of a pipeline holds beside its settings, and whether two steps hold the same."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from scipy.sparse import issparse

# What a fitted transformer may hold that says nothing of the records but how many columns they have.
SHAPE = frozenset(
    {
        *("n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_"),
        *("_n_features_out", "_sklearn_output_config", "_metadata_request"),
        *("_min_degree", "_max_degree", "_n_out_full"),  # of PolynomialFeatures: degrees, columns
    }
)
_DEPTH = 12  # of objects within objects that are compared


def beside_settings(step: Any) -> list[str]:
    """The attributes that are no settings, and the settings that may have learned: estimators and methods."""
    settings = step.get_params(deep=True)
    own = vars(step).keys() - settings.keys() - SHAPE  # a private name hides no less
    return sorted(own | {name for name, value in settings.items() if fits(value)})


def fits(setting: Any) -> bool:
    """Whether it is an estimator or a method of one."""
    return hasattr(getattr(setting, "__self__", setting), "fit")


def held(step: Any) -> dict[str, Any]:
    """All that it holds, settings included: a step may write what it learns into them."""
    return {name: value for name, value in vars(step).items() if name not in SHAPE}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """The names of values that are not the same in both, or are in one only."""
    common = one.keys() & other.keys()
    return (one.keys() ^ other.keys()) | {
        name for name in common if not same(one[name], other[name])
    }


def same(one: Any, other: Any, depth: int = _DEPTH) -> bool:
    """Whether two objects hold the same values; what cannot be compared counts as different."""
    if one is other:
        return True
    if type(one) is not type(other) or depth == 0:
        return False
    if isinstance(one, np.ndarray):
        return _same_arrays(one, other, depth)
    if issparse(one):
        return one.shape == other.shape and bool((one != other).nnz == 0)
    if isinstance(one, float):  # NaN is the same as NaN
        return one == other or (one != one and other != other)
    if isinstance(one, (str, bytes, int, complex, type, set, frozenset)):
        return bool(one == other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same_below(depth), one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(one[key], other[key], depth - 1) for key in one
        )
    return same(_parts(one), _parts(other), depth - 1)


def _same_below(depth: int) -> Any:
    return lambda one, other: same(one, other, depth - 1)


def _same_arrays(one: Any, other: Any, depth: int) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype == object:
        return same(one.tolist(), other.tolist(), depth - 1)
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _parts(thing: Any) -> Any:
    """What an object consists of: of a function its code and what it closes over."""
    if isinstance(thing, FunctionType):
        cells = [_content(cell) for cell in thing.__closure__ or ()]
        return thing.__code__, cells, thing.__defaults__, thing.__kwdefaults__
    if isinstance(thing, MethodType):
        return thing.__func__, thing.__self__
    if isinstance(thing, functools.partial):
        return thing.func, thing.args, thing.keywords
    reduces: Any = type(thing).__reduce__
    if reduces is object.__reduce__ and hasattr(thing, "__dict__"):
        return vars(thing)
    return _bytes(thing)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _bytes(thing: Any) -> Any:
    try:
        return pickle.dumps(thing)
    except (
        Exception
    ):  # of whatever kind: objects say in ways of their own that they cannot be stored
        return float(id(thing))

"""The hash of a model's parameters, with which an auditor tells whether a file speaks of this model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from pabi.describe.runs import NoisySGD
from pabi.execute.engine import Trained
from pabi.execute.second_moments import ReleasedMoments
from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.releases import digest
from pabi.numbers.errors import InvalidInput

MATRIX = "preconditioner_.matrix"
# What estimators and transformers release under names of their own.
_RELEASED = (
    "coef_",
    "intercept_",
    "classes_",
    "ranges_",
    "categories_",
    "mean_",
    "scale_",
    "statistics_",
)


def parameters_hash(model: Any) -> str:
    """SHA-256 of the parameters that a model releases, as its guarantee's notes have it.

    Of every array of doubles, in the order of the names, `NAME <f8 SHAPE` and a line feed in UTF-8, the
    numbers of the shape separated by commas; then its entries as little-endian doubles in C order. Of labels
    and levels `NAME json BYTES` and a line feed; then so many bytes of JSON in ASCII. The names are `x` of
    `Trained` and of a trained module, `values` of second moments, `coef_`, `intercept_` and `classes_` of an
    estimator, `ranges_`, `categories_`, `mean_`, `scale_` and `statistics_` of transformers, and
    `preconditioner_.matrix` where there is one. Settings are not part of it.

    Parameters
    ----------
    model : Trained, TrainedModule, ReleasedMoments, fitted estimator or transformer, search, or pipeline
        A search counts as its best model, a pipeline as its last step; `parameters_hashes` goes through all
        of its steps.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    InvalidInput
        For anything else, and for an estimator that is not fitted.

    References
    ----------
    docs, "Report a guarantee".
    """
    return digest(parameters_of(model))


def parameters_of(model: Any) -> Mapping[str, Any]:
    """The released arrays, labels and levels of a model by name. Raises InvalidInput for what has none."""
    if isinstance(model, Trained) or _is_trained_module(model):
        return {"x": model.x}
    if isinstance(model, ReleasedMoments):
        return {"values": model.values}
    if isinstance(model, Pipeline):
        return parameters_of(model.steps[-1][1])
    held = getattr(model, "__dict__", {})
    if "best_estimator_" in held:
        return parameters_of(held["best_estimator_"])
    arrays = {name: held[name] for name in _RELEASED if name in held}
    if held.get("preconditioner_") is not None:
        arrays[MATRIX] = held["preconditioner_"].matrix
    if held.get("guarantee_") is None or not arrays:
        kind = type(model).__name__
        raise InvalidInput("model", f"expected a fitted model of pabi's, got a {kind} without one")
    return arrays


def _is_trained_module(model: Any) -> bool:
    """Whether it is what an integration's `train` returns, in whose notes the hash is that of `x`."""
    held = getattr(model, "__dict__", {})
    described = isinstance(held.get("run"), NoisySGD) and isinstance(
        held.get("guarantee"), Guarantee
    )
    return described and isinstance(held.get("x"), np.ndarray)

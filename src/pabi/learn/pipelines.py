"""What a whole pipeline costs: the composition of what its steps cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from pabi.guarantees.guarantee import Guarantee
from pabi.learn.rows import BoundedRows
from pabi.learn.whitening import together
from pabi.numbers.errors import InvalidInput

# What a fitted transformer may hold that says nothing of the records but how many columns they have.
_SHAPE = frozenset(
    {
        *("n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_"),
        *("_n_features_out", "_sklearn_output_config", "_metadata_request"),
        *(
            "_min_degree",
            "_max_degree",
            "_n_out_full",
        ),  # of PolynomialFeatures: degrees and columns
    }
)


def guarantee_of(model: Any) -> Guarantee:
    """What the release of a fitted estimator or pipeline costs, all private steps together.

    Parameters
    ----------
    model : estimator or sklearn.pipeline.Pipeline
        One of pabi's, fitted, or a fitted pipeline of pabi's and of steps that learn nothing from the data.

    Returns
    -------
    Guarantee
        The composition of the guarantees of all steps that have one, with one certificate.

    Raises
    ------
    InvalidInput
        `model` is neither, is not fitted, or has a step that holds something beside its settings, or another
        estimator, without a guarantee; the message names the step and what it holds.

    Notes
    -----
    A step's own code is not read: one that computes with other rows when it transforms is not seen.

    References
    ----------
    Dong, Roth, Su 2022, Thm 3.2; docs, "Private preconditioning".
    """
    guarantees = [part for name, step in _steps("model", model) for part in _costs(name, step)]
    if not guarantees:
        raise InvalidInput("model", "expected a fitted step with a guarantee, found none")
    return together(*guarantees)


def _steps(name: str, model: Any) -> Iterator[tuple[str, Any]]:
    """(name, step) of everything that was fitted, pipelines within pipelines included."""
    if not isinstance(model, Pipeline):
        yield name, model
        return
    for inner, step in model.steps:
        if step is not None and not isinstance(step, str):  # "passthrough"
            yield from _steps(inner, step)


def _costs(name: str, step: Any) -> list[Guarantee]:
    """The guarantee of a step, none where it learned nothing."""
    guarantee = getattr(step, "__dict__", {}).get("guarantee_")
    if type(guarantee) is Guarantee:
        return [guarantee]
    kind = type(step).__name__
    if isinstance(step, BoundedRows):
        raise InvalidInput(name, f"expected a fitted {kind}: this one has no guarantee yet")
    if not isinstance(step, BaseEstimator):
        raise InvalidInput(name, f"expected an estimator of scikit-learn's kind, got {kind}")
    if held := _beside_settings(step):
        raise InvalidInput(
            name,
            f"a {kind} without a guarantee holds {', '.join(held)}: expected a step that learns nothing from "
            "the data, or one of pabi.learn",
        )
    return []


def _beside_settings(step: Any) -> list[str]:
    """The attributes that are no settings, and the settings that may have learned: estimators and methods."""
    settings = step.get_params(deep=True)
    own = vars(step).keys() - settings.keys() - _SHAPE  # a private name hides no less
    return sorted(own | {name for name, value in settings.items() if _fits(value)})


def _fits(setting: Any) -> bool:
    """Whether it is an estimator or a method of one."""
    return hasattr(getattr(setting, "__self__", setting), "fit")

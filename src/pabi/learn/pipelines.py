"""What a whole pipeline costs: the composition of what its steps cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pabi.guarantees.guarantee import Guarantee
from pabi.learn.whitening import together
from pabi.numbers.errors import InvalidInput

# What a fitted transformer may hold that says nothing of the records but how many columns they have.
_SHAPE = frozenset({"n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_"})


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
        `model` is neither, is not fitted, or has a step that learned from the data without a guarantee; the
        message names the step and what it learned.

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
    if not hasattr(model, "steps"):
        yield name, model
        return
    for inner, step in model.steps:
        if step is not None and not isinstance(step, str):  # "passthrough"
            yield from _steps(inner, step)


def _costs(name: str, step: Any) -> list[Guarantee]:
    """The guarantee of a step, none where it learned nothing."""
    guarantee = vars(step).get("guarantee_") if hasattr(step, "__dict__") else None
    if type(guarantee) is Guarantee:
        return [guarantee]
    learned = sorted(
        attribute
        for attribute in vars(step)
        if attribute.endswith("_") and not attribute.startswith("_") and attribute not in _SHAPE
    )
    if learned:
        raise InvalidInput(
            name,
            f"a {type(step).__name__} without a guarantee learned {', '.join(learned)}: expected a step that "
            "learns nothing from the data, or one of pabi.learn",
        )
    return []

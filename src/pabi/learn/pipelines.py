"""What a whole pipeline costs: the composition of what its steps cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from pabi.guarantees.guarantee import Guarantee
from pabi.learn.guards import examined, shape_of
from pabi.learn.held import beside_settings, differing
from pabi.learn.rows import BoundedRows
from pabi.learn.synthetic import Shape
from pabi.learn.trials import UNKNOWN, repeated
from pabi.learn.whitening import together
from pabi.numbers.errors import InvalidInput


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
        `model` is neither, is not fitted, or has a step without a guarantee that learnt: it holds what does
        not follow from its settings, or another estimator, or it computes with other rows when it transforms.
        The message names the step and what it holds.

    Notes
    -----
    Steps are tried on made-up tables, as by `check_pipeline`. Their code is not read.

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
    _refuse_what_learnt(name, step)
    return []


def _refuse_what_learnt(name: str, step: Any) -> None:
    """Raises InvalidInput where the step holds what it learnt, or computes with other rows."""
    kind, shape = type(step).__name__, shape_of(step)
    expected = "expected a step that learns nothing from the data, or one of pabi.learn"
    names = beside_settings(step)
    if names and not _follow_from_settings(step, names, shape):
        raise InvalidInput(
            name, f"a {kind} without a guarantee holds {', '.join(names)}: {expected}"
        )
    finding = examined(name, step, shape)
    if finding is not None and finding.severity != UNKNOWN:
        learns = ", ".join(finding.learns)
        raise InvalidInput(name, f"a {kind} without a guarantee learns {learns}: {expected}")


def _follow_from_settings(step: Any, names: list[str], shape: Shape) -> bool:
    """Whether it holds under these names what a copy holds that was fitted to a made-up table.

    Settings among the names may have learned before.
    """
    if not vars(step).keys() - step.get_params(deep=True).keys() >= set(names):
        return False
    mine = {name: vars(step)[name] for name in names}
    return any(
        not differing(mine, {name: one[name] for name in names if name in one})
        for one in repeated(step, shape)
    )

"""What a whole pipeline costs: the composition of what its steps cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline

from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.releases import digest
from pabi.learn.guards import examined, is_ours, shape_of
from pabi.learn.hashes import parameters_of
from pabi.learn.held import beside_settings, differing
from pabi.learn.private_steps import PrivateStep, is_private
from pabi.learn.sentences import DENSITY, SELECTED
from pabi.learn.synthetic import Shape
from pabi.learn.trials import UNKNOWN, repeated
from pabi.learn.whitening import together
from pabi.numbers.errors import InvalidInput


def guarantee_of(model: Any) -> Guarantee:
    """What the release of a fitted estimator or pipeline costs, all private steps together.

    Parameters
    ----------
    model : estimator, Pipeline, ColumnTransformer or FeatureUnion
        One of pabi's, fitted, or a fitted pipeline of pabi's and of steps that learn nothing from the data.
        Steps may stand in a ColumnTransformer or a FeatureUnion, and these in each other.

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
    Steps are tried on made-up tables, as by `check_pipeline`. Their code is not read. Private steps of
    different columns compose as any others do: a record has all of the columns. Where a ColumnTransformer
    decides by the density of its output whether that is sparse, or chooses columns by their type, the
    guarantee assumes that this is public.

    References
    ----------
    Dong, Roth, Su 2022, Thm 3.2; docs, "Private preconditioning".
    """
    parts = list(_parts_of("model", model))
    guarantees = _not_covered([one for part in parts for one in _costs(part)], parts)
    if not guarantees:
        raise InvalidInput("model", "expected a fitted step with a guarantee, found none")
    assumed = [sentence for part in parts for sentence in part.assumed]
    whole = together(*guarantees)
    return whole.assuming(*assumed) if assumed else whole


def keep_whole(model: Any, last: Any, guarantee: Guarantee) -> None:
    """Gives the last private step of a fitted model a guarantee that covers the steps before it as well."""
    before = [
        one for part in _parts_of("model", model) if part.step is not last for one in _costs(part)
    ]
    last.guarantee_ = guarantee
    last._covers = (
        guarantee,
        tuple(before),
    )  # by identity: whatever is fitted again is not covered


def _not_covered(guarantees: list[Guarantee], parts: list[_Part]) -> list[Guarantee]:
    """Without those that the guarantee of a step of the same model covers."""
    covered: list[Guarantee] = []
    for part in parts:
        fields = getattr(part.step, "__dict__", {})
        whole, before = fields.get("_covers", (None, ()))
        if whole is not None and fields.get("guarantee_") is whole:
            covered.extend(before)
    return [one for one in guarantees if not any(one is other for other in covered)]


def parameters_hashes(model: Any) -> tuple[str, ...]:
    """The hashes of everything that a model releases, one for each private step, in order.

    They are those that the notes of `guarantee_of(model)` have.

    Parameters
    ----------
    model : estimator, Pipeline, ColumnTransformer or FeatureUnion
        Fitted, or whatever else `parameters_hash` takes, which has one.

    Returns
    -------
    tuple of str
        64 hexadecimal digits each, as of `parameters_hash`. Steps that release nothing have none.

    Raises
    ------
    InvalidInput
        Nothing in it was released.

    References
    ----------
    docs, "Report a guarantee".
    """
    return tuple(map(digest, released_by(model)))


def released_by(model: Any) -> tuple[Mapping[str, Any], ...]:
    """The released values of every private step by name, in order. Raises InvalidInput for none."""
    steps = [part.step for part in _parts_of("model", model)]
    releasing = [step for step in steps if getattr(step, "guarantee_", None) is not None]
    return tuple(map(parameters_of, releasing)) or (parameters_of(model),)


@dataclass(frozen=True)
class _Part:
    """A step that holds no other steps. `name`: of the nearest pipeline's step that it is or is part of.

    `within`: where it stands among columns side by side, "" for a step of a pipeline. `assumed`: sentences
    about what chooses its columns.
    """

    name: str
    step: Any
    within: str = ""
    assumed: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its class, and where it stands."""
        return type(self.step).__name__ + (f" ({self.within})" if self.within else "")


def _parts_of(name: str, model: Any, within: str = "", holder: str = "") -> Iterator[_Part]:
    """Everything that was fitted, whatever pipelines and columns side by side it stands in."""
    if model is None or isinstance(model, str):  # "passthrough", "drop"
        return
    if isinstance(model, Pipeline):
        for inner, step in model.steps:
            path = f"{within}.{inner}" if within else ""
            yield from _parts_of(name if within else inner, step, path, holder)
    elif type(model) in (ColumnTransformer, FeatureUnion):  # a subclass may learn besides
        yield from _side_by_side(name, model, within)
    else:
        where = f"{within} of a {holder}" if within else ""
        yield _Part(name, model, where)


def _side_by_side(name: str, model: Any, within: str) -> Iterator[_Part]:
    holder = type(model).__name__
    if isinstance(model, FeatureUnion):
        branches = [(inner, step, None) for inner, step in model.transformer_list]
    else:
        if not hasattr(model, "transformers_"):
            raise InvalidInput(name, f"expected a fitted {holder}")
        _refuse_chosen_columns(name, model)
        branches = model.transformers_
    for inner, step, _ in branches:
        path = f"{within}.{inner}" if within else inner
        for part in _parts_of(name, step, path, holder):
            yield replace(part, assumed=part.assumed + _assumed_of(model))


def _refuse_chosen_columns(name: str, model: Any) -> None:
    """Raises InvalidInput where a function of the table chose columns: it may have looked at the data."""
    for inner, _, columns in model.transformers:
        if callable(columns) and type(columns) is not make_column_selector:
            raise InvalidInput(
                name,
                f"the columns of {inner!r} of a ColumnTransformer are chosen by a function of the table: "
                "expected names, numbers or make_column_selector",
            )


def _assumed_of(model: Any) -> tuple[str, ...]:
    """What is assumed of columns side by side beside their steps."""
    if isinstance(model, FeatureUnion):
        return ()
    selects = any(callable(columns) for _, _, columns in model.transformers)
    weighs = 0.0 < model.sparse_threshold < 1.0 and (
        model.sparse_output_ or any(_may_be_sparse(step) for _, step, _ in model.transformers_)
    )
    return (SELECTED,) * selects + (DENSITY,) * weighs


def _may_be_sparse(step: Any) -> bool:
    """Whether a setting of the step asks for sparse output."""
    settings = step.get_params(deep=True) if hasattr(step, "get_params") else {}
    return any(name.endswith("sparse_output") and value for name, value in settings.items())


def _costs(part: _Part) -> list[Guarantee]:
    """The guarantee of a step, none where it learned nothing."""
    name, step = part.name, part.step
    attributes = getattr(step, "__dict__", {})
    guarantee = attributes.get("guarantee_")
    if type(guarantee) is Guarantee:
        return [guarantee]
    if isinstance(step, PrivateStep) and is_ours(step) and attributes.get("releases_") == ():
        return []  # all of it was declared
    if is_private(step):
        raise InvalidInput(name, f"expected a fitted {part.kind}: this one has no guarantee yet")
    if not isinstance(step, BaseEstimator):
        raise InvalidInput(name, f"expected an estimator of scikit-learn's kind, got {part.kind}")
    _refuse_what_learnt(part)
    return []


def _refuse_what_learnt(part: _Part) -> None:
    """Raises InvalidInput where the step holds what it learnt, or computes with other rows."""
    name, step, kind, shape = part.name, part.step, part.kind, shape_of(part.step)
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

"""What a whole pipeline costs: the composition of what its steps cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sklearn.compose import ColumnTransformer

from pabi.guarantees.guarantee import Guarantee
from pabi.guarantees.releases import MODELS, digest, models_in
from pabi.learn.guards import (
    UNKNOWN,
    StepFinding,
    findings_in,
    matter,
    refusal,
    refuse_out_of_turn,
)
from pabi.learn.hashes import note_of_whole, parameters_of
from pabi.learn.known_steps import depends_on_types, is_ours, steps_within
from pabi.learn.private_steps import is_private
from pabi.learn.sentences import DENSITY, SELECTED, TYPES, UNCLEAR
from pabi.learn.whitening import together
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from pabi.numbers.fields import flag
from pabi.numbers.warning import warn_once


def guarantee_of(model: Any, *, strict: bool = True) -> Guarantee:
    """What the release of a fitted estimator or pipeline costs, all private steps together.

    Parameters
    ----------
    model : estimator, Pipeline, ColumnTransformer or FeatureUnion
        One of pabi's, fitted, or a fitted pipeline of pabi's and of steps that are known to learn nothing
        from the data, as `check_pipeline` says. They may stand in each other, in a FixedThresholdClassifier,
        a FrozenEstimator or a TransformedTargetRegressor.
    strict : bool
        Whether a step that is not known is refused. If not, the guarantee assumes that it learnt nothing.

    Returns
    -------
    Guarantee
        The composition of the guarantees of all steps that have one, with one certificate.

    Raises
    ------
    InvalidInput
        `model` is neither, is not fitted, or has a step that is known to learn, or that may fit a private
        estimator more than once; with `strict`, also one that is not known; or a private step was fitted
        after one that stands behind it in a pipeline, so that the two do not belong together. The message
        names the step and what it holds.

    Warns
    -----
    PrivacyWarning
        A step is not known and `strict` is false, once in a process.

    Notes
    -----
    Private steps of different columns compose as any others do: a record has all of the columns. Where a
    ColumnTransformer decides by the density of its output whether that is sparse, or chooses columns by their
    type, the guarantee assumes that this is public; so it does of the type of the table before a step of
    scikit-learn's, which computes in that: one cell can make doubles of single precision, or text of numbers.

    References
    ----------
    Dong, Roth, Su 2022, Thm 3.2; docs, "Private preconditioning".
    """
    strict = flag("strict", strict)
    if isinstance(model, (type, str)) or not hasattr(model, "fit"):
        raise InvalidInput("model", f"expected an estimator, got a {type(model).__name__}")
    parts = list(_parts_of("model", model))
    assumed = [sentence for path, part in parts for sentence in _assumed_of(path, part)]
    assumed += assumed_unknown(model, strict=strict)
    refuse_out_of_turn(model)
    guarantees = _not_covered([one for part in parts for one in _costs(*part)], parts)
    if not guarantees:
        raise InvalidInput("model", "expected a fitted step with a guarantee, found none")
    whole = together(*guarantees)
    whole = whole.assuming(*assumed) if assumed else whole
    note = note_of_whole(model)
    return whole if models_in(whole.notes) == note.get(MODELS) else whole.noting(note)


def assumed_unknown(model: Any, *, strict: bool) -> list[str]:
    """What is assumed of the steps of a model that are not known, as sentences, with a warning of each.

    Raises InvalidInput for a step that is known to learn, and where `strict` for any of them.
    """
    findings = list(findings_in(model))
    for finding in findings:
        if finding.severity != UNKNOWN:
            raise refusal(finding)
        if strict:
            raise refusal(finding, "; with strict=False it is assumed that this one learnt nothing")
    for finding in findings:
        warn_once(_warning(finding), PrivacyWarning, stacklevel=3)
    return [UNCLEAR.format(step=finding.step) for finding in findings]


def _warning(finding: StepFinding) -> str:
    return (
        f"the step {finding.step!r} ({finding.kind}) {matter(finding)}: if it learnt from the data, no "
        "guarantee covers it"
    )


def keep_whole(model: Any, last: Any, guarantee: Guarantee) -> None:
    """Gives the last private step of a fitted model a guarantee that covers the steps before it as well."""
    parts = [part for part in _parts_of("model", model) if part[1] is not last]
    before = tuple(one for part in parts for one in _costs(*part))
    last.guarantee_ = guarantee
    last._covers = (guarantee, before)  # by identity: whatever is fitted again is not covered


def _not_covered(guarantees: list[Guarantee], parts: list[tuple[str, Any]]) -> list[Guarantee]:
    """Without those that the guarantee of a step of the same model covers."""
    covered: list[Guarantee] = []
    for _, step in parts:
        fields = getattr(step, "__dict__", {})
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
    steps = [step for _, step in _parts_of("model", model) if steps_within(step) is None]
    releasing = [step for step in steps if getattr(step, "guarantee_", None) is not None]
    return tuple(map(parameters_of, releasing)) or (parameters_of(model),)


def _parts_of(path: str, step: Any) -> Iterator[tuple[str, Any]]:
    """(path, step) of everything that was fitted, with what holds other steps after these."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return
    within = steps_within(step)
    for name, part in within or ():
        yield from _parts_of(name if path == "model" else f"{path}.{name}", part)
    yield path, step


def _assumed_of(path: str, step: Any) -> tuple[str, ...]:
    """What is assumed of a step; of columns side by side, beside the steps in them."""
    if depends_on_types(step):
        return (TYPES.format(step=path),)
    if type(step) is not ColumnTransformer:
        return ()
    selects = any(callable(chosen) for _, _, chosen in step.transformers)
    weighs = 0.0 < step.sparse_threshold < 1.0 and (
        getattr(step, "sparse_output_", False)
        or any(_may_be_sparse(part) for _, part in steps_within(step) or ())
    )
    return (SELECTED,) * selects + (DENSITY,) * weighs


def _may_be_sparse(step: Any) -> bool:
    """Whether a setting of the step asks for sparse output."""
    settings = step.get_params(deep=True) if hasattr(step, "get_params") else {}
    return any(name.endswith("sparse_output") and value for name, value in settings.items())


def _costs(path: str, step: Any) -> list[Guarantee]:
    """The guarantee of a step, none where it learned nothing."""
    if steps_within(step) is not None:
        return []
    attributes = getattr(step, "__dict__", {})
    guarantee = attributes.get("guarantee_")
    if type(guarantee) is Guarantee:
        return [guarantee]
    declared = is_ours(step) and attributes.get("releases_") == ()  # there was nothing to release
    if is_private(step) and not declared:
        kind = type(step).__name__
        raise InvalidInput(path, f"expected a fitted {kind}: this one has no guarantee yet")
    return []

"""Whole pipelines: what they cost, and hashes by which a file speaks of one."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from pabi.budget.ledger import Ledger
from pabi.describe.updates import StepSizes
from pabi.execute.cells import text_of
from pabi.execute.engine import Trained
from pabi.execute.sources import Parts
from pabi.execute.statistics import ReleasedMoments
from pabi.learn.guards import (
    UNKNOWN,
    depends_on_types,
    findings_in,
    is_ours,
    is_plain_memory,
    matter,
    refusal,
    refuse_out_of_turn,
    steps_within,
)
from pabi.learn.plans import DENSITY, SELECTED, TYPES, UNCLEAR, together
from pabi.learn.rows import is_private
from pabi.numbers.errors import InvalidInput, PrivacyWarning, require, warn_once
from pabi.numbers.validate import flag
from pabi.tradeoff.certificate import (
    MODELS,
    SHA256,
    digest,
    models_in,
    notes_of_all,
    released_notes,
    releases_in,
)
from pabi.tradeoff.guarantee import Guarantee

# The hash of a model's parameters, with which an auditor tells whether a file speaks of this model.


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
    "target_range_",
)
# What estimators and transformers of this library hold beside their settings.
_HELD = frozenset(_RELEASED) | {
    "best_estimator_",
    "best_params_",
    "feature_names_in_",
    "features_",
    "guarantee_",
    "link_",
    "moments_",
    "n_features_in_",
    "n_iter_",
    "plan_",
    "preconditioner_",
    "releases_",
    "run_",
    "unlearning_guarantee_",
    "_covers",
    "_metadata_request",
    "_turn",
    "_n_features_out",
    "_sklearn_output_config",
}
# What says nothing of any output, and guarantees, which are compared by themselves.
_ASIDE = frozenset(
    {
        "guarantee_",
        "unlearning_guarantee_",
        "_covers",
        "_turn",
        "ledger",
        "memory",
        "n_jobs",
        "random_state",
    }
    | {"strict", "verbose", "verbose_feature_names_out_"}
)
# What such attributes may be: nothing in which rows would find room.
_SMALL = (type(None), bool, int, Guarantee, Ledger, np.random.Generator, np.random.RandomState)
_LONGEST = 4096  # characters of a path
_ARRAYS, _TEXTS = (
    "biufc",
    "OU",
)  # kinds of numpy's types that are hashed by their bytes, or as lists
_DEEPEST = 24  # of what stands within each other
_MANY = 10**9  # records, of which noise hides nothing


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
    if isinstance(model, Trained):
        return {"x": model.x}
    if isinstance(model, ReleasedMoments):
        return {"values": model.values}
    if isinstance(model, Pipeline):
        return parameters_of(model.steps[-1][1])
    held = getattr(model, "__dict__", {})
    if _is_search(model):
        return parameters_of(held["best_estimator_"])
    arrays = {name: held[name] for name in _RELEASED if name in held}
    if held.get("preconditioner_") is not None:
        arrays[MATRIX] = held["preconditioner_"].matrix
    if held.get("guarantee_") is None or not arrays:
        kind = type(model).__name__
        other = "" if _state_of(model) is None else ": of PyTorch's, model_hash is what notes have"
        raise InvalidInput(
            "model", f"expected a fitted model of pabi's, got a {kind} without one{other}"
        )
    return arrays


def model_hash(model: Any) -> str:
    """SHA-256 of everything a fitted model consists of: every step, every setting, all that was fitted.

    Of a module of PyTorch, of what `pabi.integrations.torch.train` returned and of a state dict it is that of
    the state: parameters and buffers by name, whatever device they are on. The layers' code is no part of it.
    Of what `pabi.integrations.jax.train` returned it is that of `params`.

    Of JSON with sorted keys and without spaces, in ASCII. Numbers are `{"float": HEX}` or whole numbers;
    lists, texts, truth values and null are themselves. An array of numbers is `{"array": [TYPE, SHAPE,
    SHA256]}`, the type as numpy writes it, little-endian, the hash that of its bytes in C order. Other arrays
    are lists. Mappings are `{"pairs": …}` in their order, functions and classes `{"name": …}`,
    slices `{"slice": …}`, sets `{"set": …}`. Anything else is `{"object": CLASS, "holds": {NAME: …}}`: of an
    estimator what it holds, but for its guarantees and for what says nothing of any output (`ledger`,
    `memory`, `n_jobs`, `random_state`, `strict`, `verbose`, `verbose_feature_names_out_`); of a description
    its fields that are not the default. A state is `{"state": {NAME: [TYPE, SHAPE, SHA256]}}`, the type as
    PyTorch writes it ("float32").

    Parameters
    ----------
    model : fitted estimator, transformer, search, pipeline, module, TrainedModule, state dict or JaxTrained
        A search counts as its best model.

    Returns
    -------
    str
        64 hexadecimal digits.

    Raises
    ------
    InvalidInput
        An estimator of this library holds an attribute that is no part of it, something in the model has
        no such form, a state has other entries than tensors, or a private step was fitted after one behind
        it.

    References
    ----------
    docs, "Report a guarantee".
    """
    training = sys.modules.get("pabi.integrations.jax.training")
    if training is not None and isinstance(model, training.JaxTrained):
        model = model.params
    if (state := _state_of(model)) is not None:
        whole = {"state": {name: _tensor(name, value) for name, value in state.items()}}
        return hashlib.sha256(_text(whole).encode("ascii")).hexdigest()
    refuse_out_of_turn(model)
    return hashlib.sha256(_text(_tree(model)).encode("ascii")).hexdigest()


def _state_of(model: Any) -> Mapping[str, Any] | None:
    """The state dict that it is, or that a module of PyTorch has; None of what is neither."""
    torch = sys.modules.get("torch")  # without it nothing here is of PyTorch
    if torch is None:
        return None
    module = getattr(model, "module", None) if isinstance(model, Trained) else model
    if isinstance(module, torch.nn.Module):
        return module.state_dict()  # type: ignore[no-any-return]
    named = isinstance(model, Mapping) and model and all(type(key) is str for key in model)
    return model if named and any(isinstance(v, torch.Tensor) for v in model.values()) else None


def _tensor(name: str, value: Any) -> Any:
    """A tensor of a state as JSON: its type, its shape, and the hash of its bytes."""
    torch, kind = sys.modules["torch"], type(value).__name__
    try:
        if value.is_quantized:
            raise TypeError  # its bytes are not all of it
        flat = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        numbers = flat.view(torch.uint8).numpy()
    except Exception:  # no tensor, or one that is sparse, quantised or without values
        expected = f"expected dense tensors with values, got {name!r}, a {kind}"
        raise InvalidInput("model", expected) from None
    if sys.byteorder == "big":
        numbers = numbers.reshape(-1, value.element_size())[:, ::-1]
    total = hashlib.sha256(numbers.tobytes()).hexdigest()
    return [str(value.dtype).removeprefix("torch."), list(value.shape), total]


def notes_of(model: Any) -> dict[str, Any]:
    """What is noted of the release of a fitted model: its parameters, and the model as a whole."""
    return {**released_notes(parameters_of(model)), **note_of_whole(model)}


def note_of_whole(model: Any) -> dict[str, list[str]]:
    """The note with the hash of the whole model; empty where it has none."""
    try:
        return {MODELS: [model_hash(model)]}
    except InvalidInput:
        return {}


def _refuse_unknown(step: BaseEstimator) -> None:
    """Raises InvalidInput where an estimator of this library holds what is no part of it."""
    if not type(step).__module__.startswith("pabi.learn."):
        return
    if unknown := sorted(vars(step).keys() - type(step)._get_param_names() - _HELD):
        kind = type(step).__name__
        raise InvalidInput("model", f"a {kind} holds {', '.join(unknown)}, no part of it")


def _text(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


def _tree(value: Any, depth: int = 0) -> Any:
    """A value as JSON; see `model_hash`."""
    require(depth <= _DEEPEST, "model", "expected nothing that is nested so deeply")
    if isinstance(value, np.generic) and value.dtype.kind in _ARRAYS + _TEXTS:
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if _is_search(value):
        _refuse_unknown(value)
        return _tree(value.best_estimator_, depth + 1)
    if isinstance(value, slice):
        return {"slice": [_tree(one) for one in (value.start, value.stop, value.step)]}
    if isinstance(value, list | tuple | range):
        return [_tree(one, depth + 1) for one in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((_tree(one, depth + 1) for one in value), key=_text)}
    if isinstance(value, Mapping):
        return {"pairs": [[_tree(one, depth + 1) for one in pair] for pair in value.items()]}
    if type(value) in (np.ndarray, StepSizes):
        return _array(value, depth)
    if isinstance(value, np.dtype):
        return {"name": value.str}
    if inspect.isroutine(value) or isinstance(value, type):
        return {"name": f"{getattr(value, '__module__', None)}.{value.__qualname__}"}
    if isinstance(value, np.ufunc):
        return {"name": f"numpy.{value.__name__}"}
    return {"object": type(value).__name__, "holds": _tree_of_parts(value, depth)}


def _array(value: NDArray[Any], depth: int) -> Any:
    if value.dtype.kind in _TEXTS:
        return _tree(value.tolist(), depth + 1)
    # Of dates numpy makes numbers.
    require(value.dtype.kind in _ARRAYS, "model", f"expected no array of {value.dtype} in it")
    plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    total = hashlib.sha256(plain.tobytes()).hexdigest()
    return {"array": [plain.dtype.str, list(value.shape), total]}


def _tree_of_parts(value: Any, depth: int) -> dict[str, Any]:
    """What an object holds, by name. Raises InvalidInput where something cannot be seen."""
    kind, held = type(value).__name__, getattr(value, "__dict__", None)
    if held is None or _holds_more(type(value)):
        raise InvalidInput("model", f"expected nothing like a {kind} in it")
    if isinstance(value, BaseEstimator):
        _refuse_unknown(value)
        if large := sorted(name for name in held.keys() & _ASIDE if not _is_small(held[name])):
            raise InvalidInput("model", f"a {kind} holds {', '.join(large)} of an unexpected kind")
        held = {name: one for name, one in held.items() if name not in _ASIDE}
    elif is_dataclass(value):
        own = {one.name: one for one in fields(value)}
        if unknown := sorted(held.keys() - own.keys()):
            raise InvalidInput("model", f"a {kind} holds {', '.join(unknown)}, no part of it")
        held = {name: one for name, one in held.items() if not _is_default(own[name], one)}
    return {name: _tree(one, depth + 1) for name, one in held.items()}


def _is_small(value: Any) -> bool:
    """Whether it is of a kind in which no rows find room; `_covers` is of guarantees."""
    if type(value) is tuple:
        return all(map(_is_small, value))
    if type(value) is str:
        return len(value) <= _LONGEST
    return type(value) in _SMALL or is_plain_memory(value)


def _holds_more(kind: type) -> bool:
    """Whether objects of a class hold something beside their `__dict__`, as arrays and partials do."""
    return any(
        isinstance(member, GetSetDescriptorType | MemberDescriptorType)
        and name not in ("__dict__", "__weakref__")
        for base in kind.__mro__[:-1]
        for name, member in vars(base).items()
    )


def _is_default(field: Any, value: Any) -> bool:
    """Whether a field of a description has its default, of the same type."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return type(default) is type(value) and not isinstance(value, np.ndarray) and default == value


def _is_search(model: Any) -> bool:
    """Whether it is a fitted search of this library, which predicts as its best model does."""
    return type(model).__module__ == "pabi.learn.search" and "best_estimator_" in vars(model)


def guarantee_of(model: Any, *, strict: bool = True) -> Guarantee:
    """What the release of a fitted estimator or pipeline costs, all private steps together.

    Parameters
    ----------
    model : estimator, Pipeline, ColumnTransformer or FeatureUnion
        One of pabi's, fitted, or a fitted pipeline of pabi's and of steps that are known to learn nothing
        from the data, as `check_pipeline` says. They may stand in each other, in a FixedThresholdClassifier,
        a FrozenEstimator or a TransformedTargetRegressor.
    strict : bool
        Whether a step that is not known is refused. If not, the guarantee assumes that it learnt nothing, and
        treats every row by itself.

    Returns
    -------
    Guarantee
        The composition of the guarantees of all steps that have one, with one certificate.

    Raises
    ------
    InvalidInput
        `model` is neither, is not fitted, or has a step that is known to learn, or that may fit a private
        estimator more than once; with `strict`, also one that is not known; or a private step was fitted
        after one that stands behind it in a pipeline, so that the two do not belong together, or holds other
        values than it released. The message names the step and what it holds.

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
    require(
        not isinstance(model, (type, str)) and hasattr(model, "fit"),
        "model",
        f"expected an estimator, got a {type(model).__name__}",
    )
    parts = list(_parts_of("model", model))
    assumed = [*assumed_known(model), *assumed_unknown(model, strict=strict)]
    refuse_out_of_turn(model)
    guarantees = _not_covered([one for part in parts for one in _costs(*part)], parts)
    require(guarantees, "model", "expected a fitted step with a guarantee, found none")
    whole = together(*guarantees)
    whole = whole.assuming(*assumed) if assumed else whole
    note = note_of_whole(model)
    return whole if models_in(whole.notes) == note.get(MODELS) else whole.noting(note)


def assumed_known(model: Any) -> tuple[str, ...]:
    """What is assumed of the known steps of a fitted model, as sentences."""
    return tuple(s for part in _parts_of("model", model) for s in _assumed_of(*part))


def assumed_unknown(model: Any, *, strict: bool) -> list[str]:
    """What is assumed of the steps of a model that are not known, as sentences, with a warning of each.

    Raises InvalidInput for a step that is known to learn, and where `strict` for any of them.
    """
    findings = list(findings_in(model))
    for finding in findings:
        if finding.severity != UNKNOWN:
            raise refusal(finding)
        if strict:
            raise refusal(finding, "; with strict=False it is assumed that this one is")
    for finding in findings:
        warn_once(
            f"the step {finding.step!r} ({finding.kind}) {matter(finding)}: if it learnt from the data, "
            "or made of a row more than one, no guarantee covers it",
            PrivacyWarning,
        )
    return [UNCLEAR.format(step=finding.step) for finding in findings]


def keep_whole(model: Any, guarantee: Guarantee) -> Guarantee:
    """Gives every private step of a search's best model the search's guarantee, and returns it with notes.

    Each step was chosen with the others, so that by itself it costs no less. Of several steps the last one
    covers those before it.
    """
    releases = notes_of_all(map(released_notes, released_by(model)))
    noted = guarantee.noting(releases | note_of_whole(model))
    before: tuple[Guarantee, ...] = ()
    private = [one for one in _bare(model) if type(getattr(one, "guarantee_", None)) is Guarantee]
    for step in private:
        own = noted if step is private[-1] else guarantee.noting(notes_of(step))
        step.guarantee_ = own
        step._covers = (own, before)  # by identity: whatever is fitted again is not covered
        before = (*before, own)
    return noted


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
    releasing = (one for one in _bare(model) if getattr(one, "guarantee_", None) is not None)
    return tuple(map(parameters_of, releasing)) or (parameters_of(model),)


def _bare(model: Any) -> Iterator[Any]:
    """The steps that hold no others."""
    return (step for _, step in _parts_of("model", model) if steps_within(step) is None)


def _parts_of(path: str, step: Any) -> Iterator[tuple[str, Any]]:
    """(path, step) of everything that was fitted, with what holds other steps after these."""
    for name, part in steps_within(step) or ():
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
        _refuse_changed(path, step, guarantee)
        return [guarantee]
    if is_ours(step) and attributes.get("releases_") == ():  # there was nothing to release
        _refuse_learnt(path, step)
        return []
    require(
        not is_private(step),
        path,
        f"expected a fitted {type(step).__name__}: this one has no guarantee yet",
    )
    return []


def _refuse_learnt(path: str, step: Any) -> None:
    """Raises InvalidInput where a step that released nothing holds other values than its settings say."""
    stated: Mapping[str, Any] = {}
    if nothing := not step.plan(_MANY, step.n_features_in_).releases:
        stated = step._learnt(Parts.of(np.zeros((1, step.n_features_in_))), (), None)
    require(
        nothing and all(_texts(getattr(step, k, ())) == _texts(own) for k, own in stated.items()),
        path,
        f"expected what the settings of this {type(step).__name__} say, which released nothing: it holds "
        "other values",
    )


def _texts(values: Any) -> list[Any]:
    """Levels, or cells, as they are compared; earlier versions wrote "1.0" for "1"."""
    return [_texts(one) if isinstance(one, list | tuple) else text_of(one) for one in values]


def _refuse_changed(path: str, step: Any, guarantee: Guarantee) -> None:
    """Raises InvalidInput where a step holds other values than those that its guarantee notes."""
    noted = [one[SHA256] for one in releases_in(guarantee.notes) if SHA256 in one]
    require(
        not noted or digest(parameters_of(step)) in noted,
        path,
        f"expected the values that this {type(step).__name__} released, they were changed after its fit",
    )

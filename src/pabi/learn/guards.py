"""What stands around a private estimator and voids its guarantee: steps that learn, and searches.

Whatever is not known is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.compose import make_column_selector
from sklearn.pipeline import Pipeline

from pabi.learn.rows import count_anew, id_columns, is_private, turn_of
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.validate import flag

# The steps that are known: those that treat every row by itself, and holders that fit each of theirs
# once.
#
# A step is known by its very class and its settings. So a subclass, a function of one's own and a class
# of another library are not, whatever they do.


# What a fitted step may hold that says nothing of the records but how many columns they have.
_SHAPE = frozenset(
    {
        *("n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_"),
        *("_n_features_out", "_sklearn_output_config", "_metadata_request"),
    }
)


def public_name(step: Any) -> str:
    """Where the class of a step is public, such as "sklearn.impute.SimpleImputer"; "" of any other class.

    "" as well where the instance has a method of its own in place of its class's.
    """
    kind, name = type(step), type(step).__qualname__
    homes = (kind.__module__.partition("._")[0], kind.__module__)
    home = next((h for h in homes if getattr(sys.modules.get(h), name, None) is kind), None)
    own = any(callable(getattr(kind, held, None)) for held in getattr(step, "__dict__", {}))
    return "" if home is None or own else f"{home}.{name}"


def is_ours(step: Any) -> bool:
    """Whether it is of pabi's own, where nothing is learnt without a guarantee; a subclass is not."""
    return public_name(step).startswith("pabi.")


def is_plain_memory(memory: Any) -> bool:
    """Whether what keeps the results of a pipeline's steps is none, a folder or joblib's own."""
    return memory is None or type(memory) is str or public_name(memory) == "joblib.memory.Memory"


def settings_of(step: Any) -> dict[str, Any]:
    """The settings by name; all that it holds where it does not say which of that they are."""
    try:
        return dict(step.get_params(deep=False))
    except Exception:  # of whatever kind: it is not of scikit-learn's manner
        return dict(getattr(step, "__dict__", {}))


def beside_settings(step: Any) -> tuple[str, ...]:
    """The names of what it holds that are no settings; all names where it does not say which are."""
    settings = settings_of(step) if hasattr(step, "get_params") else {}
    return tuple(sorted(getattr(step, "__dict__", {}).keys() - settings.keys() - _SHAPE))


# Row by row.


def row_by_row(step: Any) -> bool | None:
    """Whether a step of scikit-learn treats every row by itself; None where that is not known.

    False where it is known to learn: a class that is not listed, or one with other settings.
    """
    name = public_name(step)
    if not name.startswith("sklearn."):
        return None
    if name not in _ROW_BY_ROW:
        return False
    return _ROW_BY_ROW[name](step) if all(map(_plain, settings_of(step).values())) else None


def depends_on_types(step: Any) -> bool:
    """Whether what a known step of scikit-learn makes of a row depends on the type of the whole table.

    A function transformer is known without a function, or with one of each number by itself.
    """
    name = public_name(step)
    same = name == _IDENTITY and step.func is None and step.inverse_func is None
    return name in _ROW_BY_ROW and not name.startswith(_READING_TEXT) and not same


def _plain(setting: Any) -> bool:
    """Whether a setting can run no code of somebody's own.

    Few functions of numpy's are: what others make of a number depends on the type of the whole column, which
    one gap or one fraction changes. Of integers, np.reciprocal is 0.
    """
    if isinstance(setting, type):  # of cells
        return setting in (int, float) or issubclass(setting, np.generic)
    return not callable(setting) or any(setting is one for one in _OF_DOUBLES)


# Of whole numbers they are what they are of doubles.
_OF_DOUBLES = (np.log1p, np.expm1, np.log, np.exp, np.sqrt, np.cbrt)


def _always(step: Any) -> bool:
    return True


def _declares_levels(step: Any) -> bool:
    """Whether an encoder has its levels from its settings, those it holds as well."""
    if isinstance(step.categories, str) or step.max_categories or step.min_frequency:
        return False
    held = getattr(step, "categories_", step.categories)
    return len(held) == len(step.categories) and all(map(_alike, held, step.categories))


def _alike(one: Any, other: Any) -> bool:
    """Whether two lists of levels are the same; NaN is the same as NaN."""
    return len(one) == len(other) and all(
        a is b or a == b or (a != a and b != b) for a, b in zip(one, other, strict=True)
    )


def _declares_words(step: Any) -> bool:
    words = step.vocabulary
    return words is not None and set(getattr(step, "vocabulary_", words)) == set(words)


def _fills_constants(step: Any) -> bool:
    """Whether an imputer fills with a stated value, and drops no column for being empty."""
    stated = step.strategy == "constant" and step.fill_value is not None
    held = np.ravel(getattr(step, "statistics_", [])).tolist()
    same = all(_alike([one], [step.fill_value]) for one in held)  # not what another strategy learnt
    return bool(stated and same and step.keep_empty_features and not step.add_indicator)


def _states_its_width(step: Any) -> bool:
    return not isinstance(step.gamma, str) and getattr(step, "_gamma", step.gamma) == step.gamma


def _states_its_knots(step: Any) -> bool:
    """Whether splines have the stated knots, those they hold as well."""
    if isinstance(step.knots, str):
        return False
    held, around = getattr(step, "bsplines_", ()), step.degree
    stated = np.asarray(step.knots, dtype=np.float64).T
    inner = [spline.t[around : len(spline.t) - around] for spline in held]
    return not held or (len(held) == len(stated) and all(map(np.array_equal, inner, stated)))


def _weighs_nothing(step: Any) -> bool:
    """Whether no word has a weight that was learnt."""
    return not step.use_idf and not hasattr(getattr(step, "_tfidf", step), "idf_")


_ROW_BY_ROW: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "sklearn.feature_extraction.FeatureHasher": _always,
        "sklearn.feature_extraction.text.CountVectorizer": _declares_words,
        "sklearn.feature_extraction.text.HashingVectorizer": _always,
        "sklearn.feature_extraction.text.TfidfTransformer": _weighs_nothing,
        "sklearn.feature_extraction.text.TfidfVectorizer": (
            lambda step: _declares_words(step) and _weighs_nothing(step)
        ),
        "sklearn.impute.MissingIndicator": (
            lambda step: (
                step.features == "all"
                and np.size(getattr(step, "features_", []))
                in (0, getattr(step, "n_features_in_", 0))
            )
        ),
        "sklearn.impute.SimpleImputer": _fills_constants,
        # Random maps are drawn without a look at the rows.
        "sklearn.kernel_approximation.PolynomialCountSketch": _always,
        "sklearn.kernel_approximation.RBFSampler": _states_its_width,
        "sklearn.kernel_approximation.SkewedChi2Sampler": _always,
        "sklearn.preprocessing.Binarizer": _always,
        "sklearn.preprocessing.FunctionTransformer": (
            lambda step: not step.kw_args and not step.inv_kw_args
        ),
        "sklearn.preprocessing.Normalizer": _always,
        "sklearn.preprocessing.OneHotEncoder": _declares_levels,
        "sklearn.preprocessing.OrdinalEncoder": _declares_levels,
        "sklearn.preprocessing.PolynomialFeatures": _always,
        "sklearn.preprocessing.SplineTransformer": _states_its_knots,
        "sklearn.random_projection.GaussianRandomProjection": _always,
        "sklearn.random_projection.SparseRandomProjection": _always,
    }
)
_READING_TEXT, _IDENTITY = (
    "sklearn.feature_extraction.",
    "sklearn.preprocessing.FunctionTransformer",
)
LABEL_SETS = frozenset(
    f"sklearn.preprocessing.{kind}"
    for kind in ("LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer")
)


# Steps within steps.


def steps_within(step: Any) -> list[tuple[str, Any]] | None:
    """(name, step) of what a known holder has within it and fits once; None of any other step."""
    if (name := public_name(step)) not in _HOLDERS:
        return None
    # Without "passthrough", "drop".
    return [(at, one) for at, one in _HOLDERS[name](step) if not isinstance(one, str | None)]


def inner_steps(step: Any) -> Iterator[tuple[str, Any]]:
    """(name, step) of every setting that can be fitted, and of those in lists, whatever holds them."""
    for name, value in settings_of(step).items():
        for inner, one in _named(name, value):
            if (hasattr(one, "fit") or hasattr(one, "transform")) and not isinstance(one, type):
                yield inner, one


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (list, tuple)):
        yield name, value
        return
    for one in value:
        pair = isinstance(one, tuple) and len(one) > 1 and isinstance(one[0], str)
        yield (one[0], one[1]) if pair else (name, one)


def _of_columns(step: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(step, "transformers_"):
        return ((name, part) for name, part, _ in step.transformers_)
    return ((name, part) for name, part, *_ in (*step.transformers, ("remainder", step.remainder)))


def _of_targets(step: Any) -> Iterator[tuple[str, Any]]:
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    unfitted = LinearRegression() if step.regressor is None else step.regressor
    yield "regressor", getattr(step, "regressor_", unfitted)
    transformer = step.transformer or FunctionTransformer(step.func, inverse_func=step.inverse_func)
    yield "transformer", getattr(step, "transformer_", transformer)


_HOLDERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "sklearn.compose.ColumnTransformer": _of_columns,
        "sklearn.compose.TransformedTargetRegressor": _of_targets,
        "sklearn.frozen.FrozenEstimator": lambda step: [("estimator", step.estimator)],
        "sklearn.model_selection.FixedThresholdClassifier": lambda step: [
            ("estimator", getattr(step, "estimator_", step.estimator))
        ],
        "sklearn.pipeline.FeatureUnion": lambda step: step.transformer_list,
        "sklearn.pipeline.Pipeline": lambda step: step.steps,
    }
)

LEAK, REPEATS, LABEL_SET, UNKNOWN = "leak", "multiplies the cost", "label set", "unknown"
UNITS, QUESTION = "units", "question"
_SAYS = MappingProxyType(
    {
        LEAK: "learns from the data without privacy",
        REPEATS: "may fit a private estimator more than once, or learn beside it: every fit costs",
        LABEL_SET: "learns the set of labels, which has to be public",
        UNKNOWN: "is not known to treat every row by itself",
        UNITS: "counts records where users are to be protected: no guarantee speaks of both",
        QUESTION: "may see several rows of a person: if so, give their ids to fit as groups",
    }
)
_ROUTED = "groups reach every step within sklearn.config_context(enable_metadata_routing=True)"
_CHOSEN = "columns that a function of the table chooses"


@dataclass(frozen=True)
class StepFinding:
    """A step of a pipeline that a guarantee does not cover, or a question about its columns.

    Attributes
    ----------
    step : str
        Where it stands: the names of steps from the outermost on, such as "columns.num.standardscaler".
    learns : tuple of str
        What it holds beside its settings: the names of attributes, never their values. Of a question the
        columns that look like ids; of units how groups would reach it.
    severity : str
        "leak": a step of scikit-learn that learns from the data. "multiplies the cost": it holds a private
        estimator and is not known to fit it just once. "label set": it learns which labels there are, which
        then have to be public. "unknown": it is not on the list of steps that treat every row by itself.
        "units": it counts records, where other steps count users. "question": it may be that a person has
        several rows.
    kind : str
        The name of its class.
    """

    step: str
    learns: tuple[str, ...]
    severity: str
    kind: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.step} ({self.kind}): {matter(self)}"


def matter(finding: StepFinding) -> str:
    """What is the matter with a step."""
    names = ", ".join(finding.learns)
    return _SAYS[finding.severity] + (f" ({names})" if names else "")


class StepFindings(tuple[StepFinding, ...]):
    """All that was found, in order; `print` shows a line for each.

    Parameters
    ----------
    iterable : iterable of StepFinding
        As for a tuple.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """A line for each."""
        return "\n".join(map(str, self)) or "no step learns from the data without privacy"


def check_pipeline(
    pipeline: Any, *, strict: bool = False, groups: bool | None = None
) -> StepFindings:
    """What in a pipeline may learn from the data without privacy, or fit a private estimator more than once.

    Known are pabi's own steps, those of scikit-learn that treat every row by itself, and what holds others
    and fits each once, by their very classes and settings (docs, "What stands around an estimator").
    Everything else is named: a subclass, a function or a class of your own, another library's. Nothing is
    fitted, and no record is looked at.

    Parameters
    ----------
    pipeline : estimator
        A pipeline, a search, a transformer or any other estimator of scikit-learn's manner, fitted or not.
    strict : bool
        Whether to raise an error for a finding that is no question.
    groups : bool, optional
        Whether `fit` will get `groups`, so that users are protected: then they have to reach every private
        step. False: every person has one row. None: as the steps declare `users`; where none does and a
        column looks like an id, that is a question.

    Returns
    -------
    tuple of StepFinding
        In the order of the steps; empty where every step is known. `print` shows it.

    Raises
    ------
    InvalidInput
        `pipeline` is no estimator. With `strict`, anything was found; the error names the first step.

    Notes
    -----
    It cannot see what somebody did to the table before, nor settings that were computed from the data.

    References
    ----------
    docs, "What stands around an estimator".
    """
    strict = flag("strict", strict)
    counts_users = None if groups is None else flag("groups", groups)
    require(
        hasattr(pipeline, "fit") and not isinstance(pipeline, type),
        "pipeline",
        f"expected an estimator of scikit-learn's kind, got a {type(pipeline).__name__}",
    )
    findings = StepFindings((*findings_in(pipeline), *_of_units(pipeline, counts_users)))
    for one in findings:
        if strict and one.severity != QUESTION:
            raise refusal(one)
    return findings


def refusal(finding: StepFinding, advice: str = "") -> InvalidInput:
    """The error that names a step."""
    expected = "expected a step that treats every row by itself, or one of pabi.learn"
    if finding.kind == "TunedThresholdClassifierCV":
        expected = (
            "expected a FixedThresholdClassifier, its threshold public, such as what a false alarm costs, "
            "over the costs of both errors, or tuned on public records"
        )
    return InvalidInput(finding.step, f"{finding.kind} {matter(finding)}: {expected}{advice}")


def findings_in(step: Any, path: str = "") -> Iterator[StepFinding]:
    """What is found of a step and of all steps within it, but for units."""
    if isinstance(step, str | None):
        return
    kind, here = type(step).__name__, path or type(step).__name__.lower()
    within = steps_within(step)
    if within is not None:
        yield from _chosen(here, step)
        if not is_plain_memory(getattr(step, "memory", None)):
            yield StepFinding(here, ("memory",), UNKNOWN, kind)  # it computes in the steps' place
        frozen = public_name(step) == "sklearn.frozen.FrozenEstimator"
        named = set()
        # What it states the next fit learns with, whatever the last one left it.
        for name, part in (*within, *inner_steps(step)):
            for one in findings_in(part, _joined(path, name)):
                if (one.step, one.kind) not in named:
                    named.add((one.step, one.kind))
                    # To which data it was fitted before, nobody knows.
                    yield replace(one, severity=UNKNOWN) if frozen and one.severity == LEAK else one
        return
    repeats = not is_ours(step) and not is_private(step) and _holds_private(step)
    if repeats:
        yield StepFinding(here, (), REPEATS, kind)
    if repeats or is_ours(step):
        for name, part in inner_steps(step):
            yield from findings_in(part, _joined(path, name))
        return
    safe = row_by_row(step)
    if not safe:
        severity = LABEL_SET if public_name(step) in LABEL_SETS else LEAK
        yield StepFinding(here, beside_settings(step), UNKNOWN if safe is None else severity, kind)


def _holds_private(step: Any) -> bool:
    return any(is_private(one) or _holds_private(one) for _, one in inner_steps(step))


def _chosen(path: str, columns: Any) -> Iterator[StepFinding]:
    """Of columns side by side that a function of the table chooses: it may look at the data."""
    for name, _, which in getattr(columns, "transformers", ()):
        if callable(which) and type(which) is not make_column_selector:
            yield StepFinding(f"{path}.{name}", (_CHOSEN,), UNKNOWN, type(columns).__name__)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Units.


def _of_units(pipeline: Any, groups: bool | None) -> Iterator[StepFinding]:
    """The private steps that would not count users where others do; a question where nobody says."""
    private = [(path, step) for path, step in _every_step("", pipeline) if _releases(step)]
    declared = any(_counts_users(step) for _, step in private)
    if groups or (groups is None and declared):
        routing = get_config()["enable_metadata_routing"]
        reached = set(map(id, _reached(pipeline, routing, len(private) == 1)))
        for path, step in private:
            if not hasattr(step, "users") or (declared and not _counts_users(step)):
                yield StepFinding(path, (), UNITS, type(step).__name__)
            elif id(step) not in reached:
                yield StepFinding(path, (_ROUTED,), UNITS, type(step).__name__)
    elif groups is None and private and (ids := id_columns(_columns_of(pipeline))):
        kind = type(pipeline).__name__
        yield StepFinding(kind.lower(), ids, QUESTION, kind)


def _every_step(path: str, step: Any) -> Iterator[tuple[str, Any]]:
    """(path, step) of a step and of all within it."""
    yield path or type(step).__name__.lower(), step
    within = steps_within(step)
    for name, part in inner_steps(step) if within is None else within:
        yield from _every_step(_joined(path, name), part)


def _reached(step: Any, routing: bool, alone: bool) -> Iterator[Any]:
    """The steps that get the `groups` of a fit, or refuse to be fitted without.

    `routing`: whether scikit-learn routes metadata; otherwise whoever fits a pipeline names steps one by one,
    and forgets some, unless one is `alone`.
    """
    if routing and is_private(step):
        gets = step._get_metadata_request().fit.requests.get("groups")
    else:
        gets = alone or _counts_users(step)
    if gets:
        yield step
    if routing or public_name(step) != "sklearn.compose.ColumnTransformer":
        within = steps_within(step)
        for _, part in inner_steps(step) if within is None else within:
            # A search routes by itself.
            yield from _reached(part, routing or is_private(step), alone)


def _releases(step: Any) -> bool:
    """Whether its own fit is a release, and not that of another within it."""
    return is_private(step) and not _holds_private(step)


def _counts_users(step: Any) -> bool:
    """Whether it declares users, or was fitted to some."""
    described = [getattr(step, name, None) for name in ("run_", "moments_")]
    described += getattr(step, "releases_", ())
    fitted = any(getattr(one, "unit", None) == "user" for one in described)
    return fitted or getattr(step, "users", None) is not None


def _columns_of(pipeline: Any) -> Iterator[Any]:
    """What is known of the names of columns."""
    for _, step in _every_step("", pipeline):
        for name in ("feature_names_in_", "columns", "feature_ranges"):
            named = getattr(step, name, ())
            yield from named if isinstance(named, (Mapping, np.ndarray)) else ()
        for _, _, chosen in getattr(step, "transformers", ()):
            yield from (
                [chosen] if isinstance(chosen, str) else chosen if isinstance(chosen, list) else ()
            )


def refuse_out_of_turn(model: Any) -> None:
    """Raises InvalidInput where a private step was fitted after one that stands behind it in a pipeline.

    What the later one was trained on came from another fit then, which nothing here counts.
    """
    for _, step in _every_step("", model):
        latest, before = 0, ""
        for name, part in step.steps if isinstance(step, Pipeline) else ():
            private = (one for _, one in _every_step("", part) if is_private(one))
            turns = [
                turn_of(one) for one in private if getattr(one, "guarantee_", None) is not None
            ]
            require(
                not turns or min(turns) >= latest,
                name,
                f"expected the steps before it as they were at its fit, the step {before!r} was fitted after "
                "this one: fit the pipeline as a whole",
            )
            if turns and max(turns) >= latest:
                latest, before = max(turns), name


def count_users(model: Any, users: int | None) -> None:
    """Declares so many enrolled users in all private steps of a model."""
    for _, step in _every_step("", model):
        if users is not None and _releases(step):
            step.set_params(users=users)


def fitted_to(model: Any, X: Any, y: Any, *, groups: Any) -> Any:
    """The model, fitted to rows of which every private step gets the users; None: to records."""
    if groups is None or not any(is_private(step) for _, step in _every_step("", model)):
        return model.fit(X, y)
    with config_context(enable_metadata_routing=True):
        return model.fit(X, y, groups=groups)


def counted_apart(model: Any) -> Any:
    """The model, whose fits are counted with those of no other: a search accounts for them."""
    for _, step in _every_step("", model):
        if is_private(step):
            count_anew(step)
    return model

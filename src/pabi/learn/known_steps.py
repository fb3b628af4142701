"""The steps that are known: those that treat every row by itself, and holders that fit each of theirs once.

A step is known by its very class and its settings. So a subclass, a function of one's own and a class of
another library are not, whatever they do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

_OURS = "pabi."
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
    kind = type(step)
    home = kind.__module__.partition("._")[0]
    if getattr(sys.modules.get(home), kind.__qualname__, None) is not kind:
        home = kind.__module__
    public = getattr(sys.modules.get(home), kind.__qualname__, None) is kind
    own = any(callable(getattr(kind, name, None)) for name in getattr(step, "__dict__", {}))
    return f"{home}.{kind.__qualname__}" if public and not own else ""


def is_ours(step: Any) -> bool:
    """Whether it is of pabi's own, where nothing is learnt without a guarantee; a subclass is not."""
    return public_name(step).startswith(_OURS)


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

    A function transformer is known only without a function.
    """
    name = public_name(step)
    return name in _ROW_BY_ROW and not name.startswith(_READING_TEXT) and name != _IDENTITY


def _plain(setting: Any) -> bool:
    """Whether a setting can run no code of somebody's own.

    A function of numpy's is none either: what it makes of a number depends on the type of the whole column,
    which one gap or one fraction changes. Of integers, np.reciprocal is 0.
    """
    if isinstance(setting, type):  # of cells
        return setting in (int, float) or issubclass(setting, np.generic)
    return not callable(setting)


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
    inner = getattr(step, "_tfidf", step)
    return not step.use_idf and not hasattr(inner, "idf_")


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
    name = public_name(step)
    return list(_HOLDERS[name](step)) if name in _HOLDERS else None


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

"""Models that are predicted with: loaded only if all types in them are those that a model consists of.

They are those that `pabi train` wrote, and pipelines of pabi's and scikit-learn's steps around a private
estimator of pabi's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_EXPECTED = (
    "expected a model that pabi train wrote, or a pipeline that ends with a fitted estimator of "
    "pabi's (skops)"
)
_ESTIMATORS = frozenset(
    {
        "pabi.learn.classifiers.PrivateLinearSVC",
        "pabi.learn.classifiers.PrivateLogisticRegression",
        "pabi.learn.classifiers.PrivateRidgeClassifier",
        "pabi.learn.regressors.PrivateHuberRegressor",
        "pabi.learn.regressors.PrivateLinearRegression",
        "pabi.learn.regressors.PrivatePoissonRegressor",
    }
)
# What estimators and transformers are and hold. Each only stores and checks what it is made of: none runs
# code that a file brings.
TYPES = _ESTIMATORS | {
    "pabi.describe.batches.BallsInBins",
    "pabi.describe.batches.Cyclic",
    "pabi.describe.batches.FixedSize",
    "pabi.describe.batches.FullBatch",
    "pabi.describe.batches.Poisson",
    "pabi.describe.batches.Reshuffle",
    "pabi.describe.batches.ShuffleOnce",
    "pabi.describe.column_statistics.NoisyColumnStatistics",
    "pabi.describe.losses.Loss",
    "pabi.describe.runs.NoisySGD",
    "pabi.describe.second_moments.NoisySecondMoments",
    "pabi.execute.row_maps.RowMap",
    "pabi.guarantees.guarantee.Guarantee",
    "pabi.learn.categories.PrivateCategories",
    "pabi.learn.imputer.PrivateImputer",
    "pabi.learn.ranges.PrivateRanges",
    "pabi.learn.scaler.PrivateScaler",
    "pabi.learn.schema.SchemaEncoder",
    "pabi.learn.whitener.PrivateWhitener",
}
# A list of columns, which transformers of columns hold in scikit-learn 1.6, and which skops does not know.
_LISTS = frozenset({"sklearn.compose._column_transformer._RemainderColsList"})
TRUSTED = TYPES | _LISTS


@dataclass(frozen=True)
class LoadedModel:
    """A pipeline by its parts.

    `columns`: which columns of a table it reads. `encoder`: of the schema, None where `estimator` is a whole
    pipeline that takes the columns as they are.
    """

    columns: tuple[str, ...]
    encoder: Any
    estimator: Any

    @property
    def last(self) -> Any:
        """The private estimator."""
        return self.estimator if self.encoder is not None else self.estimator.steps[-1][1]


def load_model(file: str) -> LoadedModel:
    """The model in a file. Raises InvalidInput naming the file.

    skops itself refuses every type that is neither its own, scikit-learn's or numpy's, nor among `TRUSTED`.
    """
    io = extra("skops.io", "train")
    if not Path(file).is_file():
        raise InvalidInput(file, f"{_EXPECTED}: no such file")
    try:
        foreign = sorted(set(io.get_untrusted_types(file=file)) - TRUSTED)
        if foreign:
            raise InvalidInput(file, f"{_EXPECTED}, got one that holds a {foreign[0]}: not loaded")
        model = io.load(file, trusted=sorted(TRUSTED))
    except InvalidInput:
        raise
    except Exception as bad:  # of whatever kind: the file is a stranger's
        raise InvalidInput(file, f"{_EXPECTED}: {type(bad).__name__}: {bad}") from None
    return _parts(file, model)


def _parts(file: str, model: Any) -> LoadedModel:
    from sklearn.pipeline import Pipeline

    from pabi.guarantees.guarantee import Guarantee
    from pabi.learn.schema import SchemaEncoder

    steps = [step for _, step in model.steps] if type(model) is Pipeline else []
    alike = len(steps) > 1 and _name(steps[-1]) in _ESTIMATORS
    if not alike or type(getattr(steps[-1], "guarantee_", None)) is not Guarantee:
        raise InvalidInput(
            file, f"{_EXPECTED}: steps that prepare a table, and a fitted model after them"
        )
    if len(steps) == 2 and type(steps[0]) is SchemaEncoder:
        return LoadedModel(tuple(steps[0].columns), steps[0], steps[1])
    return LoadedModel(_named_columns(file, steps[0]), None, model)


def _named_columns(file: str, first: Any) -> tuple[str, ...]:
    """The columns that a first step was fitted to. Raises InvalidInput where they had no names."""
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        raise InvalidInput(file, f"{_EXPECTED}: fitted to a table whose columns have names")
    return tuple(map(str, names))


def _name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def refuse_another_schema(schema: str, encoder: Any) -> None:
    """Raises InvalidInput unless a schema file declares the columns that the model was trained with."""
    from pabi.learn.schema import SchemaEncoder

    stated = SchemaEncoder.from_toml(schema).columns
    theirs = encoder.columns
    if stated.keys() == theirs.keys() and [*stated] != [*theirs]:
        raise InvalidInput(schema, f"columns: expected the order {', '.join(map(repr, theirs))}")
    for name in dict.fromkeys((*theirs, *stated)):
        if stated.get(name) != theirs.get(name):
            raise InvalidInput(
                schema,
                f"columns.{name}: expected what the model was trained with, {theirs.get(name)!r}",
            )

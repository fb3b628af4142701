"""Models that `pabi train` wrote: loaded only if all types in them are those that a model consists of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_EXPECTED = "expected a model that pabi train wrote (skops)"
_ESTIMATORS = frozenset(
    {
        "pabi.learn.classifiers.PrivateLinearSVC",
        "pabi.learn.classifiers.PrivateLogisticRegression",
        "pabi.learn.regressors.PrivateHuberRegressor",
        "pabi.learn.regressors.PrivateLinearRegression",
        "pabi.learn.regressors.PrivatePoissonRegressor",
    }
)
# What estimators hold. Each only stores and checks what it is made of: none runs code that a file brings.
TYPES = _ESTIMATORS | {
    "pabi.describe.batches.BallsInBins",
    "pabi.describe.batches.Cyclic",
    "pabi.describe.batches.FixedSize",
    "pabi.describe.batches.FullBatch",
    "pabi.describe.batches.Poisson",
    "pabi.describe.batches.Reshuffle",
    "pabi.describe.batches.ShuffleOnce",
    "pabi.describe.losses.Loss",
    "pabi.describe.runs.NoisySGD",
    "pabi.describe.second_moments.NoisySecondMoments",
    "pabi.execute.row_maps.RowMap",
    "pabi.guarantees.guarantee.Guarantee",
    "pabi.learn.schema.SchemaEncoder",
}


def load_model(file: str) -> tuple[Any, Any]:
    """(the encoder, the estimator) of a model. Raises InvalidInput naming the file.

    skops itself refuses every type that is neither its own, scikit-learn's or numpy's, nor among `TYPES`.
    """
    io = extra("skops.io", "train")
    if not Path(file).is_file():
        raise InvalidInput(file, f"{_EXPECTED}: no such file")
    try:
        foreign = sorted(set(io.get_untrusted_types(file=file)) - TYPES)
        if foreign:
            raise InvalidInput(file, f"{_EXPECTED}, got one that holds a {foreign[0]}: not loaded")
        model = io.load(file, trusted=sorted(TYPES))
    except InvalidInput:
        raise
    except Exception as bad:  # of whatever kind: the file is a stranger's
        raise InvalidInput(file, f"{_EXPECTED}: {type(bad).__name__}: {bad}") from None
    return _parts(file, model)


def _parts(file: str, model: Any) -> tuple[Any, Any]:
    from sklearn.pipeline import Pipeline

    from pabi.guarantees.guarantee import Guarantee
    from pabi.learn.schema import SchemaEncoder

    steps = [step for _, step in model.steps] if type(model) is Pipeline else []
    alike = len(steps) == 2 and type(steps[0]) is SchemaEncoder and _name(steps[1]) in _ESTIMATORS
    if not alike or type(getattr(steps[1], "guarantee_", None)) is not Guarantee:
        raise InvalidInput(file, f"{_EXPECTED}: the encoder of a schema, and a fitted model")
    return steps[0], steps[1]


def _name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def refuse_another_schema(schema: str, encoder: Any) -> None:
    """Raises InvalidInput unless a schema file declares the columns that the model was trained with."""
    from pabi.learn.schema import SchemaEncoder

    stated = SchemaEncoder.from_toml(schema).columns
    theirs = encoder.columns
    for name in dict.fromkeys((*theirs, *stated)):
        if stated.get(name) != theirs.get(name):
            raise InvalidInput(
                schema,
                f"columns.{name}: expected what the model was trained with, {theirs.get(name)!r}",
            )

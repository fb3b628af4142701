"""`pabi predict`, and models that `pabi train` wrote, from files that may be a stranger's."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pabi.cli.reading import Data, Database, Encoding, Query
from pabi.cli.table_files import STANDARD_INPUT, tables
from pabi.cli.tables import frames, whole_frames
from pabi.cli.writing import emit, one_line, partial_files
from pabi.numbers.errors import InvalidInput, extra, must_be, require

# Models in files.


_EXPECTED = (
    "expected a model that pabi train wrote, or a pipeline that ends with a fitted estimator of "
    "pabi's (skops)"
)
_ESTIMATORS = frozenset(
    {
        "pabi.learn.classifiers.PrivateLinearSVC",
        "pabi.learn.classifiers.PrivateLogisticRegression",
        "pabi.learn.classifiers.PrivateRidgeClassifier",
        "pabi.learn.random_features.PrivateKernelClassifier",
        "pabi.learn.random_features.PrivateKernelRegressor",
        "pabi.learn.regressors.PrivateGammaRegressor",
        "pabi.learn.regressors.PrivateHuberRegressor",
        "pabi.learn.regressors.PrivateLinearRegression",
        "pabi.learn.regressors.PrivatePoissonRegressor",
    }
)
# What estimators and transformers are and hold. Each only stores and checks what it is made of: none runs
# code that a file brings.
TYPES = _ESTIMATORS | {
    "pabi.account.targets.Target",
    "pabi.describe.batches.BallsInBins",
    "pabi.describe.batches.Cyclic",
    "pabi.describe.batches.FixedSize",
    "pabi.describe.batches.FullBatch",
    "pabi.describe.batches.Poisson",
    "pabi.describe.batches.Reshuffle",
    "pabi.describe.batches.ShuffleOnce",
    "pabi.describe.statistics.NoisyColumnStatistics",
    "pabi.describe.losses.Loss",
    "pabi.describe.runs.NoisySGD",
    "pabi.describe.statistics.NoisySecondMoments",
    "pabi.execute.large_records.RowMap",
    "pabi.tradeoff.guarantee.Guarantee",
    "pabi.learn.imputer.PrivateCategories",
    "pabi.learn.imputer.PrivateImputer",
    "pabi.learn.random_features.RandomFeatures",
    "pabi.learn.scaler.PrivateRanges",
    "pabi.learn.scaler.PrivateScaler",
    "pabi.learn.schema.SchemaEncoder",
    "pabi.learn.scaler.PrivateWhitener",
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
    """The model in a file.

    skops itself refuses every type that is neither its own, scikit-learn's or numpy's, nor among `TRUSTED`.
    """
    extra("skops.io", "train")
    require(Path(file).is_file(), file, f"{_EXPECTED}: no such file")
    model = read_skops(
        file,
        lambda foreign: f"{_EXPECTED}, got one that holds a {foreign}: not loaded",
        lambda bad: f"{_EXPECTED}: {type(bad).__name__}: {bad}",
    )
    return _parts_model(file, model)


def read_skops(file: str, foreign: Callable[[str], str], unread: Callable[[Exception], str]) -> Any:
    """What a skops file holds. Raises InvalidInput, with what is said of a type not trusted and of errors."""
    io = extra("skops.io", "train")
    try:
        types = sorted(set(io.get_untrusted_types(file=file)) - TRUSTED)
        if types:
            raise InvalidInput(file, foreign(types[0]))
        return io.load(file, trusted=sorted(TRUSTED))
    except InvalidInput:
        raise
    except Exception as bad:  # of whatever kind: the file is a stranger's
        raise InvalidInput(file, unread(bad)) from None


def _parts_model(file: str, model: Any) -> LoadedModel:
    from sklearn.pipeline import Pipeline

    from pabi.learn.schema import SchemaEncoder
    from pabi.tradeoff.guarantee import Guarantee

    steps = [step for _, step in model.steps] if type(model) is Pipeline else []
    kind = type(steps[-1]) if len(steps) > 1 else None
    alike = kind is not None and f"{kind.__module__}.{kind.__qualname__}" in _ESTIMATORS
    require(
        alike and type(getattr(steps[-1], "guarantee_", None)) is Guarantee,
        file,
        f"{_EXPECTED}: steps that prepare a table, and a fitted model after them",
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


def refuse_another_schema(schema: str, encoder: Any) -> None:
    """Raises InvalidInput unless a schema file declares the columns that the model was trained with."""
    from pabi.learn.schema import SchemaEncoder

    stated = SchemaEncoder.from_toml(schema).columns
    theirs = encoder.columns
    if stated.keys() == theirs.keys() and [*stated] != [*theirs]:
        raise InvalidInput(schema, f"columns: expected the order {', '.join(map(repr, theirs))}")
    for name in dict.fromkeys((*theirs, *stated)):
        require(
            stated.get(name) == theirs.get(name),
            schema,
            f"columns.{name}: expected what the model was trained with, {theirs.get(name)!r}",
        )


# `pabi predict`: predictions of a model that `pabi train` wrote, for a table without the target.


def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model of pabi train, or a pipeline (skops)."),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FILE", help="Where to write predictions (CSV); - is standard output."
        ),
    ],
    data: Data = None,
    query: Query = None,
    database: Database = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="The probability of every class beside it.")
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="P",
            min=0.0,
            max=1.0,
            help="Of two classes predict the second one from this probability on, in place of 0.5; public.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="FILE", help="Refuse a model that was trained with another schema."
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Copy this column, which is no feature, beside them."
        ),
    ] = None,
    encoding: Encoding = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Predict a table with a model that pabi train wrote, or a fitted pipeline of pabi's steps.

    The table has the columns of the schema, or those that the pipeline was fitted to; others, the target too,
    are not looked at. Cells that are missing count as in training. There is one line for each row, in the
    order of the table; --id COLUMN says which it is of. At most 16384 rows are in memory; of a pipeline
    without a schema a whole file, whose columns are numbers or text as pandas reads them. DATA may be - for a
    CSV on standard input.

    The guarantee of the model protects the people it was trained on. Predictions also tell something about
    the people in this table.

    \b
    Examples:
      pabi predict model.skops new.csv --out predictions.csv
      pabi predict model.skops new.csv --proba --out - | head
    """
    loaded = load_model(model)
    for option, needed in (("--proba", proba), ("--threshold", threshold is not None)):
        if needed and not hasattr(loaded.last, "predict_proba"):
            kind = type(loaded.last).__name__
            raise InvalidInput(option, f"expected a logistic model, got a {kind}")
    if threshold is not None and (count := len(loaded.last.classes_)) != 2:
        raise InvalidInput("--threshold", f"expected a model of two classes, got one of {count}")
    if schema is not None:
        if loaded.encoder is None:
            raise InvalidInput("--schema", "expected none: this model was trained without a schema")
        refuse_another_schema(schema, loaded.encoder)
    must_be(
        out == STANDARD_INPUT or out.lower().endswith(".csv"),
        "--out",
        "a file named .csv, or -",
        out,
    )
    must_be(identity not in loaded.columns, "--id", "a column that is no feature", identity)
    files = tables(data or [], encoding, query=query, database=database)
    blocks = _rows(loaded, files, proba, threshold, [] if identity is None else [identity])
    if out == STANDARD_INPUT:
        for block in blocks:
            emit(_csv(block))
        return
    used = [model, *files, *([] if schema is None else [schema])]
    lines = 0
    with (
        partial_files((out,), force, unlike=used) as (part,),
        part.open("w", encoding="utf-8", newline="") as stream,
    ):
        for block in blocks:
            stream.write(_csv(block))
            lines += len(block)
    emit(f"predictions  {lines - 1} rows in {one_line(out)}")


def _rows(
    model: LoadedModel, files: list[str], proba: bool, threshold: float | None, ids: list[str]
) -> Iterator[list[Sequence[Any]]]:
    """Rows of the output, some at a time. The names come with the first: a table that is refused has none."""
    from pabi.execute.cells import cells_of, is_missing

    estimator = model.estimator
    classes = [f"probability={label}" for label in model.last.classes_] if proba else []
    names = [(*ids, "prediction", *classes)]
    for features, beside in _tables(model, files, ids):
        copied = [cells_of(beside[name]).tolist() for name in ids]
        likely: Any = None
        if proba or threshold is not None:
            likely = estimator.predict_proba(features)
        if threshold is None:
            labels = estimator.predict(features).tolist()
        else:
            labels = model.last.classes_[(likely[:, 1] >= threshold).astype(int)].tolist()
        shares = likely.tolist() if proba else [[]] * len(labels)
        parts = zip(zip(labels, *copied, strict=True), shares, strict=True)
        rows = [
            (*("" if is_missing(cell) else cell for cell in cells), label, *share)
            for (label, *cells), share in parts
        ]
        yield [*names, *rows]
        names = []


def _tables(model: LoadedModel, files: list[str], ids: list[str]) -> Iterator[tuple[Any, Any]]:
    """What the estimator is given: encoded rows, some at a time, or whole files as pandas reads them; and
    frames with the ids."""
    columns = list(model.columns)
    if model.encoder is None:
        return ((frame[columns], frame) for frame in whole_frames(files, columns, ids))
    return ((model.encoder.transform(frame), frame) for frame in frames(files, [*columns, *ids]))


def _csv(rows: list[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()

"""`pabi predict`: predictions of a model that `pabi train` wrote, for a table without the target."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from pabi.cli.models import LoadedModel, load_model, refuse_another_schema
from pabi.cli.output_files import partial_files
from pabi.cli.table_files import STANDARD_INPUT, table_files
from pabi.cli.tables import frames, whole_frames
from pabi.cli.training import Data
from pabi.cli.writing import emit, one_line
from pabi.numbers.errors import InvalidInput


def predict(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model of pabi train, or a pipeline (skops)."),
    ],
    data: Data,
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FILE", help="Where to write predictions (CSV); - is standard output."
        ),
    ],
    proba: Annotated[
        bool, typer.Option("--proba", help="The probability of every class beside it.")
    ] = False,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="FILE", help="Refuse a model that was trained with another schema."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Predict a table with a model that pabi train wrote, or a fitted pipeline of pabi's steps.

    The table has the columns of the schema, or those that the pipeline was fitted to; others, the target too,
    are not looked at. Cells that are missing count as in training. There is one line for each row, in the
    order of the table. At most 16384 rows are in memory; of a pipeline without a schema a whole file, whose
    columns are numbers or text as pandas reads them. DATA may be - for a CSV on standard input.

    The guarantee of the model protects the people it was trained on. Predictions also tell something about
    the people in this table.

    \b
    Examples:
      pabi predict model.skops new.csv --out predictions.csv
      pabi predict model.skops new.csv --proba --out - | head
    """
    loaded = load_model(model)
    if proba and not hasattr(loaded.last, "predict_proba"):
        kind = type(loaded.last).__name__
        raise InvalidInput("--proba", f"expected a logistic model, got a {kind}")
    if schema is not None:
        if loaded.encoder is None:
            raise InvalidInput("--schema", "expected none: this model was trained without a schema")
        refuse_another_schema(schema, loaded.encoder)
    if out != STANDARD_INPUT and not out.lower().endswith(".csv"):
        raise InvalidInput("--out", f"expected a file named .csv, or -, got {out!r}")
    files = table_files(data)
    blocks = _rows(loaded, files, proba)
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


def _rows(model: LoadedModel, files: list[str], proba: bool) -> Iterator[list[Sequence[Any]]]:
    """Rows of the output, some at a time. The names come with the first: a table that is refused has none."""
    estimator = model.estimator
    classes = [f"probability={label}" for label in model.last.classes_] if proba else []
    names = [("prediction", *classes)]
    for features in _tables(model, files):
        labels = estimator.predict(features).tolist()
        shares = estimator.predict_proba(features).tolist() if proba else [[]] * len(labels)
        rows = [(label, *share) for label, share in zip(labels, shares, strict=True)]
        yield [*names, *rows]
        names = []


def _tables(model: LoadedModel, files: list[str]) -> Iterator[Any]:
    """What the estimator is given: encoded rows, some at a time, or whole files as pandas reads them."""
    columns = list(model.columns)
    if model.encoder is None:
        return whole_frames(files, columns)
    return map(model.encoder.transform, frames(files, columns))


def _csv(rows: list[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()

"""`pabi plan`: what a training would cost and do, before there are any data."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pabi.cli.options import (
    Adjacency,
    Epochs,
    FeatureNorm,
    Model,
    OneRowEach,
    TargetDelta,
    TargetEpsilon,
)
from pabi.cli.output_files import partial_files
from pabi.cli.reading import read_positive, read_target
from pabi.cli.writing import emit
from pabi.numbers.errors import InvalidInput


def plan(
    schema: Annotated[
        str, typer.Option("--schema", metavar="FILE", help="The schema, as for pabi train.")
    ],
    epsilon: TargetEpsilon = None,
    delta: TargetDelta = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, metavar="N", help="How many rows there will be.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            "--users", min=1, metavar="N", help="Or how many users, if they are protected."
        ),
    ] = None,
    one_row_each: OneRowEach = False,
    model: Model = "logistic",
    adjacency: Adjacency = None,
    feature_norm: FeatureNorm = None,
    epochs: Epochs = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write the training as a run file (TOML)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """What pabi train would do with a table of this size, and what it costs, without any data.

    The run file of --out is of the training alone. Where the plan names preconditioning, its release is
    another one, and the cost above is that of both.

    \b
    Examples:
      pabi plan --schema schema.toml --rows 50000000 --epsilon 1 --delta 1e-9
      pabi plan --schema schema.toml --users 2000 --epsilon 1 --delta 1e-6 --out run.toml
    """
    from pabi.cli.schema_file import schema_text
    from pabi.cli.training import ask_of_users, schema_for
    from pabi.describe.files import to_dict
    from pabi.describe.run_files import run_file

    limit, at = read_target(epsilon, delta)
    size = _size(rows, users)
    options: dict[str, Any] = {
        "adjacency": adjacency,
        "feature_norm": read_positive("--feature-norm", feature_norm),
        "epochs": read_positive("--epochs", epochs),
        "users": users,
    }
    declared = schema_for(schema, schema_text(schema), model=model, target=None)
    estimator = declared.estimator(
        **{name: value for name, value in options.items() if value is not None},
        epsilon=limit,
        delta=at,
    )
    if declared.range is None and declared.levels is None:
        raise InvalidInput(schema, "target: expected levels: without data nothing else says them")
    planned = estimator.plan(size, len(declared.encoder.get_feature_names_out()))
    if out is not None:
        comments = f"planned for epsilon {limit!r} at delta {at!r}, {size} {planned.size.unit}s"
        with partial_files((out,), force, unlike=(schema,)) as (file,):
            file.write_text(run_file(to_dict(planned.run), [comments]), encoding="utf-8")
    if users is None and not one_row_each:
        ask_of_users(list(declared.columns), "--users N in place of --rows")
    emit(str(planned))


def _size(rows: int | None, users: int | None) -> int:
    """How many are protected. Raises InvalidInput unless just one of them says so."""
    sizes = [size for size in (rows, users) if size is not None]
    if len(sizes) != 1:
        raise InvalidInput("--rows", "expected either --rows or --users")
    return sizes[0]

"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

TargetEpsilon = Annotated[
    str | None, typer.Option("--epsilon", metavar="E", help="The target epsilon. Required.")
]
TargetDelta = Annotated[
    str | None, typer.Option("--delta", metavar="D", help="The target's delta. Required.")
]
Model = Annotated[
    str, typer.Option("--model", metavar="M", help="logistic, linear, svc, poisson or huber.")
]
Adjacency = Annotated[
    str | None,
    typer.Option("--adjacency", metavar="A", help="replace_one (default) or zero_out."),
]
FeatureNorm = Annotated[
    str | None,
    typer.Option(
        "--feature-norm",
        metavar="R",
        help="Scale longer rows down to this norm; by default no row is longer.",
    ),
]
OneRowEach = Annotated[
    bool,
    typer.Option("--one-row-each", help="Nobody has several rows: do not ask whose a row is."),
]
Epochs = Annotated[str | None, typer.Option("--epochs", metavar="N", help="Passes over the data.")]

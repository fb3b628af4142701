"""`pabi forget`: what forgetting records will cost, before anybody asks for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pabi.cli.reading import (
    describe,
    file_name,
    read_delta,
    read_epsilon,
    read_whole,
    required,
)
from pabi.cli.writing import basis, emit, emit_json, origin, reading
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import shown


def forget(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A run file (TOML); - is standard input.")
    ],
    plan: Annotated[bool, typer.Option("--plan", help="Plan, and do nothing. Required.")] = False,
    epochs: Annotated[
        str | None,
        typer.Option(
            "--epochs", metavar="K", help="Epochs after the request: what do they promise?"
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon", metavar="E", help="A target epsilon: how many epochs does it take?"
        ),
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="The delta of both. Required.")
    ] = None,
    records: Annotated[
        str, typer.Option("--records", metavar="M", help="Records, or users, withdrawn together.")
    ] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What is promised of a model that forgets records, or how many epochs that takes.

    The run goes on for K epochs without the records. It is compared with one that was retrained without
    them. With --epsilon the fewest epochs are found.

    \b
    Examples:
      pabi forget run.toml --plan --epochs 1 --delta 1e-5 --records 10
      pabi forget run.toml --plan --epsilon 0.5 --delta 1e-5
    """
    if not plan:
        raise InvalidInput("--plan", "missing: forgetting is planned here, and not performed")
    at, target = required("--delta", read_delta(delta)), read_epsilon(epsilon)
    if (epochs is None) == (target is None):
        raise InvalidInput("--epochs", "expected exactly one of --epochs and --epsilon")
    count = read_whole("--records", records, 1)
    run = _run(file)
    if target is not None and target == 0.0:
        raise InvalidInput("--epsilon", f"expected a number > 0, got {epsilon!r}")
    later = (
        run.epochs_to_forget(target, at, count)
        if epochs is None
        else read_whole("--epochs", epochs, 0)
    )
    guarantee = run.unlearning(at, epochs=later, records=count)
    cost = guarantee.epsilon(at)
    if as_json:
        emit_json(reading(guarantee, cost, at, epochs=later, records=count))
        return
    lines = [
        f"epochs       {later} after the request, to forget {count} of {run.n} {run.unit}s",
        f"epsilon      {shown(cost)} at delta {at!r}",
        *origin(guarantee),
        *basis(guarantee.adjacency, guarantee.assumptions),
    ]
    emit("\n".join(lines))


def _run(file: str) -> Any:
    """The run of noisy SGD in a file."""
    from pabi.describe.runs import NoisySGD

    run = describe(file)
    if type(run) is not NoisySGD:
        raise InvalidInput(
            file_name(file), 'kind: expected "noisy_sgd", which alone is made to forget'
        )
    return run

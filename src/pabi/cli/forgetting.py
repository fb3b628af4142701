"""`pabi forget`: records are forgotten, or what that will take is planned."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pabi.cli.ledgers import opened
from pabi.cli.reading import (
    describe,
    file_name,
    read_delta,
    read_epsilon,
    read_target,
    read_whole,
    required,
)
from pabi.cli.requests import (
    Outputs,
    Way,
    meet_request,
    plan_request,
    required_file,
    staying,
    write_again,
)
from pabi.cli.state_origin import state_file
from pabi.cli.writing import basis, emit, emit_json, origin, reading
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import shown


def forget(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A secret state; with --plan also a run file (TOML), - is standard input.",
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA", help="The table of the training; forgotten rows may be blank in it."
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="FILE",
            help="The rows to forget, a number a line, counted from 0 without the header.",
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option("--key-file", metavar="FILE", help="The key of the state."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Where to write the model (skops)."),
    ] = None,
    guarantee: Annotated[
        str | None,
        typer.Option("--guarantee", metavar="FILE", help="Where to write what is promised (JSON)."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it takes, and do nothing.")
    ] = False,
    epochs: Annotated[
        str | None,
        typer.Option(
            "--epochs",
            metavar="K",
            help="Epochs after the request: what do they promise? Of a run file.",
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
        str | None,
        typer.Option(
            "--records",
            metavar="M",
            help="Records, or users, withdrawn together; default 1. Of a run file.",
        ),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain", help="Train anew without the rows, and forget exactly. Of a state."
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on although all who stay lose by it. Of a state."),
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="The ledger of the training; retraining spends from it.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Take records out of a model, or plan it.

    With --key-file FILE is the secret state that pabi train --keep-state wrote. Training goes on without the
    rows until the model is, within epsilon and delta, one that was retrained without all rows that were
    forgotten so far. The state is the new one then. Without --rows the model of the state is written again.
    More steps cost all who stay: where that is much, it is refused without --accept-loss, and --retrain is
    better.

    With --plan nothing is done: it says how many epochs a request takes, and what it costs those who stay.
    FILE may then be a run file, and K epochs be asked for.

    \b
    Examples:
      pabi forget state.pabi people.csv --rows rows.txt --key-file state.key --epsilon 0.5 --delta 1e-6 \\
        --out forgot.skops --guarantee forgot.json
      pabi forget state.pabi --rows rows.txt --key-file state.key --epsilon 0.5 --delta 1e-6 --plan
      pabi forget run.toml --plan --epochs 1 --delta 1e-5 --records 10
    """
    if key_file is not None:
        _refuse("--epochs", epochs, "a state is made to forget at a target epsilon")
        _refuse("--records", records, "--rows says which records are forgotten")
        state = state_file(file, key_file)
        if plan:
            _refuse("--ledger", ledger, "a plan spends nothing")
            plan_request(state, rows, read_target(epsilon, delta), as_json=as_json)
            return
        used = [] if ledger is None else [ledger]
        way = Way(retrain, accept_loss, None if ledger is None else opened(ledger))
        files = Outputs(required_file("--out", out), required_file("--guarantee", guarantee), force)
        if rows is None:
            write_again(state, files, way, unlike=[file, key_file, *used])
            return
        meet_request(
            state,
            data or [],
            rows,
            read_target(epsilon, delta),
            way,
            files=files,
            unlike=[file, key_file, rows, *used],
        )
        return
    if not plan:
        raise InvalidInput(
            "--plan", "missing: a run file is planned with; a secret state comes with --key-file"
        )
    for name, value in (
        ("DATA", data),
        ("--rows", rows),
        ("--out", out),
        ("--guarantee", guarantee),
        ("--ledger", ledger),
        ("--retrain", retrain or None),
        ("--accept-loss", accept_loss or None),
    ):
        _refuse(name, value, "a run file is planned with, and nothing else is read or written")
    _plan_of_run(
        file, epochs=epochs, epsilon=epsilon, delta=delta, records=records or "1", as_json=as_json
    )


def _refuse(name: str, value: Any, reason: str) -> None:
    if value is not None and value != []:
        raise InvalidInput(name, f"expected none: {reason}")


def _plan_of_run(
    file: str,
    *,
    epochs: str | None,
    epsilon: str | None,
    delta: str | None,
    records: str,
    as_json: bool,
) -> None:
    """Says what a run of a file promises of forgetting, or how many epochs a target takes."""
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
        *staying(guarantee),
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

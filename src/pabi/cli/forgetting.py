"""`pabi forget`: records are forgotten from a state that `pabi train` kept, or what that takes is planned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from pabi.cli.ledgers import opened
from pabi.cli.reading import (
    noisy_sgd,
    read_delta,
    read_epsilon,
    read_target,
    read_text,
    read_whole,
    required,
)
from pabi.cli.table_files import table_files
from pabi.cli.training import DECLARED
from pabi.cli.writing import (
    basis,
    emit,
    emit_json,
    one_line,
    origin,
    partial_files,
    reading,
    write_model,
)
from pabi.execute.cells import texts_of
from pabi.numbers.errors import (
    NotApplicable,
    TargetUnreachable,
    extra,
    must_be,
    require,
)
from pabi.numbers.showing import shown

if TYPE_CHECKING:
    from pabi.budget.ledger import Ledger
    from pabi.cli.schema_file import Origin
    from pabi.describe.runs import NoisySGD
    from pabi.execute.state_files import StateFile
    from pabi.execute.states import SecretState
    from pabi.tradeoff.guarantee import Guarantee

# Requests to forget, met and planned from the state that `pabi train --keep-state` wrote.


_MOST = 1 << 28  # bytes of a list of rows


class Way(NamedTuple):
    """How a request may be met, with the ledger of the training, if there is one; and the files of the model
    and of what is promised of it, `force`: over existing ones."""

    retrain: bool
    accept_loss: bool
    ledger: Ledger | None
    model: str
    guarantee: str
    force: bool


class RowsToForget(NamedTuple):
    """The file of the rows to forget, or of the ids of users."""

    rows: str | None
    users: str | None

    def numbers(self, state: SecretState, column: NDArray[Any] | None) -> NDArray[np.intp]:
        """The rows. `column`: the id of every row, where users are asked for. Raises InvalidInput."""
        from pabi.learn.rows import checked_rows

        if self.rows is not None:
            numbers = _numbers(self.rows)
        else:
            ids = self.ids(state)
            assert column is not None
            own = texts_of("--users", column)
            missing = "expected ids that have rows in the table, one a line: some has none"
            require(ids <= set(own), "--users", missing)
            numbers = np.flatnonzero([one in ids for one in own])
        return checked_rows(numbers, state.rows, state.forgotten)

    def ids(self, state: SecretState) -> set[str]:
        """The ids of users, as the cells of a table are read. Raises InvalidInput."""
        require(
            state.users is not None, "--users", "expected --rows: this training had no --groups"
        )
        lines = read_text(required("--users", self.users), "a list of ids", _MOST).splitlines()
        ids = {text for text in texts_of("--users", np.array(lines, dtype=object)) if text}
        require(ids, "--users", "expected an id a line, got none")
        return ids

    def counted(self, state: SecretState) -> int:
        """How many records, or users, are asked for, without the table."""
        if self.rows is None:
            return len(self.ids(state))
        return state.counted(self.numbers(state, None))


def plan_request(
    state: StateFile, which: RowsToForget, target: tuple[float, float], *, as_json: bool
) -> None:
    """Says how a request would be met."""
    from pabi.execute.state_files import state_in
    from pabi.learn.forgetting import planned_for, retrained_for

    held = state_in(state)
    count = which.counted(held)
    try:
        plan = planned_for(held, count, *target)
    except (NotApplicable, TargetUnreachable) as no:
        if as_json:
            raise
        emit("\n".join([f"going on     {no}", *staying(retrained_for(held, count, *target))]))
        return
    _show_plan(plan.guarantee, held.run, target[1], plan.epochs, count, as_json=as_json)


def _show_plan(
    proven: Guarantee, run: NoisySGD, delta: float, epochs: int, records: int, *, as_json: bool
) -> None:
    cost = proven.epsilon(delta)
    if as_json:
        emit_json(reading(proven, cost, delta, epochs=epochs, records=records))
        return
    lines = [
        f"epochs       {epochs} after the request, to forget {records} of {run.n} {run.unit}s",
        f"epsilon      {shown(cost)} at delta {delta!r}",
        *staying(proven),
    ]
    emit("\n".join(lines + origin(proven) + basis(proven)))


def staying(proven: Guarantee) -> list[str]:
    """Lines of what those who stay pay."""
    from pabi.account.forgetting import bill_in_words, read_bill

    bill = read_bill(proven.notes)
    if bill is None:
        return []
    advice = "they lose by going on: give --retrain, or --accept-loss to go on all the same"
    lines = [f"  - {line}" for line in (*bill_in_words(bill), *([advice] if bill.dear else []))]
    return ["those who stay", *lines]


def meet_request(
    state: StateFile,
    data: Sequence[str],
    which: RowsToForget,
    target: tuple[float, float] | None,
    way: Way,
    *,
    unlike: Sequence[str],
) -> None:
    """Goes on or retrains without the rows, and writes the model and what is promised of it.

    `target`: None for that of the training, which retraining meets whatever it is.
    """
    from pabi.execute.state_files import state_in

    extra("skops.io", "train")
    require(data, "DATA", "missing: expected the table of the training")
    tables = table_files(data)
    held = state_in(state)
    if target is None:
        target = tuple(_origin(state, held).arguments[name] for name in ("epsilon", "delta"))
    names, at = (way.model, way.guarantee), target[1]
    with partial_files(names, way.force, unlike=[*unlike, *tables]) as parts:
        encoder, newer = _forgot(state, held, tables, which, target, way)
        promised = _promised(newer, way.retrain)
        proven = write_model(_pipeline(encoder, newer), promised, at, parts)
    every = state_in(state)
    last = every.log[-1].forgotten
    counted = f"{last} of {held.run.n} {held.run.unit}s, {every.withdrawn} in all"
    lines = [
        f"forgotten    {counted}{', exactly' if way.retrain else ''}",
        f"epsilon      {shown(proven.epsilon(at))} at delta {at!r}",
        f"model        {one_line(way.model)}",
        *staying(proven),
    ]
    emit("\n".join(lines + origin(proven) + basis(proven)))


def _promised(fitted: Any, retrained: bool) -> Guarantee:
    """What is written of a model: what is promised of forgetting, of a retrained one its privacy; with the
    bill."""
    from pabi.account.forgetting import BILL

    forgetting: Guarantee = fitted.unlearning_guarantee_
    if not retrained:
        return forgetting
    own: Guarantee = fitted.guarantee_
    return own.noting({BILL: forgetting.notes[BILL]})


def write_again(state: StateFile, way: Way, *, unlike: Sequence[str]) -> None:
    """Writes the model of a state once more, and what was promised of it."""
    from pabi.execute.state_files import state_in

    extra("skops.io", "train")
    held = state_in(state)
    origin_of = _origin(state, held)
    with partial_files((way.model, way.guarantee), way.force, unlike=unlike) as parts:
        schema = origin_of.declared
        fitted = schema.estimator(**origin_of.arguments, ledger=way.ledger).restored(state)
        _as_train_does(fitted)
        promised = _promised(fitted, held.log[-1].retrained) if held.log else fitted.guarantee_
        whole = _pipeline(schema.encoder, fitted)
        write_model(whole, promised, origin_of.arguments["delta"], parts)
    emit(f"model        {one_line(way.model)}, written again: {len(held.forgotten)} rows forgotten")


def _forgot(
    state: StateFile,
    held: SecretState,
    tables: list[str],
    which: RowsToForget,
    target: tuple[float, float],
    way: Way,
) -> tuple[Any, Any]:
    """(the encoder, the estimator that has forgotten the rows)."""
    from pabi.cli.schema_file import read_encoded

    origin_of = _origin(state, held)
    schema = origin_of.declared
    encoder = schema.encoder
    estimator = schema.estimator(**origin_of.arguments, ledger=way.ledger)
    ids = [] if which.users is None or origin_of.groups is None else [origin_of.groups]
    with warnings.catch_warnings():
        warnings.filterwarnings("always", ".*keep it to yourself")  # for whoever holds the data
        table = read_encoded(tables, encoder, [origin_of.target, *ids])
        require(
            table.records == held.rows,
            "DATA",
            f"expected {held.rows} rows as in the training, forgotten ones may be blank, got "
            f"{table.records}",
        )
        rows = which.numbers(held, next((table.others[name] for name in ids), None))
        blank = np.union1d(held.forgotten, rows)
        targets = schema.targets(origin_of.target, table.others[origin_of.target], blank)
        newer = estimator.forget(
            table.features,
            targets,
            rows.tolist(),
            *target,
            state=state,
            retrain=way.retrain,
            accept_loss=way.accept_loss,
        )
    _as_train_does(newer)
    return encoder, newer


def _as_train_does(fitted: Any) -> None:
    """What holds of every model of the command line: its schema was declared, and it names no ledger."""
    fitted.guarantee_ = fitted.guarantee_.assuming(DECLARED)
    fitted.ledger = None


def _origin(state: StateFile, held: SecretState) -> Origin:
    from pabi.cli.schema_file import Origin

    return Origin.read(str(state.path), held.facts["note"])


def _pipeline(encoder: Any, fitted: Any) -> Any:
    """From raw columns to predictions."""
    from sklearn.pipeline import make_pipeline

    encoder.feature_names_in_ = np.array(
        list(encoder.columns), dtype=object
    )  # also without a table
    return make_pipeline(encoder, fitted)


def _numbers(file: str) -> NDArray[np.intp]:
    """The whole numbers in a file, one a line. Raises InvalidInput."""
    lines = read_text(file, "a list of rows", _MOST).split()
    return np.array([read_whole(file, line, 0) for line in lines], dtype=np.intp)


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
    users: Annotated[
        str | None,
        typer.Option(
            "--users",
            metavar="FILE",
            help="The users to forget, with all their rows, an id a line. Of a training with --groups.",
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
    """Take records, or users, out of a model, or plan it.

    With --key-file FILE is the secret state that pabi train --keep-state wrote. Training goes on without the
    rows until the model is, within epsilon and delta, one that was retrained without all rows that were
    forgotten so far. The state is the new one then. Without --rows and --users the model of the state is
    written again. Of a training with --groups users are forgotten, each with all rows. With --retrain no
    epsilon and delta are needed.
    More steps cost all who stay: where that is much, it is refused without --accept-loss, and --retrain is
    better.

    With --plan nothing is done: it says how many epochs a request takes, and what it costs those who stay.
    FILE may then be a run file, and K epochs be asked for.

    \b
    Examples:
      pabi forget state.pabi people.csv --rows rows.txt --key-file state.key --epsilon 0.5 --delta 1e-6 \\
        --out forgot.skops --guarantee forgot.json
      pabi forget state.pabi --rows rows.txt --key-file state.key --epsilon 0.5 --delta 1e-6 --plan
      pabi forget state.pabi visits.csv --users ids.txt --key-file state.key --retrain \\
        --out forgot.skops --guarantee forgot.json
      pabi forget run.toml --plan --epochs 1 --delta 1e-5 --records 10
    """
    if key_file is not None:
        _refuse("--epochs", epochs, "a state is made to forget at a target epsilon")
        _refuse("--records", records, "--rows says which records are forgotten")
        _refuse("--users", rows and users, "--rows says which records are forgotten")
        from pabi.cli.schema_file import state_file

        state, which = state_file(file, key_file), RowsToForget(rows, users)
        if plan:
            _refuse("--ledger", ledger, "a plan spends nothing")
            plan_request(state, which, read_target(epsilon, delta), as_json=as_json)
            return
        used = [] if ledger is None else [ledger]
        way = Way(
            retrain,
            accept_loss,
            None if ledger is None else opened(ledger),
            required("--out", out),
            required("--guarantee", guarantee),
            force,
        )
        named = [name for name in which if name is not None]
        if not named:
            write_again(state, way, unlike=[file, key_file, *used])
            return
        meet_request(
            state,
            data or [],
            which,
            None if retrain and epsilon is delta is None else read_target(epsilon, delta),
            way,
            unlike=[file, key_file, *named, *used],
        )
        return
    require(
        plan, "--plan", "missing: a run file is planned with; a secret state comes with --key-file"
    )
    for name, value in (
        ("DATA", data),
        ("--rows", rows),
        ("--users", users),
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
    require(value is None or value == [], name, f"expected none: {reason}")


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
    require(
        (epochs is None) != (target is None),
        "--epochs",
        "expected exactly one of --epochs and --epsilon",
    )
    count = read_whole("--records", records, 1)
    run = noisy_sgd(file, "made to forget")
    must_be(target is None or target != 0.0, "--epsilon", "a number > 0", epsilon)
    later = (
        run.epochs_to_forget(target, at, count)
        if epochs is None
        else read_whole("--epochs", epochs, 0)
    )
    guarantee = run.unlearning(at, epochs=later, records=count)
    _show_plan(guarantee, run, at, later, count, as_json=as_json)

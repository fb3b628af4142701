"""Requests to forget, met and planned from the state that `pabi train --keep-state` wrote."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pabi.cli.output_files import partial_files
from pabi.cli.reading import read_text, read_whole
from pabi.cli.state_origin import Origin
from pabi.cli.table_files import table_files
from pabi.cli.training import DECLARED
from pabi.cli.writing import basis, emit, emit_json, json_text, one_line, origin, reading
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra
from pabi.numbers.showing import shown

if TYPE_CHECKING:
    from pabi.budget.ledger import Ledger
    from pabi.forgetting.state_files import StateFile
    from pabi.forgetting.states import SecretState
    from pabi.guarantees.guarantee import Guarantee

_MOST = 1 << 28  # bytes of a list of rows


@dataclass(frozen=True)
class Outputs:
    """The files of a model and of what is promised of it; `force`: over existing ones."""

    model: str
    guarantee: str
    force: bool


class Way(NamedTuple):
    """How a request may be met, and the ledger of the training, if there is one."""

    retrain: bool
    accept_loss: bool
    ledger: Ledger | None


def required_file(name: str, value: str | None) -> str:
    """The file that the option `name` states. Raises InvalidInput where it is left out."""
    if value is None:
        raise InvalidInput(name, "missing: this command needs it")
    return value


def plan_request(
    state: StateFile, rows: str | None, target: tuple[float, float], *, as_json: bool
) -> None:
    """Says how a request would be met."""
    from pabi.forgetting.state_files import state_in
    from pabi.learn.forgetting import checked_rows, planned_for

    held = state_in(state)
    numbers = checked_rows(_numbers(required_file("--rows", rows)), held.run.n, held.forgotten)
    plan = planned_for(held, len(numbers), *target)
    proven, at = plan.guarantee, target[1]
    cost = proven.epsilon(at)
    if as_json:
        emit_json(reading(proven, cost, at, epochs=plan.epochs, records=len(numbers)))
        return
    lines = [f"epochs       {plan.epochs} after the request, {_forgetting(held, len(numbers))}"]
    lines.append(f"epsilon      {shown(cost)} at delta {at!r}")
    lines += staying(proven)
    emit("\n".join(lines + origin(proven) + basis(proven.adjacency, proven.assumptions)))


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
    rows: str,
    target: tuple[float, float],
    way: Way,
    *,
    files: Outputs,
    unlike: Sequence[str],
) -> None:
    """Goes on or retrains without the rows, and writes the model and what is promised of it."""
    from pabi.forgetting.state_files import state_in
    from pabi.learn.hashes import note_of_whole

    skops = extra("skops.io", "train")
    if not data:
        raise InvalidInput("DATA", "missing: expected the table of the training")
    tables = table_files(data)
    held = state_in(state)
    numbers = _numbers(rows)
    with partial_files((files.model, files.guarantee), files.force, unlike=[*unlike, *tables]) as (
        model_file,
        guarantee_file,
    ):
        encoder, newer = _forgot(state, held, tables, numbers, target, way)
        whole = _pipeline(encoder, newer)
        skops.dump(whole, model_file)
        proven, at = _promised(newer, way.retrain).noting(note_of_whole(whole)), target[1]
        text = json_text(reading(proven, proven.epsilon(at), at))
        guarantee_file.write_text(f"{text}\n", encoding="utf-8")
    lines = [f"forgotten    {_counted(held, len(numbers))}{', exactly' if way.retrain else ''}"]
    lines.append(f"epsilon      {shown(proven.epsilon(at))} at delta {at!r}")
    lines.append(f"model        {one_line(files.model)}")
    lines += staying(proven)
    emit("\n".join(lines + origin(proven) + basis(proven.adjacency, proven.assumptions)))


def _promised(fitted: Any, retrained: bool) -> Guarantee:
    """What is written of a model: what is promised of forgetting, of a retrained one its privacy; with the
    bill."""
    from pabi.account.forgetting import BILL

    forgetting: Guarantee = fitted.unlearning_guarantee_
    if not retrained:
        return forgetting
    own: Guarantee = fitted.guarantee_
    return own.noting({BILL: forgetting.notes[BILL]})


def write_again(state: StateFile, files: Outputs, way: Way, *, unlike: Sequence[str]) -> None:
    """Writes the model of a state once more, and what was promised of it."""
    from pabi.forgetting.state_files import state_in
    from pabi.learn.hashes import note_of_whole

    skops = extra("skops.io", "train")
    held = state_in(state)
    origin_of = _origin(state, held)
    names = (files.model, files.guarantee)
    with partial_files(names, files.force, unlike=unlike) as (model_file, guarantee_file):
        schema = origin_of.declared
        fitted = schema.estimator(**origin_of.arguments, ledger=way.ledger).restored(state)
        _as_train_does(fitted)
        whole = _pipeline(schema.encoder, fitted)
        skops.dump(whole, model_file)
        proven = _promised(fitted, held.log[-1].retrained) if held.log else fitted.guarantee_
        proven = proven.noting(note_of_whole(whole))
        at = origin_of.arguments["delta"]
        text = json_text(reading(proven, proven.epsilon(at), at))
        guarantee_file.write_text(f"{text}\n", encoding="utf-8")
    emit(
        f"model        {one_line(files.model)}, written again: {len(held.forgotten)} rows forgotten"
    )


def _forgot(
    state: StateFile,
    held: SecretState,
    tables: list[str],
    rows: NDArray[np.intp],
    target: tuple[float, float],
    way: Way,
) -> tuple[Any, Any]:
    """(the encoder, the estimator that has forgotten the rows)."""
    from pabi.cli.encoded import read_encoded
    from pabi.learn.forgetting import checked_rows

    origin_of = _origin(state, held)
    schema = origin_of.declared
    encoder = schema.encoder
    estimator = schema.estimator(**origin_of.arguments, ledger=way.ledger)
    blank = np.union1d(held.forgotten, checked_rows(rows, held.run.n, held.forgotten))
    with warnings.catch_warnings():
        warnings.filterwarnings("always", ".*keep it to yourself")  # for whoever holds the data
        table = read_encoded(tables, encoder, [origin_of.target])
        if table.records != held.run.n:
            raise InvalidInput(
                "DATA",
                f"expected {held.run.n} rows as in the training, forgotten ones may be blank, got "
                f"{table.records}",
            )
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


def _forgetting(held: SecretState, rows: int) -> str:
    return f"to forget {rows} of {held.run.n} records"


def _counted(held: SecretState, rows: int) -> str:
    return f"{rows} of {held.run.n} records, {rows + len(held.forgotten)} in all"

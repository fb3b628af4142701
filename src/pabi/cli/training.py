"""`pabi train`, `pabi plan`, `pabi schema`: from a table to a model and its guarantee."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pabi.cli.ledgers import opened, refuse_beyond
from pabi.cli.reading import (
    Adjacency,
    Data,
    Database,
    Encoding,
    Epochs,
    FeatureNorm,
    Model,
    OneRowEach,
    Query,
    TargetAdvantage,
    TargetDelta,
    TargetEpsilon,
    TargetFpr,
    TargetMu,
    TargetTpr,
    read_any_target,
    read_positive,
)
from pabi.cli.table_files import rows_of, table_files, tables
from pabi.cli.tables import names_of
from pabi.cli.writing import basis, complain, emit, one_line, origin, partial_files, write_model
from pabi.describe.files import run_file, to_dict
from pabi.execute.progress import Listener, heard_by, is_array_file
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.showing import shown, shown_down

if TYPE_CHECKING:
    from pabi.account.targets import Target
    from pabi.budget.ledger import Ledger
    from pabi.cli.schema_file import Schema
    from pabi.execute.state_files import StateFile

_PATIENCE = 2.0  # seconds of training before it is said how long it takes
_UNITS = ((525_960.0, "years"), (1440.0, "days"), (60.0, "hours"), (1.0, "minutes"))
ASKED = (
    "every row of the query's answer comes from one record alone, and each record gives one row (of a user: "
    "every row comes from this user's records alone)"
)
DECLARED = "the schema (columns, ranges, levels, settings) was declared without looking at the data"


def train(
    schema: Annotated[
        str,
        typer.Option("--schema", metavar="FILE", help="The schema (TOML); - is standard input."),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="T",
            help="The column to predict, or an .npy file or Zarr array of it.",
        ),
    ],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Where to write the model (skops).")
    ],
    guarantee: Annotated[
        str,
        typer.Option("--guarantee", metavar="FILE", help="Where to write its guarantee (JSON)."),
    ],
    data: Data = None,
    query: Query = None,
    database: Database = None,
    epsilon: TargetEpsilon = None,
    delta: TargetDelta = None,
    mu: TargetMu = None,
    advantage: TargetAdvantage = None,
    tpr: TargetTpr = None,
    fpr: TargetFpr = None,
    model: Model = "logistic",
    adjacency: Adjacency = None,
    feature_norm: FeatureNorm = None,
    epochs: Epochs = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            help="Spend from this ledger; exit 1 if less is left in it.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="COLUMN",
            help="The column that says whose a row is: users are protected, not rows.",
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            "--users",
            min=1,
            metavar="N",
            help="How many users are enrolled; public. With --groups.",
        ),
    ] = None,
    one_row_each: OneRowEach = False,
    scratch: Annotated[
        str | None,
        typer.Option(
            "--scratch",
            metavar="FOLDER",
            help="Keep rows in a file without a name in here, not in memory; it is gone at the end.",
        ),
    ] = None,
    keep_state: Annotated[
        str | None,
        typer.Option(
            "--keep-state",
            metavar="FILE",
            help="Keep, encrypted, what pabi forget takes later; a file that is not there yet.",
        ),
    ] = None,
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="The key of the state: 64 hexadecimal digits, as openssl rand -hex 32 prints.",
        ),
    ] = None,
    encoding: Encoding = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress", help="Show steps and time; default: on a terminal."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, metavar="S", help="Reproducible noise: for tests only."),
    ] = None,
) -> None:
    """Train a private linear model, or a kernel machine, on a table.

    The schema declares columns with public ranges or levels, the target and settings; every key is
    in the docs, "Train a private model".
    The model is a scikit-learn pipeline for tables with the same columns. Nothing else that depends
    on the data is shown, training accuracy in particular: that would be another release.

    \b
    Examples:
      pabi train people.csv --schema schema.toml --target income --epsilon 1 --delta 1e-6 \\
        --out model.skops --guarantee guarantee.json
      pabi verify guarantee.json --epsilon 1 --delta 1e-6
      pabi train 'part-*.csv.gz' --schema schema.toml --target income --epsilon 1 --delta 1e-6 \\
        --ledger people.ledger --out model.skops --guarantee guarantee.json
    """
    goal = read_any_target(
        epsilon=epsilon, delta=delta, mu=mu, advantage=advantage, tpr=tpr, fpr=fpr
    )
    at = goal.chosen_at
    options = {
        "adjacency": adjacency,
        "feature_norm": read_positive("--feature-norm", feature_norm),
        "epochs": read_positive("--epochs", epochs),
        "users": users,
    }
    from pabi.cli.schema_file import Origin, schema_text

    text = schema_text(schema)
    declared = schema_for(schema, text, model=model, target=target)
    require(
        keep_state is None or scratch is None,
        "--scratch",
        "expected none with --keep-state: forgetting takes a table in memory",
    )
    for option, value in (("--encoding", encoding), ("--query", query)):
        require(
            keep_state is None or value is None,
            option,
            "expected none with --keep-state: forgetting takes files in UTF-8",
        )
    require(
        keep_state is None or goal.epsilon is not None,
        "--keep-state",
        f"expected --epsilon with it, got --{goal.name}",
    )
    keeping = _keeping(keep_state, key_file, declared)
    grouped = _columns_beside(declared, target, groups, users)
    require(
        not (grouped and one_row_each),
        "--one-row-each",
        "expected none with --groups, which says whose a row is",
    )
    extra("skops.io", "train")
    budget = None if ledger is None else opened(ledger)
    if budget is not None:
        from pabi.account.targets import gaussian_price

        refuse_beyond(budget, gaussian_price(goal), at, "user" if grouped else "record")
    files = tables(data or [], encoding, query=query, database=database, scratch=scratch)
    if not grouped and not one_row_each:
        ask_of_users([*declared.columns, *_header(files[0])], "--groups {}")
    beside = (ledger, key_file, target if is_array_file(target) else None)
    used = [*files, schema, *(name for name in beside if name is not None)]
    chosen = {name: value for name, value in options.items() if value is not None}
    chosen |= {} if keeping is None else _forgettable(declared)
    arguments = {"epsilon": _argument(goal), "delta": at, **chosen}
    origin_of = Origin(schema=text, model=model, target=target, arguments=arguments, groups=groups)
    state = None if keeping is None else replace(keeping, note=origin_of.written())
    unseen = progress is None and not sys.stderr.isatty()
    with (
        partial_files((out, guarantee), force, unlike=used) as parts,
        heard_by(time_left()) if unseen else contextlib.nullcontext(),
    ):
        fitted, records = _fit(
            declared,
            files,
            target,
            grouped,
            scratch,
            state,
            **origin_of.arguments,
            ledger=budget,
            random_state=seed,
            verbose=progress is not False,
        )
        if query is not None:
            fitted[-1].guarantee_ = fitted[-1].guarantee_.assuming(ASKED)
        proven = write_model(fitted, fitted[-1].guarantee_, at, parts)
    features = len(fitted[0].get_feature_names_out())
    about = f"{model}: {one_line(target)} from {len(declared.columns)} columns, {features} features"
    met = f"{goal.name:<12} {shown(goal.cost(proven))}{goal.place} (target {goal.most!r})"
    lines = [f"model        {about}", _protected(fitted[-1].run_, records)]
    lines += [
        f"epsilon      {shown(proven.epsilon(at))} at delta {at!r}",
        *(() if goal.epsilon is not None else (met,)),
        *(() if budget is None else (_left(budget),)),
    ]
    emit("\n".join(lines + origin(proven) + basis(proven)))


def _argument(goal: Target) -> float | Target:
    """The argument `epsilon` of an estimator."""
    return replace(goal, delta=None) if goal.epsilon is None else goal.epsilon


def ask_of_users(names: Sequence[str], answer: str) -> None:
    """Asks, on standard error, whether a person may have several rows, where a column looks like an id.

    `answer`: the option that says so, with a place for the column.
    """
    from pabi.learn.rows import id_columns

    ids = id_columns(names)
    if ids:
        complain(
            "question",
            f"has anybody several rows? {', '.join(ids)} looks like an id. A guarantee for rows says less of "
            f"people: {answer.format(ids[0])} protects them; --one-row-each says that nobody has",
        )


def _header(file: str) -> list[str]:
    """The names of a table's columns; none of what can be read once only, or not at all."""
    with contextlib.suppress(InvalidInput):
        return names_of(file) if rows_of(file) is not None or os.path.isfile(file) else []
    return []


def time_left() -> Listener:
    """Says once, where no bar shows it, how long a training still takes; nothing of one of a minute."""
    begun: list[tuple[float, int]] = []

    def listen(over: int, steps: int) -> None:
        now = time.monotonic()
        if not begun:
            begun.append((now, over))
        begin, first = begun[0]
        if len(begun) > 1 or now - begin < _PATIENCE:
            return
        begun.append((now, over))
        minutes = (now - begin) / (over - first) * (steps - over) / 60.0
        if minutes >= 1.0:
            size, unit = next((s, u) for s, u in _UNITS if minutes >= s)
            complain(
                "training", f"about {shown(minutes / size, 2)} {unit} left for {steps - over} steps"
            )

    return listen


def _left(ledger: Ledger) -> str:
    left = shown_down(ledger.remaining())
    return f"ledger       epsilon {left} at delta {ledger.delta!r} left for one Gaussian release"


def _keeping(file: str | None, key_file: str | None, schema: Schema) -> StateFile | None:
    """Where to keep the secret state, None where nobody asks for it. Raises InvalidInput."""
    if file is None:
        require(key_file is None, "--keep-state", "missing: --key-file is the key of that file")
        return None
    if key_file is None:
        raise InvalidInput("--key-file", "missing: a secret state is encrypted")
    require(
        schema.levels is not None or schema.range is not None,
        "target.levels",
        "missing in the schema: --keep-state takes labels that are declared",
    )
    from pabi.cli.schema_file import state_file

    return state_file(file, key_file)


def _forgettable(schema: Schema) -> dict[str, Any]:
    """Settings with which a model goes on often, where the schema states an l2, which makes steps forget, and
    does not state others. Without one retraining takes least, and the defaults stay."""
    usual = {"precondition": None, "cooldown_epochs": 0.0} if "l2" in schema.settings else {}
    return {name: value for name, value in usual.items() if name not in schema.settings}


def schema_for(file: str, text: str, *, model: str, target: str | None) -> Schema:
    """The schema in the text of a file, for one model."""
    from pabi.cli.schema_file import MODELS, schema_of

    must_be(model in MODELS, "--model", f"one of {', '.join(MODELS)}", model)
    schema = schema_of(file, text, model)
    require(
        target is None or target not in schema.columns,
        "--target",
        f"expected a column that is not a feature, got [columns.{target}]",
    )
    return schema


def _columns_beside(
    schema: Schema, target: str, groups: str | None, users: int | None
) -> list[str]:
    """The column of users, if there is one. Raises InvalidInput where it has another part to play."""
    if groups is None:
        require(users is None, "--groups", "missing: --users counts the users of that column")
        return []
    must_be(
        groups not in schema.columns and groups != target, "--groups", "a column of its own", groups
    )
    return [groups]


def _protected(run: Any, rows: int) -> str:
    """How many are protected; of users the number that was declared, since that of rows is theirs."""
    return f"users        {run.n}" if run.unit == "user" else f"records      {rows}"


def _fit(
    schema: Schema,
    files: list[str],
    target: str,
    groups: list[str],
    scratch: str | None,
    state: StateFile | None,
    **arguments: Any,
) -> tuple[Any, int]:
    """(a pipeline from raw columns to predictions, the guarantee with its last step; records)."""
    from sklearn.pipeline import make_pipeline

    encoder, fitted = schema.encoder, schema.estimator(**arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("always", ".*keep it to yourself")  # for whoever holds the data
        read = _read if scratch is None else partial(_read_in_passes, scratch)
        table = read(schema, files, encoder, target, groups)
        fitted.fit(table.features, table.targets, groups=table.users, keep_state=state)
    fitted.guarantee_ = fitted.guarantee_.assuming(DECLARED)
    fitted.ledger = None  # a model that is handed on does not say where its owner keeps the budget
    records = fitted.run_.n if table.records is None else table.records
    return make_pipeline(encoder.set_params(sparse_output=True), fitted), records


class _Table(NamedTuple):
    """What is fitted. `users`: of every row, if there are some. `records`: how many rows, None if unknown."""

    features: Any
    targets: Any
    users: Any
    records: int | None


def _read(schema: Schema, files: list[str], encoder: Any, target: str, groups: list[str]) -> _Table:
    """The table, its encoded rows in memory."""
    from pabi.cli.schema_file import ids_of, read_encoded

    table = read_encoded(files, encoder, [target, *groups])
    users = next((ids_of(table.others[name]) for name in groups), None)
    targets = schema.targets(target, table.others[target])
    return _Table(table.features, targets, users, table.records)


def _read_in_passes(
    scratch: str, schema: Schema, files: list[str], encoder: Any, target: str, groups: list[str]
) -> _Table:
    """The table, to be read in passes; users alone are in memory."""
    from pabi.cli.schema_file import ids_of, large_encoded

    require(
        schema.range is not None or schema.levels is not None,
        "target.levels",
        "missing: --scratch needs the levels of the target",
    )
    table, column = large_encoded(files, encoder, scratch)
    targets = column(target).mapped(lambda cells: schema.targets(target, cells))
    users = next((ids_of(column(name).together()) for name in groups), None)
    return _Table(table, targets, users, None)


# `pabi plan`: what a training would cost and do, before there are any data.


def plan(
    schema: Annotated[
        str, typer.Option("--schema", metavar="FILE", help="The schema, as for pabi train.")
    ],
    epsilon: TargetEpsilon = None,
    delta: TargetDelta = None,
    mu: TargetMu = None,
    advantage: TargetAdvantage = None,
    tpr: TargetTpr = None,
    fpr: TargetFpr = None,
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

    goal = read_any_target(
        epsilon=epsilon, delta=delta, mu=mu, advantage=advantage, tpr=tpr, fpr=fpr
    )
    at = goal.chosen_at
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
        epsilon=_argument(goal),
        delta=at,
    )
    require(
        declared.range is not None or declared.levels is not None,
        schema,
        "target: expected levels: without data nothing else says them",
    )
    planned = estimator.plan(size, len(declared.encoder.get_feature_names_out()))
    if out is not None:
        comments = f"planned for {goal.name} {goal.most!r}{goal.place}, {size} {planned.size.unit}s"
        with partial_files((out,), force, unlike=(schema,)) as (file,):
            file.write_text(run_file(to_dict(planned.run), [comments]), encoding="utf-8")
    if users is None and not one_row_each:
        ask_of_users(list(declared.columns), "--users N in place of --rows")
    emit(str(planned))


def _size(rows: int | None, users: int | None) -> int:
    """How many are protected. Raises InvalidInput unless just one of them says so."""
    sizes = [size for size in (rows, users) if size is not None]
    require(len(sizes) == 1, "--rows", "expected either --rows or --users")
    return sizes[0]


# `pabi schema`: a schema to fill in, from the names of columns and from nothing else of a table.


_TARGET = """\
# [target]
# levels = ["…", "…"]  # of a classifier: all labels that may occur
# case = "any"  # of a classifier, "Yes" and "yes" are one label: may be left out
# range = [low, high]  # of a regression, in place of levels: public, or "private" if it is not known
# decimal = ","  # of a regression, whose numbers are written as 3,5: may be left out"""

_COLUMN = """\
# [columns.{}]
# kind = "numeric"  # or "categorical", "date" or "boolean", which has no further keys
# range = [low, high]  # of a numeric column; of dates ["2020-01-01", "2024-12-31"]
# transform = "log1p"  # of a numeric column, on the scale of log(1 + x): may be left out
# decimal = ","  # of a numeric column, whose numbers are written as 3,5: may be left out
# levels = ["…", "…"]  # of a categorical column
# other = "level"  # of a categorical column, a feature for all other levels: may be left out
# case = "any"  # of a categorical column, "Yes" and "yes" are one level: may be left out
# cycles = ["month", "weekday", "hour"]  # of dates, features for each of these: may be left out"""

_MODEL = """\
# [model]  # arguments of the estimator: may be left out
# adjacency = "replace_one"
# epochs = 20"""


def schema(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Tables, as for pabi train."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,C", help="The names, in place of tables."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="T", help="The column to predict.")
    ] = None,
    encoding: Encoding = None,
) -> None:
    """A schema for pabi train, with every field to be filled in.

    Of a table only the names of its columns are read, never a value: the first line of a CSV, or what a
    Parquet, Feather or Arrow file says of itself. The names count as public, and end up in the model. Every
    line is a comment. Take the comment signs off the lines that you fill in, from public knowledge alone.

    \b
    Examples:
      pabi schema people.csv --target income > schema.toml
      pabi schema --columns age,hours,job --target income > schema.toml
    """
    names = _names(data or [], columns, encoding)
    must_be(target is None or target in names, "--target", "one of the columns", target)
    emit("\n\n".join(_parts(names, target)))


def _names(files: list[str], columns: str | None, encoding: str | None) -> list[str]:
    """The names of columns, each once and none empty."""
    require(
        bool(files) != (columns is not None),
        "--columns",
        "expected the names of columns, or a table: one of them",
    )
    if columns is not None:
        return _distinct("--columns", [name.strip() for name in columns.split(",")])
    first, *others = table_files(files, encoding)
    names = _distinct(first, names_of(first))
    for other in others:
        require(
            set(_distinct(other, names_of(other))) == set(names),
            other,
            f"expected the columns of {first!r}, got others",
        )
    return names


def _distinct(source: str, names: list[str]) -> list[str]:
    """Those that are not empty. Raises InvalidInput, without any name, for none at all and for one twice."""
    present = [name for name in names if name]
    require(present, source, "expected the names of columns, got none")
    require(
        len(set(present)) == len(present),
        source,
        "expected columns of different names, got one name twice",
    )
    return present


def _parts(names: list[str], target: str | None) -> list[str]:
    about = "" if target is None else f" --target {one_line(target)}"
    head = (
        f"# A schema for pabi train{about}. Only the names of the columns were read, and no value.\n"
        "# Fill in the lines that you need and take their comment signs off, without looking at the data.\n"
        "# A column without a table is not used."
    )
    tables = [_COLUMN.format(_key(name)) for name in names if name != target]
    return [head, _TARGET, *tables, _MODEL]


def _key(name: str) -> str:
    """A name as a key of TOML: as it is, or in quotes, which are those of JSON."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")

"""The schema file of `pabi train`, tables as it encodes them, and what a secret state notes of both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

import pabi.learn
from pabi.cli.reading import SCHEMA, file_name, read_text
from pabi.cli.table_files import STANDARD_INPUT, rows_of
from pabi.cli.tables import frames
from pabi.describe.batches import Batches
from pabi.describe.files import _batches, _unknown, tables_in
from pabi.execute.cells import PLAIN, cells_of, joined, refuse_other_types, text_of, texts_of
from pabi.execute.large_tables import LargeTable, MadeRows
from pabi.execute.progress import is_array_file
from pabi.execute.source_files import column_at, stamps
from pabi.execute.sources import Parts
from pabi.execute.state_files import StateFile
from pabi.learn.columns import (
    MISSING,
    dated,
    folded,
    numbers,
    read_case,
    read_columns,
    read_comma,
    read_levels,
    read_range,
)
from pabi.learn.schema import SchemaEncoder
from pabi.numbers.errors import InvalidInput, must_be, require

MODELS = {
    "logistic": "PrivateLogisticRegression",
    "linear": "PrivateLinearRegression",
    "svc": "PrivateLinearSVC",
    "poisson": "PrivatePoissonRegressor",
    "gamma": "PrivateGammaRegressor",
    "huber": "PrivateHuberRegressor",
    "kernel": "PrivateKernelClassifier",
    "kernel-regression": "PrivateKernelRegressor",
}
CLASSIFIERS = ("logistic", "svc", "kernel")
_POSITIVE = {"poisson": "counts", "gamma": "numbers"}  # what targets are, where none is negative
_OF_TARGET = {"levels", "case", "range", "decimal"}
# Arguments of the estimators that other options decide.
_ELSEWHERE = {
    "epsilon",
    "delta",
    "classes",
    "noise_std",
    "random_state",
    "feature_ranges",
    "target_range",
    "verbose",
    "ledger",
}


@dataclass(frozen=True)
class Schema:
    """A schema file for one model.

    `columns`, `settings`: arguments of `SchemaEncoder` and of the model's estimator. `levels`, `range`: the
    target's, as far as they are declared. `any_case`, `comma`: whether labels are compared whatever their
    case, whether amounts have a decimal comma.
    """

    model: str
    columns: dict[str, Any]
    settings: dict[str, Any]
    levels: list[Any] | None
    range: tuple[float, float] | Literal["private"] | None
    any_case: bool = False
    comma: bool = False

    @property
    def encoder(self) -> SchemaEncoder:
        """The transformer of the declared columns."""
        return SchemaEncoder(self.columns)

    def estimator(self, **arguments: Any) -> Any:
        """The model's estimator, with what the schema decides; `arguments` come on top."""
        of_target = {"classes": self.levels} if self.range is None else {"target_range": self.range}
        decided = (
            {"feature_norm": self.encoder.feature_norm} | of_target | self.settings | arguments
        )
        return getattr(pabi.learn, MODELS[self.model])(**decided)

    def targets(
        self, name: str, column: Any, blank: NDArray[np.intp] | tuple[()] = ()
    ) -> NDArray[Any]:
        """What the estimator is fitted to, from the column `name`; rows `blank` may hold anything."""
        refuse_other_types(name, getattr(column, "dtype", None))
        cells = cells_of(column)
        if len(blank):
            cells = cells.astype(object)
            cells[np.asarray(blank)] = (self.levels or self.range or ("",))[0]
        if self.range is None:
            return _labels(name, cells, self.levels, self.any_case)
        amounts = numbers(name, cells, comma=self.comma)
        missing = "expected a finite number in every row of the target"
        require(np.all(np.isfinite(amounts)), name, missing)
        if self.model in _POSITIVE and np.any(amounts < 0.0):
            kind = _POSITIVE[self.model]
            raise InvalidInput(name, f"expected {kind} ≥ 0 in every row of the target")
        return amounts


def schema_text(file: str) -> str:
    """The text of a schema file. Raises InvalidInput naming the file."""
    return read_text(file, "a schema file (TOML)", kinds=(SCHEMA,))


def schema_of(file: str, text: str, model: str) -> Schema:
    """The schema that the text of a file declares. Raises InvalidInput naming file and key."""
    tables = dated(tables_in(text, file_name(file)))
    try:
        return _schema(tables, model)
    except InvalidInput as bad:
        raise InvalidInput(file_name(file), str(bad)) from None


def _schema(tables: dict[str, Any], model: str) -> Schema:
    arguments = {m: _arguments(m) for m in MODELS}
    # What estimators have of the target beside its range is an option of [target].
    options = {name[7:] for name in arguments[model] if name.startswith("target_")}
    homes = {"columns": set[str](), "target": _OF_TARGET | options, "model": arguments[model]}
    for key, table in tables.items():
        if key not in homes:
            if isinstance(table, Mapping) and {"kind", "range", "levels"} & set(table):
                raise InvalidInput(key, f"a column is declared as [columns.{key}]")
            _refuse(key, "the top level", set(homes), homes)
        must_be(isinstance(table, Mapping), key, f"a table [{key}]", table)
    columns, target = tables.get("columns"), tables.get("target", {})
    read_columns(columns)
    for key in target:
        if key not in homes["target"]:
            _refuse(key, "[target]", homes["target"], homes)
    settings = dict(tables.get("model", {}))
    settings |= {f"target_{key}": target[key] for key in target if key in options}
    for key in settings:
        if key in arguments[model]:
            continue
        owner = next((m for m in MODELS if key in arguments[m]), None)
        require(owner is None, f"model.{key}", f"belongs to --model {owner}, not to {model}")
        _refuse(key, "[model]", homes["model"], homes)
    intercept = settings.get("fit_intercept", True)
    must_be(isinstance(intercept, bool), "model.fit_intercept", "true or false", intercept)
    if settings.get("batches", "auto") != "auto":
        settings["batches"] = _read_batches(settings["batches"])
    assert columns is not None
    rules = read_case("target", target), read_comma("target", target)
    return Schema(model, columns, settings, *_target(target, model, any_case=rules[0]), *rules)


def _read_batches(value: Any) -> Batches:
    for key in value if isinstance(value, Mapping) else ():
        require(
            key in ("kind", "size", "cap"),
            f"model.batches.{key}",
            "unknown key: expected kind, size and cap; settings go above it",
        )
    return _batches(value)


def _arguments(model: str) -> set[str]:
    estimator = getattr(pabi.learn, MODELS[model])
    return set(estimator().get_params()) - _ELSEWHERE


def _refuse(key: str, where: str, keys: set[str], homes: Mapping[str, set[str]]) -> NoReturn:
    """Raises InvalidInput for a key that is none of `keys`: it names the table of `homes` that has it."""
    home = next((name for name, others in homes.items() if key in others), None)
    reason = f"belongs to [{home}], not to {where}" if home else _unknown(key, keys, where)
    raise InvalidInput(key, reason)


def _target(
    table: Mapping[str, Any], model: str, *, any_case: bool
) -> tuple[list[Any] | None, tuple[float, float] | Literal["private"] | None]:
    """(levels, range), the one that does not go with the model None."""
    classifies = model in CLASSIFIERS
    for other in ("range", "decimal") if classifies else ("levels", "case"):
        require(other not in table, f"target.{other}", f"does not go with --model {model}")
    if classifies and "levels" not in table:
        return None, None
    if classifies:
        return read_levels("target.levels", table["levels"], 2, any_case=any_case), None
    require(
        "range" in table,
        "target.range",
        f'missing: --model {model} needs the public range of the target, or "private"',
    )
    if table["range"] == "private":
        return None, "private"
    low, high = read_range("target.range", table["range"])
    must_be(model != "poisson" or low == 0.0, "target.range", "[0, largest count]", table["range"])
    must_be(model != "gamma" or low >= 0.0, "target.range", "no negative number", table["range"])
    return None, (low, high)


def _labels(
    name: str, cells: NDArray[Any], levels: list[Any] | None, any_case: bool
) -> NDArray[Any]:
    """(n,) labels in the type of the declared levels; undeclared ones are integers or text."""
    labels = [folded(text, any_case) for text in texts_of(name, cells)]
    seen = set(labels)
    if levels is None:
        require(
            not any(label.lower() in MISSING for label in seen),
            name,
            "expected a label in every row of the target, some lack it",
        )
        require(len(seen) >= 2, name, "expected at least two classes, got one class only")
        whole = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", label) for label in seen)
        return np.array(labels).astype(np.int64) if whole else np.array(labels)
    declared = {folded(text_of(level), any_case): level for level in levels}
    require(
        seen <= set(declared),
        name,
        "the target holds a label, or a missing one, that target.levels does not declare",
    )
    return np.array([declared[label] for label in labels])


# A table as its schema encodes it, read some rows at a time: what was read is never in memory as a whole.


@dataclass(frozen=True)
class EncodedTable:
    """The rows of a table: `features` (n, d) as the schema encodes them; `others`, (n,) cells by name, as
    they were read."""

    features: Any
    others: dict[str, NDArray[Any]]

    @property
    def records(self) -> int:
        """n, the number of rows."""
        return int(self.features.shape[0])


def read_encoded(
    files: Sequence[str], encoder: SchemaEncoder, others: Sequence[str]
) -> EncodedTable:
    """The table in `files`, its rows encoded, and the columns `others` beside them.

    Fits `encoder`, which learns nothing. In memory are 16 384 rows as they were read, and all rows as they
    are encoded: 8 bytes a number, 12 a cell beside a categorical column, twice that while they are put
    together. A column that is an array in a file is read from there. Raises InvalidInput naming the file, the
    column or the key of the schema.
    """
    parts: list[Any] = []
    arrays = {name: column_at(name).together() for name in others if is_array_file(name)}
    cells: dict[str, list[NDArray[Any]]] = {name: [] for name in others if name not in arrays}
    for frame in frames(files, [*encoder.columns, *cells]):
        parts.append(encoder.fit_transform(frame))
        for name, column in cells.items():
            column.append(_shared(cells_of(frame[name])))
    table = EncodedTable(
        _stacked(parts), arrays | {name: joined(some) for name, some in cells.items()}
    )
    for name, array in arrays.items():
        require(len(array) == table.records, name, "expected as many rows as the table has")
    return table


def large_encoded(
    files: Sequence[str], encoder: SchemaEncoder, scratch: str
) -> tuple[LargeTable, Callable[[str], Parts]]:
    """The same rows for a model that takes them in passes, each of which reads the files anew.

    Beside the encoded table it returns a function from the name of a column, or of an array in a file, to its
    cells as they were read. What is outside of the schema is said once.
    """
    require(
        STANDARD_INPUT not in files,
        "standard input",
        "is read once, and --scratch takes passes: give files",
    )
    names = list(encoder.columns)
    encoder.set_params(sparse_output=False).fit(next(frames(files, names)))
    passes: list[None] = []

    def encoded() -> Iterator[NDArray[Any]]:
        for frame in frames(files, names):
            if not passes:
                encoder.fit(frame)
            yield encoder.transform(frame)
        passes.append(None)

    def state() -> object:
        return [stamps(file) for file in files if rows_of(file) is None]

    begun: dict[str, object] = {"state": state()}  # of rows, targets and users alike

    def column(name: str) -> Parts:
        if is_array_file(name):
            return column_at(name)

        def cells() -> Iterator[NDArray[Any]]:
            return (cells_of(frame[name]) for frame in frames(files, [name]))

        return Parts(cells, name, state, _noted=dict(begun))

    width = len(encoder.get_feature_names_out())
    rows = Parts(encoded, state=state, width=width, _noted=dict(begun))
    return LargeTable(MadeRows(rows), scratch=scratch), column


def _stacked(parts: list[Any]) -> Any:
    from scipy.sparse import issparse, vstack

    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


def ids_of(cells: NDArray[Any]) -> NDArray[Any]:
    """The ids of users: their texts, None where one is missing; numbers alone are what they are.

    Which rows are of one user is the same either way: that of an id follows from it alone, by the rule of
    `features.cells`. So 7 is one user in files of text and of numbers, and "07" is that user too.
    """
    if cells.dtype.kind in PLAIN:
        return cells
    return cells_of([text or None for text in texts_of("groups", cells)])


def _shared(cells: NDArray[Any]) -> NDArray[Any]:
    """The cells with equal texts as one object: there are few labels in many rows."""
    if cells.dtype != object:
        return cells
    texts: dict[str, str] = {}
    shared = np.empty(len(cells), dtype=object)
    shared[:] = [texts.setdefault(c, c) if type(c) is str else c for c in cells.tolist()]
    return shared


# What a secret state notes of the command that made it; `pabi forget` makes the estimator from it.


_DIGITS = re.compile(r"\s*([0-9a-fA-F]{64})\s*")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A training by `pabi train`: the text of the schema, the model, the target, further arguments, and the
    column of users, if there is one."""

    schema: str
    model: str
    target: str
    arguments: dict[str, Any]
    groups: str | None = None

    def written(self) -> str:
        """As the note of a state."""
        return json.dumps(vars(self))

    @classmethod
    def read(cls, file: str, note: str) -> Origin:
        """What `written` wrote. Raises InvalidInput naming the file of the state."""
        try:
            return cls(**json.loads(note))
        except (ValueError, TypeError):
            raise InvalidInput(
                file,
                "expected a state that pabi train kept: one of a program is for that program",
            ) from None

    @property
    def declared(self) -> Schema:
        """What the schema declares."""
        return schema_of("the schema", self.schema, self.model)


def state_file(file: str, key_file: str) -> StateFile:
    """The state in a file, with the key in another. Raises InvalidInput."""
    digits = _DIGITS.fullmatch(read_text(key_file, "a key file", most=4096))
    if digits is None:
        raise InvalidInput(
            "--key-file", "expected 64 hexadecimal digits, as of openssl rand -hex 32"
        )
    return StateFile(file, bytes.fromhex(digits[1]))

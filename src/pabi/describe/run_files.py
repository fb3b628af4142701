"""Run files: the text that holds a description, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from pabi.describe.files import Description, from_dict
from pabi.numbers.encoding import read_floats
from pabi.numbers.errors import InvalidInput

_WRITTEN_OUT = 10_000  # entries of a schedule that a run file still lists one by one


def tables_in(text: str, name: str) -> dict[str, Any]:
    """The tables in the text of a TOML file. Raises InvalidInput naming the file, as which `name` stands."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as bad:
        reason = str(bad).replace(
            "end of document", f"end of document, line {text.count(chr(10)) + 1}"
        )
        raise InvalidInput(name, f"malformed TOML: {reason}") from None
    except (ValueError, RecursionError) as bad:  # a number or a nesting beyond what Python reads
        raise InvalidInput(name, f"malformed TOML: {bad}") from None


def description_in(table: dict[str, Any]) -> Description:
    """The description that the tables of a run file hold. Raises InvalidInput, whatever they hold."""
    batches = table.get("batches")
    for where, part in (("the top level", table), ("[batches]", batches)):
        kind = part.get("kind", "") if isinstance(part, dict) else ""
        if not isinstance(kind, str):
            raise InvalidInput("kind", f"expected a string in {where}, got {kind!r}")
    try:
        return from_dict(table)
    except InvalidInput:
        raise
    except (TypeError, ValueError, ArithmeticError) as bad:
        # A value so odd that no check foresaw it: find out which field it is.
        raise InvalidInput(
            _culprit(table, from_dict), f"not accepted ({type(bad).__name__}: {bad})"
        ) from None


def _culprit(table: dict[str, Any], build: Callable[[dict[str, Any]], Any]) -> str:
    """The key whose value breaks `build`: with 1 in its place nothing breaks."""
    for key in sorted(table, key=lambda k: k in ("n", "loss", "batches")):
        if not isinstance(table[key], (int, float, list, dict)):
            continue
        try:
            build(table | {key: 1})
        except InvalidInput:
            return key
        except (TypeError, ValueError, ArithmeticError):
            continue
        return key
    return "description"


def run_file(table: dict[str, Any], comments: Sequence[str]) -> str:
    """The text of a run file with a description's table, below comments."""
    import tomli_w  # which reading does not need

    return "".join(f"# {line}\n" for line in comments) + "\n" + tomli_w.dumps(_toml_ready(table))


def _toml_ready(table: dict[str, Any]) -> dict[str, Any]:
    """A description's table for TOML, which has no null, with packed schedules listed."""

    ready = {}
    for key, value in table.items():
        if isinstance(value, dict) and set(value) == {"f8"}:
            entries = read_floats(key, value)
            value = entries.tolist() if len(entries) <= _WRITTEN_OUT else value
        elif isinstance(value, dict):
            value = _toml_ready(value)
        if value is not None:
            ready[key] = value
    return ready

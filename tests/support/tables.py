"""A table of people, its schema, and the command line in the current folder."""

import contextlib
import io
import sys
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pabi import cli

SCHEMA = """
[target]
levels = ["no", "yes"]

[columns.age]
kind = "numeric"
range = [20, 60]

[columns.job]
kind = "categorical"
levels = ["clerk", "smith"]

[columns.citizen]
kind = "boolean"
"""


class Result(NamedTuple):
    status: int
    out: str
    err: str


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """`pabi` with these arguments: its status and what it printed."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    if stdin is not None:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(raw))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(arguments)
    finally:
        sys.stdin = before
    return Result(status, out.getvalue(), err.getvalue())


def people(n: int = 1200):
    """A frame of raw values: a class that follows from age and job, and a column that is not declared."""
    import pandas

    rng = np.random.default_rng(7)
    age, smith = rng.integers(20, 61, n), rng.random(n) < 0.5
    return pandas.DataFrame(
        {
            "id": np.arange(n),
            "age": age,
            "job": np.where(smith, "smith", "clerk"),
            "citizen": np.where(rng.random(n) < 0.5, "yes", "no"),
            "rich": np.where(age + 20 * smith > 50, "yes", "no"),
        }
    )


def train(*data: str, more: tuple[str, ...] = (), **changes: str) -> Result:
    """`pabi train` on these tables with usual options, `changes` in their place."""
    options = {"schema": "schema.toml", "target": "rich", "epsilon": "1", "delta": "1e-4"}
    options |= {"out": "model.skops", "guarantee": "g.json"} | changes
    words = [text for name, value in options.items() for text in (f"--{name}", value)]
    # Their tables have a column called "id": whose a row is would be asked.
    answered = {"groups"} & changes.keys() or {"--groups", "--one-row-each"} & set(more)
    return run("train", *data, *words, *more, *(() if answered else ("--one-row-each",)))


def assert_one_line(result: Result, *mentions: str, status: int = 2) -> None:
    """One line on standard error that mentions these, and nothing else."""
    assert (result.status, result.out) == (status, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert "defect" not in result.err
    for mention in mentions:
        assert mention in result.err


def unit(text: str) -> Decimal:
    """Of the last digit of a number that is shown."""
    mantissa, _, exponent = text.partition("e")
    return Decimal(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def files() -> set[str]:
    """The names in the current folder."""
    return {path.name for path in Path().iterdir()}

"""`pabi audit`: attack a run on the worst instance that is known, and show what that refutes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pabi.cli.reading import describe, file_name, read_delta, read_whole, required
from pabi.cli.writing import emit, emit_json
from pabi.numbers.errors import InvalidInput

_FEWEST = 100


def audit(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A run file (TOML); - is standard input.")
    ],
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="D", help="Read epsilon at this delta. Required without --reach."
        ),
    ] = None,
    trainings: Annotated[
        str,
        typer.Option("--trainings", metavar="N", help="Models, half of them of either data set."),
    ] = "100000",
    only_reach: Annotated[
        bool,
        typer.Option(
            "--reach", help="Say what so many trainings of a trainer find; train nothing."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What an attacker of a run gets on the worst data sets that are known, beside what is promised.

    Many models are trained on two neighbouring data sets of numbers, with random noise of their own. What
    they refute holds with confidence 0.95. Exit 1 if they refute the guarantee. An audit proves no privacy.

    \b
    Example:
      pabi audit run.toml --delta 1e-5 --trainings 1000000
    """
    from pabi.audits.auditing import audit as audited
    from pabi.audits.conformity import reach

    count = read_whole("--trainings", trainings, _FEWEST)
    if only_reach:
        within_reach = reach(_run(file), trainings=count)
        emit_json(within_reach.to_dict()) if as_json else emit(str(within_reach))
        return
    at = required("--delta", read_delta(delta))
    result = audited(_run(file), trainings=count, delta=at)
    if as_json:
        emit_json(result.to_dict())
    else:
        emit(str(result))
    if result.refuted:
        raise typer.Exit(1)


def _run(file: str) -> Any:
    """The run of noisy SGD in a file."""
    from pabi.describe.runs import NoisySGD

    run = describe(file)
    if type(run) is not NoisySGD:
        raise InvalidInput(file_name(file), 'kind: expected "noisy_sgd", which alone is audited')
    return run

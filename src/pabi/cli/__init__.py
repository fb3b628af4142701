"""The command line: `pabi account`, `explain`, `calibrate`, `verify`, `report`, `train` and others.

A run is a TOML file (see `examples/`); every value passes through `pabi.describe.files.from_dict`.
Exit 0 is success, 1 a gate or verdict that says no, 2 bad input, with one line on stderr.
"""

from __future__ import annotations

import math
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pabi.cli.exploring import audit, explore, reproduce
from pabi.cli.forgetting import forget
from pabi.cli.ledgers import ledger, report
from pabi.cli.predicting import predict
from pabi.cli.reading import (
    USUAL_DELTA,
    TargetAdvantage,
    TargetDelta,
    TargetEpsilon,
    TargetFpr,
    TargetMu,
    TargetTpr,
    describe,
    file_name,
    read_any_target,
    read_delta,
    read_epsilon,
    required,
)
from pabi.cli.training import plan, schema, train
from pabi.cli.verifying import sign, verify
from pabi.cli.writing import (
    basis,
    complain,
    emit,
    emit_json,
    one_line,
    origin,
    reading,
)
from pabi.describe.batches import BallsInBins, Reshuffle, ShuffleOnce
from pabi.describe.files import Description, run_file, to_dict
from pabi.describe.iteration import NoisyIteration
from pabi.numbers.errors import (
    BudgetExceeded,
    InvalidInput,
    NotApplicable,
    PrivacyWarning,
    TargetUnreachable,
    must_be,
    require,
)
from pabi.numbers.showing import aligned, shown, shown_down
from pabi.numbers.version import __version__

if TYPE_CHECKING:
    from pabi.account.changes import Explanation
    from pabi.tradeoff.guarantee import Guarantee


app = typer.Typer(
    name="pabi",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _explained(description: Description, delta: float) -> tuple[Explanation, Guarantee]:
    """Every analysis, and the best of them; NotApplicable where none applies."""
    explanation = description.explain(delta)
    if explanation.best is None:
        reasons = "; ".join(f"{row.method}: {row.reason}" for row in explanation)
        raise NotApplicable(f"no analysis covers this description ({reasons})")
    return explanation, explanation.best


def _candidates(explanation: Explanation) -> list[dict[str, Any]]:
    names = ("method", "applies", "reason", "epsilon", "mu")
    return [{name: getattr(row, name) for name in names} for row in explanation]


def _changes(explanation: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "what": c.what,
            "epsilon": c.epsilon,
            "training": c.training,
            "run": to_dict(c.description),
        }
        for c in explanation.changes
    ]


# Commands.

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A run file (TOML); - is standard input.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _show_version(version: bool) -> None:
    if version:
        emit(f"pabi {__version__}")
        raise typer.Exit(0)


@app.callback()
def _pabi(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """The tightest provable privacy guarantee for a model of which only the last iterate is released.

    \b
    Example:
      pabi account run.toml --delta 1e-5

    Exit status: 0 success, 1 a gate or verdict says no, 2 bad input (one line on stderr).
    """


@app.command()
def account(
    file: File,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Read epsilon at this delta.")
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon", metavar="E", help="Read delta at this epsilon; with --delta, a gate."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """What a run costs: epsilon at a delta, or delta at an epsilon.

    With both --delta and --epsilon it is a gate: exit 1 if epsilon at D exceeds E.

    \b
    Examples:
      pabi account run.toml --delta 1e-5
      pabi account run.toml --epsilon 1 --delta 1e-5 && python train.py
      pabi account run.toml --delta 1e-5 --json > guarantee.json
    """
    at, limit = read_delta(delta), read_epsilon(epsilon)
    require(
        at is not None or limit is not None,
        "--delta",
        "missing: expected --delta, --epsilon, or both for a gate",
    )
    description = describe(file)
    if at is None:
        assert limit is not None
        explanation, best, at = _delta_at(description, limit)
        cost = limit
        headline = f"delta        {shown(at)} at epsilon {limit!r}"
    else:
        explanation, best = _explained(description, at)
        cost = best.epsilon(at)
        headline = f"epsilon      {shown(cost)} at delta {at!r}"
    gate = delta is not None and limit is not None
    passed = not gate or cost <= (limit or 0.0)
    verdict = (
        f"{'passed' if passed else 'FAILED'}: epsilon {shown(cost)} at delta {at!r} "
        f"{'is at most' if passed else 'exceeds'} {limit!r}"
    )
    if as_json:
        emit_json(reading(best, cost, at, candidates=_candidates(explanation)))
        if not passed:
            complain("gate", verdict)
    else:
        lines = [f"gate         {verdict}"] if gate else []
        compared = _compared(best, cost, at, _every(description), reads_delta=delta is None)
        lines += [headline, *origin(best), f"composition  {compared}"]
        emit("\n".join(lines + basis(best)))
    if not passed:
        raise typer.Exit(1)


def _delta_at(description: Description, epsilon: float) -> tuple[Explanation, Guarantee, float]:
    """The analysis with the least δ at `epsilon`, chosen near that δ."""
    explanation, best = _explained(description, USUAL_DELTA)
    delta = best.delta(epsilon)
    if 0.0 < delta < 1.0:
        closer, other = _explained(description, delta)
        if other.delta(epsilon) <= delta:
            explanation, best, delta = closer, other, other.delta(epsilon)
    return explanation, best, delta


def _every(description: Description) -> str:
    """What composition charges for: of an order that is drawn, that it is seen as well."""
    batches = getattr(description, "batches", None)
    drawn = isinstance(batches, ShuffleOnce | Reshuffle | BallsInBins)
    return f"if every iterate{' and all batches' * drawn} were released"


def _compared(best: Guarantee, epsilon: float, delta: float, what: str, reads_delta: bool) -> str:
    """What releasing more would cost."""
    if best.composition is None:
        return "does not apply"
    if reads_delta:
        return f"delta {shown(best.composition.delta(epsilon))} {what}"
    every = best.composition.epsilon(delta)
    text = f"epsilon {shown(every)} {what}"
    if 0.0 < epsilon < every < math.inf:
        text += f" ({shown_down(every / epsilon, 3)} times as much)"
    return text


@app.command()
def explain(
    file: File,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Compare at this delta. Required.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Every analysis of a run, or why it does not apply, and which other training would cost less.

    Each with its epsilon at D and its mu; the best is the guarantee. Then up to three changes of the run with
    the epsilon that it would have. A change means training in another way.

    \b
    Example:
      pabi explain run.toml --delta 1e-5
    """
    at = required("--delta", read_delta(delta))
    description = describe(file)
    explanation, best = _explained(description, at)
    if as_json:
        chosen = ("adjacency", "method", "source", "assumptions", "mu")
        about = {name: getattr(best, name) for name in chosen}
        cost = best.epsilon(at)
        rest = {"changes": _changes(explanation), "advice": list(explanation.advice)}
        table = {"delta": at, "epsilon": cost, **about, "candidates": _candidates(explanation)}
        emit_json(table | rest)
        return
    rows: list[tuple[str, ...]] = [("method", f"epsilon at delta {at!r}", "mu", "")]
    for row in explanation:
        if row.epsilon is not None:
            mu = "-" if row.mu is None else shown(row.mu)
            note = "<- the guarantee" if row.method == best.method else ""
            rows.append((one_line(row.method), shown(row.epsilon), mu, note))
    closing = (
        line[: line.startswith(" ") * 2] + one_line(line)
        for line in explanation.closing("epsilon ")
    )
    emit("\n".join([*aligned(rows), *closing, "", *basis(best)]))


@app.command()
def calibrate(
    file: File,
    epsilon: TargetEpsilon = None,
    delta: TargetDelta = None,
    mu: TargetMu = None,
    advantage: TargetAdvantage = None,
    tpr: TargetTpr = None,
    fpr: TargetFpr = None,
    parameter: Annotated[
        str | None,
        typer.Option(
            "--parameter",
            metavar="P",
            help="noise_std (the default), noise_multiplier, epochs, steps, clip_norm or size; of samplers "
            "and mechanisms inverse_temperature (the default), steps, chains, time, epsilon or epsilons.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """A run file that meets a privacy target.

    Prints FILE with one parameter changed. Exit 1 if no value meets the target, naming the best that can be
    reached. The target is --epsilon, --mu, --advantage, or --tpr with --fpr.

    \b
    Examples:
      pabi calibrate run.toml --epsilon 1 --delta 1e-5 > private.toml
      pabi calibrate run.toml --epsilon 1 --delta 1e-5 --parameter epochs | pabi account - --delta 1e-5
      pabi calibrate run.toml --tpr 0.05 --fpr 0.01 --delta 1e-5 > private.toml
    """
    from pabi.account import calibration

    target = read_any_target(
        epsilon=epsilon, delta=delta, mu=mu, advantage=advantage, tpr=tpr, fpr=fpr
    )
    start: Any = describe(file)
    require(
        not isinstance(start, NoisyIteration),
        file_name(file),
        'kind: expected "noisy_sgd", a sampler or a mechanism, got "noisy_iteration"',
    )
    names = calibration.calibrated_of(start)
    parameter = names[0] if parameter is None else parameter
    must_be(parameter in names, "--parameter", f"one of {', '.join(names)}", parameter)
    run = calibration.calibrate(start, parameter=parameter, **asdict(target))
    at = target.chosen_at
    _, best = _explained(run, at)
    cost, table = target.cost(best), to_dict(run)
    if cost > target.most:
        raise TargetUnreachable(f"{target} was missed narrowly: the best reached is {cost!r}", cost)
    if as_json:
        own = table.get("run", table)  # of forgetting, what is calibrated is its run
        value = own["batches"]["size"] if parameter == "size" else own[parameter]
        result = {"parameter": parameter, "value": value, target.name: cost, "delta": at}
        result |= {} if target.fpr is None else {"fpr": target.fpr}
        about = {name: getattr(best, name) for name in ("adjacency", "method", "assumptions")}
        emit_json({**result, "target": target.most, **about, "run": table})
        return
    reached = f"{target.name} {shown(cost)}{target.place}"
    lines = [
        f"{parameter} calibrated: {reached} (target {target.most!r}), {best.method}",
        *basis(best),
    ]
    emit(run_file(table, lines))


for _command in (
    verify,
    report,
    sign,
    schema,
    plan,
    train,
    predict,
    forget,
    audit,
    ledger,
    explore,
    reproduce,
):
    app.command()(_command)


# The entry point.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: those of the process); returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None:  # of a process: what it must not leave behind is removed when it is ended
        signal.signal(signal.SIGTERM, _ended)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyWarning)
        status, problem = _run(words)
    if problem is not None:
        complain("error", problem)
        return status
    for line in dict.fromkeys(str(warning.message) for warning in caught):
        complain("warning", line)
    return status


def _ended(number: int, _: object) -> None:
    sys.exit(128 + number)


def _run(arguments: list[str]) -> tuple[int, str | None]:
    """The exit status, and the one line to say why there is no result."""
    try:
        command = typer.main.get_command(app)
        status = command.main(args=arguments, prog_name="pabi", standalone_mode=False)
        return (status if isinstance(status, int) else 0), None
    except BudgetExceeded as no:
        return 1, str(no)
    except TargetUnreachable as no:
        best = "" if "best" in str(no) else f"; the best reachable epsilon is {shown(no.best)}"
        return 1, f"{no}{best}"
    except (InvalidInput, NotApplicable) as bad:
        return 2, str(bad)
    except MemoryError:
        return (
            2,
            'not enough memory: expected smaller tables (docs, "My data do not fit") or description',
        )
    except OSError as bad:
        return 2, f"{bad.filename or 'the system'}: {bad.strerror or bad}"
    except typer.Abort:
        return 130, "interrupted"
    except Exception as bad:
        if hasattr(bad, "format_message"):  # a usage error, whichever module of typer defines it
            return 2, f"{bad.format_message()} (see pabi --help)"
        return 2, f"unexpected {type(bad).__name__}: {bad}; please report this as a defect of pabi"

"""The command line: `pabi account`, `explain`, `calibrate` and `verify`.

A run is a TOML file (see `examples/`); every value passes through `pabi.description.from_dict`.
Exit 0 is success, 1 a gate or verdict that says no, 2 bad input, with one line on stderr.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pabi.errors import InvalidInput, NotApplicable, PrivacyWarning, TargetUnreachable

if TYPE_CHECKING:
    from pabi.analyses import Description
    from pabi.explanation import Explanation
    from pabi.guarantee import Guarantee
    from pabi.tradeoff import TradeOff
    from pabi.verification import Verdict

_MOST_BYTES = 1 << 29  # of a file; stops at once on an endless one
_LONGEST_LINE = 700
_WRITTEN_OUT = 10_000  # entries of a schedule that a run file still lists one by one
_USUAL_DELTA = 1e-5

# What reading a value of the wrong type or an absurd size can raise.
_MALFORMED = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RecursionError,
)

app = typer.Typer(
    name="pabi",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


# Reading and writing.


def _one_line(text: object) -> str:
    """`text` without line breaks and control characters, shortened in the middle."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


def _complain(kind: str, text: object) -> None:
    with contextlib.suppress(OSError):
        print(f"{kind}: {_one_line(text)}", file=sys.stderr)


def _emit(text: str) -> None:
    """Print to standard output; a reader that has left early is no error."""
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        # Or the interpreter complains when it flushes at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as bad:
        raise InvalidInput("standard output", f"cannot be written: {bad.strerror}") from None


def _emit_json(value: dict[str, Any]) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    plain = not encoding.lower().replace("-", "").startswith("utf8")
    _emit(json.dumps(_json_ready(value), ensure_ascii=plain, allow_nan=False))


def _json_ready(value: Any) -> Any:
    """`value` with infinities as "inf", which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_ready(v) for v in value]
    return value


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _read(file: str, what: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open(file, "rb") as stream:
                raw = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError, AttributeError) as bad:
        reason = "it is closed" if sys.stdin is None and file == "-" else str(bad)
        reason = getattr(bad, "strerror", None) or reason
        raise InvalidInput(_name(file), f"expected {what}: {reason}") from None
    if len(raw) > _MOST_BYTES:
        raise InvalidInput(_name(file), f"expected {what} of at most {_MOST_BYTES >> 20} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        raise InvalidInput(
            _name(file),
            f"expected {what} in UTF-8, got {bad.object[bad.start]:#04x} at byte {bad.start}",
        ) from None


def _describe(file: str) -> Description:
    """The description in a run file."""
    import tomllib

    text = _read(file, "a run file (TOML)")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as bad:
        reason = str(bad).replace(
            "end of document", f"end of document, line {text.count(chr(10)) + 1}"
        )
        raise InvalidInput(_name(file), f"malformed TOML: {reason}") from None
    except (ValueError, RecursionError) as bad:  # a number or a nesting beyond what Python reads
        raise InvalidInput(_name(file), f"malformed TOML: {bad}") from None
    try:
        return _built(table)
    except InvalidInput as bad:
        raise InvalidInput(_name(file), str(bad)) from None


def _built(table: dict[str, Any]) -> Description:
    from pabi.description import from_dict

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


def _option(name: str, text: str | None, wanted: str, ok: Callable[[float], bool]) -> float | None:
    """The number given for an option, None if it was not given."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not ok(value):
        raise InvalidInput(name, f"expected {wanted}, got {text!r}")
    return value


def _delta(text: str | None) -> float | None:
    return _option("--delta", text, "a number ≥ 0 and < 1", lambda x: 0.0 <= x < 1.0)


def _epsilon(text: str | None) -> float | None:
    return _option("--epsilon", text, "a finite number ≥ 0", lambda x: 0.0 <= x < math.inf)


def _required(name: str, value: float | None) -> float:
    if value is None:
        raise InvalidInput(name, "missing: this command needs it")
    return value


# What is said.


def _up(x: float) -> str:
    """Six significant digits, rounded up: no privacy loss may be shown too small."""
    if not math.isfinite(x):
        return "inf"
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(x))):.6g}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _basis(adjacency: str | None, assumptions: Sequence[str]) -> list[str]:
    """What a reading means nothing without."""
    said = [f"  - {_one_line(sentence)}" for sentence in assumptions]
    return [f"adjacency    {adjacency}", "assumptions", *(said or ["  (none)"])]


def _shape(curve: TradeOff) -> str:
    from pabi.tradeoff import Gaussian, Mixture

    if isinstance(curve, Gaussian):
        return _up(curve.mu)
    if isinstance(curve, Mixture):
        mus = [part.mu for part in curve.parts]
        return (
            f"none (a mixture of {len(mus)} Gaussians, mu from {_up(min(mus))} to {_up(max(mus))})"
        )
    return f"none ({curve.kind})"


def _explained(description: Description, delta: float) -> tuple[Explanation, Guarantee]:
    """Every analysis, and the best of them; NotApplicable where none applies."""
    from pabi.explanation import explain as explain_all

    explanation = explain_all(description, delta)
    if explanation.best is None:
        reasons = "; ".join(f"{row.method}: {row.reason}" for row in explanation)
        raise NotApplicable(f"no analysis covers this description ({reasons})")
    return explanation, explanation.best


def _warn_of_large(delta: float, description: Description) -> None:
    n = getattr(description, "n", None)
    if n is not None and delta * n > 1.0:
        warnings.warn(
            f"delta = {delta!r} exceeds 1/n = {1.0 / n:.3g}: publishing one record outright would "
            "satisfy it",
            PrivacyWarning,
            stacklevel=2,
        )


def _candidates(explanation: Explanation) -> list[dict[str, Any]]:
    names = ("method", "applies", "reason", "epsilon", "mu")
    return [{name: getattr(row, name) for name in names} for row in explanation]


def _reading(guarantee: Guarantee, epsilon: float, delta: float) -> dict[str, Any]:
    return {**guarantee.to_dict(certificate=True), "epsilon": epsilon, "delta": delta}


# Commands.

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A run file (TOML); - is standard input.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from pabi import __version__

        _emit(f"pabi {__version__}")
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
    at, limit = _delta(delta), _epsilon(epsilon)
    if at is None and limit is None:
        raise InvalidInput("--delta", "missing: expected --delta, --epsilon, or both for a gate")
    description = _describe(file)
    if at is None:
        assert limit is not None
        explanation, best, at = _read_delta(description, limit)
        cost = limit
        headline = f"delta        {_up(at)} at epsilon {limit!r}"
    else:
        _warn_of_large(at, description)
        explanation, best = _explained(description, at)
        cost = best.epsilon(at)
        headline = f"epsilon      {_up(cost)} at delta {at!r}"
    gate = delta is not None and limit is not None
    passed = not gate or cost <= (limit or 0.0)
    verdict = (
        f"{'passed' if passed else 'FAILED'}: epsilon {_up(cost)} at delta {at!r} "
        f"{'is at most' if passed else 'exceeds'} {limit!r}"
    )
    if as_json:
        _emit_json(_reading(best, cost, at) | {"candidates": _candidates(explanation)})
        if not passed:
            _complain("gate", verdict)
    else:
        lines = [f"gate         {verdict}"] if gate else []
        lines += [headline, f"mu           {_shape(best.curve)}"]
        lines += [f"method       {best.method}", f"source       {best.source}"]
        lines.append(f"composition  {_compared(best, cost, at, reads_delta=delta is None)}")
        _emit("\n".join(lines + _basis(best.adjacency, best.assumptions)))
    if not passed:
        raise typer.Exit(1)


def _read_delta(description: Description, epsilon: float) -> tuple[Explanation, Guarantee, float]:
    """The analysis with the least δ at `epsilon`, chosen near that δ."""
    explanation, best = _explained(description, _USUAL_DELTA)
    delta = best.delta(epsilon)
    if 0.0 < delta < 1.0:
        closer, other = _explained(description, delta)
        if other.delta(epsilon) <= delta:
            explanation, best, delta = closer, other, other.delta(epsilon)
    return explanation, best, delta


def _compared(best: Guarantee, epsilon: float, delta: float, reads_delta: bool) -> str:
    """What releasing every iterate would cost."""
    if best.composition is None:
        return "does not apply"
    if reads_delta:
        return f"delta {_up(best.composition.delta(epsilon))} if every iterate were released"
    every = best.composition.epsilon(delta)
    times = f" ({every / epsilon:.3g} times as much)" if 0.0 < epsilon < every < math.inf else ""
    return f"epsilon {_up(every)} if every iterate were released{times}"


@app.command()
def explain(
    file: File,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Compare at this delta. Required.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Every analysis of a run, or why it does not apply.

    Each with its epsilon at D and its mu; the best is the guarantee.

    \b
    Example:
      pabi explain run.toml --delta 1e-5
    """
    at = _required("--delta", _delta(delta))
    description = _describe(file)
    _warn_of_large(at, description)
    explanation, best = _explained(description, at)
    if as_json:
        chosen = ("adjacency", "method", "source", "assumptions", "mu")
        about = {name: getattr(best, name) for name in chosen}
        cost = best.epsilon(at)
        _emit_json({"delta": at, "epsilon": cost, **about, "candidates": _candidates(explanation)})
        return
    rows: list[tuple[str, ...]] = [("method", f"epsilon at delta {at!r}", "mu", "")]
    for row in explanation:
        note = row.reason or ("<- the guarantee" if row.method == best.method else "")
        values = ["-" if x is None else _up(x) for x in (row.epsilon, row.mu)]
        rows.append((_one_line(row.method), *values, _one_line(note)))
    _emit("\n".join([*_table(rows), "", *_basis(best.adjacency, best.assumptions)]))


@app.command()
def calibrate(
    file: File,
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", metavar="E", help="The target epsilon. Required.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="The target's delta. Required.")
    ] = None,
    parameter: Annotated[
        str,
        typer.Option(
            "--parameter",
            metavar="P",
            help="noise_std, noise_multiplier, epochs, steps, clip_norm or size.",
        ),
    ] = "noise_std",
    as_json: Json = False,
) -> None:
    """A run file that meets a privacy target.

    Prints FILE with one parameter changed. Exit 1 if no value meets the target, naming the best
    reachable epsilon.

    \b
    Examples:
      pabi calibrate run.toml --epsilon 1 --delta 1e-5 > private.toml
      pabi calibrate run.toml --epsilon 1 --delta 1e-5 --parameter epochs | pabi account - --delta 1e-5
    """
    from pabi.calibration import PARAMETERS
    from pabi.calibration import calibrate as calibrated
    from pabi.description import to_dict
    from pabi.runs import NoisySGD

    target = _required("--epsilon", _epsilon(epsilon))
    at = _required("--delta", _delta(delta))
    for name, text, value in (("--epsilon", epsilon, target), ("--delta", delta, at)):
        if value == 0.0:
            raise InvalidInput(name, f"expected a number > 0, got {text!r}")
    if parameter not in PARAMETERS:
        raise InvalidInput(
            "--parameter", f"expected one of {', '.join(PARAMETERS)}, got {parameter!r}"
        )
    start = _describe(file)
    if not isinstance(start, NoisySGD):
        raise InvalidInput(
            _name(file), 'kind: expected "noisy_sgd", the only kind that can be calibrated'
        )
    run = calibrated(start, target, at, parameter)
    _, best = _explained(run, at)
    cost, table = best.epsilon(at), to_dict(run)
    if cost > target:
        raise TargetUnreachable(f"epsilon = {target!r} at delta = {at!r} was missed narrowly", cost)
    if as_json:
        value = table["batches"]["size"] if parameter == "size" else table[parameter]
        found = {"parameter": parameter, "value": value, "epsilon": cost, "delta": at}
        about = {name: getattr(best, name) for name in ("adjacency", "method", "assumptions")}
        _emit_json({**found, "target": target, **about, "run": table})
        return
    import tomli_w

    said = [
        f"{parameter} calibrated: epsilon {_up(cost)} at delta {at!r} (target {target!r}), {best.method}",
        *_basis(best.adjacency, best.assumptions),
    ]
    comments = "".join(f"# {line}\n" for line in said)
    _emit(f"{comments}\n{tomli_w.dumps(_toml_ready(table))}")


def _toml_ready(table: dict[str, Any]) -> dict[str, Any]:
    """A description's table for TOML, which has no null, with packed schedules listed."""
    from pabi.encoding import read_floats

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


@app.command()
def verify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A certificate, a guarantee, or what account --json prints; - is standard input.",
        ),
    ],
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", metavar="E", help="With --delta: is (E, D) privacy implied?"),
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="With --epsilon.")
    ] = None,
) -> None:
    """Whether a certificate proves what it claims.

    It is checked without the code that found it, in exact and ball arithmetic.

    Exit 1 if it is refused, or if the privacy asked for by --epsilon and --delta is not implied.

    \b
    Examples:
      pabi account run.toml --delta 1e-5 --json | pabi verify -
      pabi verify guarantee.json --epsilon 1 --delta 1e-5
    """
    limit, at = _epsilon(epsilon), _delta(delta)
    if (limit is None) != (at is None):
        missing = "--epsilon" if limit is None else "--delta"
        raise InvalidInput(missing, "missing: --epsilon and --delta go together")
    verdict, stated_at = _verdict(_parsed(file))
    if not verdict.ok:
        _emit(f"verdict      refused: {_one_line(verdict.reason)}")
        raise typer.Exit(1)
    curve = _proven(verdict)
    where = at if at is not None else stated_at
    cost = curve.epsilon(where)
    met = limit is None or cost <= limit
    scope = {
        "run": "run (slopes, sensitivities and noises derived again from the description)",
        "iteration": "iteration (arithmetic only; the steps are taken as stated)",
    }
    lines = ["verdict      accepted: the certificate proves what it claims"]
    if limit is not None:
        says = "implied: at most" if met else "NOT implied: exceeds"
        lines.append(f"target       {says} epsilon {limit!r} at delta {where!r}")
    lines.append(f"proven       epsilon {_up(cost)} at delta {where!r}; mu {_shape(curve)}")
    lines.append(f"scope        {scope.get(verdict.scope or '', verdict.scope)}")
    _emit("\n".join(lines + _basis(verdict.adjacency, verdict.assumptions)))
    if not met:
        raise typer.Exit(1)


def _parsed(file: str) -> Any:
    from pabi.certificate import parse_json

    text = _read(file, "a certificate or guarantee (JSON)")
    try:
        return parse_json(text)
    except InvalidInput as bad:
        reason = str(bad).removeprefix("json: ")
        raise InvalidInput(_name(file), f"malformed JSON: {reason}") from None
    except ValueError as bad:  # an integer longer than Python reads
        raise InvalidInput(_name(file), f"malformed JSON: {bad}") from None


def _verdict(data: Any) -> tuple[Verdict, float]:
    """The verdict on parsed JSON, and a δ at which to read it.

    What is not of our format and version is bad input; anything wrong within is refused.
    """
    from pabi.guarantee import FORMAT, Guarantee
    from pabi.verification import Verdict
    from pabi.verification import verify as check

    at = _USUAL_DELTA
    if isinstance(data, dict) and "format" in data and data["format"] == FORMAT:
        kind = "guarantee"
    else:
        kind = "certificate"
    try:
        if kind == "certificate":
            verdict = check(data)
        else:
            guarantee = Guarantee.from_dict(data)
            if guarantee.tuned_at is not None and 0.0 < guarantee.tuned_at < 1.0:
                at = guarantee.tuned_at
            verdict = check(guarantee)
            lie = _misread(data, guarantee) if verdict.ok else None
            if lie is not None:
                verdict = Verdict(False, lie, None, None, (), None)
    except InvalidInput as bad:
        if bad.field in ("json", "format", "version"):
            raise
        verdict = Verdict(False, f"malformed {kind}: {bad}", None, None, (), None)
    except _MALFORMED as bad:
        reason = f"malformed {kind}: {type(bad).__name__}: {bad}"
        verdict = Verdict(False, reason, None, None, (), None)
    return verdict, at


def _misread(data: dict[str, Any], guarantee: Guarantee) -> str | None:
    """What is wrong with the reading that `account --json` adds to a guarantee, None if nothing."""
    if "epsilon" not in data and "delta" not in data:
        return None
    stated = {
        name: math.inf if data.get(name) == "inf" else data.get(name)
        for name in ("epsilon", "delta")
    }
    for name, value in stated.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0.0:
            return f"{name}: expected a number ≥ 0, got {value!r}"
    epsilon, delta = float(stated["epsilon"]), float(stated["delta"])  # type: ignore[arg-type]
    if delta >= 1.0 or math.isinf(epsilon):
        return None
    # A reading of either kind, δ at ε or ε at δ, is the same number as before.
    if guarantee.epsilon(delta) <= epsilon or guarantee.delta(epsilon) <= delta:
        return None
    proven = guarantee.epsilon(delta)
    return f"epsilon: the file states {epsilon!r} at delta {delta!r}, but proves only {proven!r}"


def _proven(verdict: Verdict) -> TradeOff:
    """The trade-off function that the verdict's cases prove."""
    from pabi.rounding import fraction_up
    from pabi.tradeoff import Gaussian, Mixture

    if verdict.mu is not None:
        return Gaussian(verdict.mu)
    # Claimed weights may add up to more than 1. What is left over is taken from the smallest μ.
    left, parts, weights = Fraction(1), [], []
    for weight, mu in sorted(verdict.parts, key=lambda part: -part[1]):
        kept = min(weight, left)
        left -= kept
        parts.append(Gaussian(mu))
        weights.append(fraction_up(kept))
    return Mixture(parts, weights)


# The entry point.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: those of the process); returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PrivacyWarning)
        status, problem = _run(given)
    if problem is not None:
        _complain("error", problem)
        return status
    for line in dict.fromkeys(str(warning.message) for warning in caught):
        _complain("warning", line)
    return status


def _run(arguments: list[str]) -> tuple[int, str | None]:
    """The exit status, and the one line to say why there is no result."""
    try:
        command = typer.main.get_command(app)
        status = command.main(args=arguments, prog_name="pabi", standalone_mode=False)
        return (status if isinstance(status, int) else 0), None
    except TargetUnreachable as no:
        text = str(no)
        return (
            1,
            text if "best" in text else f"{text}; the best reachable epsilon is {_up(no.best)}",
        )
    except (InvalidInput, NotApplicable) as bad:
        return 2, str(bad)
    except MemoryError:
        return 2, "not enough memory for a description of this size"
    except typer.Abort:
        return 130, "interrupted"
    except Exception as bad:
        if hasattr(bad, "format_message"):  # a usage error, whichever module of typer defines it
            return 2, f"{bad.format_message()} (see pabi --help)"
        return 2, f"unexpected {type(bad).__name__}: {bad}; please report this as a defect of pabi"


if __name__ == "__main__":
    sys.exit(main())

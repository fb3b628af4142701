"""What stands in the controls as a description, and a description as what stands in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pabi.describe.files import Description, description_in, run_file, tables_in, to_dict
from pabi.describe.runs import NoisySGD
from pabi.explorer.controls import CONTROLS, Control, number, number_in, text_of, whole
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact, shown

State = Mapping[str, Any]

_RUN = "noisy_sgd"
_TABLES = ("loss", "batches")
_NOISES = ("noise_std", "noise_multiplier")
_NO_FIELD = ("schedule", "noise_kind", "noise", "delta", "further")
# The size of step k of a run, as a share of the first one.
_SHAPES: Mapping[str, Callable[[int, int], float]] = MappingProxyType(
    {
        "linear": lambda k, steps: max(1.0 - 0.9 * k / max(steps - 1, 1), 0.1),
        "root": lambda k, steps: 1.0 / math.sqrt(k + 1.0),
    }
)


@dataclass(frozen=True)
class Picked:
    """What is set on the page: a description and the δ at which it is read.

    `rest`: whether further fields alone describe it, so that most controls say nothing.
    """

    description: Description
    delta: float
    rest: bool


def read(state: State) -> Picked:
    """What the controls say. Raises InvalidInput naming a control or a field."""
    delta = number_in(state, "delta", above=0.0, below=1.0)
    further = tables_in(text_of(state, "further"), "further")
    if further.get("kind", _RUN) != _RUN:
        return Picked(_alone(further), delta, rest=True)
    table = _together(_table(state), further)
    run = description_in(table)
    shape = text_of(state, "schedule")
    if shape in _SHAPES and "step_size" not in further and isinstance(run, NoisySGD):
        first, steps = float(table["step_size"]), run.steps
        run = replace(run, step_size=lambda k: float(first * _SHAPES[shape](k, steps)))
    return Picked(run, delta, rest=False)


def _alone(further: dict[str, Any]) -> Description:
    """The description that further fields hold alone, whose mistakes are theirs."""
    try:
        return description_in(further)
    except InvalidInput as bad:
        raise InvalidInput("further", str(bad)) from None


def _table(state: State) -> dict[str, Any]:
    """The tables of a run file that the controls hold."""
    table: dict[str, Any] = {"kind": _RUN, "loss": {}, "batches": {}}
    for control in CONTROLS:
        if control.name in _NO_FIELD or not _shown(control, state):
            continue
        value = _value(control, text_of(state, control.name))
        if value is not None:
            (table[control.table] if control.table else table)[control.field] = value
    noise = text_of(state, "noise")
    if noise:
        table[text_of(state, "noise_kind")] = number("noise", noise)
    if "clip_norm" not in table:
        table.pop("clipping", None)
    return table


def _shown(control: Control, state: State) -> bool:
    """Whether a control means something beside the others."""
    return all(text_of(state, name) in values for name, values in control.only)


def _value(control: Control, text: str) -> Any:
    """What a control's text stands for, None for an empty one."""
    if control.kind == "choice":
        if text not in {value for value, _ in control.choices}:
            raise InvalidInput(control.name, f"expected one of its choices, got {text!r}")
        return text
    if not text:
        return None
    return whole(control.name, text) if control.kind == "whole" else number(control.name, text)


def _together(table: dict[str, Any], further: dict[str, Any]) -> dict[str, Any]:
    """The controls' tables with further fields, which count more."""
    if "steps" in further:
        table.pop("epochs", None)
    if any(name in further for name in _NOISES):
        table = {name: value for name, value in table.items() if name not in _NOISES}
    both = table | further
    for name in _TABLES:
        own, other = table[name], further.get(name)
        if isinstance(other, dict) and "kind" not in other:
            both[name] = own | other
    return both


def state_of(description: Description, delta: float) -> dict[str, str]:
    """What the controls hold for a description; what none of them can hold is under `further`."""
    return state_of_table(to_dict(description), delta)


def state_of_table(table: Mapping[str, Any], delta: float) -> dict[str, str]:
    """`state_of` for the tables of a run file."""
    state = {"delta": exact(delta)}
    rest = {name: dict(v) if isinstance(v, Mapping) else v for name, v in table.items()}
    if rest.get("kind", _RUN) != _RUN:
        return state | {"further": run_file(rest, []).strip()}
    rest.pop("kind", None)
    for name in _TABLES:
        kinds = {v for c in CONTROLS if c.name == name for v, _ in c.choices}
        if isinstance(rest.get(name), dict) and rest[name].get("kind") not in kinds:
            continue
        _move(rest, state, name)
    _move(rest, state, "")
    for name in _NOISES:
        value = rest.get(name)
        if isinstance(value, int | float):
            state |= {"noise_kind": name, "noise": exact(value)}
            rest.pop(name)
    for name in ("epochs", "noise"):
        state.setdefault(name, "")
    state["schedule"] = "constant"
    rest = {name: value for name, value in rest.items() if value != {} and value is not None}
    return state | {"further": run_file(rest, []).strip() if rest else ""}


def _move(rest: dict[str, Any], state: dict[str, str], table: str) -> None:
    """Moves what a table has and controls can hold to `state`."""
    source = rest.get(table) if table else rest
    if not isinstance(source, dict):
        return
    for control in CONTROLS:
        if control.table != table or control.name in _NO_FIELD:
            continue
        value = source.get(control.field)
        choices = {v for v, _ in control.choices}
        if isinstance(value, str) and value in choices:
            state[control.name] = source.pop(control.field)
        elif isinstance(value, int | float) and not isinstance(value, bool) and not choices:
            state[control.name] = exact(source.pop(control.field))
        elif control.field not in source and _shown(control, state):
            state[control.name] = control.default if choices else ""


def rows_of(description: Description, delta: float) -> list[tuple[str, str]]:
    """What is done to the data and promised of it, line by line, in the words of the controls."""
    state = state_of(description, delta)
    rows = []
    for control in CONTROLS:
        text = state.get(control.name, "")
        if control.name == "noise" and isinstance(description, NoisySGD):
            rows.append((control.label, noise_of(description)))
        elif control.name == "clipping" and getattr(description, "clip_norm", None) is None:
            continue
        elif text and control.name != "noise_kind" and _shown(control, state):
            rows.append((control.label, dict(control.choices).get(text, text)))
    return rows


def noise_of(run: NoisySGD) -> str:
    """The noise in both units, where it is one number; "" without any."""
    if isinstance(run.noise_multiplier, int | float):
        return f"multiplier {exact(run.noise_multiplier)}"
    if not isinstance(run.noise_std, int | float):
        return ""
    text = f"standard deviation {exact(run.noise_std)} of the mean gradient"
    if run.clip_norm is None:
        return text
    return f"{text}, a multiplier of {shown(run.noise_std * run.batch_size / run.clip_norm)}"


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What another run has in other controls, in their words; "" where none of them says it."""
    texts = []
    for control in CONTROLS:
        text = after.get(control.name, control.default)
        if text == before.get(control.name, control.default) or not _shown(control, after):
            continue
        words = dict(control.choices).get(text, text or "none")
        texts.append(f"{control.label}: {words}")
    return "; ".join(texts)

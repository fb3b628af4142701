"""The setting that meets a target, and two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pabi.account.calibration import calibrate
from pabi.describe.runs import NoisySGD
from pabi.explorer.controls import label_of, number_in, state_in, text_of
from pabi.explorer.run_view import OURS, Event, epsilon_curves, number, tradeoff_curves
from pabi.explorer.state import differences, noise_of, read, rows_of, state_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import shown, shown_down

_PARAMETERS = ("noise", "epochs", "size", "clip_norm")


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a plan. `request`: {"state": what the controls hold, the target among them}."""
    state = state_in(request)
    picked = read(state)
    run = picked.description
    if not isinstance(run, NoisySGD):
        raise InvalidInput("further", "expected a run of noisy SGD; pabi calibrate plans others")
    target = number_in(state, "target", above=0.0)
    what = validate.choice("parameter", text_of(state, "parameter"), _PARAMETERS)
    noise = "noise_std" if run.noise_multiplier is None else "noise_multiplier"
    name = noise if what == "noise" else what
    met = calibrate(run, target, picked.delta, name)
    if what in ("noise", "clip_norm"):
        met = _legible(met, name)
    guarantee = met.guarantee(picked.delta)
    after = state_of(met, picked.delta)
    yield (
        "plan",
        {
            "parameter": what,
            "label": label_of(what)[1],
            "value": after.get(what, ""),
            "before": text_of({what: ""} | state, what),
            "epsilon": shown(guarantee.epsilon(picked.delta)),
            "target": shown(target),
            "method": guarantee.method,
            "noise": noise_of(met),
            "rows": rows_of(met, picked.delta),
            "state": after,
        },
    )


def _legible(run: NoisySGD, name: str) -> NoisySGD:
    """The run with more noise, or a smaller clip norm, of six digits, which people can read and copy."""
    value = getattr(run, name)
    rounded = shown_down(value) if name == "clip_norm" else shown(value)
    changes: dict[str, Any] = {name: float(rounded)}
    return replace(run, **changes)


def comparison(request: dict[str, Any]) -> Iterator[Event]:
    """Two runs: {"a": what the controls hold, "b": the same of the other}."""
    sides = {side: read(state_in(request, side)) for side in ("a", "b")}
    states = {s: state_of(picked.description, picked.delta) for s, picked in sides.items()}
    for side, other in (("a", "b"), ("b", "a")):
        picked = sides[side]
        guarantee = picked.description.guarantee(picked.delta)
        readings = {
            "members that an attacker finds at most, with 1 % false alarms": shown(
                guarantee.tpr(0.01), decimals=2, percent=True
            ),
            "advantage of an attacker at most": shown(
                guarantee.advantage, decimals=2, percent=True
            ),
        }
        yield (
            "side",
            {
                "side": side,
                "number": number(guarantee, picked, final=True),
                "readings": readings,
                "differs": differences(states[other], states[side]) or "nothing",
            },
        )
        for source in (tradeoff_curves(guarantee), epsilon_curves(guarantee)):
            for name, data in source:
                if data["series"] == OURS:
                    yield name, data | {"series": side.upper()}

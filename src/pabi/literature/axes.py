"""What bounds are compared along: lengths, noise, the number of records, δ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pabi.describe.iteration import Column, NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require

Description = (
    NoisySGD
    | NoisyIteration
    | LangevinChain
    | LangevinDiffusion
    | ExponentialMechanism
    | Unlearning
)

# The axes of each kind of description.
_AXES: dict[type, tuple[str, ...]] = {
    NoisySGD: ("epochs", "steps", "noise_multiplier", "n", "delta"),
    NoisyIteration: ("steps", "delta"),
    LangevinChain: ("steps", "n", "delta"),
    LangevinDiffusion: ("time", "n", "delta"),
    ExponentialMechanism: ("n", "delta"),
    Unlearning: ("delta",),
}
LABELS = {"noise_multiplier": "noise multiplier", "n": "n, the number of records", "delta": "δ"}
_WHOLE = ("epochs", "steps", "n")
_WIDE = 4.0  # how far beside its own value noise and n are varied
_SMALLEST_DELTA = 1e-10


@dataclass(frozen=True)
class Axis:
    """What varies, and how. `own`: the value of the description itself. `at`: value ↦ (description, δ)."""

    name: str
    values: tuple[float, ...]
    own: float
    at: Callable[[Any], tuple[Description, float]]


def axis_of(
    run: Description, delta: float, name: str | None, values: Sequence[float] | None
) -> Axis:
    """The axis of this name, of the length where that is None. Raises InvalidInput."""
    chosen = _length_of(run) if name is None else validate.choice("along", name, _AXES[type(run)])
    own, usual, change = _varied(run, delta, chosen)
    axis = Axis(chosen, usual if values is None else _checked(chosen, values), own, change)
    require(axis.values, "values", "expected at least one")
    return axis


def _checked(name: str, values: Sequence[float]) -> tuple[float, ...]:
    validate.instance("values", values, (Sequence, np.ndarray), "a sequence of numbers")
    if name in _WHOLE:
        checked: set[float] = {*(validate.integer("values", v, at_least=1) for v in values)}
    else:
        below = 1.0 if name == "delta" else None
        checked = {validate.number("values", v, above=0.0, below=below) for v in values}
    return tuple(sorted(checked))


def _length_of(run: Description) -> str:
    """The usual axis. Raises InvalidInput where a description has no length."""
    if isinstance(run, ExponentialMechanism):
        raise InvalidInput("ax", "one draw has no length to draw bounds against")
    if isinstance(run, Unlearning):
        raise InvalidInput("ax", "forgetting has no picture: plan it for other numbers of epochs")
    if isinstance(run, LangevinDiffusion):
        return "time"
    sgd = run.run if isinstance(run, LangevinChain) else run
    whole = isinstance(sgd, NoisySGD) and not sgd.order.fresh and sgd.steps_per_epoch > 1
    return "epochs" if whole and run is sgd else "steps"


Varied = tuple[float, tuple[float, ...], Callable[[Any], tuple[Description, float]]]


def _varied(run: Description, delta: float, name: str) -> Varied:
    """(own value, usual values, value ↦ (description, δ)) of an axis."""
    match name:
        case "delta":
            low, high = min(_SMALLEST_DELTA, delta), max(1.0 / getattr(run, "n", 1e3), delta)
            grid = {*np.geomspace(low, high, 15).tolist(), delta}
            return delta, tuple(sorted(grid)), lambda value: (run, value)
        case "n":
            return _records(run, delta)
        case "noise_multiplier":
            return _noise(cast("NoisySGD", run), delta)
        case "time":
            diffusion = cast("LangevinDiffusion", run)
            require(diffusion.constant, "ax", "a diffusion of varying temperature has no picture")
            times = tuple(np.geomspace(1e-3 * diffusion.time, diffusion.time, 41).tolist())
            return diffusion.time, times, lambda value: (replace(diffusion, time=value), delta)
        case _:
            return _length(run, delta, name)


def _length(run: Description, delta: float, name: str) -> Varied:
    if isinstance(run, NoisyIteration):
        assert run.steps is not None
        total, points = run.steps, 25
        return total, _whole(total, points), lambda k: (_first_steps(run, int(k)), delta)
    sgd = run.run if isinstance(run, LangevinChain) else run
    assert isinstance(sgd, NoisySGD)
    require(sgd.constant, "ax", "a run of varying steps has no picture: its length is fixed")
    each = sgd.steps_per_epoch if name == "epochs" else 1
    total = max(sgd.data_steps // each, 1)

    def at(value: Any) -> tuple[Description, float]:
        shorter = replace(sgd, epochs=None, total_steps=int(value) * each + sgd.cooldown_steps)
        if isinstance(run, LangevinChain):
            return replace(run, steps=shorter.steps), delta
        return shorter, delta

    return total, _whole(total, 9 if sgd.order.fresh else 25), at


def _whole(total: int, points: int) -> tuple[float, ...]:
    """Whole numbers from 1 to `total`, evenly on a logarithmic scale."""
    grid = np.geomspace(1, max(total, 1), points)
    return tuple(sorted({round(float(k)) for k in grid} | {max(total, 1)}))


def _records(run: Description, delta: float) -> Varied:
    described: Any = run
    own, size = described.n, 1
    if isinstance(run, NoisySGD):
        size = 1 if run.steps_per_epoch == 1 else run.batch_size
    grid = {max(round(float(k)), size) for k in np.geomspace(own / _WIDE, own * _WIDE, 9)} | {own}
    return own, tuple(sorted(grid)), lambda n: (replace(described, n=int(n)), delta)


def _noise(run: NoisySGD, delta: float) -> Varied:
    own = run.noise_multiplier
    if own is None:
        unit = run.loss.gradient_bound if run.clip_norm is None else run.clip_norm
        require(
            unit is not None and run.gradient_sensitivity is None and run.constant,
            "along",
            "expected a run whose noise has a multiplier: one noise, and a bound on gradients",
        )
        own = float(np.max(run.gradient_noise_std)) * run.batch_size / cast("float", unit)
    base = float(np.max(own))
    values = tuple(np.geomspace(base / _WIDE, base * _WIDE, 9).tolist())
    return base, values, lambda m: (replace(run, noise_std=None, noise_multiplier=m), delta)


def _first_steps(it: NoisyIteration, length: int) -> NoisyIteration:
    def cut(value: Any) -> Any:
        if isinstance(value, Column):
            value = np.asarray(value)
        return value[:length] if isinstance(value, np.ndarray | tuple) else value

    columns = ("contraction", "step_sensitivity", "step_noise_std", "moduli")
    return replace(it, steps=length, **{name: cut(getattr(it, name)) for name in columns})

"""Descriptions as tables: the form they have in run files and inside certificates."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np

from pabi.describe import langevin, losses, mechanisms, prox, updates
from pabi.describe.batches import OTHER_NUMBERS, SCHEMES, Batches
from pabi.describe.iteration import Column, NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.losses import Loss, parameter_names
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.moduli import Modulus
from pabi.describe.prox import ProximalMap
from pabi.describe.runs import OTHER_KEYWORDS, NoisySGD, Prox
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.unlearning import Unlearning
from pabi.describe.updates import Update
from pabi.numbers import encoding
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.showing import suggestion
from pabi.numbers.validate import refuse_foreign

Description = (
    NoisySGD
    | NoisyIteration
    | LangevinChain
    | LangevinDiffusion
    | ExponentialMechanism
    | IteratedExponentialMechanism
    | NoisySecondMoments
    | NoisyColumnStatistics
    | NoisyAccuracy
    | Unlearning
)


class DescriptionKind(NamedTuple):
    """A kind of description. `calibrated`: what `pabi.calibrate` may change, the first unless told."""

    of: type[Description]
    calibrated: tuple[str, ...] = ()


KINDS: Mapping[str, DescriptionKind] = {
    "noisy_sgd": DescriptionKind(
        NoisySGD, ("noise_std", "noise_multiplier", "epochs", "steps", "clip_norm", "size")
    ),
    "noisy_iteration": DescriptionKind(NoisyIteration),
    "langevin_chain": DescriptionKind(LangevinChain, ("inverse_temperature", "steps", "chains")),
    "langevin_diffusion": DescriptionKind(LangevinDiffusion, ("inverse_temperature", "time")),
    "exponential_mechanism": DescriptionKind(
        ExponentialMechanism, ("inverse_temperature", "epsilon")
    ),
    "iterated_exponential_mechanism": DescriptionKind(IteratedExponentialMechanism, ("epsilons",)),
    "noisy_second_moments": DescriptionKind(NoisySecondMoments, ("noise_std", "noise_multiplier")),
    "noisy_column_statistics": DescriptionKind(NoisyColumnStatistics, ("noise_std",)),
    "noisy_accuracy": DescriptionKind(NoisyAccuracy, ("noise_std",)),
    "unlearning": DescriptionKind(Unlearning, ("noise_std", "noise_multiplier")),
}
_FOREIGN: Mapping[type, Mapping[str, str]] = {
    NoisySGD: OTHER_KEYWORDS,
    LangevinChain: langevin.OTHER_KEYWORDS,
    ExponentialMechanism: mechanisms.OTHER_KEYWORDS,
}
_KEYS = {"total_steps": "steps"}  # of fields with a name of their own in files
_ARRAYS = {
    "step_size",
    "noise_std",
    "noise_multiplier",
    "contraction",
    "step_sensitivity",
    "step_noise_std",
    "inverse_temperature",
}


@dataclass(frozen=True)
class StatedProx:
    """A proximal map known only by name and diameter, as read back from a table; it cannot be run."""

    name: str
    diameter: float | None = None

    def __call__(self, x: Any, step_size: float) -> Any:
        """Refuses to be applied: InvalidInput naming `prox`."""
        raise InvalidInput("prox", f"{self.name} is known by name only and cannot be applied")

    def __repr__(self) -> str:
        return self.name


def to_dict(description: Description) -> dict[str, Any]:
    """A description as a table, with the keys of a run file.

    Parameters
    ----------
    description : NoisySGD, NoisyIteration or another of pabi's descriptions
        What is written.

    Returns
    -------
    dict
        JSON-ready; fields at their defaults are left out.

    Raises
    ------
    InvalidInput
        For what no file can hold, such as a modulus that is a function, and for what is no description of
        pabi's.

    References
    ----------
    docs, "A run file".
    """
    understood(description)
    table: dict[str, Any] = {"kind": kind_of(description)}
    defaults = _defaults(type(description))
    for f in fields(description):
        value = getattr(description, f.name)
        if np.ndim(value) == 0 and value == defaults[f.name]:
            continue
        if f.name == "total_steps" and table.get("epochs") is not None:
            continue  # which follows from them
        if isinstance(value, Update) and value.plain:
            continue  # the default, by another name
        table[_KEYS.get(f.name, f.name)] = _written(f.name, value)
    return table


def _written(name: str, value: Any) -> Any:
    """A field's value for JSON."""
    if type(value) in prox.KINDS.values() or isinstance(value, (Loss, Modulus, Update)):
        return value.to_dict()
    if isinstance(value, NoisySGD):
        return to_dict(value)
    if name == "inverse_temperature" and callable(value):
        raise InvalidInput(name, "a function of time cannot be written down; give an array")
    if isinstance(value, Batches):
        own = {f.name: getattr(value, f.name) for f in fields(value)}
        stated = {f.name for f in fields(value) if own[f.name] != f.default}
        return {"kind": value.kind, **{name: x for name, x in own.items() if name in stated}}
    if isinstance(value, (np.ndarray, Column)):
        return encoding.floats(np.asarray(value))
    if name == "prox":
        diameter = getattr(value, "diameter", None)
        return {"name": repr(value), **({} if diameter is None else {"diameter": diameter})}
    if isinstance(value, tuple):  # of moduli, requests or numbers
        return [_written(name, entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def understood(description: Description) -> None:
    """Refuses a description that is not what its constructor makes of it: InvalidInput, naming the field.

    The constructor takes pabi's own losses, batches, updates, adjacencies and units alone; here it is seen to
    that nobody put something else there since.
    """
    kind_of(description)
    again = replace(description)
    if isinstance(description, Unlearning):
        understood(description.run)
    for f in fields(description):
        value, fresh = getattr(description, f.name), getattr(again, f.name)
        plain = isinstance(fresh, (bool, int, float, str))
        if type(value) is not type(fresh) or (plain and value != fresh):
            raise InvalidInput(f.name, f"expected {fresh!r}, as constructed, got {value!r}")


def kind_of(description: Description) -> str:
    """The name of a description's kind.

    Raises InvalidInput for anything else, subclasses included: nothing is proven of what they override.
    """
    for name, kind in KINDS.items():
        if type(description) is kind.of:
            return name
    names = ", ".join(kind.of.__name__ for kind in KINDS.values())
    name = type(description).__name__
    raise InvalidInput("description", f"expected one of pabi's {names}, got a {name}")


def from_dict(table: Mapping[str, Any]) -> Description:
    """The description that a table holds.

    Parameters
    ----------
    table : mapping
        As `to_dict` writes it, or as a run file has it.

    Returns
    -------
    NoisySGD, NoisyIteration or another of pabi's descriptions
        The description of that kind.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it; for an unknown key, with the nearest known one.

    References
    ----------
    docs, "A run file".
    """
    must_be(isinstance(table, Mapping), "run", "a table", table)
    kind = table.get("kind", "noisy_sgd")
    must_be(isinstance(kind, str) and kind in KINDS, "kind", f"one of {', '.join(KINDS)}", kind)
    cls = KINDS[kind].of
    defaults = _defaults(cls)
    keys = {_KEYS.get(name, name) for name in defaults}
    arguments = {}
    for key, value in table.items():
        if key == "kind":
            continue
        if key not in keys:
            refuse_foreign(_FOREIGN.get(cls, {}), key, value)
            raise InvalidInput(key, _unknown(key, keys))
        read = _READERS.get(key)
        arguments[key] = value if read is None else read(value)
        if key in _ARRAYS and not isinstance(value, (int, float)):
            arguments[key] = encoding.read_floats(key, value)
    for name, default in defaults.items():
        require(default is not MISSING or name in arguments, name, f"missing: a {kind} needs it")
    return cls(**arguments)


def _defaults(cls: type[Description]) -> dict[str, Any]:
    """The default of every field as the constructor has it, MISSING where there is none."""
    parameters = signature(cls).parameters
    defaults = {}
    for f in fields(cls):
        default = parameters[f.name].default
        if f.default_factory is not MISSING:
            default = f.default_factory()
        defaults[f.name] = MISSING if default is Parameter.empty else default
    return defaults


def _unknown(key: str, keys: set[str], where: str = "the top level") -> str:
    hint = suggestion(key, keys) or f"; known keys: {', '.join(sorted(keys))}"
    return f"unknown key in {where}{hint}"


def _check_table(name: str, value: Any, keys: set[str]) -> dict[str, Any]:
    must_be(isinstance(value, Mapping), name, f"a table [{name}]", value)
    for key in value:
        if key in keys:
            continue
        if key in _names(NoisySGD):
            raise InvalidInput(
                key, f"belongs to the top level, not to [{name}]: move it above the first table"
            )
        raise InvalidInput(key, _unknown(key, keys, f"[{name}]"))
    return dict(value)


def _check_kind(table: str, kind: Any, kinds: Collection[str]) -> str:
    if isinstance(kind, str) and kind in kinds:
        return kind
    hint = suggestion(str(kind), kinds)
    raise InvalidInput("kind", f"expected [{table}] kind in {', '.join(kinds)}, got {kind!r}{hint}")


def _loss(value: Any) -> Loss:
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        _check_kind("loss", kind, losses.KINDS)
    return Loss.from_dict(_check_table("loss", value, {"kind", "l2", *parameter_names(kind)}))


def _batches(value: Any) -> Batches:
    """A batch scheme by its kind and the numbers that it has."""
    for name, number in value.items() if isinstance(value, Mapping) else ():
        refuse_foreign(OTHER_NUMBERS, name, number)
    numbers = {name for scheme in SCHEMES.values() for name in _names(scheme)}
    table = _check_table("batches", value, {"kind", *numbers})
    kind = _check_kind("batches", table.pop("kind", None), SCHEMES)
    own = {f.name: f for f in fields(SCHEMES[kind])}
    for name in table:
        if name not in own:
            having = " or ".join(k for k, cls in SCHEMES.items() if name in _names(cls))
            raise InvalidInput(name, f"belongs to [batches] of kind {having}, got kind {kind!r}")
    for name, f in own.items():
        if f.default is MISSING and name not in table:
            raise InvalidInput(name, f"missing from [batches]: {kind} needs it")
    return SCHEMES[kind](**table)


def _names(cls: type[Any]) -> list[str]:
    return [f.name for f in fields(cls)]


def _prox(value: Any) -> Prox:
    """One of pabi's own maps by its kind, or what is known of another."""
    if isinstance(value, Mapping) and "kind" in value:
        parameters = _names(prox.KINDS[_check_kind("prox", value["kind"], prox.KINDS)])
        return ProximalMap.from_dict(_check_table("prox", value, {"kind", "diameter", *parameters}))
    table = _check_table("prox", value, {"kind", "name", "diameter"})
    diameter = table.get("diameter")
    if diameter is not None and not (
        isinstance(diameter, (int, float)) and 0.0 < diameter < math.inf
    ):
        raise InvalidInput("diameter", f"expected a finite number > 0 in [prox], got {diameter!r}")
    return StatedProx(str(table.get("name", "a proximal map")), diameter)


def _run(value: Any) -> Description:
    """The run that a description is about."""
    must_be(isinstance(value, Mapping), "run", "a table [run]", value)
    return from_dict(value)


def _moduli(value: Any) -> Modulus | list[Modulus]:
    return (
        list(map(Modulus.from_dict, value)) if isinstance(value, list) else Modulus.from_dict(value)
    )


# What reads a key's value; others are taken as they are.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "loss": _loss,
    "batches": _batches,
    "prox": _prox,
    "update": updates.from_dict,
    "moduli": _moduli,
    "run": _run,
}

# Run files: the text that holds a description, in TOML.


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
        must_be(isinstance(kind, str), "kind", f"a string in {where}", kind)
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
            entries = encoding.read_floats(key, value)
            value = entries.tolist() if len(entries) <= _WRITTEN_OUT else value
        elif isinstance(value, dict):
            value = _toml_ready(value)
        if value is not None:
            ready[key] = value
    return ready

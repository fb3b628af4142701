"""What a training step makes of its noisy gradient: plain descent, or an optimiser with a state.

The accountant knows a modulus of plain descent alone. What any other update does to the noisy gradients is
post-processing of them, so that a run with one costs what releasing every noisy gradient costs: composition.
The trainer executes the same objects, and checkpoints hold their state.

A direction is the noisy gradient of a step with its regulariser, λx + g(x) + ξ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

State = tuple[Array, ...]
"""What an update keeps between steps: arrays of the shape of x, as secret as x itself."""


@dataclass(frozen=True)
class Update:
    """What happens with a step's direction; see the subclasses, of which `RULES` lists all."""

    kind: ClassVar[str]

    @property
    def plain(self) -> bool:
        """Whether a step is x ↦ x − η·direction, so that moduli of gradient steps are moduli of it."""
        return False

    def refuse_untrained(self) -> None:
        """InvalidInput for what is accounted for, but not executed here."""

    def start(self, x: Array) -> State:
        """The state before the first step, at `x`."""
        raise NotImplementedError

    def step(
        self, x: Array, direction: Array, step_size: float, state: State, k: int
    ) -> tuple[Array, State]:
        """(x, state) after step k, counted from 0; all arrays have the shape of x, and none is changed."""
        raise NotImplementedError

    def reaches(self, state: State) -> bool:
        """Whether some directions lead to `state`, finite arrays such as `start` returns."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The table of a run file."""
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields(self)}}


@dataclass(frozen=True)
class SGD(Update):
    """x ← x − η·direction: noisy gradient descent, the only update that is more than composition.

    Source: Bok, Su, Altschuler 2024, §4.
    """

    kind = "sgd"

    @property
    def plain(self) -> bool:
        return True

    def start(self, x: Array) -> State:
        return ()

    def step(
        self, x: Array, direction: Array, step_size: float, state: State, k: int
    ) -> tuple[Array, State]:
        return np.asarray(x - step_size * direction), state


@dataclass(frozen=True)
class Other(Update):
    """Any other update of noisy gradients: accounted by composition, and not trained here."""

    kind = "other"

    def refuse_untrained(self) -> None:
        trained = " or ".join(f'"{kind}"' for kind in RULES if kind != self.kind)
        raise InvalidInput(
            "update", f'expected one that is trained here, {trained}, got "{self.kind}"'
        )


@dataclass(frozen=True)
class Momentum(Update):
    """v ← momentum·v + direction, x ← x − η·v; with `nesterov` x ← x − η·(direction + momentum·v).

    `momentum`: in [0, 1). `nesterov`: true or false. Raises InvalidInput otherwise. Composition only. Source:
    Sutskever, Martens, Dahl, Hinton 2013, in the form of PyTorch.
    """

    momentum: float = 0.9
    nesterov: bool = False

    kind = "momentum"

    def __post_init__(self) -> None:
        momentum = validate.number("momentum", self.momentum, at_least=0.0, below=1.0)
        object.__setattr__(self, "momentum", momentum)
        if not isinstance(self.nesterov, bool):
            raise InvalidInput("nesterov", f"expected true or false, got {self.nesterov!r}")

    def start(self, x: Array) -> State:
        return (np.zeros_like(x),)

    def step(
        self, x: Array, direction: Array, step_size: float, state: State, k: int
    ) -> tuple[Array, State]:
        velocity = self.momentum * state[0] + direction
        along = direction + self.momentum * velocity if self.nesterov else velocity
        return np.asarray(x - step_size * along), (velocity,)


@dataclass(frozen=True)
class Adam(Update):
    """m and v: moving averages of the directions and of their squares, x ← x − η·m̂/(√v̂ + eps), each
    divided by 1 − βᵏ in step k (from 1), entry by entry.

    `betas`: (β₁, β₂), both in [0, 1). `eps`: > 0, in units of the gradient. Raises InvalidInput otherwise.
    Composition only. Source: Kingma, Ba 2015, Algorithm 1.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    kind = "adam"

    def __post_init__(self) -> None:
        betas = self.betas
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise InvalidInput("betas", f"expected two numbers in [0, 1), got {betas!r}")
        first, second = (validate.number("betas", b, at_least=0.0, below=1.0) for b in betas)
        object.__setattr__(self, "betas", (first, second))
        object.__setattr__(self, "eps", validate.number("eps", self.eps, above=0.0))

    def start(self, x: Array) -> State:
        return np.zeros_like(x), np.zeros_like(x)

    def reaches(self, state: State) -> bool:
        return bool(np.all(state[1] >= 0.0))

    def step(
        self, x: Array, direction: Array, step_size: float, state: State, k: int
    ) -> tuple[Array, State]:
        first, second = self.betas
        mean = first * state[0] + (1.0 - first) * direction
        square = second * state[1] + (1.0 - second) * np.square(direction)
        scale = np.sqrt(square / (1.0 - second ** (k + 1))) + self.eps
        along = mean / (1.0 - first ** (k + 1)) / scale
        return np.asarray(x - step_size * along), (mean, square)


RULES: Mapping[str, type[Update]] = MappingProxyType(
    {cls.kind: cls for cls in (SGD, Momentum, Adam, Other)}
)


def checked(update: Any) -> str | Update:
    """`update` if it is one of these rules, or "sgd" or "other". Raises InvalidInput: nothing is known of any
    other, nor of a subclass, which may override what it does."""
    if type(update) in RULES.values() or (isinstance(update, str) and update in ("sgd", "other")):
        return update  # type: ignore[no-any-return]
    names = ", ".join(f"pabi.updates.{cls.__name__}" for cls in RULES.values())
    raise InvalidInput("update", f'expected "sgd", "other", or one of {names}, got {update!r}')


def rule_of(update: str | Update) -> Update:
    """The rule that `update` names or is. Raises InvalidInput for any other."""
    known = checked(update)
    return RULES[known]() if isinstance(known, str) else known


def from_dict(table: Any) -> str | Update:
    """The rule of a run file: a name, or a table with its kind and numbers. Raises InvalidInput."""
    if isinstance(table, str):
        return checked(table)
    kind = table.get("kind") if isinstance(table, Mapping) else None
    if not isinstance(kind, str) or kind not in RULES:
        raise InvalidInput("update", f"expected one of {', '.join(RULES)}, got {kind!r}")
    known = {f.name for f in fields(RULES[kind])}
    given = {name: value for name, value in table.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise InvalidInput(
                str(name), f"unknown key in [update] of kind {kind}; known: {', '.join(known)}"
            )
    return RULES[kind](**given)

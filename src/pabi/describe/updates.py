"""What a training step makes of its noisy gradient: plain descent, or an optimiser with a state.

The accountant knows a modulus of plain descent alone. What any other update does to the noisy gradients is
post-processing of them, so that a run with one costs what releasing every noisy gradient costs: composition.
The trainer executes the same objects, and checkpoints hold their state.

A direction is the noisy gradient of a step with its regulariser, λx + g(x) + ξ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array
from pabi.numbers.validate import POSITIVE, Check, Checked, by, flag

State = tuple[Array, ...]
"""What an update keeps between steps: arrays of the shape of x, as secret as x itself."""


_DECAY: Check = partial(validate.number, at_least=0.0, below=1.0)


def _decays(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidInput(name, f"expected two numbers in [0, 1), got {value!r}")
    first, second = (_DECAY(name, decay) for decay in value)
    return first, second


@dataclass(frozen=True)
class Update(Checked):
    """What happens with a step's direction; see the subclasses, of which `RULES` lists all.

    Attributes
    ----------
    kind : str
        The name of the update in run files.
    plain : bool
        Whether a step is x ↦ x − η·direction, so that moduli of gradient steps are moduli of it.
    """

    kind: ClassVar[str]
    plain: ClassVar[bool] = False
    _arrays: ClassVar[int] = 0  # that the state holds

    def refuse_untrained(self) -> None:
        """Refuses what is accounted for, but not executed here.

        Raises
        ------
        InvalidInput
            For `Other`, naming `update`.
        """

    def start(self, x: Array) -> State:
        """The state before the first step.

        Parameters
        ----------
        x : array
            Where the run starts, of any shape.

        Returns
        -------
        tuple of arrays
            Zeros of the shape of `x`: none for `SGD`, one array for `Momentum`, two for `Adam`.

        Raises
        ------
        Nothing.
        """
        return tuple(np.zeros_like(x) for _ in range(self._arrays))

    def step(
        self, x: Array, direction: Array, step_size: float, state: State, k: int
    ) -> tuple[Array, State]:
        """The iterate and the state after one step; no array is changed.

        Parameters
        ----------
        x : array
            The iterate before the step.
        direction : array, shape of x
            The noisy gradient with its regulariser, in units of the gradient.
        step_size : float
            η > 0.
        state : tuple of arrays, each of the shape of x
            What `start` or the step before returned.
        k : int
            The number of the step, counted from 0.

        Returns
        -------
        (array, tuple of arrays)
            The iterate and the state, of the same shapes.

        Raises
        ------
        NotImplementedError
            For `Other`, which is not executed here.
        """
        along, state = self._along(direction, state, k)
        return np.asarray(x - step_size * along), state

    def _along(self, direction: Array, state: State, k: int) -> tuple[Array, State]:
        """(what the step subtracts, over η; the state after it)."""
        raise NotImplementedError

    def reaches(self, state: State) -> bool:
        """Whether some directions lead to `state`: true, unless the update says otherwise.

        Parameters
        ----------
        state : tuple of arrays
            Finite arrays such as `start` returns.

        Returns
        -------
        bool
            False where no directions lead there.

        Raises
        ------
        Nothing.
        """
        return True

    def to_dict(self) -> dict[str, Any]:
        """The table of a run file.

        Returns
        -------
        dict
            Kind and numbers, JSON-ready.
        """
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields(self)}}


@dataclass(frozen=True)
class SGD(Update):
    """x ← x − η·direction: noisy gradient descent, the only update that is more than composition.

    References
    ----------
    Bok, Su, Altschuler 2024, §4.
    """

    kind = "sgd"
    plain = True

    def _along(self, direction: Array, state: State, k: int) -> tuple[Array, State]:
        return direction, state


@dataclass(frozen=True)
class Other(Update):
    """Any other update of noisy gradients: accounted by composition, and not trained here."""

    kind = "other"

    def refuse_untrained(self) -> None:
        """Refuses to be trained.

        Raises
        ------
        InvalidInput
            Always, naming `update` and what is trained here.
        """
        trained = " or ".join(f'"{kind}"' for kind in RULES if kind != self.kind)
        raise InvalidInput(
            "update", f'expected one that is trained here, {trained}, got "{self.kind}"'
        )


@dataclass(frozen=True)
class Momentum(Update):
    """v ← momentum·v + direction, x ← x − η·v; with `nesterov` x ← x − η·(direction + momentum·v).

    It is accounted by composition only.

    Parameters
    ----------
    momentum : float, in [0, 1)
        How much of v is left in the next step.
    nesterov : bool
        Whether the step looks ahead.

    Raises
    ------
    InvalidInput
        For a `momentum` outside [0, 1) and a `nesterov` that is no bool.

    References
    ----------
    Sutskever, Martens, Dahl, Hinton 2013, in the form of PyTorch.
    """

    momentum: float = field(default=0.9, metadata=by(_DECAY))
    nesterov: bool = field(default=False, metadata=by(flag))

    kind = "momentum"
    _arrays = 1

    def _along(self, direction: Array, state: State, k: int) -> tuple[Array, State]:
        velocity = self.momentum * state[0] + direction
        along = direction + self.momentum * velocity if self.nesterov else velocity
        return along, (velocity,)


@dataclass(frozen=True)
class Adam(Update):
    """x ← x − η·m̂/(√v̂ + eps), m and v the moving averages of the directions and of their squares.

    In step k (from 1) each average is divided by 1 − βᵏ, entry by entry, which makes m̂ and v̂. It is
    accounted by composition only.

    Parameters
    ----------
    betas : (float, float), both in [0, 1)
        (β₁, β₂): how much of m and of v is left in the next step.
    eps : float, > 0
        In units of the gradient.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    References
    ----------
    Kingma, Ba 2015, Algorithm 1.
    """

    betas: tuple[float, float] = field(default=(0.9, 0.999), metadata=by(_decays))
    eps: float = field(default=1e-8, metadata=by(POSITIVE))

    kind = "adam"
    _arrays = 2

    def reaches(self, state: State) -> bool:
        """Whether the moving average of squares is nonnegative.

        Parameters
        ----------
        state : tuple of arrays
            Finite arrays such as `start` returns.

        Returns
        -------
        bool
            False where an entry of the second array is negative.

        Raises
        ------
        Nothing.
        """
        return bool(np.all(state[1] >= 0.0))

    def _along(self, direction: Array, state: State, k: int) -> tuple[Array, State]:
        first, second = self.betas
        mean = first * state[0] + (1.0 - first) * direction
        square = second * state[1] + (1.0 - second) * np.square(direction)
        scale = np.sqrt(square / (1.0 - second ** (k + 1))) + self.eps
        return mean / (1.0 - first ** (k + 1)) / scale, (mean, square)


RULES: Mapping[str, type[Update]] = MappingProxyType(
    {cls.kind: cls for cls in (SGD, Momentum, Adam, Other)}
)


def checked(update: Any) -> str | Update:
    """`update` if it is one of these rules, or "sgd" or "other".

    Raises InvalidInput for anything else, as nothing is known of it, and for a subclass, which may override
    what it does.
    """
    if type(update) in RULES.values() or (isinstance(update, str) and update in ("sgd", "other")):
        return update  # type: ignore[no-any-return]
    names = ", ".join(f"pabi.updates.{cls.__name__}" for cls in RULES.values())
    raise InvalidInput("update", f'expected "sgd", "other", or one of {names}, got {update!r}')


def rule_of(update: str | Update) -> Update:
    """The rule that `update` names or is. Raises InvalidInput for any other."""
    rule = checked(update)
    return RULES[rule]() if isinstance(rule, str) else rule


def from_dict(table: Any) -> str | Update:
    """The rule of a run file: a name, or a table with its kind and numbers. Raises InvalidInput."""
    if isinstance(table, str):
        return checked(table)
    kind = table.get("kind") if isinstance(table, Mapping) else None
    if not isinstance(kind, str) or kind not in RULES:
        raise InvalidInput("update", f"expected one of {', '.join(RULES)}, got {kind!r}")
    names = [f.name for f in fields(RULES[kind])]
    numbers = {name: value for name, value in table.items() if name != "kind"}
    for name in numbers:
        if name not in names:
            raise InvalidInput(
                str(name), f"unknown key in [update] of kind {kind}; known: {', '.join(names)}"
            )
    return RULES[kind](**numbers)

"""What a trainer does with noisy gradients: updates, and step sizes.

The accountant knows a modulus of plain descent alone. What any other update does to the noisy gradients is
post-processing of them, so that a run with one costs what releasing every noisy gradient costs: composition.
A direction is the noisy gradient of a step with its regulariser, λx + g(x) + ξ.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
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
    require(
        not (hasattr(update, "init") and hasattr(update, "update")),
        "update",
        'expected "other" for a chain of optax, which pabi.integrations.jax.train takes as optimizer',
    )
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
    kind: Any = table.get("kind") if isinstance(table, Mapping) else None
    must_be(isinstance(kind, str) and kind in RULES, "update", f"one of {', '.join(RULES)}", kind)
    names = [f.name for f in fields(RULES[kind])]
    numbers = {name: value for name, value in table.items() if name != "kind"}
    for name in numbers:
        if name not in names:
            raise InvalidInput(
                str(name), f"unknown key in [update] of kind {kind}; known: {', '.join(names)}"
            )
    return RULES[kind](**numbers)


# Step sizes given as a function of the step: numbers for whoever accounts, a function for `replace`.


MOST_CALLS = 10_000_000  # steps beyond which a function is not asked: some ten seconds, and 80 MB


class StepSizes(np.ndarray[tuple[int], np.dtype[np.float64]]):
    """(steps,) step sizes that a function of the step gave, read-only.

    An array of numbers for everybody but the constructor of a description, which finds the function in it:
    `dataclasses.replace` hands on what the field holds. Whatever is computed from it, a slice or a copy
    included, is a plain array, and so is what is pickled.
    """

    _rule: _Rule | None

    def __array_finalize__(self, obj: Any) -> None:
        self._rule = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            kwargs["out"] = tuple(map(_plain, kwargs["out"]))
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return np.array(self)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def _plain(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, StepSizes) else value


def stated_by_function(value: Any) -> bool:
    """Whether step sizes are a function of the step, or come from one: there are some for any steps."""
    return callable(value) or (isinstance(value, StepSizes) and value._rule is not None)


def evaluated(value: Any, steps: int) -> Any:
    """Step sizes from their function as `StepSizes`; everything else as it is."""
    rule = value._rule if isinstance(value, StepSizes) else None
    if rule is None and not callable(value):
        return value
    sizes = (rule or _Rule(value)).sizes(steps)
    common = min(steps, len(value)) if rule is not None else 0
    if common and not np.array_equal(value[:common], sizes[:common]):
        raise InvalidInput("step_size", "expected what its function gave, got other numbers")
    return sizes


class _Rule:
    """A function of the step with what it gave so far.

    Each step is asked for once, so that a run that was accounted and the same run, built again by `replace`,
    have the same step sizes, whatever the function does.
    """

    def __init__(self, function: Callable[[int], Any]) -> None:
        _check_arity(function)
        self._function = function
        self._sizes: Array = np.empty(0)

    def sizes(self, steps: int) -> StepSizes:
        """(steps,) the function's values at k = 0, …, steps − 1. Raises InvalidInput."""
        require(
            steps <= MOST_CALLS,
            "step_size",
            f"expected a number for {steps} steps: a function of k is asked for at most {MOST_CALLS}",
        )
        first = len(self._sizes)
        if first < steps:
            later = [_checked(k, self._function(k)) for k in range(first, steps)]
            self._sizes = np.append(self._sizes, later)
            self._sizes.flags.writeable = False
        sizes = self._sizes[:steps].view(StepSizes)
        sizes._rule = self
        return sizes


def _check_arity(function: Callable[[int], Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are written in C: the call will say
        return
    try:
        signature.bind(0)
    except TypeError:
        raise InvalidInput(
            "step_size",
            f"expected a function of the step k = 0, 1, … alone, got one of {signature}",
        ) from None


def _checked(k: int, value: Any) -> float:
    if (
        isinstance(value, float) and 0.0 < value < math.inf
    ):  # what most functions give, at little cost
        return float(value)
    # An array without dimensions, of whatever library: schedules of optax return such.
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    try:
        return validate.number("step_size", number, above=0.0)
    except InvalidInput:
        raise InvalidInput(
            "step_size",
            f"expected a finite number > 0 at k = {k}, got {validate.excerpt(value)}",
        ) from None

"""What the author of a run of noisy SGD states, checked; `runs` says what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, assert_never, runtime_checkable

import numpy as np

from pabi.describe import batches, updates
from pabi.describe.accounted import Accounted, same
from pabi.describe.batches import Batches
from pabi.describe.losses import CONVEX, Loss, checked_loss, no_residual
from pabi.describe.neighbours import Adjacency, Unit, changed, checked_adjacency, checked_unit
from pabi.describe.orders import FreshSubsets, KnownUses, Order, SecretOrder
from pabi.describe.other_keywords import OTHER_KEYWORDS
from pabi.describe.step_sizes import evaluated, stated_by_function
from pabi.describe.updates import Update
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE, Check, convert, keep, one_of, optional
from pabi.numbers.keywords import answering

MOST = 10**18  # records or steps
COUNT: Check = partial(validate.integer, at_least=1, at_most=MOST)
RELEASE: Check = one_of("last", "path")
_BINARY = 1e-9  # relative: 2.2 epochs of 5 batches are 11 steps, whatever 2.2 is in binary


@runtime_checkable
class Prox(Protocol):
    """A proximal map of a closed convex function: nonexpansive, x ↦ p(x, step_size)."""

    @property
    def diameter(self) -> float | None:
        """The diameter of its range, None if unbounded."""

    def __call__(self, x: Any, step_size: float) -> Any:
        """The map's value at x, an array of the same shape; `step_size`: η."""


@dataclass(frozen=True, eq=False, init=False)
class StatedRun(Accounted):
    """The fields of a run, and what their checks need; see `pabi.NoisySGD`."""

    loss: Loss
    n: int
    batches: Batches
    epochs: float | None
    total_steps: int
    step_size: Any
    noise_std: Any
    noise_multiplier: Any
    clip_norm: float | None
    gradient_sensitivity: float | None
    adjacency: Adjacency
    prox: Prox | None
    diameter: float | None
    cooldown_steps: int
    update: str | Update
    release: str
    clipping: str
    unit: Unit

    @answering(OTHER_KEYWORDS)
    def __init__(
        self,
        loss: Loss,
        n: int,
        batches: Batches,
        epochs: float | None = None,
        steps: int | None = None,
        step_size: Any = None,
        noise_std: Any = None,
        noise_multiplier: Any = None,
        *,
        clip_norm: float | None = None,
        gradient_sensitivity: float | None = None,
        adjacency: Any = "replace_one",
        prox: Prox | None = None,
        diameter: float | None = None,
        cooldown_steps: int = 0,
        update: str | Update = "sgd",
        release: str = "last",
        clipping: str = "norm",
        unit: str = "record",
        total_steps: int | None = None,
    ) -> None:
        keep(
            self,
            loss=loss,
            n=n,
            batches=batches,
            epochs=epochs,
            step_size=step_size,
            noise_std=noise_std,
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            gradient_sensitivity=gradient_sensitivity,
            adjacency=adjacency,
            prox=prox,
            diameter=diameter,
            cooldown_steps=cooldown_steps,
            update=update,
            release=release,
            clipping=clipping,
            unit=unit,
        )
        self._check_data()
        self._check_steps(steps, total_steps)
        self._check_gradients()
        self._check_rest()

    def _schedule(self, name: str, value: Any) -> Any:
        if name == "step_size" and stated_by_function(value):
            return value  # checked where the function was asked, for so many steps
        schedule = validate.schedule(name, value, positive=True)
        if isinstance(schedule, np.ndarray) and len(schedule) != self.steps:
            raise InvalidInput(
                name,
                f"expected {self.steps} entries, one per step (cool-down included), got {len(schedule)}",
            )
        return schedule

    def _check_data(self) -> None:
        checked_loss(self.loss)
        convert(self, n=COUNT)
        batches.checked(self.batches).batch_size(self.n)
        keep(self, adjacency=checked_adjacency(self.adjacency))

    def _check_steps(self, steps: int | None, total: int | None) -> None:
        """Stores how many there are: as `steps` says, or `epochs`, or else as handed on (`total`)."""
        convert(self, cooldown_steps=partial(validate.integer, at_least=0, at_most=MOST))
        cooldown = self.cooldown_steps
        if self.epochs is not None and steps is not None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got both")
        if self.epochs is not None:
            keep(self, total_steps=_steps_of(self.epochs, self.steps_per_epoch) + cooldown)
            return
        stated = total if steps is None else steps
        if stated is None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got neither")
        stated = COUNT("steps", stated)
        most = stated - 1
        validate.integer("cooldown_steps", cooldown, at_least=0, at_most=most, of="steps − 1 = ")
        keep(self, total_steps=stated)

    def _check_gradients(self) -> None:
        if self.noise_std is not None and self.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier", "expected at most one of noise_std and noise_multiplier"
            )
        convert(self, clip_norm=optional(POSITIVE), gradient_sensitivity=optional(POSITIVE))
        if self.gradient_sensitivity is not None:
            for other in ("clip_norm", "noise_multiplier"):
                if getattr(self, other) is not None:
                    raise InvalidInput(
                        "gradient_sensitivity", f"expected it alone, got it together with {other}"
                    )
            if not self._sensitivity_may_be_stated:
                raise InvalidInput(
                    "gradient_sensitivity",
                    f"a {self.batches.kind} batch holds the record in place of others or not at all: what "
                    "the adjacent pair differ by is not enough; give clip_norm, or a loss with a "
                    "gradient bound",
                )
        elif self.record_gradient_bound is None:
            raise InvalidInput(
                "clip_norm",
                "missing: nothing bounds one record's gradient; give clip_norm, gradient_sensitivity, "
                "or a loss with a gradient bound",
            )

    @property
    def _sensitivity_may_be_stated(self) -> bool:
        """Whether what the adjacent pair differ by bounds what a record adds to a batch."""
        match self.order:
            case KnownUses() | SecretOrder():
                return True
            case FreshSubsets() as order:
                return changed(self.adjacency) == 1 and not order.displaces
            case _:
                assert_never(self.order)

    def _check_rest(self) -> None:
        if self.step_size is None:
            raise InvalidInput("step_size", "missing: a run needs it")
        schedule = self._schedule
        keep(self, step_size=evaluated(self.step_size, self.steps))
        convert(
            self,
            step_size=schedule,
            noise_std=optional(schedule),
            noise_multiplier=optional(schedule),
        )
        if self.prox is not None and not (callable(self.prox) and hasattr(self.prox, "diameter")):
            raise InvalidInput(
                "prox", f"expected a map p(x, step_size) with a diameter, got {self.prox!r}"
            )
        stated = getattr(self.prox, "diameter", None)
        for name, value in (("diameter", self.diameter), ("prox.diameter", stated)):
            if value is not None:
                validate.number(name, value, above=0.0)
        if isinstance(self.diameter, np.generic):  # assumptions show it as Python writes it
            keep(self, diameter=self.diameter.item())
        keep(self, update=updates.checked(self.update))
        convert(self, release=RELEASE, clipping=one_of("norm", "coordinates", *CONVEX))
        keep(self, unit=checked_unit(self.unit))
        if self.unit == "user" and not self.loss.holds_of_zero:
            raise InvalidInput(
                "unit",
                f'expected "record" for a {self.loss.kind} loss: the mean over the records of a user who has '
                "none is 0, which is not strongly convex or dissipative; state the loss as convex or "
                "nonconvex, with its quadratic part in l2",
            )
        if self.clipping != "norm" and self.clip_norm is None:
            raise InvalidInput("clip_norm", f"missing: clipping={self.clipping!r} needs a norm")
        if self.clipping in CONVEX and not self.loss.has_residual:
            raise InvalidInput("clipping", no_residual(self.loss.kind))
        if self.clipping == "ball" and "residual_cap" in dict(self.loss.parameters):
            raise InvalidInput(
                "clipping", 'expected "residual" for a loss with a residual_cap, got "ball"'
            )

    @property
    def steps(self) -> int:
        """All steps, cool-down included."""
        return self.total_steps

    @property
    def order(self) -> Order:
        """Which steps use a record, and who knows.

        Raises InvalidInput for batches that pabi does not know.
        """
        return batches.order_of(self.batches, self.n, self.data_steps)

    @property
    def rule(self) -> Update:
        """The update that every step takes."""
        return updates.rule_of(self.update)

    @property
    def batch_size(self) -> int:
        """b, by which every batch sum is divided."""
        return self.batches.batch_size(self.n)

    @property
    def steps_per_epoch(self) -> int:
        """l = ⌈n/size⌉, the steps of one pass over the data."""
        return self.batches.per_epoch(self.n)

    @property
    def data_steps(self) -> int:
        """Steps that use data: all but the cool-down."""
        return self.steps - self.cooldown_steps

    @property
    def record_gradient_bound(self) -> float | None:
        """The largest norm of one record's (clipped) gradient: the lesser of clip_norm and the loss's."""
        bounds = [b for b in (self.clip_norm, self.loss.gradient_bound) if b is not None]
        return min(bounds) if bounds else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatedRun):
            return NotImplemented
        return self.rule == other.rule and all(
            same(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.name != "update"
        )

    __hash__ = None

    def __getstate__(self) -> dict[str, Any]:
        """The constructor's arguments, those that are None left out; of step sizes only the numbers."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if stated_by_function(self.step_size):
            values["step_size"] = np.array(self.step_size)
        return {name: value for name, value in values.items() if value is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)


def _steps_of(epochs: Any, per_epoch: int) -> int:
    """The number of steps with data in so many passes. Raises InvalidInput."""
    exact = validate.number("epochs", epochs, above=0.0) * per_epoch
    if not exact <= MOST:
        raise InvalidInput("epochs", f"expected at most {MOST} steps in all, got {epochs!r} epochs")
    whole = round(exact)
    return whole if abs(exact - whole) <= _BINARY * exact else math.ceil(exact)

"""Descriptions of forgetting: a run of noisy SGD, and the steps that it goes on with after records were
withdrawn.

Learn T steps, then, after each request, go on for some steps in which the gradients of all records withdrawn
so far are zero (under "replace_one": those of the records that took their place). Withdrawn records are still
drawn and counted. What is promised compares the model with one that was trained as many steps without them.

Where the run protects users, a request withdraws users, each with all their records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from pabi.describe.accounted import RETRAINED, SHOWN, Accounted, Adjacency, Compared, Unit, adjacent
from pabi.describe.runs import MOST, NoisySGD, run_sentences
from pabi.describe.updates import stated_by_function
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.numbers.validate import flag, keep

if TYPE_CHECKING:
    from pabi.tradeoff.guarantee import Guarantee

_RETRAINED = (
    "the model is compared with one retrained for as many steps, in the same batches, in which "
)
_COMPARED: dict[tuple[Adjacency, Unit], str] = {
    (
        "zero_out",
        "record",
    ): f"{_RETRAINED}the gradients of the forgotten records are zero from the first "
    "step on, while n and all divisors stay (retrained)",
    (
        "replace_one",
        "record",
    ): f"{_RETRAINED}each of the forgotten records is another one from the first "
    "step on (retrained)",
    (
        "zero_out",
        "user",
    ): f"{_RETRAINED}the contributions of the forgotten users are zero from the first "
    "step on, while n and all divisors stay (retrained)",
    (
        "replace_one",
        "user",
    ): f"{_RETRAINED}the records of each of the forgotten users are others, or none, "
    "from the first step on (retrained)",
}
_REQUESTS = (
    "which {}s are forgotten, and when, does not depend on the noise, on the order of the batches or on "
    "any model that was handed out"
)
_ALONE = "the model is looked at by itself; no model handed out before it, and no earlier iterate, is known"
_GIVEN = "every model handed out before may be known; no iterate in between is"


class Request(NamedTuple):
    """The steps taken after a request, and how many records it withdraws."""

    steps: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The steps between two requests.

    Attributes
    ----------
    first, end : int
        The steps `first`, …, `end` − 1, counted from 0.
    carried : int
        How many of the records that are withdrawn in the end they still use.
    withdrawn : int
        How many records were withdrawn before.
    """

    first: int
    end: int
    carried: int
    withdrawn: int


@dataclass(frozen=True, eq=False)
class Unlearning(Accounted):
    """A run of noisy SGD that forgets records by going on without them.

    The steps go on where the run stopped: in the next batch, with the same noise, clipping and proximal map.

    Parameters
    ----------
    run : NoisySGD
        The training. Its `adjacency` says what becomes of withdrawn records: "zero_out", their gradients are
        zero and they stay drawn and counted; "replace_one", another record takes the place of each. Where its
        `unit` is "user", users are withdrawn.
    requests : sequence of (int, int)
        (steps taken after a request, records, or users, that it withdraws), one for each request, in order.
    step_size : float or array, optional
        η of the steps after the first request, one or one per step; None: what the run's function of the step
        goes on with, or else its last one.
    published : bool
        Whether models were handed out before the last request's steps and what is promised is said given
        them.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    docs, "Theory", 21.
    """

    run: NoisySGD
    requests: Sequence[tuple[int, int]]
    step_size: Any = None
    published: bool = False

    adjacency: ClassVar[Compared] = RETRAINED

    def __post_init__(self) -> None:
        validate.exactly("run", self.run, NoisySGD, "a pabi.NoisySGD")
        keep(self, requests=_requests(self.requests), published=flag("published", self.published))
        if self.records > self.run.n:
            raise InvalidInput(
                "requests",
                f"expected at most n = {self.run.n} {self.unit}s in all, got {self.records}",
            )
        if self.run.cooldown_steps and len(self.requests) > 1:
            raise InvalidInput("requests", "expected one: the run has a cool-down before it")
        keep(self, step_size=self._later_step_sizes())

    def _later_step_sizes(self) -> Any:
        """Those stated, or those that a function goes on with; None where the last one is repeated."""
        size, further = self.step_size, self.steps - self.run.steps
        if size is None and stated_by_function(self.run.step_size) and further:
            longer = replace(self.run, epochs=None, total_steps=self.steps, **self._noise())
            return validate.schedule("step_size", longer.step_size[self.run.steps :], positive=True)
        if size is None:
            return None
        size = validate.schedule("step_size", size, positive=True)
        if isinstance(size, np.ndarray) and len(size) != further:
            raise InvalidInput(
                "step_size",
                f"expected {further} entries, one per step after the first request, got {len(size)}",
            )
        return size

    @property
    def n(self) -> int:
        """Records, or users, the withdrawn ones included."""
        return self.run.n

    @property
    def unit(self) -> Unit:
        """Whom a request withdraws: records, or users with all their records. That of the run."""
        return self.run.unit

    @property
    def records(self) -> int:
        """How many records, or users, are withdrawn in all."""
        return sum(records for _, records in self.requests)

    @property
    def compared(self) -> tuple[int, Adjacency, bool]:
        """What a model is compared with: (how many are forgotten, what becomes of them, whether models that
        were handed out are known)."""
        return self.records, self.run.adjacency, self.published

    @property
    def steps(self) -> int:
        """All steps, those after requests included."""
        return self.run.steps + sum(steps for steps, _ in self.requests)

    @property
    def last(self) -> int:
        """The step, counted from 0, at which the last request's steps begin."""
        return self.steps - Request(*self.requests[-1]).steps

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The training and the steps after every request but the last, all of which use some of the
        records."""
        stages, first, withdrawn = [], 0, 0
        # The steps with data of the training, and those after every request but the last.
        lengths = (self.run.data_steps, *(steps for steps, _ in self.requests[:-1]))
        for length, (_, records) in zip(lengths, self.requests, strict=True):
            end, carried = first + length, self.records - withdrawn
            stages.append(Stage(first=first, end=end, carried=carried, withdrawn=withdrawn))
            first, withdrawn = end, withdrawn + records
        return tuple(stages)

    @cached_property
    def whole(self) -> NoisySGD:
        """All steps as one run, in which those after the last request, which no longer use the records,
        count as its cool-down."""
        run = self.run
        idle = self.steps - self.stages[-1].end
        steps: dict[str, Any] = {"epochs": None, "steps": self.steps, "cooldown_steps": idle}
        return replace(run, **steps, step_size=self._step_sizes(), **self._noise())

    def _step_sizes(self) -> float | Array:
        """η of all steps; written out where the stages differ."""
        run, later, further = self.run, self.step_size, self.steps - self.run.steps
        alike = later is None or (np.ndim(later) == 0 and later == run.step_size)
        if np.ndim(run.step_size) == 0 and alike and len(self.requests) == 1:
            return float(run.step_size)
        own = np.broadcast_to(np.asarray(run.step_size, dtype=np.float64), run.steps)
        return np.append(own, np.broadcast_to(own[-1] if later is None else later, further))

    def _noise(self) -> dict[str, Any]:
        """The noise of all steps, which goes on with its last entry."""
        further = self.steps - self.run.steps
        every = {name: getattr(self.run, name) for name in ("noise_std", "noise_multiplier")}
        return {
            name: np.append(value, np.full(further, value[-1])) if np.ndim(value) else value
            for name, value in every.items()
        }

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this forgetting to hold."""
        return unlearning_sentences(self)

    def _best(self, delta: float, position: int | None = None) -> Guarantee:
        from pabi.account.forgetting import with_bill

        return with_bill(self, super()._best(delta, position), delta)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)


def pairs_of(requests: Any, passed: str) -> list[tuple[Any, Any]]:
    """(what has `passed` after it, records) of every request. Raises InvalidInput."""
    try:
        return [(after, records) for after, records in requests]
    except (TypeError, ValueError):
        raise InvalidInput(
            "requests",
            f"expected pairs ({passed} after the request, records), got {validate.excerpt(requests)}",
        ) from None


def _requests(value: Any) -> tuple[Request, ...]:
    """Requests as such. Raises InvalidInput."""
    pairs = pairs_of(value, "steps")
    require(pairs, "requests", "expected at least one, got none")
    return tuple(
        Request(
            validate.integer("steps", steps, at_least=0, at_most=MOST),
            validate.integer("records", records, at_least=1, at_most=MOST),
        )
        for steps, records in pairs
    )


def unlearning_sentences(unlearning: Unlearning, hidden: bool = True) -> tuple[str, ...]:
    """What a guarantee of forgetting rests on. `hidden`: whether it needs the path to stay hidden."""
    run, unit = unlearning.run, unlearning.unit
    alone = _GIVEN if unlearning.published else _ALONE
    about = adjacent(run.adjacency, unit)
    later = (
        f"request {i} withdraws {records} of the {unit}s, after which {steps} steps follow"
        for i, (steps, records) in enumerate(unlearning.requests, 1)
    )
    return (
        _COMPARED[run.adjacency, unit],
        *about[1:],
        alone if hidden else SHOWN,
        _REQUESTS.format(unit),
        f"learning takes {run.steps} steps",
        *later,
        "the later steps go on in the batches, with the schedule, the noise and the clipping as described",
        *run_sentences(run, hidden)[
            len(about) + 1 :
        ],  # without the adjacency, and what else is known
    )

"""What a run of noisy SGD promises of forgetting: the guarantee, the fewest epochs and the least noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pabi.account.best import best_guarantee
from pabi.account.calibration import calibrate
from pabi.analyses.unlearning import require_given
from pabi.describe.runs import NoisySGD
from pabi.describe.stated_run import MOST
from pabi.describe.unlearning import Unlearning
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.showing import exact, shown
from pabi.numbers.waiting import waiting

_MOST_STEPS, _MOST_VARYING = 1 << 40, 1_000_000  # beyond which a target counts as out of reach
_DOUBLINGS = 5  # of the epochs without less ε, after which it does as well
_LESS = 1.0 - 1e-9  # what counts as less

With = Callable[[Guarantee], Guarantee]


def described(
    run: NoisySGD,
    *,
    steps: int | None = None,
    epochs: float | None = None,
    records: int = 1,
    requests: Sequence[tuple[float, int]] = (),
    published: bool = False,
) -> Unlearning:
    """The forgetting that these arguments of `run.unlearning` describe. Raises InvalidInput."""
    stated = [x for x in (steps, epochs, requests or None) if x is not None]
    if len(stated) != 1:
        raise InvalidInput(
            "epochs", f"expected exactly one of epochs, steps and requests, got {len(stated)}"
        )
    if not requests:
        later = _steps_of(run, epochs) if steps is None else steps
        return Unlearning(run, [(later, records)], published=published)
    if records != 1:
        raise InvalidInput(
            "records", f"expected them in requests, beside the epochs, got {records!r} as well"
        )
    pairs = _pairs(requests)
    return Unlearning(run, [(_steps_of(run, k), m) for k, m in pairs], published=published)


def _pairs(requests: Any) -> list[tuple[Any, Any]]:
    try:
        return [(epochs, records) for epochs, records in requests]
    except (TypeError, ValueError):
        raise InvalidInput(
            "requests",
            f"expected pairs (epochs after the request, records), got {validate.excerpt(requests)}",
        ) from None


def _steps_of(run: NoisySGD, epochs: Any) -> int:
    """The steps of so many passes over the data, whole batches; 0 for none."""
    passes = validate.number("epochs", epochs, at_least=0.0)
    most = MOST // run.steps_per_epoch
    if passes > most:
        raise InvalidInput("epochs", f"expected at most {most}, got {epochs!r}")
    whole = round(passes * run.steps_per_epoch)
    near = math.isclose(passes * run.steps_per_epoch, whole, rel_tol=1e-9)
    return whole if near else math.ceil(passes * run.steps_per_epoch)


def guarantee_of(unlearning: Unlearning, delta: float) -> Guarantee:
    """The best proven guarantee of forgetting. Raises NotApplicable and InvalidInput."""
    if unlearning.published:
        require_given(unlearning)
    return best_guarantee(unlearning, delta)


def fewest_epochs(run: NoisySGD, epsilon: float, delta: float, records: int) -> int:
    """The least number found of whole epochs after which `records` are forgotten at (epsilon, delta).

    It is the fewest where ε does not grow with the epochs, as without steps that expand. Raises
    TargetUnreachable, and InvalidInput for what is out of range.
    """
    return fewest_after(run, (), epsilon, delta, records)[0]


def fewest_after(
    run: NoisySGD,
    earlier: Sequence[tuple[int, int]],
    epsilon: float,
    delta: float,
    records: int,
    *,
    least: int = 0,
    together: With | None = None,
) -> tuple[int, Guarantee]:
    """(the same number, from `least` on, of a request after others; what is promised then).

    `earlier`: (steps after it, records) of the requests before. `together`: adds to a guarantee what else
    has to be forgotten. Raises as `fewest_epochs` does.
    """
    target = validate.number("epsilon", epsilon, above=0.0)
    validate.number("delta", delta, above=0.0, below=1.0)
    search = _Epochs(run, target, delta, records, tuple(earlier), together)
    with waiting("counting epochs"):
        low, high = least, max(1, 2 * least)
        if search.enough(low):
            return low, search.promised[low]
        while not search.enough(high):
            if search.hopeless(high):
                raise search.unreachable(high)
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if search.enough(middle) else (middle, high)
    return high, search.promised[high]


class _Epochs:
    """Tries numbers of epochs and remembers the least ε."""

    def __init__(
        self,
        run: NoisySGD,
        target: float,
        delta: float,
        records: int,
        earlier: tuple[tuple[int, int], ...],
        together: With | None,
    ) -> None:
        self.run, self.target, self.delta, self.records = run, target, delta, records
        self.earlier, self.together = earlier, together
        self.least, self.in_vain = math.inf, 0
        self.promised: dict[int, Guarantee] = {}

    def enough(self, epochs: int) -> bool:
        """Whether so many epochs meet the target."""
        steps = _steps_of(self.run, epochs)
        unlearning = Unlearning(self.run, [*self.earlier, (steps, self.records)])
        guarantee = best_guarantee(unlearning, self.delta)
        if self.together is not None:
            guarantee = self.together(guarantee)
        self.promised[epochs] = guarantee
        value = guarantee.epsilon(self.delta)
        self.in_vain = 0 if value < self.least * _LESS else self.in_vain + 1
        self.least = min(self.least, value)
        return value <= self.target

    def hopeless(self, epochs: int) -> bool:
        """Whether more epochs did not help for long, or are too many to be looked at."""
        plain = self.run.constant and not self.run.order.fresh
        most = _MOST_STEPS if plain else _MOST_VARYING
        return self.in_vain >= _DOUBLINGS or epochs * self.run.steps_per_epoch > most

    def unreachable(self, epochs: int) -> TargetUnreachable:
        """The error that names the least ε seen."""
        return TargetUnreachable(
            f"epsilon = {exact(self.target)} at delta = {exact(self.delta)} cannot be met by epochs: after "
            f"{epochs} of them the least seen is epsilon = {shown(self.least)}",
            self.least,
        )


def least_noise(
    run: NoisySGD, epsilon: float, delta: float, *, epochs: float, records: int
) -> NoisySGD:
    """The run with the least noise at which so many epochs are enough. Raises TargetUnreachable and
    InvalidInput."""
    name = "noise_std" if run.noise_multiplier is None else "noise_multiplier"
    if run.noise_std is None and run.noise_multiplier is None:
        run = replace(run, noise_std=1.0)
    unlearning = described(run, epochs=epochs, records=records)
    return calibrate(unlearning, epsilon, delta, name).run

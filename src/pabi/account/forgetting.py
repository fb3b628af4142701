"""What a run of noisy SGD promises of forgetting: the guarantee, the fewest epochs and the least noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable
from pabi.numbers.showing import exact, shown
from pabi.numbers.waiting import waiting

_MOST_EPOCHS = 1 << 30  # beyond which a target counts as out of reach


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
    target = validate.number("epsilon", epsilon, above=0.0)
    validate.number("delta", delta, above=0.0, below=1.0)
    least = math.inf

    def enough(epochs: int) -> bool:
        nonlocal least
        try:
            value = best_guarantee(described(run, epochs=epochs, records=records), delta)
        except NotApplicable:
            return False
        least = min(least, value.epsilon(delta))
        return value.epsilon(delta) <= target

    with waiting("counting epochs"):
        if enough(0):
            return 0
        low, high = 0, 1
        while not enough(high):
            if high * run.steps_per_epoch > _most_steps(run):
                raise TargetUnreachable(
                    f"epsilon = {exact(target)} at delta = {exact(delta)} cannot be met by epochs: after "
                    f"{high} of them the least seen is epsilon = {shown(least)}",
                    least,
                )
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _most_steps(run: NoisySGD) -> int:
    """Steps beyond which a target counts as out of reach: fewer where each of them is looked at."""
    plain = run.constant and not run.order.fresh
    return _MOST_EPOCHS if plain else 1_000_000


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

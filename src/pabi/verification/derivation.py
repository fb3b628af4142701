"""What a description of noisy SGD says about each step, in exact rational arithmetic.

Written independently of the code that accounts: constants of the losses, the rule for regulariser and
batch fraction, noise, diameter. What depends on the order of the batches is in `ordered_runs` and
`drawn_runs`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import fmpq

from pabi.describe.runs import NoisySGD, run_sentences
from pabi.describe.updates import SGD
from pabi.verification.adjacency import Compared, read_adjacency
from pabi.verification.arithmetic import exact
from pabi.verification.gradients import ClippedGradients
from pabi.verification.losses import facts_of
from pabi.verification.refusal import Refused
from pabi.verification.theorem import About


def takes_plain_steps(update: Any) -> bool:
    """Whether an update is plain noisy SGD. What is not known to be is not."""
    return type(update) is SGD or (type(update) is str and update == "sgd")


def hides_its_path(release: Any) -> bool:
    """Whether only the last iterate is released. What is not known to be hidden is not."""
    return type(release) is str and release == "last"


def least_diameter(stated: float | None, prox: Any) -> float | None:
    """D: the lesser of the stated diameter and that of the proximal map's range, None without any."""
    bounds = [float(d) for d in (stated, getattr(prox, "diameter", None)) if d is not None]
    least = min(bounds, default=math.inf)
    return None if least == math.inf else least


class Derived(About):
    """Step sizes, noises and gradients of `run`, as rationals; steps count from 0.

    `size`: the number that every batch sum is divided by. `total`: all steps; `data`: those before the
    cool-down. `position`: the only batch spoken of, None for everybody. `constant`: whether step size and
    noise are the same at all steps. `diameter`: D, None if there is none. `neighbours`: what becomes of a
    record; `adjacency`: what is compared.
    """

    position: int | None = None

    def __init__(self, run: NoisySGD, size: int) -> None:
        self.run, self.size = run, size
        self.neighbours, self.unit = read_adjacency(run.adjacency), run.unit
        self.adjacency: Compared = self.neighbours
        self.total = int(run.steps)
        self.data = self.total - int(run.cooldown_steps)
        self.gradients = ClippedGradients(run)
        self.nulls = self.gradients.facts.holds_of_zero
        if self.unit == "user" and not facts_of(run.loss).holds_of_zero:
            raise Refused("unit: the loss 0 of a user without records is not of the stated kind")
        self.diameter = least_diameter(run.diameter, run.prox)
        self.constant = not any(
            isinstance(x, np.ndarray) for x in (run.step_size, run.noise_std, run.noise_multiplier)
        )

    def assumptions(self, *, hidden: bool) -> tuple[str, ...]:
        """What a proof about the run rests on; refused if it needs a hidden path and there is none."""
        run = self.run
        if hidden and not (hides_its_path(run.release) and takes_plain_steps(run.update)):
            raise Refused("run: the theorem needs plain noisy SGD with a hidden path")
        return run_sentences(run, hidden=hidden, position=self.position)

    def step_size(self, k: int) -> Any:
        """The step size η of step k, a rational."""
        return _at(self.run.step_size, k)

    def noise(self, k: int) -> Any:
        """The standard deviation ς of the noise on the gradient at step k, a rational."""
        run = self.run
        if run.noise_std is not None:
            return _at(run.noise_std, k)
        if run.noise_multiplier is None:
            raise Refused("noise_std: the description has no noise")
        # What the multiplier multiplies is part of the description, as the trainer reads it.
        unit = exact(run.clip_norm if run.clip_norm is not None else run.loss.gradient_bound or 0.0)
        return _at(run.noise_multiplier, k) * unit / self.size

    def sigma(self, k: int) -> Any:
        """The standard deviation of the noise on the iterate at step k, a rational."""
        return self.step_size(k) * self.noise(k)

    def changed_by(self, gradients: int) -> Any:
        """How far a batch's gradient sum moves if so many gradients of one record change, or as stated."""
        if self.run.gradient_sensitivity is not None:
            return exact(self.run.gradient_sensitivity)
        if self.gradients.bound is None:
            raise Refused("clip_norm: nothing bounds one record's gradient")
        return gradients * self.gradients.bound

    def slope_at(self, k: int, fractions: tuple[Any, ...]) -> Any:
        """The largest slope of step k over these parts of a batch, None if none is known."""
        eta = self.step_size(k)
        slopes = [self.gradients.slope(eta, fraction) for fraction in fractions]
        return None if any(slope is None for slope in slopes) else max(slopes)


def _at(schedule: Any, k: int) -> Any:
    return exact(schedule[k] if isinstance(schedule, np.ndarray) else schedule)


NO_DATA = (fmpq(0),)  # the fraction of a step of the cool-down

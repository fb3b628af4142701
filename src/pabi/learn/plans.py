"""What an estimator would do with a table of some size, before any data are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pabi.describe.neighbours import Unit
from pabi.describe.runs import NoisySGD
from pabi.describe.second_moments import NoisySecondMoments
from pabi.guarantees.guarantee import Guarantee
from pabi.learn.whitening import together
from pabi.numbers.showing import exact, plain, shown


@dataclass(frozen=True)
class Size:
    """The public numbers of a table as the model sees it.

    `n`: records, or users. `width`: columns, the constant included. `outputs`: predictors. `norm`: the
    longest row's. `unit`: "record" or "user".
    """

    n: int
    width: int
    outputs: int
    norm: float
    unit: Unit = "record"


@dataclass(frozen=True)
class TrainingPlan:
    """What `fit` would do with a table of this size, and what the rule expects of it.

    All of it follows from public numbers. An estimator's method `plan` makes one; `fit` executes the same.

    Attributes
    ----------
    run : NoisySGD
        The training, noise included.
    moments : NoisySecondMoments or None
        The release for preconditioning before it, None where there is none.
    delta : float
        δ of the target.
    size : Size
        Records, columns, predictors and the norm of rows.
    signal : float, > 0
        The size that the rule takes predictors to have, in `unit`.
    unit : str
        "logits", "margins", "probabilities", "units of y" or "logarithms of rates".
    scale : float, > 0
        One unit of the predictor that is trained, in `unit`.

    References
    ----------
    docs, "How the defaults are chosen".
    """

    run: NoisySGD
    moments: NoisySecondMoments | None
    delta: float
    size: Size
    signal: float
    unit: str
    scale: float

    @cached_property
    def guarantee(self) -> Guarantee:
        """What both releases cost together; `fit` adds what it assumes of the data."""
        before = () if self.moments is None else (self.moments.guarantee(self.delta),)
        return together(*before, self.run.guarantee(self.delta))

    @property
    def noise(self) -> float:
        """By how much noise moves the predictor of a row of the largest norm, in `unit`: at most.

        It is a standard deviation before the loss's curvature damps it, which it does the more the longer
        the path is.
        """
        steps = np.broadcast_to(np.asarray(self.run.step_size, dtype=np.float64), self.run.steps)
        noise = np.broadcast_to(np.asarray(self.run.gradient_noise_std), self.run.steps)
        return float(np.linalg.norm(steps * noise)) * self.size.norm * self.scale

    def __str__(self) -> str:
        run, moments, size = self.run, self.moments, self.size
        steps = np.atleast_1d(run.step_size)
        rows = (
            (
                "table",
                f"{size.n} {size.unit}s, {size.width} columns, rows of norm {plain(size.norm)}",
            ),
            (
                "privacy",
                f"ε = {shown(self.guarantee.epsilon(self.delta))}, δ = {exact(self.delta)}",
            ),
            ("preconditioning", "none" if moments is None else _spent(moments, self.delta)),
            ("batches", f"{run.batches!r}, {run.steps} steps, {run.cooldown_steps} to cool down"),
            ("step sizes", " to ".join(plain(step) for step in dict.fromkeys(steps[[0, -1]]))),
            ("gradients", f"{_bounded(run)}, noise {plain(run.gradient_noise_std)} on their mean"),
            ("regulariser", f"{exact(run.loss.l2)}·‖θ‖²/2" if run.loss.l2 else ""),
            ("expected", f"predictors of about {plain(self.signal)} {self.unit}"),
            ("", f"moved by noise of at most {shown(self.noise)}"),
        )
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows if value)


def _spent(moments: NoisySecondMoments, delta: float) -> str:
    what = "the diagonal of second moments" if moments.diagonal else "second moments"
    return f"{what}, by itself ε = {shown(moments.guarantee(delta).epsilon(delta))}"


def _bounded(run: NoisySGD) -> str:
    if run.clip_norm is None:
        return f"bounded by {shown(run.loss.gradient_bound or math.inf)}"
    return f"clipped to {shown(run.clip_norm)} ({run.clipping})"

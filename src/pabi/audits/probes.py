"""Data sets whose models show whether a trainer does what a run says, and models of the run on them.

All rows have one column. So a model is one number, whose law under the run is known by training thousands of
them side by side, each with batches, clipping and noise as described. The canary pair has one row that pulls.
The other data sets are no neighbours: there all rows pull, which shows in how many steps and in what order.
Order shows where steps forget: more rows pull one way, until they pull less than the clip norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.audits.batch_counts import BatchCounts
from pabi.audits.canaries import CanaryData, canary_pair, two_targets
from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.describe.linear_loss import LinearLoss
from pabi.describe.linear_losses import LINEAR_LOSSES, executable
from pabi.describe.prox import ball, box, elastic_net, l1, l2
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import Momentum, Other
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.numbers.showing import plain

NAMES = (
    "a canary",
    "its neighbour",
    "nine rows of ten alike",
    "seven tenths alike, then opposite ones",
)
_COUNTED = 2_000_000  # batches of an order that comes back, over all models at once
_AT_ONCE = 20_000


def probes(run: NoisySGD) -> tuple[CanaryData, ...]:
    """The data sets, in the order of `NAMES`. Raises InvalidInput for a loss without canaries."""
    targets = two_targets(run)
    canary, neighbour = canary_pair(run)
    rows = np.arange(run.n)
    X = np.full((run.n, 1), float(np.max(np.abs(canary.X))))
    alike = CanaryData(X, targets[np.where(rows % 10 == 9, 0, 1)])
    return canary, neighbour, alike, CanaryData(X, targets[np.where(10 * rows < 7 * run.n, 1, 0)])


def refuse_untested(run: NoisySGD) -> None:
    """Raises NotApplicable for runs whose models are not trained side by side here."""
    if run.unit == "user":
        raise NotApplicable("users have several rows")
    if isinstance(run.rule, Other):
        raise NotApplicable("what the update does is not described")
    if not isinstance(run.prox, None | l1 | l2 | elastic_net | ball | box):
        raise NotApplicable("the proximal map is not one of a number")


def models(run: NoisySGD, data: CanaryData, count: int, generator: np.random.Generator) -> Array:
    """(count,) what the run releases on a data set of one column, from a start at 0."""
    period = run.steps_per_epoch
    size = max(1, min(_AT_ONCE, _COUNTED // period))
    parts = [min(size, count - first) for first in range(0, count, size)]
    return np.concatenate([_side_by_side(run, data, part, generator) for part in parts])


def _side_by_side(
    run: NoisySGD, data: CanaryData, count: int, generator: np.random.Generator
) -> Array:
    slopes, targets, kinds = _kinds(run, data)
    uses = BatchCounts(run, kinds, len(slopes), count, generator)
    loss = executable(run.loss.kind, **dict(run.loss.parameters))
    eta, noise = run.schedule(0, run.steps)
    x, rule, bound = np.zeros(count), run.rule, run.record_gradient_bound
    state = rule.start(x)
    for k in range(run.steps):
        total = np.zeros(count)
        if k < run.data_steps:
            used = uses.at(k)
            for kind, (slope, target) in enumerate(zip(slopes, targets, strict=True)):
                if used[kind].any():
                    total += used[kind] * _gradient(loss, x, float(slope), float(target), bound)
        noisy = total / run.batch_size + noise[k] * generator.standard_normal(count)
        x, state = rule.step(x, run.loss.l2 * x + noisy, float(eta[k]), state, k)
        x = _mapped(run, x, float(eta[k]))
    return x


def _kinds(run: NoisySGD, data: CanaryData) -> tuple[Array, NDArray[np.float64], NDArray[np.int64]]:
    """(entries of the kinds of rows that pull, their targets, the kind of every row); those at rest last."""
    entries, targets = data.X[:, 0], np.asarray(data.y, dtype=np.float64)
    if LINEAR_LOSSES[run.loss.kind].response == "sign":
        targets = np.where(targets > 0.0, 1.0, -1.0)
    pulling = entries != 0.0
    pairs, own = np.unique(np.stack([entries, targets])[:, pulling], axis=1, return_inverse=True)
    kinds = np.full(len(entries), pairs.shape[1])
    kinds[pulling] = own.ravel()
    return pairs[0], pairs[1], kinds


def _gradient(
    loss: LinearLoss, x: Array, entry: float, target: float, bound: float | None
) -> Array:
    """(m,) the clipped gradient of a row at each model."""
    signed = entry * target if loss.response == "sign" else entry
    z = signed * x
    loss.differentiate(z, np.full(len(x), target))
    z *= signed
    return z if bound is None else np.clip(z, -bound, bound, out=z)


def _mapped(run: NoisySGD, x: Array, step_size: float) -> Array:
    match run.prox:
        case None:
            return x
        case ball(radius=radius, center=center):
            middle = 0.0 if center is None else float(np.ravel(center)[0])
            return np.clip(x, middle - radius, middle + radius)
        case _:  # entry by entry
            return np.asarray(run.prox(x, step_size), dtype=np.float64)


# What may be wrong.


@dataclass(frozen=True, eq=False)
class Fault:
    """Runs that a trainer may do in place of the one that is promised, from hardly different to very.

    `kind`: what is changed. `sizes`: by how much, in words. `runs`: what is then done. `usual`: which of
    them the tests are made for.
    """

    kind: str
    sizes: tuple[str, ...]
    runs: tuple[NoisySGD, ...]
    usual: int


_NOISE = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25)
_CLIP = (1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)
_EPOCHS = (1, 2, 3, 5, 10, 30)
_MOMENTUM = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.9)
_SCHEMES: dict[str, type[Batches]] = {
    "rows in their own order": Cyclic,
    "one shuffle": ShuffleOnce,
    "a shuffle every epoch": Reshuffle,
    "balls in bins": BallsInBins,
    "batches of fixed size, drawn": FixedSize,
    "Poisson batches": Poisson,
}


def faults(run: NoisySGD) -> Iterator[Fault]:
    """Those that a trainer of this run may have."""
    std = run.gradient_noise_std
    noises = [_changed(run, noise_std=f * std) for f in _NOISE]
    yield Fault("noise", tuple(f"× {plain(f)}" for f in _NOISE), tuple(noises), _NOISE.index(0.9))
    if run.clip_norm is not None:
        clips = [_changed(run, clip_norm=f * run.clip_norm) for f in _CLIP]
        sizes = tuple(f"× {plain(f)}" for f in _CLIP)
        yield Fault("clip norm", sizes, tuple(clips), _CLIP.index(2.0))
    sizes = tuple(f"+ {more}" for more in _EPOCHS)
    yield Fault("epochs", sizes, tuple(_longer(run, more) for more in _EPOCHS), 0)
    if run.rule.plain:
        heavy = [_changed(run, update=Momentum(m)) for m in _MOMENTUM]
        sizes = tuple(plain(m) for m in _MOMENTUM)
        yield Fault("momentum", sizes, tuple(heavy), _MOMENTUM.index(0.5))
    if run.batch_size < run.n:
        for name, scheme in _SCHEMES.items():
            if type(run.batches) is not scheme:
                batches = scheme(run.batch_size)  # type: ignore[call-arg]
                yield Fault(name, ("",), (_changed(run, batches=batches),), 0)


def _changed(run: NoisySGD, **changes: Any) -> NoisySGD:
    """The run with as many steps and as much noise, and something else that is not as described."""
    stated = {"noise_std": run.gradient_noise_std, "noise_multiplier": None}
    steps = {"epochs": None, "total_steps": run.steps}
    return replace(run, **{**stated, **steps, **changes})


def _longer(run: NoisySGD, more: int) -> NoisySGD:
    """The run with so many more epochs; schedules go on with their last entries."""
    extra = more * run.steps_per_epoch

    def padded(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return np.append(value, np.full(extra, value[-1]))

    return _changed(
        run,
        total_steps=run.steps + extra,
        step_size=padded(run.step_size),
        noise_std=padded(run.gradient_noise_std),
    )

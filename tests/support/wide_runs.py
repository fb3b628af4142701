"""Many models in one training: coordinates that are clipped each by itself, under noise of their own.

Where everybody knows the order of batches, a run with `clipping="coordinates"` is as many runs of one number
as it has coordinates, and each is what `narrow` describes.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pabi import Loss, NoisySGD
from pabi.execute import engine, sums
from pabi.execute.checkpoint import Randomness
from pabi.learn import train

LONG = 1e3  # a gradient that every clip shortens


def narrow(**changes) -> NoisySGD:
    """A run of one number, whose gradients are clipped to 1."""
    fields = {"n": 40, "step_size": 0.5, "noise_std": 0.5, "clip_norm": 1.0, "epochs": 4, **changes}
    return NoisySGD(Loss.convex(1.0, glm=True, separable=True, l2=fields.pop("l2", 0.5)), **fields)


def wide(run: NoisySGD, models: int) -> NoisySGD:
    """`run` in each of so many coordinates at once."""
    return replace(run, clip_norm=math.sqrt(models), clipping="coordinates")


def gradients(record: float, row: int, models: int) -> Callable:
    """All records are at rest but one, which pulls by `record` in every coordinate."""

    def per_record(x, rows):
        pulls = np.where(np.asarray(rows) == row, record, 0.0)
        return np.broadcast_to(pulls[:, None], (len(pulls), models))

    return per_record


def trained(run: NoisySGD, record: float, models: int, *, row: int, **options) -> np.ndarray:
    """(models,) what they release."""
    pull = gradients(record, row, models)
    return train(wide(run, models), pull, x0=np.zeros(models), **options).x


# Mistakes that are planted in what trains.


def half_the_noise(patch):
    patch.setattr(engine, "noise_factor", lambda run: 0.5)


def twice_the_sensitivity(patch):
    clip = sums.clip_coordinates
    patch.setattr(sums, "clip_coordinates", lambda g, bound, *rest: clip(g, 2.0 * bound, *rest))
    patch.setattr(sums, "clip_norms", lambda g, *rest: g)


class Fixed(Randomness):
    """The same noise in every training, and the same keys."""

    def generator(self):
        return np.random.default_rng(7)

    def keys(self, count):
        return [number.to_bytes(32, "little") for number in range(count)]

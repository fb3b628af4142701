"""A search for instances that are less private than is claimed.

An instance is a point: named numbers within bounds (`Knob`). A score is log(exact divergence / claim), −∞
where a point is no instance. `search` draws points, and improves the best by moves of one knob at a time
whose size is halved when none helps. It finds what a proof that forgets something forgets; that it
finds nothing proves nothing, which is why wrong claims are searched by its side.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Point = dict[str, float]


@dataclass(frozen=True)
class Knob:
    """A number between `low` and `high`: `scale` is "linear", "log" or "integer"."""

    low: float
    high: float
    scale: str = "linear"

    def at(self, u: float) -> float:
        """The value at u in [0, 1]."""
        if self.scale == "log":
            return self.low * (self.high / self.low) ** u
        value = self.low + u * (self.high - self.low)
        return float(round(value)) if self.scale == "integer" else value


@dataclass(frozen=True)
class Found:
    """The best point, its score, and after how many instances."""

    score: float
    point: Point
    instances: int


def log_ratio(truth: float, claim: float) -> float:
    """log(truth/claim); −∞ where there is nothing to hide, ∞ where something is claimed to be nothing."""
    if not truth > 0.0:
        return -math.inf
    return math.inf if claim == 0.0 else math.log(truth) - math.log(claim)


def search(
    score: Callable[[Point], float],
    knobs: Mapping[str, Knob],
    seed: int,
    instances: int = 1000,
    draws: int = 20,
    enough: float = math.inf,
    finest: float = 1e-3,
) -> Found:
    """The best of about so many instances: restarts of `draws` random points and a descent from the best.

    Stops early at a score above `enough`; descents end at moves of `finest` of a knob's range.
    """
    rng, names = np.random.default_rng(seed), list(knobs)
    best, seen = Found(-math.inf, {}, 0), 0

    def value(u: np.ndarray) -> float:
        nonlocal best, seen
        point = {name: knobs[name].at(float(x)) for name, x in zip(names, u, strict=True)}
        seen += 1
        got = score(point)
        if got > best.score:
            best = Found(got, point, seen)
        return got

    def over() -> bool:
        return seen >= instances or best.score > enough

    while not over():
        trials = rng.random((draws, len(names)))
        ends = rng.random(trials.shape) < 0.15  # what matters often lies at a bound
        trials = np.where(ends, np.round(trials), trials)
        scores = [value(u) for u in trials]
        u, here, step = trials[int(np.argmax(scores))], max(scores), 0.25
        while step >= finest and not over():
            improved = False
            for i in rng.permutation(len(names)):
                for side in (-1.0, 1.0):
                    moved = u.copy()
                    moved[i] = min(1.0, max(0.0, u[i] + side * step))
                    if moved[i] != u[i] and not over() and (got := value(moved)) > here:
                        u, here, improved = moved, got, True
            if not improved:
                step /= 2.0
    return Found(best.score, best.point, seen if math.isinf(best.score) else best.instances)

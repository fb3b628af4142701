"""Runs on a line that one record pulls to one side, and the exact divergences of their last iterates.

Step k takes x to Π(f(x) + pull(x) + σ·Z), without the pull in the other run; f, the pull and Π are smooth but
for known breaks. The laws before Π are mixtures of Gaussians with smooth weights, integrated by Gauss and
Legendre's rule between the breaks. An event that tells the runs apart is a union of intervals; its two
probabilities are sums of normal ones (`random_batches.divergences`). So what is found is below the truth, but
for quadrature.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import leggauss

from support.falsification.random_batches import Gaussians

Map = Callable[[np.ndarray], np.ndarray]
RULE = leggauss(12)
REACH = 8.0  # standard deviations: beyond lies 1e-15
ERROR = 1e-9  # of every probability; a test compares with closed forms


def nothing(x):
    return np.zeros_like(x)


@dataclass(frozen=True)
class Bent:
    """Piecewise linear and continuous, `value` at the first knot; one slope more than knots."""

    knots: np.ndarray
    slopes: np.ndarray
    value: float = 0.0

    def __call__(self, x):
        found = self.value + self.slopes[0] * np.minimum(x - self.knots[0], 0.0)
        ends = np.append(self.knots[1:], np.inf)
        for a, b, slope in zip(self.knots, ends, self.slopes[1:], strict=True):
            found = found + slope * np.clip(x - a, 0.0, b - a)
        return found


@dataclass(frozen=True)
class Ramp:
    """A share in [0, 1] that rises from `low` at `a` to `high` at b ≥ a: a threshold for a = b."""

    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    def __call__(self, x):
        rise = np.where(x > self.a, 1.0, 0.0)
        if self.b > self.a:
            rise = np.clip((x - self.a) / (self.b - self.a), 0.0, 1.0)
        return self.low + (self.high - self.low) * rise


@dataclass(frozen=True)
class Step:
    """`steep`: the largest slope of f and of the pull between breaks, which sets how fine the rule is."""

    f: Map
    sigma: float
    pull: Map = nothing
    breaks: Sequence[float] = ()
    steep: float = 1.0
    after: Map | None = None  # Π
    after_breaks: Sequence[float] = ()


def nodes(low: float, high: float, breaks, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on [low, high], in panels no wider than `width` that end at the breaks."""
    inner = np.unique([b for b in breaks if low < b < high])
    ends = np.concatenate([[low], inner, [high]])
    parts = [np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)[:-1] for a, b in pairwise(ends)]
    cuts = np.append(np.concatenate(parts), high)
    half = np.diff(cuts)[:, None] / 2.0
    points = cuts[:-1, None] + half * (1.0 + RULE[0])
    return points.ravel(), (half * RULE[1]).ravel()


def last_laws(
    steps: Sequence[Step], start: float = 0.0, other: float | None = None
) -> tuple[Gaussians, Gaussians]:
    """Of the run with the record and of the one without, before the last Π, from `start` and from `other`."""
    points = [np.array([start]), np.array([start if other is None else other])]
    weights = [np.ones(1), np.ones(1)]
    for k, step in enumerate(steps):
        means = [step.f(points[0]) + step.pull(points[0]), step.f(points[1])]
        laws = [Gaussians(w, m, step.sigma) for m, w in zip(means, weights, strict=True)]
        if k == len(steps) - 1:
            return laws[0], laws[1]
        reach, after, then = REACH * step.sigma, step.after, steps[k + 1]
        low, high = min(m.min() for m in means) - reach, max(m.max() for m in means) + reach
        # Π moves a break by no more than where one of its own pieces starts.
        shifts = (0.0, *step.after_breaks) if after else (0.0,)
        breaks = [b + c for b in then.breaks for c in shifts] + list(step.after_breaks)
        width = 1.5 * min(step.sigma, then.sigma / max(then.steep, 0.3))
        y, rule = nodes(low, high, breaks, width)
        for i, law in enumerate(laws):
            weight = law.pdf(y) * rule
            kept = weight > 1e-17
            points[i], weights[i] = (after(y) if after else y)[kept], weight[kept]
    raise ValueError("no steps")


def clipped(bound: float) -> tuple[Map, tuple[float, float]]:
    """The projection onto [−bound, bound], and its breaks."""
    return lambda y: np.clip(y, -bound, bound), (-bound, bound)


def soft(threshold: float) -> tuple[Map, tuple[float, float]]:
    """The proximal map of threshold·|y|, and its breaks."""
    return (lambda y: np.sign(y) * np.maximum(np.abs(y) - threshold, 0.0), (-threshold, threshold))

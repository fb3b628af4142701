"""How far batches drawn at random have moved the two runs apart: the law of a distance.

A record that each of many batches holds with probability p has moved the runs by Σ g_k·V_k before a step,
V_k being 1 where the batch of step k holds it and g_k what that adds. This is far below its largest value,
Σ g_k, where p is small. Its tails are bounded by P(Σ g_k·V_k > y) ≤ e^(K(t) - ty) for any t > 0, with
K(t) = Σ log(1 - p + p·e^(t·g_k)) (Chernoff).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.normal_forms.sampled import SampledRun
from pabi.numbers import encoding
from pabi.numbers.rounding import Array, fraction_up

_LEAST, _MOST = 1e-4, 80.0  # of t times the largest g
_TILTS = 160  # of which those are taken whose tails are wanted
# -log of the tails: close together where most of the mass is, down to 1e-17.
_DEPTHS = np.concatenate([np.linspace(0.05, 3.0, 14), np.geomspace(3.4, 40.0, 18)])
_MARGIN = 1e-9  # of tails, relative: over the roundings of the sums in their exponents


@dataclass(frozen=True, eq=False)
class DrawnDistance:
    """A law that is at least as large: with probability `weights[j]` (j,) the distance is `values[j]`, which
    increase up to the largest distance there may be.

    `lengths`: the blocks of steps right before, of which every draw counts. `tilts`: the t of every value
    but the last.
    """

    lengths: NDArray[np.int64]
    tilts: Array
    values: Array
    weights: Array

    def to_dict(self) -> dict[str, Any]:
        """For a certificate."""
        return {
            "lengths": [int(n) for n in self.lengths],
            "tilts": encoding.floats(self.tilts),
            "distances": encoding.floats(self.values[:-1]),
        }


def drawn_distance(view: SampledRun, steps: int) -> DrawnDistance | None:
    """The law of the distance after the first `steps` steps; None where it says no more than the largest."""
    blocks, p = view.before(steps), view.probability
    largest = view.distance(steps, view.change)
    first = steps - blocks.steps
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # In a block of equal steps the last one counts most, or the first one if they expand.
        grown = np.exp(blocks.later) * np.maximum(1.0, blocks.c ** (blocks.length - 1.0))
        rest = view.distance(first, view.change) * blocks.contraction if first else 0.0
        g = view.change * blocks.s * grown * (1.0 + _MARGIN)
    if not (0.0 < float(g.max(initial=0.0)) < math.inf and rest < largest < math.inf):
        return None
    t = np.geomspace(_LEAST, _MOST, _TILTS)[:, None] / float(g.max())
    with np.errstate(under="ignore"):
        more = p * np.expm1(t * g)
        cumulant = np.log1p(more) @ blocks.length
        mean = (p * g * np.exp(t * g) / (1.0 + more)) @ blocks.length
    depth = t[:, 0] * mean - cumulant
    chosen = np.unique(np.minimum(np.searchsorted(depth, _DEPTHS), _TILTS - 1))
    chosen = chosen[rest + mean[chosen] < largest]
    if not chosen.size:
        return None
    values, tilts = rest + mean[chosen], t[chosen, 0]
    tails = np.exp(cumulant[chosen] - tilts * (values - rest)) * (1.0 + _MARGIN)
    tails = np.minimum.accumulate(np.minimum(tails, 1.0))
    weights = np.append(1.0, tails) - np.append(tails, 0.0)
    weights[0] = fraction_up(1 - sum(map(Fraction, weights[1:].tolist()), Fraction(0)))
    return DrawnDistance(blocks.length, tilts, np.append(values, largest), weights)

"""The line that an instance lives on: how a proximal map acts on one number, far from where it bends."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pabi.describe.prox import ball, box, elastic_net, halfspace, l1, l2, nuclear_norm, simplex
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import NotApplicable


class WalkLine(NamedTuple):
    """`width`: the distance of the walls that iterates are projected between, ∞ without walls. `ridge`: the
    weight of the squared norm that the proximal map shrinks iterates for."""

    width: float
    ridge: float


def line_of(run: NoisySGD) -> WalkLine:
    """What the proximal map of a run does along some line.

    Soft thresholding moves what is far out by a constant, a halfspace nothing that is far inside. Of a box
    the line is along its widest side, of a simplex from one corner to another. Raises NotApplicable for a map
    that pabi does not know.
    """
    width, ridge = _of_prox(run)
    return WalkLine(min(width, math.inf if run.diameter is None else run.diameter), ridge)


def _of_prox(run: NoisySGD) -> WalkLine:
    match run.prox:
        case None | l1() | nuclear_norm() | halfspace():
            return WalkLine(math.inf, 0.0)
        case l2(strength=strength):
            return WalkLine(math.inf, strength)
        case elastic_net(l2=strength):
            return WalkLine(math.inf, strength)
        case ball() | simplex():
            return WalkLine(run.prox.diameter, 0.0)
        case box(lower=lower, upper=upper):
            return WalkLine(float(np.max(np.subtract(upper, lower))), 0.0)
        case _:
            raise NotApplicable("no worst instance is known under a proximal map of your own")

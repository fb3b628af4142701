"""What the solver for moduli of any shape proves, whether or not an analysis uses it."""

import math
from collections.abc import Sequence

import numpy as np

from pabi import Modulus
from pabi.account.facts.step_moduli import shapes
from pabi.account.shifts.nonlinear import solve


def solved_mu(moduli: Sequence[Modulus], s, sigma, diameter: float, start: float) -> float:
    """μ of an iteration with these moduli, sensitivities and noises, one a step."""
    s, sigma = np.asarray(s, dtype=float), np.asarray(sigma, dtype=float)
    return math.sqrt(solve(shapes(moduli), s, sigma, diameter, start).square)

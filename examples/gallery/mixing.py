"""How soon a Langevin chain forgets where it began: a theorem, and chains on a made-up potential."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

import pabi

RADIUS, STEP_SIZE = 1.0, 0.01
# The gradient of ‖x‖^1.5 is not Lipschitz: |∇f(x) − ∇f(y)| ≤ 1.5·2^(1/2)·|x − y|^(1/2)
LOSS = pabi.Loss.weakly_smooth([(0.5, 1.5 * 2.0**0.5)])


def gradient(x: Any) -> Any:
    """Of ‖x‖^1.5, at (chains, 2) points."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return 1.5 * x / np.sqrt(np.maximum(length, 1e-300))


def draw() -> Figure:
    longest = pabi.mixing_time(LOSS, 2.0 * RADIUS, STEP_SIZE, 0.01)
    ax = pabi.mixing.plot(
        LOSS,
        2.0 * RADIUS,
        STEP_SIZE,
        longest,
        gradient=gradient,
        prox=pabi.prox.ball(RADIUS),
        starts=([RADIUS, 0.0], [-RADIUS, 0.0]),
        chains=5_000,
        random_state=1,
    )
    ax.set_title("How soon a chain forgets where it began")
    figure: Figure = ax.figure
    figure.set_size_inches(7.2, 4.5)
    return figure

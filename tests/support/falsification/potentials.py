"""The exact truth about diffusions and Gibbs densities of a number.

Two potentials U and V = U + (something whose slope is at most `gap` in absolute value) on [0, D]. The
reflected diffusion dx = −βU'(x)dt + √2 dW is taken as the reversible walk on a grid that tends to it, and is
propagated by the eigenvectors of its generator; a Gibbs density is summed over the grid. What comes back
are the masses on the grid, whose divergences are those of histograms. Nothing here comes from the library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal


@dataclass(frozen=True)
class Pair:
    """Slopes (u, v) on the middles of `u.size` equal parts of [0, width], and what is true of both."""

    u: np.ndarray
    v: np.ndarray
    width: float

    @property
    def points(self) -> np.ndarray:
        return np.linspace(0.0, self.width, self.u.size + 1)

    def potential(self, which: int) -> np.ndarray:
        slopes = (self.u, self.v)[which]
        return np.concatenate([[0.0], np.cumsum(slopes) * (self.width / slopes.size)])

    def finer(self, times: int) -> Pair:
        """The same potentials on a finer grid."""
        return Pair(np.repeat(self.u, times), np.repeat(self.v, times), self.width)

    def gibbs(self, which: int, kappa: float) -> np.ndarray:
        """The masses of the density ∝ e^(−κU), by the trapezoidal rule."""
        height = -kappa * self.potential(which)
        mass = np.exp(height - height.max())
        mass[[0, -1]] *= 0.5
        return mass / mass.sum()

    def diffusions(self, parts: list[tuple[float, float]], start: int) -> list[np.ndarray]:
        """Those of both."""
        return [self.diffusion(which, parts, start) for which in (0, 1)]

    def diffusion(self, which: int, parts: list[tuple[float, float]], start: int) -> np.ndarray:
        """The masses at the end, from grid point `start`; `parts`: (β, how long)."""
        h = self.width / self.u.size
        potential = self.potential(which)
        mass = np.zeros(potential.size)
        mass[start] = 1.0
        weight = np.ones(potential.size)
        weight[[0, -1]] = 0.5  # half cells at the walls
        for beta, time in parts:
            # Rates between neighbours that leave weight·e^(−βU) as it is.
            height = 0.5 * beta * potential
            steep = np.exp(-np.diff(height))
            to_right, to_left = steep / (h * h * weight[:-1]), 1.0 / (steep * h * h * weight[1:])
            out = np.zeros(potential.size)
            out[:-1] += to_right
            out[1:] += to_left
            values, vectors = eigh_tridiagonal(-out, np.sqrt(to_right * to_left))
            scale = np.exp(-(height - height.min())) * np.sqrt(weight)
            spectrum = np.exp(np.minimum(values, 0.0) * time)
            mass = scale * (vectors @ (spectrum * (vectors.T @ (mass / scale))))
            mass = np.maximum(mass, 0.0)
            mass /= mass.sum()
        return mass


def divergences(p: np.ndarray, q: np.ndarray, epsilons) -> np.ndarray:
    """max of δ(P‖Q)(ε) and δ(Q‖P)(ε)."""
    found = [
        max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in ((p, q), (q, p)))
        for e in epsilons
    ]
    return np.array(found)


def tradeoff(p: np.ndarray, q: np.ndarray, levels) -> np.ndarray:
    """The least type II error at each of `levels`, the lesser of both orders."""
    found = []
    for a, b in ((p, q), (q, p)):
        order = np.argsort(-np.divide(b, a, out=np.full(a.shape, np.inf), where=a > 0.0))
        fpr = np.concatenate([[0.0], np.cumsum(a[order])])
        fnr = 1.0 - np.concatenate([[0.0], np.cumsum(b[order])])
        found.append(np.interp(levels, fpr, fnr))
    return np.minimum(*found)


def random_pair(
    rng, least: float, gap: float, width: float, nodes: int, kinds: int, shape: str
) -> Pair:
    """Slopes that rise by at least `least` per unit of length but for jumps upwards, and differ by at
    most `gap`, mostly by just that; `shape` "pulled": one goes one way, the other the other way."""
    x = (np.arange(nodes) + 0.5) * (width / nodes)
    rise = least * (x - rng.uniform(0.0, width))
    for _ in range(int(rng.integers(0, kinds + 1))):
        at, by = rng.uniform(0.0, width), rng.exponential(2.0 * gap)
        rise = rise + by * (x > at)
    if rng.random() < 0.5:
        rise = rise + abs(rng.normal()) * max(abs(least), gap / width) * (x - 0.5 * width)
    rise = rise + gap * float(rng.choice([0.0, rng.normal()]))
    if shape == "pulled":
        return Pair(rise - 0.5 * gap, rise + 0.5 * gap, width)
    # The difference turns where it likes; where it falls, both are lifted so that neither falls.
    turns = np.sort(rng.uniform(0.0, width, int(rng.integers(1, 4))))
    sign = float(rng.choice([-1.0, 1.0])) * (-1.0) ** np.searchsorted(turns, x)
    lift = np.cumsum(np.abs(np.diff(sign, prepend=sign[0]))) * 0.5 * gap
    return Pair(rise + lift - 0.5 * gap * sign, rise + lift + 0.5 * gap * sign, width)

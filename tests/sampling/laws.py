"""Exact laws of one-dimensional projected chains, by quadrature of their kernels, and noise that is kept."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, kstest

LEVEL = 1e-6  # at which a sampler is called wrong; seeds are fixed


class IntervalLaw:
    """The law of x ← clip(x − step·gradient(x) + noise·Z, −radius, radius) after some steps.

    A density on Gauss–Legendre nodes of panels that meet at `kinks`, and atoms at both ends.
    """

    def __init__(self, step, gradient, noise, radius, start, steps, kinks=(0.0,), panels=40):
        ends = np.array([-radius, *kinks, radius])
        nodes, weights = np.polynomial.legendre.leggauss(12)
        edges = np.concatenate([np.linspace(a, b, panels + 1)[:-1] for a, b in pairwise(ends)])
        edges = np.append(edges, radius)
        half = np.diff(edges)[:, None] / 2
        self.x = (edges[:-1, None] + half * (1 + nodes)).ravel()
        self.w = (half * weights).ravel()
        self.noise, self.radius = noise, radius

        def mapped(x):
            x = np.atleast_1d(np.asarray(x, dtype=float))
            return x - step * gradient(x)

        def spread(centres, shares):
            z = (self.x[:, None] - centres) / noise
            density = np.exp(-0.5 * z * z) @ shares / (noise * np.sqrt(2 * np.pi))
            low = ndtr((-radius - centres) / noise) @ shares
            high = ndtr((centres - radius) / noise) @ shares
            return density, low, high

        centres, shares = mapped(start), np.ones(1)
        for _ in range(steps):
            self.centres, self.shares = centres, shares
            self.density, self.low, self.high = spread(centres, shares)
            centres = np.concatenate([mapped(self.x), mapped(-radius), mapped(radius)])
            shares = np.concatenate([self.w * self.density, [self.low, self.high]])

    @cached_property
    def grid(self):
        """(points, P(X ≤ point)), so fine that linear interpolation is off by less than 1e-7."""
        x = np.linspace(-self.radius, self.radius, 4001)
        parts = [
            ndtr((p[:, None] - self.centres) / self.noise) @ self.shares
            for p in np.array_split(x, 8)
        ]
        return x, np.concatenate(parts)

    def cdf(self, x):
        """P(X ≤ x), for x inside."""
        return np.interp(x, *self.grid)

    def accepts(self, draws):
        """Whether `draws` pass as a sample: both atoms, and the rest by Kolmogorov and Smirnov."""
        low, high = draws == -self.radius, draws == self.radius
        for hits, share in ((low, self.low), (high, self.high)):
            two_sided = 2 * min(
                binom.cdf(hits.sum(), draws.size, share),
                binom.sf(hits.sum() - 1, draws.size, share),
            )
            if two_sided < LEVEL:
                return False
        inner = np.sort(draws[~(low | high)])
        middle = 1 - self.low - self.high
        if inner.size < 100:
            return True
        return kstest((self.cdf(inner) - self.low) / middle, "uniform").pvalue > LEVEL


class Recorder(np.random.Generator):
    """Standard normals that are kept, so that a chain can be followed by hand."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))
        self.calls = []

    def standard_normal(self, size=None, *args, **kwargs):
        self.calls.append(super().standard_normal(size))
        return self.calls[-1].copy()

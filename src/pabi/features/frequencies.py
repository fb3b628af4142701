"""Frequencies of Fourier features of a Gaussian kernel, drawn from a public seed.

Directions are orthonormal within each block of at most d, and lengths are those of independent Gaussian
vectors. So each frequency by itself is a standard Gaussian, and averages over them scatter less than those
over independent ones (Yu et al. 2016, "Orthogonal random features", Thm 1).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pabi.numbers.rounding import Array


@lru_cache(maxsize=4)
def frequencies(seed: int, d: int, count: int) -> Array:
    """(d, count), read-only: the same for the same numbers, but for roundings.

    A fitted model holds the seed and not the frequencies, so they have to be the same in later versions of
    NumPy. NumPy promises that of `RandomState` alone (NEP 19).
    """
    drawn = np.random.RandomState(seed)
    blocks = [_orthonormal(drawn, d, min(d, count - first)) for first in range(0, count, d)]
    lengths = np.sqrt(drawn.chisquare(d, size=count))
    result = np.concatenate(blocks, axis=1) * lengths
    result.flags.writeable = False
    return result


def _orthonormal(drawn: np.random.RandomState, d: int, count: int) -> Array:
    """(d, count): orthonormal columns, uniformly among all such.

    The signs make the factorisation unique, so that it is a function of the draws and not of the solver.
    """
    q, r = np.linalg.qr(drawn.standard_normal((d, count)))
    return np.asarray(q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0))

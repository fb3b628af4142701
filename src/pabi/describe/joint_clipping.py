"""Losses of K margins clipped together: the multiplier that brings their derivatives to a norm.

The maximiser over ‖p‖ ≤ B of ⟨p, t⟩ − Σ ℓ*(p_k), at margins t, is p = −s with s_k = −ℓ'(t_k + λs_k), where
λ ≥ 0 is such that ‖s‖ = B if the derivatives at t are longer (docs, "Convex clipping"). ‖s‖ falls as λ grows.
What is returned has the norm B, and is off by a few units in the last place. It depends on the record alone,
whatever others there are.
"""

from __future__ import annotations

import numpy as np

from pabi.numbers.rounding import TINY, Array

_TURNS = 1_000  # of Newton's method: about ten, and for minute norms one for every unit of a logit
_ULPS = 4.0 * np.finfo(np.float64).eps
_FAR = 1e300  # beyond all margins and multipliers that occur, so that their products end somewhere


def row_norms(vectors: Array) -> Array:
    """(m,) norms of (m, K) vectors, however large their entries."""
    columns = vectors.T
    peak = np.max(np.abs(columns), axis=0)
    unit = columns / np.where((peak > 0.0) & np.isfinite(peak), peak, 1.0)
    return np.asarray(peak * np.sqrt(np.square(unit).sum(axis=0)))


def logistic_within(margins: Array, most: Array) -> Array:
    """(m, K) derivatives of K logistic losses clipped together to the norms `most`, which theirs exceed."""
    margins = np.clip(margins, -_FAR, _FAR)
    low, high = np.zeros(len(margins)), np.minimum(_largest_multiplier(margins, most), _FAR)
    multiplier, open_ = 0.5 * high, np.ones(len(margins), dtype=bool)
    s = np.zeros(margins.shape)
    for _ in range(_TURNS):
        s[open_] = _logistic_sizes(margins[open_], multiplier[open_, None])
        length = row_norms(s)
        low = np.where(open_ & (length > most), multiplier, low)
        high = np.where(open_ & (length <= most), multiplier, high)
        # Newton's method for 1/‖s‖, which is nearly linear in the multiplier.
        bend, unit = s * (1.0 - s), s / np.maximum(length, TINY)[:, None]
        fall = (unit * unit * bend / (1.0 + multiplier[:, None] * bend)).sum(axis=1)
        guess = multiplier + (length / most - 1.0) / np.maximum(fall, TINY)
        middle = 0.5 * (low + high)
        turn = np.where((guess > low) & (guess < high), guess, middle)
        # What is NaN, of a predictor that is, stays so.
        near = ~(np.abs(length - most) > _ULPS * most) | (high - low <= _ULPS * high)
        open_ = open_ & ~near
        multiplier = np.where(open_, turn, multiplier)
        if not open_.any():
            break
    return np.asarray(-s * (most / row_norms(s))[:, None])


def _largest_multiplier(margins: Array, most: Array) -> Array:
    """A multiplier that no record exceeds: at ‖s‖ = B some s_k is between B/√K and B."""
    least = most / np.sqrt(margins.shape[1])
    # λ = (−t − logit s)/s for that s_k.
    logit = np.log(least) - np.log1p(-np.minimum(least, 0.5))
    return np.asarray((np.max(-margins, axis=1).clip(min=0.0) - logit.clip(max=0.0) + 1.0) / least)


def _logistic_sizes(margins: Array, multiplier: Array) -> Array:
    """s with s = 1/(1 + e^(t + λs)): σ(u) at the root of u + λσ(u) + t, which grows with u.

    It is convex for u < 0 and concave for u > 0, so that Newton's method goes straight to the root from 0, or
    from −t where that is nearer: it is no less than the root.
    """
    u = np.where(margins + 0.5 * multiplier >= 0.0, np.minimum(-margins, 0.0), 0.0)
    unit = _ULPS * (1.0 + np.abs(margins))  # what is computed of a step is off by so much
    open_ = np.ones(u.shape, dtype=bool)
    for _ in range(_TURNS):
        s = 1.0 / (1.0 + np.exp(-u))
        move = (u + multiplier * s + margins) / (1.0 + multiplier * s * (1.0 - s))
        u = np.where(open_, u - move, u)
        open_ &= np.abs(move) > unit + _ULPS * np.abs(u)
        if not open_.any():
            break
    return np.asarray(1.0 / (1.0 + np.exp(-u)))


def hinge_within(margins: Array, most: Array, smoothing: float) -> Array:
    """(m, K) derivatives of K smoothed hinge losses clipped together to the norms `most`.

    Their own exceed it.

    s_k = min(1, d_k/g) with d = max(0, 1 − t) and g = γ + λ, so that ‖s‖² is the least, over j, of j and the
    sum of d_k²/g² for all but the j largest: g is the least number at which one of these is B².
    """
    d = np.maximum(1.0 - margins, 0.0)
    peak = np.max(d, axis=1)[:, None]  # in units of which no square overflows
    rest = np.cumsum(np.square(np.sort(d / peak, axis=1)), axis=1)[:, ::-1]  # without the j largest
    left = np.square(most)[:, None] - np.arange(d.shape[1])
    widths = peak * np.sqrt(rest / np.where(left > 0.0, left, 1.0))
    width = np.maximum(np.min(np.where(left > 0.0, widths, np.inf), axis=1), smoothing)
    s = np.minimum(1.0, d / width[:, None])
    return np.asarray(-s * (most / row_norms(s))[:, None])

"""Directed rounding: the few places where a double must not fall on the wrong side of the truth."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The smallest positive double that keeps full precision. A positive quantity that underflows is
# raised to it, so that "a little" is never taken for "nothing".
TINY = float(np.finfo(np.float64).tiny)


def up(x: float) -> float:
    """The next double above `x`; 0 stays 0 and infinities stay."""
    return x if x == 0.0 or math.isinf(x) else math.nextafter(x, math.inf)


def down(x: float) -> float:
    """The next double below `x`; 0 stays 0 and infinities stay."""
    return x if x == 0.0 or math.isinf(x) else math.nextafter(x, -math.inf)


def fraction_up(x: Fraction) -> float:
    """The least double not below the rational `x`; ∞ beyond the range of doubles."""
    try:
        value = float(x)
    except OverflowError:
        return math.inf if x > 0 else -float(np.finfo(np.float64).max)
    return math.nextafter(value, math.inf) if Fraction(value) < x else value


def fraction_down(x: Fraction) -> float:
    """The greatest double not above the rational `x`."""
    return -fraction_up(-x)


def _two_product_error(a: Array, b: Array, product: Array) -> Array:
    """The exact `a*b - product` (Dekker 1971), as long as nothing over- or underflows."""
    split = 134217729.0  # 2^27 + 1
    ta, tb = split * a, split * b
    a_hi, b_hi = ta - (ta - a), tb - (tb - b)
    a_lo, b_lo = a - a_hi, b - b_hi
    return ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


def one_minus_product(a: Array, b: float) -> tuple[Array, Array]:
    """Doubles around `1 - a*b`, elementwise: (not above, not below).

    `a`: positive array. `b`: scalar of any sign. Both are exact where `1 - a*b` is a double, so that
    a slope of exactly one stays exactly one.
    """
    if b == 0.0:
        return np.ones_like(a), np.ones_like(a)
    product = a * b
    error = _two_product_error(a, np.full_like(a, b), product)
    value = 1.0 - product
    virtual = value - 1.0  # Knuth's two-sum of 1 and -product
    lost = (1.0 - (value - virtual)) + (-product - virtual)
    residual = lost - error  # has the sign of (1 - a*b) - value
    # Outside the range in which Dekker's product is exact, one step is always enough.
    extreme = ~((np.abs(product) > 1e-280) & (np.abs(product) < 1e280) & (np.abs(a) < 1e290))
    below = np.where((residual < 0.0) | extreme, np.nextafter(value, -np.inf), value)
    above = np.where((residual > 0.0) | extreme, np.nextafter(value, np.inf), value)
    return below, above


def times_up(a: Array, b: float) -> Array:
    """Doubles not below `a*b` (both nonnegative)."""
    product = a * b
    return np.where((a == 0.0) | (b == 0.0), 0.0, np.nextafter(product, np.inf))


def times_down(a: Array, b: float) -> Array:
    """Doubles not above `a*b` (both nonnegative)."""
    product = a * b
    return np.where(product > 0.0, np.nextafter(product, 0.0), 0.0)

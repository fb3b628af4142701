"""e^x in doubles, by additions and multiplications alone, so that its error is proven.

What a library's exponential is off by nobody proves. With k the whole number next to x/log 2 and
t = x − k·log 2, |t| ≤ 0.35, e^x is 2^k times Taylor's polynomial of degree 13 at t. It is off by a relative

    1.5·2⁻⁵³  as t is: k·LOW and both differences are rounded, |t| ≤ 0.35 and |k·LOW| < 2⁻²²;
    0.1·2⁻⁵³  by the terms that are left out, 0.35¹⁴/14!·e^0.35;
    2.5·2⁻⁵³  by Horner's scheme, whose last steps are 1 + t·(1 + t·(…)):

less than 2⁻⁵⁰ in all. Source: docs, "Theory", 9.
"""

from __future__ import annotations

import math

import numpy as np

from pabi.numbers.rounding import Array

OFF = 2.0**-50  # relative
# Beyond them e^x is as good as 0, and as good as infinite; the powers of two between are all doubles.
_LEAST, _MOST = -708.0, 709.0
_INVERSE = 1.0 / math.log(2.0)
_HIGH = 0.693147180369123816490  # of log 2 the first 32 bits, so that k·HIGH is exact
_LOW = 1.90821492927058770002e-10  # the rest of it
_COEFFICIENTS = [1.0 / math.factorial(n) for n in range(13, 1, -1)]


def exponential(x: Array, out: Array | None = None) -> Array:
    """e^x of each x, of e^-708 where x is less and e^709 where it is more; NaN stays NaN.

    `out`: where to write it, x itself or another array of its shape.
    """
    t = np.clip(x, _LEAST, _MOST)
    k = np.rint(t * _INVERSE)
    t -= k * _HIGH
    t -= k * _LOW
    with np.errstate(invalid="ignore"):  # the k of NaN
        power = ((k.astype(np.int64) + 1023) << 52).view(np.float64)
    result = np.multiply(t, _COEFFICIENTS[0], out=k)
    for c in _COEFFICIENTS[1:]:
        result += c
        result *= t
    result += 1.0
    result *= t
    result += 1.0
    return np.multiply(result, power, out=out)

"""e^x in doubles, by additions and multiplications alone, so that its error is proven.

What a library's exponential is off by nobody proves. With k the whole number next to x/log 2 and
t = x − k·log 2, |t| ≤ 0.35, e^x is 2^k times Taylor's polynomial of degree 12 at t. It is off by a relative

    0.4·2⁻⁵³  as t is: k·LOW and both differences are rounded, |t| ≤ 0.35 and |k·LOW| < 2⁻²²;
    3.5·2⁻⁵³  by the terms that are left out, 0.35¹³/13!·e^0.7;
    3.5·2⁻⁵³  by Horner's scheme, whose last steps are 1 + t·(1 + t·(…)):

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
_COEFFICIENTS = [1.0 / math.factorial(n) for n in range(12, 1, -1)]
_PART = 1 << 11  # numbers at a time, which fit into the cache


def exponential(x: Array, out: Array | None = None) -> Array:
    """e^x of each x, of e^-708 where x is less and e^709 where it is more; NaN stays NaN.

    `out`: where to write it, x itself or another array of its shape.
    """
    result = np.empty_like(x) if out is None else out
    if not (x.flags.forc and result.flags.forc and x.strides == result.strides):
        result[...] = exponential(np.array(x, order="C"))
        return result
    source, into = x.reshape(-1, order="A"), result.reshape(-1, order="A")
    with np.errstate(invalid="ignore"):  # the k of NaN
        for first in range(0, source.size, _PART):
            _write(source[first : first + _PART], into[first : first + _PART])
    return result


def _write(x: Array, out: Array) -> None:
    t = np.clip(x, _LEAST, _MOST)
    k = t * _INVERSE
    np.rint(k, k)
    part = k * _HIGH
    t -= part
    np.multiply(k, _LOW, part)
    t -= part
    whole = k.astype(np.int64)
    whole += 1023
    whole <<= 52
    value = np.multiply(t, _COEFFICIENTS[0], k)
    for c in _COEFFICIENTS[1:]:
        value += c
        value *= t
    value += 1.0
    value *= t
    value += 1.0
    np.multiply(value, whole.view(np.float64), out)

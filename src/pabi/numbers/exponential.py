"""e^x in doubles, by a table, additions and multiplications alone, so that its error is proven.

What a library's exponential is off by nobody proves. With k the whole number next to x·2048/log 2 and
t = x − k·log 2/2048, |t| ≤ 1.7·10⁻⁴, e^x is 2^(k/2048), for which a table is looked up at the last 11 bits of
k, times Taylor's polynomial of degree 3 at t. It is off by a relative

    0.01·2⁻⁵³  as t is: k·LOW and both differences are rounded, |k·LOW| < 2⁻²²;
    0.32·2⁻⁵³  by the terms that are left out, |t|⁴/4!·e^|t|;
    1.01·2⁻⁵³  by Horner's scheme, whose last step is 1 + t·(…);
    2·2⁻⁵³     as the table and the product with it are rounded:

less than 2⁻⁵⁰ in all. Source: docs, "Theory", 9.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.rounding import Array

OFF = 2.0**-50  # relative
# Beyond them e^x is as good as 0, and as good as infinite; what is computed between is normal.
_LEAST, _MOST = -708.0, 709.0
_BITS = 11
_INVERSE = 2.0**_BITS / math.log(2.0)
# Of log 2/2048 the first 32 bits, so that k·HIGH is exact, and the rest of it.
_HIGH = 0.693147180369123816490 * 2.0**-_BITS
_LOW = 1.90821492927058770002e-10 * 2.0**-_BITS
# What is added to it is rounded to a whole number, which the last bits of the sum are.
_WHOLE = 1.5 * 2.0**52
_CUBIC = 1.0 / 6.0
_PART = 1 << 12  # numbers at a time, which fit into the cache


@cache
def _powers() -> NDArray[np.uint64]:
    """The bits of the doubles nearest to 2^(j/2048), less j where `_write` adds k, which ends in it."""
    from flint import arb, ctx  # heavy to load

    j = np.arange(1 << _BITS, dtype=np.uint64)
    with ctx.workprec(128):
        root = arb(2) ** (arb(2) ** -_BITS)
        powers = np.array([float(root**i) for i in j.tolist()])
    return powers.view(np.uint64) - (j << 52 - _BITS)


def exponential(x: Array, out: Array | None = None) -> Array:
    """e^x of each x, of e^-708 where x is less and e^709 where it is more; NaN stays NaN.

    `out`: where to write it, x itself or another array of its shape.
    """
    result = np.empty_like(x) if out is None else out
    if not (x.flags.forc and result.flags.forc and x.strides == result.strides):
        result[...] = exponential(np.array(x, order="C"))
        return result
    source, into = x.reshape(-1, order="A"), result.reshape(-1, order="A")
    for first in range(0, source.size, _PART):
        _write(source[first : first + _PART], into[first : first + _PART])
    return result


def _write(x: Array, out: Array) -> None:
    t = np.clip(x, _LEAST, _MOST, out)
    k = t * _INVERSE
    k += _WHOLE
    place = k.view(np.int64) & (1 << _BITS) - 1
    power = _powers().take(place, None, None, "clip")
    shifted = np.left_shift(k.view(np.uint64), 52 - _BITS, place.view(np.uint64))
    power += shifted  # of k: all before it is gone
    k -= _WHOLE
    part = np.multiply(k, _HIGH, place.view(np.float64))
    t -= part
    k *= _LOW
    t -= k
    value = np.multiply(t, _CUBIC, k)
    value += 0.5
    value *= t
    value += 1.0
    value *= t
    value += 1.0
    np.multiply(value, power.view(np.float64), t)

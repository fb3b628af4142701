"""Gaussian noise on a grid, exact to the last bit: what is released is a rounding of the real mechanism.

Doubles near a sum plus a double's noise are reached from some sums and not from others, so that the last bits
tell which sum it was (Mironov 2012). Here noise is γK for a power of two γ, the grid, and a whole number K of
the law of a real N(0, σ²) that is rounded to it:

    P(K = k) = Φ((k + ½)γ/σ) − Φ((k − ½)γ/σ).

Added to a sum on the grid it is that sum plus the real noise, rounded. Source: docs, "Theory", 9.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from pabi.numbers.errors import require
from pabi.numbers.rounding import EIGHT_ROUNDINGS, HALF_ULP, Array, up
from pabi.numbers.showing import plain

# |K|γ/σ = h(u) rounded, h the inverse of x ↦ erfc(x/√2) and u uniform in (0, 1). A word has the sign and 63
# bits of u, which leave an interval. Between powers of two there are 128 pieces; in each stands for h its
# Taylor polynomial at the middle. With D = √(π/2)·exp(x²/2) and x = h(u)
#
#     h⁽ⁿ⁾(u) = (−D)ⁿ·Pₙ₋₁(x),  P₀ = 1,  Pₙ = Pₙ₋₁' + n·x·Pₙ₋₁,
#
# whose size grows with x, as all coefficients are positive. For u ≥ 2⁻¹⁶, where x < 4.33, what is computed is
# off by at most, in units of 2⁻⁵³,
#
#     D·(u + 2⁻¹⁰)   as u is not the double that stands for it, and has further bits;
#     2.2            by the sixth derivative over the half of a piece;
#     3x             by rounding the value in the middle, the last sum and the product with σ/γ;
#     0.1            by all other roundings, as D·|u − middle| ≤ 0.005:
#
# less than 2⁻⁴⁸, and a fifth of that as a rule (docs, "Theory", 9; a test repeats it in balls, piece by
# piece). Where K might be another number if h were off by so much, and where u is smaller, balls decide, with
# more bits of u where these leave a doubt. So the law is exact if bits are uniform and doubles are added,
# multiplied and rounded as IEEE 754 says. No other function is trusted: guesses (`ndtri`) are corrected by
# balls.

_OCTAVES = 16  # below 2⁻¹⁶ balls decide
_SHIFT = 52 - 7  # from the bits of a double to those that say in which piece it is
_FIRST = (1023 - _OCTAVES << 7) - 1  # the piece of all smaller doubles
_OFF = 2.0**-48  # what h may be off by in doubles, wherever
_WORD, _BITS = 64, 63
_MASK = np.uint64((1 << _BITS) - 1)
_PART = 1 << 14  # numbers at a time, which fit into the cache
OF_A_STEP, _FINEST = 2.0**-34, 2.0**-38  # of a step's noise: on finer grids balls decide too often
_MOST = 2.0**47  # of σ/γ, beyond which K is no double
_MOVED = 2.0**-23  # of what a record moves: what rounding to the grid of a step may add to it


def grid_for(unit: float, noise_std: float, share: float = 2.0**-20) -> float:
    """γ, a power of two: at most `unit` and at most this share of the noise, but at least 2⁻⁴⁶ of it.

    So `unit` is a multiple of γ where it is a power of two and the noise is less than 2⁴⁶ times as large.
    """
    fine = max(min(unit, noise_std * share), unit * 2.0**-100)  # sums over γ are doubles
    least = math.ldexp(1.0, math.frexp(noise_std)[1] - 46)
    return max(math.ldexp(0.5, math.frexp(fine)[1]), least)


def noisy(sums: Array, noise_std: float, grid: float, generator: np.random.Generator) -> Array:
    """The sums, rounded to multiples of the grid, plus noise that is: the double nearest to each number.

    That double is a function of the number, whether the number is a double or not, once 0 has no sign.
    """
    result = np.empty(sums.shape)
    source, into = sums.reshape(-1), result.reshape(-1)
    for first in range(0, into.size, _PART):
        part = into[first : first + _PART]
        own = source[first : first + _PART]
        _draw(noise_std / grid, generator, part)
        rounded = own / grid
        np.rint(rounded, rounded)
        if np.isfinite(rounded).all():
            part += rounded
            part *= grid  # exactly, wherever it is done
        else:  # a quotient overflowed: that sum is a multiple already
            part *= grid
            part += np.where(np.isfinite(rounded), rounded * grid, own)
        part += 0.0
    return result


class StepNoise:
    """The noise of a step on d numbers, of which proofs speak at distances from `moved` on.

    Rounded to a grid two vectors are up to γ√d farther apart, and the noise is raised by as much.

    Attributes
    ----------
    grid : float
        γ.
    raised : float
        What the noise is multiplied by.
    noise_std : float
        The standard deviation, raised.

    Raises
    ------
    InvalidInput
        So much noise that whole numbers on the grid are no doubles, above 2^46/√d times what a record moves.
    """

    def __init__(self, noise_std: float, moved: float, dimension: int) -> None:
        root = math.sqrt(max(dimension, 1))
        unit = max(moved * _MOVED / root, noise_std * _FINEST)
        self.grid = grid_for(unit, noise_std, OF_A_STEP)
        self.raised = up(1.0 + self.grid * root / moved * (1.0 + EIGHT_ROUNDINGS))
        self.noise_std = up(noise_std * self.raised)
        require(
            self.noise_std / self.grid <= _MOST,
            "noise_std",
            f"expected less noise than {plain(noise_std, 3)} where a record moves a step by "
            f"{plain(moved, 3)}, or about: rounding would count for more than the record",
        )

    def __call__(self, sums: Array, generator: np.random.Generator) -> Array:
        """The sums with noise."""
        return noisy(sums, self.noise_std, self.grid, generator)

    def drawn(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """The noise alone, for sums that are rounded to the grid elsewhere."""
        return rounded_normal(generator, shape, self.noise_std / self.grid) * self.grid


def rounded_normal(
    generator: np.random.Generator, shape: int | tuple[int, ...], ratio: float
) -> Array:
    """Whole numbers K, as doubles, of the law of N(0, ratio²) rounded to whole numbers.

    `ratio`: σ/γ in (0, 2⁴⁷]. A number takes a word of 64 bits, and further ones where these leave a doubt.
    """
    drawn = np.empty(shape)
    flat = drawn.reshape(-1)
    for first in range(0, flat.size, _PART):
        _draw(ratio, generator, flat[first : first + _PART])
    return drawn


def _draw(ratio: float, generator: np.random.Generator, k: Array) -> None:
    """Writes new numbers into `k`."""
    _round(generator.integers(0, 1 << _WORD, k.size, np.uint64), ratio, generator, k)


def _round(
    words: NDArray[np.uint64], ratio: float, generator: np.random.Generator, k: Array
) -> None:
    """Writes the numbers of these words into `k`."""
    # In these arrays and in those that are given: new ones would cost as much as what is computed.
    u, taken = np.empty((2, k.size))
    place = (words & _MASK).view(np.int64)
    np.multiply(place, 2.0**-_BITS, u)
    np.right_shift(u.view(np.int64), _SHIFT, place)
    place -= _FIRST
    middle, highest, *others, off = _table()
    u -= middle.take(place, None, taken, "clip")
    x = highest.take(place, None, k, "clip")
    for row in others:
        x *= u
        x += row.take(place, None, taken, "clip")
    x *= ratio
    nearest = np.rint(x, taken)
    x -= nearest  # exactly
    beside = np.abs(x, u)
    sure = beside <= 0.5 - _OFF * max(ratio, 1.0)  # not where x is NaN
    if not sure.all():
        (doubtful,) = np.nonzero(~sure)
        closer = 0.5 - off.take(place[doubtful], mode="clip") * max(ratio, 1.0)
        for i in doubtful[~(beside[doubtful] <= closer)].tolist():
            # The only end in doubt: others are at least ½ away, and doubles are off by less than 2⁻⁴⁸·2⁴⁷.
            end = float(nearest[i]) + math.copysign(0.5, x[i])
            nearest[i] = _by_balls(int(words[i] & _MASK), ratio, generator, end)
    np.copysign(nearest, words.view(np.float64), k)


@cache
def _table() -> tuple[Array, ...]:
    """Of every piece its middle, h⁽ⁿ⁾/n! there for n = 5, …, 0, and what is computed in it may be off by.

    NaN in the place of smaller u.
    """
    places = np.arange(1 + (_OCTAVES << 7)) + _FIRST
    u = ((places << _SHIFT) + (1 << _SHIFT - 1)).view(np.float64)
    u[0] = np.nan
    with ctx.workprec(128):
        pairs = map(_inverse, u[1:].tolist(), _guess(u[1:]).tolist())
        x, D = np.array([(np.nan, np.nan), *pairs]).T
    xx, DD = x * x, D * D
    return (
        u,
        -D * DD * DD * (7.0 + (46.0 + 24.0 * xx) * xx) / 120.0,
        DD * DD * (7.0 + 6.0 * xx) * x / 24.0,
        -D * DD * (1.0 + 2.0 * xx) / 6.0,
        DD * x / 2.0,
        -D,
        x,
        (1.02 * D * (u + 2.0**-10) + 3.05 * x + 2.5) * HALF_ULP,
    )


def _inverse(u: float, guess: float) -> tuple[float, float]:
    """(h(u), D there), each off by a unit of its last place at most: a step of Newton's from the guess."""
    x = arb(guess)
    missing = ((x / arb(2).sqrt()).erfc() - u) * (slope := _slope(x))
    if not abs(missing) < 2.0**-40:
        raise ArithmeticError("an inverse distribution function is not what it should be")
    return float(x + missing), float(slope * (1 + x * missing))


def _guess(u: Any) -> Any:
    """h(u), about."""
    from scipy.special import ndtri  # heavy to load, and not needed before

    return -ndtri(u / 2.0)


def _slope(x: Any) -> Any:
    return (arb.pi() / 2).sqrt() * (x * x / 2).exp()


def _by_balls(
    revealed: int, ratio: float, generator: np.random.Generator, end: float = math.nan
) -> float:
    """|K| for the u of which these bits are revealed, from as many more as leave no doubt.

    `end`: of a range of h(u)·ratio, if it is the only one that may be in doubt.
    """
    bits = _BITS
    if not math.isnan(end) and (side := _beside(end, revealed, ratio)) is not None:
        return side
    while True:
        if revealed and (k := _between(revealed, bits, ratio)) is not None:
            return k
        more = generator.integers(0, 1 << _WORD, dtype=np.uint64)
        revealed, bits = revealed << _WORD | int(more), bits + _WORD


def _beside(end: float, revealed: int, ratio: float) -> float | None:
    """Which of the two whole numbers at this end of their ranges |K| is for sure; None in doubt."""
    with ctx.workprec(_BITS + 32):
        share = (arb(end) / (arb(2).sqrt() * ratio)).erfc() * (1 << _BITS)
        if share <= revealed:
            return end - 0.5
        return end + 0.5 if share >= revealed + 1 else None


def _between(revealed: int, bits: int, ratio: float) -> int | None:
    """The k whose range of u holds [revealed, revealed + 1]·2^−bits for sure; None in doubt."""
    with ctx.workprec(bits + 32):
        low, high = (arb(m) * arb(2) ** -bits for m in (revealed, revealed + 1))
        root, size = arb(2).sqrt(), arb(ratio)
        x = arb(float(_guess(revealed / (1 << bits))))  # which Newton's method mends
        for _ in range(bits // _WORD + 2):
            k = int(float((x * size + 0.5).mid().floor()))
            above, below = ((arb(2 * k + i) / (2 * size * root)).erfc() for i in (1, -1))
            if low >= above and (k == 0 or high <= below):
                return k
            x = (x + ((x / root).erfc() - low) * _slope(x)).mid()
    return None

"""Rounding against ourselves, with margins, and searches that end on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.locking import tick
from pabi.numbers.showing import shown as shown

# Margins that outweigh rounding: relative errors of a few operations on doubles, each named once.


HALF_ULP = 2.0**-53  # the largest relative error of one rounding
# A correctly rounded operation errs by a relative 2^-53 < 1.12e-16; exp, log and powers by twice that.
THREE_ROUNDINGS = 4e-16
EIGHT_ROUNDINGS = 1e-15
# For a logarithm near 0, and for the errors of a condition that a published number met.
MANY_ROUNDINGS = 1e-12

Array = NDArray[np.float64]

# The smallest positive double that keeps full precision. A positive quantity that underflows is
# raised to it, so that "a little" is never taken for "nothing".
TINY = float(np.finfo(np.float64).tiny)
# The spacing of long doubles at 1, which are doubles on some platforms; of pairs of doubles, whose spacing is
# said to be next to nothing, what a few of their operations lose.
EPS_LONG = max(float(np.finfo(np.longdouble).eps), 2.0**-100)

# The least norm that vectors are scaled down to: entries far smaller than the norm still keep all digits
# of a double, so that rounding them cannot carry the norm past it.
LEAST_SCALED = 1e-290
# What sums of vectors are kept to: far from the largest double, so that none is infinite.
MOST_SUMMED = 2**1000


def up(x: float) -> float:
    """The next double above `x`; 0 stays 0 and infinities stay."""
    return x if x == 0.0 or math.isinf(x) else math.nextafter(x, math.inf)


def down(x: float) -> float:
    """The next double below `x`; 0 stays 0 and infinities stay."""
    return x if x == 0.0 or math.isinf(x) else math.nextafter(x, -math.inf)


def power_of_two_near(x: float) -> float:
    """The power of two above `x` > 0, within the range whose inverse is a double: dividing lengths by
    it is exact, and their squares neither over- nor underflow."""
    return math.ldexp(1.0, max(-1000, min(1000, math.frexp(x)[1])))


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


def root_up(x: float) -> float:
    """A double not below √x, at most one double above the least such; exact where x is 0 or 1."""
    root = math.sqrt(x)
    return root if x in (0.0, 1.0) else up(root)


def two_product_error(a: Array, b: Array, product: Array) -> Array:
    """The exact `a*b - product` entry by entry (Dekker 1971), as long as nothing over- or underflows."""
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
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        error = two_product_error(a, np.full_like(a, b), product)
        difference, lost = two_sum(np.ones_like(a), -product)
        residual, more = two_sum(lost, -error)
        value, rest = two_sum(difference, residual)
        rest = rest + more  # 1 - a*b is value + rest, and rest has the right sign
    below = np.where(rest < 0.0, np.nextafter(value, -np.inf), value)
    above = np.where(rest > 0.0, np.nextafter(value, np.inf), value)
    # Where Dekker's product is not exact: tiny products change 1 by less than an ulp, towards the
    # side their sign says, and huge ones are rounded by a step.
    tiny = np.abs(product) < 1e-280
    huge = ~(np.abs(product) < 1e280) | (a > 1e280) | (abs(b) > 1e280)
    below = np.where(tiny, 1.0 if b < 0.0 else np.nextafter(1.0, 0.0), below)
    above = np.where(tiny, 1.0 if b > 0.0 else np.nextafter(1.0, 2.0), above)
    rough = 1.0 - product
    below = np.where(huge, np.nextafter(rough, -np.inf), below)
    above = np.where(huge, np.nextafter(rough, np.inf), above)
    return below, above


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(a + b rounded, what the rounding lost) entry by entry, exactly (Knuth)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def times_up(a: Array, b: float) -> Array:
    """Doubles not below `a*b` (both nonnegative)."""
    product = a * b
    return np.where((a == 0.0) | (b == 0.0), 0.0, np.nextafter(product, np.inf))


def times_down(a: Array, b: float) -> Array:
    """Doubles not above `a*b` (both nonnegative)."""
    product = a * b
    return np.where(product > 0.0, np.nextafter(product, 0.0), 0.0)


def add_towards(center: Array, offset: Array) -> Array:
    """center + offset entry by entry, rounded towards the center where rounding would lead away from it."""
    total, lost = two_sum(center, offset)
    return np.where(np.sign(lost) == -np.sign(offset), np.nextafter(total, center), total)


def sum_of_products(a: Array, b: Array, minus: float) -> float:
    """Σab − minus, correctly rounded, so that its sign is right; underflow aside."""
    products = a * b
    parts = (products.ravel().tolist(), two_product_error(a, b, products).ravel().tolist())
    return math.fsum((*parts[0], *parts[1], -minus))


def sum_of_squares(x: Array) -> Fraction:
    """Σx², exactly."""
    mantissas, exponents = np.frexp(x.ravel())
    least = int(np.min(exponents, initial=0))
    pairs = zip((mantissas * 2.0**53).tolist(), (exponents - least).tolist(), strict=True)
    return Fraction(sum((int(m) << e) ** 2 for m, e in pairs), 4 ** (53 - least))


def root_above(square: Fraction) -> Fraction:
    """A rational not below √square, and above it by less than 2^−127; exact for squares of rationals."""
    scaled = square.numerator * square.denominator << 256
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), square.denominator << 128)


def root_of_fraction_up(square: Fraction) -> float:
    """The least double not below √square, ∞ beyond the range of doubles."""
    return fraction_up(root_above(square))


# Roots by bisection or after a walk, and least values by golden sections.


GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # of a bracket, what is left after one section
# More than there are halvings of an interval of doubles until its ends are neighbours.
_UNTIL_NEIGHBOURS = 2200
_FARTHER, _LEAST_STEP, _MOST_STEP = 1.02, 1e-4, math.log(64.0)  # of a walk


def mean(low: float, high: float) -> float:
    """The middle of two numbers."""
    return 0.5 * (low + high)


def neighbours(low: float, high: float) -> bool:
    """Whether no double between two numbers is their middle."""
    return not low < mean(low, high) < high


def bisected(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    close: Callable[[float, float], bool] = neighbours,
    middle: Callable[[float, float], float] = mean,
    rounds: int = _UNTIL_NEIGHBOURS,
) -> tuple[float, float]:
    """(low, high) of a shorter bracket of the point from which on `holds` is true.

    Only points strictly inside are tried: `low` stays or is one where `holds` is false, `high` stays or is
    one where it is true. `close`: whether the ends are near enough. `middle`: the point to be tried next.
    `rounds`: how many are tried at most.
    """
    for _ in range(rounds):
        tick()
        if close(low, high):
            break
        between = middle(low, high)
        low, high = (low, between) if holds(between) else (between, high)
    return low, high


def bisected_whole(
    holds: Callable[[int], bool],
    low: int,
    high: int,
    close: Callable[[int, int], bool] = lambda low, high: abs(high - low) <= 1,
) -> tuple[int, int]:
    """`bisected` among whole numbers, of which `high` may be the smaller one."""
    while not close(low, high):
        tick()
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def bracketed(
    excess: Callable[[float], float], start: float, *, rising: bool, most: float, farthest: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Two points around the root of a monotone function, each with its value there: the last two of a walk
    from `start` on, in steps that are at first about right where the slope is ±1.

    Both are `start` if that is the root. Neither is beyond it if it is more than `most`. None if the walk
    leads farther from 0 than `farthest`.
    """
    a, fa = start, excess(start)
    if fa == 0.0:
        return (a, fa), (a, fa)
    step = min(max(_FARTHER * abs(fa), _LEAST_STEP), _MOST_STEP)
    direction = 1.0 if (fa > 0.0) != rising else -1.0
    while True:
        b = min(a + direction * step, most)
        if not abs(b) < farthest:
            return None
        fb = excess(b)
        if (fa > 0.0) != (fb > 0.0) or b == most:
            return (a, fa), (b, fb)
        ahead = _FARTHER * step * abs(fb / (fb - fa)) if fb != fa else math.inf
        step = min(max(ahead, _LEAST_STEP), 2.0 * step, _MOST_STEP)
        a, fa = b, fb


def next_to_root(excess: Callable[[float], float], good: float, bad: float, close: float) -> float:
    """A point as near to a root as `close`, as a rule, at which the function is at most 0, as it is at `good`
    and not at `bad`."""
    from scipy.optimize import brentq

    root = brentq(excess, min(good, bad), max(good, bad), xtol=close, rtol=1e-14)
    sign = 1.0 if good > bad else -1.0
    nudge = 0.0
    while excess(root + sign * nudge) > 0.0:
        nudge = max(2.0 * nudge, close)
        if abs(root + sign * nudge - good) < nudge or nudge > abs(good - bad):
            return good
    return float(root + sign * nudge)


def bisected_arrays(
    is_low: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array, rounds: int
) -> tuple[Array, Array]:
    """`bisected` elementwise, with so many rounds; `is_low`: which points become the lower ends."""
    for _ in range(rounds):
        tick()
        middle = 0.5 * (low + high)
        lower = is_low(middle)
        low, high = np.where(lower, middle, low), np.where(lower, high, middle)
    return low, high


def sectioned(
    is_low: Callable[[Array], NDArray[np.bool_]],
    low: float,
    high: float,
    *,
    points: int,
    rounds: int,
) -> tuple[float, float]:
    """(low, high) of a shorter bracket of the point up to which `is_low` is true.

    In every round so many points inside are tried at once, as one array. `low` stays or is one that is low,
    and all before it are; `high` stays or is one that is not.
    """
    for _ in range(rounds):
        tick()
        inside = np.linspace(low, high, points + 2)
        k = int(np.argmin(np.append(is_low(inside[1:-1]), False)))
        low, high = float(inside[k]), float(inside[k + 1])
    return low, high


def largest(
    function: Callable[[float], float], low: float, high: float, *, points: int, rounds: int
) -> float:
    """The largest value seen of a unimodal function: on an even grid, then by sections around its best."""
    grid = [low + (high - low) * k / (points - 1) for k in range(points)]
    values = [function(x) for x in grid]
    k = max(range(points), key=values.__getitem__)
    sections = golden(function, grid[max(k - 1, 0)], grid[min(k + 1, points - 1)], rounds)
    return max(values[k], *(value for section in sections for _, value in section))


def golden(
    function: Callable[[float], float], low: float, high: float, rounds: int
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """The two inner points and their values, at first and after every section towards the larger one."""
    x, y = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_x, at_y = function(x), function(y)
    for _ in range(rounds):
        yield (x, at_x), (y, at_y)
        if at_x >= at_y:
            high, y, at_y = y, x, at_x
            x = high - GOLDEN * (high - low)
            at_x = function(x)
        else:
            low, x, at_x = x, y, at_y
            y = low + GOLDEN * (high - low)
            at_y = function(y)
    yield (x, at_x), (y, at_y)


def descended(
    function: Callable[[float], float], start: float, *, stride: float, width: float, limit: float
) -> tuple[float, float]:
    """(x, value) near the least value of a unimodal function, whose NaN counts as ∞.

    From `start` on the steps double, the first of them `stride`, until the value rises or |x| is more than
    `limit`; golden sections then shorten the bracket to `width`.
    """
    low, middle, high = start - stride, start, start + stride
    values = {x: function(x) for x in (low, middle, high)}

    def at(x: float) -> float:
        if x not in values:
            tick()
            values[x] = function(x)
        return math.inf if math.isnan(values[x]) else values[x]

    while at(low) <= at(middle) and low > -limit:
        low, middle, high = low - 2.0 * stride, low, middle
        stride *= 2.0
    while at(high) < at(middle) and high < limit:
        low, middle, high = middle, high, high + 2.0 * stride
        stride *= 2.0
    while high - low > width:
        above = high - middle > middle - low
        x = middle + (1.0 - GOLDEN) * ((high if above else low) - middle)
        if at(x) < at(middle):
            low, middle, high = (middle, x, high) if above else (low, x, middle)
        else:
            low, middle, high = (low, middle, x) if above else (x, middle, high)
    return middle, at(middle)


def added(columns: Array) -> Array:
    """The sum of every column, in an order that does not depend on how many there are, nor on how they lie.

    Otherwise the last bits of one record's sum would depend on which others are beside it.
    """
    return np.asarray(np.asfortranarray(columns).sum(axis=0))


def row_norms(vectors: Array) -> Array:
    """(m,) norms of (m, K) vectors, however large their entries."""
    columns = vectors.T
    peak = np.max(np.abs(columns), axis=0)
    unit = columns / np.where((peak > 0.0) & np.isfinite(peak), peak, 1.0)
    return np.asarray(peak * np.sqrt(added(np.square(unit))))


# Soft thresholding, of numbers and of singular values.


def soft(x: Array, threshold: float) -> Array:
    """x minus its projection on a box (Moreau's decomposition): soft thresholding."""
    return x - np.clip(x, -threshold, threshold)


def thresholds_off(rows: int, columns: int) -> float:
    """What computed soft thresholding of singular values is off by at most, over the norm of the matrix."""
    return 4.0 * (rows + columns + 8.0) * (min(rows, columns) + 4.0) * HALF_ULP


def thresholded(x: Array, threshold: float) -> Array:
    """The matrix with its singular values thresholded softly, off by `thresholds_off` of it at most.

    How far a decomposition USVᵀ is from x, and U and V from orthogonal ones, is measured; whoever computed it
    need not be believed (docs, "Theory", 9, Lemma 59e).
    """
    m, n = x.shape
    k = min(m, n)
    try:
        left, values, right = np.linalg.svd(x, full_matrices=False)
    except np.linalg.LinAlgError:  # it did not converge, which nobody is to see
        return _by_rotations(x, threshold)
    size, one = float(np.linalg.norm(values)), np.eye(k)
    askew = np.linalg.norm(left.T @ left - one) + np.linalg.norm(right @ right.T - one)
    askew += 1.1 * (m + n + 4) * k * HALF_ULP  # what sums of products may be off by
    products = 1.1 * (k + 4) * math.sqrt(k) * HALF_ULP * size
    missed = np.linalg.norm(x - (left * values) @ right) + 2.0 * products + 2.1 * askew * size
    if not 1.01 * missed <= thresholds_off(m, n) * np.linalg.norm(x):
        return _by_rotations(x, threshold)
    return np.asarray((left * soft(values, threshold)) @ right)


def _by_rotations(x: Array, threshold: float) -> Array:
    """The same from 300 bits, by rotations of two columns at a time until all are orthogonal (Jacobi,
    Hestenes): with xV = US, it is US·max(0, 1 − threshold/S)·Vᵀ."""
    from flint import arb, ctx  # heavy to load, and hardly ever needed

    if x.shape[0] < x.shape[1]:
        return _by_rotations(x.T, threshold).T
    m, n = x.shape
    with ctx.workprec(320):
        number, middle = np.vectorize(arb, otypes=[object]), np.frompyfunc(arb.mid, 1, 1)
        both, turned = number(np.concatenate([x, np.eye(n)])), True
        least = number(x.ravel()) @ number(x.ravel()) * arb(2) ** -250  # of products that count
        while turned:
            turned = False
            for i, j in combinations(range(n), 2):
                a, b = both[:, i].copy(), both[:, j].copy()
                square, other, product = (
                    middle(p[:m] @ q[:m]) for p, q in ((a, a), (b, b), (a, b))
                )
                if abs(product) > least:
                    zeta = (other - square) / (2 * product)
                    tangent = 1 / (abs(zeta) + (1 + zeta * zeta).sqrt()) * (1 if zeta >= 0 else -1)
                    cosine = 1 / (1 + tangent * tangent).sqrt()
                    both[:, i] = middle(cosine * (a - tangent * b))
                    both[:, j] = middle(cosine * (b + tangent * a))
                    turned = True
        lengths = [(both[:m, i] @ both[:m, i]).sqrt() for i in range(n)]
        shares = [1 - threshold / length if length > threshold else arb(0) for length in lengths]
        return np.asarray((both[:m] * shares) @ both[m:].T, dtype=np.float64)

"""Doubles next to rational numbers, for many steps at once.

A sum or a product of two doubles is two doubles: what is rounded, and what the rounding lost (Knuth, Dekker).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from pabi.verification.arithmetic import (
    double_above,
    double_below,
    exact,
    fraction_of,
    in_time,
    timed,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_SPLIT = 2.0**27 + 1.0


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(a + b rounded, what the rounding lost), entry by entry."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(a·b rounded, what the rounding lost), entry by entry, of numbers and products that are 0 or from
    2^-900 to 2^900 in absolute value."""
    product = a * b
    here, there = _SPLIT * a, _SPLIT * b
    high, tall = here - (here - a), there - (there - b)
    low, small = a - high, b - tall
    return product, ((high * tall - product) + high * small + low * tall) + low * small


# Numbers with what their roundings lost: the lemma in `replay` says how well they are known.


FAR = 900
POWERS = 1 << 40  # exponents of two are within these bounds


class OutOfReach(Exception):
    """Doubles leave it open."""


@dataclass(frozen=True, slots=True)
class Fine:
    """Numbers head·(1 + tail)·2^power, head being 0 or from ½ to 1."""

    head: Array
    tail: Array
    power: Integers

    @classmethod
    def of(cls, x: Array, tail: Any = 0.0, power: Any = 0) -> Fine:
        """The numbers x·(1 + tail)·2^power."""
        head, shift = np.frexp(x)
        return cls(head, np.broadcast_to(tail, head.shape), shift + power)

    def at(self, which: Any) -> Fine:
        """Some of the numbers."""
        return Fine(self.head[which], self.tail[which], self.power[which])

    def times(self, other: Fine) -> Fine:
        """The products."""
        product, lost = two_product(self.head, other.head)
        tail = self.tail + other.tail + over(lost, product)
        return Fine.of(product, tail, self.power + other.power)

    def over(self, other: Fine) -> Fine:
        """The quotients, where the others are not 0."""
        quotient = self.head / other.head
        product, lost = two_product(quotient, other.head)
        tail = self.tail - other.tail + over((self.head - product) - lost, self.head)
        return Fine.of(quotient, tail, self.power - other.power)

    def largest(self, starts: Integers) -> Integers:
        """The largest powers of those that are not 0, in each part that begins at one of `starts`."""
        return np.maximum.reduceat(np.where(self.head > 0.0, self.power, -POWERS), starts)

    def scaled(self, power: Any, least: float) -> Array:
        """The heads in units of 2^power, or `least` where they are below 2^-900 and not 0."""
        apart = np.clip(self.power - power, -FAR - 1, FAR)
        heads = np.ldexp(self.head, apart.astype(np.int32))
        return np.where((apart < -FAR) & (self.head > 0.0), least, heads)


def over(lost: Array, of: Array) -> Array:
    """What was lost, relative to what it was lost of; 0 where that is 0."""
    return np.divide(lost, of, out=np.zeros_like(lost), where=of > 0.0)


def sums_until(head: Array, tail: Array) -> tuple[Array, Array]:
    """The sums of the numbers head·(1 + tail) up to each, along the last axis, as two numbers to be added."""
    sums = np.cumsum(head, axis=-1)
    total, lost = two_sum(sums[..., :-1], head[..., 1:])
    if not np.array_equal(total, sums[..., 1:]):
        raise OutOfReach  # added up in another order
    rest = np.cumsum(head * tail, axis=-1)
    rest[..., 1:] += np.cumsum(lost, axis=-1)
    return sums, rest


def sums_from(head: Array, tail: Array) -> tuple[Array, Array]:
    """The sums of the numbers from each on."""
    sums, rest = sums_until(head[..., ::-1], tail[..., ::-1])
    return sums[..., ::-1], rest[..., ::-1]


def products_after(c: Array) -> Fine:
    """W_k, the product of the slopes after each step."""
    factors = c[:0:-1]
    if not (factors > 0.0).all():
        raise OutOfReach
    heads, powers = np.frexp(factors)
    # Powers of two are taken out where they keep the products near 1.
    level = np.rint(np.cumsum(np.log2(heads)))
    factors = np.ldexp(heads, -np.diff(level, prepend=0.0).astype(np.int32))
    products = np.concatenate(([1.0], np.cumprod(factors)))
    rounded, lost = two_product(products[:-1], factors)
    near = (products > 0.125) & (products < 8.0)
    if not near.all() or not np.array_equal(rounded, products[1:]):
        raise OutOfReach
    tails = np.concatenate(([0.0], np.cumsum(lost / rounded)))
    total = np.concatenate(([0], np.cumsum(powers, dtype=np.int64) + level.astype(np.int64)))
    return Fine.of(products, tails, total).at(slice(None, None, -1))


# Rational functions of a schedule, rounded to the next double.
#
# A rational r is head + rest but for 2^-106·|r|, both doubles. Where it is equal to head, η·r is known
# exactly, and elsewhere but for 2^-103·|η·r|: what two_product gives is exact, the product with `rest` is at
# most 2^-53·|η·r|, and the two roundings on its way lose 2^-53 of that each. What is nearer to a double than
# it is known is compared with it in rational arithmetic.


_WIDE = 2.0**300  # schedules are rounded at once within this range and its inverse


def slopes_above(etas: Array, rates: Collection[Any]) -> Array:
    """For every step size η ≥ 0 the least double not below |1 − η·r|, for the worst of these rational r."""
    low, high = min(rates), max(rates)  # |1 − η·r| is convex in r
    if exact(etas.max(initial=0.0)) * (low + high) <= 2:
        return _in_parts(lambda some: _slopes_above(some, low), etas)
    return _in_parts(
        lambda some: np.maximum(_slopes_above(some, low), _slopes_above(some, high)), etas
    )


def _slopes_above(etas: Array, rate: Any) -> Array:
    if rate == 0:
        return np.ones_like(etas)
    head, rest, whole = _pair(rate)
    with np.errstate(all="ignore"):
        product, lost = two_product(etas, np.full_like(etas, head))
        total, more = two_sum(np.ones_like(etas), -product)
        less = lost + etas * rest  # η·r = product + less
        small = more - less
        doubt = np.where((more != 0.0) & (less != 0.0), np.abs(small) * 2.0**-52, 0.0)
        doubt += 0.0 if whole else np.abs(product) * 2.0**-103
        inside = _within(etas) & _within(np.full_like(etas, head)) & (total != 0.0)
        doubt[~inside] = np.nan
        sign = np.sign(total)
        return _next(
            *(sign * total, sign * small, doubt),
            towards=np.inf,
            arguments=etas,
            at=lambda eta: abs(1 - exact(eta) * rate),
        )


def products_above(etas: Array, factor: Any) -> Array:
    """For every η ≥ 0 the least double not below η times a rational factor ≥ 0."""
    return _in_parts(lambda some: _products(some, np.ones_like(some), factor, np.inf), etas)


def products_below(etas: Array, others: Array, factor: Any) -> Array:
    """For every η ≥ 0 the largest double not above η times its other number ≥ 0, times a rational ≥ 0."""
    return _in_parts(lambda some, more: _products(some, more, factor, 0.0), etas, others)


_AT_ONCE = 1 << 13  # numbers that stay where they are fast to reach


def _in_parts(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of arrays, entry by entry, a part after another."""
    out = np.empty(len(arrays[0]))
    for begin in range(0, len(out), _AT_ONCE):
        in_time()
        some = slice(begin, begin + _AT_ONCE)
        out[some] = function(*(array[some] for array in arrays))
    return out


def _products(etas: Array, others: Array, factor: Any, towards: float) -> Array:
    head, rest, whole = _pair(factor)
    with np.errstate(all="ignore"):
        product, lost = two_product(etas, others)
        big, small = two_product(product, np.full_like(etas, head))
        more = product * rest + lost * head
        doubt = np.where((lost != 0.0) | (not whole), np.abs(big) * 2.0**-102, 0.0)
        inside = _within(etas) & _within(others) & _within(np.full_like(etas, head))
        doubt[~inside] = np.nan
        small += more
        for part in (big, small, doubt):
            part[(etas == 0.0) | (others == 0.0) | (factor == 0)] = 0.0
        return _next(
            *(big, small, doubt),
            towards=towards,
            arguments=np.stack([etas, others], axis=1),
            at=lambda x: exact(x[0]) * exact(x[1]) * factor,
        )


def _pair(x: Any) -> tuple[float, float, bool]:
    """(head, rest, whether a rational number is equal to head)."""
    number = fraction_of(fmpq(x))
    head = float(number)
    left = number - fraction_of(exact(head))
    return head, float(left), left == 0


def _within(x: Array) -> NDArray[np.bool_]:
    return np.asarray((np.abs(x) >= 1.0 / _WIDE) & (np.abs(x) <= _WIDE))


def _next(
    big: Array,
    small: Array,
    doubt: Array,
    *,
    towards: float,
    arguments: Array,
    at: Callable[[Any], Any],
) -> Array:
    """The double next to big + small > 0 on the side of `towards`; the sum is known but for `doubt`. Where
    that leaves it open or is NaN, it is the double next to the rational at(argument)."""
    head, rest = two_sum(big, small)
    beyond = rest > 0.0 if towards else rest < 0.0
    moved = np.where(beyond, np.nextafter(head, towards), head)
    left = np.flatnonzero(~((np.abs(rest) > doubt) | (doubt == 0.0)))
    if left.size:
        some, first, which = np.unique(
            arguments[left], axis=0, return_index=True, return_inverse=True
        )
        near = head[left[first]].tolist()
        pairs = timed(zip(some.tolist(), near, strict=True))
        moved[left] = np.array([_beside(at(x), y, towards) for x, y in pairs])[which.reshape(-1)]
    return moved


def _beside(value: Any, near: float, towards: float) -> float:
    """The double next to a rational ≥ 0 on the side of `towards`, which is likely to be near."""
    low, high = math.nextafter(near, 0.0), math.nextafter(near, math.inf)
    if near > 0.0 and high < math.inf and exact(low) < value < exact(high):
        if towards:
            return near if value <= exact(near) else high
        return near if value >= exact(near) else low
    return (double_above if towards else double_below)(fraction_of(fmpq(value)))

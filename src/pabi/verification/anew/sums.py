"""What a product of Gaussians and other factors is worth at one δ.

The privacy loss is Y = log dP/dQ under P; losses of
independent releases add; δ(ε) = E(1 − e^(ε−Y))⁺. Every step errs upwards.

1. *Finitely many losses.* A piece of (P, Q) whose likelihood ratios lie between e^l and e^r is the image,
   under a random map, of two outcomes of ratios e^l and e^r that have the same P and the same Q
   together. So these two reveal no less, in either direction. Their masses are computed in balls (`laws`).
2. *Inversion.* With M(s) = E e^(sY) and any λ > 0,

       e^(λε)·δ(ε) = 1/(2π)·∫ e^(−iωε)·M(λ + iω)/((λ + iω)(λ + iω + 1)) dω.

   Summed over the multiples ω of 2π/T in place of the integral, this is the sum of e^(λx)·δ(x) over all
   x = ε + mT, which is no less, because no term is negative.
3. *A little more to see.* If need be, a factor G(ν) with a small ν is added. It makes M(λ + iω) fall like
   e^(−ν²ω²/2), so that what is left out beyond the last ω is known.
4. *Rounding.* The sums of step 2 are taken in doubles, and their errors are bounded along with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from pabi.verification.anew.laws import ULP, Array, Law, law_of, raised, turned_law_of
from pabi.verification.arithmetic import Refused, double_above, in_time, timed
from pabi.verification.factors.mixtures import Sampled, whole_mu

# Spacing of the normal variable behind a loss, and by how much step 3 may raise ε, relatively. Where ε is
# near 0, the error of a spacing is relative to δ.
_LEVELS = ((0.06, 8e-4), (0.03, 1e-4), (0.012, 3e-5), (0.004, 3e-6), (0.0015, 5e-7))
_MOST = 4_000_000_000  # terms to add up before giving up
_MOST_FREQUENCIES = 2_000_000  # of one sum: 300 MB
_FAR = 0.8  # of the ε around which a sum was taken: one below is looked at anew
_SECTION = (3.0 - math.sqrt(5.0)) / 2.0
_BLOCK, _STRIDE = 128, 16_384  # terms that are added one after the other; columns at once
_SUMMED = 1.0 + 1e-12  # more than the rounding errors of a sum of probabilities
_WHOLE = 1.0 - 1e-9  # less than the masses of a law, each rounded up, add to
_ADDED = 1.0 + 1e-14  # more than the rounding errors of two additions


def least_of(
    finer: Iterator[float], delta: float, enough: float = 0.0, coarse: bool = False
) -> float:
    """The least of the ε that are found at `delta` on finer and finer grids; ∞ if none is.

    They are tried as long as it is above `enough`, but so little that they may help. `coarse`: whether the
    first grid says little.
    """
    best, at_least, far = math.inf, 2 if coarse else 1, 1.02 * enough + 0.01 * delta
    while enough < best and (best <= far or at_least > 0):
        epsilon = next(finer, None)
        if epsilon is None:
            break
        best, at_least = min(best, epsilon), at_least - 1
    return best


def epsilons(
    parts: Sequence[tuple[Any, float]],
    sampled: Iterable[Sampled],
    delta: float,
    others: Sequence[tuple[Callable[[float, float], tuple[Law, Law]], int]] = (),
) -> Iterator[float]:
    """ε with δ(ε) ≤ `delta` for the product, one for each of finer and finer grids; none if none is found.

    `parts`: (probability, μ) of a mixture of Gaussians, which is one factor. `others`: of further factors
    the losses, from (tail, spacing), those with the data sets exchanged, and how many there are.
    """
    factors = [
        f._replace(probability=double_above(Fraction(f.probability))) for f in sampled if f.mu > 0.0
    ]
    if not 0.0 < delta < 1.0 or any(math.isinf(max(f.mu, *f.sizes)) for f in factors):
        return
    if not factors and not others and all(mu == 0.0 for _, mu in parts):
        yield 0.0
        return
    tail = delta / max(1, sum(f.times for f in factors) + sum(n for _, n in others))
    for spacing, rise in _LEVELS:
        drawn = [f for f in factors if f.probability < 1.0]
        laws = [law_of(f, tail, spacing) for f in drawn]
        plain = math.fsum(f.times * whole_mu(f) ** 2 for f in factors if f.probability == 1.0)
        more = [(law(tail, spacing), times) for law, times in others]
        turns = any(law.turns for law in laws) or any(law.turns for (law, _), _ in more)
        epsilon = 0.0
        for turned in (False, True) if turns else (False,):
            facing = laws
            if turned:
                facing = [
                    turned_law_of(f, law, tail, spacing) for f, law in zip(drawn, laws, strict=True)
                ]
            facing = [*facing, *(both[turned]._replace(times=n) for both, n in more)]
            epsilon = max(epsilon, _Sum(facing, _mixture(parts, plain)).epsilon(delta, rise))
        yield epsilon


class _Mixture(NamedTuple):
    """Gaussian pairs: the least μ², by how much the others are larger, weights, and that of μ = ∞."""

    least: float
    more: Array
    weights: Array
    infinity: float


def _mixture(parts: Sequence[tuple[Any, float]], plain: float) -> _Mixture:
    """Of (probability, μ), with `plain` added to every μ²; rounded up."""
    mus, weights = np.array([mu for _, mu in parts]), np.array([float(w) for w, _ in parts])
    with np.errstate(over="ignore"):
        squares = np.square(mus)
    finite = np.isfinite(squares)
    infinity = float(weights[~finite].sum()) * _SUMMED
    possible = finite & (weights > 0.0)
    squares = squares[possible]
    least = float(squares.min()) if squares.size else 0.0
    total = (least + plain) * _ADDED
    return _Mixture(total, raised(squares - least), raised(weights[possible]), infinity)


class _Sum:
    """The sum of all losses, in one direction."""

    def __init__(self, laws: Sequence[Law], mixture: _Mixture) -> None:
        for law in laws:
            if not float(law.p.sum()) + law.infinity >= _WHOLE:
                raise Refused("factors: some of the probability of a law is missing")
        self.laws, self.mixture = laws, mixture
        self.infinity = mixture.infinity + math.fsum(law.times * law.infinity for law in laws)

    def log_moment(self, power: float) -> float:
        """K(λ) = log E e^(λY), over the finite losses."""
        in_time()
        half = 0.5 * power * (power + 1.0)
        total = half * self.mixture.least
        total += log_sum(half * self.mixture.more, self.mixture.weights)
        return total + math.fsum(law.times * log_sum(power * law.y, law.p) for law in self.laws)

    def epsilon(self, delta: float, rise: float) -> float:
        """The least ε for which δ(ε) ≤ `delta` can be shown; ∞ if there is none."""

        def chernoff(power: float) -> float:
            """The ε that follows from δ(ε) ≤ e^(K − λε)·λ^λ/(1 + λ)^(1 + λ)."""
            gain = -power * math.log1p(1.0 / power) - math.log1p(power)
            return (self.log_moment(power) + gain - math.log(delta)) / power

        def delta_there(power: float) -> float:
            """log of the δ that follows at the ε found so far."""
            return power * chernoff(power) - power * best

        if not self.infinity <= delta:
            return math.inf
        power = minimiser(chernoff)
        best, around = math.inf, max(1.01 * chernoff(power), 0.1 / power)
        # Moments are far from the truth where rare outcomes reveal much: then again, around what was found.
        while best == math.inf or best < _FAR * around:
            around = min(around, best)
            epsilon = self._least(power, around, delta, rise=rise)
            if epsilon is None or not epsilon < best:
                break
            best = epsilon
            if best == 0.0:
                break
            power = minimiser(delta_there)
        return best

    def _least(self, power: float, most: float, delta: float, *, rise: float) -> float | None:
        """The least ε up to `most` for which δ(ε) ≤ `delta` can be shown with one tilt; None if none can."""
        bound = self._inverted(power, most, delta, rise=rise)
        if bound is None or not bound(most) <= delta:
            return None
        low, high = 0.0, most
        if bound(low) <= delta:
            return low
        while high - low > 1e-6 * high:
            in_time()
            middle = 0.5 * (low + high)
            low, high = (low, middle) if bound(middle) <= delta else (middle, high)
        return high

    def _inverted(
        self, power: float, epsilon: float, delta: float, *, rise: float
    ) -> Callable[[float], float] | None:
        """An upper bound on δ, sharp around `epsilon`; None where it would take too long."""
        square = max(self.mixture.least, 2.0 * rise * epsilon / (power + 1.0))  # step 3
        half = 0.5 * power * (power + 1.0)
        base = self.log_moment(power) + half * (square - self.mixture.least)
        step = 2.0 * math.pi / self._period(power, epsilon, delta)
        last = math.ceil(math.sqrt((50.0 + 4.0 * math.log1p(power)) / square) / step)
        nodes = sum(law.y.size for law in self.laws) + self.mixture.weights.size
        if not (last < _MOST_FREQUENCIES and last * (nodes + 100.0) < _MOST):
            return None
        omega: Array = step * np.arange(last + 1.0)
        s = power + 1j * omega
        size: Any = -0.5 * square * omega**2 - np.log(np.abs(s * (s + 1.0)))
        angle = square * (power + 0.5) * omega - np.angle(s) - np.angle(s + 1.0)
        weight, angle, error, doubt = Spectrum.of(size, angle, self._transforms(power, omega), step)
        slack = 8.0 * half * square + doubt
        beyond = math.exp(-0.5 * square * omega[-1] ** 2) / (math.pi * omega[-1])

        def bound(epsilon: float) -> float:
            total = float(weight @ np.cos(angle - omega * epsilon)) + beyond
            total += error + float(weight @ omega) * (4.0 * ULP * epsilon)
            log_scale = base - power * epsilon
            log_scale += ULP * (slack + 16.0 + 8.0 * (abs(base) + power * epsilon))
            if log_scale > 700.0:
                return 1.0
            return float((math.exp(log_scale) * total + self.infinity) * _SUMMED)

        return bound

    def _period(self, power: float, epsilon: float, delta: float) -> float:
        """A T for which all but the term m = 0 of step 2 are small."""
        small = 25.0 + 4.0 * math.log1p(power)
        base = self.log_moment(power)
        after = min(
            (self.log_moment(power + more) - base - more * epsilon + small) / more
            for more in (power * f for f in (0.2, 0.5, 1.0, 2.0, 4.0))
        )
        return 1.05 * max((small - math.log(delta)) / power, after)

    def _transforms(self, power: float, omega: Array) -> Iterable[tuple[Any, Array, int]]:
        """For every factor, E e^((λ + iω)Y)/E e^(λY) at every ω, a bound on its error, and how often."""
        _, more, weights, _ = self.mixture
        if more.any():
            y = (power + 0.5) * more
            w, error = tilted(
                0.5 * power * (power + 1.0) * more, y, weights, omega=omega, power=power
            )
            value = [w @ np.exp(1j * o * y - 0.5 * more * o * o) for o in omega.tolist()]
            yield np.array(value), error, 1
        for law in self.laws:
            in_time()
            w, error = tilted(power * law.y, law.y, law.p, omega=omega, power=power)
            yield characteristic(law.y, w, omega), error, law.times


class Spectrum(NamedTuple):
    """What stands at every frequency, times the distance of two over π: sizes and angles; a bound on the
    error of all together, and how many ulps the logarithm of the whole is off by."""

    weight: Any
    angle: Any
    error: float
    slack: float

    @classmethod
    def of(
        cls, size: Any, angle: Any, transforms: Iterable[tuple[Any, Array, int]], step: float
    ) -> Spectrum:
        """That of a factor, given by the logarithms of its sizes and by its angles, and of characteristic
        functions, each with a bound on its error and how often it occurs."""
        doubt, turn, slack = np.zeros(size.size), 8.0 + 4.0 * np.abs(angle), 0.0
        for value, error, times in transforms:
            modulus = np.maximum(np.abs(value), 1e-300)
            size = size + times * np.log(modulus)
            angle = angle + times * np.angle(value)
            # |(v + e)^n − v^n| ≤ (|v| + |e|)^n − |v|^n
            doubt += times * (np.log1p(error / modulus) + ULP * (4.0 - 2.0 * np.log(modulus)))
            turn += times * 16.0
            slack += times * 2.0 * float(error[0]) / ULP
        with np.errstate(under="ignore"):
            weight = np.exp(size) * step / math.pi
            wrong = np.exp(size + doubt) * -np.expm1(-doubt) * step / math.pi
        weight[0], wrong[0] = 0.5 * weight[0], 0.5 * wrong[0]
        wrong += weight * ULP * (turn + size.size)
        return cls(weight, angle, float(wrong.sum()), slack)


def tilted(
    exponent: Array, y: Array, p: Array, *, omega: Array, power: float
) -> tuple[Array, Array]:
    """p·e^exponent, normalised, and a bound on the error of its characteristic function."""
    top = _largest(exponent, p)
    with np.errstate(under="ignore"):
        w = p * np.exp(np.minimum(exponent - top, 0.0))
    w = w / w.sum()
    mean = float(w @ np.abs(y))
    terms = _BLOCK + y.size / _BLOCK  # one after the other, in `characteristic`
    return w, ULP * (4.0 * terms + 100.0 + 8.0 * abs(top) + 16.0 * (power + omega) * mean)


def characteristic(y: Array, w: Array, omega: Array) -> Any:
    """Σ w·e^(iωy) at the multiples ω of a step, as products of e^(iωy) at few and at many steps."""
    few, step = 64, float(omega[1])
    many = np.arange(0, omega.size, few)
    value: Any = np.zeros((few, many.size), dtype=np.complex128)
    for first in timed(range(0, y.size, _BLOCK)):
        part, weight = y[first : first + _BLOCK], w[first : first + _BLOCK, None]
        near = np.exp(1j * step * np.outer(np.arange(few), part))
        for i in range(0, many.size, _STRIDE):
            far = weight * np.exp(1j * step * np.outer(part, many[i : i + _STRIDE]))
            value[:, i : i + _STRIDE] += near @ far
    return value.T.ravel()[: omega.size]


def log_sum(exponent: Array, p: Array) -> float:
    """log Σ p·e^exponent."""
    if p.size == 0:
        return 0.0
    top = _largest(exponent, p)
    with np.errstate(under="ignore"):
        terms = p * np.exp(np.minimum(exponent - top, 0.0))
    return top + math.log(float(np.sum(terms)))  # in pairs


def _largest(exponent: Array, p: Array) -> float:
    """The largest exponent of those with some mass: the others, however large, add nothing."""
    return float(exponent[p > 0.0].max())


def minimiser(function: Callable[[float], float]) -> float:
    """About where a function of λ > 0 that falls and then rises is least."""
    grid = np.exp(np.arange(-14.0, 36.0, 2.0)).tolist()
    best = min(range(len(grid)), key=lambda i: function(grid[i]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    a, b = low * (high / low) ** _SECTION, high * (low / high) ** _SECTION
    at_a, at_b = function(a), function(b)
    while high > 1.02 * low:  # one of the two inner points is one of the next two
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = low * (high / low) ** _SECTION
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = high * (low / high) ** _SECTION
            at_b = function(b)
    return math.sqrt(low * high)

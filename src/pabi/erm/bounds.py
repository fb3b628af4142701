"""Bounds on the excess of a Gibbs density and of a Langevin diffusion, in units of the temperature.

π is the density ∝ exp(−κf) on a convex set of dimension p; f = L − min L is the excess loss, between 0 and
x/κ. Proofs: docs, "Private optimisation".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pabi.numbers.rounding import up
from pabi.numbers.search import GOLDEN, bisected, neighbours

MARGIN = 1.0 + 1e-9  # above the roundings of everything here
FEW_ROUNDINGS = 1.0 + 1e-15  # above those of up to five products, quotients and roots
_ENTROPY_ROUNDINGS = 1.0 + 1e-13  # above those of an entropy, a few dozen operations
_NEWTON = 1e-13  # relative length of the last of Newton's steps, and of a bracket
_AFTER_NEWTON = 1.0 + 1e-11  # above what Newton's steps have left of an error
_UNDERFLOW = 1e-250


def gibbs_convex(dimension: int, x: float = math.inf) -> float:
    """A bound on κ·E f under π for convex L: the mean p·P(p+1, x)/P(p, x) of Gamma(p, 1) below x.

    Along every ray from the minimiser κf has a density whose ratio to that of Gamma(p, 1) decreases, so
    that it is dominated by Gamma(p, 1), and by its part below x. Attained by a cone of rays of equal length.
    Source: docs; without x it is p, as in Ganesh, Thakurta, Upadhyay, Theorem D.1, with its constant.
    """
    if x == math.inf:
        return float(dimension)
    from scipy.special import gammainc

    p = float(dimension)
    least = x * p / (p + 1.0)  # without the factor e^(−y), which pulls down
    below = float(gammainc(p, x))
    if below < _UNDERFLOW:
        ratio = least * math.exp(_log_volume(dimension + 1, x) - _log_volume(dimension, x))
    else:
        ratio = p * float(gammainc(p + 1.0, x)) / below
    return min(p, least, ratio) * MARGIN


def gibbs_any(dimension: int, x: float) -> float:
    """A bound on κ·E f under π for Lipschitz L, convex or not, x = κ·(Lipschitz constant)·diameter.

    The share of the set where f ≤ t is at least (κt/x)^p; of all f of which that is so
    min(cone, plateau) has the largest mean, h − 1 with h the root of (h/x)^p·S(h) = 1 where that is below x,
    S(h) = Σ_k k·h^(k+1)/((p+1)_k·(p+1+k)), and else the whole cone. Attained by a set whose rays from the
    minimiser are all as long as the diameter. Source: docs; at most `free_energy`.
    """
    if not math.isfinite(x):
        return math.inf

    def value(h: float) -> float:
        return dimension * (math.log(h) - math.log(x)) + _log_plateau(dimension, h)

    if x <= 1.0 or value(x) <= 0.0:
        return gibbs_convex(dimension, x)

    def close(low: float, high: float) -> bool:
        return high - low <= _NEWTON * high or neighbours(low, high)

    _, high = bisected(lambda h: value(h) > 0.0, 0.0, x, close=close)
    return max(0.0, min(high * MARGIN - 1.0, x))


def _log_plateau(p: int, h: float) -> float:
    """ln S(h), S(h) = h·(M(p+1, h) − M(p+2, h)) with M(a, h) = Σ_k h^k/(a)_k."""
    a = p + 1.0
    if h <= a:
        term, total, k = h / a, 0.0, 1
        while True:
            total += term * k / (a + k)
            k += 1
            term *= h / (a + k - 1.0)
            if term * k < 1e-17 * total and h < a + k:
                return math.log(h) + math.log(total)
    log_m = _log_volume(p, h) + h
    return math.log(h) + log_m + math.log1p(-a / h + (a / h) * math.exp(-log_m))


def _log_volume(p: int, x: float) -> float:
    """ln of Γ(p+1)P(p, x)/x^p, the mean of exp(−κf) over a set where f is a cone of rays of equal length."""
    from scipy.special import gammainc

    below = float(gammainc(float(p), x))
    if below > _UNDERFLOW:
        return math.lgamma(p + 1.0) + math.log(below) - p * math.log(x)
    term, total, k = 1.0, 1.0, 1
    while term > 1e-17 * total or x > p + k:
        term *= x / (p + k)
        total += term
        k += 1
    return math.log(total) - x


def free_energy(dimension: int, x: float) -> float:
    """−ln[Γ(p+1)P(p, x)/x^p] ≥ κ·E f under π for Lipschitz L, convex or not, x as in `gibbs_any`.

    Gibbs' variational principle for the uniform law. It bounds the tail as well: κf exceeds it by t with
    probability at most e^(−t). Source: Ganesh, Thakurta, Upadhyay, Theorem D.5, sharpened; docs.
    """
    # By Jensen's inequality, nearly attained where x is small.
    mean = x * dimension / (dimension + 1.0)
    return mean * MARGIN if x < 1e-4 else min(x, -_log_volume(dimension, x) * MARGIN)


def entropy_factor(entropy: float) -> float:
    """x ≥ 1 with x − 1 − ln x = `entropy` ≥ 0, rounded up.

    A law of relative entropy p·`entropy` to π has κ·E f ≤ p·x for convex L. Source: docs.
    """
    if not entropy > 0.0:
        return 1.0
    if not math.isfinite(entropy):
        return math.inf

    def excess(v: float) -> float:
        return _minus_log1p(v) - entropy

    # Above the root, from where Newton's steps descend.
    v = entropy + math.sqrt(2.0 * entropy) + 1.0
    while excess(v) < 0.0:
        v *= 2.0
    for _ in range(100):
        step = excess(v) * (1.0 + v) / v
        if not step > _NEWTON * v:
            break
        v -= step
    return up(1.0 + v * _AFTER_NEWTON)


def _minus_log1p(v: float) -> float:
    """v − ln(1 + v), v ≥ 0, without loss where v is small."""
    if v > 0.01:
        return v - math.log1p(v)
    return v * v * (0.5 - v * (1 / 3 - v * (0.25 - v * (0.2 - v * (1 / 6 - v / 7)))))


def last_point(
    dimension: int,
    *,
    inverse_temperature: float,
    time: float,
    radius: float,
    strong_convexity: float = 0.0,
) -> float:
    """A bound on the mean excess of a reflected diffusion's last point, convex L: (p/β)·x.

    x − 1 − ln x = r²/(4pT), and βmr²/(2p(e^(2βmT) − 1)) for m-strongly convex L; r = `radius` bounds the
    distance of the start from every point of the set. Source: docs; repairs the proof of Ganesh,
    Thakurta, Upadhyay, Theorem F.1.
    """
    p, beta, m = float(dimension), inverse_temperature, strong_convexity
    entropy = radius * radius * over_expm1(2.0 * beta * m, time) * 0.25 / p
    return p / beta * entropy_factor(entropy * _ENTROPY_ROUNDINGS) * MARGIN


def path_average(
    dimension: int,
    *,
    inverse_temperature: float,
    time: float,
    radius: float,
    strong_convexity: float = 0.0,
) -> float:
    """A bound on the mean excess of the average of a reflected diffusion's path, weights ∝ e^(mβt).

    ½mr²/(e^(mβT) − 1) + p/β, and r²/(2βT) + p/β for m = 0. Source: docs; Ganesh, Thakurta, Upadhyay,
    (42), with half of its first term and for m- in place of 2m-strongly convex L.
    """
    p, beta, m = float(dimension), inverse_temperature, strong_convexity
    start = 0.5 * radius * radius * over_expm1(m, beta * time)
    return (start + p / beta) * MARGIN


def over_expm1(rate: float, length: float) -> float:
    """rate/(e^(rate·length) − 1), and 1/length for rate 0."""
    y = rate * length
    if y < 1e-300:
        return 1.0 / length
    return 0.0 if y > 700.0 else rate / math.expm1(y)


def least_argument(
    function: Callable[[float], float], low: float, high: float, points: int = 65
) -> float:
    """Where `function` of a positive number is about least on [low, high]: a geometric grid, then sections.

    Its result need not be the least: every argument gives a valid plan.
    """
    a, b = math.log(low), math.log(high)
    grid = [a + (b - a) * i / (points - 1) for i in range(points)]
    values = [function(math.exp(t)) for t in grid]
    best = min(range(points), key=values.__getitem__)
    left, right = grid[max(0, best - 1)], grid[min(points - 1, best + 1)]
    c, d = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
    fc, fd = function(math.exp(c)), function(math.exp(d))
    for _ in range(36):
        if fc <= fd:
            right, d, fd = d, c, fc
            c = right - GOLDEN * (right - left)
            fc = function(math.exp(c))
        else:
            left, c, fc = c, d, fd
            d = left + GOLDEN * (right - left)
            fd = function(math.exp(d))
    return math.exp(min((values[best], grid[best]), (fc, c), (fd, d))[1])

"""Bounds on the excess of a Gibbs density and of a Langevin diffusion, in units of the temperature.

π is the density ∝ exp(−κf) on a convex set of dimension p; f = L − min L is the excess loss, between 0 and
x/κ. Proofs: docs, "Private optimisation".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pabi.account.analyses import mechanisms as exponential
from pabi.account.best import best_guarantee
from pabi.describe.langevin import LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.numbers import validate
from pabi.numbers.errors import TargetUnreachable, require
from pabi.numbers.rounding import bisected, golden, neighbours, up
from pabi.numbers.showing import exact, shown

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
    around = grid[max(0, best - 1)], grid[min(points - 1, best + 1)]
    *_, ((c, low_c), (d, low_d)) = golden(lambda t: -function(math.exp(t)), *around, 36)
    return math.exp(min((values[best], grid[best]), (-low_c, c), (-low_d, d))[1])


# Uniform stability of Langevin diffusions and Gibbs densities.


# Above the roundings of expm1 or erf and a product; of a series of which the first left out is below 1e-20
# of the sum; and of 1 − y/(e^y − 1), which loses up to five digits.
_ROUNDINGS, _SERIES, _CANCELLED = 1.0 + 1e-14, 1.0 + 1e-12, 1.0 + 1e-10

CLASSES = ("convex", "strongly_convex", "nonconvex")


def uniform_stability(
    losses: str,
    *,
    lipschitz: float,
    n: int | None = None,
    strong_convexity: float | None = None,
    integral: float = math.inf,
    diameter: float | None = None,
    mu: float | None = None,
    advantage: float | None = None,
) -> float:
    """An upper bound on how much one record's expected loss changes when one of n records is
    replaced.

    It bounds the expected difference between population and empirical risk (Bousquet, Elisseeff
    2002).

    Parameters
    ----------
    losses : str
        "convex": (2L²/n)·∫β. "strongly_convex": (2L²/(mn))(1 − e^(−m∫β)). "nonconvex": LD·(2Φ(μ/2)
        − 1), or LD·`advantage`.
    lipschitz : float, above 0
        L, of every record's loss on the set.
    n : int, at least 1
        Number of records; needed unless nonconvex.
    strong_convexity : float, above 0
        m of the mean loss, its regulariser included; needed where strongly convex.
    integral : float, above 0
        ∫β_t dt over the run of the diffusion dθ = −β∇L dt + √2 dW, reflected or not; ∞ (default) is
        its Gibbs density.
    diameter : float, above 0, optional
        D, of the set. Needed where nonconvex; elsewhere the result is at most LD.
    mu : float, at least 0
        Gaussian-DP parameter of the release when one record is replaced. Where nonconvex, either
        this or `advantage`.
    advantage : float, in [0, 1]
        Total variation of the releases of two data sets that differ in one record.

    Returns
    -------
    float
        In units of the loss.

    Raises
    ------
    InvalidInput
        Naming the field that is wrong or missing.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Corollaries E.2 and E.3, Lemma F.3 (which is false as printed);
    docs, "Private optimisation".
    """
    validate.choice("losses", losses, CLASSES)
    scale = validate.number("lipschitz", lipschitz, above=0.0)
    trivial = math.inf
    if diameter is not None:
        trivial = up(scale * validate.number("diameter", diameter, above=0.0))
    if losses == "nonconvex":
        return _from_total_variation(trivial, mu, advantage)
    count = validate.integer("n", n, at_least=1)
    if integral != math.inf:
        integral = validate.number("integral", integral, above=0.0)
    gap = 2.0 * scale / count
    if losses == "convex":
        return min(trivial, up(up(scale * gap * integral)))
    m = validate.number("strong_convexity", strong_convexity, above=0.0)
    return min(trivial, scale * gap / m * -math.expm1(-m * integral) * _ROUNDINGS)


def _from_total_variation(trivial: float, mu: float | None, advantage: float | None) -> float:
    require(
        trivial != math.inf,
        "diameter",
        "missing: stability of nonconvex losses needs a bounded set",
    )
    require((mu is None) != (advantage is None), "mu", "expected exactly one of mu and advantage")
    if advantage is not None:
        return up(trivial * validate.number("advantage", advantage, at_least=0.0, at_most=1.0))
    assert mu is not None
    variation = math.erf(validate.number("mu", mu, at_least=0.0) / math.sqrt(8.0))  # 2Φ(μ/2) − 1
    return up(trivial * variation * _ROUNDINGS)


def average_stability(*, lipschitz: float, n: int, m: float, integral: float) -> float:
    """The uniform stability (2L²/(mn))(1 − y/(e^y − 1)), y = m∫β, of a path's average with weights ∝ e^(m∫β).

    Two paths with the same noise are at most (2L/(mn))(1 − e^(−m∫_0^t β)) apart at time t; for m = 0 it is
    half of what the last point has, (L²/n)∫β.
    """
    y = m * integral
    scale = 2.0 * lipschitz * lipschitz / n
    if y < 1e-4:
        return scale * integral * (0.5 - y / 12.0 + y**3 / 720.0) * _SERIES
    rest = 0.0 if y > 700.0 else y / math.expm1(y)
    return scale / m * (1.0 - rest) * _CANCELLED


# How much an (ε, δ) allows: the largest bounded range and the largest Gaussian-DP parameter.


Run = ExponentialMechanism | IteratedExponentialMechanism | LangevinDiffusion


def largest_range(epsilon: float, delta: float) -> float:
    """ε₀ such that whatever has an ε₀-bounded range is about (ε, δ)-private; ε itself at δ = 0.

    The root of (1 − e^(−(ε₀−ε)/2))² = δ(1 − e^(−ε₀)).
    """
    shrunk = math.exp(-epsilon)
    inside = delta * (-math.expm1(-epsilon) + delta * shrunk)
    return epsilon + 2.0 * (math.log1p(math.sqrt(inside)) - math.log1p(-delta))


def largest_mu(epsilon: float, delta: float) -> float:
    """μ such that whatever is μ-Gaussian-DP is about (ε, δ)-private; 0 at δ = 0."""
    from pabi.numbers.gaussian import gdp_to_epsilon

    if delta == 0.0:
        return 0.0

    def exceeds(logarithm: float) -> bool:
        return gdp_to_epsilon(math.exp(logarithm), delta) > epsilon

    high = 0.0
    while not exceeds(high):
        high += 1.0
    low = high - 1.0
    while exceeds(low):
        low, high = low - 1.0, low
        if low < -300.0:
            return 0.0
    low, _ = bisected(exceeds, low, high, close=lambda low, high: high - low < 1e-14, rounds=60)
    return math.exp(low)


def spent(run: Run, delta: float) -> float:
    """The ε of the best guarantee of `run` at `delta`."""
    if delta == 0.0 and not isinstance(run, LangevinDiffusion):
        # Gaussian guarantees say nothing here, and composing them takes long.
        return exponential.bounded_range(run, 0.0).epsilon(0.0)
    return best_guarantee(run, delta).epsilon(delta)


def within(run: Run, epsilon: float, delta: float) -> Run:
    """`run`, made warmer by as little as its guarantee needs to be (ε, δ).

    It starts at the boundary to within roundings.
    """
    warmer = run
    for k in range(40):
        if spent(warmer, delta) <= epsilon:
            return warmer
        factor = 1e-14 * 4.0**k
        if factor >= 0.5:
            break
        warmer = _warmer(run, 1.0 - factor)
    best = spent(warmer, delta)
    raise TargetUnreachable(
        f"epsilon = {exact(epsilon)} at delta = {exact(delta)} cannot be met: "
        f"the best reachable is {shown(best)}",
        best,
    )


def _warmer(run: Run, factor: float) -> Run:
    if isinstance(run, IteratedExponentialMechanism):
        return replace(run, epsilons=tuple(e * factor for e in run.epsilons))
    if isinstance(run, LangevinDiffusion):
        return replace(run, inverse_temperature=run.inverse_temperature * factor)
    if run.epsilon is not None:
        return replace(run, epsilon=run.epsilon * factor)
    return replace(run, inverse_temperature=run.kappa * factor)

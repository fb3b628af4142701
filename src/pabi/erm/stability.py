"""Uniform stability of Langevin diffusions and Gibbs densities."""

from __future__ import annotations

import math

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import up

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
    if trivial == math.inf:
        raise InvalidInput("diameter", "missing: stability of nonconvex losses needs a bounded set")
    if (mu is None) == (advantage is None):
        raise InvalidInput("mu", "expected exactly one of mu and advantage")
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

"""What the library says of a run, beside what is true."""

import numpy as np
from scipy.special import ndtr

from pabi.account.best import best_of, outcomes

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
# Differences of probabilities rounded to 1e-16, one for each of at most some hundred ends of events.
ROUNDING = 1e-13 * np.exp(EPSILONS)


def guarantees(run, delta: float) -> dict:
    """{name: guarantee} of every analysis that applies, and the guarantee made of them."""
    found = outcomes(run, delta)
    claims = {one.name: one.guarantee for one in found if one.guarantee is not None}
    assert claims
    return claims | {"the guarantee": best_of(found, delta)}


def deltas(claim) -> np.ndarray:
    return np.array([claim.delta(e) for e in EPSILONS.tolist()])


def refuted(truth, claim) -> bool:
    return bool(np.any(truth - ROUNDING > deltas(claim)))


def exceeding(truth, error: float, claims: dict, epsilons=EPSILONS) -> list:
    """[(name, ε, true δ, claimed δ)] of the claims that a truth known up to an error exceeds."""
    return [
        (name, float(epsilon), float(true), said)
        for name, claim in claims.items()
        for epsilon, true in zip(epsilons, truth, strict=True)
        if true > error and not true - error <= (said := float(claim.delta(float(epsilon))))
    ]


# Closed forms, apart from the library's.


def gaussian_delta(mu, epsilon):
    """δ(ε) of G(μ), μ > 0; arrays broadcast."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def sampled_delta(mu, p, epsilon):
    """δ(ε) of C_p(G(μ)), ε ≥ 0: also of p·N(μ, 1) + (1 − p)·N(0, 1) against N(0, 1)."""
    return p * gaussian_delta(mu, np.log1p(np.expm1(epsilon) / p))


def sampled_delta_back(mu, p, epsilon):
    """The same of N(0, 1) against the mixture: (q − e^ε·(p·m + (1 − p)·q))₊, whole where m is negligible."""
    rest = 1.0 - np.exp(epsilon) * (1.0 - p)
    some = np.where(rest > 0.0, rest, 1.0)
    return np.where(rest > 0.0, rest * gaussian_delta(mu, np.log(p * np.exp(epsilon) / some)), 0.0)

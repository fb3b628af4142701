"""Private linear models that solve one problem and add noise once, written after their papers.

Output and objective perturbation of regularised logistic regression (Chaudhuri, Monteleoni, Sarwate 2011,
"Differentially private empirical risk minimization", Algorithms 1 and 2) are pure ε-DP; neighbours differ in
the value of one record. Several classes are learnt one against the rest, each with ε/K.

AdaSSP (Wang 2018, "Revisiting differentially private linear regression", Algorithm 2) releases the smallest
eigenvalue of XᵀX, XᵀX itself and Xᵀy by the Gaussian mechanism; neighbours differ by one record more or less.
The three releases are accounted as what they are, one Gaussian mechanism of √3 times the sensitivity, with
its exact ε(δ) (Balle, Wang 2018), which takes less noise than the paper's sum of three. That is in the peer's
favour.

Rows get a constant column c, so that their norm is at most √(1 + c²).

    python benchmarks/proving_ground/perturbed.py     checks all of it against others' figures, silently
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_ndtr
from scipy.special import softmax as normalised

CURVATURE = 0.25  # of the logistic loss
FAILURE = 0.05  # of the ridge of AdaSSP, as in its experiments
ITERATIONS = 300


def with_constant(X: np.ndarray, constant: float) -> np.ndarray:
    return np.hstack([X, np.full((len(X), 1), constant)])


@dataclass(frozen=True)
class Perturbed:
    """Logistic regression by perturbation, on rows (x, 1)/√2 and signs, one column a model."""

    rows: np.ndarray
    signs: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, classes: int) -> Perturbed:
        rows = (with_constant(X, 1.0) / math.sqrt(2.0)).astype(np.float32)
        labels = (1,) if classes == 2 else range(classes)
        return cls(rows, np.stack([np.where(y == k, 1.0, -1.0) for k in labels], 1).astype("f4"))

    def share(self, epsilon: float) -> float:
        """Of one model in ε."""
        return epsilon / self.signs.shape[1]

    def by_output(self, minimum: np.ndarray, epsilon: float, l2: float, seed: int) -> np.ndarray:
        """The minimum plus noise; neighbours' minima differ by at most 2/(nΛ)."""
        rate = len(self.rows) * l2 * self.share(epsilon) / 2.0
        return minimum + self.noise(rate, seed)

    def by_objective(self, epsilon: float, l2: float, seed: int) -> np.ndarray:
        """The minimum of the objective plus a random linear term."""
        n, share = len(self.rows), self.share(epsilon)
        rest = share - 2.0 * math.log1p(CURVATURE / (n * l2))
        more = 0.0
        if rest <= 0.0:
            more = CURVATURE / (n * math.expm1(share / 4.0)) - l2
            rest = share / 2.0
        return self.minimum(l2 + more, self.noise(rest / 2.0, seed) / n)

    def noise(self, rate: float, seed: int) -> np.ndarray:
        """Columns with a density proportional to e^(−rate·‖b‖)."""
        rng = np.random.default_rng(seed)
        size = self.rows.shape[1], self.signs.shape[1]
        directions = rng.normal(size=size)
        return (
            directions
            / np.linalg.norm(directions, axis=0)
            * rng.gamma(size[0], 1.0 / rate, size[1])
        )

    def minimum(self, l2: float, linear: np.ndarray | float = 0.0) -> np.ndarray:
        """Of the mean loss + l2/2·‖f‖² + ⟨linear, f⟩, all columns at once."""
        n, size = len(self.rows), (self.rows.shape[1], self.signs.shape[1])

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            f = flat.reshape(size)
            margins = self.signs * (self.rows @ f.astype(np.float32))
            slopes = self.rows.T @ (-self.signs * expit(-margins) / n)
            value = np.logaddexp(0.0, -margins).sum(dtype=np.float64) / n
            value += np.sum(f * (0.5 * l2 * f + linear))
            return float(value), (slopes + l2 * f + linear).ravel()

        start, options = np.zeros(size[0] * size[1]), {"maxiter": ITERATIONS}
        solution = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(solution.x).reshape(size)


def probabilities(f: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Of the classes, by `Perturbed`; those of several models are divided by their sum."""
    logits = with_constant(X, 1.0) @ f / math.sqrt(2.0)
    if f.shape[1] == 1:
        return np.hstack([expit(-logits), expit(logits)])
    return normalised(-np.logaddexp(0.0, -logits), axis=1)


@dataclass(frozen=True)
class Moments:
    """XᵀX and Xᵀy of rows with a constant, and targets in [−1, 1]; `norm`: the bound of a row."""

    products: np.ndarray
    answers: np.ndarray
    norm: float
    constant: float

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, constant: float) -> Moments:
        rows = with_constant(X, constant)
        return cls(rows.T @ rows, rows.T @ y, math.hypot(1.0, constant), constant)

    def adassp(self, noise: float, ridge: float, delta: float, seed: int) -> np.ndarray:
        """The coefficients; `noise` is the multiplier of each release, `ridge` a factor of the paper's."""
        rng = np.random.default_rng(seed)
        d, square = len(self.answers), self.norm**2
        scale = noise * square
        # The paper takes off log(6/δ)/(ε/3), which is about √(log 6/δ) standard deviations.
        least = np.linalg.eigvalsh(self.products)[0] + scale * rng.normal()
        least = max(0.0, least - scale * math.sqrt(math.log(6.0 / delta)))
        reach = scale * math.sqrt(d * math.log(2.0 * d**2 / FAILURE))
        upper = np.triu(rng.normal(size=(d, d)))
        symmetric = upper + np.triu(upper, 1).T
        products = self.products + scale * symmetric
        products += max(0.0, ridge * reach - least) * np.eye(d)
        answers = self.answers + noise * self.norm * rng.normal(size=d)
        return np.linalg.lstsq(products, answers)[0]

    def predict(self, f: np.ndarray, X: np.ndarray) -> np.ndarray:
        return with_constant(X, self.constant) @ f


def noise_of_three(epsilon: float, delta: float) -> float:
    """The multiplier σ at which three Gaussian mechanisms together are (ε, δ)-DP."""

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        # δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), by logarithms
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return float(first + math.log(-math.expm1(second - first)) - math.log(delta))

    return math.sqrt(3.0) / math.exp(brentq(excess, math.log(1e-3), math.log(1e2), xtol=1e-12))


def check() -> None:
    """Minima against scikit-learn's, noise against pabi's conversion, AdaSSP without noise against lstsq."""
    from sklearn.linear_model import LogisticRegression

    from pabi.convert import gdp_to_epsilon

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 5)) / 5.0
    y = (rng.logistic(size=2_000) < X @ np.arange(5.0)).astype(int)
    model = Perturbed.of(X, y, 2)
    peer = LogisticRegression(C=1.0 / (2_000 * 1e-3), fit_intercept=False, tol=1e-10)
    peer.fit(with_constant(X, 1.0) / math.sqrt(2.0), y)
    np.testing.assert_allclose(model.minimum(1e-3)[:, 0], peer.coef_[0], atol=1e-3)
    mean = np.mean([np.linalg.norm(model.noise(2.0, seed)) for seed in range(4_000)])
    np.testing.assert_allclose(mean, 6 / 2.0, rtol=0.03)  # Gamma(6, 1/2): 4 standard errors
    for epsilon in (0.1, 1.0, 4.0):
        mu = math.sqrt(3.0) / noise_of_three(epsilon, 1e-5)
        np.testing.assert_allclose(gdp_to_epsilon(mu, 1e-5), epsilon, rtol=1e-6)
    targets = np.clip(X @ np.arange(5.0), -1.0, 1.0)
    rows = with_constant(X, 0.5)
    plain = np.linalg.lstsq(rows, targets)[0]
    exact = Moments.of(X, targets, 0.5).adassp(0.0, 1.0, 1e-5, 0)
    np.testing.assert_allclose(exact, plain, atol=1e-8)


if __name__ == "__main__":
    check()

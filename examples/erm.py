"""Plan and solve: private logistic regression with a proven excess risk, in a dozen lines.

Five columns of the breast-cancer data of scikit-learn, rows scaled to norm at most 1, parameters in the
ball of radius 2. The pure plan is one exact draw, the (ε, δ) plan the average of a chain's path, and both
say before they touch the data how far from the best fit they are at most, in expectation.

    python examples/erm.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

import pabi
from pabi.showing import exact, plain, shown

EPSILON, DELTA = 1.0, 1e-6


def main() -> None:
    data = load_breast_cancer()
    x = data.data[:, :5]
    # Scaled by public ranges; the data's own would be a release of their own.
    x = (x - [14.0, 19.0, 92.0, 650.0, 0.1]) / [4.0, 4.0, 24.0, 350.0, 0.015]
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = 2.0 * data.target - 1.0

    def loss(points: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -(points @ x.T) * y).mean(axis=1)

    def gradient(points: np.ndarray) -> np.ndarray:
        return (-y / (1.0 + np.exp((points @ x.T) * y))) @ x / len(y)

    problem = {
        "n": len(y),
        "dimension": 5,
        "lipschitz": 1.0,
        "diameter": 4.0,
        "radius": 2.0,
        "smoothness": 0.25,
        "epsilon": EPSILON,
    }
    pure = pabi.erm.plan("erm", "convex", **problem)
    print(pure, end="\n\n")
    print(f"at most {shown(pure.excess_quantile(0.95), decimals=4)} with probability 0.95")
    solution = pabi.erm.solve(pure, loss_value=loss)
    report(solution, loss)

    relaxed = pabi.erm.plan("erm", "convex", delta=DELTA, **problem)
    print(relaxed, end="\n\n")
    report(pabi.erm.solve(relaxed, gradient=gradient), loss)


def report(solution: pabi.erm.Solution, loss: object) -> None:
    """What was earned, and the mean loss, which an analyst could not see without spending more."""
    epsilon = solution.guarantee.epsilon(solution.plan.delta)
    delta, point = exact(solution.plan.delta), ", ".join(plain(x, 2) for x in solution.x)
    print(f"earned ε = {shown(epsilon)} at δ = {delta} ({solution.guarantee.method})")
    print(f"expected excess at most {shown(solution.risk_bound, 4)}; x = ({point})")
    print(f"mean loss {plain(loss(solution.x[None])[0], 4)}", end="\n\n\n")  # type: ignore[operator]


if __name__ == "__main__":
    main()

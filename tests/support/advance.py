"""Payments in advance, planned and priced apart from the library: for whoever compares it with the truth.

X and the third process differ by a point of −n·ĝ + Ball(z). A step with slopes in [low, high], c̄ = (high +
low)/2 and r = (high − low)/2, and pulls in q·ĝ + Ball(ρ) takes (n, z), after payments ν along ĝ and ζ of the
radius, and with τ moved from the centre to the radius, to

    n' = c̄·n − q + ν + τ,    z' = max(|low|, |high|)·z + r·|n| + ρ + |τ| − ζ.

At the end both are 0, and μ² = Σ((|ν| + ζ)/σ)².
"""

import math
from dataclasses import dataclass

import numpy as np
import quadprog

RIDGE = 1e-7  # quadprog wants a definite form


@dataclass(frozen=True)
class Course:
    """(t,) arrays. `held`: steps that end in a map that is not the identity, after which n is 0; `start`: the
    distance at the start."""

    low: np.ndarray
    high: np.ndarray
    sigma: np.ndarray
    q: np.ndarray
    rho: np.ndarray
    held: np.ndarray
    start: float = 0.0

    def __len__(self) -> int:
        return len(self.sigma)

    @property
    def middle(self) -> np.ndarray:
        return (self.high + self.low) / 2.0

    @property
    def half(self) -> np.ndarray:
        return (self.high - self.low) / 2.0

    @property
    def most(self) -> np.ndarray:
        return np.maximum(np.abs(self.high), np.abs(self.low))


def one_sided(low, high, sigma, s, *, held=None, start: float = 0.0) -> Course:
    """The course of a record whose pulls lie between 0 and s·ĝ."""
    low, high, sigma, s = (np.asarray(a, dtype=float) for a in (low, high, sigma, s))
    held = np.zeros(len(s), dtype=bool) if held is None else held
    return Course(low, high, sigma, s / 2.0, s / 2.0, held, start)


def price(course: Course, nu, tau, zeta) -> float:
    """μ of payments: no more is paid of the radius than is owed, and all that is left in the last step."""
    n, z, total, last = 0.0, course.start, 0.0, len(course) - 1
    for k in range(len(course)):
        centre = course.middle[k] * n - course.q[k] + nu[k]
        moved = -centre if course.held[k] or k == last else tau[k]
        owed = course.most[k] * z + course.half[k] * abs(n) + course.rho[k] + abs(moved)
        paid = owed if k == last else min(max(zeta[k], 0.0), owed)
        n, z = centre + moved, owed - paid
        total += ((abs(nu[k]) + paid) / course.sigma[k]) ** 2
    return math.sqrt(total)


def plan(course: Course) -> np.ndarray:
    """(3, t): ν, τ and ζ, nearly the best; 0 where the solver fails, which is valid."""
    t, size = len(course), 6 * len(course)
    # Columns: ν⁺, τ⁺, ζ, |n|, ν⁻, τ⁻, t of each.
    up, right, less, far, down, left = np.eye(size).reshape(6, t, size)
    n, z, nrow, zrow, before = 0.0, course.start, *np.zeros((3, size))
    equal, least = [], [(x, 0.0) for x in np.eye(size)]
    for k in range(t):
        nrow = course.middle[k] * nrow + up[k] - down[k] + right[k] - left[k]
        n = course.middle[k] * n - course.q[k]
        zrow = course.most[k] * zrow + course.half[k] * before + right[k] + left[k] - less[k]
        z = course.most[k] * z + course.rho[k]
        before = far[k]
        if course.held[k] or k == t - 1:
            equal.append((nrow, -n))
        else:
            least += [(before - nrow, n), (before + nrow, -n)]
        (equal if k == t - 1 else least).append((zrow, -z))
    rows, bounds = zip(*equal, *least, strict=True)
    paid = (up + down + less) / course.sigma[:, None]
    cost = paid.T @ paid + RIDGE * np.eye(size)
    try:
        x = quadprog.solve_qp(cost, np.zeros(size), np.array(rows).T, np.array(bounds), len(equal))[
            0
        ]
    except ValueError:
        return np.zeros((3, t))
    return np.array([up @ x - down @ x, right @ x - left @ x, less @ x])


def best(course: Course) -> float:
    """μ of that plan."""
    return price(course, *plan(course))


def forward(course: Course) -> float:
    """μ of that plan with ν, τ ≥ 0, which holds of centres that turn from step to step as well."""
    nu, tau, zeta = plan(course)
    return price(course, np.maximum(nu, 0.0), np.maximum(tau, 0.0), zeta)

"""Programs that round, so coarsely and with errors so large that it shows, against what is proven of them.

A real step is y ← φ(y) + σN. The program's is rounded to a grid and begins up to ρ away from φ, on both
data sets in the direction that tells them apart. With r² = Σ(ρ/σ)², and f or δ_real for the real runs,

    T(program)(α) ≥ Φ(Φ⁻¹(f(Φ(Φ⁻¹(α) + r))) − r),  which is G(μ + 2r) for f = G(μ), and
    δ(ε) ≤ e^s·δ_real(ε − 2s) + (1 + e^(ε−s))·η,  η that of G(r) at s, for all s ≥ 0.

All laws are exact: probabilities of the cells of the grid, but for what is far away and only hides.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import ndtr, ndtri

EPSILONS = np.linspace(-1.0, 6.0, 15)
SEEN = 1e-7  # probabilities that differences of normal ones tell to nine digits
MISTAKES = {
    "r is halved": lambda shares: np.linalg.norm(shares) / 2.0,
    "r is left out": lambda shares: 0.0,
    "the largest error counts": np.max,
}


@dataclass(frozen=True)
class Rounded:
    """Laws of what the program releases on two data sets, ρ/σ of its steps, and what the real runs have."""

    laws: tuple[np.ndarray, np.ndarray]
    shares: np.ndarray
    mu: float | None = None
    real: tuple[np.ndarray, np.ndarray] | None = None  # on the same grid, where there is no μ

    def excess(self, r: float) -> float:
        """The largest ratio of a truth to its bound, with r for the errors of all steps."""
        found = 0.0
        for order in (1, -1):
            p, q = self.laws[::order]
            truth = sticks(p, q, EPSILONS)
            if self.mu is not None:
                bounds = [gaussian(self.mu + 2.0 * r, EPSILONS)]
                bounds.append(widened(lambda e: gaussian(self.mu, e), r))
            else:
                one, two = self.real[::order]
                bounds = [widened(lambda e, one=one, two=two: sticks(one, two, e), r)]
                found = max(found, missed(tradeoff(one, two), tradeoff(p, q), r))
            for bound in bounds:
                found = max(found, np.max(truth / np.maximum(bound, SEEN)))
        return found


def gaussian(mu, epsilon):
    """δ of G(μ)."""
    if mu == 0.0:
        return np.maximum(1.0 - np.exp(epsilon), 0.0)
    return ndtr(mu / 2.0 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2.0 - epsilon / mu)


def sticks(p, q, epsilon):
    """δ of these laws; of a part of their outcomes it is no more."""
    return np.maximum(p - np.exp(epsilon)[..., None] * q, 0.0).sum(-1)


def widened(real, r):
    """The δ-form, at the best of some s."""
    s = r * np.linspace(0.05, 8.0, 60)[:, None]
    eta = gaussian(r, s) if r else 0.0
    return np.min(np.exp(s) * real(EPSILONS - 2.0 * s) + (1.0 + np.exp(EPSILONS - s)) * eta, axis=0)


def tradeoff(p, q):
    """Its corners: errors (α, β) of likelihood-ratio tests."""
    order = np.argsort(p / np.maximum(q, 1e-300), kind="stable")
    return np.append(0.0, np.cumsum(p[order])), np.append(np.cumsum(q[order][::-1])[::-1], 0.0)


def missed(real, program, r):
    """The largest ratio of the widened β to the true one: both are convex, so that corners are enough."""
    alpha, beta = (x[(program[0] > SEEN) & (program[1] > SEEN)] for x in program)
    f = np.interp(ndtr(ndtri(alpha) + r), *real)
    return np.max(ndtr(ndtri(np.clip(f, 0.0, 1.0)) - r) / beta, initial=0.0)


def cells(at, std, x, grid):
    """Rows: the law of N(at, std²), rounded to the grid."""
    far = np.abs(x - at[:, None])
    std = np.broadcast_to(std, at.shape)[:, None]
    return ndtr((grid / 2.0 - far) / std) - ndtr((-grid / 2.0 - far) / std)


def line(half, grid):
    return np.arange(-np.ceil(half / grid), np.ceil(half / grid) + 1.0) * grid


def last_iterates(rng) -> Rounded:
    """Affine steps, of which the last iterate is seen: the slope times half of a cell is part of ρ."""
    t = int(rng.integers(1, 4))
    std = rng.uniform(0.5, 1.5, t)
    grid = float(rng.choice([0.1, 0.25, 0.5]) * std.min())
    slope = np.append(0.0, rng.choice([-1.0, 0.0, 0.5, 1.0], t - 1))
    left = np.array([np.prod(slope[k + 1 :]) for k in range(t)])  # of a move in step k, at the end
    pull = rng.uniform(0.0, 2.0, t) * np.where(left < 0.0, -1.0, 1.0)
    off = rng.uniform(0.0, 0.6, t) * std
    x, laws, rho = line(8.0 * std.sum() + 8.0, grid), [], np.zeros(t)
    for sign in (-1.0, 1.0):
        law, at = np.ones(1), np.zeros(1)
        for k in range(t):
            exact = slope[k] * at + pull[k] * (sign > 0.0)
            out = sign * np.copysign(1.0, pull[k])
            begun = out * np.ceil(np.round(out * exact + off[k], 9) / grid) * grid
            inside = abs(slope[k]) * grid / 2.0
            rho[k] = max(rho[k], np.max(np.abs(begun - exact)) + inside)
            law, at = law @ cells(begun, std[k], x, grid), x
        laws.append(law)
    mu = abs(left @ pull) / np.linalg.norm(left * std)
    return Rounded(tuple(laws), rho / std, mu)


def adaptive_releases(rng) -> Rounded:
    """Three releases, all seen. Where the second and third begin, how they pull, their noise and what part
    of the rest each takes depend on what came before; the sum of squares is the same for all outputs.
    """
    grid, share = float(rng.choice([0.5, 1.0])), rng.uniform(0.3, 0.9)
    x = line(8.0, grid)
    std, pull = rng.uniform(0.7, 1.5), rng.integers(1, 4) * grid
    total = rng.uniform(0.5, 1.5)  # of the second and the third, in units of noise
    part = rng.choice([0.0, 0.3, 0.7, 1.0], x.size)
    laws = [cells(np.array([at]), std, x, grid)[0] for at in (0.0, pull)]
    for weight in (part, 1.0 - part):
        start, step = rng.integers(-3, 4, x.size) * grid, rng.integers(1, 4, x.size) * grid
        noise = np.where(weight > 0.0, step / (total * np.sqrt(np.maximum(weight, 1e-9))), 1.0)
        step = np.where(weight > 0.0, step, 0.0)
        for i, at in enumerate((start, start + step)):
            kernel = cells(at, noise, x, grid)
            kernel = kernel.reshape(x.size, *[1] * (laws[i].ndim - 1), x.size)
            laws[i] = laws[i][..., None] * kernel
    told = np.array([pull / std, total])  # of it `share` is the record's, the rest are two errors
    one, two = laws
    return Rounded(
        (one.ravel(), two.ravel()), told * (1.0 - share) / 2.0, share * np.linalg.norm(told)
    )


def secret_batches(rng) -> Rounded:
    """Steps that jump, or that project first, under Poisson batches or one secret place; after the first few
    the record is forgotten. A step depends on the cell alone, so that the real laws are exact as well.
    """
    t = int(rng.integers(1, 4))
    grid = float(rng.choice([0.25, 0.5]))
    x, std = line(20.0, grid), rng.uniform(0.6, 1.4, t)
    rho, pull = rng.uniform(0.02, 0.5, t) * std, rng.uniform(0.2, 3.0, t)
    pull[rng.integers(1, t + 1) :] = 0.0
    maps = [
        x,
        0.5 * x + rng.uniform(0, 2) * np.sign(x),
        np.clip(x, -1, 0.7),
        rng.uniform(-2, 2, x.size),
    ]
    base = [np.clip(maps[rng.integers(4)], -5.0, 5.0) if k else np.zeros(1) for k in range(t)]
    p = rng.uniform(0.05, 0.9)
    uses = np.array(list(np.ndindex(*[2] * t)))
    weights = np.prod(np.where(uses, p, 1.0 - p), axis=1)
    if rng.random() < 0.5:
        uses, weights = np.eye(t), np.full(t, 1.0 / t)
    most, laws = np.zeros(t), {}
    for program in (False, True):
        for sign in (-1.0, 1.0):
            law = 0.0
            for used, weight in zip(uses, weights, strict=True):
                one = np.full(1, weight)
                for k in range(t):
                    at = base[k] + used[k] * pull[k] * (sign > 0.0)
                    if program:
                        begun = sign * np.floor((sign * at + rho[k]) / grid) * grid
                        near = np.round(at / grid) * grid  # where no cell is within ρ that way
                        begun = np.where(np.abs(begun - at) <= rho[k], begun, near)
                        most[k] = max(most[k], np.max(np.abs(begun - at)))
                        at = begun
                    one = one @ cells(at, std[k], x, grid)
                law = law + one
            laws[program, sign] = law
    both = [(laws[program, -1.0], laws[program, 1.0]) for program in (True, False)]
    return Rounded(both[0], most / std, real=both[1])


def best_shift(moduli, widths, pull, std) -> float:
    """The least μ of Theorem 1 that a grid of distances z ← ω(min(z, width)) + s − a finds, z = 0 at last."""
    share = np.linspace(0.0, 1.0, 301 if len(std) == 2 else 81)
    z, square = np.zeros(1), np.zeros(1)
    for k, (omega, width) in enumerate(zip(moduli, widths, strict=True)):
        near = np.minimum(z, width)
        owed = np.where(near > 0.0, omega(near), 0.0) + pull[k]
        left = np.multiply.outer(owed, share if k < len(std) - 1 else share[:1])
        square = (square[:, None] + ((owed[:, None] - left) / std[k]) ** 2).ravel()
        z = left.ravel()
    return float(np.sqrt(square.min()))


def jumping_steps(rng, absorbed=1.0) -> Rounded:
    """Steps on gradients that jump, of bounded norm or of a convex loss, at points up to e away from where
    they should be taken, each side pushed away from the jump. `absorbed`: the part of t that is charged.
    """
    near = rng.random() < 0.6  # to what needs all of t: two steps, the first with next to no noise
    t = 2 if near else int(rng.integers(2, 4))
    std = rng.uniform(0.5, 1.5, t)
    pull = rng.choice([0.02, 0.1, 0.5], t) * np.append(1.0, rng.choice([0.0, 0.0, 0.5], t - 1))
    off = rng.choice([0.0, 0.0, 0.2], t) * std
    if near:
        pull, off = np.array([0.02, 0.0]), off * rng.choice([0.0, 1.0])
    std[0] = pull[0] * (0.2 if near else rng.choice([0.2, 0.5, 2.0]))
    off[0] = min(off[0], std[0])
    start = -pull[0] / 2.0
    laws, rho = [np.ones(1), np.ones(1)], off.copy()
    moduli, widths, edges = [lambda z: z], [np.inf], np.zeros(2)  # all begin at one point
    for k in range(t):
        begun = [np.full(1, start), np.full(1, start + pull[0])]
        if k:
            grid, (low, high) = edges[1] - edges[0], (edges[:-1], edges[1:])
            box = grid * (0.5 if near else rng.choice([0.5, 1.5, 4.0]))
            push = rng.choice([0.0, 0.1]) * grid
            right = (low + high) / 2.0 > 0.0
            at = np.clip((low + high) / 2.0, -box, box) + np.where(right, push, -push)
            e = max(np.max(np.abs(at - np.clip(x, -box, box))) for x in (low, high))
            jump, left = grid * rng.uniform(0.5, 6.0), 1.0 if near else rng.choice([0.7, 1.0])
            if near or rng.random() < 0.5:  # gradients of norm up to jump/2, whatever they are
                gradient = np.where(right, -1.0, 1.0)
                if not near and rng.random() < 0.5:
                    gradient = rng.uniform(-1.0, 1.0, at.size)
                omega = lambda z, q=left, j=jump: q * (z + j)  # noqa: E731
            else:  # subgradients of a convex loss
                gradient = np.where(right, 1.0, -1.0)
                if rng.random() < 0.5:
                    gradient = np.sort(rng.uniform(-1.0, 1.0, at.size))
                omega = lambda z, q=left, j=jump: q * np.hypot(z, j)  # noqa: E731
            exact = left * (at - jump / 2.0 * gradient)
            moved = pull[k] * (1.0 if rng.random() < 0.5 else rng.uniform(-1.0, 1.0, at.size))
            begun = [exact, exact + moved]
            reached = max(np.max(np.abs(b)) for b in begun)
            rho[k] += absorbed * 2.0 * e / (left * jump) * reached
            moduli.append(omega)
            widths.append(2.0 * box)
        cell = rng.choice([0.4, 1.0] if near else [0.1, 0.4, 1.0]) if k < t - 1 else std[k] / 4.0
        half = max(np.max(np.abs(b)) for b in begun) + 8.0 * std[k] + off[k]
        x = line(half, cell) + cell / 2.0 * (k < t - 1 and rng.random() < 0.8)
        side = np.sign(laws[1] @ begun[1] - laws[0] @ begun[0]) or 1.0
        for i, sign in enumerate((-side, side)):
            laws[i] = laws[i] @ cells(begun[i] + sign * off[k], std[k], x, cell)
        edges = np.append(x - cell / 2.0, x[-1] + cell / 2.0)
    return Rounded(tuple(laws), rho / std, best_shift(moduli, widths, pull, std))


@pytest.mark.parametrize("count", [12, pytest.param(1000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("instance", "mistakes"), [(last_iterates, 3), (adaptive_releases, 3), (secret_batches, 2)]
)
def test_programs_are_as_private_as_proven_and_mistakes_are_found(instance, mistakes, count):
    """(A secret place hides too much for the last mistake to be seen.)"""
    rng, wrong = np.random.default_rng(count), dict.fromkeys(list(MISTAKES)[:mistakes], 0.0)
    for _ in range(count):
        found = instance(rng)
        assert found.excess(float(np.linalg.norm(found.shares))) <= 1.0 + 1e-8, found
        for name in wrong:
            wrong[name] = max(wrong[name], found.excess(float(MISTAKES[name](found.shares))))
    assert min(wrong.values()) > 1.01, wrong


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.nightly)])
def test_jumps_take_all_of_t(count):
    """Charged for half of t, or for none, programs are caught."""
    rng, wrong = np.random.default_rng(count), {0.5: 0.0, 0.0: 0.0}
    for seed in rng.integers(1 << 30, size=count):
        for part in (1.0, *wrong):
            found = jumping_steps(np.random.default_rng(seed), part)
            excess = found.excess(float(np.linalg.norm(found.shares)))
            if part == 1.0:
                assert excess <= 1.0 + 1e-8, (seed, excess)
            else:
                wrong[part] = max(wrong[part], excess)
    assert min(wrong.values()) > 1.01, wrong


def test_a_constant_move_has_all_that_is_claimed():
    """On a fine grid, where nothing is lost."""
    x = line(12.0, 1 / 64)
    laws = [cells(np.array([at]), 1.0, x, 1 / 64)[0] for at in (-0.25, 1.25)]
    found = Rounded(tuple(laws), np.array([0.25]), mu=1.0)
    assert 0.999 < found.excess(0.25) <= 1.0 + 1e-8


def test_of_the_best_of_many_runs_each_is_widened():
    """The largest of 100 is moved by ρ as each of them is, but spreads less: widened once it is refuted."""
    x, many, s, rho = np.linspace(-2.0, 6.0, 400), 100, 1.0, 0.2
    alpha, beta = 1.0 - ndtr(x + rho) ** many, ndtr(x - s - rho) ** many
    for r, holds in [(rho, False), (rho * np.sqrt(many), True)]:
        moved = ndtri(np.maximum(alpha, 1e-300)) + r
        level = ndtri(ndtr(-moved) ** (1.0 / many))  # at which the real test has that α
        claim = ndtr(ndtri(ndtr(level - s) ** many) - r)
        assert np.all(claim <= beta + 1e-12) == holds


@pytest.mark.parametrize("r", ["1e-12", "1e-6", "0.01", "0.5", "1"])
def test_of_fourteen_times_r_next_to_nothing_is_left(r):
    """η ≤ r·φ(14 − r/2) ≤ r·2e-40 at s = 14r, in balls; at 7r it is 1e9 times as much."""
    with ctx.workprec(400):
        r, root = arb(r), arb(2).sqrt()

        def eta(s):
            above, below = (((s / r + side * r / 2) / root).erfc() / 2 for side in (-1, 1))
            return above - s.exp() * below

        claim = r * (-((14 - r / 2) ** 2) / 2).exp() / (2 * arb.pi()).sqrt()
        assert 0 < eta(14 * r) <= claim <= r * arb("2e-40")
        assert eta(7 * r) > arb("1e9") * claim

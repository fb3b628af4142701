"""Noisy iterations of which the last law is exactly known, many at a time.

Where the maps are affine on all the ground that the two runs cover, the last laws are Gaussians of one
variance, and μ is the distance of their means over its root. Three ways to get there:

`affine`    x ↦ a_k·x (+ s_k), a_k of either sign and |a_k| ≤ c_k, from starts that may differ;
`jumping`   x ↦ a_k·x ± j_k/2 on either side of 0, the runs on different sides up to 8 standard
            deviations: moduli a_k·δ + j_k, a root above it, or the minimum of either with a steeper line;
`walled`    the runs pushed to opposite walls without noise, then contracted so far that the walls are 8
            standard deviations off: the diameter is used up.

Each returns a `Table`: a row an instance, a column a step. `FAR` standard deviations on each side of 0 or
of a wall leave the laws within t·2Φ(−FAR) ≤ 2e-14 in total variation of the Gaussians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pabi import Modulus
from pabi.account.shifts import isotonic
from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Steps
from support.falsification.solver import solved_mu

FAR = 8.0
KINDS = ("linear", "affine", "sqrt", "linear or affine", "linear or sqrt")


@dataclass(frozen=True)
class Table:
    """Instances: moduli by `kind` (an index into KINDS, one a row) and parameters, and the true μ.

    (rows, t): `slope`, `jump`, `steep` of the pieces slope·δ + jump and steep·δ, or of √(κδ² + h) with κ =
    `slope`² and h = `jump`²; `a`, `j` of the maps themselves, x ↦ a·x ± j/2; `s`, `sigma`. (rows,): `start`,
    `diameter`, `truth`, and `far`, how far in total variation the last laws may be from Gaussians of that μ.
    """

    kind: np.ndarray
    slope: np.ndarray
    jump: np.ndarray
    steep: np.ndarray
    a: np.ndarray
    j: np.ndarray
    s: np.ndarray
    sigma: np.ndarray
    start: np.ndarray
    diameter: np.ndarray
    truth: np.ndarray
    far: np.ndarray

    def __len__(self) -> int:
        return len(self.truth)

    def kept(self, rows) -> Table:
        return Table(**{name: value[rows] for name, value in vars(self).items()})

    def moduli(self, i: int) -> list[Modulus]:
        """Of row i, one a step."""
        kind = KINDS[self.kind[i]]
        found = []
        for a, j, c in zip(self.slope[i], self.jump[i], self.steep[i], strict=True):
            if kind == "linear":
                found.append(Modulus.linear(a))
                continue
            one = Modulus.sqrt(a * a, j * j) if "sqrt" in kind else Modulus.affine(a, j)
            found.append(Modulus.minimum(one, Modulus.linear(c)) if "or" in kind else one)
        return found

    def bound(self, i: int) -> float:
        """μ as the solvers say: of linear moduli and of others."""
        s, sigma = self.s[i], self.sigma[i]
        start, diameter = float(self.start[i]), float(self.diameter[i])
        if KINDS[self.kind[i]] != "linear":
            return solved_mu(self.moduli(i), s, sigma, diameter, start)
        if math.isinf(diameter):
            return math.sqrt(isotonic.solve(self.slope[i], s, sigma * sigma, start).energy)
        found = best_start(Steps(self.slope[i], s, sigma), diameter, start)
        return math.sqrt(found.payments.energy)


def exact_mu(a, d, sigma, start=0.0):
    """|m − m'|/std of the last laws, by the recursions of the distance and the variance: (…, t) signed
    slopes, what is added to one of the means, noises."""
    gap, variance = np.broadcast_to(start, a.shape[:-1]).astype(float), np.zeros(a.shape[:-1])
    for k in range(a.shape[-1]):
        gap = a[..., k] * gap + d[..., k]
        variance = a[..., k] ** 2 * variance + sigma[..., k] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap == 0.0, 0.0, np.abs(gap) / np.sqrt(variance))


def _table(kind, slope, s, sigma, truth, far=0.0, jumps=None, start=None, diameter=None) -> Table:
    rows = len(truth)
    jump, steep, a, j = np.zeros((4, *slope.shape)) if jumps is None else jumps
    return Table(
        np.broadcast_to(kind, rows).astype(int),
        slope,
        jump,
        steep,
        a if jumps else slope,
        j,
        s,
        sigma,
        np.zeros(rows) if start is None else start,
        np.full(rows, np.inf) if diameter is None else diameter,
        truth,
        np.full(rows, far),
    )


def affine(rng, rows: int, steps: int) -> Table:
    """Linear moduli: contracting, isometric and expanding steps, in every mixture of signs."""
    shape = (rows, steps)
    c = np.where(rng.random((rows, 1)) < 0.4, 1.0, rng.uniform(0.3, 1.5, shape))
    c = np.where(rng.random((rows, 1)) < 0.3, rng.uniform(0.3, 1.5, (rows, 1)), c)
    a = np.where(rng.random(shape) < 0.2, -c, c)
    a = np.where(rng.random((rows, 1)) < 0.2, rng.uniform(-1.0, 1.0, shape) * c, a)
    used = rng.random(shape) < rng.choice([0.1, 0.4, 1.0], (rows, 1))
    s = np.where(used, rng.uniform(0.05, 2.0, shape), 0.0)
    sigma = np.exp(rng.uniform(-2.0, 1.0, shape))
    silent = (rng.random((rows, 1)) < 0.2) & (rng.random(shape) < 0.3)
    silent[:, -1] = False
    sigma = np.where(silent, 0.0, sigma)
    start = np.where(rng.random(rows) < 0.5, 0.0, rng.uniform(0.1, 3.0, rows))
    later = np.ones(shape)
    later[:, :-1] = np.cumprod(a[:, :0:-1], axis=1)[:, ::-1]
    # The start counts like a first shift; every shift adds to what is there.
    side = np.where(later < 0.0, -1.0, 1.0)
    side = np.where(rng.random((rows, 1)) < 0.1, rng.choice([-1.0, 1.0], shape), side)
    first = np.where(later[:, 0] * a[:, 0] < 0.0, -start, start)
    return _table(0, c, s, sigma, exact_mu(a, side * s, sigma, first), start=start)


def jumping(rng, rows: int, steps: int, kinds=(1, 2, 3, 4), moves: bool = True) -> Table:
    """Two runs on either side of a jump at 0; the rows on which they surely stay there."""
    kind = rng.choice(kinds, rows)
    slope, jump, steep, own_slope, own_jump, s, sigma = np.zeros((7, rows, steps))
    start = rng.uniform(0.5, 3.0, rows)
    gap, variance, fine = start.copy(), np.zeros(rows), np.ones(rows, dtype=bool)
    alike = rng.random(rows) < 0.4
    for k in range(steps):
        fresh = ~alike if k else np.ones(rows, dtype=bool)
        a = np.where(rng.random(rows) < 0.4, 1.0, rng.uniform(0.3, 1.3, rows))
        j = rng.uniform(0.05, 1.5, rows)
        part = np.where(rng.random(rows) < 0.2, 0.0, rng.uniform(0.0, 0.99, rows))
        slope[:, k] = np.where(fresh, a, slope[:, k - 1])
        jump[:, k] = np.where(fresh, j, jump[:, k - 1])
        # The piece of slope a < √κ that touches √(κδ² + h); where the distance is gap, if it can be there.
        root, size = slope[:, k], jump[:, k]
        at = root * gap / np.hypot(root * gap, size)
        part = np.where(rng.random(rows) < 0.6, at, part)
        is_root = (kind == 2) | (kind == 4)
        a = np.where(is_root, part * root, root)
        j = np.where(is_root, size * np.sqrt(1.0 - part * part), size)
        own_slope[:, k], own_jump[:, k] = a, j
        # Where the steeper line is the lower one it must not matter.
        near = gap / 2 - FAR * np.sqrt(variance)
        fine &= near > 0.0
        low = np.where(near > 0.0, near, 1.0) * rng.uniform(0.3, 1.0, rows)
        steep[:, k] = a + j / (2.0 * low)
        used = rng.random(rows) < 0.5
        s[:, k] = np.where(used, rng.uniform(0.05, 1.5, rows), 0.0) if moves else 0.0
        gap = a * gap + j + s[:, k]
        inherited = a * a * variance
        wanted = (gap / 2 / rng.uniform(FAR * 1.05, 2 * FAR, rows)) ** 2
        own = np.maximum(wanted - inherited, 1e-2 * wanted)
        if k == steps - 1:
            own = (gap / rng.uniform(0.3, 6.0, rows)) ** 2
        sigma[:, k] = np.sqrt(own)
        variance = inherited + own
    with np.errstate(divide="ignore"):
        truth = gap / np.sqrt(variance)
    found = _table(kind, slope, s, sigma, truth, 2e-14, (jump, steep, own_slope, own_jump), start)
    return found.kept(fine)


def walled(rng, rows: int, steps: int) -> Table:
    """Step 1 carries the runs to opposite walls without noise; a strong contraction follows."""
    shape = (rows, steps)
    diameter = rng.uniform(1.0, 4.0, rows)
    c = np.where(rng.random((rows, 1)) < 0.5, 1.0, rng.uniform(0.5, 1.2, shape))
    c[:, 0] = rng.uniform(0.5, 1.5, rows)
    s = np.where(rng.random(shape) < 0.5, rng.uniform(0.0, 0.1, shape), 0.0) * diameter[:, None]
    s[:, 0] = diameter * rng.uniform(1.0, 9.0, rows)  # from 0 both go to the walls, half of it each
    sigma = np.exp(rng.uniform(-6.0, -2.0, shape)) * diameter[:, None]
    sigma[:, 0] = 0.0
    if steps > 1:
        c[:, 1] = rng.uniform(0.0, 0.3, rows)
    gap, variance, fine = diameter.copy(), np.zeros(rows), np.ones(rows, dtype=bool)
    for k in range(1, steps):
        gap = c[:, k] * gap + s[:, k]
        variance = c[:, k] ** 2 * variance + sigma[:, k] ** 2
        fine &= gap / 2 + FAR * np.sqrt(variance) < diameter / 2
    with np.errstate(divide="ignore"):
        truth = gap / np.sqrt(variance)
    return _table(0, c, s, sigma, truth, 2e-14, diameter=diameter).kept(fine & (steps > 1))


def tolerance(table: Table):
    """How far a bound may lie below `truth`, relative: rounding of a few dozen operations, and `far`, which
    is far/(μ·φ(μ/2)) of μ. It is large where no double could tell, as for μ > 16."""
    mu = np.maximum(table.truth, 1e-300)
    spread = math.sqrt(2 * math.pi) * np.exp(np.minimum(mu, 60.0) ** 2 / 8)
    return 1e-13 + np.where(table.far > 0.0, table.far * spread / mu, 0.0)


@dataclass(frozen=True)
class Summary:
    """Instances, violations among them, the largest truth/bound, and how many come within 1e-6 of 1."""

    instances: int = 0
    violations: int = 0
    worst: float = 0.0
    met: int = 0

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.instances + other.instances,
            self.violations + other.violations,
            max(self.worst, other.worst),
            self.met + other.met,
        )


def summary(table: Table, bound=Table.bound) -> Summary:
    """What comparing the truth with `bound(table, row)` shows."""
    said = np.array([bound(table, i) for i in range(len(table))])
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(table.truth == 0.0, 0.0, table.truth / said)
    bad = ~(said >= table.truth * (1.0 - tolerance(table)))
    return Summary(
        len(table), int(bad.sum()), float(ratio.max(initial=0.0)), int((ratio > 1.0 - 1e-6).sum())
    )


def roots(rng, rows: int, steps: int) -> Table:
    """Jumps below √(κδ² + h) alone, nothing moved: the case with a closed form."""
    return jumping(rng, rows, steps, kinds=(2,), moves=False)


# Shares of a million instances: what takes milliseconds to bound is looked at less often.
FAMILIES = {"affine": (affine, 0.6), "walled": (walled, 0.15), "roots": (roots, 0.2)}
FAMILIES["jumping"] = (jumping, 0.05)


def falsify(family: str, instances: int, seed: int, bound=Table.bound) -> Summary:
    """At least so many instances of a family, of 2 to 12 steps."""
    rng = np.random.default_rng([seed, *family.encode()])
    total = Summary()
    while total.instances < instances:
        table = FAMILIES[family][0](rng, min(instances, 500), int(rng.integers(2, 13)))
        rows = np.arange(min(len(table), instances - total.instances))
        if rows.size:
            total += summary(table.kept(rows), bound)
    return total

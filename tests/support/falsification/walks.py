"""The exact truth about noisy maps of a number whose batches are not random.

X ← Π(φ_k(X) + N(0, σ_k²)) on one data set and X' ← Π(φ'_k(X') + N(0, σ_k²)) on the other, Π the projection
on [−D/2, D/2]. Given X_{t−1} the law of X_t is a Gaussian about an image, so that the last law is a mixture
of Gaussians; the laws before it are integrated with Gauss–Legendre nodes that break where a map has a
kink or a jump, and the ends of the interval carry atoms (`random_batches`, whose quadrature this is).

Three ways to such a walk: `Odd` maps, which attain a modulus of continuity at pairs that lie
symmetrically; `Training`, noisy gradient descent on cyclic batches of losses with kinks, jumps and wells;
and anything else that can say its steps. Nothing here comes from the library's accountant.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.integrate import trapezoid

from pabi import Cyclic, FullBatch, Loss, Modulus, NoisyIteration, NoisySGD, ShuffleOnce
from support.falsification.claims import exceeding
from support.falsification.random_batches import (
    NEGLIGIBLE,
    NODES,
    Adjacent,
    Gaussians,
    _nodes,
    described,
    with_error,
)


@dataclass(frozen=True)
class Step:
    """One step on the two data sets. `kinks`: where a map is not smooth; `steepest`: its largest |slope|
    elsewhere; `scale`: a length over which it is nearly a polynomial there."""

    maps: tuple[Callable, Callable]
    std: float
    kinks: tuple[float, ...] = ()
    steepest: float = 1.0
    scale: float = math.inf


@dataclass(frozen=True)
class Walk:
    """Two runs of the same steps from `starts`, with walls at ±`half`."""

    steps: Sequence[Step]
    starts: tuple[float, float] = (0.0, 0.0)
    half: float = math.inf

    def law(self, which: int, nodes: int) -> Gaussians:
        """The last law before the last projection; `nodes` a panel."""
        x, mass = np.array([self.starts[which]]), np.ones(1)
        before = None
        for step in self.steps:
            if before is not None:
                panel = min(2.0 * before.std, 2.0 * step.std / max(1.0, step.steepest), step.scale)
                x, mass = _nodes(before, self.half, sorted(set(step.kinks)), panel, nodes)
            kept = mass > NEGLIGIBLE * 1e-4
            before = Gaussians(mass[kept], step.maps[which](x[kept]), step.std)
        return before

    def delta(self, epsilons) -> tuple[np.ndarray, float]:
        """((2, len(epsilons)) δ(ε) in both orders, an estimate of its error); see `Average`."""
        return Average(((1.0, self),)).delta(epsilons)

    def renyi(self, order: float) -> float:
        """A lower bound, but for the quadrature, on the Rényi divergence of the last laws: over an
        interval on which both densities are accurate, and another event the rest. No walls."""
        assert math.isinf(self.half)
        p, q = self.law(0, NODES[-1]), self.law(1, NODES[-1])
        grid = np.linspace(p.range()[0], p.range()[1], 4001)
        dp, dq = p.pdf(grid), q.pdf(grid)
        fine = (dp > 1e-9 * dp.max()) & (dq > 1e-9 * dq.max())
        total = trapezoid(
            np.where(fine, dp**order * np.where(fine, dq, 1.0) ** (1.0 - order), 0.0), grid
        )
        return math.log(total) / (order - 1.0) if total > 0.0 else -math.inf


@dataclass(frozen=True)
class Average:
    """One of several walks, by chance; their last steps have the same noise and the same walls."""

    parts: tuple[tuple[float, Walk], ...]

    def law(self, which: int, nodes: int) -> Gaussians:
        laws = [(weight, walk.law(which, nodes)) for weight, walk in self.parts]
        weights = np.concatenate([weight * law.weights for weight, law in laws])
        return Gaussians(weights, np.concatenate([law.means for _, law in laws]), laws[0][1].std)

    def delta(self, epsilons) -> tuple[np.ndarray, float]:
        """((2, len(epsilons)) δ(ε) in both orders, an estimate of its error)."""
        half = self.parts[0][1].half
        return with_error(lambda n: (self.law(0, n), self.law(1, n)), epsilons, half)


def violated(walk: Walk | Average, claims: dict, epsilons, most: float = 1e-7) -> list:
    """[(name, ε, true δ, claimed δ)] of the claims that the exact divergences exceed."""
    both, error = walk.delta(epsilons)
    assert error <= most, error
    return exceeding(both.max(axis=0), error, claims, epsilons)


# Maps that attain their modulus.


@dataclass(frozen=True)
class Odd:
    """x ↦ c' + sign(u)·min over pieces of (slope·|u| + jump/2), u = x − c: nondecreasing and odd.

    A concave modulus ω(δ) = min(slope·δ + jump) is attained at all pairs that lie symmetrically about c:
    there the images are 2·½ω(2·½δ) apart. √(κδ² + h) lies above the piece of slope a < √κ and
    jump √(h(1 − a²/κ)), and touches it.
    """

    pieces: tuple[tuple[float, float], ...]
    centre: float = 0.0
    image: float = 0.0

    def __call__(self, x):
        u = np.asarray(x) - self.centre
        size = np.min([a * np.abs(u) + j / 2 for a, j in self.pieces], axis=0)
        return self.image + np.sign(u) * size

    @property
    def kinks(self) -> tuple[float, ...]:
        found = {self.centre}
        for i, (a, j) in enumerate(self.pieces):
            for b, k in self.pieces[:i]:
                if a != b and (at := (k - j) / (a - b) / 2) > 0.0:
                    found |= {self.centre - at, self.centre + at}
        return tuple(sorted(found))

    @property
    def steepest(self) -> float:
        return max(a for a, _ in self.pieces)


@dataclass(frozen=True)
class Moved:
    """A map and what is added to its values."""

    map: Callable
    by: float

    def __call__(self, x):
        return self.map(x) + self.by


def piece_below_root(kappa: float, h: float, part: float) -> tuple[float, float]:
    """(slope, jump) of a piece that touches √(κδ² + h) from below; `part` of √κ, in [0, 1)."""
    return part * math.sqrt(kappa), math.sqrt(h * (1.0 - part * part))


@dataclass(frozen=True)
class OddWalk:
    """A noisy iteration of `Odd` maps with these moduli; one data set's images are moved by ±s_k."""

    maps: tuple[Odd, ...]
    moduli: tuple[Modulus, ...]
    moves: tuple[float, ...]  # signed s_k
    stds: tuple[float, ...]
    start: float = 0.0  # w_0
    diameter: float | None = None

    @property
    def walk(self) -> Walk:
        half = math.inf if self.diameter is None else self.diameter / 2
        steps = [
            Step((m, Moved(m, by)), std, m.kinks, m.steepest)
            for m, by, std in zip(self.maps, self.moves, self.stds, strict=True)
        ]
        return Walk(steps, (-self.start / 2, self.start / 2), half)

    @property
    def iteration(self) -> NoisyIteration:
        """The description that the accountant gets."""
        return NoisyIteration(
            moduli=self.moduli,
            step_sensitivity=np.abs(self.moves),
            step_noise_std=np.array(self.stds),
            diameter=self.diameter,
            start=self.start,
        )


def random_odd_walk(rng, steps: int, walls: bool) -> OddWalk:
    """Moduli of all kinds, maps that attain them, centred between the two runs."""
    maps, moduli, moves, stds = [], [], [], []
    start = float(rng.choice([0.0, rng.uniform(0.2, 3.0)]))
    diameter = float(rng.uniform(max(start, 0.5), 6.0)) if walls else None
    x, y = -start / 2, start / 2
    same = rng.random() < 0.5  # steps all alike
    for k in range(steps):
        if k == 0 or not same:
            slope = float(rng.choice([1.0, rng.uniform(0.2, 1.3)]))
            jump = float(rng.uniform(0.05, 2.0))
            kind = rng.choice(["affine", "sqrt", "minimum", "least"])
            steep = slope * float(rng.uniform(1.0, 3.0))
            root, part = slope * slope, float(rng.choice([0.0, rng.uniform(0.0, 0.99)]))
            if kind == "affine":
                pieces, modulus = ((slope, jump),), Modulus.affine(slope, jump)
            elif kind == "sqrt":
                h = jump * jump
                pieces, modulus = (piece_below_root(root, h, part),), Modulus.sqrt(root, h)
            elif kind == "minimum":
                pieces = ((slope, jump), (steep, 0.0))
                modulus = Modulus.minimum(Modulus.affine(slope, jump), Modulus.linear(steep))
            else:
                h = jump * jump
                pieces = (piece_below_root(root, h, part), (steep, 0.0))
                modulus = Modulus.minimum(Modulus.sqrt(root, h), Modulus.linear(steep))
            std = float(rng.uniform(0.2, 2.0))
            move = float(rng.choice([0.0, 1.0], p=[0.4, 0.6]) * rng.uniform(0.05, 1.5))
        if not maps and start == 0.0:
            move = float(rng.uniform(0.1, 1.5))
        # Centred between where the runs would be without noise, mostly, and sent back to the middle.
        off = 0.0 if rng.random() < 0.7 else float(rng.normal())
        odd = Odd(pieces, (x + y) / 2 + off, 0.0)
        x, y = (float(v) for v in (odd(x), odd(y)))
        by = math.copysign(move, y - x) if rng.random() < 0.8 else -move
        y += by
        if diameter is not None:
            x, y = (min(max(v, -diameter / 2), diameter / 2) for v in (x, y))
        maps.append(odd)
        moduli.append(modulus)
        moves.append(by)
        stds.append(std)
    return OddWalk(tuple(maps), tuple(moduli), tuple(moves), tuple(stds), start, diameter)


# Noisy gradient descent on batches in a fixed order.


@dataclass(frozen=True)
class Jumps:
    """The subgradient of a piecewise linear loss: `values` between the points `at`."""

    at: tuple[float, ...]
    values: tuple[float, ...]
    steepest, scale = 0.0, math.inf

    @property
    def kinks(self):
        return self.at

    def __call__(self, x):
        return np.array(self.values)[np.searchsorted(self.at, np.asarray(x))]


@dataclass(frozen=True)
class Rough:
    """The gradient ±sign(u)·M·2^(p−1)·|u|^p, cut at `bound`: p-Hölder of constant M (see `rough`).

    u is x − centre, or a triangular wave of it; `wave`: the distance of two cusps, None where there is one.
    """

    exponent: float
    constant: float
    centre: float
    bound: float
    sign: float = -1.0
    wave: float | None = None

    steepest, scale = 0.0, math.inf  # the grading of the panels sees to it

    def __call__(self, x):
        u = np.asarray(x, dtype=float) - self.centre
        if self.wave is not None:
            turn = np.mod(u + self.wave / 2, 2 * self.wave)
            u = np.where(turn < self.wave, turn, 2 * self.wave - turn) - self.wave / 2
        size = self.constant * 2.0 ** (self.exponent - 1.0) * np.abs(u) ** self.exponent
        return self.sign * np.sign(u) * np.minimum(size, self.bound)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Cusps, corners, and panels that are graded towards the cusps."""
        half = self.constant * 2.0 ** (self.exponent - 1.0)
        reach = (self.bound / half) ** (1.0 / self.exponent) if self.exponent else math.inf
        end = math.inf if self.wave is None else self.wave / 2
        near = [s for s in (4.0**-i for i in range(-2, 16)) if s < min(reach, end)]
        near += [reach] if reach < min(end, 1e3) else []
        cusps = [self.centre]
        if self.wave is not None:
            cusps = [self.centre + i * self.wave for i in range(-3, 4)]
            near.append(end)
        return tuple(at + side * s for at in cusps for s in (0.0, *near) for side in (-1, 1))


@dataclass(frozen=True)
class Well:
    """The gradient rate·u − clip(slope·u, ±depth) + tilt, u = x − centre: two wells for slope > rate.

    With any κ < rate it is dissipative: rate·δ² − 2·depth·δ ≥ κδ² − depth²/(rate − κ).
    """

    rate: float
    slope: float
    depth: float
    centre: float = 0.0
    tilt: float = 0.0
    scale = math.inf

    @property
    def kinks(self):
        reach = self.depth / self.slope
        return (self.centre - reach, self.centre + reach)

    @property
    def steepest(self):
        return max(self.rate, abs(self.rate - self.slope))

    def __call__(self, x):
        u = np.asarray(x) - self.centre
        return self.rate * u - np.clip(self.slope * u, -self.depth, self.depth) + self.tilt


@dataclass(frozen=True)
class Training(Adjacent):
    """Noisy gradient descent on batches in a fixed order, and the adjacent data set in which the first record
    of batch `position` is `other`.

    `batches`: the records' gradients, the last batch maybe shorter; `loss` describes all of them truly,
    `clip` is what they have been clipped at, `sensitivity` the stated bound of an adjacent pair.
    """

    batches: tuple[tuple, ...]
    position: int
    other: object
    eta: tuple[float, ...]
    noise: tuple[float, ...]
    loss: Loss
    clip: float | None = None
    sensitivity: float | None = None
    diameter: float | None = None
    start: float = 0.0
    cooldown: int = 0

    @property
    def size(self) -> int:
        return len(self.batches[0])

    @property
    def walk(self) -> Walk:
        data = len(self.eta) - self.cooldown
        steps = []
        for k, (eta, noise) in enumerate(zip(self.eta, self.noise, strict=True)):
            at = k % len(self.batches)
            here = self.batches[at] if k < data else ()
            there = (self.other, *here[1:]) if here and at == self.position else here
            every = (*here, *there)
            kinks = tuple(kink for g in every for kink in g.kinks)
            steep = max(sum(g.steepest for g in batch) for batch in (here, there))
            l2 = self.loss.l2
            maps = tuple(self._map(batch, eta) for batch in (here, there))
            stretch = 1.0 + eta * (steep / self.size + l2)
            scale = min((g.scale for g in every), default=math.inf)
            steps.append(Step(maps, eta * noise, kinks, stretch, scale))
        return Walk(steps, (self.start, self.start), self.half)

    def _map(self, batch, eta):
        def step(x):
            pull = sum((g(x) for g in batch), np.zeros_like(x))
            return x - eta * (pull / self.size + self.loss.l2 * x)

        return step

    @property
    def run(self) -> NoisySGD:
        """The description that the accountant gets."""
        return described(
            self,
            FullBatch() if len(self.batches) == 1 else Cyclic(self.size),
            n=sum(map(len, self.batches)),
            gradient_sensitivity=self.sensitivity,
            adjacency=self.adjacency,
        )


def shuffled(found: Training) -> tuple[Average, NoisySGD]:
    """The same records in an order drawn once and kept secret, and its description. All records but the first
    of batch `position` have to be alike."""
    first = found.batches[found.position][0]
    rest = next((g for batch in found.batches for g in batch if g is not first), first)
    sizes = [len(batch) for batch in found.batches]
    parts = []
    for j, size in enumerate(sizes):
        table = [[rest] * s for s in sizes]
        table[j][0] = first
        moved = replace(found, batches=tuple(map(tuple, table)), position=j)
        parts.append((size / sum(sizes), moved.walk))
    return Average(tuple(parts)), replace(found.run, batches=ShuffleOnce(found.size))

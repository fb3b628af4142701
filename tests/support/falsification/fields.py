"""Gradient fields in two and three dimensions, and pairs of points to try a modulus on.

A `Case` is a loss, fields that it describes truly, and what a step does with them: the mean of the records'
gradients, each clipped, a regulariser, and batches that are not full.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pabi import Loss
from support.falsification.adversary import Knob

Field = Callable[[np.ndarray], np.ndarray]  # (m, d) points to (m, d) gradients


def clipped(field: Field, norm: float | None) -> Field:
    if norm is None:
        return field

    def clip(x):
        g = field(x)
        return g * np.minimum(1.0, norm / np.maximum(np.linalg.norm(g, axis=-1), 1e-300))[..., None]

    return clip


def by_coordinate(field: Field, norm: float) -> Field:
    """Each of d coordinates clipped at norm/√d."""

    def clip(x):
        most = norm / math.sqrt(x.shape[-1])
        return np.clip(field(x), -most, most)

    return clip


def quadratic(a: np.ndarray, pull: np.ndarray) -> Field:
    return lambda x: x @ a + pull


def steepest_plane(slopes: np.ndarray, heights: np.ndarray) -> Field:
    """A subgradient of max_i ⟨slope_i, x⟩ + height_i."""
    return lambda x: slopes[np.argmax(x @ slopes.T + heights, axis=-1)]


def power(exponent: float, constant: float, centre: np.ndarray) -> Field:
    """Of M·2^(p−1)·‖u‖^(1+p)/(1+p), u = x − centre: p-Hölder with constant M."""

    def gradient(x):
        u = x - centre
        length = np.maximum(np.linalg.norm(u, axis=-1, keepdims=True), 1e-300)
        return constant * 2.0 ** (exponent - 1.0) * u * length ** (exponent - 1.0)

    return gradient


def well(rate: float, slope: float, depth: float, centre: np.ndarray) -> Field:
    """rate·u − (slope·u cut to a ball of radius depth): dissipative for κ < rate, λ = depth²/(rate − κ),
    smooth with max(rate, slope − rate)."""
    dip = clipped(lambda x: slope * (x - centre), depth)
    return lambda x: rate * (x - centre) - dip(x)


def hill(bound: float, centre: np.ndarray) -> Field:
    """Of −C‖u‖: a norm bound and nothing else."""
    return lambda x: -clipped(lambda y: 1e9 * (y - centre), bound)(x)


def symmetric(rng, d: int, low: float, high: float) -> np.ndarray:
    """Eigenvalues in [low, high], mostly at its ends, in a random basis."""
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    ends = np.where(rng.random(d) < 0.7, rng.choice([low, high], d), rng.uniform(low, high, d))
    return basis @ np.diag(ends) @ basis.T


@dataclass(frozen=True)
class Case:
    """A loss, fields that it describes truly, and what the step does with them."""

    loss: Loss
    fields: tuple[Field, ...]
    clip: float | None
    fraction: float
    step: float
    dimension: int = 2
    clipping: str = "norm"

    def image(self, x):
        clip = by_coordinate if self.clipping == "coordinates" else clipped
        g = np.mean([clip(field, self.clip)(x) for field in self.fields], axis=0)
        return x - self.step * (self.fraction * g + self.loss.l2 * x)

    def excess(self, x, y) -> np.ndarray:
        """log of the distance after over what the modulus allows, beyond rounding of the images."""
        how = () if self.clipping == "norm" else (self.clipping,)
        modulus = self.loss.modulus(self.step, self.clip, self.fraction, *how)
        fx, fy = self.image(x), self.image(y)
        after = np.linalg.norm(fx - fy, axis=-1)
        size = np.abs(x).sum(-1) + np.abs(y).sum(-1) + np.abs(fx).sum(-1) + np.abs(fy).sum(-1)
        after = np.maximum(after - 1e-14 * size, 1e-300)
        allowed = modulus(np.linalg.norm(x - y, axis=-1))
        with np.errstate(divide="ignore"):
            return np.log(after) - np.log(allowed)


ROWS = [
    "convex",
    "strongly convex",
    "weakly convex",
    "nonconvex",
    "lipschitz",
    "weakly smooth",
    "smooth and lipschitz",
    "dissipative",
    "unknown",
]


def random_case(rng, row: str, clips: bool) -> Case:
    """With `clips` the fields are clipped where it matters; the losses are not GLMs."""
    d = int(rng.integers(2, 4))
    step = float(np.exp(rng.uniform(-3.0, 1.0)))
    top = float(np.exp(rng.uniform(-2.0, 1.3))) / step
    bound = float(rng.uniform(0.3, 3.0))
    low = top * float(rng.uniform(0.0, 1.0))
    gradient_bound = None

    def near() -> np.ndarray:
        return rng.normal(size=d) * rng.choice([0.0, 0.3, 2.0])

    def curved(lo: float) -> Field:
        a = symmetric(rng, d, lo, top)
        direction = rng.normal(size=d)
        pull = direction / np.linalg.norm(direction) * bound * rng.uniform(0.8, 1.2)
        return quadratic(a, pull)

    match row:
        case "convex":
            loss, draw = Loss.convex(top), lambda: curved(0.0)
        case "strongly convex":
            low = max(low, 1e-3 * top)
            loss, draw = Loss.strongly_convex(low, top), lambda: curved(low)
        case "weakly convex":
            loss, draw = Loss.weakly_convex(max(low, 1e-3 * top), top), lambda: curved(-low)
        case "nonconvex":
            loss, draw = Loss.nonconvex(top), lambda: curved(-top)
        case "lipschitz":
            gradient_bound = bound * float(rng.choice([1.0, 2.0]))
            loss = Loss.lipschitz(gradient_bound)

            def draw():
                planes = int(rng.integers(2, 6))
                slopes = rng.normal(size=(planes, d))
                size = gradient_bound * rng.choice([1.0, 0.5], (planes, 1))
                slopes *= size / np.linalg.norm(slopes, axis=1, keepdims=True)
                if rng.random() < 0.5:
                    slopes[1] = -slopes[0]
                return steepest_plane(slopes, 0.3 * rng.normal(size=planes))

        case "weakly smooth":
            p, constant = (
                float(rng.choice([0.1, 0.4, 0.7, 0.95])),
                bound / step ** rng.choice([0, 1]),
            )
            loss, draw = Loss.weakly_smooth([(p, constant)]), lambda: power(p, constant, near())
        case "smooth and lipschitz":  # Huber's
            gradient_bound = bound
            loss = Loss.weakly_smooth([(0.0, 2.0 * bound), (1.0, top)], gradient_bound=bound)

            def draw():
                centre = near()
                return clipped(lambda x: top * (x - centre), bound)

        case "dissipative":
            rate, depth = top * float(rng.uniform(0.1, 0.9)), bound
            kappa = rate * float(rng.uniform(0.1, 0.95))
            loss = Loss.dissipative(depth**2 / (rate - kappa), kappa, top)

            def draw():
                return well(rate, (rate + top) * rng.uniform(0.2, 1.0), depth, near())

        case _:
            loss, clips, draw = Loss.unknown(), True, lambda: hill(bound, near())
    if rng.random() < 0.4:
        loss = loss.with_l2(float(rng.uniform(0.0, 1.3)) / step)
    clip = bound if clips else None
    if clips and gradient_bound is not None:
        clip = gradient_bound * float(rng.uniform(0.3, 0.9))
    if row == "unknown":
        clip = bound * float(rng.choice([0.5, 1.0]))
    fields = tuple(draw() for _ in range(int(rng.choice([1, 1, 2, 4]))))
    return Case(loss, fields, clip, float(rng.choice([1.0, 0.25, 2.0])), step, d)


def random_pairs(rng, case: Case, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs at all distances about points at all distances from the middle, many of them symmetric."""
    d = case.dimension
    middle = rng.normal(size=(count, d)) * 10.0 ** rng.uniform(-3.0, 1.0, (count, 1))
    middle[: count // 8] = 0.0
    apart = rng.normal(size=(count, d))
    apart *= 10.0 ** rng.uniform(-4.0, 1.5, (count, 1)) / np.linalg.norm(
        apart, axis=1, keepdims=True
    )
    return middle + apart / 2, middle - apart / 2


SLACK = 1e-9


def climb(rng, case: Case, x, y, rounds: int = 12) -> float:
    """The largest excess near a pair: a cloud about the best so far that shrinks."""
    scale = max(float(np.linalg.norm(x - y)), 1e-3)
    best = -math.inf
    for _ in range(rounds):
        cloud = rng.normal(size=(2, 100, x.size)) * scale
        u, v = np.vstack([x, x + cloud[0]]), np.vstack([y, y + cloud[1]])
        excess = case.excess(u, v)
        i = int(np.argmax(excess))
        best, x, y, scale = float(excess[i]), u[i], v[i], scale * 0.6
    return best


def planar(loss: Loss, field: Field, point, clip=None) -> Case:
    return Case(loss, (field,), clip, 1.0, point["step"])


def pair(point) -> tuple[np.ndarray, np.ndarray]:
    """Two points of the plane `apart` from each other about (`u`, `v`)."""
    middle = np.array([[point["u"], point["v"]]])
    to = np.array([[math.cos(point["turn"]), math.sin(point["turn"])]]) * point["apart"] / 2
    return middle + to, middle - to


PAIR = {
    "u": Knob(-2.0, 2.0),
    "v": Knob(-2.0, 2.0),
    "turn": Knob(0.0, math.pi),
    "apart": Knob(1e-5, 10.0, "log"),
    "step": Knob(0.05, 2.0, "log"),
}

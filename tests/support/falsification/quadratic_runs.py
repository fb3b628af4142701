"""Runs of noisy SGD on quadratics: every step is affine, so that the last iterates are Gaussians, or mixtures
of them under a secret order."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from pabi import Cyclic, FullBatch, Loss, NoisySGD, Reshuffle, ShuffleOnce
from support.falsification.affine_maps import exact_mu
from support.falsification.random_batches import Gaussians

ROUNDING = 1.0 - 1e-13  # of the few hundred operations of the recursions


@dataclass(frozen=True)
class Quadratic:
    """A run and the curvatures of its batches (batches, d), each coordinate its own; the record's gradient
    differs between the two data sets by `direction` (d,) times the sensitivity."""

    run: NoisySGD
    curvature: np.ndarray
    direction: np.ndarray

    def slopes(self) -> np.ndarray:
        """(d, t) factors of the steps of a cyclic run."""
        run, (batches, d) = self.run, self.curvature.shape
        eta = np.broadcast_to(run.step_size, run.steps)
        in_batches = run.n - getattr(run.batches, "spare", 0)
        sizes = [run.batch_size] * (batches - 1) + [in_batches - (batches - 1) * run.batch_size]
        found = np.empty((d, run.steps))
        for k in range(run.steps):
            pull = np.zeros(d)
            if k < run.steps - run.cooldown_steps:
                j = k % batches
                pull = self.curvature[j] * sizes[j] / run.batch_size
            found[:, k] = 1.0 - eta[k] * (run.loss.l2 + pull)
        return found

    @property
    def stds(self) -> np.ndarray:
        run = self.run
        return np.broadcast_to(run.step_size, run.steps) * np.broadcast_to(run.noise_std, run.steps)

    def uses(self, position: int) -> np.ndarray:
        """(t,) what one unit of the gradient sum moves the iterate at each step, for a cyclic run."""
        run, k = self.run, np.arange(self.run.steps)
        used = (k % len(self.curvature) == position) & (k < run.steps - run.cooldown_steps)
        return np.where(used, np.broadcast_to(run.step_size, run.steps) / run.batch_size, 0.0)

    def mu(self, position: int) -> float:
        moved = self.uses(position) * self.run.gradient_sensitivity
        shift = self.direction[:, None] * moved
        a = self.slopes()
        return float(np.linalg.norm(exact_mu(a, shift, np.broadcast_to(self.stds, a.shape))))


def loss_and_curvatures(rng, kind: str, eta: float) -> tuple[Loss, float, float]:
    """A loss and the curvatures that it allows."""
    top = float(np.exp(rng.uniform(np.log(0.02), np.log(2.5)))) / eta
    low = top * float(rng.uniform(0.01, 1.0))
    match kind:
        case "convex":
            return Loss.convex(top), 0.0, top
        case "strongly convex":
            return Loss.strongly_convex(low, top), low, top
        case "weakly convex":
            return Loss.weakly_convex(low, top), -low, top
        case "nonconvex":
            return Loss.nonconvex(top), -top, top
        case "dissipative":
            return Loss.dissipative(float(rng.uniform(0.0, 2.0)), low, top), low, top
        case "weakly smooth":
            return Loss.weakly_smooth([(1.0, top)]), 0.0, top
    return Loss.unknown(), -top, 2.0 * top


KINDS = ["convex", "strongly convex", "weakly convex", "nonconvex", "dissipative", "weakly smooth"]
KINDS += ["unknown"]


def random_quadratic(rng, kind: str, order: str) -> Quadratic:
    """`order`: "full", "cyclic", "shuffled" or "reshuffled"."""
    size = int(rng.integers(1, 5))
    batches = 1 if order == "full" else int(rng.integers(1, 4 if order == "reshuffled" else 7))
    n = size * batches - (int(rng.integers(0, size)) if batches > 1 and rng.random() < 0.5 else 0)
    spare = int(rng.integers(1, 4)) if order.endswith("shuffled") and rng.random() < 0.4 else 0
    epochs = rng.integers(1, 4)
    cooldown = int(rng.integers(1, 5)) if rng.random() < 0.3 else 0
    t = int(batches * epochs + rng.integers(-batches + 1, 1))
    if order == "full":
        t = int(rng.integers(1, 30))
    t += cooldown
    eta = float(np.exp(rng.uniform(-3.0, 1.0)))
    loss, lo, hi = loss_and_curvatures(rng, kind, eta)
    if rng.random() < 0.4:
        loss = loss.with_l2(float(rng.uniform(0.01, 1.5)) / eta)
    etas, noises = np.full(t, eta), np.full(t, float(np.exp(rng.uniform(-2.0, 1.5))))
    if rng.random() < 0.5:
        etas = etas * rng.uniform(0.3, 1.0, t)
    if rng.random() < 0.5:
        noises = noises * rng.uniform(0.3, 2.0, t)
    alike = len(set(etas)) == len(set(noises)) == 1 and rng.random() < 0.5
    run = NoisySGD(
        loss,
        n=n + spare,
        batches={
            "full": FullBatch(),
            "cyclic": Cyclic(size),
            "shuffled": ShuffleOnce(size, spare),
            "reshuffled": Reshuffle(size, spare),
        }[order],
        steps=t,
        step_size=eta if alike else etas,
        noise_std=float(noises[0]) if alike else noises,
        gradient_sensitivity=float(np.exp(rng.uniform(-1.0, 1.5))),
        adjacency=str(rng.choice(["replace_one", "zero_out"])),
        cooldown_steps=cooldown,
    )
    d = int(rng.integers(1, 4)) if order in ("full", "cyclic") else 1
    ends = rng.choice([lo, hi], (batches, d))
    curvature = np.where(rng.random((batches, d)) < 0.7, ends, rng.uniform(lo, hi, (batches, d)))
    if rng.random() < 0.3 or order.endswith("shuffled"):
        curvature = np.tile(curvature[:1], (batches, 1))  # all records alike
    direction = rng.normal(size=d)
    return Quadratic(run, curvature, direction / np.linalg.norm(direction))


def secret_laws(found: Quadratic) -> list[Gaussians]:
    """The last laws with the record's gradient ±L/2 and all others at rest, over all its places."""
    run, batches = found.run, len(found.curvature)
    a, stds = found.slopes()[0], found.stds
    later = np.append(np.cumprod(a[:0:-1])[::-1], 1.0)
    out = run.batches.spare / run.n  # of the records, which move nothing
    share = [run.batch_size / run.n] * (batches - 1)
    share.append(1.0 - sum(share) - out)
    share, beside = ([*share, out], [0.0]) if out else (share, [])
    moved = [float(later @ found.uses(j)) for j in range(batches)] + beside
    if run.batches.kind == "shuffle_once":
        weights, sums = np.array(share), np.array(moved)
    else:
        epochs = -(-run.steps // batches)
        each = np.arange(run.steps) // batches
        place = [
            [float(later @ np.where(each == e, found.uses(j), 0.0)) for j in range(batches)]
            + beside
            for e in range(epochs)
        ]
        every = list(itertools.product(range(len(share)), repeat=epochs))
        weights = np.array([math.prod(share[j] for j in js) for js in every])
        sums = np.array([sum(place[e][j] for e, j in enumerate(js)) for js in every])
    std = math.sqrt(float(later**2 @ stds**2))
    half = run.gradient_sensitivity / 2
    return [Gaussians(weights, side * half * sums, std) for side in (-1.0, 1.0)]

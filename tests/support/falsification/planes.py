"""Short runs of noisy SGD whose model has two numbers, and the laws of their last iterates.

Logistic regression on two features, softmax of three classes on one (in the plane of weights that add to 0)
and two classes against the rest on one. All that is integrated is analytic, so that sums over a grid are
right to many digits. A mixture of Gaussians on a grid is a product of matrices.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from pabi import Cyclic, Loss, NoisySGD
from support.advance import Course

# Of a grid over which is summed, in standard deviations; and in 2/R, as poles are at π/R.
SPACING = 0.4
FINE = 300  # points on each axis of the last grid
ERROR = 3e-3  # relative, of δ from that; three times what finer grids changed
PLANE = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])


@dataclass(frozen=True)
class Planar:
    """`records`: (n, 2), signed features, or a feature and a class; `other` takes the place of the first of
    batch `position`, None under zero_out."""

    run: NoisySGD
    position: int
    records: np.ndarray
    other: np.ndarray | None
    start: np.ndarray

    def pull(self, w: np.ndarray, record: np.ndarray) -> np.ndarray:
        """Minus the gradient at each of w, (m, 2)."""
        if self.run.loss.kind == "logistic":
            return expit(-w @ record)[:, None] * record
        x, label = float(record[0]), int(record[1])
        if self.run.loss.kind == "softmax":
            return (np.eye(3)[label] - softmax(x * (w @ PLANE), axis=1)) @ PLANE.T * x
        side = np.where(np.arange(2) == label, 1.0, -1.0)
        return expit(-side * x * w) * side * x

    def used(self, k: int) -> bool:
        return k % self.run.steps_per_epoch == self.position

    def image(self, w: np.ndarray, k: int, changed: bool) -> np.ndarray:
        """Where step k takes w, but for noise."""
        run = self.run
        eta = run.schedule(k, k + 1)[0][0]
        first = (k % run.steps_per_epoch) * run.batch_size
        batch = [self.records[i] for i in range(first, first + run.batch_size)]
        if self.used(k) and changed:
            batch[:1] = [] if self.other is None else [self.other]
        total = sum((self.pull(w, record) for record in batch), np.zeros_like(w))
        return w * (1.0 - eta * run.loss.l2) + eta / run.batch_size * total

    def course(self) -> Course:
        """What the description says of the record, read here: gradients stay in a cone."""
        run = self.run
        r = float(dict(run.loss.parameters)["feature_norm"])
        # The largest curvature and gradient, and a ball that has the cone's part of the unit ball in it.
        steep, bound, q, rho = {
            "logistic": (0.25, 1.0, 0.5, 0.5),
            "softmax": (0.5, np.sqrt(2.0), np.sqrt(0.5), np.sqrt(0.5)),
            "one_vs_rest": (0.25, np.sqrt(2.0), np.sqrt(0.5), np.sqrt(0.5)),
        }[run.loss.kind]
        eta, noise = run.schedule(0, run.steps)
        s = eta * bound * r / run.batch_size * [self.used(k) for k in range(run.steps)]
        s = s if self.other is None else 2.0 * s
        high = 1.0 - eta * run.loss.l2
        held = np.zeros(run.steps, dtype=bool)
        return Course(high - eta * steep * r * r, high, eta * noise, q * s, rho * s, held)

    def deltas(self, epsilons: np.ndarray) -> np.ndarray:
        """The larger δ of both orders, less what may be wrong about it."""
        run = self.run
        eta, noise = run.schedule(0, run.steps)
        images = [
            [partial(self.image, k=k, changed=c) for c in (False, True)] for k in range(run.steps)
        ]
        sharp = float(dict(run.loss.parameters)["feature_norm"]) / 2.0
        return worst_deltas(images, eta * noise, [self.start] * 2, epsilons, sharp)


def worst_deltas(images, sigma, starts, epsilons, sharp: float) -> np.ndarray:
    """The larger δ of both orders, less what may be wrong about it.

    `images`: what each step does in both runs, but for noise. `sharp`: poles are no nearer than π/(2·sharp).
    """
    at, weights = [start[None, :] for start in starts], [np.ones(1), np.ones(1)]
    for k, (maps, noise) in enumerate(zip(images, sigma, strict=True)):
        means = [image(points) for image, points in zip(maps, at, strict=True)]
        last = k == len(images) - 1
        if last:  # the densities meet across the first axis
            x, y = weights[1] @ means[1] - weights[0] @ means[0]
            size = np.hypot(x, y) or 1.0
            means = [m @ np.array([[x, -y], [y, x]]) / size for m in means]
        both, spacing = np.vstack(means), SPACING * min(*sigma[k : k + 2], 1.0 / sharp)
        axes, area = [], 1.0
        for low, high in zip(both.min(0) - 7.0 * noise, both.max(0) + 7.0 * noise, strict=True):
            count = FINE if last else int((high - low) / spacing) + 2
            axes.append(np.linspace(low, high, count))
            area *= (high - low) / (count - 1)
        laws = [law(m, w, noise, axes) * area for m, w in zip(means, weights, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        for i, x in enumerate(laws if not last else []):
            kept = x.ravel() > 1e-13
            at[i], weights[i] = points[kept], x.ravel()[kept]
    found = [
        max(positive(laws[0] - e * laws[1]), positive(laws[1] - e * laws[0]))
        for e in np.exp(epsilons)
    ]
    return np.array(found) * (1.0 - ERROR) - 1e-9 * (1.0 + np.exp(epsilons))


def positive(d: np.ndarray) -> float:
    """The sum of the positive part of what is smooth along the first axis, as if between the points.

    Where it changes its sign, the triangle that is left out and Euler and Maclaurin's term of the end.
    """
    total = np.maximum(d, 0.0).sum()
    a, b = np.abs(d[1:]), np.abs(d[:-1])
    met = (d[1:] > 0.0) != (d[:-1] > 0.0)
    a, b = a[met], b[met]
    return float(total + np.sum((a + b) / 12.0 - 0.5 * a * b / np.maximum(a + b, 1e-300)))


def law(means: np.ndarray, weights: np.ndarray, sigma: float, axes: list[np.ndarray]) -> np.ndarray:
    """The density of a mixture of Gaussians on a grid."""
    one, two = (
        np.exp(-0.5 * ((axis[:, None] - m) / sigma) ** 2)
        for axis, m in zip(axes, means.T, strict=True)
    )
    return (one * weights) @ two.T / (2.0 * np.pi * sigma**2)


def random_planar(rng, adjacency: str) -> Planar:
    """Two to four steps, the record used once or twice."""
    kind = rng.choice(["logistic", "softmax", "one_vs_rest"])
    r = float(np.exp(rng.normal(0.0, 0.3)))
    l2 = float(rng.choice([0.0, 0.1]))
    loss = {
        "logistic": Loss.logistic(r, l2=l2),
        "softmax": Loss.softmax(r, l2=l2),
        "one_vs_rest": Loss.one_vs_rest(r, classes=2, l2=l2),
    }[kind]
    batches, size, epochs = [(2, 1, 1), (2, 2, 1), (3, 1, 1), (4, 1, 1), (2, 1, 2), (1, 2, 3)][
        rng.integers(6)
    ]
    n = batches * size
    eta = (
        float(np.exp(rng.normal(0.0, 0.4)))
        / r**2
        * np.exp(rng.normal(0.0, rng.choice([0.0, 0.3]), batches * epochs))
    )
    noise = r / size * float(np.exp(rng.normal(0.0, 0.3)))
    run = NoisySGD(
        loss,
        n=n,
        batches=Cyclic(size),
        epochs=epochs,
        step_size=eta,
        noise_std=noise,
        adjacency=adjacency,
    )

    def record():
        if kind != "logistic":
            return np.array(
                [r * rng.choice([-1.0, 1.0]), rng.integers(3 if kind == "softmax" else 2)]
            )
        angle = rng.uniform(0.0, 2.0 * np.pi)
        return r * np.array([np.cos(angle), np.sin(angle)])

    records = np.array([record() for _ in range(n)])
    position = int(rng.integers(batches))
    other = None if adjacency == "zero_out" else record()
    if other is not None and kind == "logistic" and rng.random() < 0.5:
        other = -records[position * size]
    return Planar(run, position, records, other, rng.normal(size=2) * rng.choice([0.0, 2.0]) / r)

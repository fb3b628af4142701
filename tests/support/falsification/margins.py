"""Short runs of noisy SGD on losses of a margin, one feature a record, and what their descriptions say."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pabi import Cyclic, Loss, NoisySGD
from support.advance import Course, one_sided
from support.falsification.pulled_lines import Step


@dataclass(frozen=True)
class Margins:
    """`records`: signed features y·x, that of the record being the first of batch `position`; `other` takes
    its place, 0 under zero_out. `start`: where both runs start."""

    run: NoisySGD
    position: int
    records: np.ndarray
    other: float
    start: float

    @property
    def norm(self) -> float:
        """R."""
        return float(dict(self.run.loss.parameters)["feature_norm"])

    @property
    def smoothing(self) -> float | None:
        return dict(self.run.loss.parameters).get("smoothing")

    @property
    def bound(self) -> float:
        """Of one gradient."""
        clip = self.run.clip_norm
        return self.norm if clip is None else min(clip, self.norm)

    def batch(self, k: int) -> np.ndarray:
        """The indices of the records of step k, none in a cool-down."""
        run, size = self.run, self.run.batch_size
        if k >= run.data_steps:
            return np.arange(0)
        first = (k % run.steps_per_epoch) * size
        return np.arange(first, min(first + size, run.n))

    def used(self, k: int) -> bool:
        return k < self.run.data_steps and k % self.run.steps_per_epoch == self.position

    def pull(self, theta, feature: float):
        """Minus the clipped gradient of a record."""
        if feature == 0.0:
            return np.zeros_like(theta)
        z = feature * theta
        if self.smoothing is None:
            size = expit(-z)
        else:
            size = np.clip((1.0 - z) / self.smoothing, 0.0, 1.0)
        return feature * np.minimum(size, self.bound / abs(feature))

    def breaks(self, feature: float) -> list[float]:
        """Where its pull has a kink."""
        if feature == 0.0:
            return []
        most = min(self.bound / abs(feature), 1.0)
        if self.smoothing is not None:
            return [1.0 / feature, (1.0 - self.smoothing * most) / feature]
        return [math.log(1.0 / most - 1.0) / feature] if most < 1.0 else []

    def steps(self) -> list[Step]:
        """One run has the record, the other one `other` in its place."""
        run, found = self.run, []
        eta, noise = run.schedule(0, run.steps)
        steep = self.course().most
        for k in range(run.steps):
            batch, rate = self.batch(k), eta[k] / run.batch_size
            mine = int(batch[0]) if self.used(k) else -1
            features = [self.other if i == mine else float(self.records[i]) for i in batch]
            shrunk = 1.0 - eta[k] * run.loss.l2
            record = float(self.records[mine]) if self.used(k) else 0.0
            other = self.other if self.used(k) else 0.0

            def f(x, features=features, shrunk=shrunk, rate=rate):
                return shrunk * x + rate * sum(self.pull(x, v) for v in features)

            def pull(x, record=record, other=other, rate=rate):
                return rate * (self.pull(x, record) - self.pull(x, other))

            kinks = [b for v in (*features, record) for b in self.breaks(v)]
            # Logistic functions have poles at a distance of π/R.
            sharp = 0.0 if self.smoothing else 0.5 * eta[k] * noise[k] * self.norm
            found.append(Step(f, float(eta[k] * noise[k]), pull, kinks, max(steep[k], sharp)))
        return found

    def course(self) -> Course:
        """What the description says of the record, read here."""
        run, r = self.run, self.norm
        eta, noise = run.schedule(0, run.steps)
        most = self.bound / r
        curvature = 0.25 if self.smoothing is None else 1.0 / self.smoothing
        if run.clipping == "residual" and self.smoothing is None:
            curvature = min(0.25, min(most, 0.5) * (1.0 - min(most, 0.5)))
        share = np.array([len(self.batch(k)) for k in range(run.steps)]) / run.batch_size
        high = 1.0 - eta * run.loss.l2
        s = eta * self.bound / run.batch_size * [self.used(k) for k in range(run.steps)]
        s = s * (1.0 if run.adjacency == "zero_out" else 2.0)
        return one_sided(high - eta * share * curvature * r * r, high, eta * noise, s)


@dataclass(frozen=True)
class Shuffled(Margins):
    """The record is in the batch `places[e]` of epoch e, in exchange for the first one there."""

    places: tuple[int, ...]

    def batch(self, k: int) -> np.ndarray:
        found = super().batch(k)
        if k < self.run.data_steps:
            size, (epoch, j) = self.run.batch_size, divmod(k, self.run.steps_per_epoch)
            place = self.places[epoch]
            swapped = {place: self.position, self.position: place}
            found[0] = swapped.get(j, j) * size
        return found

    def used(self, k: int) -> bool:
        epoch, j = divmod(k, self.run.steps_per_epoch)
        return k < self.run.data_steps and j == self.places[epoch]


def random_margins(rng, adjacency: str) -> Margins:
    """Up to six steps, of which the record has one or more; curvature up to twice what a step may have."""
    size, batches = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    n = size * batches - int(rng.integers(0, size)) * (batches > 1)
    epochs = int(rng.integers(1, max(2, 6 // batches + 1)))
    cool = int(rng.integers(0, 2))
    total = epochs * batches + cool
    norm, eta = float(np.exp(rng.normal(0.0, 0.4))), np.exp(rng.normal(-0.5, 0.6, total))
    if rng.random() < 0.5:
        eta = np.full(total, eta[0])
    l2 = float(rng.choice([0.0, 0.02, 0.2]))
    if rng.random() < 0.6:
        loss = Loss.logistic(norm, l2=l2)
    else:
        loss = Loss.smoothed_hinge(norm, float(np.exp(rng.normal(0.5, 0.6))) * norm**2, l2=l2)
    clip = None if rng.random() < 0.5 else norm * float(rng.uniform(0.2, 1.2))
    bound = norm if clip is None else min(clip, norm)
    run = NoisySGD(
        loss,
        n=n,
        batches=Cyclic(size),
        epochs=epochs,
        step_size=eta,
        noise_std=bound
        / size
        * float(np.exp(rng.normal(0.0, 0.4)))
        * np.exp(rng.normal(0.0, 0.2, total)),
        clip_norm=clip,
        clipping="norm" if clip is None or rng.random() < 0.5 else "residual",
        cooldown_steps=cool,
        adjacency=adjacency,
    )
    position = int(rng.integers(batches))
    records = rng.uniform(-1.0, 1.0, n) * norm * rng.choice([0.0, 0.3, 1.0], n)
    records[position * size] = norm
    other = (
        0.0 if adjacency == "zero_out" else -norm * float(rng.choice([1.0, rng.uniform(-1.0, 1.0)]))
    )
    return Margins(run, position, records, other, float(rng.normal(-1.0, 2.0)) / norm)

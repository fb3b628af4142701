"""The exact truth about noisy SGD on quadratics that forgets records.

Record i has the gradient h_i·x − b_i in every coordinate of its own, so that every step is affine. Forgotten
records have h = 0 (or, under "replace_one", the h of those that take their places), or the training takes a
single step, from 0: then all that they can do is within the sensitivity, wherever the iterates are. The two
sides of the comparison have the same slopes from then on, and for known batches both last iterates are
Gaussians of one variance.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

import pabi
from support.falsification.mixtures import Mixture
from support.falsification.quadratic_runs import KINDS as ALL_KINDS
from support.falsification.quadratic_runs import loss_and_curvatures

KINDS = ALL_KINDS[:4]


@dataclass(frozen=True)
class Forgetting:
    """What is forgotten, the curvatures (n, d) and offsets (n, d) of all records, and after how many of the
    requests each record is withdrawn, (n,): the number of requests for those that stay."""

    unlearning: pabi.Unlearning
    curvature: np.ndarray
    offsets: np.ndarray
    leaves: np.ndarray

    @property
    def withdrawn(self) -> np.ndarray:
        """(t,) how many requests came before each step."""
        steps = [self.unlearning.run.steps, *(k for k, _ in self.unlearning.requests)]
        return np.repeat(np.arange(len(steps)), steps)

    def etas(self) -> np.ndarray:
        return np.broadcast_to(self.unlearning.whole.step_size, self.unlearning.steps)

    def stds(self) -> np.ndarray:
        whole = self.unlearning.whole
        return self.etas() * np.broadcast_to(whole.gradient_noise_std, whole.steps)

    def laws(self, members: np.ndarray, retrained: bool) -> tuple[np.ndarray, np.ndarray]:
        """(means, variances), each (cases, d), of the last iterate; `members`: (cases, t, n) who is in."""
        run, etas, stds = self.unlearning.run, self.etas(), self.stds()
        cases, t, _ = members.shape
        replaced = run.adjacency == "replace_one"
        mean = np.zeros((cases, self.curvature.shape[1]))
        variance = np.zeros_like(mean)
        stays = self.leaves == len(self.unlearning.requests)
        for k in range(t):
            there = stays if retrained else self.leaves >= self.withdrawn[k]
            inside = members[:, k] / run.batch_size
            gone = -1.0 if replaced else 0.0  # another record with the opposite offset, or none
            bends = self.curvature if replaced else self.curvature * there[:, None]
            offsets = self.offsets * np.where(there, 1.0, gone)[:, None]
            a = 1.0 - etas[k] * (run.loss.l2 + inside @ bends)
            mean = a * mean + etas[k] * inside @ offsets
            variance = a * a * variance + stds[k] ** 2
        return mean, variance

    def mu(self) -> float:
        """The μ of a run whose batches are known, less what the roundings of its means may add."""
        members = self.known()[None]
        (one, spread), (other, same) = (self.laws(members, side) for side in (False, True))
        np.testing.assert_allclose(spread, same, rtol=1e-12)
        rounding = 2.0**-52 * self.unlearning.steps * np.maximum(np.abs(one), np.abs(other))
        apart = np.maximum(np.abs(one - other) - rounding, 0.0)
        return float(np.linalg.norm(apart / np.sqrt(spread)))

    def known(self) -> np.ndarray:
        """(t, n) who is in which batch, in order."""
        run = self.unlearning.run
        data = np.arange(self.unlearning.steps)
        batch = np.arange(run.n) // run.batch_size
        inside = batch == (data % run.steps_per_epoch)[:, None]
        inside[run.data_steps : run.steps] = False
        return inside.astype(float)

    def mixtures(self, weights: np.ndarray, members: np.ndarray) -> list[Mixture]:
        """The laws of both sides over a secret, for one coordinate."""
        sides = (self.laws(members, side) for side in (False, True))
        return [Mixture(weights, m[:, 0], np.sqrt(v[:, 0])) for m, v in sides]


def random_forgetting(rng, kind: str, order: str, unit: str = "record") -> Forgetting:
    """`order`: "full" or "cyclic", of known batches. `unit`: "record", or "user", some without records."""
    size = int(rng.integers(1, 5))
    batches = 1 if order == "full" else int(rng.integers(1, 6))
    n = size * batches - (int(rng.integers(0, size)) if batches > 1 and rng.random() < 0.5 else 0)
    adjacency = str(rng.choice(["replace_one", "zero_out"]))
    t = int(rng.integers(1, 4 * batches + 1))
    single = adjacency == "zero_out" and kind == "strongly convex"
    requests = 1 if single or rng.random() < 0.6 else int(rng.integers(1, 4))
    counts = _counts(rng, requests, n)
    pairs = [(int(rng.integers(0, 3 * batches + 2)), m) for m in counts]
    eta = float(np.exp(rng.uniform(-3.0, 1.0)))
    loss, lo, hi = loss_and_curvatures(rng, kind, eta)
    if rng.random() < 0.4:
        loss = loss.with_l2(float(rng.uniform(0.01, 1.5)) / eta)
    t = 1 if single else t
    etas, noises = np.full(t, eta), np.full(t, float(np.exp(rng.uniform(-2.0, 1.5))))
    if rng.random() < 0.5:
        etas = etas * rng.uniform(0.3, 1.0, t)
    if rng.random() < 0.5:
        noises = noises * rng.uniform(0.3, 2.0, t)
    alike = len(set(etas)) == len(set(noises)) == 1
    run = pabi.NoisySGD(
        loss,
        n=n,
        batches=pabi.FullBatch() if order == "full" else pabi.Cyclic(size),
        steps=t,
        step_size=eta if alike else etas,
        noise_std=float(noises[0]) if alike else noises,
        gradient_sensitivity=float(np.exp(rng.uniform(-1.0, 1.5))),
        adjacency=adjacency,
        unit=unit,
    )
    later = None
    if rng.random() < 0.3 and sum(k for k, _ in pairs):
        later = eta * rng.uniform(0.3, 1.0, sum(k for k, _ in pairs))
    unlearning = pabi.Unlearning(run, pairs, step_size=later)
    return _on_quadratics(rng, unlearning, lo, hi, bent=single)


def _counts(rng, requests: int, n: int) -> list[int]:
    """How many records each request withdraws, n in all at most."""
    counts = [1 + int(rng.integers(0, 2)) for _ in range(min(requests, n))]
    while sum(counts) > n:
        counts[int(np.argmax(counts))] -= 1
    return counts


def _on_quadratics(rng, unlearning, lo: float, hi: float, bent: bool) -> Forgetting:
    """Random curvatures, mostly at their ends; `bent`: those of forgotten records as well."""
    run, d = unlearning.run, int(rng.integers(1, 3))
    ends = rng.choice([lo, hi], (run.n, d))
    curvature = np.where(rng.random((run.n, d)) < 0.7, ends, rng.uniform(lo, hi, (run.n, d)))
    if rng.random() < 0.5:
        curvature = np.tile(curvature[:1], (run.n, 1))
    if run.unit == "user":
        curvature = np.where(rng.random((run.n, 1)) < 0.3, 0.0, curvature)  # without records
    leaves = _leaving(rng, unlearning)
    gone = leaves < len(unlearning.requests)
    if run.adjacency == "zero_out" and not bent:
        curvature = np.where(gone[:, None], 0.0, curvature)
    direction = rng.normal(size=d)
    half = 2.0 if run.adjacency == "replace_one" else 1.0
    offset = direction / np.linalg.norm(direction) * run.gradient_sensitivity / half
    return Forgetting(unlearning, curvature, np.where(gone[:, None], offset, 0.0), leaves)


def _leaving(rng, unlearning) -> np.ndarray:
    """After which request each record is withdrawn: in a row, so that they share batches, or anywhere."""
    run, count = unlearning.run, len(unlearning.requests)
    which = np.repeat(np.arange(count), [m for _, m in unlearning.requests])
    first = int(rng.integers(0, run.n - len(which) + 1))
    places = np.arange(first, first + len(which))
    if rng.random() < 0.3:
        places = rng.permutation(run.n)[: len(which)]
    leaves = np.full(run.n, count)
    leaves[places] = which
    return leaves


# Secret orders and random batches, over all that can be.

STATED = "poisson, stated"  # with a probability beside the divisor
# Some records in no batch, and bins that are drawn anew in every epoch.
SPARED = ("shuffle once, spare", "reshuffle, spare")
REDRAWN = "balls in bins, redrawn"
SECRET = ("shuffle once", "reshuffle", "balls in bins", "fixed size", "poisson", STATED)
SECRET += (*SPARED, REDRAWN)


def random_secret(rng, order: str) -> tuple[Forgetting, np.ndarray, np.ndarray]:
    """A case with the weights and the members of everything that its batches can be."""
    fresh = order in ("fixed size", "poisson", STATED)
    n, size = (int(rng.integers(3, 5)), 2) if fresh else (int(rng.integers(3, 6)), 2)
    n = min(n, 4) if order == REDRAWN else n  # in every epoch each is anywhere
    spare = int(rng.integers(1, n - size + 1)) if order in SPARED else 0
    per_epoch = -(-(n - spare) // size)
    t = int(rng.integers(1, 3 if fresh else 2 * per_epoch + 1))
    later = int(rng.integers(0, 2 if fresh else per_epoch + 1))
    eta, m = float(np.exp(rng.uniform(-2.0, 0.0))), int(rng.integers(1, 3))
    m = min(m, n - size) if order == "fixed size" else m
    p = float(rng.uniform(0.1, 0.9)) if order == STATED else size / n
    top = float(rng.uniform(0.05, 2.0)) / eta
    schemes = {
        "shuffle once": pabi.ShuffleOnce(size),
        "reshuffle": pabi.Reshuffle(size),
        "balls in bins": pabi.BallsInBins(size),
        SPARED[0]: pabi.ShuffleOnce(size, spare),
        SPARED[1]: pabi.Reshuffle(size, spare),
        REDRAWN: pabi.BallsInBins(size, redraw="epoch"),
        "fixed size": pabi.FixedSize(size),
        "poisson": pabi.Poisson(size),
        STATED: pabi.Poisson(size, probability=p),
    }
    clip = float(np.exp(rng.uniform(-1.0, 1.0)))
    run = pabi.NoisySGD(
        pabi.Loss.convex(top, gradient_bound=clip),
        n=n,
        batches=schemes[order],
        steps=t,
        step_size=eta * (rng.uniform(0.3, 1.0, t) if rng.random() < 0.3 else 1.0),
        noise_std=float(np.exp(rng.uniform(-2.0, 1.0))),
        adjacency="zero_out",
    )
    unlearning = pabi.Unlearning(run, [(later, m)])
    leaves = np.where(np.arange(n) < m, 0, 1)
    curvature = np.where(leaves[:, None] == 0, 0.0, float(rng.choice([0.0, top])))
    offsets = np.where(leaves[:, None] == 0, clip, 0.0)
    case = Forgetting(unlearning, np.broadcast_to(curvature, (n, 1)), offsets, leaves)
    return case, *_members(order, n, size, t + later, p=p, spare=spare)


def _members(
    order: str, n: int, size: int, t: int, *, p: float, spare: int
) -> tuple[np.ndarray, np.ndarray]:
    per_epoch = -(-(n - spare) // size)
    match order:
        case "balls in bins" | "balls in bins, redrawn":
            one = np.array(list(itertools.product(range(per_epoch), repeat=n)))
        case "shuffle once" | "reshuffle" | "shuffle once, spare" | "reshuffle, spare":
            places = np.where(np.arange(n) < n - spare, np.arange(n) // size, -1)
            one = np.array(sorted(set(itertools.permutations(places.tolist()))))
        case "fixed size":
            rows = [np.isin(np.arange(n), c) for c in itertools.combinations(range(n), size)]
            return _independent(np.full(len(rows), 1.0 / len(rows)), np.array(rows), t)
        case _:
            rows = list(itertools.product((0, 1), repeat=n))
            weights = [math.prod(p if x else 1.0 - p for x in row) for row in rows]
            return _independent(np.array(weights), np.array(rows), t)
    if order in ("reshuffle", "reshuffle, spare", REDRAWN):
        epochs = -(-t // per_epoch)
        ways = np.array(list(itertools.product(range(len(one)), repeat=epochs)))
        batch = one[ways]  # (cases, epochs, n)
        steps = np.arange(t)
        inside = batch[:, steps // per_epoch] == (steps % per_epoch)[None, :, None]
        return np.full(len(inside), 1.0 / len(inside)), inside.astype(float)
    inside = one[:, None, :] == (np.arange(t) % per_epoch)[None, :, None]
    return np.full(len(inside), 1.0 / len(inside)), inside.astype(float)


def _independent(weights, rows, t: int) -> tuple[np.ndarray, np.ndarray]:
    """All sequences of t independent draws."""
    ways = np.array(list(itertools.product(range(len(rows)), repeat=t)))
    return weights[ways].prod(axis=1), rows[ways].astype(float)

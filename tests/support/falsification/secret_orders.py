"""The exact truth about noisy SGD on quadratics whose batches are secret, over all that the batches can be.

Record i has the gradient h_i·x − b_i at the number x; record 0 is the one in question, and the adjacent data
set has another b_0 in its place. Given who is in which step the last iterate is a Gaussian, over the secret
it is a mixture. Who is in which step is a table of members (cases, steps, n), with weights:

`thrown`      every record into one of l bins, at random, once; the bins are visited cyclically;
`reshuffled`  the batches of a fresh permutation every epoch.

A bin with more than `cap` records is treated by a `rule`: "empty", it has none; "uncounted", as "empty" but
record 0 does not count.

`claimed_of_bins` and `claimed_of_latest_uses` are the bounds that the truth is held against, written from
their statements: an average of normal forms, each solved by the library as an iteration of its own.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from pabi import Loss, NoisyIteration, NoisySGD
from support.falsification.mixtures import Mixture, hockey_sticks

Members = tuple[np.ndarray, np.ndarray]  # (cases,) weights, (cases, steps, n) who is in


def thrown(n: int, bins: int, steps: int, cap: int | None = None, rule: str = "empty") -> Members:
    """All ways for `n` records to fall into the bins, over `steps` steps."""
    fallen = np.array(list(itertools.product(range(bins), repeat=n)))
    inside = fallen[:, None, :] == np.arange(bins)[:, None]  # (cases, bins, n)
    weights = np.full(len(inside), float(bins) ** -n)
    if cap is not None:
        counts = inside[:, :, 1:] if rule == "uncounted" else inside
        over = counts.sum(axis=2) > cap
        inside = inside & ~over[:, :, None]
    return weights, inside[:, np.arange(steps) % bins]


def reshuffled(n: int, size: int, steps: int, alike: bool = False) -> Members:
    """All sequences of batches of fresh permutations. `alike`: the others are, so that only the place of
    record 0 is told apart."""
    bins = -(-n // size)
    sizes = [min(size, n - j * size) for j in range(bins)]
    if alike:
        one = [_with_record_in(j, sizes, n) for j in range(bins)]
        weights = np.array(sizes) / n
    else:
        one = sorted(_partitions(n, sizes), key=lambda case: case.tolist())
        weights = np.full(len(one), 1.0 / len(one))
    epochs = -(-steps // bins)
    chosen = list(itertools.product(range(len(one)), repeat=epochs))
    members = np.array([np.concatenate([one[i] for i in each])[:steps] for each in chosen])
    return np.array([math.prod(weights[list(each)]) for each in chosen]), members


def _with_record_in(place: int, sizes: list[int], n: int) -> np.ndarray:
    rows, at = np.zeros((len(sizes), n), dtype=bool), 1
    for j, size in enumerate(sizes):
        rest = size - (j == place)
        rows[j, at : at + rest] = True
        at += rest
    rows[place, 0] = True
    return rows


def _partitions(n: int, sizes: list[int]) -> list[np.ndarray]:
    cuts, found = np.cumsum(sizes)[:-1], {}
    for order in itertools.permutations(range(n)):
        parts = [np.isin(np.arange(n), part) for part in np.split(np.array(order), cuts)]
        found[np.array(parts).tobytes()] = np.array(parts)
    return list(found.values())


@dataclass(frozen=True)
class Quadratics:
    """The records and the run.

    `curvature`, `pull`: (n,) h and b; `other`: b_0 of the adjacent data set. `eta`, `noise`: (t,) step sizes
    and standard deviations of the noise on the gradient, cool-down included; `bounds`: the curvature
    [lo, hi] that every record is told to have; `cap`: of the bins.
    """

    curvature: np.ndarray
    pull: np.ndarray
    other: float
    size: int
    eta: np.ndarray
    noise: np.ndarray
    bounds: tuple[float, float]
    l2: float = 0.0
    cooldown: int = 0
    cap: int | None = None
    zero_out: bool = False
    start: float = 0.0

    @property
    def n(self) -> int:
        return len(self.pull)

    @property
    def bins(self) -> int:
        return -(-self.n // self.size)

    @property
    def data_steps(self) -> int:
        return len(self.eta) - self.cooldown

    @property
    def sensitivity(self) -> float:
        return abs(self.pull[0] - self.other)

    def law(self, members: Members, other: bool) -> Mixture:
        """The last law on the first data set, or on the `other`."""
        weights, inside = members
        pull = self.pull.copy()
        if other:
            pull[0] = self.other
        mean, variance = np.full(len(weights), float(self.start)), np.zeros(len(weights))
        for k, (eta, noise) in enumerate(zip(self.eta, self.noise, strict=True)):
            h = b = 0.0
            if k < self.data_steps:
                h, b = inside[:, k] @ self.curvature, inside[:, k] @ pull
            slope = 1.0 - eta * (h / self.size + self.l2)
            mean = slope * mean + eta * b / self.size
            variance = slope**2 * variance + (eta * noise) ** 2
        return Mixture(weights, mean, np.sqrt(variance))

    def truth(self, members: Members, epsilons, others: Members | None = None) -> np.ndarray:
        """(len(epsilons),) the larger δ of both orders; `others`: who is in on the other data set, where
        that is not the same."""
        laws = self.law(members, False), self.law(others or members, True)
        return hockey_sticks(*laws, epsilons).max(axis=0)

    def run(self, batches) -> NoisySGD:
        """The description that the accountant gets."""
        lo, hi = self.bounds
        same = len(set(self.eta)) == len(set(self.noise)) == 1
        return NoisySGD(
            Loss.weakly_convex(-lo, hi, self.l2) if lo < 0.0 else _convex(lo, hi, self.l2),
            n=self.n,
            batches=batches,
            steps=len(self.eta),
            step_size=float(self.eta[0]) if same else self.eta,
            noise_std=float(self.noise[0]) if same else self.noise,
            gradient_sensitivity=self.sensitivity,
            adjacency="zero_out" if self.zero_out else "replace_one",
            cooldown_steps=self.cooldown,
        )

    def slopes(self, records: list[tuple[int, ...]]) -> np.ndarray:
        """(t,) the largest |1 − η(λ + f·h)| over h in `bounds` and the numbers of records that each step may
        hold; the cool-down holds none."""
        found = []
        for k, eta in enumerate(self.eta):
            held = records[k] if k < self.data_steps else (0,)
            found.append(
                max(
                    abs(1.0 - eta * (self.l2 + m / self.size * h))
                    for m in held
                    for h in self.bounds
                )
            )
        return np.array(found)

    def uses(self, steps) -> np.ndarray:
        """(t,) s_k of a record that is used in these steps."""
        used = np.isin(np.arange(len(self.eta)), list(steps))
        return np.where(used, self.eta * self.sensitivity / self.size, 0.0)


def _convex(lo: float, hi: float, l2: float) -> Loss:
    return Loss.strongly_convex(lo, hi, l2) if lo > 0.0 else Loss.convex(hi, l2)


# The bounds, from their statements.


@dataclass(frozen=True)
class Averaged:
    """Σ w_i·δ_{G(μ_i)}(ε)."""

    weights: tuple[float, ...]
    parts: tuple

    def delta(self, epsilon: float) -> float:
        return math.fsum(
            w * p.delta(epsilon) for w, p in zip(self.weights, self.parts, strict=True)
        )


def _solved(c, s, sigma):
    return NoisyIteration(contraction=c, step_sensitivity=s, step_noise_std=sigma).guarantee(1e-3)


def claimed_of_bins(found: Quadratics, sizes: tuple[int, ...] | None = None) -> Averaged:
    """Every bin is equally likely, and slopes hold for every number of records in 0..cap; `sizes`: for these
    only, which proves less."""
    held = sizes or tuple(range(1 + min(found.n, found.cap or found.n)))
    c, sigma = found.slopes([held] * found.data_steps), found.eta * found.noise
    steps, bins = np.arange(found.data_steps), found.bins
    parts = [_solved(c, found.uses(steps[steps % bins == j]), sigma) for j in range(bins)]
    return Averaged((1.0 / bins,) * bins, tuple(parts))


def claimed_of_latest_uses(found: Quadratics, grown: bool = True) -> Averaged:
    """The average over the places in the last two epochs; in older ones the record is used in the last step,
    with sensitivity max_i s_i·Π_{i<k≤end} c_k. Not `grown`: with that of the last step, which proves less."""
    bins, t = found.bins, found.data_steps
    sizes = [min(found.size, found.n - j * found.size) for j in range(bins)]
    c = found.slopes([(sizes[k % bins],) for k in range(t)])
    s, sigma = found.uses(range(t)), found.eta * found.noise
    epochs = [range(a, min(a + bins, t)) for a in range(0, t, bins)]
    older = np.zeros_like(s)
    for epoch in epochs[:-2]:
        end = epoch[-1]
        moved = [s[i] * math.prod(c[i + 1 : end + 1]) for i in epoch]
        older[end] = max(moved) if grown else s[end]
    weights, parts = [], []
    for places in itertools.product(range(bins), repeat=len(epochs[-2:])):
        own = older.copy()
        for epoch, j in zip(epochs[-2:], places, strict=True):
            if j < len(epoch):
                own[epoch[j]] = s[epoch[j]]
        weights.append(math.prod(sizes[j] / found.n for j in places))
        parts.append(_solved(c, own, sigma))
    return Averaged(tuple(weights), tuple(parts))


# Instances.


def random_quadratics(rng, epochs: int, most_records: int, kind: str) -> Quadratics:
    """`kind`: "alike", the others have one curvature and no pull; "mixed"; "telling", where pulls tell all
    batches apart."""
    n = int(rng.integers(2, most_records + 1))
    size = int(rng.integers(1, n + 1)) if rng.random() < 0.3 else int(rng.integers(1, (n + 3) // 2))
    bins = -(-n // size)
    data = bins * int(rng.integers(1, epochs + 1)) - int(rng.integers(0, bins))
    cooldown = int(rng.integers(1, 4)) if rng.random() < 0.3 else 0
    t = data + cooldown
    eta = float(np.exp(rng.uniform(-2.0, 0.5)))
    top = float(np.exp(rng.uniform(np.log(0.05), np.log(2.5)))) / eta
    lo = top * float(rng.choice([0.0, 0.0, -0.5, -1.0, rng.uniform(0.05, 1.0)]))
    etas, noises = np.full(t, eta), np.full(t, float(np.exp(rng.uniform(-2.0, 1.0))))
    shape = rng.choice(["constant", "varied", "falling", "rising"])
    if shape != "constant":
        etas = etas * rng.uniform(0.3, 1.0, t)
        noises = noises * rng.uniform(0.5, 1.5, t)
    if shape in ("falling", "rising"):
        etas = np.sort(etas)[:: -1 if shape == "falling" else 1].copy()
    zero_out = bool(rng.random() < 0.5)
    curvature = rng.choice([lo, top, rng.uniform(lo, top)], n)
    pull = rng.normal(0.0, 2.0, n)
    if kind == "alike":
        curvature[:], pull[1:] = curvature[0], 0.0
    elif kind == "telling":
        pull = float(noises[0]) * size * 30.0 * np.arange(1.0, n + 1.0) ** 1.5
    sensitivity = size * float(noises[0]) * float(np.exp(rng.uniform(-1.5, 1.2)))
    if zero_out:
        # Of a zeroed record, only a linear loss has a bounded gradient: it pulls by the sensitivity.
        curvature[0], pull[0] = 0.0, sensitivity
    lo = min(lo, 0.0) if zero_out else lo
    return Quadratics(
        curvature,
        pull,
        0.0 if zero_out else pull[0] - sensitivity,
        size,
        etas,
        noises,
        (lo, top),
        l2=float(rng.uniform(0.01, 0.8)) / eta if rng.random() < 0.4 else 0.0,
        cooldown=cooldown,
        zero_out=zero_out,
    )


def with_cap(rng, found: Quadratics) -> Quadratics:
    """The same with a cap, mostly one that bites."""
    return replace(found, cap=int(rng.integers(found.size, found.n + 1)))

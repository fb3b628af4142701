"""The exact truth about noisy SGD with random batches, in one dimension.

The iterate is a number. All records but one are of at most two kinds, so a batch is described by how
many records of each kind it holds and whether the special record is among them, and one step

    X ← Π(X − η((1/b)·Σ_{i in batch} g_i(X) + λX) + ης·N(0, 1)),    Π the projection on [−D/2, D/2],

is a finite mixture of Gaussians about images of X. What is exact: the probabilities of the batches
(`batch_law`), the law of X_t given that of X_{t−1} (`Gaussians`), the atoms at the ends of the interval,
and the probability of every event. What is approximated: the law of X_1, …, X_{t−1} between the ends, by
composite Gauss–Legendre nodes that break where a gradient has a kink; `hockey_stick` estimates that error
from two node counts. The event that it settles on may be less than optimal, which can only make
the truth smaller.

Nothing here comes from the library's accountant; `Instance.run` describes the same thing to it.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom, hypergeom

from pabi import FixedSize, Loss, NoisySGD, Poisson

# Gradients of one record: functions of a number. `kinks`: where they are not smooth; `steepest`: their
# largest |slope|; `scale`: a length over which they are nearly polynomials elsewhere.


@dataclass(frozen=True)
class Constant:
    """A linear loss."""

    value: float
    kinks, steepest, scale = (), 0.0, math.inf

    def __call__(self, x):
        return np.full_like(x, self.value)


@dataclass(frozen=True)
class Line:
    """A quadratic loss, its gradient clipped at `bound`: curvature `slope` inside the clip, else 0."""

    slope: float
    zero: float
    bound: float = math.inf
    scale = math.inf

    @property
    def steepest(self):
        return abs(self.slope)

    @property
    def kinks(self):
        if self.slope == 0.0 or math.isinf(self.bound):
            return ()
        reach = self.bound / abs(self.slope)
        return (self.zero - reach, self.zero + reach)

    def __call__(self, x):
        return np.clip(self.slope * (x - self.zero), -self.bound, self.bound)


@dataclass(frozen=True)
class Sigmoid:
    """A logistic loss: gradient height·tanh(steepness·(x − centre)), slope ≤ height·steepness."""

    height: float
    steepness: float
    centre: float
    kinks = ()

    @property
    def steepest(self):
        return abs(self.height * self.steepness)

    @property
    def scale(self):
        return 1.0 / self.steepness

    def __call__(self, x):
        return self.height * np.tanh(self.steepness * (x - self.centre))


ZERO = Constant(0.0)


class Adjacent:
    """What follows of two adjacent data sets from the `other` record, and from the walls."""

    @property
    def half(self) -> float:
        """D/2, ∞ without a projection."""
        return math.inf if self.diameter is None else self.diameter / 2

    @property
    def adjacency(self) -> str:
        return "zero_out" if self.other is ZERO else "replace_one"


class Records(Adjacent):
    """And how many records there are, if all but one are of a few kinds."""

    @property
    def n(self) -> int:
        return 1 + sum(count for _, count in self.base)


@dataclass(frozen=True)
class Instance(Records):
    """Two adjacent data sets and the run that is made on each.

    `base`: (gradient, number of records) of each kind; `record` and `other`: the special record in the
    two data sets, `other` being ZERO under zero_out. `eta`, `noise`: (t,) step sizes and standard
    deviations of the noise on the gradient, cool-down included. `loss`: a true description of
    every record, the zeroed one excepted; `clip`: the clip norm that the gradients have gone through.
    """

    base: tuple
    record: object
    other: object
    batches: FixedSize | Poisson
    eta: tuple
    noise: tuple
    loss: Loss
    clip: float | None = None
    diameter: float | None = None
    start: float = 0.0
    cooldown: int = 0

    @property
    def run(self) -> NoisySGD:
        """The description that the accountant gets."""
        return described(self, self.batches, n=self.n, adjacency=self.adjacency)


def described(found, batches, **more) -> NoisySGD:
    """What the accountant gets of an instance, its schedule as numbers where that is possible."""
    alike = len(set(found.eta)) == len(set(found.noise)) == 1
    eta, noise = (np.array(x) for x in (found.eta, found.noise))
    return NoisySGD(
        found.loss,
        batches=batches,
        steps=len(eta),
        step_size=found.eta[0] if alike else eta,
        noise_std=found.noise[0] if alike else noise,
        clip_norm=found.clip,
        diameter=found.diameter,
        cooldown_steps=found.cooldown,
        **more,
    )


NEGLIGIBLE = 1e-14  # weights below it are dropped; `hockey_stick` counts what that amounts to

# Batches.


def batch_law(instance: Instance, rule: str = "empty") -> list[tuple[float, tuple[int, ...], int]]:
    """[(probability, records of each kind, 1 if the special record is in, else 0)] of one batch.

    `rule`: what happens to a Poisson batch above the cap. "empty": it is replaced by an empty one, as the
    library does. "truncate": a uniformly random part of `cap` records is kept, as it must not.
    "uncounted": as "empty", but the special record does not count towards the cap.
    """
    counts = [count for _, count in instance.base]
    b, n = instance.batches.size, instance.n
    found: dict[tuple[tuple[int, ...], int], float] = {}
    drawn: Iterator
    if isinstance(instance.batches, FixedSize):
        drawn = (
            (b / n * q if v else (1 - b / n) * q, kinds, v)
            for v in (0, 1)
            for q, kinds in _without_replacement(counts, b - v)
        )
    else:
        drawn = _poisson(counts, b / n, instance.batches.cap or n, rule)
    for q, kinds, v in drawn:
        if q > NEGLIGIBLE:
            found[kinds, v] = found.get((kinds, v), 0.0) + q
    return [(q, kinds, v) for (kinds, v), q in found.items()]


def _without_replacement(counts: list[int], size: int) -> Iterator:
    """(probability, records of each kind) of `size` of all the records counted."""
    if not 0 <= size <= sum(counts):
        return
    if len(counts) < 2:
        yield 1.0, (size,) * len(counts)
        return
    for k in range(size + 1):
        yield hypergeom.pmf(k, sum(counts), counts[0], size), (k, size - k)


def _poisson(counts: list[int], p: float, cap: int, rule: str) -> Iterator:
    for kinds in itertools.product(*(range(m + 1) for m in counts)):
        drawn = math.prod(binom.pmf(k, m, p) for k, m in zip(kinds, counts, strict=True))
        for v in (0, 1):
            q = drawn * (p if v else 1 - p)
            size = sum(kinds) + (v if rule != "uncounted" else 0)
            if size <= cap:
                yield q, kinds, v
            elif rule == "truncate":
                for w in range(v + 1):
                    kept = cap / size if w else 1 - cap / size
                    for part, left in _without_replacement(list(kinds), cap - w):
                        yield q * part * (kept if v else 1.0), left, w
            else:
                yield q, (0,) * len(counts), 0


# Laws.


@dataclass(frozen=True)
class Gaussians:
    """A finite mixture of Gaussians of one standard deviation: (m,) weights and means."""

    weights: np.ndarray
    means: np.ndarray
    std: float

    def pdf(self, y):
        z = (np.asarray(y)[:, None] - self.means) / self.std
        return np.exp(-0.5 * z * z) @ self.weights / (self.std * math.sqrt(2 * math.pi))

    def cdf(self, y):
        return ndtr((np.asarray(y)[:, None] - self.means) / self.std) @ self.weights

    def range(self) -> tuple[float, float]:
        """An interval that holds all but 1e-14 of the mass."""
        return self.means.min() - 7.7 * self.std, self.means.max() + 7.7 * self.std


def last_law(instance: Instance, record, nodes: int, rule: str = "empty") -> Gaussians:
    """The law of X_t before the last projection, on the data set with this special record.

    `nodes`: Gauss–Legendre nodes a panel.
    """
    gradients = [g for g, _ in instance.base]
    kinks = sorted({kink for g in (*gradients, record) for kink in g.kinks})
    scale = min(g.scale for g in (*gradients, record))
    b, l2, data = instance.batches.size, instance.loss.l2, len(instance.eta) - instance.cooldown
    empty = [(1.0, (0,) * len(gradients), 0)]
    drawn = batch_law(instance, rule)
    x, mass = np.array([instance.start]), np.ones(1)
    before = None
    for k, (eta, noise) in enumerate(zip(instance.eta, instance.noise, strict=True)):
        law = drawn if k < data else empty
        if before is not None:
            # Batches too rare to matter do not make the panels narrow.
            slopes = [
                v * record.steepest
                + sum(c * g.steepest for c, g in zip(kinds, gradients, strict=True))
                for q, kinds, v in law
                if q > 1e-7
            ]
            stretch = max(
                1.0, 1.0 + eta * (max(slopes) / b - l2), eta * (max(slopes) / b + l2) - 1.0
            )
            panel = min(2.0 * before.std, 2.0 * eta * noise / stretch, scale)
            x, mass = _nodes(before, instance.half, kinks, panel, nodes)
        values = [g(x) for g in gradients]
        weights, means = [], []
        for q, kinds, v in law:
            pull = v * record(x) + sum(c * g for c, g in zip(kinds, values, strict=True))
            weights.append(q * mass)
            means.append(x - eta * (pull / b + l2 * x))
        weights, means = np.concatenate(weights), np.concatenate(means)
        kept = weights > NEGLIGIBLE
        before = Gaussians(weights[kept], means[kept], eta * noise)
    return before


def _nodes(before: Gaussians, half: float, kinks: list[float], panel: float, nodes: int):
    """(points, masses): `before` projected on [−half, half], atoms at the ends included.

    `panel`: the longest interval that gets one Gauss–Legendre rule.
    """
    lo, hi = before.range()
    lo, hi = max(lo, -half), min(hi, half)
    breaks = [lo, *(kink for kink in kinks if lo < kink < hi), hi]
    edges = [
        np.linspace(a, b, 1 + max(1, math.ceil((b - a) / panel)))[:-1]
        for a, b in itertools.pairwise(breaks)
        if b > a
    ]
    points, masses = [], []
    if edges:
        edges = np.append(np.concatenate(edges), hi)
        at, weight = np.polynomial.legendre.leggauss(nodes)
        width = np.diff(edges)[:, None]
        inside = (edges[:-1, None] + width * (at + 1) / 2).ravel()
        points.append(inside)
        masses.append((width * weight / 2).ravel() * before.pdf(inside))
    if math.isfinite(half):
        ends = np.array([-half, half])
        below = before.cdf(ends)
        points.append(ends)
        masses.append(np.array([below[0], before.weights.sum() - below[1]]))
    return np.concatenate(points), np.concatenate(masses)


def divergences(p: Gaussians, q: Gaussians, epsilons, half: float) -> np.ndarray:
    """(2, len(epsilons)) δ(P‖Q) and δ(Q‖P), P and Q being p and q projected on [−half, half].

    Each is P(A) − e^ε·Q(A) for one event A, a union of intervals and ends: never above the truth, and
    equal to it where a grid of steps of a tenth of a standard deviation shows all crossings.
    """
    lo = max(min(p.range()[0], q.range()[0]), -half)
    hi = min(max(p.range()[1], q.range()[1]), half)
    grid = np.linspace(lo, hi, 2 + math.ceil((hi - lo) / (0.1 * p.std))) if hi > lo else None
    found = np.zeros((2, len(epsilons)))
    ends = [(-math.inf, -half), (half, math.inf)] if math.isfinite(half) else []
    atoms = np.array([[law.cdf([a])[0], law.cdf([b])[0]] for law in (p, q) for a, b in ends])
    atoms = np.diff(atoms).reshape(2, -1) if ends else np.zeros((2, 0))
    if grid is not None:
        densities = p.pdf(grid), q.pdf(grid)
    for order in (0, 1):
        first, second = (p, q) if order == 0 else (q, p)
        for i, epsilon in enumerate(epsilons):
            factor = math.exp(epsilon)
            here, there = atoms[order], atoms[1 - order]
            found[order, i] = np.maximum(here - factor * there, 0.0).sum()
            if grid is None:
                continue
            above = densities[order] > factor * densities[1 - order]
            turns = np.flatnonzero(above[1:] != above[:-1])
            edges = _cross(first, second, factor, grid[turns], grid[turns + 1], above[turns])
            edges = np.concatenate([grid[:1], edges, grid[-1:]])
            inside = np.diff(first.cdf(edges)) - factor * np.diff(second.cdf(edges))
            found[order, i] += np.maximum(inside, 0.0).sum()
    return found


def _cross(p, q, factor, left, right, above):
    """Where p − factor·q changes sign in each [left, right], `above` its sign at the left."""
    left, right = left.copy(), right.copy()
    for _ in range(14 if left.size else 0):  # the loss is of the second order in what is left
        middle = (left + right) / 2
        same = (p.pdf(middle) > factor * q.pdf(middle)) == above
        left, right = np.where(same, middle, left), np.where(same, right, middle)
    return (left + right) / 2


NODES = (7, 10)


def hockey_stick(
    instance: Instance, epsilons, rules=("empty", "empty")
) -> tuple[np.ndarray, float]:
    """((2, len(epsilons)) δ(ε) of the two data sets in both orders, an estimate of its error).

    Row 0 has the data set with `record` first, row 1 the one with `other`; `rules` are theirs.
    """
    return with_error(
        lambda nodes: (
            last_law(instance, instance.record, nodes, rules[0]),
            last_law(instance, instance.other, nodes, rules[1]),
        ),
        epsilons,
        instance.half,
    )


def with_error(laws, epsilons, half: float) -> tuple[np.ndarray, float]:
    """The divergences of `laws(nodes)`, and ten times what they differ by between two node counts, what the
    missing mass could change, and a few roundings of masses near 1."""
    found, missing = [], 0.0
    for nodes in NODES:
        p, q = laws(nodes)
        found.append(divergences(p, q, epsilons, half))
        missing = max(abs(1.0 - p.weights.sum()), abs(1.0 - q.weights.sum()))
    coarse, fine = found
    size = 1.0 + math.exp(max(epsilons))
    return fine, 10.0 * float(np.abs(fine - coarse).max()) + size * (missing + 2.0**-50)


# Instances.


def _loguniform(rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _either(rng, *values: float) -> float:
    return float(rng.choice(values))


def _gradient(rng, lo: float, hi: float, bound: float, width: float):
    """A gradient of norm ≤ `bound` and curvature in [lo, hi] ∋ 0, extreme ones preferred."""
    size = bound if rng.random() < 0.8 else rng.uniform(0.1, 1.0) * bound
    slope = _either(rng, lo, hi, hi, rng.uniform(lo, hi))
    kind = rng.choice(["constant", "line", "sigmoid"], p=[0.45, 0.4, 0.15])
    if kind == "constant" or slope == 0.0:
        return Constant(_either(rng, -size, size))
    if kind == "line" or abs(slope) * width > 3.0 * bound:  # a sigmoid too steep for wide panels
        return Line(slope, rng.uniform(-width, width), size)
    return Sigmoid(math.copysign(bound, slope), abs(slope) / bound, rng.uniform(-width, width))


def _opposite(gradient):
    """A gradient of the same bound and curvature that pulls the other way from the origin."""
    if isinstance(gradient, Constant):
        return Constant(-gradient.value)
    if isinstance(gradient, Line):
        return replace(gradient, zero=-gradient.zero)
    return replace(gradient, centre=-gradient.centre)


def random_instance(rng, sampler: str, adjacency: str, projected: bool) -> Instance:
    """An instance within the assumptions; `sampler` is "fixed_size" or "poisson"."""
    rare = rng.random() < 0.2  # a small sampling probability needs many records
    n = int(rng.integers(10, 21)) if rare else int(rng.integers(2, 7))
    b = 1 if rare else int(rng.integers(1, n + 1))
    t = int(rng.integers(1, 5 if rare else 9))
    sharpness = _loguniform(rng, 0.15, 5.0)  # 2C/(bς)
    top = _loguniform(rng, 0.1, 2.0)
    low = top * rng.uniform(0.05, 1.0)
    eta = _loguniform(rng, 0.05, 0.4 if rare else 2.1) / top
    clipped = bool(rng.random() < 0.4)

    name = str(rng.choice(["convex", "nonconvex", "weakly", "strongly"], p=[0.5, 0.15, 0.1, 0.25]))
    unclipped_strongly = name == "strongly" and projected and not clipped
    if unclipped_strongly:
        # Only a bounded range bounds the gradients of quadratics with minima in it.
        diameter = _loguniform(rng, 0.3, 3.0)
        bound, width = top * diameter, diameter / 2
        noise = 2.0 * bound / (b * sharpness)
    else:
        bound = _either(rng, 0.5, 1.0, 2.0)
        noise = 2.0 * bound / (b * sharpness)
        diameter = eta * noise * _loguniform(rng, 0.5, 15.0)
        width = diameter / 2 if projected else eta * (noise + bound)
    if name == "strongly" and not projected:
        clipped = True
    facts = {"glm": True} if clipped else {"gradient_bound": bound}
    loss, lo, hi = {
        "convex": (Loss.convex(top, **facts), 0.0, top),
        "nonconvex": (Loss.nonconvex(top, **facts), -top, top),
        "weakly": (Loss.weakly_convex(low, top, **facts), -low, top),
        "strongly": (Loss.strongly_convex(low, top, **facts), low, top),
    }[name]

    def draw():
        if unclipped_strongly:
            return Line(_either(rng, low, top, rng.uniform(low, top)), _either(rng, -width, width))
        if name == "strongly":
            return Line(_either(rng, low, top), rng.uniform(-3.0, 3.0) * bound / low, bound)
        return _gradient(rng, lo, hi, bound, width)

    record = draw()
    first = _opposite(record) if rng.random() < 0.5 else draw()
    if rare or rng.random() < 0.5:
        base = ((first, n - 1),)
    else:
        count = int(rng.integers(0, n))
        base = ((first, count), (draw(), n - 1 - count))
    other = ZERO
    if adjacency == "replace_one":
        other = _opposite(record) if rng.random() < 0.6 else draw()
    if sampler == "fixed_size":
        batches = FixedSize(b)
    else:
        batches = Poisson(b, cap=None if rng.random() < 0.4 else int(rng.integers(b, n + 1)))
    if rng.random() < 0.5:
        loss = loss.with_l2(_loguniform(rng, 0.01, 1.2) / eta)
    varied = 0.3 if rng.random() < 0.3 else 0.0
    return Instance(
        base,
        record,
        other,
        batches,
        tuple((eta * (1.0 + varied * rng.uniform(-1.0, 1.0, t))).tolist()),
        tuple((noise * (1.0 + varied * rng.uniform(-1.0, 1.0, t))).tolist()),
        loss,
        clip=bound if clipped else None,
        diameter=diameter if projected else None,
        start=float(rng.uniform(-width, width)) if rng.random() < 0.5 else 0.0,
        cooldown=int(rng.integers(0, t)) if rng.random() < 0.3 else 0,
    )


def long_instance(rng, sampler: str, adjacency: str) -> Instance:
    """An instance of many equal steps that contract: where shifts are worth more than composition."""
    short = random_instance(rng, sampler, adjacency, bool(rng.random() < 0.5))
    eta, noise, t = short.eta[0], short.noise[0], int(rng.integers(20, 80))
    return replace(
        short,
        eta=(eta,) * t,
        noise=(noise,) * t,
        loss=short.loss.with_l2(_loguniform(rng, 0.03, 0.9) / eta),
        cooldown=int(rng.integers(0, 10)) if rng.random() < 0.3 else 0,
    )


def structured_instances(sampler: str, adjacency: str) -> Iterator[tuple[str, Instance]]:
    """(name, instance) of arrangements that attack one step of a proof each."""
    pull, push, rest = Constant(-1.0), Constant(1.0), Constant(0.0)
    draw = FixedSize if sampler == "fixed_size" else Poisson
    convex, hill = Loss.convex(1.0, gradient_bound=1.0), Loss.nonconvex(1.0, gradient_bound=1.0)

    def make(base, record=pull, other=push, size=1, t=4, noise=0.5, loss=convex, **rest):
        other = ZERO if adjacency == "zero_out" else other
        batches = rest.pop("batches", draw(size))
        return Instance(base, record, other, batches, (1.0,) * t, (noise,) * t, loss, **rest)

    contracting = {"loss": convex.with_l2(0.3), "t": 6}
    for name, against in (("at rest", rest), ("against", push), ("with", pull)):
        three = ((against, 3),)
        yield f"linear losses {name}", make(three, t=6, noise=1.0)
        yield f"{name}, one step", make(three, t=1, noise=1.0)
        yield f"{name}, rare", make(((against, 19),))
        yield f"{name}, nearly full", make(((against, 5),), size=5, noise=0.3)
        yield f"{name}, full", make(((against, 4),), size=5, noise=0.3)
        yield f"{name}, walls", make(three, diameter=3.0, noise=1.0)
        yield f"{name}, near walls", make(three, diameter=0.5, noise=1.0)
        yield f"{name}, little noise", make(three, noise=0.2)
        yield f"{name}, contraction", make(three, **contracting)
        yield f"{name}, cool-down", make(three, cooldown=2, **contracting)
        if sampler == "poisson":
            for cap in (1, 2, 3):
                batches = Poisson(1, cap=cap)
                yield f"{name}, cap {cap}", make(((against, 6),), t=3, batches=batches)
    valley, far = Line(1.0, 1.0, 1.0), Line(1.0, -1.0, 1.0)
    yield "opposed quadratics", make(((valley, 3),), far, valley, noise=0.7, t=3)
    yield "opposed quadratics, walls", make(((valley, 3),), far, valley, diameter=2.0)
    steep, jump, back = (
        Loss.convex(2.0, gradient_bound=1.0),
        Line(2.0, 0.0, 1.0),
        Line(2.0, 0.5, 1.0),
    )
    yield "steps that invert", make(((jump, 2),), loss=steep, t=3)
    yield "steps that invert, moved", make(((jump, 1), (pull, 1)), back, jump, loss=steep, t=3)
    top, near = ((Line(-1.0, 0.0, 1.0), 3),), (Line(-1.0, 0.1, 1.0), Line(1.0, 0.1, 1.0))
    yield "hills", make(top, loss=hill, t=3)
    yield "hills, walls", make(top, loss=hill, diameter=4.0)
    yield "a hill among valleys", make(((Line(1.0, 0.0, 1.0), 3),), *near, loss=hill)
    # Equal curvature of all records: what one of them adds to another's gradient does not change.
    for curvature, sizes in ((0.4, (1, 2, 3)), (1.6, (1,))):
        same = Loss.strongly_convex(curvature, curvature, gradient_bound=2.5 * curvature)
        left, right = Line(curvature, -1.25), Line(curvature, 1.25)
        for size in sizes:
            given = {"noise": 1.5 * curvature, "diameter": 2.5, "size": size, "loss": same}
            name = f"equal quadratics of {curvature}, size {size}"
            yield name, make(((left, 3 if size == 1 else 2),), right, left, **given)


SAMPLERS = [
    ("fixed_size", "replace_one"),
    ("fixed_size", "zero_out"),
    ("poisson", "zero_out"),
    ("poisson", "replace_one"),
]

"""Runs on losses that are clipped convexly, on a line, against exact laws, and where residuals saturate.

On a line the clipped derivative is that of one margin, cut off at C/|x|: the loss is linear beyond a kink and
bends most just before it. Laws of all batch schemes are known by quadrature (`walks`, `thrown`,
`random_batches`). Where all residuals are saturated steps are translations, and laws Gaussians about them.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pabi import BallsInBins, FixedSize, FullBatch, Loss, NoisySGD, Poisson, Reshuffle
from pabi.execute.sums import Limit
from pabi.learn import (
    LogisticGradients,
    OneVsRestGradients,
    SmoothedHingeGradients,
    SoftmaxGradients,
    SquaredGradients,
    VectorHuberGradients,
)
from support.falsification.claims import EPSILONS
from support.falsification.random_batches import ZERO, Instance, hockey_stick
from support.falsification.thrown import Thrown, reshuffled_average
from support.falsification.walks import Training, shuffled

GAMMA, HIGH, MOST = 0.7, 1.0, 3.0  # width of a hinge, and bounds of a Poisson loss
RATIO = 0.4  # of a gamma loss

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


# Gradients of one record on a line, by the textbook: `row` is the feature, times the label if it has one.


@dataclass(frozen=True)
class ClippedLogistic:
    """−row·min(σ(−row·θ), C/|row|)."""

    row: float
    clip: float

    @property
    def most(self):
        return min(self.clip / abs(self.row), 1.0)

    @property
    def kinks(self):
        b = self.most
        return (math.log((1.0 - b) / b) / self.row,) if b < 1.0 else ()

    @property
    def steepest(self):
        s = min(self.most, 0.5)
        return self.row**2 * s * (1.0 - s)

    @property
    def scale(self):
        return 2.0 / abs(self.row)

    def __call__(self, x):
        return -self.row * np.minimum(0.5 - 0.5 * np.tanh(0.5 * self.row * x), self.most)


@dataclass(frozen=True)
class ClippedHinge:
    """−row·min(1, C/|row|, max(0, 1 − row·θ)/γ)."""

    row: float
    clip: float
    scale = math.inf

    @property
    def most(self):
        return min(self.clip / abs(self.row), 1.0)

    @property
    def kinks(self):
        return (1.0 / self.row, (1.0 - GAMMA * self.most) / self.row)

    @property
    def steepest(self):
        return self.row**2 / GAMMA

    def __call__(self, x):
        return -self.row * np.clip((1.0 - self.row * np.asarray(x)) / GAMMA, 0.0, self.most)


@dataclass(frozen=True)
class ClippedPoisson:
    """row·(e^min(row·θ, z) − count), its residual within ±C/|row|."""

    row: float
    clip: float
    count: float

    @property
    def most(self):
        return self.clip / abs(self.row)

    @property
    def kinks(self):
        ends = [self.count + self.most, self.count - self.most]
        return (HIGH / self.row, *(math.log(e) / self.row for e in ends if e > 0.0))

    @property
    def steepest(self):
        return self.row**2 * min(math.exp(HIGH), self.count + self.most)

    @property
    def scale(self):
        return 1.0 / abs(self.row)

    def __call__(self, x):
        residual = np.exp(np.minimum(self.row * np.asarray(x), HIGH)) - self.count
        return self.row * np.clip(residual, -self.most, self.most)


@dataclass(frozen=True)
class ClippedGamma:
    """row·(1 − amount·e^(−row·θ)), its residual within ±C/|row| and at least −B."""

    row: float
    clip: float
    amount: float

    @property
    def most(self):
        return self.clip / abs(self.row)

    @property
    def kinks(self):
        ends = [1.0 + min(self.most, RATIO), 1.0 - self.most]
        return [math.log(self.amount / e) / self.row for e in ends if e > 0.0 < self.amount]

    @property
    def steepest(self):
        return self.row**2 * (1.0 + min(self.most, RATIO))

    @property
    def scale(self):
        return 1.0 / abs(self.row)

    def __call__(self, x):
        exponent = np.minimum(-self.row * np.asarray(x), 700.0)
        residual = np.maximum(1.0 - self.amount * np.exp(exponent), -RATIO)
        return self.row * np.clip(residual, -self.most, self.most)


def make(kind, row, clip, count):
    match kind:
        case "gamma":
            return ClippedGamma(row, clip, count)
        case "logistic":
            return ClippedLogistic(row, clip)
        case "smoothed_hinge":
            return ClippedHinge(row, clip)
        case _:
            return ClippedPoisson(row, clip, count)


def loss_of(kind, norm, l2):
    match kind:
        case "logistic":
            return Loss.logistic(norm, l2=l2)
        case "smoothed_hinge":
            return Loss.smoothed_hinge(norm, GAMMA, l2=l2)
        case "gamma":
            return Loss.gamma(norm, RATIO, l2=l2)
        case _:
            return Loss.poisson(norm, HIGH, MOST, l2=l2)


KINDS = ["logistic", "smoothed_hinge", "poisson", "gamma"]


@dataclass(frozen=True)
class Setting:
    """Records and a schedule: `own` and `other` are the record on the two data sets, `rest` all others."""

    own: object
    other: object
    rest: object
    loss: Loss
    clip: float
    eta: tuple[float, ...]
    noise: tuple[float, ...]
    size: int
    n: int
    start: float


def random_setting(rng, kind: str) -> Setting:
    """Steps up to half as long again as the longest that does not expand."""
    norm = float(rng.choice([0.5, 1.0, 3.0]))
    clip = norm * float(rng.choice([0.1, 0.3, 0.5, 0.8]))
    loss = loss_of(kind, norm, 0.0)
    top = loss.effective_curvature(clip, "residual")[1]
    eta = 2.0 / top * float(rng.choice([0.2, 0.7, 1.0, 1.5]))
    t = int(rng.integers(2, 5))
    size, n = [(1, 2), (1, 3), (2, 4)][int(rng.integers(3))]
    noise = 2.0 * clip / size * float(rng.choice([0.3, 1.0, 3.0]))
    start = float(rng.normal() * 2.0 / norm)

    def draw(sign):
        row = norm * float(rng.choice([1.0, 1.0, rng.uniform(0.2, 1.0)])) * sign
        return make(kind, row, clip, float(rng.integers(0, 4)))

    own = draw(1.0)
    zeroed = rng.random() < 0.4
    l2 = float(rng.choice([0.0, 0.3])) / eta
    return Setting(
        own,
        ZERO if zeroed else draw(-1.0),
        draw(float(rng.choice([-1.0, 1.0]))),
        loss_of(kind, norm, l2),
        clip,
        (eta,) * t,
        (noise,) * t,
        size,
        n,
        start,
    )


def convexly(run: NoisySGD) -> NoisySGD:
    return replace(run, clipping="residual")


def in_order(s: Setting, batches: int, place: int = 0) -> Training:
    size = s.n // batches
    table = [[s.rest] * size for _ in range(batches)]
    table[place][0] = s.own
    return Training(
        tuple(map(tuple, table)), place, s.other, s.eta, s.noise, s.loss, clip=s.clip, start=s.start
    )


def in_bins(s: Setting) -> Thrown:
    return Thrown(
        ((s.rest, s.n - 1),), s.own, s.other, s.size, None, s.eta, s.noise, s.loss, s.clip,
        start=s.start,
    )  # fmt: skip


def drawn(s: Setting, batches) -> Instance:
    return Instance(
        ((s.rest, s.n - 1),), s.own, s.other, batches, s.eta, s.noise, s.loss, s.clip,
        start=s.start,
    )  # fmt: skip


def truth_and_run(s: Setting, scheme: str):
    """(2, len(EPSILONS)) exact δ, their error, and the description of the run."""
    match scheme:
        case "full_batch":
            found = in_order(s, 1)
            return *found.walk.delta(EPSILONS), found.run
        case "cyclic":
            found = in_order(s, s.n // s.size, s.n // s.size - 1)
            return *found.walk.delta(EPSILONS), found.run
        case "shuffle_once":
            average, run = shuffled(in_order(s, s.n // s.size))
            return *average.delta(EPSILONS), run
        case "reshuffle":
            found = in_bins(s)
            return *reshuffled_average(found).delta(EPSILONS), found.run(Reshuffle(s.size))
        case "balls_in_bins":
            found = in_bins(s)
            return *found.average.delta(EPSILONS), found.run(BallsInBins(s.size))
        case _:
            batches = FixedSize(s.size) if scheme == "fixed_size" else Poisson(s.size)
            found = drawn(s, batches)
            return *hockey_stick(found, EPSILONS), found.run


SCHEMES = [
    "full_batch",
    "cyclic",
    "shuffle_once",
    "reshuffle",
    "balls_in_bins",
    "fixed_size",
    "poisson",
]


def excess(s: Setting, scheme: str, change=None) -> float:
    """By how much the truth exceeds what is guaranteed, at worst over ε."""
    both, error, run = truth_and_run(s, scheme)
    assert error <= 1e-6
    run = convexly(run) if change is None else change(convexly(run))
    guarantee = run.guarantee(1e-3)
    claimed = np.array([guarantee.delta(e) for e in EPSILONS.tolist()])
    return float(np.max(both.max(axis=0) - error - claimed))


@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_never_safer_than_guaranteed(kind, scheme, count):
    rng = np.random.default_rng([count, *kind.encode(), *scheme.encode()])
    for _ in range(count):
        found = random_setting(rng, kind)
        assert excess(found, scheme) <= 0.0, found


def told_half(run: NoisySGD) -> NoisySGD:
    return replace(run, clip_norm=run.clip_norm / 2.0)


def test_half_of_the_norm_is_caught():
    """Some instance shows it, so that the comparison above can fail."""
    for kind, scheme in itertools.product(KINDS, ["full_batch", "cyclic"]):
        rng = np.random.default_rng(1)
        assert any(excess(random_setting(rng, kind), scheme, told_half) > 0.0 for _ in range(25))


def test_the_gradients_are_those_that_are_trained():
    """The textbook formulas above against the trainer's own sums of one record."""
    theta, row, clip = np.linspace(-4.0, 4.0, 41), 1.3, 0.5
    for gradients, own in (
        (LogisticGradients([[row], [row]], [1, 0]), ClippedLogistic(row, clip)),
        (SmoothedHingeGradients([[row], [row]], [1, 0], GAMMA), ClippedHinge(row, clip)),
    ):
        limit = Limit(None, 1.0, residual=clip)
        got = [gradients.clipped_sum(np.array([t]), slice(0, 1), limit)[0] for t in theta]
        assert np.array(got) == pytest.approx(own(theta), rel=1e-12, abs=1e-15)


# Where all residuals are saturated.

FAR = 1e7
X = np.array([[1.0, 0.0], [1.0, 0.0]])
SATURATED = {
    "logistic": (LogisticGradients(X, [1, 0]), [-1.0, 0.0], Loss.logistic(1.0)),
    "softmax": (
        SoftmaxGradients(X, [0, 1], 3),
        [[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
        Loss.softmax(1.0),
    ),
    "one_vs_rest": (
        OneVsRestGradients(X, [0, 1], 3),
        [[-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]],
        Loss.one_vs_rest(1.0, 3),
    ),
    "one_vs_rest, hinge": (
        SmoothedHingeGradients(X, [0, 1], 0.5, 3),
        [[-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]],
        Loss.one_vs_rest(1.0, 3, 0.5),
    ),
    "squared": (SquaredGradients(X, [0.0, 0.0], 2.0), [1.0, 0.0], Loss.squared(1.0, 2.0)),
    "vector_huber": (
        VectorHuberGradients(X, np.zeros((2, 2)), 2.0),
        [[1.0, -1.0], [0.0, 0.0]],
        Loss.vector_huber(1.0, 2.0),
    ),
}


def test_saturated_records_meet_the_guarantee_of_full_batches():
    """Every step moves by the same vector of norm C, as long as no noise brings the iterate back. So zeroing
    the record costs μ = √t·C/(bς), and no less may be claimed; nor is more, since steps need not contract."""
    for kind, share in itertools.product(SATURATED, [0.05, 0.3, 0.7]):
        gradients, start, loss = SATURATED[kind]
        clip, t, n, noise = share * loss.gradient_bound, 9, 2, 0.4
        run = NoisySGD(
            loss, n=n, batches=FullBatch(), steps=t, step_size=0.1, noise_std=noise, clip_norm=clip,
            clipping="residual", adjacency="zero_out",
        )  # fmt: skip
        limit = Limit(None, 1.0, residual=clip)
        moves = [
            gradients.clipped_sum(FAR * np.array(start) + shift, slice(0, 1), limit)
            for shift in (0.0, 5.0, -5.0)
        ]
        assert all(np.linalg.norm(m - moves[0]) <= 1e-6 * clip for m in moves), (kind, share)
        truth = math.sqrt(t) * float(np.linalg.norm(moves[0])) / (n * noise)
        mu = run.guarantee(1e-5).mu
        assert truth * (1.0 - 1e-12) <= mu <= truth * (1.0 + 2e-6), (kind, share)


def test_two_records_that_pull_apart_meet_it_in_the_plane():
    """Rows (ε, 1) and (ε, −1) of the label 1 at θ far along −(1, 0): both saturated, gradients C apart from 0
    each and nearly 2C apart from each other."""
    tilt, clip, t, noise = 1e-3, 0.3, 6, 0.2
    rows = np.array([[tilt, 1.0], [tilt, -1.0]])
    norm = math.hypot(tilt, 1.0) * (1.0 + 1e-15)
    gradients = LogisticGradients(rows, [1, 1])
    limit, theta = Limit(None, 1.0, residual=clip), np.array([-FAR, 0.0])
    first, second = (gradients.clipped_sum(theta, slice(i, i + 1), limit) for i in range(2))
    truth = math.sqrt(t) * float(np.linalg.norm(first - second)) / noise
    run = NoisySGD(
        Loss.logistic(norm), n=1, batches=FullBatch(), steps=t, step_size=0.1, noise_std=noise,
        clip_norm=clip, clipping="residual",
    )  # fmt: skip
    assert truth <= run.guarantee(1e-5).mu <= truth * (1.0 + 1e-6)

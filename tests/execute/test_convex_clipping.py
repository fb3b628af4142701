"""Training on losses that are clipped convexly: sums of what is described, and refusals of all else."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import learn
from pabi.account.best import outcomes
from pabi.describe.vector_losses import executable
from pabi.execute.linear_gradients import LossGradients, shifted
from pabi.execute.sums import Limit
from pabi.learn import train
from support.every_case import every, refused, refuses

from .losses import COUNT_MAX, FAMILY, K

ULP = 2.0**-53
N, D, R = 48, 5, 1.3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * RNG.choice([0.1, 0.5, 3.0], size=(N, 1))
X[7] = 0.0
LABELS, CLASSES = np.arange(N) % 2, np.arange(N) % K
NUMBERS, COUNTS = RNG.normal(size=N), np.arange(N) % 4
VECTORS = RNG.normal(size=(N, K))

# The gradients of (X, y), the targets, and the loss of rows of norm R.
KINDS = {name: (one.build, one.some(N), one.describe(R)) for name, one in FAMILY.items()} | {
    "softmax, capped": (
        *(lambda x, y: learn.SoftmaxGradients(x, y, K, residual_cap=0.4), CLASSES),
        pabi.Loss.softmax(R, residual_cap=0.4),
    ),
    "huber": (lambda x, y: learn.SquaredGradients(x, y, 0.7), NUMBERS, pabi.Loss.huber(R, 0.7)),
}
each_kind = every("name", KINDS)
NORM, FULL = 0.3, pabi.FullBatch()  # C, below every gradient bound


def run_of(name, batches=FULL, **changes):
    settings = {"epochs": 2, "step_size": 0.5, "noise_std": 0.05, "clip_norm": NORM} | changes
    return pabi.NoisySGD(KINDS[name][2], N, batches, clipping="residual", **settings)


def gradients_of(name):
    build, y, _ = KINDS[name]
    return build(learn.Records(X, R), y)


def alone(name, theta, i):
    gradients = gradients_of(name)
    limit = Limit.of(run_of(name, pabi.Poisson(4)), gradients.additions(N))
    with np.errstate(all="ignore"):
        return gradients.clipped_sum(theta, np.array([i]), limit)


@pytest.mark.parametrize("name", KINDS)
@every("size", [0.2, 2.0, 300.0])
def test_a_records_share_is_its_clipped_derivative_times_its_row(name, size):
    """Within C in norm, and within the room for sums of the derivative at the threshold C/‖x‖."""
    gradients = gradients_of(name)
    theta = size * np.random.default_rng(1).normal(size=gradients.shape)
    loss = executable(KINDS[name][2].kind, **dict(KINDS[name][2].parameters))
    rows, y = gradients.records.dense(slice(0, N)), np.asarray(KINDS[name][1])
    room = 1e-12
    for i in range(N):
        x, target = rows[i], y[i : i + 1]
        sign = 1.0
        if loss.response == "sign":
            sign = target = np.where(target == 1, 1.0, -1.0)
        z = sign * np.atleast_1d(x @ theta)
        z = z[None] if loss.response in ("class", "vector") else z
        most = np.array([NORM / max(float(np.linalg.norm(x)), 1e-300)])
        with np.errstate(all="ignore"):
            loss.differentiate(z, target, most)
        wanted = x[:, None] * (sign * z).reshape(1, -1)
        got = alone(name, theta, i)
        assert np.linalg.norm(got) <= NORM
        error = room * NORM + 16 * ULP * np.linalg.norm(x) ** 2 * float(loss.steepness) * size * 10
        assert np.max(np.abs(got - wanted.reshape(got.shape))) <= error


@each_kind
def test_where_batches_are_drawn_a_share_does_not_depend_on_the_others(name):
    """To the last bit: a record beside others whose rows are zero, and which add nothing."""
    build, y, _ = KINDS[name]
    theta = np.random.default_rng(2).normal(size=gradients_of(name).shape)
    limit = Limit.of(run_of(name, pabi.Poisson(4)), gradients_of(name).additions(N))
    for i, n in itertools.product((0, 1, 8, 20), (2, 3, 5, 8, 31)):
        for at in {0, n // 2, n - 1}:
            features, targets = np.zeros((n, D)), y[np.arange(n) % N].copy()
            features[at], targets[at] = X[i], y[i]
            if not {0, 1} <= set(np.ravel(targets)) and name in ("logistic", "hinge"):
                continue
            with np.errstate(all="ignore"):
                some = build(learn.Records(features, R), targets)
                got = some.clipped_sum(theta, slice(0, n), limit)
            assert np.array_equal(got, alone(name, theta, i))


@each_kind
@every("clipping", ["residual", "ball"])
def test_a_step_is_along_gradients_that_are_clipped_so(name, clipping):
    """But for noise of a millionth."""
    if name == "softmax, capped" and clipping == "ball":
        clipping = "residual"
    run = replace(run_of(name, epochs=None, steps=1, noise_std=1e-6), clipping=clipping)
    gradients = gradients_of(name)
    theta = np.random.default_rng(4).normal(size=gradients.shape)
    total = gradients.clipped_sum(theta, slice(0, N), Limit.of(run, N))
    x = train(run, gradients, theta, delta=1e-2).x
    assert np.max(np.abs(theta - run.step_size * total / N - x)) < 1e-5


# Fixed offsets of the predictors.


@each_kind
@every("clipping", ["norm", "residual", "ball"])
@every("far", [1.0, 1e9, 1e300])
def test_whatever_the_offsets_gradients_are_those_of_a_convex_loss_of_this_curvature(
    name, clipping, far
):
    """⟨∇ − ∇', θ − θ'⟩ ≥ ‖∇ − ∇'‖²/M record by record, M the curvature that the run is accounted with, and
    norms within the bound: where offsets are made up for by weights as large, and where they are too large.
    Norms of several derivatives are no convex loss's."""
    if name == "softmax, capped" and clipping == "ball":
        clipping = "residual"
    run = replace(run_of(name, pabi.Poisson(4)), clipping=clipping)
    plain, size = gradients_of(name), min(far, 1e9)
    rng = np.random.default_rng(3)
    limit = Limit.of(run, plain.additions(N))
    rows = plain.records.dense(slice(0, N))
    for i in (0, 1, 8, 20):
        theta, step = (x * rng.normal(size=plain.shape) for x in (size, 0.1))
        offsets = far * rng.normal(size=(N, *plain.shape[1:]))
        if far < 1e100:
            offsets[i] = rng.normal(size=offsets[i].shape) - rows[i] @ theta
        moved = shifted(plain, offsets)
        with np.errstate(all="ignore"):
            one, other = (moved.clipped_sum(x, np.array([i]), limit) for x in (theta, theta + step))
        assert max(np.linalg.norm(one), np.linalg.norm(other)) <= NORM
        if clipping != "norm" or len(plain.shape) == 1:
            change, most = other - one, run.loss.curvature[1]
            rounding = 1e-12 + 64 * ULP * size * float(np.abs(step).sum())
            assert np.sum(change * step) >= np.sum(change**2) / most - rounding


@each_kind
def test_an_offset_moves_the_predictor(name):
    """Of rows with a constant feature it is what one more intercept is."""
    build, y, _ = KINDS[name]
    features = np.hstack([np.clip(X, -0.3, 0.3), np.full((N, 1), 0.5)])
    gradients = build(learn.Records(features, R), y)
    theta = RNG.normal(size=gradients.shape)
    theta[-1] *= 3.0
    without = np.where(np.arange(D + 1)[(...,) + (None,) * (theta.ndim - 1)] < D, theta, 0.0)
    offsets = np.tile(0.5 * theta[-1], (N,) + (1,) * (theta.ndim - 1))
    rows = np.arange(N)
    np.testing.assert_allclose(
        shifted(gradients, offsets)(without, rows), gradients(theta, rows), rtol=0, atol=1e-12
    )


def test_offsets_cost_no_digits_and_lose_no_record():
    """What all classes share, and what target and offset share; numbers that are not finite count as 0."""
    softmax, huber = gradients_of("softmax"), gradients_of("huber")
    theta, rows, own = RNG.normal(size=(D, K)), np.arange(N), np.arange(3.0 * N).reshape(N, K)
    wanted = shifted(softmax, own)(theta, rows)
    assert np.array_equal(shifted(softmax, own + 2.0**52)(theta, rows), wanted)
    far = shifted(build_huber(np.round(NUMBERS) + 2.0**52), np.full(N, 2.0**52))
    assert np.array_equal(far(theta[:, 0], rows), build_huber(np.round(NUMBERS))(theta[:, 0], rows))
    own[3, 1], own[4] = np.nan, np.inf
    filled = own.copy()
    filled[3], filled[4] = 0.0, 0.0
    got = shifted(softmax, own)(theta, rows)
    assert np.array_equal(got, shifted(softmax, filled)(theta, rows))
    assert shifted(huber, np.full(N, -np.inf)).clipped_sum(theta[:, 0], rows, LIMIT).any()


def build_huber(targets):
    return learn.SquaredGradients(learn.Records(X, R), targets, 0.7)


LIMIT = Limit.of(run_of("huber"), N)


def test_gradients_that_are_not_the_losss_own_are_refused():
    run, signs = run_of("logistic"), LABELS * 2.0 - 1.0

    class Mine(learn.LinearGradients):
        pass

    for gradients in (
        lambda x, rows: np.zeros((len(rows), D)),
        *(kind(X, signs, lambda z, y: z) for kind in (learn.LinearGradients, Mine)),
        learn.SmoothedHingeGradients(X, LABELS, 4.0),
    ):
        refused("clipping", train, run, gradients, np.zeros(D))
    total = {"clipped_gradient_sum": lambda x, rows, clip_norm: np.zeros(D)}
    refused("clipping", train, run, None, np.zeros(D), **total)


def test_questions_to_losses_that_cannot_be_clipped_so_are_refused():
    loss = pabi.Loss.convex(1.0, gradient_bound=1.0)
    refused("clipping", loss.clips, 0.5, "residual")
    assert "one_vs_rest" in refused("clipping", loss.effective_curvature, 0.5, "residual")
    refused("clipping", loss.modulus, 0.1, 0.5, 1.0, "residual")
    refused("clipping", loss.slopes, np.array([0.1]), 0.5, clipping="residual")
    assert not loss.has_residual
    assert all(loss.has_residual for _, _, loss in KINDS.values())


@every(
    ("name", "gradients"),
    [
        ("softmax, capped", learn.SoftmaxGradients(X, CLASSES, K)),
        ("softmax, capped", learn.SoftmaxGradients(X, CLASSES, K, residual_cap=0.5)),
        ("squared", learn.SquaredGradients(X, NUMBERS, 0.8)),
        ("huber", learn.SquaredGradients(X, NUMBERS, 0.8)),
        ("vector_huber", learn.VectorHuberGradients(X, VECTORS, 0.8)),
        ("one_vs_rest", learn.OneVsRestGradients(X, CLASSES, 4)),
        ("one_vs_rest", learn.SmoothedHingeGradients(X, CLASSES, 4.0, K)),
        ("joint_hinge", learn.OneVsRestGradients(X, CLASSES, K)),
        ("hinge", learn.SmoothedHingeGradients(X, LABELS, 0.5)),
        ("poisson", learn.PoissonGradients(X, COUNTS, 1.4, COUNT_MAX)),
        ("softmax", learn.OneVsRestGradients(X, CLASSES, K)),
    ],
)
def test_gradients_of_a_wider_or_another_loss_are_refused(name, gradients):
    refused("clipping", train, run_of(name), gradients, np.zeros(gradients.shape))


@every(
    ("name", "gradients"),
    [
        ("softmax", learn.SoftmaxGradients(X, CLASSES, K, residual_cap=0.5)),
        ("softmax, capped", learn.SoftmaxGradients(X, CLASSES, K, residual_cap=0.3)),
        ("squared", learn.SquaredGradients(X, NUMBERS, 0.6)),
        ("huber", learn.SquaredGradients(X, NUMBERS, 0.7)),
        ("vector_huber", learn.VectorHuberGradients(X, VECTORS, 0.6)),
    ],
)
def test_gradients_of_a_loss_that_is_clipped_at_less_are_taken(name, gradients):
    """They are those of a loss of which everything that is accounted holds."""
    own = executable(KINDS[name][2].kind, **dict(KINDS[name][2].parameters))
    assert isinstance(gradients, LossGradients)
    for most in (None, 0.2):
        bound = [
            loss.steepness if most is None else loss.steepness_within(Fraction(most))
            for loss in (gradients.loss, own)
        ]
        assert bound[0] <= bound[1]
        assert gradients.loss.slope <= own.slope
    run = run_of(name, noise_std=1.0)
    assert np.all(np.isfinite(train(run, gradients, np.zeros(gradients.shape), delta=1e-2).x))


UNKNOWN = [
    *(pabi.Loss.convex(1.0), pabi.Loss.convex(1.0, gradient_bound=1.0, glm=True)),
    *(pabi.Loss.unknown(), pabi.Loss.strongly_convex(0.1, 1.0), pabi.Loss.lipschitz(1.0)),
]


def test_descriptions_that_cannot_be_clipped_so_are_refused():
    def described(loss=KINDS["logistic"][2], clip_norm=NORM, clipping="residual"):
        given = {"batches": pabi.Cyclic(8), "epochs": 2, "step_size": 0.5, "noise_std": 1.0}
        pabi.NoisySGD(loss, N, **given, clip_norm=clip_norm, clipping=clipping)

    refuses(described, {"clip_norm": [None, 0.0], "clipping": ["residuals", "Residual", None]})
    for loss in UNKNOWN:
        refused("clipping", described, loss=loss)


# Cyclic noisy SGD with clipped gradients and proximal steps on weakly convex losses (Kong and Ribero).

DELTA = 1e-5
WEAKLY = pabi.Loss.weakly_convex(0.25, 1.0)


def accounted(loss=WEAKLY):
    given = {"epochs": 30, "step_size": 0.02, "noise_std": 1.0, "clip_norm": 0.25}
    return pabi.NoisySGD(loss, 40, pabi.Cyclic(4), **given, prox=pabi.prox.l1(0.3))


def by_method(run, name):
    return {o.name: o.guarantee for o in outcomes(run, DELTA)}[name]


def test_the_guarantee_rests_on_the_slope_of_clipped_steps():
    run = accounted()
    eta, m, big = 0.02, 0.25, 1.0
    q = np.linspace(0.0, 1.0, 100_001)
    x = 1 + eta * m - eta * (big + m) * q
    total = x * x + (eta * (big + m)) ** 2 * q * (1 - q) + 1
    slope = math.sqrt(float(np.max(total + np.sqrt(np.maximum(total**2 - 4 * x * x, 0)))) / 2)
    uses = np.where(np.arange(run.steps) % 10 == 9, eta * 2 * 0.25 / 4, 0.0)

    def by_slope(c):
        return pabi.NoisyIteration(c, uses, eta * 1.0, steps=run.steps).guarantee(DELTA).mu

    shifted = by_method(run, "shifted interpolation")
    # The grid of q is 10⁻⁵ fine around a smooth maximum; the slope acts for 300 steps.
    assert shifted.mu == pytest.approx(by_slope(slope), rel=1e-6)
    assert shifted.mu > by_slope(1.0 + eta * m) * 1.0001 > by_slope(1.0)
    best = run.guarantee(DELTA)
    assert by_slope(1.0) < best.mu <= shifted.mu
    assert best.mu < by_method(run, "composition").mu
    # Were clipping harmless, less would do: it is not for these losses.
    glm = accounted(pabi.Loss.weakly_convex(0.25, 1.0, glm=True)).guarantee(DELTA)
    convex = accounted(pabi.Loss.convex(1.0, glm=True)).guarantee(DELTA)
    assert best.mu > glm.mu > convex.mu
    assert convex.mu == pytest.approx(by_slope(1.0), rel=1e-9)

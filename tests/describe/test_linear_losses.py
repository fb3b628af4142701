"""Losses of linear models: value, derivative, curvature, bound and mean response against one definition each.

The definitions are written out once more here, in mpmath, from the books.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pabi.describe import scalar_losses as s
from pabi.describe.losses import Loss
from pabi.describe.scalar_losses import GammaLoss, Logistic, PoissonLoss, SmoothedHinge
from pabi.describe.vector_losses import LINEAR_LOSSES, OneVsRest, Softmax, VectorHuber, executable
from support.every_case import every, refused

ULP = 2.0**-53
B, K_HUBER, GAMMA, Z_MAX, COUNT_MAX = 0.7, 0.4, 0.25, 1.5, 6.0
R = 1.3


def logistic(z, y):
    return mpmath.log1p(mpmath.exp(-z[0]))


def softmax(z, y):
    return mpmath.log(sum(map(mpmath.exp, z))) - z[int(y)]


def one_vs_rest(z, y):
    return sum(mpmath.log1p(mpmath.exp(-v if k == y else v)) for k, v in enumerate(z))


def huber(bound):
    def value(z, y):
        r, k = mpmath.norm([v - w for v, w in zip(z, np.ravel(y), strict=True)]), mpmath.mpf(bound)
        return r**2 / 2 if r <= k else k * r - k**2 / 2

    return value


def hinge(z, y):
    gamma, m = mpmath.mpf(GAMMA), z[0]
    if m >= 1:
        return mpmath.mpf(0)
    return (1 - m) ** 2 / (2 * gamma) if m >= 1 - gamma else 1 - m - gamma / 2


def poisson(z, y):
    most = mpmath.mpf(Z_MAX)
    grown = mpmath.exp(z[0]) if z[0] <= most else mpmath.exp(most) * (1 + z[0] - most)
    return grown - y * z[0]


def gamma(z, y):
    most, y = 1 + mpmath.mpf(B), mpmath.mpf(y)
    turn = mpmath.log(y / most) if y else -mpmath.inf
    if z[0] >= turn:
        return z[0] + y * mpmath.exp(-z[0])
    return turn + most + mpmath.mpf(B) * (turn - z[0])


# Each loss, its definition, its targets, and (predictors, target, direction) where the curvature is largest,
# next to a kink where there is one.
NUMBERS, COUNTS = (-2.0, 0.0, 0.3), PoissonLoss(Z_MAX, COUNT_MAX)
VECTORS = ([0.0, 0.0, 0.0], [-2.0, 0.3, 1.0])
TURN = math.log(6.0 / (1.0 + B)) + 1e-12
LOSSES = {
    "logistic": (Logistic(), logistic, (1.0,), ([0.0], 1.0, [1.0])),
    "softmax": (Softmax(), softmax, (0, 1, 2), ([0.0, 0.0, -80.0], 1, [1.0, -1.0, 0.0])),
    "one_vs_rest": (OneVsRest(3), one_vs_rest, (0, 1, 2), ([0.0, 0.0, 0.0], 1, [0.0, 1.0, 0.0])),
    "squared": (s.Squared(B), huber(B), NUMBERS, ([0.2], 0.0, [1.0])),
    "huber": (s.Huber(K_HUBER), huber(K_HUBER), NUMBERS, ([0.2], 0.0, [1.0])),
    "vector_huber": (
        *(VectorHuber(K_HUBER), huber(K_HUBER), VECTORS),
        ([0.2, 0.1, 0.0], [0.0, 0.0, 0.0], [0.2, -0.7, 0.1]),
    ),
    "smoothed_hinge": (SmoothedHinge(GAMMA), hinge, (1.0,), ([0.9], 1.0, [1.0])),
    "poisson": (COUNTS, poisson, (0.0, 1.0, 6.0), ([Z_MAX - 1e-12], 0.0, [1.0])),
    "gamma": (GammaLoss(B), gamma, (0.0, 0.3, 6.0, 400.0), ([TURN], 6.0, [1.0])),
}
SEVERAL = ("class", "vector")  # responses with a predictor for each of K numbers
each = every("kind", LOSSES)


def test_every_loss_of_the_table_is_tested():
    assert set(LOSSES) == set(LINEAR_LOSSES)
    assert all(type(LOSSES[kind][0]) is cls for kind, cls in LINEAR_LOSSES.items())


def cases(kind, size, count=40):
    """(predictors, targets) in the shape that the loss takes, none of them at a kink."""
    rng = np.random.default_rng(3)
    loss, _, targets, _ = LOSSES[kind]
    y = rng.choice(np.array(targets), size=count)
    return rng.normal(size=(count, 3) if loss.response in SEVERAL else count) * size, y


def derivatives(loss, z, y):
    out = z.copy()
    with np.errstate(over="ignore"):
        assert loss.differentiate(out, y) is None
    return out


def rows(z):
    """Predictors of each record, as lists of exact numbers."""
    return [[mpmath.mpf(float(v)) for v in np.ravel(row)] for row in z]


@each
@every("size", [0.1, 1.0, 30.0])
def test_values_are_those_of_the_definition(kind, size):
    """Up to sixteen roundings of numbers no larger than the loss and its slope times predictor and target."""
    loss, definition, _, _ = LOSSES[kind]
    z, y = cases(kind, size)
    got = loss.value(z, y)
    assert got.shape == y.shape[:1]
    for value, at, target in zip(got, rows(z), y, strict=True):
        truth = definition(at, target)
        scale = abs(truth) + float(loss.slope) * (1 + max(map(abs, at)) + np.max(np.abs(target)))
        assert abs(value - truth) <= 16 * ULP * scale


@each
@every("size", [0.1, 1.0, 30.0])
def test_derivatives_are_those_of_the_definition(kind, size):
    """Differences over 10⁻²⁰ in 60 digits are off by less than 10⁻³⁰; the rest is sixteen roundings."""
    loss, definition, _, _ = LOSSES[kind]
    z, y = cases(kind, size)
    before = y.copy()
    got = derivatives(loss, z, y).reshape(len(y), -1)
    assert np.array_equal(y, before)
    h = mpmath.mpf(10) ** -20
    for record, (at, target) in enumerate(zip(rows(z), y, strict=True)):
        largest = max(map(abs, at)) + np.max(np.abs(target))
        scale = float(loss.slope) + float(loss.steepness) * largest
        for j in range(len(at)):
            up, down = ([v + (s * h if i == j else 0) for i, v in enumerate(at)] for s in (1, -1))
            truth = (definition(up, target) - definition(down, target)) / (2 * h)
            assert abs(got[record, j] - truth) <= 16 * ULP * scale


def second_derivative(definition, at, target, direction):
    """Along `direction`, over its squared norm: a difference over 10⁻¹⁵ in 60 digits."""
    h = mpmath.mpf(10) ** -15
    values = [
        definition([z + s * h * u for z, u in zip(at, direction, strict=True)], target)
        for s in (-1, 0, 1)
    ]
    return (values[0] - 2 * values[1] + values[2]) / (h**2 * sum(u * u for u in direction))


@each
def test_no_curvature_exceeds_the_steepness_which_is_reached(kind):
    loss, definition, _, (at, target, direction) = LOSSES[kind]
    z, y = cases(kind, 2.0)
    rng = np.random.default_rng(4)
    top = second_derivative(definition, [mpmath.mpf(v) for v in at], target, direction)
    assert 1 - 1e-9 < top / mpmath.mpf(float(loss.steepness)) < 1 + 1e-12
    for point, label in zip(rows(z), y, strict=True):
        along = [mpmath.mpf(float(v)) for v in rng.normal(size=len(point))]
        found = second_derivative(definition, point, label, along)
        assert -1e-12 < found <= float(loss.steepness) * (1 + 1e-12)


EXTREME = [0.0, 1e-300, 1e-3, 1.0, Z_MAX, 36.0, 37.0, 708.0, 710.0, 750.0, 1e4, 1e16, 1e300]


@each
def test_no_derivative_exceeds_the_slope_which_is_reached(kind):
    """In exact arithmetic, rounding included; where there are several, up to that of their norm."""
    loss, _, targets, _ = LOSSES[kind]
    grid = np.array([s * v for v in EXTREME for s in (1.0, -1.0)])
    largest = Fraction(0)
    for target in targets:
        if loss.response in SEVERAL:
            z = np.array([(a, b, c) for a in grid for b in grid for c in (0.0, -1e3, 1e300)])
        else:
            z = grid
        found = derivatives(loss, z, np.array([target] * len(z)))
        assert np.all(np.isfinite(found))
        squares = [sum(Fraction(v) ** 2 for v in np.ravel(row).tolist()) for row in found]
        largest = max(largest, *squares)
    # Vectors round K quotients and a sum: a few units of what their norm is at most.
    room = 1 + (8 * Fraction(ULP) if loss.response in SEVERAL else 0)
    assert loss.slope**2 * (1 - Fraction(1, 10**15)) <= largest <= (loss.slope * room) ** 2


@every("kind", [kind for kind in LOSSES if kind != "smoothed_hinge"])
def test_the_mean_is_the_response_of_which_the_predictor_is_the_minimiser(kind):
    """The expected derivative is zero there, up to the roundings of mean and derivative."""
    loss, _, _, _ = LOSSES[kind]
    z = np.linspace(-4.0, Z_MAX, 45)

    def at(z, y):
        return derivatives(loss, z, np.full(len(z), y))

    if kind == "logistic":
        p = loss.mean(z)
        expected = p * at(z, 1.0) - (1.0 - p) * at(-z, 1.0)
    elif kind == "softmax":
        points = np.column_stack([z, -z, np.sin(z)])
        p = loss.mean(points)
        assert np.allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=8 * ULP)
        expected = np.array([p[:, [k]] * at(points, k) for k in range(3)]).sum(axis=0)
    elif kind == "one_vs_rest":
        # What K predictors model by themselves is one distribution where it adds up to 1.
        p = np.random.default_rng(5).dirichlet(np.ones(3), 45)
        points = np.log(p) - np.log1p(-p)
        assert loss.mean(points) == pytest.approx(p, rel=1e-13)
        expected = np.array([p[:, [k]] * at(points, k) for k in range(3)]).sum(axis=0)
    elif kind == "vector_huber":
        points = np.column_stack([z, -z, np.sin(z)])
        spread = np.repeat([[0.1, 0.0, 0.05], [3.0, -0.2, 0.5]], [20, 25], axis=0)
        below, above = (derivatives(loss, points, points + s * spread) for s in (-1.0, 1.0))
        assert np.array_equal(loss.mean(points), points)
        expected = below + above
    elif kind in ("squared", "huber"):
        spread = np.repeat([0.1, 0.5, 3.0], 15)
        mean = loss.mean(z)
        expected = derivatives(loss, z, mean + spread) + derivatives(loss, z, mean - spread)
    elif kind == "gamma":
        targets = loss.mean(z), 0.5 * loss.mean(z), (1.0 + B) * loss.mean(z)
        shares = 0.4, 0.6 * B / (0.5 + B), 0.6 * 0.5 / (0.5 + B)  # of the mean e^z
        expected = sum(s * derivatives(loss, z, y) for s, y in zip(shares, targets, strict=True))
    else:
        assert kind == "poisson"
        share = loss.mean(z) / COUNT_MAX
        assert np.all(share <= 1.0)
        expected = share * at(z, COUNT_MAX) + (1.0 - share) * at(z, 0.0)
    off = 2.0 * loss.off(3, False, 40.0)
    assert np.max(np.abs(expected)) <= 32 * ULP * float(loss.slope) + off


def test_a_smoothed_hinge_has_no_mean_response():
    """Whatever the probability, above one half, the minimiser is between the same two predictors."""
    loss, _, _, _ = LOSSES["smoothed_hinge"]
    assert loss.mean(np.linspace(-4.0, Z_MAX, 45)) is None
    ends = np.array([1.0 - GAMMA - 1e-9, 1.0 + 1e-9])
    positive, negative = derivatives(loss, ends, np.ones(2)), derivatives(loss, -ends, np.ones(2))
    for p in (0.51, 0.99):
        falls, rises = p * positive - (1.0 - p) * negative
        assert falls < 0.0 < rises


@each
def test_the_accountant_reads_the_same_constants(kind):
    loss, _, _, _ = LOSSES[kind]
    given = {name: getattr(loss, name) for name in loss.parameters(required=True)}
    for r in (R, *np.geomspace(1e-3, 1e3, 40).tolist()):
        told = getattr(Loss, kind)(r, **given)
        exact = Fraction(r) ** 2 * loss.steepness, Fraction(r) * loss.slope
        for found, truth in zip((told.curvature[1], told.gradient_bound), exact, strict=True):
            assert truth <= Fraction(found) <= truth * (1 + Fraction(1, 2**52)), r
    assert told.curvature[0] == 0.0
    assert told.glm is (loss.response not in SEVERAL)
    assert executable(kind, feature_norm=r, **given) == loss


@every("smoothing", [None, GAMMA])
def test_one_against_the_rest_is_a_sum_of_losses_of_a_margin(smoothing):
    """Of each class's own predictor; the curvature is that of one, the norm of gradients √K times as much."""
    loss, z = OneVsRest(4, smoothing), np.random.default_rng(6).normal(size=(60, 4)) * 2.0
    one = Logistic() if smoothing is None else SmoothedHinge(smoothing)
    y = np.arange(60) % 4
    sign = np.where(y[:, None] == np.arange(4), 1.0, -1.0)
    wanted = sign * derivatives(one, sign * z, sign)
    assert np.array_equal(derivatives(loss, z, y), wanted)
    assert loss.value(z, y) == pytest.approx(one.value(sign * z, sign).sum(axis=1), rel=1e-15)
    assert loss.steepness == one.steepness
    assert 4 * one.slope**2 <= loss.slope**2 <= 4 * one.slope**2 * (1 + Fraction(1, 10**15))


def test_counts_are_admitted_up_to_the_bound():
    loss = PoissonLoss(Z_MAX, COUNT_MAX)
    assert loss.admitted(np.array([0.0, 2.5, 6.0, 7.0])).tolist() == [0.0, 2.5, 6.0, 6.0]
    refused("y", loss.admitted, np.array([1.0, -1.0]))
    refused("y", GammaLoss(B).admitted, np.array([1.0, -1e-300]))


def test_what_cannot_be_computed_with_is_refused():
    for kind, field, value, *others in (
        ("squared", "residual_bound", 0.0),
        ("squared", "residual_bound", math.inf),
        ("huber", "threshold", -1.0),
        ("vector_huber", "threshold", 0.0),
        ("one_vs_rest", "classes", 1),
        ("one_vs_rest", "classes", 2.5),
        ("one_vs_rest", "smoothing", 0.0, ("classes", 3)),
        ("smoothed_hinge", "smoothing", math.nan),
        ("poisson", "predictor_bound", 700.1, ("count_bound", 1.0)),
        ("poisson", "count_bound", 0.0, ("predictor_bound", 1.0)),
    ):
        assert "expected" in refused(field, executable, kind, **{field: value}, **dict(others))

"""Losses of linear models that are clipped convexly: gradients of one convex function, as steep as claimed.

What is claimed of a record is checked from its gradients alone: they are cocoercive, as those of a convex
function of that curvature are; no smaller curvature would do; and they are the maximisers that the conjugate
asks for, found by a general solver.
"""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize

from pabi import Loss
from pabi.describe.vector_losses import BallSoftmax, OneVsRest, Softmax, VectorHuber, executable
from support.every_case import every

ULP = 2.0**-53
R, K = 1.6, 4
LOSSES = {"logistic": Loss.logistic(R), "softmax": Loss.softmax(R)}
LOSSES |= {"softmax, capped": Loss.softmax(R, residual_cap=0.3)}
LOSSES |= {"softmax, in a ball": Loss.softmax(R), "one_vs_rest": Loss.one_vs_rest(R, K)}
LOSSES |= {"one_vs_rest, hinge": Loss.one_vs_rest(R, K, 0.4), "squared": Loss.squared(R, 0.7)}
LOSSES |= {"huber": Loss.huber(R, 0.7), "vector_huber": Loss.vector_huber(R, 0.7)}
LOSSES |= {"smoothed_hinge": Loss.smoothed_hinge(R, 0.4), "poisson": Loss.poisson(R, 1.5, 3.0)}
LOSSES |= {"gamma": Loss.gamma(R, 2.0)}
each_loss = pytest.mark.parametrize("name", LOSSES)
all_losses = every("name", LOSSES)
NORMS = [1e-3, 0.1, 0.4, 0.75, 1.5]  # C, on both sides of R/2 and of the losses' own bounds


def executed(name):
    loss = executable(LOSSES[name].kind, **dict(LOSSES[name].parameters))
    return loss.in_ball() if name == "softmax, in a ball" else loss


def curvature(name, norm):
    """That of the loss clipped to this norm."""
    how = "ball" if name == "softmax, in a ball" else "residual"
    return LOSSES[name].effective_curvature(norm, how)[1]


def derivative(loss, z, y, most):
    out = np.array(z, dtype=np.float64)
    with np.errstate(all="ignore"):
        loss.differentiate(out, y, most)
    return out


def as_rows(array):
    return array.reshape(len(array), -1)


def records(name, rng, count):
    """(predictors, targets, norms of the rows), a third of them of norm R."""
    response = executed(name).response
    r = np.where(rng.random(count) < 1 / 3, R, R * np.maximum(rng.random(count) ** 0.5, 1e-3))
    shape = (count,) if response in ("sign", "number") else (count, K)
    z = rng.normal(size=shape) * rng.choice([0.3, 2.0, 8.0], size=(count, *(1,) * (len(shape) - 1)))
    match response:
        case "sign":
            y = np.ones(count)
        case "class":
            y = rng.integers(K, size=count)
        case _:
            y = rng.normal(size=shape)
    if LOSSES[name].kind == "poisson":
        y = rng.integers(0, 4, size=count).astype(float)
    if LOSSES[name].kind == "gamma":
        y = np.exp(z + 0.5 * y)
    return z, y, r


def pairs(name, rng, count):
    """`records`, and predictors near and far from theirs."""
    z, y, r = records(name, rng, count)
    near = rng.choice([1e-4, 0.05, 1.0, 10.0], size=(count, *(1,) * (z.ndim - 1)))
    return z, z + near * rng.normal(size=z.shape), y, r


@each_loss
@every("norm", NORMS)
def test_gradients_are_cocoercive_bounded_and_steps_do_not_expand(name, norm):
    """10⁵ pairs in all. A row x of norm r at iterates that differ by x⊗Δz/r² has predictors that differ by Δz
    and gradients by x⊗Δg: lengths Δz/r and r·Δg."""
    rng, loss = np.random.default_rng(int(1000 * norm)), executed(name)
    most = curvature(name, norm)
    z, other, y, r = pairs(name, rng, 2_000)
    g, h = (as_rows(derivative(loss, at, y, norm / r)) for at in (z, other))
    assert np.max(np.linalg.norm(g, axis=1) * r) <= norm * (1.0 + 8 * ULP)
    moved, change = as_rows(z - other) / r[:, None], (g - h) * r[:, None]
    along, square = np.sum(moved * change, axis=1), np.sum(change**2, axis=1)
    # Roundings of predictors and derivatives, over the lengths that they are multiplied with.
    size = np.linalg.norm(moved, axis=1)
    error = 1e-13 * norm * size + 1e-13 * np.max(np.abs(as_rows(z)), axis=1) * most * size
    assert np.all(along - square / most >= -error)
    after = np.linalg.norm(moved - 2.0 / most * change, axis=1)
    assert np.all(after <= size * (1.0 + 1e-12) + 1e-12 * norm / most)


# (predictors, target, direction) near which a loss that is clipped to `b` bends the most.
STEEPEST = {
    "logistic": lambda b: ([_logit(1.0 - min(b, 0.5))], 1.0, [1.0]),
    "softmax": lambda b: _two_classes(min(b / math.sqrt(2.0), 0.5)),
    "softmax, capped": lambda b: _two_classes(min(b / math.sqrt(2.0), 0.3)),
    "softmax, in a ball": lambda b: _two_classes(min(b / math.sqrt(2.0), 0.5)),
    "one_vs_rest": lambda b: ([_logit(1.0 - min(b, 0.5)), *[-40.0] * (K - 1)], 0, FIRST),
    "one_vs_rest, hinge": lambda b: ([1.0, -9.0, -9.0, -9.0], 0, [-x for x in FIRST]),
    "squared": lambda b: ([0.0], 0.0, [1.0]),
    "huber": lambda b: ([0.0], 0.0, [1.0]),
    "vector_huber": lambda b: ([0.0] * K, [0.0] * K, [0.5] * K),
    "smoothed_hinge": lambda b: ([1.0], 1.0, [-1.0]),
    "poisson": lambda b: ([min(math.log(3.0 + b), 1.5)], 3.0, [-1.0]),
    "gamma": lambda b: ([math.log(6.0 / (1.0 + min(b, 2.0)))], 6.0, [1.0]),
}
FIRST = [1.0, 0.0, 0.0, 0.0]


def _logit(p):
    return math.log(p) - math.log1p(-p)


def _two_classes(a):
    return [0.0, _logit(a), -60.0, -60.0], 0, [math.sqrt(0.5), -math.sqrt(0.5), 0.0, 0.0]


@all_losses
@every("norm", NORMS)
def test_two_hundredths_less_curvature_would_be_too_little(name, norm):
    """It is that of rows of norm R. Where a loss is linear after a short way the step is short."""
    loss, b = executed(name), norm / R
    most = Fraction(curvature(name, norm)) / Fraction(R) ** 2
    z, y, direction = STEEPEST[name](b)
    h = 1e-3 * min(b, 1.0)
    y, most_of_one = np.array([y]), np.array([b])
    at = np.array(z) if executed(name).response in ("sign", "number") else np.array([z])
    step = h * np.array(direction).reshape(at.shape)
    change = derivative(loss, at + step, y, most_of_one) - derivative(loss, at, y, most_of_one)
    found = float(np.linalg.norm(change)) / h
    assert 0.98 * most < found <= most * (1 + Fraction(1, 10**9))
    along, square = float(np.sum(change * step)), float(np.sum(change**2))
    assert along < square / (0.98 * float(most))  # not cocoercive with so little


def test_larger_norms_and_longer_rows_are_no_less_steep():
    """As `steepness_within` says: rows of norm up to R, clipped to C/‖x‖, are as steep as those of norm R."""
    grid = [Fraction(i, 40) for i in range(1, 121)]
    for name in LOSSES:
        loss = executed(name)
        within = [loss.steepness_within(b) for b in grid]
        assert within == sorted(within)
        rows = [r * r * loss.steepness_within(Fraction(1, 2) / r) for r in grid]
        assert all(a <= b * (1 + Fraction(1, 10**15)) for a, b in pairwise(rows))


@each_loss
@pytest.mark.parametrize("b", [0.2, 0.6])
def test_it_is_below_the_loss_and_equal_where_that_is_not_steep(name, b):
    """From a point where nothing is clipped, along a line: what the clipped derivatives add up to."""
    rng, loss = np.random.default_rng(9), executed(name)
    start, y, _ = records(name, rng, 6_000)
    if loss.response == "vector":
        start = y + 0.1 * start
    plain = as_rows(derivative(loss, start, y, None))
    # Of softmax the residual at the own class counts, up to b/√2; it is part of the norm.
    short = np.linalg.norm(plain, axis=1) <= 0.7 * b
    start, y = start[short][:20], y[short][:20]
    own = derivative(loss, start, y, np.full(len(start), b))
    assert len(start) == 20
    assert np.array_equal(as_rows(own), plain[short][:20])
    side, nodes = 4.0 * rng.normal(size=start.shape), 1_000
    value = np.asarray(loss.value(start, y))
    for share in (np.arange(nodes) + 0.5) / nodes:
        g = as_rows(derivative(loss, start + share * side, y, np.full(20, b)))
        value = value + np.sum(g * as_rows(side), axis=1) / nodes
    assert np.all(value <= loss.value(start + side, y) + 1e-4)
    clips = b < float(loss.slope)
    assert np.any(value < loss.value(start + side, y) - 1e-2) == clips


def entropy(s):
    return float(np.sum(s * np.log(np.maximum(s, 1e-300))))


def maximiser(goal, start, *, norm, bounds=None, total=None):
    """argmax of a concave goal over vectors of at most this norm, in a box, of a given sum."""
    constraints = [{"type": "ineq", "fun": lambda p: norm**2 - float(p @ p)}]
    if total is not None:
        constraints.append({"type": "eq", "fun": lambda p: float(p.sum()) - total})
    given = {"bounds": bounds, "constraints": constraints, "method": "SLSQP"}
    given |= {"options": {"ftol": 1e-15, "maxiter": 1_000}}
    best = minimize(lambda p: -goal(p), start, **given)
    return best.x


@pytest.mark.parametrize("b", [0.15, 0.5, 1.2])
@pytest.mark.parametrize("smoothing", [None, 0.4])
def test_one_vs_rest_is_the_maximiser_over_a_box_and_a_ball(smoothing, b):
    """Of ⟨p, t⟩ − Σ ℓ*(p_k) at margins t, p = −s. It is strongly concave: what is within 10⁻¹⁴ of the
    maximum is within 10⁻⁶ of the maximiser."""
    rng, loss = np.random.default_rng(10), OneVsRest(K, smoothing)
    for _ in range(8):
        t = rng.normal(size=K) * 2.0

        def goal(s, t=t):
            if smoothing is None:
                return -float(s @ t) - entropy(s) - entropy(1.0 - s)
            return -float(s @ t) + float(s.sum()) - 0.5 * smoothing * float(s @ s)

        start = np.full(K, min(0.4, 0.9 * b / math.sqrt(K)))
        best = maximiser(goal, start, norm=b, bounds=[(0.0, 1.0)] * K)
        margins = t * np.where(np.arange(K) == 1, 1.0, -1.0)
        got = derivative(loss, [margins], np.array([1]), np.array([b]))[0]
        assert np.abs(got) == pytest.approx(best, abs=3e-6)


@every("b", [0.15, 0.5, 1.2])
def test_vector_huber_is_the_maximiser_over_a_ball(b):
    rng = np.random.default_rng(11)
    for _ in range(8):
        z, y = rng.normal(size=(2, K))
        best = maximiser(lambda p, r=z - y: float(p @ r) - 0.5 * float(p @ p), np.zeros(K), norm=b)
        got = derivative(VectorHuber(9.0), [z], np.array([y]), np.array([b]))[0]
        assert got == pytest.approx(best, abs=3e-6)


@every("b", [0.15, 0.5, 1.2])
def test_softmax_is_the_maximiser_over_residuals_of_its_own_class(b):
    """Over distributions π with 1 − π_y ≤ b/√2, a set that lies within the ball of radius b."""
    rng, a = np.random.default_rng(12), min(b / math.sqrt(2.0), 1.0)
    given = {"bounds": [(1.0 - a, 1.0), *[(0.0, 1.0)] * (K - 1)], "norm": 9.0, "total": 1.0}
    start = np.array([1.0 - a / 2.0, *[a / 2.0 / (K - 1)] * (K - 1)])
    for z in 2.0 * rng.normal(size=(8, K)):
        best = maximiser(lambda q, z=z: float(q @ z) - entropy(q), start, **given)
        got = derivative(Softmax(), [z], np.array([0]), np.array([b]))[0]
        assert got == pytest.approx(best - np.eye(K)[0], abs=3e-6)


def test_small_residuals_keep_their_digits():
    """1 − q_y = 3·10⁻¹³ of a class that is nearly certain, clipped below that: had it lost its digits, the
    others' shares would be off by 10⁻⁴ of the bound."""
    z = np.array([[30.0, 0.0, math.log(2.0)]])
    a = 1e-14
    got = derivative(Softmax(), z, np.array([0]), np.array([a * math.sqrt(2.0)]))[0]
    assert got == pytest.approx([-a, a / 3.0, 2.0 * a / 3.0], rel=1e-14)
    got = derivative(Softmax(), z, np.array([0]), None)[0]
    rest = 3.0 * math.exp(-30.0)
    assert got[0] == pytest.approx(-rest / (1.0 + rest), rel=1e-14)


@each_loss
def test_a_derivative_does_not_depend_on_its_place(name):
    """Bit for bit, clipped or not: alone, in any part of an array, and in another order."""
    rng, loss = np.random.default_rng(13), executed(name)
    z, y, r = records(name, rng, 67)
    order = rng.permutation(67)
    parts = [slice(a, a + length) for a in range(0, 67, 3) for length in (1, 2, 3, 5, 8, 13)]
    for most in (0.4 / r, None):
        whole = derivative(loss, z, y, most)
        for part in (*parts, order):
            bound = None if most is None else most[part]
            assert np.array_equal(derivative(loss, z[part], y[part], bound), whole[part])


@every("classes", [2, 9, 33, 150])
def test_nor_does_it_with_many_classes(classes):
    """Whose sums are cut into strips; in whatever order an array is kept."""
    rng = np.random.default_rng(classes)
    z, y = 3.0 * rng.normal(size=(40, classes)), rng.integers(classes, size=40)
    most = rng.uniform(0.05, 0.9, size=40)
    losses = OneVsRest(classes), OneVsRest(classes, 0.4), Softmax(), Softmax(0.3), BallSoftmax()
    for loss, bound in product(losses, (most, None)):
        whole = derivative(loss, z, y, bound)
        if bound is not None:
            assert np.max(np.linalg.norm(whole, axis=1) / most) <= 1.0 + (classes + 8) * ULP
        for kept in (z, np.asfortranarray(z)):
            assert np.array_equal(derivative(loss, kept, y, bound), whole)
            for i in range(40):
                one = slice(i, i + 1)
                few = None if bound is None else bound[one]
                assert np.array_equal(derivative(loss, kept[one], y[one], few), whole[one])


@all_losses
def test_a_threshold_above_the_slope_changes_nothing(name):
    rng, loss = np.random.default_rng(14), executed(name)
    z, y, _ = records(name, rng, 50)
    plain = derivative(loss, z, y, None)
    assert np.array_equal(derivative(loss, z, y, np.full(50, 4.0 * float(loss.slope))), plain)


@each_loss
@every("b", [1e-12, 0.3, 1.2])
def test_extreme_predictors_have_bounded_derivatives(name, b):
    ends = np.array([0.0, 1e-300, 1.0, 37.0, 708.0, 745.0, 1e4, 1e16, 1e200, np.inf])
    _, y, _ = records(name, np.random.default_rng(15), 1)
    loss = executed(name)
    for a in (*ends, *-ends):
        z = np.full(y.shape if loss.response == "vector" else (1,), a)
        if loss.response == "class":
            z = np.array([[a, -a, 0.5, -1.0]])
        g = derivative(loss, z, y, np.array([b]))
        assert np.all(np.isfinite(g)) or not math.isfinite(a)
        assert not np.linalg.norm(g) > b * (1.0 + 16 * ULP)

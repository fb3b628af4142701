"""The constants of losses and the slopes of their gradient steps, against exact rationals."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pabi.describe.losses import Loss
from pabi.describe.moduli import Modulus
from pabi.numbers.errors import NotApplicable
from support.every_case import every, refused, refuses

# Shrinking large rationals takes minutes and tells nothing.
FAST = (Phase.explicit, Phase.reuse, Phase.generate)

R = 1.3

CONSTANTS = [
    (Loss.poisson(R, 1.5, 20.0), (0.0, R**2 * math.exp(1.5)), R * 20.0, True),
    (Loss.poisson(R, 1.5, 2.0), (0.0, R**2 * math.exp(1.5)), R * math.exp(1.5), True),
    (Loss.poisson(R, -1.5, 2.0), (0.0, R**2 * math.exp(-1.5)), R * 2.0, True),
    (Loss.convex(3.0), (0.0, 3.0), None, False),
    (Loss.strongly_convex(0.5, 3.0), (0.5, 3.0), None, False),
    (Loss.strongly_convex(3.0, 3.0), (3.0, 3.0), None, False),
    (Loss.nonconvex(3.0), (-3.0, 3.0), None, False),
    (Loss.weakly_convex(0.5, 3.0), (-0.5, 3.0), None, False),
    (Loss.convex(3.0, gradient_bound=2.0, glm=True), (0.0, 3.0), 2.0, True),
    (Loss.unknown(), None, None, False),
    (Loss.unknown(gradient_bound=2.0), None, 2.0, False),
]


@every(("loss", "curvature", "bound", "glm"), CONSTANTS)
def test_constants(loss, curvature, bound, glm):
    assert loss.curvature == (None if curvature is None else pytest.approx(curvature, rel=1e-14))
    assert loss.gradient_bound == (None if bound is None else pytest.approx(bound, rel=1e-14))
    assert loss.glm is glm


@given(st.floats(1e-3, 1e3), st.integers(2, 12))
def test_gradients_of_classes_are_bounded_by_the_least_double_above(r, classes):
    """So a clip norm clips if and only if it is below the bound in exact numbers."""
    for loss, square in ((Loss.softmax(r), 2), (Loss.one_vs_rest(r, classes), classes)):
        bound, truth = loss.gradient_bound, square * Fraction(r) ** 2
        assert Fraction(math.nextafter(bound, 0.0)) ** 2 < truth <= Fraction(bound) ** 2


def exact_slope(loss, eta, clip=None, fraction=Fraction(1)):
    lo, hi = loss.curvature
    if clip is not None and (loss.gradient_bound is None or clip < loss.gradient_bound):
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    lam, eta = Fraction(loss.l2), Fraction(eta)
    return max(abs(1 - eta * (lam + fraction * Fraction(h))) for h in (lo, hi))


def check_slope(loss, eta, clip=None, fraction=Fraction(1)):
    got = float(loss.slopes(np.array([eta]), clip, fraction)[0])
    truth = exact_slope(loss, eta, clip, fraction)
    assert Fraction(got) >= truth
    # η times one unit of λ + f·h is up to two units of the product; the difference adds one. The
    # unit is that of the largest number in sight: 1, η(λ + f·h), and their difference.
    size = max(1.0, *(eta * abs(loss.l2 + float(fraction) * h) for h in loss.curvature), got)
    assert Fraction(got) - truth <= 3 * Fraction(math.ulp(size))
    return got, truth


ETA = st.floats(1e-6, 100.0)
CURVATURE = st.floats(1e-6, 100.0)
L2 = st.one_of(st.just(0.0), st.floats(1e-8, 10.0))
FRACTIONS = st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(7, 10), Fraction(999, 1000)])


@settings(phases=FAST)
@given(ETA, CURVATURE, CURVATURE, L2, FRACTIONS)
@example(0.1, 3.0, 10.0, 0.0, Fraction(1))
@example(1.000001, 0.99999, 1.0, 0.99999, Fraction(999, 1000))
@example(0.1, 0.0001, 20.0, 0.0, Fraction(1))
@example(0.3, 1.0 / 3.0, 6.0, 1.0 / 3.0, Fraction(1, 3))
def test_slopes_are_never_below_the_exact_value_and_within_three_units(eta, a, b, l2, fraction):
    m, smooth = min(a, b), max(a, b)
    for loss in (
        Loss.convex(smooth, l2),
        Loss.strongly_convex(m, smooth, l2),
        Loss.nonconvex(smooth, l2),
        Loss.weakly_convex(m, smooth, l2),
    ):
        check_slope(loss, eta, None, fraction)
    check_slope(Loss.logistic(a, l2), eta, None, fraction)
    check_slope(Loss.logistic(a, l2), eta, a / 2, fraction)
    check_slope(Loss.strongly_convex(m, smooth, l2, glm=True), eta, m, fraction)


@settings(phases=FAST)
@given(ETA, CURVATURE, FRACTIONS)
def test_convex_losses_without_regulariser_have_slope_exactly_one(eta, smooth, fraction):
    """lo = 0 and λ = 0: one, not one and a bit, up to step size 2/(f·M)."""
    loss = Loss.convex(smooth)
    got = float(loss.slopes(np.array([eta]), None, fraction)[0])
    if Fraction(eta) * fraction * Fraction(smooth) <= 2:
        assert got == 1.0
    else:
        assert got > 1.0


@settings(phases=FAST)
@given(ETA, L2)
@example(1.2141180446115973, 1.2109375)
def test_an_empty_batch_leaves_the_regulariser(eta, l2):
    for loss in (Loss.nonconvex(5.0, l2), Loss.strongly_convex(1.0, 5.0, l2), Loss.unknown(l2)):
        if loss.curvature is None:
            with pytest.raises(NotApplicable):
                loss.slopes(np.array([eta]), None, Fraction(1))
            continue
        got = float(loss.slopes(np.array([eta]), None, Fraction(0))[0])
        truth = abs(1 - Fraction(eta) * Fraction(l2))
        assert truth <= Fraction(got) <= truth + 2 * Fraction(math.ulp(max(1.0, eta * l2)))
        if l2 == 0.0:
            assert got == 1.0


def test_slopes_of_a_small_regulariser_do_not_exceed_one():
    """Truth is just below one; a slope above one would cost the nonexpansive rules."""
    for l2 in (1e-17, 1e-100, 1e-290, 1e-310):
        assert Loss.convex(1.0, l2).modulus(0.1).linear <= 1.0
    assert Loss.convex(1e300).slopes(np.array([1e300]))[0] == math.inf


def test_clipping_of_a_scalar_times_a_vector_is_harmless():
    loss = Loss.strongly_convex(0.5, 2.0, gradient_bound=1.0, glm=True)
    assert [loss.clips(x) for x in (None, 1.0, 0.9)] == [False, False, True]
    assert Loss.convex(1.0).clips(1e9)
    assert loss.effective_curvature(None) == loss.effective_curvature(1.0) == (0.5, 2.0)
    assert loss.effective_curvature(0.9) == (0.0, 2.0)  # a clipped gradient is flat
    assert Loss.weakly_convex(0.5, 2.0, glm=True).effective_curvature(1.0) == (-0.5, 2.0)
    assert loss.modulus(0.5, clip_norm=0.9).linear == 1.0
    assert loss.modulus(0.5, clip_norm=1.0).linear == 0.75


def test_other_clipped_losses_expand():
    for loss in (Loss.softmax(1.0), Loss.convex(1.0), Loss.unknown()):
        assert loss.effective_curvature(0.5) is None
    with pytest.raises(NotApplicable):
        Loss.unknown().slopes(np.ones(1), 0.5)
    # 1/√(1 − ηM/4), and no more than both gradients can part
    slope = 1.0 / math.sqrt(1.0 - 0.1 * 1.0 / 4.0)
    assert Loss.convex(1.0).modulus(0.1, clip_norm=0.5).linear == pytest.approx(slope, rel=1e-15)
    assert Loss.convex(1.0).modulus(0.1, clip_norm=0.5)(100.0) == pytest.approx(100.1, rel=1e-14)
    assert Loss.unknown().modulus(0.1, clip_norm=0.5) == Modulus.affine(1.0, 2 * 0.1 * 0.5)
    assert Loss.softmax(1.0).modulus(0.1, clip_norm=2.0).linear == 1.0  # √2 < 2: never clips


def test_bad_steps_are_refused():
    bad = [0.0, -1.0, math.nan, math.inf]
    refuses(Loss.logistic(1.0).modulus, {"step_size": bad})
    refuses(partial(Loss.logistic(1.0).modulus, 0.1), {"clip_norm": bad, "batch_fraction": bad[1:]})


def test_constants_that_contradict_or_overflow_are_refused():
    feature = ("feature_norm", 1.0)
    for field, make, *arguments in (
        ("strong_convexity", Loss.strongly_convex, 2.0, 1.0),
        ("weak_convexity", Loss.weakly_convex, 2.0, 1.0),
        ("feature_norm", Loss.logistic, 1e200),
        ("predictor_bound", Loss.poisson, 1.0, 800.0, 1.0),
        ("kind", Loss, "cubic"),
        ("feature_norm", Loss, "logistic"),
        ("smoothness", Loss, "logistic", (feature, ("smoothness", 1.0))),
        ("gradient_bound", Loss, "logistic", (feature, ("gradient_bound", 0.1))),
    ):
        refused(field, make, *arguments)

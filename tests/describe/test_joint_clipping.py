"""Derivatives of K losses clipped together: the multiplier against 50 digits, and at extremes."""

import math

import mpmath
import numpy as np
import pytest

from pabi.describe import joint_clipping
from pabi.describe.joint_clipping import (
    hinge_off,
    hinge_within,
    logistic_off,
    logistic_within,
    softmax_off,
    softmax_within,
)
from pabi.describe.vector_losses import OneVsRest
from pabi.numbers.rounding import row_norms

ULP = 2.0**-53
SMOOTHING = 0.4


def falling_root(function, low, high):
    """Where a decreasing function of a positive number is 0, by halving its logarithm."""
    low, high = mpmath.log(low), mpmath.log(high)
    for _ in range(130):
        middle = (low + high) / 2
        if function(mpmath.exp(middle)) > 0:
            low = middle
        else:
            high = middle
    return mpmath.exp(low)


def logistic_size(margin, multiplier):
    """s = 1/(1 + e^(t + λs)): Newton's method on λs + log s − log(1 − s) + t in u = log s − log(1 − s)."""
    u = min(-margin, mpmath.mpf(0)) if margin + multiplier / 2 >= 0 else mpmath.mpf(0)
    for _ in range(2_000):
        s = 1 / (1 + mpmath.exp(-u))
        move = (u + multiplier * s + margin) / (1 + multiplier * s * (1 - s))
        u -= move
        if abs(move) < mpmath.mpf(10) ** -30:
            break
    return 1 / (1 + mpmath.exp(-u))


def hinge_size(margin, multiplier):
    return min(1, max(0, 1 - margin) / (mpmath.mpf(SMOOTHING) + multiplier))


def exactly(size, margins, most):
    """s of norm `most`, from a multiplier between 10⁻⁴⁰ and 10⁴⁰/most."""
    margins, most = [mpmath.mpf(float(t)) for t in margins], mpmath.mpf(most)

    def excess(multiplier):
        return mpmath.norm([size(t, multiplier) for t in margins]) - most

    root = falling_root(excess, mpmath.mpf(10) ** -25, 10**6 / most)
    return [size(t, root) for t in margins]


CASES = [
    *(([0.0, 1.0, 2.0], 0.3), ([-2.0, 3.0, 0.5, -0.1], 0.9), ([-700.0, -699.5, 700.0], 1e-12)),
    *(([700.0, -700.0, 3.0], 0.5), ([0.0, 0.0, 0.0, 0.0, 0.0], 1e-12)),
    *(([-700.0, -700.0, -700.0], 1.7), ([-700.0, -699.0, -650.0], 1.7320508)),
    *(([-700.0, 30.0, 29.0], 1.0 - 1e-9), ([-1e-9, 5.0, 700.0], 1e-6)),
    *(([0.0, 0.0], math.sqrt(0.5) * (1.0 - 1e-12)), ([-30.0, 0.0], 1.1)),
]


@pytest.mark.parametrize(("margins", "most"), CASES, ids=str)
@pytest.mark.parametrize("within", ["logistic", "hinge"])
def test_it_is_the_root(within, margins, most):
    """Within eight units in the last place of the norm, and as many of the margins, since u = −t − λs."""
    rows, norms = np.array([margins]), np.array([most])
    if within == "logistic":
        got, wanted = logistic_within(rows, norms)[0], exactly(logistic_size, margins, most)
    else:
        longer = np.linalg.norm(np.clip((1.0 - rows) / SMOOTHING, 0.0, 1.0)) > most
        assert longer
        got, wanted = (hinge_within(rows, norms, SMOOTHING)[0], exactly(hinge_size, margins, most))
    for value, truth, margin in zip(got, wanted, margins, strict=True):
        turned = abs(margin) * float(truth) * float(1 - truth)  # of a margin rounded by one unit
        assert abs(value + truth) <= 8 * ULP * (most + turned)
    assert np.linalg.norm(got) == pytest.approx(most, rel=8 * ULP)


@pytest.mark.parametrize("classes", [2, 3, 10, 40])
def test_random_margins_have_one_multiplier(classes):
    """λ = −(t + log s − log(1 − s))/s is the same for all of a record's losses, and not below 0. Nothing is
    warned of on the way, which would tell of a record."""
    rng = np.random.default_rng(classes)
    margins = rng.normal(size=(3_000, classes)) * rng.choice([0.5, 3.0, 10.0], size=(3_000, 1))
    most = np.linalg.norm(1.0 / (1.0 + np.exp(margins)), axis=1)
    most *= rng.choice([1.0 - 1e-9, 0.9, 0.5, 0.1, 1e-6], size=3_000)
    s = -logistic_within(margins, most)
    assert np.linalg.norm(s, axis=1) == pytest.approx(most, rel=1e-14)
    short = np.maximum(1.0 - s, ULP)
    multiplier = -(margins + np.log(s) - np.log(short)) / s
    # Steps of the search end at eight units of a logit, and what scales s to its norm is as much of s, which
    # is more of 1 − s.
    unit = 16 * ULP * (1.0 + np.abs(margins) + np.abs(np.log(s)) + 1.0 / short) / s
    low, high = np.max(multiplier - unit, axis=1), np.min(multiplier + unit, axis=1)
    assert np.all(low <= high)
    assert np.all(high >= 0.0)


@pytest.mark.parametrize("most", [1e-280, 1e-100, 1e-20])
def test_minute_norms_have_one_too(most):
    """s is so small that u = log s, and λs differ from each other by what margins do."""
    margins = np.array([[0.0, 1.0, 2.0], [-700.0, -690.0, 5.0]])
    s = -logistic_within(margins, np.full(2, most)) / most
    # λ·most = −(t + log most + log s)/s.
    scaled = -(margins + math.log(most) + np.log(s)) / s
    assert np.ptp(scaled, axis=1) == pytest.approx(0.0, abs=1e-11 * scaled.max())
    assert np.linalg.norm(s, axis=1) == pytest.approx(1.0, rel=1e-14)


def test_hinge_losses_have_one_width():
    """s = min(1, d/g) for one g ≥ γ, whichever margins are saturated."""
    rng = np.random.default_rng(3)
    margins = rng.normal(size=(5_000, 6)) * rng.choice([0.5, 3.0, 30.0], size=(5_000, 1))
    d = np.maximum(1.0 - margins, 0.0)
    plain = np.linalg.norm(np.minimum(d / SMOOTHING, 1.0), axis=1)
    used = plain > 0.0
    margins, d, plain = margins[used], d[used], plain[used]
    most = plain * rng.choice([1.0 - 1e-9, 0.9, 0.5, 1e-6], size=len(plain))
    s = -hinge_within(margins, most, SMOOTHING)
    assert np.linalg.norm(s, axis=1) == pytest.approx(most, rel=1e-14)
    assert np.all((s == 0.0) == (d == 0.0))
    width = np.where(s < 1.0 - 1e-12, d / np.where(s > 0.0, s, 1.0), np.nan)
    width[d == 0.0] = np.nan
    some = ~np.all(np.isnan(width), axis=1)
    lowest, highest = np.nanmin(width[some], axis=1), np.nanmax(width[some], axis=1)
    assert highest == pytest.approx(lowest, rel=1e-13)
    assert np.all(lowest >= SMOOTHING * (1.0 - 1e-13))
    full = np.where(s >= 1.0 - 1e-12, d, np.inf)[some].min(axis=1)
    assert np.all(full >= lowest * (1.0 - 1e-12))
    assert np.any(np.isfinite(full))


def clipped(size, margins, most):
    """s of norm `most` at most: as it is, or by bisection for the multiplier, in 40 digits.

    As s falls with the multiplier, the square of what s is off by is at most what the norm's square is off
    by.
    """
    margins, most = [mpmath.mpf(float(t)) for t in margins], mpmath.mpf(float(most))

    def at(multiplier):
        return [size(t, multiplier) for t in margins]

    def too_long(s):
        return sum(x * x for x in s) > most * most

    if not too_long(at(mpmath.mpf(0))):
        return at(mpmath.mpf(0))
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while too_long(at(high)):
        low, high = high, 2 * high
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if too_long(at(middle)) else (low, middle)
    return at(high)


def next_to(number):
    return [np.nextafter(number, 0.0), number, np.nextafter(number, 9.0)]


# Where roots say least: radii at and next to √j, records whose own norm is the radius, ties, huge margins.
EDGES = [
    *(([-700.0, 18.4], most) for most in next_to(1.0)),
    *(([-37.0, 9.0, 9.0], most) for most in next_to(1.0)),
    *(([-3000.0, 5.0, 30.0], 1.0), ([-1e5, -0.4, 3.0], 1.0)),
    *(([-40.0, -40.0, 700.0], most) for most in next_to(math.sqrt(2.0))),
    *(([-40.0, -40.0, 1.0 - 1e-7], most) for most in next_to(math.sqrt(2.0))),
    ([-50.0, 1.0 - 4e-10], 1.0),
    *(([0.0, 0.0, 0.0, 0.0], most) for most in next_to(1.0)),
    *(([0.0, 0.0, 0.0, 0.0], 2e-3), ([-2.5, -2.5], 0.9), ([-2.5, -2.5], 1.4)),
]


def off_by(got, wanted):
    gaps = [mpmath.mpf(float(a)) + b for a, b in zip(got, wanted, strict=True)]
    return mpmath.sqrt(sum(gap * gap for gap in gaps))


@pytest.mark.parametrize(("margins", "most"), EDGES, ids=str)
def test_next_to_what_is_singular_it_is_the_maximiser(margins, most):
    """Rows of which it is not clear in doubles whether they are too long are taken as they come."""
    z = np.array([margins]) * np.where(np.arange(len(margins)) == 0, 1.0, -1.0)
    ball, farthest = np.array([most]), max(map(abs, margins))
    for smoothing, size, bound in (
        (None, logistic_size, logistic_off(len(margins), farthest)),
        (SMOOTHING, hinge_size, hinge_off(len(margins))),
    ):
        got = z.copy()
        with np.errstate(all="ignore"):
            OneVsRest(len(margins), smoothing).differentiate(got, np.array([0]), ball)
        got[:, 1:] *= -1.0
        assert off_by(got[0], clipped(size, margins, most)) <= bound
        assert np.linalg.norm(got) <= most * (1.0 + 8 * ULP)


@pytest.mark.parametrize("classes", [1, 4])
def test_derivatives_are_no_farther_from_the_maximiser_than_is_said(classes):
    """Whatever was found: also where logits and multipliers are off by much more than they are."""
    rng = np.random.default_rng(classes)
    t = rng.normal(size=(classes, 3)) * 4.0 - 1.0
    s = 1.0 / (1.0 + np.exp(t))
    most = np.sqrt(np.square(s).sum(axis=0)) * np.array([0.9, 0.3, 1.0])
    u, multiplier = joint_clipping._logits(t, most)
    exact = [clipped(logistic_size, t[:, i], most[i]) for i in range(3)]
    ratios = []
    for off in (0.0, 1e-12, 1e-7, 1e-2):
        stretched = multiplier * (1.0 + off * rng.uniform(0.5, 1.0, size=3))
        logits = joint_clipping._logit(t, stretched)
        for moved in (u + off * rng.normal(size=u.shape), logits):
            got, said = joint_clipping._logistic_off(t, most, (moved, stretched))
            p = joint_clipping._shortened(got.T, most)
            ratios.append([float(off_by(p[i], exact[i]) / said[i]) for i in range(3)])
    many = joint_clipping._logistic_in_many_digits(t[:, 0], float(most[0]))
    assert off_by(-many, exact[0]) < 1e-15
    assert np.max(ratios) <= 1.0
    assert np.max(ratios[4]) > 0.02
    assert np.max(ratios[5]) > 0.15


def test_derivatives_that_were_not_found_are_searched_for_in_many_digits(monkeypatch):
    t, most = np.array([[-2.0, 0.3, 1.0]] * 2), np.array([0.2, 0.7])
    found = logistic_within(t, most)
    assert logistic_off(3, 2.0) < 1e-12
    monkeypatch.setattr(joint_clipping, "_logits", lambda t, most: (-t, most))
    np.testing.assert_allclose(logistic_within(t, most), found, rtol=1e-13)


@pytest.mark.parametrize("smoothing", [None, SMOOTHING])
def test_nothing_is_said_of_margins_too_far_out(smoothing):
    loss = OneVsRest(3, smoothing)
    assert loss.off(3, True, 1e3) < 1e-10
    assert loss.off(3, True, 1e7) == math.inf
    assert loss.off(3, False, 1e7) < 1e-14


def test_predictors_that_overflow_end_the_search():
    """At once, with derivatives within the norm or none at all."""
    wild = np.array(
        [[np.inf, -np.inf, 0.0], [-np.inf] * 3, [-1e308, 1e308, 0.0], [np.nan, 0.0, 0.0]]
    )
    with np.errstate(all="ignore"):
        for most in (1e-280, 1e-12, 0.4):
            got = logistic_within(wild, np.full(4, most))
            assert np.all(np.isnan(got[3]))
            assert np.linalg.norm(got[:3] / most, axis=1) == pytest.approx(1.0, rel=1e-14)


def test_norms_of_rows_neither_overflow_nor_vanish():
    rows = np.array([[3e300, 4e300], [3e-300, 4e-300], [0.0, 0.0], [0.0, -2.0]])
    assert row_norms(rows) == pytest.approx([5e300, 5e-300, 0.0, 2.0], rel=4 * ULP)
    assert row_norms(np.array([[np.inf, 1.0]])) == np.inf


def maximiser(t, most):
    """q of the other classes: Newton's method for (λ, c), the residuals log q_k + λp_k − t_k − c being 0.

    In 60 digits, from where doubles are; it is checked that the three conditions hold.
    """
    _, beta, multiplier = joint_clipping._in_ball(t[:, None], np.array([most]))
    unknown = mpmath.matrix([multiplier[0] / most, mpmath.log1p(-most * beta[0])])

    def at(multiplier, level):
        # Every q by Lambert's function: log q + λq = t + c, and log q_y + λ(q_y − 1) = c.
        q = [
            mpmath.lambertw(multiplier * mpmath.exp(x)) / multiplier
            for x in logits(multiplier, level)
        ]
        return q

    def logits(multiplier, level):
        # c = log q_y − λβ, of which `level` is the first summand.
        c = level - multiplier * (1 - mpmath.exp(level))
        return [*(mpmath.mpf(x) + c for x in t.tolist()), multiplier + c]

    def lacking(multiplier, level):
        q = at(multiplier, level)
        return [sum(q) - 1, sum(q[:-1]) ** 2 + sum(x * x for x in q[:-1]) - mpmath.mpf(most) ** 2]

    found = mpmath.findroot(lacking, tuple(unknown), tol=1e-80, maxsteps=60)
    assert max(abs(x) for x in lacking(*found)) < mpmath.mpf(10) ** -38
    return at(*found)[:-1]


def distance(q, exact, most):
    """How far p is from the exact one, in units of the ball."""
    apart = [mpmath.mpf(float(a)) - b for a, b in zip(q, exact, strict=True)]
    return float(mpmath.sqrt(sum(x * x for x in apart) + sum(apart) ** 2) / mpmath.mpf(most))


@pytest.mark.parametrize("classes", [2, 3, 8])
@pytest.mark.parametrize("most", [1e-5, 0.3, 1.0])
def test_the_root_is_no_farther_from_the_maximiser_than_is_said(classes, most):
    """Whatever was found: also where the search is off by much more than it is."""
    rng = np.random.default_rng(classes)
    t = rng.normal(size=(classes - 1, 1)) * 3.0 + 4.0
    ball, exact = np.array([most]), maximiser(t[:, 0], most)
    rho, beta, multiplier = joint_clipping._in_ball(t, ball)
    ratios = []
    for off in (0.0, 1e-9, 1e-6):
        factors = 1.0 + off * rng.normal(size=(classes + 1, 1))
        found = rho * factors[2:], beta * factors[0], multiplier * factors[1]
        q, said = joint_clipping._off(t, ball, found)
        ratios.append(distance(q[:, 0], exact, most) / said[0])
    assert max(ratios) <= 1.0
    assert max(ratios[1:]) > 1e-3 or classes < 8
    assert distance(joint_clipping._in_many_digits(t[:, 0], most), exact, most) < 1e-15


def test_what_was_not_found_is_searched_for_in_many_digits(monkeypatch):
    z, y, most = np.array([[2.0, 5.0, -1.0]] * 2), np.array([0, 2]), np.array([0.2, 0.7])
    found = softmax_within(z, y, most)
    assert softmax_off(3, 6.0) < 1e-11
    monkeypatch.setattr(joint_clipping, "_in_ball", lambda t, most: (t * 0.0 + 0.1, most, most))
    np.testing.assert_allclose(softmax_within(z, y, most), found, rtol=1e-13)

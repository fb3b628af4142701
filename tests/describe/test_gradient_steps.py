"""Moduli of gradient steps: against losses that attain them, and against brute force."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pabi.describe.gradient_steps import clipping_slope, holder_gap
from pabi.describe.losses import Loss


def by_search(step, m, big):
    """max over q of the larger singular value, as the supremum reads before it is solved."""
    q = np.linspace(0.0, 1.0, 200_001)
    x = 1.0 + step * m - step * (big + m) * q
    spread = (step * (big + m)) ** 2 * q * (1.0 - q)
    # The larger root s of s² + x²/s² = x² + spread + 1, without cancellation.
    largest = (
        np.sqrt((np.abs(x) + 1.0) ** 2 + spread) + np.sqrt((np.abs(x) - 1.0) ** 2 + spread)
    ) / 2.0
    return float(max(1.0 + step * m, abs(1.0 - step * big), largest.max()))


@given(st.floats(1e-4, 5.0), st.floats(0.0, 3.0), st.floats(0.01, 3.0))
def test_clipping_slope_solves_the_search(step, m, big):
    found = clipping_slope(Fraction(step), Fraction(-m), Fraction(big))
    searched = by_search(step, m, big)
    assert searched * (1.0 - 1e-14) <= found <= searched * (1.0 + 1e-9)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2.5), st.floats(0.0, 1.0))
@settings(max_examples=settings().max_examples // 4)
def test_no_clip_and_no_curvature_expand_more(seed, step, m):
    """Random 0 ⪯ P ⪯ I and −m ⪯ A ⪯ 1 in a few dimensions."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    slope = clipping_slope(Fraction(step), Fraction(-m), Fraction(1))
    for _ in range(40):
        p, a = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
        shrink = p @ np.diag(rng.choice([0.0, 1.0, rng.random()], d)) @ p.T
        curvature = a @ np.diag(rng.choice([-m, 1.0, rng.uniform(-m, 1.0)], d)) @ a.T
        assert np.linalg.norm(np.eye(d) - step * shrink @ curvature, 2) <= slope * (1.0 + 1e-12)


def covered(modulus, gradient, step, x, y):
    """Whether no step from x and y ends further apart than the modulus says, but for roundings."""
    gx, gy = step * gradient(x), step * gradient(y)
    rounding = 1e-14 * (np.abs(x) + np.abs(y) + np.abs(gx) + np.abs(gy))
    found = np.abs((x - gx) - (y - gy))
    return bool(np.all(found <= modulus(np.abs(x - y)) * (1.0 + 1e-12) + rounding))


def test_the_gap_of_a_power_is_nearly_attained():
    """p = 0: two subgradients ±1 at a distance that vanishes."""
    modulus = Loss.lipschitz(1.0).modulus(0.3)
    assert modulus(1e-9) == pytest.approx(0.6, rel=1e-12)
    assert Loss.lipschitz(1.0).gradient_bound == 1.0


@settings(deadline=None)  # the first one imports scipy.optimize
@given(st.floats(0.01, 20.0), st.floats(0.1, 5.0), st.floats(0.1, 5.0))
@example(20.0, 1.0, 0.1)  # ηM above 2 by a rounding: the best exponent is 1 but for 10⁻¹⁶
@example(10.0, 1.0, 0.2)
def test_interpolated_exponents_only_help(step, rough, smooth):
    pairs = [(0.0, rough), (1.0, smooth)]
    exact = Fraction(step)
    found = holder_gap(exact, pairs)
    assert found <= min(holder_gap(exact, [pair]) for pair in pairs)
    if exact * Fraction(smooth) <= 2:
        assert found == 0.0
    else:  # by search over the exponents 1 − left
        left = np.geomspace(1e-20, 1.0, 80_001)
        excess = math.log1p(float(exact * Fraction(smooth) / 2 - 1))
        log = excess + left * (math.log(rough) - math.log(smooth))
        with np.errstate(over="ignore"):
            gaps = 4.0 * left / (2.0 - left) * np.exp(2.0 / left * log)
        best = int(np.argmin(gaps))
        assert found >= float(gaps[best]) * (1.0 - 1e-4)
        if left[best] > 1e-9:
            assert found == pytest.approx(float(gaps[best]), rel=1e-4)
        else:  # nearer to one the solver keeps away from its own roundings, and below what is left
            assert found <= float(gaps[left > 1e-11].min()) * (1.0 + 1e-4)


# Dissipative losses, bounded gradients, and the regulariser.


def mean_of_clipped(rng, z):
    slopes, shifts = rng.uniform(0.0, 1.0, 5), rng.normal(size=5)
    each = [np.clip(a * (z - b), -0.8, 0.8) for a, b in zip(slopes, shifts, strict=True)]
    return np.mean(each, axis=0)


POWERS = (0.0, 0.2, 0.5, 0.8, 1.0)
FIELDS = [
    # ∇f = sign(x)|x|^p is p-Hölder with constant 2^(1−p).
    *(
        (
            Loss.weakly_smooth([(p, 2.0 ** (1.0 - p))]),
            None,
            lambda z, p=p: np.sign(z) * np.abs(z) ** p,
        )
        for p in POWERS
    ),
    # Smooth and Lipschitz, where steps overshoot.
    (Loss.huber(1.0, 0.7), None, lambda z: np.clip(z, -0.7, 0.7)),
    # ∇f = x − sin x: (x − y)² − (x − y)(sin x − sin y) ≥ ½(x − y)² − 2.
    (Loss.dissipative(offset=2.0, rate=0.5, smoothness=2.0), None, lambda z: z - np.sin(z)),
    (Loss.convex(1.0, glm=True), 0.8, None),
    (Loss.convex(1.0), 0.8, None),
    (Loss.unknown(), 0.8, None),
    (Loss.lipschitz(0.8), None, None),
    (Loss.dissipative(0.1, 0.0 + 1e-9, 1.0), None, None),
]


@given(st.floats(0.001, 5.0), st.floats(0.0, 0.5), st.floats(0.1, 2.0), st.integers(0, 99))
def test_no_step_goes_further_than_the_modulus(step, l2, fraction, seed):
    """x − η(λx + f·g(x)) with a gradient, or a mean of clipped ones, of each kind."""
    assume(step * l2 < 1.0)
    for loss, clip, field in FIELDS:
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, 1000)) * 10.0 ** rng.uniform(-3, 3, size=(2, 1000))
        modulus = loss.with_l2(l2).modulus(step, clip_norm=clip, batch_fraction=fraction)

        def gradient(z, field=field, seed=seed):
            g = field(z) if field else mean_of_clipped(np.random.default_rng(seed + 100), z)
            return l2 * z + fraction * g

        assert covered(modulus, gradient, step, x, y), loss


def test_limits_meet():
    distances = np.logspace(-3, 3, 13)
    smooth = Loss.weakly_smooth([(1.0, 2.0)]).modulus(0.5)
    nearly = Loss.weakly_smooth([(1.0 - 1e-9, 1.0)]).modulus(0.5)
    np.testing.assert_allclose(nearly(distances), smooth(distances), rtol=1e-9)
    convex = Loss.convex(2.0).modulus(0.5)
    barely = Loss.weakly_convex(1e-12, 2.0).modulus(0.5)
    np.testing.assert_allclose(barely(distances), convex(distances), rtol=1e-11)

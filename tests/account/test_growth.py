"""How far two paths can part on a dissipative loss, against integrals at thirty digits."""

import math

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi import Loss
from pabi.account.facts.positions import Growth, growth_of

size = st.floats(0.05, 20.0)
growths = st.builds(Growth, expansion=size, rate=size, offset=size, gap=size)
CLOSE = 1e-11  # relative, over sums that nearly cancel


def rate_of(growth, z):
    """Δ + min{Mz, λ/z − κz}."""
    M, kappa, offset, gap = map(mp.mpf, growth)
    return gap + (min(M * z, offset / z - kappa * z) if z else 0)


def farthest(growth):
    """z* by the formula for the roots of κz² − Δz − λ."""
    _, kappa, offset, gap = map(mp.mpf, growth)
    return (gap + mp.sqrt(gap**2 + 4 * kappa * offset)) / (2 * kappa)


def integral(function, growth, d):
    _, kappa, offset, _ = map(mp.mpf, growth)
    cross = mp.sqrt(offset / (mp.mpf(growth.expansion) + kappa))
    return mp.quad(function, sorted({mp.mpf(0), min(cross, d), mp.mpf(d)}))


@settings(deadline=None)
@given(growths)
def test_the_rate_turns_and_vanishes_where_it_is_said_to(growth):
    with mp.workdps(30):
        assert growth.limit == pytest.approx(float(farthest(growth)), rel=1e-14)
        assert abs(rate_of(growth, farthest(growth))) < 1e-20
        turn = mp.mpf(growth.turn)
        rising = growth.expansion * turn
        falling = growth.offset / turn - growth.rate * turn
        assert float(rising) == pytest.approx(float(falling), rel=1e-12, abs=1e-12)


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(growths, st.floats(0.01, 0.99))
def test_time_and_cost_are_integrals(growth, part):
    with mp.workdps(30):
        d = float(part * farthest(growth))
        spread = integral(lambda z: rate_of(growth, z), growth, d)
        assert growth.spread(d) == pytest.approx(float(spread), rel=CLOSE)
        time = integral(lambda z: 1 / rate_of(growth, z), growth, d)
        assert growth.time(d) == pytest.approx(float(time), rel=CLOSE)


@settings(max_examples=settings().max_examples // 2, deadline=None)
@given(growths, st.floats(0.01, 0.999))
def test_what_is_reached_by_a_time_is_the_least_distance_that_takes_so_long(growth, part):
    with mp.workdps(30):
        aim = float(part * farthest(growth))
        time = float(integral(lambda z: 1 / rate_of(growth, z), growth, aim))
        found = growth.reached(time)
        assert found is not None
        # Times are known to a few parts in 10¹¹, and so is the distance, where it grows as fast as its time.
        room = 2 * CLOSE * time * rate_of(growth, aim)
        assert abs(found - aim) <= room + 1e-12 * aim
        assert growth.time(found) >= time


def test_what_is_never_reached_has_no_distance():
    growth = Growth(expansion=1.0, rate=0.5, offset=2.0, gap=0.1)
    for time in (math.inf, math.nan, 1e6):  # the last one next to z*
        assert growth.reached(time) is None
    assert 0.0 <= growth.reached(0.0) < 1e-12


def test_a_regulariser_makes_paths_part_less():
    """∇L + λx: the least curvature and the rate both rise by λ. Other losses have no growth."""
    for l2 in (0.0, 0.25):
        found = growth_of(Loss.dissipative(2.0, 0.5, 3.0, l2=l2), 0.1)
        assert found == Growth(expansion=3.0 - l2, rate=0.5 + l2, offset=2.0, gap=0.1)
    for l2 in (3.0, 4.0):  # convex with its regulariser
        assert growth_of(Loss.dissipative(2.0, 0.5, 3.0, l2=l2), 0.1) is None
    for loss in (Loss.nonconvex(3.0), Loss.logistic(1.0), Loss.unknown(gradient_bound=1.0)):
        assert growth_of(loss, 0.1) is None

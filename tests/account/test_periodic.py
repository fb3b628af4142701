"""Run-length encoded schedules against the same schedules written out, and against closed forms.

P1 is Bok, Su, Altschuler 2024, "Shifted interpolation for differential privacy".
"""

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from pabi.account.shifts import isotonic, periodic
from pabi.account.shifts.epochs import energy_of, solve_schedule
from pabi.account.shifts.start import best_start
from pabi.describe.iteration import Group, Groups, Steps, Stretch
from support.every_case import every

# Shrinking a schedule takes a minute.
FAST = (Phase.explicit, Phase.reuse, Phase.generate)

# The run-length solver adds 4e-13 for its exponentials, the other one less.
AGREE = 2e-12


def written_out(groups):
    return Steps(*(np.asarray(column) for column in groups.columns()))


def schedules(slopes):
    """Up to five groups, each repetition with its one demand, if any, in its first step."""
    sigma = st.sampled_from([0.1, 0.5, 1.0, 1.7])
    idle = st.builds(Stretch, st.integers(1, 12), slopes, st.just(0.0), sigma)
    use = st.builds(Stretch, st.just(1), slopes, st.sampled_from([0.01, 0.3, 1.0, 2.5]), sigma)
    repetition = st.builds(
        lambda head, rest: (head, *rest), st.one_of(use, use, idle), st.lists(idle, max_size=3)
    )
    group = st.builds(Group, st.integers(1, 30), repetition)
    return st.lists(group, min_size=1, max_size=5).map(Groups)


def growth(groups):
    """log of the most that any stretch of the schedule can expand a distance."""
    return sum(n * max(0.0, math.log(x.c)) for n, x in groups.stretches())


NONEXPANSIVE = st.sampled_from([0.3, 0.9, 0.99, 1.0, 1.0])
ANY_SLOPE = st.sampled_from([0.3, 0.9, 0.99, 1.0, 1.001, 1.1, 2.0])
STARTS = st.sampled_from([0.0, 0.0, 0.7])


@settings(deadline=None, phases=FAST)
@given(schedules(ANY_SLOPE).filter(lambda groups: growth(groups) < 300.0), STARTS)
def test_agrees_with_arrays_without_a_diameter(groups, start):
    assert periodic.solvable(groups)
    c, s, sigma = written_out(groups)
    truth = isotonic.solve(c, s, sigma**2, start).energy
    assert periodic.solve(groups, start).energy == pytest.approx(truth, rel=AGREE, abs=1e-290)
    assert periodic.best_start(groups, math.inf, start) == periodic.solve(groups, start)


@settings(deadline=None, phases=FAST)
@given(schedules(NONEXPANSIVE), st.sampled_from([0.05, 0.7, 3.0, 20.0]), STARTS)
def test_agrees_with_arrays_on_a_diameter(groups, diameter, start):
    truth = best_start(written_out(groups), diameter, min(start, diameter)).payments.energy
    got = periodic.best_start(groups, diameter, min(start, diameter)).energy
    assert got == pytest.approx(truth, rel=1e-9, abs=1e-200)


@settings(deadline=None, phases=FAST)
@given(
    schedules(ANY_SLOPE).filter(lambda groups: growth(groups) < 300.0),
    st.sampled_from([0.05, 0.7, 3.0]),
)
def test_is_never_below_the_optimum_when_steps_expand(groups, diameter):
    """Where the search over starts is not exact it is still an upper bound."""
    truth = best_start(written_out(groups), diameter).payments.energy
    # Energies below 1e-200 say nothing: the search over starts stops telling them apart.
    assert periodic.best_start(groups, diameter).energy >= truth * (1 - 1e-9) - 1e-200
    # The front door picks an exact solver for runs as short as these.
    energy = energy_of(solve_schedule(groups, diameter)[1])
    assert energy == pytest.approx(truth, rel=1e-9, abs=1e-200)


@settings(max_examples=settings().max_examples // 4, deadline=None, phases=FAST)
@given(
    st.sampled_from([0.9, 0.999, 1.0, 1.0, 1.0003]),
    st.integers(1, 60),
    st.integers(1, 400),
    st.integers(0, 70),
    st.sampled_from([1.0, 5.0, math.inf]),
)
def test_cyclic_runs_of_many_epochs(c, length, epochs, after, diameter):
    used, idle = Stretch(1, c, 1.0, 1.0), Stretch(length, c, 0.0, 1.0)
    cool = Stretch(after, 0.97, 0.0, 1.0)
    parts = [Group(epochs, (used, idle)), Group(1, (used,))]
    groups = Groups([*parts, Group(1, (cool,))] if after else parts)
    truth = best_start(written_out(groups), diameter).payments.energy
    energy = energy_of(solve_schedule(groups, diameter)[1])
    assert energy == pytest.approx(truth, rel=1e-9, abs=0.0)


BILLION = 1_000_000_000


@every("c", [0.5, 0.9, 0.999999, 1.0 - 2.0**-40, 1.0, 1.0 + 2.0**-40, 1.1])
def test_full_batches_of_a_thousand_million_steps(c):
    """P1 Thm 4.2, and composition where steps expand."""
    groups = Groups((Group(BILLION, (Stretch(1, c, 0.1, 2.0),)),))
    x = mpf(c)
    truth = mpf(BILLION)
    if c < 1.0:
        truth = (1 - x**BILLION) / (1 + x**BILLION) * (1 + x) / (1 - x)
    truth *= (mpf(0.1) / mpf(2.0)) ** 2
    assert abs(periodic.solve(groups).energy / truth - 1) <= mpf(2e-12)


@every("c", [0.9, 1.0])
def test_full_batches_of_a_thousand_million_steps_on_a_diameter(c):
    """c = 1: D(2s/σ²) once sD is a whole number of steps (P1 Thm 4.5, optimised)."""
    groups = Groups((Group(BILLION, (Stretch(1, c, 0.125, 1.0),)),))
    got = periodic.best_start(groups, 1.0).energy
    short = Groups((Group(3000, (Stretch(1, c, 0.125, 1.0),)),))
    assert got == pytest.approx(
        best_start(written_out(short), 1.0).payments.energy, rel=1e-9, abs=0.0
    )
    if c == 1.0:
        assert got == pytest.approx((1.0 + 8 * 0.125) ** 2 / 8, rel=1e-9, abs=0.0)


@every("after", [100, 1000, 3000, 10_000, 1_000_000])
@every("c", [0.9, 1.01, 1.1])
def test_one_use_and_many_steps_after(c, after):
    """s²·W²/ΣW²σ²: for expanding steps it tends to s²(1 − c^−2), however many there are."""
    groups = Groups((Group(1, (Stretch(1, c, 1.0, 1.0), Stretch(after, c, 0.0, 1.0))),))
    x = mpf(c)
    truth = (1 - x ** (-2)) / (1 - x ** (-2 * (after + 1)))
    got = periodic.solve(groups).energy
    assert math.isfinite(got)
    if truth > mpf(1e-290):
        # An expansion by e^u is known to a few u units in the last place.
        slack = mpf(2e-12) + mpf(4e-15) * max(0, after * mp.log(x))
        assert abs(got / truth - 1) <= slack
    else:
        assert got <= 1e-280


def test_what_it_covers():
    used, idle = Stretch(1, 0.9, 1.0, 1.0), Stretch(4, 0.9, 0.0, 1.0)
    assert periodic.solvable(Groups((Group(3, (used, idle)),)))
    assert not periodic.solvable(Groups((Group(3, (idle, used)),)))
    assert not periodic.solvable(Groups((Group(3, (used._replace(n=2), idle)),)))
    # Steps that forget everything, or have no noise, are covered too.
    for odd in (idle._replace(c=0.0), idle._replace(sigma=0.0)):
        groups = Groups((Group(3, (used, odd)),))
        assert periodic.solvable(groups)
        c, s, sigma = written_out(groups)
        expected = isotonic.solve(c, s, sigma**2).energy
        assert periodic.solve(groups).energy == pytest.approx(expected, rel=1e-11, abs=1e-290)

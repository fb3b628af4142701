"""Lines in pictures promise nothing more than the curve does between the points that were computed."""

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pabi
from pabi.cli.explorer.run_view import epsilon_curves, first_curves, tradeoff_curves
from pabi.show.themes import above_epsilons, below_errors
from pabi.tradeoff import Gaussian

BETWEEN = np.linspace(0.02, 0.98, 13)  # of the way from a corner to the next one

SUBSAMPLED = pabi.NoisySGD(
    pabi.Loss.unknown(),
    n=2_000,
    batches=pabi.Poisson(100),
    epochs=2,
    step_size=0.1,
    noise_multiplier=0.8,
    clip_norm=1.0,
    adjacency="zero_out",
)
_SECRET = {"batches": pabi.ShuffleOnce(100), "epochs": 3, "step_size": 0.5, "noise_std": 0.02}
SECRET = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.01), n=1_000, **_SECRET)
GUARANTEES = {"Poisson": SUBSAMPLED, "secret order": SECRET}


@pytest.fixture(scope="module", params=GUARANTEES)
def guarantee(request):
    return GUARANTEES[request.param].guarantee(1e-5)


def drawn(x, corners, *, logarithmic):
    """The height at `x` of straight lines from corner to corner, as the axes have it."""
    cx, cy = np.asarray(corners, dtype=np.float64).T
    if logarithmic:
        return np.exp(np.interp(np.log(x), np.log(cx), np.log(cy)))
    return np.interp(x, cx, cy)


def places(corners):
    """Between any two corners of a line, on a logarithmic axis."""
    x = np.asarray(corners)[:, 0]
    return np.exp(np.log(x[:-1, None]) + BETWEEN * np.diff(np.log(x))[:, None]).ravel()


def last(events):
    """The last line of each curve."""
    return {(data["chart"], data["series"]): data["line"] for _, data in events}


def curve_of(guarantee, series):
    return guarantee.curve if series == "the guarantee" else guarantee.composition


def test_the_page_draws_no_epsilon_that_is_too_small(guarantee):
    checked = 0
    for events in (first_curves(guarantee), epsilon_curves(guarantee)):
        for (chart, series), line in last(events).items():
            if chart == "epsilon":
                x = places(line)[:: 7 if guarantee.mu is None else 1]
                true = np.array([curve_of(guarantee, series).epsilon(float(d)) for d in x])
                assert np.all(drawn(x, line, logarithmic=True) >= true)
                checked += x.size
    assert checked > 50


def test_the_page_draws_no_error_of_an_attacker_that_is_too_large(guarantee):
    for (_, series), line in last(tradeoff_curves(guarantee)).items():
        cx = np.asarray(line)[:, 0]
        x = (cx[:-1, None] + BETWEEN * np.diff(cx)[:, None]).ravel()
        true = np.asarray(curve_of(guarantee, series)(x))
        assert np.all(drawn(x, line, logarithmic=False) <= true + 1e-15)


@given(mu=st.floats(0.02, 8.0), points=st.integers(3, 15), low=st.floats(-14.0, -3.0))
def test_lines_are_above_a_gaussian_curve_and_chords_are_not(mu, points, low):
    epsilon = np.vectorize(Gaussian(mu).epsilon, otypes=[float])
    deltas = np.logspace(low, low + 2.9, points)
    epsilons = epsilon(deltas)
    corners = np.column_stack(above_epsilons(deltas, epsilons))
    assume(len(corners) > 1)
    x = places(corners)
    true = epsilon(x)
    for logarithmic in (True, False):
        height = drawn_on(x, corners, logarithmic)
        assert np.all(height >= true)
        # As tight as the points are dense: never above what is proven two points before.
        before = np.maximum(np.searchsorted(deltas, x, "right") - 2, 0)
        assert np.all(height <= epsilons[before] * (1 + 1e-9))
    kept = epsilons > 0.0
    chords = drawn(x, np.column_stack((deltas, epsilons))[kept], logarithmic=True)
    assert np.any(chords < true)


def drawn_on(x, corners, logarithmic):
    """On a logarithmic axis of δ, with either kind of axis for ε."""
    cx, cy = corners.T
    if logarithmic:
        return drawn(x, corners, logarithmic=True)
    return np.interp(np.log(x), np.log(cx), cy)


@given(
    drops=st.lists(st.floats(0.0, 30.0), min_size=2, max_size=12),
    steps=st.lists(st.floats(0.01, 4.0), min_size=12, max_size=12),
    least=st.floats(1e-6, 5.0),
)
def test_lines_are_above_the_worst_curve_that_passes_through_the_points(drops, steps, least):
    """A mechanism for which nothing better than the lemma is true: δ falls in chords of e^ε."""
    epsilons = least + np.cumsum(np.array(drops)[::-1])[::-1]
    deltas = 1e-12 * np.exp(np.cumsum(np.array(steps[: len(drops)])))
    corners = np.column_stack(above_epsilons(deltas, epsilons))
    for k in range(len(deltas) - 1):
        t = BETWEEN
        x = (1 - t) * deltas[k] + t * deltas[k + 1]
        true = epsilons[k] + np.log1p(t * np.expm1(epsilons[k + 1] - epsilons[k]))
        for logarithmic in (True, False):
            assert np.all(drawn_on(x, corners, logarithmic) >= true * (1 - 1e-12))
    assert corners[[0, -1], 0] == pytest.approx(deltas[[0, -1]])


@pytest.mark.parametrize("points", [11, 21, 41])
def test_lines_do_not_wiggle_where_the_curve_does_not(points):
    """ε of a Gaussian falls ever faster on these axes, and so does the line, from its first point on."""
    deltas = np.logspace(-12.0, -2.0, points)
    epsilons = np.array([Gaussian(0.2).epsilon(float(d)) for d in deltas])
    corners = np.log(np.column_stack(above_epsilons(deltas, epsilons)))
    slopes = np.diff(corners[:, 1]) / np.diff(corners[:, 0])
    assert np.all(slopes < 0.0)
    assert np.all(np.diff(slopes) < 1e-9)


def test_what_is_proven_at_a_smaller_delta_holds_at_a_larger_one():
    x, y = above_epsilons(np.array([1e-6, 1e-5, 1e-4, 1e-3]), np.array([np.inf, 2.0, 2.5, 0.0]))
    assert x[0] == 1e-5
    assert x[-1] == 1e-4
    assert np.all(y == pytest.approx(2.0, rel=1e-9))
    assert np.all(y >= 2.0)


def test_a_line_below_a_falling_curve():
    rates = np.linspace(0.0, 1.0, 9)
    for errors in (1.0 - rates, (1.0 - rates) ** 4, np.where(rates < 0.3, 0.7, 0.0)):
        x, y = below_errors(rates, errors)
        fine = np.linspace(0.0, 1.0, 500)
        falling = partial(np.interp, fine, rates)
        steps = errors[np.searchsorted(rates, fine, "left").clip(0, 8)]  # the least falling curve
        assert np.all(np.interp(fine, x, y) <= steps)
        assert np.any(falling(errors) > steps)  # as chords are not

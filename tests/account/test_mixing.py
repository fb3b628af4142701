"""Mixing times: against the literature, and against chains whose laws are computed in one dimension."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import pabi
from pabi.account.mixing import mixing_time, total_variation_bound
from pabi.account.outlook import NEAR, outlook
from pabi.describe.losses import Loss
from pabi.literature import bravo
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import shown
from pabi.show.pictures import total_variation_estimate
from support.every_case import every, refused, refuses

CONVEX = Loss.convex(1.0)


def test_steps_of_the_reference():
    for target, printed, most in (
        (0.25, 20_000, 4524),
        (0.01, 70_000, 15_028),
        (1e-6, 200_000, 45_080),
    ):
        given = {"diameter": 10.0, "step_size": 0.01, "total_variation": target}
        assert float(bravo.theorem_4_2(**given)) == printed
        assert mixing_time(CONVEX, **given) <= min(most, printed / 4)


def test_a_quadratic_is_exact_but_for_the_set():
    """Without a boundary two Gaussians of equal variance are 2Φ(μ/2) − 1 apart."""
    m, eta, steps, distance = 0.5, 0.1, 20, 3.0
    c = 1.0 - eta * m
    variance = 2.0 * eta * (1.0 - c ** (2 * steps)) / (1.0 - c * c)
    truth = 2.0 * ndtr(0.5 * distance * c**steps / math.sqrt(variance)) - 1.0
    found = total_variation_bound(Loss.strongly_convex(m, 2.0), distance, eta, steps)
    assert found == pytest.approx(truth, rel=1e-9)
    assert found >= truth


def kernel(gradient, radius, step, beta, cells):
    """The transition matrix of the projected chain on [−R, R]: cells by their middles, and two atoms.

    Every point of a cell starts from its middle: a chain of its own, with the gradient step and then a
    rounding of where it is by half a cell at most.
    """
    ends = np.linspace(-radius, radius, cells + 1)
    places = np.concatenate([[-radius], 0.5 * (ends[1:] + ends[:-1]), [radius]])
    means = places - step * beta * gradient(places)
    deviation = math.sqrt(2.0 * step)
    below = ndtr((ends[None, :] - means[:, None]) / deviation)
    return np.column_stack([below[:, 0], np.diff(below, axis=1), 1.0 - below[:, -1]])


POTENTIALS = {
    "quadratic": (lambda x: 0.7 * x, Loss.strongly_convex(0.7, 0.7)),
    "flat": (lambda x: 0.0 * x, Loss.convex(1e-9)),
    "absolute value": (np.sign, Loss.lipschitz(1.0)),
    "power 1.5": (
        lambda x: 1.5 * np.sign(x) * np.sqrt(np.abs(x)),
        Loss.weakly_smooth([(0.5, 1.5 * math.sqrt(2.0))]),
    ),
    "double well": (lambda x: 4.0 * x**3 - x, Loss.weakly_convex(1.0, 11.0)),
}


def test_the_bound_and_the_time_agree():
    """Half as many steps are not enough for what is known."""
    losses = [
        CONVEX,
        CONVEX.with_l2(0.3),
        Loss.lipschitz(1.0),
        Loss.nonconvex(0.3),
        Loss.logistic(1.0),
    ]
    for loss, target in itertools.product(losses, (0.3, 1e-3)):
        steps = mixing_time(loss, 2.0, 0.01, target)
        assert total_variation_bound(loss, 2.0, 0.01, steps) <= target * 1.2
        assert total_variation_bound(loss, 2.0, 0.01, steps // 2) > target


def test_a_minimum_of_moduli_is_better_than_its_parts():
    """Dissipative: far apart it contracts, near each other it expands little."""
    found = mixing_time(Loss.dissipative(0.3, 0.5, 2.0), 3.0, 0.05, 0.1)
    assert found < mixing_time(Loss.nonconvex(2.0), 3.0, 0.05, 0.1)


def test_bounded_gradients_help_where_curvature_does_not():
    """Far apart a step moves two chains by 2ηG at most, near each other it stretches little."""
    bounded, unbounded = (
        mixing_time(Loss.nonconvex(4.0, gradient_bound=bound), 1.0, 0.05, 0.3)
        for bound in (0.5, None)
    )
    assert bounded < unbounded
    assert mixing_time(Loss.unknown(gradient_bound=0.5), 1.0, 0.05, 0.3) >= bounded


def test_bounds_fall_with_steps_and_never_exceed_one():
    steps = np.unique(np.geomspace(1, 10**6, 40).astype(int))
    found = total_variation_bound(Loss.lipschitz(1.0), 2.0, 0.01, steps)
    assert np.all(np.diff(found) <= 1e-15)
    assert found[0] <= 1.0
    assert found[-1] < 1e-200


def test_what_would_take_forever_is_no_number():
    with pytest.raises(NotApplicable, match="range of numbers"):
        mixing_time(Loss.convex(1e6), 100.0, 0.01, 0.01)
    with pytest.raises(NotApplicable, match="unknown"):
        mixing_time(Loss.unknown(), 1.0, 0.01, 0.01)


def test_refuses():
    given = {"loss": CONVEX, "diameter": 1.0, "step_size": 0.1, "total_variation": 0.1}
    wrong = {"loss": ["convex"], "diameter": [None, 0.0, math.inf], "step_size": [0.0]}
    wrong |= {"total_variation": [0.0, 1.0], "inverse_temperature": [-1.0]}
    refuses(lambda **changes: mixing_time(**given | changes), wrong)


# The picture.


def test_the_picture_shows_the_bound_and_what_is_measured():
    import matplotlib

    matplotlib.use("Agg")
    given = {"gradient": np.sign, "prox": pabi.prox.ball(1.0), "starts": ([1.0], [-1.0])}
    ax = pabi.mixing.plot(Loss.lipschitz(1.0), 2.0, 0.05, 60, **given, chains=500, random_state=1)
    steps, bound = ax.lines[0].get_data()
    assert np.array_equal(bound, total_variation_bound(Loss.lipschitz(1.0), 2.0, 0.05, steps))
    (container,) = ax.containers
    at, measured = container.lines[0].get_data()
    assert np.all(measured <= np.interp(at, steps, bound) + 0.15)
    assert measured[0] > 0.97
    assert measured[-1] < 0.2
    with pytest.raises(InvalidInput, match="starts"):
        pabi.mixing.plot(CONVEX, 2.0, 0.05, 60, gradient=np.sign)


def test_the_lower_estimate_is_below_the_truth():
    """Of Gaussians at a known distance; the confidence is beaten by far in 200 repetitions of 99 %."""
    generator = np.random.default_rng(5)
    for distance in (0.0, 0.5, 2.0):
        truth, above, close = 2.0 * ndtr(0.5 * distance) - 1.0, 0, []
        for _ in range(200):
            first, second = generator.standard_normal((2, 2000, 3))
            second[:, 1] += distance
            found = total_variation_estimate(first, second)
            above += found.lower > truth
            close.append(found.advantage)
        # At 1 % each, 12 of 200 have a probability of 1e-6.
        assert above <= 12
        assert np.mean(close) == pytest.approx(truth, abs=0.03)
    for bad in (np.zeros(9), np.zeros((3, 1)), np.full((9, 1), np.nan)):
        refused("first", total_variation_estimate, bad, np.zeros((9, 1)))
    refused("second", total_variation_estimate, np.zeros((9, 2)), np.zeros((9, 1)))


def test_the_bound_of_roots_covers_the_rounding_of_long_doubles(monkeypatch):
    """On some platforms they are no longer than doubles. With those of half the length the margin is seen."""
    from mpmath import harmonic

    from pabi.account import mixing

    monkeypatch.setattr(np, "longdouble", np.float32)
    monkeypatch.setattr(mixing, "EPS_LONG", float(np.finfo(np.float32).eps))
    square = mixing._of_root(kappa=1.0, h=1e-3, diameter=100.0, variance=1.0)
    short = 0
    for steps in range(1, 1024):
        truth = 1e4 / steps + 1e-3 * float(harmonic(steps))  # least at the end: 1e4 > 1e-3·steps
        assert square(steps) >= truth
        short += square(steps) / (1.0 + 3072.0 * mixing.EPS_LONG) < truth
    assert short > 100


# Estimates of how far a chain is from its target.


def chain(loss, steps=100, **fields):
    given = {"n": 100, "inverse_temperature": 100.0, "step_size": 0.004, "gradient_gap": 1e-3}
    return pabi.LangevinChain(loss, steps=steps, **{**given, **fields})


BALL = {"prox": pabi.prox.ball(3.0)}


@every("steps", [1, 10, 60, 400])
def test_of_gaussian_targets_the_estimate_is_exact(steps):
    """Mean and variance step by step, of quadratics of every possible curvature."""
    described = chain(Loss.convex(0.45, l2=0.03), steps, **BALL)
    found, h = outlook(described), described.gradient_step
    curvature = np.geomspace(0.03, 0.48, 20_000)
    mean, variance = np.full_like(curvature, 3.0), np.zeros_like(curvature)
    for _ in range(steps):
        mean = (1.0 - h * curvature) * mean
        variance = (1.0 - h * curvature) ** 2 * variance + 2.0 * described.step_size
    unit = np.sqrt(100.0 * curvature)
    assert found.off == pytest.approx(np.max(mean * unit), rel=1e-6)
    widths = np.sqrt(variance) * unit
    assert np.max(widths) <= (1.0 + found.too_wide) * (1.0 + 1e-12)  # roundings
    if found.off <= NEAR:
        assert np.max(widths) == pytest.approx(1.0 + found.too_wide, rel=1e-9)
        assert np.min(widths) >= math.sqrt(1.0 - NEAR**2)


def test_how_many_steps_and_which_curvature_are_enough():
    found = outlook(chain(Loss.convex(0.45, l2=0.03), 100, **BALL))
    assert found.off > NEAR
    for count, near in ((found.steps, True), (found.steps - 1, False)):
        assert (outlook(replace(found.chain, steps=count)).off <= NEAR) == near
    for curvature, near in ((found.enough, True), (0.99 * found.enough, False)):
        assert (outlook(found.chain, curvature=curvature).off <= NEAR) == near
    assert outlook(replace(found.chain, steps=found.steps)).enough == 0.03
    assert outlook(replace(found.chain, steps=1)).enough is None


@every("name", ["quadratic", "flat", "absolute value", "power 1.5"])
@every("steps", [20, 60, 150])
def test_measured_means_are_no_farther_off(name, steps):
    """From one end of an interval to the law that the chain settles in, in standard deviations of that, until
    it is near. Much later the projection of finite steps, which makes the set wider by about √(2η), shows."""
    gradient, loss = POTENTIALS[name]
    described = chain(
        loss, steps, inverse_temperature=1.0, step_size=0.01, prox=pabi.prox.ball(1.0)
    )
    transition = kernel(gradient, 1.0, 0.01, 1.0, 200)
    places = np.concatenate([[-1.0], np.linspace(-1.0, 1.0, 401)[1::2], [1.0]])
    moved = np.linalg.matrix_power(transition, steps)[-1]
    settled = np.linalg.matrix_power(transition, 1 << 14)[0]
    deviation = math.sqrt(settled @ places**2)
    found = outlook(described, [1.0])
    off = moved @ places / deviation
    assert off <= found.off
    if name == "flat":  # the slowest of them
        assert found.off <= math.pi * off


def test_how_far_the_start_may_be():
    loss, prox = Loss.logistic(1.0, l2=0.05), pabi.prox
    for fields, known in (
        ({"prox": prox.ball(3.0)}, 6.0),
        ({"prox": prox.ball(7.0)}, 7.0 + 5.0),
        ({"prox": prox.ball(3.0, center=[3.0, 4.0])}, 3.0),
        ({"prox": prox.box(np.zeros(2), np.full(2, 7.0))}, math.hypot(7.0, 7.0)),
        ({}, 5.0 + 1.0 / 0.05),
    ):
        described = chain(loss, **fields)
        assert outlook(described, [3.0, 4.0]).distance == pytest.approx(known)
        several = replace(described, chains=2)
        assert outlook(several, [[3.0, 4.0], [3.0, 4.0]]).distance == pytest.approx(known)
        assert outlook(described, [3.0, 4.0], distance=0.7).distance == 0.7


def test_what_is_not_known_is_said():
    for loss in (Loss.nonconvex(0.3), Loss.unknown(), Loss.convex(0.3)):
        with pytest.raises(NotApplicable, match="curvature="):
            outlook(chain(loss))
    with pytest.raises(NotApplicable, match="distance="):
        outlook(chain(Loss.strongly_convex(0.1, 0.3)))
    found = outlook(chain(Loss.nonconvex(0.3)), curvature=0.1, distance=2.0)
    assert found.curvature == (0.1, 0.3)
    described = chain(Loss.convex(0.3), **BALL)
    for field, value in (("curvature", 0.0), ("curvature", 0.4), ("distance", -1.0)):
        refused(field, outlook, described, **{field: value})
    for start in ([math.nan], "here"):
        refused("x0", outlook, described, start)
    refused("x0", outlook, chain(Loss.convex(0.3), prox=pabi.prox.ball(1.0, [0.0, 1.0])), [0.0] * 3)
    rough = outlook(chain(Loss.lipschitz(1.0), 5, **BALL))
    assert rough.too_wide is None
    settled = outlook(chain(Loss.convex(0.3, l2=0.1), 5_000, **BALL))
    assert settled.off < 1e-3
    assert "under 0.001 standard deviations off" in str(settled), "a power of ten says no more"
    assert "too wide" not in rough.warning


def test_the_width_of_a_tempered_target_is_said():
    """Of a temperature in place of its inverse, too, and of β = 1 for a mean loss."""
    at_n = chain(Loss.convex(0.25, l2=0.1), **BALL)
    at_n = replace(at_n, inverse_temperature=float(at_n.n))
    assert "posterior" not in str(outlook(at_n))
    for beta, wide in ((at_n.n / 4.0, "2"), (1.0 / at_n.n, str(at_n.n)), (4.0 * at_n.n, "0.5")):
        found = outlook(replace(at_n, inverse_temperature=beta))
        assert f"a posterior's is n: the target is about {wide} times as wide" in str(found)


def test_steps_that_are_too_long_are_said_with_those_that_are_not():
    found = outlook(chain(Loss.convex(5.0), step_size=0.004, **BALL))
    assert found.path_costs_as_much
    assert found.offer == "", "draws of a path that never settles are worth nothing"
    assert found.off == found.too_wide == math.inf
    assert found.steps is None
    size = float(found.advice.split("step_size=")[1].split()[0])
    assert outlook(replace(found.chain, step_size=size)).too_wide <= NEAR
    assert outlook(replace(found.chain, step_size=1.01 * size)).too_wide > NEAR


def test_prices_are_those_of_the_guarantees():
    """What more steps cost, and what the whole path does."""
    loss = Loss.logistic(1.0, l2=1e-4)
    short = chain(loss, 200, n=1000, gradient_gap=None, **BALL)
    found = outlook(short)
    path = replace(short, release="path").guarantee(1e-5)
    assert short.guarantee(1e-5).composition.epsilon(1e-5) == path.epsilon(1e-5)
    assert found.path_costs_as_much
    assert f"ε = {shown(path.epsilon(1e-5), 3)}, the last" in found.offer
    long = replace(short, steps=found.steps)
    price = shown(long.guarantee(1e-5).epsilon(1e-5), 3)
    assert f"{found.steps:,} steps do (ε = {price} in place of" in found.advice
    assert f"{found.steps:,} steps do; " in found.warning  # draws do not wait for prices
    assert "\n" not in found.warning
    hidden = outlook(replace(long, steps=20 * long.steps))
    assert hidden.near
    assert hidden.warning == hidden.offer == outlook(replace(short, release="path")).offer == ""
    distance = total_variation_bound(loss, 6.0, long.step_size, hidden.chain.steps, 100.0)
    assert f"total variation {shown(distance, 2)} after" in str(hidden)

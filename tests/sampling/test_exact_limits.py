"""Exact draws at the limits of doubles: refused from public numbers alone, or made in bounded time."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

import pabi
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.sampling import exact, expected_evaluations, gibbs_rejection
from pabi.sampling.envelopes import read_region
from support.every_case import every, refused

from .laws import LEVEL

STRIP = pabi.prox.box([0.1], [0.7])


def mechanism(kappa, loss, domain):
    p = np.size(domain.lower if isinstance(domain, pabi.prox.box) else domain.center)
    fields = {"gradient_gap": 1e-3} if loss.gradient_bound is None else {}
    fields |= {"diameter": domain.diameter, "inverse_temperature": kappa}
    return pabi.ExponentialMechanism(loss, n=10, dimension=p, **fields)


class Counted:
    """A loss that counts its evaluations and fails after `most`."""

    def __init__(self, value, most):
        self.value, self.most, self.evaluations = value, most, 0

    def __call__(self, points):
        self.evaluations += len(points)
        if self.evaluations > self.most:
            pytest.fail(f"more than {self.most} evaluations")
        return self.value(points)


def slope(t):
    return t[:, 0]


SMOOTH = pabi.Loss.convex(1e-3, gradient_bound=1.0)


@every("value", [lambda t: 5e-4 * (t[:, 0] - 0.3) ** 2, slope])
@every("kappa, shift", [(1e14, 0.0), (1e10, 1e3), (1e12, 0.0), (1e300, 0.0)])
def test_what_doubles_cannot_resolve_is_refused_before_the_data_is_touched(value, kappa, shift):
    counted = Counted(lambda t: value(t) + shift, 100_000)
    with pytest.raises(NotApplicable, match="double precision") as caught:
        gibbs_rejection(mechanism(kappa, SMOOTH, STRIP), counted, STRIP, 0)
    assert "\n" not in str(caught.value)
    assert counted.evaluations == 0


def test_a_ball_that_a_slope_may_press_against_is_refused_where_a_box_is_not():
    """2¹⁵ boxes a side resolve the cap of a ball in three dimensions; along a box they are not needed."""
    loss, u = pabi.Loss.convex(0.25, gradient_bound=1.0), np.full(3, 3**-0.5)
    ball = pabi.prox.ball(1.0, center=np.zeros(3))
    counted = Counted(lambda x: x @ u, 100_000)
    with pytest.raises(NotApplicable, match="take a box"):
        gibbs_rejection(mechanism(1e8, loss, ball), counted, ball, 0)
    assert counted.evaluations == 0
    box = pabi.prox.box(-np.ones(3), np.ones(3))
    linear = pabi.Loss.convex(1e-9, gradient_bound=1.0)
    gibbs_rejection(mechanism(1e8, linear, box), counted, box, 0)


@every("dimension", [2, 4, 6])
def test_the_estimate_decides_in_any_dimension(dimension):
    """Draws of six dimensions are made where public numbers allow as many evaluations, not with one less."""
    loss = pabi.Loss.convex(0.25, gradient_bound=1.0)
    m = pabi.ExponentialMechanism(
        loss, n=100, dimension=dimension, diameter=2.0, inverse_temperature=20.0
    )
    most = math.ceil(expected_evaluations(m))
    counted = Counted(lambda x: 0.125 * np.sum((x - 0.2) ** 2, axis=1), 10 * most)
    draw = gibbs_rejection(m, counted, most_evaluations=most, random_state=0)
    assert draw.values.shape == (1, 1, dimension)
    counted.evaluations = 0
    with pytest.raises(NotApplicable, match=f"more than {most - 1:,}"):
        gibbs_rejection(m, counted, most_evaluations=most - 1, random_state=0)
    assert counted.evaluations == 0


def test_a_concave_loss_on_a_ball_costs_its_whole_sphere():
    loss = pabi.Loss.nonconvex(1.0, gradient_bound=1.0)
    ball = pabi.prox.ball(1.0, center=np.zeros(3))
    counted = Counted(lambda x: -0.5 * np.sum(x * x, axis=1), 10**6)
    with pytest.raises(NotApplicable, match="take a box"):
        gibbs_rejection(mechanism(1e4, loss, ball), counted, ball, 0)
    assert counted.evaluations == 0
    gibbs_rejection(mechanism(300.0, loss, ball), counted, ball, 0)
    many = pabi.prox.ball(1.0, center=np.zeros(500))
    with pytest.raises(NotApplicable, match="inf evaluations"):
        gibbs_rejection(mechanism(1e4, loss, many), counted, many, 0)


@every(
    "domain",
    [
        pabi.prox.box([1e6], [1e6 + 1e-6]),
        pabi.prox.box([0.0, 1e8], [1.0, 1e8 + 0.1]),
        pabi.prox.ball(1e-3, center=[1e7, 0.0]),
    ],
)
def test_sets_with_few_doubles_are_refused(domain):
    counted = Counted(lambda t: 0.0 * t[:, 0], 0)
    m = mechanism(1.0, SMOOTH, domain)
    assert "too few doubles" in refused("domain", gibbs_rejection, m, counted, domain, 0)


@every("shift", [1e3, -1e6])
def test_a_constant_in_the_loss_changes_nothing(shift):
    counted = Counted(lambda t: slope(t) + shift, 20_000)
    x = gibbs_rejection(mechanism(1e5, SMOOTH, STRIP), counted, STRIP, 3, draws=5000).values[
        0, :, 0
    ]
    assert kstest(x, exponential(1e-5, 0.1)).pvalue > LEVEL


def test_a_constant_that_hides_the_loss_is_refused():
    counted = Counted(lambda t: slope(t) + 1e12, 100)
    with pytest.raises(InvalidInput, match="^loss_value: so large"):
        gibbs_rejection(mechanism(1e5, SMOOTH, STRIP), counted, STRIP, 0)


def test_rounding_alone_is_not_taken_for_a_wrong_loss():
    """Errors of the size that the documentation allows, of either sign, at every point."""
    rng = np.random.default_rng(0)
    for kappa in (1.0, 1e4, 1e8):
        for loss in (SMOOTH, pabi.Loss.lipschitz(1.0), pabi.Loss.convex(1.0, gradient_bound=1.0)):

            def off(t, kappa=kappa):
                return slope(t) + 2.0**-14 / kappa * rng.choice([-1.0, 1.0], len(t))

            m = mechanism(min(kappa, 1e6) if loss.kind == "lipschitz" else kappa, loss, STRIP)
            gibbs_rejection(m, Counted(off, 10**6), STRIP, 0, draws=300)


def test_a_curved_loss_without_a_stationary_point_needs_its_lipschitz_constant():
    loss, box = pabi.Loss.convex(1.0), pabi.prox.box([0.0, 0.0], [1.0, 1.0])
    counted = Counted(lambda x: 50.0 * x[:, 0], 10**5)
    refused("lipschitz", gibbs_rejection, mechanism(10.0, loss, box), counted, box, 0)
    gibbs_rejection(mechanism(10.0, loss, box), counted, box, 0, lipschitz=50.0)


def exponential(scale, low):
    return lambda x: -np.expm1(-(x - low) / scale)


@every(
    "kappa, low, width, loss",
    [
        (1.5e9, 0.1, 0.6, SMOOTH),
        (3e6, 1e3, 1e-2, SMOOTH),
        (3e6, 1e3, 1e-2, pabi.Loss.convex(1.0, gradient_bound=1.0)),
        (2e5, 1e5, 1.0, SMOOTH),
        (3e6, 0.0, 1.0, pabi.Loss.lipschitz(1.0)),
        (1e15, 0.0, 1e-7, SMOOTH),
    ],
)
def test_sharp_slopes_have_their_law(kappa, low, width, loss):
    domain = pabi.prox.box([low], [low + width])
    m = mechanism(kappa, loss, domain)
    counted = Counted(lambda t: t[:, 0] - low, 10**6)
    x = gibbs_rejection(m, counted, domain, 5, draws=4000).values[0, :, 0]
    assert np.all((x >= low) & (x <= low + width))
    assert kstest(x, exponential(1.0 / kappa, low)).pvalue > LEVEL
    assert kstest(x, exponential(1.2 / kappa, low)).pvalue < LEVEL


def test_sharp_bowls_have_their_law():
    """In a box far from square: a normal law of which the set cuts nothing."""
    kappa, centre = 1e7, np.array([3.0, -2e-3, 0.4])
    loss = pabi.Loss.strongly_convex(1.0, 1.0, gradient_bound=10.0)
    box = pabi.prox.box([0.0, -4e-3, 0.0], [5.0, 4e-3, 1.0])
    value = Counted(lambda x: 0.5 * np.sum((x - centre) ** 2, axis=1) + 7.0, 10**6)
    x = gibbs_rejection(mechanism(kappa, loss, box), value, box, 2, draws=3000).values[0]
    for i in range(3):
        z = (x[:, i] - centre[i]) * math.sqrt(kappa)
        assert kstest(z, "norm").pvalue > LEVEL
        assert kstest(1.2 * z, "norm").pvalue < LEVEL


def test_a_disc_that_is_pressed_against_has_its_law():
    kappa, u = 1e4, np.array([0.6, -0.8])
    disc = pabi.prox.ball(1.0, center=[0.0, 0.0])
    loss = pabi.Loss.convex(0.1, gradient_bound=1.0)
    value = Counted(lambda x: x @ u, 10**6)
    x = gibbs_rejection(mechanism(kappa, loss, disc), value, disc, 2, draws=3000).values[0]
    assert np.all(np.linalg.norm(x, axis=1) <= 1.0)
    depth = np.linspace(0.0, 4e-3, 100_001)
    density = np.exp(-kappa * depth) * np.sqrt(depth * (2.0 - depth))
    law = np.cumsum(density) / density.sum()
    assert kstest(np.interp(1.0 + x @ u, depth, law), "uniform").pvalue > LEVEL


def test_releases_lie_in_the_set_and_on_its_grid():
    """Where the density is all within a spacing of the grid from the boundary, which is not on the grid."""
    low, high = 0.1, 0.1 + 0.6
    domain = pabi.prox.box([low, 1e5], [high, 1e5 + 1.0])
    m = mechanism(2e5, pabi.Loss.convex(1e-9, gradient_bound=1.0), domain)
    x = gibbs_rejection(m, lambda t: t[:, 0] - t[:, 1], domain, 1, draws=2000).values[0]
    assert np.all((x >= domain.lower) & (x <= domain.upper))
    region = read_region(domain, 2, m.diameter)
    for i in range(2):
        grid = math.ldexp(1.0, math.frexp(float(region.grid[i]))[1])
        inside = (x[:, i] != domain.lower[i]) & (x[:, i] != domain.upper[i])
        assert np.all(x[inside, i] / grid == np.rint(x[inside, i] / grid))
        assert grid >= 16.0 * np.spacing(domain.upper[i])
    near = mechanism(1.5e9, SMOOTH, STRIP)
    y = gibbs_rejection(near, lambda t: -t[:, 0], STRIP, 1, draws=4000).values
    assert y.max() <= 0.7
    assert y.max() > 0.7 - 1e-12


def attack(rng):
    """(mechanism, domain, loss value): facts over many decades, and a loss that uses them up."""
    p, kappa = int(rng.integers(1, 4)), 10.0 ** rng.uniform(-2, 16)
    width = 10.0 ** rng.uniform(-8, 6, size=p)
    if rng.random() < 0.6:
        width[:] = width[0]
    far = 10.0 ** rng.uniform(-3, 8) if rng.random() < 0.5 else 0.0
    centre = rng.choice([-1.0, 0.0, 1.0], size=p) * far
    if rng.random() < 0.5:
        domain = pabi.prox.ball(width[0] / 2.0, center=centre)
    else:
        domain = pabi.prox.box(centre - width / 2.0, centre + width / 2.0)
    across = domain.diameter
    if not across > 0.0:
        raise InvalidInput("domain", "no doubles in it")
    # Anything, or what a temperature makes interesting: κSD and κMD² from negligible to hopeless.
    wild = rng.random() < 0.3
    steep = 10.0 ** (rng.uniform(-6, 6) if wild else rng.uniform(-1, 9)) / (1.0 if wild else kappa)
    steep /= 1.0 if wild else across
    most = steep / across * 10.0 ** rng.uniform(-4, 0.3)
    kind = rng.choice(["convex", "strongly_convex", "lipschitz", "nonconvex", "curved"])
    least = {"strongly_convex": most * 10.0 ** rng.uniform(-3, 0), "nonconvex": -most}.get(
        kind, 0.0
    )
    curve = {"lipschitz": 0.0}.get(kind, rng.choice([least, most]))
    if kind in ("convex", "nonconvex") and rng.random() < 0.4:
        curve = 0.0
    u = rng.normal(size=p)
    u = np.full(p, p**-0.5) if rng.random() < 0.4 else u / np.linalg.norm(u)
    pressed = steep * u if rng.random() < 0.6 else np.zeros(p)
    bound = steep + most * across
    loss = {
        "convex": lambda: pabi.Loss.convex(most, gradient_bound=bound),
        "strongly_convex": lambda: pabi.Loss.strongly_convex(least, most, gradient_bound=bound),
        "lipschitz": lambda: pabi.Loss.lipschitz(steep),
        "nonconvex": lambda: pabi.Loss.nonconvex(most, gradient_bound=bound),
        "curved": lambda: pabi.Loss.convex(most),
    }[str(kind)]()
    if kind == "curved":  # stationary somewhere in the set
        pressed = np.zeros(p)
    shift = rng.choice([0.0, 1.0, 1e3, 1e6, -1e6]) * bound * across

    def value(x):
        offset = x - centre
        return offset @ pressed + 0.5 * curve * np.sum(offset**2, axis=1) + shift

    return mechanism(kappa, loss, domain), domain, value


MOST = 200_000
# Below it what an estimate says is lost in the search for the mode, sixteen proposals a time.
FLOOR = 50_000


def check_attack(seed):
    try:
        m, domain, value = attack(np.random.default_rng(seed))
    except InvalidInput:  # no such set, or a temperature that leaves the range of numbers
        return "none"
    counted = Counted(value, 0)
    try:
        region = read_region(domain, m.dimension, m.diameter)
        bounds = exact._loss_bounds(m.loss, region, None)
        expected = exact.expected_of(region, m.diameter, m.kappa, bounds)
        counted.most = max(50.0 * expected, FLOOR) if expected <= MOST else 0
        gibbs_rejection(m, counted, domain, 0, most_evaluations=MOST)
    except NotApplicable:
        assert counted.evaluations == 0
        return "too long"
    except InvalidInput as error:
        if error.field == "domain":
            assert counted.evaluations == 0
            return "too narrow"
        # Only a constant that doubles cannot carry beside the loss.
        if abs(value(region.centre[None])[0]) * m.kappa > 2.0**38:
            return "too large"
        raise
    return "drawn"


NIGHTS = [range(10_000 + 3000 * part, 13_000 + 3000 * part) for part in range(10)]


@pytest.mark.parametrize(
    "seeds", [range(400), *(pytest.param(some, marks=pytest.mark.nightly) for some in NIGHTS)]
)
def test_whatever_is_not_refused_returns(seeds):
    found = [check_attack(seed) for seed in seeds]
    assert found.count("drawn") > len(found) / 4
    assert found.count("too long") > len(found) / 10

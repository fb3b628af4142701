"""What is proven of steps that are not linear must not fall below what is exactly true in one dimension."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pabi import Loss, Modulus, NotApplicable
from pabi.tradeoff import Gaussian
from support.falsification.claims import EPSILONS
from support.falsification.random_batches import (
    ZERO,
    Constant,
    Line,
    _gradient,
    _loguniform,
    _opposite,
)
from support.falsification.solver import solved_mu
from support.falsification.walks import (
    Jumps,
    Odd,
    Rough,
    Step,
    Training,
    Walk,
    Well,
    random_odd_walk,
    shuffled,
    violated,
)

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

KINDS = ["lipschitz", "weakly smooth", "dissipative", "clipped", "unknown"]


def solved(iteration) -> Gaussian:
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    s, sigma = iteration.step_sensitivity, iteration.step_noise_std
    return Gaussian(solved_mu(iteration.moduli, s, sigma, diameter, iteration.start))


def claims_of(iteration) -> dict:
    claims = {"the solver": solved(iteration)}
    # Composition cannot pay for starting points that differ.
    with contextlib.suppress(NotApplicable):
        claims["the guarantee"] = iteration.guarantee(1e-3)
    return claims


# The truth.


def test_linear_maps_are_gaussian():
    rng = np.random.default_rng(0)
    for _ in range(10):
        t = int(rng.integers(1, 7))
        a, d = rng.uniform(-1.2, 1.2, t), rng.normal(size=t)
        std = rng.uniform(0.3, 1.5, t)
        steps = [
            Step((lambda x, a=a[k]: a * x, lambda x, a=a[k], d=d[k]: a * x + d), std[k], (), 1.2)
            for k in range(t)
        ]
        later = np.append(np.cumprod(a[:0:-1])[::-1], 1.0)
        mu = abs(later @ d) / math.sqrt(float(later**2 @ std**2))
        found, error = Walk(steps).delta(EPSILONS)
        assert error <= 1e-7
        # The event's end is found to 0.1·2⁻¹⁴ standard deviations, and enters squared.
        for row in found:
            wanted = [Gaussian(mu).delta(e) for e in EPSILONS]
            assert row == pytest.approx(wanted, abs=error + 1e-10)


@pytest.mark.parametrize("half", [math.inf, 1.2])
def test_a_jump_between_walls_against_quadrature(half):
    """Two steps, x ↦ x ± 0.4 away from 0.1, written out: the second from each point of the first law."""
    odd, by, stds = Odd(((1.0, 0.8),), 0.1, 0.2), 0.7, (0.5, 0.6)
    walk = Walk(
        [
            Step((lambda x: x, lambda x: x + by), stds[0]),
            Step((odd, odd), stds[1], odd.kinks, odd.steepest),
        ],
        (0.0, 0.0),
        half,
    )

    def density(y, mean):
        def there(x):
            jumped = 0.2 + (x - 0.1) + math.copysign(0.4, x - 0.1)
            return norm.pdf(y, jumped, stds[1])

        inside = quad(
            lambda x: norm.pdf(x, mean, stds[0]) * there(x),
            max(mean - 5, -half),
            min(mean + 5, half),
            points=[0.1],
            epsabs=1e-12,
        )[0]
        if math.isinf(half):
            return inside
        ends = norm.cdf(-half, mean, stds[0]), norm.sf(half, mean, stds[0])
        return inside + ends[0] * there(-half) + ends[1] * there(half)

    for which, mean in ((0, 0.0), (1, by)):
        law = walk.law(which, 10)
        for y in (-1.1, 0.0, 0.3, 1.0):
            assert law.pdf([y])[0] == pytest.approx(density(y, mean), abs=1e-10)


def test_odd_maps_have_their_modulus_and_attain_it():
    rng = np.random.default_rng(1)
    for _ in range(40):
        found = random_odd_walk(rng, 1, False)
        odd, modulus = found.maps[0], found.moduli[0]
        x, y = odd.centre + rng.normal(size=(2, 3000)) * 10.0 ** rng.uniform(-3, 1, (2, 3000))
        rounding = 1e-14 * (np.abs(odd(x)) + np.abs(odd(y)) + 1.0)
        assert np.all(np.abs(odd(x) - odd(y)) <= modulus(np.abs(x - y)) * (1 + 1e-13) + rounding)
        distance = np.geomspace(1e-3, 1e2, 400)
        apart = odd(odd.centre + distance / 2) - odd(odd.centre - distance / 2)
        assert np.max(apart / modulus(distance)) >= 1.0 - 1e-4  # on a grid of distances


def test_the_steps_of_training_are_those_of_the_algorithm():
    """Steps by hand: batch k mod l, every sum over the size of a full batch, the regulariser always."""
    records = (Constant(1.0), Jumps((0.2,), (-1.0, 1.0)), Rough(0.5, 1.0, 0.0, 1.0, 1.0))
    loss = Loss.lipschitz(1.0, l2=0.3)
    run = Training(
        (records[:2], records[2:]), 1, Constant(-1.0), (0.5,) * 5, (1.0,) * 5, loss, cooldown=1
    )
    x = np.array([-1.0, 0.3, 2.0])
    first = x - 0.5 * ((records[0](x) + records[1](x)) / 2 + 0.3 * x)
    second = [x - 0.5 * (g(x) / 2 + 0.3 * x) for g in (records[2], Constant(-1.0))]
    steps = run.walk.steps
    assert len(steps) == 5
    for k, wanted in ((0, [first] * 2), (1, second), (3, second), (4, [x - 0.15 * x] * 2)):
        for which in (0, 1):
            assert steps[k].maps[which](x) == pytest.approx(wanted[which], abs=1e-15)
    assert (run.run.n, run.run.batch_size, run.run.steps) == (3, 2, 5)


# Maps that attain their moduli.


@pytest.mark.parametrize("count", [15, pytest.param(1200, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("walls", [False, True], ids=["free", "walls"])
def test_odd_walks_are_never_safer_than_proven(walls, count):
    rng = np.random.default_rng([count, walls])
    for _ in range(count):
        found = random_odd_walk(rng, int(rng.integers(1, 7)), walls)
        violations = violated(found.walk, claims_of(found.iteration), EPSILONS)
        assert not violations, (violations, found)


@pytest.mark.parametrize("count", [10, pytest.param(150, marks=pytest.mark.nightly)])
def test_moduli_given_as_functions_prove_no_more(count):
    """The same moduli, of which only values can be asked; and one that jumps at 1/2 as well as at 0."""
    rng, tried = np.random.default_rng(count), 0
    for _ in range(count):
        found = random_odd_walk(rng, int(rng.integers(1, 5)), bool(rng.random() < 0.5))
        functions = tuple(Modulus.from_function(lambda z, m=m: m(z)) for m in found.moduli)
        above = tuple(
            Modulus.from_function(lambda z, m=m: m(0.5 if z < 0.5 else z)) for m in found.moduli
        )
        for moduli in (functions, above):
            with contextlib.suppress(NotApplicable):
                claims = {"functions": replace(found, moduli=moduli).iteration.guarantee(1e-3)}
                assert not violated(found.walk, claims, EPSILONS), found
                tried += 1
    assert tried >= count / 2


@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.parametrize("walls", [False, True], ids=["free", "walls"])
def test_noise_of_one_and_a_half_times_its_size_is_caught(walls, steps):
    """Told to the accountant, some walk of these shows it."""
    rng = np.random.default_rng([steps, walls])

    def caught():
        found = random_odd_walk(rng, steps, walls)
        told = replace(found, stds=tuple(1.5 * s for s in found.stds)).iteration
        return violated(found.walk, {"wrong": solved(told)}, EPSILONS)

    assert any(caught() for _ in range(60)), "no walk shows it"


# Training on losses that are not smooth, not convex, or clipped.


def _signs(rng, bound: float, width: float) -> Jumps:
    """A monotone step function with values within ±bound: a convex piecewise linear loss."""
    kinks = int(rng.integers(1, 4))
    at = np.sort(rng.uniform(-width, width, kinks)) if rng.random() < 0.7 else np.zeros(1)
    inner = np.sort(rng.uniform(-bound, bound, len(at) - 1))
    return Jumps(tuple(at.tolist()), (-bound, *inner.tolist(), bound))


def random_training(
    rng, kind: str, walls: bool, alike: bool = False, most: int = 8, narrow: bool = False
) -> Training:
    """An instance that `kind` of loss describes truly, with sizes at which steps matter; at `most` so many
    steps. `alike`: all records but one are. `narrow`: walls about as far apart as the noise is wide."""
    size, batches = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    t = int(rng.integers(1, most + 1))
    bound = float(rng.choice([0.5, 1.0, 2.0]))
    eta = _loguniform(rng, 0.1, 1.5)
    noise = 2.0 * bound / (size * _loguniform(rng, 0.15, 0.6 if narrow else 4.0))
    room = (0.2, 2.0) if narrow else (0.5, 12.0)
    diameter = eta * noise * _loguniform(rng, *room) if walls else None
    width = diameter / 2 if walls else eta * (noise + bound)
    clip = sensitivity = None
    tilt = 0.0
    if kind == "lipschitz":
        loss = Loss.lipschitz(bound)

        def draw():
            steep = Line(_loguniform(rng, 0.1, 30.0) / eta, rng.uniform(-width, width), bound)
            pick = rng.random()
            if pick < 0.5:
                return _signs(rng, bound, width)
            return steep if pick < 0.7 else Constant(float(rng.choice([-bound, bound])))

    elif kind == "weakly smooth":
        p = float(rng.choice([0.0, 0.3, 0.5, 0.9]))
        constant = bound * _loguniform(rng, 0.3, 3.0)
        if rng.random() < 0.5:
            loss = Loss.weakly_smooth([(p, constant)], gradient_bound=bound)
        else:
            # A gradient of one coordinate is a scalar times a fixed vector, however clipped.
            loss, clip = Loss.weakly_smooth([(p, constant)], glm=bool(rng.random() < 0.5)), bound

        def draw():
            if rng.random() < 0.25:
                return Constant(float(rng.choice([-bound, bound])))
            return Rough(
                p, constant, float(rng.choice([0.0, rng.uniform(-width, width)])), bound, 1.0
            )

    elif kind == "dissipative":
        rate, depth = _loguniform(rng, 0.05, 0.8) / eta, bound * _loguniform(rng, 0.2, 2.0)
        slope = rate * _loguniform(rng, 0.5, 6.0)
        kappa = rate * float(rng.uniform(0.1, 0.95))
        top = max(rate, slope - rate)
        loss = Loss.dissipative(depth**2 / (rate - kappa), kappa, top)
        tilt = sensitivity = bound

        def draw():
            return Well(rate, slope, depth, float(rng.choice([0.0, rng.uniform(-width, width)])))

    elif kind == "clipped":
        top, clip = _loguniform(rng, 0.1, 2.5) / eta, bound
        low = top * float(rng.uniform(0.0, 1.0))
        which = rng.choice(["convex", "weakly", "nonconvex", "strongly"])
        loss, lo = {
            "convex": (Loss.convex(top), 0.0),
            "weakly": (Loss.weakly_convex(max(low, 1e-3), top), -low),
            "nonconvex": (Loss.nonconvex(top), -top),
            "strongly": (Loss.strongly_convex(max(low, 1e-3 * top), top), low),
        }[which]

        def draw():
            if which == "strongly":
                curvature = rng.uniform(max(low, 1e-3 * top), top)
                return Line(float(curvature), float(rng.uniform(-width, width)), bound)
            return _gradient(rng, lo, top, bound, width)

    else:  # "unknown": nothing but the clip
        loss, clip = Loss.unknown(), bound

        def draw():
            at = float(rng.choice([0.0, rng.uniform(-width, width)]))
            side = float(rng.choice([-1.0, 1.0]))
            return Jumps((at,), (side * bound, -side * bound))

    if rng.random() < 0.4:
        loss = loss.with_l2(_loguniform(rng, 0.02, 0.9) / eta)
    one = draw() if alike or rng.random() < 0.5 else None  # all other records the same
    table = [[one or draw() for _ in range(size)] for _ in range(batches)]
    if batches > 1 and rng.random() < 0.3:
        del table[-1][int(rng.integers(1, size + 1)) :]
    position = int(rng.integers(0, batches))
    record = table[position][0]
    if kind == "dissipative":
        if alike:
            record = table[position][0] = replace(record)  # another object
        other = replace(record, tilt=record.tilt + float(rng.choice([-tilt, tilt])))
    else:
        table[position][0] = record = Constant(bound) if rng.random() < 0.4 else draw()
        pick = rng.random()
        if pick < 0.2:
            other = ZERO
        elif pick < 0.7 and isinstance(record, Constant):
            other = _opposite(record)
        else:
            other = draw()
    varied = 0.3 if rng.random() < 0.3 else 0.0
    return Training(
        tuple(map(tuple, table)),
        position,
        other,
        tuple((eta * (1.0 + varied * rng.uniform(-1.0, 0.0, t))).tolist()),
        tuple((noise * (1.0 + varied * rng.uniform(-1.0, 1.0, t))).tolist()),
        loss,
        clip,
        sensitivity,
        diameter,
        start=float(rng.uniform(-width, width)) if rng.random() < 0.5 else 0.0,
        cooldown=int(rng.integers(0, t)) if rng.random() < 0.25 else 0,
    )


def training_claims(found: Training, delta: float) -> dict:
    claims = {"the worst record": found.run.guarantee(delta)}
    if len(found.batches) > 1:
        claims["its position"] = found.run.guarantee(delta, position=found.position)
    return claims


# Long: enough steps for something to be forgotten. Narrow: the walls hide more than composition knows.
SHAPES = {
    "free": ({"walls": False}, 4, 400),
    "walls": ({"walls": True}, 4, 400),
    "long": ({"walls": None, "most": 40}, 2, 200),
    "narrow": ({"walls": True, "most": 150, "narrow": True}, 1, 100),
}


@pytest.mark.parametrize("nightly", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_training_is_never_safer_than_proven(kind, shape, nightly):
    fields, few, many = SHAPES[shape]
    rng = np.random.default_rng([nightly, *shape.encode(), *kind.encode()])
    for _ in range(many if nightly else few):
        walls = bool(rng.random() < 0.7) if fields["walls"] is None else fields["walls"]
        found = random_training(rng, kind, **fields | {"walls": walls})
        claims = training_claims(found, float(10 ** rng.uniform(-5, -1)))
        violations = violated(found.walk, claims, EPSILONS)
        assert not violations, (violations, found)


@pytest.mark.parametrize("count", [4, pytest.param(150, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_secret_orders_are_never_safer_than_proven(kind, count):
    rng = np.random.default_rng([count, len(kind)])
    for _ in range(count):
        found = random_training(rng, kind, bool(rng.random() < 0.5), alike=True)
        average, run = shuffled(found)
        claim = run.guarantee(float(10 ** rng.uniform(-5, -1)))
        assert not violated(average, {"shuffled": claim}, EPSILONS), found


@pytest.mark.parametrize("kind", ["lipschitz", "dissipative", "clipped"])
def test_half_the_sensitivity_is_caught(kind):
    """The accountant is told of gradients half as large (of an adjacent pair half as far apart)."""
    rng = np.random.default_rng(len(kind))

    def caught():
        found = random_training(rng, kind, False)
        run = found.run
        told = replace(
            run, clip_norm=None, gradient_sensitivity=run.sensitivity / 2, adjacency=run.adjacency
        )
        return violated(found.walk, {"wrong": told.guarantee(1e-3)}, EPSILONS)

    assert any(caught() for _ in range(40)), "no instance shows it"

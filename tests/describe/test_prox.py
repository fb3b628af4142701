"""Every proximal map against general solvers, its theory, and its set in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import svdvals

from pabi.describe import prox
from support.every_case import every

U = Fraction(1, 2**53)  # the largest relative error of one rounding
SMALLEST = Fraction(5e-324)
INF = math.inf


def exact(x):
    """The entries as rationals."""
    return [Fraction(float(v)) for v in np.ravel(x)]


def inner(a, b):
    return sum((p * q for p, q in zip(a, b, strict=True)), start=Fraction(0))


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


def size(a):
    """A rational not below the norm: that of the sum of absolute values."""
    return sum((abs(v) for v in a), start=Fraction(0))


# Truth: what F(u) = ½‖u − x‖² + η·g(u) is at other points.


def nothing(u):
    return 0.0


def into_ball(u, center, radius):
    return center + (u - center) * min(1.0, radius / max(np.linalg.norm(u - center), 1e-300))


def into_simplex(u, total):
    return np.abs(u) * (total / np.sum(np.abs(u)))


def into_halfspace(u, normal, offset):
    excess = max(0.0, np.sum(normal * u) - offset)
    return u - normal * excess / np.sum(normal**2)


CENTER = np.array([1.0, -0.5, 0.25, 2.0])
NORMAL = np.array([1.0, -2.0, 0.0, 0.5])
LOW, HIGH = np.array([-1.0, 0.0, -INF, 0.5]), np.array([1.0, 0.25, 0.0, INF])


# Map, g, and a map from any point to one of the domain of g.
TRUTHS = {
    "l1": (prox.l1(0.8), lambda u: 0.8 * np.sum(np.abs(u)), np.asarray),
    "l2": (prox.l2(0.8), lambda u: 0.4 * np.sum(u**2), np.asarray),
    "elastic_net": (
        *(prox.elastic_net(0.8, 0.5), lambda u: 0.8 * np.sum(np.abs(u)) + 0.25 * np.sum(u**2)),
        np.asarray,
    ),
    "nuclear_norm": (prox.nuclear_norm(0.8), lambda u: 0.8 * np.sum(svdvals(u)), np.asarray),
    "ball": (prox.ball(1.5), nothing, lambda u: into_ball(u, 0.0, 1.5)),
    "ball, off the origin": (
        *(prox.ball(1.5, CENTER), nothing),
        lambda u: into_ball(u, CENTER, 1.5),
    ),
    "box": (prox.box(LOW, HIGH), nothing, lambda u: np.clip(u, LOW, HIGH)),
    "simplex": (prox.simplex(2.0), nothing, lambda u: into_simplex(u, 2.0)),
    "halfspace": (
        *(prox.halfspace(NORMAL, -1.0), nothing),
        lambda u: into_halfspace(u, NORMAL, -1.0),
    ),
}


@every("name", TRUTHS)
def test_no_point_is_better(name):
    """F is 1-strongly convex: p minimises it if and only if F(u) ≥ F(p) + ½‖u − p‖² at every u of the domain.
    From a point that is off by e it falls by about e·‖u − p‖ on one side of the points near it."""
    p, g, into_domain = TRUTHS[name]
    rng = np.random.default_rng(7)
    shape = (3, 4) if name == "nuclear_norm" else (4,)
    for x in rng.normal(scale=2.0, size=(10, *shape)):
        ours = p(x, 0.7)

        def objective(u, x=x):
            return 0.5 * np.sum((u - x) ** 2) + 0.7 * g(u)

        assert np.allclose(into_domain(ours), ours, rtol=0.0, atol=1e-14)
        for scale in 10.0 ** rng.uniform(-4.0, 1.0, 100):
            u = into_domain(ours + rng.normal(scale=scale, size=shape))
            gap = objective(u) - objective(ours) - 0.5 * np.sum((u - ours) ** 2)
            # A few dozen terms below 1e3 are summed, and points are in the domain up to rounding.
            assert gap > -1e-11


@every("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1), (40, 30)])
@every("strength", [0.1, 1.0, 3.0])
def test_nuclear_norm_satisfies_its_optimality_conditions(shape, strength):
    """(x − p)/η·strength is a subgradient of the nuclear norm at p: of spectral norm at most 1, and
    its product with p is p's nuclear norm."""
    x = np.random.default_rng(3).normal(size=shape)
    p = prox.nuclear_norm(strength)(x, 0.5)
    subgradient = (x - p) / (0.5 * strength)
    rounding = 100 * max(shape) * float(U) * np.linalg.norm(x)
    assert np.linalg.norm(subgradient, 2) <= 1.0 + rounding / (0.5 * strength)
    assert abs(np.sum(subgradient * p) - np.linalg.norm(p, "nuc")) <= (
        rounding * (1.0 + np.linalg.norm(p)) * math.sqrt(max(shape)) / (0.5 * strength)
    )


EXPONENTS = st.integers(-300, 300)


@st.composite
def vectors(draw, d, exponents=EXPONENTS, smallest=0.0):
    """Entries of one scale or of many."""
    entry = st.floats(-1.0, 1.0).filter(lambda v: v == 0.0 or abs(v) >= smallest)
    if draw(st.booleans()):
        scale = 10.0 ** draw(exponents)
        return np.array([scale * draw(entry) for _ in range(d)])
    return np.array([10.0 ** draw(exponents) * draw(entry) for _ in range(d)])


scales = EXPONENTS.flatmap(lambda e: st.floats(1.0, 9.0).map(lambda m: m * 10.0**e))


@st.composite
def maps(draw, d, kinds=tuple(prox.KINDS)):
    """(a map for d numbers, a bound on its error in terms of x).

    Errors of a few roundings: of every entry of x for the penalties, in units of the set's size for
    the projections. The constants count the operations of the module, generously.
    """
    kind = draw(st.sampled_from(kinds))
    strength = draw(st.one_of(st.just(0.0), scales))

    def few(roundings):
        return lambda x: roundings * U * size(x) + 8 * d * SMALLEST

    match kind:
        case "l1" | "l2":
            return prox.KINDS[kind](strength), few(4)
        case "elastic_net":
            return prox.elastic_net(strength, draw(scales)), few(8)
        case "nuclear_norm":
            # A backward stable decomposition is that of a matrix nearby; the map is nonexpansive.
            return prox.nuclear_norm(strength), few(200 * d)
        case "ball":
            radius, center = draw(scales), draw(st.one_of(st.none(), vectors(d)))
            extent = Fraction(radius) + (0 if center is None else size(exact(center)))
            return prox.ball(radius, center), lambda x: (4 * d + 80) * U * extent + d * SMALLEST
        case "box":
            a, b = draw(vectors(d)), draw(vectors(d))
            return prox.box(np.minimum(a, b), np.maximum(a, b)), lambda x: 0
        case "simplex":
            total = draw(scales)
            off = 4 * (d + 8) ** 2 * U * Fraction(total) + d * SMALLEST
            return prox.simplex(total), lambda x: off
    normal = draw(vectors(d).filter(np.any))
    peak = Fraction(float(np.max(np.abs(normal))))
    offset = draw(st.floats(-1.0, 1.0)) * min(float(peak), 1.0)
    return (
        prox.halfspace(normal, offset),
        lambda x: 64 * (d + 8) * U * (size(x) + abs(Fraction(offset)) / peak) + d * SMALLEST,
    )


@given(st.data(), st.integers(1, 4))
@settings(deadline=None)
def test_firmly_nonexpansive(data, d):
    """‖p(x) − p(y)‖² ≤ <p(x) − p(y), x − y> for the exact map. If the computed difference P is off by
    at most e, ‖P‖² ≤ <P, x − y> + e(2‖P‖ + ‖x − y‖)."""
    p, error = data.draw(maps(d))
    x, y = data.draw(vectors(d)), data.draw(vectors(d))
    step = data.draw(scales)
    shape = (1, d) if isinstance(p, prox.nuclear_norm) else (d,)
    px, py = (exact(p(v.reshape(shape), step)) for v in (x, y))
    x, y = exact(x), exact(y)
    moved, apart = minus(px, py), minus(x, y)
    slack = (error(x) + error(y)) * (2 * size(moved) + size(apart))
    assert inner(moved, moved) <= inner(moved, apart) + slack


@given(st.data(), st.integers(1, 6), scales)
@settings(deadline=None)
def test_a_ball_is_never_left(data, d, radius):
    """In exact arithmetic, so that 2·radius bounds the distance of results; and what is well inside
    stays."""
    center = data.draw(st.one_of(st.none(), vectors(d)))
    x = data.draw(vectors(d))
    if data.draw(st.booleans()):  # close to the boundary
        unit = x / max(np.max(np.abs(x)), 1e-305)
        unit = unit / max(np.linalg.norm(unit), 1.0)
        x = radius * unit + (0.0 if center is None else center)
    p = prox.ball(radius, center)
    middle = [Fraction(0)] * d if center is None else exact(center)
    result = p(x, 1.0)
    from_center = minus(exact(result), middle)
    assert inner(from_center, from_center) <= Fraction(radius) ** 2
    before = minus(exact(x), middle)
    if inner(before, before) <= (Fraction(radius) * (1 - 2 * (d + 16) * U)) ** 2:
        np.testing.assert_array_equal(result, x)
    np.testing.assert_array_equal(p(result, 1.0), result)


@every("d", [2, 100, 2_000])
def test_long_vectors_end_within_and_near_the_surface(d):
    rng = np.random.default_rng(d)
    for center in (None, rng.normal(scale=100.0, size=d)):
        result = exact(prox.ball(0.1, center)(rng.normal(size=d) * 1e3, 1.0))
        offset = minus(result, exact(np.zeros(d) if center is None else center))
        # Rounding towards the center loses an ulp of it in every entry.
        lost = 0 if center is None else Fraction(2.0**-45) * d
        least = Fraction(0.1) * (1 - (4 * d + 80) * U) - lost
        assert least**2 <= inner(offset, offset) <= Fraction(0.1) ** 2
    result = exact(prox.simplex(5.0)(rng.normal(size=d), 1.0))
    assert min(result) >= 0
    assert 5 * (1 - (4 * d + 32) * U) <= sum(result) <= 5


def test_a_ball_at_the_end_of_the_doubles():
    """The way from its center to a point can be longer than the largest double."""
    p = prox.ball(1e307, center=[1.5e308, 0.0])
    for x in ([-1.7e308, 0.0], [-INF, 1e308]):
        offset = minus(exact(p(x, 1.0)), exact(p.center))
        assert offset[0] < 0 <= offset[1]
        assert Fraction(0.999e307) ** 2 <= inner(offset, offset) <= Fraction(1e307) ** 2


@given(st.data(), st.integers(1, 6))
def test_a_box_is_exact(data, d):
    a, b, x = (data.draw(vectors(d)) for _ in range(3))
    p = prox.box(np.minimum(a, b), np.maximum(a, b))
    result = p(x, 1.0)
    for low, high, before, after in zip(p.lower, p.upper, x, result, strict=True):
        assert after == min(max(before, low), high)
    np.testing.assert_array_equal(p(result, 1.0), result)


@given(st.data(), st.integers(1, 6), scales)
@settings(deadline=None)
def test_a_simplex_is_never_exceeded(data, d, total):
    x = data.draw(vectors(d))
    p = prox.simplex(total)
    result = exact(p(x, 1.0))
    assert min(result) >= 0
    short = (4 * d + 32) * U * Fraction(total)
    assert Fraction(total) - short <= sum(result) <= Fraction(total)
    # The point lacks at most `short` of the simplex, and the map is off by its own error.
    again = exact(p(p(x, 1.0), 1.0))
    assert size(minus(again, result)) <= d * (short + 4 * (d + 8) ** 2 * U * Fraction(total))


@given(st.data(), st.integers(1, 6))
@settings(deadline=None)
def test_a_halfspace_is_never_left(data, d):
    """Exactly: who is inside stays, who is outside ends inside, and neither moves again."""
    moderate = st.integers(-60, 60)  # products of products neither over- nor underflow
    normal = data.draw(vectors(d, moderate, 1e-3).filter(np.any))
    x = data.draw(vectors(d, moderate, 1e-3))
    offset = data.draw(st.one_of(st.just(0.0), st.just(float(np.dot(normal, x))), st.floats(-1, 1)))
    p = prox.halfspace(normal, 0.0 if abs(offset) < 1e-100 else offset)
    result = p(x, 1.0)
    assert inner(exact(normal), exact(result)) <= Fraction(p.offset)
    if inner(exact(normal), exact(x)) <= Fraction(p.offset):
        np.testing.assert_array_equal(result, x)
    np.testing.assert_array_equal(p(result, 1.0), result)


@every("exponent", [-1000, -300, 300, 1015])
def test_the_unit_of_a_halfspace_is_no_matter(exponent):
    rng, unit = np.random.default_rng(0), 2.0**exponent
    for _ in range(20):
        normal, x, offset = rng.normal(size=5), 4.0 * rng.normal(size=5), rng.normal()
        result = prox.halfspace(normal, offset)(x, 1.0)
        inside = prox.halfspace(normal, unit * offset)(unit * x, 1.0)
        # A few dozen roundings of numbers below 20.
        assert inner(exact(normal), exact(inside)) <= Fraction(unit * offset)
        np.testing.assert_allclose(inside / unit, result, rtol=0.0, atol=1e-13)
        same = prox.halfspace(unit * normal, unit * offset)(x, 1.0)
        np.testing.assert_allclose(same, result, rtol=0.0, atol=1e-13)


def distance_squared(p, x, y):
    apart = minus(exact(p(x, 1.0)), exact(p(y, 1.0)))
    return inner(apart, apart)


@given(st.data(), st.integers(1, 5))
@settings(deadline=None)
def test_the_diameter_is_never_exceeded(data, d):
    p, _ = data.draw(maps(d, ("ball", "box", "simplex")))
    x, y = data.draw(vectors(d)), data.draw(vectors(d))
    with np.errstate(over="ignore"):
        far = 1e305 * x
    for a, b in ((x, y), (far, -far), (np.full(d, INF), np.full(d, -INF))):
        assert distance_squared(p, a, b) <= Fraction(p.diameter) ** 2


@every("d", [1, 3, 50])
@every("radius", [1e-300, 0.1, 1.0, 1e300])
def test_the_diameter_of_a_ball_is_attained(d, radius):
    p = prox.ball(radius)
    direction = np.random.default_rng(d).normal(size=d)
    far = 1e4 * radius * direction
    assert p.diameter == 2 * radius
    assert distance_squared(p, far, -far) >= (Fraction(p.diameter) * (1 - (4 * d + 80) * U)) ** 2


@given(st.data(), st.integers(1, 6))
def test_the_diameter_of_a_box_is_that_of_its_corners(data, d):
    a, b = data.draw(vectors(d)), data.draw(vectors(d))
    p = prox.box(np.minimum(a, b), np.maximum(a, b))
    squared = distance_squared(p, p.lower, p.upper)
    widths = minus(exact(p.upper), exact(p.lower))
    assert squared == inner(widths, widths)
    assert squared <= Fraction(p.diameter) ** 2
    # Two roundings up, of the widths and of the result.
    least = max(Fraction(p.diameter) - SMALLEST, Fraction(0))
    assert least**2 <= squared * (1 + 2 * U) ** 4
    if all(Fraction(float(w)) == w for w in widths) and squared:
        assert Fraction(math.nextafter(p.diameter, 0.0)) ** 2 < squared


def test_the_diameter_of_a_box_of_numbers():
    for lower, upper, shape, diameter in (
        (-1.0, 1.0, None, None),
        (-1.0, 1.0, 4, 4.0),
        (-1.0, 1.0, (2, 8), 8.0),
        (0.0, 1.0, 10**16, 1e8),
        ([-1.0] * 4, 1.0, None, 4.0),
        (0.0, [3.0, 4.0], None, 5.0),
        ([0.0, 0.0], [1.0, INF], None, None),
        (0.0, [1.0, 1e-25], None, 1.0 + 2.0**-52),  # more than 1, if by 5e-51
        (-INF, 1.0, 3, None),
        (-1e308, 1e308, 1, None),  # beyond the range of doubles
        (0.0, 1.7e308, 2, None),
        (1.0, 1.0, 3, 0.0),
    ):
        assert prox.box(lower, upper, shape=shape).diameter == diameter


@every("total", [1e-300, 0.1, 1.0, 3.0, 1e300])
def test_the_diameter_of_a_simplex_is_attained(total):
    p = prox.simplex(total)
    assert Fraction(math.nextafter(p.diameter, 0.0)) ** 2 < 2 * Fraction(total) ** 2
    assert 2 * Fraction(total) ** 2 <= Fraction(p.diameter) ** 2
    squared = distance_squared(p, [total, 0.0, 0.0], [0.0, 0.0, total])
    assert squared >= 2 * (Fraction(total) * (1 - 44 * U)) ** 2


def test_the_others_are_unbounded():
    others = prox.l1(1), prox.l2(1), prox.elastic_net(1, 1), prox.nuclear_norm(1)
    assert {p.diameter for p in (*others, prox.halfspace([1], 0))} == {None}

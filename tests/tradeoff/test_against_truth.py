"""Trade-off functions and their products against the truth: quadrature, lattices, closed forms."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.special import erf, erfcx, ndtr

from pabi import convert
from pabi.tradeoff import (
    ApproxDP,
    FixedSizeSubsampled,
    Gaussian,
    PoissonSubsampled,
    Product,
    Subsampled,
)
from support.every_case import every
from support.normal_mixtures import PLAIN, drawn, errors

QUADRATURE = 1e-9  # relative, more than the reference errs; it agrees with twice the nodes to 1e-11
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


# The reference: one release in closed form, two by quadrature, three by the trapezoidal rule.


def density(z):
    return np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def mills(x):
    """(1 - Φ(x))/φ(x)."""
    return math.sqrt(math.pi / 2.0) * erfcx(x / math.sqrt(2.0))


def loss(mu, p, z):
    """log dP/dQ of P = p·N(μ, 1) + (1 - p)·N(0, 1) and Q = N(0, 1)."""
    x = mu * z - 0.5 * mu * mu
    if p == 1.0:
        return x
    near = np.log1p(p * np.expm1(np.minimum(x, 30.0)))
    far = x + math.log(p) + np.log1p((1.0 - p) / p * np.exp(-np.maximum(x, 30.0)))
    return np.where(x > 30.0, far, near)


def threshold(mu, p, y):
    """The z of this loss; -∞ where every loss is larger."""
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(y, 30.0)) / p, -1.0))
        far = y - math.log(p) + np.log1p(-(1.0 - p) * np.exp(-np.maximum(y, 30.0)))
        ratio = y if p == 1.0 else np.where(y > 30.0, far, near)
        return 0.5 * mu + ratio / mu


def one(kind, epsilon):
    """δ(ε) of one release, any real ε, to 1e-11 (relative)."""
    name, mu, p = kind
    size = np.abs(epsilon)

    def forward(name):
        z = threshold(mu, p, size if name != "add" else -size)
        if name != "add":
            return p * density(z - mu) * (mills(z - mu) - mills(z))
        at = np.maximum(z, -1e4)
        value = np.exp(size) * p * density(at - mu) * (mills(-at) - mills(mu - at))
        return np.where(z == -math.inf, 0.0, value)

    with np.errstate(over="ignore", invalid="ignore"):
        opposite = {"remove": "add", "add": "remove", "worse": "worse"}[name]
        mirrored = np.exp(-size) * forward(opposite) - np.expm1(-size)
        return np.where(epsilon >= 0.0, np.nan_to_num(forward(name)), np.nan_to_num(mirrored))


def law(kind):
    """The privacy loss: [(density, loss, least z)] and the mass of the atom at 0."""
    name, mu, p = kind

    def first(z):
        return p * density(z - mu) + (1.0 - p) * density(z)

    def forth(z):
        return loss(mu, p, z)

    def back(z):
        return -loss(mu, p, z)

    if name == "remove":
        return [(first, forth, -39.0)], 0.0
    if name == "add":
        return [(density, back, -39.0)], 0.0
    atom = (1.0 - p) * erf(mu / math.sqrt(8.0))
    return [(first, forth, 0.5 * mu), (density, back, 0.5 * mu)], atom


def two(a, b, epsilon):
    """δ(ε) of a ⊗ b: the hockey-stick of b at ε - Y over the loss Y of a, panel by panel."""
    _, mu, p = a
    parts, atom = law(a)
    total = atom * float(one(b, np.float64(epsilon)))
    edge = math.log1p(-b[2]) if b[2] < 1.0 else 0.0
    kinks = [
        float(threshold(mu, p, np.float64(s * (epsilon + d))))
        for s in (1, -1)
        for d in (0, edge, -edge)
    ]
    for weight, y, least in parts:
        ends = np.linspace(least, mu + 39.0, 400 + int(40 * mu))
        ends = np.unique([*ends, *(k for k in kinks if least < k < mu + 39.0)])
        middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1:] - ends[:-1])
        z = middle[:, None] + half[:, None] * NODES
        total += float(np.sum(half[:, None] * WEIGHTS * weight(z) * one(b, epsilon - y(z))))
    return total


def curve(kind):
    name, mu, p = kind
    if p == 1.0:
        return Gaussian(mu)
    return Subsampled(Gaussian(mu), p) if name == "worse" else PoissonSubsampled(mu, p, name)


def spread(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


# 2. Two releases.


def pairs(rng):
    mu, nu = spread(rng, 0.01, 10.0), spread(rng, 0.01, 10.0)
    p, q = spread(rng, 1e-6, 0.9), spread(rng, 1e-6, 0.9)
    same = [((name, mu, p), (name, mu, p)) for name in ("worse", "remove", "add")]
    return [*same, (("worse", mu, p), ("worse", nu, q)), (("worse", mu, p), ("worse", nu, 1.0))]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 220))]
)
def test_two_releases(seed):
    rng = np.random.default_rng(1000 + seed)
    for a, b in pairs(rng):
        check_two(a, b, spread(rng, 1e-12, 1e-2))


def check_two(a, b, delta, rtol=1e-3):
    f = curve(a).self_compose(2) if a == b else curve(a).compose(curve(b))
    case = f, delta
    low, high = f.epsilon_bounds(delta, rtol)
    # Of an ε next to δ the numerics allow fewer digits.
    assert 0.0 <= low <= high <= low * (1.0 + 2.0 * rtol) + 0.05 * delta, (case, low, high)
    assert high <= f.epsilon(delta) * (1.0 + 2.0 * rtol)
    if high > 0.0:
        assert two(a, b, high) <= delta * (1.0 + QUADRATURE), (case, high)
    if low > 0.0:
        assert two(a, b, low) >= delta * (1.0 - QUADRATURE), (case, low)
    for epsilon in (0.5 * high, high):
        truth = two(a, b, epsilon)
        below, above = f.delta_bounds(epsilon)
        assert below <= truth * (1.0 + QUADRATURE), (case, epsilon, below, truth)
        assert truth * (1.0 - QUADRATURE) <= above, (case, epsilon, above, truth)
        assert truth * (1.0 - QUADRATURE) <= f.delta(epsilon), (case, epsilon, truth)


@every("name, mu, p, delta", [("remove", 3.24, 2e-6, 8e-8), ("add", 0.37, 2.6e-6, 4.9e-12)])
def test_two_rare_releases(name, mu, p, delta):
    """Nearly all mass is at one loss; and moments see the largest loss alone."""
    check_two((name, mu, p), (name, mu, p), delta)


def test_a_part_drawn_alike_has_its_own_point():
    """Or the lower value would be a step of the grid below the upper one."""
    f = FixedSizeSubsampled(20.0, 10.0, 12.0, 0.1).self_compose(2).compose(Gaussian(0.5))
    low, high = f.epsilon_bounds(0.3)
    assert 0.0 < low <= high <= low * 1.002


# 3. Lattices.


def binomial(epsilon_0, delta_0, k, epsilon):
    """δ(ε) of ApproxDP(ε_0, δ_0)^k."""
    e0, keep = mp.mpf(epsilon_0), (1 - mp.mpf(delta_0)) ** k
    up, down = 1 / (1 + mp.exp(-e0)), 1 / (1 + mp.exp(e0))
    total = mp.mpf(0)
    for j in range(k + 1):
        gain = 1 - mp.exp(mp.mpf(epsilon) - (2 * j - k) * e0)
        total += mp.binomial(k, j) * up**j * down ** (k - j) * max(gain, 0)
    return float(1 - keep * (1 - total))


def check_lattice(epsilon_0, delta_0, k):
    f = ApproxDP(epsilon_0, delta_0).self_compose(k)
    case = epsilon_0, delta_0, k
    for share in (0.0, 0.1, 0.37, 0.8, 0.97, 1.5):
        epsilon = share * k * epsilon_0
        truth = binomial(epsilon_0, delta_0, k, epsilon)
        if isinstance(f, Product):
            low, high = f.delta_bounds(epsilon)
            assert low <= truth * (1.0 + 1e-9), (case, epsilon, low, truth)
            # The accuracy is one of ε: 1e-3 of it, or of the size of the loss.
            nearer = epsilon - 1e-3 * max(epsilon, math.sqrt(k) * epsilon_0)
            loosest = binomial(epsilon_0, delta_0, k, nearer) * 1.01 + 1e-12
            assert truth * (1.0 - 1e-12) <= high <= loosest, (case, epsilon, high, truth)
        assert f.delta(epsilon) >= truth * (1.0 - 1e-12), (case, epsilon)
        if 0.0 < share < 1.0 and 1.0 - (1.0 - delta_0) ** k + 1e-12 < truth < 1.0 - 1e-9:
            low, high = f.epsilon_bounds(truth)
            assert low * (1.0 - 1e-9) <= epsilon <= high * (1.0 + 1e-9), (case, truth, low, high)


LATTICES = [*((e, 0.0, k) for e in (0.1, 1.0) for k in (1, 2, 3)), (1.0, 0.1, 10)]
NIGHTLY = [(e, d) for e in (0.01, 0.3, 1.0, 2.0, 10.0) for d in (0.0, 1e-10, 1e-3, 0.05, 0.1)]


@pytest.mark.parametrize(("epsilon_0", "delta_0", "k"), LATTICES)
def test_randomised_response(epsilon_0, delta_0, k):
    check_lattice(epsilon_0, delta_0, k)


@pytest.mark.nightly
@pytest.mark.parametrize(("epsilon_0", "delta_0"), NIGHTLY)
def test_lattices_at_length(epsilon_0, delta_0):
    for k in (*range(1, 13), 17, 25, 40, 60):
        check_lattice(epsilon_0, delta_0, k)


# 4, 5. Published numbers and another library.


@every("steps, published", [(2000, 4.438), (4000, 6.654), (8000, 10.113)])
def test_published(steps, published):
    f = Subsampled(Gaussian(2.0 / 3.0), 0.025).self_compose(steps)
    low, high = f.epsilon_bounds(1e-5, 1e-5)
    assert high - low <= 1e-5 * high
    assert published - 5e-4 <= low <= high <= published + 5e-4


def test_dp_accounting():
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    event = accounting.PoissonSampledDpEvent(0.02, accounting.GaussianDpEvent(2.0))

    def theirs(interval):
        relation = accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = PLDAccountant(relation, value_discretization_interval=interval)
        accountant.compose(accounting.SelfComposedDpEvent(event, 2000))
        return accountant.get_epsilon(1e-5)

    coarse, fine = theirs(1e-4), theirs(5e-5)
    own = coarse - fine  # at least what the finer one errs by, if halving the interval helps at all
    low, high = PoissonSubsampled(0.5, 0.02).self_compose(2000).epsilon_bounds(1e-5, 1e-7)
    assert high - low <= 1e-7 * high
    assert low <= fine * (1.0 + 1e-9)  # theirs is an upper bound
    assert fine <= high + own + 1e-6 * high


# 6. The function itself.

LEVELS = np.concatenate(
    [np.logspace(-12, -2, 21), np.linspace(0.02, 0.98, 97), 1.0 - np.logspace(-9, -2, 15)]
)


def nightly(*cases):
    return [pytest.param(*case, marks=pytest.mark.nightly) for case in cases]


# That of 20 has a corner near 1 - p, where its inverse magnifies every rounding.
@pytest.mark.parametrize(
    ("mu", "p"), [(1.0, 0.2), (20.0, 0.03), *nightly((0.1, 0.01), (1.0, 1e-6), (4.0, 0.5))]
)
def test_a_subsampled_curve_is_below_its_chords_and_its_own_inverse(mu, p):
    f = Subsampled(Gaussian(mu), p)
    value = f(LEVELS)
    alpha, beta = errors(drawn(p, mu), PLAIN, np.linspace(-39.0, mu + 39.0, 40_001))
    for x, y in ((alpha, beta), (beta[::-1], alpha[::-1])):
        order = np.argsort(x)
        chord = np.interp(LEVELS, x[order], y[order])  # above the convex f_p
        assert np.all(value <= chord * (1.0 + 1e-12))
    smooth = mu < 20.0
    again = f(value)
    assert not smooth or np.all(again <= LEVELS * (1.0 + 1e-9) + 1e-12)
    far = smooth & (value > 1e-9)
    assert again[far] == pytest.approx(LEVELS[far], rel=1e-5, abs=1e-9)
    for epsilon in np.linspace(0.0, 3.0 * mu * p, 7).tolist() if smooth else ():
        read = convert.tradeoff_to_delta(f, epsilon)
        assert read == pytest.approx(f.delta(epsilon), rel=2e-3, abs=1e-6)


@every("name", ["remove", "add", "both"])
@every("mu, p", [(1.0, 1.0), (1.0, 0.0), (0.0, 0.3)])
def test_directions_of_what_is_symmetric_are_read_alike(mu, p, name):
    f, wanted = PoissonSubsampled(mu, p, name), Gaussian(mu * (p > 0.0))
    assert f.epsilon(1e-5) == wanted.epsilon(1e-5)
    for epsilon in (-1.0, 0.0, 1.0):
        assert f.delta(epsilon) == pytest.approx(wanted.delta(epsilon), rel=1e-12)
    assert f(0.3) == pytest.approx(wanted(0.3), rel=1e-9)


def three(mu, p, t):
    """P(Y ≤ t), Q(Y ≤ t), P(Y > t), Q(Y > t) for the total loss Y of three releases."""
    z = np.arange(-9.0, mu + 9.0, 0.04)
    q = 0.04 * density(z)
    y = loss(mu, p, z)
    rest = threshold(mu, p, t - y[:, None] - y)
    plain, over = ndtr(rest), ndtr(-rest)
    mixed, above = p * ndtr(rest - mu) + (1.0 - p) * plain, p * ndtr(mu - rest) + (1.0 - p) * over
    w = p * 0.04 * density(z - mu) + (1.0 - p) * q
    return float(w @ mixed @ w), float(q @ plain @ q), float(w @ above @ w), float(q @ over @ q)


@pytest.mark.parametrize(("mu", "p"), [(0.5, 0.1), (2.0, 0.2)])
def test_one_sided_products_of_three(mu, p):
    remove, add = (PoissonSubsampled(mu, p, name).self_compose(3) for name in ("remove", "add"))
    assert remove.inverse() == add
    for t in np.linspace(3.0 * math.log1p(-p) * 0.9, 2.0 * mu, 12).tolist():
        low_p, _, _, high_q = three(mu, p, t)
        for f, level, truth in ((remove, low_p, high_q), (add, high_q, low_p)):
            alpha = min(1.0, level)
            assert f(alpha) <= truth * (1.0 + 1e-7) + 1e-9, (f, t)
            assert f(alpha) == pytest.approx(truth, abs=2e-3), (f, t)


# 7. Round-off.


@every("epsilon", [0.5, 4.0, 8.0, 12.0])
def test_tiny_delta(epsilon):
    p, k = 0.999999999, 2500
    f = Subsampled(Gaussian(0.02), p).self_compose(k)
    gaussian = Gaussian(0.02).self_compose(k)
    low, high = f.delta_bounds(epsilon)
    # All k releases see the record with probability p^k; and C_p(G) is at most G.
    truth = p**k * gaussian.delta(epsilon - k * math.log(p)) * (1.0 - 1e-9)
    assert 0.0 < truth <= high
    assert truth <= f.delta(epsilon)
    assert low <= gaussian.delta(epsilon) * (1.0 + 1e-9)
    assert high <= gaussian.delta(epsilon) * 1.05


# 8. Rényi divergences.


@every("name", ["remove", "worse"])
def test_divergences_of_independent_releases_add_up(name):
    """Those of one release are tested with their moments."""
    f = curve((name, 1.0, 0.3))
    assert f.self_compose(3).rdp(5) == pytest.approx(3.0 * f.rdp(5), rel=1e-9)
    if name == "remove":
        assert PoissonSubsampled(1.0, 0.3).rdp(5) == pytest.approx(f.rdp(5), rel=1e-6)
        mixed = PoissonSubsampled(1.0, 0.3).compose(Gaussian(0.5)).rdp(5)
        assert mixed == pytest.approx(f.rdp(5) + 0.625, rel=1e-6)


# 9. Extremes.

EXTREMES = [
    (1e-8, 1e-3, 1), (1e-8, 20.0, 10**4), (1e-8, 1.0, 10**6), (1e-4, 1e-3, 10**6), (1e-4, 1.0, 10**4),
    (1e-4, 20.0, 10**4), (0.5, 1e-3, 10**4), (0.5, 1.0, 10**4), (0.5, 20.0, 1), (1.0, 1e-3, 10**6),
    (1.0, 20.0, 1), (0.5, 1e-3, 10**6),
    (1e-8, 1.0, 10**9), (1e-4, 0.1, 10**9), (0.5, 1e-3, 10**9),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(("p", "mu", "t"), EXTREMES)
def test_extremes(p, mu, t):
    for single in (Subsampled(Gaussian(mu), p), PoissonSubsampled(mu, p)):
        f, more = single.self_compose(t), single.self_compose(2 * t)
        for delta in (1e-3, 1e-15):
            low, high = f.epsilon_bounds(delta)
            case = f, delta, low, high
            assert 0.0 <= low <= high, case
            assert single.epsilon_bounds(delta)[0] <= high * (1.0 + 1e-9), case
            assert low <= t * single.epsilon(delta / t) * (1.0 + 1e-9), case
            assert low <= more.epsilon(delta) * (1.0 + 1e-9), case
        assert f.epsilon_bounds(1e-3)[0] <= f.epsilon_bounds(1e-15)[1]


@every("delta", [0.05, 1e-6])
@every("mu", [30.0, 300.0, 3e3, 1e5])
def test_a_small_factor_beside_a_huge_gaussian(mu, delta):
    """The steps that suffice for the one are far coarser than the losses of the other."""
    alone = Gaussian(mu).epsilon_bounds(delta)
    low, high = Gaussian(mu).compose(Subsampled(Gaussian(0.5), 0.3)).epsilon_bounds(delta)
    assert alone[0] * (1.0 - 1e-9) <= low <= high
    # No more than the record in every batch.
    assert high <= Gaussian(math.hypot(mu, 0.5)).epsilon(delta) * 1.001

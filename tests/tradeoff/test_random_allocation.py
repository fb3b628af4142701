"""One record in one of many secret places: against the definition, what is known, and under attack."""

import itertools
import math
import time

import numpy as np
import pytest
from scipy.special import ndtr

from pabi.tradeoff import Gaussian, Mixture, Product, RandomAllocation
from pabi.tradeoff.certificate import curve_in_words
from pabi.tradeoff.convolution import _decaying_sums
from support.allocations import KINDS, delta_of_few, delta_of_many, delta_with_hub, orders
from support.every_case import every

FEW = [((0.05,), (1.0,)), ((1.0,), (1.0,)), ((0.3,), (0.6,)), ((2.5,), (0.05,)), ((6.0,), (0.6,))]
FEW += [((0.05, 0.05), (0.5, 0.5)), ((0.5, 0.5), (0.3, 0.3)), ((3.0, 1.0), (0.5, 0.5))]
FEW += [((6.0, 0.05), (0.2, 0.7)), ((0.1, 0.1, 0.1), (0.2, 0.2, 0.2))]
FEW += [((1.0, 1.0, 1.0), (1 / 3, 1 / 3, 1 / 3)), ((0.4, 2.0, 1.0), (0.1, 0.4, 0.4))]
# The reference is below the truth by Jensen's inequality; its own sums round.
ROUNDING = 1e-9


def of_labels(sizes, weights, opposite, displaces):
    """One group for every size."""
    groups = {}
    for a, w in zip(sizes, weights, strict=True):
        groups.setdefault(a, []).append(w)
    shares = [math.fsum(group) for group in groups.values()]
    counts = [len(group) for group in groups.values()]
    return RandomAllocation(shares, list(groups), counts, opposite, displaces)


def truth(sizes, weights, epsilon, opposite, displaces):
    """The worse order's δ, hardly below it."""
    given = weights, sizes, epsilon, opposite, displaces
    return max(delta_of_few(*given, order, (20000, 3000, 250)) for order in orders(opposite))


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
@pytest.mark.parametrize(("sizes", "weights"), FEW)
def test_few_labels_against_their_definition(sizes, weights, opposite, displaces):
    """δ is an upper bound, and where it is not tiny within .4 % of the truth."""
    curve = of_labels(sizes, weights, opposite, displaces)
    seen = [(2.0 if opposite else 1.0) * a for a in sizes]
    for epsilon in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        least, found = truth(sizes, weights, epsilon, opposite, displaces), curve.delta(epsilon)
        assert found >= least * (1.0 - ROUNDING)
        # In sight of the place.
        most = math.fsum(w * Gaussian(a).delta(epsilon) for w, a in zip(weights, seen, strict=True))
        assert found <= most * (1.0 + 1e-9) + 5e-324  # which its own products underflow to
        if least > 1e-3:
            assert found <= 1.004 * least


def test_a_guarantee_has_words_for_it():
    curve = RandomAllocation([0.8], [0.5], [4], False, True, hub=0.5)
    assert curve_in_words(curve) == "one of 5 secret batches"


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_epsilon_of_few_labels(opposite, displaces, delta):
    """By at most .1 % above the truth, for labels that hide something."""
    for sizes, weights in (((0.1,) * 3, (0.2,) * 3), ((0.5, 0.5), (0.5, 0.5)), ((0.3,), (0.6,))):
        epsilon = of_labels(sizes, weights, opposite, displaces).epsilon(delta)
        if epsilon > 0.0:
            assert truth(sizes, weights, epsilon, opposite, displaces) <= delta * (1.0 + ROUNDING)
            assert truth(sizes, weights, 0.999 * epsilon - 1e-5, opposite, displaces) > delta


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
@pytest.mark.parametrize(
    "groups", [[(0.99, 0.7, 40)], [(0.5, 0.6, 30), (0.4, 0.2, 50)], [(0.5, 0.05, 1000)]], ids=str
)
@pytest.mark.nightly
def test_many_labels_against_a_convolution(groups, opposite, displaces):
    """On a grid of its own, with δ from 0.5 down to 1e-8."""
    curve = RandomAllocation(*zip(*groups, strict=True), opposite, displaces)
    labels = [(share / n, a, n) for share, a, n in groups]
    for delta in (1e-1, 1e-3, 1e-6):
        epsilon = curve.epsilon(delta)
        if epsilon == 0.0:
            continue
        apart = 2.0 if displaces else 1.0
        square = sum(n * w * w * math.expm1((apart * a) ** 2) for w, a, n in labels)
        step = math.exp(epsilon) * (30.0 * math.sqrt(square) + 4.0 * epsilon) / (1 << 17)
        given = labels, epsilon, opposite, displaces
        least = max(delta_of_many(*given, order, step, 1 << 19) for order in orders(opposite))
        assert delta * (1.0 - 2e-2) <= least <= delta * (1.0 + 1e-5)
        assert least * (1.0 - 1e-5) <= curve.delta(epsilon) <= delta


# Published, or of theory's example: count, noise, δ, n without a spare place or None, ε zeroed, ε replaced.
KNOWN = [(100, 1.5, 1e-5, None, 0.25654, 0.47444), (1000, 2.0, 1e-6, None, 0.0592, 0.1166)]
KNOWN += [(10, 4.0, 1e-5, None, 0.26869, 0.56143), (100, 1.1, 1e-6, None, 0.61832, 0.82495)]
KNOWN += [(100, 1.5, 1e-5, 10001, 1.474, 1.821), (1000, 2.0, 1e-6, 100001, 0.1327, 0.2123)]
KNOWN += [(10, 4.0, 1e-5, 1001, 0.37713, 0.7312), (100, 1.1, 1e-6, 50001, 4.021, 5.43)]


@every("count, noise, delta, n, zeroed, replaced", KNOWN)
def test_bins_and_shuffles_have_their_known_numbers(count, noise, delta, n, zeroed, replaced):
    share = (n - 1) / n if n else 1.0
    for opposite, known in ((False, zeroed), (True, replaced)):
        curve = RandomAllocation([share], [1.0 / noise], [count], opposite, n is not None)
        assert curve.epsilon(delta) == pytest.approx(known, rel=1e-3)


# Without a spare place.

HUBS = [(0.5, 0.7, 0.7), (0.7, 1.2, 0.4), (0.9, 0.4, 1.5), (0.3, 0.2, 0.2), (0.5, 1.5, 1.5)]


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize(("share", "size", "hub"), HUBS)
def test_a_label_and_a_hub_against_their_definition(share, size, hub, opposite):
    """δ is an upper bound, and within a few percent of the truth."""
    curve = RandomAllocation([share], [size], [1], opposite, True, hub=hub)
    parts = [Gaussian((1 + opposite) * a) for a in (size, hub)]
    seen = Mixture(parts, [share, 1.0 - share])  # in sight of the place
    for epsilon in (0.1, 0.7):
        given = share, size, hub, epsilon, opposite
        least, found = (
            max(delta_with_hub(*given, o) for o in orders(opposite)),
            curve.delta(epsilon),
        )
        assert least * (1.0 - 1e-3) <= found <= seen.delta(epsilon) * (1.0 + 1e-9)
        assert found <= 1.04 * least


@pytest.mark.parametrize(("opposite", "known"), [(False, 1.522), (True, 2.485)])
def test_a_full_shuffle_has_its_known_number(opposite, known):
    """100 batches, a multiplier of 2, by Monte Carlo and by another inversion."""
    curve = RandomAllocation([0.99], [0.5], [99], opposite, True, hub=0.5)
    assert curve.delta(known * 1.002) <= 1e-6 < curve.delta(known * 0.998)


def test_a_hub_that_moves_nothing_is_a_spare_place():
    """The smaller it is, the nearer; a split group is the same."""
    spare = RandomAllocation([0.9], [0.5], [9], False, True)
    hubs = [RandomAllocation([0.9], [0.5], [9], False, True, hub=a) for a in (0.0, 1e-3, 0.2)]
    deltas = [curve.delta(0.5) for curve in hubs]
    assert hubs[0] == spare
    assert deltas[0] == spare.delta(0.5)
    assert deltas[1] == pytest.approx(deltas[0], rel=3e-2)
    assert deltas[0] < deltas[2]
    assert "hub" not in spare.to_dict()
    split = RandomAllocation([0.3, 0.6], [0.5, 0.5], [3, 6], False, True)
    assert split.epsilon(1e-5) == pytest.approx(spare.epsilon(1e-5), rel=3e-4)


def simulated(count, size, epsilon, opposite, draws=4000):
    """δ of balls in bins with its standard error: all but the label of the largest value are drawn."""
    kappa, rng = math.exp(epsilon), np.random.default_rng(1)

    def value(z):
        less = np.exp(-size * z - 0.5 * size**2) if opposite else 1.0
        return np.exp(size * z - 0.5 * size**2) - kappa * less

    z = np.linspace(-9.0, 9.0 + 2.0 * size, 6000)  # values grow with it
    y, p = value(z), np.exp(-0.5 * z * z) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
    above = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    moment = np.append(np.cumsum((p * y)[::-1])[::-1], 0.0)
    results = []
    for part in np.array_split(np.arange(draws), max(1, draws * count // 2_000_000)):
        others = value(rng.standard_normal((part.size, count - 1)))
        rest, most = others.sum(axis=1), others.max(axis=1)
        first = np.searchsorted(y, np.maximum(-rest, most))
        results.append(moment[first] + rest * above[first])
    found = np.concatenate(results)
    return found.mean(), found.std() / math.sqrt(draws)


LARGE = [(4.0, 10, 1e-6, False), (2.5, 500, 1e-5, False), (4.0, 10_000, 1e-12, False)]
LARGE += [(2.5, 10, 1e-5, True), (2.0, 100, 1e-12, True), (3.0, 500, 1e-5, True)]
LARGE += [(4.0, 10_000, 1e-5, True)]


@pytest.mark.parametrize(("size", "count", "delta", "opposite"), LARGE)
def test_large_sizes_against_a_simulation(size, count, delta, opposite):
    """The rarest values do not set how sharp the bound is: with the place in sight ε is up to 6 times as
    large."""
    epsilon = RandomAllocation([1.0], [size], [count], opposite).epsilon(delta)
    draws = 400 if count == 10_000 else 4000
    found, error = simulated(count, size, epsilon, opposite, draws)
    assert found - 4.0 * error <= delta
    assert found + 4.0 * error >= 0.95 * delta


def test_one_epoch_of_bins_is_between_published_bounds():
    """Feldman and Shenfeld 2026, for 100 bins and a multiplier of 1."""
    assert 0.6175 <= RandomAllocation([1.0], [1.0], [100]).epsilon(1e-5) <= 0.6242


@pytest.mark.nightly
def test_ten_fresh_epochs():
    bins = RandomAllocation([1.0], [1.0 / 1.1], [100])
    shuffle = RandomAllocation([10000 / 10001], [0.5], [100], False, True)
    for curve, known in ((bins, 1.630), (shuffle, 1.435)):
        assert Product([(curve, 10)]).epsilon(1e-6) == pytest.approx(known, rel=1.5e-3)


CURVES = [
    RandomAllocation([0.9], [0.7], [20], opposite, displaces) for opposite, displaces in KINDS
]
NAMES = [f"opposite={c.opposite}, displaces={c.displaces}" for c in CURVES]


@pytest.mark.parametrize("curve", CURVES, ids=NAMES)
def test_readings_agree(curve):
    """ε at δ and δ at ε."""
    for delta in (1e-2, 1e-4, 1e-7):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        assert curve.delta(0.998 * epsilon) > delta
        assert curve.epsilon_bounds(delta) == (0.0, epsilon)


def test_one_label_for_sure_is_a_gaussian():
    for mu, opposite in itertools.product((0.2, 1.0, 3.0), (False, True)):
        curve, known = RandomAllocation([1.0], [mu], [1], opposite), Gaussian((1 + opposite) * mu)
        assert curve.epsilon(1e-5) == pytest.approx(known.epsilon(1e-5), rel=3e-4)
        assert known.delta(0.5) * (1.0 - 1e-12) <= curve.delta(0.5) <= known.delta(0.5) * 1.001


def test_draws_that_all_see_are_averaged():
    """The worse order of each is no less than that of all."""
    rows = [[1.0, 0.4], [0.7, 0.9], [0.2, 1.3]]
    given = {"shares": [0.5, 0.3], "counts": [5, 2], "displaces": True}
    both = RandomAllocation(sizes=list(zip(*rows, strict=True)), **given)
    parts = [RandomAllocation(sizes=row, **given) for row in rows]
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        mean = np.mean([part.delta(epsilon) for part in parts])
        assert both.delta(epsilon) == pytest.approx(mean, rel=2e-3)


def test_where_nothing_is_moved_nothing_is_revealed():
    for opposite, displaces in KINDS:
        nothing = RandomAllocation([1.0], [0.0], [9], opposite, displaces)
        assert nothing.epsilon(0.0) == 0.0
        assert nothing.delta(0.0) == 0.0


# Extremes: no exception, no NaN, quick, and never below what a simple event shows.


def shown(share, size, count, epsilon, opposite):
    """max P(A) − e^ε·Q(A) over events that some output exceeds x, for bins."""
    x = np.linspace(-4.0, 12.0, 4001)
    quiet = np.log1p(-ndtr(-x))

    def some(mean):
        label = np.log1p(-np.minimum(ndtr(mean * size - x), 1.0 - 1e-15))
        return share * -np.expm1((count - 1) * quiet + label) - (1.0 - share) * np.expm1(
            count * quiet
        )

    other = some(-1.0) if opposite else -np.expm1(count * quiet)
    return float((some(1.0) - np.exp(epsilon) * other).max())


EXTREMES = list(itertools.product((1, 10**6), (1e-4, 1.0, 8.0), (1e-12, 1.0)))


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
@every("count, size, share", EXTREMES)
def test_extremes(count, size, share, opposite, displaces):
    begin = time.process_time()
    curve = RandomAllocation([share], [size], [count], opposite, displaces)
    for delta in (1e-12, 0.5):
        epsilon = curve.epsilon(delta)
        assert 0.0 <= epsilon < math.inf
        assert curve.delta(epsilon) <= delta
        assert curve.delta(0.0) >= 0.0
        if not displaces:
            assert shown(share, size, count, epsilon, opposite) <= delta * (1.0 + 1e-3) + 1e-12
    if not displaces:
        assert curve.delta(0.0) >= shown(share, size, count, 0.0, opposite) - 1e-12
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize(("opposite", "displaces"), KINDS)
def test_what_is_less_than_every_double_is_not_nothing(opposite, displaces):
    """Normal noise promises no ε at δ = 0, so that none is read where δ is e^-5000."""
    curve = RandomAllocation([1.0], [0.01], [2], opposite, displaces)
    assert 0.0 < curve.delta(1.0) < 1e-300
    assert curve.epsilon(0.0) == math.inf


@every("power", [1e-9, 0.3, 40.0])
def test_sums_that_decay_are_those_from_every_place(power):
    """Next to each other, far apart, and where e^-λx is below every double between two of them."""
    mass, step = np.random.default_rng(0).uniform(size=3000), 0.1
    places = np.array([0, 1, 2, 40, 41, 1500, 2999])
    found = _decaying_sums(mass, power, step, places)
    for k, plain, times in zip(places, *found, strict=True):
        x = step * np.arange(mass.size - k)
        weight = mass[k:] * np.exp(-power * x)
        assert (plain, times) == pytest.approx((math.fsum(weight), math.fsum(weight * x)))

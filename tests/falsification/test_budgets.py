"""Adversaries of a budget, who choose each release from the outputs before it."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from pabi.budget.filters import GaussianFilter, RenyiFilter
from pabi.convert import gdp_to_delta
from pabi.tradeoff import ApproxDP, PoissonSubsampled
from support.falsification.claims import gaussian_delta

EPSILONS = (-0.5, 0.0, 0.2, 0.7, 1.5, 3.0)

# Adversaries with Gaussian releases, by quadrature.

NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def quadrature(breaks, low=-12.0, high=12.0):
    """Nodes and weights of an integral over the line, smooth between the breaks and cells of length 1."""
    inner = [b for b in breaks if low < b < high]
    ends = np.unique([*np.arange(low, high + 1.0), *inner])
    half = np.diff(ends)[:, None] / 2.0
    nodes = (ends[:-1, None] + half) + half * NODES
    return nodes.ravel(), (half * WEIGHTS).ravel()


def delta_of(mu, epsilon):
    """δ of G(μ) at arrays, both orders of the data sets alike; written anew."""
    mu, epsilon = np.broadcast_arrays(np.asarray(mu, float), np.asarray(epsilon, float))
    value = gaussian_delta(np.where(mu > 0.0, mu, 1.0), epsilon)
    return np.where(mu > 0.0, value, np.maximum(0.0, 1.0 - np.exp(epsilon)))


def interaction(first, follow_ups, epsilon):
    """δ at `epsilon` of a release N(±μ, 1) and of what is chosen by its output: [(until, follow-up)].

    A follow-up is μ of a last release, or the same again: (first, follow_ups).
    """
    breaks = [until for until, _ in follow_ups]
    y, weights = quadrature(breaks)
    loss = first * y - first * first / 2.0
    total = 0.0
    for i, (until, follow_up) in enumerate(follow_ups):
        before = -math.inf if i == 0 else breaks[i - 1]
        part = (y > before) & (y <= until)
        if isinstance(follow_up, tuple):
            values = np.array([interaction(*follow_up, epsilon - x) for x in loss[part]])
        else:
            values = delta_of(follow_up, epsilon - loss[part])
        density = np.exp(-0.5 * (y[part] - first) ** 2) / math.sqrt(2.0 * math.pi)
        total += float(np.sum(weights[part] * density * values))
    return total


BUDGET = 1.0


def left_after(*mus):
    return math.sqrt(BUDGET**2 - sum(mu * mu for mu in mus))


STRATEGIES = {
    "all of it, whatever comes": (0.6, [(math.inf, left_after(0.6))]),
    "more after a high output": (0.6, [(0.5, 0.0), (math.inf, left_after(0.6))]),
    "more after a low output": (0.6, [(0.5, left_after(0.6)), (math.inf, 0.0)]),
    "more in the middle": (0.5, [(-1.0, 0.1), (1.0, left_after(0.5)), (math.inf, 0.4)]),
    "much first": (0.99, [(1.0, 0.0), (math.inf, left_after(0.99))]),
}


def test_two_gaussian_releases():
    for name, epsilon in itertools.product(STRATEGIES, EPSILONS):
        first, follow_ups = STRATEGIES[name]
        delta = interaction(first, follow_ups, epsilon)
        bound = gdp_to_delta(BUDGET, epsilon)
        assert delta <= bound * (1.0 + 1e-9) + 1e-13, (name, epsilon)
        if name == "all of it, whatever comes":
            assert delta == pytest.approx(bound, rel=1e-8)  # so that the quadrature is right


def test_three_gaussian_releases():
    for epsilon in [0.2, 1.5]:
        second = (0.5, [(0.3, 0.0), (math.inf, left_after(0.6, 0.5))])
        other = (0.3, [(-0.2, left_after(0.6, 0.3)), (math.inf, 0.2)])
        delta = interaction(0.6, [(0.0, other), (math.inf, second)], epsilon)
        bound = gdp_to_delta(BUDGET, epsilon)
        assert 0.5 * bound < delta < bound, epsilon


@pytest.mark.parametrize(
    ("second", "times"),
    [(1.01 * left_after(0.6), 1.005), (1.0, 1.8)],
    ids=["one per cent more", "the first release is forgotten"],
)
def test_a_filter_that_grants_more_is_refuted(second, times):
    delta = interaction(0.6, [(math.inf, second)], 1.5)
    assert delta > times * gdp_to_delta(BUDGET, 1.5)


def test_what_was_spent_when_it_ends_is_no_guarantee():
    """Who stops after a low output has then spent 0.6. No data set pair is that far apart there alone, and
    the whole, in which they may go on, is worse than G(0.6)."""
    delta = interaction(0.6, [(0.5, 0.0), (math.inf, left_after(0.6))], 1.5)
    assert delta > 1.3 * gdp_to_delta(0.6, 1.5)


# Adversaries with randomised response, by going through all outputs.


def losses_of(choose, steps, flip=False):
    """(P, Q) over all sequences of `steps` outputs, each ε-DP randomised response, ε = choose(outputs)."""
    for outputs in itertools.product((0, 1), repeat=steps):
        p = q = mpmath.mpf(1)
        for k in range(steps):
            truth = 1 / (1 + mpmath.exp(-mpmath.mpf(choose(outputs[:k]))))
            p *= truth if outputs[k] else 1 - truth
            q *= 1 - truth if outputs[k] else truth
        yield (q, p) if flip else (p, q)


def greedy(filters, prefer):
    """An adversary that asks for an ε by what came before, as far as the filter grants it."""

    def choose(outputs):
        spent, epsilon = Fraction(0), 0.0
        for k in range(len(outputs) + 1):
            epsilon = prefer(outputs[:k])
            size = filters.size(filters.charge(ApproxDP(epsilon, 0.0)))
            while epsilon > 0.0 and spent + size > filters.limit:
                epsilon = epsilon / 2.0 if epsilon > 1e-3 else 0.0
                size = filters.size(filters.charge(ApproxDP(epsilon, 0.0)))
            spent += size
        return epsilon

    return choose


PREFERENCES = {
    "the same": lambda outputs: 0.4,
    "more after ones": lambda outputs: 0.2 + 0.3 * sum(outputs),
    "more after zeros": lambda outputs: 0.2 + 0.3 * outputs.count(0),
    "stops when it is lucky": lambda outputs: 0.0 if sum(outputs) > 1 else 0.5,
    "all at once": lambda outputs: 5.0,
}


@pytest.mark.parametrize("name", PREFERENCES)
@pytest.mark.parametrize("filters", [GaussianFilter(0.8), RenyiFilter.of(2.0, 1e-2, 5.0)], ids=str)
def test_randomised_responses(name, filters):
    choose = greedy(filters, PREFERENCES[name])
    with mpmath.workdps(30):
        for flip in (False, True):
            law = list(losses_of(choose, 7, flip))
            assert sum(p for p, _ in law) == pytest.approx(1.0)
            assert any(p != q for p, q in law)
            if isinstance(filters, RenyiFilter):
                order = mpmath.mpf(filters.order)
                moment = sum(p**order * q ** (1 - order) for p, q in law)
                assert mpmath.log(moment) / (order - 1) <= filters.rho
                excess = sum(max(p - mpmath.exp(2) * q, 0) for p, q in law)
                assert excess <= mpmath.mpf("1e-2")
                continue
            for epsilon in EPSILONS:
                excess = sum(max(p - mpmath.exp(epsilon) * q, 0) for p, q in law)
                assert excess <= gdp_to_delta(filters.mu, epsilon)


# Adversaries with random batches, in a ledger of divergences, by quadrature.

ORDER, TARGET, SHARE = 6.0, 3.0, 1e-4
RENYI = RenyiFilter.of(TARGET, SHARE, ORDER)


def log_ratio(release, y):
    """log of p·N(μ, 1) + (1 − p)·N(0, 1) to N(0, 1)."""
    mu, p = release
    return np.log1p(p * np.expm1(mu * y - mu * mu / 2.0))


def delta_of_sampled(release, epsilon, turned):
    """δ of that pair, or of it turned round, at an array of ε; from the place where its loss is ε."""
    mu, p = release
    if mu == 0.0:
        return np.maximum(0.0, -np.expm1(epsilon))
    loss = -epsilon if turned else epsilon
    inside = (np.exp(loss) - 1.0 + p) / p
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(inside > 0.0, np.log(np.maximum(inside, 1e-300)) / mu + mu / 2.0, -np.inf)
    above = ndtr(-z), p * ndtr(mu - z) + (1.0 - p) * ndtr(-z)
    below = ndtr(z), p * ndtr(z - mu) + (1.0 - p) * ndtr(z)
    if turned:  # the loss of the second law is above ε below the place
        return below[0] - np.exp(epsilon) * below[1]
    return above[1] - np.exp(epsilon) * above[0]


def moment_of(release, turned):
    y, weights = quadrature((), -14.0, 14.0 + ORDER * release[0])
    power = 1.0 - ORDER if turned else ORDER
    density = np.exp(-0.5 * y * y + power * log_ratio(release, y)) / math.sqrt(2.0 * math.pi)
    return float(weights @ density)


def sampled_interaction(first, follow_ups, *, turned):
    """(divergence, δ at the target) of a first release and of what is chosen by its output: (until, next)."""
    breaks = [until for until, _ in follow_ups]
    y, weights = quadrature(breaks, -14.0, 14.0 + ORDER * first[0])
    ratio = log_ratio(first, y)
    density = weights * np.exp(-0.5 * y * y) / math.sqrt(2.0 * math.pi)
    power, own = (1.0 - ORDER, 0.0) if turned else (ORDER, 1.0)
    moment = delta = 0.0
    for i, (until, then) in enumerate(follow_ups):
        part = (y > (-math.inf if i == 0 else breaks[i - 1])) & (y <= until)
        moment += float(density[part] @ np.exp(power * ratio[part])) * moment_of(then, turned)
        loss = -ratio[part] if turned else ratio[part]
        values = delta_of_sampled(then, TARGET - loss, turned)
        delta += float((density[part] * np.exp(own * ratio[part])) @ values)
    return math.log(moment) / (ORDER - 1.0), delta


def charge_of(release):
    mu, p = release
    return RENYI.charge(PoissonSubsampled(mu, p)) if mu else 0.0


def largest_after(first, p):
    """The μ of a release with this sampling rate that is still granted after the first one."""
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        spent = RENYI.size(charge_of(first)) + RENYI.size(charge_of((middle, p)))
        low, high = (middle, high) if spent <= RENYI.limit else (low, middle)
    return low, p


FIRST = (1.0, 0.1)
NOTHING = (0.0, 0.1)
SAMPLED = {
    "all of it, whatever comes": [(math.inf, largest_after(FIRST, 0.1))],
    "rarer batches after a high output": [
        (1.0, largest_after(FIRST, 0.3)),
        (math.inf, largest_after(FIRST, 0.01)),
    ],
    "more after a high output": [(1.5, NOTHING), (math.inf, largest_after(FIRST, 0.05))],
    "more after a low output": [(0.0, largest_after(FIRST, 0.05)), (math.inf, NOTHING)],
    "every record after a high output": [
        (2.0, largest_after(FIRST, 0.2)),
        (math.inf, largest_after(FIRST, 1.0)),
    ],
}


def test_random_batches():
    for name, turned in itertools.product(SAMPLED, [False, True]):
        divergence, delta = sampled_interaction(FIRST, SAMPLED[name], turned=turned)
        assert divergence <= RENYI.rho * (1.0 + 1e-9), (name, turned)
        assert delta <= SHARE, (name, turned)
        assert turned or delta > 0.001 * SHARE, (name, turned)  # the attack is one
        if name == "all of it, whatever comes" and not turned:
            assert divergence >= RENYI.rho * (1.0 - 1e-6)  # so that the quadrature is right


def test_a_filter_of_divergences_that_grants_more_is_refuted():
    """A follow-up that forgets the first release exceeds ρ."""
    alone = largest_after(NOTHING, 0.1)
    assert charge_of(alone) == pytest.approx(RENYI.rho, rel=1e-6)
    divergence, _ = sampled_interaction(FIRST, [(math.inf, alone)], turned=False)
    assert divergence > 1.1 * RENYI.rho

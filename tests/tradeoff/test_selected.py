"""Private selection: its curve against published values and its formula, and what `pabi.select` takes."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from tests.support.falsification.selections import best_of
from tests.support.falsification.selections import delta as exact_delta

import pabi
from pabi import tradeoff as t
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian, Mixture, PoissonSubsampled, Selected, selected
from support.every_case import every, refused
from support.normal_mixtures import gaussian_delta

# (μ of one run, η, γ, E[K], (η + 1)·log R, ε at δ = 1e-5): reference values, computed with other software.
REFERENCE = [
    (0.5, 0.0, 0.1, 3.9086503371292665, 0.44608698975161465, 2.5971014297154564),
    (0.5, 0.0, 0.02, 12.52548871313124, 0.7349683587795134, 3.013136023855467),
    (0.5, 1.0, 0.1, 10.0, 0.8921739795032293, 3.14625862972297),
    (0.2, 0.0, 0.02, 12.52548871313124, 0.29654519932905177, 1.1406431105165218),
    (1.0, 1.0, 0.02, 50.0, 2.8530159436125344, 8.067236604889908),
    (1.0, -0.5, 0.1, 2.0811388300841895, 0.4327414574701938, 4.977957823577773),
]
BASES = [t.Gaussian(0.5), t.Mixture([t.Gaussian(0.2), t.Gaussian(0.6)], [0.25, 0.75])]
BASES += [t.ApproxDP(0.5, 1e-7), t.BoundedRange(1.0), t.PoissonSubsampled(1.0, 0.1)]
BASES += [t.Best([t.Gaussian(0.5), t.BoundedRange(1.0)])]
BASES += [t.Product([(t.PoissonSubsampled(1.0, 0.01), 20)])]


@every("mu, shape, gamma, mean, log_ratio, epsilon", REFERENCE)
def test_reference_values(mu, shape, gamma, mean, log_ratio, epsilon):
    curve = t.selected(t.Gaussian(mu), mean, shape)
    assert curve.log_ratio == pytest.approx(log_ratio, rel=1e-9)
    assert curve.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-9)
    assert curve.delta(epsilon) == pytest.approx(1e-5, rel=1e-9)


def test_the_root_is_proven_in_many_digits():
    """δ(log R) ≤ (R − 1)·γ/(1 − γ), and not with a little less."""
    for mu, shape, gamma, mean, *_ in REFERENCE:
        x = t.selected(t.Gaussian(mu), mean, shape).log_ratio / (shape + 1)
        for root, holds in ((x * (1 + 1e-15), True), (x * (1 - 1e-11), False)):
            most = mp.expm1(mp.mpf(root)) * gamma / (1 - gamma)
            assert (gaussian_delta(mu, root) <= most) == holds


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.kind)
def test_delta_is_the_formula(base):
    """Beyond the kink E[K]·δ_0(ε - c), and before it what the best of larger ε implies in both orders."""
    curve = t.Selected(base, 8.0, 0.25)
    slow = isinstance(base, t.Product | t.Best)
    ends = np.linspace(0.0, 2.0, 21) if slow else np.linspace(0.0, 8.0, 20_001)
    one = np.array([base.delta(e) for e in ends - 0.25]) if slow else base.delta(ends - 0.25)
    raw = np.minimum(1.0, 8.0 * one)
    for epsilon in (0.0, 0.1, 0.7, 2.0, math.inf):
        own = min(1.0, 8.0 * base.delta(epsilon - 0.25))
        x, y = np.exp(ends[ends >= epsilon]), raw[ends >= epsilon]
        implied = y + (1.0 - y) * (x - math.exp(min(epsilon, 9.0))) / (1.0 + x)
        expected = min(own, implied.min(initial=1.0))
        coarse = 0.1 if slow else 1e-6
        assert expected * (1.0 - coarse) <= curve.delta(epsilon) <= expected * (1.0 + 1e-9) + 1e-300
        mirrored = 1.0 - math.exp(-epsilon) * (1.0 - curve.delta(epsilon))
        assert curve.delta(-epsilon) == pytest.approx(mirrored, rel=1e-9)
    grid = np.array([-math.inf, -1.0, 0.0, 0.5, 3.0, math.inf])
    assert curve.delta(grid) == pytest.approx([curve.delta(e) for e in grid.tolist()], rel=1e-3)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.kind)
def test_epsilon_inverts_delta(base):
    """And composed it is what it was, through the pair of finitely many outcomes, beside a factor that
    reveals next to nothing."""
    curve = t.Selected(base, 8.0, 0.25)
    both = curve.compose(t.Gaussian(1e-6))
    for delta in (1e-6, 1e-5, 1e-3):
        low, high = curve.epsilon_bounds(delta)
        assert low <= curve.epsilon(delta) == high
        assert curve.delta(high) <= delta * (1.0 + 1e-2)
        assert high == pytest.approx(base.epsilon(delta / 8.0) + 0.25, rel=1e-12)
        if delta > 1e-6:
            assert high * (1.0 - 5e-3) <= both.epsilon(delta) <= high * 1.02 + 1e-4
    assert curve.epsilon_bounds(1.0) == (0.0, 0.0)
    assert curve.epsilon(2.0) == 0.0


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.kind)
def test_the_trade_off_function_is_supported_by_delta(base):
    curve = t.Selected(base, 3.0, 0.1)
    alpha = np.linspace(0.0, 1.0, 41)
    f = curve(alpha)
    assert (np.diff(f) <= 1e-12).all()
    epsilon = np.linspace(0.0, 8.0, 81 if isinstance(base, t.Product | t.Best) else 4001)
    left, level = 1.0 - curve.delta(epsilon), np.exp(epsilon)
    truth = np.maximum(left - level * alpha[:, None], (left - alpha[:, None]) / level).max(axis=1)
    assert f == pytest.approx(np.maximum(truth, 0.0), abs=0.01)


def test_renyi_divergences_bound_the_exact_ones():
    """Of the best of K Gaussian runs, K geometric, by quadrature."""
    gamma, mu, shape = 0.1, 0.5, 1.0
    curve = t.selected(t.Gaussian(mu), 10.0, shape)

    def log_density(y, centre):
        inner = 1.0 - (1.0 - gamma) * stats.norm.cdf(y - centre)
        return stats.norm.logpdf(y - centre) + math.log(10.0 * gamma**2) - 2.0 * np.log(inner)

    for order, sign in itertools.product((1.5, 3.0, 8.0), (-1.0, 1.0)):
        y = np.linspace(-14.0, 20.0, 20_001)
        one, other = log_density(y, 0.0), log_density(y, sign * mu)
        moment = trapezoid(np.exp(order * one + (1.0 - order) * other), y)
        truth = math.log(moment) / (order - 1.0)
        assert 0.0 < truth <= curve.rdp(order)
        assert truth <= curve.zcdp * order
    assert curve.rdp(3.0) == pytest.approx(
        0.125 * 3.0 + curve.log_ratio + math.log(10.0) / 2.0, rel=1e-12
    )
    for order in (1.01, 1.5, 4.0, 50.0, 1e4):
        assert curve.zcdp * order >= min(curve.rdp(a) for a in np.geomspace(order, 1e5, 200))


def test_the_pair_is_between_the_truth_and_the_curve():
    """The truth: the best of K Gaussian runs, K geometric, of outputs on a fine grid."""
    gamma, mu = 0.1, 0.5
    curve = t.selected(t.Gaussian(mu), 10.0, 1.0)
    (pair,) = curve.losses()
    y = np.linspace(-10.0, 10.0, 4001)
    laws = [
        best_of(np.diff(stats.norm.cdf(np.append(y, 11.0) - centre)), np.arange(y.size), gamma, 1.0)
        for centre in (0.0, mu)
    ]
    for epsilon in np.linspace(-2.0, 4.0, 37).tolist():
        shares = -np.expm1(np.minimum(epsilon - pair.values, 0.0))
        value = float(pair.masses @ shares) + pair.infinity
        for one, other in (laws, laws[::-1]):
            assert exact_delta(one, other, np.array([epsilon]))[0] <= value + 1e-12
        assert value <= curve.delta(epsilon) * (1.0 + 1e-3)


# `pabi.select`.


def stated(curve, adjacency="zero_out", **fields):
    return pabi.Guarantee(curve, adjacency, "test", "test", ("a",), **fields)


def test_one_run():
    guarantee = pabi.select(stated(Gaussian(0.5)), 10.0, 1.0)
    assert guarantee.curve == selected(Gaussian(0.5), 10.0, 1.0)
    assert guarantee.epsilon(1e-5) == pytest.approx(3.14625862972297, rel=1e-9)
    assert any("shape 1.0 and γ = 0.1" in a for a in guarantee.assumptions)
    assert str(guarantee).endswith(
        "(the best of 10 runs, in the mean; zero_out; private selection)"
    )


def test_settings_are_averaged():
    """δ of a run that draws one of them and shows which is the mean of their δ."""
    curves = [Gaussian(0.3), Mixture([Gaussian(0.2), Gaussian(0.8)], [0.5, 0.5]), Gaussian(0.3)]
    base = pabi.select([stated(curve) for curve in curves], 5.0).curve.base
    epsilon = np.linspace(-1.0, 3.0, 41)
    mean = np.mean([curve.delta(epsilon) for curve in curves], axis=0)
    assert base.delta(epsilon) == pytest.approx(mean, rel=1e-9)
    assert (base.delta(epsilon) >= mean * (1.0 - 1e-12)).all()


def test_many_settings_are_raised_onto_a_grid():
    rng = np.random.default_rng(1)
    curves = [
        Mixture([Gaussian(mu) for mu in rng.uniform(0.2, 0.3, 300)], np.full(300, 1 / 300).tolist())
        for _ in range(8)
    ]
    base = pabi.select([stated(curve) for curve in curves], 5.0).curve.base
    assert len(base.parts) <= 1024
    epsilon = np.linspace(0.0, 1.5, 31)
    mean = np.mean([curve.delta(epsilon) for curve in curves], axis=0)
    assert (base.delta(epsilon) >= mean * (1.0 - 1e-12)).all()
    assert base.delta(epsilon) == pytest.approx(mean, rel=0.02)


def test_a_private_score_counts_where_it_is_worse():
    runs = stated(Mixture([Gaussian(0.2), Gaussian(0.8)], [0.5, 0.5]))
    base = pabi.select(runs, 5.0, scoring=stated(Gaussian(0.4))).curve.base
    assert base == Mixture([Gaussian(0.4), Gaussian(0.8)], [0.5, 0.5])
    quiet = pabi.select(runs, 5.0, scoring=stated(Gaussian(0.1))).curve
    assert quiet == pabi.select(runs, 5.0).curve
    for epsilon in np.linspace(-1.0, 3.0, 21).tolist():
        assert base.delta(epsilon) >= max(runs.delta(epsilon), Gaussian(0.4).delta(epsilon))


def test_equal_functions_of_any_kind_are_one():
    curve = PoissonSubsampled(1.0, 0.1)
    assert isinstance(pabi.select([stated(curve), stated(curve)], 3.0).curve, Selected)
    with pytest.raises(InvalidInput, match="guarantee: expected Gaussians or mixtures"):
        pabi.select([stated(curve), stated(Gaussian(1.0))], 3.0)
    with pytest.raises(InvalidInput, match="scoring: expected a Gaussian guarantee"):
        pabi.select(stated(Gaussian(1.0)), 3.0, scoring=stated(curve))


def test_bad_input():
    one = stated(Gaussian(1.0))
    for field, *arguments in (
        ("mean_trials", one, 1.0),
        ("shape", one, 10.0, -1.0),
        ("adjacency", [one, stated(Gaussian(1.0), "replace_one")], 9.0),
        ("unit", [one, stated(Gaussian(1.0), unit="user")], 9.0),
        ("base", stated(PoissonSubsampled(1.0, 0.1, "add")), 9.0),
    ):
        refused(field, pabi.select, *arguments)
    with pytest.raises((InvalidInput, TypeError)):
        pabi.select(0.5, 10.0)

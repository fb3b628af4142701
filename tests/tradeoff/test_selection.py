"""`pabi.select`: what one run may be, averages over settings, and private scores."""

import numpy as np
import pytest

import pabi
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian, Mixture, PoissonSubsampled, Selected, selected
from support.every_case import refused


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

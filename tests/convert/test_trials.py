"""The law of the number of trials: its mean and its γ, against sums and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pabi.convert import balls
from pabi.convert.trials import gamma_of, mean_of
from pabi.numbers.errors import InvalidInput


@pytest.mark.parametrize("gamma", [0.5, 0.1, 0.02])
def test_means_of_the_laws_that_scipy_has(gamma: float):
    assert balls.upper(mean_of(gamma, 1.0)) == pytest.approx(stats.geom(gamma).mean(), rel=1e-14)
    assert balls.upper(mean_of(gamma, 0.0)) == pytest.approx(
        stats.logser(1 - gamma).mean(), rel=1e-14
    )
    law = stats.nbinom(2.5, gamma)
    truncated = law.mean() / (1.0 - law.pmf(0))
    assert balls.upper(mean_of(gamma, 2.5)) == pytest.approx(truncated, rel=1e-12)


@pytest.mark.parametrize("shape", [-0.9, -0.5, 0.0, 1e-6, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("mean", [1.01, 2.0, 10.0, 1000.0])
def test_gamma_is_the_least_double_whose_mean_is_small_enough(shape: float, mean: float):
    gamma = gamma_of(mean, shape)
    assert 0.0 < gamma < 1.0
    assert balls.upper(mean_of(gamma, shape)) <= mean
    assert balls.upper(mean_of(np.nextafter(gamma, 0.0), shape)) > mean


@pytest.mark.parametrize(
    ("mean", "shape", "field"),
    [
        (1.0, 0.0, "mean_trials"),
        (2e6, 0.0, "mean_trials"),
        (5.0, -1.0, "shape"),
        (5.0, 1e-9, "shape"),
    ],
)
def test_bad_input(mean: float, shape: float, field: str):
    with pytest.raises(InvalidInput) as refusal:
        gamma_of(mean, shape)
    assert refusal.value.field == field


def test_a_shape_that_needs_too_small_a_gamma_is_refused():
    with pytest.raises(InvalidInput, match="shape: expected one that 1000000 trials allow"):
        gamma_of(1e6, -0.99999)

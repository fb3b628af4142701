"""Budgets that steps share: together they cost what was to be shared."""

from __future__ import annotations

import math

import pabi
from pabi.learn import PrivateCategories, PrivateScaler, split_epsilon
from support.every_case import every, refuses


@every("shares", [(1.0,), (0.15, 0.85), (0.05, 0.05, 0.9), (0.2, 0.3)])
@every(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-8), (20.0, 0.01)])
def test_gaussian_steps_cost_the_whole_together(epsilon, delta, shares):
    each = split_epsilon(epsilon, delta, shares)
    plans = [
        PrivateScaler(one, delta, feature_ranges=(0, 1)).plan(10**6, 3).guarantee for one in each
    ]
    whole = pabi.compose(*plans)
    assert whole.epsilon(delta) <= epsilon
    if math.fsum(shares) == 1.0:
        assert whole.epsilon(delta) >= epsilon * (1.0 - 1e-6)


def test_levels_that_may_fail_are_within_the_budget_and_wrong_arguments_are_named():
    first, second = split_epsilon(1.0, 1e-5, failure=2e-6)
    levels = PrivateCategories(first, 1e-5).plan(10**5, 4).guarantee
    rest = PrivateScaler(second, 1e-5, feature_ranges=(0, 1)).plan(10**5, 3).guarantee
    assert 0.99 <= pabi.compose(levels, rest).epsilon(1e-5) <= 1.0
    table = {"epsilon": [0.0], "delta": [1.0], "failure": [1e-5]}
    table["shares"] = [(), (0.6, 0.6), (0.0, 1.0), 0.5]
    refuses(lambda **changes: split_epsilon(**{"epsilon": 1.0, "delta": 1e-5} | changes), table)

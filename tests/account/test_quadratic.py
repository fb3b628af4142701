"""The closed form for moduli √(κδ² + h), against Theorem 3.4 for every start and every end, and by search.

Bravo, Flores-Mella, Guzmán, Thm 3.4, prints the cost of paying off a distance by the last of given steps; the
runs may as well meet before the end, and payments may begin at any step from the diameter.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from pabi.account.shifts.nonlinear import closed_form
from support.every_case import every

from .closed_forms import least, theorem_3_4


def replayed(kappa, h, sigma, found):
    """The cost of having the distances that are wanted, or less where there is less: ω(0) = 0."""
    first, z, wanted = found
    assert len(wanted) == len(kappa) - first
    assert wanted[-1] == 0.0
    cost = 0.0
    for k, aim in enumerate(wanted.tolist(), first):
        owed = math.sqrt(kappa[k] * z * z + h[k]) if z > 0.0 else 0.0
        assert aim >= 0.0
        z = min(aim, owed)
        if owed - z > 1e-14 * owed:
            cost += ((owed - z) / sigma[k]) ** 2
    return cost


step = st.tuples(
    st.one_of(st.just(0.0), st.floats(0.3, 2.0)),
    st.one_of(st.just(0.0), st.floats(0.01, 2.0)),
    st.floats(0.2, 2.0),
)


@settings(deadline=None)
@given(
    st.lists(step, min_size=1, max_size=9),
    st.one_of(st.just(math.inf), st.floats(0.1, 5.0)),
    st.floats(0.05, 5.0),
)
def test_no_start_and_no_end_is_better(steps, diameter, start):
    kappa, h, sigma = (np.array(x) for x in zip(*steps, strict=True))
    found = closed_form(kappa, h, sigma, diameter, start)
    truth = least(kappa, h, sigma, diameter, start)
    assert found[1] == (diameter if found[0] else start)
    assert replayed(kappa, h, sigma, found) == pytest.approx(truth, rel=1e-9, abs=1e-300)


@every("seed", range(8))
def test_no_other_payments_of_a_window_are_better(seed):
    """By a search over the distances after each of four steps, when the runs meet in the last one."""
    rng = np.random.default_rng(seed)
    kappa, h, sigma = rng.uniform(0.5, 1.4, 4), rng.uniform(0.0, 0.3, 4), rng.uniform(0.5, 1.5, 4)

    def cost(parts):
        z, total = 1.5, 0.0
        for k, part in enumerate([*parts, 0.0]):
            owed = math.sqrt(kappa[k] * z * z + h[k])
            total += ((1.0 - part) * owed / sigma[k]) ** 2
            z = part * owed
        return total

    searched = min(
        minimize(cost, begin, bounds=[(0.0, 1.0)] * 3, tol=1e-14).fun
        for begin in ([0.5] * 3, [0.9, 0.6, 0.3])
    )
    assert theorem_3_4(kappa, h, sigma, 1.5) == pytest.approx(searched, rel=1e-6)
    found = closed_form(kappa, h, sigma, math.inf, 1.5)
    assert replayed(kappa, h, sigma, found) <= searched * (1.0 + 1e-9)


@every("h", [1e-4, 0.01, 0.25])
def test_a_long_run_looks_at_a_window_of_it(h):
    """Lines that hardly matter are dropped, and yet nothing is worse than paying until the end."""
    t, diameter = 400, 10.0
    kappa, jumps, sigma = np.ones(t), np.full(t, h), np.ones(t)
    found = closed_form(kappa, jumps, sigma, diameter, diameter)
    published = min(theorem_3_4(kappa[k:], jumps[k:], sigma[k:], diameter) for k in range(0, t - 1))
    # All steps are alike, so that only the length of a window matters: D²/m + h·(1 + 1/2 + … + 1/m).
    truth = min(
        diameter**2 / m + h * sum(1.0 / j for j in range(1, m + 1)) for m in range(1, t + 1)
    )
    assert published == pytest.approx(truth, rel=1e-9)
    cost = replayed(kappa, jumps, sigma, found)
    assert truth * (1.0 - 1e-9) <= cost <= published * (1.0 + 1e-9)

"""The iterated exponential mechanism: its sets hold the minimiser, and its risk is as bounded."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pabi
from pabi.erm import plan
from pabi.sampling.erm_problem import Plan
from support.every_case import every

M = 0.5
Array = np.ndarray


def pure(objective: str = "erm", **changes: object) -> Plan:
    given: dict[str, object] = {
        "n": 3000,
        "dimension": 1,
        "lipschitz": 1.5,
        "diameter": 2.0,
        "strong_convexity": M,
        "epsilon": 1.0,
        "algorithm": "iterated_exponential_mechanism",
        **changes,
    }
    return plan(objective, "strongly_convex", **given)  # type: ignore[arg-type]


# m-strongly convex on [−1, 1], 1.5-Lipschitz, with the place of the minimiser.
LOSSES = {
    "inside": (lambda x: 0.5 * M * (x - 0.3) ** 2, 0.3),
    "corner": (lambda x: 0.5 * M * x**2 + 0.7 * np.abs(x + 0.2), -0.2),
    "boundary": (lambda x: 0.5 * M * x**2 + x, -1.0),
}


def nodes(low: Array, high: Array, kink: float) -> tuple[Array, Array]:
    """Gauss–Legendre points and weights on [low, high], arrays, in geometric pieces towards `kink`."""
    unit, weight = np.polynomial.legendre.leggauss(12)
    reach = (
        np.concatenate([-np.geomspace(2.0, 1e-4, 26), [0.0], np.geomspace(1e-4, 2.0, 26)]) + kink
    )
    ends = np.clip(reach, low[..., None], high[..., None])
    half = 0.5 * np.diff(ends, axis=-1)[..., None]
    middle = 0.5 * (ends[..., 1:] + ends[..., :-1])[..., None]
    shape = (*ends.shape[:-1], -1)
    return (middle + half * unit).reshape(shape), (half * weight).reshape(shape)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_first_set_holds_the_minimiser_and_two_rounds_have_the_risk(
    name: str, epsilon: float
) -> None:
    loss, at = LOSSES[name]
    found = pure(epsilon=epsilon)
    mechanism = pabi.IteratedExponentialMechanism(
        found.run.loss, 3000, 1, 2.0, (epsilon / 3.0, 2.0 * epsilon / 3.0), 0.05
    )
    first, second = mechanism.rounds
    x, w = nodes(np.array(-1.0), np.array(1.0), at)
    mass = w * np.exp(-first.inverse_temperature * (loss(x) - loss(at)))
    mass /= mass.sum()
    held = mass[np.abs(x - at) <= first.radius].sum()
    assert held >= 1.0 - mechanism.failure
    # The second draw's excess, for every first draw by quadrature on its set.
    low, high = np.maximum(-1.0, x - first.radius), np.minimum(1.0, x + first.radius)
    y, v = nodes(low, high, at)
    f = loss(y) - loss(at)
    weight = v * np.exp(-second.inverse_temperature * (f - f.min(axis=1, keepdims=True)))
    excess = (weight * f).sum(axis=1) / weight.sum(axis=1)
    truth = float(mass @ excess)
    bound = 1.0 / second.inverse_temperature + mechanism.failure * 1.5 * 2.0
    assert truth <= bound
    if name == "boundary":
        assert truth >= 0.1 / second.inverse_temperature


def test_a_quadratic_nearly_attains_the_chance_of_failure() -> None:
    # Far from the boundary θ_1 is N(θ*, 1/(mκ)), so that the radius is exactly the quantile.
    mechanism = pabi.IteratedExponentialMechanism(
        pabi.Loss.strongly_convex(M, 2.0, gradient_bound=1.5), 10**6, 1, 2.0, (1.0, 2.0), 0.05
    )
    first = mechanism.rounds[0]
    tail = math.erfc(first.radius * math.sqrt(M * first.inverse_temperature / 2.0))
    assert tail == pytest.approx(0.05, rel=1e-9)


@every("objective", ["erm", "sco"])
@every("dimension", [1, 10])
def test_planned_rounds_are_those_of_the_bound(objective: str, dimension: int) -> None:
    found = pure(objective, dimension=dimension, n=10**6)
    run = found.run
    assert isinstance(run, pabi.IteratedExponentialMechanism)
    last = run.rounds[-1]
    n = run.n if run.split is None else run.n - run.split
    plain = 2.0 * dimension * 1.5 * last.diameter / (last.epsilon * n) + run.failure * 1.5 * 2.0
    if objective == "sco":
        plain += 2.0 * 1.5**2 / (M * n)
        assert run.split is not None
        with pytest.raises(pabi.NotApplicable):
            found.excess_quantile(0.5)
    else:
        assert sum(run.epsilons) == pytest.approx(1.0, rel=1e-9)
        assert found.excess_quantile(0.5) < found.excess_quantile(0.99) < 3.0
        assert found.excess_quantile(1.0 - 0.5 * run.failure) == found.trivial_bound
    assert found.risk_bound == pytest.approx(plain, rel=1e-6)
    once = pure(objective, dimension=dimension, n=10**6, algorithm="exponential_mechanism")
    assert found.risk_bound < once.risk_bound
    assert pure(objective, dimension=dimension, n=10**6, algorithm="auto").risk_bound == (
        pytest.approx(found.risk_bound)
    )


def test_split_of_the_budget_is_the_best_one() -> None:
    found = pure(n=10**7, dimension=4)
    run = found.run
    assert isinstance(run, pabi.IteratedExponentialMechanism)
    rng = np.random.default_rng(0)

    def risk(epsilons: np.ndarray) -> float:
        other = pabi.IteratedExponentialMechanism(
            run.loss, run.n, 4, 2.0, tuple(epsilons), run.failure
        )
        return 4.0 / other.rounds[-1].inverse_temperature + run.failure * 1.5 * 2.0

    planned = np.array(run.epsilons)
    assert risk(planned) == pytest.approx(found.risk_bound, rel=1e-6)
    for _ in range(40):
        other = planned * np.exp(rng.normal(0.0, 0.4, planned.size))
        assert risk(other * planned.sum() / other.sum()) >= found.risk_bound * (1.0 - 1e-6)


def test_sets_hold_the_population_minimiser_of_split_records() -> None:
    # ℓ(θ; z) = (m/2)(θ − z)², z = ±1 with equal chances: the population's minimiser is 0.
    rng = np.random.default_rng(3)
    mechanism = pabi.IteratedExponentialMechanism(
        pabi.Loss.strongly_convex(M, 1.0, gradient_bound=1.0),
        4000,
        1,
        2.0,
        (2.0, 2.0),
        0.1,
        split=2000,
    )
    first = mechanism.rounds[0]
    draws = 20_000
    means = 2.0 * rng.binomial(2000, 0.5, draws) / 2000 - 1.0
    # The first draw is Gaussian about the records' mean, cut at ±1, which is far away.
    spread = 1.0 / math.sqrt(M * first.inverse_temperature)
    assert spread < 0.2
    theta = means + spread * rng.standard_normal(draws)
    missed = np.mean(np.abs(theta) > first.radius)
    assert missed <= 0.1

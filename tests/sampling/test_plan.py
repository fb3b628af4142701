"""Plans: private for every input, with the bounds that are claimed, and improving as they should."""

import math
import random
import re
from decimal import Decimal
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import chi, gamma

import pabi
from pabi import NotApplicable
from pabi.convert import gdp_to_epsilon
from pabi.erm import plan
from pabi.literature import langevin_universality
from pabi.sampling.erm_bounds import largest_mu, largest_range
from pabi.showing import shown
from pabi.tradeoff import BoundedRange
from support.every_case import every, refused, refuses

CLASSES = ("convex", "strongly_convex", "nonconvex")
CELLS = list(product(("erm", "sco"), CLASSES, (0.0, 1e-6)))


def made(objective, losses, **changes):
    given = {"n": 10_000, "dimension": 5, "lipschitz": 1.0, "diameter": 2.0}
    given |= {"epsilon": 1.0, "strong_convexity": 0.3 if losses == "strongly_convex" else None}
    return plan(objective, losses, **{**given, **changes})


@every(("objective", "losses", "delta"), CELLS)
def test_every_cell_has_an_explicit_bound_below_the_trivial_one(objective, losses, delta):
    found = made(objective, losses, delta=delta)
    assert found.kind == "explicit"
    assert 0.0 < found.risk_bound < 0.2 * 2.0
    assert sum(v for _, v in found.terms) == pytest.approx(found.risk_bound, rel=1e-8)
    assert not found.trivial
    spent = found.guarantee.epsilon(delta)
    assert spent <= 1.0
    if objective == "erm":  # elsewhere records are split, and colder is less stable
        assert spent == pytest.approx(1.0, rel=1e-9)
    assert found.source
    text = str(found)
    said = Decimal(re.search(r"risk bound +(\S+) \(explicit\)", text)[1])
    assert 0 <= said - Decimal(found.risk_bound) <= said / 1000  # four digits, rounded up
    assert max(map(len, text.splitlines())) < 150
    algorithm, risk = found.considered[0]
    assert (algorithm, risk) == (found.algorithm, pytest.approx(found.risk_bound, rel=1e-8))


def test_of_equal_bounds_the_one_of_what_is_run_is_chosen():
    """A diffusion near its stationary law has the bound of a draw from it, and a chain that follows it."""
    given = {"n": 800, "strong_convexity": 0.2, "smoothness": 0.25, "delta": 1e-6}
    found = made("erm", "strongly_convex", **given)
    chosen, other = found.considered[:2]
    assert (chosen[0], other[0]) == ("exponential_mechanism", "last_point")
    assert chosen[1] == pytest.approx(other[1], rel=1e-9)
    assert f"last point {shown(other[1], 4)}" in str(found)
    assert found.excess_quantile(0.5) < found.excess_quantile(0.9)
    # Where nothing can be drawn, the diffusion is followed, if steps can follow it.
    for n in (10**4, 10**6):
        many = {**given, "n": n, "dimension": 40}
        assert made("erm", "strongly_convex", **many).algorithm == "last_point"


def grid(count, seed):
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        lipschitz, diameter = rng.choice([(1.0, 2.0), (1e-6, 1e5), (1e4, 1e-3)])
        losses = rng.choice(CLASSES)
        changes = {
            "n": rng.choice([1, 2, 5, 1000, 10**6, 10**12]),
            "dimension": rng.choice([1, 2, 7, 1000, 10**6]),
            "epsilon": rng.choice([1e-6, 0.01, 0.5, 1.0, 8.0, 100.0]),
            "delta": rng.choice([0.0, 0.0, 1e-300, 1e-10, 1e-5, 0.3]),
            "lipschitz": lipschitz,
            "diameter": diameter,
            "adjacency": rng.choice(["replace_one", "zero_out"]),
        }
        if losses == "strongly_convex":
            changes["strong_convexity"] = (
                rng.choice([1e-9, 1e-3, 0.9, 100.0]) * lipschitz / diameter
            )
        elif rng.random() < 0.3:
            changes["smoothness"] = rng.choice([1e-3, 1.0, 1e3])
        if rng.random() < 0.3:
            changes["radius"] = 0.5 * diameter
        found.append((rng.choice(["erm", "sco"]), losses, changes))
    return found


def check_private(objective, losses, changes):
    found, case = made(objective, losses, **changes), (objective, losses, changes)
    earned = found.run.guarantee(changes["delta"]).epsilon(changes["delta"])
    assert earned <= changes["epsilon"], case
    trivial = changes["lipschitz"] * changes["diameter"]
    assert 0.0 < found.risk_bound <= trivial * (1.0 + 1e-14), case


@pytest.mark.parametrize(
    ("count", "seed"),
    [(60, 1), *(pytest.param(100, 100 + k, marks=pytest.mark.nightly) for k in range(20))],
)
def test_every_plan_is_private(count, seed):
    for objective, losses, changes in grid(count, seed):
        check_private(objective, losses, changes)


@pytest.mark.parametrize(("objective", "losses", "delta"), CELLS)
@pytest.mark.one_in(2)
def test_risk_falls_with_records_and_budget(objective, losses, delta):
    by_n = [
        made(objective, losses, delta=delta, n=n).risk_bound for n in (20, 300, 5000, 10**5, 10**7)
    ]
    assert all(a >= b * (1.0 - 1e-6) for a, b in pairwise(by_n))
    assert by_n[-1] < 0.02 * by_n[0]
    by_epsilon = [
        made(objective, losses, delta=delta, epsilon=e).risk_bound
        for e in (1e-4, 0.01, 0.3, 1.0, 5.0)
    ]
    # Where stability limits the temperature searches meet their best to a few digits.
    assert all(a >= b * (1.0 - 1e-3) for a, b in pairwise(by_epsilon))
    assert made(objective, losses, delta=0.0).risk_bound >= (
        made(objective, losses, delta=1e-6).risk_bound * (1.0 - 1e-3)
    )


def test_convex_pure_empirical_risk_is_dimension_over_temperature():
    found = made("erm", "convex", dimension=7, lipschitz=3.0, diameter=0.5, epsilon=0.2)
    assert isinstance(found.run, pabi.ExponentialMechanism)
    assert found.inverse_temperature == pytest.approx(0.2 * 10_000 / (2.0 * 3.0 * 0.5), rel=1e-12)
    assert found.risk_bound == pytest.approx(7.0 / found.inverse_temperature, rel=1e-8)
    for level in (0.1, 0.5, 0.999):
        expected = gamma.ppf(level, 7) / found.inverse_temperature
        assert found.excess_quantile(level) == pytest.approx(expected, rel=1e-8)
    zero_out = made("erm", "convex", dimension=7, adjacency="zero_out")
    assert zero_out.risk_bound == pytest.approx(made("erm", "convex", dimension=7).risk_bound / 2.0)


def test_last_point_has_the_constant_of_the_best_time():
    # With the start anywhere in the set, r = D: 1.108·√p·ΔD/μ at T = 0.199·D²/p.
    p, d, n, epsilon, delta = 400, 2.0, 10_000, 0.5, 1e-6
    same = {"dimension": p, "radius": d, "epsilon": epsilon, "delta": delta}
    found = made("erm", "convex", **same, algorithm="last_point")
    scale = math.sqrt(p) * (2.0 / n) * d / largest_mu(epsilon, delta)
    assert found.risk_bound == pytest.approx(1.108 * scale, rel=1e-3)
    assert found.time == pytest.approx(0.199 * d * d / p, rel=2e-3)
    assert found.run.release == "last"
    theorem = langevin_universality.theorem_f_1
    said = theorem(L=1.0, n=n, dimension=p, diameter=d, epsilon=epsilon, delta=delta)
    assert found.risk_bound < 0.5 * said.value
    average = made("erm", "convex", **same, algorithm="path_average")
    assert average.risk_bound == pytest.approx(scale, rel=1e-5)
    assert average.run.release == "path"
    with pytest.raises(NotApplicable):
        average.excess_quantile(0.5)


def test_strongly_convex_empirical_risk_is_that_of_the_gibbs_density():
    found = made("erm", "strongly_convex", delta=1e-6, n=10**6)
    mu, gap, m = largest_mu(1.0, 1e-6), 2.0 / 10**6, 0.3
    assert found.algorithm == "exponential_mechanism"
    assert found.inverse_temperature == pytest.approx(m * mu**2 / gap**2, rel=1e-10)
    assert found.risk_bound == pytest.approx(5.0 * gap**2 / (m * mu**2), rel=1e-8)
    expected = chi.ppf(0.9, 5) / math.sqrt(found.inverse_temperature * m)
    assert found.distance_quantile(0.9) == pytest.approx(expected, rel=1e-7)
    with pytest.raises(NotApplicable):
        made("erm", "convex").distance_quantile(0.9)


def test_population_risk_of_convex_losses_is_that_of_the_regularised_mechanism():
    n, r = 10**6, 1.0
    found = made("sco", "convex", n=n, radius=r)
    assert found.regulariser == pytest.approx(2.0 / (r * math.sqrt(n)), rel=1e-4)
    expected = 2.0 * 5 * 2.0 / n + 2.0 * r / math.sqrt(n)
    assert found.risk_bound == pytest.approx(expected, rel=1e-6)
    assert found.run.loss.l2 == found.regulariser
    # The regulariser costs no privacy: as cold as without it.
    assert found.inverse_temperature == pytest.approx(
        made("erm", "convex", n=n).inverse_temperature
    )


def test_population_risk_without_convexity_is_at_most_that_of_the_coldest_draw():
    found = made("sco", "nonconvex", epsilon=0.05)
    plain = made("erm", "nonconvex", epsilon=0.05).risk_bound + 2.0 * math.tanh(0.05 / 4.0)
    assert found.risk_bound <= plain * (1.0 + 1e-6)
    assert found.excess_quantile(0.9) <= 2.0
    # A large budget is not spent where it would harm.
    rich = made("sco", "nonconvex", epsilon=100.0)
    assert rich.guarantee.epsilon(0.0) < 5.0
    assert rich.risk_bound < 0.5


def test_smaller_radius_and_known_smoothness_are_used():
    wide = made("erm", "convex", delta=1e-6, dimension=100)
    ball = made("erm", "convex", delta=1e-6, dimension=100, radius=1.0)
    assert wide.radius == pytest.approx(2.0 * math.sqrt(100 / 202))
    assert ball.risk_bound == pytest.approx(wide.risk_bound * ball.radius / wide.radius, rel=1e-5)
    assert (
        made("erm", "convex", radius=1.0, diameter=None).run
        == made("erm", "convex", radius=1.0).run
    )
    assert made("erm", "convex", smoothness=2.0).run.loss == pabi.Loss.convex(
        2.0, gradient_bound=1.0
    )
    # m-strongly convex and L-Lipschitz: the set is no wider than 2L/m, whatever the stated diameter.
    assert made("erm", "strongly_convex", diameter=1e6).run.diameter == pytest.approx(2.0 / 0.3)


@every("epsilon", [1e-6, 0.01, 1.0, 9.0, 400.0])
@every("delta", [1e-300, 1e-12, 1e-3, 0.4, 0.999])
def test_budgets_are_spent_to_the_last_digits(epsilon, delta):
    mu = largest_mu(epsilon, delta)
    assert gdp_to_epsilon(mu, delta) <= epsilon
    assert gdp_to_epsilon(mu * (1.0 + 1e-9), delta) > epsilon
    whole = largest_range(epsilon, delta)
    assert BoundedRange(whole * (1.0 - 1e-12)).epsilon(delta) <= epsilon
    assert BoundedRange(whole * (1.0 + 1e-9)).epsilon(delta) > epsilon
    assert largest_range(epsilon, 0.0) == epsilon


def test_largest_range_inverts_the_reference_values():
    # δ of an ε₀ = 6 bounded range at e: 1-D quadrature of the extreme pair, from the reference vectors.
    table = {0.0: 0.9051482536448665, 1.0: 0.8446616566713084, 3.0: 0.6050264587225035}
    table[5.5] = 0.049050678044794176
    for e, delta in table.items():
        assert largest_range(e, delta) == pytest.approx(6.0, rel=1e-12)


REFUSED = {
    "objective": ["risk"],
    "losses": ["concave"],
    "strong_convexity": [0.1],
    "delta": [1, 1.0, -1e-9, math.nan],
    "epsilon": [0.0, -1.0, math.inf],
    "diameter": [0.0, -2.0],
    "lipschitz": [0],
    "n": [0, 10.5],
    "dimension": [0],
    "radius": [0.5],
    "smoothness": [0.0],
    "adjacency": ["add_or_remove_one"],
    "algorithm": ["sgd"],
}


def test_bad_input_is_named_in_one_line():
    given = {"objective": "erm", "losses": "convex", "n": 100, "dimension": 3}
    given |= {"lipschitz": 1.0, "diameter": 2.0, "epsilon": 1.0}
    refuses(lambda **changes: plan(**{**given, **changes}), REFUSED)
    assert "strong_convexity=0.1" in refused("l2", plan, **given, l2=0.1)
    assert "lipschitz=2.0" in refused("feature_norm", plan, **given, feature_norm=2.0)
    given["losses"] = "strongly_convex"
    refused("strong_convexity", plan, **given)
    refused("strong_convexity", plan, **given, strong_convexity=0.0)


def test_algorithms_that_do_not_apply_say_why():
    for algorithm, losses, delta, reason in (
        ("last_point", "convex", 0.0, "δ > 0"),
        ("path_average", "nonconvex", 1e-6, "convex"),
        ("iterated_exponential_mechanism", "convex", 0.0, "strongly convex"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            made("erm", losses, delta=delta, algorithm=algorithm)


def test_large_delta_warns():
    given = {"dimension": 1, "lipschitz": 1.0, "diameter": 1.0, "epsilon": 1.0, "delta": 0.2}
    with pytest.warns(pabi.PrivacyWarning, match="exceeds 1/n"):
        plan("erm", "convex", n=10, **given)


# The iterated exponential mechanism: its sets hold the minimiser, and its risk is as bounded.


M = 0.5
Array = np.ndarray


def pure(objective="erm", **changes):
    given = {"n": 3000, "dimension": 1, "lipschitz": 1.5, "strong_convexity": M}
    given["algorithm"] = "iterated_exponential_mechanism"
    return made(objective, "strongly_convex", **given | changes)


def rounds(loss, n, epsilons, failure, p=1, **split):
    return pabi.IteratedExponentialMechanism(
        loss, n, p, 2.0, tuple(epsilons), failure, **split
    ).rounds


# m-strongly convex on [−1, 1], 1.5-Lipschitz, with the place of the minimiser.
LOSSES = {
    "inside": (lambda x: 0.5 * M * (x - 0.3) ** 2, 0.3),
    "corner": (lambda x: 0.5 * M * x**2 + 0.7 * np.abs(x + 0.2), -0.2),
    "boundary": (lambda x: 0.5 * M * x**2 + x, -1.0),
}


def nodes(low, high, kink):
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
def test_first_set_holds_the_minimiser_and_two_rounds_have_the_risk(name, epsilon):
    loss, at = LOSSES[name]
    found = pure(epsilon=epsilon)
    shares, failure = (epsilon / 3.0, 2.0 * epsilon / 3.0), 0.05
    first, second = rounds(found.run.loss, 3000, shares, failure)
    x, w = nodes(np.array(-1.0), np.array(1.0), at)
    mass = w * np.exp(-first.inverse_temperature * (loss(x) - loss(at)))
    mass /= mass.sum()
    assert mass[np.abs(x - at) <= first.radius].sum() >= 1.0 - failure
    # The second draw's excess, for every first draw by quadrature on its set.
    low, high = np.maximum(-1.0, x - first.radius), np.minimum(1.0, x + first.radius)
    y, v = nodes(low, high, at)
    f = loss(y) - loss(at)
    weight = v * np.exp(-second.inverse_temperature * (f - f.min(axis=1, keepdims=True)))
    excess = (weight * f).sum(axis=1) / weight.sum(axis=1)
    truth = float(mass @ excess)
    bound = 1.0 / second.inverse_temperature + failure * 1.5 * 2.0
    assert truth <= bound
    if name == "boundary":
        assert truth >= 0.1 / second.inverse_temperature


def test_a_quadratic_nearly_attains_the_chance_of_failure():
    # Far from the boundary θ_1 is N(θ*, 1/(mκ)), so that the radius is exactly the quantile.
    first, _ = rounds(
        pabi.Loss.strongly_convex(M, 2.0, gradient_bound=1.5), 10**6, (1.0, 2.0), 0.05
    )
    tail = math.erfc(first.radius * math.sqrt(M * first.inverse_temperature / 2.0))
    assert tail == pytest.approx(0.05, rel=1e-9)


@every("objective", ["erm", "sco"])
@every("dimension", [1, 10])
def test_planned_rounds_are_those_of_the_bound(objective, dimension):
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


def test_split_of_the_budget_is_the_best_one():
    found, rng = pure(n=10**7, dimension=4), np.random.default_rng(0)
    run, planned = found.run, np.array(found.run.epsilons)

    def risk(epsilons):
        last = rounds(run.loss, run.n, epsilons, run.failure, 4)[-1]
        return 4.0 / last.inverse_temperature + run.failure * 1.5 * 2.0

    assert risk(planned) == pytest.approx(found.risk_bound, rel=1e-6)
    for _ in range(40):
        other = planned * np.exp(rng.normal(0.0, 0.4, planned.size))
        assert risk(other * planned.sum() / other.sum()) >= found.risk_bound * (1.0 - 1e-6)


def test_sets_hold_the_population_minimiser_of_split_records():
    # ℓ(θ; z) = (m/2)(θ − z)², z = ±1 with equal chances: the population's minimiser is 0.
    rng, draws = np.random.default_rng(3), 20_000
    loss = pabi.Loss.strongly_convex(M, 1.0, gradient_bound=1.0)
    first, _ = rounds(loss, 4000, (2.0, 2.0), 0.1, split=2000)
    means = 2.0 * rng.binomial(2000, 0.5, draws) / 2000 - 1.0
    # The first draw is Gaussian about the records' mean, cut at ±1, which is far away.
    spread = 1.0 / math.sqrt(M * first.inverse_temperature)
    assert spread < 0.2
    theta = means + spread * rng.standard_normal(draws)
    assert np.mean(np.abs(theta) > first.radius) <= 0.1

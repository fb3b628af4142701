"""The rule that chooses settings: it cannot see data, does as it is told, and predicts noise rightly."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gamma, gammainc

import pabi
from pabi import learn
from pabi.account.shifts.isotonic import solve
from pabi.describe.batches import Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import plans
from support.every_case import every

PROBLEM = plans.Task(
    n=10_000,
    gradient=0.7,
    curvature=0.5,
    feature_norm=math.sqrt(2.0),
    drift=0.6,
    epsilon=1.0,
    delta=1e-5,
    adjacency="replace_one",
)


KINDS = [
    *(learn.PrivateLogisticRegression, learn.PrivateLinearSVC, learn.PrivateLinearRegression),
    *(learn.PrivateHuberRegressor, learn.PrivatePoissonRegressor),
    *(learn.PrivateGammaRegressor, learn.PrivateRidgeClassifier),
]


@pytest.mark.parametrize("count", [3, pytest.param(5, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_data_of_one_shape_get_one_run(kind, count):
    """Whatever the rows and targets, dense or sparse: everything that an estimator runs is the same."""
    rng = np.random.default_rng(0)
    n, d = 50, 4
    flip = np.arange(n) % 2
    sets = [
        (rng.normal(size=(n, d)), flip),
        (np.zeros((n, d)), np.r_[1, np.zeros(n - 1, dtype=int)]),
        (1e6 * rng.normal(size=(n, d)), rng.permutation(flip)),
        (sparse.random(n, d, 0.1, format="csr", random_state=0), flip),
        (np.tile(flip[:, None], d).astype(np.uint8), flip),
    ]
    runs = []
    for X, y in sets[-count:]:
        runs.append(kind(delta=1e-3).fit(X, y).run_)
    assert all(run == runs[0] for run in runs)


@every(
    ("fixed", "expected"),
    [
        (plans.Fixed(batches=FullBatch()), {"batches": FullBatch(), "cooldown_steps": 0}),
        (plans.Fixed(batches=Cyclic(128)), {"batches": Cyclic(128)}),
        (plans.Fixed(batches=Reshuffle(77)), {"batches": Reshuffle(77)}),
        (plans.Fixed(epochs=2.5), {"epochs": 2.5}),
        (plans.Fixed(epochs=500.0), {"epochs": 500.0}),
        (plans.Fixed(step_size=0.123), {"step_size": 0.123}),
        (plans.Fixed(step_size=1e6), {"step_size": 1e6}),
        (plans.Fixed(batches=Cyclic(1000), cooldown_epochs=0.0), {"cooldown_steps": 0}),
        (plans.Fixed(batches=Cyclic(1000), cooldown_epochs=0.25), {"cooldown_steps": 3}),
        (plans.Fixed(batches=FullBatch(), cooldown_epochs=2.0), {"cooldown_steps": 2}),
        (plans.Fixed(batches=Reshuffle(1000, 999), cooldown_epochs=2.0), {"cooldown_steps": 20}),
        (
            plans.Fixed(ShuffleOnce(500), 3.0, 0.5, 1.0),
            {"batches": ShuffleOnce(500), "epochs": 3.0, "step_size": 0.5, "cooldown_steps": 20},
        ),
    ],
)
def test_fixed_values_are_kept(fixed, expected):
    chosen = plans.settings(PROBLEM, fixed)
    assert {name: getattr(chosen, name) for name in expected} == expected


SIZES = [1, 2, 3, 17, 100, 10_000, 1_000_000, 100_000_000]
TARGETS = [(1e-3, 1e-12), (1e-3, 0.5), (1.0, 1e-6), (100.0, 1e-12), (100.0, 0.5)]


@every("n", SIZES)
@every(("epsilon", "delta"), TARGETS)
def test_settings_are_finite_and_possible_everywhere(n, epsilon, delta):
    """And no step expands, nor is there more work than twenty epochs and about 20 000 steps."""
    for curvature, gradient in itertools.product((1e-6, 0.5, 1e6), (1e-3, 1.0, 1e3)):
        task = replace(
            PROBLEM, n=n, epsilon=epsilon, delta=delta, curvature=curvature, gradient=gradient
        )
        chosen = plans.settings(task)
        assert isinstance(chosen, plans.Schedule)
        size = chosen.batches.batch_size(n)
        assert 1 <= size <= n
        assert chosen.epochs == plans.EPOCHS
        assert plans.EPOCHS * n / size <= plans.MOST_STEPS * (1.0 + 1e-9)
        assert 0.0 < chosen.step_size * curvature < 2.0
        assert 0 <= chosen.cooldown_steps <= -(-n // size)
        falling = plans.settings(replace(task, falling=True))
        size = falling.batches.batch_size(n)
        assert 0.0 < falling.step_size(0) * curvature < 2.0
        assert plans.EPOCHS * n / size <= plans.MOST_STEPS * (1.0 + 1e-9)
        steps = math.ceil(plans.EPOCHS * -(-n // size))
        assert falling.step_size.steps == steps + falling.cooldown_steps


@every("scale", [1e-6, 1.0, 1e6])
def test_units_of_features_do_not_matter(scale):
    """Features in other units: R, the gradient bound and 1/θ scale with them, M with their square."""
    there = replace(
        PROBLEM,
        curvature=PROBLEM.curvature * scale**2,
        gradient=PROBLEM.gradient * scale,
        feature_norm=PROBLEM.feature_norm * scale,
    )
    here, other = plans.settings(PROBLEM), plans.settings(there)
    assert other.batches == here.batches
    assert other.step_size * scale**2 == pytest.approx(here.step_size, rel=1e-9)


def path(task):
    chosen = plans.settings(task)
    steps = math.ceil(chosen.epochs * -(-task.n // chosen.batches.batch_size(task.n)))
    return steps * chosen.step_size


def test_larger_budgets_and_more_records_make_longer_paths():
    for name, values in (
        *(("epsilon", [0.1, 0.5, 1.0, 4.0]), ("delta", [1e-12, 1e-8, 1e-4])),
        *(("n", [300, 3_000, 30_000]), ("left", [0.5, 0.9, 1.0]), ("drift", [0.2, 0.6, 1.2])),
    ):
        lengths = [path(replace(PROBLEM, **{name: value})) for value in values]
        assert all(a < b for a, b in itertools.pairwise(lengths)), name
    other = path(replace(PROBLEM, adjacency="zero_out"))
    assert other == pytest.approx(2.0 * path(PROBLEM), rel=0.05)
    free = path(PROBLEM)
    assert path(replace(PROBLEM, longest=free / 10.0)) == pytest.approx(free / 10.0, rel=0.1)
    assert path(replace(PROBLEM, longest=10.0 * free)) == free


CLASSIFIERS = [
    learn.PrivateLogisticRegression,
    learn.PrivateLinearSVC,
    learn.PrivateRidgeClassifier,
]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_where_noise_is_no_limit_classifiers_do_as_regressors_do(kind):
    """The path that noise allows is so many times 1/M a column, by the definition of either."""
    for n, classes in ((300, 2), (40_000, 2), (40_000, 4)):
        plan = kind(1.0, 1e-5, adjacency="zero_out").plan(n, 9, classes)
        run, width = plan.run, plan.size.width
        steps = np.broadcast_to(run.step_size, run.steps)
        covered = float(np.sum(steps)) * run.loss.curvature[1] / width
        falls = steps[-1] < 0.1 * steps[0]
        assert plan.linear == (falls and classes == 2)
        assert falls == (n == 40_000)
        assert 45.0 < covered < 110.0 if falls else covered < 50.0
        stated = kind(1.0, 1e-5, adjacency="zero_out", linear_predictor=False).plan(n, 9, classes)
        assert not stated.linear


def test_more_budget_clips_less_until_nothing_is_clipped():
    clips = [
        learn.PrivateLogisticRegression(e, 1e-5).plan(5_000, 9, 2).run.clip_norm
        for e in (0.3, 3.0, 3.5, 100.0)
    ]
    usual = 1.0 / math.sqrt(2.0)  # half the norm of a row
    assert clips[0] == pytest.approx(usual)
    assert usual / math.sqrt(2.0) < clips[1] < clips[2] < math.sqrt(2.0)
    assert clips[3] is None
    plan = learn.PrivateLinearRegression(1e4, 1e-5, target_range=(-1, 1)).plan(100_000, 50)
    assert 10.0 < plan.guarantee.epsilon(1e-5) < 1e4


def test_more_budget_does_no_harm():
    """Log-losses on fresh records, those of the best model for a table of ten columns taken off."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (8_000, 10)) / math.sqrt(10.0)
    chance = 1.0 / (1.0 + np.exp(2.0 - 6.0 * X[:, 0] + 3.0 * X[:, 1]))
    y = (rng.uniform(size=8_000) < chance).astype(int)

    def excess(epsilon):
        model = learn.PrivateLogisticRegression(
            epsilon, 1e-5, adjacency="zero_out", classes=[0, 1], random_state=0
        ).fit(X[:4_000], y[:4_000])
        p = model.predict_proba(X[4_000:])[:, 1]
        q = chance[4_000:]
        return float(np.mean(q * np.log(q / p) + (1.0 - q) * np.log((1.0 - q) / (1.0 - p))))

    small, *large = (excess(e) for e in (0.5, 3.0, 30.0, 3_000.0))
    assert max(large) < small
    assert max(large) < 0.002


FALLING = replace(PROBLEM, falling=True)


@every("steps", [1, 7, 40, 41, 1000, 20_500])
def test_falling_step_sizes_end_near_zero_and_have_their_mean(steps):
    fall = plans.Falling(0.3, steps)
    sizes = np.array([fall(k) for k in range(steps)])
    assert np.all(np.diff(sizes) <= 0.0)
    assert np.all((sizes > 0.0) & (sizes < 0.6))
    line = 0.6 * (1.0 - (np.arange(steps) + 0.5) / steps)
    assert np.max(np.abs(sizes - line)) <= 0.6 * (0.5 / 40 + 0.5 / steps) * (1.0 + 1e-12)
    if steps % 40 == 0:
        assert sizes.mean() == pytest.approx(0.3, rel=1e-12)


def test_what_the_user_states_does_not_fall():
    assert plans.settings(FALLING, plans.Fixed(step_size=0.25)).step_size == 0.25
    assert isinstance(plans.settings(FALLING, plans.Fixed(epochs=3.0)).step_size, plans.Falling)
    fixed = plans.Fixed(batches=FullBatch(), epochs=2.0 * plans.LONGEST_FALL)
    assert isinstance(plans.settings(FALLING, fixed).step_size, float)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("n", [2_000, 60_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.one_in(2)
def test_noise_moves_predictors_by_about_what_was_aimed_at(n, epsilon, adjacency):
    """Where steps keep distances noise in a weight is η·ς·√steps; a row moves by its norm times that."""
    loss = Loss.logistic(math.sqrt(2.0))
    clip = 0.5 * math.sqrt(2.0)
    task = replace(
        PROBLEM,
        n=n,
        epsilon=epsilon,
        adjacency=adjacency,
        gradient=clip,
        curvature=loss.effective_curvature(clip, "residual")[1],
    )
    chosen = plans.settings(task)
    run = NoisySGD(
        loss,
        n=n,
        batches=chosen.batches,
        epochs=chosen.epochs,
        step_size=chosen.step_size,
        clip_norm=clip,
        clipping="residual",
        adjacency=adjacency,
        cooldown_steps=chosen.cooldown_steps,
    )
    run = pabi.calibrate(run, epsilon, task.delta)
    drift = run.step_size * run.gradient_noise_std * math.sqrt(run.steps) * task.feature_norm
    assert 0.6 <= drift / task.drift <= 1.15


# Falling step sizes: the formulas of the docs' theory, section 15, and that accounting agrees.


# In units in which S = 1 and C/n = 1; x stands for λS.
POWERS = (0.0, 1.0 / 3.0, 0.5, 2.0 / 3.0, 0.8)
CELLS = 4000


def constant(x):
    """μ² times the variance under constant noise."""
    return -math.expm1(-2.0 * x) / (2.0 * x)


def power(p, x):
    """μ² times the variance where v is what is left of the path to the power p."""
    return float(gamma(1.0 + p) * gammainc(1.0 + p, 2.0 * x) / ((1.0 - p) * (2.0 * x) ** (1.0 + p)))


def exponential(decades, x):
    """μ² times the variance, by quadrature, where v is what is left of the path and a constant."""
    log = decades * math.log(10.0)
    offset = 1.0 / math.expm1(log)
    return log * quad(lambda u: (u + offset) * math.exp(-2.0 * x * u), 0.0, 1.0)[0]


def price(v):
    """μ² by the solver, for noises of the cells of a path of length 1 that uses the record throughout."""
    cell = 1.0 / v.size
    return solve(np.ones(v.size), np.full(v.size, cell), v * cell).energy


@every("p", POWERS)
def test_a_falling_noise_costs_what_composition_does(p):
    """The solver finds nothing better than a = 1, and that is ∫ 1/v = 1/(1 − p), by cells of equal noise."""
    edges = np.linspace(1.0, 0.0, CELLS + 1)
    means = -np.diff(edges ** (1.0 - p)) / (1.0 - p) * CELLS  # of 1/v
    assert price(1.0 / means) == pytest.approx(1.0 / (1.0 - p), rel=1e-9)


@every("rise", [0.5, 1.0, 4.0])
def test_a_rising_noise_costs_what_its_mean_does(rise):
    v = np.linspace(1.0, 1.0 + rise, CELLS)
    assert price(v) == pytest.approx(1.0 / v.mean(), rel=1e-9)


@every(("p", "even"), [(1 / 3, 0.767), (0.5, 1.301), (2 / 3, 2.115)])
def test_where_a_power_breaks_even(p, even):
    """The figures of the page, to the digits that it has."""
    assert brentq(lambda x: power(p, x) - constant(x), 0.1, 10.0) == pytest.approx(even, abs=6e-4)


STEPS = 2000
T = (np.arange(STEPS) + 0.5) / STEPS


@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        (np.ones(STEPS), constant),
        (1.0 - T, lambda x: power(0.5, x)),
        (10.0**-T, lambda x: exponential(1.0, x)),
    ],
    ids=["constant", "linear", "exponential"],
)
def test_calibrated_runs_have_the_noise_of_the_limit(sizes, limit):
    """Full batches, 2000 steps: the exact recursion of the variance, within 3 % of the continuous path."""
    n, epsilon, delta = 10_000, 1.0, 1e-5
    loss = Loss.convex(smoothness=1.0, gradient_bound=1.0)
    run = NoisySGD(
        loss, n=n, batches=FullBatch(), epochs=STEPS, step_size=0.5 * sizes, adjacency="zero_out"
    )
    noise = pabi.calibrate(run, epsilon, delta).noise_std
    mu = plans.budget(epsilon, delta)
    path = run.step_size.sum()
    for x in (1e-3, 1.0, 10.0):
        factors = 1.0 - run.step_size * x / path
        after = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)  # of the steps after each
        measured = float(np.sum((run.step_size * noise * after) ** 2))
        assert measured == pytest.approx((path / (n * mu)) ** 2 * limit(x), rel=0.03)


@every("left", [1, 5, 40])
def test_the_last_use_costs_up_to_three_times_as_much_on_a_straight_line(left):
    """Used last r steps before the end: 6r/((r + 1)(2r + 1)), where constant steps have 1/r."""
    sizes = np.arange(left, 0, -1.0)
    used = np.zeros(left)
    used[0] = left
    cost = solve(np.ones(left), used, sizes**2).energy
    assert cost == pytest.approx(6.0 * left / ((left + 1.0) * (2.0 * left + 1.0)), rel=1e-9)
    constant_steps = solve(np.ones(left), np.eye(left)[0], np.ones(left)).energy
    assert constant_steps == pytest.approx(1.0 / left, rel=1e-9)

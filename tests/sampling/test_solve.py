"""Plans run on data: the law that is drawn, the guarantee that is earned, the risk that is met."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

import pabi
from pabi.erm import Solution, plan, solve
from pabi.sampling import erm_algorithms, mean_gradient, mean_loss
from support.every_case import every, refused

Array = np.ndarray
N = 400
DIFFUSION = {"delta": 1e-6, "algorithm": "last_point"}
AVERAGE = {"delta": 1e-6, "algorithm": "path_average"}


def planned(objective="erm", losses="convex", **changes):
    given = {"n": N, "dimension": 2, "lipschitz": 1.0, "diameter": 2.0}
    return plan(objective, losses, **{**given, "radius": 1.0, "epsilon": 1.0, **changes})


def data(p=2):
    z = np.random.default_rng(5).normal(0.3, 0.3, (N, p))
    return z / np.maximum(1.0, 2.0 * np.linalg.norm(z, axis=1))[:, None]


def value(points, rows=slice(None)):
    """Mean of ½‖θ − z_i‖², halved so that it is 1-Lipschitz on the unit ball: |z| ≤ ½."""
    z = data(points.shape[1])[rows]
    return np.asarray(0.25 * ((points[:, None, :] - z[None]) ** 2).sum(axis=-1).mean(axis=1))


def gradient(points):
    return np.asarray(0.5 * (points - data(points.shape[1]).mean(axis=0)))


def test_a_mechanism_is_drawn_from_exactly_and_earns_its_guarantee():
    for losses, m in (("convex", None), ("strongly_convex", 0.5)):
        found = planned(losses=losses, strong_convexity=m, smoothness=0.5)
        solution = solve(found, loss_value=value)
        assert isinstance(solution, Solution)
        assert solution.x.shape == (2,)
        assert np.linalg.norm(solution.x) <= 1.0
        assert solution.guarantee.epsilon(0.0) == pytest.approx(1.0, rel=1e-12)
        assert solution.guarantee.epsilon(0.0) <= 1.0
        assert solution.run is found.run
        assert solution.risk_bound == found.risk_bound
        with pytest.raises(ValueError, match="read-only"):
            solution.x[0] = 0.0


def test_our_own_mean_loss_is_of_as_many_records_as_planned():
    loss, labels = pabi.Loss.logistic(feature_norm=1.0), np.arange(N) % 2
    found = planned(smoothness=0.25)
    assert solve(found, loss_value=mean_loss(data(), labels, loss)).guarantee.epsilon(0.0) <= 1.0
    long = pabi.Loss.logistic(feature_norm=3.0)
    with pytest.warns(pabi.PrivacyWarning, match="may have norm 3.0, and at most 1.0"):
        solve(found, loss_value=mean_loss(data(), labels, long))
    follow = planned(smoothness=0.25, **AVERAGE)
    with pytest.warns(pabi.PrivacyWarning, match="may have norm 3.0, and at most 1.0"):
        solve(follow, gradient=mean_gradient(data(), labels, long), steps=5)
    fewer = mean_loss(data()[1:], labels[1:], loss)
    assert f"expected {N} as planned" in refused("n", solve, found, loss_value=fewer)
    strong = planned(losses="strongly_convex", strong_convexity=0.5, smoothness=0.75)
    assert "at least 0.5" in refused(
        "l2", solve, strong, loss_value=mean_loss(data(), labels, loss)
    )
    # A record as far away as it likes stops nothing.
    huber = pabi.Loss.huber(feature_norm=1.0, threshold=1.0)
    for far in (1.0, 1e300):
        y = np.append(np.zeros(N - 1), far)
        solve(planned(smoothness=1.0), loss_value=mean_loss(data(), y, huber))
    # The plan's lipschitz is of the whole loss.
    with pytest.warns(pabi.PrivacyWarning, match="may have norm 1.5, and at most 1.0"):
        solve(strong, loss_value=mean_loss(data(), labels, loss.with_l2(0.5)))


@every("given", [{"loss_value": value}, {"gradient": gradient, "steps": 20}])
def test_seeded_runs_are_for_testing_only(given):
    found = planned(smoothness=0.5, **(DIFFUSION if "steps" in given else {}))
    first, second = (solve(found, **given, random_state=3) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert first.guarantee.assumptions[0].startswith("noise reproducible")


def test_the_regulariser_is_part_of_what_is_drawn():
    # In one dimension with a linear loss the law is a Gaussian cut to [−1, 1]: κ(zθ + ρθ²/2).
    found = planned("sco", dimension=1, n=50, epsilon=4.0)
    assert found.regulariser > 0.0
    kappa, rho, slope = found.run.kappa, found.regulariser, 0.2
    draws = [
        solve(found, loss_value=lambda t: slope * t[:, 0], random_state=i).x[0] for i in range(200)
    ]
    grid = np.linspace(-1.0, 1.0, 200_001)
    density = np.exp(-kappa * (slope * grid + 0.5 * rho * grid**2))
    cdf = np.cumsum(density) / density.sum()
    assert kstest(draws, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-4
    without = np.cumsum(np.exp(-kappa * slope * grid))
    without /= without[-1]
    assert kstest(draws, lambda x: np.interp(x, grid, without)).pvalue < 1e-4


@pytest.mark.parametrize("known", [0.5, None])
@pytest.mark.parametrize("losses", ["convex", "strongly_convex"])
def test_a_path_average_earns_the_plan_s_target(losses, known):
    m = 0.5 if losses == "strongly_convex" else None
    found = planned(losses=losses, strong_convexity=m, smoothness=known, **AVERAGE)
    solution = solve(found, gradient=gradient, steps=2000)
    assert 1.0 - 1e-8 <= solution.guarantee.epsilon(1e-6) <= 1.0
    assert isinstance(solution.run, pabi.LangevinChain)
    assert solution.run.release == "path"
    assert solution.risk_bound >= found.risk_bound * (1.0 - 1e-6)
    assert np.linalg.norm(solution.x) <= 1.0


def test_the_last_point_claims_no_risk_of_the_chain():
    found = planned(delta=1e-6, smoothness=0.5, algorithm="last_point")
    solution = solve(found, gradient=gradient, steps=500)
    assert solution.risk_bound is None
    assert solution.guarantee.epsilon(1e-6) <= 1.0
    assert solution.run.release == "last"


def averaged(found, steps):
    """A chain of the plan, and how its average depends on a path: linearly, found by giving it unit paths."""
    run = found.run
    chain = pabi.LangevinChain(
        *(run.loss, N),
        inverse_temperature=run.inverse_temperature,
        step_size=run.time / steps,
        steps=steps,
        release="path",
    )
    paths = np.eye(steps)
    ends = [erm_algorithms.of_path(found, chain, paths[:, [k]])[0][0] for k in range(steps)]
    return chain, np.array(ends)


@pytest.mark.parametrize(("known", "m"), [(0.5, 0.0), (None, 0.0), (0.5, 0.5), (None, 0.5)])
def test_the_average_s_bound_holds_along_exact_chains(known, m):
    # The chain x ← (1 − h/2)x + (h/2)z̄ + √(2η)Z, exactly: means and covariances of its average.
    losses = {"losses": "strongly_convex", "strong_convexity": m} if m else {}
    found = planned(**losses, smoothness=known, **AVERAGE)
    steps = 400
    chain, weights = averaged(found, steps)
    h = chain.gradient_step
    assert 0.0 < weights.sum() <= 1.0 + 1e-12
    kept = weights[weights > 0.0]  # without the first point, or with all of them
    assert steps - 1 <= kept.size <= steps
    assert kept[:-1] / kept[1:] == pytest.approx(1.0 - m * h, rel=1e-9)
    start = 0.5 * found.radius**2 / (h * sum((1.0 - m * h) ** -k for k in range(1, steps + 1)))
    noise_term = 2.0 / chain.inverse_temperature
    smooth, rough = noise_term / (1.0 - 0.5 * h) if known else math.inf, noise_term + 0.5 * h
    _, bound = erm_algorithms.of_path(found, chain, np.zeros((steps, 2)))
    expected = min(start + min(smooth, rough), found.trivial_bound)
    assert bound == pytest.approx(expected, rel=1e-5)  # grid of release
    a, target = 1.0 - 0.5 * h, data().mean(axis=0)
    mean = target[None] * (weights @ (1.0 - a ** np.arange(1, steps + 1)))
    response = np.array([weights[k:] @ a ** np.arange(steps - k) for k in range(steps)])
    variance = 2.0 * chain.step_size * float(response @ response)
    truth = 0.25 * (float(((mean - target) ** 2).sum()) + 2.0 * variance)
    assert 0.005 * bound <= truth <= bound


@pytest.mark.parametrize("m", [0.0, 0.5])
def test_stability_of_a_chain_s_average_is_that_of_its_points(m):
    # Two chains with the same noise on ℓ(θ; z) = zθ + (m/2)θ², one record replaced: exact.
    losses = {"losses": "strongly_convex", "strong_convexity": m} if m else {}
    same = {**losses, "delta": 1e-6, "smoothness": 0.5, "epsilon": 20.0, "lipschitz": 3.0}
    plans = [planned(risk, **same, algorithm="path_average") for risk in ("sco", "erm")]
    steps = 300
    chain, weights = averaged(plans[0], steps)
    path = np.zeros((steps, 2))
    population, empirical = (erm_algorithms.of_path(one, chain, path)[1] for one in plans)
    apart, points = 0.0, []
    for _ in range(steps):
        apart = (1.0 - chain.gradient_step * m) * apart + chain.gradient_step * 6.0 / N
        points.append(apart)
    truth, added = 3.0 * float(weights @ points), population - empirical
    assert truth <= added * (1.0 + 1e-9)
    assert added == pytest.approx(truth, rel=3.0 / steps)  # of a step more or less


def test_population_bound_of_a_chain_needs_steps_that_do_not_expand():
    known = planned("sco", delta=1e-6, smoothness=0.5, algorithm="path_average")
    solution = solve(known, gradient=gradient)
    assert solution.risk_bound is not None
    assert solution.risk_bound <= known.risk_bound * 1.1
    unknown = planned("sco", delta=1e-6, algorithm="path_average")
    assert solve(unknown, gradient=gradient, steps=500).risk_bound is None


def test_a_smaller_domain_is_kept_to():
    found = planned(delta=1e-6, smoothness=0.5, algorithm="path_average")
    box = pabi.prox.box(np.array([-0.5, -0.5]), np.array([0.5, 0.0]))
    solution = solve(found, gradient=gradient, domain=box, steps=300)
    assert (np.abs(solution.x) <= 0.5).all()
    assert solution.x[1] <= 0.0
    assert solution.run.prox == box


ROUGH = {**DIFFUSION, "losses": "strongly_convex", "strong_convexity": 0.5}
BALL, BOX = pabi.prox.ball, pabi.prox.box
REFUSED = [
    ("loss_value", {}, {}),
    ("loss_value", {}, {"gradient": gradient}),
    ("steps", {}, {"loss_value": value, "steps": 10}),
    ("gradient", DIFFUSION, {"loss_value": value}),
    ("steps", DIFFUSION, {"gradient": gradient, "steps": 0}),
    ("steps", {**AVERAGE, "n": 10**9}, {"gradient": gradient}),
    *(
        ("domain", {}, {"loss_value": value, "domain": domain})
        for domain in (
            *(BALL(3.0), pabi.prox.l1(1.0), BALL(0.5, center=np.array([0.9, 0.0]))),
            *(BALL(0.2, center=[0.5, 0.0]), BOX([0.1, -0.1], [0.3, 0.1])),
        )
    ),
    ("domain", AVERAGE, {"gradient": gradient, "domain": BOX([0.1, -0.1], [0.3, 0.1])}),
    ("smoothness", ROUGH, {"gradient": gradient}),
]


@every(("field", "changes", "arguments"), REFUSED)
def test_bad_input_is_named(field, changes, arguments):
    refused(field, solve, planned(**changes), **arguments)
    refused("plan", solve, "erm", loss_value=value)


@pytest.mark.parametrize("objective", ["erm", "sco"])
@pytest.mark.parametrize(
    ("losses", "m"), [("convex", None), ("strongly_convex", 0.5), ("nonconvex", None)]
)
def test_every_plan_is_run_or_refused_with_advice_that_works(objective, losses, m):
    names = ("auto", "exponential_mechanism", "iterated_exponential_mechanism")
    for algorithm, known, delta in itertools.product(
        (*names, "last_point", "path_average"), (None, 0.5), (0.0, 1e-6)
    ):
        given = {"strong_convexity": m, "delta": delta, "algorithm": algorithm}
        given["epsilon"] = 2.0
        try:
            found = planned(objective, losses, smoothness=known, **given)
        except pabi.NotApplicable:
            continue
        check_runs(found, lambda g=given: planned(objective, losses, smoothness=0.5, **g))


def check_runs(found, again):
    """`again` makes the plan with its smoothness."""
    chain = found.algorithm in ("last_point", "path_average")
    given = {"gradient": gradient, "steps": 400} if chain else {"loss_value": value}
    assert ("smoothness=…" in str(found)) is found.only_a_bound
    if found.only_a_bound:
        assert math.isinf(found.smoothness)
        assert 0.0 < found.risk_bound < found.trivial_bound

        def never(points):
            pytest.fail("the data was touched")

        line = refused("smoothness", solve, found, gradient=never, steps=400)
        assert "plan again with smoothness" in line
        found = again()
        assert not found.only_a_bound
    try:
        solution = solve(found, **given)
    except pabi.NotApplicable:  # exact draws without smoothness
        assert math.isinf(found.smoothness)
        solution = solve(again(), **given)
    assert solution.guarantee.epsilon(found.delta) <= found.epsilon
    assert np.linalg.norm(solution.x) <= 1.0


def test_too_few_steps_are_told_how_many_are_enough():
    strong = {"losses": "strongly_convex", "strong_convexity": 0.5, "smoothness": 10.0}
    found = planned(**strong, **DIFFUSION)
    with pytest.raises(pabi.TargetUnreachable, match="path_average") as caught:
        solve(found, gradient=gradient, steps=200)
    advised = int(str(caught.value).split("take ")[1].split(",")[0])
    assert advised == erm_algorithms.contracting_steps(found) > 200
    assert solve(found, gradient=gradient, steps=advised).guarantee.epsilon(1e-6) <= 1.0


@every("algorithm", ["exponential_mechanism", "last_point", "path_average"])
def test_what_is_released_lies_in_the_set(algorithm):
    # Pulled hard into a corner whose coordinates are no multiples of the grid.
    box = pabi.prox.box([-0.3, -0.1], np.array([0.1 + 0.2, 0.7]))
    disc = pabi.prox.ball(0.3, center=np.array([0.1, 0.2]))
    given = {"gradient": lambda t: np.full(t.shape, -1.0 / 1.5), "steps": 2000}
    if pure := algorithm == "exponential_mechanism":
        given = {"loss_value": lambda t: -t.sum(axis=1) / 1.5}
    same = {"smoothness": 0.5, "algorithm": algorithm, "epsilon": 20.0}
    found = planned(delta=0.0 if pure else 1e-6, **same)
    for seed in range(3):
        x = solve(found, domain=box, random_state=seed, **given).x
        assert (x >= box.lower).all()
        assert (x <= box.upper).all()
        x = solve(found, domain=disc, random_state=seed, **given).x
        assert np.linalg.norm(x - disc.center) <= 0.3


def test_a_draw_that_would_take_too_long_is_refused():
    with pytest.raises(pabi.NotApplicable, match="evaluations"):
        solve(planned(dimension=20, n=10**6), loss_value=value)


def test_a_loss_in_single_precision_is_refused():
    """Beside a constant it has steps that data decide; the regulariser had made doubles of them."""
    p = planned("sco", algorithm="exponential_mechanism", smoothness=1.0)
    assert p.regulariser > 0.0

    def single(points):
        return value(points).astype(np.float32)

    assert "expected float64" in refused("loss_value", solve, p, loss_value=single)


def test_one_number_in_place_of_a_loss_at_every_point_is_refused():
    """The regulariser's numbers had made an array of it, of the right shape."""
    p = planned("sco", algorithm="exponential_mechanism", smoothness=1.0)
    assert p.regulariser > 0.0
    for mean in (lambda points: value(points).mean(), lambda points: np.zeros(1)):
        assert "expected shape" in refused("loss_value", solve, p, loss_value=mean)

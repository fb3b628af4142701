"""Payments in advance: a record pulls to one side, and what its centre will owe is paid before it is used.

No run whose slopes and pulls keep to what is said may be less private than the price of a plan: Gaussian
runs on a line and in the plane, and bent ones on a line, whose pulls come and go with the state. The plans
are made and priced apart from the library (`support.advance`), and so is what a description is taken to say.
"""

import dataclasses
import math
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from pabi import Loss, NoisySGD, Reshuffle
from pabi.account.analyses import advance
from pabi.account.best import outcomes
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff.guarantee import Guarantee
from support.advance import Course, best, forward, one_sided
from support.certificates import granted
from support.falsification.claims import EPSILONS, deltas
from support.falsification.claims import gaussian_delta as delta
from support.falsification.margins import Margins, Shuffled, random_margins
from support.falsification.planes import Planar, random_planar
from support.falsification.pulled_lines import ERROR, Bent, Ramp, Step, clipped, last_laws, soft
from support.falsification.random_batches import divergences

ROUNDING = 1.0 + 1e-9
AT = np.array([-1.0, -0.3, 0.0, 0.5, 1.0, 2.0])  # ε in units of μ


def random_course(rng, *, held: bool = False, sign: float = 1.0) -> Course:
    """Up to six steps; `sign`: of the least slope, −1 for slopes on both sides of 0."""
    t = int(rng.integers(2, 7))
    high = np.where(rng.random(t) < 0.6, 1.0, rng.uniform(0.4, 1.2, t))
    low = high * (1.0 - rng.choice([0.0, 0.02, 0.1, 0.3, 1.0]) * rng.random(t))
    low = np.where(rng.random(t) < 0.3, sign * low, low)
    s = np.where(rng.random(t) < 0.4, rng.uniform(0.3, 2.5, t), 0.0)
    s[rng.integers(t)] = 1.0
    start = rng.uniform(0.0, 1.0) if rng.random() < 0.25 else 0.0
    maps = (rng.random(t) < 0.4) & held
    maps[-1] = False
    sigma = np.exp(rng.normal(0.0, rng.choice([0.0, 0.4]), t))
    return one_sided(low, high, sigma, s, held=maps, start=start)


# Gaussian runs.


def gaussian_mu(maps, pulls, sigma, start) -> float:
    """μ of runs that are affine, `pulls` vectors."""
    gap, spread = np.array(start, dtype=float), np.zeros((len(start), len(start)))
    for m, pull, noise in zip(maps, pulls, sigma, strict=True):
        gap = m @ gap + pull
        spread = m @ spread @ m.T + noise**2 * np.eye(len(gap))
    return math.sqrt(gap @ np.linalg.solve(spread, gap))


def turn(rng) -> np.ndarray:
    c, s = math.cos(a := rng.uniform(0.0, 2.0 * math.pi)), math.sin(a)
    return np.array([[c, -s], [s, c]])


def random_map(rng, low: float, high: float, d: int) -> np.ndarray:
    """A matrix within (high − low)/2 of (high + low)/2: with eigenvalues in [low, high], or any other."""
    ends = rng.choice([low, high, rng.uniform(low, high)], d)
    if d == 1:
        return np.diag(ends)
    q = turn(rng)
    if rng.random() < 0.7:
        return q @ np.diag(ends) @ q.T
    return (high + low) / 2.0 * np.eye(2) + (q @ np.diag(ends - (high + low) / 2.0) @ turn(rng))


def random_gaussian(rng, course: Course, pulls, d: int, climbs: int = 40) -> float:
    """The largest μ of a few runs that keep to the course; `pulls(k)` draws a pull, a vector of d."""
    t = len(course)
    direction = (turn(rng)[0] if d == 2 else np.array([1.0])) * course.start

    def moved(maps, vectors, k):
        maps, vectors = list(maps), list(vectors)
        if rng.random() < 0.75:
            maps[k] = random_map(rng, course.low[k], course.high[k], d)
        else:
            vectors[k] = pulls(k)
        return maps, vectors

    found = (
        [random_map(rng, course.low[k], course.high[k], d) for k in range(t)],
        [pulls(k) for k in range(t)],
    )
    top = gaussian_mu(*found, course.sigma, direction)
    for _ in range(climbs):
        trial = moved(*found, int(rng.integers(t)))
        if (mu := gaussian_mu(*trial, course.sigma, direction)) > top:
            found, top = trial, mu
    return top


def to_one_side(rng, course: Course, d: int):
    along = np.eye(d)[0]
    return lambda k: 2.0 * course.q[k] * along * (1.0 if rng.random() < 0.7 else rng.random())


def gaussian_ratio(rng) -> float:
    """True μ over price; of steps with maps that are not the identity, those that are it."""
    course = random_course(rng, held=rng.random() < 0.2, sign=-1.0)
    d = int(rng.integers(1, 3))
    return random_gaussian(rng, course, to_one_side(rng, course, d), d) / best(course)


@pytest.mark.parametrize("count", [60, pytest.param(4000, marks=pytest.mark.nightly)])
def test_gaussian_runs(count):
    rng = np.random.default_rng(count)
    assert max(gaussian_ratio(rng) for _ in range(count)) <= ROUNDING


# One user in place of another; with one record, a record.


def replaced_ratio(rng, turning: bool) -> float:
    """`turning`: their records' directions and lengths change from step to step, by no state."""
    course = random_course(rng)
    s = 2.0 * course.q
    doubled = replace(course, q=s, rho=s)

    def user(sign):
        """The gradients of the records, over their number."""
        many = int(rng.choice([1, 1, 2, 4]))
        lengths = np.where(rng.random(many) < 0.6, 1.0, rng.random(many))
        return sign / many * np.array([length * turn(rng)[0] for length in lengths])

    def pair():
        mine = user(1.0)
        return np.vstack([mine, mine if rng.random() < 0.4 else user(-1.0)])  # opposites, or any

    pairs = [pair() for _ in s] if turning else [pair()] * len(s)

    def pull(k):
        shares = rng.choice([0.0, 1.0, rng.random()], len(pairs[k]))
        return s[k] * shares @ pairs[k]

    mu = random_gaussian(rng, course, pull, 2)
    return mu / (forward(doubled) if turning else best(doubled))


@pytest.mark.parametrize("turning", [False, True])
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.nightly)])
def test_replaced_users(count, turning):
    rng = np.random.default_rng([count, turning])
    assert max(replaced_ratio(rng, turning) for _ in range(count)) <= ROUNDING


def test_opposite_records_are_twice_as_dear():
    course = one_sided(*np.array([[0.8], [1.0], [1.0], [0.0]]).repeat(4, 1), start=0.0)
    course = one_sided(course.low, course.high, course.sigma, np.array([0.0, 1.0, 0.0, 0.0]))
    doubled = replace(course, q=2.0 * course.q, rho=2.0 * course.rho)
    assert best(doubled) == pytest.approx(2.0 * best(course), rel=1e-4)


# Bent runs on a line.


def random_steps(rng, course: Course) -> list[Step]:
    """Slopes and pulls that vary with the state, breaks where the runs are."""
    steps, where, spread = [], 0.0, 0.0
    for k in range(len(course)):
        low, high, s = course.low[k], course.high[k], 2.0 * course.q[k]
        knots = np.sort(where + (spread + 0.2) * rng.normal(size=rng.integers(1, 4)))
        slopes = rng.choice([low, high, rng.uniform(low, high)], len(knots) + 1)
        f = Bent(knots, slopes, float(knots[0]))
        a = where + (spread + 0.2) * rng.normal()
        b = a + rng.choice([0.0, rng.exponential()])
        ends = [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, rng.random())][rng.integers(4)]
        # Nothing is said but how far pulls are apart.
        other = 0.0 if rng.random() < 0.7 else rng.random()
        share = Ramp(a, b, ends[0] - other, ends[1] - other)
        rise = abs(ends[1] - ends[0]) / (b - a) if b > a else 0.0
        steep = max(abs(low), abs(high)) + (s * rise if s else 0.0)
        where = float(f(np.array([where]))[0]) + s / 2.0
        spread = math.hypot(max(abs(low), abs(high)) * spread, course.sigma[k])
        after, kinks = None, ()
        if course.held[k]:
            bound = abs(where) + spread * rng.uniform(0.2, 2.0)
            after, kinks = (
                clipped(bound) if rng.random() < 0.5 else soft(spread * rng.uniform(0.1, 1.0))
            )
            where = float(after(np.array([where]))[0])
        steps.append(
            Step(
                f,
                course.sigma[k],
                lambda x, s=s, share=share: s * share(x),
                (*knots, a, b),
                max(min(steep, 8.0), 0.3),
                after,
                kinks,
            )
        )
    return steps


def worth(truth, epsilon):
    """The μ of which the δ is the truth, by halving."""
    low, high = np.zeros(len(truth)), np.full(len(truth), 50.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        below = delta(middle, epsilon) < truth
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def bent_ratio(steps, course: Course, mu: float) -> float:
    """The largest μ that some ε gives in either order, less what quadrature may have added, over `mu`."""
    p, q = last_laws(steps, course.start / 2.0, -course.start / 2.0)
    epsilons = mu * AT
    truth = divergences(p, q, epsilons, math.inf).max(axis=0)
    return float(np.max(worth(truth - ERROR * (1.0 + np.exp(epsilons)), epsilons))) / mu


def random_bent(rng, *, held: bool, climbs: int = 0) -> float:
    """The ratio of a run, the best found by changing one step `climbs` times."""
    course = random_course(rng, held=held, sign=-1.0)
    mu, steps = best(course), random_steps(rng, course)
    top = bent_ratio(steps, course, mu)
    for _ in range(climbs):
        k = int(rng.integers(len(steps)))
        trial = [*steps[:k], random_steps(rng, course)[k], *steps[k + 1 :]]
        if (ratio := bent_ratio(trial, course, mu)) > top:
            top, steps = ratio, trial
    return top


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("count", [15, pytest.param(1500, marks=pytest.mark.nightly)])
def test_bent_runs(count, held):
    rng = np.random.default_rng([count, held])
    assert max(random_bent(rng, held=held) for _ in range(count)) <= ROUNDING


@pytest.mark.nightly
def test_bent_runs_that_are_made_worse():
    rng = np.random.default_rng(1)
    ratios = [random_bent(rng, held=False, climbs=40) for _ in range(60)]
    assert max(ratios) <= ROUNDING


def test_laws_are_exact_where_they_are_gaussian():
    """Affine maps cut into pieces, and a step that is a projection, against a sum over a fine grid."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        t = int(rng.integers(1, 6))
        slope, sigma, s = (
            rng.uniform(0.3, 1.3, t),
            np.exp(rng.normal(0, 0.4, t)),
            rng.uniform(0, 2, t),
        )
        steps, gap, spread = [], 0.5, 0.0
        for k in range(t):
            knots = np.sort(rng.normal(size=2))
            f = Bent(knots, np.full(3, slope[k]), slope[k] * knots[0])
            steps.append(
                Step(f, sigma[k], lambda x, pull=s[k]: np.full_like(x, pull), knots, slope[k])
            )
            gap, spread = slope[k] * gap + s[k], slope[k] ** 2 * spread + sigma[k] ** 2
        mu = gap / math.sqrt(spread)
        p, q = last_laws(steps, 0.5, 0.0)
        truth = delta(mu, mu * AT)
        slack = ERROR * (1.0 + np.exp(mu * AT))
        assert np.all(np.abs(divergences(p, q, mu * AT, math.inf) - truth) <= slack)


@pytest.mark.parametrize("kind", [clipped, soft])
def test_laws_agree_with_a_fine_grid(kind):
    after, kinks = kind(0.7)
    bent = Bent(np.array([0.3]), np.array([0.5, -1.0]))
    last = Step(bent, 0.8, lambda x: Ramp(-0.2, -0.2)(x), (0.3, -0.2))
    p, q = last_laws([Step(lambda x: x, 1.0, after=after, after_breaks=kinks), last])
    y = np.linspace(-9.0, 9.0, 200_000, endpoint=False) + 9.0 / 200_000
    weight = np.exp(-y * y / 2.0) / math.sqrt(2.0 * math.pi) * 18.0 / 200_000
    for law, pull in [(p, Ramp(-0.2, -0.2)(after(y))), (q, 0.0)]:
        mean = bent(after(y)) + pull
        for x in [-1.0, 0.2, 1.5]:
            assert law.cdf([x])[0] == pytest.approx(
                float(ndtr((x - mean) / 0.8) @ weight), abs=1e-5
            )


# What must not be forgotten.


def uses(t: int, *places: int) -> np.ndarray:
    s = np.zeros(t)
    s[list(places)] = 1.0
    return s


def constant_pull(course: Course, slopes) -> float:
    maps = [np.array([[c]]) for c in slopes]
    return gaussian_mu(maps, [[2.0 * q] for q in course.q], course.sigma, [0.0])


def test_a_radius_is_owed():
    course = one_sided([1.0] * 4, [1.0] * 4, [1.0] * 4, uses(4, 2))
    truth = constant_pull(course, [1.0] * 4)
    assert best(course) == pytest.approx(truth, rel=1e-4)  # = s/√t: a use in the middle
    assert best(replace(course, rho=0.0 * course.rho)) < 0.6 * truth


def test_what_was_paid_is_uncertain_where_slopes_are():
    """The last step forgets the noise before it, or not."""
    course = one_sided([0.0] * 4, [1.0] * 4, [1.0] * 4, uses(4, 3))
    truth = constant_pull(course, [1.0, 1.0, 1.0, 0.0])
    assert truth == pytest.approx(1.0)
    assert best(course) >= truth
    middle = replace(course, low=course.middle, high=course.middle)
    assert best(middle) < 0.9 * truth


def test_nothing_is_paid_in_advance_through_a_projection():
    """It forgets the noise, by all but a thousandth."""
    held = np.array([False, False, True, False])
    course = one_sided([1.0] * 4, [1.0] * 4, [1.0] * 4, uses(4, 3), held=held)
    after, kinks = clipped(1e-3)
    steps = [
        Step(lambda x: x, 1.0, after=after if h else None, after_breaks=kinks if h else ())
        for h in held
    ]
    steps[3] = replace(steps[3], pull=np.ones_like)
    assert bent_ratio(steps, course, best(course)) <= ROUNDING
    assert bent_ratio(steps, course, best(replace(course, held=~held & held))) > 1.01


def test_pulls_to_both_sides_owe_more():
    """Towards where the run is: from a half to one side is told nothing of the sign."""
    course = one_sided([1.0] * 4, [1.0] * 4, [1.0] * 4, 2.0 * uses(4, 3))
    both = replace(course, q=0.0 * course.q, rho=2.0 * course.rho)
    steps = [Step(lambda x: x, 1.0) for _ in range(4)]
    steps[3] = replace(steps[3], pull=lambda x: 2.0 * np.sign(x), breaks=(0.0,))
    assert bent_ratio(steps, both, best(both)) <= ROUNDING
    assert bent_ratio(steps, course, best(course)) > 1.01


def test_the_last_place_is_not_the_worst_where_steps_stretch():
    places = [one_sided([1.2] * 3, [1.2] * 3, [1.0] * 3, uses(3, j)) for j in range(3)]
    assert constant_pull(places[0], [1.2] * 3) > 1.01 * best(places[2])


# Runs that are described.

NAME = "payments in advance"


def worst_deltas(found: Margins, epsilons) -> np.ndarray:
    """The larger δ of both orders, less what quadrature may have added."""
    p, q = last_laws(found.steps(), found.start)
    truth = divergences(p, q, epsilons, math.inf).max(axis=0)
    return truth - ERROR * (1.0 + np.exp(epsilons))


def said(run, position: int) -> list:
    """What the library says of a record in that batch and of the worst one."""
    found = []
    for where in (position, None):
        claims = outcomes(run, 1e-5, where)
        found += [one.guarantee for one in claims if one.name == NAME and one.guarantee is not None]
        found.append(run.guarantee(1e-5, position=where))
    return found


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.nightly)])
def test_described_runs_cost_no_more_than_plans(count, adjacency):
    rng = np.random.default_rng([count, len(adjacency)])
    for _ in range(count):
        found = random_margins(rng, adjacency)
        mu = best(found.course())
        assert np.all(worst_deltas(found, mu * AT) <= delta(mu, mu * AT)), found


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("count", [5, pytest.param(400, marks=pytest.mark.nightly)])
def test_the_library_says_no_less(count, adjacency):
    rng, seen = np.random.default_rng([count, len(adjacency), 1]), 0
    for _ in range(count):
        found = random_margins(rng, adjacency)
        truth, claims = worst_deltas(found, EPSILONS), said(found.run, found.position)
        for claim in claims:
            assert np.all(truth <= deltas(claim)), (found, claim)
        seen += len(claims)
    if seen == 2 * count:
        pytest.skip(f"no analysis is named {NAME!r}: only the guarantee was compared")


def shuffled_deltas(found: Margins, epsilons) -> np.ndarray:
    """The mean over all places of the record in the epochs; the last batch may be a smaller one."""
    fields = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    run, each = found.run, range(found.run.steps_per_epoch)
    share = np.array([len(found.batch(j)) / run.n for j in each])  # the last batch may be short
    every = np.array([*product(each, repeat=-(-run.data_steps // len(each)))])
    truths = [worst_deltas(Shuffled(**fields, places=tuple(x)), epsilons) for x in every]
    return share[every].prod(axis=1) @ truths


def shuffled_run(rng, adjacency: str) -> tuple[Margins, Guarantee]:
    """At least two epochs of at least two batches, and what is proven where both are shuffled."""
    while True:
        found = random_margins(rng, adjacency)
        run = replace(found.run, batches=Reshuffle(found.run.batch_size))
        if 1 < run.steps_per_epoch < run.data_steps:
            with suppress(NotApplicable):
                return found, granted(advance.apply, run, 1e-5)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.nightly)])
def test_places_that_change_every_epoch(count, adjacency):
    rng = np.random.default_rng([count, len(adjacency), 4])
    for _ in range(count):
        found, claim = shuffled_run(rng, adjacency)
        assert np.all(shuffled_deltas(found, EPSILONS) <= deltas(claim)), (found, claim)


def random_cases(rng) -> list[tuple[Course, float]]:
    """Cases of a place that changes every epoch, whose last two uses are paid in advance: with older uses
    anywhere in their epochs; and the μ that is claimed of them."""
    period, epochs = int(rng.integers(2, 6)), int(rng.choice([2, 2, 3, 4]))
    eta = np.exp(rng.normal(-1.5, 1.0)) * np.linspace(rng.uniform(0.3, 1.0), 1.0, period * epochs)
    eta = np.minimum(eta, 4.0)[:: rng.choice([-1, 1])].copy()
    run = NoisySGD(
        Loss.logistic(1.0, l2=rng.choice([0.0, 0.1])),
        2 * period,
        Reshuffle(2),
        epochs=epochs,
        step_size=eta,
        noise_std=(noise := math.exp(rng.normal(-0.7, 0.5))),
        adjacency="zero_out",
    )
    with suppress(NotApplicable):
        payload = granted(advance.apply, run, 1e-5).certificate.payload
        cases = [case for case in payload["cases"] if case["ahead"] == 2]
        high, found = 1.0 - eta * run.loss.l2, []
        for case in rng.permutation(np.array(cases, dtype=object))[:4]:
            older = rng.choice([period - 1, rng.integers(period)], epochs - 2)
            known = [place for place, _ in case["ranges"]]
            places = period * np.arange(epochs) + [*older, *known]
            s = np.where(np.isin(np.arange(eta.size), places), eta / 2.0, 0.0)
            found.append((one_sided(high - eta / 4.0, high, eta * noise, s), case["mu"]))
        return found
    return []


@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.nightly)])
def test_pairs_of_last_places(count):
    """What is claimed of two places is no less than the truth, wherever older uses are, and often near."""
    rng, near = np.random.default_rng([count, 5]), []
    for _ in range(count):
        for course, mu in random_cases(rng):
            pulls = to_one_side(rng, course, 1)
            near.append(random_gaussian(rng, course, pulls, 1) / mu)
            bent = bent_ratio(random_steps(rng, course), course, mu)
            assert max(near[-1], bent) <= ROUNDING, course
    assert np.median(near) > 0.8


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("count", [2, pytest.param(200, marks=pytest.mark.nightly)])
def test_described_planes(count, adjacency):
    """Several directions, and several predictors: by plans, and by the library."""
    rng = np.random.default_rng([count, len(adjacency), 2])
    for _ in range(count):
        found = random_planar(rng, adjacency)
        mu = best(found.course())
        truth = found.deltas(np.concatenate([mu * AT, EPSILONS]))
        assert np.all(truth[: len(AT)] <= delta(mu, mu * AT)), found
        for claim in said(found.run, found.position):
            assert np.all(truth[len(AT) :] <= deltas(claim)), (found, claim)


def test_planes_agree_with_lines():
    """Of records on one line through 0."""
    rng = np.random.default_rng(3)
    for adjacency in ["zero_out", "replace_one"]:
        line = random_margins(rng, adjacency)
        while (
            line.smoothing
            or line.run.clip_norm
            or line.run.cooldown_steps
            or line.run.n % line.run.batch_size
        ):
            line = random_margins(rng, adjacency)
        records = line.records[:, None] * np.array([0.6, 0.8])
        other = None if adjacency == "zero_out" else line.other * np.array([0.6, 0.8])
        plane = Planar(line.run, line.position, records, other, line.start * np.array([0.6, 0.8]))
        epsilons = np.array([0.0, 0.3, 1.0])
        assert plane.deltas(epsilons) == pytest.approx(
            worst_deltas(line, epsilons), rel=4e-3, abs=1e-6
        )

"""Exact draws: against quadrature of the density, refusals, and what stays unseen."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import gammainc
from scipy.stats import chi2, chisquare, kstest

import pabi
from pabi.numbers.errors import NotApplicable, PrivacyWarning
from pabi.sampling import exact, gibbs_rejection, mean_loss
from pabi.sampling.envelopes import Envelope, LossBounds, read_region
from pabi.sampling.exact import slopes
from pabi.tradeoff.guarantee import TESTING
from support.every_case import every, refused, refuses

from .laws import LEVEL

SMOOTH = pabi.Loss.convex(smoothness=1.0, gradient_bound=3.0)


def mechanism(kappa, dimension, loss=SMOOTH, diameter=2.0, **fields):
    return pabi.ExponentialMechanism(
        loss, n=100, dimension=dimension, diameter=diameter, inverse_temperature=kappa, **fields
    )


def draws(m, value, count, domain=None, seed=1, **options):
    found = gibbs_rejection(m, value, domain, seed, draws=count, delta=1e-3, **options)
    assert found.values.shape == (1, count, m.dimension)
    return found.values[0]


def bowl(centre):
    return lambda x: 0.5 * np.sum((x - centre) ** 2, axis=1)


def ridge(x):
    """Nonsmooth, 3-Lipschitz, with a kink inside and on the edge of boxes."""
    return 2.0 * np.abs(x[:, 0] - 0.1) + 0.5 * np.abs(np.sum(x, axis=1))


def waves(x):
    """Not convex: curvature in [−1, 1]."""
    return np.sum(np.cos(x), axis=1) + 0.5 * np.sin(x[:, 0])


CASES = {
    "interval": (bowl([0.3]), 1, None, SMOOTH),
    "interval, mode outside": (bowl([2.5]), 1, None, SMOOTH),
    "disc": (bowl([0.3, -0.2]), 2, None, SMOOTH),
    "disc, mode outside": (bowl([1.5, 1.0]), 2, None, SMOOTH),
    "disc elsewhere": (bowl([3.0, 4.0]), 2, pabi.prox.ball(0.7, center=[2.0, 4.0]), SMOOTH),
    "box": (bowl([0.3, -0.2]), 2, pabi.prox.box([-0.5, -0.7], [0.9, 0.1]), SMOOTH),
    "nonsmooth": (ridge, 2, None, pabi.Loss.lipschitz(3.0)),
    "nonsmooth box": (ridge, 2, pabi.prox.box([-0.5, -0.7], [0.9, 0.1]), pabi.Loss.lipschitz(3.0)),
    "not convex": (waves, 2, None, pabi.Loss.nonconvex(smoothness=1.0, gradient_bound=2.0)),
    "curvature only": (bowl([0.3, -0.2]), 2, None, pabi.Loss.strongly_convex(1.0, 1.0)),
}


def expected_shares(value, kappa, domain, dimension, cells, fine):
    """The density's integral over a grid of cells, by midpoints of `fine` parts a side."""
    if isinstance(domain, pabi.prox.box):
        low, high = np.asarray(domain.lower), np.asarray(domain.upper)
    else:
        centre = np.zeros(dimension) if domain.center is None else np.asarray(domain.center)
        low, high = centre - domain.radius, centre + domain.radius
    axes = [
        a + (b - a) * (np.arange(cells * fine) + 0.5) / (cells * fine)
        for a, b in zip(low, high, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
    density = np.exp(-kappa * (value(points) - np.min(value(points))))
    if isinstance(domain, pabi.prox.ball):
        density[np.linalg.norm(points - centre, axis=1) > domain.radius] = 0.0
    shape = (cells, fine) * dimension
    sums = density.reshape(shape).sum(axis=tuple(range(1, 2 * dimension, 2))).ravel()
    return sums / sums.sum(), low, high


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("kappa", "count"),
    [
        *((kappa, 40_000) for kappa in (0.01, 3.0, 40.0)),
        *(pytest.param(k, 1_000_000, marks=pytest.mark.nightly) for k in (0.3, 10.0, 200.0)),
    ],
)
@pytest.mark.one_in(3)
def test_draws_have_the_density(case, kappa, count):
    value, dimension, domain, loss = CASES[case]
    fields = {"gradient_gap": 0.1} if loss.gradient_bound is None else {}
    x = draws(mechanism(kappa, dimension, loss, **fields), value, count, domain)
    domain = pabi.prox.ball(1.0) if domain is None else domain
    cells, fine = (400, 40) if dimension == 1 else (12, 100)
    shares, low, high = expected_shares(value, kappa, domain, dimension, cells, fine)
    place = np.clip(((x - low) / (high - low) * cells).astype(int), 0, cells - 1)
    counts = np.bincount(
        np.ravel_multi_index(tuple(place.T), (cells,) * dimension), minlength=shares.size
    )

    def p_value(shares):
        # Cells with few expected draws are put together, as Pearson's approximation wants.
        few = shares * len(x) < 20
        wanted = np.append(shares[~few], shares[few].sum()) * len(x)
        found = np.append(counts[~few], counts[few].sum())
        used = wanted > 20
        if found[~used].sum() > 60:  # twenty are expected at most: a chance of about 1e-12
            return 0.0
        return chisquare(found[used], wanted[used] * found[used].sum() / wanted[used].sum()).pvalue

    assert p_value(shares) > LEVEL
    # Another temperature would be noticed, where there is something to notice.
    if kappa > 1.0:
        warmer, _, _ = expected_shares(value, 1.5 * kappa, domain, dimension, cells, fine)
        assert p_value(warmer) < LEVEL


@every("dimension, kappa", [(3, 30.0), (4, 8.0), (5, 2.0), (6, 0.5)])
def test_radial_densities_in_higher_dimension(dimension, kappa):
    """∝ exp(−κ‖x‖²/2) on the unit ball: a truncated χ for the radius, and no direction preferred."""
    x = draws(mechanism(kappa, dimension), bowl(0.0), 4000)
    radius = np.linalg.norm(x, axis=1)
    a = dimension / 2
    law = gammainc(a, kappa * radius**2 / 2) / gammainc(a, kappa / 2)
    assert kstest(law, "uniform").pvalue > LEVEL
    # Unit vectors of covariance I/p, if no direction is preferred.
    directions = x / radius[:, None]
    score = np.sqrt(len(x)) * directions.mean(axis=0) * np.sqrt(dimension)
    assert chi2(dimension).sf(np.sum(score**2)) > LEVEL
    other = 1.3 * kappa + 3.0
    wrong = gammainc(a, other * radius**2 / 2) / gammainc(a, other / 2)
    assert kstest(wrong, "uniform").pvalue < LEVEL


def test_the_bound_is_above_the_density_however_it_is_refined():
    """At thousands of points of every box, for losses that use up what they are promised."""
    rng = np.random.default_rng(5)
    losses = {
        "smooth": (bowl([0.9, 0.2, 0.0]), LossBounds(3.0, (1.0, 1.0))),
        "promised less": (bowl([0.9, 0.2, 0.0]), LossBounds(None, (-2.0, 1.0))),
        "lipschitz": (lambda x: 3.0 * np.linalg.norm(x - 0.1, axis=1), LossBounds(3.0, None)),
        "concave": (lambda x: -bowl([0.9, 0.2, 0.0])(x), LossBounds(3.0, (-1.0, -1.0))),
    }
    region = read_region(None, 3, 2.0).within(np.array([0.5, 0.5, 0.0]), 0.8)
    for value, facts in losses.values():
        envelope = Envelope(region, value, 20.0, facts)
        for _ in range(6):
            points, bound, boxes = envelope.propose(3000, rng)
            inside = region.holds(points)
            cells = envelope.boxes[boxes]
            assert np.all((points >= cells.lower) & (points <= cells.upper))
            assert np.all(-20.0 * value(points[inside]) <= bound[inside] + 1e-9)
            envelope.halve(np.unique(boxes))
        # Nothing of the set is lost, and nothing is covered twice.
        uniform = rng.uniform(region.lower, region.upper, size=(500, 3))
        held = uniform[region.holds(uniform)]
        covers = (held[:, None] >= envelope.boxes.lower) & (held[:, None] <= envelope.boxes.upper)
        assert np.all(covers.all(axis=2).sum(axis=1) == 1)


def iterated(**fields):
    given = {"n": 200, "dimension": 2, "diameter": 2.0, "epsilons": [2.0, 3.0], "failure": 0.05}
    loss = pabi.Loss.logistic(1.0, l2=0.5)
    return pabi.IteratedExponentialMechanism(loss, **(given | fields))


def test_rounds_are_drawn_every_case(monkeypatch):
    """Each round at its κ, on the part of the set near the draw before; the last draw is what is left."""
    m = iterated(epsilons=[2.0, 3.0, 4.0], n=3000)
    rounds, drawn = [], []
    accepted = exact._Draws._accepted

    def spy(draws, region, one, count, generator):
        found = accepted(draws, region, one, count, generator)
        rounds.append((region, one.kappa))
        drawn.append(found)
        assert np.all(region.holds(found))
        return found

    monkeypatch.setattr(exact._Draws, "_accepted", spy)
    x = draws(m, bowl([0.2, 0.1]), 1)
    assert [k for _, k in rounds] == [r.inverse_temperature for r in m.rounds]
    np.testing.assert_allclose(x, drawn[-1], rtol=0, atol=2.0**-38)
    for i in (1, 2):
        balls = rounds[i][0].balls[1:]
        for (centre, radius), point, one in zip(balls, drawn, m.rounds, strict=False):
            np.testing.assert_array_equal(centre, point[0])
            assert radius == one.radius
    assert len(rounds[2][0].balls) == 3


def test_split_records_are_asked_for():
    asked = []

    def value(points, rows):
        asked.append((rows[0], rows[-1], len(rows)))
        return bowl([0.0, 0.0])(points)

    draws(iterated(split=120), value, 1)
    changes = [asked[0], *(b for a, b in pairwise(asked) if b != a)]
    assert changes == [(0, 119, 120), (120, 199, 80)]


def test_the_guarantee_is_the_mechanisms():
    """Of several draws composed; of a seed for tests only."""
    value, m = bowl([0.0, 0.0]), mechanism(5.0, 2)
    for one in (m, iterated()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = gibbs_rejection(one, value, delta=1e-5)
        wanted = one.guarantee(1e-5)
        assert found.guarantee.epsilon(1e-5) == wanted.epsilon(1e-5)
        assert found.guarantee.assumptions == (*wanted.assumptions, exact.taken(one))
        assert str(one.n) in exact.taken(one)
        assert found.mechanism is one
        assert not found.values.flags.writeable
    with pytest.warns(PrivacyWarning, match="reproducible"):
        ten, again = (gibbs_rejection(m, value, None, 0, draws=10, delta=1e-3) for _ in range(2))
    np.testing.assert_array_equal(ten.values, again.values)
    assert ten.guarantee.assumptions[0] == TESTING
    wanted = pabi.compose(*[m.guarantee(1e-3)] * 10).epsilon(1e-3)
    assert ten.guarantee.epsilon(1e-3) == pytest.approx(wanted, rel=1e-6)
    assert wanted > 2 * m.guarantee(1e-3).epsilon(1e-3)


def test_our_own_mean_loss_is_checked_against_the_description():
    """A loss of fewer records than described would cost more than its guarantee says."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.25)
    m = pabi.ExponentialMechanism(loss, n=40, dimension=2, diameter=2.0, epsilon=1.0)
    found = gibbs_rejection(m, mean_loss(X, y, loss))
    assert found.guarantee.assumptions == m.guarantee(1e-5).assumptions
    for value, field in (
        (mean_loss(X[:4], y[:4], loss), "n"),
        (mean_loss(X, y, loss.with_l2(0.0)), "l2"),
        (mean_loss(X, y, pabi.Loss.logistic(feature_norm=3.0, l2=0.25)), "model"),
        (mean_loss(X, y, "logistic", 0.25), "model"),
    ):
        refused(field, gibbs_rejection, m, value)
    convex = replace(m, loss=pabi.Loss.convex(0.25, gradient_bound=1.0, l2=0.25))
    found = gibbs_rejection(convex, mean_loss(X, y, loss))
    assert exact.taken(convex) in found.guarantee.assumptions


def test_one_record_far_away_is_as_good_as_one_that_is_far_enough():
    """Its loss's constant, as large as the record likes, costs no digits of the others' and stops nothing."""
    loss = pabi.Loss.huber(feature_norm=1.0, threshold=1.0)
    X = np.random.default_rng(3).uniform(-1.0, 1.0, (50, 1))
    y = 0.5 * X[:, 0]
    m = pabi.ExponentialMechanism(loss, n=50, dimension=1, diameter=2.0, epsilon=1.0)
    drawn = []
    for far in (5.0, 1e12, 1e300):
        y[7] = far
        found = gibbs_rejection(m, mean_loss(X, y, loss), random_state=0, draws=20, delta=1e-3)
        drawn.append(found.values)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
    near, points = mean_loss(X, y, loss).within(2.0), np.linspace(-2.0, 2.0, 9)[:, None]
    y[7] = 50.0
    np.testing.assert_allclose(
        np.diff(near(points)), np.diff(mean_loss(X, y, loss)(points)), rtol=0.0, atol=1e-14
    )


# Refusals.


BALL, BOX = pabi.prox.ball, pabi.prox.box
REFUSED = {
    "domain": [
        *(BALL(1.1), BALL(1.0, center=np.zeros(3)), BOX(-0.1, 0.1), pabi.prox.simplex(), 3),
        *(BOX([-0.1, -np.inf], [0.1, 0.0]), BOX([0.0, 0.0], [0.0, 1.0])),
    ],
    "draws": [0],
    "lipschitz": [-1.0],
    "random_state": ["x"],
    "loss_value": [
        None,
        lambda x: x,
        lambda x: np.full(len(x), np.nan),
        lambda x: np.zeros(len(x), np.float32),
        lambda x: -30.0 * x[:, 0] ** 2,
    ],
    "mechanism": [pabi.Loss.convex(1.0)],
}


def test_refusals_are_one_line_and_name_the_field():
    given = {"mechanism": mechanism(5.0, 2), "loss_value": bowl([0.0, 0.0]), "random_state": 0}
    refuses(lambda **changes: gibbs_rejection(**(given | changes), delta=1e-3), REFUSED)


def test_an_unbounded_loss_needs_its_lipschitz_constant():
    unknown = mechanism(3.0, 2, pabi.Loss.unknown(), gradient_gap=0.1)
    refused("lipschitz", gibbs_rejection, unknown, ridge, random_state=0, delta=1e-3)
    assert np.all(np.linalg.norm(draws(unknown, ridge, 100, lipschitz=3.0), axis=1) <= 1.0)
    stated = gibbs_rejection(unknown, ridge, random_state=0, delta=1e-3, lipschitz=3.0)
    assert slopes(3.0) in stated.guarantee.assumptions
    # One that curvature stands in for is as much of an assumption: steeper data is refused.
    curved = mechanism(3.0, 2, pabi.Loss.convex(1.0), gradient_gap=0.1)
    taken = gibbs_rejection(curved, bowl([0.0, 0.0]), random_state=0, delta=1e-3)
    assert slopes(2.0) in taken.guarantee.assumptions


def test_a_lipschitz_constant_below_what_the_loss_allows_is_refused():
    """What it hides of a narrow pit is missing from the draws, or found by some of them alone."""
    pit = mechanism(60.0, 1, pabi.Loss.unknown(1.0, gradient_bound=1.0))

    def touched(points):
        pytest.fail("the data was touched")

    for stated in (0.01, 1.99):  # 1 and 1·‖x‖ on the unit ball
        said = refused("lipschitz", gibbs_rejection, pit, touched, lipschitz=stated, delta=1e-3)
        assert "at least 2.0" in said
    larger = gibbs_rejection(pit, bowl([0.0]), random_state=0, lipschitz=2.5, delta=1e-3)
    assert slopes(2.5) not in larger.guarantee.assumptions


def test_what_takes_too_long_is_refused_from_public_numbers_alone():
    def never(points):
        pytest.fail("the data was touched")

    for m in (mechanism(1e4, 8), mechanism(1e3, 4, pabi.Loss.lipschitz(3.0))):
        with pytest.raises(NotApplicable, match="expected to take .* evaluations") as caught:
            gibbs_rejection(m, never, random_state=0, delta=1e-3)
        assert "\n" not in str(caught.value)
    with pytest.raises(NotApplicable):
        gibbs_rejection(mechanism(40.0, 2), never, random_state=0, delta=1e-3, most_evaluations=10)


def test_a_sharp_density_is_drawn_in_silence(capfd):
    """The cap of a disc that has to be resolved takes κ^½ boxes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        draws(mechanism(1e5, 2), lambda x: 0.5 * np.sum((x - 0.7) ** 2, axis=1), 3)
    assert capfd.readouterr() == ("", "")

"""The map from released second moments: its budget, its noise level, and what it makes of moments."""

import math

import numpy as np
import pytest

import pabi
from pabi.convert import gdp_to_epsilon
from pabi.execute.checkpoint import randomness_from
from pabi.execute.hiding import Terms
from pabi.execute.noise import rounded_normal
from pabi.execute.records import Records
from pabi.learn import plans
from support.every_case import every

EPSILON, DELTA = 0.7, 1e-5
adjacencies = every("adjacency", ["replace_one", "zero_out"])
diagonals = every("diagonal", [False, True])


def plan(n=1000, width=6, norm=1.5, **changes):
    fields = {"epsilon": EPSILON, "delta": DELTA, "adjacency": "replace_one"}
    return plans.planned(n, width, norm=norm, **fields | changes)


def moments_of(width, noise_std, *, n=1000, norm=1.5, diagonal=False):
    return pabi.NoisySecondMoments(n, width, norm, noise_std=noise_std, diagonal=diagonal)


@adjacencies
@every("width", [1, 5, plans.WIDEST, plans.WIDEST + 1, 20_000])
def test_a_share_of_the_square_of_mu_is_spent(adjacency, width):
    whole, part = (plan(width=width, adjacency=adjacency, share=s) for s in (1.0, 0.04))
    assert whole.guarantee(DELTA).epsilon(DELTA) <= EPSILON
    assert whole.guarantee(DELTA).epsilon(DELTA) >= EPSILON * (1.0 - 1e-8)
    mu = whole.guarantee(DELTA).mu
    assert part.guarantee(DELTA).mu == pytest.approx(0.2 * mu, rel=1e-12)
    # The rest for a Gaussian run is what composition leaves.
    others = plan(adjacency=adjacency, share=0.96).guarantee(DELTA)
    rest = pabi.compose(part.guarantee(DELTA), others)
    assert rest.epsilon(DELTA) == pytest.approx(gdp_to_epsilon(mu, DELTA), rel=1e-9)
    assert part.diagonal == whole.diagonal == (width > plans.WIDEST)
    assert (part.n, part.dimension, part.feature_norm) == (1000, width, 1.5)


def symmetric_noise(d, rng):
    """Of standard deviation 1 on the diagonal and √½ above it."""
    upper = np.triu(rng.standard_normal((d, d)) * math.sqrt(0.5), 1)
    return upper + upper.T + np.diag(rng.standard_normal(d))


def test_the_noise_level_is_the_largest_eigenvalue_of_noise_or_entry_of_a_diagonal():
    rng, d = np.random.default_rng(0), 600
    for noise_std in (0.3, 40.0):
        largest = np.linalg.eigvalsh(noise_std * symmetric_noise(d, rng) / (1000 * 1.5**2))[-1]
        assert plans.noise_level(moments_of(d, noise_std)) == pytest.approx(largest, rel=0.03)
    rng, d = np.random.default_rng(0), 5000
    largest = np.max(np.abs(rng.standard_normal((50, d))), axis=1) / (1000 * 1.5**2)
    level = plans.noise_level(moments_of(d, 1.0, diagonal=True))
    assert level == pytest.approx(float(np.mean(largest)), rel=0.15)


@diagonals
@every("width", [1, 2, 50, 5000])
def test_what_resolves_is_decided_by_public_numbers(width, diagonal):
    edge = plans.resolving(moments_of(width, 1.0, diagonal=diagonal))
    assert plans.resolves(moments_of(width, edge * (1.0 - 1e-9), diagonal=diagonal))
    assert not plans.resolves(moments_of(width, edge * (1.0 + 1e-9), diagonal=diagonal))
    at = moments_of(width, edge, diagonal=diagonal)
    assert plans.noise_level(at) == pytest.approx(0.5, rel=1e-12)
    assert plans.resolving(moments_of(width, 77.0, diagonal=diagonal)) == edge


def released(mean, moments):
    """Sums as they are released, of this mean over R²."""
    return moments.n * moments.feature_norm**2 * mean


@every("noise_std", [0.01, 1.0, 30.0])
def test_directions_are_divided_by_the_root_of_what_they_have_and_of_the_noise(noise_std):
    """Mean squares v become v/(v + λ), about 1 above the noise's level λ; negative ones count as zeros."""
    rng, d = np.random.default_rng(3), 6
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    values = np.array([0.5, 0.1, 5e-5, 0.0, -0.1, -0.5])
    moments = moments_of(d, noise_std)
    level = noise_std * math.sqrt(2.0 * d) / (1000 * 1.5**2)
    sums = released((basis * values) @ basis.T, moments)
    truth = (basis / np.sqrt(np.maximum(values, 0.0) + level)) @ basis.T
    P = plans.whitening(sums, moments, norm=2.0, equal=True).matrix
    np.testing.assert_allclose(P, truth, rtol=0.0, atol=1e-9 * np.max(np.abs(truth)))


def test_sums_of_squares_are_mapped_one_by_one():
    values = np.array([0.5, 1e-3, 0.0, -0.2])
    moments = moments_of(4, 2.0, diagonal=True)
    row_map = plans.whitening(released(values, moments), moments, norm=2.0, equal=True)
    level = 2.0 * math.sqrt(2.0 * math.log(8.0)) / (1000 * 1.5**2)
    truth = 1.0 / np.sqrt(np.maximum(values, 0.0) + level)
    np.testing.assert_allclose(row_map.matrix, truth, rtol=1e-12)
    assert row_map.diagonal


@diagonals
@every("values", ["zeros", "one direction", "noise alone"])
def test_odd_moments_have_a_finite_map(values, diagonal):
    d, rng = 5, np.random.default_rng(4)
    for noise_std in (1e-300, 1e-12, 1.0):
        moments = moments_of(d, noise_std, diagonal=diagonal)
        matrix = {
            "zeros": np.zeros((d, d)),
            "one direction": np.full((d, d), 0.2),
            "noise alone": noise_std * symmetric_noise(d, rng) / (1000 * 1.5**2),
        }[values]
        given_values = released(np.diag(matrix) if diagonal else matrix, moments)
        for equal in (False, True):
            row_map = plans.whitening(given_values, moments, norm=1.0, equal=equal)
            table = row_map.table(Records(np.eye(d)[:3], 1.0))
            assert np.all(np.isfinite(table))


@every("noise_std", [1e-6, 20.0])
def test_rows_that_keep_proportions_are_half_as_long_in_the_mean_square(noise_std):
    """Of exact moments; where all of them are below the noise, rows are shorter."""
    rng, d = np.random.default_rng(5), 8
    X = rng.standard_normal((1000, d)) * np.geomspace(0.4, 0.01, d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) / 1.5)[:, None]
    moments = moments_of(d, noise_std)
    row_map = plans.whitening(X.T @ X, moments, norm=3.0, equal=False)
    image = X @ row_map.matrix / row_map.unit * row_map.norm
    square = float(np.mean(np.sum(image**2, axis=1)))
    values = np.linalg.eigvalsh(X.T @ X / (1000 * 1.5**2))
    shrunk = float(np.sum(values / (values + plans.noise_level(moments))))
    assert square == pytest.approx(3.0**2 / 2.0 * shrunk / max(shrunk, 1.0), rel=1e-9)


@diagonals
def test_noise_in_the_moments_does_not_make_rows_look_longer(diagonal):
    """Without bias their mean square is half of R², also where many directions are noise."""
    rng, d, trials = np.random.default_rng(6), 12, 400
    moments = moments_of(d, 100.0, diagonal=diagonal)
    truth = np.geomspace(0.5, 1e-4, d)
    real, seen = np.empty(trials), np.empty(trials)
    for t in range(trials):
        noise = rng.standard_normal(d) if diagonal else symmetric_noise(d, rng)
        mean = 100.0 * noise / (1000 * 1.5**2) + (truth if diagonal else np.diag(truth))
        values = released(mean, moments)
        row_map = plans.whitening(values, moments, norm=1.0, equal=False, unbiased=True)
        assumed = (row_map.unit / 1.5) ** 2 / 2.0
        P = np.diag(row_map.matrix) if diagonal else row_map.matrix
        positive = np.maximum(mean if diagonal else np.linalg.eigvalsh(mean), 0.0)
        real[t] = np.trace(P @ P @ np.diag(truth)) - assumed
        seen[t] = np.sum(positive / (positive + plans.noise_level(moments))) - assumed
    assert abs(np.mean(real)) < 4.0 * np.std(real) / math.sqrt(trials)
    assert np.mean(seen) > 4.0 * np.std(seen) / math.sqrt(trials)


def noise_drawn(random_state, d=60):
    """What is drawn for a release of nothing, in units of its law, in the order in which it is drawn."""
    moments = moments_of(d, 1.0, n=10, norm=1.0)
    terms = Terms(random_state=random_state)
    values = plans.released_moments(terms, moments, Records(np.zeros((10, d)), 1.0)).values
    return np.append(np.diagonal(values), values[np.triu_indices(d, 1)] * math.sqrt(2.0))


def later(random_state, count):
    """What a training draws from the same state."""
    return randomness_from(random_state).generator().standard_normal(count)


@every("seed", [0, 1, np.int64(7), 2**40])
def test_release_and_training_draw_other_noise_from_one_seed(seed):
    drawn = noise_drawn(seed)
    training = later(seed, len(drawn))
    spread = 4.0 / math.sqrt(len(drawn))
    assert abs(np.corrcoef(drawn, training)[0, 1]) < spread
    # As the same stream would not: that of the release is `default_rng([1, seed])`.
    same = rounded_normal(np.random.default_rng([1, int(seed)]), len(drawn), 2.0**20)
    assert np.corrcoef(drawn, same)[0, 1] > 0.99
    generator = np.random.default_rng(seed)  # which goes on where the release stopped
    for one, other in (
        (noise_drawn(generator), later(generator, len(drawn))),
        (noise_drawn(None), noise_drawn(None)),
    ):
        assert abs(np.corrcoef(one, other)[0, 1]) < spread

"""Chains from log densities: what they cost and where they go, beside the same posterior stated otherwise."""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.sampling import Posterior, diffusion, from_log_density, langevin, linear_models
from pabi.sampling.chains import TAKEN
from support.every_case import every, refused, refuses

N, D, TAU = 300, 3, 12.0
rng = np.random.default_rng(5)
X = rng.uniform(-0.5, 0.5, size=(N, D))
Y = np.where(X @ [3.0, -2.0, 1.0] + rng.logistic(size=N) > 0.0, 1, -1)
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=TAU / N)
WALK = {"step_size": 1e-3, "steps": 60, "prox": pabi.prox.ball(4.0)}
BOUNDS = {"gradient_bound": 1.0, "curvature": (0.0, 0.25), "prior_curvature": (TAU, TAU)}


def logistic(x, rows):
    margin = Y[rows] * (X[rows] @ x)
    return (Y[rows] / (1.0 + np.exp(margin)))[:, None] * X[rows]


def normal(x):
    return -TAU * x


def posterior(likelihood=logistic, prior=normal, **changes):
    return from_log_density(likelihood, prior, **({"n": N} | BOUNDS | WALK | changes))


@every("adjacency", ["replace_one", "zero_out"])
@every("prox", [None, pabi.prox.ball(4.0)])
def test_it_costs_what_the_same_posterior_costs_as_a_loss(adjacency, prox):
    stated = pabi.LangevinChain(
        LOSS, n=N, inverse_temperature=N, adjacency=adjacency, **(WALK | {"prox": prox})
    )
    ours = posterior(adjacency=adjacency, prox=prox).chain
    # Curvatures are rounded outwards, so never less.
    mu = stated.guarantee(1e-5).mu
    assert mu * (1 - 1e-9) <= ours.guarantee(1e-5).mu <= mu * (1 + 1e-9)
    assert (ours.n, ours.inverse_temperature, ours.release) == (N, float(N), "last")


def test_the_gradient_is_that_of_the_density_by_differences():
    """For points of a shape of their own, and a prior that is not normal."""

    def density(x):
        margin = Y * (X @ x.ravel())
        return -np.sum(np.logaddexp(0.0, -margin)) - np.sum(np.logaddexp(x, -x))

    def shaped(x, rows):
        return logistic(x.ravel(), rows).reshape(len(rows), D, 1)

    ours = posterior(shaped, lambda x: -np.tanh(x), prior_curvature=(0.0, 1.0), prox=None)
    point, h = np.array([[0.3], [-0.7], [1.1]]), 1e-5
    for k in range(D):
        away = np.zeros((D, 1))
        away[k] = h
        slope = (density(point + away) - density(point - away)) / (2 * h)
        assert ours.gradient(point[None])[0, k, 0] == pytest.approx(-slope / N, abs=1e-8)
    assert langevin(*ours, np.zeros((D, 1))).values.shape == (1, 1, D, 1)


def test_parts_of_the_records_add_up(monkeypatch):
    points = np.random.default_rng(0).normal(size=(2, D))
    whole = posterior().gradient(points)
    monkeypatch.setattr(linear_models, "_HELD", 7 * D)
    seen = []

    def watched(x, rows):
        seen.extend(rows.tolist())
        assert len(rows) <= 7
        return logistic(x, rows)

    assert np.allclose(posterior(watched).gradient(points), whole, rtol=0.0, atol=1e-14)
    assert seen == 2 * list(range(N))


def test_a_flat_prior_adds_nothing():
    flat, points = posterior(prior=None, prior_curvature=(0.0, 0.0)), np.ones((1, D))
    assert flat.chain.loss == pabi.Loss.convex(0.25)
    added = posterior().gradient(points) - flat.gradient(points)
    assert np.allclose(added, TAU * points / N, atol=1e-12)


@every(
    "curvature, prior, loss",
    [
        ((0.5, 1.0), (0.0, 0.0), pabi.Loss.strongly_convex(0.5, 1.0)),
        ((0.0, 1.0), (N / 4, N / 2), pabi.Loss.strongly_convex(0.25, 1.5)),
        ((-0.25, 1.0), (0.0, 0.0), pabi.Loss.weakly_convex(0.25, 1.0)),
        ((-0.5, 0.25), (N / 4, N / 4), pabi.Loss.weakly_convex(0.25, 0.5)),
        ((-2.0, 0.25), (0.0, 0.0), pabi.Loss.weakly_convex(2.0, 2.0)),
        ((-0.25, 1.0), (N / 4, N / 4), pabi.Loss.convex(1.25)),
    ],
)
def test_curvatures_of_likelihood_and_prior_add_up(curvature, prior, loss):
    """Numbers that doubles add exactly."""
    assert posterior(curvature=curvature, prior_curvature=prior).chain.loss == loss


def test_a_gradient_beyond_its_bound_is_scaled_down():
    """Whatever one record says, it moves the mean gradient by at most what is accounted."""

    def wild(x, rows):
        each = logistic(x, rows)
        each[rows == 3] = 1e6
        return each

    points = np.zeros((1, D))
    ours = posterior()
    moved = posterior(wild).gradient(points) - ours.gradient(points)
    assert 0.0 < np.linalg.norm(moved) <= ours.chain.gap


def test_draws_say_what_was_taken_at_its_word():
    ours = posterior()
    assert isinstance(ours, Posterior)
    draws = langevin(*ours, np.zeros(D))
    assert TAKEN in draws.guarantee.assumptions
    assert draws.guarantee.mu == ours.chain.guarantee(1e-5).mu
    chain = replace(ours.chain, batches=pabi.Cyclic(100))
    assert "expected FullBatch" in refused("batches", langevin, chain, ours.gradient, np.zeros(D))


def test_a_gradient_of_other_records_or_of_another_bound_is_refused():
    ours = posterior()
    for changes in ({"n": 10 * N}, {"gradient_gap": 0.5 * ours.chain.gap}, {"n": 2 * N}):
        other, field = replace(ours.chain, **changes), next(iter(changes))
        assert "of the gradient" in refused(field, langevin, other, ours.gradient, np.zeros(D))
    blank = replace(ours.chain, adjacency="zero_out", gradient_gap=0.5 * ours.chain.gap)
    assert langevin(blank, ours.gradient, np.zeros(D)).chain.gap == 0.5 * ours.chain.gap


def test_diffusions_of_varying_temperature_refuse_it_too():
    """As they do a prior of another curvature than stated."""
    wrong = posterior(prior=lambda x: TAU * x)
    varying = np.array([100.0, float(N)])
    fields = {"inverse_temperature": varying, "time": 1e-3, "diameter": 8.0}
    domain = pabi.prox.ball(4.0)
    for ours, n, field in ((wrong, N, "log_prior_gradient"), (posterior(), 2 * N, "n")):
        chain = ours.chain
        stated = pabi.LangevinDiffusion(chain.loss, n, gradient_gap=chain.gap, **fields)
        refused(field, diffusion, stated, ours.gradient, np.zeros(D), domain, steps=4)


REFUSED = {
    "n": [0],
    "gradient_bound": [0.0, 1e-291, 1e301, np.inf],
    "curvature": [(1.0, 0.0), 0.25, (0.0, np.nan)],
    "prior_curvature": [(0.0, 1.0, 2.0)],
    "adjacency": ["add_remove"],
    "step_size": [0.0],
}


def test_bad_arguments_are_named():
    refuses(posterior, REFUSED)
    refused("curvature", posterior, curvature=(0.0, 0.0), prior_curvature=(0.0, 0.0))
    refused("log_likelihood_gradients", posterior, likelihood=3)
    refused("log_likelihood_gradients", posterior, likelihood=None)
    refused("log_prior_gradient", posterior, prior=3)
    # Nothing pulls, where no prior is given.
    refused("prior_curvature", posterior, prior=None)


@every(
    "prior, stated",
    [
        (lambda x: TAU * x, (TAU, TAU)),  # the other sign
        (lambda x: -TAU / N * x, (TAU, TAU)),  # of the mean
        (lambda x: -TAU * x, (0.0, 0.0)),
        (lambda x: -TAU * x * [1.0, 1.0, 1.001], (TAU, TAU)),
        (np.tanh, (0.0, 1.0)),
    ],
)
def test_a_prior_of_another_curvature_than_stated_is_refused(prior, stated):
    def never(x, rows):
        pytest.fail("the data was touched")

    ours = posterior(never, prior, prior_curvature=stated)
    for start in (np.zeros(D), np.full(D, 3.0)):
        assert "(prior_curvature)" in refused("log_prior_gradient", langevin, *ours, start)


@every("prior, stated", [(lambda x: -1e9 * x, (1e9, 1e9)), (lambda x: -np.tanh(x), (0.0, 1.0))])
def test_a_prior_of_the_stated_curvature_is_taken(prior, stated):
    ours = posterior(prior=prior, prior_curvature=stated, step_size=1e-10)
    for start in (np.zeros(D), [3e3, 0.1, -2.0]):
        assert np.isfinite(langevin(*ours, start).values).all()


@every(
    "likelihood, prior, field",
    [
        (lambda x, rows: logistic(x, rows).sum(axis=0), normal, "log_likelihood_gradients"),
        (lambda x, rows: np.full((len(rows), D), np.nan), normal, "log_likelihood_gradients"),
        (logistic, lambda x: 0.0, "log_prior_gradient"),
    ],
)
def test_what_functions_return_is_checked_and_not_shown(likelihood, prior, field):
    refused(field, langevin, *posterior(likelihood, prior), np.zeros(D))

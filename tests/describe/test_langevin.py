"""Langevin chains and diffusions: what is stored, derived, accounted against known laws, and refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import Loss
from pabi.account.analyses import mechanisms as analysis
from pabi.describe.files import from_dict, to_dict
from pabi.describe.langevin import CELLS
from pabi.numbers.errors import NotApplicable
from support.every_case import every, refused, refuses

CONVEX = Loss.convex(1.0)


def diffusion(loss=CONVEX, **changes):
    given = {"n": 100, "inverse_temperature": 2.0, "time": 1.7, "gradient_gap": 0.3}
    return pabi.LangevinDiffusion(loss, **{**given, **changes})


def chain(loss=CONVEX, **changes):
    given = {"n": 100, "inverse_temperature": 2.0, "step_size": 0.01, "steps": 50}
    return pabi.LangevinChain(loss, **{**given, "gradient_gap": 0.3, **changes})


def test_the_regulariser_counts_as_curvature():
    with_l2, strong = diffusion(Loss.convex(1.0, l2=0.5)), diffusion(Loss.strongly_convex(0.5, 1.5))
    assert with_l2.guarantee(1e-3).mu == strong.guarantee(1e-3).mu


STRONG = Loss.strongly_convex(0.5, 2.0)
EXPANDING = Loss.nonconvex(0.5)


@pytest.mark.parametrize(
    ("loss", "diameter"),
    [(STRONG, None), (STRONG, 0.4), (CONVEX, 0.7), (EXPANDING, 0.7), (EXPANDING, None)],
)
def test_fine_iterations_converge_to_the_closed_forms_from_above(loss, diameter):
    """Also where the window fits in, and where it does not."""
    for time in (0.2, 9.0):
        exact = diffusion(loss, time=time, diameter=diameter)
        closed = exact.guarantee(1e-3).mu
        coarse, fine = (exact.iteration(n).guarantee(1e-3).mu for n in (64, 1 << 15))
        assert closed <= fine * (1.0 + 1e-12)
        assert fine <= coarse * (1.0 + 1e-9)
        assert fine == pytest.approx(closed, rel=1e-6)


@pytest.mark.parametrize("diameter", [None, 0.8])
@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_fine_dissipative_chains_converge_to_the_closed_form(diameter, l2):
    """Their shifts are found numerically; the distance to the closed form falls with the step size."""
    loss, time = Loss.dissipative(0.2, 0.5, 1.0, l2=l2), 20.0
    closed = diffusion(loss, time=time, diameter=diameter).guarantee(1e-3).mu
    coarse, fine = (
        chain(loss, steps=n, step_size=time / n, diameter=diameter).guarantee(1e-3).mu
        for n in (250, 500)
    )
    assert closed < fine < coarse
    assert fine < closed * 1.03


def test_dissipative_diffusions_converge_in_time():
    """Without a set and without convexity."""
    loss = Loss.dissipative(0.2, 0.5, 1.0)
    mus = [diffusion(loss, time=t).guarantee(1e-3).mu for t in (1.0, 10.0, 100.0, 1e6)]
    assert mus[0] < mus[1] < mus[2] <= mus[3] * (1.0 + 1e-9) < 1.3
    given = {"inverse_temperature": 2.0, "gradient_gap": 0.3, "n": 100, "diameter": 50.0}
    drawn = pabi.ExponentialMechanism(loss, dimension=1, **given)
    stationary = {row.method: row.mu for row in drawn.explain(1e-3)}["Gibbs measure"]
    assert stationary == pytest.approx(mus[3], rel=1e-6)


def test_a_constant_given_in_any_form_is_the_same():
    constant = diffusion(Loss.strongly_convex(0.5, 2.0)).guarantee(1e-3).mu
    for beta in (lambda t: 2.0, np.full(7, 2.0), [2.0, 2.0]):
        found = diffusion(Loss.strongly_convex(0.5, 2.0), inverse_temperature=beta)
        assert constant <= found.guarantee(1e-3).mu <= constant * (1.0 + 1e-6)


@pytest.mark.parametrize("m", [0.0, 0.7])
@pytest.mark.parametrize(
    "beta", [lambda t: 2.0 - t, lambda t: 1.0 / (1.0 + t) ** 2, lambda t: t**1.5, lambda t: 1 + t]
)
def test_varying_temperature_is_never_below_a_quadratic(beta, m):
    """The difference of the means over the deviation, by fine quadrature."""
    time, gap = 1.7, 0.3
    t = np.linspace(0.0, time, 200_001)
    middle = 0.5 * (t[1:] + t[:-1])
    rate = np.array([beta(x) for x in middle])
    h = time / 200_000
    ahead = np.cumsum((rate * h)[::-1])[::-1] - 0.5 * rate * h
    kept = np.exp(-m * ahead)
    truth = gap * np.sum(rate * kept) * h / math.sqrt(2.0 * np.sum(kept**2) * h)
    loss = Loss.strongly_convex(m, 2.0) if m else CONVEX
    found = diffusion(loss, inverse_temperature=beta)
    assert found.guarantee(1e-3).mu >= truth * (1.0 - 1e-9)
    # Where one price serves all the time, it is exact but for the cells.
    if m and np.all(np.diff(rate / kept) <= 0.0):
        assert found.guarantee(1e-3).mu <= truth * (1.0 + 1e-4)
    path = diffusion(loss, inverse_temperature=beta, release="path").guarantee(1e-3).mu
    assert path == pytest.approx(gap * math.sqrt(0.5 * np.sum(rate**2) * h), rel=1e-4)


def test_a_function_of_time_is_assumed_monotone_between_readings():
    found = diffusion(inverse_temperature=lambda t: 1.0 + t).guarantee(1e-3)
    assert any(f"monotone on each of {CELLS} equal parts" in s for s in found.assumptions)
    array = diffusion(inverse_temperature=[1.0, 2.0]).guarantee(1e-3)
    assert not any("monotone" in s for s in array.assumptions)


def test_a_chain_is_noisy_sgd():
    found = chain(Loss.strongly_convex(0.5, 2.0))
    run = found.run
    assert run.step_size == 0.02
    assert run.n * 0.3 <= run.gradient_sensitivity <= run.n * 0.3 * (1.0 + 1e-15)
    assert (Fraction(run.step_size) * Fraction(run.noise_std)) ** 2 <= Fraction(2) * Fraction(0.01)
    assert found.step_noise_std == math.sqrt(0.02)
    it = found.iteration()
    assert float(it.step_noise_std[0]) == pytest.approx(math.sqrt(0.02), rel=1e-14)
    assert float(it.step_sensitivity[0]) == pytest.approx(0.02 * 0.3, rel=1e-14)
    assert float(it.slopes[0]) == pytest.approx(0.99, rel=1e-14)


@every(("adjacency", "factor"), [("replace_one", 2.0), ("zero_out", 1.0)])
def test_the_gap_follows_from_the_gradient_bound(adjacency, factor):
    loss = Loss.logistic(3.0)
    found = chain(loss, gradient_gap=None, adjacency=adjacency)
    assert found.gap == pytest.approx(factor * 3.0 / 100, rel=1e-15)
    stated = chain(loss, gradient_gap=found.gap, adjacency=adjacency)
    assert found.guarantee(1e-3).mu == pytest.approx(stated.guarantee(1e-3).mu, rel=1e-14)


def test_stochastic_gradients_cost_as_noisy_sgd_does():
    loss = Loss.logistic(1.0, l2=0.1)
    found = chain(loss, gradient_gap=None, batches=pabi.Cyclic(10))
    assert found.guarantee(1e-3).mu == found.run.guarantee(1e-3).mu
    assert found.guarantee(1e-3).mu > chain(loss, gradient_gap=None).guarantee(1e-3).mu


def test_what_is_wrong_is_named():
    gaps = [0.0, -0.1, math.inf, None]
    of_both = {"gradient_gap": gaps, "diameter": [0.0, -1.0], "release": ["all"]}
    temperatures = [0.0, -1.0, math.nan]
    of_chains = {"inverse_temperature": temperatures, "step_size": [0.0], "steps": [0, 1.5]}
    of_chains |= {"chains": [0], "n": [0], "adjacency": ["add_or_remove_one"], "prox": [3]}
    of_chains |= {"batches": [10], "loss": ["logistic"]}
    refuses(chain, of_both | of_chains)
    functions = [lambda t: -1.0, lambda t: math.nan, lambda t: 0.0, lambda t: "x", lambda t: 1 / t]
    temperatures = [*temperatures, [1.0, -1.0], *functions]
    refuses(diffusion, of_both | {"inverse_temperature": temperatures, "time": [0.0, math.inf]})
    refused("gradient_gap", chain, batches=pabi.Poisson(10))
    refused("inverse_temperature", to_dict, diffusion(inverse_temperature=lambda t: 1.0))


def test_several_chains_do_not_share_random_batches():
    loss = Loss.logistic(1.0)
    for batches in (
        pabi.ShuffleOnce(10),
        pabi.Poisson(10),
        pabi.FixedSize(10),
        pabi.BallsInBins(10),
    ):
        refused("chains", chain, loss, gradient_gap=None, batches=batches, chains=2)
        assert chain(loss, gradient_gap=None, batches=batches).guarantee(1e-3).epsilon(1e-3) > 0.0
    many = chain(chains=10_000).guarantee(1e-3)
    assert many.mu == pytest.approx(100.0 * chain().guarantee(1e-3).mu, rel=1e-12)
    assert any("10000 chains use independent noise" in s for s in many.assumptions)


def test_numbers_beyond_all_bounds():
    refused("inverse_temperature", chain, inverse_temperature=1e200, step_size=1e200)
    huge = diffusion(inverse_temperature=1e200, time=1e300).guarantee(1e-3)
    assert huge.epsilon(1e-3) == math.inf
    with pytest.raises(NotApplicable):
        diffusion(Loss.unknown()).iteration()


DELTA = 1e-5
GAP = 0.3  # Δ: the potentials mθ²/2 and mθ²/2 + Δθ have gradients that are so far apart
ROUNDINGS = 1e-12


def parabola(m):
    return Loss.strongly_convex(m, m)


def mu_of_last(m, betas, time):
    """μ of dθ = −β(mθ + Δ)dt + √2 dW against the same without Δ, β one of `betas` for equal parts of
    [0, time]: within one the mean tends to −Δ/m and the variance to 1/(βm), at rates βm and 2βm."""
    mean, variance = 0.0, 0.0
    for beta in betas:
        kept = math.exp(-beta * m * time / len(betas))
        mean = kept * mean + GAP / m * (1.0 - kept)
        variance = kept**2 * variance + (1.0 - kept**2) / (beta * m)
    return mean / math.sqrt(variance)


@every("time", [0.1, 1.7, 40.0])
@every("m", [0.05, 0.5, 3.0])
def test_the_last_point_of_a_parabola_is_exact(m, time):
    truth = mu_of_last(m, [2.0], time)
    mu = analysis.last_point(diffusion(parabola(m), time=time), DELTA).curve.mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + ROUNDINGS)


def test_varying_temperature_is_followed_cell_by_cell():
    betas = np.array([6.0, 3.0, 1.0, 0.5])
    truth = mu_of_last(0.5, betas, 1.7)
    mu = analysis.last_point(diffusion(parabola(0.5), inverse_temperature=betas), DELTA).curve.mu
    # Shifts are paid at a constant rate within each of thousands of cells, which costs next to nothing.
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + 1e-5)
    # While it cools, what is to be paid comes later than a parabola's shifts would pay it.
    truth = mu_of_last(0.5, betas[::-1], 1.7)
    cooling = diffusion(parabola(0.5), inverse_temperature=betas[::-1].copy())
    assert (
        truth
        <= analysis.last_point(cooling, DELTA).curve.mu
        < analysis.path(cooling, DELTA).curve.mu
    )


@every("loss", [Loss.convex(1.0), Loss.nonconvex(1.0), Loss.unknown()])
def test_the_path_is_that_of_girsanov(loss):
    """Drifts that differ by βΔ throughout: log dP/dQ is Gaussian with variance (β²Δ²/2)·T."""
    truth = 2.0 * GAP * math.sqrt(1.7 / 2.0)
    mu = analysis.path(diffusion(loss), DELTA).curve.mu
    assert truth * (1.0 - 1e-15) <= mu <= truth * (1.0 + ROUNDINGS)
    betas = np.array([0.5, 1.0, 3.0, 6.0])
    truth = GAP * math.sqrt(float(np.sum(betas**2)) / 4.0 * 1.7 / 2.0)
    mu = analysis.path(diffusion(loss, inverse_temperature=betas), DELTA).curve.mu
    assert mu == pytest.approx(truth, rel=ROUNDINGS)
    assert mu >= truth


@every(("m", "diameter"), [(0.0, 0.5), (0.0, 3.0), (0.4, 0.5), (-0.6, 0.5)])
def test_what_a_diffusion_between_walls_tends_to(m, diameter):
    loss = Loss.nonconvex(-m) if m < 0.0 else Loss.convex(1.0, l2=m)
    proven = analysis.last_point(diffusion(loss, time=1e4, diameter=diameter), DELTA)
    assert proven.curve.mu**2 == pytest.approx(
        2.0 * diameter * (2.0 * GAP - m * diameter), rel=1e-9
    )


def test_a_set_that_is_never_reached_does_not_matter():
    free = analysis.last_point(diffusion(time=0.1), DELTA).curve.mu
    assert analysis.last_point(diffusion(time=0.1, diameter=1e6), DELTA).curve.mu == free


def test_the_last_point_needs_a_hidden_path_and_a_curvature():
    for description, reason in (
        (diffusion(release="path"), "the path is released, so nothing is forgotten"),
        (diffusion(Loss.unknown()), "nothing is known of the curvature of a unknown loss"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            analysis.last_point(description, DELTA)
        assert analysis.path(description, DELTA).curve.mu > 0.0


def test_other_words_for_chains_and_mechanisms_are_answered():
    for keyword, value, mentioned in (
        ("beta", 3.0, "inverse_temperature=3.0"),
        ("temperature", 0.01, "inverse_temperature=n"),
        ("prior_precision", 10.0, "loss.with_l2("),
        ("num_samples", 10, "chains=10"),
        ("warmup", 100, "discard="),
        ("radius", 4.0, "pabi.prox.ball(4.0)"),
        ("epsilon", 1.0, "calibrate(chain, epsilon=1.0"),
    ):
        assert mentioned in refused(keyword, chain, **{keyword: value})
    assert "inverse_temperature=3.0" in refused("beta", from_dict, to_dict(chain()) | {"beta": 3.0})

    def mechanism(**changes):
        return pabi.ExponentialMechanism(CONVEX, 100, 2, 4.0, gradient_gap=0.3, **changes)

    assert "diameter=2 * 3.0" in refused("radius", mechanism, radius=3.0)
    assert "guarantee(delta=0.1)" in refused("delta", mechanism, epsilon=1.0, delta=0.1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'betas'"):
        chain(betas=3.0)

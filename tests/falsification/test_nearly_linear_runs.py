"""Runs of which only a modulus with a tiny gap is told, though they are quadratic.

A quadratic of curvature h is dissipative with κ = β = h and any λ > 0: √((1 − ηh)²δ² + 2ηλ). What is proven
of it with next to no λ is what is true of the quadratic, exactly where a record is used first: whoever
mistakes positions, lengths of batches, schedules, or the diameter, is found out. (That no more than the truth
is proven of dissipative runs is among the attacks of `test_quadratic_runs`.)
"""

from dataclasses import replace

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisySGD
from support.falsification.affine_maps import exact_mu
from support.falsification.quadratic_runs import Quadratic, random_quadratic

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

# Of λ, in units of the squared scale of the iterates: a gap of its root moves μ by about as much.
TINY = 1e-16


def nearly_linear(rng, order: str) -> Quadratic:
    """A run on quadratics of one curvature, told to be dissipative."""
    found = random_quadratic(rng, "strongly convex", order)
    curvature = float(np.max(found.curvature))
    run = found.run
    scale = np.min(np.asarray(run.step_size)) * np.min(np.asarray(run.noise_std))
    loss = Loss.dissipative(TINY * scale**2, curvature, curvature, l2=run.loss.l2)
    told = replace(run, loss=loss)
    return Quadratic(told, np.full_like(found.curvature, curvature), found.direction)


def sure(found: Quadratic) -> bool:
    """Whether the regulariser does not turn steps round, where the told modulus is not the quadratic's."""
    return float(np.max(np.asarray(found.run.step_size))) * found.run.loss.l2 < 1.0


def test_a_first_use_is_met():
    """One pass, the record in the first batch: nothing hides it but what comes after."""
    rng, seen = np.random.default_rng(1), 0
    while seen < 20:
        found = nearly_linear(rng, "cyclic")
        if not sure(found) or found.run.steps - found.run.cooldown_steps > len(found.curvature):
            continue
        seen += 1
        claim = found.run.guarantee(1e-4, position=0)
        assert claim.mu == pytest.approx(found.mu(0), rel=1e-4)


def test_the_last_position_is_met_and_the_worst():
    """Contracting steps, all alike, many epochs: a record used last costs as much as its last use at least,
    and one used first much less."""
    given = {"step_size": 0.5, "noise_std": 1.0, "gradient_sensitivity": 1.0}
    run = NoisySGD(Loss.dissipative(1e-18, 1.0, 1.0), n=4, batches=Cyclic(1), epochs=5, **given)
    found = Quadratic(run, np.ones((4, 1)), np.ones(1))
    mus = [run.guarantee(1e-4, position=j).mu for j in range(4)]
    truths = [found.mu(j) for j in range(4)]
    assert run.guarantee(1e-4).mu == pytest.approx(max(mus), rel=1e-9)
    assert max(truths) == truths[3] > 4.0 * mus[0]
    assert mus == pytest.approx(truths, rel=0.2)


def walled(rng) -> tuple[NoisySGD, float]:
    """(a run, a lower bound on its μ): the record drives the two runs to opposite walls, next to no noise;
    strong contraction, then steps of others far from the walls: 0.06·D + 8·√5·e⁻⁴·D < D/2."""
    others, diameter = int(rng.integers(1, 5)), float(rng.uniform(1.0, 5.0))
    eta = np.concatenate([[1.0, rng.uniform(0.88, 0.98)], rng.uniform(0.0, 0.2, others - 1) + 1e-3])
    noise = np.exp(rng.uniform(-6.0, -4.0, others + 1)) * diameter / eta
    noise[0] = 1e-13 * diameter  # what it moves is less than what rounding does
    curvature = 0.4
    loss = Loss.dissipative(TINY * (1e-3 * diameter) ** 2, curvature, curvature, l2=1.0 - curvature)
    run = NoisySGD(
        loss,
        n=others + 1,
        batches=Cyclic(1),
        epochs=1,
        step_size=eta,
        noise_std=noise,
        gradient_sensitivity=diameter * float(rng.uniform(1.0, 5.0)),
        diameter=diameter,
    )
    a, std = 1.0 - eta[1:], (eta * noise)[1:]
    return run, float(exact_mu(a, np.zeros(others), std, diameter))


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.nightly)])
def test_walls_are_no_nearer_than_told(count):
    rng, ratios = np.random.default_rng(count), []
    for _ in range(count):
        run, truth = walled(rng)
        if truth > 8.0:  # where total variations of 1e-14 would count
            continue
        claim = run.guarantee(1e-4, position=0)
        assert claim.mu >= truth * (1.0 - 1e-6), (claim.mu, truth, run)
        ratios.append(claim.mu / truth)
    assert min(ratios) < 1.0 + 1e-4

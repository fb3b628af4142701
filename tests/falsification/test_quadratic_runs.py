"""Random runs of noisy SGD on quadratics, against what is proven of them from the outside."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisyIteration, NoisySGD
from pabi.account.best import outcomes
from pabi.account.facts.positions import OrderedView
from pabi.account.shifts.epochs import cyclic
from support.falsification.affine_maps import exact_mu
from support.falsification.claims import EPSILONS, refuted
from support.falsification.quadratic_runs import (
    KINDS,
    ROUNDING,
    Quadratic,
    random_quadratic,
    secret_laws,
)
from support.falsification.random_batches import divergences

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


@pytest.mark.parametrize("count", [6, pytest.param(400, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_known_orders_are_never_safer_than_proven(kind, count):
    for order in ["full", "cyclic"]:
        rng = np.random.default_rng([count, *kind.encode()])
        for _ in range(count):
            found = random_quadratic(rng, kind, order)
            worst = found.run.guarantee(1e-4)
            for j in range(len(found.curvature)):
                truth = found.mu(j)
                said = found.run.guarantee(1e-4, position=j).mu if order == "cyclic" else worst.mu
                assert said >= truth * ROUNDING, (said, truth, found)
                assert worst.mu >= truth * ROUNDING, (worst.mu, truth, found)


@pytest.mark.parametrize("count", [4, pytest.param(250, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_secret_orders_are_never_safer_than_proven(kind, count):
    for order in ["shuffled", "reshuffled"]:
        rng = np.random.default_rng([count, *kind.encode()])
        for _ in range(count):
            found = random_quadratic(rng, kind, order)
            truth = divergences(*secret_laws(found), EPSILONS, math.inf).max(axis=0)
            guarantee = found.run.guarantee(float(10 ** rng.uniform(-6, -1)))
            assert not refuted(truth, guarantee), found


def one_pass(rng, kind: str) -> Quadratic:
    """A pass, or a part of one, in which every batch has the curvature that stretches the most."""
    while True:
        found = random_quadratic(rng, kind, "cyclic")
        if found.run.steps - found.run.cooldown_steps <= len(found.curvature):
            break
    run, (batches, d) = found.run, found.curvature.shape
    lo, hi = run.loss.curvature
    eta = np.broadcast_to(run.step_size, run.steps)
    worst = []
    for k in range(batches):
        fraction = (
            run.n - k * run.batch_size if k == batches - 1 else run.batch_size
        ) / run.batch_size
        size = eta[min(k, run.steps - 1)]
        worst.append(
            max((lo, hi), key=lambda h, f=fraction, e=size: abs(1 - e * (run.loss.l2 + f * h)))
        )
    return replace(found, curvature=np.tile(np.array(worst)[:, None], (1, d)))


@pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS[:4])
def test_one_pass_is_met_exactly(kind, count):
    """A record used in the first step only: no noise comes before it, and what the steps after it do,
    contract, expand or turn round, is known."""
    rng = np.random.default_rng([count, *kind.encode()])
    for _ in range(count):
        found = one_pass(rng, kind)
        guarantee = found.run.guarantee(1e-4, position=0)
        assert guarantee.mu == pytest.approx(found.mu(0), rel=1e-9, abs=0.0)
        assert guarantee.mu >= found.mu(0) * ROUNDING


def test_a_thousandth_more_noise_is_caught():
    for kind in KINDS[:4]:
        rng = np.random.default_rng(1)
        found = one_pass(rng, kind)
        louder = replace(found.run, noise_std=np.asarray(found.run.noise_std) * 1.001)
        assert louder.guarantee(1e-4, position=0).mu < found.mu(0), kind


def test_the_mixture_of_a_single_batch_is_the_gaussian():
    rng = np.random.default_rng(2)
    for order in ("shuffled", "reshuffled"):
        found = random_quadratic(rng, "convex", order)
        while len(found.curvature) > 1 or found.run.batches.spare:
            found = random_quadratic(rng, "convex", order)
        p, q = secret_laws(found)
        assert abs(q.means - p.means) / p.std == pytest.approx(
            [found.mu(0)] * len(p.means), rel=1e-12
        )


def test_full_batches_of_constant_slope_are_exact():
    """The equality case of Bok, Su, Altschuler 2024, Thm 4.2."""
    for c, t in itertools.product([0.3, 0.9, 0.99, 1.0], [1, 5, 300]):
        s, sigma = 0.37, 1.3
        truth = exact_mu(np.full(t, c), np.full(t, s), np.full(t, sigma))
        found = NoisyIteration(c, s, sigma, steps=t).guarantee(1e-4)
        assert found.mu == pytest.approx(truth, rel=1e-9, abs=0.0), (c, t)


# Runs, and the same with curvature, sensitivity and noise written out, as the attacks above have them.
PLAIN = {"n": 37, "batches": Cyclic(10), "epochs": 6, "step_size": 0.3}
PLAIN |= {"noise_std": 0.2, "gradient_sensitivity": 2.0, "cooldown_steps": 3}
CONVEX = Loss.convex(2.0, gradient_bound=1.0)
SAME = [
    ({"loss": CONVEX}, {}),
    ({"loss": CONVEX, "adjacency": "zero_out"}, {"gradient_sensitivity": 1.0}),
    (
        {"loss": Loss.logistic(3.0, l2=0.05), "clip_norm": 0.5},
        {"loss": Loss.convex(9.0 / 4.0, l2=0.05), "gradient_sensitivity": 1.0},
    ),
    (
        {"loss": Loss.logistic(0.5), "clip_norm": 2.0},
        {"loss": Loss.convex(0.25 / 4.0), "gradient_sensitivity": 1.0},
    ),
    (
        {"loss": Loss.logistic(2.0), "clip_norm": 0.25, "noise_std": None, "noise_multiplier": 1.5},
        {"loss": Loss.convex(1.0), "gradient_sensitivity": 0.5, "noise_std": 1.5 * 0.25 / 10},
    ),
    ({"loss": CONVEX, "noise_std": None, "noise_multiplier": 4.0}, {"noise_std": 0.4}),
]


def test_what_follows_from_a_description_is_what_is_attacked():
    for described, written in SAME:
        run = NoisySGD(**PLAIN | {"gradient_sensitivity": None} | described)
        same = NoisySGD(**PLAIN | {"loss": Loss.convex(2.0)} | written)
        for position in (None, 0, 2, 3):
            mus = [
                one.guarantee.mu
                for each in (run, same)
                for one in outcomes(each, 1e-4, position)
                if one.name == "shifted interpolation"
            ]
            assert mus == pytest.approx([mus[0]] * 2, rel=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [100, 2000, 20_000])
def test_long_epochs_of_expanding_steps(n):
    """Slopes 1.1 over a whole epoch: 1.1^20000 is far beyond doubles, the truth is of order one."""
    for varying in [False, True]:
        t = 3 * n
        given = {"steps": t, "step_size": np.full(t, 0.1) if varying else 0.1, "noise_std": 1.0}
        run = NoisySGD(Loss.nonconvex(1.0, gradient_bound=1.0), n=n, batches=Cyclic(1), **given)
        # The last of its uses alone: shift 2η, then n − 1 − j steps; the earlier ones start from zero.
        for found, rest in zip(cyclic(OrderedView(run), [0, n - 1]), (n - 1, 0), strict=True):
            used_last = math.sqrt(4.0 * (1 - 1.1**-2) / (1 - 1.1 ** -min(2.0 * (rest + 1), 600.0)))
            assert found.mu >= used_last * (1 - 1e-9), varying
            assert found.mu <= math.sqrt(3.0) * 2.0 * (1 + 1e-9), varying  # composition


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [100, 2000, 20_000])
def test_long_epochs_of_contracting_steps(n):
    t = 3 * n
    loss = Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0)
    eta = np.linspace(0.1, 0.1001, t)
    run = NoisySGD(loss, n=n, batches=Cyclic(1), steps=t, step_size=eta, noise_std=1.0)
    for found, j in zip(cyclic(OrderedView(run), [0, n - 1]), (0, n - 1), strict=True):
        d = np.zeros(t)
        d[j::n] = eta[j::n] * 2.0
        assert found.mu >= exact_mu(1.0 - eta, d, eta) * (1 - 1e-11)
        assert math.isfinite(found.mu)

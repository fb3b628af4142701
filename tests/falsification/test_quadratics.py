"""What is proven must not fall below what is exactly true of quadratic losses.

On quadratics every step is affine, X ← a_k·X + (shift) + noise, so the last iterates of two
adjacent runs are Gaussians of equal covariance whose means differ by Σ W_k·d_k, W_k the product of
the later a_j: per coordinate, μ² = (Σ W_k·d_k)²/Σ W_k²σ_k². This file computes that from its own
reading of the algorithm and never from the library's.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from pabi.account.facts.positions import OrderedView
from pabi.account.shifts.epochs import cyclic, energy_of, mu_of, record, solve_schedule
from pabi.describe.batches import Cyclic, FullBatch, ShuffleOnce
from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from support.falsification.affine_maps import exact_mu

ROUNDING = 1.0 - 1e-13  # of the few hundred additions in the truth below


def worst_signs(a, s):
    """The shifts ±s whose effects on the last iterate all add up."""
    w = np.ones_like(a)
    w[..., :-1] = np.cumprod(a[..., :0:-1], axis=-1)[..., ::-1]
    return np.where(w < 0.0, -s, s)


def test_full_batches_of_constant_slope_are_exact():
    """The equality case of Bok, Su, Altschuler 2024, Thm 4.2."""
    for c, t in itertools.product([0.3, 0.9, 0.99, 1.0], [1, 5, 300]):
        s, sigma = 0.37, 1.3
        truth = exact_mu(np.full(t, c), np.full(t, s), np.full(t, sigma))
        it = NoisyIteration(c, s, sigma, steps=t)
        _, shifts = solve_schedule(it.schedule, math.inf)
        assert mu_of(energy_of(shifts)) == pytest.approx(truth, rel=1e-9, abs=0.0), (c, t)


def test_full_batch_runs_are_exact():
    for adjacency in ["replace_one", "zero_out"]:
        run = NoisySGD(
            Loss.strongly_convex(0.3, 2.0, l2=0.1, gradient_bound=3.0),
            n=50,
            batches=FullBatch(),
            epochs=70,
            step_size=0.2,
            noise_std=0.4,
            adjacency=adjacency,
        )
        sensitivity = 6.0 if adjacency == "replace_one" else 3.0
        a = np.full(70, 1.0 - 0.2 * (0.3 + 0.1))
        truth = exact_mu(a, np.full(70, 0.2 * sensitivity / 50), np.full(70, 0.2 * 0.4))
        assert record(OrderedView(run), OrderedView(run).uses(0)).mu == pytest.approx(
            truth, rel=1e-9, abs=0.0
        )


# Runs of noisy SGD.


def simulate(run, position, curvature, sensitivity, noise):
    """(slopes, shifts, noises) of a record in batch `position`; curvature (t,) of each batch.

    Written from the description: batch k mod l of records in order, each sum over `size`, the
    regulariser at every step, cool-down steps without data at the end.
    """
    n, b = run.n, getattr(run.batches, "size", run.n)
    per_epoch = -(-n // b)
    t, data = run.steps, run.steps - run.cooldown_steps
    eta = np.broadcast_to(np.asarray(run.step_size, dtype=float), t)
    noise = np.broadcast_to(np.asarray(noise, dtype=float), t)
    a, d = np.empty(t), np.zeros(t)
    for k in range(t):
        batch = k % per_epoch
        if k >= data:
            records = 0
        else:
            records = min(n, (batch + 1) * b) - batch * b
            if batch == position:
                d[k] = eta[k] * sensitivity / b
        a[k] = 1.0 - eta[k] * (run.loss.l2 + curvature[k] * records / b)
    return a, d, eta * noise


_CONSTANT = {"epochs": 6, "step_size": 0.3, "noise_std": 0.2}
CONSTANT = NoisySGD(Loss.convex(2.0, gradient_bound=1.0), n=40, batches=Cyclic(10), **_CONSTANT)


def varied(**changes):
    return dataclasses.replace(CONSTANT, **changes)


def schedule(run, **which):
    """`run` with arrays in place of numbers; a function of the step each."""
    k = np.arange(run.steps)
    return dataclasses.replace(run, **{name: f(k) for name, f in which.items()})


SHORT = varied(n=37, batches=Cyclic(10))  # the last batch has 7 records
STRONG = Loss.strongly_convex(0.2, 2.0, gradient_bound=1.0)
NONCONVEX = Loss.nonconvex(1.0, gradient_bound=1.0)

RUNS = {
    "cyclic": CONSTANT,
    "full batch": varied(batches=FullBatch(), epochs=20),
    "short last batch": SHORT,
    "short last batch, strongly convex": dataclasses.replace(SHORT, loss=STRONG),
    "batch of one left over": varied(n=31, batches=Cyclic(10), loss=STRONG),
    "partial epoch": varied(epochs=None, steps=22),
    "partial epoch, short last batch": dataclasses.replace(SHORT, epochs=None, steps=22),
    "less than an epoch": varied(epochs=None, steps=3),
    "fractional epochs": varied(epochs=2.4, loss=STRONG),
    "cool-down": varied(cooldown_steps=9),
    "cool-down, l2": varied(cooldown_steps=9, loss=STRONG.with_l2(0.4)),
    "cool-down, steps, short": dataclasses.replace(
        SHORT, epochs=None, steps=30, cooldown_steps=5, loss=STRONG.with_l2(0.1)
    ),
    "l2": varied(loss=CONSTANT.loss.with_l2(0.5)),
    "zero_out": varied(adjacency="zero_out", loss=STRONG),
    "large steps": varied(step_size=1.3, loss=STRONG),
    "large steps, short": dataclasses.replace(SHORT, step_size=1.3, loss=STRONG, cooldown_steps=3),
    "step that inverts": varied(
        step_size=0.9, loss=Loss.strongly_convex(2.0, 2.0, gradient_bound=1.0)
    ),
    "nonconvex": varied(loss=NONCONVEX),
    "nonconvex, short, cool-down": dataclasses.replace(
        SHORT, loss=NONCONVEX.with_l2(0.3), cooldown_steps=4
    ),
    "weakly convex": varied(loss=Loss.weakly_convex(0.1, 2.0, gradient_bound=1.0)),
    "clipped": varied(loss=Loss.logistic(3.0, l2=0.05), clip_norm=0.5),
    "clipped above the bound": varied(loss=Loss.logistic(0.5), clip_norm=2.0),
    "clipped, noise multiplier": varied(
        loss=Loss.logistic(2.0), clip_norm=0.25, noise_std=None, noise_multiplier=1.5
    ),
    "noise multiplier without clip": varied(noise_std=None, noise_multiplier=4.0),
    "given sensitivity": varied(loss=Loss.convex(2.0), gradient_sensitivity=0.7),
    "one batch": varied(batches=Cyclic(40), loss=STRONG),
    "batches of one": varied(n=12, batches=Cyclic(1), loss=STRONG),
    "shuffle once": varied(batches=ShuffleOnce(10), loss=STRONG),
    "falling steps": schedule(CONSTANT, step_size=lambda k: 0.4 / (1.0 + 0.3 * k)),
    "rising steps": schedule(CONSTANT, step_size=lambda k: 0.01 * (1 + k)),
    "changing noise": schedule(
        dataclasses.replace(SHORT, loss=STRONG),
        noise_std=lambda k: 0.1 + 0.3 * (k % 3),
        step_size=lambda k: 0.1 + 0.2 * (k % 5 == 0),
    ),
    "changing multiplier": schedule(
        varied(epochs=None, steps=23, cooldown_steps=2, noise_std=None),
        noise_multiplier=lambda k: 2.0 + np.sin(k),
    ),
    "schedule, cool-down, short, expanding": schedule(
        dataclasses.replace(SHORT, loss=NONCONVEX, epochs=None, steps=27, cooldown_steps=6),
        step_size=lambda k: 0.3 + 0.2 * np.cos(k),
    ),
    "an early use is the worst": schedule(
        varied(n=2, batches=Cyclic(1), epochs=2),
        step_size=lambda k: np.array([1.0, 0.1, 0.09, 0.01])[k],
    ),
}

# The sensitivity of a batch's gradient sum, and the noise, where they differ from the usual.
SENSITIVITY = {
    "zero_out": 1.0,
    "clipped": 1.0,
    "clipped above the bound": 1.0,
    "clipped, noise multiplier": 0.5,
    "given sensitivity": 0.7,
}
NOISE = {
    "clipped, noise multiplier": 1.5 * 0.25 / 10,
    "noise multiplier without clip": 4.0 * 1.0 / 10,
    "changing multiplier": (2.0 + np.sin(np.arange(23))) * 1.0 / 10,
}
CURVATURE = {
    "clipped": (0.0, 9.0 / 4),
    "clipped above the bound": (0.0, 0.25 / 4),
    "clipped, noise multiplier": (0.0, 1.0),
    "step that inverts": (2.0, 2.0),
    "weakly convex": (-0.1, 2.0),
}


def curvature_of(name, run):
    known = {"convex": (0.0, 2.0), "strongly_convex": (0.2, 2.0), "nonconvex": (-1.0, 1.0)}
    return CURVATURE.get(name) or known[run.loss.kind]


def truths(name, run, position):
    """The exact μ of several quadratics: all batches at lo, at hi, between, and each at either."""
    lo, hi = curvature_of(name, run)
    sensitivity = SENSITIVITY.get(name, 2.0)
    noise = NOISE.get(name, run.noise_std)
    rng = np.random.default_rng(position)
    t = run.steps
    patterns = [np.full(t, lo), np.full(t, hi), np.full(t, 0.5 * (lo + hi))]
    patterns += [rng.choice([lo, hi], t) for _ in range(20)]
    for curvature in patterns:
        a, d, sigma = simulate(run, position, curvature, sensitivity, noise)
        yield exact_mu(a, d, sigma)
        yield exact_mu(a, worst_signs(a, d), sigma)


def proven_mu(iteration):
    diameter = math.inf if iteration.diameter is None else iteration.diameter
    _, shifts = solve_schedule(iteration.schedule, diameter, iteration.start)
    return mu_of(energy_of(shifts))


def test_runs_are_never_safer_than_proven():
    for name in RUNS:
        run = RUNS[name]
        view = OrderedView(run)
        size = getattr(run.batches, "size", run.n)
        positions = range(-(-run.n // size))
        bounds = cyclic(view)
        assert len(bounds) == len(positions), name
        worst = proven_mu(run.iteration())
        for j in positions:
            proven = [record(view, view.uses(j)).mu, bounds[j].mu]
            if run.batches.kind in ("full_batch", "cyclic"):
                proven.append(proven_mu(run.iteration(j)))
            best = max(truths(name, run, j))
            assert min(proven) >= best * ROUNDING, name
            assert max(proven) == pytest.approx(min(proven), rel=1e-9, abs=0.0), name
            assert worst >= min(proven) * (1 - 1e-9), name
            if j * size >= run.n or j >= run.steps - run.cooldown_steps:
                assert max(proven) == 0.0, name


def test_runs_whose_worst_record_is_known_are_met():
    """Nonexpansive, alike steps: a quadratic of the least slope comes within a small factor."""
    for name in ["full batch", "step that inverts", "one batch", "batches of one", "cyclic"]:
        run = RUNS[name]
        j = -(-run.n // getattr(run.batches, "size", run.n)) - 1
        ratio = proven_mu(run.iteration()) / max(truths(name, run, j))
        exact = name in ("full batch", "one batch")
        assert 1.0 - 1e-13 <= ratio < (1.0 + 1e-9 if exact else 2.0), name


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [100, 2000, 5000, 10_000, 20_000])
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
    run = NoisySGD(
        Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0),
        n=n,
        batches=Cyclic(1),
        steps=t,
        step_size=np.linspace(0.1, 0.1001, t),
        noise_std=1.0,
    )
    first, last = cyclic(OrderedView(run), [0, n - 1])
    eta = run.step_size
    for found, j in ((first, 0), (last, n - 1)):
        d = np.zeros(t)
        d[j::n] = eta[j::n] * 2.0
        assert found.mu >= exact_mu(1.0 - eta, d, eta) * (1 - 1e-11)
        assert math.isfinite(found.mu)

"""Cyclic noisy SGD with clipped gradients and proximal steps on weakly convex losses (Kong and Ribero)."""

import math

import numpy as np
import pytest

from pabi import Cyclic, Loss, NoisyIteration, NoisySGD, prox
from pabi.account.best import outcomes
from pabi.learn import train
from support.every_case import every

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

DELTA = 1e-5
LOSS = Loss.weakly_convex(0.25, 1.0)


class Robust:
    """Gradients Aᵀρ′(Ax − y) of `n` records in `shape`, noted as they are asked for."""

    def __init__(self, n, shape, seed=0, scale=1.0):
        rng, d = np.random.default_rng(seed), math.prod(shape)
        rows = rng.normal(size=(n, 3, d))
        self.rows = rows / np.linalg.norm(rows, ord=2, axis=(1, 2))[:, None, None]
        self.targets = scale * rng.normal(size=(n, 3))
        self.shape, self.asked = shape, []

    def one(self, x, i):
        r = self.rows[i] @ np.ravel(x) - self.targets[i]
        return (self.rows[i].T @ (r / (1.0 + r * r) ** 2)).reshape(self.shape)

    def __call__(self, x, rows):
        self.asked.append(rows.tolist())
        return np.array([self.one(x, i) for i in rows])


def soft(x, t):
    return np.sign(x) * np.maximum(np.abs(x) - t, 0.0)


def spectral_soft(x, t):
    u, s, v = np.linalg.svd(x, full_matrices=False)
    return (u * np.maximum(s - t, 0.0)) @ v


MAPS = {
    "l1": (prox.l1(0.3), (5,), lambda x, eta: soft(x, 0.3 * eta)),
    "elastic net": (
        prox.elastic_net(0.2, 0.5),
        (5,),
        lambda x, eta: soft(x, 0.2 * eta) / (1.0 + 0.5 * eta),
    ),
    "nuclear norm": (prox.nuclear_norm(0.3), (3, 4), lambda x, eta: spectral_soft(x, 0.3 * eta)),
    "ball": (
        prox.ball(0.5),
        (5,),
        lambda x, eta: x * min(1.0, 0.5 / max(float(np.linalg.norm(x)), 1e-300)),
    ),
}


def run_of(name="l1", **changes):
    given = {"loss": LOSS, "n": 11, "batches": Cyclic(4), "epochs": 3, "step_size": 0.4}
    given |= {"noise_std": 0.3, "clip_norm": 0.25, "prox": MAPS[name][0]}
    return NoisySGD(**{**given, **changes})


def by_hand(run, data, x, mapped, seed):
    """The last iterate of a plain loop with the same noise."""
    noise, x = np.random.default_rng(seed), np.array(x, dtype=float)
    steps = np.broadcast_to(run.step_size, run.steps)
    stds = np.broadcast_to(run.noise_std, run.steps)
    for k in range(run.steps):
        total = np.zeros_like(x)
        if k < run.steps - run.cooldown_steps:
            first = (k % 3) * 4
            for i in range(first, min(first + 4, run.n)):
                g = data.one(x, i)
                if run.clipping == "norm":
                    g = g * min(1.0, run.clip_norm / np.linalg.norm(g))
                else:
                    most = run.clip_norm / math.sqrt(g.size)
                    g = np.minimum(np.maximum(g, -most), most)
                total += g
        xi = stds[k] * noise.standard_normal(x.shape)
        x = mapped(x - steps[k] * (total / 4.0 + run.loss.l2 * x + xi), steps[k])
    return x


@every(
    "changes",
    [
        {},
        {"clipping": "coordinates"},
        {"loss": LOSS.with_l2(0.2), "cooldown_steps": 2},
        {"epochs": None, "steps": 7, "step_size": np.linspace(0.5, 0.1, 7)},
        {"noise_std": 1e-8},
    ],
)
@every("name", MAPS)
def test_every_step_is_the_described_one(name, changes):
    """The last step is rounded to a grid of up to 2⁻¹⁹ of its noise, by half of that in every coordinate,
    which a nonexpansive map does not enlarge. Clipping leaves room for roundings, below 10⁻¹³ a step, which
    steps that stretch by less than 1.2 enlarge to less than 10⁻¹⁰ over eleven of them."""
    run, (_, shape, mapped) = run_of(name, **changes), MAPS[name]
    data, start = Robust(11, shape, scale=3.0), np.full(shape, 0.4)
    out = train(run, data, start, np.random.default_rng(5)).x
    wanted = by_hand(run, data, start, mapped, 5)
    last = float(np.broadcast_to(run.step_size, run.steps)[-1])
    grid = last * float(np.max(run.noise_std)) * 2.0**-20 * math.sqrt(out.size)
    assert np.linalg.norm(out - wanted) <= grid + 1e-10
    assert np.linalg.norm(out - start) > 1e-2
    per_epoch = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert data.asked == (per_epoch * 5)[: run.data_steps]


def accounted(**changes):
    return run_of("l1", **{"n": 40, "epochs": 30, "step_size": 0.02, "noise_std": 1.0} | changes)


def by_method(run, name):
    return {o.name: o.guarantee for o in outcomes(run, DELTA)}[name]


def test_the_guarantee_rests_on_the_slope_of_clipped_steps():
    run = accounted()
    eta, m, big = 0.02, 0.25, 1.0
    q = np.linspace(0.0, 1.0, 100_001)
    x = 1 + eta * m - eta * (big + m) * q
    total = x * x + (eta * (big + m)) ** 2 * q * (1 - q) + 1
    slope = math.sqrt(float(np.max(total + np.sqrt(np.maximum(total**2 - 4 * x * x, 0)))) / 2)
    uses = np.where(np.arange(run.steps) % 10 == 9, eta * 2 * 0.25 / 4, 0.0)

    def by_slope(c):
        return NoisyIteration(c, uses, eta * 1.0, steps=run.steps).guarantee(DELTA).mu

    shifted = by_method(run, "shifted interpolation")
    # The grid of q is 10⁻⁵ fine around a smooth maximum; the slope acts for 300 steps.
    assert shifted.mu == pytest.approx(by_slope(slope), rel=1e-6)
    assert shifted.mu > by_slope(1.0 + eta * m) * 1.0001 > by_slope(1.0)
    best = run.guarantee(DELTA)
    assert by_slope(1.0) < best.mu <= shifted.mu
    assert best.mu < by_method(run, "composition").mu
    # Were clipping harmless, less would do: it is not for these losses.
    glm = accounted(loss=Loss.weakly_convex(0.25, 1.0, glm=True)).guarantee(DELTA)
    convex = accounted(loss=Loss.convex(1.0, glm=True)).guarantee(DELTA)
    assert best.mu > glm.mu > convex.mu
    assert convex.mu == pytest.approx(by_slope(1.0), rel=1e-9)


def test_records_of_any_size_move_a_step_by_no_more_than_their_bound():
    """Adversarial gradients, among them alternating and largest doubles, through the trainer itself."""
    run = run_of(clipping="coordinates", prox=None, epochs=1, noise_std=1e-9, step_size=1.0)
    for scale in (1e-160, 1e-3, 1.0, 1e5, 1e160, 1.7e308):

        def gradients(x, rows, scale=scale):
            signs = np.where((rows[:, None] + np.arange(5)) % 2 == 0, 1.0, -1.0)
            return scale * signs * np.where(rows == 2, 1.0, 0.0)[:, None]

        out = train(run, gradients, np.zeros(5), np.random.default_rng(0)).x
        # Three steps of noise 10⁻⁹ in five coordinates stay below 10⁻⁷.
        assert np.linalg.norm(out) <= 0.25 / 4.0 + 1e-7
        if scale >= 1.0:
            assert np.abs(out) == pytest.approx(np.full(5, 0.25 / 4.0 / math.sqrt(5.0)), abs=1e-7)


def test_a_promised_bound_does_not_clip_harder():
    """Coordinates are clipped to clip_norm/√d, as the description says, whatever else bounds the norm: a
    gradient of one coordinate that keeps its promise is left alone."""
    loss = Loss.convex(1.0, gradient_bound=1.0, separable=True)
    run = run_of(
        loss=loss, clip_norm=4.0, clipping="coordinates", prox=None, epochs=1, noise_std=1e-9
    )

    def gradients(x, rows):
        return np.where(rows == 0, -0.9, 0.0)[:, None] * np.eye(1, 16)

    out = train(run, gradients, np.zeros(16), np.random.default_rng(0)).x
    assert out[0] == pytest.approx(0.4 * 0.9 / 4.0, abs=1e-7)

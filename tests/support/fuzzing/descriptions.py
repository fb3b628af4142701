"""Random descriptions of trainings, each a pure function of a seed: usual ones, and those at the edges.

Edges are a record or a step alone, step sizes next to where a step stops shrinking distances, schedules of
every shape, and numbers that are far too small or too large.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import pabi
from pabi import Loss

# The share of random batches. Answers and their checks take most of the time there: with fewer of them there
# is room for many more questions of all other kinds.
SAMPLED = 0.1


def amount(rng: random.Random, low: float, high: float) -> float:
    """Logarithmically uniform, at times round, and seldom far out."""
    if rng.random() < 0.02:
        return rng.choice((1e-12, 1e-6, 1e6, 1e12))
    if rng.random() < 0.05:
        return 10.0 ** rng.uniform(-6.0, 6.0)
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return float(f"{value:.1g}") if rng.random() < 0.3 else value


def _losses(rng: random.Random) -> dict[str, Callable[[], Loss]]:
    """A loss of every kind."""
    one, two = amount(rng, 0.1, 10.0), amount(rng, 0.1, 10.0)
    l2 = rng.choice((0.0, 0.0, amount(rng, 1e-3, 1.0)))
    bound = rng.choice((None, amount(rng, 0.1, 10.0)))
    glm = rng.random() < 0.5
    separable = rng.random() < 0.2
    word = {"gradient_bound": bound, "glm": glm, "separable": separable}
    return {
        "logistic": lambda: Loss.logistic(one, l2),
        "softmax": lambda: Loss.softmax(one, l2, rng.choice((None, rng.uniform(0.01, 1.0)))),
        "one_vs_rest": lambda: Loss.one_vs_rest(
            one, rng.randint(2, 5), rng.choice((None, two)), l2
        ),
        "vector_huber": lambda: Loss.vector_huber(one, two, l2),
        "squared": lambda: Loss.squared(one, two, l2),
        "huber": lambda: Loss.huber(one, two, l2),
        "smoothed_hinge": lambda: Loss.smoothed_hinge(one, two, l2),
        "poisson": lambda: Loss.poisson(one, two, rng.uniform(0.0, 5.0), l2),
        "gamma": lambda: Loss.gamma(one, two, l2),
        "convex": lambda: Loss.convex(one, l2, **word),
        "strongly_convex": lambda: Loss.strongly_convex(min(one, two), max(one, two), l2, **word),
        "nonconvex": lambda: Loss.nonconvex(one, l2, **word),
        "weakly_convex": lambda: Loss.weakly_convex(one, two, l2, **word),
        "lipschitz": lambda: Loss.lipschitz(one, l2),
        "weakly_smooth": lambda: Loss.weakly_smooth(
            [(rng.random(), one)], l2, gradient_bound=bound
        ),
        "holder": lambda: Loss.holder(rng.uniform(0.1, 1.0), one, l2, **word),
        "dissipative": lambda: Loss.dissipative(one, two, amount(rng, 0.1, 10.0), l2),
        "saddle": lambda: Loss.saddle(one, two, l2),
        "unknown": lambda: Loss.unknown(l2, gradient_bound=bound),
    }


def a_loss(rng: random.Random) -> Loss:
    """Of any kind. Raises InvalidInput where it is none."""
    return rng.choice(list(_losses(rng).values()))()


def batches_of(rng: random.Random, n: int) -> Callable[[], Any]:
    """Of any kind, made when they are called for."""
    size = rng.randint(1, n) if rng.random() < 0.98 else n + 1
    cap = rng.choice((None, None, size + rng.randint(0, 3)))
    spare = 0 if rng.random() < 0.6 else rng.randint(0, max(0, n - size))
    ordered = (
        pabi.FullBatch,
        lambda: pabi.Cyclic(size),
        lambda: pabi.ShuffleOnce(size, spare),
        lambda: pabi.Reshuffle(size, spare),
    )
    sampled = (
        lambda: pabi.FixedSize(size),
        lambda: pabi.Poisson(size, cap),
        lambda: pabi.BallsInBins(size, cap, redraw=rng.choice(("once", "epoch"))),
    )
    return rng.choice(sampled if rng.random() < SAMPLED else ordered)


def a_prox(rng: random.Random) -> Any:
    """Most often None."""
    size = amount(rng, 0.1, 10.0)
    makes = (
        lambda: pabi.prox.ball(size),
        lambda: pabi.prox.box(-size, size),
        lambda: pabi.prox.simplex(),
        lambda: pabi.prox.l1(size),
        lambda: pabi.prox.l2(size),
        lambda: pabi.prox.elastic_net(size, size / 2.0),
        lambda: pabi.prox.halfspace([1.0, -size], size),
        lambda: pabi.prox.nuclear_norm(size),
    )
    return rng.choice(makes)() if rng.random() < 0.3 else None


def _step_size(rng: random.Random, loss: Loss) -> float:
    """Usual, tiny, or next to where a step of this loss shrinks no more, or to where its regulariser does."""
    chance = rng.random()
    if chance < 0.7:
        return amount(rng, 0.01, 1.0)
    if chance < 0.85:
        return 10.0 ** rng.uniform(-8.0, 0.0)
    low, high = loss.curvature or (0.0, amount(rng, 0.1, 10.0))
    steepest = max(high + loss.l2, -low)
    if rng.random() < 0.2 and loss.l2:
        edge = 1.0 / loss.l2
    else:
        edge = rng.choice((1.0, 2.0, 2.0, 2.0 / (1.0 + max(low, 0.0) / steepest))) / steepest
    beyond = rng.choice((0.0, 1e-15, 1e-9, 1e-3, 0.1, 1.0))
    return edge * rng.choice((1.0 + beyond, 1.0 / (1.0 + beyond)))


def _edges(rng: random.Random) -> dict[str, Any]:
    """Fields that few runs have."""
    some = {
        "gradient_sensitivity": lambda: amount(rng, 0.1, 10.0),
        "diameter": lambda: amount(rng, 0.1, 10.0),
        "cooldown_steps": lambda: rng.randint(1, 5),
        "release": lambda: "path",
        "unit": lambda: "user",
        "update": lambda: rng.choice((pabi.updates.Momentum(), pabi.updates.Adam(), "other")),
        "rounding": lambda: rng.choice((1e-12, 1e-6, 1e-2, 1.0, rng.random())),
    }
    return {name: value() for name, value in some.items() if rng.random() < 0.13}


def described(seed: int) -> pabi.NoisySGD:
    """The description of this seed. Raises InvalidInput where it is none."""
    rng = random.Random(seed)
    n = 1 if rng.random() < 0.05 else rng.randint(2, 20)
    batches = batches_of(rng, n)()
    loss = a_loss(rng)
    clip = rng.choice((None, None, amount(rng, 0.1, 10.0)))
    steps = rng.choice((1, rng.randint(1, 40)))
    fields: dict[str, Any] = {
        "n": n,
        "batches": batches,
        **({"steps": steps} if rng.random() < 0.15 else {"epochs": rng.choice((1, 2, 3, 4, 2.5))}),
        "step_size": _step_size(rng, loss),
        rng.choice(("noise_std", "noise_multiplier")): amount(rng, 0.3, 10.0),
        "clip_norm": clip,
        "adjacency": rng.choice(("replace_one", "zero_out")),
        "prox": a_prox(rng),
        **_edges(rng),
    }
    if clip is not None and rng.random() < 0.4:
        fields["clipping"] = rng.choice(("coordinates", "residual", "ball"))
    run = pabi.NoisySGD(loss, **fields)
    return _scheduled(rng, run) if rng.random() < 0.25 else run


def _shapes(rng: random.Random, period: int, steps: int) -> np.ndarray:
    """(steps,) factors of a schedule: random, halved, cosine, warm-up, one step apart, or few levels."""
    chance, k = np.random.default_rng(rng.getrandbits(32)), np.arange(steps)
    shapes: tuple[Callable[[], np.ndarray], ...] = (
        lambda: chance.uniform(0.5, 2.0, steps),
        lambda: 10.0 ** chance.uniform(-3.0, 3.0, steps),
        lambda: 0.5 ** (k // max(1, rng.randint(1, 2 * period))),
        lambda: 0.501 + 0.5 * np.cos(np.pi * k / steps),
        lambda: np.minimum(1.0, (k + 1.0) / rng.randint(1, steps)),
        lambda: np.where(k == rng.randrange(steps), amount(rng, 1e-3, 1e3), 1.0),
        lambda: chance.choice((0.5, 1.0, 2.0), steps),
        lambda: np.ones(steps),
    )
    return rng.choice(shapes)()


def _scheduled(rng: random.Random, run: pabi.NoisySGD) -> pabi.NoisySGD:
    """The same run with a step size, a noise or both that vary."""
    noise = "noise_std" if run.noise_std is not None else "noise_multiplier"
    names = rng.choice((("step_size",), (noise,), ("step_size", noise)))
    shapes = {x: _shapes(rng, run.steps_per_epoch, run.steps) for x in names}
    return replace(run, **{x: getattr(run, x) * shape for x, shape in shapes.items()})


def more_noise(run: pabi.NoisySGD) -> pabi.NoisySGD:
    """The same run with one and a half times the noise."""
    name = "noise_std" if run.noise_std is not None else "noise_multiplier"
    return replace(run, **{name: 1.5 * getattr(run, name)})


def longer(run: pabi.NoisySGD) -> pabi.NoisySGD | None:
    """The same run with an epoch more; None where a schedule has its length, or steps are counted."""
    varies = any(
        np.ndim(x) for x in (run.step_size, run.noise_std, run.noise_multiplier) if x is not None
    )
    if varies or run.epochs is None:
        return None
    return replace(run, epochs=run.epochs + 1, total_steps=None)

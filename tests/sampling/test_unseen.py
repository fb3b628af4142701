"""What a sampler raises shows no generator, no iterate and no point to debuggers and error trackers."""

import sys
import traceback

import numpy as np
import pytest

import pabi
from pabi.erm import plan, solve
from pabi.sampling import diffusion, gibbs_rejection, langevin

BALL = pabi.prox.ball(1.0)
LOSS = pabi.Loss.convex(1.0, gradient_bound=3.0)


def fine_steps(gradient, beta):
    described = pabi.LangevinDiffusion(LOSS, 200, beta, time=0.5, diameter=2.0)
    diffusion(described, gradient, np.zeros(2), BALL, steps=20, random_state=0, delta=1e-3)


def chain(gradient):
    described = pabi.LangevinChain(
        LOSS, n=200, inverse_temperature=20.0, step_size=1e-3, steps=20, prox=BALL
    )
    langevin(described, gradient, np.zeros(2), random_state=0, delta=1e-3)


def exact(value):
    described = pabi.ExponentialMechanism(LOSS, 100, 2, 2.0, inverse_temperature=30.0)
    gibbs_rejection(described, value, random_state=0, delta=1e-3)


def iterated(value):
    loss = pabi.Loss.strongly_convex(1.0, 1.0, gradient_bound=3.0)
    described = pabi.IteratedExponentialMechanism(loss, 100, 2, 2.0, (0.3, 0.7), 0.1)
    gibbs_rejection(described, value, random_state=0, delta=1e-3)


def solved(called, **changes):
    given = {"n": 200, "dimension": 2, "lipschitz": 3.0, "diameter": 2.0, "epsilon": 1.0}
    found = plan("erm", "convex", smoothness=1.0, **{**given, **changes})
    known = "gradient" if found.algorithm in ("last_point", "path_average") else "loss_value"
    solve(found, **{known: called}, random_state=0)


RUNS = {
    "langevin": chain,
    "diffusion": lambda f: fine_steps(f, lambda t: 20.0 * t),
    "diffusion, constant": lambda f: fine_steps(f, 20.0),
    "gibbs_rejection": exact,
    "gibbs_rejection, rounds": iterated,
    "solve, exact": solved,
    "solve, last_point": lambda f: solved(f, delta=1e-6, algorithm="last_point"),
    "solve, path_average": lambda f: solved(f, delta=1e-6, algorithm="path_average"),
}
# What is still running while an error passes cannot be emptied, and holds what is public.
RUNNING = {
    *("langevin", "langevin_on", "_drawn_by", "diffusion", "diffusion_on", "gibbs_rejection"),
    *("gibbs_rejection_on", "solve", "_follow", "_draw", "release", "released", "unseen"),
    "checked",  # of `pabi.numbers.validate.answering`, with the caller's own arguments
}
PUBLIC = {"start", "x0", "sizes"}


@pytest.mark.parametrize("kind", ["own error", "not finite"])
@pytest.mark.parametrize("name", RUNS)
def test_exceptions_carry_nothing(name, kind):
    calls = []

    def failing(points):
        calls.append(1)
        mine = points.copy()
        if len(calls) == 3 and kind == "own error":
            raise RuntimeError("a bug")
        result = mine if "gibbs" not in name and "exact" not in name else mine[:, 0] + 0.3
        return result * np.nan if len(calls) == 3 else result

    with pytest.raises((RuntimeError, pabi.InvalidInput)) as caught:
        RUNS[name](failing)
    frames = [f for f, _ in traceback.walk_tb(caught.value.__traceback__)]
    at = max(i for i, f in enumerate(frames) if f.f_code.co_filename == __file__ and i < 4)
    here = sys._getframe().f_code.co_name
    ours = [f for f in frames[at + 1 :] if f.f_code.co_name != here]
    running = [f for f in ours if f.f_code.co_name in RUNNING]
    emptied = [f for f in ours if f.f_code.co_name not in RUNNING]
    assert any(f.f_code.co_name == "unseen" for f in running)
    assert len(emptied) >= 2
    assert [(f.f_code.co_name, f.f_locals) for f in emptied if f.f_locals] == []
    hidden = np.ndarray, np.random.Generator, np.random.BitGenerator
    kept = {k: v for f in running for k, v in f.f_locals.items() if isinstance(v, hidden)}
    assert set(kept) <= PUBLIC
    assert all(np.all(kept[k] == 0.0) for k in ("start", "x0") if k in kept)

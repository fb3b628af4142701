"""Random descriptions, each a pure function of a seed: a guarantee that verifies, or one line that says why.

More noise must not cost more, nor less of the same epochs. Both hold of every proof: it remains one. What a
solver finds may be short of its optimum by the tolerances that the theory states.

`python -m support.fuzzing.descriptions BEGIN END [SECONDS]`, run in `tests`, tries those of these seeds, as
far as there is time, and prints what came of them as JSON.
"""

from __future__ import annotations

import json
import math
import random
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

import pabi
from pabi import Loss
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Gaussian

# Relative, of ε: Gaussians of linear moduli, readings of products, optima of nonlinear moduli.
EXACT, READ, BENT = 1e-9, 2e-3, 2e-2
MOST_SECONDS = 60.0  # for one description: what takes longer is wrong
REFUSALS = (pabi.InvalidInput, NotApplicable)


def _amount(rng: random.Random, low: float, high: float) -> float:
    """Logarithmically uniform, at times round, and seldom far out."""
    if rng.random() < 0.02:
        return rng.choice((1e-12, 1e-6, 1e6, 1e12))
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return float(f"{value:.1g}") if rng.random() < 0.3 else value


def _losses(rng: random.Random) -> dict[str, Callable[[], Loss]]:
    """A loss of every kind."""
    one, two = _amount(rng, 0.1, 10.0), _amount(rng, 0.1, 10.0)
    l2 = rng.choice((0.0, 0.0, _amount(rng, 1e-3, 1.0)))
    bound = rng.choice((None, _amount(rng, 0.1, 10.0)))
    glm = rng.random() < 0.5
    separable = rng.random() < 0.2
    word = {"gradient_bound": bound, "glm": glm, "separable": separable}
    return {
        "logistic": lambda: Loss.logistic(one, l2),
        "softmax": lambda: Loss.softmax(one, rng.randint(2, 5), l2),
        "one_vs_rest": lambda: Loss.one_vs_rest(one, rng.randint(2, 5), l2),
        "vector_huber": lambda: Loss.vector_huber(one, two, l2),
        "squared": lambda: Loss.squared(one, two, l2),
        "huber": lambda: Loss.huber(one, two, l2),
        "smoothed_hinge": lambda: Loss.smoothed_hinge(one, two, l2),
        "poisson": lambda: Loss.poisson(one, two, rng.uniform(0.0, 5.0), l2),
        "convex": lambda: Loss.convex(one, l2, **word),
        "strongly_convex": lambda: Loss.strongly_convex(min(one, two), max(one, two), l2, **word),
        "nonconvex": lambda: Loss.nonconvex(one, l2, **word),
        "weakly_convex": lambda: Loss.weakly_convex(one, two, l2, **word),
        "lipschitz": lambda: Loss.lipschitz(one, l2),
        "weakly_smooth": lambda: Loss.weakly_smooth(
            [(rng.random(), one)], l2, gradient_bound=bound
        ),
        "holder": lambda: Loss.holder(rng.uniform(0.1, 1.0), one, l2, **word),
        "dissipative": lambda: Loss.dissipative(one, two, _amount(rng, 0.1, 10.0), l2),
        "saddle": lambda: Loss.saddle(one, two, l2),
        "unknown": lambda: Loss.unknown(l2, gradient_bound=bound),
    }


def _batches(rng: random.Random, n: int) -> Callable[[], Any]:
    size = rng.randint(1, n) if rng.random() < 0.98 else n + 1
    cap = rng.choice((None, None, size + rng.randint(0, 3)))
    return rng.choice(
        (
            pabi.FullBatch,
            lambda: pabi.Cyclic(size),
            lambda: pabi.ShuffleOnce(size),
            lambda: pabi.Reshuffle(size),
            lambda: pabi.FixedSize(size),
            lambda: pabi.Poisson(size, cap),
            lambda: pabi.BallsInBins(size, cap),
        )
    )


def _prox(rng: random.Random) -> Any:
    size = _amount(rng, 0.1, 10.0)
    makes = (
        lambda: pabi.prox.ball(size),
        lambda: pabi.prox.box(-size, size),
        lambda: pabi.prox.simplex(),
        lambda: pabi.prox.l1(size),
    )
    return rng.choice(makes)() if rng.random() < 0.3 else None


def described(seed: int) -> pabi.NoisySGD:
    """The description of this seed. Raises InvalidInput where it is none."""
    rng = random.Random(seed)
    n, epochs = rng.randint(2, 20), rng.randint(1, 4)
    batches = _batches(rng, n)()
    loss = rng.choice(list(_losses(rng).values()))()
    clip = rng.choice((None, None, _amount(rng, 0.1, 10.0)))
    fields: dict[str, Any] = {
        "n": n,
        "batches": batches,
        "epochs": epochs,
        "step_size": _amount(rng, 0.01, 1.0),
        rng.choice(("noise_std", "noise_multiplier")): _amount(rng, 0.3, 10.0),
        "clip_norm": clip,
        "adjacency": rng.choice(("replace_one", "zero_out")),
        "prox": _prox(rng),
    }
    if clip is not None and rng.random() < 0.4:
        fields["clipping"] = rng.choice(("coordinates", "residual", "ball"))
    if rng.random() < 0.15:
        fields["gradient_sensitivity"] = _amount(rng, 0.1, 10.0)
    if rng.random() < 0.2:
        fields["diameter"] = _amount(rng, 0.1, 10.0)
    if rng.random() < 0.15:
        fields["cooldown_steps"] = rng.randint(1, 5)
    if rng.random() < 0.1:
        fields["release"] = "path"
    if rng.random() < 0.15:
        fields["unit"] = "user"
    if rng.random() < 0.1:
        fields["update"] = rng.choice((pabi.updates.Momentum(), pabi.updates.Adam(), "other"))
    run = pabi.NoisySGD(loss, **fields)
    return _scheduled(rng, run) if rng.random() < 0.25 else run


def _scheduled(rng: random.Random, run: pabi.NoisySGD) -> pabi.NoisySGD:
    """The same run with a step size, a noise or both that vary."""
    chance = np.random.default_rng(rng.getrandbits(32))
    noise = "noise_std" if run.noise_std is not None else "noise_multiplier"
    names = rng.choice((("step_size",), (noise,), ("step_size", noise)))
    return replace(run, **{x: getattr(run, x) * chance.uniform(0.5, 2.0, run.steps) for x in names})


def more_noise(run: pabi.NoisySGD) -> pabi.NoisySGD:
    """The same run with one and a half times the noise."""
    name = "noise_std" if run.noise_std is not None else "noise_multiplier"
    return replace(run, **{name: 1.5 * getattr(run, name)})


def longer(run: pabi.NoisySGD) -> pabi.NoisySGD | None:
    """The same run with an epoch more; None where a schedule has its length."""
    varies = any(
        np.ndim(x) for x in (run.step_size, run.noise_std, run.noise_multiplier) if x is not None
    )
    return None if varies else replace(run, epochs=run.epochs + 1, total_steps=None)


def problem_of(run: pabi.NoisySGD, delta: float) -> str | None:
    """What is wrong with the guarantee of a description, or None."""
    guarantee = run.guarantee(delta)
    epsilon = guarantee.epsilon(delta)
    if guarantee.certificate is None:
        return f"no certificate of {guarantee.method}"
    verdict = pabi.verify(guarantee)
    if not verdict.ok:
        return f"not verified: {verdict.reason}"
    if verdict.reading is not None and verdict.reading[0] < epsilon * (1 - 1e-12):
        return f"the verdict proves {verdict.reading}, the guarantee says {epsilon}"
    return _not_monotone(run, guarantee, delta)


def _not_monotone(run: pabi.NoisySGD, guarantee: pabi.Guarantee, delta: float) -> str | None:
    """Where more noise costs more, or an epoch more costs less."""
    noisy, long = more_noise(run), longer(run)
    pairs = [("more noise", noisy, run)] if long is None else [("more epochs", run, long)]
    if long is not None and run.n % 2:
        pairs = [("more noise", noisy, run)]
    for what, less, more in pairs:
        low, high = (guarantee if one is run else one.guarantee(delta) for one in (less, more))
        if low.epsilon(delta) > high.epsilon(delta) * (1 + _tolerance(low, high)):
            return f"{what}: {low.epsilon(delta)!r} ({low.method}), {high.epsilon(delta)!r} ({high.method})"
    return None


def _tolerance(*guarantees: pabi.Guarantee) -> float:
    if any("nonlinear" in g.method or "sided" in g.method for g in guarantees):
        return BENT
    return EXACT if all(isinstance(g.curve, Gaussian) for g in guarantees) else READ


def outcome(seed: int) -> tuple[str, str | None]:
    """("guarantee", "refused" or "wrong"; what is wrong)."""
    delta = 10.0 ** -random.Random(~seed).randint(1, 8)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            problem = problem_of(described(seed), delta)
    except REFUSALS as no:
        text = str(no)
        clear = bool(text) and "\n" not in text
        return ("refused", None) if clear else ("wrong", f"no line, or several: {text!r}")
    except Exception:  # of whatever kind: that is what is looked for
        return "wrong", traceback.format_exc(limit=-4)
    return ("guarantee", None) if problem is None else ("wrong", f"{problem} at δ = {delta}")


def _too_long(*_: object) -> None:
    raise TimeoutError(f"took more than {MOST_SECONDS} s")


def tried(seeds: Iterable[int], seconds: float = math.inf) -> dict:
    """What came of the descriptions of these seeds: counts, what was wrong, and the slowest."""
    signal.signal(signal.SIGALRM, _too_long)
    counted, wrong, slowest, until = Counter(), [], (0.0, -1), time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > until:
            break
        begin = time.process_time()
        print(f"description {seed}", file=sys.stderr)  # the last line says what does not end
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        kind, problem = outcome(seed)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        counted[kind] += 1
        slowest = max(slowest, (time.process_time() - begin, seed))
        if problem is not None:
            wrong.append(f"seed {seed}: {problem}")
    return {"counted": counted, "wrong": wrong, "slowest": slowest}


if __name__ == "__main__":
    first, last, *limit = sys.argv[1:]
    print(json.dumps(tried(range(int(first), int(last)), *map(float, limit))))

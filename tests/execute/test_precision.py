"""Doubles that are coarse against the noise: the attack, the size that no iterate exceeds, and refusals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.describe.batches import Cyclic, FullBatch, Poisson
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.hiding import FINE, Walk, small_enough, walk_of
from pabi.learn import train
from pabi.numbers.errors import InvalidInput
from pabi.sampling import diffusion, langevin
from support.every_case import every, refused
from support.unpriced import Unpriced

pytestmark = pytest.mark.filterwarnings("ignore::pabi.numbers.errors.PrivacyWarning")

FAR = 8.3e15  # where doubles are 1 apart


def far_run(**changes):
    """Gradients of norm 1 and a ball of radius ½ about `FAR`, steps of noise 0.12."""
    given = {"n": 1, "batches": FullBatch(), "steps": 400, "step_size": 0.12, "noise_std": 1.0}
    given |= {"adjacency": "zero_out", "prox": pabi.prox.ball(0.5, center=np.array([FAR]))}
    return NoisySGD(Loss.convex(1e-3, gradient_bound=1.0), **(given | changes))


def constant(value):
    return lambda x, rows: np.full((len(rows), *x.shape), value)


@every(
    ("run", "x0", "field"),
    [
        (far_run(), [FAR], "x0"),
        (far_run(), [0.0], "prox"),
        (far_run(noise_std=1e-12, prox=pabi.prox.ball(0.5)), [0.0], "noise_std"),
        (far_run(prox=pabi.prox.box([FAR - 1.0], [FAR + 1.0])), [0.0], "prox"),
    ],
)
def test_training_is_refused_before_the_data_is_touched(run, x0, field):
    def untouched(x, rows):
        raise AssertionError("the data was touched")

    assert 'release="path"' in refused(field, train, run, untouched, x0)


def test_all_iterates_may_be_released_wherever_they_are():
    """Composition survives rounding: what is rounded was released with its noise."""
    result = train(far_run(release="path"), constant(0.0), [FAR])
    assert result.guarantee.method == "composition"


def test_samplers_are_refused_alike():
    loss, far = pabi.Loss.convex(1.0, gradient_bound=1.0), pabi.prox.ball(0.5, center=[FAR])
    given = {"n": 10, "inverse_temperature": 10.0}
    chain = pabi.LangevinChain(loss, **given, prox=far, step_size=0.007, steps=4000)

    def untouched(x):
        raise AssertionError("the data was touched")

    with pytest.raises(InvalidInput, match="^x0: iterates can reach"):
        langevin(chain, untouched, [FAR])
    for temperature in (10.0, np.linspace(5.0, 10.0, 8)):
        flow = pabi.LangevinDiffusion(loss, 10, temperature, time=28.0, diameter=1.0)
        with pytest.raises(InvalidInput, match="^x0: iterates can reach"):
            diffusion(flow, untouched, [FAR], far, steps=4000)
        near = pabi.prox.ball(0.5)
        assert diffusion(flow, np.zeros_like, [0.0], near, steps=4000).values.size


def test_unbounded_gradients_are_an_assumption():
    """Whoever states a sensitivity has not said how long a batch's gradient may be."""
    given = {"epochs": 3, "step_size": 0.5, "noise_std": 1.0, "gradient_sensitivity": 1.0}
    run = NoisySGD(Loss.strongly_convex(0.5, 1.0), n=10, batches=Cyclic(5), **given)
    guarantee = train(run, constant(0.0), [0.0]).guarantee
    assert small_enough(0.5) in guarantee.assumptions
    assert pabi.verify(guarantee).ok
    limit = float(small_enough(0.5).split(" below ")[1].split(",")[0])
    assert np.spacing(np.nextafter(limit, 0.0)) <= FINE * 0.5


@every("seed", range(40))
def test_no_iterate_is_larger_than_the_size_computed(seed):
    """Against walks pulled outwards by as much as the description allows, under random schedules."""
    rng = np.random.default_rng(seed)
    d, steps = int(rng.integers(1, 6)), int(rng.integers(1, 60))
    step_size = rng.uniform(0.01, 1.0, steps) if seed % 3 else float(rng.uniform(0.01, 1.0))
    l2 = float(rng.choice([0.0, 0.3, 1.7, 3.0]))
    prox = [None, pabi.prox.ball(1.0, center=np.full(d, 3.0)), pabi.prox.l1(0.1)][seed % 3]
    batches = Poisson(3) if seed % 2 else Cyclic(3)
    given = {"steps": steps, "step_size": step_size, "noise_std": float(rng.uniform(0.1, 3.0))}
    given |= {"prox": prox}
    run = NoisySGD(Loss.convex(1.0, gradient_bound=2.0, l2=l2), n=9, batches=batches, **given)
    start = rng.normal(size=d)
    walk, bounded = walk_of(run, start[None])
    assert bounded
    largest = [0.0]
    real = Walk.overstep.__globals__["_coarse"]

    def noted(size, noise_std):
        largest[0] = max(largest[0], size)
        return real(size, noise_std)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Walk.overstep.__globals__, "_coarse", noted)
        assert walk.overstep() is None
    x, etas = start, np.broadcast_to(step_size, steps)
    for eta in etas.tolist():
        direction = x / max(float(np.linalg.norm(x)), 1e-300)
        most = 3.0 if batches.kind == "poisson" else 1.0  # all nine records in a batch of three
        noise = eta * run.noise_std * rng.standard_normal(d)
        moved = [x, eta * l2 * x, -eta * most * 2.0 * direction, noise]
        x = x - eta * l2 * x + eta * most * 2.0 * direction + noise
        assert max(np.linalg.norm(part) for part in (*moved, x)) <= largest[0]
        x = x if prox is None else np.asarray(prox(x, eta))


def test_equal_steps_in_closed_form_and_one_by_one_agree(monkeypatch):
    """The closed form is no smaller, and no more than a few times larger."""
    seen = []
    monkeypatch.setitem(Walk.overstep.__globals__, "_coarse", lambda size, _: seen.append(size))

    def largest(*walk):
        seen.clear()
        Walk(*walk).overstep()
        return max(seen)

    for kept, diameter in itertools.product((0.5, 0.999, 1.0, 1.01), (3.0, math.inf)):
        before, after = (500, 2.0, kept), (0.1, 0.3, diameter, 4)
        one_by_one = largest(*before, np.full(500, 0.7), *after)
        assert one_by_one <= largest(*before, 0.7, *after) <= 4.0 * one_by_one


@every(
    "field, loss, clip",
    [
        ("clip_norm", Loss.unknown(), {"clip_norm": 1e-300}),
        ("loss", Loss.convex(1.0, gradient_bound=1e-300), {}),
    ],
)
def test_training_refuses_bounds_near_the_least_double(field, loss, clip):
    given = {"n": 3, "batches": FullBatch(), "steps": 1, "step_size": 1.0, "noise_std": 1.0}
    run = NoisySGD(loss, **given, **clip)
    assert "1e-290" in refused(field, train, run, constant(1.0), [0.0])


def test_a_schedule_that_falls_to_nothing_is_told_to_end_earlier(monkeypatch):
    """The last steps of a cosine are a millionth of the first, and so is their noise."""
    steps = 4000
    given = {"steps": steps, "step_size": 0.5 * (1.0 + np.cos(np.pi * np.arange(steps) / steps))}
    given |= {"noise_std": 0.05}
    run = NoisySGD(Loss.logistic(1.0), n=400, batches=Cyclic(4), **given)
    with pytest.raises(InvalidInput, match=r"^step_size: .*let the schedule end at longer steps"):
        train(run, lambda x, rows: np.zeros((len(rows), 1)), [0.0])
    monkeypatch.setattr(NoisySGD, "guarantee", lambda *_: Unpriced())  # of thousands of lengths
    longer = replace(run, step_size=np.maximum(run.step_size, 1e-3))
    train(longer, lambda x, rows: np.zeros((len(rows), 1)), [0.0])

"""What is released and what is taken from callables, against rational arithmetic."""

import itertools
import math
import traceback
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pabi
from pabi import InvalidInput
from pabi.describe.batches import Cyclic, FullBatch, Poisson
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute import hiding
from pabi.learn import train
from pabi.sampling import diffusion, langevin
from support.every_case import every, refused
from support.execution import Unpriced

SECRET = 616263.25  # no message shows it

noise = st.floats(-200.0, 200.0).map(lambda x: 10.0**x)


@given(noise, st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5))
def test_releases_are_multiples_of_a_fine_grid(noise_std, factors):
    """A power of two above 2⁻²⁰ of the noise and at most twice that; each number moves by half of it."""
    x = np.array(factors) * noise_std
    found = hiding.on_grid(x, noise_std)
    # The largest power of two that is at most 2⁻¹⁹ of the noise.
    limit = Fraction(noise_std) / 2**19
    grid = Fraction(2) ** (limit.numerator.bit_length() - limit.denominator.bit_length() + 1)
    while grid > limit:
        grid /= 2
    assert limit / 2 < grid <= limit
    for before, after in zip(x.tolist(), found.tolist(), strict=True):
        assert (Fraction(after) / grid).denominator == 1
        assert abs(Fraction(after) - Fraction(before)) <= grid / 2


def test_without_a_grid_within_the_doubles_nothing_is_rounded():
    x = np.array([0.1, -3.0])
    assert all(
        np.array_equal(hiding.on_grid(x, noise_std), x) for noise_std in (0.0, 1e-290, 1e290)
    )


@every(
    "x0", [0.0, [1, 2], [[1.0, 2.0]], np.float32(0.5), np.array([1, 2], dtype=np.int8), [True], []]
)
def test_a_start_is_a_copy_as_float64(x0):
    found = hiding.starting_point(x0)
    assert found.dtype == np.float64
    assert np.array_equal(found, x0)
    assert not np.shares_memory(found, np.asarray(x0))


def test_what_a_callable_returns_becomes_float64():
    for value in (np.ones((2, 3)), [[1, 1, 1], [1, 1, 1]], np.ones((2, 3), np.uint8)):
        found = hiding.returned("f", value, (2, 3))
        assert found.dtype == np.float64
        assert np.array_equal(found, np.ones((2, 3)))
    assert hiding.mapped([1, 2, 3], (3,)).tolist() == [1.0, 2.0, 3.0]


def gradients(value):
    return hiding.returned("gradients", value, (2, 3))


def prox(value):
    return hiding.mapped(value, (3,))


def x0(value):
    return hiding.starting_point(value)


@every(
    "read, value, said",
    [
        (x0, None, "missing"),
        *((x0, value, "an array of numbers, got a") for value in ("a", [1.0, "x"], {"a": 1})),
        (x0, [[1.0], [1.0, 2.0]], "an array of numbers, got a list"),
        *((x0, [SECRET, odd], "finite numbers") for odd in (math.nan, math.inf)),
        (gradients, np.full((3, 2), SECRET), "shape (2, 3), got (3, 2)"),
        (gradients, SECRET, "shape (2, 3), got ()"),
        (gradients, np.full((2, 3), SECRET * 1j), "real numbers, got dtype complex128"),
        (gradients, np.ones((2, 3), bool), "real numbers, got dtype bool"),
        (gradients, [[SECRET] * 3, [SECRET]], "an array of shape (2, 3)"),
        (gradients, np.full((2, 3), "616263"), "real numbers, got dtype <U6"),
        (gradients, None, "real numbers, got dtype object"),
        *((gradients, [[SECRET] * 3, [1.0, 2.0, odd]], "finite") for odd in (math.nan, -math.inf)),
        *((prox, odd, "keep the shape (3,), got") for odd in (np.ones(2), np.ones((3, 1)), None)),
        *((prox, odd, "return an array of shape (3,)") for odd in ("x", [1.0, [2.0], 3.0])),
    ],
)
def test_refusals_say_shape_and_kind_and_no_value(read, value, said):
    with pytest.raises(InvalidInput) as caught:
        read(value)
    assert caught.value.field == read.__name__
    assert said in str(caught.value)
    assert "616263" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@every("how", [hiding.unseen, hiding.released])
def test_no_floating_point_warning_reports_on_a_hidden_number(how):
    """Outside they are as before."""
    outside = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = how(lambda: np.array([1.0, -1.0]) / np.zeros(2) + np.exp(np.full(2, 1e9)))
        assert np.isinf(found[0])
        with pytest.warns(RuntimeWarning):
            np.array([1.0]) / np.zeros(1)
    assert np.geterr() == outside


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_errors_of_every_kind_pass_with_empty_frames(error):
    def inner():
        hidden = np.full(2, SECRET)
        raise error if hidden.any() else None

    with pytest.raises(type(error)) as caught:
        hiding.unseen(inner)
    assert caught.value is error
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    (own,) = [frame for frame in frames if frame.f_code.co_name == "inner"]
    assert own.f_locals == {}


# Doubles that are coarse against the noise: the size that no iterate exceeds, and refusals.


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

    assert "iterates can reach" in refused("x0", langevin, chain, untouched, [FAR])
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
    assert hiding.small_enough(0.5) in guarantee.assumptions
    limit = float(hiding.small_enough(0.5).split(" below ")[1].split(",")[0])
    assert np.spacing(np.nextafter(limit, 0.0)) <= hiding.FINE * 0.5


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
    walk, bounded = hiding.walk_of(run, start[None])
    assert bounded
    largest = [0.0]
    real = hiding.Walk.overstep.__globals__["_coarse"]

    def noted(size, noise_std):
        largest[0] = max(largest[0], size)
        return real(size, noise_std)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(hiding.Walk.overstep.__globals__, "_coarse", noted)
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
    monkeypatch.setitem(
        hiding.Walk.overstep.__globals__, "_coarse", lambda size, _: seen.append(size)
    )

    def largest(*walk):
        seen.clear()
        hiding.Walk(*walk).overstep()
        return max(seen)

    for kept, diameter in itertools.product((0.5, 0.999, 1.0, 1.01), (3.0, math.inf)):
        before, after = (500, 2.0, kept), (0.1, 0.3, diameter, 4)
        one_by_one = largest(*before, np.full(500, 0.7), *after)
        assert one_by_one <= largest(*before, 0.7, *after) <= 4.0 * one_by_one


@every(
    "field, loss, clip",
    [
        ("clip_norm", Loss.unknown(), {"clip_norm": 1e-201}),
        ("loss", Loss.convex(1.0, gradient_bound=1e-300), {}),
    ],
)
def test_training_refuses_bounds_near_the_least_double(field, loss, clip):
    given = {"n": 3, "batches": FullBatch(), "steps": 1, "step_size": 1.0, "noise_std": 1.0}
    run = NoisySGD(loss, **given, **clip)
    assert "1e-200" in refused(field, train, run, constant(1.0), [0.0])


@every(
    "field, loss, clip",
    [
        ("clip_norm", Loss.unknown(), {"clip_norm": 4e300}),
        ("loss", Loss.convex(1.0, gradient_bound=4e300), {}),
    ],
)
def test_training_refuses_bounds_of_which_a_sum_may_be_infinite(field, loss, clip):
    """An infinite sum would stay infinite under any noise, and tell that no record is missing."""
    given = {"n": 3, "batches": FullBatch(), "steps": 1, "step_size": 1e-300, "noise_std": 1e301}
    run = NoisySGD(loss, release="path", **given, **clip)
    assert "2^1000 over 3" in refused(field, train, run, constant(1.0), [0.0])


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

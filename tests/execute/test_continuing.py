"""Going on after a request, in exact numbers."""

import numpy as np
import pytest

import pabi
from pabi.describe.unlearning import Unlearning
from pabi.execute.engine import TrainOptions, enforceable, go_on, train_and_keep
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused

BATCHES = [
    *(pabi.FullBatch(), pabi.Cyclic(3), pabi.ShuffleOnce(3), pabi.Reshuffle(3)),
    *(pabi.ShuffleOnce(2, 3), pabi.Reshuffle(3, 2)),
    *(pabi.BallsInBins(4), pabi.BallsInBins(4, redraw="epoch"), pabi.FixedSize(3), pabi.Poisson(4)),
]
LISTED = BATCHES[:7]


class Normals:
    """A generator whose noise is that of a list, and whose orders are those of a seed."""

    def __init__(self, seed, noise):
        self._orders, self._noise = np.random.default_rng(seed), list(noise)

    def standard_normal(self, shape):
        return np.full(shape, self._noise.pop(0))

    def __getattr__(self, name):
        return getattr(self._orders, name)


def small_run(batches, **changes):
    stated = {"n": 8, "batches": batches, "epochs": 3, "step_size": 0.25}
    stated |= {"noise_std": 0.5, "adjacency": "zero_out"} | changes
    return pabi.NoisySGD(pabi.Loss.convex(1.0, l2=0.5, gradient_bound=1.0), **stated)


def trained(run, gradients, x0=(0.0, 0.0)):
    """(what is released, the secret state)."""
    states = []
    result = train_and_keep(
        lambda state, x: states.append(state), run, gradients, x0, TrainOptions()
    )
    return result.x, states[0]


def constant(each, rows_of=None):
    """Gradients that do not depend on x, one a record."""

    def gradients(x, rows):
        if rows_of is not None:
            rows_of.append(tuple(rows.tolist()))
        return np.broadcast_to(each[rows][:, None], (len(rows), *x.shape))

    return gradients


@every("batches", BATCHES)
@every("steps", [1, 2, 5])
def test_steps_are_those_of_the_description(free, batches, steps):
    """By an independent recursion over the batches that were asked for, with the noise of a list."""
    run, each = small_run(batches), np.linspace(-0.6, 0.5, 8)
    _, state = trained(run, constant(each))
    without = each.copy()
    without[[2, 5]] = 0.0
    asked = []
    noise = [0.3, -1.1, 0.7, 0.2, -0.4][:steps]
    generator = Normals(3, noise)
    unlearning = Unlearning(run, [(steps, 2)])
    shown, after = go_on(unlearning, constant(without, asked), state, generator)
    # Batches that are empty, or beyond a cap, are not asked for: the recursion runs over those that are not.
    x = state.x
    period = run.steps_per_epoch
    if run.order.fresh or isinstance(batches, pabi.BallsInBins):
        assert len(asked) <= steps
    else:
        assert len(asked) == steps
        for rows, z in zip(asked, noise, strict=True):
            x = x - 0.25 * (without[list(rows)].sum() / run.batch_size + 0.5 * x - 0.5 * z)
        assert np.allclose(after.x, x, rtol=1e-7, atol=0)
    assert after.step == run.steps + steps
    assert np.array_equal(shown, after.x)
    assert period * 3 == run.steps


@every("batches", LISTED)
def test_the_order_is_the_one_that_was_drawn(unpriced, batches):
    """Batches after the request repeat those of the epochs before, where the order was drawn once."""
    run, asked = small_run(batches), []
    gradients = constant(np.zeros(8), asked)
    _, state = trained(run, gradients)
    before = len(asked)
    _, after = go_on(Unlearning(run, [(2 * run.steps_per_epoch, 1)]), gradients, state)
    period = before // 3
    once = not isinstance(batches, pabi.Reshuffle)
    assert (asked[before:] == 2 * asked[:period]) is once
    for first in range(before, len(asked), period):
        rows = [row for rows in asked[first : first + period] for row in rows]
        assert len(rows) == len(set(rows)) == 8 - getattr(batches, "spare", 0)
    if state.secret is not None and once:
        assert np.array_equal(state.secret, after.secret)


def test_bins_of_a_new_epoch_are_drawn_anew_after_a_request(unpriced):
    """Those of the epoch that the request falls into are kept to its end."""
    run = small_run(pabi.BallsInBins(2, redraw="epoch"), epochs=None, steps=6)
    gradients = constant(np.zeros(8))
    _, state = trained(run, gradients)
    _, same = go_on(Unlearning(run, [(2, 1)]), gradients, state)
    assert np.array_equal(same.secret, state.secret)
    _, other = go_on(Unlearning(run, [(30, 1)]), gradients, state)
    assert not np.array_equal(other.secret, state.secret)


def test_a_request_in_the_middle_of_an_epoch_goes_on_in_the_next_batch(unpriced):
    run, asked = small_run(pabi.Reshuffle(3), epochs=None, steps=4), []
    gradients = constant(np.zeros(8), asked)
    _, state = trained(run, gradients)
    go_on(Unlearning(run, [(2, 1)]), gradients, state)
    assert sorted(row for rows in asked[3:6] for row in rows) == list(range(8))


def test_a_cool_down_uses_no_batch(unpriced):
    run, asked = small_run(pabi.Cyclic(3), epochs=None, steps=7, cooldown_steps=3), []
    gradients = constant(np.zeros(8), asked)
    _, state = trained(run, gradients)
    go_on(Unlearning(run, [(2, 1)]), gradients, state)
    assert asked == [(0, 1, 2), (3, 4, 5), (6, 7), (0, 1, 2), (3, 4, 5), (6, 7)]


def test_noise_is_never_drawn_again(unpriced):
    """Two continuations of one state, and the steps before them, have noise of their own."""
    run = small_run(pabi.FullBatch(), epochs=1)
    _, state = trained(run, constant(np.zeros(8)), np.zeros(50))
    unlearning = Unlearning(run, [(1, 1)])
    ends = [go_on(unlearning, constant(np.zeros(8)), state)[1].x for _ in range(2)]
    first, second = ((x - state.x * (1 - 0.25 * 0.5)) / 0.125 for x in ends)
    past = state.x / 0.125
    for one, other in ((first, second), (first, past), (second, past)):
        assert not np.any(np.isclose(one, other, rtol=1e-6, atol=0))


def test_other_states_are_refused(unpriced):
    run = small_run(pabi.Cyclic(3))
    _, state = trained(run, constant(np.zeros(8)))
    for wrong in (Unlearning(run, [(2, 1), (1, 1)]), Unlearning(run, [(0, 1)])):
        refused("state", go_on, wrong, constant(np.zeros(8)), state)


def test_errors_carry_no_iterate(unpriced):
    run = small_run(pabi.Cyclic(3))
    _, state = trained(run, constant(np.zeros(8)))
    with pytest.raises(InvalidInput, match="per_record_gradients") as caught:
        go_on(Unlearning(run, [(2, 1)]), lambda x, rows: np.full((len(rows), 2), np.nan), state)
    frame, hidden = caught.value.__traceback__, []
    while frame is not None:
        if (
            frame.tb_frame.f_code.co_filename != __file__
            and frame.tb_frame.f_code.co_name != "go_on"
        ):
            hidden += [v for v in frame.tb_frame.f_locals.values() if isinstance(v, np.ndarray)]
        frame = frame.tb_next
    assert not hidden


def test_where_doubles_are_coarse_nothing_is_promised():
    run = small_run(pabi.FullBatch(), noise_std=1e-12)
    with pytest.raises(InvalidInput, match="2⁻²⁰"):
        enforceable(run.unlearning(1e-5, epochs=1), Unlearning(run, [(1, 1)]), np.full(2, 1.0))

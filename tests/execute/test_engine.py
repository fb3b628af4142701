"""The trainer does what the description says, and keeps to itself what it must."""

import gc
import math
import sys
import traceback
import weakref
from dataclasses import fields, replace

import numpy as np
import pytest

from pabi import learn, prox
from pabi.describe.batches import Batches, Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.checkpoint import State
from pabi.execute.computed_steps import ACCURATE
from pabi.execute.engine import BY_RECORD
from pabi.execute.hiding import unseen
from pabi.learn import Trained, train
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from support.every_case import every, refused
from support.execution import Silent, frames_of

DELTA = 1e-5


class Map:
    """A proximal map of this diameter."""

    def __init__(self, change, diameter=None):
        self.change, self.diameter = change, diameter

    def __call__(self, x, step_size):
        return self.change(x, step_size)


SOFT = Map(lambda x, eta: np.sign(x) * np.maximum(np.abs(x) - 0.05 * eta, 0.0))
BALL = Map(lambda x, eta: x / max(1.0, float(np.linalg.norm(x))), diameter=2.0)


class Quadratics:
    """Records ½(x − a_i)ᵀA(x − a_i): gradients A(x − a_i)."""

    def __init__(self, centres, matrix=None):
        self.centres = np.asarray(centres, dtype=float)
        d = self.centres.shape[1]
        self.matrix = np.eye(d) if matrix is None else np.asarray(matrix)

    def __call__(self, x, rows):
        return (x - self.centres[rows]) @ self.matrix.T


def silently(run, gradients, x0, permutations=()):
    """The iterate without noise."""
    with pytest.warns(PrivacyWarning):
        return train(run, gradients, x0, Silent(permutations)).x


def small_run(**changes):
    """Seven records, batches of three, three and one."""
    given = {"n": 7, "batches": Cyclic(3), "epochs": 2, "step_size": 0.3, "noise_std": 1.0}
    given |= {"gradient_sensitivity": 1.0}
    given.update(changes)
    return NoisySGD(given.pop("loss", Loss.convex(smoothness=1.0)), **given)


CENTRES = np.random.default_rng(7).normal(size=(7, 2)) * [1.0, 3.0]
START, NOISE = [0.5, -1.0], np.random.default_rng(8).normal(size=(8, 2))
PERMUTATIONS = [[3, 1, 6, 0, 2, 5, 4], [6, 5, 4, 3, 2, 1, 0], [0, 2, 4, 6, 1, 3, 5]]


class Given(Silent):
    """A generator of this noise, a vector a step."""

    def __init__(self, permutations, noise):
        super().__init__(permutations)
        self.noise = iter(noise)

    def standard_normal(self, size=None, *args, **kwargs):
        return next(self.noise).copy()


def by_hand(run, x, orders, noise):
    """The iteration written out in scalars, one record at a time. `orders`: rows, one an epoch."""
    b = run.n if isinstance(run.batches, FullBatch) else run.batches.size
    per_epoch = math.ceil(run.n / b)
    steps, stds = (np.broadcast_to(s, run.steps) for s in (run.step_size, run.gradient_noise_std))
    bounds = [c for c in (run.clip_norm, run.loss.gradient_bound) if c is not None]
    x = list(map(float, x))
    for k in range(run.steps):
        total = [0.0] * len(x)
        if k < run.steps - run.cooldown_steps:
            order = orders[k // per_epoch]
            at = (k % per_epoch) * b
            for i in order[at : at + b]:
                g = [x[j] - CENTRES[i][j] for j in range(len(x))]
                norm = math.hypot(*g)
                shrink = min([1.0, *(c / norm for c in bounds)])
                if run.gradient_sensitivity is not None:
                    shrink = 1.0
                if run.clipping == "coordinates":
                    most = run.clip_norm / math.sqrt(len(g))
                    g, shrink = [min(max(v, -most), most) for v in g], 1.0
                total = [total[j] + shrink * g[j] for j in range(len(x))]
        eta = float(steps[k])
        pulls = [total[j] / b + run.loss.l2 * x[j] + stds[k] * noise[k][j] for j in range(len(x))]
        x = [x[j] - eta * pulls[j] for j in range(len(x))]
        if run.prox is not None:
            x = list(run.prox(np.array(x), eta))
    return np.array(x)


ALL_AT_ONCE = {
    **{"loss": Loss.convex(smoothness=1.0, gradient_bound=2.0, l2=0.1), "clip_norm": 1.2},
    **{"gradient_sensitivity": None, "prox": BALL, "cooldown_steps": 1},
    "step_size": np.linspace(0.1, 0.9, 8),
}


@every(
    ("batches", "permutations", "orders"),
    [
        (FullBatch(), [], [range(7)] * 9),
        (Cyclic(3), [], [range(7)] * 3),
        (Cyclic(7), [], [range(7)] * 9),
        (ShuffleOnce(3), PERMUTATIONS[:1], PERMUTATIONS[:1] * 3),
        (Reshuffle(3), PERMUTATIONS, PERMUTATIONS),
    ],
)
@every(
    "changes",
    [
        {},
        {"cooldown_steps": 2},
        {"step_size": np.linspace(0.5, 0.1, 8), "noise_std": np.linspace(0.2, 2.0, 8)},
        {"loss": Loss.convex(smoothness=1.0, l2=0.2), "cooldown_steps": 3},
        {"clip_norm": 0.7, "gradient_sensitivity": None},
        {"clip_norm": 0.7, "clipping": "coordinates", "gradient_sensitivity": None},
        {"loss": Loss.weakly_convex(0.25, 1.0), "prox": prox.elastic_net(0.2, 0.5)},
        {"loss": Loss.convex(smoothness=1.0, gradient_bound=0.9), "gradient_sensitivity": None},
        {"loss": Loss.convex(smoothness=1.0, gradient_bound=0.9)},
        {"prox": SOFT},
        ALL_AT_ONCE,
    ],
)
def test_every_step_is_the_described_one(free, batches, permutations, orders, changes):
    """Two whole epochs and two thirds of a third, the short batch divided by the full size."""
    run, noise = small_run(batches=batches, epochs=None, steps=8, **changes), NOISE
    with pytest.warns(PrivacyWarning):
        x = train(run, Quadratics(CENTRES), START, Given(permutations, noise)).x
    assert x == pytest.approx(by_hand(run, START, orders, noise), rel=1e-12, abs=1e-13)


def test_a_promised_bound_does_not_clip_coordinates_harder(free):
    """To clip_norm/√d, whatever else bounds the norm: a gradient that keeps its promise is left alone."""
    loss = Loss.convex(1.0, gradient_bound=1.0, separable=True)
    run = small_run(loss=loss, clip_norm=4.0, clipping="coordinates", gradient_sensitivity=None)
    pull = lambda x, rows: np.where(rows == 0, -0.9, 0.0)[:, None] * np.eye(1, 16)  # noqa: E731
    assert silently(run, pull, np.zeros(16))[0] == pytest.approx(2 * 0.3 * 0.9 / 3.0, rel=1e-12)


def test_any_shape_of_parameters(free):
    run = small_run(clip_norm=1.0, gradient_sensitivity=None)
    for shape in ((), (1,), (2, 3)):
        data = np.arange(7.0).reshape(7, *[1] * len(shape)) * np.ones(shape)
        out = silently(run, lambda x, rows, data=data: x - data[rows], np.zeros(shape))
        assert out.shape == shape
    assert silently(run, lambda x, rows: np.zeros((len(rows), 0)), np.zeros(0)).shape == (0,)
    matrix = np.diag([3.0, 0.5])[
        :, [1, 0, 0]
    ]  # of which a proximal map of matrices takes a little a step
    walled = replace(run, prox=prox.nuclear_norm(1e-3))
    out = silently(walled, lambda x, rows: np.zeros((len(rows), 2, 3)), matrix)
    taken = np.linalg.svd(matrix)[1] - np.linalg.svd(out)[1]
    assert taken == pytest.approx(np.full(2, 1e-3 * run.step_size * run.steps), rel=1e-9)


def test_a_diameter_that_the_prox_enforces_is_fine(free):
    run = small_run(diameter=2.0, prox=BALL)
    assert np.linalg.norm(train(run, Quadratics(CENTRES), [0.0, 0.0]).x) <= 1.0 + 1e-15


def test_accounts_before_it_touches_the_data(monkeypatch):
    def nothing(self, delta=DELTA, position=None):
        raise RuntimeError("no guarantee")

    monkeypatch.setattr(NoisySGD, "guarantee", nothing)
    touched = []
    with pytest.raises(RuntimeError, match="no guarantee"):
        train(small_run(), lambda x, rows: touched.append(rows), [0.0, 0.0])
    assert not touched


def test_holds_nothing_but_the_last_iterate(free, capfd, caplog, recwarn):
    hidden = []

    def gradients(x, rows):
        hidden.append(weakref.ref(x.base))
        return Quadratics(CENTRES)(x, rows)

    run = small_run(batches=ShuffleOnce(3), epochs=5)
    result = train(run, gradients, [0.5, 0.5])
    gc.collect()
    assert isinstance(result, Trained)
    assert [f.name for f in fields(result)] == ["x", "guarantee", "run"]
    assert set(vars(result)) == {"x", "guarantee", "run"}
    assert result.run is run
    assert result.x.base is None
    assert not result.x.flags.writeable
    assert len(hidden) == 15
    assert all(r() is None for r in hidden)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert not recwarn.list


def test_the_callable_cannot_change_the_iterate(unpriced, unrounded):
    """Nor does training change what it returned."""
    kept = np.full((3, 2), 9.0)

    def gradients(x, rows):
        with pytest.raises(ValueError, match="read-only"):
            x += 1.0
        rows[:] = 0  # its own copy
        return 0.0 * kept[: len(rows)]

    start = np.array([1.0, 2.0])
    assert silently(small_run(), gradients, start) == pytest.approx([1.0, 2.0])
    assert start.tolist() == [1.0, 2.0]
    assert start.flags.writeable
    clipped = small_run(n=3, batches=FullBatch(), clip_norm=1.0, gradient_sensitivity=None)
    silently(clipped, lambda x, rows: kept, [0.0, 0.0])
    assert np.all(kept == 9.0)


@every("kind", ["own error", "non-finite", "chained"])
def test_exceptions_carry_no_iterate(free, kind):
    """Frames of what was being handled before are somebody else's, who may want to see them."""
    calls = []

    def gradients(x, rows):
        calls.append(1)
        mine = x.copy()
        if len(calls) < 4:
            return np.zeros((len(rows), 2))
        if kind == "non-finite":
            return mine * np.full((len(rows), 1), np.nan)
        try:
            return {}["missing"]
        except KeyError:
            raise ValueError("a bug") from (None if kind == "own error" else OSError("why"))

    def theirs():
        useful = 7
        raise LookupError(useful)

    try:
        theirs()
    except LookupError as error:
        outer = error
        with pytest.raises(InvalidInput) as caught:
            train(small_run(), gradients, [0.25, 0.25])
    assert frames_of(outer)[-1].f_locals == {"useful": 7}
    chain, frames, here = [caught.value], [], sys._getframe()
    for e in chain:
        frames += [f for f in frames_of(e) if f is not here]
        chain += [c for c in (e.__cause__, e.__context__) if c is not None]
    outermost = ("train", "train_and_keep", "released", "unseen")
    inside = [f for f in frames if f.f_code.co_name not in (*outermost, "theirs")]
    assert inside
    assert [(f.f_code.co_name, f.f_locals) for f in inside if f.f_locals] == []
    running = [f for f in frames if f.f_code.co_name in outermost[1:]]
    hidden = np.ndarray, np.random.Generator, State
    kept = {k for f in running for k, v in f.f_locals.items() if isinstance(v, hidden)}
    assert kept == {"start"}


def test_groups_of_exceptions_carry_no_iterate():
    """Of workers, each with a frame and a traceback of its own."""

    def worker(x):
        secret = x + 77.0
        raise ValueError(len(secret))

    def gradients(x):
        errors = []
        for _ in range(2):
            try:
                worker(x)
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("workers", [errors[0], ExceptionGroup("more", errors[1:])])

    with pytest.raises(ExceptionGroup) as caught:
        unseen(lambda: gradients(np.array([0.25, 0.25])))
    first, more = caught.value.exceptions
    frames = [f for error in (first, *more.exceptions) for f in frames_of(error)]
    workers = [f.f_locals for f in frames if f.f_code.co_name == "worker"]
    assert workers == [{}, {}]


@pytest.mark.parametrize("name", ["per_record_gradients", "clipped_gradient_sum"])
def test_what_gradients_raise_shows_no_record(free, name):
    """Neither the line, nor what hangs on the error: a message may quote the row that it failed on."""

    def broken(x, rows, *clip_norm):
        try:
            raise LookupError("row 77123")
        except LookupError as error:
            raise ValueError("of 77123") from error

    with pytest.raises(InvalidInput) as caught:
        train(small_run(), x0=[0.5, 0.5], **{name: broken})
    assert str(caught.value).startswith(f"{name}: fails on records of the data, with a ValueError")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "77123" not in "".join(traceback.format_exception(caught.value))


@every("seed", [5, np.int64(5)])
def test_seeds_reproduce_and_warn(free, seed):
    run = small_run(batches=Reshuffle(3))
    results = []
    for state in (seed, seed, np.random.default_rng(5)):
        with pytest.warns(PrivacyWarning, match="testing only") as caught:
            results.append(train(run, Quadratics(CENTRES), [0.0, 0.0], state).x)
        assert caught[0].filename == __file__
    assert all(np.array_equal(x, results[0]) for x in results)
    drawn = {tuple(train(run, Quadratics(CENTRES), [0.0, 0.0]).x) for _ in range(20)}
    assert len(drawn) == 20


class Other(Batches):
    kind = "other"

    def batch_size(self, n):
        return n


REFUSED = {
    "diameter": [
        *({"diameter": 2.0}, {"diameter": 2.0, "prox": Map(lambda x, eta: x)}),
        {"diameter": 1.9, "prox": BALL},
    ],
    "update": [{"update": "other"}],
    "noise_std": [{"noise_std": None}],
    "batches": [{"batches": Other()}],
    "prox": [{"prox": Map(lambda x, eta: x[:1])}],
    "x0": [
        *({"x0": x0} for x0 in ([0.0, math.nan], [math.inf, 0.0], "zero")),
        *({"x0": x0} for x0 in ([[1.0], [1.0, 2.0]], [1j])),
    ],
}


@every("field", REFUSED)
def test_refuses_what_it_would_not_do(field):
    def trained(x0=(0.0, 0.0), **changes):
        train(small_run(**changes), Quadratics(CENTRES), x0)

    for changes in REFUSED[field]:
        refused(field, trained, **changes)
    refused("run", train, "a run", Quadratics(CENTRES), [0.0, 0.0])


def zeros(x, rows):
    return np.zeros((len(rows), 2))


def test_the_guarantee_is_that_of_the_run():
    """But for noise that somebody can draw again, which gets no certificate."""
    run = NoisySGD(
        Loss.logistic(1.0, l2=0.01), 20, ShuffleOnce(4), epochs=3, step_size=1.0, noise_std=0.3
    )
    copy, got = replace(run), train(run, zeros, [0.0, 0.0])
    assert got.run == replace(run, rounding=got.run.rounding, noise_std=got.run.noise_std)
    expected, got = got.run.guarantee().assuming(BY_RECORD, ACCURATE), got.guarantee
    assert got.epsilon(DELTA) == expected.epsilon(DELTA) <= run.guarantee().epsilon(DELTA)
    assert (got.assumptions, got.tuned_at) == (expected.assumptions, DELTA)
    assert train(run, zeros, [0.0, 0.0], delta=1e-3).guarantee.tuned_at == 1e-3
    with pytest.warns(PrivacyWarning):
        seeded = train(run, zeros, [0.0, 0.0], 0).guarantee
    assert seeded.assumptions == ("noise reproducible: testing only", *expected.assumptions)
    assert seeded.certificate is None
    assert run == copy


def test_gradients_of_the_program_are_its_word():
    """Nothing here can see whether one looks at other records of a batch; pabi's own do not."""
    records, y = learn.Records(np.eye(20, 2), 1.0), np.arange(20) % 2

    class Mine(learn.LogisticGradients):
        pass

    run = NoisySGD(Loss.logistic(1.0), 20, FullBatch(), steps=1, step_size=1.0, noise_std=0.3)
    for gradients, told in (
        (zeros, True),
        (learn.LinearGradients(records, y, lambda z, t: z), True),
        (Mine(records, y), True),
        (learn.LogisticGradients(records, y), False),
    ):
        sentences = train(run, gradients, [0.0, 0.0]).guarantee.assumptions
        assert (BY_RECORD in sentences) == told

"""The trainer does what the description says, and keeps to itself what it must."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import traceback
import warnings
import weakref
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

from pabi.describe.batches import Batches, Cyclic, FullBatch, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.checkpoint import State
from pabi.execute.clipping import clip_norms
from pabi.execute.hiding import unseen
from pabi.execute.randomness import randomness_from, secret_generator
from pabi.guarantees.guarantee import TESTING
from pabi.learn import Trained, train
from pabi.numbers.errors import InvalidInput, PrivacyWarning

DELTA = 1e-5


class Cost:
    """Stands in for a guarantee where a test is not about it."""

    testing = False

    method, besides = "composition", ()

    def assuming(self, *sentences):
        self.testing = TESTING in sentences
        return self

    def noting(self, notes):
        return self


@pytest.fixture
def free(monkeypatch):
    """No accounting and no rounding of the result: runs that are about their iterates."""
    monkeypatch.setattr(NoisySGD, "guarantee", lambda self, delta=DELTA, position=None: Cost())
    monkeypatch.setattr("pabi.execute.hiding.GRID", 2.0**-100)


class Silent(np.random.Generator):
    """A generator without noise, which shuffles as it is told."""

    def __init__(self, permutations=()):
        super().__init__(np.random.PCG64(0))
        self.permutations = iter(permutations)

    def standard_normal(self, size=None, *args, **kwargs):
        return np.zeros(size)

    def permutation(self, x, axis=0):
        return np.array(next(self.permutations))


class SoftThreshold:
    diameter = None

    def __call__(self, x, step_size):
        return np.sign(x) * np.maximum(np.abs(x) - 0.05 * step_size, 0.0)


class Ball:
    """Projection on the unit ball."""

    diameter = 2.0

    def __call__(self, x, step_size):
        return x / max(1.0, float(np.linalg.norm(x)))


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
    given = {
        "n": 7,
        "batches": Cyclic(3),
        "epochs": 2,
        "step_size": 0.3,
        "noise_std": 1.0,
        "gradient_sensitivity": 1.0,
    }
    given.update(changes)
    return NoisySGD(given.pop("loss", Loss.convex(smoothness=1.0)), **given)


CENTRES = np.random.default_rng(7).normal(size=(7, 2)) * [1.0, 3.0]
PERMUTATIONS = [[3, 1, 6, 0, 2, 5, 4], [6, 5, 4, 3, 2, 1, 0], [0, 2, 4, 6, 1, 3, 5]]


def by_hand(run, x, orders, noise=None):
    """The iteration written out in scalars, one record at a time. `orders`: rows, one an epoch."""
    b = run.n if isinstance(run.batches, FullBatch) else run.batches.size
    per_epoch = math.ceil(run.n / b)
    steps = np.broadcast_to(run.step_size, run.steps)
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
                total = [total[j] + shrink * g[j] for j in range(len(x))]
        eta = float(steps[k])
        x = [x[j] - eta * (total[j] / b + run.loss.l2 * x[j]) for j in range(len(x))]
        if run.prox is not None:
            x = list(run.prox(np.array(x), eta))
    return np.array(x)


# What is executed.


@pytest.mark.parametrize(
    ("batches", "permutations", "orders"),
    [
        (FullBatch(), [], [range(7)] * 9),
        (Cyclic(3), [], [range(7)] * 3),
        (Cyclic(7), [], [range(7)] * 9),
        (ShuffleOnce(3), PERMUTATIONS[:1], PERMUTATIONS[:1] * 3),
        (Reshuffle(3), PERMUTATIONS, PERMUTATIONS),
    ],
    ids=["full", "cyclic", "one batch", "shuffle once", "reshuffle"],
)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cooldown_steps": 2},
        {"step_size": np.linspace(0.5, 0.1, 8)},
        {"loss": Loss.convex(smoothness=1.0, l2=0.2), "cooldown_steps": 3},
        {"clip_norm": 0.7, "gradient_sensitivity": None},
        {"loss": Loss.convex(smoothness=1.0, gradient_bound=0.9), "gradient_sensitivity": None},
        {"loss": Loss.convex(smoothness=1.0, gradient_bound=0.9)},
        {"prox": SoftThreshold()},
        {
            "loss": Loss.convex(smoothness=1.0, gradient_bound=2.0, l2=0.1),
            "clip_norm": 1.2,
            "gradient_sensitivity": None,
            "prox": Ball(),
            "cooldown_steps": 1,
            "step_size": np.linspace(0.1, 0.9, 8),
        },
    ],
    ids=["plain", "cooldown", "steps", "l2", "clip", "loss bound", "stated", "prox", "all"],
)
def test_every_step_is_the_described_one(free, batches, permutations, orders, changes):
    """Two whole epochs and two thirds of a third, the short batch divided by the full size."""
    run = small_run(batches=batches, epochs=None, steps=8, **changes)
    x0 = [0.5, -1.0]
    assert silently(run, Quadratics(CENTRES), x0, permutations) == pytest.approx(
        by_hand(run, x0, orders), rel=1e-12, abs=1e-13
    )


def test_a_short_batch_is_divided_by_the_full_size(free):
    """One step on the single record of the last batch moves a third as far as its mean would."""
    run = small_run(batches=Cyclic(3), epochs=1, step_size=1.0)
    only_last = lambda x, rows: np.where(rows == 6, -1.0, 0.0)[:, None] * np.ones((1, 1))  # noqa: E731
    assert silently(run, only_last, [0.0]) == pytest.approx([1.0 / 3.0], rel=1e-15)


def test_permutations_are_drawn_once_or_every_epoch(free):
    counted = Silent(PERMUTATIONS)
    with pytest.warns(PrivacyWarning):
        train(small_run(batches=ShuffleOnce(3), epochs=3), Quadratics(CENTRES), [0.0, 0.0], counted)
    assert len(list(counted.permutations)) == 2
    counted = Silent(PERMUTATIONS)
    with pytest.warns(PrivacyWarning):
        train(small_run(batches=Reshuffle(3), epochs=2.2), Quadratics(CENTRES), [0.0, 0.0], counted)
    assert not list(counted.permutations)


def test_every_record_is_used_once_an_epoch_under_every_order(free):
    for batches in (FullBatch(), Cyclic(3), ShuffleOnce(3), Reshuffle(3)):
        seen = []

        def gradients(x, rows, seen=seen):
            seen.append(list(rows))
            return np.zeros((len(rows), 1))

        train(small_run(batches=batches, cooldown_steps=4), gradients, [0.0])
        flat = [i for rows in seen for i in rows]
        assert sorted(flat[:7]) == sorted(flat[7:]) == list(range(7))
        assert (flat[:7] == flat[7:]) or batches.kind == "reshuffle"
        assert [len(r) for r in seen] == ([7, 7] if batches.kind == "full_batch" else [3, 3, 1] * 2)


def test_any_shape_of_parameters(free):
    run = small_run(clip_norm=1.0, gradient_sensitivity=None)
    for shape in ((), (1,), (2, 3)):
        data = np.arange(7.0).reshape(7, *[1] * len(shape)) * np.ones(shape)
        out = silently(run, lambda x, rows, data=data: x - data[rows], np.zeros(shape))
        assert out.shape == shape
    assert silently(run, lambda x, rows: np.zeros((len(rows), 0)), np.zeros(0)).shape == (0,)


# The law of the last iterate.

MATRIX = np.array([[1.0, 0.4], [0.4, 0.6]])


@pytest.mark.parametrize("runs", [500, pytest.param(4000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "changes",
    [
        {"batches": FullBatch(), "epochs": 4},
        {"epochs": 2, "cooldown_steps": 1, "noise_std": np.linspace(0.5, 1.5, 7)},
        {
            "epochs": None,
            "steps": 5,
            "step_size": np.linspace(0.9, 0.2, 5),
            "noise_std": None,
            "noise_multiplier": 3e-6,  # of a bound of 10⁶, over a batch of 3: a noise of 1
            "gradient_sensitivity": None,
            "loss": Loss.convex(smoothness=2.0, gradient_bound=1e6),
        },
    ],
    ids=["full", "noise schedule", "multiplier"],
)
def test_mean_and_covariance_on_quadratics(free, changes, runs):
    """Affine maps plus Gaussian noise: mean and covariance follow a two-line recursion.

    Independent runs with noise from the operating system. Means deviate by √(Σ_ii/N), entries
    of the covariance by √((Σ_iiΣ_jj + Σ_ij²)/N); at six of these, one in 10⁸ right trainers fails.
    """
    run = small_run(**{"loss": Loss.convex(smoothness=2.0, l2=0.3), **changes})
    gradients, start = Quadratics(CENTRES, MATRIX), np.array([1.0, -2.0])
    draws = np.array([train(run, gradients, start).x for _ in range(runs)])

    mean, cov = start, np.zeros((2, 2))
    b = 7 if isinstance(run.batches, FullBatch) else 3
    etas, stds = (np.broadcast_to(s, run.steps) for s in (run.step_size, run.gradient_noise_std))
    if "noise_multiplier" in changes:
        assert stds == pytest.approx(np.ones(5), rel=1e-12)
    for k in range(run.steps):
        rows = range(7)[(k * b) % (3 * b if b == 3 else b) :][:b]
        if k >= run.steps - run.cooldown_steps:
            rows = []
        pull = sum((MATRIX @ CENTRES[i] for i in rows), np.zeros(2)) / b
        step = np.eye(2) - etas[k] * (len(rows) / b * MATRIX + run.loss.l2 * np.eye(2))
        mean = step @ mean + etas[k] * pull
        cov = step @ cov @ step.T + (etas[k] * stds[k]) ** 2 * np.eye(2)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * np.sqrt(np.diag(cov) / runs))
    centred = draws - mean
    spread = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / runs)
    assert np.all(np.abs(centred.T @ centred / runs - cov) < 6 * spread)


@pytest.mark.parametrize("batches", [ShuffleOnce(1), Reshuffle(1)])
def test_the_record_used_last_is_uniform(free, batches):
    """A step of size one jumps to the record; of 900 runs each of three ends 300 ± 6√200."""
    run = small_run(n=3, batches=batches, epochs=2, step_size=1.0, noise_std=1e-6)
    centres = np.array([[0.0], [1.0], [2.0]])
    last = [round(train(run, Quadratics(centres), [0.0]).x.item()) for _ in range(900)]
    assert np.all(np.abs(np.bincount(last, minlength=3) - 300) < 6 * math.sqrt(200))


# Clipping.


def squared_norm(vector):
    return sum((Fraction(float(v)) ** 2 for v in np.ravel(vector)), Fraction(0))


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-3, 1.0, 1e5, 1e160, 1e300])
@pytest.mark.parametrize("bound", [1e-150, 1e-3, 1.0, 0.1 + 0.2, 1e150])
def test_clipped_norms_never_exceed_the_bound(scale, bound, count):
    """In exact rational arithmetic, and without losing more than 10⁻¹³ of a long vector."""
    rng = np.random.default_rng(1)
    for d in (1, 2, 3, 17, 64):
        vectors = rng.standard_normal((count, d)) * scale
        vectors[0] = 0.0
        before = vectors.copy()
        clipped = clip_norms(vectors, bound)
        assert np.array_equal(vectors, before)
        for v, c in zip(vectors, clipped, strict=True):
            exact, limit = squared_norm(v), Fraction(bound) ** 2
            assert squared_norm(c) <= limit
            if exact <= limit * (1 - Fraction(1, 10**12)):
                assert np.array_equal(c, v)
            elif exact > limit:
                assert squared_norm(c) >= limit * (1 - Fraction(1, 10**12))
                assert np.all(np.sign(c) * np.sign(v) >= 0.0)


def test_vectors_right_at_the_bound():
    """Vectors normalised in floating point are about as often too long as too short."""
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((500, 9))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    assert any(squared_norm(v) > 1 for v in vectors)
    assert all(squared_norm(c) <= 1 for c in clip_norms(vectors, 1.0))


def test_largest_doubles_are_clipped_and_not_lost():
    huge = np.full((1, 4), 1.7e308)
    assert clip_norms(huge, 2.0) == pytest.approx(np.ones((1, 4)), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({"clip_norm": 0.1, "gradient_sensitivity": None}, 0.1),
        ({"loss": Loss.logistic(0.3), "gradient_sensitivity": None}, 0.3),
        ({"loss": Loss.logistic(0.3), "clip_norm": 7.0, "gradient_sensitivity": None}, 0.3),
        ({"loss": Loss.logistic(0.3)}, None),
    ],
    ids=["clip_norm", "loss", "both", "stated sensitivity"],
)
def test_the_accounted_sensitivity_is_enforced(free, changes, longest):
    """A loss that breaks its promise is clipped all the same; a stated sensitivity is believed."""
    run = small_run(n=1, batches=FullBatch(), epochs=1, step_size=1.0, **changes)
    moved = silently(run, lambda x, rows: np.array([[3.0, 4.0, 12.0]]), np.zeros(3))
    if longest is None:
        assert moved == pytest.approx([-3.0, -4.0, -12.0])
    else:
        assert squared_norm(moved) <= Fraction(longest) ** 2
        assert np.linalg.norm(moved) == pytest.approx(longest, rel=1e-12)


# What is refused.


class Unbounded:
    diameter = None

    def __call__(self, x, step_size):
        return x


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"diameter": 2.0}, "diameter"),
        ({"diameter": 2.0, "prox": Unbounded()}, "diameter"),
        ({"diameter": 1.9, "prox": Ball()}, "diameter"),
        ({"update": "other"}, "update"),
        ({"noise_std": None}, "noise_std"),
    ],
)
def test_refuses_what_it_would_not_do(changes, field):
    with pytest.raises(InvalidInput) as caught:
        train(small_run(**changes), Quadratics(CENTRES), [0.0, 0.0])
    assert caught.value.field == field


def test_a_diameter_that_the_prox_enforces_is_fine(free):
    run = small_run(diameter=2.0, prox=Ball())
    assert np.linalg.norm(train(run, Quadratics(CENTRES), [0.0, 0.0]).x) <= 1.0 + 1e-15


def test_refuses_unknown_batches(free):
    class Other(Batches):
        kind = "other"

        def batch_size(self, n):
            return n

    with pytest.raises(InvalidInput, match="^batches: "):
        train(small_run(batches=Other()), Quadratics(CENTRES), [0.0, 0.0])


def test_refuses_other_descriptions(free):
    with pytest.raises(InvalidInput, match="^run: "):
        train("a run", Quadratics(CENTRES), [0.0, 0.0])


@pytest.mark.parametrize(
    "x0", [[0.0, math.nan], [math.inf, 0.0], "zero", [[1.0], [1.0, 2.0]], [1j]]
)
def test_refuses_starting_points(free, x0):
    with pytest.raises(InvalidInput, match="^x0: "):
        train(small_run(), Quadratics(CENTRES), x0)


SECRET = 6172.25


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: np.full((m, 3), SECRET),
        lambda m: np.full((m + 1, 2), SECRET),
        lambda m: np.full(2, SECRET),
        lambda m: SECRET,
        lambda m: [[SECRET, math.nan]] * m,
        lambda m: [[SECRET, -math.inf]] * m,
        lambda m: np.full((m, 2), SECRET + 1j),
        lambda m: [["a", str(SECRET)]] * m,
        lambda m: [[SECRET], [SECRET, 1.0], []],
        lambda m: None,
    ],
)
def test_refuses_gradients_without_showing_them(free, wrong, capsys):
    with pytest.raises(InvalidInput) as caught:
        train(small_run(), lambda x, rows: wrong(len(rows)), [0.0, 0.0])
    assert caught.value.field == "per_record_gradients"
    assert "6172" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_refuses_a_prox_that_changes_the_shape(free):
    class Flat:
        diameter = None

        def __call__(self, x, step_size):
            return x[:1]

    with pytest.raises(InvalidInput, match="^prox: "):
        train(small_run(prox=Flat()), Quadratics(CENTRES), [0.0, 0.0])


def test_accounts_before_it_touches_the_data(monkeypatch):
    def nothing(self, delta=DELTA, position=None):
        raise RuntimeError("no guarantee")

    monkeypatch.setattr(NoisySGD, "guarantee", nothing)
    touched = []
    with pytest.raises(RuntimeError, match="no guarantee"):
        train(small_run(), lambda x, rows: touched.append(rows), [0.0, 0.0])
    assert not touched


# What stays hidden.


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


def test_a_prox_that_returns_a_view_leaks_nothing_else(free):
    class Memory:
        diameter = None

        def __call__(self, x, step_size):
            return np.stack([x, x + 1.0])[0]

    assert train(small_run(prox=Memory()), Quadratics(CENTRES), [0.0, 0.0]).x.base is None


def test_the_callable_cannot_change_the_iterate(free):
    def gradients(x, rows):
        with pytest.raises(ValueError, match="read-only"):
            x += 1.0
        rows[:] = 0  # its own copy
        return np.zeros((len(rows), 2))

    start = np.array([1.0, 2.0])
    assert silently(small_run(), gradients, start) == pytest.approx([1.0, 2.0])
    assert start.tolist() == [1.0, 2.0]
    assert start.flags.writeable


def test_gradients_are_left_as_they_were_given(free):
    kept = np.full((3, 2), 9.0)
    run = small_run(n=3, batches=FullBatch(), clip_norm=1.0, gradient_sensitivity=None)
    silently(run, lambda x, rows: kept, [0.0, 0.0])
    assert np.all(kept == 9.0)


def test_floating_point_trouble_makes_no_noise(free):
    """A numpy warning from a hidden step would be a message about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        train(
            small_run(clip_norm=1.0, gradient_sensitivity=None),
            lambda x, rows: 1.0 / (1.0 + np.exp(np.full((len(rows), 2), 1e4) + x)),
            [1e300, -1e300],
        )


@pytest.mark.parametrize("kind", ["own error", "non-finite", "chained"])
def test_exceptions_carry_no_iterate(free, kind):
    calls = []

    def gradients(x, rows):
        calls.append(1)
        mine = x.copy()
        if len(calls) == 4 and kind == "non-finite":
            return mine * np.full((len(rows), 1), np.nan)
        if len(calls) == 4:
            try:
                return {}["missing"]
            except KeyError:
                raise ValueError("a bug") from (None if kind == "own error" else OSError("why"))
        return np.zeros((len(rows), 2))

    outer_frames = []
    try:
        try:
            outside = np.ones(3)
            raise LookupError("before")
        except LookupError as outer:
            outer_frames.append(outer.__traceback__.tb_frame)
            train(small_run(), gradients, [0.25, 0.25])
    except (ValueError, InvalidInput) as error:
        chain, frames, here = [error], [], sys._getframe().f_code.co_name
        while chain:
            e = chain.pop()
            frames += [f for f, _ in traceback.walk_tb(e.__traceback__)]
            chain += [c for c in (e.__cause__, e.__context__) if c is not None]
        inside = [
            f
            for f in frames
            if f.f_code.co_name not in ("train", "train_and_keep", "released", "unseen", here)
        ]
        assert inside
        assert [(f.f_code.co_name, f.f_locals) for f in inside if f.f_locals] == []
        running = [
            f for f in frames if f.f_code.co_name in ("train_and_keep", "released", "unseen")
        ]
        hidden = np.ndarray, np.random.Generator, State
        kept = {k for f in running for k, v in f.f_locals.items() if isinstance(v, hidden)}
        assert kept == {"start"}
    else:
        pytest.fail("expected an error")
    assert outside.sum() == 3.0
    assert outer_frames[0].f_locals["kind"] == kind


def test_groups_of_exceptions_carry_no_iterate(free):
    """Of workers, each with a frame and a traceback of its own."""
    caught = []

    def worker(x):
        secret = x + 77.0
        raise ValueError(len(secret))

    def gradients(x, rows):
        errors = []
        for _ in range(2):
            try:
                worker(x)
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("workers", [errors[0], ExceptionGroup("more", errors[1:])])

    try:
        unseen(lambda: gradients(np.array([0.25, 0.25]), None))
    except ExceptionGroup as group:
        caught = [group, *group.exceptions, *group.exceptions[1].exceptions]
    frames = [f for e in caught for f, _ in traceback.walk_tb(e.__traceback__)]
    workers = [f for f in frames if f.f_code.co_name == "worker"]
    assert len(workers) == 2
    assert all(f.f_locals == {} for f in workers)


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


# Where the randomness comes from.


def test_default_randomness_differs_between_runs(free):
    run = small_run(batches=ShuffleOnce(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = {tuple(train(run, Quadratics(CENTRES), [0.0, 0.0]).x) for _ in range(20)}
    assert len(draws) == 20


def test_default_permutations_differ_between_runs():
    drawn = {tuple(secret_generator().permutation(50)) for _ in range(20)}
    assert len(drawn) == 20


def test_the_default_generator_is_chacha20_with_the_key_from_the_system(monkeypatch):
    """RFC 8439, Appendix A.1, test vectors 1 (key 0, block 0) and 2 (block 1): 512 bits a block."""
    asked = []

    def zeros(n):
        asked.append(n)
        return bytes(n)

    monkeypatch.setattr("os.urandom", zeros)
    generator = secret_generator()
    assert asked[0] == 32
    stream = np.asarray(generator.bit_generator.random_raw(10), dtype="<u8").tobytes().hex()
    assert stream[:32] == "76b8e0ada0f13d90405d6ae55386bd28"
    assert stream[128:] == "9f07e7be5551387a98ba977c732d080d"


def test_all_256_bits_of_the_key_are_used(monkeypatch):
    first = set()
    for byte in range(32):
        key = bytes(1 if i == byte else 0 for i in range(32))
        monkeypatch.setattr("os.urandom", lambda n, key=key: key)
        first.add(int(secret_generator().bit_generator.random_raw()))
    assert len(first) == 32


@pytest.mark.parametrize("seed", [5, np.int64(5)])
def test_seeds_reproduce_warn_and_are_marked(free, seed):
    run = small_run(batches=Reshuffle(3))
    results = []
    for state in (seed, seed, np.random.default_rng(5)):
        with pytest.warns(PrivacyWarning, match="testing only") as caught:
            results.append(train(run, Quadratics(CENTRES), [0.0, 0.0], state))
        assert caught[0].filename == __file__
    assert all(np.array_equal(r.x, results[0].x) for r in results)
    assert all(r.guarantee.testing for r in results)
    assert not train(run, Quadratics(CENTRES), [0.0, 0.0]).guarantee.testing


@pytest.mark.parametrize("state", [-1, True, 1.5, "seed", np.random.RandomState(0)])
def test_refuses_other_random_states(state):
    with pytest.raises(InvalidInput, match="^random_state: "):
        randomness_from(state)


# The guarantee that comes with it.


def accounted_run():
    return NoisySGD(
        Loss.logistic(1.0, l2=0.01),
        n=20,
        batches=ShuffleOnce(4),
        epochs=3,
        step_size=1.0,
        noise_std=0.3,
    )


def test_the_guarantee_is_that_of_the_run():
    run = accounted_run()
    result = train(run, lambda x, rows: np.zeros((len(rows), 2)), [0.0, 0.0])
    expected = run.guarantee()
    assert result.guarantee.epsilon(DELTA) == expected.epsilon(DELTA)
    assert result.guarantee.assumptions == expected.assumptions
    assert result.guarantee.tuned_at == DELTA


def test_delta_is_passed_on():
    run = accounted_run()
    result = train(run, lambda x, rows: np.zeros((len(rows), 2)), [0.0, 0.0], delta=1e-3)
    assert result.guarantee.tuned_at == 1e-3


def test_reproducible_noise_gets_no_certificate():
    run = accounted_run()
    with pytest.warns(PrivacyWarning):
        result = train(run, lambda x, rows: np.zeros((len(rows), 2)), [0.0, 0.0], 0)
    assert result.guarantee.assumptions[0] == "noise reproducible: testing only"
    assert result.guarantee.assumptions[1:] == run.guarantee().assumptions
    assert result.guarantee.certificate is None


def test_the_description_is_left_alone():
    run = accounted_run()
    copy = replace(run)
    train(run, lambda x, rows: np.zeros((len(rows), 2)), [0.0, 0.0])
    assert run == copy


def test_importing_the_package_stays_light():
    heavy = (
        "{'scipy.special', 'scipy.optimize', 'scipy.stats', 'sklearn', 'randomgen', 'matplotlib'}"
    )
    code = f"import sys, pabi, pabi.learn; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

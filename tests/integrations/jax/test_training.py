"""Training by JAX: beside `pabi.learn.train` on the same noise, and by itself."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import pabi
from pabi import Loss, NoisySGD
from pabi.learn import model_hash
from pabi.learn import train as train_on_host
from pabi.updates import Adam, Momentum
from support.every_case import every
from support.frameworks import framework

jax = framework("jax")
optax = framework("optax")
import jax.numpy as jnp

from pabi.execute.computed_steps import ACCURATE
from pabi.execute.sums import Limit
from pabi.integrations.jax import train
from pabi.integrations.jax.gradients import _length, gradients_of, products_of
from pabi.integrations.jax.programs import mixes
from pabi.integrations.jax.training import OF_ITS_OWN, PLACES

N, D = 120, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0.0).astype(float)
START = {"b": np.zeros(()), "w": np.zeros(D)}


def logistic(params, example):
    row, label = example
    z = row @ params["w"] + params["b"]
    return jnp.logaddexp(0.0, z) - label * z


def gradients(x, rows):
    """The same, in numpy: the intercept is first, as in the order of the names."""
    inputs = np.hstack([np.ones((len(rows), 1)), X[rows]])
    return (1.0 / (1.0 + np.exp(-inputs @ x)) - Y[rows])[:, None] * inputs


def sgd(**changes):
    loss = Loss.logistic(math.sqrt(2.0), l2=0.05)
    fields = {"loss": loss, "n": N, "batches": pabi.Cyclic(25), "epochs": 3, "step_size": 0.5}
    return NoisySGD(**{**fields, "clip_norm": 0.4, "noise_multiplier": 1.0, **changes})


def flat(params):
    return np.concatenate([np.ravel(params["b"]), params["w"]])


def apart(run, **arguments):
    """How far the iterates by JAX and by numpy are apart on the same noise and batches."""
    run = replace(run, rounding=1e-4)  # for which numpy raises no noise
    by_jax = train(START, logistic, (X, Y), run, random_state=7, **arguments)
    on_host = train_on_host(run, gradients, np.zeros(D + 1), random_state=7)
    assert np.linalg.norm(on_host.x) > 0.1
    return float(np.abs(flat(by_jax.params) - on_host.x).max())


UNCLIPPED = {"clip_norm": None, "noise_multiplier": None}
# The loss below is not strongly convex; what matters is that its noise is raised alike.
STRONG = Loss.strongly_convex(0.1, 1.0, gradient_bound=0.3)
RUNS = {
    "cyclic": {},
    "shuffled once": {"batches": pabi.ShuffleOnce(25)},
    "full": {"batches": pabi.FullBatch()},
    "fixed size": {"batches": pabi.FixedSize(25)},
    "poisson": {"batches": pabi.Poisson(25)},
    "cap": {"batches": pabi.Poisson(25, cap=27)},
    "probability": {"batches": pabi.Poisson(7, probability=0.1), "steps": 20, "epochs": None},
    "bins afresh": {"batches": pabi.BallsInBins(25, redraw="epoch")},
    "spare": {"batches": pabi.Reshuffle(25, 1)},
    "cool-down": {"cooldown_steps": 3},
    "schedule": {
        "step_size": np.linspace(0.5, 0.1, 15),
        "noise_multiplier": np.linspace(1.0, 2.0, 15),
    },
    "nesterov": {"update": Momentum(0.9, nesterov=True)},
    "adam": {"update": Adam((0.7, 0.9)), "step_size": 0.05},
    "path": {"release": "path"},
    "strongly convex": {"loss": STRONG, **UNCLIPPED, "noise_std": 0.02},
    "sensitivity": {"gradient_sensitivity": 3.0, **UNCLIPPED, "noise_std": 0.1},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_iterate_is_that_of_numpy(unpriced, name):
    """Where numpy shows every iterate, it rounds every one to the grid."""
    assert apart(sgd(**RUNS[name])) < (1e-10 if name != "path" else 1e-6)


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        *(
            ("_HELD", 150, changes)
            for changes in ({"batches": pabi.Poisson(25)}, {"update": Adam()})
        ),
        ("_NEVER", 0.5, {"batches": pabi.Poisson(25)}),
    ],
    ids=["cut", "cut, adam", "larger"],
)
def test_long_runs_are_cut_and_batches_may_be_larger(unpriced, monkeypatch, name, value, changes):
    monkeypatch.setattr(f"pabi.integrations.jax.training.{name}", value)
    assert apart(sgd(**changes)) < 1e-10


def test_one_record_moves_a_step_by_no_more_than_its_sensitivity(unpriced):
    """Whatever its gradient, infinite ones included: those count as 0."""
    run = sgd(batches=pabi.FullBatch(), epochs=None, steps=1)
    before = flat(train(START, logistic, (X, Y), run, random_state=7).params)
    most = run.step_size * run.sensitivity / run.batch_size
    for value in (1e3, -1e300, np.inf, np.nan):
        other = X.copy()
        other[0] = value
        after = flat(train(START, logistic, (other, Y), run, random_state=7).params)
        assert np.linalg.norm(after - before) <= most
    assert np.linalg.norm(after - before) > 0.0


def convolved(params, example):
    row, label = example
    hidden = jnp.convolve(row, params["kernel"], "same")
    return jnp.tanh(hidden).sum() * params["scale"] - label


def test_a_record_that_is_not_finite_leaves_gradients_of_convolutions_of_others_as_they_are():
    """All kernels at once are multiplied with all records."""
    run = sgd(batches=pabi.FullBatch(), epochs=None, steps=1, loss=Loss.unknown())
    start = {"kernel": np.array([0.3, -0.2, 0.5]), "scale": np.ones(())}
    before, after = (
        train(start, convolved, (np.vstack([row, X[1:]]), Y), run, random_state=7).params
        for row in (X[0], np.full(D, np.nan))
    )
    most = run.step_size * run.sensitivity / run.batch_size
    moved = [before[name] - after[name] for name in start]
    assert 0.0 < np.linalg.norm(np.hstack(moved)) <= most


def noisy(params, key):
    """As dropout by a key that every record has for itself."""
    return jax.random.normal(jax.random.wrap_key_data(key, impl="rbg"), (D,)) @ params


@jax.custom_batching.custom_vmap
def centred(row):
    return row


@centred.def_vmap
def _of_all(size, batched, rows):
    return rows - jnp.mean(rows, axis=0), True


def of_centred(params, row):
    return jax.lax.stop_gradient(centred(row)) @ params


KEYS = RNG.integers(0, 2**32, (N, 4), dtype=np.uint32)


@every("loss, records", [(noisy, KEYS), (of_centred, X)])
def test_what_jax_computes_of_several_records_at_once_does_not_mix_them(unpriced, loss, records):
    """Of several keys at once some generators use the first alone."""
    run = sgd(batches=pabi.FullBatch(), epochs=None, steps=1, loss=Loss.unknown())
    changed = np.concatenate([1000 * records[:1, ::-1], records[1:]])
    before, after = (
        train(np.zeros(D), loss, data, run, random_state=7).params for data in (records, changed)
    )
    most = run.step_size * run.sensitivity / run.batch_size
    assert 0.0 < np.linalg.norm(before - after) <= most


def test_keys_of_records_are_data(unpriced):
    """Of JAX's usual generator all at once are used each by itself."""
    keys = jax.random.split(jax.random.key(0), N)

    def apart(params, key):
        return jax.random.normal(key, (D,)) @ params

    run = sgd(batches=pabi.FullBatch(), epochs=None, steps=1, loss=Loss.unknown())
    assert np.any(train(np.zeros(D), apart, keys, run, random_state=7).params)
    assert not mixes(jax, jax.make_jaxpr(apart)(np.zeros(D), keys[0]))


def by_products(params, example):
    """A network whose matrices stand on either side of their products, both of one shape; one number more is
    used twice."""
    row, label = example
    hidden = jnp.tanh(row @ params["first"] + params["bias"])
    scores = params["second"] @ hidden + params["twice"] * hidden[0]
    return jnp.square(scores - label).sum() + jnp.square(params["twice"]).sum()


MATRICES = {
    "bias": RNG.normal(size=3),
    "first": RNG.normal(size=(D, 3)),
    "second": RNG.normal(size=(3, 3)),
    "twice": RNG.normal(size=3),
}


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("clip", [1e-200, 0.5, 1e3, None])
def test_clipped_sums_by_products_are_those_of_whole_gradients(clip, one_by_one):
    """Records of any size among them: those that are not finite, or too long, count as 0."""
    rows = RNG.normal(size=(9, D)) * np.array([1, 1, 1e-30, 0, 1e-160, 1e160, 1, 1, 1])[:, None]
    rows[6, 0], rows[7, 1] = np.inf, np.nan
    held = np.arange(9) < 8
    with jax.enable_x64(True):
        shapes = (jax.ShapeDtypeStruct((D,), "f8"), jax.ShapeDtypeStruct((), "f8"))
        program = jax.make_jaxpr(by_products)(MATRICES, shapes)
        found = products_of(program.jaxpr, len(MATRICES))
        assert [(one.leaf, one.first) for one in found] == [(1, True), (2, False)]
        total = gradients_of(jax, program, MATRICES, limit=Limit(clip, 1.0), one_by_one=one_by_one)
        summed = np.asarray(total(MATRICES, (rows, np.ones(9)), held))
        expected = np.zeros_like(summed)
        for row in rows[[0, 1, 2, 3, 4]]:
            gradient = jax.grad(by_products)(MATRICES, (row, 1.0))
            whole = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)])
            longest = np.linalg.norm(whole)
            expected += whole * (1.0 if clip is None else min(1.0, clip / longest))
    np.testing.assert_allclose(summed, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


LENGTHS = [(1.0, 0.3, True), (1e-139, 1e-100, True), (1e139, 1e-100, True)]
LENGTHS += [(1e139, 1e-250, False), (1e-141, 1.0, False), (1e141, 1.0, False)]


@every(("length", "clip", "kept"), LENGTHS)
def test_no_product_is_longer_than_the_bound(length, clip, kept):
    """In exact arithmetic, whatever the sizes of both factors; what has no safe length counts as 0."""
    row, params = RNG.normal(size=D), np.zeros((2, D))
    row *= length / np.linalg.norm(row)

    def steep(params, example):
        return jnp.sum(params @ example) * 1e100

    with jax.enable_x64(True):
        program = jax.make_jaxpr(steep)(params, row)
        total = gradients_of(jax, program, params, limit=Limit(clip, 1.0), one_by_one=False)
        summed = np.asarray(total(params, row[None], np.array([True])))
    assert sum(Fraction(float(x)) ** 2 for x in summed) <= Fraction(clip) ** 2
    assert (np.linalg.norm(summed / clip) > 0.99) == kept


def test_noise_is_fresh_and_as_described():
    """20 000 parameters that no record moves: a step is its noise."""
    run = sgd(batches=pabi.FullBatch(), epochs=None, steps=1, loss=Loss.unknown())
    start = np.zeros(20_000)

    def nothing(params, example):
        return 0.0 * params[0] * example

    one, other = (train(start, nothing, Y, run) for _ in range(2))
    std = float(run.step_size * run.gradient_noise_std)
    assert np.std(one.params) == pytest.approx(std, rel=5.0 / math.sqrt(40_000))
    assert np.std(one.params - other.params) == pytest.approx(math.sqrt(2) * std, rel=0.03)
    assert pabi.tradeoff.guarantee.TESTING not in one.guarantee.assumptions


def test_parameters_of_any_structure():
    def network(params, example):
        row, label = example
        return (params[1] @ jnp.tanh(params[0]["w"] @ row) - label) ** 2

    start = [{"w": np.full((3, D), 0.1, np.float32)}, jnp.full(3, 0.2, jnp.bfloat16)]
    run = sgd(loss=Loss.unknown(), batches=pabi.Poisson(25))
    result = train(start, network, (X.astype(np.float32), Y), run, random_state=1)
    assert jax.tree.map(np.shape, result.params) == [{"w": (3, D)}, (3,)]
    assert {leaf.dtype for leaf in jax.tree.leaves(result.params)} == {np.dtype(np.float64)}
    assert not any(leaf.flags.writeable for leaf in jax.tree.leaves(result.params))
    assert jnp.ones(1).dtype == np.float32  # as it was outside


def test_the_guarantee_is_that_of_the_run():
    for batches in (pabi.ShuffleOnce(25), pabi.Poisson(25)):
        run = sgd(batches=batches)
        result = train(START, logistic, (X, Y), run, delta=1e-3)
        expected = run.guarantee(1e-3)
        assert result.guarantee.epsilon(1e-3) == result.run.guarantee(1e-3).epsilon(1e-3)
        assert result.guarantee.epsilon(1e-3) <= expected.epsilon(1e-3)
        added = set(result.guarantee.assumptions) - set(expected.assumptions)
        # Of the shuffle the path is hidden, of the random batches it is charged for.
        assert added == {OF_ITS_OWN, PLACES if run.order.fresh else ACCURATE}
        assert (result.run is run) == run.order.fresh
        assert (result.run.rounding > 0.0) != run.order.fresh
    assert model_hash(result) == model_hash(result.params)
    assert model_hash(result.params) in result.guarantee.notes["models_sha256"]
    assert result.guarantee.notes["releases"][0]["parameters"] == ["x"]
    seeded = train(START, logistic, (X, Y), run, random_state=1)
    assert pabi.tradeoff.guarantee.TESTING in seeded.guarantee.assumptions


def test_noise_is_found_for_an_epsilon():
    asked = {"epsilon": 2.0, "delta": 1e-3}
    run = sgd(noise_multiplier=None)
    result = train(START, logistic, (X, Y), run, **asked)
    assert result.run == pabi.calibrate(replace(run, rounding=result.run.rounding), **asked)
    assert 1.99 < result.guarantee.epsilon(1e-3) <= 2.0


def test_a_ledger_is_charged_before_training(tmp_path):
    ledger = pabi.Ledger(tmp_path / "a.ledger", epsilon=0.1, delta=1e-5)
    with pytest.raises(pabi.BudgetExceeded):
        train(START, logistic, (X, Y), sgd(), ledger=ledger)
    roomy = pabi.Ledger(tmp_path / "b.ledger", epsilon=50.0, delta=1e-3)
    train(START, logistic, (X, Y), sgd(), ledger=roomy)
    assert roomy.report().spent > 0.0


# Optax.


@pytest.mark.parametrize(
    "schedule",
    [
        optax.cosine_decay_schedule(0.5, 100),
        optax.exponential_decay(0.5, 10, 0.9),
        optax.warmup_cosine_decay_schedule(0.01, 0.5, 5, 100, end_value=0.001),
        optax.constant_schedule(0.25),
    ],
    ids=["cosine", "exponential", "warm", "constant"],
)
def test_schedules_of_optax_are_step_sizes(unpriced, schedule):
    run = sgd(step_size=schedule)
    assert np.array_equal(run.step_size, [float(schedule(k)) for k in range(15)])
    assert len(replace(run, epochs=4).step_size) == 20
    assert apart(run) < 1e-10


@pytest.mark.parametrize(
    ("chain", "update", "size"),
    [
        (optax.sgd(0.5), "sgd", 0.5),
        (optax.sgd(0.5, momentum=0.9), Momentum(0.9), 0.5),
        (optax.adam(0.05, 0.7, 0.9), Adam((0.7, 0.9)), 0.05),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_chains_of_optax(chain, update, size):
    """They step as pabi's own updates do, and are accounted by composition."""
    ours = sgd(update=update, step_size=size, release="path")  # noise is on gradients then
    own = train(START, logistic, (X, Y), ours, random_state=7)
    run = sgd(update="other", step_size=size)
    result = train(START, logistic, (X, Y), run, optimizer=chain, random_state=7)
    # Their noisy gradients are rounded to 2⁻²⁰ of the noise.
    assert np.abs(flat(result.params) - flat(own.params)).max() < 1e-4
    assert result.guarantee.method == "composition"


def test_lengths_that_lose_digits_are_none():
    """Bounds on a record's gradient are products of lengths: 0 is taken for one that nobody knows."""
    with jax.enable_x64(True):
        short, usual, long = (float(_length(jax, jnp.full(4, x))) for x in (1e-160, 0.5, 1e160))
    assert (short, usual, long) == (0.0, 1.0, math.inf)

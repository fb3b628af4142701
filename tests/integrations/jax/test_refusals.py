"""What a loss or a chain of JAX may not do, refused before anything is charged or computed."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi import BallsInBins, FixedSize, InvalidInput, Loss, NoisySGD, Poisson
from support.every_case import every, refused
from support.frameworks import framework

jax = framework("jax")
optax = framework("optax")
selection = framework("jax_privacy.batch_selection")
import jax.numpy as jnp

from pabi.integrations.jax import from_batch_selection, train
from pabi.integrations.jax.programs import refuse_networks
from pabi.integrations.jax.training import refuse_platforms

N, D = 40, 3
X = np.random.default_rng(0).normal(size=(N, D))
START = {"w": np.zeros(D), "b": np.zeros(())}
SECRET = 77_123.5


def loss(params, example):
    return jnp.square(example @ params["w"] + params["b"] - 1.0)


RUN = NoisySGD(
    Loss.unknown(), N, pabi.Cyclic(10), 1, step_size=0.1, clip_norm=1.0, noise_multiplier=4.0
)
OTHER = replace(RUN, update="other")


def refusal(tmp_path, field, params=START, per_example_loss=loss, data=X, run=RUN, **options):
    """The one line; nothing was charged, and nothing hangs on the error."""
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=50.0, delta=1e-3)
    with pytest.raises(InvalidInput) as caught:
        train(params, per_example_loss, data, run, ledger=ledger, **options)
    assert ledger.report().entries == ()
    assert caught.value.field == field, str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "\n" not in str(caught.value)
    return str(caught.value)


def of_updates(update, init=lambda x: ()):
    return optax.GradientTransformation(init, update)


def made(updates, state, params=None):
    """The chain "a call to Python"."""
    jax.debug.print("{}", updates)
    return updates, state


HALVES = {"a": optax.sgd(0.1), "b": optax.adam(0.1)}
A_STEP_ALONE = "expected a chain that makes a step of a noisy gradient alone"
CHAINS = {
    "masked": optax.masked(optax.sgd(0.1), {"w": True, "b": False}),
    "plateau": optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau()),
    "L-BFGS": optax.lbfgs(),
    "line search": optax.chain(optax.sgd(0.1), optax.scale_by_backtracking_linesearch(5)),
    "Polyak": optax.polyak_sgd(),
    "labels": optax.multi_transform(HALVES, {"w": "a", "b": "b"}),
    "noise of its own": optax.contrib.differentially_private_aggregate(1.0, 1.0, key=0),
    "another shape": of_updates(lambda u, state, params=None: (jnp.tile(u, 2), state)),
    "a state that grows": of_updates(lambda u, state, params=None: (u, (*state, u))),
    "a failure": of_updates(lambda u, state, params=None: 1 / 0),
    "an init that fails": of_updates(None, lambda x: 1 / 0),
    "a call to Python": of_updates(made),
}


@every("name", CHAINS)
def test_chains_that_need_more_than_a_noisy_gradient(name, tmp_path):
    words = "a call to Python" if name == "a call to Python" else A_STEP_ALONE
    assert words in refusal(tmp_path, "optimizer", run=OTHER, optimizer=CHAINS[name])


GOOD = {
    "sgd": optax.sgd(0.1, momentum=0.9),
    "adam": optax.adamw(0.1),
    "schedule": optax.adam(optax.cosine_decay_schedule(0.1, 10)),
    "mask of all": optax.masked(optax.sgd(0.1), lambda x: True),
    "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.scale(-0.1)),
    "accumulated": optax.apply_every(2),
}


@pytest.mark.parametrize("name", GOOD)
def test_chains_of_noisy_gradients_run(name):
    result = train(START, loss, X, OTHER, optimizer=GOOD[name], random_state=0)
    assert np.isfinite(result.params["w"]).all()


def printing(params, example):
    jax.debug.print("{}", example)
    return loss(params, example)


def calling(params, example):
    jax.debug.callback(print, params["w"])
    return loss(params, example)


def on_the_host(params, example):
    """A number that has no gradient, so that nothing else refuses it."""
    shape = jax.ShapeDtypeStruct((), jnp.float64)
    value = jax.pure_callback(lambda e: np.zeros(()), shape, jax.lax.stop_gradient(example))
    return loss(params, example) + jax.lax.stop_gradient(value)


@jax.custom_vjp
def _square(z):
    return z * z


def _backward(z, cotangent):
    jax.debug.print("{}", z)
    return (2.0 * z * cotangent,)


_square.defvjp(lambda z: (z * z, z), _backward)


def in_the_gradient(params, example):
    return _square(example @ params["w"] + params["b"])


def in_a_loop(params, example):
    def body(k, z):
        jax.debug.print("{}", z)
        return z + 1.0

    return jax.lax.fori_loop(0, 3, body, 0.0) + loss(params, example)


def in_a_branch(params, example):
    def shown(z):
        jax.debug.print("{}", z)
        return z

    return jax.lax.cond(example[0] > 5.0, shown, lambda z: z, loss(params, example))


@every("own", [printing, calling, on_the_host, in_the_gradient, in_a_loop, in_a_branch])
def test_losses_that_call_back_to_python(own, tmp_path, capfd):
    assert "a call to Python" in refusal(tmp_path, "per_example_loss", per_example_loss=own)
    assert capfd.readouterr().out == ""


LOGISTIC = Loss.logistic(2.0)


def clipped(loss=LOGISTIC, **changes):
    return replace(RUN, loss=loss, **changes)


def params(b=0.0, dtype=float):
    return {"params": {"b": np.full((), b), "w": np.zeros(D, dtype=dtype)}}


FAR = clipped(Loss.logistic(2.0, l2=1.0), epochs=100, step_size=0.5)
OBJECTS = np.array([[SECRET, "a"]] * N, dtype=object)
REFUSED = {
    "run": [{"run": "a run"}],
    "update": [{"optimizer": optax.sgd(0.5)}, {"run": OTHER}],
    "optimizer": [{"run": OTHER, "optimizer": "adam"}],
    "prox": [{"run": clipped(prox=pabi.prox.ball(1.0))}],
    "unit": [{"run": clipped(unit="user")}],
    "clipping": [{"run": clipped(clipping=way)} for way in ("residual", "coordinates")],
    "residual_cap": [{"run": clipped(Loss.softmax(1.0, residual_cap=0.3))}],
    "diameter": [{"run": clipped(diameter=1.0)}],
    "params": [params(dtype=int), params(dtype=complex), {"params": {}}],
    "x0": [params(np.nan), {**params(1e17), "run": FAR}],
    "data": [{"data": data} for data in (X[:-1], (X, X[:-1]), (), X + 1j, OBJECTS)],
    "per_example_loss": [
        {"per_example_loss": own}
        for own in (
            1.0,
            lambda params, row, label: 0.0,
            lambda params, example: params["w"],
            lambda params, example: loss(params, example) * 1j,
            lambda params, example: 1,
        )
    ],
    "random_state": [{"random_state": -1}],
}


@every("field", REFUSED)
def test_arguments_are_refused_by_name_and_no_record_is_shown(tmp_path, field):
    for changes in REFUSED[field]:
        assert "77" not in refusal(tmp_path, field, **changes)


def shorter(params, example):
    return loss({**params, "w": params["w"].astype(jnp.float32)}, example)


def with_fewer_digits(params, example):
    return loss(params, example) * jax.lax.reduce_precision(params["b"], 8, 7)


def of_short_products(params, example):
    z = jnp.dot(params["w"], example, preferred_element_type=jnp.bfloat16)
    return jnp.square(z - 1.0)


@every("own", [shorter, with_fewer_digits, of_short_products, jax.jit(shorter)])
def test_hidden_paths_are_in_doubles_throughout(own, tmp_path):
    message = refusal(tmp_path, "per_example_loss", per_example_loss=own, run=clipped())
    assert "expected double precision throughout" in message


def network(params, example):
    return jnp.square(jnp.tanh(params["w"] * example) @ params["w"] - 1.0)


def with_l2(params, example):
    return loss(params, example) + 0.01 * jnp.square(params["w"]).sum()


def of_two_rows(params, example):
    """An average over a record's versions: convex, but of two directions."""
    return loss(params, example) + loss(params, 2.0 * example[::-1])


@every("own", [network, with_l2, of_two_rows])
def test_losses_that_are_no_linear_model_of_one_output(own, tmp_path):
    """No real record is looked at: the words would be the same of any."""
    told = [
        refusal(tmp_path, "per_example_loss", per_example_loss=own, run=clipped(), data=data)
        for data in (X, np.full_like(X, SECRET))
    ]
    assert "a network is pabi.Loss.unknown(), and l2 belongs to the run alone" in told[0]
    assert told[0] == told[1]


def of_counts(params, example):
    row, label, table = example
    z = row @ params["w"] + params["b"] + jnp.asarray([0.0, 5.0])[table]
    return jnp.where(label == 1, jnp.logaddexp(0.0, -z), jnp.log1p(jnp.exp(z))) * (1 - 2 * table)


LABELS = np.arange(N) % 2
FINE = [
    (of_counts, (X.astype(np.float32), LABELS, LABELS.astype(np.int8))),
    (lambda params, example: jax.nn.relu(1.0 - example @ params["w"]), X),
    (lambda params, example: jnp.log(example[0]) * params["b"], X),
    (lambda params, example: 0.0 * params["b"], X),
]


@every("own, data", FINE)
def test_linear_models_of_one_output_of_any_form_are_seen_as_such(own, data):
    rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data)
    with jax.enable_x64(True):
        traced = jax.make_jaxpr(jax.grad(own))(START, rows)
        refuse_networks(jax, "per_example_loss", traced, outputs=False)


def of_classes(params, example):
    """A linear model of four classes, whose weights may have any shape."""
    logits = params["w"].reshape(4, -1) @ example + params["b"]
    return jax.nn.logsumexp(logits) - logits[1]


def of_layers(params, example):
    return of_classes({"w": params["w"], "b": params["b"]}, jnp.tanh(params["v"] @ example))


SEVERAL = {"w": np.zeros((4, 3)), "b": np.zeros(4)}
LAYERS = {"v": np.zeros((5, 3)), "w": np.zeros((4, 5)), "b": np.zeros(4)}


@every(
    "start, own, linear",
    [
        (SEVERAL, of_classes, True),
        ({**SEVERAL, "w": np.zeros((2, 2, 3))}, of_classes, True),
        ({**SEVERAL, "w": np.zeros(12)}, of_classes, True),
        (SEVERAL, lambda p, x: jax.nn.relu(p["w"] @ x + p["b"]).sum(), True),
        (SEVERAL, lambda p, x: of_classes(p, x) + 0.01 * jnp.square(p["w"]).sum(), False),
        (LAYERS, of_layers, False),
    ],
)
def test_networks_are_told_from_linear_models_of_several_outputs(start, own, linear):
    with jax.enable_x64(True):
        row = jax.ShapeDtypeStruct((3,), np.float64)
        traced = jax.make_jaxpr(jax.grad(own))(start, row)
        if linear:
            refuse_networks(jax, "per_example_loss", traced, outputs=True)
        else:
            told = refused(
                "per_example_loss", refuse_networks, jax, "per_example_loss", traced, outputs=True
            )
            assert "for each output" in told


def dropped(own):
    """A loss of what a record's key leaves of its features."""

    def of_some(params, example):
        row, key = example
        return own(params, row * jax.random.bernoulli(key, 0.5, row.shape))

    return of_some


@every("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_networks_of_records_with_keys_are_told_as_well(kind):
    with jax.enable_x64(True):
        row = jax.ShapeDtypeStruct((3,), np.float64), jax.random.key(0, impl=kind)
        trace = jax.make_jaxpr
        linear = trace(jax.grad(dropped(of_classes)))(SEVERAL, row)
        refuse_networks(jax, "per_example_loss", linear, outputs=True)
        layers = trace(jax.grad(dropped(of_layers)))(LAYERS, row)
        for outputs in (True, False):
            given = (jax, "per_example_loss", layers)
            refused("per_example_loss", refuse_networks, *given, outputs=outputs)


def test_a_network_described_as_softmax_is_refused(tmp_path):
    described = clipped(Loss.softmax(1.0, l2=1.0), clip_norm=1.5, epochs=50, step_size=0.5)
    changes = {"params": LAYERS, "per_example_loss": of_layers, "run": described}
    assert "for each output" in refusal(tmp_path, "per_example_loss", **changes)


def test_paths_that_are_shown_may_be_of_short_numbers_and_data_always():
    for own in (shorter, of_short_products):
        train(START, own, X, clipped(release="path"), random_state=0)
    train(START, loss, X.astype(np.float32), clipped(), random_state=0)


def test_devices_without_doubles_of_their_own_are_refused():
    refuse_platforms(["cpu", "gpu"])
    assert "got 'tpu'" in refused("data", refuse_platforms, ["cpu", "tpu"])


def test_what_is_given_elsewhere_is_answered():
    for keyword, value, mention in (
        ("target_epsilon", 2.0, "epsilon=2.0"),
        ("learning_rate", 0.1, "step_size=0.1"),
        ("l2_norm_clip", 0.5, "clip_norm=0.5"),
        ("target_delta", 1e-5, "delta=1e-05"),
        ("seed", 1, "leave it out"),
        ("loss_fn", loss, "per_example_loss"),
        ("resume", "a.npz", "pabi.learn.train"),
    ):
        assert mention in refused(keyword, train, START, loss, X, RUN, **{keyword: value})
    assert "from_batch_selection" in refused("batches", replace, RUN, batches=BINS)
    chain = refused("update", replace, RUN, update=optax.adam(0.1))
    assert "pabi.integrations.jax.train takes as optimizer" in chain


def test_lists_of_examples_are_to_be_stacked(tmp_path):
    message = refusal(tmp_path, "data", data=[(row, 1.0) for row in X])
    assert "one array of each part" in message


def test_a_loss_that_fails_is_told_what_it_got():
    """The shapes of one record, by which a loss of a batch is noticed."""
    with pytest.raises(IndexError) as caught:
        train(START, lambda params, example: loss(params, example[:, 0]), X, RUN)
    assert "shape=(3,), dtype=float64" in str(caught.value.__notes__)


def test_doubles_that_are_put_together_of_shorter_numbers_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    refusal(tmp_path, "CUBLAS_EMULATE_DOUBLE_PRECISION")


def test_numbers_that_are_not_finite_stop_nothing():
    """Whatever JAX was told: that a record has such a gradient is nobody's business."""
    rows = X.copy()
    rows[3] = np.inf
    with jax.debug_nans(True), jax.debug_infs(True):
        result = train(START, loss, rows, RUN, random_state=0)
    assert np.isfinite(result.params["w"]).all()


@every("batches", [pabi.Cyclic(10), pabi.Poisson(10)])
def test_functions_see_no_numbers_where_nothing_is_to_be_compiled(batches):
    """A debugger's setting, with which loops of JAX are loops of Python."""
    seen = []

    def look(value):
        seen.append(isinstance(value, jax.core.Tracer))
        return value

    steps = optax.GradientTransformation(
        lambda x: (), lambda updates, state, params=None: (look(updates), state)
    )
    with jax.disable_jit():
        run = replace(OTHER, batches=batches)
        train(START, lambda params, row: loss(params, look(row)), X, run, optimizer=steps)
    assert seen
    assert all(seen)


# The batch selection of jax-privacy as schemes of pabi: what is drawn is counted.

PEOPLE, STEPS = 40, 3000


def shares(strategy):
    """(n,) how often each record is drawn, and the sizes of all batches."""
    counts, sizes = np.zeros(PEOPLE), []
    for batch in strategy.batch_iterator(PEOPLE, np.random.default_rng(0)):
        assert len(set(batch.tolist())) == len(batch)
        counts[batch] += 1
        sizes.append(len(batch))
    return counts / len(sizes), sizes


BINS = selection.BallsInBinsSampling(iterations=14, cycle_length=7)


def test_poisson_batches_and_those_of_fixed_size():
    for strategy, scheme in (
        (selection.CyclicPoissonSampling(0.15, STEPS), Poisson(6, probability=0.15)),
        (selection.FixedBatchSampling(batch_size=6, iterations=STEPS), FixedSize(6)),
    ):
        assert from_batch_selection(strategy, n=PEOPLE, divisor=6) == scheme
        found, sizes = shares(strategy)
        assert np.abs(found - 0.15).max() < 6 * math.sqrt(0.15 * 0.85 / STEPS)  # standard errors
        assert set(sizes) == {6} if scheme == FixedSize(6) else len(set(sizes)) > 5


def test_bins():
    scheme = from_batch_selection(BINS, n=PEOPLE, divisor=6)
    assert (scheme, scheme.order(PEOPLE, 14).period) == (BallsInBins(6, redraw="once"), 7)
    found, sizes = shares(BINS)
    assert np.all(found == 1 / 7)
    assert sizes[:7] == sizes[7:]
    batches = [set(batch.tolist()) for batch in BINS.batch_iterator(PEOPLE, 3)]
    assert batches[:7] == batches[7:]


NO_SCHEMES = [
    (selection.CyclicPoissonSampling(0.1, 5, cycle_length=2), 6, "strategy", "in a cycle of 2"),
    (selection.CyclicPoissonSampling(0.1, 5, truncated_batch_size=9), 6, "strategy", "are cut"),
    (selection.CyclicPoissonSampling(0.0, 5), 6, "probability", "> 0"),
    (selection.FixedBatchSampling(6, 5, replace=True), 6, "strategy", "with replacement"),
    (selection.FixedBatchSampling(6, 5), 7, "divisor", "expected 6"),
    (selection.BallsInBinsSampling(5, 7), 5, "divisor", "= 7"),
    (selection.BMinSepSampling(0.1, 5, 2), 6, "strategy", "BMinSepSampling"),
    ("poisson", 6, "strategy", "got a str"),
    (selection.FixedBatchSampling(6, 5), 0, "divisor", "≥ 1|in 1"),
]


@every("strategy, divisor, field, reason", NO_SCHEMES)
def test_what_no_scheme_fits(strategy, divisor, field, reason):
    message = refused(field, from_batch_selection, strategy, n=PEOPLE, divisor=divisor)
    assert re.search(reason, message), message

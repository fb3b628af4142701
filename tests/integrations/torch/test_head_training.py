"""Heads: the very iterates of the numpy path, PyTorch's own gradients, and the law of what is released."""

import copy
import dataclasses
import math
import warnings

import numpy as np
import pytest

import pabi
from pabi.describe.vector_losses import executable
from pabi.execute.linear_gradients import LossGradients, shifted
from pabi.learn import Records, parameters_hash, second_moments
from pabi.learn import train as train_described
from pabi.learn.plans import whitening
from pabi.showing import shown
from support.every_case import every
from support.frameworks import framework
from support.modules import D, K, Listed, N, linear, pairs, run, table, weights

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402

X, CLASSES = table()
SIGNS, NUMBERS = CLASSES % 2, X[:, 0] - 0.5 * X[:, 1]
COUNTS, VECTORS = CLASSES.astype(float), X[:, :K] + 0.1
BOUND = 1.5  # of rows, some of which are longer
SEEN = math.hypot(BOUND, 1.0) * (1.0 + 1e-12)

# (loss, targets, outputs)
LOSSES = {
    "softmax": (pabi.Loss.softmax(SEEN, l2=0.1), CLASSES, K),
    "capped softmax": (pabi.Loss.softmax(SEEN, residual_cap=0.5), CLASSES, K),
    "one_vs_rest": (pabi.Loss.one_vs_rest(SEEN, classes=K), CLASSES, K),
    "logistic": (pabi.Loss.logistic(SEEN), SIGNS, 1),
    "smoothed_hinge": (pabi.Loss.smoothed_hinge(SEEN, smoothing=0.5), SIGNS, 1),
    "squared": (pabi.Loss.squared(SEEN, residual_bound=1.0), NUMBERS, 1),
    "huber": (pabi.Loss.huber(SEEN, threshold=0.3, l2=0.2), NUMBERS, 1),
    "vector_huber": (pabi.Loss.vector_huber(SEEN, threshold=0.7), VECTORS, K),
    "poisson": (pabi.Loss.poisson(SEEN, predictor_bound=2.0, count_bound=3.0), COUNTS, 1),
}
WAYS = {
    "as it is": {},
    "by norm": {"clip_norm": 0.4},
    "by residual": {"clip_norm": 0.4, "clipping": "residual"},
    "by all residuals": {"clip_norm": 0.4, "clipping": "ball"},
    "Poisson": {
        "batches": pabi.Poisson(10, cap=30),
        "noise_std": 1.0,
    },  # less takes minutes to prove
    "full, cool-down": {"batches": pabi.FullBatch(), "cooldown_steps": 1},
    "prox": {"prox": pabi.prox.ball(0.5), "clip_norm": 0.4},
}


def by_numpy(described, features, targets, outputs, start, scaling=1.0):
    """The last iterate of `pabi.learn.train` on rows of norm BOUND and a constant."""
    loss = executable(described.loss.kind, **dict(described.loss.parameters))
    classes = outputs if loss.response == "class" else None
    gradients = LossGradients(loss, Records(features, BOUND, scaling), targets, classes)
    x = train_described(described, gradients, start.reshape(gradients.shape), 0).x
    return x.reshape(start.shape)


def trained(module, targets=CLASSES, described=None, seed=0, **options):
    """On the rows, with a seed; of softmax where nothing else is described."""
    described = described or run(LOSSES["softmax"][0])
    return integration.train(module, pairs(X, targets), described, random_state=seed, **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(3)
def test_iterates_are_those_of_numpy(name, way):
    loss, targets, outputs = LOSSES[name]
    if way == "by all residuals" and name == "capped softmax":
        way = "by residual"
    layer, described = linear(D, outputs), run(loss, **WAYS[way])
    # The square root is rounded down: rows are shorter by a relative 1e-12 at most.
    result = trained(layer, targets, described)
    truth = by_numpy(described, X, targets, outputs, weights(layer))
    np.testing.assert_allclose(weights(result.module), truth, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.x.reshape(truth.shape), truth, rtol=0, atol=1e-10)


@every("scaling", [0.25, 2.0, None])
def test_a_bias_is_the_weight_of_a_constant(scaling):
    """Without one, rows have all of the norm."""
    norm = math.hypot(BOUND, scaling) * (1 + 1e-12) if scaling else BOUND
    described, layer = run(pabi.Loss.softmax(norm)), linear(D, K, bias=scaling is not None)
    options = {"intercept_scaling": scaling} if scaling else {}
    result = trained(layer, described=described, **options)
    units = np.array([1.0] * D + ([scaling] if scaling else []))[:, None]
    truth = by_numpy(described, X, CLASSES, K, weights(layer) / units, scaling) * units
    np.testing.assert_allclose(weights(result.module), truth, rtol=0, atol=1e-10)


@every("preconditioned", [False, True])
def test_a_head_that_scales_rows_down_warns_of_it_and_of_nothing_more(preconditioned):
    longest = np.linalg.norm(X, axis=1).max()
    seen = []
    for share in (0.999, 1.001, 0.5, 1.0 - 1e-7):  # the last as roundings of single precision are
        most = math.hypot(share * longest, 1.0)
        stated = moments(feature_norm=most) if preconditioned else None
        described = run(pabi.Loss.softmax(1.0 if preconditioned else most))
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            patch.setattr("pabi.numbers.errors._SHOWN", set())
            warnings.simplefilter("default")
            for _ in range(2):
                integration.train(linear(D, K), pairs(X, CLASSES), described, precondition=stated)
        seen.append([w for w in caught if "exceed the feature_norm" in str(w.message)])
    assert [len(each) for each in seen] == [1, 0, 1, 0], "once, however often"
    one, many = seen[0][0], seen[2][0]
    assert str(one.message) == str(many.message), "not how many rows, nor by how much"
    assert (one.category, one.filename) == (UserWarning, __file__)


def backbone():
    """A module in train mode whose eval mode differs, and the features of eval mode, by hand."""
    module = torch.nn.Sequential(
        torch.nn.Linear(D, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5)
    ).double()
    module[1].running_mean += 0.3
    module[1].running_var *= 2.0
    first, means = weights(module[0]), module[1]
    hidden = (X @ first[:-1] + first[-1] - 0.3) / np.sqrt(2.0 + means.eps)
    module.append(linear(4, K)).train()
    return module, np.maximum(hidden, 0.0)


@every("dataset", [pairs, lambda X, y: Listed(torch.as_tensor(X), y)])
def test_a_head_is_trained_on_what_the_frozen_layers_make_of_a_row(dataset):
    module, features = backbone()
    before = copy.deepcopy(module.state_dict())
    described = run(LOSSES["softmax"][0])
    result = integration.train(module, dataset(X, CLASSES), described, head="4", random_state=0)
    truth = by_numpy(described, features, CLASSES, K, weights(module[4]))
    np.testing.assert_allclose(weights(result.module[4]), truth, rtol=0, atol=1e-10)
    after = result.module.state_dict()
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), "the module itself is left alone"
        assert torch.equal(after[name], value) == (not name.startswith("4.")), name
    assert not any(m.training for m in result.module.modules()), (
        "it says what its head was trained on"
    )
    assert all(m.training for m in module.modules())
    half = torch.nn.Sequential(torch.nn.Linear(D, 4), torch.nn.Linear(4, K)).bfloat16()
    records = pairs(torch.as_tensor(X).bfloat16(), CLASSES)
    result = integration.train(half, records, described, head="1")
    assert result.module[1].weight.dtype == torch.bfloat16
    assert integration.features(half, records, head="1").tensors[0].dtype == torch.float32


def test_the_head_may_be_named_or_passed_and_features_computed_once():
    module, features = backbone()
    described = run(LOSSES["softmax"][0])
    dataset = Listed(torch.as_tensor(X), CLASSES)
    seen = integration.features(module, dataset, head=module[4])
    np.testing.assert_allclose(seen.tensors[0].numpy(), features, atol=1e-12)
    assert np.array_equal(seen.tensors[1].numpy(), CLASSES)
    at_once = integration.train(module, dataset, described, head=module[4], random_state=3)
    after = integration.train(module[4], seen, described, random_state=3)
    assert np.array_equal(weights(at_once.module[4]), weights(after.module))


class Added(torch.nn.Module):
    """A head and what a frozen layer adds to it."""

    def __init__(self, head, base):
        super().__init__()
        self.head, self.base = head, base

    def forward(self, x):
        return self.base(x).sin() + self.head(x)

    def offset(self, x):
        return self.base(torch.as_tensor(x)).sin().detach().numpy()


@every("preconditioned", [False, True])
def test_a_head_is_trained_beside_what_frozen_layers_add(preconditioned):
    """The gradients at x·θ + o, put together by hand; mapped rows keep their sizes, which count beside o."""
    module = Added(linear(D, K), linear(D, K, seed=5))
    norm = 1.0 if preconditioned else SEEN
    described, rows = run(pabi.Loss.softmax(norm), rounding=1e-6), Records(X, BOUND, 1.0)
    stated = moments() if preconditioned else None
    result = trained(module, described=described, head="head", seed=7, precondition=stated)
    start = weights(module.head)
    if preconditioned:
        release = second_moments(stated, rows, np.random.default_rng([1, 7]))
        row_map = whitening(release.values, stated, norm=1.0, equal=False)
        rows, start = row_map.mapped(rows), np.linalg.solve(row_map.applied(np.eye(D + 1)), start)
    gradients = LossGradients(executable("softmax"), rows, CLASSES, K)
    x = train_described(described, shifted(gradients, module.offset(X)), start, 7).x
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-10)
    wanted = row_map.applied(x) if preconditioned else x
    np.testing.assert_allclose(weights(result.module.head), wanted, rtol=0, atol=1e-10)
    assert torch.equal(result.module.base.weight, module.base.weight)


# PyTorch's own gradients.

TWINS = {
    "softmax": (pabi.Loss.softmax(SEEN), torch.nn.CrossEntropyLoss(), CLASSES, 1.0),
    "logistic": (pabi.Loss.logistic(SEEN), torch.nn.BCEWithLogitsLoss(), SIGNS * 1.0, 1.0),
    "squared": (pabi.Loss.squared(SEEN, 50.0), torch.nn.MSELoss(), NUMBERS, 0.5),
    "huber": (pabi.Loss.huber(SEEN, 0.3), torch.nn.HuberLoss(delta=0.3), NUMBERS, 1.0),
    "squared by Huber": (pabi.Loss.squared(SEEN, 0.3), torch.nn.HuberLoss(delta=0.3), NUMBERS, 1.0),
    "poisson": (pabi.Loss.poisson(SEEN, 5.0, 3.0), torch.nn.PoissonNLLLoss(), COUNTS, 1.0),
}


@every("name", TWINS)
@every("beside", [False, True])
def test_a_step_follows_the_gradient_of_the_loss_of_torch(name, beside):
    """One step on all rows, with noise of a millionth; alone, and beside a frozen layer."""
    stated, loss, targets, factor = TWINS[name]
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), BOUND) * BOUND
    layer = linear(D, K if name == "softmax" else 1)
    described = run(stated, batches=pabi.FullBatch(), epochs=1, step_size=0.1, noise_std=1e-6)
    module = Added(layer, linear(D, layer.out_features, seed=5)) if beside else layer
    how = {"head": "head"} if beside else {}
    result = integration.train(module, pairs(short, targets), described, loss=loss, **how)
    output = module(torch.as_tensor(short))
    loss(output if name == "softmax" else output[:, 0], torch.as_tensor(targets)).backward()
    gradient = np.vstack([layer.weight.grad.numpy().T, layer.bias.grad.numpy()[None]])
    moved = (weights(layer) - weights(result.module.head if beside else result.module)) / 0.1
    np.testing.assert_allclose(moved, factor * gradient, rtol=0, atol=1e-5)


# What the guarantee says, and the ledger.


def test_the_guarantee_is_that_of_the_run_with_what_a_module_assumes():
    module, _ = backbone()
    described = run(LOSSES["softmax"][0])
    result = integration.train(module, pairs(X, CLASSES), described, head="4", delta=1e-6)
    alone = result.run.guarantee(1e-6)
    assert result.guarantee.epsilon(1e-6) == alone.epsilon(1e-6)
    further = set(result.guarantee.assumptions) - set(alone.assumptions)
    assert any("does not train" in sentence for sentence in further)
    assert any("preprocessing" in sentence for sentence in further)
    bare = integration.train(linear(D, K), pairs(X, CLASSES), described)
    assert not any("does not train" in sentence for sentence in bare.guarantee.assumptions)
    assert result.run.rounding > 0.0
    same = {"rounding": 0.0, "noise_std": described.noise_std}
    assert dataclasses.replace(result.run, **same) == described
    assert alone.epsilon(1e-6) <= described.guarantee(1e-6).epsilon(1e-6)
    assert not result.x.flags.writeable


@every("name", ["softmax", "logistic", "vector_huber"])
def test_the_hash_of_a_trained_module_is_noted_and_its_repr_is_short(name):
    loss, targets, outputs = LOSSES[name]
    result = integration.train(linear(D, outputs), pairs(X, targets), run(loss))
    (release,) = result.guarantee.notes["releases"]
    assert release["parameters_sha256"] == parameters_hash(result)
    changed = dataclasses.replace(result, x=result.x + 1e-9)
    assert parameters_hash(changed) != parameters_hash(result)
    epsilon = shown(result.guarantee.epsilon(1e-5))
    assert f"x of shape {result.x.shape}" in repr(result)
    assert f"ε = {epsilon}" in repr(result)
    assert "array" not in repr(result)


def test_the_release_is_reserved_before_features_are_computed(tmp_path):
    reads = []

    class Counted(Listed):
        def __getitem__(self, i):
            reads.append(i)
            return super().__getitem__(i)

    module, _ = backbone()
    described = run(LOSSES["softmax"][0])
    cost = described.guarantee(1e-5).epsilon(1e-5)
    ledger = pabi.Ledger(tmp_path / "ledger", 1.5 * cost, 1e-5)
    dataset = Counted(torch.as_tensor(X), CLASSES)
    integration.train(module, dataset, described, head="4", ledger=ledger)
    assert len(ledger.report().entries) == 1
    reads.clear()
    with pytest.raises(pabi.BudgetExceeded):
        integration.train(module, dataset, described, head="4", ledger=ledger)
    assert set(reads) <= {0}, "the shape of the first record alone"


# Preconditioning.


def moments(dimension=D + 1, **changes):
    fields = {"feature_norm": SEEN, "noise_std": 0.5, **changes}
    return pabi.NoisySecondMoments(N, dimension, **fields)


@every("diagonal", [False, True])
@every("kind", ["softmax", "vector_huber"])
def test_preconditioned_heads_are_trained_on_mapped_rows(kind, diagonal):
    """The same release, map and run, put together by hand; both releases are charged."""
    threshold = {"threshold": 0.5} if kind == "vector_huber" else {}
    stated = moments(diagonal=diagonal)
    described = run(getattr(pabi.Loss, kind)(1.0, **threshold))
    layer, targets = linear(D, K), VECTORS if threshold else CLASSES
    result = trained(layer, targets, described, seed=7, precondition=stated)
    rows = Records(X, BOUND, 1.0)
    release = second_moments(stated, rows, np.random.default_rng([1, 7]))
    row_map = whitening(release.values, stated, norm=1.0, equal=not threshold)
    matrix = np.diag(row_map.matrix) if diagonal else row_map.matrix
    start = np.linalg.solve(matrix, weights(layer)) * row_map.unit / row_map.norm
    loss = executable(kind, **threshold)
    gradients = LossGradients(loss, row_map.mapped(rows), targets, None if threshold else K)
    x = train_described(described, gradients, start, 7).x
    np.testing.assert_allclose(result.x, x, rtol=0, atol=1e-10)
    np.testing.assert_allclose(weights(result.module), row_map.applied(x), rtol=0, atol=1e-10)
    both = pabi.compose(stated.guarantee(), described.guarantee())
    assert result.guarantee.epsilon(1e-5) == pytest.approx(both.epsilon(1e-5), rel=1e-9)
    assert result.guarantee.epsilon(1e-5) > described.guarantee().epsilon(1e-5)

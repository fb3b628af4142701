"""Layers that compute with other rows, learn or draw are refused by what they do on made-up rows."""

from __future__ import annotations

import numpy as np
import pytest

import pabi
from support.frameworks import framework
from support.modules import D, K, Listed, N, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402

nn = torch.nn
X, CLASSES = table()
X = X.astype(np.float32)
HEAD, WHOLE = run(pabi.Loss.softmax(2.0)), run(pabi.Loss.unknown(), clip_norm=0.5)


class Layer(nn.Module):
    """A layer of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Counting(nn.Module):
    """A layer with a buffer that remembers what it saw."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += x.sum().detach()
        return x


def refusal(layer, *, whole=False, described=None, **options):
    """Of a module with this layer before its head."""
    module = nn.Sequential(nn.Linear(D, 4), layer, nn.Linear(4, K))
    if whole:
        options = {"loss": nn.CrossEntropyLoss()} | options
    else:
        options = {"head": "2"} | options
    with pytest.raises(pabi.InvalidInput) as caught:
        integration.train(
            module, pairs(X, CLASSES), described or (WHOLE if whole else HEAD), **options
        )
    return caught.value


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4, track_running_stats=False),
        Layer(lambda x: x - x.mean(0)),
        Layer(lambda x: x + x.sum()),
        Layer(lambda x: x.sort(dim=0).values),
    ],
    ids=["batch norm", "centred", "sum", "sorted"],
)
def test_rows_that_others_have_a_say_in(layer, whole):
    error = refusal(layer, whole=whole)
    assert error.field in ("1", "module")
    assert "other rows" in str(error)


def test_batch_norm_is_refused_where_it_learns_and_not_where_it_is_frozen():
    error = refusal(nn.BatchNorm1d(4), whole=True)
    assert (error.field, "BatchNorm1d" in str(error)) == ("1", True)
    module = nn.Sequential(nn.Linear(D, 4), nn.BatchNorm1d(4), nn.Linear(4, K)).train(False)
    integration.train(module, pairs(X, CLASSES), WHOLE, loss=nn.CrossEntropyLoss())


@pytest.mark.parametrize("whole", [False, True])
def test_buffers_that_learn(whole):
    error = refusal(Counting(), whole=whole)
    assert (error.field, "learns" in str(error)) == ("1.seen", True)


def test_features_by_chance():
    error = refusal(Layer(lambda x: nn.functional.dropout(x, 0.5, training=True)))
    assert "without chance" in str(error)


def test_what_fails_says_so_of_made_up_rows():
    error = refusal(Layer(lambda x: x[:, :3]))
    assert (error.field, f"({N}, 5)" in str(error)) == ("module", True)


def test_outputs_that_are_not_one_a_record():
    error = refusal(Layer(lambda x: x[:1].expand(3, -1)), whole=True)
    assert error.field == "module"


def test_last_bits_that_depend_on_a_place_are_refused_where_batches_are_drawn_anew():
    """A gradient that is off by a bit in every other slot, which only a trial of places shows."""

    class Uneven(torch.autograd.Function):
        generate_vmap_rule = False

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return Skewed.apply(gradient)

    class Skewed(torch.autograd.Function):
        generate_vmap_rule = False

        @staticmethod
        def forward(x):
            return x.clone()

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            slots = torch.arange(info.batch_size).reshape(-1, *[1] * (x.ndim - 1))
            return x.movedim(in_dims[0], 0) * (1 + 1e-6 * (slots % 2)), 0

    Uneven.vmap = staticmethod(lambda info, in_dims, x: (Uneven.apply(x), in_dims[0]))
    layer = Layer(Uneven.apply)
    anew = run(pabi.Loss.unknown(), clip_norm=0.5, batches=pabi.Poisson(16))
    error = refusal(layer, whole=True, described=anew)
    assert (error.field, "place" in str(error)) == ("chunk", True)


# Heads and arguments.


def test_heads_that_are_none():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(D, D)

        def forward(self, x):
            return self.head(self.head(x))

    shared = nn.Sequential(nn.Linear(K, K), nn.Linear(K, K))
    shared[1].weight = shared[0].weight
    cases = [
        (nn.Sequential(nn.Linear(D, K), nn.Softmax(1)), "0", "behind"),
        (nn.Sequential(nn.Linear(D, K)), "1", "name of a layer"),
        (nn.Sequential(nn.Linear(D, K)), nn.Linear(D, K), "layer of the module"),
        (nn.Sequential(nn.ReLU()), "0", "ReLU"),
        (shared, "1", "share"),
        (Twice(), "head", "2 times"),
        (nn.Sequential(nn.Linear(D + 1, K)), "0", "made-up rows"),
        (nn.Sequential(nn.Unflatten(1, (1, D)), nn.Linear(D, K)), "1", "features a record"),
    ]
    for module, head, words in cases:
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.train(module, pairs(X, CLASSES), HEAD, head=head)


def test_outputs_go_with_the_loss():
    cases = [
        (pabi.Loss.logistic(2.0), K, "one output"),
        (pabi.Loss.softmax(2.0), 1, "at least two"),
        (pabi.Loss.one_vs_rest(2.0, classes=K + 1), K, f"{K + 1} outputs"),
    ]
    for loss, outputs, words in cases:
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.train(linear(D, outputs).float(), pairs(X, CLASSES), run(loss))
    vectors = run(pabi.Loss.vector_huber(2.0, threshold=1.0))
    with pytest.raises(pabi.InvalidInput, match="3 numbers a record, got 2"):
        integration.train(linear(D, K).float(), pairs(X, X[:, :2]), vectors)


def test_arguments_are_refused_by_name():
    module = nn.Sequential(nn.Linear(D, K))
    listed, loss = pairs(X, CLASSES), nn.CrossEntropyLoss()
    whole = {"run": WHOLE, "loss": loss}
    cases = {
        "module": [{"module": "net"}, {"module": nn.Sequential(nn.ReLU()), **whole}],
        "dataset": [
            {"dataset": iter([])},
            {"dataset": []},
            {"dataset": [1] * N},
            {"dataset": Listed(X.tolist(), CLASSES)},
        ],
        "n": [{"dataset": pairs(X[:9], CLASSES[:9])}],
        "run": [{"run": "a run"}, {"run": WHOLE, "head": "0"}],
        "head": [{"run": HEAD}],
        "device": [{"device": "cupboard", "head": "0"}],
        "workers": [{"workers": -1, "head": "0"}],
        "intercept_scaling": [{"intercept_scaling": 0.0, "head": "0"}],
        "feature_norm": [{"intercept_scaling": 2.0, "head": "0"}],
        "chunk": [{**whole, "chunk": 0}],
        "precondition": [
            {**whole, "precondition": pabi.NoisySecondMoments(N, D, 1.0, noise_std=1.0)}
        ],
        "loss": [{"run": WHOLE}, {"run": WHOLE, "loss": "CrossEntropyLoss"}],
        "ledger": [{"ledger": "book", "head": "0"}],
        "random_state": [{"random_state": "seed", "head": "0"}],
        "dimension": [
            {"precondition": pabi.NoisySecondMoments(N, D, 2.0, noise_std=9.0), "head": "0"}
        ],
    }
    for field, several in cases.items():
        for changes in several:
            arguments = {"module": module, "dataset": listed, "run": HEAD} | changes
            with pytest.raises(pabi.InvalidInput) as caught:
                integration.train(
                    arguments.pop("module"),
                    arguments.pop("dataset"),
                    arguments.pop("run"),
                    **arguments,
                )
            assert caught.value.field == field, changes
    for head in (None, "", "1"):
        with pytest.raises(pabi.InvalidInput, match="head"):
            integration.features(module, listed, head=head)


def test_convex_clipping_needs_a_head():
    described = run(pabi.Loss.softmax(2.0), clip_norm=0.5, clipping="residual")
    with pytest.raises(pabi.InvalidInput, match="head"):
        integration.train(
            nn.Sequential(nn.Linear(D, K)), pairs(X, CLASSES), described, loss=nn.CrossEntropyLoss()
        )

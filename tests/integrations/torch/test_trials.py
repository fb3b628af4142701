"""Layers that compute with other rows, learn or draw are refused by what they do on made-up rows, and losses
and options that no run describes by name."""

import copy

import numpy as np
import pytest

import pabi
from support.every_case import every, refused
from support.frameworks import framework
from support.modules import D, K, Listed, N, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402
from pabi.integrations.torch.library import (  # noqa: E402
    checked_loss_of_records,
    refuse_another,
    same_draws,
)

nn = torch.nn
X, CLASSES = table()
X = X.astype(np.float32)
HEAD, WHOLE = run(pabi.Loss.softmax(2.0)), run(pabi.Loss.unknown(), clip_norm=0.5)


class Layer(nn.Module):
    """A layer of one function."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Counting(nn.Module):
    """A layer with a buffer that remembers what it saw."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += x.sum().detach()
        return x


def refusal(layer, *, whole=False, described=None):
    """Of a module with this layer before its head."""
    module = nn.Sequential(nn.Linear(D, 4), layer, nn.Linear(4, K))
    options = {"loss": nn.CrossEntropyLoss()} if whole else {"head": "2"}
    described = described or (WHOLE if whole else HEAD)
    with pytest.raises(pabi.InvalidInput) as caught:
        integration.train(module, pairs(X, CLASSES), described, **options)
    return caught.value


MODULE, BOTH = {"module"}, (False, True)
# (a layer, whether the whole module is trained, the fields that may be named, words)
UNFIT = [
    (nn.BatchNorm1d(4, track_running_stats=False), BOTH, {"1", "module"}, "other rows"),
    (Layer(lambda x: x - x.mean(0)), BOTH, {"1", "module"}, "other rows"),
    (Layer(lambda x: x + x.sum()), BOTH, {"1", "module"}, "other rows"),
    (Layer(lambda x: x.sort(dim=0).values), BOTH, {"1", "module"}, "other rows"),
    (Layer(lambda x: x.cumsum(0)), BOTH, {"1", "module"}, "other rows"),
    (nn.BatchNorm1d(4), [True], {"1"}, "BatchNorm1d"),
    (Counting(), BOTH, {"1.seen"}, "learns"),
    (Layer(lambda x: nn.functional.dropout(x, 0.5)), [False], {"1", "module"}, "without chance"),
    (Layer(lambda x: x[:, :3]), [False], {"module"}, f"({N}, 5)"),
    (Layer(lambda x: x[:1].expand(3, -1)), [True], {"module"}, ""),
]


@every("layer, ways, fields, words", UNFIT)
def test_layers_that_compute_with_other_rows_learn_or_draw(layer, ways, fields, words):
    """Frozen batch normalisation is taken."""
    for whole in ways:
        error = refusal(copy.deepcopy(layer), whole=whole)
        assert error.field in fields
        assert words in str(error)
    frozen = nn.Sequential(nn.Linear(D, 4), nn.BatchNorm1d(4), nn.Linear(4, K)).train(False)
    integration.train(frozen, pairs(X, CLASSES), WHOLE, loss=nn.CrossEntropyLoss())


def test_trials_leave_the_draws_of_torch_alone():
    before = torch.random.get_rng_state()
    with same_draws():
        one = torch.rand(3)
    with same_draws():
        other = torch.rand(3)
    assert torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


class Same(torch.autograd.Function):
    generate_vmap_rule = False

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Skewed(Same):
    @staticmethod
    def vmap(info, in_dims, x):
        slots = torch.arange(info.batch_size).reshape(-1, *[1] * (x.ndim - 1))
        return x.movedim(in_dims[0], 0) * (1 + 1e-6 * (slots % 2)), 0


class Uneven(Same):
    @staticmethod
    def backward(ctx, gradient):
        return Skewed.apply(gradient)

    @staticmethod
    def vmap(info, in_dims, x):
        return Uneven.apply(x), in_dims[0]


def test_last_bits_that_depend_on_a_place_are_refused_where_batches_are_drawn_anew():
    """A gradient that is off by a bit in every other slot, which only a trial of places shows."""
    anew = run(pabi.Loss.unknown(), clip_norm=0.5, batches=pabi.Poisson(16))
    error = refusal(Layer(Uneven.apply), whole=True, described=anew)
    assert (error.field, "place" in str(error)) == ("chunk", True)


# Heads and arguments.


class Joined(nn.Module):
    """A head beside a frozen layer, and what a function makes of what both say."""

    def __init__(self, join, start=nn.init.ones_):
        super().__init__()
        self.base, self.head, self.join = nn.Linear(D, K), nn.Linear(D, K), join
        start(self.head.weight)

    def forward(self, x):
        return self.join(self.base(x), self.head(x))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(D, D)

    def forward(self, x):
        return self.head(self.head(x))


def test_heads_that_are_none():
    alone, shared = nn.Sequential(nn.Linear(D, K)), nn.Sequential(nn.Linear(K, K), nn.Linear(K, K))
    shared[1].weight = shared[0].weight
    cases = [
        (nn.Sequential(nn.Linear(D, K), nn.Softmax(1)), "0", "behind"),
        (alone, "1", r"linear layer of the module \('0'\), got '1'"),
        (nn.Sequential(nn.ReLU()), "head", "it has none"),
        (nn.Sequential(*(nn.Linear(D, D) for _ in range(20))), "20", r"\(…, '12', .*'19'\), got"),
        (Joined(lambda base, own: base + 0.5 * own), "head", "behind"),
        (Joined(lambda base, own: base + own[:, [1, 0, 2]], nn.init.zeros_), "head", "behind"),
        (Joined(lambda base, own: base + own.relu(), nn.init.zeros_), "head", "behind"),
        (Joined(lambda base, own: base * own), "head", "behind"),
        (Joined(lambda base, own: (base + own)[:, :2]), "head", "behind"),
        (Joined(lambda base, own: base - base.mean(0) + own), "head", "the other rows"),
        (Joined(lambda base, own: base.cumsum(0) + own), "head", "the other rows"),
        (Joined(lambda base, own: base + own.flip(0)), "head", "behind"),
        (Joined(lambda base, own: nn.functional.dropout(base) + own), "head", "behind"),
        (alone, nn.Linear(D, K), "layer of the module"),
        (nn.Sequential(nn.ReLU()), "0", "ReLU"),
        (shared, "1", "share"),
        (Twice(), "head", "2 times"),
        (nn.Sequential(nn.Linear(D + 1, K)), "0", "made-up rows"),
        (nn.Sequential(nn.Unflatten(1, (1, D)), nn.Linear(D, K)), "1", "features a record"),
    ]
    for module, head, words in cases:
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.train(module, pairs(X, CLASSES), HEAD, head=head)


def test_several_processes(monkeypatch):
    """Modules that sum over processes are refused, and all processes but the first."""
    inner = nn.Sequential(linear(D, K).float())
    alone = nn.DataParallel(inner)
    assert ".module" in refused("module", integration.train, alone, pairs(X, CLASSES), HEAD)
    rank = [0]
    for name, value in (("is_initialized", True), ("get_rank", rank)):
        monkeypatch.setattr(torch.distributed, name, lambda v=value: v[0] if v is rank else v)
    integration.train(inner, pairs(X, CLASSES), HEAD, head="0")
    rank[0] = 3
    refused("rank", integration.train, inner, pairs(X, CLASSES), HEAD, head="0")


def test_frozen_layers_may_add_in_place_and_to_any_precision():
    ends = []
    for join in (lambda base, own: base + own, lambda base, own: own.add_(base)):
        module = Joined(join)
        for parameter in module.parameters():
            nn.init.constant_(parameter, 0.25)
        for kind in (torch.float32, torch.float16):
            given = module.to(kind), pairs(torch.as_tensor(X).to(kind), CLASSES), HEAD
            ends.append(integration.train(*given, head="head", random_state=0).x)
    assert [np.array_equal(one, ends[0]) for one in ends] == [True, False, True, False]
    assert np.allclose(ends[0], ends[1], atol=1e-2)
    with pytest.raises(pabi.InvalidInput, match="others add: train the module itself"):
        # alone they have no offset
        integration.features(Joined(lambda base, own: base + own), pairs(X, CLASSES), head="head")


def test_outputs_go_with_the_loss():
    cases = [
        (pabi.Loss.logistic(2.0), K, CLASSES, "one output"),
        (pabi.Loss.softmax(2.0), 1, CLASSES, "at least two"),
        (pabi.Loss.one_vs_rest(2.0, classes=K + 1), K, CLASSES, f"{K + 1} outputs"),
        (pabi.Loss.vector_huber(2.0, 1.0), K, X[:, :2], "3 numbers a record, got 2"),
    ]
    for loss, outputs, targets, words in cases:
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.train(linear(D, outputs).float(), pairs(X, targets), run(loss))


def test_arguments_are_refused_by_name():
    module = nn.Sequential(nn.Linear(D, K))
    listed, head = pairs(X, CLASSES), {"head": "0"}
    whole = {"described": WHOLE, "loss": nn.CrossEntropyLoss()}
    residual = run(pabi.Loss.softmax(2.0), clip_norm=0.5, clipping="residual")
    odd = [iter([]), [], [1] * N, Listed(X.tolist(), CLASSES)]
    cases = {
        "module": [
            {"module": "net"},
            *({"module": nn.Sequential(layer), **whole} for layer in (nn.ReLU(), nn.PReLU(0))),
        ],
        "dataset": [{"dataset": dataset} for dataset in odd],
        "n": [{"dataset": pairs(X[:9], CLASSES[:9])}],
        "run": [{"described": "a run"}, {"described": WHOLE, **head}],
        "head": [{}, {**whole, "described": residual}],
        "device": [{"device": name, **head} for name in ("cupboard", "meta", "cuda:99")],
        "workers": [{"workers": -1, **head}],
        "intercept_scaling": [{"intercept_scaling": 0.0, **head}],
        "feature_norm": [{"intercept_scaling": 2.0, **head}],
        "chunk": [{**whole, "chunk": 0}],
        "precondition": [{**whole, "precondition": moments(1.0)}],
        "loss": [{"described": WHOLE}, {"described": WHOLE, "loss": "CrossEntropyLoss"}],
        "ledger": [{"ledger": "book", **head}],
        "random_state": [{"random_state": "seed", **head}],
        "dimension": [{"precondition": moments(9.0, feature_norm=2.0), **head}],
    }

    def train(module=module, dataset=listed, described=HEAD, **options):
        integration.train(module, dataset, described, **options)

    for field, several in cases.items():
        for changes in several:
            refused(field, train, **changes)
    for name in (None, "", "1"):
        refused("head", integration.features, module, listed, head=name)


def moments(noise_std, feature_norm=1.0):
    return pabi.NoisySecondMoments(N, D, feature_norm, noise_std=noise_std)


SOFTMAX, LOGISTIC = pabi.Loss.softmax(1.0), pabi.Loss.logistic(1.0)
SQUARED, HUBER = pabi.Loss.squared(1.0, 0.5), pabi.Loss.huber(1.0, 0.5)
POISSON, VECTORS = pabi.Loss.poisson(1.0, 2.0, 3.0), pabi.Loss.vector_huber(1.0, 0.5)
DESCRIBED = {
    nn.CrossEntropyLoss(): [SOFTMAX, pabi.Loss.softmax(1.0, residual_cap=0.5)],
    nn.BCEWithLogitsLoss(): [LOGISTIC],
    nn.MSELoss(): [SQUARED],
    nn.HuberLoss(delta=0.5): [HUBER, SQUARED],
    nn.PoissonNLLLoss(): [POISSON],
    None: [SOFTMAX],
}


ONES = torch.ones(3)
OTHERS = {
    "loss": [
        (nn.CrossEntropyLoss(), LOGISTIC),
        (nn.BCEWithLogitsLoss(), SOFTMAX),
        # A mean over classes, where the run has a sum.
        (nn.BCEWithLogitsLoss(), pabi.Loss.one_vs_rest(1.0, classes=3)),
        *((nn.MSELoss(), stated) for stated in (HUBER, VECTORS)),
        (nn.HuberLoss(delta=0.4), HUBER),
        (nn.HuberLoss(delta=0.5), VECTORS),  # coordinate by coordinate
        (nn.SmoothL1Loss(), HUBER),
        (nn.functional.cross_entropy, SOFTMAX),
        (type("CrossEntropyLoss", (nn.CrossEntropyLoss,), {})(), SOFTMAX),
    ],
    "label_smoothing": [(nn.CrossEntropyLoss(label_smoothing=0.1), SOFTMAX)],
    "weight": [
        (nn.CrossEntropyLoss(weight=ONES), SOFTMAX),
        (nn.BCEWithLogitsLoss(weight=ONES), LOGISTIC),
    ],
    "ignore_index": [(nn.CrossEntropyLoss(ignore_index=0), SOFTMAX)],
    "reduction": [
        *((nn.CrossEntropyLoss(reduction=how), SOFTMAX) for how in ("sum", "none")),
        (nn.MSELoss(reduction="sum"), SQUARED),
    ],
    "pos_weight": [(nn.BCEWithLogitsLoss(pos_weight=ONES), LOGISTIC)],
    "log_input": [(nn.PoissonNLLLoss(log_input=False), POISSON)],
    "full": [(nn.PoissonNLLLoss(full=True), POISSON)],
}


@every("field", OTHERS)
def test_losses_and_options_that_are_not_those_described(field):
    for loss, stated in OTHERS[field]:
        refused(field, refuse_another, loss, stated)
    for loss, several in DESCRIBED.items():
        for stated in several:
            refuse_another(loss, stated)


def test_a_loss_of_single_records_may_be_anything_that_a_mean_of_one_keeps():
    weights = {"weight": torch.ones(3)}
    summed = nn.CrossEntropyLoss(**weights, reduction="sum")
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.functional.cross_entropy, summed):
        assert checked_loss_of_records(loss) is loss
    unreduced = nn.CrossEntropyLoss(reduction="none")
    for loss in (nn.CrossEntropyLoss(**weights), unreduced, None, "cross entropy"):
        with pytest.raises(pabi.InvalidInput, match="loss|reduction"):
            checked_loss_of_records(loss)

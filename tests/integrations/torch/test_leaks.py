"""What private rows leave behind: nothing in the module that is returned, in its file, or in an error."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

from __future__ import annotations

import copy
import traceback

import numpy as np
import pytest

import pabi
from support.frameworks import framework

framework("torch")
import torch
from torch import nn

import pabi.integrations.torch as integration
from support.modules import D, K, Listed, N, pairs, run, table

X, CLASSES = table()
HEAD = run(pabi.Loss.softmax(1.5), clip_norm=1.0)
WHOLE = run(pabi.Loss.unknown(), clip_norm=1.0)
SECRET = 77_123.5  # no number of the made-up rows


class Layer(nn.Module):
    """Returns its rows, and does something else with them."""

    def __init__(self, keep):
        super().__init__()
        self.keep, self.seen, self.log, self.count = keep, None, [], 0
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.plain = torch.zeros(())

    def forward(self, x):
        self.keep(self, x)
        return x


def _attribute(layer, x):
    layer.seen = x.detach()


def _list(layer, x):
    layer.log.append(x.detach())


def _counter(layer, x):
    layer.count += 1


def _plain_tensor(layer, x):
    layer.plain.add_(1.0)


def _buffer(layer, x):
    layer.total += 1.0


KEEPERS = {
    "seen": _attribute,
    "log": _list,
    "count": _counter,
    "plain": _plain_tensor,
    "total": _buffer,
}


def network(layer):
    return nn.Sequential(nn.Linear(D, 4), layer, nn.Linear(4, K)).double()


def trained(module, *, whole=False, data=None, **options):
    how = {"loss": nn.CrossEntropyLoss()} if whole else {"head": "2"}
    described = WHOLE if whole else HEAD
    return integration.train(module, data or pairs(X, CLASSES), described, **how, **options)


def reachable(value):
    """All numbers that hang on a module: attributes, buffers, and what is in lists."""
    held = [v for m in value.modules() for v in vars(m).values()] + list(value.buffers())
    tensors = [each for v in held for each in (v if isinstance(v, list) else [v])]
    return [t for t in tensors if isinstance(t, torch.Tensor)]


# What is kept of rows.


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", KEEPERS)
def test_a_layer_that_keeps_what_it_sees(name, whole):
    with pytest.raises(pabi.InvalidInput) as caught:
        trained(network(Layer(KEEPERS[name])), whole=whole)
    assert caught.value.field == f"1.{name}"


@pytest.mark.parametrize("rows", [8, N - 1])
@pytest.mark.parametrize("name", KEEPERS)
def test_a_layer_that_keeps_large_batches_alone(name, rows):
    """It is tried with as many rows as it will see in earnest."""

    def keep(layer, x):
        if len(x) > rows:
            KEEPERS[name](layer, x)

    with pytest.raises(pabi.InvalidInput) as caught:
        trained(network(Layer(keep)))
    assert caught.value.field == f"1.{name}"


def test_every_call_has_as_many_rows_as_the_trials(monkeypatch):
    """The last one of 60 rows in calls of 16 as well: lengths say nothing that was not tried."""
    monkeypatch.setattr("pabi.integrations.torch.heads.AT_ONCE", 16)
    lengths = set()
    module = network(Layer(lambda layer, x: lengths.add(len(x))))
    result = trained(module)
    assert lengths == {16, 1}  # 1: whether a layer stands behind the head
    with torch.no_grad():
        features = module[:2](torch.as_tensor(X)).numpy()
    seen = integration.features(module, pairs(X, CLASSES), head="2").tensors[0].numpy()
    np.testing.assert_allclose(seen, features, rtol=0, atol=1e-12)
    assert result.guarantee.epsilon(1e-5) > 0.0


@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_that_changes_on_these_rows_only(whole):
    """No trial can know: what the training did is refused, and the message says nothing of a row."""

    def keep(layer, x):
        if bool((x.abs() > 1e4).any()):
            layer.seen = x.detach()

    data = copy.deepcopy(X)
    data[3] = SECRET
    module = network(Late(keep) if whole else Layer(keep))
    with pytest.raises(pabi.InvalidInput, match="1.seen: an attribute that changes") as caught:
        trained(module, whole=whole, data=pairs(data, CLASSES))
    assert "77" not in "".join(traceback.format_exception(caught.value))


class Late(Layer):
    """Keeps rows from its ninth call on, when no more trials come."""

    calls = 0

    def forward(self, x):
        type(self).calls += 1
        if self.calls > 8:
            self.seen = x
        return x


def test_what_is_made_at_first_use_stays_with_the_copy():
    def keep(layer, x):
        if layer.seen is None:
            layer.seen = torch.full((2,), SECRET)

    module = network(Layer(keep))
    result = trained(module)
    assert module[1].seen is None
    assert result.module[1].seen is None


@pytest.mark.parametrize("whole", [False, True])
def test_no_row_hangs_on_what_is_returned(whole):
    data = copy.deepcopy(X)
    data[:] = SECRET
    module = network(nn.ReLU())
    result = trained(module, whole=whole, data=pairs(data, CLASSES))
    kept = torch.cat([t.reshape(-1).double() for t in reachable(result.module)] or [torch.zeros(1)])
    assert not (kept.abs() > 1e3).any()
    for name, parameter in module.named_parameters():
        same = torch.equal(parameter, result.module.get_parameter(name))
        assert same is (not whole and not name.startswith("2"))


def _forward(module, hook):
    module[1].register_forward_hook(hook)


def _before(module, hook):
    module[1].register_forward_pre_hook(hook)


def _backward(module, hook):
    module[1].register_full_backward_hook(hook)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("register", [_forward, _before, _backward])
def test_hooks_are_refused_before_they_see_a_row(register, whole):
    seen = []
    module = network(nn.ReLU())
    register(module, lambda *arguments: seen.append(arguments))
    with pytest.raises(pabi.InvalidInput, match="1: expected no hooks") as caught:
        trained(module, whole=whole)
    assert caught.value.field == "1"
    assert not seen
    with pytest.raises(pabi.InvalidInput, match="1: expected no hooks"):
        integration.features(module, pairs(X, CLASSES), head="2")


OF_ALL = [
    "forward",
    "forward_pre",
    "full_backward",
    "full_backward_pre",
    "buffer_registration",
    "module_registration",
    "parameter_registration",
]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", OF_ALL)
def test_hooks_of_all_modules_are_refused_before_they_see_a_row(kind, whole):
    seen = []
    module = network(nn.ReLU())
    register = getattr(nn.modules.module, f"register_module_{kind}_hook")
    handle = register(lambda *arguments: seen.append(arguments))
    try:
        with pytest.raises(pabi.InvalidInput, match="module: expected no hooks"):
            trained(module, whole=whole)
        with pytest.raises(pabi.InvalidInput, match="module: expected no hooks"):
            integration.features(module, pairs(X, CLASSES), head="2")
    finally:
        handle.remove()
    assert not any(isinstance(layer, nn.Linear) for layer, *_ in seen)


class Shared(nn.Module):
    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        return x


@pytest.mark.parametrize("whole", [False, True])
def test_a_module_that_is_not_copied(whole):
    with pytest.raises(pabi.InvalidInput, match=r"module: .*copy.deepcopy"):
        trained(network(Shared()), whole=whole)


def test_parametrised_layers_are_trained_by_their_originals():
    module = nn.utils.parametrizations.weight_norm(nn.Linear(D, K)).double()
    result = integration.train(module, pairs(X, CLASSES), WHOLE, loss=nn.CrossEntropyLoss())
    assert set(dict(result.module.named_parameters())) == set(dict(module.named_parameters()))
    for name, parameter in module.named_parameters():
        assert not torch.equal(parameter, result.module.get_parameter(name))


# Files.


def test_a_file_has_parameters_and_buffers_and_nothing_of_hooks(tmp_path):
    result = trained(network(nn.BatchNorm1d(4).eval()))

    def slip_in(module, state, prefix, metadata):
        state["slipped"] = torch.full((3,), SECRET)

    result.module.register_state_dict_post_hook(slip_in)
    integration.save(result, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)["state_dict"]
    names = {name for name, _ in result.module.named_parameters()}
    names |= {name for name, _ in result.module.named_buffers()}
    assert set(content) == names
    other = network(nn.BatchNorm1d(4))
    integration.load(tmp_path / "model.pt", other)
    for name, value in other.named_parameters():
        assert torch.equal(value, result.module.get_parameter(name))


class Stateful(nn.Module):
    def get_extra_state(self):
        return {"rows": SECRET}

    def set_extra_state(self, state):
        pass

    def forward(self, x):
        return x


def test_a_state_of_ones_own_is_not_written(tmp_path):
    result = trained(network(Stateful()))
    with pytest.raises(pabi.InvalidInput, match="1: .*get_extra_state"):
        integration.save(result, tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_tied_weights_and_buffers_that_are_not_kept(tmp_path):
    module = nn.Sequential(nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, K)).double()
    module[1].weight = module[0].weight
    module.register_buffer("scratch", torch.zeros(2), persistent=False)
    result = trained(module)
    integration.save(result, tmp_path / "model.pt")
    content = torch.load(tmp_path / "model.pt", weights_only=True)["state_dict"]
    assert set(content) == set(result.module.state_dict())


# Errors.


class Failing(Listed):
    def __getitem__(self, i):
        if i == 7:
            raise ValueError(f"row 7 is {SECRET}")
        return super().__getitem__(i)


class Uneven(Listed):
    def __getitem__(self, i):
        inputs, target = super().__getitem__(i)
        return (inputs[:2] if i == 7 else inputs), target


class Picky(nn.Module):
    def forward(self, x):
        if not torch._C._functorch.is_batchedtensor(x) and bool((x.abs() > 1e4).any()):
            raise ValueError(f"a row of {x}")
        return x


def secret_rows():
    data = copy.deepcopy(X)
    data[7] = SECRET
    return data


FAILURES = {
    "a dataset": lambda: (nn.ReLU(), Failing(torch.as_tensor(X), CLASSES)),
    "rows of other lengths": lambda: (nn.ReLU(), Uneven(torch.as_tensor(X), CLASSES)),
    "a layer": lambda: (Picky(), pairs(secret_rows(), CLASSES)),
}


@pytest.mark.parametrize("way", ["head", "whole", "features"])
@pytest.mark.parametrize("name", FAILURES)
def test_no_error_shows_a_row(name, way):
    if (name, way) == ("a layer", "whole"):
        pytest.skip("torch.func itself refuses to look")
    layer, data = FAILURES[name]()
    with pytest.raises(
        pabi.InvalidInput, match="with a (ValueError|RuntimeError)|shapes of the first"
    ) as caught:
        if way == "features":
            integration.features(network(layer), data, head="2")
        else:
            trained(network(layer), whole=way == "whole", data=data)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    shown = "".join(traceback.format_exception(caught.value))
    assert not {form for form in ("7123", "7.712") if form in shown}


def test_no_error_of_a_loading_process_shows_a_row():
    data = Failing(torch.as_tensor(X), CLASSES)
    with pytest.raises(pabi.InvalidInput, match="dataset: fails") as caught:
        trained(network(nn.ReLU()), data=data, workers=1)
    assert caught.value.__context__ is None
    assert "7123" not in "".join(traceback.format_exception(caught.value))


# Complex numbers, whose imaginary part nothing bounds.


@pytest.mark.parametrize("whole", [False, True])
def test_complex_modules(whole):
    module = nn.Sequential(nn.Linear(D, 4), nn.Linear(4, K)).to(torch.complex128)
    with pytest.raises(
        pabi.InvalidInput, match=r"module: expected real parameters, got '0.weight'"
    ):
        how = {"loss": nn.CrossEntropyLoss()} if whole else {"head": "1"}
        integration.train(module, pairs(X, CLASSES), WHOLE if whole else HEAD, **how)


@pytest.mark.parametrize("dataset", [pairs, lambda X, y: Listed(torch.as_tensor(X), y)])
def test_complex_records(dataset):
    with pytest.raises(pabi.InvalidInput, match=r"dataset: .*both of real numbers"):
        trained(nn.Linear(D, K), whole=True, data=dataset(X + 1j, CLASSES))
    with pytest.raises(pabi.InvalidInput, match=r"dataset: .*both of real numbers"):
        integration.features(network(nn.ReLU()), dataset(X + 1j, CLASSES), head="2")


def test_modes_see_every_record():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    for mode in (Functions, Dispatch):
        with mode(), pytest.raises(pabi.InvalidInput, match="module: expected no mode"):
            trained(network(nn.ReLU()))
    with torch.device("cpu"):
        trained(network(nn.ReLU()))

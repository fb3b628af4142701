"""What private rows leave behind: nothing in the module that is returned, in its file, or in an error."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import traceback

import numpy as np
import pytest

import pabi
from support.every_case import every, refused
from support.frameworks import framework

framework("torch")
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

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


KEEPERS = {
    "seen": lambda layer, x: setattr(layer, "seen", x.detach()),
    "log": lambda layer, x: layer.log.append(x.detach()),
    "count": lambda layer, x: setattr(layer, "count", layer.count + 1),
    "plain": lambda layer, x: layer.plain.add_(1.0),
    "total": lambda layer, x: layer.total.add_(1.0),
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


@every("rows", [0, 8, N - 1])
@every("name", KEEPERS)
def test_a_layer_that_keeps_what_it_sees(name, rows):
    """Or large batches alone: it is tried with as many rows as it will see in earnest."""

    def keep(layer, x):
        if len(x) > rows:
            KEEPERS[name](layer, x)

    for whole in (False, True) if rows == 0 else (False,):
        refused(f"1.{name}", trained, network(Layer(keep)), whole=whole)


def test_every_call_has_as_many_rows_as_the_trials(monkeypatch):
    """The last one of 60 rows in calls of 16 as well: lengths say nothing that was not tried."""
    monkeypatch.setattr("pabi.integrations.torch.head_training.AT_ONCE", 16)
    lengths = set()
    module = network(Layer(lambda layer, x: lengths.add(len(x))))
    result = trained(module)
    assert lengths == {16}
    with torch.no_grad():
        features = module[:2](torch.as_tensor(X)).numpy()
    seen = integration.features(module, pairs(X, CLASSES), head="2").tensors[0].numpy()
    np.testing.assert_allclose(seen, features, rtol=0, atol=1e-12)
    assert result.guarantee.epsilon(1e-5) > 0.0


@every("whole", [False, True])
def test_a_layer_that_changes_on_these_rows_only(whole):
    """No trial can know: what the training did is refused, and the message says nothing of a row."""

    def keep(layer, x):
        if bool((x.abs() > 1e4).any()):
            layer.seen = x.detach()

    module = network(Late(keep) if whole else Layer(keep))
    with pytest.raises(pabi.InvalidInput, match="1.seen: an attribute that changes") as caught:
        trained(module, whole=whole, data=with_secret(3))
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


@every("whole", [False, True])
def test_no_row_hangs_on_what_is_returned(whole):
    module = network(nn.ReLU())
    result = trained(module, whole=whole, data=with_secret(slice(None)))
    kept = torch.cat([t.reshape(-1).double() for t in reachable(result.module)] or [torch.zeros(1)])
    assert not (kept.abs() > 1e3).any()
    for name, parameter in module.named_parameters():
        same = torch.equal(parameter, result.module.get_parameter(name))
        assert same is (not whole and not name.startswith("2"))


HOOKS = ["forward", "forward_pre", "full_backward", "full_backward_pre"]
OF_ALL = [*HOOKS, "buffer_registration", "module_registration", "parameter_registration"]


@every("of_all, kind", [(False, kind) for kind in HOOKS] + [(True, kind) for kind in OF_ALL])
def test_hooks_are_refused_before_they_see_a_row(of_all, kind):
    """Those of a layer, and those of all modules, which see how the copy is made."""
    seen, module = [], network(nn.ReLU())
    name = f"register_module_{kind}_hook" if of_all else f"register_{kind}_hook"
    register = getattr(nn.modules.module if of_all else module[1], name)
    handle, field = register(lambda *given: seen.append(given)), "module" if of_all else "1"
    try:
        messages = [refused(field, trained, module, whole=whole) for whole in (False, True)]
        messages.append(refused(field, integration.features, module, pairs(X, CLASSES), head="2"))
    finally:
        handle.remove()
    assert all("expected no hooks" in message for message in messages)
    assert not any(isinstance(layer, nn.Linear) for layer, *_ in seen)
    assert of_all or not seen


class Shared(nn.Identity):
    def __deepcopy__(self, memo):
        return self


@every("whole", [False, True])
def test_a_module_that_is_not_copied(whole):
    assert "copy.deepcopy" in refused("module", trained, network(Shared()), whole=whole)


def test_parametrised_layers_are_trained_by_their_originals():
    module = nn.utils.parametrizations.weight_norm(nn.Linear(D, K)).double()
    result = integration.train(module, pairs(X, CLASSES), WHOLE, loss=nn.CrossEntropyLoss())
    assert set(dict(result.module.named_parameters())) == set(dict(module.named_parameters()))
    for name, parameter in module.named_parameters():
        assert not torch.equal(parameter, result.module.get_parameter(name))


# Files.


def saved(result, path):
    integration.save(result, path)
    return set(torch.load(path, weights_only=True)["state_dict"])


def test_a_file_has_parameters_and_buffers_and_nothing_of_hooks(tmp_path):
    result, path = trained(network(nn.BatchNorm1d(4).eval())), tmp_path / "model.pt"

    def slip_in(module, state, prefix, metadata):
        state["slipped"] = torch.full((3,), SECRET)

    result.module.register_state_dict_post_hook(slip_in)
    parts = (*result.module.named_parameters(), *result.module.named_buffers())
    assert saved(result, path) == {name for name, _ in parts}
    other = network(nn.BatchNorm1d(4))
    integration.load(path, other)
    for name, value in other.named_parameters():
        assert torch.equal(value, result.module.get_parameter(name))
    tied = nn.Sequential(nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, K)).double()
    tied[1].weight = tied[0].weight
    tied.register_buffer("scratch", torch.zeros(2), persistent=False)
    result = trained(tied)
    assert saved(result, path) == set(result.module.state_dict())


class Stateful(nn.Identity):
    def get_extra_state(self):
        return {"rows": SECRET}

    def set_extra_state(self, state):
        pass


def test_a_state_of_ones_own_is_not_written(tmp_path):
    result = trained(network(Stateful()))
    message = refused("1", integration.save, result, tmp_path / "model.pt")
    assert "get_extra_state" in message
    assert not (tmp_path / "model.pt").exists()


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


def with_secret(row):
    data = X.copy()
    data[row] = SECRET
    return pairs(data, CLASSES)


# (a layer, a dataset, the ways in which it fails)
FAILURES = [
    (nn.ReLU(), Failing(torch.as_tensor(X), CLASSES), ["head", "whole", "features"]),
    (nn.ReLU(), Uneven(torch.as_tensor(X), CLASSES), ["head", "whole", "features"]),
    (Picky(), with_secret(7), ["head", "features"]),  # of a whole module torch.func refuses to look
]


@every("layer, data, ways", FAILURES)
def test_no_error_shows_a_row(layer, data, ways):
    words = "with a (ValueError|RuntimeError)|shapes of the first"
    for way in ways:
        with pytest.raises(pabi.InvalidInput, match=words) as caught:
            if way == "features":
                integration.features(network(layer), data, head="2")
            else:
                trained(network(layer), whole=way == "whole", data=data)
        assert_shows_nothing(caught.value)


def assert_shows_nothing(error):
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "".join(traceback.format_exception(error))
    assert not {form for form in ("7123", "7.712") if form in shown}


def test_no_error_of_a_loading_process_shows_a_row():
    data = Failing(torch.as_tensor(X), CLASSES)
    with pytest.raises(pabi.InvalidInput, match="dataset: fails") as caught:
        trained(network(nn.ReLU()), data=data, workers=1)
    assert_shows_nothing(caught.value)


# Complex numbers, whose imaginary part nothing bounds.


def test_complex_numbers():
    module, data = nn.Sequential(nn.Linear(D, 4), nn.Linear(4, K)), pairs(X, CLASSES)
    for described, how in ((WHOLE, {"loss": nn.CrossEntropyLoss()}), (HEAD, {"head": "1"})):
        given = module.to(torch.complex128), data, described
        message = refused("module", integration.train, *given, **how)
        assert "expected real parameters, got '0.weight'" in message
    for dataset in (pairs(X + 1j, CLASSES), Listed(torch.as_tensor(X + 1j), CLASSES)):
        whole = refused("dataset", trained, nn.Linear(D, K), whole=True, data=dataset)
        head = refused("dataset", integration.features, network(nn.ReLU()), dataset, head="2")
        assert all("both of real numbers" in message for message in (whole, head))


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_modes_see_every_record():
    for mode in (Functions, Dispatch):
        with mode(), pytest.raises(pabi.InvalidInput, match="module: expected no mode"):
            trained(network(nn.ReLU()))
    with torch.device("cpu"):
        trained(network(nn.ReLU()))

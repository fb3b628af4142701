"""Trainings that do what nobody described: each is refused, by what the module and its steps show."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

from __future__ import annotations

from dataclasses import replace

import pytest

from pabi import InvalidInput, Loss
from pabi.guarantees.guarantee import TESTING
from support.frameworks import framework

framework("opacus")
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from pabi.integrations.opacus import PabiAccountant, from_opacus
from pabi.integrations.opacus.accountant import CRITERION, PARTS, RESUMED
from support.opacus_runs import HEAD, opacus_run, records

DELTA = 1e-4


def described(epochs=1, parts=False, **arguments):
    run = opacus_run(**{"poisson_sampling": False, **arguments})
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=epochs)
    run.engine.accountant.describe(description, parts=parts)
    return run


def private(module, rows, targets, **arguments):
    """(optimizer, loader) of an engine around any module."""
    engine = PrivacyEngine(accountant="pabi")
    _, optimizer, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.5, weight_decay=0.5),
        data_loader=DataLoader(TensorDataset(rows, targets), batch_size=10),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        **arguments,
    )
    return engine, optimizer, loader


# What the module shows.


def _cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))


FLAT, IMAGES = torch.zeros(20, 3), torch.zeros(20, 1, 8, 8)
NOT_LINEAR = {
    "a CNN": (_cnn, IMAGES, Loss.logistic(1.0), "one weight"),
    "a CNN as softmax": (_cnn, IMAGES, Loss.softmax(2.0), "one weight"),
    "two layers": (
        lambda: nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 1, bias=False)),
        FLAT,
        Loss.logistic(1.0),
        "one weight",
    ),
    "a norm": (lambda: nn.LayerNorm(3), FLAT, Loss.logistic(2.0), "one weight"),
    "ten outputs": (
        lambda: nn.Linear(3, 10, bias=False),
        FLAT,
        Loss.logistic(1.0),
        "1 output for logistic, got 10",
    ),
    "one output": (
        lambda: nn.Linear(3, 1, bias=False),
        FLAT,
        Loss.softmax(1.0),
        "at least 2 outputs for softmax, got 1",
    ),
    "other classes": (
        lambda: nn.Linear(3, 4, bias=False),
        FLAT,
        Loss.one_vs_rest(1.0, 3),
        "3 outputs for one_vs_rest, got 4",
    ),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_the_loss_of_a_linear_model_needs_one(name):
    make, rows, loss, reason = NOT_LINEAR[name]
    _, optimizer, loader = private(make(), rows, torch.zeros(20))
    with pytest.raises(InvalidInput, match=reason) as refusal:
        from_opacus(optimizer, loader, loss=loss, epochs=1)
    assert refusal.value.field == "loss"
    assert from_opacus(optimizer, loader, loss=Loss.unknown(), epochs=1).loss.kind == "unknown"


def test_a_run_described_by_hand_needs_one_as_well():
    module = nn.Linear(3, 10, bias=False)
    engine, optimizer, loader = private(module, FLAT, torch.zeros(20), poisson_sampling=False)
    run = from_opacus(optimizer, loader, loss=Loss.unknown(), epochs=1)
    engine.accountant.describe(replace(run, loss=Loss.logistic(1.0, l2=0.5)))
    for rows, _ in loader:
        optimizer.zero_grad()
        zeros = torch.zeros(len(rows), dtype=torch.long)
        nn.functional.cross_entropy(module(rows), zeros).backward()
        optimizer.step()
    with pytest.raises(InvalidInput, match="1 output for logistic, got 10"):
        engine.get_epsilon(DELTA)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_numbers_that_are_shorter_than_single_precision(dtype):
    run = described()
    run.optimizer.params[0].data = run.optimizer.params[0].data.to(dtype)
    with pytest.raises(InvalidInput, match=f"float32 or float64, got {dtype}") as refusal:
        from_opacus(run.optimizer, run.loader, loss=Loss.unknown(), epochs=1)
    assert refusal.value.field == "dtype"


def test_autocast_is_refused_at_the_first_step():
    module = nn.Linear(3, 1, bias=False)
    engine, optimizer, loader = private(module, FLAT, torch.zeros(20), poisson_sampling=False)
    engine.accountant.describe(from_opacus(optimizer, loader, loss=HEAD, epochs=1))
    before = module.weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(FLAT[:10])
    nn.functional.binary_cross_entropy_with_logits(
        output.float().squeeze(-1), torch.zeros(10)
    ).backward()
    with pytest.raises(InvalidInput, match=r"dtype: .*got torch.bfloat16"):
        optimizer.step()
    assert torch.equal(module.weight, before)


# Steps that nobody described.


def test_batches_put_together_by_hand():
    """A record of all five counts five times."""
    run = described()
    rows, labels = zip(*list(run.loader), strict=True)
    for _ in range(5):
        run.step(torch.cat(rows), torch.cat(labels))
    with pytest.raises(InvalidInput, match="batches: .*at most 12 records, got a step with more"):
        run.engine.get_epsilon(DELTA)


def test_poisson_batches_that_are_larger_than_chance_makes_them():
    run = opacus_run(n=4000, batch=40)
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1)
    run.engine.accountant.describe(description)
    rows, labels = zip(
        *[batch for _, batch in zip(range(8), run.loader, strict=False)], strict=True
    )
    for _ in range(description.steps):
        run.step(torch.cat(rows), torch.cat(labels))
    with pytest.raises(InvalidInput, match="batches: .*got a step with more"):
        run.engine.get_epsilon(DELTA)


def test_steps_skipped_by_hand():
    run = described()
    with pytest.raises(InvalidInput, match=r"parts: expected describe\(…, parts=True\)"):
        for k, (rows, labels) in enumerate(run.loader):
            run.optimizer.signal_skip_step(do_skip=k < 4)
            run.step(rows, labels)


def test_parts_of_a_memory_manager_are_said_and_stand_in_the_guarantee():
    run = described(parts=True)
    with BatchMemoryManager(
        data_loader=run.loader, max_physical_batch_size=4, optimizer=run.optimizer
    ) as parts:
        for rows, labels in parts:
            run.step(rows, labels)
    assert PARTS in run.engine.accountant.guarantee(DELTA).assumptions
    whole = described()
    whole.train(1)
    assert PARTS not in whole.engine.accountant.guarantee(DELTA).assumptions


def test_two_models_on_one_engine():
    run = described(epochs=2)
    run.train(1)
    other = nn.Linear(3, 1, bias=False).double()
    _, optimizer, loader = run.engine.make_private(
        module=other,
        optimizer=torch.optim.SGD(other.parameters(), lr=0.5),
        data_loader=DataLoader(records(60, 3), batch_size=12, shuffle=True),
        noise_multiplier=2.0,
        max_grad_norm=0.3,
        poisson_sampling=False,
    )
    rows, labels = next(iter(loader))
    nn.functional.binary_cross_entropy_with_logits(other(rows).squeeze(-1), labels).backward()
    with pytest.raises(InvalidInput, match="optimizer: .*one model"):
        optimizer.step()
    assert len(run.engine.accountant) == 5


def weights(run):
    return run.optimizer.params[0]


def _data(run):
    weights(run).data += 1.0


def _in_place(run):
    with torch.no_grad():
        weights(run).mul_(0.5)


def _inner_step(run):
    """A step of a gradient that nothing was added to."""
    weights(run).grad = torch.ones_like(weights(run))
    run.optimizer.original_optimizer.step()


@pytest.mark.parametrize("change", [_data, _in_place, _inner_step])
def test_weights_that_change_between_steps(change):
    run = described(epochs=2)
    run.train(1)
    change(run)
    with pytest.raises(InvalidInput, match="parameters: .*changed since"):
        run.train(1)


@pytest.mark.parametrize("change", [_data, _in_place, _inner_step])
def test_weights_that_change_after_the_last_step(change):
    run = described()
    run.train(1)
    assert run.engine.get_epsilon(DELTA) > 0.0
    change(run)
    for ask in (run.engine.get_epsilon, run.engine.accountant.guarantee_so_far):
        with pytest.raises(InvalidInput, match="parameters: .*changed since"):
            ask(DELTA)


def test_a_parameter_that_is_added():
    run = described(epochs=2)
    run.train(1)
    extra = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    extra.summed_grad = None
    run.optimizer.original_optimizer.add_param_group({"params": [extra]})
    rows, labels = next(iter(run.loader))
    run.optimizer.zero_grad()
    run.criterion(run.module(rows).squeeze(-1), labels).backward()
    extra.grad_sample = torch.zeros(12, 1, dtype=torch.float64)
    with pytest.raises(InvalidInput, match="parameters: "):
        run.optimizer.step()


def _scale(optimizer, *_):
    for p in optimizer.param_groups[0]["params"]:
        p.grad *= 8.0


def _wrapped_hook(run):
    own = run.optimizer.step_hook
    run.optimizer.attach_step_hook(lambda optimizer: (own(optimizer), _scale(optimizer)))


def _before_step(run):
    run.optimizer.original_optimizer.register_step_pre_hook(_scale)


def _after_step(run):
    run.optimizer.original_optimizer.register_step_post_hook(_scale)


def _own_clipping(run):
    own = run.optimizer.clip_and_accumulate
    run.optimizer.clip_and_accumulate = lambda: own()


def _own_step(run):
    run.optimizer.original_optimizer.step = lambda: None


def _of_a_parameter(run):
    """Under ghost clipping, what a record moves a step by."""
    weights(run).register_hook(lambda gradient: 8.0 * gradient)


def _after_a_parameter(run):
    def scale(parameter):
        parameter.grad *= 8.0

    weights(run).register_post_accumulate_grad_hook(scale)


@pytest.mark.parametrize("change", [_of_a_parameter, _after_a_parameter])
def test_hooks_of_parameters_under_ghost_clipping(change):
    run = described(grad_sample_mode="ghost")
    change(run)
    with pytest.raises(InvalidInput, match="optimizer: expected no hooks on parameters"):
        run.train(1)


def test_ghost_clipping_says_what_clips():
    run = described(grad_sample_mode="ghost")
    run.train(1)
    assert CRITERION in run.engine.accountant.guarantee(DELTA).assumptions
    whole = described()
    whole.train(1)
    assert CRITERION not in whole.engine.accountant.guarantee(DELTA).assumptions


@pytest.mark.parametrize(
    "change", [_wrapped_hook, _before_step, _after_step, _own_clipping, _own_step]
)
def test_hooks_that_change_steps(change):
    run = described()
    change(run)
    with pytest.raises(InvalidInput, match="optimizer: expected no "):
        run.train(1)


@pytest.mark.parametrize("wrapped", [True, False])
def test_schedulers_are_no_such_hook(wrapped):
    run = opacus_run(poisson_sampling=False)
    inner = run.optimizer if wrapped else run.optimizer.original_optimizer
    schedule = lr_scheduler.ExponentialLR(inner, 0.9)
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2, scheduler=schedule)
    run.engine.accountant.describe(description)
    run.train(2, after_epoch=schedule.step)
    assert run.engine.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)


# Randomness that somebody knows, and states.


def test_a_generator_of_ones_own_is_for_tests():
    run = described(noise_generator=torch.Generator())
    run.train(1)
    guarantee = run.engine.accountant.guarantee(DELTA)
    assert guarantee.assumptions[0] == TESTING
    again = PabiAccountant()
    again.load_state_dict(run.engine.accountant.state_dict())
    assert again.guarantee(DELTA).assumptions[0] == TESTING


def test_a_seed_is_for_tests():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run = described()
        run.train(1)
    assert run.engine.accountant.guarantee(DELTA).assumptions[0] == TESTING


@pytest.mark.parametrize("poisson", [True, False])
def test_a_seed_of_the_loader_is_for_tests(poisson):
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(records(60, 3), batch_size=12, shuffle=True, generator=generator)
    run = opacus_run(loader=loader, poisson_sampling=poisson)
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1)
    run.engine.accountant.describe(description, loader=run.loader)
    run.train(1)
    assert run.engine.accountant.guarantee(DELTA).assumptions[0] == TESTING


def test_no_seed_is_none_for_tests():
    run = opacus_run()
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1)
    run.engine.accountant.describe(description, loader=run.loader)
    run.train(1)
    assert TESTING not in run.engine.accountant.guarantee(DELTA).assumptions


def test_steps_of_a_stored_state_are_said():
    run = described(epochs=2)
    run.train(1)
    state = run.engine.accountant.state_dict()
    assert RESUMED not in run.engine.accountant.guarantee_so_far(DELTA).assumptions
    again = described(epochs=2)
    again.engine.accountant.load_state_dict(state)
    again.train(1)
    assert RESUMED in again.engine.accountant.guarantee(DELTA).assumptions


def test_a_state_does_not_take_back_steps():
    run = described(epochs=2)
    run.train(1)
    state = run.engine.accountant.state_dict()
    run.train(1)
    with pytest.raises(InvalidInput, match="state_dict: .*before the first step"):
        run.engine.accountant.load_state_dict(state)
    assert len(run.engine.accountant) == 10


def test_states_of_earlier_versions_are_read():
    """They had neither shapes nor parts; what a linear loss needs is then not known."""
    run = opacus_run(poisson_sampling=False)
    unknown = from_opacus(run.optimizer, run.loader, loss=Loss.unknown(), epochs=1)
    run.engine.accountant.describe(unknown)
    run.train(1)
    state = run.engine.accountant.state_dict()
    del state["parts"]
    for table in state["history"]:
        del table["settings"]["shapes"], table["settings"]["seeded"]
    again = PabiAccountant()
    again.load_state_dict(state)
    assert PARTS in again.guarantee(DELTA).assumptions
    linear = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1)
    again.describe(linear, parts=True)
    with pytest.raises(InvalidInput, match="loss: .*one weight"):
        again.guarantee(DELTA)

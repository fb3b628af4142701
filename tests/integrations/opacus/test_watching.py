"""Trainings that do what nobody described: each is refused, by what the module and its steps show."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import copy
import itertools
from dataclasses import replace

import pytest

from pabi import InvalidInput, Loss
from pabi.tradeoff.guarantee import TESTING
from support.computed_once import computed_once
from support.every_case import every, refused
from support.frameworks import framework

framework("opacus")
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from pabi.integrations.opacus import PabiAccountant, from_opacus
from pabi.integrations.opacus.accountant import CRITERION, PARTS, RESUMED
from support.opacus_runs import DELTA, HEAD, described_run, records, trained_in_parts


def described(epochs=1, parts=False, **arguments):
    """A run that shuffles."""
    fields = {"poisson_sampling": False, "loss": HEAD, **arguments}
    return described_run(epochs, parts=parts, **fields)[0]


def trained_run(**arguments):
    run = described(**arguments)
    run.train(1)
    return run


def composed(**arguments):
    """Of a loss of which nothing is known."""
    return trained_run(loss=Loss.unknown(), **arguments)


def weights(run):
    return run.optimizer.params[0]


def assumptions(run):
    return run.engine.accountant.guarantee(DELTA).assumptions


def refused_of(run, words):
    """What the engine is asked for is refused in these words."""
    with pytest.raises(InvalidInput, match=words):
        run.engine.get_epsilon(DELTA)


def private(module, rows, targets, **arguments):
    """(engine, optimizer, loader) of an engine around any module."""
    engine = PrivacyEngine(accountant="pabi")
    loader = DataLoader(TensorDataset(rows, targets), batch_size=10)
    sgd = torch.optim.SGD(module.parameters(), lr=0.5, weight_decay=0.5)
    given = {"module": module, "optimizer": sgd, "data_loader": loader, "noise_multiplier": 2.0}
    return engine, *engine.make_private(**given, max_grad_norm=1.0, **arguments)[1:]


# What the module shows.


def unbiased(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


CNN = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))


FLAT, IMAGES = torch.zeros(20, 3), torch.zeros(20, 1, 8, 8)
TWO = nn.Sequential(unbiased(3, 2), unbiased(2, 1))
NOT_LINEAR = [
    (CNN, IMAGES, Loss.logistic(1.0), "one weight"),
    (CNN, IMAGES, Loss.softmax(2.0), "one weight"),
    (TWO, FLAT, Loss.logistic(1.0), "one weight"),
    (nn.LayerNorm(3), FLAT, Loss.logistic(2.0), "one weight"),
    (unbiased(3, 10), FLAT, Loss.logistic(1.0), "1 output for logistic, got 10"),
    (unbiased(3, 1), FLAT, Loss.softmax(1.0), "at least 2 outputs for softmax, got 1"),
    (unbiased(3, 4), FLAT, Loss.one_vs_rest(1.0, 3), "3 outputs for one_vs_rest, got 4"),
]


@every("module, rows, loss, reason", NOT_LINEAR)
def test_the_loss_of_a_linear_model_needs_one(module, rows, loss, reason):
    _, optimizer, loader = private(copy.deepcopy(module), rows, torch.zeros(20))
    assert reason in refused("loss", from_opacus, optimizer, loader, loss=loss, epochs=1)
    assert from_opacus(optimizer, loader, loss=Loss.unknown(), epochs=1).loss.kind == "unknown"


def test_a_run_described_by_hand_needs_one_as_well():
    module = nn.Linear(3, 10, bias=False)
    engine, optimizer, loader = private(module, FLAT, torch.zeros(20), poisson_sampling=False)
    run = from_opacus(optimizer, loader, loss=Loss.unknown(), epochs=1)
    engine.accountant.describe(replace(run, loss=Loss.logistic(1.0, l2=0.5)))
    for rows, targets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(rows), targets.long()).backward()
        optimizer.step()
    with pytest.raises(InvalidInput, match="1 output for logistic, got 10"):
        engine.get_epsilon(DELTA)


@every("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_numbers_that_are_shorter_than_single_precision(dtype):
    run = described()
    weights(run).data = weights(run).data.to(dtype)
    given = {"loss": Loss.unknown(), "epochs": 1}
    message = refused("dtype", from_opacus, run.optimizer, run.loader, **given)
    assert f"float32 or float64, got {dtype}" in message


def test_autocast_is_refused_at_the_first_step():
    module = nn.Linear(3, 1, bias=False)
    engine, optimizer, loader = private(module, FLAT, torch.zeros(20), poisson_sampling=False)
    engine.accountant.describe(from_opacus(optimizer, loader, loss=HEAD, epochs=1))
    before = module.weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(FLAT[:10]).squeeze(-1)
    nn.functional.binary_cross_entropy_with_logits(output.float(), torch.zeros(10)).backward()
    assert "got torch.bfloat16" in refused("dtype", optimizer.step)
    assert torch.equal(module.weight, before)


# Steps that nobody described.


def test_batches_put_together_by_hand():
    """A record of all five counts five times."""
    run = described()
    rows, labels = zip(*list(run.loader), strict=True)
    for _ in range(5):
        run.step(torch.cat(rows), torch.cat(labels))
    refused_of(run, "batches: .*at most 12 records, got a step with more")


def test_poisson_batches_that_are_larger_than_chance_makes_them():
    run, description = described_run(1, n=4000, batch=40)
    several = itertools.islice(run.loader, 8)
    rows, labels = (torch.cat(each) for each in zip(*several, strict=True))
    for _ in range(description.steps):
        run.step(rows, labels)
    refused_of(run, "batches: .*got a step with more")


def test_steps_skipped_by_hand():
    run = described()
    with pytest.raises(InvalidInput, match=r"parts: expected describe\(…, parts=True\)"):
        for k, (rows, labels) in enumerate(run.loader):
            run.optimizer.signal_skip_step(do_skip=k < 4)
            run.step(rows, labels)


# Accounted in no time.
IN_ORDER = {"loss": Loss.unknown(), "loader": DataLoader(records(60, 3), batch_size=12)}


def in_parts():
    run, description = trained_in_parts(**IN_ORDER, poisson_sampling=False)
    assert len(run.engine.accountant) == description.steps
    assert run.engine.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)
    return run


@every(
    "sentence, said",
    [
        (PARTS, in_parts),
        (CRITERION, lambda: trained_run(**IN_ORDER, grad_sample_mode="ghost")),
        (TESTING, lambda: trained_run(**IN_ORDER, noise_generator=torch.Generator())),
    ],
)
def test_what_a_training_adds_stands_in_the_guarantee(monkeypatch, sentence, said):
    """The parts of a memory manager, what clips under ghost clipping, and a generator of one's own."""
    computed_once(monkeypatch)
    state = PabiAccountant()
    run = said()
    state.load_state_dict(run.engine.accountant.state_dict())
    for accountant in (run.engine.accountant, state):
        assert sentence in accountant.guarantee(DELTA).assumptions
    assert sentence not in assumptions(trained_run(**IN_ORDER))


def test_two_models_on_one_engine():
    run = described(epochs=2)
    run.train(1)
    other = nn.Linear(3, 1, bias=False).double()
    _, optimizer, loader = run.engine.make_private(
        module=other,
        optimizer=torch.optim.SGD(other.parameters(), lr=0.5),
        data_loader=DataLoader(records(60, 3), batch_size=12, shuffle=True),
        **{"noise_multiplier": 2.0, "max_grad_norm": 0.3, "poisson_sampling": False},
    )
    rows, labels = next(iter(loader))
    run.criterion(other(rows).squeeze(-1), labels).backward()
    assert "one model" in refused("optimizer", optimizer.step)
    assert len(run.engine.accountant) == 5


def in_place(run):
    with torch.no_grad():
        weights(run).mul_(0.5)


def inner_step(run):
    """A step of a gradient that nothing was added to."""
    weights(run).grad = torch.ones_like(weights(run))
    run.optimizer.original_optimizer.step()


@every("change", [lambda run: weights(run).data.add_(1.0), in_place, inner_step])
def test_weights_that_change_between_steps_or_after_the_last_one(change):
    run = described(epochs=2)
    run.train(1)
    change(run)
    assert "changed since" in refused("parameters", run.train, 1)
    run = trained_run()
    assert run.engine.get_epsilon(DELTA) > 0.0
    change(run)
    for ask in (run.engine.get_epsilon, run.engine.accountant.guarantee_so_far):
        assert "changed since" in refused("parameters", ask, DELTA)


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
    refused("parameters", run.optimizer.step)


def _scale(optimizer, *_):
    for p in optimizer.param_groups[0]["params"]:
        p.grad *= 8.0


def after_a_parameter(run):
    def scale(parameter):
        parameter.grad *= 8.0

    weights(run).register_post_accumulate_grad_hook(scale)


OF_PARAMETERS = [lambda run: weights(run).register_hook(lambda grad: 8.0 * grad), after_a_parameter]


@every("change", OF_PARAMETERS)
def test_hooks_of_parameters_under_ghost_clipping(change):
    """They change what a record moves a step by."""
    run = described(grad_sample_mode="ghost")
    change(run)
    assert "expected no hooks on parameters" in refused("optimizer", run.train, 1)


def wrapped_hook(run):
    own = run.optimizer.step_hook
    run.optimizer.attach_step_hook(lambda optimizer: (own(optimizer), _scale(optimizer)))


def own_clipping(run):
    own = run.optimizer.clip_and_accumulate
    run.optimizer.clip_and_accumulate = lambda: own()


HOOKS = [
    wrapped_hook,
    own_clipping,
    lambda run: run.optimizer.original_optimizer.register_step_pre_hook(_scale),
    lambda run: run.optimizer.original_optimizer.register_step_post_hook(_scale),
    lambda run: setattr(run.optimizer.original_optimizer, "step", lambda: None),
]


@every("change", HOOKS)
def test_hooks_that_change_steps(change):
    run = described()
    change(run)
    assert "expected no " in refused("optimizer", run.train, 1)


@every("wrapped", [True, False])
def test_schedulers_are_no_such_hook(wrapped):
    schedules = []

    def schedule(optimizer):
        inner = optimizer if wrapped else optimizer.original_optimizer
        schedules.append(lr_scheduler.ExponentialLR(inner, 0.9))
        return schedules[0]

    given = {"settings": {"weight_decay": 0.5}, "poisson_sampling": False}
    run, description = described_run(scheduler=schedule, **given)
    run.train(2, after_epoch=schedules[0].step)
    assert len(run.engine.accountant.history) == 2
    assert run.engine.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)


# Randomness that somebody knows, and states.


@every("poisson", [True, False])
def test_a_seed_is_for_tests_and_no_seed_is_not(monkeypatch, poisson):
    """That of torch, or of the loader."""
    computed_once(monkeypatch)
    if not poisson:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            assert assumptions(composed())[0] == TESTING
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(records(60, 3), batch_size=12, shuffle=True, generator=generator)
    given = {"poisson_sampling": poisson, "look": True}
    assert assumptions(composed(loader=loader, **given))[0] == TESTING
    assert TESTING not in assumptions(composed(**given))


def test_what_was_said_of_steps_that_were_seen_still_holds_after_another_description(monkeypatch):
    """A loader whose seed is known, and parts; of the former a stored state says so, too."""
    computed_once(monkeypatch)
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(records(60, 3), batch_size=12, shuffle=True, generator=generator)
    run = composed(loader=loader, look=True)
    again = PabiAccountant()
    again.load_state_dict(run.engine.accountant.state_dict())
    for sentence, accountant in (
        (TESTING, run.engine.accountant),
        (TESTING, again),
        (PARTS, in_parts().engine.accountant),
    ):
        accountant.describe(accountant.run)
        assert sentence in accountant.guarantee(DELTA).assumptions


def test_steps_of_a_stored_state_are_said_and_a_state_takes_none_back():
    run, again = described(epochs=2), described(epochs=2)
    run.train(1)
    accountant = run.engine.accountant
    state = accountant.state_dict()
    assert RESUMED not in accountant.guarantee_so_far(DELTA).assumptions
    again.engine.accountant.load_state_dict(state)
    again.train(1)
    assert RESUMED in assumptions(again)
    run.train(1)
    message = refused("state_dict", accountant.load_state_dict, state)
    assert "before the first step" in message
    assert len(accountant) == 10


def test_states_of_earlier_versions_are_read():
    """They had neither shapes nor parts; what a linear loss needs is then not known."""
    run, _ = described_run(1, Loss.unknown(), poisson_sampling=False)
    run.train(1)
    state = run.engine.accountant.state_dict()
    del state["parts"]
    for table in state["history"]:
        del table["settings"]["shapes"], table["settings"]["seeded"]
    again = PabiAccountant()
    again.load_state_dict(state)
    assert PARTS in again.guarantee(DELTA).assumptions
    again.describe(from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1), parts=True)
    assert "one weight" in refused("loss", again.guarantee, DELTA)

"""The accountant in Opacus' engine: real trainings, compared with Opacus' own accountants, and refusals."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

from __future__ import annotations

import io
import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Poisson
from support.frameworks import framework

framework("opacus")
import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialGradClip, ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.optim import lr_scheduler

from pabi.integrations.opacus import PabiAccountant, from_opacus
from pabi.integrations.opacus.accountant import INSECURE, LINEAR, LOADER, LOOP, PRECISION
from support.opacus_runs import HEAD, WITH_BIAS, opacus_run

DELTA = 1e-4


def trained(epochs=2, loss=None, scheduler=None, described=None, **arguments):
    """A run that was described, then trained, and its description."""
    run = opacus_run(**arguments)
    schedule = scheduler(run.optimizer) if scheduler else None
    description = from_opacus(
        run.optimizer, run.loader, loss=loss or run.loss, epochs=epochs, scheduler=schedule
    )
    run.engine.accountant.describe(described(description) if described else description)
    run.train(epochs, after_epoch=schedule and schedule.step)
    return run, description


def prv_bounds(run, description, error=0.002):
    """(lower, upper) bounds on ε by Opacus' accountant of privacy loss variables, of the same steps."""
    prv = PRVAccountant()
    prv.history = [(description.noise_multiplier, 1.0 / len(run.loader), description.steps)]
    variable = prv._get_dprv(eps_error=error, delta_error=DELTA / 1e4)
    low, _, high = variable.compute_epsilon(DELTA, DELTA / 1e4, error)
    return low, high


# What it answers.


def test_a_convex_head_with_weight_decay_costs_less_than_its_prv():
    """Trained: a head of one output, whose steps contract."""
    run, description = trained(20, n=400, batch=20, settings={"weight_decay": 0.5})
    epsilon = run.engine.get_epsilon(DELTA)
    low, _ = prv_bounds(run, description)
    assert 0.0 < epsilon < 0.5 * low
    assert epsilon == description.guarantee(DELTA).epsilon(DELTA)
    assert run.engine.accountant.guarantee(DELTA).method != "composition"


COMPOSED = {
    "nothing is known": {"loss": Loss.unknown()},
    "no contraction": {},
    "momentum": {"settings": {"momentum": 0.9, "weight_decay": 0.5}},
    "adam": {"optimizer": torch.optim.Adam, "settings": {"weight_decay": 0.5}},
    "other": {"optimizer": torch.optim.AdamW},
    "per layer": {
        "bias": True,
        "clipping": "per_layer",
        "max_grad_norm": [0.1, 0.2],
        "settings": {"weight_decay": 0.5},
    },
    "ghost": {"grad_sample_mode": "ghost", "settings": {"weight_decay": 0.5}},
    "another divisor": {"n": 403},
    "a small multiplier": {"noise_multiplier": 0.6},
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composition_is_its_prv_elsewhere(name):
    """Within a thousandth, and never below the truth, which lies between the bounds."""
    run, description = trained(5, **{"n": 400, "batch": 20, **COMPOSED[name]})
    epsilon = run.engine.get_epsilon(DELTA)
    low, high = prv_bounds(run, description)
    assert run.engine.accountant.guarantee(DELTA).method == "composition"
    assert low <= epsilon <= (low + high) / 2.0 * (1.0 + 1e-3)


def test_the_guarantee_says_what_opacus_adds():
    run, description = trained()
    guarantee = run.engine.accountant.guarantee(DELTA)
    added = set(guarantee.assumptions) - set(description.guarantee(DELTA).assumptions)
    assert added == {LOADER, LOOP, LINEAR, PRECISION, INSECURE}
    assert guarantee.verified or guarantee.certificate is not None
    secure, _ = trained(noise_multiplier=2.0)
    for seen in secure.engine.accountant.history:
        object.__setattr__(seen.settings, "secure", True)
    assert INSECURE not in secure.engine.accountant.guarantee(DELTA).assumptions


def test_schedules_are_followed():
    run, description = trained(
        4, scheduler=lambda o: lr_scheduler.ExponentialLR(o, 0.7), settings={"weight_decay": 0.5}
    )
    accountant = run.engine.accountant
    assert len(accountant.history) == 4
    assert accountant.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)


def test_logical_batches_of_a_memory_manager():
    run = opacus_run()
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=1)
    run.engine.accountant.describe(description, parts=True)
    with BatchMemoryManager(
        data_loader=run.loader, max_physical_batch_size=4, optimizer=run.optimizer
    ) as parts:
        for rows, labels in parts:
            run.step(rows, labels)
    assert len(run.engine.accountant) == description.steps
    assert run.engine.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)


def test_runs_described_by_hand():
    """With size/n for a probability, which Opacus' numbers exceed a little: it counts as theirs."""
    by_hand = NoisySGD(
        HEAD, 60, Poisson(12), 2, step_size=0.5, clip_norm=0.3, noise_std=2.0 * 0.3 / 12
    )
    run, _ = trained(described=lambda _: by_hand)
    accountant = run.engine.accountant
    exactly = replace(by_hand, batches=Poisson(12, probability=math.ceil(2**24 / 5) / 2**24))
    assert accountant.get_epsilon(DELTA) == exactly.guarantee(DELTA).epsilon(DELTA)
    assert accountant.get_epsilon(DELTA) > by_hand.guarantee(DELTA).epsilon(DELTA)


# Models on the way.


def test_on_the_way_there_is_no_last_iterate():
    """What the models so far cost together never falls, and holds whatever was shown of them."""
    run = opacus_run(settings={"weight_decay": 0.5})
    accountant = run.engine.accountant
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=4)
    accountant.describe(description)
    with pytest.raises(InvalidInput, match="steps: expected 1 to 20, as described, got 0"):
        accountant.guarantee_so_far(DELTA)
    so_far = []

    def ask():
        guarantee = accountant.guarantee_so_far(DELTA)
        assert guarantee.method == "composition"
        assert any("every iterate may be released" in s for s in guarantee.assumptions)
        so_far.append(guarantee.epsilon(DELTA))
        if len(so_far) < 4:
            with pytest.raises(InvalidInput, match="steps: the run has 20, and"):
                accountant.get_epsilon(DELTA)

    run.train(4, after_epoch=ask)
    assert all(a < b for a, b in pairwise(so_far))
    low, high = prv_bounds(run, description)
    assert low <= so_far[-1] <= high
    assert accountant.get_epsilon(DELTA) < so_far[-1]


def test_a_model_after_fewer_steps_is_another_run():
    run = opacus_run(settings={"weight_decay": 0.5})
    accountant = run.engine.accountant
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=4)
    accountant.describe(description)
    run.train(2)
    with pytest.raises(InvalidInput, match="steps: "):
        accountant.get_epsilon(DELTA)
    shorter = replace(description, total_steps=10)
    accountant.describe(shorter)
    assert accountant.get_epsilon(DELTA) == shorter.guarantee(DELTA).epsilon(DELTA)


# Refusals.


def halfway(change):
    """A training of two epochs, of which something changes after the first."""
    run = opacus_run(settings={"weight_decay": 0.1})
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    run.engine.accountant.describe(description)
    run.train(1)
    change(run)
    run.train(1)
    return run.engine.accountant


def set_group(name, value):
    return lambda run: run.optimizer.param_groups[0].update({name: value})


def set_optimizer(name, value):
    return lambda run: setattr(run.optimizer, name, value)


def rated(rate):
    def change(run):
        run.optimizer.attach_step_hook(run.engine.accountant.get_optimizer_hook_fn(rate))

    return change


CHANGES = {
    "noise_multiplier": (set_optimizer("noise_multiplier", 1.99), "2, .*got 1.99"),
    "max_grad_norm": (set_optimizer("max_grad_norm", 0.31), "0.3, .*got 0.31"),
    "expected_batch_size": (set_optimizer("expected_batch_size", 11), "12, .*got 11"),
    "lr": (set_group("lr", 0.4), "0.5, .*got 0.4 from step 6 on"),
    "weight_decay": (set_group("weight_decay", 0.0), "0.1, .*got 0"),
    "sample_rate": (rated(1 / 4), "0.2.*, as described, got 0.25"),
    "optimizer": (set_group("momentum", 0.5), "expected the update SGD"),
    "steps": (lambda run: run.train(1), "10, .*15"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_field_that_deviates_is_named(field):
    change, message = CHANGES[field]
    accountant = halfway(change)
    for ask in (accountant.get_epsilon, accountant.guarantee, accountant.guarantee_so_far):
        with pytest.raises(InvalidInput, match=message) as refusal:
            ask(DELTA)
        assert refusal.value.field == field


def test_nothing_deviates_where_nothing_changes():
    assert halfway(lambda run: None).get_epsilon(DELTA) > 0.0
    small = halfway(set_optimizer("noise_multiplier", 2.0 * (1.0 - 1e-9)))
    with pytest.raises(InvalidInput, match="noise_multiplier: "):
        small.get_epsilon(DELTA)


def test_sums_in_place_of_means():
    """Ten times as long steps by another name."""
    accountant = halfway(set_optimizer("loss_reduction", "sum"))
    with pytest.raises(InvalidInput, match="expected_batch_size: expected 12, .* got 1"):
        accountant.get_epsilon(DELTA)
    run, _ = trained(poisson_sampling=False)
    assert run.engine.get_epsilon(DELTA) > 0.0
    again = opacus_run(poisson_sampling=False)
    again.engine.accountant.describe(
        from_opacus(again.optimizer, again.loader, loss=HEAD, epochs=1)
    )
    again.optimizer.loss_reduction = "sum"
    again.train(1)
    with pytest.raises(InvalidInput, match="expected_batch_size: expected 12, .* got 1"):
        again.engine.get_epsilon(DELTA)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda o: ExponentialNoise(o, gamma=0.9), "noise_multiplier"),
        (lambda o: ExponentialGradClip(o, gamma=0.9), "max_grad_norm"),
    ],
)
def test_schedulers_of_noise_and_norm_are_seen(make, field):
    run, _ = opacus_run(), None
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    run.engine.accountant.describe(description)
    run.train(2, after_epoch=make(run.optimizer).step)
    with pytest.raises(InvalidInput) as refusal:
        run.engine.get_epsilon(DELTA)
    assert refusal.value.field == field


def test_several_batches_a_step():
    run = opacus_run(poisson_sampling=False)
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    run.engine.accountant.describe(description)
    for _ in range(2):
        for rows, labels in run.loader:
            run.criterion(run.module(rows).squeeze(-1), labels).backward()
            run.criterion(run.module(rows).squeeze(-1), labels).backward()
            run.optimizer.step()
            run.optimizer.zero_grad()
    with pytest.raises(InvalidInput, match="accumulated_iterations: expected one batch a step"):
        run.engine.get_epsilon(DELTA)


def test_clipping_per_layer_of_a_run_that_states_more():
    run, _ = trained(
        bias=True,
        clipping="per_layer",
        max_grad_norm=[0.3, 0.4],
        settings={"weight_decay": 0.1},
        described=lambda run: replace(run, loss=WITH_BIAS.with_l2(0.1)),
    )
    with pytest.raises(InvalidInput, match=r"clipping: expected Loss.unknown\(\)"):
        run.engine.get_epsilon(DELTA)


def test_it_answers_for_described_runs_alone():
    run = opacus_run()
    run.train(1)
    with pytest.raises(InvalidInput, match=r"run: missing: describe\(run\)"):
        run.engine.get_epsilon(DELTA)
    with pytest.raises(InvalidInput, match="run: missing"):
        get_noise_multiplier(
            target_epsilon=1.0, target_delta=DELTA, sample_rate=0.1, steps=5, accountant="pabi"
        )


def test_a_loader_that_draws_otherwise_is_refused():
    """Described as Poisson, as the engine's own accountants would have it, and shuffled."""
    run = opacus_run(poisson_sampling=False)
    accountant = run.engine.accountant
    shuffled = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    poisson = replace(shuffled, batches=Poisson(12))
    with pytest.raises(InvalidInput, match=r"^loader: .*shuffles") as refusal:
        accountant.describe(poisson, loader=run.loader)
    assert refusal.value.field == "loader"
    assert accountant.run is None
    with pytest.raises(InvalidInput, match=r"^loader: expected a torch"):
        accountant.describe(shuffled, loader=[1, 2])
    accountant.describe(shuffled, loader=run.loader)
    assert accountant.run == shuffled


def test_a_loader_at_which_nobody_looked_is_warned_of():
    run = opacus_run()
    accountant = run.engine.accountant
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    accountant.describe(description)
    run.train(2)
    with pytest.warns(pabi.PrivacyWarning, match="nobody compared the loader"):
        unseen = accountant.get_epsilon(DELTA)
    accountant.describe(description, loader=run.loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert accountant.get_epsilon(DELTA) == unseen
    accountant.load_state_dict(accountant.state_dict())
    with pytest.warns(pabi.PrivacyWarning, match="nobody compared the loader"):
        accountant.get_epsilon(DELTA)


def test_steps_without_an_optimiser():
    accountant = PabiAccountant()
    accountant.describe(
        NoisySGD(HEAD, 60, Poisson(12), 1, step_size=0.5, noise_multiplier=2.0, clip_norm=0.3)
    )
    for _ in range(5):
        accountant.step(noise_multiplier=2.0, sample_rate=0.2)
    assert len(accountant) == 5
    with pytest.raises(InvalidInput, match="optimizer: step 1 was noted without one"):
        accountant.get_epsilon(DELTA)


SMALL = NoisySGD(HEAD, 60, Cyclic(12), 1, step_size=0.5, noise_multiplier=2.0, clip_norm=0.3)


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ("a run", "run"),
        (replace(SMALL, noise_multiplier=None), "noise_std"),
        (replace(SMALL, clipping="residual"), "clipping"),
        (NoisySGD(HEAD, 60, Cyclic(12), 1, step_size=0.5, noise_std=2.0), "clipping"),
        (replace(SMALL, cooldown_steps=1), "cooldown_steps"),
    ],
)
def test_what_opacus_does_not_do(run, field):
    with pytest.raises(InvalidInput) as refusal:
        PabiAccountant().describe(run)
    assert refusal.value.field == field


def test_optimisers_that_cost_more_are_refused_at_their_first_step():
    run = opacus_run(
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=3.0,
        poisson_sampling=False,
    )
    with pytest.raises(InvalidInput, match="AdaClipDPOptimizer"):
        run.train(1)
    assert np.array_equal(run.x, run.first)


# Registry and state.


def test_the_registry_has_it():
    assert type(create_accountant("pabi")) is PabiAccountant
    assert type(PrivacyEngine(accountant="pabi").accountant) is PabiAccountant
    assert PabiAccountant.mechanism() == "pabi"


@pytest.mark.parametrize(
    "arguments",
    [
        {"settings": {"weight_decay": 0.5}},
        {"scheduler": lambda o: lr_scheduler.ExponentialLR(o, 0.7)},
        {"settings": {"momentum": 0.9}},
        {"optimizer": torch.optim.Adam},
    ],
    ids=["decay", "schedule", "momentum", "adam"],
)
def test_the_state_goes_round(arguments):
    """Through torch.save, with nothing but plain numbers and texts in it."""
    run, _ = trained(3, **arguments)
    first, second = run.engine.accountant, PabiAccountant()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert second.run == first.run
    assert second.history == first.history
    assert len(second) == len(first)
    assert second.get_epsilon(DELTA) == first.get_epsilon(DELTA)
    assert second.state_dict() == first.state_dict()


def test_a_training_goes_on_from_a_checkpoint(tmp_path):
    run = opacus_run(settings={"weight_decay": 0.5})
    description = from_opacus(run.optimizer, run.loader, loss=HEAD, epochs=2)
    run.engine.accountant.describe(description)
    run.train(1)
    path = tmp_path / "checkpoint.pt"
    run.engine.save_checkpoint(path=path, module=run.module, optimizer=run.optimizer)
    again = opacus_run(settings={"weight_decay": 0.5})
    again.engine.load_checkpoint(path=path, module=again.module, optimizer=again.optimizer)
    assert np.array_equal(again.x, run.x)
    again.train(1)
    assert again.engine.get_epsilon(DELTA) == description.guarantee(DELTA).epsilon(DELTA)


def test_a_state_before_the_run_is_described():
    accountant, again = PabiAccountant(), PabiAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    again.describe(SMALL)
    again.load_state_dict(accountant.state_dict({}))
    assert again.run is None
    assert again.history == accountant.history


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        PRVAccountant().state_dict(),
        {"mechanism": "pabi"},
        {"mechanism": "pabi", "history": [1], "run": None},
    ],
    ids=["none", "empty", "prv", "no history", "history"],
)
def test_states_of_something_else(state):
    accountant = PabiAccountant()
    accountant.describe(SMALL)
    with pytest.raises(InvalidInput, match="state_dict: expected"):
        accountant.load_state_dict(state)
    assert accountant.run is SMALL


def test_large_deltas_are_warned_of():
    run, _ = trained()
    with pytest.warns(pabi.PrivacyWarning, match="exceeds 1/n"):
        run.engine.get_epsilon(0.5)

"""The accountant in Opacus' engine: real trainings, compared with Opacus' own accountants, and refusals."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import io
import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import pabi
from pabi import Cyclic, InvalidInput, Loss, NoisySGD, Poisson
from support.every_case import every, refused
from support.frameworks import framework

framework("opacus")
import torch
from opacus.accountants import PRVAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialGradClip, ExponentialNoise
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from pabi.integrations.opacus import PabiAccountant
from pabi.integrations.opacus.accountant import INSECURE, LINEAR, LOADER, LOOP, PRECISION
from pabi.integrations.torch import BallsInBinsSampler, collate_like
from pabi.tradeoff.guarantee import TESTING
from support.execution import Unpriced
from support.opacus_runs import ADAPTIVE, DELTA, HEAD, WITH_BIAS, described_run, opacus_run, records


def trained(epochs=2, scheduler=None, **arguments):
    """A run that was described, then trained, and its description."""
    schedules = []

    def schedule(optimizer):
        schedules.append(scheduler(optimizer))
        return schedules[0]

    run, description = described_run(epochs, scheduler=scheduler and schedule, **arguments)
    run.train(epochs, after_epoch=scheduler and schedules[0].step)
    return run, description


def asked(run):
    return run.engine.get_epsilon(DELTA)


def refused_of(run, field, words=""):
    """What the engine is asked for is refused by the name of a field."""
    message = refused(field, run.engine.get_epsilon, DELTA)
    assert re.search(words, message), message


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


DECAY = {"weight_decay": 0.5}
LAYERS = {"bias": True, "clipping": "per_layer", "max_grad_norm": [0.1, 0.2]}
COMPOSED = {
    "nothing is known": {"loss": Loss.unknown()},
    "no contraction": {},
    "momentum": {"settings": {"momentum": 0.9, **DECAY}},
    "adam": {"optimizer": torch.optim.Adam, "settings": DECAY},
    "per layer": {**LAYERS, "settings": DECAY},
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
    for noted in run.engine.accountant.history:
        object.__setattr__(noted.settings, "secure", True)
    assert INSECURE not in run.engine.accountant.guarantee(DELTA).assumptions


def decaying(optimizer):
    return lr_scheduler.ExponentialLR(optimizer, 0.7)


def test_runs_described_by_hand():
    """With size/n for a probability, which Opacus' numbers exceed a little: it counts as theirs."""
    noise = 2.0 * 0.3 / 12
    by_hand = NoisySGD(HEAD, 60, Poisson(12), 2, step_size=0.5, clip_norm=0.3, noise_std=noise)
    run, _ = trained(change=lambda _: by_hand)
    exactly = replace(by_hand, batches=Poisson(12, probability=math.ceil(2**24 / 5) / 2**24))
    assert asked(run) == exactly.guarantee(DELTA).epsilon(DELTA)
    assert asked(run) > by_hand.guarantee(DELTA).epsilon(DELTA)


# Models on the way.


def test_on_the_way_there_is_no_last_iterate():
    """What the models so far cost together never falls, and holds whatever was shown of them."""
    run, description = described_run(4, settings=DECAY)
    accountant, so_far = run.engine.accountant, []
    with pytest.raises(InvalidInput, match="steps: expected 1 to 20, as described, got 0"):
        accountant.guarantee_so_far(DELTA)

    def ask():
        guarantee = accountant.guarantee_so_far(DELTA)
        assert guarantee.method == "composition"
        assert any("every iterate may be released" in s for s in guarantee.assumptions)
        so_far.append(guarantee.epsilon(DELTA))
        if len(so_far) < 4:
            assert "the run has 20, and" in refused("steps", accountant.get_epsilon, DELTA)

    run.train(4, after_epoch=ask)
    assert all(a < b for a, b in pairwise(so_far))
    low, high = prv_bounds(run, description)
    assert accountant.get_epsilon(DELTA) < low <= so_far[-1] <= high


def test_a_model_after_fewer_steps_is_another_run():
    run, description = described_run(4, settings=DECAY)
    run.train(2)
    refused_of(run, "steps")
    shorter = replace(description, total_steps=10)
    run.engine.accountant.describe(shorter)
    assert asked(run) == shorter.guarantee(DELTA).epsilon(DELTA)


# Refusals.


def halfway(change, **arguments):
    """A training of two epochs, of which something changes after the first."""
    run, _ = described_run(**{"settings": {"weight_decay": 0.1}, **arguments})
    run.train(1)
    change(run)
    run.train(1)
    return run


def set_group(name, value):
    return lambda run: run.optimizer.param_groups[0].update({name: value})


def set_optimizer(name, value):
    return lambda run: setattr(run.optimizer, name, value)


def rated(rate):
    def change(run):
        run.optimizer.attach_step_hook(run.engine.accountant.get_optimizer_hook_fn(rate))

    return change


CHANGES = [
    ("noise_multiplier", set_optimizer("noise_multiplier", 1.99), "2, .*got 1.99"),
    ("noise_multiplier", set_optimizer("noise_multiplier", 2.0 * (1.0 - 1e-9)), ""),
    ("max_grad_norm", set_optimizer("max_grad_norm", 0.31), "0.3, .*got 0.31"),
    ("expected_batch_size", set_optimizer("expected_batch_size", 11), "12, .*got 11"),
    ("expected_batch_size", set_optimizer("loss_reduction", "sum"), "expected 12, .* got 1"),
    ("lr", set_group("lr", 0.4), "0.5, .*got 0.4 from step 6 on"),
    ("weight_decay", set_group("weight_decay", 0.0), "0.1, .*got 0"),
    ("sample_rate", rated(1 / 4), "0.2.*, as described, got 0.25"),
    ("optimizer", set_group("momentum", 0.5), "expected the update SGD"),
    ("steps", lambda run: run.train(1), "10, .*15"),
]


@every("field, change, message", CHANGES)
def test_every_field_that_deviates_is_named(field, change, message):
    accountant = halfway(change).engine.accountant
    for ask in (accountant.get_epsilon, accountant.guarantee, accountant.guarantee_so_far):
        line = refused(field, ask, DELTA)
        assert re.search(message, line), line


def test_nothing_deviates_where_nothing_changes():
    assert asked(halfway(lambda run: None)) > 0.0
    assert asked(halfway(lambda run: None, poisson_sampling=False)) > 0.0


def loaders():
    """Some of 59 records are left out, others every epoch or always the same; bins, drawn every epoch."""
    data = records(59, 3)
    for shuffle in (True, False):
        yield DataLoader(data, batch_size=12, shuffle=shuffle, drop_last=True)
    sampler = BallsInBinsSampler(59, 5, redraw="epoch")
    yield DataLoader(data, batch_sampler=sampler, collate_fn=collate_like(data[0]))


@every("loader", loaders())
def test_a_training_under_such_a_loader_is_the_one_described(monkeypatch, loader):
    """Divisors, rates and schemes: the run that is priced is the description, whatever it costs."""
    priced = []
    monkeypatch.setattr(
        NoisySGD, "guarantee", lambda self, delta: priced.append(self) or Unpriced()
    )
    run, description = trained(loader=loader, poisson_sampling=False, look=True, settings=DECAY)
    run.engine.accountant.guarantee(DELTA)
    assert priced == [description]


def test_a_seed_of_a_sampler_is_for_tests():
    data = records(60, 3)
    for seed in (None, 1):
        sampler = BallsInBinsSampler(60, 12, random_state=seed)
        loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate_like(data[0]))
        run, _ = trained(loader=loader, poisson_sampling=False, look=True)
        found = run.engine.accountant.guarantee(DELTA).assumptions
        assert (TESTING in found) is (seed is not None)


@every(
    "field, scheduler",
    [("noise_multiplier", ExponentialNoise), ("max_grad_norm", ExponentialGradClip)],
)
def test_schedulers_of_noise_and_norm_are_seen(field, scheduler):
    run, _ = described_run()
    run.train(2, after_epoch=scheduler(run.optimizer, gamma=0.9).step)
    refused_of(run, field)


def test_several_batches_a_step():
    run, _ = described_run(poisson_sampling=False)
    for rows, labels in [*run.loader, *run.loader]:
        for _ in range(2):
            run.criterion(run.module(rows).squeeze(-1), labels).backward()
        run.optimizer.step()
        run.optimizer.zero_grad()
    refused_of(run, "accumulated_iterations", "expected one batch a step")


def test_clipping_per_layer_of_a_run_that_states_more():
    layers = {"bias": True, "clipping": "per_layer", "max_grad_norm": [0.3, 0.4]}
    stated = WITH_BIAS.with_l2(0.1)
    run, _ = trained(
        **layers, settings={"weight_decay": 0.1}, change=lambda run: replace(run, loss=stated)
    )
    refused_of(run, "clipping", r"expected Loss.unknown\(\)")


def test_it_answers_for_described_runs_alone():
    assert type(create_accountant("pabi")) is PabiAccountant
    run = opacus_run()
    run.train(1)
    refused_of(run, "run", r"missing: describe\(run\)")
    aim = {"target_epsilon": 1.0, "target_delta": DELTA, "sample_rate": 0.1, "steps": 5}
    refused("run", get_noise_multiplier, **aim, accountant="pabi")


def test_a_loader_that_draws_otherwise_is_refused():
    """Described as Poisson, as the engine's own accountants would have it, and shuffled."""
    run, shuffled = described_run(poisson_sampling=False)
    accountant = PabiAccountant()
    poisson = replace(shuffled, batches=Poisson(12))
    assert "shuffles" in refused("loader", accountant.describe, poisson, loader=run.loader)
    assert accountant.run is None
    assert "expected a torch" in refused("loader", accountant.describe, shuffled, loader=[1, 2])
    accountant.describe(shuffled, loader=run.loader)
    assert accountant.run == shuffled


def test_a_loader_at_which_nobody_looked_is_warned_of():
    run, description = trained()
    accountant = run.engine.accountant
    with pytest.warns(pabi.PrivacyWarning, match="nobody compared the loader"):
        unseen = accountant.get_epsilon(DELTA)
    accountant.describe(description, loader=run.loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert accountant.get_epsilon(DELTA) == unseen
    accountant.load_state_dict(accountant.state_dict())
    with pytest.warns(pabi.PrivacyWarning, match="nobody compared the loader"):
        accountant.get_epsilon(DELTA)


SMALL = NoisySGD(HEAD, 60, Cyclic(12), 1, step_size=0.5, noise_multiplier=2.0, clip_norm=0.3)


def test_steps_without_an_optimiser():
    accountant = PabiAccountant()
    accountant.describe(replace(SMALL, batches=Poisson(12)))
    for _ in range(5):
        accountant.step(noise_multiplier=2.0, sample_rate=0.2)
    assert len(accountant) == 5
    assert "step 1 was noted without one" in refused("optimizer", accountant.get_epsilon, DELTA)
    again = PabiAccountant()
    again.load_state_dict(accountant.state_dict({}))
    assert (again.run, again.history) == (accountant.run, accountant.history)


NOT_OPACUS = [
    ("run", "a run"),
    ("noise_std", replace(SMALL, noise_multiplier=None)),
    ("clipping", replace(SMALL, clipping="residual")),
    ("clipping", replace(SMALL, clip_norm=None, noise_multiplier=None, noise_std=2.0)),
    ("cooldown_steps", replace(SMALL, cooldown_steps=1)),
    ("prox", replace(SMALL, prox=pabi.prox.ball(1.0))),
    ("diameter", replace(SMALL, diameter=1.0)),
    ("unit", replace(SMALL, unit="user")),
    ("batches", replace(SMALL, batches=Poisson(12, cap=20))),
]


@every("field, run", NOT_OPACUS)
def test_what_opacus_does_not_do(field, run):
    refused(field, PabiAccountant().describe, run)


def test_optimisers_that_cost_more_are_refused_at_their_first_step():
    run = opacus_run(**ADAPTIVE, poisson_sampling=False)
    with pytest.raises(InvalidInput, match="AdaClipDPOptimizer"):
        run.train(1)
    assert np.array_equal(run.x, run.first)


# Registry and state.


ROUND = [
    *({"settings": DECAY}, {"scheduler": decaying}, {"settings": {"momentum": 0.9}}),
    {"optimizer": torch.optim.Adam},
]


@every("arguments", ROUND)
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
    run, description = described_run(settings=DECAY)
    run.train(1)
    path = tmp_path / "checkpoint.pt"
    run.engine.save_checkpoint(path=path, module=run.module, optimizer=run.optimizer)
    again = opacus_run(settings=DECAY)
    again.engine.load_checkpoint(path=path, module=again.module, optimizer=again.optimizer)
    assert np.array_equal(again.x, run.x)
    again.train(1)
    assert asked(again) == description.guarantee(DELTA).epsilon(DELTA)


OTHERS = [None, {}, PRVAccountant().state_dict(), {"mechanism": "pabi"}]
OTHERS += [{"mechanism": "pabi", "history": [1], "run": None}]


@every("state", OTHERS)
def test_states_of_something_else(state):
    accountant = PabiAccountant()
    accountant.describe(SMALL)
    message = refused("state_dict", accountant.load_state_dict, state)
    assert message.startswith("state_dict: expected")
    assert accountant.run is SMALL


def test_large_deltas_are_warned_of():
    run, _ = trained()
    with pytest.warns(pabi.PrivacyWarning, match="exceeds 1/n"):
        run.engine.get_epsilon(0.5)

"""Descriptions of Opacus runs: each step of the optimiser is computed again from the description alone."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

import math

import numpy as np
import pytest

from pabi import BallsInBins, Cyclic, InvalidInput, Loss, Poisson, Reshuffle
from pabi.updates import SGD, Adam, Momentum, Other
from support.every_case import every, refused, refuses
from support.frameworks import framework

framework("opacus")
import torch
from opacus.optimizers import DistributedDPOptimizer, DPOptimizer
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from pabi.integrations.opacus import from_opacus
from pabi.integrations.opacus.optimizers import settings_of
from pabi.integrations.torch import BallsInBinsSampler, collate_like
from support.opacus_runs import ADAPTIVE, HEAD, WITH_BIAS, opacus_run, records


def described(run, **arguments):
    return from_opacus(run.optimizer, run.loader, **{"loss": run.loss, "epochs": 2, **arguments})


def clipped_sum(x, rows, labels, norm):
    """The sum of the clipped gradients of a binary head. Opacus adds 10⁻⁶ to norms."""
    gradients = (1.0 / (1.0 + np.exp(-rows @ x)) - labels)[:, None] * rows
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1.0, norm / (norms + 1e-6))).sum(axis=0)


def replayed(description, x, batches):
    """Where steps without noise lead, from the description."""
    state = description.rule.start(x)
    for k, (rows, labels) in enumerate(batches):
        rows = np.hstack([rows, np.ones((len(rows), len(x) - rows.shape[1]))])
        size = np.broadcast_to(description.step_size, description.steps)[k]
        total = clipped_sum(x, rows, labels, description.clip_norm)
        direction = description.loss.l2 * x + total / description.batch_size
        x, state = description.rule.step(x, direction, float(size), state, k)
    return x


def without_noise(run, scheduler=None, every="epoch", epochs=2):
    """(the batches, where they lead) of a run whose noise is taken away once it is described."""
    run.optimizer.noise_multiplier = 0.0
    batches, step = [], scheduler.step if scheduler else lambda: None
    for _ in range(epochs):
        for rows, labels in run.loader:
            batches.append((rows.numpy(), labels.numpy()))
            run.step(rows, labels)
            if every == "step":
                step()
        if every == "epoch":
            step()
    return batches, run.x


def dropping(n, shuffle=True):
    """The last 11 of 59 records are left out, and sums divided by ⌊59/4⌋ = 14."""
    return DataLoader(records(n, 3), batch_size=12, shuffle=shuffle, drop_last=True)


STEPS = {
    "sgd": {},
    "left out": {"loader": dropping(59), "settings": {"weight_decay": 0.3, "momentum": 0.5}},
    "never used": {"loader": dropping(59, shuffle=False), "settings": {"weight_decay": 0.3}},
    "weight decay": {"settings": {"weight_decay": 0.3}},
    "momentum": {"settings": {"momentum": 0.8, "weight_decay": 0.3}},
    "nesterov": {"settings": {"momentum": 0.8, "nesterov": True}},
    "adam": {
        "optimizer": torch.optim.Adam,
        "settings": {"lr": 0.1, "betas": (0.7, 0.9), "weight_decay": 0.2},
    },
    "bias": {"bias": True, "settings": {"weight_decay": 0.3}},
    "sum": {"loss_reduction": "sum", "settings": {"lr": 0.01, "weight_decay": 3.0}},
    "another divisor": {"n": 61, "batch": 12, "settings": {"weight_decay": 0.3, "momentum": 0.5}},
    "ghost": {"grad_sample_mode": "ghost", "settings": {"weight_decay": 0.3}},
}


@every("poisson", [True, False])
@pytest.mark.parametrize("name", STEPS)
def test_the_description_takes_the_steps_of_the_optimiser(name, poisson):
    run = opacus_run(**STEPS[name], poisson_sampling=poisson)
    description = described(run)
    batches, x = without_noise(run)
    assert len(batches) == description.steps
    np.testing.assert_allclose(replayed(description, run.first, batches), x, rtol=0, atol=1e-12)
    assert np.linalg.norm(x - run.first) > 0.01


@every("poisson", [True, False])
@every("n, reduction, divisor", [(60, "mean", 12), (61, "mean", 10), (60, "sum", 1)])
def test_noise_is_that_of_the_description(n, reduction, divisor, poisson):
    """Of 20 000 coordinates whose gradients are zero, so that a step is the noise."""
    d = 20_000
    rows = torch.zeros(n, d, dtype=torch.float64)
    data = torch.utils.data.TensorDataset(rows, torch.zeros(n, dtype=torch.float64))
    loader = DataLoader(data, batch_size=12, shuffle=True)
    run = opacus_run(d=d, loader=loader, loss_reduction=reduction, poisson_sampling=poisson)
    description = described(run)
    rows, labels = next(iter(run.loader))
    run.step(rows, labels)
    std = np.std(run.x - run.first) / description.step_size
    assert std == pytest.approx(description.gradient_noise_std, rel=5.0 / math.sqrt(2.0 * d))
    assert description.step_size * description.gradient_noise_std == pytest.approx(
        0.5 * 2.0 * 0.3 / divisor
    )


SCHEDULES = [
    lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    lambda o: lr_scheduler.CosineAnnealingLR(o, 40, eta_min=0.01),
    lambda o: lr_scheduler.LambdaLR(o, lambda k: 1.0 / (1.0 + k)),
    lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
]


@every("every", ["epoch", "step"])
@every("make", SCHEDULES)
def test_schedules(make, every):
    """Of the wrapped optimiser and of its wrapper; neither changes before training."""
    run = opacus_run(settings={"weight_decay": 0.3})
    scheduler = make(run.optimizer.original_optimizer)
    before = run.optimizer.param_groups[0]["lr"]
    description = described(run, epochs=3, scheduler=scheduler, scheduler_every=every)
    assert (run.optimizer.param_groups[0]["lr"], scheduler.last_epoch) == (before, 0)
    rates = []
    run.optimizer.attach_step_hook(lambda o: rates.append(o.param_groups[0]["lr"]))
    batches, x = without_noise(run, scheduler, every, epochs=3)
    assert np.array_equal(np.broadcast_to(description.step_size, description.steps), rates)
    assert len(set(rates)) > 1
    np.testing.assert_allclose(replayed(description, run.first, batches), x, rtol=0, atol=1e-12)


def test_a_schedule_that_moves_more_than_the_rate():
    run = opacus_run(settings={"momentum": 0.9})
    scheduler = lr_scheduler.OneCycleLR(run.optimizer, max_lr=0.5, total_steps=10)
    description = described(run, scheduler=scheduler, scheduler_every="step")
    assert description.update == Other()  # momentum goes up and down as well


@every("poisson", [True, False])
def test_a_bias_that_the_norm_does_not_count_is_refused(poisson):
    """Rows of norm R and a constant 1 have norm √(R² + 1): at most 1 is never enough, more may be."""
    run = opacus_run(bias=True, poisson_sampling=poisson)
    several = opacus_run(bias=True, outputs=3, poisson_sampling=poisson)
    with pytest.raises(InvalidInput, match="feature_norm: expected more than 1, since a bias"):
        described(several, loss=Loss.softmax(0.5))
    for loss in (HEAD, Loss.squared(1.0, 1.0)):
        with pytest.raises(InvalidInput, match="feature_norm: expected more than 1, since a bias"):
            described(run, loss=loss)
    assert described(run, loss=WITH_BIAS).loss == WITH_BIAS
    assert described(run, loss=Loss.unknown()).loss == Loss.unknown()
    assert described(opacus_run(poisson_sampling=poisson)).loss == HEAD


def two_groups(parameters, lr):
    weight, bias = parameters
    return torch.optim.SGD([{"params": [weight]}, {"params": [bias], "lr": 2 * lr}], lr=lr)


ADAM, OTHER = torch.optim.Adam, Other()
UPDATES = [
    ({"settings": {"momentum": 0.9}}, Momentum(0.9)),
    ({"settings": {"momentum": 0.9, "nesterov": True}}, Momentum(0.9, nesterov=True)),
    ({"settings": {"momentum": 0.9, "dampening": 0.5}}, OTHER),
    ({"settings": {"maximize": True}}, OTHER),
    ({"settings": {"foreach": False}}, SGD()),
    ({"optimizer": ADAM}, Adam()),
    *(({"optimizer": ADAM, "settings": odd}, OTHER) for odd in ({"amsgrad": True}, {"eps": 0.0})),
    ({"optimizer": ADAM, "n": 61, "poisson_sampling": False}, OTHER),
    *(({"optimizer": other}, OTHER) for other in (torch.optim.AdamW, torch.optim.RMSprop)),
    ({"optimizer": two_groups, "bias": True}, OTHER),
]


@every("arguments, update", UPDATES)
def test_updates(arguments, update):
    description = described(opacus_run(**arguments))
    assert description.rule == update
    if not update.plain:
        assert description.guarantee(1e-3).method in ("composition", "secret steps")


@every("shuffle, n, batches", [(True, 59, Reshuffle(12, 11)), (False, 48, Cyclic(12))])
def test_records_that_are_left_out(shuffle, n, batches):
    """The run has those that are left out for an epoch, and not those that never come. Opacus counts both."""
    run = opacus_run(loader=dropping(59, shuffle), poisson_sampling=False)
    description = described(run)
    assert (description.n, description.batches, description.steps) == (n, batches, 8)
    assert run.optimizer.expected_batch_size == 14
    assert description.step_size == pytest.approx(0.5 * 12 / 14, rel=1e-15)
    assert description.step_size * description.gradient_noise_std == pytest.approx(
        0.5 * 2.0 * 0.3 / 14, rel=1e-14
    )


@every("redraw", ["once", "epoch"])
def test_bins_some_of_which_are_empty(redraw):
    """A loop of Opacus goes through them, and steps by noise alone where there is no record."""
    data = records(12, 3)
    sampler = BallsInBinsSampler(12, 1, redraw=redraw)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate_like(data[0]))
    run = opacus_run(loader=loader, poisson_sampling=False)
    description = described(run, epochs=4)
    assert (description.n, description.batches) == (12, BallsInBins(1, redraw=redraw))
    batches, x = without_noise(run, epochs=4)
    assert len(batches) == description.steps == 48
    sizes = [len(rows) for rows, _ in batches]
    assert min(sizes) == 0
    assert (sizes == sizes[:12] * 4) is (redraw == "once")
    np.testing.assert_allclose(replayed(description, run.first, batches), x, rtol=0, atol=1e-12)


# Numbers and schemes.


def test_shuffled_batches_of_another_divisor():
    """60 000/235 is 255 to Opacus: the step size makes up for what the sizes are off by."""
    loader = DataLoader(records(600, 2), batch_size=7, shuffle=True)
    description = described(
        opacus_run(loader=loader, poisson_sampling=False, settings={"weight_decay": 0.1})
    )
    assert description.batches == Reshuffle(7)
    divisor = int(600 * (1 / 86))
    assert divisor == 6
    assert description.step_size == pytest.approx(0.5 * 7 / divisor, rel=1e-15)
    assert description.step_size * description.loss.l2 == pytest.approx(0.5 * 0.1, rel=1e-15)
    assert description.loss.l2 <= 0.1 * divisor / 7


def test_clipping_per_layer_is_composed_with_the_norm_of_the_norms():
    run = opacus_run(bias=True, clipping="per_layer", max_grad_norm=[0.3, 0.4])
    description = described(run)
    assert description.clip_norm == pytest.approx(0.5, rel=1e-7)
    assert description.loss == Loss.unknown(gradient_bound=1.5)
    flat = described(opacus_run(bias=True, max_grad_norm=description.clip_norm))
    assert description.guarantee(1e-3).method == "composition"
    assert description.guarantee(1e-3).epsilon(1e-3) == pytest.approx(
        flat.guarantee(1e-3).composition.epsilon(1e-3), rel=1e-12
    )


@every(
    "change", [{"max_grad_norm": 0.05}, {"max_grad_norms": [3.0, 4.0]}, {"max_grad_norms": [0.3]}]
)
def test_layers_are_clipped_to_the_norms_that_the_noise_is_made_for(change):
    run = opacus_run(bias=True, clipping="per_layer", max_grad_norm=[0.3, 0.4])
    vars(run.optimizer).update(change)
    assert "norm of the layers'" in refused("max_grad_norm", described, run)


def test_opacus_scales_gradients_down_that_are_a_little_below_the_norm():
    """Which may matter to a loss of several predictors and does not to one of a single one."""
    norm = math.sqrt(2.0)
    for above, kind in ((-1e-9, "softmax"), (1e-9, "unknown"), (2e-6, "softmax")):
        run = opacus_run(max_grad_norm=norm + above, outputs=3)
        assert described(run, loss=Loss.softmax(1.0)).loss.kind == kind
    assert described(opacus_run(max_grad_norm=1.0)).loss.kind == "logistic"
    assert described(opacus_run(grad_sample_mode="ghost")).loss.kind == "unknown"


def test_options():
    run = opacus_run(settings={"weight_decay": 0.5})
    found = described(run)
    assert (found.adjacency, found.batches.size, found.loss) == ("zero_out", 12, HEAD.with_l2(0.5))
    assert isinstance(found.batches, Poisson)
    other = described(run, adjacency="replace_one", release="path", loss=HEAD.with_l2(0.5))
    assert (other.adjacency, other.release) == ("replace_one", "path")
    with pytest.raises(InvalidInput, match=r"loss: expected an l2 of 0, or .* = 0.5, .* got 0.1"):
        described(run, loss=HEAD.with_l2(0.1))


# Refusals.


def test_arguments_are_refused_by_name():
    run = opacus_run()
    table = {"epochs": [0, 1.5], "loss": ["logistic"], "adjacency": ["add_or_remove"]}
    table |= {"scheduler": ["cosine"], "scheduler_every": ["batch"]}
    refuses(lambda **changes: described(run, **changes), table)
    refused("noise_multiplier", described, opacus_run(noise_multiplier=0.0))
    refused("loader", from_opacus, run.optimizer, [1], loss=HEAD, epochs=1)


Own = type("Own", (DPOptimizer,), {})
OTHERS = [
    (lambda: object.__new__(DistributedDPOptimizer), "one worker's share"),
    (lambda: object.__new__(Own), "got a Own"),
    (lambda: opacus_run(**ADAPTIVE).optimizer, "AdaClipDPOptimizer: its clipping norm follows"),
    (lambda: torch.optim.SGD([torch.zeros(1)], lr=0.1), "got a SGD"),
]


@every("make, reason", OTHERS)
def test_other_optimisers(make, reason):
    assert reason in refused("optimizer", settings_of, make())


def test_schedulers_that_cannot_be_described():
    run, other = opacus_run(), opacus_run()
    plateau = lr_scheduler.ReduceLROnPlateau(run.optimizer)
    with pytest.raises(InvalidInput, match="follows a metric"):
        described(run, scheduler=plateau)
    late = lr_scheduler.StepLR(run.optimizer, 1)
    with pytest.raises(InvalidInput, match="not one of the optimiser"):
        described(other, scheduler=late)
    run.train(1)
    late.step()
    with pytest.raises(InvalidInput, match="before its first step, got one after 1"):
        described(run, scheduler=late)

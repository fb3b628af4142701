"""The losses of PyTorch that a run may be checked against, and what of them is refused, by name."""

from __future__ import annotations

import pytest

import pabi
from support.every_case import every, refused
from support.frameworks import framework

torch = framework("torch")
from pabi.integrations.torch.losses import checked_loss_of_records, refuse_another  # noqa: E402

nn = torch.nn
SOFTMAX, LOGISTIC = pabi.Loss.softmax(1.0), pabi.Loss.logistic(1.0)
SQUARED, HUBER = pabi.Loss.squared(1.0, 0.5), pabi.Loss.huber(1.0, 0.5)
POISSON = pabi.Loss.poisson(1.0, 2.0, 3.0)
VECTORS = pabi.Loss.vector_huber(1.0, 0.5)
EACH = pabi.Loss.one_vs_rest(1.0, classes=3)


@every(
    "loss, stated",
    [
        (None, SOFTMAX),
        (nn.CrossEntropyLoss(), SOFTMAX),
        (nn.CrossEntropyLoss(), pabi.Loss.softmax(1.0, residual_cap=0.5)),
        (nn.BCEWithLogitsLoss(), LOGISTIC),
        (nn.MSELoss(), SQUARED),
        (nn.HuberLoss(delta=0.5), HUBER),
        (nn.HuberLoss(delta=0.5), SQUARED),
        (nn.PoissonNLLLoss(), POISSON),
    ],
)
def test_losses_that_are_described(loss, stated):
    refuse_another(loss, stated)


@every(
    "loss, stated, field",
    [
        (nn.CrossEntropyLoss(), LOGISTIC, "loss"),
        (nn.BCEWithLogitsLoss(), SOFTMAX, "loss"),
        (nn.BCEWithLogitsLoss(), EACH, "loss"),  # a mean over classes, where the run has a sum
        (nn.MSELoss(), HUBER, "loss"),
        (nn.MSELoss(), VECTORS, "loss"),
        (nn.HuberLoss(delta=0.4), HUBER, "loss"),
        (nn.HuberLoss(delta=0.5), VECTORS, "loss"),  # coordinate by coordinate
        (nn.SmoothL1Loss(), HUBER, "loss"),
        (nn.functional.cross_entropy, SOFTMAX, "loss"),
        (type("CrossEntropyLoss", (nn.CrossEntropyLoss,), {})(), SOFTMAX, "loss"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), SOFTMAX, "label_smoothing"),
        (nn.CrossEntropyLoss(weight=torch.ones(3)), SOFTMAX, "weight"),
        (nn.CrossEntropyLoss(ignore_index=0), SOFTMAX, "ignore_index"),
        (nn.CrossEntropyLoss(reduction="sum"), SOFTMAX, "reduction"),
        (nn.CrossEntropyLoss(reduction="none"), SOFTMAX, "reduction"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(1)), LOGISTIC, "pos_weight"),
        (nn.BCEWithLogitsLoss(weight=torch.ones(1)), LOGISTIC, "weight"),
        (nn.MSELoss(reduction="sum"), SQUARED, "reduction"),
        (nn.PoissonNLLLoss(log_input=False), POISSON, "log_input"),
        (nn.PoissonNLLLoss(full=True), POISSON, "full"),
    ],
)
def test_losses_and_options_that_are_not(loss, stated, field):
    refused(field, refuse_another, loss, stated)


def test_a_loss_of_single_records_may_be_anything_that_a_mean_of_one_keeps():
    weights = {"weight": torch.ones(3)}
    summed = nn.CrossEntropyLoss(**weights, reduction="sum")
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.functional.cross_entropy, summed):
        assert checked_loss_of_records(loss) is loss
    unreduced = nn.CrossEntropyLoss(reduction="none")
    for loss in (nn.CrossEntropyLoss(**weights), unreduced, None, "cross entropy"):
        with pytest.raises(pabi.InvalidInput, match="loss|reduction"):
            checked_loss_of_records(loss)

"""Trains all parameters of a module, by the clipped gradients of every record."""

from __future__ import annotations

import copy
from typing import Any

from pabi.integrations.torch.library import device_of
from pabi.integrations.torch.per_record import ModuleGradients
from pabi.integrations.torch.tasks import BY_RECORD, COMPOSED, FROZEN, ModuleTask, Result
from pabi.learn.sentences import PREPROCESSING


def train_module(
    module: Any, loss: Any, task: ModuleTask, chunk: int | None, device: Any
) -> Result:
    """Trains `module` in place. `loss`: of one record. `chunk`: of how many records in a call."""
    home, proven = device_of(module), task.run.guarantee(task.delta)
    working = module.to(device)
    if proven.method != COMPOSED:
        # Rounding must not carry apart what the proof says stays together: doubles are fine enough.
        working = copy.deepcopy(working).double()
    gradients = ModuleGradients(working, loss, task.pairs, chunk=chunk)
    gradients.refuse_unfit(anywhere=task.run.order.fresh)
    sentences = (PREPROCESSING, FROZEN, BY_RECORD)
    with task.reserved(sentences):
        result = task.execute(gradients, gradients.start)
    gradients.set_parameters(result.x)
    for name, parameter in working.named_parameters():
        module.get_parameter(name).data.copy_(parameter.data)
    module.to(home)
    return Result(result.x, result.guarantee.assuming(*sentences))

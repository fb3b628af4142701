"""Trains all parameters of a module, by the clipped gradients of every record."""

from __future__ import annotations

from typing import Any

from pabi.integrations.torch.per_record import ModuleGradients
from pabi.integrations.torch.tasks import BY_RECORD, COMPOSED, FROZEN, ModuleTask, Result
from pabi.integrations.torch.trials import Unchanged
from pabi.learn.sentences import PREPROCESSING


def train_module(
    module: Any, fresh: Any, *, loss: Any, task: ModuleTask, chunk: int | None, device: Any
) -> Result:
    """Trains `module`, which the records go through, and puts its parameters into `fresh`, which they do not.

    `loss`: of one record. `chunk`: of how many records in a call.
    """
    proven = task.run.guarantee(task.delta)
    working = module.to(device)
    if proven.method != COMPOSED:
        # Rounding must not carry apart what the proof says stays together: doubles are fine enough.
        working = working.double()
    gradients = ModuleGradients(working, loss, task.pairs, chunk=chunk)
    gradients.refuse_unfit(anywhere=task.run.order.fresh)
    sentences = (PREPROCESSING, FROZEN, BY_RECORD)
    before = Unchanged(working)
    with task.reserved(sentences):
        result = task.execute(gradients, gradients.start)
        before.refuse_changed("train" if working.training else "eval")
    gradients.set_parameters(fresh, result.x)
    return Result(result.x, result.guarantee.assuming(*sentences))

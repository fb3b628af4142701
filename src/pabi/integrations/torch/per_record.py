"""The gradients of any module, record by record, in calls of one shape.

`torch.func` computes the gradient of every record by itself. Other records in the same call can still change
how numbers are rounded: kernels are chosen by shape. So every call has the same number of rows, the last one
filled up with zeros, and a trial on made-up rows has to give the same bits wherever a row stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.engine import Trained
from pabi.execute.hiding import unshown
from pabi.integrations.torch.datasets import (
    BY_RECORD,
    COMPOSED,
    FROZEN,
    ROWS,
    ModuleTask,
    Pairs,
    Unchanged,
    made_up,
    refuse_dependent,
    tried,
)
from pabi.integrations.torch.library import array_of, device_of, torch
from pabi.learn.documentation import PREPROCESSING
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

_AT_ONCE, _HELD = 64, 1 << 23  # records of a call; numbers of their gradients


class ModuleGradients:
    """(x, rows) ↦ (len(rows), p): gradients in the trainable parameters, one after another, at x (p,).

    A record whose gradient is not finite has the gradient 0: that is decided by itself, and seen by nobody.
    """

    def __init__(self, module: Any, loss: Any, pairs: Pairs, *, chunk: int | None) -> None:
        if any(isinstance(layer, torch().jit.ScriptModule) for layer in module.modules()):
            raise InvalidInput(
                "module", "expected no torch.jit.ScriptModule, got one: pass what it was made of"
            )
        self._module, self._loss, self._pairs = module, loss, pairs
        self._names = [name for name, p in module.named_parameters() if p.requires_grad]
        if not self._names:
            raise InvalidInput("module", "expected parameters with requires_grad, got none")
        parameters = [module.get_parameter(name) for name in self._names]
        self._shapes = [parameter.shape for parameter in parameters]
        self._dtype, self._device = parameters[0].dtype, device_of(module)
        self.start = np.concatenate([array_of(p).astype(np.float64).ravel() for p in parameters])
        self.chunk = chunk or max(1, min(_AT_ONCE, _HELD // self.start.size, len(pairs)))
        self._gradients = _vectorised(module, loss)

    def __call__(self, x: Array, rows: NDArray[np.intp]) -> Array:
        """The gradients of these rows."""
        parts = [self._of(x, rows[part]) for part in _parts(len(rows), self.chunk)]
        return np.concatenate(parts) if parts else np.zeros((0, len(x)))

    def set_parameters(self, module: Any, x: Array) -> None:
        """Puts the parameters x into a module of the same architecture, in its own precision."""
        with torch().no_grad():
            for name, value in self._parameters(x).items():
                module.get_parameter(name).copy_(value)

    def refuse_unfit(self, *, anywhere: bool) -> None:
        """Raises InvalidInput unless a record's gradient depends on that record alone, to the last bit.

        `anywhere`: wherever it stands, too.
        """
        inputs, targets = self._pairs.some([0])
        mode = "train" if self._module.training else "eval"
        together = max(ROWS, self.chunk)
        refuse_dependent(self._module, lambda rows: self._outputs(rows), inputs, mode, together)
        rows, answers = made_up(inputs, self.chunk, 2), made_up(targets, self.chunk, 2)
        others = made_up(inputs, self.chunk, 3)
        others[0] = rows[0]
        first = tried(lambda x: self._flat(self.start, x, answers), rows)
        before = Unchanged(self._module)
        beside = tried(lambda x: self._flat(self.start, x, answers), others)
        before.refuse_changed(mode)
        if not np.array_equal(first[0], beside[0], equal_nan=True):
            raise InvalidInput("module", "a record's gradient depends on the other records")
        if not anywhere or self._draws(rows, answers):
            return
        turn = torch().arange(self.chunk).roll(1)
        turned = tried(lambda x: self._flat(self.start, x, answers[turn]), rows[turn])
        if not np.array_equal(turned, first[turn.numpy()], equal_nan=True):
            raise InvalidInput(
                "chunk",
                f"expected 1 for this module and batches that are drawn anew, got {self.chunk}: the last "
                "bits of a gradient depend on the record's place",
            )

    def _draws(self, rows: Any, answers: Any) -> bool:
        """Whether the module draws, as dropout does: places are then random already."""
        one, other = (self._flat(self.start, rows, answers) for _ in range(2))
        return not np.array_equal(one, other, equal_nan=True)

    def _outputs(self, rows: Any) -> Any:
        with torch().no_grad():
            return self._module(self._input(rows))

    def _of(self, x: Array, rows: NDArray[np.intp]) -> Array:
        inputs, targets = (self._filled(part) for part in self._pairs.some(rows.tolist()))
        gradients = unshown("loss", lambda: self._flat(x, inputs, targets))[: len(rows)]
        gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
        return gradients

    def _flat(self, x: Array, inputs: Any, targets: Any) -> Array:
        values = self._gradients(self._parameters(x), self._input(inputs), self._input(targets))
        flat = [array_of(values[name]).reshape(len(inputs), -1) for name in self._names]
        return np.concatenate(flat, axis=1).astype(np.float64)

    def _filled(self, rows: Any) -> Any:
        missing = self.chunk - len(rows)
        return torch().cat([rows, rows.new_zeros((missing, *rows.shape[1:]))]) if missing else rows

    def _input(self, rows: Any) -> Any:
        rows = rows.to(self._device)
        return rows.to(self._dtype) if rows.is_floating_point() else rows

    def _parameters(self, x: Array) -> dict[str, Any]:
        whole = torch().as_tensor(np.array(x)).to(self._device, self._dtype)
        sizes = [shape.numel() for shape in self._shapes]
        parts = whole.split(sizes)
        return {
            name: part.reshape(shape)
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True)
        }


def _vectorised(module: Any, loss: Any) -> Any:
    """(parameters, inputs, targets) ↦ by name, the gradient of the loss at every row."""
    func = torch().func

    def value(parameters: dict[str, Any], row: Any, target: Any) -> Any:
        output = func.functional_call(module, parameters, (row.unsqueeze(0),))
        return loss(output, target.unsqueeze(0)).reshape(())

    # Each record draws for itself, as in a batch.
    return func.vmap(func.grad(value), in_dims=(None, 0, 0), randomness="different")


def _parts(count: int, size: int) -> Iterator[slice]:
    for first in range(0, count, size):
        yield slice(first, first + size)


# Trains all parameters of a module, by the clipped gradients of every record.


def train_module(
    module: Any, fresh: Any, *, loss: Any, task: ModuleTask, chunk: int | None, device: Any
) -> Trained:
    """Trains `module`, which the records go through, and puts its parameters into `fresh`, which they do not.

    `loss`: of one record. `chunk`: of how many records in a call.
    """
    working = module.to(device)
    if task.proven.method != COMPOSED:
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
    return replace(result, guarantee=result.guarantee.assuming(*sentences))

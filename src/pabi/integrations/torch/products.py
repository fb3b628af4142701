"""The two products of a linear model on a device: in doubles, the rest of a step where it always is.

Residuals, clipping, noise and the iterate stay with numpy, so that they are the very same. What is bounded of
sums (`pabi.execute.sums`) holds of products in any order of additions, if each operation is rounded as IEEE
754 says: single precision with tensor cores (TF32) is not, and is not used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from pabi.describe.runs import NoisySGD
from pabi.execute.dense_blocks import Rows, part_of, rows_in
from pabi.execute.records import MOST_ROWS, Records, RowBlock
from pabi.integrations.torch.library import torch
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

PRODUCTS = (
    "the device multiplies and adds doubles as IEEE 754 says, in any order, and equal inputs of equal shape "
    "give equal results"
)
_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"  # doubles put together of shorter numbers


def multiplies(device: Any, run: NoisySGD) -> bool:
    """Whether the products of `run` are computed on the device.

    Where batches are drawn anew at every step a record's predictor must not depend on its place, which
    libraries of a device do not promise; and coordinates are clipped record by record.
    """
    return device.type == "cuda" and not run.order.fresh and run.clipping != "coordinates"


def refuse_emulation() -> None:
    """Raises InvalidInput where doubles are told to be put together of shorter numbers."""
    if os.environ.get(_EMULATION, "0") != "0":
        raise InvalidInput(_EMULATION, "expected it unset: emulated doubles round otherwise")


class DeviceRecords(Records):
    """Records whose rows are multiplied on a device; they are measured on the host, like all others."""

    def __init__(self, X: Any, feature_norm: float, scaling: float | None, device: Any) -> None:
        self._take(np.array(X), feature_norm, scaling, None, own=True)
        self._device = device
        self._table = torch().as_tensor(self._X).to(device)

    def blocks(self, rows: Rows) -> Iterator[RowBlock]:
        """The requested rows in order, `MOST_ROWS` at a time; their features are on the device."""
        for first in range(0, rows_in(rows), MOST_ROWS):
            part = slice(first, min(first + MOST_ROWS, rows_in(rows)))
            chosen = part_of(rows, part)
            at = chosen if isinstance(chosen, slice) else torch().as_tensor(chosen).to(self._device)
            features = self._table[at].double()
            yield RowBlock(part, features, *self._bounds_of(chosen, features))

    def predictor(self, block: RowBlock, theta: Array, anywhere: bool = False) -> Array:
        """(m,) or (m, K): x·θ of the block's rows."""
        assert not anywhere  # `multiplies`
        weights = self._on_device(theta[: self.d].T)
        # Column by column in memory: derivatives of a loss are fastest in that order.
        product: Array = (weights @ block.features.T).cpu().numpy().T
        if block.scale is not None:
            product *= block.scale if product.ndim == 1 else block.scale[:, None]
        if self.intercept_scaling is not None:
            product += self.intercept_scaling * theta[-1]
        return product

    def add_weighted(self, block: RowBlock, weight: Array, total: Array) -> None:
        """Adds Σ weight_i·x_i over the block's rows to `total`."""
        if self.intercept_scaling is not None:
            total[-1] += self.intercept_scaling * weight.sum(axis=0)
        if block.scale is not None:
            weight = weight * (block.scale if weight.ndim == 1 else block.scale[:, None])
        product = self._on_device(weight.T) @ block.features
        total[: self.d] += product.cpu().numpy().T

    def _on_device(self, array: Array) -> Any:
        return torch().as_tensor(np.ascontiguousarray(array)).to(self._device)

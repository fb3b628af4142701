"""Tries a module on made-up rows: whether what it makes of a row depends on other rows, or on earlier ones.

A layer counts by what it does, whatever its class is called. No record is looked at, so that what is refused
says nothing about any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pabi.integrations.torch.datasets import made_up
from pabi.integrations.torch.library import same_draws, torch
from pabi.numbers.errors import InvalidInput

ROWS = 4
_TOLERANCE = 1e-5  # relative to the largest number of an output: roundings may depend on other rows


def refuse_dependent(module: Any, through: Callable[[Any], Any], like: Any, mode: str) -> None:
    """Raises InvalidInput where what `through` makes of a row depends on other rows, or changes a buffer.

    `like`: inputs, of which only shape and type are looked at. `mode`: the module's, for the message.
    """
    refuse_batch_statistics(module)
    rows, others = made_up(like, ROWS, 0), made_up(like, ROWS, 1)
    others[0] = rows[0]
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    alike = [tried(through, each) for each in (rows, others)]
    for name, buffer in module.named_buffers():
        if not torch().equal(buffer, before[name]):
            raise InvalidInput(
                name,
                f"a buffer that learns from batches in {mode} mode, which nothing accounts for",
            )
    if alike[0].shape[:1] != (ROWS,):
        raise InvalidInput("module", f"expected one output a record, got {_shape(alike[0])}")
    if not _close(alike[0][0], alike[1][0]):
        raise InvalidInput(
            "module",
            f"what it makes of a row depends on the other rows in {mode} mode: a record would count more "
            "than once",
        )


def refuse_random(through: Callable[[Any], Any], like: Any) -> None:
    """Raises InvalidInput where `through` makes different things of the same rows."""
    rows = made_up(like, ROWS, 0)
    if not _close(through(rows), through(rows)):
        raise InvalidInput(
            "module", "expected features without chance in eval mode, got others of the same rows"
        )


def refuse_batch_statistics(module: Any) -> None:
    """Raises InvalidInput for layers that normalise by the batch, naming the first."""
    batch_norm = torch().nn.modules.batchnorm._BatchNorm
    for name, layer in module.named_modules():
        by_batch = isinstance(layer, batch_norm)
        if by_batch and (layer.training or layer.running_mean is None):
            raise InvalidInput(
                name or "module",
                f"{type(layer).__name__} computes with the other rows of a batch: use GroupNorm or "
                "LayerNorm, or put it into eval mode with statistics of public data",
            )


def tried(through: Callable[[Any], Any], rows: Any) -> Any:
    """What it makes of made-up rows, with the same draws every time."""
    try:
        with same_draws():
            return through(rows)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            "module", f"it fails on made-up rows {_shape(rows)}, {rows.dtype}: {error}"
        ) from error


def _close(one: Any, other: Any) -> bool:
    one, other = one.detach().double(), other.detach().double()
    size = float(one.abs().nan_to_num(0.0).max()) if one.numel() else 0.0
    return bool(torch().allclose(one, other, rtol=0.0, atol=_TOLERANCE * size, equal_nan=True))


def _shape(tensor: Any) -> str:
    return f"of shape {tuple(tensor.shape)}"

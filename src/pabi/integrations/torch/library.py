"""PyTorch itself, loaded when it is first used: what all modules ask of it, losses, and products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.blocks import Rows, part_of, rows_in
from pabi.execute.records import MOST_ROWS, Records, RowBlock
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.rounding import Array


def torch() -> Any:
    """The package `torch`. Raises InvalidInput that says how to install it where it is missing."""
    return extra("torch", "torch")


def checked_module(module: Any) -> Any:
    """`module` if it is an `nn.Module` of real parameters. Raises InvalidInput of anything else."""
    nn = torch().nn
    validate.instance("module", module, nn.Module, "a torch.nn.Module")
    require(
        not isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel),
        "module",
        f"expected what is in the {type(module).__name__}, its .module: one process computes all of a step",
    )
    for name, parameter in module.named_parameters():
        require(
            not parameter.is_complex(),
            "module",
            f"expected real parameters, got {name!r} of complex ones",
        )
        require(
            not parameter.is_meta,
            "module",
            f"expected parameters that have values, got {name!r} on the meta device",
        )
    return module


def device_of(module: Any) -> Any:
    """Where the parameters of a module are; the CPU where it has none."""
    first = next(iter(module.parameters()), None)
    return torch().device("cpu") if first is None else first.device


def device_named(device: Any, module: Any) -> Any:
    """The device of this name, or that of the module for None. Raises InvalidInput for one not here."""
    if device is None:
        return device_of(module)
    try:
        place = torch().device(device)
        torch().zeros(1, device=place).tolist()
    except (RuntimeError, TypeError, AssertionError):
        expected = "expected a device of torch that is here and holds values"
        raise InvalidInput("device", f"{expected}, got {str(device)!r}") from None
    return place


def refuse_other_ranks() -> None:
    """Raises InvalidInput in all processes of a group but the first: each would release a model."""
    group = torch().distributed
    if group.is_available() and group.is_initialized() and (rank := group.get_rank()) != 0:
        raise InvalidInput(
            "rank",
            f"expected 0, got {rank}: every process that trains draws noise of its own and releases a model",
        )


def array_of(tensor: Any) -> Any:
    """A tensor as a numpy array; half precision, which numpy lacks in part, becomes single."""
    pytorch = torch()
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point() and tensor.dtype not in (pytorch.float32, pytorch.float64):
        tensor = tensor.float()
    return tensor.numpy()


@contextmanager
def same_draws() -> Iterator[None]:
    """Draws of PyTorch within are the same every time, and its own generators stay as they are."""
    pytorch = torch()
    with pytorch.random.fork_rng(devices=range(pytorch.cuda.device_count())):
        pytorch.manual_seed(0)
        yield


# Which of PyTorch's losses is which of pabi's: what `loss=` says has to be what the run describes.


@dataclass(frozen=True)
class _Twin:
    """A loss of PyTorch: the kinds that it stands for, and what must be as by default."""

    kinds: tuple[str, ...]
    defaults: dict[str, Any]
    same: Callable[[Any, dict[str, Any]], bool] = lambda loss, parameters: True


def _of_threshold(loss: Any, parameters: dict[str, Any]) -> bool:
    return float(loss.delta) == parameters.get("threshold", parameters.get("residual_bound"))


# `reduction` aside. Of several outputs PyTorch takes the mean in all but the first, which is another loss.
_TWINS = {
    "CrossEntropyLoss": _Twin(
        ("softmax",), {"weight": None, "ignore_index": -100, "label_smoothing": 0.0}
    ),
    "BCEWithLogitsLoss": _Twin(("logistic",), {"weight": None, "pos_weight": None}),
    "MSELoss": _Twin(("squared",), {}),
    "HuberLoss": _Twin(("huber", "squared"), {}, _of_threshold),
    "PoissonNLLLoss": _Twin(("poisson",), {"log_input": True, "full": False}),
}


def refuse_another(loss: Any, stated: Loss) -> None:
    """Raises InvalidInput unless the loss of PyTorch is the one that the run states; None says nothing."""
    if loss is None:
        return
    name = type(loss).__name__
    twin: Any = _TWINS.get(name)
    require(
        twin is not None and type(loss) is getattr(torch().nn, name),
        "loss",
        f"expected {', '.join(_TWINS)} or None, got a {name}",
    )
    require(
        stated.kind in twin.kinds,
        "loss",
        f"expected a run of the loss {' or '.join(twin.kinds)} for {name}, got {stated.kind}",
    )
    refuse_options(loss)
    if not twin.same(loss, dict(stated.parameters)):
        listed = ", ".join(f"{key} = {value!r}" for key, value in stated.parameters)
        raise InvalidInput("loss", f"expected the {name} of {listed}, got {loss!r}")


def refuse_options(loss: Any) -> None:
    """Raises InvalidInput for an option that is not as by default, naming it."""
    twin = _TWINS[type(loss).__name__]
    for option, default in (twin.defaults | {"reduction": "mean"}).items():
        value = getattr(loss, option)
        if value is not default and (default is None or value != default):
            shown = "a tensor" if isinstance(value, torch().Tensor) else repr(value)
            raise InvalidInput(option, f"expected {default!r}, which is described, got {shown}")


def checked_loss_of_records(loss: Any) -> Any:
    """A loss that may be taken of one record at a time: (output (1, …), target (1, …)) ↦ one number.

    Raises InvalidInput where it would not be what it is of a batch.
    """
    must_be(
        loss is not None and callable(loss), "loss", "a callable (output, target) ↦ a number", loss
    )
    require(
        getattr(loss, "weight", None) is None or getattr(loss, "reduction", "") != "mean",
        "reduction",
        "expected 'sum' with a weight, which a mean over one record cancels",
    )
    if getattr(loss, "reduction", "mean") not in ("mean", "sum"):
        raise InvalidInput("reduction", f"expected 'mean' or 'sum', got {loss.reduction!r}")
    return loss


# The two products of a linear model on a device: in doubles, the rest of a step where it always is.
#
# Residuals, clipping, noise and the iterate stay with numpy, so that they are the very same. What is
# bounded of sums (`pabi.execute.sums`) holds of products in any order of additions, if each operation is
# rounded as IEEE 754 says: single precision with tensor cores (TF32) is not, and is not used.


PRODUCTS = (
    "the device multiplies and adds doubles as IEEE 754 says, in any order, and equal inputs of equal shape "
    "give equal results"
)


def multiplies(device: Any, run: NoisySGD) -> bool:
    """Whether the products of `run` are computed on the device.

    Where batches are drawn anew at every step a record's predictor must not depend on its place, which
    libraries of a device do not promise; and coordinates are clipped record by record.
    """
    return device.type == "cuda" and not run.order.fresh and run.clipping != "coordinates"


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

    def _product(self, features: Any, theta: Array, anywhere: bool) -> Array:
        assert not anywhere  # `multiplies`
        # Column by column in memory: derivatives of a loss are fastest in that order.
        return np.asarray((self._on_device(theta.T) @ features.T).cpu().numpy().T)

    def _add_product(self, features: Any, weight: Array, total: Array) -> None:
        total += (self._on_device(weight.T) @ features).cpu().numpy().T

    def _on_device(self, array: Array) -> Any:
        return torch().as_tensor(np.ascontiguousarray(array)).to(self._device)

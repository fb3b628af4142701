"""Which of PyTorch's losses is which of pabi's: what `loss=` says has to be what the run describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pabi.describe.linear_losses import LINEAR_LOSSES
from pabi.describe.losses import Loss
from pabi.integrations.torch.library import torch
from pabi.numbers.errors import InvalidInput


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


def is_linear(loss: Loss) -> bool:
    """Whether it is a loss of a linear model, which its parameters describe in full."""
    return loss.kind in LINEAR_LOSSES


def refuse_another(loss: Any, stated: Loss) -> None:
    """Raises InvalidInput unless the loss of PyTorch is the one that the run states; None says nothing."""
    if loss is None:
        return
    name = type(loss).__name__
    twin = _TWINS.get(name)
    if twin is None or type(loss) is not getattr(torch().nn, name):
        expected = ", ".join(_TWINS)
        raise InvalidInput("loss", f"expected {expected} or None, got a {name}")
    if stated.kind not in twin.kinds:
        expected = " or ".join(twin.kinds)
        raise InvalidInput(
            "loss", f"expected a run of the loss {expected} for {name}, got {stated.kind}"
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
    if loss is None or not callable(loss):
        raise InvalidInput("loss", f"expected a callable (output, target) ↦ a number, got {loss!r}")
    if getattr(loss, "weight", None) is not None and getattr(loss, "reduction", "") == "mean":
        raise InvalidInput(
            "reduction", "expected 'sum' with a weight, which a mean over one record cancels"
        )
    if getattr(loss, "reduction", "mean") not in ("mean", "sum"):
        raise InvalidInput("reduction", f"expected 'mean' or 'sum', got {loss.reduction!r}")
    return loss

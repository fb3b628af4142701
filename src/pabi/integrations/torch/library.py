"""PyTorch itself, loaded when it is first used, and what all modules here ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra


def torch() -> Any:
    """The package `torch`. Raises InvalidInput that says how to install it where it is missing."""
    return extra("torch", "torch")


def checked_module(module: Any) -> Any:
    """`module` if it is an `nn.Module` of real parameters. Raises InvalidInput of anything else."""
    if not isinstance(module, torch().nn.Module):
        kind = type(module).__name__
        raise InvalidInput("module", f"expected a torch.nn.Module, got a {kind}")
    for name, parameter in module.named_parameters():
        if parameter.is_complex():
            raise InvalidInput("module", f"expected real parameters, got {name!r} of complex ones")
        if parameter.is_meta:
            raise InvalidInput(
                "module", f"expected parameters that have values, got {name!r} on the meta device"
            )
    return module


def device_of(module: Any) -> Any:
    """Where the parameters of a module are; the CPU where it has none."""
    first = next(iter(module.parameters()), None)
    return torch().device("cpu") if first is None else first.device


def device_named(device: Any, module: Any) -> Any:
    """The device of this name, or that of the module for None. Raises InvalidInput for an unknown one."""
    if device is None:
        return device_of(module)
    try:
        return torch().device(device)
    except (RuntimeError, TypeError):
        raise InvalidInput("device", f"expected a device of torch, got {device!r}") from None


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

"""A trained module as a file of PyTorch that its guarantee travels in."""

from __future__ import annotations

import os
import pickle
from typing import Any

from pabi.guarantees.guarantee import Guarantee
from pabi.integrations.torch.library import checked_module, torch
from pabi.integrations.torch.training import TrainedModule
from pabi.numbers.errors import InvalidInput

FORMAT, VERSION = "pabi.module", 1
_KEYS = {"format", "version", "state_dict", "guarantee"}


def save(trained: TrainedModule, path: str | os.PathLike[str]) -> None:
    """Writes the module's parameters and buffers and the guarantee to a file, with `torch.save`.

    `torch.load(path, weights_only=True)` reads it: a dict whose `state_dict` is that of the module, and whose
    `guarantee` is the JSON that `pabi verify` checks. The random state of the training is not in it.

    Parameters
    ----------
    trained : TrainedModule
        What `train` returned.
    path : path
        The file.

    Raises
    ------
    InvalidInput
        `trained` is something else, or its module has a state beside parameters and buffers.
    OSError
        The file cannot be written.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    if not isinstance(trained, TrainedModule):
        kind = type(trained).__name__
        raise InvalidInput("trained", f"expected what train returned, got a {kind}")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "state_dict": _state_of(trained.module),
        "guarantee": trained.guarantee.to_json(),
    }
    torch().save(content, path)


def load(path: str | os.PathLike[str], module: Any) -> Guarantee:
    """Puts what `save` wrote into a module, and returns the guarantee that came with it.

    Nothing in the file is executed. Nothing shows either that the weights are the ones that the guarantee was
    computed for: whoever could change the file is trusted with that.

    Parameters
    ----------
    path : path
        The file.
    module : torch.nn.Module
        Of the architecture that was trained. Its state is replaced.

    Returns
    -------
    Guarantee
        Not yet verified: `pabi.verify` checks it.

    Raises
    ------
    InvalidInput
        A file that `save` did not write, or of another architecture.
    OSError
        The file cannot be read.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    content = _read(path)
    guarantee = Guarantee.from_json(content["guarantee"])
    try:
        checked_module(module).load_state_dict(content["state_dict"])
    except RuntimeError as error:
        raise InvalidInput("module", f"expected the architecture of the file: {error}") from None
    return guarantee


def _state_of(module: Any) -> dict[str, Any]:
    """Parameters and buffers by name, as a state dict has them, and what no hook has a say in."""
    state = {}
    for prefix, layer in module.named_modules(remove_duplicate=False):
        if type(layer).get_extra_state is not torch().nn.Module.get_extra_state:
            raise InvalidInput(
                prefix or "module", "expected parameters and buffers alone, got a get_extra_state"
            )
        passing = layer._non_persistent_buffers_set
        for name, tensor in (*layer._parameters.items(), *layer._buffers.items()):
            if tensor is not None and name not in passing:
                state[f"{prefix}.{name}".lstrip(".")] = tensor.detach()
    return state


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    name = os.fspath(path)
    try:
        content = torch().load(path, weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        raise InvalidInput(str(name), "expected a file that save wrote") from None
    if not isinstance(content, dict) or set(content) != _KEYS or content["format"] != FORMAT:
        raise InvalidInput(str(name), "expected a file that save wrote")
    if content["version"] != VERSION:
        raise InvalidInput("version", f"expected {VERSION}, got {content['version']!r}")
    return content

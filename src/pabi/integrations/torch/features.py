"""What a head sees of a dataset, computed once for several trainings."""

from __future__ import annotations

from typing import Any

from pabi.integrations.torch.datasets import Pairs
from pabi.integrations.torch.heads import Head, head_name
from pabi.integrations.torch.library import checked_module, device_named, torch
from pabi.integrations.torch.trials import apart
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput


def features(module: Any, dataset: Any, *, head: Any, device: Any = None, workers: int = 0) -> Any:
    """The dataset of pairs (what the head sees of an input, target), for several trainings of the same head.

    Train the layer itself on it: `train(module.head, features(module, dataset, head="head"), run)`. These
    features are private, as the records are.

    Parameters
    ----------
    module : torch.nn.Module
        The module, used as in `train`: in eval mode, every record by itself. It is left as it is.
    dataset : torch.utils.data.Dataset
        Map-style, of pairs (input tensor, target).
    head : str or torch.nn.Linear
        The linear layer that ends the module, or its name.
    device : str or torch.device, optional
        Where the module computes. None: where its parameters are.
    workers : int, ≥ 0
        Processes that load the dataset.

    Returns
    -------
    torch.utils.data.TensorDataset
        (n, width) features and targets, in the order of the dataset, on the CPU.

    Raises
    ------
    InvalidInput
        An argument is wrong, naming it, or the module is refused as in `train`.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    pairs = Pairs(dataset, validate.integer("workers", workers, at_least=0))
    name = head_name(checked_module(module), head)
    if not name:
        raise InvalidInput("head", "expected a linear layer with others before it")
    own = apart(module)
    last = Head(own, name)
    own.train(False).to(device_named(device, own))
    last.refuse_unfit(pairs)
    tensors = (torch().as_tensor(part) for part in last.table(pairs))
    return torch().utils.data.TensorDataset(*tensors)

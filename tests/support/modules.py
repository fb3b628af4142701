"""Modules of PyTorch, datasets and runs that the tests of `pabi.integrations.torch` share."""

from typing import Any

import numpy as np

import pabi
from support.frameworks import framework

torch = framework("torch")
N, D, K = 60, 5, 3


class Listed(torch.utils.data.Dataset):
    """Pairs that are fetched one by one, and nothing but."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self._inputs, self._targets = inputs, targets

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self._inputs[i], self._targets[i]


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(N, D) numbers, some rows longer than others, and classes 0..K − 1."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)) * rng.uniform(0.1, 2.0, (N, 1)), rng.integers(0, K, N)


def pairs(X: np.ndarray, y: np.ndarray) -> Any:
    return torch.utils.data.TensorDataset(torch.as_tensor(X), torch.as_tensor(y))


def linear(inputs: int, outputs: int, seed: int = 0, *, bias: bool = True) -> Any:
    """A linear layer in double precision, with weights of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Linear(inputs, outputs, bias=bias).double()


def weights(layer: Any) -> np.ndarray:
    """(width, K), a bias at the end."""
    parts = [layer.weight.detach().numpy().T]
    if layer.bias is not None:
        parts.append(layer.bias.detach().numpy()[None])
    return np.vstack(parts)


def run(loss: pabi.Loss, **changes: Any) -> pabi.NoisySGD:
    fields: dict[str, Any] = {
        "n": N,
        "batches": pabi.ShuffleOnce(16),
        "epochs": 2,
        "step_size": 0.3,
        "noise_std": 0.1,
    }
    return pabi.NoisySGD(loss, **(fields | changes))

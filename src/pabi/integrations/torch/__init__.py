"""Modules of PyTorch, trained as a run describes them.

`train` trains a linear head, or any module record by record. The samplers draw batches for a training loop of
one's own. PyTorch is loaded when something here is first used.
"""

from __future__ import annotations

from pabi.integrations.torch.head_training import features
from pabi.integrations.torch.samplers import (
    BallsInBinsSampler,
    PoissonSampler,
    ReshuffleSampler,
    ShuffleOnceSampler,
    collate,
    collate_like,
)
from pabi.integrations.torch.training import TrainedModule, load, save, train

__all__ = [
    "BallsInBinsSampler",
    "PoissonSampler",
    "ReshuffleSampler",
    "ShuffleOnceSampler",
    "TrainedModule",
    "collate",
    "collate_like",
    "features",
    "load",
    "save",
    "train",
]

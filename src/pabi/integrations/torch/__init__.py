"""Modules of PyTorch, trained as a run describes them.

`train` trains a linear head, or any module record by record. The samplers draw batches for a training loop of
one's own. PyTorch is loaded when something here is first used.
"""

from __future__ import annotations

from pabi.integrations.torch.features import features
from pabi.integrations.torch.samplers import (
    BallsInBinsSampler,
    PoissonSampler,
    ReshuffleSampler,
    ShuffleOnceSampler,
    collate,
)
from pabi.integrations.torch.saving import load, save
from pabi.integrations.torch.training import TrainedModule, train

__all__ = [
    "BallsInBinsSampler",
    "PoissonSampler",
    "ReshuffleSampler",
    "ShuffleOnceSampler",
    "TrainedModule",
    "collate",
    "features",
    "load",
    "save",
    "train",
]

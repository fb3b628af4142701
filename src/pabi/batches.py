"""The batch schemes, which `pabi` has too."""

from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    FullBatch,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)

__all__ = [
    "BallsInBins",
    "Batches",
    "Cyclic",
    "FixedSize",
    "FullBatch",
    "Poisson",
    "Reshuffle",
    "ShuffleOnce",
]

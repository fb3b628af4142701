"""A noisy accuracy: what its description says, in exact arithmetic."""

from __future__ import annotations

from typing import Any

from flint import fmpq

from pabi.describe.accuracy import NoisyAccuracy
from pabi.verification.adjacency import read_adjacency
from pabi.verification.arithmetic import exact
from pabi.verification.refusal import Refused
from pabi.verification.theorem import About


class Accuracy(About):
    """A release of a noisy accuracy."""

    CALLED = "of an accuracy"
    nulls = True

    def __init__(self, description: NoisyAccuracy) -> None:
        self.description = description
        self.adjacency, self.unit = read_adjacency(description.adjacency), description.unit

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one of n moves the mean of numbers in [0, 1] by: 1/n²."""
        return fmpq(1, self.description.n * self.description.n)

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        if self.description.noise_std is None:
            raise Refused("noise_std: the description has no noise")
        return exact(self.description.noise_std)

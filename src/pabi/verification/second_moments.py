"""Noisy second moments: what their description says, in exact arithmetic."""

from __future__ import annotations

from typing import Any

from pabi.describe.second_moments import NoisySecondMoments
from pabi.verification.adjacency import gradients_changed, read_adjacency
from pabi.verification.arithmetic import exact
from pabi.verification.refusal import Refused
from pabi.verification.theorem import About


class SecondMoments(About):
    """A release of noisy second moments, of matrices or of their diagonal alone."""

    CALLED = "of second moments"
    nulls = True

    def __init__(self, description: NoisySecondMoments) -> None:
        self.description = description
        self.adjacency, self.unit = read_adjacency(description.adjacency), description.unit
        self.square = exact(description.feature_norm) * exact(description.feature_norm)

    @property
    def sensitivity_square(self) -> Any:
        """The square of what one record moves the sum by: R⁴, or twice that where another takes its place.

        ‖xxᵀ − yyᵀ‖² = ‖x‖⁴ + ‖y‖⁴ − 2⟨x, y⟩², and of the diagonals alone Σx_j⁴ + Σy_j⁴ − 2Σx_j²y_j²: no term
        that is taken off is negative, so that every vector that changes adds R⁴ at most.
        """
        return (
            gradients_changed(read_adjacency(self.description.adjacency))
            * self.square
            * self.square
        )

    @property
    def noise_std(self) -> Any:
        """σ as stated, a rational."""
        stated = self.description
        if stated.noise_std is not None:
            return exact(stated.noise_std)
        if stated.noise_multiplier is None:
            raise Refused("noise_std: the description has no noise")
        return exact(stated.noise_multiplier) * self.square

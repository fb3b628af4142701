"""What is to be solved, and a way to solve it that has yet to be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pabi.describe.langevin import gradient_gap_of
from pabi.describe.losses import Loss
from pabi.describe.neighbours import Adjacency
from pabi.erm.bounds import FEW_ROUNDINGS, MARGIN
from pabi.erm.budget import Run, largest_mu, largest_range

Terms = tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A validated cell of the table, with what every way to solve it needs.

    `diameter` D and `radius` r: of the set, and of a ball around one of its points that holds it. `m`: strong
    convexity, 0 for what is merely convex, None where nothing is known to be convex.
    """

    objective: str
    losses: str
    n: int
    dimension: int
    lipschitz: float
    diameter: float
    radius: float
    epsilon: float
    delta: float
    m: float | None
    loss: Loss
    adjacency: Adjacency

    @property
    def population(self) -> bool:
        """Whether the risk is that of the population."""
        return self.objective == "sco"

    @cached_property
    def gap(self) -> float:
        """Δ, of the gradients of the mean losses of adjacent data sets."""
        return gradient_gap_of(self.loss, self.n, self.adjacency, None)

    @cached_property
    def range(self) -> float:
        """The largest bounded range within the budget."""
        return largest_range(self.epsilon, self.delta)

    @cached_property
    def mu(self) -> float:
        """The largest Gaussian-DP parameter within the budget."""
        return largest_mu(self.epsilon, self.delta)

    @property
    def trivial(self) -> float:
        """LD, which no excess exceeds."""
        return self.lipschitz * self.diameter * FEW_ROUNDINGS


@dataclass(frozen=True, eq=False)
class Draft:
    """One way to solve a problem: the run, and its risk in terms, as a function of the run.

    `regulariser`: ρ of (ρ/2)‖θ − c‖², which is part of the run's loss. `quantile`: (run, probability) → a
    bound on the excess empirical risk that holds with this probability.
    """

    algorithm: str
    run: Run
    terms: Callable[[Any], Terms]
    source: str
    regulariser: float = 0.0
    quantile: Callable[[Any, float], float] | None = field(default=None, repr=False)

    @property
    def risk(self) -> float:
        """The sum of the terms."""
        return total(self.terms(self.run))


def total(terms: Terms) -> float:
    """The sum of all terms, rounded up."""
    return sum(value for _, value in terms) * MARGIN

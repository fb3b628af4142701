"""What is to be solved, and what a plan is: the run that is accounted, and what is proven of its risk."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pabi.describe.accounted import Adjacency
from pabi.describe.langevin import LangevinDiffusion, gradient_gap_of
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.numbers import validate
from pabi.numbers.errors import NotApplicable
from pabi.numbers.showing import exact, plain, shown
from pabi.sampling.erm_bounds import FEW_ROUNDINGS, MARGIN, Run, largest_mu, largest_range
from pabi.tradeoff.guarantee import Guarantee

# What is to be solved, and a way to solve it that has yet to be chosen.


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


# What the bounds are of the order of, D the diameter: Ganesh, Thakurta, Upadhyay, Table 1, without the
# logarithms of n and p that the constants here do without.
_RATES = {
    ("convex", False): "L·D·p/(ε·n)",
    ("convex", True): "L·D·√(p·ln(1/δ))/(ε·n)",
    ("strongly_convex", False): "L²·p·(p + ln n)/(m·ε²·n²)",
    ("strongly_convex", True): "L²·p·ln(1/δ)/(m·ε²·n²)",
    ("nonconvex", False): "L·D·p·ln(ε·n/p)/(ε·n)",
    ("nonconvex", True): "L·D·p·ln(ε·n/p)/(ε·n)",
}
_POPULATION = {
    "convex": "L·D/√n",
    "strongly_convex": "L²/(m·n)",
    "nonconvex": "L·D·min(ε, √(p/n))",
}


# Stands for the smoothness of a strongly convex loss of which none is known.
UNKNOWN = sys.float_info.max


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """How to minimise a loss privately, and what is proven of the result.

    `pabi.erm.plan` makes one. Risks are in units of the loss, distances in those of the parameters.

    Attributes
    ----------
    algorithm : str
        "exponential_mechanism", "iterated_exponential_mechanism", "last_point" or "path_average".
    run : ExponentialMechanism, IteratedExponentialMechanism or LangevinDiffusion
        The description that is accounted; its coordinates have the centre of the set as their
        origin.
    risk_bound : float, above 0
        Bound on the expected excess risk, at most the trivial L·D.
    kind : str
        "explicit": the bound is a proven number.
    source : str
        The theorem behind the bound.
    objective : str
        "erm" or "sco".
    losses : str
        "convex", "strongly_convex" or "nonconvex".
    dimension : int, at least 1
        p, the dimension of the set.
    epsilon : float, above 0
        ε of the target.
    delta : float, in [0, 1)
        δ of the target.
    lipschitz : float, above 0
        L of every record's loss.
    radius : float, above 0
        Radius of a ball around the centre that holds the set.
    terms : tuple of (str, float)
        Names and values of what the bound is the sum of.
    regulariser : float, at least 0
        ρ of the term (ρ/2)‖θ − centre‖² that the run adds to the mean loss; 0 if none.
    strong_convexity : float or None
        Strong convexity of the mean loss with that term; None where nothing is known to be convex.
    considered : tuple of (str, float)
        Algorithm and risk bound of every way that was compared.

    References
    ----------
    `source`; docs, "Private optimisation".
    """

    algorithm: str
    run: Run
    risk_bound: float
    kind: str
    source: str
    objective: str
    losses: str
    dimension: int
    epsilon: float
    delta: float
    lipschitz: float
    radius: float
    terms: Terms
    regulariser: float = 0.0
    strong_convexity: float | None = None
    considered: tuple[tuple[str, float], ...] = ()
    _quantile: Callable[[Any, float], float] | None = field(default=None, repr=False)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the run, tuned at the plan's δ.

        It is that of an exact draw or an exact diffusion, and not of a chain of steps.
        """
        from pabi.account.best import best_guarantee

        return best_guarantee(self.run, self.delta)

    @property
    def inverse_temperature(self) -> float:
        """The factor β or κ of the mean loss; of several rounds that of the last one."""
        if isinstance(self.run, IteratedExponentialMechanism):
            return self.run.rounds[-1].inverse_temperature
        if isinstance(self.run, ExponentialMechanism):
            return self.run.kappa
        return float(self.run.inverse_temperature)

    @property
    def smoothness(self) -> float:
        """The smoothness M of every record's loss, ∞ where none is known."""
        curvature = self.run.loss.curvature
        return math.inf if curvature is None or curvature[1] >= UNKNOWN else curvature[1]

    @property
    def only_a_bound(self) -> bool:
        """Whether `solve` cannot run the plan, because the smoothness M is not known.

        Steps of a chain that follows a strongly convex loss's diffusion to its last point contract
        only where they are small against 1/M.
        """
        return (
            self.algorithm == "last_point"
            and self.losses == "strongly_convex"
            and math.isinf(self.smoothness)
        )

    @property
    def time(self) -> float:
        """The time T of a diffusion; ∞ for a draw from the Gibbs density."""
        return self.run.time if isinstance(self.run, LangevinDiffusion) else math.inf

    @property
    def split(self) -> int | None:
        """The number of records that the rounds but the last use, where the last uses others; else
        None.
        """
        return getattr(self.run, "split", None)

    @property
    def trivial(self) -> bool:
        """Whether the bound is no better than L·D, which holds for every point of the set."""
        return self.risk_bound >= self.trivial_bound

    @property
    def trivial_bound(self) -> float:
        """The trivial risk bound L·D, which holds for every point of the set."""
        diameter = self.run.diameter
        assert diameter is not None
        return self.lipschitz * diameter * FEW_ROUNDINGS

    @property
    def rate(self) -> str:
        """The order of the bound, in L, D, m, n, p = dimension, ε and δ."""
        empirical = _RATES[self.losses, self.delta > 0.0]
        return f"{empirical} + {_POPULATION[self.losses]}" if self.objective == "sco" else empirical

    def excess_quantile(self, probability: float) -> float:
        """A bound on the excess empirical risk that holds with a given probability over the draw.

        For a Gibbs density of convex losses κ·excess is dominated by Gamma(p, 1). A regulariser
        adds ½ρr². Over several rounds their chance of failure is taken off. Without convexity the
        tail is exponential beyond the free energy.

        Parameters
        ----------
        probability : float, in (0, 1)
            With what probability the bound holds.

        Returns
        -------
        float
            In units of the loss.

        Raises
        ------
        InvalidInput
            For another probability.
        NotApplicable
            For diffusions and split records, of which only the mean is bounded.

        References
        ----------
        docs, "Private optimisation".
        """
        at = validate.number("probability", probability, above=0.0, below=1.0)
        if self._quantile is None:
            raise NotApplicable(f"only the mean excess of a {self.algorithm} is bounded")
        return min(self._quantile(self.run, at), self.trivial_bound)

    def distance_quantile(self, probability: float) -> float:
        """A bound on the distance from the minimiser that holds with a given probability.

        The minimiser is that of the run's mean loss, regulariser included. √(κm)·distance is
        dominated by the norm of a standard Gaussian vector.

        Parameters
        ----------
        probability : float, in (0, 1)
            With what probability the bound holds.

        Returns
        -------
        float
            In units of the parameters.

        Raises
        ------
        InvalidInput
            For another probability.
        NotApplicable
            Unless the plan draws once from the Gibbs density of a strongly convex loss.

        References
        ----------
        docs, "Private optimisation".
        """
        at = validate.number("probability", probability, above=0.0, below=1.0)
        if not isinstance(self.run, ExponentialMechanism) or not self.strong_convexity:
            raise NotApplicable("only of one draw from a strongly convex loss's Gibbs density")
        from scipy.special import chdtri

        square = float(chdtri(self.dimension, 1.0 - at))
        distance = math.sqrt(square / (self.run.kappa * self.strong_convexity)) * MARGIN
        return min(distance, float(self.run.diameter))

    def __str__(self) -> str:
        trivial = ", the trivial L·D" if self.trivial else ""
        needs = "plan again with smoothness=…, which its chain's steps need"
        run, regulariser = self.run, self.regulariser
        rounds = run.rounds if isinstance(run, IteratedExponentialMechanism) else ()
        rows = (
            ("algorithm", self.algorithm.replace("_", " ")),
            ("problem", f"{self.objective.upper()}, {self.losses.replace('_', ' ')} losses"),
            ("privacy", f"ε = {exact(self.epsilon)}, δ = {exact(self.delta)}, {run.adjacency}"),
            ("risk bound", f"{shown(self.risk_bound, 4)} ({self.kind}{trivial})"),
            *((f"  {name}", shown(value, 4)) for name, value in self.terms),
            ("rate", self.rate),
            ("inverse temperature", plain(self.inverse_temperature)),
            ("time", plain(self.time) if math.isfinite(self.time) else ""),
            ("regulariser", f"{plain(regulariser)}·‖θ − centre‖²/2" if regulariser else ""),
            ("ε of the rounds", ", ".join(shown(r.epsilon, 4) for r in rounds)),
            ("diameters", ", ".join(plain(r.diameter, 4) for r in rounds)),
            ("records", "" if self.split is None else f"{self.split}, then {run.n - self.split}"),
            ("to run it", needs if self.only_a_bound else ""),
            ("source", self.source),
        )
        lines = {name: value for name, value in rows if value}
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())

"""What is to be solved, what a plan is (a run and what is proven of its risk), and a test problem."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.accounted import Adjacency
from pabi.describe.langevin import LangevinDiffusion, gradient_gap_of
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.numbers import validate
from pabi.numbers.errors import NotApplicable, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, plain, shown
from pabi.numbers.validate import keep
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
        """The order of the least bound for such losses and many records, in L, D, m, n, p, ε and δ."""
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
        others = [
            f"{name.replace('_', ' ')} {shown(risk, 4)}"
            for name, risk in self.considered
            if name != self.algorithm
        ]
        rows = (
            ("algorithm", self.algorithm.replace("_", " ")),
            ("problem", f"{self.objective.upper()}, {self.losses.replace('_', ' ')} losses"),
            ("privacy", f"ε = {exact(self.epsilon)}, δ = {exact(self.delta)}, {run.adjacency}"),
            ("risk bound", f"{shown(self.risk_bound, 4)} ({self.kind}{trivial})"),
            *((f"  {name}", shown(value, 4)) for name, value in self.terms),
            ("  of others", ", ".join(others)),
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


# A nonconvex test problem: wells at the points of a packing, as deep as the data say.
#
# Finding the deepest is selecting the most frequent of s attributes, which is as hard as private selection.


@dataclass(frozen=True, eq=False)
class PackingLoss:
    """A nonconvex test problem: wells at the points of a packing, as deep as the data say.

    The loss of record i is ℓ(θ; d_i) = −L·Σ_j d_ij·max(0, w − ‖θ − c_j‖): wells of radius w and
    depth Lw that do not overlap. Finding the deepest well is selecting the most frequent of s
    attributes.

    Parameters
    ----------
    bits : array of 0 and 1, (n, s)
        The data: which attributes every record has.
    centres : array, (s, p)
        c_j, the centres of the wells.
    lipschitz : float, above 0
        L, the Lipschitz constant of every record's loss.
    well_radius : float, above 0, optional
        w, at most half of the least distance of two centres, which is the default. Where wells
        overlap the least value need not lie at a centre.

    Raises
    ------
    InvalidInput
        For arrays of other shapes or values, and for wells that overlap.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem G.1; docs, "Private optimisation".
    """

    bits: Array
    centres: Array
    lipschitz: float = 1.0
    well_radius: float | None = None

    def __post_init__(self) -> None:
        centres, bits = _matrix("centres", self.centres), _matrix("bits", self.bits)
        require(
            bits.shape[1] == centres.shape[0],
            "bits",
            f"expected one column for each of {centres.shape[0]} centres, got {bits.shape}",
        )
        require(((bits == 0.0) | (bits == 1.0)).all(), "bits", "expected 0 and 1")
        validate.number("lipschitz", self.lipschitz, above=0.0)
        half = 0.5 * _least_distance(centres)
        width = half if self.well_radius is None else self.well_radius
        width = validate.number("well_radius", width, above=0.0)
        must_be(width <= half, "well_radius", f"at most {half!r}, half of the separation", width)
        keep(self, bits=bits, centres=centres, well_radius=width)

    @property
    def n(self) -> int:
        """The number of records."""
        return int(self.bits.shape[0])

    @property
    def dimension(self) -> int:
        """The number p of parameters."""
        return int(self.centres.shape[1])

    @cached_property
    def frequencies(self) -> Array:
        """The share of the records that have each attribute, (s,) in [0, 1]."""
        return np.asarray(self.bits.mean(axis=0))

    def _wells(self, points: Array) -> Array:
        """(k, s) max(0, w − distance)."""
        points = _matrix("points", points)
        away = np.linalg.norm(points[:, None, :] - self.centres[None, :, :], axis=-1)
        assert self.well_radius is not None
        return np.asarray(np.maximum(0.0, self.well_radius - away))

    def value(self, points: Array) -> Array:
        """The mean loss at each of several points.

        Parameters
        ----------
        points : array, (k, p)
            Where to evaluate it.

        Returns
        -------
        array, (k,)
            In units of the loss.

        Raises
        ------
        InvalidInput
            For what is no matrix of finite numbers.

        References
        ----------
        Ganesh, Thakurta, Upadhyay, Theorem G.1.
        """
        return np.asarray(-self.lipschitz * self._wells(points) @ self.frequencies)

    def per_record(self, points: Array) -> Array:
        """The loss of every record at each of several points.

        Parameters
        ----------
        points : array, (k, p)
            Where to evaluate it.

        Returns
        -------
        array, (k, n)
            In units of the loss.

        Raises
        ------
        InvalidInput
            For what is no matrix of finite numbers.

        References
        ----------
        Ganesh, Thakurta, Upadhyay, Theorem G.1.
        """
        return np.asarray(-self.lipschitz * self._wells(points) @ self.bits.T)

    @property
    def minimiser(self) -> Array:
        """The centre of the most frequent attribute, (p,); the first of several."""
        return np.asarray(self.centres[int(np.argmax(self.frequencies))])

    @property
    def minimum(self) -> float:
        """The least mean loss, −Lw·(largest frequency)."""
        assert self.well_radius is not None
        return -self.lipschitz * self.well_radius * float(self.frequencies.max())

    def mean_excess(self, inverse_temperature: float) -> float:
        """The mean excess under the density ∝ e^(−κL) on the unit disc, to a relative 1e-6 or so.

        It is computed by quadrature in polar coordinates about every centre, where its well is a
        cone, each ray up to the end of the well or of the disc; elsewhere the loss is 0.

        Parameters
        ----------
        inverse_temperature : float, above 0
            κ of the density.

        Returns
        -------
        float
            In units of the loss.

        Raises
        ------
        InvalidInput
            For points that are not in the plane, or another κ.

        References
        ----------
        docs, "Private optimisation".
        """
        require(
            self.dimension == 2, "centres", f"expected points in the plane, got {self.dimension}-d"
        )
        kappa = validate.number("inverse_temperature", inverse_temperature, above=0.0)
        assert self.well_radius is not None
        angle = (np.arange(4000) + 0.5) / 4000 * 2.0 * math.pi
        unit, weight = np.polynomial.legendre.leggauss(80)
        s, w = 0.5 * (unit + 1.0), 0.5 * weight
        rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        area, mass, total = math.pi, 0.0, 0.0
        for centre, frequency in zip(self.centres, self.frequencies, strict=True):
            along = rays @ centre
            reach = -along + np.sqrt(np.maximum(along**2 + 1.0 - centre @ centre, 0.0))
            length = np.clip(reach, 0.0, self.well_radius)[:, None]
            # Closer nodes near the centre, where the density is largest.
            t, dt = length * s**4, length * 4.0 * s**3 * w
            cell = t * dt * (2.0 * math.pi / len(angle))
            depth = self.lipschitz * frequency * np.maximum(0.0, self.well_radius - t)
            excess = -self.minimum - depth
            part = cell * np.exp(-kappa * excess)
            area -= float(cell.sum())
            mass, total = mass + float(part.sum()), total + float((part * excess).sum())
        rest = area * math.exp(kappa * self.minimum)
        return (total - self.minimum * rest) / (mass + rest)


def packing_loss(
    bits: Any,
    centres: Any = None,
    *,
    dimension: int | None = None,
    lipschitz: float = 1.0,
    well_radius: float | None = None,
) -> PackingLoss:
    """The packing problem for given data, in the unit ball.

    Parameters
    ----------
    bits : array of 0 and 1, (n, s)
        The data: which attributes every record has.
    centres : array, (s, p), optional
        Centres of the wells.
    dimension : int, at least 1, optional
        p, in place of centres: they are s points of a cubic lattice, as far apart as fit.
    lipschitz : float, above 0
        L, the Lipschitz constant of every record's loss.
    well_radius : float, above 0, optional
        Radius of the wells, at most half of the least distance of two centres, which is the
        default.

    Returns
    -------
    PackingLoss
        The problem.

    Raises
    ------
    InvalidInput
        For both or none of centres and dimension, and as `PackingLoss`.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Theorem G.1, with wells that do not overlap; docs, "Private
    optimisation".
    """
    data = _matrix("bits", bits)
    require(
        (centres is None) != (dimension is None),
        "centres",
        "expected exactly one of centres and dimension",
    )
    if centres is None:
        assert dimension is not None
        centres = packing_centres(data.shape[1], dimension)
    return PackingLoss(data, centres, lipschitz, well_radius)


def packing_centres(count: int, dimension: int) -> Array:
    """Points of a cubic lattice in the unit ball: of the coarsest lattice that has as many there.

    Those nearest to the origin are taken, which is one of them.

    Parameters
    ----------
    count : int, in 1..10⁶
        How many points.
    dimension : int, in 1..1000
        Their dimension.

    Returns
    -------
    array, (count, dimension)
        The points, by their norm.

    Raises
    ------
    InvalidInput
        For another count or dimension.

    References
    ----------
    docs, "Private optimisation", many wells.
    """
    count = validate.integer("count", count, at_least=1, at_most=10**6)
    p = validate.integer("dimension", dimension, at_least=1, at_most=1000)
    radius = 1  # squared, in units of the lattice's spacing
    while len(points := _lattice(p, radius, count)) < count:
        radius += 1
    return points[:count] / math.sqrt(radius)


def _lattice(p: int, square: int, enough: int) -> NDArray[np.float64]:
    """Integer points of squared norm ≤ `square`, by norm; all of them where p is small."""
    points: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) == p:
            points.append(prefix)
            return
        most = math.isqrt(left)
        for x in sorted(range(-most, most + 1), key=abs):
            extend((*prefix, x), left - x * x)

    def sparse(entries: dict[int, int]) -> tuple[int, ...]:
        return tuple(entries.get(k, 0) for k in range(p))

    if p <= 12:
        extend((), square)
    else:  # at most two coordinates differ from 0: enough in high dimension
        reach, signs = math.isqrt(square), (-1, 1)
        axes = itertools.product(range(p), range(-reach, reach + 1))
        points = [sparse({}), *(sparse({i: x}) for i, x in axes if x)]
        if len(points) < enough and square >= 2:
            pairs = itertools.product(itertools.combinations(range(p), 2), signs, signs)
            points += [sparse({i: x, j: y}) for (i, j), x, y in pairs]
    points.sort(key=lambda v: sum(x * x for x in v))
    return np.array(points, dtype=np.float64)


def _matrix(field: str, value: Any) -> Array:
    array = np.array(validate.doubles(field, value, "a two-dimensional array of numbers"))
    require(
        array.ndim == 2 and array.size != 0,
        field,
        f"expected a two-dimensional array, got shape {array.shape}",
    )
    require(np.isfinite(array).all(), field, "expected finite numbers")
    return array


def _least_distance(centres: Array) -> float:
    if len(centres) == 1:
        return 2.0
    gaps = np.linalg.norm(centres[:, None, :] - centres[None, :, :], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    return float(gaps.min())

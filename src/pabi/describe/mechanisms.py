"""Descriptions of the exponential mechanism: one exact draw from a Gibbs density, or several in turn."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

from pabi.describe import langevin
from pabi.describe.accounted import (
    ADJACENCY,
    IF_ANY,
    RECORDS,
    Accounted,
    Adjacency,
    Unit,
    about_gap,
    about_mean_loss,
    adjacent,
    those_that_hold,
)
from pabi.describe.losses import LOSS, Loss
from pabi.describe.runs import COUNT
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import down, fraction_down, fraction_up, up
from pabi.numbers.validate import POSITIVE, by, convert


def potential_curvature(loss: Loss) -> float | None:
    """The least curvature of the mean of such losses with its regulariser, rounded down; None if unknown.

    Of a convex–concave function only the field of descent–ascent is monotone: the function itself, which is
    what a density is made of, may be as concave as it likes.
    """
    lo = loss.least_curvature if loss.has_potential else None
    return None if lo is None else fraction_down(Fraction(lo) + Fraction(loss.l2))


_LARGEST = sys.float_info.max
_MARGIN = 1.0 + 1e-12  # above the roundings of a radius


def _diameter(name: str, value: Any) -> float:
    require(value is not None, name, "missing: the mechanism needs a bounded set")
    return validate.number(name, value, above=0.0)


def _epsilons(name: str, value: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(value)
    except TypeError:
        raise InvalidInput(name, f"expected a sequence of numbers, got {value!r}") from None
    require(numbers, name, "expected at least one number")
    return tuple(POSITIVE(name, epsilon) for epsilon in numbers)


_SAMPLER = "belongs to pabi.sampling.gibbs_rejection"
OTHER_KEYWORDS = {
    **{k: langevin.OTHER_KEYWORDS[k] for k in ("beta", "kappa", "temperature", "l2", "tau")},
    **dict.fromkeys(("domain", "draws", "random_state", "seed"), _SAMPLER),
    "radius": "a mechanism has the diameter of its set: write diameter=2 * {} for a ball",
    "sensitivity": "follows from the loss's gradient bound and the diameter; see gradient_gap",
    "delta": "belongs to the guarantee: write mechanism.guarantee(delta={})",
}


@dataclass(frozen=True, eq=False)
class ExponentialMechanism(Accounted):
    """One exact draw from the density ∝ exp(−κL(θ)) on a convex set of diameter D, L the mean loss.

    Parameters
    ----------
    loss : Loss
        One record's loss and the regulariser. Convexity is not needed, but used where it is there.
    n : int
        Records.
    dimension : int
        p, that of the set's affine hull.
    diameter : float
        D, of the set.
    epsilon : float, optional
        The range of the log-likelihood ratio to aim for: κ = ε/(ΔD).
    inverse_temperature : float, optional
        κ itself, in place of `epsilon`.
    gradient_gap : float, optional
        Δ ≥ ‖∇L_D − ∇L_D'‖ on the set; by default from the loss's gradient bound G: 2G/n
        ("replace_one") or G/n ("zero_out"), so that κ = εn/(2GD) or εn/(GD).
    adjacency : str
        "replace_one" (default) or "zero_out".
    unit : str
        "record": whom the guarantee protects.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Algorithm 2; McSherry, Talwar 2007.
    """

    loss: Loss = field(metadata=LOSS)
    n: int = field(metadata=by(COUNT))
    dimension: int = field(metadata=by(COUNT))
    diameter: float = field(metadata=by(_diameter))
    epsilon: float | None = field(default=None, metadata=IF_ANY)
    inverse_temperature: float | None = field(default=None, metadata=IF_ANY)
    gradient_gap: float | None = field(default=None, metadata=IF_ANY)
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    unit: Unit = field(default="record", metadata=RECORDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.epsilon is None) == (self.inverse_temperature is None):
            raise InvalidInput("epsilon", "expected exactly one of epsilon and inverse_temperature")
        if not 0.0 < self.kappa < math.inf:
            raise InvalidInput("epsilon", "the inverse temperature leaves the range of numbers")
        _ = self.range

    @property
    def gap(self) -> float:
        """Δ: how far the gradients of two adjacent data sets' mean losses can be apart."""
        return langevin.gradient_gap_of(self.loss, self.n, self.adjacency, self.gradient_gap)

    @property
    def least_curvature(self) -> float | None:
        """The lower end of the curvature of L with its regulariser, rounded down; None if unknown."""
        return potential_curvature(self.loss)

    @property
    def kappa(self) -> float:
        """κ: the inverse temperature that is sampled at, rounded down where it follows from `epsilon`."""
        if self.inverse_temperature is not None:
            return self.inverse_temperature
        assert self.epsilon is not None
        return fraction_down(
            Fraction(self.epsilon) / (Fraction(self.gap) * Fraction(self.diameter))
        )

    @property
    def range(self) -> float:
        """The length of the interval of log-likelihood ratios, κΔD, rounded up."""
        return fraction_up(Fraction(self.kappa) * Fraction(self.gap) * Fraction(self.diameter))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this mechanism to hold."""
        return mechanism_sentences(self)


ExponentialMechanism.__init__ = validate.answering(OTHER_KEYWORDS)(ExponentialMechanism.__init__)  # type: ignore[method-assign]


class Round(NamedTuple):
    """One round of an iterated exponential mechanism.

    Attributes
    ----------
    epsilon : float
        ε_i.
    diameter : float
        A bound on the diameter of the round's set.
    inverse_temperature : float
        κ_i.
    radius : float
        r_i: how far from its draw the next round stays at most, ∞ after the last.
    """

    epsilon: float
    diameter: float
    inverse_temperature: float
    radius: float


@dataclass(frozen=True, eq=False)
class IteratedExponentialMechanism(Accounted):
    """Exponential mechanisms in turn, each on the part of the set near the draw before; the last is released.

    θ_i is drawn from the density ∝ exp(−κ_i L) on C_{i−1}, and C_i = {θ ∈ C_{i−1}: ‖θ − θ_i‖ ≤ r_i}. The
    radii are such that the minimiser stays inside with probability 1 − `failure`; privacy does not
    depend on that.

    Parameters
    ----------
    loss : Loss
        One record's loss and the regulariser, together m-strongly convex, m > 0.
    n : int
        Records.
    dimension : int
        p, that of the first set's affine hull.
    diameter : float
        D_0, of the first set; the mechanism uses min(D_0, 2G/m) with G = `lipschitz`.
    epsilons : sequence of float
        ε_i > 0, one for each round.
    failure : float
        γ in (0, 1): spread evenly over the rounds but the last.
    adjacency : str
        "replace_one" (default) or "zero_out".
    split : int, optional
        n_1: the rounds but the last use the first n_1 records, the last the other n − n_1, for a bound on
        the population risk. None: every round uses all records.
    gradient_gap : None
        Nothing can be stated: it follows from the loss's gradient bound and the records.
    unit : str
        "record": whom the guarantee protects.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Algorithm 3 and Theorem E.6; docs, "The iterated exponential mechanism".
    """

    loss: Loss = field(metadata=LOSS)
    n: int = field(metadata=by(COUNT))
    dimension: int = field(metadata=by(COUNT))
    diameter: float = field(metadata=by(_diameter))
    epsilons: Sequence[float] = field(metadata=by(_epsilons))
    failure: float = field(metadata=by(partial(validate.number, above=0.0, below=1.0)))
    adjacency: Adjacency = field(default="replace_one", metadata=ADJACENCY)
    split: int | None = None
    gradient_gap: None = None
    unit: Unit = field(default="record", metadata=RECORDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.gradient_gap is None,
            "gradient_gap",
            "it follows from the loss's gradient bound and the records: leave it out",
        )
        if self.split is not None:
            most = self.n - 1
            convert(self, split=partial(validate.integer, at_least=1, at_most=most, of="n − 1 = "))
        if self.loss.gradient_bound is None:
            raise InvalidInput("loss", "expected a loss with a gradient bound")
        if not self.strong_convexity > 0.0:
            raise InvalidInput("loss", "expected a strongly convex loss, or one with l2 > 0")
        _ = self.rounds

    @property
    def strong_convexity(self) -> float:
        """m of the mean loss with its regulariser, rounded down; 0 if unknown."""
        return potential_curvature(self.loss) or 0.0

    @property
    def lipschitz(self) -> float:
        """G: a bound on the gradient of one record's loss, the regulariser excluded."""
        assert self.loss.gradient_bound is not None
        return self.loss.gradient_bound

    def records(self, i: int) -> int:
        """The number of records that one round uses.

        Parameters
        ----------
        i : int
            The round, counted from 0.

        Returns
        -------
        int
            `n`, or with `split` the part of the records that the round uses.

        Raises
        ------
        Nothing.
        """
        if self.split is None:
            return self.n
        return self.split if i < len(self.epsilons) - 1 else self.n - self.split

    def mechanism(self, i: int) -> ExponentialMechanism:
        """One round by itself, given the rounds before.

        Parameters
        ----------
        i : int
            The round, counted from 0.

        Returns
        -------
        ExponentialMechanism
            It draws from the set that the rounds before leave.

        Raises
        ------
        IndexError
            For a round that is not there.
        """
        one = self.rounds[i]
        return ExponentialMechanism(
            self.loss,
            self.records(i),
            self.dimension,
            one.diameter,
            inverse_temperature=one.inverse_temperature,
            adjacency=self.adjacency,
        )

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """Every round's ε_i, diameter, κ_i and radius.

        κ_i = ε_i/(Δ_i D_{i−1}), r_i = √(χ²_{p,1−γ_i}/(mκ_i)), D_i = min(D_{i−1}, 2r_i); with `split` the
        radius grows by (G/(m√n_1))(1 + √(2 ln(1/γ_0))), the distance of the empirical minimiser from the
        population's.
        """
        from scipy.special import chdtri

        k = len(self.epsilons)
        m, diameter = self.strong_convexity, float(self.diameter)
        if self.loss.l2 == 0.0:
            # A loss that is G-Lipschitz and m-strongly convex on a set says how large that is.
            diameter = min(diameter, up(up(2.0 * self.lipschitz / m)))
        extra, shares = 0.0, max(1, k - 1) + (self.split is not None)
        each = down(self.failure / shares)
        require(each > 0.0, "failure", f"too small to be spread over {shares}: {self.failure!r}")
        if self.split is not None:
            extra = self.lipschitz / (m * math.sqrt(self.split))
            extra *= 1.0 + math.sqrt(-2.0 * math.log(each))
        rounds = []
        for i, epsilon in enumerate(self.epsilons):
            gap = langevin.gradient_gap_of(self.loss, self.records(i), self.adjacency, None)
            kappa = fraction_down(Fraction(epsilon) / (Fraction(gap) * Fraction(diameter)))
            if not 0.0 < kappa < _LARGEST:
                raise InvalidInput("epsilons", "an inverse temperature leaves the range of numbers")
            radius = math.inf
            if i < k - 1:
                quantile = float(chdtri(self.dimension, each))
                # Roots first: a product could underflow.
                root = math.sqrt(quantile) / math.sqrt(m) / math.sqrt(kappa)
                radius = (root + extra) * _MARGIN
            rounds.append(Round(epsilon, diameter, inverse_temperature=kappa, radius=radius))
            diameter = min(diameter, 2.0 * radius)
        return tuple(rounds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this mechanism to hold."""
        return rounds_sentences(self)


_EXACT = "draws are exact: at total-variation error ξ of a draw, (1 + e^ε)·ξ is added to δ"


def mechanism_sentences(mechanism: ExponentialMechanism, gibbs: bool = True) -> tuple[str, ...]:
    """What a guarantee of `mechanism` rests on; `gibbs`: whether it uses the loss's curvature."""
    return those_that_hold(
        *adjacent(mechanism.adjacency, mechanism.unit),
        _EXACT,
        "nothing but the draw is released: no normalising constant, cost or number of attempts",
        f"the draw is from a convex set of diameter at most {mechanism.diameter!r} that does not depend on "
        "the data",
        about_gap(mechanism.gradient_gap, mechanism.loss),
        *(about_mean_loss(mechanism.loss) if gibbs else ()),
    )


def rounds_sentences(mechanism: IteratedExponentialMechanism) -> tuple[str, ...]:
    """What a guarantee of `mechanism` rests on; its radii use the loss's curvature in any case."""
    return those_that_hold(
        *adjacent(mechanism.adjacency, mechanism.unit),
        _EXACT,
        "nothing but the rounds' draws is released: no normalising constant, cost or number of attempts",
        f"the first set is convex, of diameter at most {mechanism.diameter!r}, and does not depend on the "
        "data; every later one is its part within the stated radius of the draw before",
        f"each record's gradient has norm at most {mechanism.loss.gradient_bound!r}",
        *about_mean_loss(mechanism.loss),
        mechanism.split is not None
        and f"the first {mechanism.split} records are used by the rounds but the last, the others by the "
        "last; which is which does not depend on the data",
    )

"""dp-accounting's events and privacy-loss distributions, and pabi's guarantees, each as the other.

dp-accounting describes mechanisms by events and knows three relations of neighbours. Its REPLACE_ONE is
pabi's "replace_one". Its REPLACE_SPECIAL, under which a record is replaced by a special one, is "zero_out" if
the special record contributes nothing, which is assumed. Its ADD_OR_REMOVE_ONE changes the number of records,
which no guarantee of pabi's allows: `PabiAccountant` accounts for it, `from_event` refuses it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn

from pabi.describe.neighbours import Adjacency, changed, checked_adjacency
from pabi.guarantees.guarantee import Guarantee
from pabi.integrations.dp_events import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    REPLACE_SPECIAL,
    UnsupportedEvent,
    composed,
    curve_of,
    dp,
    events,
)
from pabi.integrations.dp_losses import pld_of
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import fraction_down
from pabi.numbers.validate import integer, number
from pabi.tradeoff import (
    ApproxDP,
    FixedSizeSubsampled,
    Gaussian,
    Laplace,
    PoissonReplaced,
    PoissonSubsampled,
    Product,
    Subsampled,
    TradeOff,
)

__all__ = ["PabiAccountant", "UnsupportedEvent", "from_event", "to_event", "to_pld"]

_METHOD, _SOURCE = "dp-accounting event", "dp-accounting; docs, Theory, 20"
_SPECIAL = (
    "the special record in place of another contributes nothing to any sum, and a randomised response to it "
    "is uniformly random"
)
_LARGEST = 10**9  # records of the data set that a share is written for


def from_event(event: Any, *, neighboring_relation: Any) -> Guarantee:
    """The guarantee of the mechanism that an event of dp-accounting describes.

    Parameters
    ----------
    event : DpEvent
        What happens to the data.
    neighboring_relation : NeighboringRelation
        REPLACE_ONE, for "replace_one", or REPLACE_SPECIAL, for "zero_out".

    Returns
    -------
    Guarantee
        With a certificate if its trade-off function has a closed form. That the mechanism is what the event
        says is among its assumptions.

    Raises
    ------
    UnsupportedEvent
        For an event, or a part of one, for which pabi has no proof under this relation.
    InvalidInput
        For ADD_OR_REMOVE_ONE, and for what is no event or relation.

    References
    ----------
    docs, "Theory", 20.
    """
    adjacency = _adjacency(neighboring_relation)
    _require_event(event)
    special = (_SPECIAL,) if adjacency == "zero_out" else ()
    return Guarantee.from_tradeoff(
        curve_of(event, neighboring_relation),
        adjacency=adjacency,
        method=_METHOD,
        source=_SOURCE,
        assumptions=(f"the mechanism is {event!r}", *special),
    )


def to_event(guarantee: Guarantee) -> Any:
    """An event of dp-accounting with the trade-off function of a guarantee.

    Noise multipliers are rounded down, so that no reading of the event is too small for want of a digit.

    Parameters
    ----------
    guarantee : Guarantee
        One whose function an event says: Gaussian, Laplace, pure, on random batches, and products of these.

    Returns
    -------
    DpEvent
        To be read under REPLACE_ONE if the adjacency is "replace_one", else under REPLACE_SPECIAL.

    Raises
    ------
    InvalidInput
        For any other function; `to_pld` takes it.

    References
    ----------
    docs, "Theory", 20.
    """
    adjacency = _adjacency_of(guarantee)
    return _event_of(guarantee.curve, adjacency)


def to_pld(guarantee: Guarantee, *, value_discretization_interval: float = 1e-4) -> Any:
    """A privacy-loss distribution of dp-accounting that reveals no less than a guarantee says.

    It is on a grid, from above, in both orders of the data sets, and composes with dp-accounting's own of the
    same interval.

    Parameters
    ----------
    guarantee : Guarantee
        Any. Of the best of several bounds it is the one that is least at the δ at which the analysis was
        chosen, or at 1e-5.
    value_discretization_interval : float
        The distance of neighbouring losses, > 0.

    Returns
    -------
    PrivacyLossDistribution
        Of `dp_accounting.pld`. To be composed with those of the same neighbours only: see `from_event`.

    Raises
    ------
    InvalidInput
        For an interval that needs more than 2²² cells.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022; docs, "Theory", 20.
    """
    _adjacency_of(guarantee)
    step = number("value_discretization_interval", value_discretization_interval, above=0.0)
    at = guarantee.tuned_at or 1e-5
    return pld_of(guarantee.curve, step, at)


class PabiAccountant(dp.PrivacyAccountant):  # type: ignore[misc]
    """A PrivacyAccountant of dp-accounting that answers by pabi's trade-off functions.

    It composes without a grid until it is asked, and chooses the grid for the δ that it is asked for. Its
    readings err on the safe side.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation
        Any of the three. Under ADD_OR_REMOVE_ONE a record that is removed is missing from every sum.

    References
    ----------
    docs, "Theory", 20.
    """

    def __init__(self, neighboring_relation: Any = ADD_OR_REMOVE_ONE) -> None:
        super().__init__(_checked_relation(neighboring_relation))
        self._counts: dict[TradeOff, int] = {}

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        try:
            curve = curve_of(event, self.neighboring_relation)
        except UnsupportedEvent as no:
            return self.CompositionErrorDetails(no.event, no.reason)
        if do_compose:
            self._counts[curve] = self._counts.get(curve, 0) + integer("count", count, at_least=1)
        return None

    def compose(self, event: Any, count: int = 1) -> PabiAccountant:
        """This accountant, with an event or a guarantee of pabi's added.

        Parameters
        ----------
        event : DpEvent or Guarantee
            What happens to the data. A guarantee is counted by its whole trade-off function; `ledger`, which
            holds events, does not show it.
        count : int
            How often.

        Returns
        -------
        PabiAccountant
            This one.

        Raises
        ------
        UnsupportedEventError
            For an event for which pabi has no proof under the accountant's relation.
        InvalidInput
            For a guarantee of other neighbours than the accountant's, or of users or groups.
        TypeError
            For anything else.
        """
        if type(event) is not Guarantee:
            super().compose(event, count)
            return self
        adjacency = _adjacency(self.neighboring_relation)
        for name, own in (("adjacency", adjacency), ("unit", "record")):
            if (its := getattr(event, name)) != own:
                raise InvalidInput(name, f"expected {own!r} as the accountant has it, got {its!r}")
        times = integer("count", count, at_least=1)
        self._counts[event.curve] = self._counts.get(event.curve, 0) + times
        return self

    @property
    def curve(self) -> TradeOff:
        """The trade-off function of everything that was composed."""
        return composed(self._counts.items())

    @property
    def _reveals_all(self) -> bool:
        return any(factor == Gaussian(math.inf) for factor, _ in Product([(self.curve, 1)]).factors)

    def get_epsilon(self, target_delta: float) -> float:
        """The least ε at a δ, an upper bound.

        Parameters
        ----------
        target_delta : float
            δ ≥ 0.

        Returns
        -------
        float
            In [0, ∞]; ∞ at every δ after a NonPrivateDpEvent.

        Raises
        ------
        InvalidInput
            For a negative δ.
        """
        return math.inf if self._reveals_all else self.curve.epsilon(target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """The least δ at an ε, an upper bound.

        Parameters
        ----------
        target_epsilon : float
            Any real ε, or an infinity.

        Returns
        -------
        float
            In [0, 1]; 1 at every ε after a NonPrivateDpEvent.

        Raises
        ------
        InvalidInput
            For what is no number.
        """
        return 1.0 if self._reveals_all else float(self.curve.delta(target_epsilon))


def _adjacency(relation: Any) -> Adjacency:
    if _checked_relation(relation) is ADD_OR_REMOVE_ONE:
        raise InvalidInput(
            "neighboring_relation",
            "ADD_OR_REMOVE_ONE changes the number of records, which no guarantee of pabi's allows; expected "
            "REPLACE_SPECIAL, of a special record that contributes nothing, or REPLACE_ONE",
        )
    return "replace_one" if relation is REPLACE_ONE else "zero_out"


def _checked_relation(relation: Any) -> Any:
    if relation not in (ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL):
        raise InvalidInput(
            "neighboring_relation",
            f"expected a dp_accounting.NeighboringRelation, got {relation!r}",
        )
    return relation


def _require_event(event: Any) -> None:
    if not isinstance(event, events.DpEvent):
        raise InvalidInput(
            "event", f"expected a dp_accounting.DpEvent, got a {type(event).__name__}"
        )


def _adjacency_of(value: Any) -> Adjacency:
    """That of a guarantee. Raises InvalidInput for anything else, and for one of forgetting."""
    if type(value) is not Guarantee:
        raise InvalidInput("guarantee", f"expected a pabi.Guarantee, got a {type(value).__name__}")
    return checked_adjacency(value.adjacency)


def _event_of(curve: TradeOff, adjacency: Adjacency) -> Any:
    """The event of a trade-off function. Raises InvalidInput where there is none."""
    moved = changed(adjacency)
    match curve:
        case Gaussian(mu=0.0):
            return events.NoOpDpEvent()
        case Gaussian(mu=mu):
            return events.GaussianDpEvent(_noise(moved, mu))
        case Laplace(epsilon_0=epsilon, probability=1.0):
            return events.LaplaceDpEvent(_noise(moved, epsilon))
        case Laplace(epsilon_0=epsilon, probability=p) if adjacency == "zero_out":
            return events.PoissonSampledDpEvent(p, events.LaplaceDpEvent(_noise(1, epsilon)))
        case PoissonSubsampled(mu=mu, probability=p, direction="both") if adjacency == "zero_out":
            return events.PoissonSampledDpEvent(p, events.GaussianDpEvent(_noise(1, mu)))
        case PoissonReplaced(mu=mu, probability=p) if adjacency == "replace_one":
            return events.PoissonSampledDpEvent(p, events.GaussianDpEvent(_noise(1, mu)))
        case Subsampled(base=Gaussian(mu=mu), probability=p) if adjacency == "replace_one":
            return _without_replacement(p, _noise(2, mu)) or _refuse(curve, adjacency)
        case FixedSizeSubsampled(norm=norm, other=mu, probability=p, direction="both") if (
            adjacency == "zero_out" and curve.apart == mu and norm == 2.0 * mu
        ):
            return _without_replacement(p, _noise(1, mu)) or _refuse(curve, adjacency)
        case ApproxDP(epsilon_0=epsilon, delta_0=0.0) if 0.0 < epsilon < math.inf:
            return _answer(epsilon, adjacency)
        case Product(factors=factors, failure=0.0):
            parts = [_repeated(_event_of(factor, adjacency), k) for factor, k in factors]
            return parts[0] if len(parts) == 1 else events.ComposedDpEvent(parts)
    return _refuse(curve, adjacency)


def _refuse(curve: TradeOff, adjacency: Adjacency) -> NoReturn:
    raise InvalidInput(
        "guarantee", f"no event says what a {curve.kind} curve does under {adjacency!r}; use to_pld"
    )


def _without_replacement(p: float, noise: float) -> Any:
    """Gaussian noise on a batch of fixed size; None where `p` is no quotient of sizes."""
    size = Fraction(p).limit_denominator(_LARGEST)
    if float(size) != p:
        return None
    gaussian = events.GaussianDpEvent(noise)
    return events.SampledWithoutReplacementDpEvent(size.denominator, size.numerator, gaussian)


def _answer(epsilon: float, adjacency: Adjacency) -> Any:
    """Pure privacy as the mechanism that it is: noise on one integer, or an answer of two."""
    if adjacency == "zero_out":
        return events.DiscreteLaplaceDpEvent(epsilon, 1)
    noise = 2.0 / (1.0 + math.exp(min(epsilon, 700.0)))
    return events.RandomizedResponseDpEvent(math.nextafter(noise * (1.0 - 1e-15), 0.0), 2)


def _noise(moved: int, size: float) -> float:
    """The noise multiplier of a mechanism of this μ or ε, rounded down; 0 where that is infinite."""
    if math.isinf(size):
        return 0.0
    if size == 0.0:
        raise InvalidInput("guarantee", "an event of no effect has no noise multiplier")
    return fraction_down(Fraction(moved) / Fraction(size))


def _repeated(event: Any, count: int) -> Any:
    return event if count == 1 else events.SelfComposedDpEvent(event, count)

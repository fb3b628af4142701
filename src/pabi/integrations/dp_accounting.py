"""dp-accounting's events and privacy-loss distributions, and pabi's guarantees, each as the other.

dp-accounting describes mechanisms by events and knows three relations of neighbours. Its REPLACE_ONE is
pabi's "replace_one". Its REPLACE_SPECIAL, under which a record is replaced by a special one, is "zero_out" if
the special record contributes nothing, which is assumed. Its ADD_OR_REMOVE_ONE changes the number of records,
which no guarantee of pabi's allows: `PabiAccountant` accounts for it, `from_event` refuses it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NoReturn

from pabi.describe.accounted import Adjacency, changed, checked_adjacency
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.rounding import fraction_down, fraction_up
from pabi.tradeoff import (
    ApproxDP,
    Best,
    FixedSizeSubsampled,
    Gaussian,
    Laplace,
    PoissonReplaced,
    PoissonSubsampled,
    PrivacyLossDistribution,
    Product,
    Subsampled,
    TradeOff,
    discrete_laplace,
    randomised_response,
    selected,
)
from pabi.tradeoff.grouped import Selected
from pabi.tradeoff.guarantee import Guarantee, require_unlimited
from pabi.tradeoff.kinds import known_curve

# The trade-off functions of dp-accounting's events, each proven, or refused by name (docs, "Theory", 20).
#
# A table maps the exact type of an event to its function. Sums have values of norm at most 1: one record
# more, or a record that becomes special and contributes nothing, moves them by 1, and a record that is
# replaced moves them by 2.


dp: Any = extra("dp_accounting", "dp-accounting")
events: Any = dp.dp_event

Rule = Callable[[Any, Any], TradeOff]
"""(event, relation) ↦ the trade-off function of one application."""

ADD_OR_REMOVE_ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL


class UnsupportedEvent(InvalidInput):
    """An event, or a part of one, for which pabi has no proof.

    Attributes
    ----------
    event : DpEvent
        The part that is refused.
    reason : str
        Why, in one sentence.
    """

    def __init__(self, event: Any, reason: str) -> None:
        super().__init__("event", f"{type(event).__name__}: {reason}")
        self.event, self.reason = event, reason

    def __reduce__(self) -> tuple[type[UnsupportedEvent], tuple[Any, str]]:
        """For pools of workers, which pass errors on by pickling them."""
        return type(self), (self.event, self.reason)


def curve_of(event: Any, relation: Any) -> TradeOff:
    """The trade-off function of an event between data sets of this relation, for both orders of them."""
    if type(event) not in _RULES:
        raise UnsupportedEvent(event, _REFUSED.get(type(event), "there is no proof for it"))
    try:
        return _RULES[type(event)](event, relation)
    except UnsupportedEvent:
        raise
    except InvalidInput as bad:
        raise UnsupportedEvent(event, str(bad)) from None


def composed(factors: Iterable[tuple[TradeOff, int]]) -> TradeOff:
    """The product of f^⊗k for all (f, k), in closed form where there is one. None at all reveal nothing."""
    product = Product(factors)
    (curve, count), *others = product.factors
    bare = product.failure == product.rounding == 0.0
    return curve if count == 1 and not others and bare else product


def _moved(relation: Any) -> int:
    """By how much a sum of values of norm at most 1 differs between neighbours."""
    return 2 if relation is REPLACE_ONE else 1


def _require(event: Any, relation: Any, *relations: Any) -> None:
    """UnsupportedEvent unless the relation is one of these."""
    if relation not in relations:
        names = " or ".join(one.name for one in relations)
        raise UnsupportedEvent(event, f"expected {names}, got {relation.name}")


def _over(moved: float, noise: Any) -> float:
    """`moved` over a noise multiplier ≥ 0, rounded up; ∞ where there is no noise."""
    scale = validate.number("noise_multiplier", noise, at_least=0.0)
    return fraction_up(Fraction(moved) / Fraction(scale)) if scale else math.inf


def _times(event: Any, relation: Any) -> TradeOff:
    curve = curve_of(event.event, relation)
    return composed(((curve, validate.integer("count", event.count, at_least=1)),))


def _laplace_of(event: Any, moved: int, p: float) -> TradeOff:
    epsilon = _over(moved, event.noise_multiplier)
    return Laplace(epsilon, p) if epsilon < math.inf else PoissonSubsampled(math.inf, p)


def _discrete_laplace(event: Any, relation: Any) -> TradeOff:
    if event.noise_parameter == 0:
        return Gaussian(math.inf)
    steps = validate.integer("sensitivity", event.sensitivity, at_least=0)
    return discrete_laplace(event.noise_parameter, _moved(relation) * steps)


def _randomised_response(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    return randomised_response(
        event.noise_parameter, event.num_buckets, blank=relation is REPLACE_SPECIAL
    )


def _poisson(event: Any, relation: Any) -> TradeOff:
    p, inner = (
        validate.number(
            "sampling_probability", event.sampling_probability, at_least=0.0, at_most=1.0
        ),
        event.event,
    )
    if type(inner) is events.NonPrivateDpEvent:
        return Gaussian(math.inf)
    if type(inner) is events.LaplaceDpEvent:
        _require(event, relation, ADD_OR_REMOVE_ONE, REPLACE_SPECIAL)
        return _laplace_of(inner, 1, p)
    mu = _mu_of(event, inner, ADD_OR_REMOVE_ONE)
    return PoissonReplaced(mu, p) if relation is REPLACE_ONE else PoissonSubsampled(mu, p)


def _fixed_size(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    n = validate.integer("source_dataset_size", event.source_dataset_size, at_least=1)
    size = validate.integer("sample_size", event.sample_size, at_least=0, at_most=n)
    if type(event.event) is events.NonPrivateDpEvent:
        return Gaussian(math.inf)
    mu, p = _mu_of(event, event.event, relation), fraction_up(Fraction(size, n))
    if relation is REPLACE_ONE or size == n or mu == 0.0:
        return Subsampled(Gaussian(mu), p)
    # Another record makes room for the one in question, and stays where that is special.
    return FixedSizeSubsampled(2.0 * mu, other=mu, apart=mu, probability=p)


def _mu_of(event: Any, inner: Any, relation: Any) -> float:
    """μ of an event on a batch, which is made of Gaussian ones alone. UnsupportedEvent otherwise."""
    if not _is_gaussian(inner):
        raise UnsupportedEvent(
            event, f"batches are proven for Gaussian events, got {type(inner).__name__} on a batch"
        )
    curve = curve_of(inner, relation)
    assert isinstance(curve, Gaussian)
    return curve.mu


def _is_gaussian(event: Any) -> bool:
    if type(event) is events.ComposedDpEvent:
        return all(map(_is_gaussian, event.events))
    if type(event) is events.SelfComposedDpEvent:
        return _is_gaussian(event.event)
    return type(event) in (events.GaussianDpEvent, events.NoOpDpEvent)


def _tree(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, REPLACE_ONE, REPLACE_SPECIAL)
    counts = (
        event.step_counts if isinstance(event.step_counts, list | tuple) else (event.step_counts,)
    )
    steps = [validate.integer("step_counts", count, at_least=1) for count in counts]
    require(steps, "step_counts", "expected at least one")
    # A leaf lies in one node of every level.
    levels = max(steps).bit_length()
    return composed(((Gaussian(_over(_moved(relation), event.noise_multiplier)), levels),))


def _mixture(event: Any, relation: Any) -> TradeOff:
    _require(event, relation, ADD_OR_REMOVE_ONE, REPLACE_SPECIAL)
    sizes = [validate.number("sensitivities", size, at_least=0.0) for size in event.sensitivities]
    shares = [
        Fraction(validate.number("sampling_probs", p, at_least=0.0)) for p in event.sampling_probs
    ]
    require(
        len(sizes) == len(shares) and not abs(sum(shares, Fraction(-1))) > Fraction(1, 10**9),
        "sampling_probs",
        "expected one for every sensitivity, with the sum 1",
    )
    moved = {size for size in sizes if size > 0.0}
    if len(moved) > 1:
        raise UnsupportedEvent(event, "several sensitivities other than 0 have no proof here")
    p = sum((share for size, share in zip(sizes, shares, strict=True) if size > 0.0), Fraction(0))
    noise = validate.number("standard_deviation", event.standard_deviation, at_least=0.0)
    return PoissonSubsampled(_over(max(moved, default=0.0), noise), min(1.0, fraction_up(p)))


_RULES: Mapping[type, Rule] = MappingProxyType(
    {
        events.NoOpDpEvent: lambda event, relation: Gaussian(0.0),
        events.NonPrivateDpEvent: lambda event, relation: Gaussian(math.inf),
        events.ComposedDpEvent: (
            lambda event, relation: composed((curve_of(part, relation), 1) for part in event.events)
        ),
        events.SelfComposedDpEvent: _times,
        events.GaussianDpEvent: (
            lambda event, relation: Gaussian(_over(_moved(relation), event.noise_multiplier))
        ),
        events.LaplaceDpEvent: lambda event, relation: _laplace_of(event, _moved(relation), 1.0),
        events.DiscreteLaplaceDpEvent: _discrete_laplace,
        events.RandomizedResponseDpEvent: _randomised_response,
        events.PoissonSampledDpEvent: _poisson,
        events.SampledWithoutReplacementDpEvent: _fixed_size,
        events.SingleEpochTreeAggregationDpEvent: _tree,
        events.MixtureOfGaussiansDpEvent: _mixture,
        events.RepeatAndSelectDpEvent: (
            lambda event, relation: selected(
                curve_of(event.event, relation), event.mean, event.shape
            )
        ),
    }
)

_REFUSED: Mapping[type, str] = MappingProxyType(
    {
        events.UnsupportedDpEvent: "it says that nothing is known",
        events.SampledWithReplacementDpEvent: (
            "a batch may hold the record several times, and what it displaces then has no proof here"
        ),
        events.ZCDpEvent: "Rényi divergences alone determine no trade-off function",
        events.TruncatedSubsampledGaussianDpEvent: (
            "what a truncated batch displaces has no proof here; describe the run with "
            "pabi.Poisson(…, cap=…)"
        ),
    }
)

# Trade-off functions as privacy-loss distributions of dp-accounting: on its grid, from above.


_pld: Any = extra("dp_accounting.pld.privacy_loss_distribution", "dp-accounting")

_TAIL = 1e-15  # of the excess that may become infinite
_SUM = 1e-10  # relative: more than δ changes where masses and losses of a factor are rounded


def pld_of(curve: TradeOff, step: float, delta: float) -> Any:
    """The distribution of a curve, on multiples of `step`; of a best, that of its least part at `delta`."""
    match known_curve(curve):
        case Best(parts=parts):
            return pld_of(min(parts, key=lambda part: part.epsilon(delta)), step, delta)
        case Product(rounding=r) as computed if r > 0.0:
            return _of_one(Selected(computed, 1.0, 0.0), step)  # the function itself, on a grid
        case Product(factors=factors, failure=failure):
            total = _pld.identity(value_discretization_interval=step)
            for factor, count in factors:
                total = total.compose(pld_of(factor, step, delta).self_compose(count))
            return _failing(total, failure, step)
        case single:
            return _of_one(single, step)


def _of_one(curve: TradeOff, step: float) -> Any:
    """What a factor becomes: every loss spread over the points next to it, in both orders alike."""
    whole = PrivacyLossDistribution.pessimistic(curve, step, _TAIL)
    forward, infinity = _masses(whole.p, whole.q, step)
    backward, more = _masses(whole.q, whole.p, step)
    return _pld.PrivacyLossDistribution.create_from_rounded_probability(
        forward,
        infinity,
        step,
        rounded_probability_mass_function_add=backward,
        infinity_mass_add=more,
        symmetric=False,
    )


def _masses(
    p: tuple[float, ...], q: tuple[float, ...], step: float
) -> tuple[dict[int, float], float]:
    """(probability under p by the multiple of `step` that the loss is, that of the infinite loss)."""
    masses: dict[int, float] = {}
    for a, b in zip(p, q, strict=True):
        if a > 0.0 and b > 0.0:
            k = round((math.log(a) - math.log(b)) / step)
            masses[k] = masses.get(k, 0.0) + a * (1.0 + _SUM)
    infinity = math.fsum(a for a, b in zip(p, q, strict=True) if b == 0.0)
    return masses, infinity * (1.0 + _SUM)


def _failing(total: Any, failure: float, step: float) -> Any:
    """The same, with a probability of failure added to δ at every ε."""
    if failure == 0.0:
        return total
    # Composed, an infinite loss of probability f leaves the others only 1 - f of the δ that they had.
    left = 1.0 - min(total.get_delta_for_epsilon(math.inf), 1.0)
    share = min(1.0, failure / left * (1.0 + _SUM)) if left > 0.0 else 1.0
    certain = _pld.PrivacyLossDistribution.create_from_rounded_probability({0: 1.0}, share, step)
    return total.compose(certain)


__all__ = ["PabiAccountant", "UnsupportedEvent", "from_event", "to_event", "to_pld"]

_METHOD, _SOURCE = (
    "dp-accounting event",
    "dp-accounting; docs, Theory, 20 (Theorems 30, 32 and 32a)",
)
_SPECIAL = (
    "the special record in place of another contributes nothing to any sum, and a randomised response to it "
    "is uniformly random"
)
_MOST = 10**4  # events of a list
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
    validate.instance("event", event, events.DpEvent, "a dp_accounting.DpEvent")
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
        For any other function; `to_pld` takes it. For a guarantee that is for tests only.

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
        For an interval that needs more than 2²² cells, and a guarantee that is for tests only.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022; docs, "Theory", 20.
    """
    _adjacency_of(guarantee)
    step = validate.POSITIVE("value_discretization_interval", value_discretization_interval)
    return pld_of(guarantee.curve, step, guarantee.tuned_at or 1e-5)


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
        self._counts: Counter[TradeOff] = Counter()

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        try:
            curve = curve_of(event, self.neighboring_relation)
        except UnsupportedEvent as no:
            return self.CompositionErrorDetails(no.event, no.reason)
        if do_compose:
            self._counts[curve] += validate.integer("count", count, at_least=1)
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
            For a guarantee of other neighbours than the accountant's, of users or groups, of the records of
            one batch alone, or for tests only.
        TypeError
            For anything else.
        """
        if type(event) is not Guarantee:
            super().compose(event, count)
            return self
        require_unlimited("guarantee", event)
        adjacency = _adjacency(self.neighboring_relation)
        for name, own in (("adjacency", adjacency), ("unit", "record")):
            must_be(
                (its := getattr(event, name)) == own, name, f"{own!r} as the accountant has it", its
            )
        self._counts[event.curve] += validate.integer("count", count, at_least=1)
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
    require(
        _checked_relation(relation) is not ADD_OR_REMOVE_ONE,
        "neighboring_relation",
        "ADD_OR_REMOVE_ONE changes the number of records, which no guarantee of pabi's allows; expected "
        "REPLACE_SPECIAL, of a special record that contributes nothing, or REPLACE_ONE",
    )
    return "replace_one" if relation is REPLACE_ONE else "zero_out"


def _checked_relation(relation: Any) -> Any:
    must_be(
        relation in (ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL),
        "neighboring_relation",
        "a dp_accounting.NeighboringRelation",
        relation,
    )
    return relation


def _adjacency_of(value: Any) -> Adjacency:
    """That of a guarantee. Raises InvalidInput for anything else, for one of forgetting or for tests, and
    for one of the records of one batch alone."""
    validate.exactly("guarantee", value, Guarantee, "a pabi.Guarantee")
    require_unlimited("guarantee", value)
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
        case Product(factors=factors, failure=0.0, rounding=0.0):
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
    return events.SampledWithoutReplacementDpEvent(
        size.denominator, size.numerator, events.GaussianDpEvent(noise)
    )


def _answer(epsilon: float, adjacency: Adjacency) -> Any:
    """Pure privacy as the mechanism that it is: noise on one integer, or an answer of two."""
    if adjacency == "zero_out":
        return events.DiscreteLaplaceDpEvent(epsilon, 1)
    noise = 2.0 / (1.0 + math.exp(epsilon)) if epsilon < 700.0 else 0.0  # beyond doubles: none
    return events.RandomizedResponseDpEvent(math.nextafter(noise * (1.0 - 1e-15), 0.0), 2)


def _noise(moved: int, size: float) -> float:
    """The noise multiplier of a mechanism of this μ or ε, rounded down; 0 where that is infinite."""
    if math.isinf(size):
        return 0.0
    require(size != 0.0, "guarantee", "an event of no effect has no noise multiplier")
    return fraction_down(Fraction(moved) / Fraction(size))


def _repeated(event: Any, count: int) -> Any:
    if count == 1:
        return event
    if type(event) is events.RandomizedResponseDpEvent:
        # One by one: dp-accounting 0.6.0 counts a SelfComposedDpEvent of it once.
        require(
            count <= _MOST,
            "guarantee",
            f"expected at most {_MOST} answers, got {count}: use to_pld",
        )
        return events.ComposedDpEvent([event] * count)
    return events.SelfComposedDpEvent(event, count)

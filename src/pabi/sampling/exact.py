"""Exact draws from the density ∝ exp(−κL) on a ball or box, by rejection from a refined envelope."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.budget.ledger import Ledger
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.execute.hiding import GRID, Terms, on_grid, returned
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, require
from pabi.numbers.rounding import Array, fraction_down, fraction_up
from pabi.numbers.showing import plain
from pabi.sampling.chains import each_chain, repeated
from pabi.sampling.draws import ExactDraws, drawn
from pabi.sampling.envelopes import (
    ROUNDING,
    Envelope,
    LossBounds,
    LossValue,
    Region,
    read_region,
    rounding,
)
from pabi.sampling.envelopes import expected_evaluations as expected_of
from pabi.sampling.linear_models import MeanLoss

MOST_EVALUATIONS = 10_000_000
_FEWEST, _TOGETHER = 16, 4096  # proposals at once
# By how much the logarithm of the density may lie above its bound: four values off by ROUNDING make up the
# one and a tangent's error the other, twice over.
_TOLERANCE = 16.0 * ROUNDING

# Of the largest norm of a point of the set, above the roundings with which it was computed.
_NORM_MARGIN = 1 + Fraction(1, 10**12)

_FASTER = "changes faster than the gradient bound and curvature of the mechanism's loss allow"

LossCallable = Callable[..., ArrayLike]


def taken(mechanism: ExponentialMechanism | IteratedExponentialMechanism) -> str:
    """What a guarantee assumes of a loss that pabi did not make."""
    return (
        f"loss_value returns the mean loss of the {mechanism.n} records as described, regulariser included, "
        "at each point from that point alone"
    )


def slopes(lipschitz: float) -> str:
    """What a guarantee assumes of a loss whose Lipschitz constant is stated for the draw alone."""
    return (
        f"the mean loss changes by at most {lipschitz!r} a unit of distance, whatever the records"
    )


def gibbs_rejection(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    loss_value: LossCallable,
    domain: Any = None,
    random_state: int | np.random.Generator | None = None,
    *,
    draws: int = 1,
    lipschitz: float | None = None,
    most_evaluations: int = MOST_EVALUATIONS,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> ExactDraws:
    """Exact draws from the density of `mechanism`, with their guarantee.

    The set is covered by boxes, on each of which the loss's Lipschitz constant or its curvature bounds
    the density. Proposals from the bound are accepted with probability density/bound, and boxes with
    proposals that were refused are halved. However long that takes, the law of the result is the
    mechanism's (up to the rounding of doubles), and how long it took must not be shown: it depends on the
    data. What is released is rounded to a grid of 2⁻⁴⁰ of the set's width, so that low-order bits say
    nothing of the boxes.

    Parameters
    ----------
    mechanism : ExponentialMechanism or IteratedExponentialMechanism
        What to draw. Of an iterated mechanism every round is drawn, each on the part of the set near the
        draw before, and only the last draw is kept.
    loss_value : callable
        (k, p) ↦ (k,) float64: the mean loss with its regulariser at each point. A constant may be added, the
        same at all points; beside it a value may be off by 2⁻¹⁴/κ, κ the inverse temperature. What doubles
        keep is enough (see NotApplicable) unless that constant is huge. For an iterated mechanism with
        `split` it is called as loss_value(points, rows), the (m,) integers of the records whose mean it is.
        It must not keep or show what it is given. `mean_loss` makes one for linear models.
    domain : pabi.prox.ball or pabi.prox.box, optional
        The set, chosen without looking at the data. Default: the ball of the mechanism's diameter about 0.
    random_state : None, int or numpy Generator
        None (default): a ChaCha generator keyed by the operating system. Anything else is for tests: a
        PrivacyWarning, and a guarantee that says so.
    draws : int
        Independent draws; the guarantee is that of all of them, composed.
    lipschitz : float, optional
        A Lipschitz constant of the mean loss with its regulariser on `domain`, whatever the records, where
        the loss has no gradient bound; it is among the assumptions. Without one (largest curvature)·D is
        assumed, which holds where the loss has a stationary point in the set.
    most_evaluations : int
        Of the loss: a mechanism that is expected to need more is refused before the data is touched, and
        after as many boxes are halved no more.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    ExactDraws
        What was released, its guarantee, and `mechanism`.

    Raises
    ------
    InvalidInput
        `domain`, also where it is so narrow and so far from 0 that few doubles are left in it; `lipschitz`
        where nothing bounds the loss, or it changes by more than its default allows, or where it is below
        what the loss's gradient bound and regulariser allow; `n`, `l2` or `model`
        where a `mean_loss` is not the described one; or a `loss_value` of the wrong shape, not finite, so
        large that doubles cannot hold it to 2⁻¹⁴/κ, or that changes faster than the description says.
    NotApplicable
        It is expected to take more than `most_evaluations`, or 2⁻⁴⁴ of what the loss can change by on the
        set is more than 2⁻¹⁴/κ: public numbers alone say so.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, δ is large for n records, or the gradients of a `mean_loss` may be longer
        or steeper than described.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Algorithms 2 and 3; docs, "Sampling".
    """
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    return gibbs_rejection_on(
        terms, mechanism, loss_value, domain, draws, lipschitz, most_evaluations
    )


def expected_evaluations(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    domain: Any = None,
    *,
    lipschitz: float | None = None,
) -> float:
    """About how many evaluations of the loss an exact draw takes, from public numbers alone.

    `gibbs_rejection` refuses what is expected to take more than its `most_evaluations`, in any dimension.
    The estimate is for the worst data that the description allows; most take far fewer. It grows with the
    dimension p about as (D√(κM))^p, M the largest curvature.

    Parameters
    ----------
    mechanism : ExponentialMechanism or IteratedExponentialMechanism
        What would be drawn.
    domain : pabi.prox.ball or pabi.prox.box, optional
        The set, as for `gibbs_rejection`.
    lipschitz : float, optional
        As for `gibbs_rejection`.

    Returns
    -------
    float
        Evaluations for the first draw, of all rounds together; ∞ beyond the range of doubles.

    Raises
    ------
    InvalidInput
        As `gibbs_rejection` does of these arguments.

    References
    ----------
    docs, "Exact draws".
    """
    region, rounds, bounds = _read(mechanism, domain, lipschitz)
    return math.fsum(
        expected_of(part, one.diameter, one.kappa, bounds) for part, one in _parts(region, rounds)
    )


def _read(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    domain: Any,
    lipschitz: float | None,
) -> tuple[Region, list[_Round], LossBounds]:
    """(the set, the rounds, what is known of the loss) of checked arguments."""
    validate.instance(
        "mechanism",
        mechanism,
        (ExponentialMechanism, IteratedExponentialMechanism),
        "a pabi.ExponentialMechanism",
    )
    if lipschitz is not None:
        validate.number("lipschitz", lipschitz, above=0.0)
    rounds = _rounds(mechanism)
    region = read_region(domain, mechanism.dimension, rounds[0].diameter)
    return region, rounds, _loss_bounds(mechanism.loss, region, lipschitz)


def gibbs_rejection_on(
    terms: Terms,
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    loss_value: LossCallable,
    domain: Any,
    draws: int,
    lipschitz: float | None,
    most_evaluations: int,
) -> ExactDraws:
    """What `gibbs_rejection` returns, on these terms."""
    region, rounds, bounds = _read(mechanism, domain, lipschitz)
    validate.function("loss_value", loss_value)
    validate.integer("draws", draws, at_least=1)
    validate.integer("most_evaluations", most_evaluations, at_least=1)
    _refuse_long(region, rounds, bounds, most_evaluations)
    enforced = isinstance(loss_value, MeanLoss)
    if isinstance(loss_value, MeanLoss):
        loss_value.refuse_other(mechanism.loss, mechanism.n)
        enforced = loss_value.loss == mechanism.loss
        loss_value = loss_value.within(region.longest)
    proven = repeated(terms.guarantee_of(mechanism), draws)  # before the data is touched
    proven = proven if enforced else proven.assuming(taken(mechanism))
    if mechanism.loss.gradient_bound is None:  # one that changes faster is refused when it is met
        proven = proven.assuming(slopes(bounds.slope(rounds[0].diameter)))
    work = _Draws(region, rounds, loss_value, bounds, most_evaluations, draws)
    values, guarantee = terms.release(
        proven, lambda source: drawn(work, source, terms.machines)[None]
    )
    return ExactDraws(values, guarantee, mechanism)


class _Round(NamedTuple):
    """One exact draw: the diameter of its set, κ, how far from it the next round stays, its records."""

    diameter: float
    kappa: float
    radius: float
    rows: NDArray[np.intp] | None


@dataclass(frozen=True, eq=False, repr=False)
class _Draws:
    """Exact draws of one density, all but their randomness."""

    region: Region
    rounds: list[_Round]
    loss_value: LossCallable
    bounds: LossBounds
    most: int
    draws: int

    def __len__(self) -> int:
        return self.draws

    def part(self, some: range) -> Self:
        """So many of them."""
        return replace(self, draws=len(some))

    def values(self, generator: np.random.Generator) -> Array:
        """(draws, p) points."""
        parts = [self.draws] if len(self.rounds) == 1 else [1] * self.draws
        points = np.concatenate([self._drawn(part, generator) for part in parts])
        # Which doubles a box can yield depends on the box, and the boxes on the data.
        return _released(self.region, points)

    def _drawn(self, draws: int, generator: np.random.Generator) -> Array:
        """(draws, p) of the last round; `draws` is 1 where there are several. Locals are secret."""
        region = self.region
        for i, one in enumerate(self.rounds):
            points = self._accepted(region, one, draws, generator)
            if i + 1 < len(self.rounds):
                region = region.within(points[0], one.radius)
        return points

    def _accepted(
        self, region: Region, one: _Round, draws: int, generator: np.random.Generator
    ) -> Array:
        """(draws, p) independent draws from the density ∝ exp(−κL) on the region."""
        value = self._relative(region, one)
        envelope = Envelope(region, value, one.kappa, self.bounds)
        taken = np.empty((0, region.dimension))
        while len(taken) < draws:
            together = min(max(len(envelope), draws, _FEWEST), _TOGETHER)
            points, bound, boxes = envelope.propose(together, generator)
            level = np.log1p(-generator.random(together))
            accepted = region.holds(points)
            chance = np.full(together, -math.inf)
            chance[accepted] = -one.kappa * value(points[accepted]) - bound[accepted]
            require(not np.any(chance > _TOLERANCE), "loss_value", _FASTER)
            accepted = level <= chance
            taken = np.concatenate([taken, points[accepted]])
            # As in adaptive rejection sampling (Gilks and Wild 1992): what was refused says where the bound
            # is loose, and a bound that depends on refused proposals leaves the next draw exact.
            if 2 * np.count_nonzero(accepted) < together and envelope.evaluations < self.most:
                envelope.halve(np.unique(boxes[~accepted]))
        return taken[:draws]

    def _relative(self, region: Region, one: _Round) -> LossValue:
        """The loss less that at the set's centre: a constant in it does not count."""
        value, bounds = _in_parts(self.loss_value, one.rows), self.bounds
        reference = value(region.centre[None])
        # What the bounds allow, and rounding.
        diameter = self.rounds[0].diameter
        farthest = bounds.slope(diameter) * diameter + 2.0 * ROUNDING / one.kappa
        largest = ROUNDING / one.kappa * 2.0**53

        def difference(points: Array) -> Array:
            losses = value(points)
            require(
                not np.any(np.abs(losses) > largest),
                "loss_value",
                "so large that doubles do not show its changes",
            )
            change = losses - reference
            if np.any(np.abs(change) > farthest):
                if bounds.lipschitz is None:
                    raise InvalidInput(
                        "lipschitz", "missing: the loss changes faster than with its default"
                    )
                raise InvalidInput("loss_value", _FASTER)
            return change

        return difference


def _rounds(mechanism: ExponentialMechanism | IteratedExponentialMechanism) -> list[_Round]:
    if isinstance(mechanism, ExponentialMechanism):
        return [_Round(mechanism.diameter, mechanism.kappa, math.inf, None)]
    split, last = mechanism.split, len(mechanism.rounds) - 1
    rows: list[NDArray[np.intp] | None] = [None] * (last + 1)
    if split is not None:
        rows = [*[np.arange(split)] * last, np.arange(split, mechanism.n)]
    return [
        _Round(one.diameter, one.inverse_temperature, one.radius, part)
        for one, part in zip(mechanism.rounds, rows, strict=True)
    ]


def _loss_bounds(loss: Loss, region: Region, lipschitz: float | None) -> LossBounds:
    """What is known of the mean loss, regulariser included, rounded to the safe side."""
    l2, curvature = Fraction(loss.l2), None
    if loss.curvature is not None:
        low, high = map(Fraction, loss.curvature)
        curvature = fraction_down(low + l2), fraction_up(high + l2)
    if loss.gradient_bound is not None:
        longest = Fraction(region.longest) * _NORM_MARGIN
        bound = fraction_up(Fraction(loss.gradient_bound) + l2 * longest)
        if lipschitz is not None and lipschitz < bound:
            # An envelope below the density: a wrong law, or a refusal that some data alone meet.
            raise InvalidInput(
                "lipschitz",
                f"expected none, or at least {bound!r}, which the loss's gradient bound and regulariser "
                f"allow on the set, got {lipschitz!r}",
            )
        lipschitz = bound
    if lipschitz is None and curvature is None:
        raise InvalidInput("lipschitz", f"missing: nothing bounds a {loss.kind} loss's changes")
    return LossBounds(lipschitz, curvature)


def _parts(region: Region, rounds: list[_Round]) -> Iterator[tuple[Region, _Round]]:
    """Every round with its part of the set, the first on all of it and the others about its centre."""
    for i, one in enumerate(rounds):
        yield region if i == 0 else region.within(region.centre, rounds[i - 1].radius), one


def _refuse_long(region: Region, rounds: list[_Round], bounds: LossBounds, most: int) -> None:
    for part, one in _parts(region, rounds):
        if rounding(region, rounds[0].diameter, one.kappa, bounds) > ROUNDING:
            raise NotApplicable(
                f"exact sampling at inverse temperature {plain(one.kappa)}: what rounding does to the loss "
                "in double precision would show in the density; take a smaller set or a warmer one"
            )
        expected = expected_of(part, one.diameter, one.kappa, bounds)
        if expected > most:
            instead = "" if part.is_box else "take a box, whose sides cost nothing, or "
            raise NotApplicable(
                f"exact sampling in dimension {region.dimension} at inverse temperature {plain(one.kappa)} "
                f"is expected to take {plain(expected, 2)} evaluations of the loss, more than {most:,} "
                f"(most_evaluations); {instead}run a pabi.LangevinChain instead"
            )


def _released(region: Region, points: Array) -> Array:
    """(draws, p) points on the public grid, those that it moves out of the set moved back."""
    noise = region.grid / GRID
    columns = [on_grid(points[:, i], float(noise[i])) for i in range(region.dimension)]
    project = each_chain(region.base, (region.dimension,))
    return project(np.stack(columns, axis=1), 1.0)


def _in_parts(loss_value: LossCallable, rows: NDArray[np.intp] | None) -> LossValue:
    """`loss_value` for any number of points, checked."""

    def part(points: Array) -> Array:
        points.flags.writeable = False
        values = loss_value(points) if rows is None else loss_value(points, rows.copy())
        return returned("loss_value", values, (len(points),), short=False)

    def value(points: Array) -> Array:
        parts = [part(points[i : i + _TOGETHER].copy()) for i in range(0, len(points), _TOGETHER)]
        return np.concatenate(parts) if parts else np.zeros(0)

    return value

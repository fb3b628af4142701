"""Secret place: what the noise hides of a record that is in one batch or another, and nobody knows which.

Where all other records are does not depend on where the record is (balls in bins). So the run without the
record is the same whatever its place j, and each place moves that run by shifts of its own, of size m_j.
Nobody sees j: what is released reveals no more than one number moved by m_j with probability w_j, which is
compared with the number as it is (zero_out), or with one that another record moves the other way
(replace_one). `secret_order` has j in sight (docs, "Theory", 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from pabi.analyses.secret_order import secret_run, solved_once
from pabi.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.analyses.writing import RunProof, but_for, promised
from pabi.describe.iteration import NoisyIteration
from pabi.describe.orders import FAILING, FixedSizes, RandomSizes, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import OrderedView
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_up
from pabi.tradeoff import SecretMixture
from pabi.tradeoff.secret_mixture import LARGEST_MEAN

NAME = "secret place"
SOURCE = (
    "Bok, Su, Altschuler 2024, Thm C.3, with optimal shifts, by a label that stays secret (docs, Secret "
    "places)"
)

_MOST_PLACES = 48  # of the mixture; more are rounded to larger means


def apply(
    description: NoisySGD | NoisyIteration, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the last iterate when the record's place moves no other record."""
    run, order = secret_run(description)
    _require_independent_places(run, order)
    # What one record moves by itself is what it moves if its neighbour is zero.
    view = OrderedView(replace(run, adjacency="zero_out"), FAILING * (delta or DEFAULT_DELTA))
    solved = solved_once(view, order)
    places = _merged([(record.mu, case.weight) for record, case in solved])
    if places[-1][0] > LARGEST_MEAN:
        raise NotApplicable("the record moves the model by so much that its place is seen")
    means, weights = zip(*((mean, fraction_up(weight)) for mean, weight in places), strict=True)
    mixture = SecretMixture(means, weights, opposite=run.adjacency == "replace_one")
    curve, cap = but_for(mixture, view.fractions), view.fractions.random_cap
    return promised(RunProof(NAME, run, curve, solved, cap=cap, view=view), SOURCE)


def _require_independent_places(run: NoisySGD, order: SecretOrder) -> None:
    """NotApplicable unless all other records are where they are whatever the place of this one."""
    match order.sizes:
        case FixedSizes():
            raise NotApplicable(
                "a record takes the place of another, whose batch tells something about its own"
            )
        case RandomSizes(cap=cap):
            if cap is not None:
                raise NotApplicable("the record's place can bring a batch above the cap")
        case _:
            assert_never(order.sizes)
    if run.adjacency == "replace_one" and run.gradient_sensitivity is not None:
        raise NotApplicable(
            "the stated sensitivity says how far two records are apart, not what one of them moves"
        )


def _merged(places: Sequence[tuple[float, Fraction]]) -> list[tuple[float, Fraction]]:
    """(m_j, w_j) in increasing order; where they are many, the lower half in ranges, each at its largest."""
    ordered = sorted(places)
    single = max(0, len(ordered) - _MOST_PLACES // 2)
    if len(ordered) <= _MOST_PLACES:
        return ordered
    count = _MOST_PLACES // 2
    merged = []
    for i in range(count):
        part = ordered[i * single // count : (i + 1) * single // count]
        merged.append((part[-1][0], sum((w for _, w in part), Fraction(0))))
    return [*merged, *ordered[single:]]

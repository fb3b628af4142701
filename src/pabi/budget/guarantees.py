"""What all releases of a ledger cost together: its budget, with a proof (docs, "Theory", 16)."""

from __future__ import annotations

from typing import assert_never

from pabi.budget.filters import GaussianFilter, RenyiFilter
from pabi.budget.lines import Book
from pabi.guarantees.adaptive import (
    ENTERED,
    AdaptivelyComposed,
    AdaptivelyComposedDivergences,
    refusing_above,
    refusing_divergences_above,
)
from pabi.guarantees.guarantee import INDEPENDENT, Guarantee
from pabi.guarantees.proof import Proof
from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import Gaussian, RenyiDP, TradeOff

NAME = "adaptive composition"
SOURCE = "Smith, Thakurta 2022; docs, Theory, 16"
NAME_RENYI = "adaptive composition of divergences"
SOURCE_RENYI = "Feldman, Zrnic 2021; docs, Theory, 16"


def guarantee_of(book: Book) -> Guarantee:
    """The budget of a ledger as the guarantee of all its releases, those that are still to come included.

    Raises InvalidInput without any entry.
    """
    if not book.granted:
        raise InvalidInput("ledger", "expected an entry: without any there is no adjacency")
    parts = [Guarantee.from_dict(line.guarantee) for line in book.granted]
    curve: TradeOff
    proof: Proof
    match book.opening.filter:
        case GaussianFilter(mu=mu):
            curve, bound, title = Gaussian(mu), refusing_above(mu), (NAME, SOURCE)
            proof = AdaptivelyComposed(parts, mu)
        case RenyiFilter(order=order, rho=rho):
            curve, title = RenyiDP(order, rho), (NAME_RENYI, SOURCE_RENYI)
            bound = refusing_divergences_above(order, rho)
            proof = AdaptivelyComposedDivergences(parts, order, rho)
        case _:
            assert_never(book.opening.filter)
    sentences = [sentence for part in parts for sentence in part.assumptions]
    whole = Guarantee(
        curve,
        parts[0].adjacency,
        *title,
        tuple(dict.fromkeys((*sentences, INDEPENDENT, ENTERED, bound))),
        book.opening.delta,
        unit=parts[0].unit,
        besides=tuple(dict.fromkeys(s for part in parts for s in part.besides)),
        proof=proof,
    )
    return whole.for_testing() if any(line.testing for line in book.granted) else whole

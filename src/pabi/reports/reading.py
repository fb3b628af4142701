"""The guarantee that stands in a file, once the checker was asked."""

from __future__ import annotations

from typing import Any

from pabi.describe.neighbours import checked_adjacency
from pabi.guarantees.certificate import Certificate
from pabi.guarantees.guarantee import FORMAT, Guarantee
from pabi.numbers.encoding import parse_json
from pabi.tradeoff import TradeOff
from pabi.verification import Verdict
from pabi.verification.bounds import best_curve


def stated_in(text: str, verdict: Verdict) -> Guarantee | None:
    """The guarantee of a guarantee's or certificate's text, on which there is a verdict.

    None where its proof is refused. What has no proof is returned as it states itself.
    """
    data = parse_json(text)
    stands_alone = data["format"] != FORMAT
    if not verdict.ok and (stands_alone or data.get("certificate") is not None):
        return None
    return _of_certificate(data, verdict) if stands_alone else Guarantee.from_dict(data)


def _of_certificate(payload: dict[str, Any], verdict: Verdict) -> Guarantee:
    """The guarantee that an accepted certificate proves."""
    method, source = verdict.names[0]
    return Guarantee(
        TradeOff.from_dict(best_curve(verdict.bounds)),
        checked_adjacency(verdict.adjacency),
        method,
        source,
        verdict.assumptions,
        None if verdict.reading is None else verdict.reading[1],
        proof=Certificate.from_dict(payload),
    )

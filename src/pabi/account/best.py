"""The best guarantee: every analysis of a description is asked, and the least answer counts."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from pabi.analyses import EVERY_ITERATE, analyses_of
from pabi.describe.files import Description, understood
from pabi.guarantees.guarantee import Guarantee, least
from pabi.numbers import validate
from pabi.numbers.errors import NotApplicable

# Nothing but the names of analyses and of classes of descriptions, and times: see docs, "Logging".
_LOGGER = logging.getLogger("pabi")


@dataclass(frozen=True)
class Outcome:
    """What one analysis said: a guarantee, or the reason why it does not apply."""

    name: str
    guarantee: Guarantee | None
    reason: str | None


def outcomes(description: Description, delta: float, position: int | None = None) -> list[Outcome]:
    """What every analysis says of a description."""
    validate.number("delta", delta, at_least=0.0, below=1.0)
    understood(description)
    found = []
    for analysis in analyses_of(description):
        started = perf_counter()
        try:
            # What overflows becomes ∞ and what is undefined NaN; the solvers treat both as no bound.
            with np.errstate(all="ignore"):
                guarantee = analysis.apply(description, delta, position)
            found.append(Outcome(analysis.name, guarantee, None))
        except NotApplicable as no:
            found.append(Outcome(analysis.name, None, no.reason))
        _LOGGER.debug(
            "%s of %s: %s (%.3f s)",
            analysis.name,
            type(description).__name__,
            "does not apply" if found[-1].guarantee is None else "applies",
            perf_counter() - started,
        )
    return found


def best_of(found: list[Outcome], delta: float) -> Guarantee:
    """The least of them at `delta`; NotApplicable when no analysis applies."""
    proven = [o.guarantee for o in found if o.guarantee is not None]
    if not proven:
        reasons = "; ".join(f"{o.name}: {o.reason}" for o in found)
        raise NotApplicable(f"no analysis covers this description ({reasons})")
    # At δ = 0 every Gaussian guarantee reads ε = ∞; compare where they differ.
    # Of equals the first, composition, assumes least.
    best = least(proven, delta if delta > 0.0 else 1e-10)
    every_iterate = next((o.guarantee for o in found if o.name in EVERY_ITERATE), None)
    return replace(best, tuned_at=delta, composition=every_iterate.curve if every_iterate else None)


def best_guarantee(
    description: Description, delta: float, position: int | None = None
) -> Guarantee:
    """The best sound analysis, chosen at `delta`."""
    return best_of(outcomes(description, delta, position), delta)

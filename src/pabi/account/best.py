"""The best guarantee: every analysis of a description is asked, and the least answer counts."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from pabi.analyses import EVERY_ITERATE, analyses_of
from pabi.analyses.tuning import DEFAULT_DELTA
from pabi.describe.files import Description, understood
from pabi.guarantees.guarantee import Guarantee, least
from pabi.numbers import validate
from pabi.numbers.errors import NotApplicable
from pabi.numbers.waiting import tick, waiting

# Nothing but the names of analyses and of classes of descriptions, and times: see docs, "Logging".
_LOGGER = logging.getLogger("pabi")


@dataclass(frozen=True)
class Outcome:
    """The answer of one analysis: a guarantee, or the reason why it does not apply."""

    name: str
    guarantee: Guarantee | None
    reason: str | None


def outcomes(
    description: Description, delta: float, position: int | None = None, only: str | None = None
) -> list[Outcome]:
    """The answer of every analysis of a description at `delta` in [0, 1), or of that one named `only`. Raises
    InvalidInput for a δ out of range and for what is no description of pabi's."""
    validate.number("delta", delta, at_least=0.0, below=1.0)
    understood(description)
    answers = []
    for analysis in analyses_of(description):
        if only not in (None, analysis.name):
            continue
        started = perf_counter()
        tick()
        try:
            # What overflows becomes ∞ and what is undefined NaN; the solvers treat both as no bound.
            with np.errstate(all="ignore"):
                guarantee = analysis.apply(description, delta, position)
            answers.append(Outcome(analysis.name, guarantee, None))
        except NotApplicable as no:
            answers.append(Outcome(analysis.name, None, no.reason))
        _LOGGER.debug(
            "%s of %s: %s (%.3f s)",
            analysis.name,
            type(description).__name__,
            "does not apply" if answers[-1].guarantee is None else "applies",
            perf_counter() - started,
        )
    return answers


def best_of(answers: list[Outcome], delta: float) -> Guarantee:
    """The guarantee of least ε at `delta` among all answers; NotApplicable when no analysis applies."""
    proven = [o.guarantee for o in answers if o.guarantee is not None]
    if not proven:
        reasons = "; ".join(f"{o.name}: {o.reason}" for o in answers)
        raise NotApplicable(f"no analysis covers this description ({reasons})")
    # At δ = 0 every Gaussian guarantee reads ε = ∞: if all do, compare where they differ.
    # Of equals the first in the table: of runs composition, which assumes least.
    differ = delta > 0.0 or any(math.isfinite(g.epsilon(0.0)) for g in proven)
    best = least(proven, delta if differ else DEFAULT_DELTA)
    every_iterate = next((o.guarantee for o in answers if o.name in EVERY_ITERATE), None)
    return replace(best, tuned_at=delta, composition=every_iterate.curve if every_iterate else None)


def best_guarantee(
    description: Description, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the analysis that proves the least ε at `delta`. Raises NotApplicable where none
    applies, and InvalidInput as `outcomes` does."""
    with waiting("accounting"):
        return best_of(outcomes(description, delta, position), delta)

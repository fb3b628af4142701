"""One proof technique a file, each a pure function from a description to a guarantee.

An analysis raises NotApplicable, with the reason, where it does not cover a description. To add one,
add a file and a line to `ANALYSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from pabi import validate
from pabi.analyses import (
    composition,
    diffusion,
    exponential,
    latest_uses,
    nonlinear_one_sided,
    nonlinear_shifts,
    one_sided_shift,
    secret_order,
    shifted_interpolation,
    two_sided_shift,
)
from pabi.analyses.langevin_chain import of_chain
from pabi.description import Description, kind_of, understood
from pabi.errors import NotApplicable
from pabi.guarantee import Guarantee, least
from pabi.iteration import NoisyIteration
from pabi.langevin import LangevinChain, LangevinDiffusion
from pabi.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.runs import NoisySGD


@dataclass(frozen=True)
class Analysis:
    """A named proof technique; `apply(description, delta, position)` returns its guarantee."""

    name: str
    apply: Callable[[Any, float, int | None], Guarantee]


# Of noisy SGD and bare iterations; those of a Langevin chain are the same, of one chain.
ANALYSES = (
    Analysis("composition", composition.apply),
    Analysis("shifted interpolation", shifted_interpolation.apply),
    Analysis("secret order", secret_order.apply),
    Analysis("latest uses", latest_uses.apply),
    Analysis("nonlinear shifts", nonlinear_shifts.apply),
    Analysis("one-sided shift", one_sided_shift.apply),
    Analysis("two-sided shift", two_sided_shift.apply),
    Analysis("nonlinear one-sided shift", nonlinear_one_sided.apply),
)
DIFFUSION = (
    Analysis(diffusion.PATH, diffusion.path),
    Analysis(diffusion.LAST, diffusion.last_point),
)
# The best of both comes first: where they agree at the δ asked for, it is better at others.
MECHANISM = (
    Analysis(exponential.BOTH, exponential.both),
    Analysis(exponential.RANGE, exponential.bounded_range),
    Analysis(exponential.GIBBS, exponential.gibbs),
)
_EVERY_ITERATE = ("composition", diffusion.PATH)
THEOREMS = frozenset({*(a.name for a in (*ANALYSES, *DIFFUSION, *MECHANISM)), "composed"})
"""What may be proven: the name of each analysis, and that releases compose."""


def _chain(
    analysis: Analysis, chain: LangevinChain, delta: float, position: int | None
) -> Guarantee:
    return of_chain(chain, analysis.apply, delta)


_OF: Mapping[type[Description], tuple[Analysis, ...]] = MappingProxyType(
    {
        NoisySGD: ANALYSES,
        NoisyIteration: ANALYSES,
        LangevinChain: tuple(replace(a, apply=partial(_chain, a)) for a in ANALYSES),
        LangevinDiffusion: DIFFUSION,
        ExponentialMechanism: MECHANISM,
        IteratedExponentialMechanism: MECHANISM,
    }
)


def analyses_of(description: Description) -> tuple[Analysis, ...]:
    """The analyses of a description of this kind. Raises InvalidInput for any other."""
    kind_of(description)
    return _OF[type(description)]


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
        try:
            # What overflows becomes ∞ and what is undefined NaN; the solvers treat both as no bound.
            with np.errstate(all="ignore"):
                guarantee = analysis.apply(description, delta, position)
            found.append(Outcome(analysis.name, guarantee, None))
        except NotApplicable as no:
            found.append(Outcome(analysis.name, None, no.reason))
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
    every_iterate = next((o.guarantee for o in found if o.name in _EVERY_ITERATE), None)
    return replace(best, tuned_at=delta, composition=every_iterate.curve if every_iterate else None)


def best_guarantee(
    description: Description, delta: float, position: int | None = None
) -> Guarantee:
    """The best sound analysis, chosen at `delta`."""
    return best_of(outcomes(description, delta, position), delta)

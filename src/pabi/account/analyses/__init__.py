"""One family of proofs a file, each a pure function from a description to what it proposes.

An analysis raises NotApplicable, with the reason, where it does not cover a description. To add one, add a
file and a line to the table of what it covers: `RUNS`, `DIFFUSION`, `MECHANISM`, `MOMENTS`, `COLUMNS`,
`ACCURACY` or `FORGETTING`. Other functions help: `writing` has the forms of proofs, and
`mechanisms.of_chain` takes the analyses of runs to chains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from pabi.account.analyses import (
    advance,
    composition,
    joint,
    mechanisms,
    nonlinear_shifts,
    random_batches,
    secret_order,
    secret_steps,
    shifted_interpolation,
    unlearning,
)
from pabi.account.analyses.mechanisms import of_chain
from pabi.describe.files import Description, kind_of
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.unlearning import Unlearning
from pabi.numbers.errors import NotApplicable
from pabi.verification.granting import Proposal


@dataclass(frozen=True)
class Analysis:
    """A named proof technique; `apply(description, delta, position)` returns its proposal."""

    name: str
    apply: Callable[[Any, float, int | None], Proposal]


# Of noisy SGD; those of a Langevin chain are the same, of one chain, and some say something of iterations.
RUNS = (
    Analysis("composition", composition.apply),
    Analysis(secret_steps.NAME, secret_steps.apply),
    Analysis(secret_steps.GROUPS, secret_steps.groups),
    Analysis("shifted interpolation", shifted_interpolation.apply),
    Analysis("secret order", secret_order.apply),
    Analysis("secret place", secret_order.secret_place),
    Analysis(joint.NAME, joint.apply),
    Analysis("latest uses", secret_order.latest_uses),
    Analysis("epoch by epoch", secret_order.epoch_by_epoch),
    Analysis(advance.NAME, advance.apply),  # after those that assume no label
    Analysis("nonlinear shifts", nonlinear_shifts.apply),
    Analysis("one-sided shift", random_batches.apply),
    Analysis("two-sided shift", random_batches.two_sided_shift),
    Analysis("nonlinear one-sided shift", nonlinear_shifts.nonlinear_one_sided),
)
DIFFUSION = (
    Analysis(mechanisms.PATH, mechanisms.path),
    Analysis(mechanisms.LAST, mechanisms.last_point),
)
# The best of both comes first: where they agree at the δ asked for, it is better at others.
MECHANISM = (
    Analysis(mechanisms.BOTH, mechanisms.both),
    Analysis(mechanisms.RANGE, mechanisms.bounded_range),
    Analysis(mechanisms.GIBBS, mechanisms.gibbs),
)
MOMENTS = (Analysis(mechanisms.GAUSSIAN, mechanisms.of_moments),)
ACCURACY = (Analysis(mechanisms.GAUSSIAN, mechanisms.of_accuracy),)
COLUMNS = (Analysis(mechanisms.COLUMNS, mechanisms.column_statistics),)
FORGETTING = (
    Analysis(unlearning.COMPOSED, unlearning.composed),
    Analysis(unlearning.SHIFTS, unlearning.shifts),
    Analysis(unlearning.NONLINEAR, unlearning.any_modulus),
    Analysis(unlearning.RANDOM, unlearning.random_batches),
)
EVERY_ITERATE = (composition.NAME, mechanisms.PATH, unlearning.COMPOSED)  # those which hide nothing


_OF_ITERATIONS = {
    composition.NAME: composition.of_iteration,
    shifted_interpolation.NAME: shifted_interpolation.of_iteration,
    nonlinear_shifts.NAME: nonlinear_shifts.of_iteration,
}


def _of_run(iteration: NoisyIteration, delta: float, position: int | None) -> Proposal:
    raise NotApplicable("a bare iteration follows one record")


_OF: Mapping[type[Description], tuple[Analysis, ...]] = MappingProxyType(
    {
        NoisySGD: RUNS,
        NoisyIteration: tuple(replace(a, apply=_OF_ITERATIONS.get(a.name, _of_run)) for a in RUNS),
        LangevinChain: tuple(replace(a, apply=partial(of_chain, a.apply)) for a in RUNS),
        LangevinDiffusion: DIFFUSION,
        ExponentialMechanism: MECHANISM,
        IteratedExponentialMechanism: MECHANISM,
        NoisySecondMoments: MOMENTS,
        NoisyAccuracy: ACCURACY,
        NoisyColumnStatistics: COLUMNS,
        Unlearning: FORGETTING,
    }
)


def analyses_of(description: Description) -> tuple[Analysis, ...]:
    """The analyses of a description of this kind. Raises InvalidInput for any other."""
    kind_of(description)
    return _OF[type(description)]

"""Which published bounds cover a Langevin chain, a diffusion or an exponential mechanism."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.literature import bok, covering_runs, langevin_universality, mcsherry_talwar
from pabi.literature.published import (
    CandidateBound,
    Evaluate,
    Reading,
    Terms,
    covers,
    needs,
    require,
)


def _strong_convexity(
    description: LangevinChain | LangevinDiffusion | ExponentialMechanism,
) -> float:
    require(description.loss.kind != "saddle", "potentials, not convex–concave functions")
    lo = description.loss.least_curvature
    m = 0.0 if lo is None else lo + description.loss.l2
    require(m > 0.0, "strongly convex losses")
    return m


# Chains: one of them is a run of noisy SGD.


def _of_run(evaluate: Evaluate) -> Evaluate:
    def of_chain(chain: LangevinChain, delta: float) -> Reading:
        require(chain.chains == 1, "a single chain")
        return evaluate(chain.run, delta)

    return of_chain


def _small_steps(chain: LangevinChain) -> None:
    require(chain.chains == 1 and chain.release == "last", "the last iterate of a single chain")
    require(chain.batches.kind == "full_batch", "full batches")
    m, curvature = _strong_convexity(chain), chain.loss.curvature
    require(curvature is not None, "smooth losses")
    assert curvature is not None
    big = curvature[1] + chain.loss.l2
    require(chain.gradient_step * (m + big) <= 2.0, "η ≤ 2/(M + m)")


_CHAIN: Terms = {
    "L": lambda chain: chain.inverse_temperature * chain.gap,
    "strong_convexity": lambda chain: chain.inverse_temperature * _strong_convexity(chain),
    "step_size": attrgetter("step_size"),
}
CHAINS = (
    *(CandidateBound(c.bound, _of_run(c.evaluate)) for c in covering_runs.CANDIDATES),
    covers(bok.proposition_5_1, _CHAIN, _small_steps),
)

# Diffusions.


def _squared_integral(diffusion: LangevinDiffusion) -> float:
    """∫β² dt, at most."""
    largest = diffusion.cells[1]
    return float(np.mean(largest * largest)) * diffusion.time


_HIDDEN = needs("a hidden path", lambda diffusion: diffusion.release == "last")
_CONSTANT = needs("a constant temperature", lambda diffusion: diffusion.constant)
_PATH: Terms = {
    "gradient_gap": attrgetter("gap"),
    "time": attrgetter("time"),
    "squared_integral": _squared_integral,
}
_LAST_POINT: Terms = {
    **_PATH,
    "m": _strong_convexity,
    "inverse_temperature": attrgetter("inverse_temperature"),
}
DIFFUSIONS = (
    covers(langevin_universality.lemma_c_1, _PATH),
    covers(langevin_universality.lemma_i_2, _LAST_POINT, _HIDDEN, _CONSTANT),
)

# Exponential mechanisms: F = κL.


_CONVEX = needs(
    "convex losses",
    lambda mechanism: mechanism.least_curvature is not None and mechanism.least_curvature >= 0.0,
)
_DIFFERENCE: Terms = {
    "L": lambda mechanism: mechanism.kappa * mechanism.gap,
    "strong_convexity": lambda mechanism: mechanism.kappa * _strong_convexity(mechanism),
}
# L = κΔ/2 for F and F' that are both L-Lipschitz; only ‖∇F − ∇F'‖ ≤ 2L matters.
_BOTH: Terms = {
    "L": lambda mechanism: 0.5 * mechanism.kappa * mechanism.gap,
    "diameter": attrgetter("diameter"),
}
MECHANISMS = (
    covers(mcsherry_talwar.exponential_mechanism, _BOTH),
    covers(bok.corollary_5_2, _DIFFERENCE),
    covers(bok.corollary_5_4, _BOTH, _CONVEX),
)

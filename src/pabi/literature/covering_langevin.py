"""Which published bounds cover a Langevin chain, a diffusion or an exponential mechanism."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.literature import bok, covering_runs, langevin_universality, mcsherry_talwar
from pabi.literature.published import Published, require
from pabi.literature.reading import Candidate, Evaluate, Reading, read
from pabi.numbers.errors import NotApplicable


def _strong_convexity(
    description: LangevinChain | LangevinDiffusion | ExponentialMechanism,
) -> float:
    require(description.loss.kind != "saddle", "potentials, not convex–concave functions")
    lo = description.loss.least_curvature
    m = 0.0 if lo is None else lo + description.loss.l2
    require(m > 0.0, "strongly convex losses")
    return m


# Chains: one of them is a run of noisy SGD.


def _of_run(evaluate: Callable[[NoisySGD, float], Reading]) -> Evaluate:
    def of_chain(chain: LangevinChain, delta: float) -> Reading:
        require(chain.chains == 1, "a single chain")
        return evaluate(chain.run, delta)

    return of_chain


def _bok_5_1(chain: LangevinChain, delta: float) -> Reading:
    require(chain.chains == 1 and chain.release == "last", "the last iterate of a single chain")
    require(chain.batches.kind == "full_batch", "full batches")
    m, curvature = _strong_convexity(chain), chain.loss.curvature
    require(curvature is not None, "smooth losses")
    assert curvature is not None
    big = curvature[1] + chain.loss.l2
    require(chain.gradient_step * (m + big) <= 2.0, "η ≤ 2/(M + m)")
    beta = chain.inverse_temperature
    found = bok.proposition_5_1(
        L=beta * chain.gap, strong_convexity=beta * m, step_size=chain.step_size
    )
    return read(found, delta)


CHAINS = (
    *(Candidate(c.bound, _of_run(c.evaluate)) for c in covering_runs.CANDIDATES),
    Candidate(bok.proposition_5_1, _bok_5_1),
)

# Diffusions.


def _path(diffusion: LangevinDiffusion, delta: float) -> Reading:
    largest = diffusion.cells[1]
    integral = float(np.mean(largest * largest)) * diffusion.time
    found = langevin_universality.lemma_c_1(
        gradient_gap=diffusion.gap, time=diffusion.time, squared_integral=integral
    )
    return read(found, delta)


def _i_2(diffusion: LangevinDiffusion, delta: float) -> Reading:
    require(diffusion.release == "last", "a hidden path")
    require(diffusion.constant, "a constant temperature")
    found = langevin_universality.lemma_i_2(
        m=_strong_convexity(diffusion),
        inverse_temperature=diffusion.inverse_temperature,
        gradient_gap=diffusion.gap,
        time=diffusion.time,
    )
    return read(found, delta)


DIFFUSIONS = (
    Candidate(langevin_universality.lemma_c_1, _path),
    Candidate(langevin_universality.lemma_i_2, _i_2),
)

# Exponential mechanisms: F = κL.


def _range(mechanism: ExponentialMechanism, delta: float) -> Reading:
    found = mcsherry_talwar.exponential_mechanism(
        L=0.5 * mechanism.kappa * mechanism.gap, diameter=mechanism.diameter
    )
    return read(found, delta)


def _bok_5_2(mechanism: ExponentialMechanism, delta: float) -> Reading:
    kappa = mechanism.kappa
    found = bok.corollary_5_2(
        L=kappa * mechanism.gap, strong_convexity=kappa * _strong_convexity(mechanism)
    )
    return read(found, delta)


def _bok_5_4(mechanism: ExponentialMechanism, delta: float) -> Reading:
    lo = mechanism.least_curvature
    if lo is None or lo < 0.0:
        raise NotApplicable("needs convex losses")
    # μ² = 4L'D with L' = κΔ/2 for F and F' that are L'-Lipschitz; only ‖∇F − ∇F'‖ ≤ 2L' matters.
    found: Published = bok.corollary_5_4(
        L=0.5 * mechanism.kappa * mechanism.gap, diameter=mechanism.diameter
    )
    return read(found, delta)


MECHANISMS = (
    Candidate(mcsherry_talwar.exponential_mechanism, _range),
    Candidate(bok.corollary_5_2, _bok_5_2),
    Candidate(bok.corollary_5_4, _bok_5_4),
)

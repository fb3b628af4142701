"""Samplers that execute exactly the chain or mechanism that was accounted.

`langevin` runs the chains of a `pabi.LangevinChain`, `diffusion` the fine steps of a reflected
`pabi.LangevinDiffusion`, and `gibbs_rejection` draws exactly from the density of a
`pabi.ExponentialMechanism`; `expected_evaluations` says beforehand at what cost. `mean_gradient` and
`mean_loss` are what linear models need, and `from_log_density` makes a chain of a prior and a likelihood.

A draw is a release, and all releases compose. `pabi.mixing.outlook` says how far a chain is from its target
before anything is drawn, and whether its whole path costs what one draw does.
"""

from __future__ import annotations

from pabi.sampling.chains import diffusion, langevin
from pabi.sampling.draws import Diagnostics, Draws, ExactDraws
from pabi.sampling.exact import expected_evaluations, gibbs_rejection
from pabi.sampling.linear_models import Posterior, from_log_density, mean_gradient, mean_loss

__all__ = [
    "Diagnostics",
    "Draws",
    "ExactDraws",
    "Posterior",
    "diffusion",
    "expected_evaluations",
    "from_log_density",
    "gibbs_rejection",
    "langevin",
    "mean_gradient",
    "mean_loss",
]

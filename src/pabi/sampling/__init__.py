"""Samplers that execute exactly the chain or mechanism that was accounted.

`langevin` runs the chains of a `pabi.LangevinChain`, `diffusion` the fine steps of a reflected
`pabi.LangevinDiffusion`, and `gibbs_rejection` draws exactly from the density of a
`pabi.ExponentialMechanism`. `mean_gradient` and `mean_loss` are what linear models need.
"""

from __future__ import annotations

from pabi.sampling.chains import langevin
from pabi.sampling.draws import Diagnostics, Draws, ExactDraws
from pabi.sampling.exact import gibbs_rejection
from pabi.sampling.fine_steps import diffusion
from pabi.sampling.linear_models import mean_gradient, mean_loss

__all__ = [
    "Diagnostics",
    "Draws",
    "ExactDraws",
    "diffusion",
    "gibbs_rejection",
    "langevin",
    "mean_gradient",
    "mean_loss",
]

"""Draws of pabi's samplers, of which a cluster's workers compute some each.

Every task computes some of the chains whole, and only what is released of them comes back. The guarantee is
that of the same chains on one machine, which have independent noise wherever they run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.ledger import Ledger
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.integrations.dask.tasks import Cluster
from pabi.sampling.chains import Gradient, langevin_on
from pabi.sampling.draws import Draws, ExactDraws
from pabi.sampling.exact import MOST_EVALUATIONS, LossCallable, gibbs_rejection_on
from pabi.sampling.fine_steps import diffusion_on

_SIGHT = "records, noise and hidden iterates"


def langevin(
    chain: LangevinChain,
    gradient: Gradient,
    x0: ArrayLike,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    client: Any,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of `chain`, whose chains run on a cluster's workers, with their guarantee.

    The chains are cut into as many parts as the cluster has threads, and every part is a task. This process
    draws a key of 256 bits a part, from which all randomness of the part follows. So a part whose worker is
    lost is computed again as it was, and which workers are lost, and when, has no influence on what is
    released.

    Parameters
    ----------
    chain, x0, thin, random_state, delta, ledger
        As of `pabi.sampling.langevin`. From a `random_state` the keys follow.
    gradient : callable
        As of `pabi.sampling.langevin`, `mean_gradient(X, y, loss)` for example. It travels to the workers,
        with the records that it holds, and several threads of a worker may call it at the same time.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    Draws
        As of `pabi.sampling.langevin`, in the order of the chains. The guarantee assumes that the cluster
        keeps to itself what it sees.

    Raises
    ------
    InvalidInput
        The extra `dask` is not installed. `client` is none, or its workers lack pabi, have another version,
        or compute in different ways. The cluster failed. Anything that `pabi.sampling.langevin` refuses; what
        another error of `gradient` says is not shown. Nothing was released.
    NotApplicable, BudgetExceeded
        As of `pabi.sampling.langevin`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    machines = Cluster(client, "chain", _SIGHT)
    return langevin_on(
        machines, chain, gradient, x0, thin, random_state, delta=delta, ledger=ledger
    )


def diffusion(
    diffusion: LangevinDiffusion,
    gradient: Gradient,
    x0: ArrayLike,
    domain: Any = None,
    *,
    steps: int,
    client: Any,
    chains: int = 1,
    thin: int = 1,
    random_state: int | np.random.Generator | None = None,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> Draws:
    """Draws of the chain that follows `diffusion`, whose chains run on a cluster's workers.

    Parameters
    ----------
    diffusion, x0, domain, steps, chains, thin, random_state, delta, ledger
        As of `pabi.sampling.diffusion`.
    gradient, client
        As of `pabi.integrations.dask.langevin`.

    Returns
    -------
    Draws
        As of `pabi.sampling.diffusion`. The guarantee assumes that the cluster keeps to itself what it sees.

    Raises
    ------
    InvalidInput, NotApplicable, BudgetExceeded
        As of `pabi.sampling.diffusion` and of `pabi.integrations.dask.langevin`. Nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    return diffusion_on(
        Cluster(client, "chain", _SIGHT),
        diffusion,
        gradient,
        x0,
        domain,
        steps=steps,
        chains=chains,
        thin=thin,
        random_state=random_state,
        delta=delta,
        ledger=ledger,
    )


def gibbs_rejection(
    mechanism: ExponentialMechanism | IteratedExponentialMechanism,
    loss_value: LossCallable,
    domain: Any = None,
    random_state: int | np.random.Generator | None = None,
    *,
    client: Any,
    draws: int = 1,
    lipschitz: float | None = None,
    most_evaluations: int = MOST_EVALUATIONS,
    delta: float = 1e-5,
    ledger: Ledger | None = None,
) -> ExactDraws:
    """Exact draws from the density of `mechanism`, made on a cluster's workers, with their guarantee.

    Parameters
    ----------
    mechanism, domain, random_state, draws, lipschitz, most_evaluations, delta, ledger
        As of `pabi.sampling.gibbs_rejection`.
    loss_value : callable
        As of `pabi.sampling.gibbs_rejection`, `mean_loss(X, y, loss)` for example. It travels as the
        gradient of `pabi.integrations.dask.langevin` does.
    client : distributed.Client
        The cluster. Its workers have the same pabi.

    Returns
    -------
    ExactDraws
        As of `pabi.sampling.gibbs_rejection`. The guarantee assumes that the cluster keeps to itself what it
        sees, how long each task takes among it.

    Raises
    ------
    InvalidInput, NotApplicable, BudgetExceeded
        As of `pabi.sampling.gibbs_rejection` and of `pabi.integrations.dask.langevin`. Nothing was released.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    docs, "I have a cluster"; docs, "Sampling".
    """
    return gibbs_rejection_on(
        Cluster(client, "draw", "records, noise, and how long every draw takes"),
        mechanism,
        loss_value,
        domain,
        random_state,
        draws=draws,
        lipschitz=lipschitz,
        most_evaluations=most_evaluations,
        delta=delta,
        ledger=ledger,
    )

"""Chien, Wang, Chen, Li 2024: certified unlearning by going on with noisy gradient descent.

*Langevin Unlearning* and *Certified Machine Unlearning via Noisy Stochastic Gradient Descent*. Steps X ← X
− η·g(X) + N(0, 2ησ²I) on m-strongly convex losses, whose gradients have norm M at most, in cyclic batches
of size b, contract by c = 1 − ηm. Learning for ever, two data sets that differ in one record lead to places
at most Z = 2ηM/(b(1 − c^(n/b))) apart; K more epochs on one of the two bring them together.

The number here is the one that their public code evaluates: αZ²c^(2Kn/b)/(2ησ²) at the order α. It pays for
what is left of the distance in a single step, the last one.
"""

from __future__ import annotations

from pabi.literature.published import published, require

PAPER = "Chien, Wang, Chen, Li 2024"


@published("rdp", f"{PAPER}, as their code evaluates it")
def unlearning(
    *,
    step_size: float,
    gradient_norm: float,
    strong_convexity: float,
    noise: float,
    n: int,
    b: int,
    epochs: int,
    order: float,
) -> float:
    """The Rényi divergence of a model that went on for some epochs from one that was retrained.

    One record is replaced by another. Learning is taken to have gone on for ever.

    Parameters
    ----------
    step_size : float, above 0
        η, the size of a step.
    gradient_norm : float, at least 0
        M, the largest norm of one record's gradient.
    strong_convexity : float, above 0
        m, with ηm < 1.
    noise : float, above 0
        σ: a step has noise of standard deviation √(2η)·σ on the iterate.
    n : int, at least 1
        Records.
    b : int, at least 1
        Size of a batch; n for full batches.
    epochs : int, at least 1
        K, the passes over the data after the request.
    order : float, above 1
        α, the order of the divergence.

    Returns
    -------
    Published
        `value` is a Rényi divergence in nats.

    Raises
    ------
    NotApplicable
        For steps that do not contract, and for no epoch.

    References
    ----------
    Chien, Wang, Chen, Li 2024.
    """
    require(0.0 < step_size * strong_convexity < 1.0, "steps that contract, 0 < ηm < 1")
    require(epochs >= 1, "an epoch after the request")
    epoch = (1.0 - step_size * strong_convexity) ** (n / b)
    apart = 2.0 * step_size * gradient_norm / b / (1.0 - epoch)
    remaining: float = apart * epoch**epochs
    return order * remaining * remaining / (2.0 * step_size * noise * noise)

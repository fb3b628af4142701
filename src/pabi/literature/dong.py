"""Dong, Roth, Su 2022, *Gaussian Differential Privacy*: composition, what everything is compared to."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pabi.literature.published import published


@published("gdp", "Dong, Roth, Su 2022, Corollary 3.3")
def corollary_3_3(*, mus: Iterable[float]) -> float:
    """The parameter √(Σ μ_k²) of releases that are each μ_k-GDP.

    It holds if every iterate is released.

    Parameters
    ----------
    mus : iterable of float, at least 0
        μ_k of every release.

    Returns
    -------
    Published
        `value` is μ.

    Raises
    ------
    TypeError
        For what holds no numbers.

    References
    ----------
    Dong, Roth, Su 2022, Corollary 3.3.
    """
    return math.sqrt(math.fsum(mu * mu for mu in mus))

"""Dong, Roth, Su 2022, *Gaussian Differential Privacy*: composition, what everything is compared to."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pabi.literature.published import published


@published("gdp", "Dong, Roth, Su 2022, Corollary 3.3")
def corollary_3_3(*, mus: Iterable[float]) -> float:
    """μ of releases that are each μ_k-GDP: √(Σ μ_k²). Holds if every iterate is released."""
    return math.sqrt(math.fsum(mu * mu for mu in mus))

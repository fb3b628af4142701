"""Published bounds for study and comparison, one module a paper.

Each function is named after its theorem and returns the printed number as a `Published`, errors
included; `status` says whether it is "sound", "refuted" or "unverified", and docs, "Errata", why. None of
them ever stands behind a guarantee: nothing else in pabi imports this package.
"""

from __future__ import annotations

from pabi.literature import (
    altschuler_talwar,
    asoodeh_diaz,
    balle,
    bok,
    bravo,
    chien_li,
    chien_wang_chen_li,
    dong,
    feldman,
    kong_ribero,
    langevin_universality,
    mcsherry_talwar,
    ye_shokri,
)
from pabi.literature.comparison import Comparison, Row, compare
from pabi.literature.published import Published

__all__ = [
    "Comparison",
    "Published",
    "Row",
    "altschuler_talwar",
    "asoodeh_diaz",
    "balle",
    "bok",
    "bravo",
    "chien_li",
    "chien_wang_chen_li",
    "compare",
    "dong",
    "feldman",
    "kong_ribero",
    "langevin_universality",
    "mcsherry_talwar",
    "ye_shokri",
]

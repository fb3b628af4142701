"""Proximal maps and projections, to apply after every step. The full text is that of `pabi.describe.prox`."""

from pabi.describe.prox import (
    ProximalMap,
    ball,
    box,
    elastic_net,
    halfspace,
    l1,
    l2,
    nuclear_norm,
    simplex,
)
from pabi.describe.prox import (
    __doc__ as __doc__,
)

__all__ = [
    "ProximalMap",
    "ball",
    "box",
    "elastic_net",
    "halfspace",
    "l1",
    "l2",
    "nuclear_norm",
    "simplex",
]

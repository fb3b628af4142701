from pabi.describe.prox import (
    ProximalMap,
    __doc__,
    ball,
    box,
    elastic_net,
    halfspace,
    l1,
    l2,
    nuclear_norm,
    simplex,
)

__all__ = [
    "ProximalMap",
    "__doc__",
    "ball",
    "box",
    "elastic_net",
    "halfspace",
    "l1",
    "l2",
    "nuclear_norm",
    "simplex",
]

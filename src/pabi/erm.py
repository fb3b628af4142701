"""Private empirical risk minimisation and stochastic convex optimisation: plans with proven risk."""

from pabi.erm.bounds import uniform_stability
from pabi.erm.packing import PackingLoss, packing_centres, packing_loss
from pabi.erm.planned import Plan
from pabi.erm.planning import plan
from pabi.erm.solving import Solution, solve

__all__ = [
    "PackingLoss",
    "Plan",
    "Solution",
    "packing_centres",
    "packing_loss",
    "plan",
    "solve",
    "uniform_stability",
]

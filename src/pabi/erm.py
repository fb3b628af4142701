"""Private empirical risk minimisation and stochastic convex optimisation: plans with proven risk."""

from pabi.sampling.erm_bounds import uniform_stability
from pabi.sampling.erm_plans import Solution, plan, solve
from pabi.sampling.erm_problem import PackingLoss, Plan, packing_centres, packing_loss

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

"""Running a plan on data: exact draws of mechanisms, fine steps in place of diffusions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.best import best_guarantee
from pabi.budget.ledger import Ledger
from pabi.describe import prox
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.erm import diffusions
from pabi.erm.diffusions import AVERAGE
from pabi.erm.planned import Plan
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, shown

_MOST_STEPS, _MOST_NUMBERS = 2_000_000, 50_000_000
_ROUNDED = 1.0 + 1e-12  # a corner of a box may be rounded beyond the radius
_WARMER = (1.0, 1.0 - 1e-12, 1.0 - 1e-9, 0.999, 0.99, 0.97, 0.9, 0.8, 0.65, 0.5)


@dataclass(frozen=True, eq=False)
class Solution:
    """What a plan came to: a private point, and the guarantee that was earned.

    Attributes
    ----------
    x : array, (p,)
        The private minimiser, relative to the centre of the set.
    guarantee : Guarantee
        What was really earned, by `run`.
    plan : Plan
        The plan.
    run : ExponentialMechanism, IteratedExponentialMechanism or LangevinChain
        The description that was executed.
    risk_bound : float or None
        Bound on the expected excess risk of what was executed; None where only the diffusion's is
        proven.

    References
    ----------
    docs, "Private optimisation".
    """

    x: Array
    guarantee: Guarantee
    plan: Plan
    run: ExponentialMechanism | IteratedExponentialMechanism | LangevinChain
    risk_bound: float | None


def solve(
    plan: Plan,
    *,
    loss_value: Callable[..., ArrayLike] | None = None,
    gradient: Callable[..., ArrayLike] | None = None,
    domain: Any = None,
    steps: int | None = None,
    most_evaluations: int = 10_000_000,
    random_state: int | np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> Solution:
    """Run a plan and release its one point, which lies in the set.

    Mechanisms are drawn from exactly, by rejection, which takes a small dimension. Diffusions are
    followed by fine steps of a projected Langevin chain: the guarantee is that of this chain, whose
    temperature is raised, should it need to be, until it meets the plan's (ε, δ).

    Parameters
    ----------
    plan : Plan
        What to do.
    loss_value : callable, (k, p) ↦ (k,)
        For mechanisms: the mean of the records' losses at each point; with split records called as
        loss_value(points, rows), the mean over those rows. The plan's regulariser is added here.
    gradient : callable, (1, p) ↦ (1, p)
        For diffusions: the gradient of the mean of the records' losses.
    domain : pabi.prox.ball or pabi.prox.box, optional
        The set, in coordinates whose origin is its centre: of diameter at most D, with the origin
        in it, and no point of it farther from the origin than the plan's radius. Default: the ball
        of diameter D about the origin.
    steps : int, at least 1, optional
        Steps of the chain. By default as many as keep what discretisation adds to the risk bound at
        about a tenth of it.
    most_evaluations : int, at least 1
        Evaluations of the loss, for mechanisms: one that is expected to need more is refused.
        Knowing its `smoothness` lowers that number by far.
    random_state : None, int or numpy Generator
        None (default): a ChaCha generator keyed by the operating system. Anything else is for
        tests.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    Solution
        The point, and what is guaranteed of it.

    Raises
    ------
    InvalidInput
        Naming the field that is wrong; "smoothness" where the plan lacks it and the chain needs it.
    NotApplicable
        Where exact drawing would take too long, which public numbers alone decide.
    TargetUnreachable
        Where no chain of so few steps meets the target.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    References
    ----------
    docs, "Private optimisation".
    """
    validate.instance("plan", plan, Plan, "a Plan")
    region = _domain(plan, domain)
    if isinstance(plan.run, LangevinDiffusion):
        return _follow(plan, plan.run, gradient, region, steps, random_state, ledger)
    require(
        steps is None, "steps", f"a mechanism is drawn from exactly: expected none, got {steps!r}"
    )
    return _draw(plan, loss_value, region, most_evaluations, random_state, ledger)


def _domain(plan: Plan, domain: Any) -> Any:
    """The set; InvalidInput where a point of it is farther from the origin than the plan's radius."""
    diameter = plan.run.diameter
    assert diameter is not None
    if domain is None:
        ball = prox.ball(0.5 * diameter)
        while ball.diameter > diameter:
            ball = prox.ball(math.nextafter(ball.radius, 0.0))
        return ball
    from pabi.sampling.envelopes import read_region

    region = read_region(domain, plan.dimension, diameter)
    require(
        region.longest <= plan.radius * _ROUNDED,
        "domain",
        f"expected no point farther than {plan.radius!r} from the origin, the plan's radius, got one at "
        f"{region.longest!r}",
    )
    if np.any(domain(np.zeros(plan.dimension), 1.0) != 0.0):
        raise InvalidInput("domain", "expected the origin in it: it is the set's centre")
    return domain


def _draw(
    plan: Plan,
    loss_value: Any,
    domain: Any,
    most: int,
    random_state: int | np.random.Generator | None,
    ledger: Ledger | None,
) -> Solution:
    from pabi.sampling import gibbs_rejection

    require(callable(loss_value), "loss_value", f"{plan.algorithm} needs it: expected a callable")
    rho = plan.regulariser

    def whole(points: Array, *rows: Any) -> Array:
        losses = np.asarray(loss_value(points, *rows))
        if losses.dtype in (np.float16, np.float32):
            raise InvalidInput("loss_value", f"expected float64, got {losses.dtype}")
        return losses + 0.5 * rho * np.einsum("ij,ij->i", points, points) if rho else losses

    assert not isinstance(plan.run, LangevinDiffusion)
    draws = gibbs_rejection(
        plan.run,
        whole,
        domain,
        random_state,
        most_evaluations=most,
        delta=plan.delta,
        ledger=ledger,
    )
    x = np.array(draws.values[0, 0])
    x.flags.writeable = False
    return Solution(x, draws.guarantee, plan, plan.run, plan.risk_bound)


def _follow(
    plan: Plan,
    run: LangevinDiffusion,
    gradient: Any,
    domain: Any,
    steps: int | None,
    random_state: int | np.random.Generator | None,
    ledger: Ledger | None,
) -> Solution:
    from pabi.sampling import langevin

    require(callable(gradient), "gradient", f"{plan.algorithm} needs it: expected a callable")
    require(
        not plan.only_a_bound,
        "smoothness",
        "missing: without it no steps of a chain are known to contract; plan again with smoothness=…, or "
        'with algorithm="path_average"',
    )
    count = _steps(plan) if steps is None else validate.integer("steps", steps, at_least=1)
    chain = _private(plan, run, domain, count)
    start = np.zeros(plan.dimension)
    draws = langevin(chain, gradient, start, 1, random_state, delta=plan.delta, ledger=ledger)
    if plan.algorithm != AVERAGE:
        x = np.array(draws.values[0, -1])
        bound = None
    else:
        x, bound = diffusions.of_path(plan, chain, draws.values[0])
        # Of points of the set, but for the rounding of the average.
        x = np.array(domain(x, 1.0))
    x.flags.writeable = False
    return Solution(x, draws.guarantee, plan, chain, bound)


def _private(plan: Plan, run: LangevinDiffusion, domain: Any, steps: int) -> LangevinChain:
    """The chain that follows `run`, as cold as its own guarantee allows."""
    best = math.inf
    for factor in _WARMER:
        chain = LangevinChain(
            run.loss,
            run.n,
            inverse_temperature=run.inverse_temperature * factor,
            step_size=run.time / steps,
            steps=steps,
            adjacency=run.adjacency,
            prox=domain,
            release=run.release,
        )
        spent = best_guarantee(chain, plan.delta).epsilon(plan.delta)
        if spent <= plan.epsilon:
            return chain
        best = min(best, spent)
    more = diffusions.contracting_steps(plan)
    advice = f"{more}, which contract," if steps < more else "more"
    raise TargetUnreachable(
        f"epsilon = {exact(plan.epsilon)} at delta = {exact(plan.delta)} cannot be met by {steps} steps: "
        f"the best reachable is {shown(best)}; take {advice} or plan with "
        'algorithm="path_average"',
        best,
    )


def _steps(plan: Plan) -> int:
    """As many as keep what discretisation adds to the bound at a tenth of it, at least 1000."""
    needed = max(1000, diffusions.enough_steps(plan))
    if needed > min(_MOST_STEPS, _MOST_NUMBERS // plan.dimension):
        raise InvalidInput(
            "steps", f"missing: the bound would need {needed}, which is many; say how many to take"
        )
    return needed

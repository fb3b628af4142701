"""Plans of private risk minimisation with proven risk, and their execution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.best import best_guarantee
from pabi.budget.ledger import Ledger
from pabi.describe import prox
from pabi.describe.accounted import checked_adjacency, warn_of_large_delta
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.runs import MOST
from pabi.execute.hiding import Terms, returned
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable, must_be, require
from pabi.numbers.rounding import Array, up
from pabi.numbers.showing import exact, shown
from pabi.sampling import erm_algorithms
from pabi.sampling.erm_algorithms import AVERAGE
from pabi.sampling.erm_bounds import CLASSES, FEW_ROUNDINGS, within
from pabi.sampling.erm_problem import UNKNOWN, Draft, Plan, Problem, total
from pabi.sampling.linear_models import MeanLoss
from pabi.tradeoff.guarantee import Guarantee

# Choosing how to minimise a loss privately: every way that applies, and the one with the least bound.


ALGORITHMS = (
    erm_algorithms.ALGORITHM_GIBBS,
    erm_algorithms.ALGORITHM,
    erm_algorithms.LAST,
    erm_algorithms.AVERAGE,
)
_ROUNDED = 1.0 - 1e-12  # a radius may be half of a diameter but for roundings
_SAME = 1.0 + 1e-9  # of two bounds: what may be roundings
_MOST_DRAWN = 16  # dimensions, beyond which no exact draw is counted on
_FAMILIES = (
    erm_algorithms.gibbs_drafts,
    erm_algorithms.iterated_drafts,
    erm_algorithms.diffusion_drafts,
)


_OTHER_WORDS = {
    "l2": 'write losses="strongly_convex", strong_convexity={}; lipschitz is then of the whole loss',
    "feature_norm": "of logistic regression it bounds gradients: write lipschitz={}",
    "loss": "what is known of it is stated: lipschitz=…, smoothness=…",
}


@validate.answering(_OTHER_WORDS)
def plan(
    objective: str = "erm",
    losses: str = "convex",
    *,
    n: int,
    dimension: int,
    lipschitz: float,
    diameter: float | None = None,
    epsilon: float,
    delta: float = 0.0,
    strong_convexity: float | None = None,
    smoothness: float | None = None,
    radius: float | None = None,
    adjacency: str = "replace_one",
    algorithm: str = "auto",
) -> Plan:
    """The private way to minimise a mean loss whose proven excess risk is least.

    Parameters
    ----------
    objective : str
        "erm": the expected excess of the mean loss of the n records over its least value on the
        set. "sco": that of the population's mean loss, the records being independent draws from it.
    losses : str
        "convex", "strongly_convex" or "nonconvex": every record's loss on the set.
    n : int, at least 1
        Number of records.
    dimension : int, in 1..10⁸
        p, that of the set's affine hull.
    lipschitz : float, above 0
        L: every record's loss changes by at most L per unit of distance on the set.
    diameter : float, above 0
        D, of the convex set; a bound will do, and 2r is taken where `radius` alone is stated.
        m-strongly convex losses have D ≤ 2L/m, which is used.
    epsilon : float, above 0
        ε of the privacy target.
    delta : float, in [0, 1)
        δ of the privacy target; 0 (default) is pure.
    strong_convexity : float, above 0
        m, of every record's loss; only and always with "strongly_convex".
    smoothness : float, above 0, optional
        M, a bound on the curvature's size. It lowers no risk bound of a convex loss; the chain that
        `solve` runs in a diffusion's place is accounted with it, and cannot follow a strongly
        convex loss to a last point without it.
    radius : float, at least D/2, optional
        r: the set has a point, its centre, from which no other is farther away; D/2 for a ball. The
        default, D·√(p/(2p + 2)), is that of the centre of the smallest ball that holds the set
        (Jung 1901).
    adjacency : str
        "replace_one" (default) or "zero_out".
    algorithm : str
        "auto" (default): whichever has the least bound; or one of "exponential_mechanism",
        "iterated_exponential_mechanism", "last_point", "path_average".

    Returns
    -------
    Plan
        The run, and the bound on its risk.

    Raises
    ------
    InvalidInput
        Naming the field that is wrong.
    NotApplicable
        For an algorithm that does not apply: diffusions need δ > 0 and convexity, iterated
        mechanisms strong convexity.

    Warns
    -----
    PrivacyWarning
        For δ above 1/n.

    References
    ----------
    Ganesh, Thakurta, Upadhyay, Table 1; docs, "Private optimisation".
    """
    validate.choice("objective", objective, ("erm", "sco"))
    validate.choice("losses", losses, CLASSES)
    n = validate.integer("n", n, at_least=1, at_most=MOST)
    p = validate.integer("dimension", dimension, at_least=1, at_most=10**8)
    bound = validate.number("lipschitz", lipschitz, above=0.0)
    if diameter is None and radius is not None:
        diameter = 2.0 * validate.number("radius", radius, above=0.0)
    wide = diameter = validate.number("diameter", diameter, above=0.0)
    epsilon = validate.number("epsilon", epsilon, above=0.0)
    delta = validate.number("delta", delta, at_least=0.0, below=1.0)
    m, loss = _loss(losses, bound, strong_convexity, smoothness)
    if m:
        wide = min(wide, up(up(2.0 * bound / m)))
    jung = wide * math.sqrt(0.5 * p / (p + 1.0)) * FEW_ROUNDINGS
    far = jung if radius is None else validate.number("radius", radius, above=0.0)
    if far < 0.5 * diameter * _ROUNDED and radius is not None:
        raise InvalidInput(
            "radius", f"expected at least diameter/2 = {0.5 * diameter!r}, got {far!r}"
        )
    problem = Problem(
        objective=objective,
        losses=losses,
        n=n,
        dimension=p,
        lipschitz=bound,
        diameter=wide,
        radius=min(far, wide),
        epsilon=epsilon,
        delta=delta,
        m=m,
        loss=loss,
        adjacency=checked_adjacency(adjacency),
    )
    return _planned(problem, algorithm)


def _planned(problem: Problem, algorithm: str) -> Plan:
    """The plan of the least bound, of all or of this algorithm alone."""
    validate.choice("algorithm", algorithm, ("auto", *ALGORITHMS))
    drafts = [draft for family in _FAMILIES for draft in family(problem)]
    drafts = _in_order(d for d in drafts if math.isfinite(d.risk))
    best = next((d for d in drafts if algorithm in ("auto", d.algorithm)), None)
    if best is None:
        raise NotApplicable(_why_not(problem, algorithm))
    considered: dict[str, float] = {}
    for draft in drafts:
        considered.setdefault(draft.algorithm, min(draft.risk, problem.trivial))
    result = _plan(problem, best, tuple(considered.items()))
    warn_of_large_delta(problem.n, problem.delta)
    return result


def _in_order(drafts: Iterable[Draft]) -> list[Draft]:
    """By their bounds; of those that are the least but for roundings, first what can be drawn exactly, since
    its bound is of what is run, and then what steps can follow."""
    ordered = sorted(drafts, key=attrgetter("risk"))
    least = [d for d in ordered if d.risk <= ordered[0].risk * _SAME]
    if len(least) > 1:
        least.sort(key=lambda draft: _effort(draft.run))
    return least + ordered[len(least) :]


def _effort(run: Any) -> int:
    """0 for what can be drawn exactly, 1 for what steps can follow, 2 for what is a bound alone."""
    from pabi.sampling.exact import MOST_EVALUATIONS, expected_evaluations

    if isinstance(run, LangevinDiffusion):
        return 1 if run.loss.curvature is not None and run.loss.curvature[1] < UNKNOWN else 2
    if not isinstance(run, ExponentialMechanism) or run.dimension > _MOST_DRAWN:
        return 2
    return 0 if expected_evaluations(run) <= MOST_EVALUATIONS else 2


def _plan(problem: Problem, draft: Draft, considered: tuple[tuple[str, float], ...]) -> Plan:
    run = within(draft.run, problem.epsilon, problem.delta)
    terms = draft.terms(run)
    m = None if problem.m is None else problem.m + draft.regulariser
    return Plan(
        algorithm=draft.algorithm,
        run=run,
        risk_bound=min(total(terms), problem.trivial),
        kind="explicit",
        source=draft.source,
        objective=problem.objective,
        losses=problem.losses,
        dimension=problem.dimension,
        epsilon=problem.epsilon,
        delta=problem.delta,
        lipschitz=problem.lipschitz,
        radius=problem.radius,
        terms=terms,
        regulariser=draft.regulariser,
        strong_convexity=m,
        considered=considered,
        _quantile=draft.quantile,
    )


def _why_not(problem: Problem, algorithm: str) -> str:
    if algorithm == erm_algorithms.ALGORITHM and problem.m:
        return "no second round lowers the bound, or too few records to split"
    needs = (
        "strongly convex losses"
        if algorithm == erm_algorithms.ALGORITHM
        else "convex losses and δ > 0"
    )
    return f"{algorithm} needs {needs}"


def _loss(
    losses: str, bound: float, strong_convexity: float | None, smoothness: float | None
) -> tuple[float | None, Loss]:
    """(m, the loss): m is 0 for what is merely convex, None where nothing is known to be."""
    must_be(
        losses == "strongly_convex" or strong_convexity is None,
        "strong_convexity",
        f'none with losses="{losses}"',
        strong_convexity,
    )
    if smoothness is not None:
        smoothness = validate.number("smoothness", smoothness, above=0.0)
    if losses == "nonconvex":
        if smoothness is None:
            return None, Loss.unknown(gradient_bound=bound)
        return None, Loss.nonconvex(smoothness, gradient_bound=bound)
    if losses == "convex":
        if smoothness is None:
            return 0.0, Loss.lipschitz(bound)
        return 0.0, Loss.convex(smoothness, gradient_bound=bound)
    if strong_convexity is None:
        raise InvalidInput("strong_convexity", 'missing: losses="strongly_convex" needs it')
    m = validate.number("strong_convexity", strong_convexity, above=0.0)
    # No bound here depends on the smoothness of a strongly convex loss, so that any number will do.
    most = UNKNOWN if smoothness is None else smoothness
    return m, Loss.strongly_convex(m, most, gradient_bound=bound)


# Running a plan on data: exact draws of mechanisms, fine steps in place of diffusions.


_MOST_STEPS, _MOST_NUMBERS = 2_000_000, 50_000_000
_ROUNDED_SOLVING = 1.0 + 1e-12  # a corner of a box may be rounded beyond the radius
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

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or gradients of `mean_loss` or `mean_gradient` may be longer than
        `lipschitz`.

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
        region.longest <= plan.radius * _ROUNDED_SOLVING,
        "domain",
        f"expected no point farther than {plan.radius!r} from the origin, the plan's radius, got one at "
        f"{region.longest!r}",
    )
    require(
        not np.any(domain(np.zeros(plan.dimension), 1.0) != 0.0),
        "domain",
        "expected the origin in it: it is the set's centre",
    )
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
    if isinstance(loss_value, MeanLoss):
        run = plan.run
        must_be(loss_value.n == run.n, "n", f"{run.n!r} as planned", loss_value.n)
        convexity = run.loss.least_curvature or 0.0
        must_be(
            loss_value.l2 >= convexity or loss_value.d == 1,
            "l2",
            f"at least {convexity!r} as planned (strong_convexity): a record of a linear model is flat in "
            "most directions",
            loss_value.l2,
        )
        curvature = None if run.loss.curvature is None else run.loss.curvature[1]
        loss_value.warn_of_more(plan.lipschitz, curvature, plan.radius)
        loss_value = loss_value.within(plan.radius)
    rho = plan.regulariser

    def whole(points: Array, *rows: Any) -> Array:
        # Here: what is added to the regulariser would take its shape and its type.
        losses = returned("loss_value", loss_value(points, *rows), points.shape[:1], short=False)
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
    return Solution(draws.values[0, 0], draws.guarantee, plan, plan.run, plan.risk_bound)


def _follow(
    plan: Plan,
    run: LangevinDiffusion,
    gradient: Any,
    domain: Any,
    steps: int | None,
    random_state: int | np.random.Generator | None,
    ledger: Ledger | None,
) -> Solution:
    from pabi.sampling.chains import langevin_on

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
    terms = Terms(delta=plan.delta, random_state=random_state, ledger=ledger)
    # How near the plan comes to its target is part of its proof.
    draws = langevin_on(terms, chain, gradient, start, 1, settles=False)
    if plan.algorithm != AVERAGE:
        x = np.array(draws.values[0, -1])
        bound = None
    else:
        x, bound = erm_algorithms.of_path(plan, chain, draws.values[0])
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
    more = erm_algorithms.contracting_steps(plan)
    advice = f"{more}, which contract," if steps < more else "more"
    raise TargetUnreachable(
        f"epsilon = {exact(plan.epsilon)} at delta = {exact(plan.delta)} cannot be met by {steps} steps: "
        f"the best reachable is {shown(best)}; take {advice} or plan with "
        'algorithm="path_average"',
        best,
    )


def _steps(plan: Plan) -> int:
    """As many as keep what discretisation adds to the bound at a tenth of it, at least 1000."""
    needed = max(1000, erm_algorithms.enough_steps(plan))
    require(
        needed <= min(_MOST_STEPS, _MOST_NUMBERS // plan.dimension),
        "steps",
        f"missing: the bound would need {needed}, which is many; say how many to take",
    )
    return needed

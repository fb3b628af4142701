"""Choosing how to minimise a loss privately: every way that applies, and the one with the least bound."""

from __future__ import annotations

import math
from operator import attrgetter

from pabi.describe.accounted import checked_adjacency, warn_of_large_delta
from pabi.describe.losses import Loss
from pabi.describe.runs import MOST
from pabi.erm import diffusions, gibbs, iterated
from pabi.erm.bounds import CLASSES, FEW_ROUNDINGS, within
from pabi.erm.planned import UNKNOWN, Draft, Plan, Problem, total
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import up

ALGORITHMS = (gibbs.ALGORITHM, iterated.ALGORITHM, diffusions.LAST, diffusions.AVERAGE)
_ROUNDED = 1.0 - 1e-12  # a radius may be half of a diameter but for roundings
_FAMILIES = (gibbs.drafts, iterated.drafts, diffusions.drafts)


def plan(
    objective: str = "erm",
    losses: str = "convex",
    *,
    n: int,
    dimension: int,
    lipschitz: float,
    diameter: float,
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
        D, of the convex set; a bound will do. m-strongly convex losses have D ≤ 2L/m, which is
        used.
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
    problem = _problem(
        objective=objective,
        losses=losses,
        n=n,
        dimension=dimension,
        lipschitz=lipschitz,
        diameter=diameter,
        epsilon=epsilon,
        delta=delta,
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        radius=radius,
        adjacency=adjacency,
    )
    validate.choice("algorithm", algorithm, ("auto", *ALGORITHMS))
    drafts = [draft for family in _FAMILIES for draft in family(problem)]
    drafts = sorted((d for d in drafts if math.isfinite(d.risk)), key=attrgetter("risk"))
    best = next((d for d in drafts if algorithm in ("auto", d.algorithm)), None)
    if best is None:
        raise NotApplicable(_why_not(problem, algorithm))
    considered: dict[str, float] = {}
    for draft in drafts:
        considered.setdefault(draft.algorithm, min(draft.risk, problem.trivial))
    result = _plan(problem, best, tuple(considered.items()))
    warn_of_large_delta(problem.n, problem.delta)
    return result


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
    if algorithm == iterated.ALGORITHM and problem.m:
        return "no second round lowers the bound, or too few records to split"
    needs = (
        "strongly convex losses" if algorithm == iterated.ALGORITHM else "convex losses and δ > 0"
    )
    return f"{algorithm} needs {needs}"


def _problem(
    *,
    objective: str,
    losses: str,
    n: int,
    dimension: int,
    lipschitz: float,
    diameter: float,
    epsilon: float,
    delta: float,
    strong_convexity: float | None,
    smoothness: float | None,
    radius: float | None,
    adjacency: str,
) -> Problem:
    validate.choice("objective", objective, ("erm", "sco"))
    validate.choice("losses", losses, CLASSES)
    n = validate.integer("n", n, at_least=1, at_most=MOST)
    p = validate.integer("dimension", dimension, at_least=1, at_most=10**8)
    bound = validate.number("lipschitz", lipschitz, above=0.0)
    wide = validate.number("diameter", diameter, above=0.0)
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
    return Problem(
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


def _loss(
    losses: str, bound: float, strong_convexity: float | None, smoothness: float | None
) -> tuple[float | None, Loss]:
    """(m, the loss): m is 0 for what is merely convex, None where nothing is known to be."""
    if losses != "strongly_convex" and strong_convexity is not None:
        raise InvalidInput(
            "strong_convexity", f'expected none with losses="{losses}", got {strong_convexity!r}'
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

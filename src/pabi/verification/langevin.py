"""Langevin chains, diffusions and exponential mechanisms, derived again from their descriptions.

Rational arithmetic where the formulas are rational, ball arithmetic elsewhere; every comparison that says
yes is a proof. Theorems: docs, "Diffusions" and "The iterated exponential mechanism".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from pabi.assumptions import (
    exponential_mechanism,
    iterated_mechanism,
    langevin_chain,
    langevin_diffusion,
)
from pabi.description import from_dict
from pabi.langevin import LangevinChain, LangevinDiffusion
from pabi.losses import Loss
from pabi.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.runs import NoisySGD
from pabi.verification.arithmetic import check_cost, root_up
from pabi.verification.claims import NOTHING, Bounds, Factors, read_mu
from pabi.verification.derivation import above, exact, facts_of
from pabi.verification.limits import timed
from pabi.verification.reading import HEADER, closed, nonnegative
from pabi.verification.refusal import Refused

Said = tuple[str, ...]
CheckRun = Callable[[dict[str, Any]], tuple[str, Said, Bounds]]


def check_described(
    description: Any, payload: dict[str, Any], check_one: CheckRun
) -> tuple[str, Said, Bounds]:
    """(adjacency, assumptions, what is proven) of a certificate with one of these descriptions.

    `check_one` checks the certificate of a run of noisy SGD.
    """
    if isinstance(description, LangevinChain):
        said, proven = _chain(description, payload, check_one)
    elif isinstance(description, LangevinDiffusion):
        said, proven = _diffusion(description, payload)
    elif isinstance(description, ExponentialMechanism):
        closed("the certificate", payload, (*HEADER, "run", "claim"))
        said, proven = _mechanism(description, payload["theorem"])
    elif isinstance(description, IteratedExponentialMechanism):
        said, proven = _iterated(description, payload)
    else:
        raise Refused("run: the checker knows no such description")
    return description.adjacency, said, proven


def _gap(loss: Loss, n: int, adjacency: str, stated: float | None) -> Any:
    """Δ: what adjacent gradients of the mean loss differ by at most."""
    if stated is not None:
        return exact(stated)
    bound = facts_of(loss).bound
    if bound is None:
        raise Refused("gradient_gap: nothing bounds one record's gradient")
    return bound * (2 if adjacency == "replace_one" else 1) / n


def _curvature(loss: Loss) -> Any:
    """m of the mean loss with its regulariser."""
    facts = facts_of(loss)
    if facts.curvature is not None:
        lo = facts.curvature[0]
    elif facts.convex or facts.monotone:
        lo = fmpq(0)
    else:
        raise Refused("loss: nothing is known of its curvature")
    return lo + exact(loss.l2)


def _curvature_of_density(loss: Loss) -> Any:
    """m of the mean loss as a function: of a convex–concave one only the field is monotone."""
    if facts_of(loss).monotone:
        raise Refused("loss: nothing is known of the curvature of a convex–concave function")
    return _curvature(loss)


# Chains.


def _chain(
    chain: LangevinChain, payload: dict[str, Any], check_one: CheckRun
) -> tuple[Said, Bounds]:
    """What is proven of one chain, for all of them; one must be the run that the chain describes."""
    closed("the certificate", payload, (*HEADER, "run", "claim", "one", "reading"))
    one = payload["one"]
    if one["theorem"] != payload["theorem"]:
        raise Refused(f"theorem: expected {payload['theorem']!r}, as of one chain")
    run = from_dict(one["run"])
    if not isinstance(run, NoisySGD):
        raise Refused("one: expected a run of noisy SGD")
    _check_same(chain, run)
    _, said, proven = check_one(one)
    said = langevin_chain(chain, said)
    if chain.chains == 1:
        return said, proven
    (alone,) = proven
    if alone.sampled or alone.ranges or len(alone.parts) != 1:
        raise Refused("chains: several are checked for Gaussian bounds only")
    mu = alone.parts[0][1]
    many = mu if math.isinf(mu) else root_up(chain.chains * exact(mu) * exact(mu))
    return said, (Factors(((Fraction(1), many),)),)


def _check_same(chain: LangevinChain, run: NoisySGD) -> None:
    """Refuse unless `run` takes the chain's steps, with no more noise and no less sensitivity."""
    for name in ("loss", "n", "batches", "steps", "adjacency", "diameter", "release"):
        if getattr(chain, name) != getattr(run, name):
            raise Refused(f"{name}: one chain's run differs from the description")
    known = [(repr(p), getattr(p, "diameter", None)) for p in (chain.prox, run.prox)]
    if known[0] != known[1]:
        raise Refused("prox: one chain's run differs from the description")
    for name in ("clip_norm", "noise_multiplier"):
        if getattr(run, name) is not None:
            raise Refused(f"{name}: a Langevin chain has none")
    if run.cooldown_steps or not run.rule.plain:
        raise Refused("update: a Langevin chain takes plain steps, all of them with data")
    # The chain multiplies the gradient by the double nearest to η·β: that is part of its description.
    if run.step_size != float(chain.step_size) * float(chain.inverse_temperature):
        raise Refused("step_size: expected step_size·inverse_temperature")
    if isinstance(run.noise_std, float):
        sigma = exact(run.step_size) * exact(run.noise_std)
        if sigma * sigma > 2 * exact(chain.step_size):
            raise Refused("noise_std: expected at most √(2·step_size) on the iterate")
    else:
        raise Refused("noise_std: expected a number")
    stated, sensitivity = chain.gradient_gap, run.gradient_sensitivity
    if stated is None or sensitivity is None:
        enough = stated is None and sensitivity is None
    else:
        enough = exact(sensitivity) >= exact(stated) * chain.n
    if not enough:
        raise Refused("gradient_sensitivity: expected at least n·gradient_gap")


# Diffusions.


def _diffusion(diffusion: LangevinDiffusion, payload: dict[str, Any]) -> tuple[Said, Bounds]:
    """A closed form for a constant temperature."""
    theorem, mu = payload["theorem"], read_mu(payload["claim"]["mu"])
    proof = () if theorem == "path" else ("distance",) if "distance" in payload else ("window",)
    closed("the certificate", payload, (*HEADER, "run", "claim", *proof))
    beta = diffusion.inverse_temperature
    if not isinstance(beta, float):
        raise Refused("inverse_temperature: the closed forms are for a constant")
    gap = _gap(diffusion.loss, diffusion.n, diffusion.adjacency, diffusion.gradient_gap)
    beta, time = exact(beta), exact(diffusion.time)
    if theorem == "path":
        cost = arb(gap * gap * beta * beta * time / 2)
    elif theorem == "last point":
        if diffusion.release != "last":
            raise Refused("run: the theorem needs a hidden path")
        if "distance" in payload:
            cost = _dissipative(diffusion, payload["distance"], gap, beta, time)
        else:
            cost = _last_point(diffusion, payload["window"], gap, beta, time)
    else:
        raise Refused(f"theorem: the checker knows no {theorem!r} of a diffusion")
    check_cost(cost, mu, "the end")
    hidden = theorem != "path"
    return langevin_diffusion(diffusion, hidden), (Factors(((Fraction(1), mu),)),)


def _last_point(
    diffusion: LangevinDiffusion, window: float | None, gap: Any, beta: Any, time: Any
) -> Any:
    """What the shifts at the rate 2q·e^(−βm(T − t)) cost, from w = 0 over [0, T] or from w = D over the
    last `window`; for m ≤ 0 from w = 0, what paying at once costs.

    With S = w·e + ∫W·βΔ dt and V = 2∫W² dt, W(t) = e^(−βm(T − t)) and e = W(T − R), it is q = S/V and
    S²/V. What is owed must never be paid before it arises: ∫W·βΔ dt − q·2∫W² dt, from the beginning up to
    any time, may not fall below −w·e. Its rate W(βΔ − 2qW) turns at most once, and if W grows (m ≥ 0), from
    positive to negative, so that its end, 0, is its least. If W falls (m < 0), it is never positive where
    2q ≥ βΔ, for W ≥ 1.
    """
    m = _curvature(diffusion.loss)
    if window is None:
        if m <= 0:
            return arb(gap * gap * beta * beta * time / 2)
        start, length = fmpq(0), time
    else:
        if diffusion.diameter is None:
            raise Refused("window: a later start needs a diameter")
        start, length = exact(diffusion.diameter), exact(nonnegative("window", window))
        if not 0 < length <= time:
            raise Refused(f"window: expected more than 0 and at most {diffusion.time!r}")
    if m == 0:
        owed, room = arb(start + beta * gap * length), arb(2 * length)
    else:
        x = -arb(beta * m * length)
        owed = arb(start) * x.exp() - arb(gap / m) * x.expm1()
        room = -(2 * x).expm1() / arb(beta * m)
    if not room > 0:
        raise Refused("window: no noise is left to pay with")
    if m < 0 and not 2 * owed >= arb(beta * gap) * room:
        raise Refused("window: the shifts are paid before they are owed")
    return owed * owed / room


class _Growth:
    """The rate β(Δ + g(z)), g(z) = min{Mz, λ/z − κz}, at which paths on a dissipative loss part at most."""

    def __init__(self, loss: Loss, gap: Any) -> None:
        facts, m = facts_of(loss), _curvature(loss)
        if facts.dissipative is None or not m < 0:
            raise Refused("loss: expected one that is dissipative and not convex")
        self.gap, self.big = arb(gap), arb(-m)
        self.offset, self.rate = (
            arb(facts.dissipative[0]),
            arb(facts.dissipative[1] + exact(loss.l2)),
        )
        if not self.offset > 0:
            raise Refused("loss: expected an offset above 0")
        # κz² = Δz + λ at z*, and −y is the other root.
        root = (self.gap * self.gap + 4 * self.rate * self.offset).sqrt()
        self.limit, self.y = (
            (root + self.gap) / (2 * self.rate),
            (root - self.gap) / (2 * self.rate),
        )
        self.turn = (self.offset / (self.big + self.rate)).sqrt()

    def spread(self, d: Any) -> Any:
        """∫_0^d (Δ + g), at most: either bound on g will do on either side of where they cross."""
        near = d if d <= self.turn else self.turn
        return (
            self.gap * d
            + self.big * near * near / 2
            + self.offset * (d / near).log()
            - self.rate * (d * d - near * near) / 2
        )

    def time(self, d: Any) -> Any:
        """∫_0^d dz/(Δ + g), d < z*."""
        near = d if d <= self.turn else self.turn
        first = (1 + self.big * near / self.gap).log() / self.big
        ends = (
            ((self.limit - near) / (self.limit - d)).log(),
            ((d + self.y) / (near + self.y)).log(),
        )
        return first + (self.limit * ends[0] - self.y * ends[1]) / (
            self.rate * (self.limit + self.y)
        )


def _dissipative(
    diffusion: LangevinDiffusion, distance: float, gap: Any, beta: Any, time: Any
) -> Any:
    """What the shifts a = 2β(Δ + g(z)) cost from `distance`, which they bring to 0 in the time in which two
    paths from one point part as far. Where the shifts begin the paths are no further apart, if that is at
    half the time or before, or if the set is no larger. From z* on, which takes for ever to reach: the
    supremum of what they cost from below, one of which begins at half the time."""
    d = exact(nonnegative("distance", distance))
    growth = _Growth(diffusion.loss, gap)
    if arb(d) >= growth.limit:
        return 2 * arb(beta) * growth.spread(growth.limit)
    if not (d > 0 and arb(d) < growth.limit):
        raise Refused("distance: expected more than 0, and not as good as what paths tend to")
    needed = growth.time(arb(d)) / arb(beta)
    if not needed <= arb(time):
        raise Refused("distance: the shifts take longer than there is time")
    within = diffusion.diameter is not None and exact(diffusion.diameter) <= d
    if not (within or 2 * needed >= arb(time)):
        raise Refused("distance: the paths can be further apart where the shifts begin")
    return 2 * arb(beta) * growth.spread(arb(d))


# Mechanisms.


def _mechanism(mechanism: ExponentialMechanism, theorem: str) -> tuple[Said, Bounds]:
    gap = _gap(mechanism.loss, mechanism.n, mechanism.adjacency, mechanism.gradient_gap)
    d = exact(mechanism.diameter)
    beta = exact(mechanism.kappa)  # at which it samples, a part of the description
    uses_curvature = _uses_curvature(theorem)
    bounds = [_range([beta * gap * d])]
    if uses_curvature:
        m = _curvature_of_density(mechanism.loss)
        bounds.append(_gaussian([_gibbs(beta, gap, d, m)]))
        if facts_of(mechanism.loss).dissipative is not None and m < 0:
            growth = _Growth(mechanism.loss, gap)
            furthest = arb(d) if arb(d) <= growth.limit else growth.limit
            bounds.append(_gaussian_ball(2 * arb(beta) * growth.spread(furthest)))
    return exponential_mechanism(mechanism, uses_curvature), tuple(bounds)


def _uses_curvature(theorem: str) -> bool:
    known = {"bounded range": False, "Gibbs measure": True, "bounded range and Gibbs measure": True}
    if theorem not in known:
        raise Refused(f"theorem: the checker knows no {theorem!r} of an exponential mechanism")
    return known[theorem]


def _gibbs(beta: Any, gap: Any, diameter: Any, m: Any) -> Any:
    """μ² = βD'(2Δ − mD'), D' = min(D, Δ/m)."""
    within = diameter if m <= 0 else min(diameter, gap / m)
    return beta * within * (2 * gap - m * within)


def _range(epsilons: list[Any]) -> Factors:
    """Bounded ranges, each rounded up."""
    ranges = []
    for epsilon in epsilons:
        value = float(arb(epsilon).mid())
        while exact(value) < epsilon:
            value = math.nextafter(value, math.inf)
        ranges.append((value, 1))
    return Factors(NOTHING, ranges=tuple(ranges))


def _gaussian(squares: list[Any]) -> Factors:
    return Factors(((Fraction(1), root_up(sum(squares, fmpq(0)))),))


def _gaussian_ball(square: Any) -> Factors:
    return Factors(((Fraction(1), root_up(above(square))),))


def _iterated(
    mechanism: IteratedExponentialMechanism, payload: dict[str, Any]
) -> tuple[Said, Bounds]:
    """The rounds as stated: each set lies in the one before and within its radius of a draw, so that the
    stated diameters are true if they are at least what the radii say."""
    closed("the certificate", payload, (*HEADER, "run", "claim", "rounds"))
    uses_curvature = _uses_curvature(payload["theorem"])
    rounds = payload["rounds"]
    if len(rounds) != len(mechanism.epsilons):
        raise Refused(f"rounds: expected {len(mechanism.epsilons)}, got {len(rounds)}")
    m = _curvature_of_density(mechanism.loss)
    bound = facts_of(mechanism.loss).bound
    if bound is None or not m > 0:
        raise Refused("loss: expected one that is strongly convex and has a gradient bound")
    largest = exact(mechanism.diameter)
    if mechanism.loss.l2 == 0.0:
        largest = min(largest, 2 * bound / m)
    ranges, squares = [], []
    for i, (stated, own) in timed(enumerate(zip(rounds, mechanism.rounds, strict=True))):
        diameter, kappa = exact(nonnegative("rounds", stated[0])), exact(stated[1])
        if [own.diameter, own.inverse_temperature] != list(stated):
            raise Refused(f"rounds: round {i + 1} is not the described one")
        if diameter < largest:
            raise Refused(f"rounds: the diameter of round {i + 1} is less than the set can have")
        if i + 1 < len(rounds):
            largest = min(diameter, 2 * exact(own.radius))
        gap = _gap(mechanism.loss, mechanism.records(i), mechanism.adjacency, None)
        ranges.append(kappa * gap * diameter)
        squares.append(_gibbs(kappa, gap, diameter, m))
    said = iterated_mechanism(mechanism)
    bounds = []
    if mechanism.split is not None and len(rounds) > 1:
        # A record is used by the rounds but the last, or by the last alone.
        before = sorted(ranges[:-1])
        pure = max(sum(before, fmpq(0)), ranges[-1])
        bounds.append(Factors(NOTHING, pure=_range([pure]).ranges))
        ranges = [*before[:-1], max(before[-1], ranges[-1])]
        squares = [max(sum(squares[:-1], fmpq(0)), squares[-1])]
    bounds.append(_range(ranges))
    if uses_curvature:
        bounds.append(_gaussian(squares))
    return said, tuple(bounds)

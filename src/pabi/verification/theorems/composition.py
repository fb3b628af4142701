"""Composition, of all kinds, and privacy of groups."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any, assert_never

import numpy as np
from flint import arb, fmpq

from pabi.describe.accounted import group_sentences
from pabi.tradeoff.certificate import stated_sentence
from pabi.tradeoff.guarantee import INDEPENDENT
from pabi.tradeoff.selection import ENTERED, refusing_above, refusing_divergences_above
from pabi.verification.arithmetic import (
    Refused,
    closed,
    columns,
    double_above,
    exact,
    fraction_of,
    groups,
    mu_of,
    positions,
    root_up,
    timed,
)
from pabi.verification.bounds import (
    Bounds,
    JointBound,
    read_bounds,
    several_releases,
    square_below,
    uncovered,
)
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.factors.closed_forms import (
    Gaussians,
    GroupFactors,
    Part,
    PureFactors,
    read_mu,
)
from pabi.verification.factors.divergences import Divergences, read_order
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.renyi import least_divergence
from pabi.verification.schemes import Exchange, KnownPositions, SecretEveryEpoch, SecretOnce
from pabi.verification.subjects import (
    KEYS,
    Iteration,
    Members,
    Releases,
    StatedMechanism,
    claims_some,
    named_with_cells,
    of_runs,
    proven_of_iteration,
)
from pabi.verification.theorem import Finding, Names, Payload, ProofCheck, Proven, named
from pabi.verification.theorems.mechanisms import PATH

_GAUSSIANS = "Dong, Roth, Su 2022, Cor. 3.3"
_REPLACED = f"{_GAUSSIANS}; docs, Theory, 20 (Theorem 32a)"
_ZEROED = f"{_GAUSSIANS}; docs, Theory, 10.2 (Theorem 40)"
_EXCHANGED = "Dong, Roth, Su 2022, Thm 4.2; Bok, Su, Altschuler 2024, Thm 4.8"


# Batches in an order.


def _ordered(run: OrderedRun, payload: Payload) -> Proven:
    assumptions = run.assumptions(hidden=False)
    if payload["cases"] != []:
        raise Refused("cases: composition has none")
    if "cap" in payload:
        raise Refused("cap: composition is about batches of any size")
    totals = totals_of(run, run.data)
    parts: list[Part]
    match run.scheme:
        case KnownPositions() | SecretEveryEpoch():
            parts = [(Fraction(1), root_up(max(total for total, _ in totals)))]
        case SecretOnce():
            parts = [(fraction_of(share), root_up(total)) for total, share in totals if share]
        case _:
            assert_never(run.scheme)
    return Proven(assumptions, (JointBound.of(Gaussians(tuple(parts))),))


def totals_of(run: OrderedRun, end: int) -> list[tuple[Any, Any]]:
    """(Σ (s_k/σ_k)² before step `end`, share of the records) for every position, equal ones together."""
    epochs, rest = divmod(end, run.period)
    if not isinstance(run.noises, np.ndarray):
        return _constant_totals(run, epochs, rest)
    positions("steps", end)
    losses = [run.privacy_loss(k) for k in timed(range(end))]
    if run.position is not None:
        return [(sum(timed(losses[run.position :: run.period]), fmpq(0)), fmpq(1))]
    match run.scheme:
        case SecretEveryEpoch():
            worst = (max(losses[a : a + run.period]) for a in range(0, end, run.period))
            return [(sum(timed(worst), fmpq(0)), fmpq(1))]
        case KnownPositions() | SecretOnce():
            used = min(run.period, end)
            totals = [
                (sum(timed(losses[j :: run.period]), fmpq(0)), run.scheme.share(j, j))
                for j in range(used)
            ]
            if used < run.period:
                totals.append((fmpq(0), run.scheme.share(used, run.period - 1)))
            return [*totals, (fmpq(0), run.scheme.spare)]
        case _:
            assert_never(run.scheme)


def _constant_totals(run: OrderedRun, epochs: int, rest: int) -> list[tuple[Any, Any]]:
    once, more = run.privacy_loss(0), 1 if rest else 0
    if run.position is not None:
        return [(once * (epochs + (1 if run.position < rest else 0)), fmpq(1))]
    match run.scheme:
        case SecretEveryEpoch():
            return [(once * (epochs + more), fmpq(1))]
        case KnownPositions() | SecretOnce():
            late = run.scheme.share(0, (rest or run.period) - 1)
            early = run.scheme.share(rest, run.period - 1) if rest else fmpq(0)
            return [
                (once * (epochs + more), late),
                (once * epochs, early),
                (fmpq(0), run.scheme.spare),
            ]
        case _:
            assert_never(run.scheme)


# Random batches.


def drawn(run: DrawnRun, payload: Payload) -> Proven:
    """One factor for every step with data, of what the record adds to the gradient sum over b·ς."""
    closed("the plan", payload["plan"], ())
    steps = [(0, run.data)]
    if isinstance(run.noises, np.ndarray):
        every = run.noises[np.minimum(np.arange(run.data), len(run.noises) - 1)]
        _, places, counts = np.unique(every, return_index=True, return_counts=True)
        steps = list(zip(places.tolist(), counts.tolist(), strict=True))
    positions("noises", len(steps))
    needed = [run.moved().over(run.size * run.noise(k), n) for k, n in steps]
    return Proven(run.assumptions(hidden=False), (run.bound(needed),))


def _named(run: DrawnRun) -> tuple[Names, ...]:
    """The method, and what it rests on; of two kinds of records also what older files say."""
    match run.exchange:
        case Exchange.PRESENCE:
            sources: tuple[str, ...] = (_GAUSSIANS,)
        case Exchange.EITHER:
            sources = _REPLACED, _EXCHANGED
        case Exchange.ZEROED:
            sources = _ZEROED, _EXCHANGED
        case Exchange.DISPLACED:
            sources = (_EXCHANGED,)
        case _:
            assert_never(run.exchange)
    return tuple(Names("composition", source) for source in sources)


# Steps as stated.


def _iteration(iteration: Iteration, payload: Payload) -> Proven:
    claims_some(payload, cases=0, case=(), steps=("c", "s", "sigma"))
    if iteration.start > 0.0:
        raise Refused("start: composition needs equal starts")
    return proven_of_iteration(iteration, mu_of(_cost(payload)), hidden=False)


def _cost(payload: Payload) -> Any:
    total = arb(0)
    if "groups" in payload:
        for times, stretches in groups(payload["groups"]):
            for n, _, s, sigma in stretches:
                total += times * n * _paid(s, sigma)
        return total
    s, sigma = columns(payload["steps"])[1:]
    positions("steps", len(s))
    for sensitivity, noise in timed(zip(s.tolist(), sigma.tolist(), strict=True)):
        total += _paid(sensitivity, noise)
    return total


def _paid(s: float, sigma: float) -> Any:
    if s == 0.0:
        return arb(0)
    if sigma == 0.0:
        return arb("inf")
    ratio = arb(s) / arb(sigma)
    return ratio * ratio


# Releases that were chosen one after the other, under a bound on what they add up to (docs, "Theory",
# 16).
#
# The bound was fixed beforehand and is what is claimed: what the releases listed here amount to says
# nothing of those that other outcomes would have led to. The sum is one of μ², or of Rényi divergences of
# one order, which was fixed beforehand as well.


def _of_squares(releases: Releases, payload: Payload) -> Proven:
    claim = payload["claim"]
    closed("the claim", claim, ("mu",))
    mu = _finite("mu", claim["mu"])
    total = _sum(releases, _square, "no Gaussian is known to lie below what it proves")
    if not total <= exact(mu) * exact(mu):
        raise Refused(f"mu: the parts amount to more than the bound {mu!r}")
    return _proven(releases, refusing_above(mu), JointBound.gaussian(mu))


def _of_divergences(releases: Releases, payload: Payload) -> Proven:
    claim = payload["claim"]
    closed("the claim", claim, ("tradeoff",))
    closed("the trade-off function", claim["tradeoff"], ("kind", "order", "rho"))
    order, rho = read_order(claim["tradeoff"]["order"]), _finite("rho", claim["tradeoff"]["rho"])
    total = _sum(
        releases,
        lambda bounds: least_divergence(bounds, order),
        f"no finite divergence of order {order!r} follows from what it proves",
    )
    if not total <= exact(rho):
        raise Refused(f"rho: the parts amount to more than the bound {rho!r}")
    bound = JointBound.of(Divergences.single(order, rho))
    return _proven(releases, refusing_divergences_above(order, rho), bound)


def _sum(releases: Releases, charge: Callable[[Bounds], Any], unknown: str) -> Any:
    """What all parts are charged with, a rational number. Refused where one has no finite charge."""
    if releases.adjacency == "retrained":
        raise Refused("adjacency: forgetting supposes that no request reacts to a release")
    total: Any = fmpq(0)
    charges: dict[Bounds, Any] = {}
    for i, finding in enumerate(timed(releases.findings)):
        bounds = finding.claimed
        if bounds not in charges:  # many releases are alike
            charges[bounds] = charge(bounds)
        if charges[bounds] is None:
            raise Refused(f"part {i + 1}: {unknown}")
        total += charges[bounds]
    return total


def _square(bounds: Bounds) -> Any:
    """The least μ² with G(μ) below one of the bounds; None where none is known."""
    squares = [s for bound in bounds if (s := square_below(bound)) is not None]
    return min(squares, default=None)


def _finite(name: str, value: Any) -> float:
    bound = read_mu(value)
    if not bound < float("inf"):
        raise Refused(f"{name}: expected a finite bound")
    return bound


def _proven(releases: Releases, sentence: str, bound: JointBound) -> Proven:
    assumptions = [own for one in releases.findings for own in one.assumptions]
    return Proven((*assumptions, INDEPENDENT, ENTERED, sentence), (bound,))


_SQUARES, _DIVERGENCES = "adaptive composition", "adaptive composition of divergences"


# Several releases from the same data, with independent randomness: their trade-off functions multiply.


_SOURCE_COMPOSED = "Dong, Roth, Su 2022, Thm 3.2"
_MOST = 64  # ways to name one composition


def _check_composed(releases: Releases, payload: Payload) -> Proven:
    assumptions = [sentence for one in releases.findings for sentence in one.assumptions]
    bounds = several_releases([_carried(finding) for finding in releases.findings])
    return Proven((*assumptions, INDEPENDENT), bounds)


def _carried(finding: Finding) -> Bounds:
    """What a composition goes on with: what is proven, or what is claimed where that is in finer pieces."""
    fine = any(factor.FINE for bound in finding.claimed for factor in bound.factors)
    return finding.claimed if fine else finding.proven


def _names_composed(releases: Releases) -> tuple[Names, ...]:
    names = [finding.names for finding in releases.findings]
    ways = 1
    for one in names:
        ways *= len(one)
        if ways > _MOST:
            raise Refused(f"parts: {len(names)} that may be named in too many ways")
    joined = []
    for choice in product(*names):
        sources = dict.fromkeys(n.source for n in choice)
        joined.append(
            Names(" + ".join(n.method for n in choice), "; ".join((*sources, _SOURCE_COMPOSED)))
        )
    if releases.alike:
        joined += [Names(f"{n.method}, {len(names)} times", n.source) for n in names[0]]
    return tuple(joined)


# Group privacy: data sets that differ in k units are joined by a chain of k adjacent pairs.
#
# Of a Gaussian link with μ the chain proves G(kμ), of ε-DP it proves kε-DP, and of any other the k-fold
# function of the link's (docs, "Theory", 19).


_CHAINS = "Dong, Roth, Su 2022, Thm 2.14; docs, Theory, 19.2 (Theorem 28)"


def _check_group(subject: Members, payload: Payload) -> Proven:
    if subject.neighbours == "zero_out" and not subject.base.nulls:
        raise Refused(
            "member: it says more of a record than is true of one whose contribution is 0"
        )
    closed("the claim", payload["claim"], ("tradeoff",))
    curve = payload["claim"]["tradeoff"]
    bounds = (_numerical(subject, curve),) if curve["kind"] == "grouped" else _closed(subject)
    sentences = group_sentences(subject.size, subject.base.unit, subject.neighbours)
    return Proven((*subject.base.assumptions, *sentences), bounds)


def _numerical(subject: Members, curve: Any) -> JointBound:
    """The k-fold function of what a member's certificate claims."""
    gap = uncovered(subject.base.claimed, read_bounds(curve["base"]))
    if gap is not None:
        raise Refused(f"base: {gap}")
    if curve["size"] != subject.size:
        raise Refused(f"size: expected {subject.size} in the claim, got {curve['size']!r}")
    return JointBound.of(GroupFactors.read(curve, 1))


def _closed(subject: Members) -> tuple[JointBound, ...]:
    """What follows in closed form from the bounds on one member."""
    bounds = []
    for one in (*subject.base.proven, *subject.base.claimed):
        gaussians, pure = one.only(Gaussians), one.only(PureFactors)
        if gaussians is not None and len(gaussians.parts) == 1:
            bounds.append(JointBound.gaussian(_times(gaussians.mu, subject.size)))
        elif pure is not None and pure.size == 1:
            epsilon = _times(pure.entries[0][0], subject.size)
            bounds.append(JointBound.of(PureFactors(((epsilon, 1),))))
    if not bounds:
        raise Refused("claim: a chain of such links has no closed form")
    return tuple(bounds)


def _times(x: float | None, size: int) -> float:
    """size·x, rounded up."""
    if x is None or x == float("inf"):
        return float("inf")
    return double_above(size * Fraction(x))


# A mechanism that somebody states by its trade-off function.
#
# Nothing is derived. The sentence among the assumptions says that the function is taken as it is stated;
# what is checked is that a guarantee says no more than that.


def _check_stated(subject: StatedMechanism, payload: Payload) -> Proven:
    bounds = read_bounds(payload["claim"]["tradeoff"])
    return Proven((stated_sentence(subject.method, subject.source),), bounds)


_KEYS = ("run", "claim", "position")

THEOREMS = {
    "composition": {
        **of_runs(
            ordered=ProofCheck((*_KEYS, "cases"), _ordered, named("composition", _GAUSSIANS)),
            drawn=ProofCheck((*_KEYS, "plan", "reading"), drawn, _named),
        ),
        Iteration: ProofCheck(KEYS, _iteration, named_with_cells("composition", _GAUSSIANS, PATH)),
    },
    _SQUARES: {
        Releases: ProofCheck(
            ("parts", "claim"),
            _of_squares,
            named(_SQUARES, "Smith, Thakurta 2022; docs, Theory, 16 (Theorem 21)"),
        )
    },
    _DIVERGENCES: {
        Releases: ProofCheck(
            ("parts", "claim"),
            _of_divergences,
            named(_DIVERGENCES, "Feldman, Zrnic 2021; docs, Theory, 16 (Theorem 22)"),
        )
    },
    "composed": {Releases: ProofCheck(("parts",), _check_composed, _names_composed)},
    "group privacy": {
        Members: ProofCheck(
            ("member", "size", "claim"), _check_group, named("group privacy", _CHAINS)
        )
    },
    "stated mechanism": {
        StatedMechanism: ProofCheck(
            ("mechanism", "claim"),
            _check_stated,
            lambda subject: (Names(subject.method, subject.source),),
        )
    },
}

"""What a certificate is about: runs, chains, iterations, mechanisms, derived again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, assert_never

import numpy as np

from pabi.describe.files import from_dict
from pabi.describe.iteration import iteration_sentences
from pabi.describe.langevin import (
    FOLLOWED_EXACTLY,
    LangevinChain,
    LangevinDiffusion,
    chain_sentences,
)
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.unlearning import Unlearning
from pabi.verification.arithmetic import (
    Refused,
    closed,
    columns,
    exact,
    groups,
    integer,
    nonnegative,
    positions,
    root_up,
    sentences,
)
from pabi.verification.bounds import JointBound
from pabi.verification.derivation import takes_plain_steps
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.factors.closed_forms import Gaussians, read_mu
from pabi.verification.forgetting import ForgettingDraws, ForgettingOrder
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.samplers import (
    Accuracy,
    ColumnStatistics,
    Diffusion,
    IteratedMechanism,
    Mechanism,
    SecondMoments,
)
from pabi.verification.schemes import (
    FixedDraws,
    IndependentDraws,
    KnownPositions,
    SecretEveryEpoch,
    SecretOnce,
    scheme_of,
)
from pabi.verification.theorem import (
    About,
    Check,
    Compared,
    Finding,
    Names,
    Payload,
    ProofCheck,
    Proven,
    Theorem,
    Unit,
    read_adjacency,
    read_compared,
    read_unit,
)

# Langevin chains: each is a run of noisy SGD, whose certificate is part of theirs.


class Chains(About):
    """Chains that a description speaks of, and what was found of one; the certificate of one must be about
    the run that the description implies."""

    CALLED = "of a Langevin chain"

    def __init__(self, chain: LangevinChain, payload: Payload, check: Check) -> None:
        one = payload["one"]
        if one["theorem"] != payload["theorem"]:
            raise Refused(f"theorem: expected {payload['theorem']!r}, as of one chain")
        run = from_dict(one["run"])
        if type(run) is not NoisySGD:
            raise Refused("one: expected a run of noisy SGD")
        _check_same(chain, run)
        self.chain, self.one = chain, check(one)
        self.adjacency, self.nulls = read_adjacency(chain.adjacency), self.one.nulls


def _check_same(chain: LangevinChain, run: NoisySGD) -> None:
    """Refuse unless `run` takes the chain's steps, with no more noise and no less sensitivity."""
    same = ("loss", "n", "batches", "steps", "adjacency", "unit", "diameter", "release", "rounding")
    for name in same:
        if getattr(chain, name) != getattr(run, name):
            raise Refused(f"{name}: one chain's run differs from the description")
    of_chain, of_run = ((repr(p), getattr(p, "diameter", None)) for p in (chain.prox, run.prox))
    if of_chain != of_run:
        raise Refused("prox: one chain's run differs from the description")
    for name in ("clip_norm", "noise_multiplier"):
        if getattr(run, name) is not None:
            raise Refused(f"{name}: a Langevin chain has none")
    if run.cooldown_steps or not takes_plain_steps(run.update):
        raise Refused("update: a Langevin chain takes plain steps, all of them with data")
    # The chain multiplies the gradient by the double nearest to η·β: that is part of its description.
    if run.step_size != float(chain.step_size) * float(chain.inverse_temperature):
        raise Refused("step_size: expected step_size·inverse_temperature")
    if not isinstance(run.noise_std, float):
        raise Refused("noise_std: expected a number")
    sigma = exact(run.step_size) * exact(run.noise_std)
    if sigma * sigma > 2 * exact(chain.step_size):
        raise Refused("noise_std: expected at most √(2·step_size) on the iterate")
    stated, sensitivity = chain.gradient_gap, run.gradient_sensitivity
    if stated is None or sensitivity is None:
        enough = stated is None and sensitivity is None
    else:
        enough = exact(sensitivity) >= exact(stated) * chain.n
    if not enough:
        raise Refused("gradient_sensitivity: expected at least n·gradient_gap")


def _check(chains: Chains, payload: Payload) -> Proven:
    """What is proven of one chain, for all of them."""
    chain, one = chains.chain, chains.one
    assumptions = chain_sentences(chain, one.assumptions)
    if chain.chains == 1:
        return Proven(assumptions, one.proven)
    (alone,) = one.proven
    gaussians = alone.only(Gaussians)
    if gaussians is None or len(gaussians.parts) != 1:
        raise Refused("chains: several are checked for Gaussian bounds only")
    mu = gaussians.parts[0][1]
    many = mu if math.isinf(mu) else root_up(chain.chains * exact(mu) * exact(mu))
    return Proven(assumptions, (JointBound.gaussian(many),))


def of_runs(*, ordered: ProofCheck | None = None, drawn: ProofCheck | None = None) -> Theorem:
    """A theorem about runs of noisy SGD, and so about Langevin chains."""
    of: dict[type, ProofCheck] = {
        Chains: ProofCheck(
            ("run", "claim", "one", "reading"), _check, lambda chains: chains.one.names
        )
    }
    if ordered is not None:
        of[OrderedRun] = ordered
    if drawn is not None:
        of[DrawnRun] = drawn
    return of


_MOST_GROUPED = 10**9


class Iteration(About):
    """Steps that are taken as stated. `followed`: whether they may be the cells of a diffusion."""

    CALLED = "of an iteration"
    scope = "iteration"

    def __init__(self, payload: Payload) -> None:
        self.adjacency = read_adjacency(payload["adjacency"])
        self.unit: Unit = read_unit(payload.get("unit", "record"))
        stated = payload["diameter"]
        self.diameter = None if stated is None else nonnegative("diameter", stated)
        self.start = nonnegative("start", payload["start"])
        self.followed = payload["version"] == 1 or FOLLOWED_EXACTLY in payload["assumes"]


def _findings(name: str, parts: Any, adjacency: Compared, check: Check) -> list[Finding]:
    """What is found of certificates, all of one adjacency. `name`: of one of them, in a refusal."""
    positions(f"{name}s", len(parts))
    findings: list[Finding] = []
    for i, part in enumerate(parts):
        try:
            finding = check(part)
        except Refused as refusal:
            raise Refused(f"{name} {i + 1}: {refusal}") from None
        if finding.adjacency != adjacency:
            raise Refused(
                f"{name} {i + 1}: expected adjacency {adjacency!r}, got {finding.adjacency!r}"
            )
        findings.append(finding)
    return findings


def _unit_of(findings: Sequence[Finding]) -> str:
    """The unit that all of them are about."""
    units = dict.fromkeys(finding.unit for finding in findings)
    if len(units) > 1:
        raise Refused(f"unit: expected the same throughout, got {' and '.join(map(repr, units))}")
    return findings[0].unit


class Releases(About):
    """Several releases, each with its own certificate, of one adjacency."""

    CALLED = "of several releases"

    def __init__(self, payload: Payload, check: Check) -> None:
        parts = payload["parts"]
        if not parts:
            raise Refused("nothing is composed")
        self.adjacency = read_compared(payload["adjacency"])
        self.findings = _findings("part", parts, self.adjacency, check)
        self.unit = _unit_of(self.findings)
        self.compared = self.findings[0].compared
        if any(finding.compared != self.compared for finding in self.findings):
            raise Refused(
                "parts: they compare with models that were retrained without other records"
            )
        self.nulls = all(finding.nulls for finding in self.findings)
        self.alike = len(parts) > 1 and all(part == parts[0] for part in parts)
        if {finding.scope for finding in self.findings} != {"run"}:
            self.scope = "iteration"


class Trials(About):
    """Runs of which the best is released: certificates of the settings of one, and of its score."""

    CALLED = "of a selection"

    def __init__(self, payload: Payload, check: Check) -> None:
        trials, scoring = payload["trials"], payload["scoring"]
        if not trials:
            raise Refused("nothing is selected from")
        self.adjacency = read_adjacency(payload["adjacency"])
        self.trials = _findings("trial", trials, self.adjacency, check)
        scored = [] if scoring is None else [scoring]
        self.scored = _findings("scoring", scored, self.adjacency, check)
        self.findings = [*self.trials, *self.scored]
        self.unit = _unit_of(self.findings)
        self.nulls = all(finding.nulls for finding in self.findings)
        if {finding.scope for finding in self.findings} != {"run"}:
            self.scope = "iteration"


class Members(About):
    """Groups of `size` units: the certificate of the same release about one of them.

    Under "replace_one" one unit of a group after another is replaced. Under "zero_out" the contributions of
    some are 0 while that of another becomes so, which the theorem must allow for.
    """

    CALLED = "of groups"
    nulls = True

    def __init__(self, payload: Payload, check: Check) -> None:
        self.neighbours = read_adjacency(payload["adjacency"])
        self.adjacency = self.neighbours
        (self.base,) = _findings("member", [payload["member"]], self.adjacency, check)
        self.size = integer("size", payload["size"])
        if not 2 <= self.size <= _MOST_GROUPED:
            raise Refused(f"size: expected 2 to {_MOST_GROUPED}, got {self.size}")
        self.unit = f"groups of {self.size} {read_unit(self.base.unit)}s"
        self.scope = self.base.scope


class StatedMechanism(About):
    """A mechanism that is taken as its owner states it: what it is called, and where that is said."""

    CALLED = "of a stated mechanism"
    scope = "iteration"

    def __init__(self, payload: Payload) -> None:
        stated = payload["mechanism"]
        closed("the mechanism", stated, ("method", "source"))
        self.adjacency = read_adjacency(payload["adjacency"])
        self.method, self.source = sentences("mechanism", [stated["method"], stated["source"]])


Subject = (
    OrderedRun
    | DrawnRun
    | Chains
    | Diffusion
    | Mechanism
    | IteratedMechanism
    | SecondMoments
    | ColumnStatistics
    | Accuracy
    | ForgettingOrder
    | ForgettingDraws
    | Iteration
    | Releases
    | Trials
    | Members
    | StatedMechanism
)


def subject_of(payload: Payload, check: Check) -> Subject:
    """What a certificate is about; `check` checks those that are part of it."""
    if "parts" in payload and "run" not in payload:
        return Releases(payload, check)
    if "trials" in payload and "run" not in payload:
        return Trials(payload, check)
    if "member" in payload and "run" not in payload:
        return Members(payload, check)
    if "mechanism" in payload and "run" not in payload:
        return StatedMechanism(payload)
    table = payload["run"]
    if table is None:
        return Iteration(payload)
    if "epsilons" in table:  # each of which is a round, gone through where it is read
        positions("rounds", len(table["epsilons"]))
    description = from_dict(table)
    derive = _DERIVATIONS.get(type(description))
    if derive is None:
        raise Refused(f"run: the checker knows no {type(description).__name__} as a description")
    return derive(description, payload, check)


def _run(
    run: NoisySGD, payload: Payload, check: Check, unlearning: Unlearning | None = None
) -> OrderedRun | DrawnRun:
    """A run, or one that forgets, by the scheme of its batches."""
    cap = integer("cap", payload["cap"]) if "cap" in payload else None
    position = payload["position"]
    if position is not None:
        integer("position", position)
        if unlearning is not None:
            raise Refused("position: forgetting is about all withdrawn records")
    scheme = scheme_of(run.batches, run.n, cap)
    match scheme:
        case KnownPositions() | SecretOnce() | SecretEveryEpoch():
            if unlearning is not None:
                return ForgettingOrder(unlearning, scheme)
            return OrderedRun(run, scheme, position)
        case FixedDraws() | IndependentDraws():
            if position is not None:
                raise Refused("position: nobody has one in random batches")
            return (
                DrawnRun(run, scheme) if unlearning is None else ForgettingDraws(unlearning, scheme)
            )
        case _:
            assert_never(scheme)


_DERIVATIONS: Mapping[type[Any], Callable[[Any, Payload, Check], Subject]] = MappingProxyType(
    {
        NoisySGD: _run,
        LangevinChain: Chains,
        LangevinDiffusion: lambda description, payload, check: Diffusion(description),
        ExponentialMechanism: lambda description, payload, check: Mechanism(description),
        IteratedExponentialMechanism: lambda description, payload, check: IteratedMechanism(
            description
        ),
        NoisySecondMoments: lambda description, payload, check: SecondMoments(description),
        NoisyColumnStatistics: lambda description, payload, check: ColumnStatistics(description),
        NoisyAccuracy: lambda description, payload, check: Accuracy(description),
        Unlearning: lambda description, payload, check: _run(
            description.run, payload, check, description
        ),
    }
)

# Certificates of bare iterations: the steps are taken as stated, the arithmetic is checked.


# Of a certificate beside those that all have.
KEYS = ("run", "claim", "diameter", "start", "steps", "groups", "cases")


def claims_some(
    payload: Payload, *, cases: int, case: tuple[str, ...], steps: tuple[str, ...]
) -> bool:
    """Whether a finite μ is claimed, or what is found. Refused unless the certificate has so many `cases`
    with no other keys than `case`, and its steps no other columns than `steps`."""
    if "claim" in payload:
        closed("the claim", payload["claim"], ("mu",))
    if "steps" in payload:
        closed("steps", payload["steps"], steps)
    if "steps" in payload and "groups" in payload:
        raise Refused("groups: the steps are stated twice")
    if not isinstance(payload["cases"], list) or len(payload["cases"]) != cases:
        raise Refused(f"cases: expected a list of {cases}")
    for one in payload["cases"]:
        closed("a case", one, case)
    return "claim" not in payload or read_mu(payload["claim"]["mu"]) < math.inf


def proven_of_iteration(iteration: Iteration, mu: float, *, hidden: bool) -> Proven:
    """The proof of μ for an iteration whose steps are taken as stated, with what it assumes."""
    assumptions = iteration_sentences(
        read_adjacency(iteration.adjacency),
        iteration.diameter,
        iteration.start,
        hidden,
        unit=iteration.unit,
    )
    return Proven(assumptions, (JointBound.gaussian(mu),))


def named_with_cells(
    method: str, source: str, diffusion: Names
) -> Callable[[Iteration], tuple[Names, ...]]:
    """A name for every iteration, and that of a `diffusion` for those that may be its cells."""
    names = Names(method, source)
    return lambda iteration: (names, diffusion) if iteration.followed else (names,)


def written_out(payload: Payload) -> tuple[Any, ...]:
    """Arrays of the slopes, the sensitivities and the noises of all steps."""
    if "steps" in payload:
        return columns(payload["steps"])
    stated = groups(payload["groups"])
    positions("steps", sum(m * sum(x.n for x in stretches) for m, stretches in stated))
    parts = [
        np.tile(np.repeat([x[1:] for x in stretches], [x.n for x in stretches], axis=0), (times, 1))
        for times, stretches in stated
    ]
    table = np.concatenate(parts)
    return table[:, 0], table[:, 1], table[:, 2]

"""What a certificate is about: a table from the type of a description to what is derived from it.

It compares exact types. Without a description there is a bare iteration, or there are several releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, assert_never

from pabi.describe.files import from_dict
from pabi.describe.langevin import FOLLOWED_EXACTLY, LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.unlearning import Unlearning
from pabi.verification.adjacency import Compared, Unit, read_adjacency, read_compared, read_unit
from pabi.verification.arithmetic import closed, integer, nonnegative, sentences
from pabi.verification.chains import Chains
from pabi.verification.drawn_runs import DrawnRun
from pabi.verification.forgetting import ForgettingDraws, ForgettingOrder
from pabi.verification.limits import Refused, positions
from pabi.verification.ordered_runs import OrderedRun
from pabi.verification.samplers import Diffusion, IteratedMechanism, Mechanism
from pabi.verification.schemes import (
    FixedDraws,
    IndependentDraws,
    KnownPositions,
    SecretEveryEpoch,
    SecretOnce,
    scheme_of,
)
from pabi.verification.statistics import Accuracy, ColumnStatistics, SecondMoments
from pabi.verification.theorem import About, Check, Finding, Payload

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

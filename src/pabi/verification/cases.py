"""The cases of a run whose batches come in an order: what each pays for one record, and what that proves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from flint import arb

from pabi.verification.arithmetic import (
    Refused,
    Repeated,
    block_cost,
    check_cost,
    closed,
    columns,
    groups,
    in_time,
    integer,
    mu_of,
    nonnegative,
    raised,
    timed,
)
from pabi.verification.bounds import Bounds, JointBound
from pabi.verification.factors.closed_forms import Failure, Gaussians, Part, read_mu, written_mu
from pabi.verification.ordered_runs import (
    OrderedRun,
    UseSteps,
    check_arrays,
    check_groups,
    check_uses,
)
from pabi.verification.replay import (
    Claim,
    PaidBlocks,
    Replay,
    RoundedSteps,
    payments_of,
    replayed,
)
from pabi.verification.subjects import of_runs
from pabi.verification.theorem import Payload, ProofCheck, Proven, Theorem, named

# Payments under linear slopes, as a certificate states them: written out, or in blocks of equal steps.


# The keys of a case, as the solver of linear slopes writes them.
PAYMENT_KEYS = ("tau", "distance", "skipped", "blocks", "first", "unit", "ends", "q", "shift")

Blocks = list[tuple[int, list[Repeated]]]


def check_start(case: dict[str, Any], diameter: float | None, start: float) -> float:
    """The distance z_τ at which a case starts. Refused unless the runs are no further apart at τ: w_0 at the
    beginning, D later."""
    tau, distance = integer("tau", case["tau"]), nonnegative("distance", case["distance"])
    least = start if tau == 0 else diameter
    if least is None:
        raise Refused(f"step {tau + 1}: tau: a later start needs a diameter")
    if distance < least:
        raise Refused(f"step {tau + 1}: distance: expected at least {least!r}, got {distance!r}")
    return distance


def read_blocks(case: dict[str, Any]) -> Blocks:
    """Blocks of run-length encoded steps; only a block of one group may be repeated."""
    if any(key in case for key in ("first", "unit", "ends", "q", "shift")):
        raise Refused("q: the payments are stated twice")
    blocks = []
    for block in timed(case["blocks"]):
        closed("a block", block, ("times", "groups"))
        times, inner = integer("times", block["times"]), groups(block["groups"])
        if times < 1 or not inner or (times > 1 and len(inner) > 1):
            raise Refused("blocks: expected repetitions of a single group")
        blocks.append((times, inner))
    return blocks


def flat(blocks: Blocks) -> Iterator[Repeated]:
    """The groups of all blocks, in order."""
    for times, inner in blocks:
        for repeated, stretches in inner:
            yield times * repeated, stretches


def blocks_cost(blocks: Blocks, distance: Any, skipped: int) -> Any:
    """The cost of all blocks, the first of which also pays off `distance`."""
    total, k = arb(0), skipped
    for times, inner in timed(blocks):
        k += times * sum(m * sum(x.n for x in stretches) for m, stretches in inner)
        where = f"step {k}"
        if distance > 0 and times > 1:
            raise Refused(f"{where}: the first block cannot be repeated")
        total += times * block_cost(inner, distance, where)
        distance = arb(0)
    if not distance.is_zero():
        raise Refused(f"step {k + 1}: blocks: the distance at the start is never paid off")
    return total


def demands_within(stated: Sequence[Repeated], steps: int) -> bool:
    """Whether any of the first `steps` has a sensitivity above 0."""
    k = 0
    for times, stretches in stated:
        for stretch in stretches:
            if k < steps and stretch.s > 0.0:
                return True
            k += stretch.n
        k += (times - 1) * sum(x.n for x in stretches)
    return False


def without(stated: Sequence[Repeated], skipped: int) -> Iterator[Repeated]:
    """The stated groups without the first `skipped` steps."""
    for times, stretches in stated:
        length = sum(x.n for x in stretches)
        whole = min(times, skipped // length)
        skipped -= whole * length
        times -= whole
        if times and skipped:
            left = []
            for stretch in stretches:
                gone = min(skipped, stretch.n)
                skipped -= gone
                if stretch.n > gone:
                    left.append(stretch._replace(n=stretch.n - gone))
            yield 1, tuple(left)
            times -= 1
        if times:
            yield times, stretches


def check_same_steps(used: Sequence[Repeated], stated: Sequence[Repeated]) -> None:
    """Refuse unless the blocks' steps are the stated ones; without blocks, unless nothing is demanded."""
    if not used:
        if any(x.s > 0.0 for _, stretches in stated for x in stretches):
            raise Refused("blocks: demands are left unpaid")
        return
    if _merged(used) != _merged(stated):
        raise Refused("blocks: their steps are not the stated ones")


def _merged(parts: Sequence[Repeated]) -> list[Repeated]:
    """The same steps, with equal neighbours as one repetition."""
    neighbours = groupby(parts, key=itemgetter(1))
    return [(sum(times for times, _ in equal), stretches) for stretches, equal in neighbours]


CASE = ("uses", "mu", "weight", "ranges", "tau", "distance")


def proven_by(run: OrderedRun, parts: Sequence[Part]) -> Bounds:
    """What these cases prove that rest on the slopes or moduli of the steps: they hold for the batches that
    the scheme says, but for its failure."""
    return (JointBound.of(Gaussians(tuple(parts)), Failure(run.failure)),)


def of_cases(
    method: str,
    source: str,
    proven: Callable[[OrderedRun, Payload], list[Part]],
    *keys: str,
    besides: tuple[str, ...] = (),
) -> Theorem:
    """A theorem about batches that come in an order, and a hidden path. `proven`: what is of each case, with
    its probability; `keys`, `besides`: what its certificates have, and what it assumes, beyond the others."""

    def check(run: OrderedRun, payload: Payload) -> Proven:
        assumptions = (*run.assumptions(hidden=True), *besides)
        return Proven(assumptions, proven_by(run, proven(run, payload)))

    stated = ("run", "claim", "position", "cases", *keys)
    return of_runs(ordered=ProofCheck(stated, check, named(method, source)))


def stated_mu(case: dict[str, Any]) -> float | None:
    """The μ that a case states, None where it leaves that to whoever checks it."""
    return read_mu(case["mu"]) if "mu" in case else None


def proven_mu(case: dict[str, Any], cost: Any, where: str) -> float:
    """The μ that a case states. Refused where its payments cost more; where it states none, what was found
    is from now on."""
    if "mu" not in case:
        case["mu"] = written_mu(raised(mu_of(cost)))
    mu = read_mu(case["mu"])
    check_cost(cost, mu, where)
    return mu


class ClaimedCase(NamedTuple):
    """A case about these uses, the distance that it starts at, and the μ that it states, if any."""

    case: dict[str, Any]
    uses: UseSteps
    distance: float
    mu: float | None


class CaseCheck(ABC):
    """Checks the payments of cases against one run, which they pay for up to step `end`.

    `start`: how far apart the runs are where the payments begin.
    """

    PAYMENTS: ClassVar[tuple[str, ...]] = PAYMENT_KEYS

    def __init__(self, run: OrderedRun, start: float = 0.0) -> None:
        self.run, self.end, self.start = run, run.total, start

    def __call__(self, cases: Iterable[tuple[dict[str, Any], UseSteps]]) -> list[float]:
        """The μ of every case, if its payments prove it for a record with these uses."""
        every, claims = [], []
        for case, uses in cases:
            in_time()
            closed("a case", case, (*CASE, *self.PAYMENTS))
            check_uses(case, uses)
            every.append(case)
            mu = stated_mu(case)
            if not uses.total:
                proven_mu(case, arb(0), "")
            elif mu != math.inf:
                distance = check_start(case, self.run.diameter, self.start)
                claims.append(ClaimedCase(case, uses, distance, mu))
        for claim, cost in zip(claims, self.costs(claims), strict=True):
            proven_mu(claim.case, cost, f"step {self.end}")
        return [read_mu(case["mu"]) for case in every]

    @abstractmethod
    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case, a ball; Refused unless its distance ends at zero."""


class WrittenOut(CaseCheck):
    """Replays payments that are written out, of all cases at once."""

    besides: Any = 0  # what else each case costs, a ball

    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case."""
        if not claims:
            return []
        replay = Replay(self.steps, self.run.period)
        return replay.costs(Claim(self.payments(x), x.mu, self.besides) for x in claims)

    @property
    @abstractmethod
    def steps(self) -> RoundedSteps:
        """The steps that are paid for."""

    @abstractmethod
    def payments(self, claim: ClaimedCase) -> PaidBlocks:
        """The payments of a case, and the demands that they are for."""


class LinearCases(WrittenOut):
    """Payments under linear slopes, in blocks of equal steps or written out."""

    def __init__(self, run: OrderedRun, payload: dict[str, Any]) -> None:
        super().__init__(run)
        self.written: RoundedSteps | None = None
        if payload.get("steps") is not None:
            self.written = RoundedSteps(*columns(payload["steps"]))
            check_arrays(run, self.written)

    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case."""
        written = iter(super().costs([x for x in claims if "blocks" not in x.case]))
        return [self.cost(x) if "blocks" in x.case else next(written) for x in claims]

    @property
    def steps(self) -> RoundedSteps:
        """Those that are stated, or follow from the description."""
        return self.run.steps if self.written is None else self.written

    def payments(self, claim: ClaimedCase) -> PaidBlocks:
        """The payments of a case, for the record's own uses."""
        steps = self.steps
        at = claim.uses.steps()
        return payments_of(claim.case, claim.distance, at, steps.s[at], len(steps.c))

    def cost(self, claim: ClaimedCase) -> Any:
        """Σ (a_k/σ_k)² of the payments of one case, a ball."""
        if "blocks" in claim.case:
            return self._blocks_cost(claim.case, claim.uses, arb(claim.distance))
        return replayed(self.steps, self.payments(claim))

    def _blocks_cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        skipped = integer("skipped", case["skipped"])
        blocks = read_blocks(case)
        if case["tau"] not in (0, skipped) or (case["tau"] == 0 and uses.among(0, skipped)):
            raise Refused(f"step {skipped + 1}: skipped: steps that use the record are left out")
        if not self.run.constant:
            raise Refused("blocks: the schedule varies")
        check_groups(self.run, uses, skipped, list(flat(blocks)))
        return blocks_cost(blocks, distance, skipped)

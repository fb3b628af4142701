"""The cases of a run whose batches come in an order: payments, and one record's view each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from flint import arb, fmpq

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
    positions,
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
KEYS = ("tau", "distance", "skipped", "blocks", "first", "unit", "ends", "q", "shift")

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

Range = tuple[int, int] | None  # positions, None for an epoch that misses the record
# The μ of every case, each about these uses.
Check = Callable[[Iterable[tuple[dict[str, Any], UseSteps]]], list[float]]


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

    PAYMENTS: ClassVar[tuple[str, ...]] = KEYS

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


class OneByOne(CaseCheck):
    """Checks what the payments cost, one case after another."""

    def costs(self, claims: Sequence[ClaimedCase]) -> Sequence[Any]:
        """Σ (a_k/σ_k)² of the payments of each case."""
        return [self.cost(claim.case, claim.uses, arb(claim.distance)) for claim in claims]

    @abstractmethod
    def cost(self, case: dict[str, Any], uses: UseSteps, distance: Any) -> Any:
        """Σ (a_k/σ_k)² of the payments, a ball. Refused unless they bring `distance` to zero."""


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
        replayed = iter(super().costs([x for x in claims if "blocks" not in x.case]))
        return [self.cost(x) if "blocks" in x.case else next(replayed) for x in claims]

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


def worst_position(
    run: OrderedRun, cases: Sequence[Any], check: Check, *, later_is_worse: bool
) -> list[Part]:
    """One case for everybody: that of the stated position, of the one used last if no earlier one can be
    worse, or of every position, which will always do."""
    if run.position is not None:
        needed = [run.position]
    elif later_is_worse and len(cases) != run.period:
        needed = [(run.data - 1) % run.period]
    else:
        needed = list(range(positions("positions", run.period)))
    if len(cases) != len(needed):
        raise Refused(f"cases: expected {len(needed)}, one for every position that can be worst")
    for case in cases:
        if "weight" in case or "ranges" in case:
            raise Refused("weight, ranges: only of a secret order")
    mus = check((case, run.uses(j)) for case, j in zip(cases, needed, strict=True))
    return [(Fraction(1), max(mus))]


def last_to_first(
    run: OrderedRun, cases: Sequence[Any]
) -> Iterator[tuple[dict[str, Any], UseSteps]]:
    """Every position of a known order, by itself or rounded to one that is used later."""
    period, rest = run.period, run.data % run.period
    ranges = [_positions_of(case) for case in cases]
    _check_partition(ranges, period, missed=False)
    if any(a < b for a, b in ranges) and not run.later_is_worse:
        raise Refused("ranges: a position may not be rounded to a later one")
    for case, (_, last) in zip(cases, ranges, strict=True):
        check_weight(case, Fraction(1))
        yield case, run.uses((rest + last) % period)


def weights_of(run: OrderedRun, shares: Sequence[Any]) -> list[Fraction]:
    """The probability of each class to be the last one in which any of the records is, where `shares` are
    those of one record."""
    beyond, none, weights = fmpq(0), Fraction(1), []
    for share in reversed(shares):
        beyond, before = beyond + share, none
        none = run.none_in(beyond)
        weights.append(before - none)
    return weights[::-1]


def every_position(
    run: OrderedRun, cases: Sequence[Any], check: Check, *, later_is_worse: bool | None = None
) -> list[Part]:
    """Every position, by itself or rounded to one that is used later, with the probability that it is the
    worst of those where the records are. They come in the order of their last use; those of withdrawn
    records, where later uses may be safer, in that of what is proven. Before them comes the case of records
    that are in no batch, where there may be such. `later_is_worse`: None if that has to be found out."""
    period = run.period
    rest = run.data % period  # by last use, positions come in the order rest.., 0..rest − 1
    never, cases = (cases[:1], cases[1:]) if run.spare else ((), cases)
    ranges = [_positions_of(case) for case in cases]
    _check_partition(ranges, period, missed=False)
    rounded = [[a, b] for a, b in ranges if a < b]
    if later_is_worse is None:
        later_is_worse = bool(rounded or run.withdraws) and run.later_is_worse
    if rounded and not later_is_worse:
        raise Refused(f"ranges: positions {rounded[0]} may not be rounded to a later one")
    shares = [run.share((rest + a) % period, (rest + b) % period) for a, b in ranges]
    weights = weights_of(run, shares)
    for case, weight in timed(list(zip(cases, weights, strict=True))):
        check_weight(case, weight)
    mus = check(
        (case, run.uses((rest + b) % period)) for case, (_, b) in zip(cases, ranges, strict=True)
    )
    if run.withdraws and not later_is_worse:
        mus = [*accumulate(mus, max)]  # whatever is last in this order is the worst
    elif ranges != sorted(ranges):
        raise Refused("ranges: expected them in order")
    beside = 1 - sum(weights, Fraction(0))
    return [_in_no_batch(run, case, beside, check) for case in never] + list(
        zip(weights, mus, strict=True)
    )


def _in_no_batch(run: OrderedRun, case: dict[str, Any], weight: Fraction, check: Check) -> Part:
    """The case of records that no step uses."""
    if list(map(read_range, case["ranges"])) != [None]:
        raise Refused(f"ranges: expected none, of records in no batch, got {case['ranges']}")
    check_weight(case, weight)
    (mu,) = check([(case, UseSteps(0, 0, period=run.period))])
    return weight, mu


Weighed = tuple[dict[str, Any], Fraction, UseSteps]  # a case, its probability, and its uses


def every_pair(run: OrderedRun, cases: Sequence[Any]) -> Iterator[Weighed]:
    """The cases of a place that changes every epoch: one for every pair of ranges of positions in the last
    two epochs, each range at its end and older uses at those of their epochs."""
    epochs, rest = -(-run.data // run.period), run.data % run.period
    lengths = [run.period if epochs > 1 else 0, rest or run.period]
    return _every_choice(run, cases, epochs - 2, lengths)


def pairs_of_later_uses(run: OrderedRun, cases: Sequence[Any], check: Check) -> list[Part]:
    """What is proven of every pair where a use stands for all that may come before it."""
    if not run.moves_later():
        raise Refused("theorem: under reshuffling it needs later uses to be worse")
    return weighed(every_pair(run, cases), check)


def weighed(cases: Iterable[Weighed], check: Check) -> list[Part]:
    """What is proven of each of these cases, with its probability."""
    every = list(cases)
    mus = check((case, uses) for case, _, uses in every)
    return [(weight, mu) for (_, weight, _), mu in zip(every, mus, strict=True)]


def every_last_place(run: OrderedRun, cases: Sequence[Any]) -> Iterator[Weighed]:
    """The cases of a place that changes every epoch: one for every range of positions in the last epoch, at
    its end, and older uses at the ends of their epochs."""
    older, rest = -(-run.data // run.period) - 1, run.data % run.period
    return _every_choice(run, cases, older, [rest or run.period])


def _every_choice(
    run: OrderedRun, cases: Sequence[Any], older: int, lengths: Sequence[int]
) -> Iterator[Weighed]:
    """One case for every choice of ranges from epochs of these lengths, which come after `older` others."""
    choices = [tuple(map(read_range, case["ranges"])) for case in cases]
    if {len(choice) for choice in choices} != {len(lengths)}:
        raise Refused(f"ranges: expected cases of {len(lengths)} each, one for an epoch")
    chances = [
        _chances(run, set(ranges), length)
        for ranges, length in zip(zip(*choices, strict=True), lengths, strict=True)
    ]
    if len(set(choices)) != len(choices):
        raise Refused("ranges: some come twice")
    if len(choices) != math.prod(map(len, chances)):
        raise Refused("ranges: some pairs are missing")
    for case, choice in timed(list(zip(cases, choices, strict=True))):
        weight, then = Fraction(1), []
        for epoch, (where, chance) in enumerate(zip(choice, chances, strict=True), older):
            weight *= chance[where]
            if where is not None:
                then.append(epoch * run.period + where[1])
        check_weight(case, weight)
        yield case, weight, UseSteps(run.period - 1, max(0, older), period=run.period, then=then)


def _chances(run: OrderedRun, ranges: set[Range], length: int) -> dict[Range, Fraction]:
    """The probability that the last record among the first `length` positions is in each of these ranges, and
    that none is there."""
    _check_partition(ranges, length, missed=length < run.period or bool(run.spare))
    cut = sorted(r for r in ranges if r is not None)
    weights = weights_of(run, [run.share(a, b) for a, b in cut])
    chances: dict[Range, Fraction] = dict(zip(cut, weights, strict=True))
    return chances | ({None: 1 - sum(weights, Fraction(0))} if None in ranges else {})


def _check_partition(ranges: Collection[Range], length: int, *, missed: bool) -> None:
    """Refuse unless the ranges cut 0..length−1, and None stands for being elsewhere, if that may be."""
    following = 0
    for a, b in sorted(r for r in ranges if r is not None):
        if a != following or b < a:
            raise Refused(f"ranges: expected one that begins at {following}, got {[a, b]}")
        following = b + 1
    if following != length or (None in ranges) != missed:
        raise Refused(f"ranges: expected 0..{length - 1} to be covered")


def _positions_of(case: dict[str, Any]) -> tuple[int, int]:
    """The only range of positions that a case is about."""
    (covered,) = map(read_range, case["ranges"])
    if covered is None:
        raise Refused("ranges: every position is in the order, got none")
    return covered


def read_range(value: Any) -> Range:
    """The positions from `first` to `last` of [first, last], or None."""
    return None if value is None else (integer("ranges", value[0]), integer("ranges", value[1]))


def check_weight(case: dict[str, Any], weight: Fraction) -> None:
    """Refuse another probability than the one that follows from the description."""
    if list(case["weight"]) != [weight.numerator, weight.denominator]:
        raise Refused(f"weight: expected {weight}, got {case['weight']!r}")

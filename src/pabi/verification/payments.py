"""Payments under linear slopes, as a certificate states them: written out, or in blocks of equal steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from flint import arb

from pabi.numbers.encoding import read_floats, read_integers
from pabi.verification.arithmetic import Repeated, StepBalls, block_cost, replay
from pabi.verification.limits import timed
from pabi.verification.reading import closed, groups, integer, nonnegative
from pabi.verification.refusal import Refused

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


def replay_case(case: dict[str, Any], steps: StepBalls, distance: Any) -> Any:
    """The cost of written-out payments."""
    if "blocks" in case or "skipped" in case:
        raise Refused("blocks: the payments are stated twice")
    ends = read_integers("ends", case["ends"]).tolist()
    q = read_floats("q", case["q"]).tolist()
    tau, first = integer("tau", case["tau"]), integer("first", case["first"])
    if tau >= len(steps.c):
        raise Refused(f"step {tau + 1}: tau: the run is over")
    unit = nonnegative("unit", case["unit"])
    if unit == 0.0:
        raise Refused("unit: expected a number > 0")
    if not len(ends) == len(q) <= len(steps.c):
        raise Refused(f"q: expected one for each of the {len(ends)} ends, at most one a step")
    shift = read_integers("shift", case.get("shift", [0] * len(q))).tolist()
    slopes = [arb(x) * arb(2) ** power / arb(unit) for x, power in zip(q, shift, strict=True)]
    return replay(steps, tau, distance, first, ends, slopes)


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

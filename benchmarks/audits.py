"""Audits of 28 descriptions: four losses under seven kinds of batches, each on its worst known instance.

    python benchmarks/audits.py [--trainings 1000000] [--page docs/audits.md] [--jobs 2] [--only-reach]

Writes the tables of the page anew, between their marks: first what trainings of a trainer find. Fails if a
lower bound is above a guarantee.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pabi
from pabi.audits import Audit
from pabi.showing import exact, plain, shown, shown_down

DELTA = 1e-5
START, END = "<!-- audits: start -->", "<!-- audits: end -->"
SIZE = 50
REACH_START, REACH_END = "<!-- reach: start -->", "<!-- reach: end -->"
REACH_TRAININGS = 4_000
BATCHES = (
    pabi.FullBatch(),
    pabi.Cyclic(SIZE),
    pabi.ShuffleOnce(SIZE),
    pabi.Reshuffle(SIZE),
    pabi.BallsInBins(SIZE),
    pabi.Poisson(SIZE),
    pabi.FixedSize(SIZE),
)
LOSSES: tuple[tuple[str, pabi.Loss, dict[str, Any]], ...] = (
    ("logistic, l2 = 0.01", pabi.Loss.logistic(1.0, l2=0.01), {}),
    ("convex", pabi.Loss.convex(1.0, gradient_bound=1.0), {}),
    (
        "convex, ball",
        pabi.Loss.convex(1.0, gradient_bound=1.0),
        {"prox": pabi.prox.ball(0.25)},
    ),
    (
        "nonconvex, ball",
        pabi.Loss.nonconvex(0.5, gradient_bound=1.0),
        {"prox": pabi.prox.ball(0.25)},
    ),
)


def descriptions() -> Iterator[tuple[str, pabi.NoisySGD]]:
    """(the loss in words, the run)."""
    for name, loss, rest in LOSSES:
        for batches in BATCHES:
            noise = 6.0 if isinstance(batches, pabi.FullBatch) else 1.5
            yield (
                name,
                pabi.NoisySGD(
                    loss,
                    n=500,
                    batches=batches,
                    epochs=10,
                    step_size=0.5,
                    noise_multiplier=noise,
                    adjacency="zero_out",
                    **rest,
                ),
            )


Row = tuple[str, str, Audit, float]
"""The loss, the batches, the audit, and the least ε proven at the δ that its trainings resolve."""


def audited(described: tuple[str, pabi.NoisySGD], trainings: int) -> Row:
    """The audit of a description; at the δ that is resolved another analysis may be the best one."""
    name, run = described
    audit = pabi.audit(run, trainings=trainings, delta=DELTA)
    resolved = audit.resolved_delta
    return name, type(run.batches).__name__, audit, run.guarantee(resolved).epsilon(resolved)


def cells(audit: Audit, there: float) -> tuple[str, str]:
    """What trainings show, the exact instance and the guarantee: at δ, and at the δ that is resolved."""
    resolved = audit.resolved_delta
    at = (
        shown_down(audit.epsilon_lower, 3),
        shown_down(audit.exact or 0.0, 3),
        shown(audit.guarantee.epsilon(DELTA), 3),
    )
    also = (
        shown_down(audit.epsilon(resolved), 3),
        shown_down(audit.exact_epsilon(resolved) or 0.0, 3),
        shown(there, 3),
    )
    return "–".join(at), "–".join(also)


def table(audits: list[Row], seconds: float) -> str:
    """The table as Markdown, two lines for each loss, and what it took."""
    some = audits[0][2]
    names = [f"`{type(batches).__name__}`" for batches in BATCHES]
    rows = [f"| loss, δ | {' | '.join(names)} |", f"|{'---|' * (1 + len(names))}"]
    for loss, _, _ in LOSSES:
        pairs = [cells(audit, there) for name, _, audit, there in audits if name == loss]
        for delta, line in zip((DELTA, some.resolved_delta), zip(*pairs, strict=True), strict=True):
            rows.append(f"| {loss}, δ = {exact(delta)} | {' | '.join(line)} |")
    minutes = plain(seconds / 60.0, 2)
    note = f"{some.trainings} trainings of each, all {len(audits)} in {minutes} minutes."
    return "\n".join([*rows, "", note])


def reaches() -> str:
    """What so many trainings of a trainer find, under four kinds of batches, as Markdown."""
    kinds: dict[str, dict[str, str]] = {}
    schemes = (pabi.FullBatch(), pabi.Cyclic(SIZE), pabi.ShuffleOnce(SIZE), pabi.Poisson(SIZE))
    for batches in schemes:
        noise = 6.0 if isinstance(batches, pabi.FullBatch) else 1.5
        run = pabi.NoisySGD(
            pabi.Loss.logistic(1.0),
            n=500,
            batches=batches,
            epochs=10,
            step_size=0.5,
            noise_multiplier=noise,
            clip_norm=0.3,
        )
        for fault in pabi.audits.reach(run, trainings=REACH_TRAININGS, random_state=0).faults:
            least = "none" if fault.least is None else fault.least or "found"
            needed = "> 10⁶" if fault.trainings is None else str(fault.trainings)
            size = f"{fault.size}: " if fault.size else ""
            kinds.setdefault(fault.kind, {})[batches.kind] = f"{least} ({size}{needed})"
    names = [batches.kind for batches in schemes]
    head = f"| fault | {' | '.join(f'`{type(b).__name__}`' for b in schemes)} |"
    rows = [
        f"| {kind} | {' | '.join(cells.get(name, '–') for name in names)} |"
        for kind, cells in kinds.items()
    ]
    note = (
        f"The least fault that {REACH_TRAININGS} trainings find, and in brackets how many trainings find one "
        "of the stated size."
    )
    return "\n".join([head, f"|{'---|' * 5}", *rows, "", note])


def between(text: str, start: str, end: str, written: str) -> str:
    """The page with something else between two marks."""
    before, after = text.split(start)[0], text.split(end)[1]
    return f"{before}{start}\n{written}\n{end}{after}"


def main() -> int:
    """Audit all, write the table; 1 if a bound is above a guarantee."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainings", type=int, default=1_000_000)
    parser.add_argument("--page", type=Path, default=Path("docs/audits.md"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only-reach", action="store_true")
    options = parser.parse_args()
    page = between(options.page.read_text("utf-8"), REACH_START, REACH_END, reaches())
    options.page.write_text(page, "utf-8")
    if options.only_reach:
        return 0
    begin = time.perf_counter()
    audits = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for one in pool.map(partial(audited, trainings=options.trainings), descriptions()):
            audits.append(one)
            print(*one[:2], *cells(*one[2:]), plain(one[2].seconds, 3), flush=True)
    written = table(audits, time.perf_counter() - begin)
    options.page.write_text(between(page, START, END, written), "utf-8")
    return int(any(audit.refuted for _, _, audit, _ in audits))


if __name__ == "__main__":
    sys.exit(main())

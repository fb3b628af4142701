"""How tight guarantees are: beside each one the exact ε of the worst data sets that are known.

    python benchmarks/tightness.py [--page docs/tightness.md] [--figures docs/figures] [--jobs 2]

Nothing is trained. Writes the tables of the page anew, between its marks, and the figure. Fails if an
instance costs more than is promised.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import pabi
from pabi.audits.auditing import worst
from pabi.showing import exact, plain, shown, shown_down

DELTA = 1e-5
START, END = "<!-- tightness: start -->", "<!-- tightness: end -->"
SETTINGS = ((500, 50, 2), (500, 50, 10), (40_000, 2_000, 10), (40_000, 2_000, 50))
"""Records, those of a batch, epochs."""
BATCHES = (
    pabi.Cyclic,
    pabi.ShuffleOnce,
    pabi.Reshuffle,
    pabi.BallsInBins,
    pabi.Poisson,
    pabi.FixedSize,
)
BALL = {"prox": pabi.prox.ball(0.25)}
LOSSES: tuple[tuple[str, pabi.Loss, dict[str, Any]], ...] = (
    ("logistic, l2 = 0.01", pabi.Loss.logistic(1.0, l2=0.01), {}),
    ("convex", pabi.Loss.convex(1.0, gradient_bound=1.0), {}),
    ("convex, step 1/M", pabi.Loss.convex(1.0, gradient_bound=1.0), {"step_size": 1.0}),
    ("strongly convex, l2 = 0.1", pabi.Loss.convex(1.0, l2=0.1, gradient_bound=1.0), {}),
    ("convex, ball", pabi.Loss.convex(1.0, gradient_bound=1.0), BALL),
    ("nonconvex, ball", pabi.Loss.nonconvex(0.5, gradient_bound=1.0), BALL),
    ("nonconvex, clipped", pabi.Loss.nonconvex(0.5), {"clip_norm": 1.0}),
)
GOALS = {
    "FullBatch": 1.02,
    "Cyclic": 1.02,
    "ShuffleOnce": 1.05,
    "BallsInBins": 1.05,
    "Reshuffle": 1.3,
    "Poisson": 1.15,
    "FixedSize": 1.15,
}
BALL_GOAL = 1.2


class Row(NamedTuple):
    """One description, and what is known of its ε; an instance of None is not known, and why."""

    loss: str
    batches: str
    n: int
    epochs: int
    adjacency: str
    instance: float | None
    promised: float
    why: str

    @property
    def ratio(self) -> float:
        """The guarantee over the instance."""
        return self.promised / self.instance if self.instance else float("inf")

    @property
    def goal(self) -> float | None:
        """What the ratio should be at most."""
        if "nonconvex" in self.loss and "ball" not in self.loss:
            return None
        return max(GOALS[self.batches], BALL_GOAL) if "ball" in self.loss else GOALS[self.batches]


def descriptions() -> Iterator[tuple[str, pabi.NoisySGD]]:
    """(the loss in words, the run)."""
    for n, size, epochs in SETTINGS:
        for name, loss, rest in LOSSES:
            for batches in (pabi.FullBatch(), *(scheme(size) for scheme in BATCHES)):
                yield name, _run(loss, n, batches, epochs, **rest)
    for batches in (pabi.Poisson(50), pabi.FixedSize(50), pabi.ShuffleOnce(50)):
        yield "convex", _run(LOSSES[1][1], 500, batches, 10, adjacency="replace_one")


def _run(loss: pabi.Loss, n: int, batches: Any, epochs: int, **rest: Any) -> pabi.NoisySGD:
    size = n if isinstance(batches, pabi.FullBatch) else batches.size
    multiplier = 6.0 if isinstance(batches, pabi.FullBatch) else 1.5
    fields = {"step_size": 0.5, "adjacency": "zero_out", "noise_std": multiplier / size, **rest}
    return pabi.NoisySGD(loss, n=n, batches=batches, epochs=epochs, **fields)


def row(described: tuple[str, pabi.NoisySGD]) -> tuple[Row, float]:
    """The row of a description, and the seconds of processing it took."""
    begin = time.process_time()
    name, run = described
    promised, instance, why = run.guarantee(DELTA).epsilon(DELTA), None, ""
    try:
        _, law = worst(run, DELTA)
        instance = max(law.epsilon(DELTA), law.swapped().epsilon(DELTA))
    except pabi.NotApplicable as no:
        why = str(no)
    scheme, epochs = type(run.batches).__name__, run.steps // run.steps_per_epoch
    found = Row(name, scheme, run.n, epochs, run.adjacency, instance, promised, why)
    return found, time.process_time() - begin


def cell(found: Row) -> str:
    """The instance, the guarantee and their ratio, which is bold where it meets the goal."""
    promised = shown(found.promised, 3)
    if found.instance is None:
        return f"?–{promised}"
    met = found.goal is not None and found.ratio <= found.goal
    ratio = plain(found.ratio, 3)
    return f"{shown_down(found.instance, 3)}–{promised} ({f'**{ratio}**' if met else ratio})"


def table(rows: list[Row], n: int, epochs: int) -> list[str]:
    """A line for each loss, a column for each kind of batches but full ones, whose ratio is 1."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for found in rows:
        if (found.n, found.epochs) == (n, epochs):
            cells.setdefault((found.loss, found.adjacency), {})[found.batches] = cell(found)
    kinds = [kind for kind in GOALS if kind != "FullBatch"]
    text = [f"| loss | {' | '.join(f'`{name}`' for name in kinds)} |", f"|{'---|' * 7}"]
    for (loss, adjacency), some in cells.items():
        name = loss if adjacency == "zero_out" else f"{loss}, `{adjacency}`"
        text.append(f"| {name} | {' | '.join(some.get(kind, '') for kind in kinds)} |")
    return text


def tables(rows: list[Row], seconds: float) -> str:
    """All tables as Markdown: the goals, then a table for each size."""
    text = [*_met(rows), ""]
    for n, size, epochs in SETTINGS:
        text += [
            f"### n = {n}, batches of {size}, {epochs} epochs",
            "",
            *table(rows, n, epochs),
            "",
        ]
    day, minutes = datetime.now(UTC).date().isoformat(), plain(seconds / 60.0, 2)
    return "\n".join(
        [*text, f"Version {pabi.__version__}, {day}: {minutes} minutes of processing."]
    )


def _met(rows: list[Row]) -> list[str]:
    """How many descriptions of each kind of batches meet the goal, and the ratios between which they are."""
    text = [
        "| batches | goal | met by | ratios | bounded domains: goal | met by | ratios |",
        f"|{'---|' * 7}",
    ]
    for scheme in GOALS:
        cells = [f"`{scheme}`"]
        for ball in (False, True):
            some = [
                (found.goal, found.ratio, found.instance is not None)
                for found in rows
                if found.batches == scheme and ("ball" in found.loss) == ball and found.goal
            ]
            ratios = sorted(ratio for _, ratio, known in some if known)
            met = sum(ratio <= goal for goal, ratio, _ in some)
            ends = f"{plain(ratios[0], 3)}–{plain(ratios[-1], 3)}" if ratios else "?"
            cells += [exact(some[0][0]), f"{met} of {len(some)}", ends]
        text.append(f"| {' | '.join(cells)} |")
    return text


def draw(rows: list[Row]) -> Figure:
    """Ratios of all descriptions, one line for each kind of batches, and their goals."""
    colours = pabi.plotting.palette()
    shades = (
        colours.ours,
        colours.other,
        colours.ink,
        colours.ours,
        colours.other,
        colours.ink,
        colours.ink,
    )
    figure, ax = plt.subplots()
    for i, (scheme, goal) in enumerate(GOALS.items()):
        ax.plot([goal, goal], [i - 0.42, i + 0.42], color=colours.ink, linewidth=2.2)
        for j, ((loss, _, _), marker) in enumerate(zip(LOSSES, "osD^vXP", strict=True)):
            ratios = [
                found.ratio
                for found in rows
                if found.batches == scheme and found.loss == loss and found.instance is not None
            ]
            heights = [i + 0.32 - 0.107 * j] * len(ratios)
            label = loss if i == 0 else None
            ax.plot(
                ratios, heights, marker, color=shades[j], markersize=4.5, alpha=0.8, label=label
            )
    ax.set_xscale("log")
    ax.set(
        title="Guarantee over the worst data sets that are known",
        xlabel="ratio of ε at δ = 10⁻⁵; bars: goals",
        xlim=(0.97, 16.0),
        ylim=(len(GOALS) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(GOALS)), list(GOALS))
    ticks = (1, 1.2, 1.5, 2, 3, 5, 10)
    ax.set_xticks(ticks, [plain(tick, 2) for tick in ticks])
    ax.minorticks_off()
    ax.grid(axis="x")
    ax.legend(loc="lower right")
    return figure


def main() -> int:
    """Write the tables and the figure; 1 if an instance costs more than is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, default=Path("docs/tightness.md"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    rows, seconds = [], 0.0
    with ProcessPoolExecutor(options.jobs) as pool:
        for found, spent in pool.map(row, descriptions()):
            rows.append(found)
            seconds += spent
            print(found.n, found.epochs, found.loss, found.batches, cell(found), plain(spent, 3))
    text = options.page.read_text("utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    options.page.write_text(f"{before}{START}\n{tables(rows, seconds)}\n{END}{after}", "utf-8")
    with pabi.plotting.style("light"):
        where = options.figures / "tightness.svg"
        draw(rows).savefig(where, metadata={"Date": None, "Creator": "pabi"})
    return int(any(found.ratio < 1.0 / (1.0 + 1e-9) for found in rows))


if __name__ == "__main__":
    sys.exit(main())

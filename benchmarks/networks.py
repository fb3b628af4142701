"""Noise of networks: what secret batches ask for, over Poisson batches, where every iterate is released.

    OMP_NUM_THREADS=1 python benchmarks/networks.py [--page docs/tightness.md] [--figures docs/figures]

Nothing is trained, and nothing is asked of the loss. For each ε the least noise multiplier, to a relative
1e-3, of l batches an epoch and E epochs:

- Poisson batches of probability 1/l, by dp-accounting's PLD accountant, with an interval so fine that what
  rounding adds to ε is below a thousandth of it;
- bins, drawn anew in every epoch: n records, each in one of l bins;
- shuffles, drawn anew in every epoch, of n = 100·l + 1 records into l batches of 100, with one record to
  spare: a record is in some batch with probability 100·l/(100·l + 1);
- the place in sight: the Gaussian of √E over the noise, twice that under `replace_one`.

`zero_out` stands beside ADD_OR_REMOVE_ONE, and `replace_one` beside REPLACE_ONE. Then seconds of processor
time of guarantees and of their checks. Writes the table of the page anew, between its marks, and the figure.
Fails if ε grows with the noise anywhere, or if anything cannot be computed. What bins ask for above Poisson
batches is listed: part of it is what an upper bound adds.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import dp_accounting
import matplotlib.pyplot as plt
from dp_accounting.pld import PLDAccountant
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq

import pabi
from pabi.showing import exact, plain, shown
from pabi.tradeoff import Gaussian, PoissonReplaced, PoissonSubsampled, RandomAllocation, TradeOff

DELTA, RTOL = 1e-6, 1e-3
EPSILONS = (0.5, 1.0, 3.0, 8.0)
BATCHES = (10, 100, 1_000, 10_000)
EPOCHS = (1, 10, 100)
ADJACENCIES = ("zero_out", "replace_one")
SIZE = 100  # records of a batch
DRAWN = 10  # epochs of the figure
SCHEMES = ("Poisson", "bins", "shuffles", "in sight")
START, END = "<!-- networks: start -->", "<!-- networks: end -->"
_ROUNDING = 2e-4  # the squares of an interval, of all steps together, over ε
_COARSEST = 5e-4
_SHUFFLES = 1.4  # about what shuffles ask for, over Poisson batches
_STEADY = 1e-9  # relative: by how much ε may grow with the noise


@dataclass(frozen=True)
class Setting:
    """How a record is drawn, and what neighbours are."""

    adjacency: str
    batches: int
    epochs: int

    @property
    def opposite(self) -> bool:
        """Whether another record takes the place of the record."""
        return self.adjacency == "replace_one"

    @property
    def apart(self) -> float:
        """By how much a record moves its step, on both data sets together, if its place is seen."""
        return 2.0 if self.opposite else 1.0

    def seen(self, noise: float) -> TradeOff:
        """With the place in sight."""
        return Gaussian(self.apart * math.sqrt(self.epochs) / noise)

    def hidden(self, noise: float, shuffles: bool) -> TradeOff:
        """With secret bins or shuffles in every epoch."""
        records = SIZE * self.batches
        share = records / (records + 1) if shuffles else 1.0
        factor = RandomAllocation([share], [1.0 / noise], [self.batches], self.opposite, shuffles)
        return factor.self_compose(self.epochs)

    def sampled(self, noise: float) -> TradeOff:
        """pabi's own answer for Poisson batches."""
        kind = PoissonReplaced if self.opposite else PoissonSubsampled
        return kind(1.0 / noise, 1.0 / self.batches).self_compose(self.epochs * self.batches)

    def accountant(self, noise: float, interval: float) -> float:
        """ε of Poisson batches, by dp-accounting."""
        relation = dp_accounting.NeighboringRelation
        other = PLDAccountant(
            relation.REPLACE_ONE if self.opposite else relation.ADD_OR_REMOVE_ONE,
            value_discretization_interval=interval,
        )
        step = dp_accounting.PoissonSampledDpEvent(
            1.0 / self.batches, dp_accounting.GaussianDpEvent(noise)
        )
        other.compose(step, self.epochs * self.batches)
        return float(other.get_epsilon(DELTA))

    def interval(self, epsilon: float) -> float:
        """A step adds one to three squares of the interval to ε."""
        steps = self.epochs * self.batches
        return min(_COARSEST, math.sqrt(_ROUNDING * epsilon / steps))

    def guess(self, epsilon: float) -> float:
        """The noise with which Poisson batches have the Gaussian limit of this ε."""
        mu = math.sqrt(self.epochs) / place_in_sight(self, epsilon)
        return 1.0 / math.sqrt(math.log1p(mu * mu * self.batches / self.epochs))


@dataclass(frozen=True)
class Noise:
    """The least noise of a scheme, the seconds it took, and by how much ε grew with the noise at most."""

    multiplier: float
    seconds: float
    evaluations: int
    growth: float


@dataclass(frozen=True)
class Row:
    """The noise of every scheme, and how far dp-accounting's ε is above pabi's for its Poisson batches."""

    setting: Setting
    epsilon: float
    noise: dict[str, Noise]
    above: float

    def ratio(self, scheme: str) -> float:
        """The noise of a scheme over that of Poisson batches."""
        return self.noise[scheme].multiplier / self.noise["Poisson"].multiplier


def place_in_sight(setting: Setting, epsilon: float) -> float:
    """The noise with which the place in sight has this ε."""
    return _root(lambda noise: setting.seen(noise).epsilon(DELTA), epsilon, 1.0, {})


def _root(
    at: Callable[[float], float], epsilon: float, guess: float, asked: dict[float, float]
) -> float:
    """The noise at which ε is reached, by bisections and secants between noises that bracket it."""

    def excess(log_noise: float) -> float:
        noise = math.exp(log_noise)
        if noise not in asked:
            asked[noise] = at(noise)
        return math.log(min(max(asked[noise], 1e-9), 1e9) / epsilon)

    start, step = math.log(guess), 0.05
    low = high = start
    while excess(low) <= 0.0:
        high, low, step = low, low - step, 2.0 * step
    step = max(step / 2.0, 0.05)
    while excess(high) > 0.0:
        low, high, step = high, high + step, 2.0 * step
    return math.exp(brentq(excess, low, high, xtol=RTOL))


def searched(at: Callable[[float], float], epsilon: float, guess: float) -> Noise:
    """The least noise, and what the search saw."""
    begin = time.process_time()
    asked: dict[float, float] = {}
    noise = _root(at, epsilon, guess, asked)
    values = [asked[key] for key in sorted(asked)]
    growth = max((b / a - 1.0 for a, b in itertools.pairwise(values) if a > 0.0), default=0.0)
    return Noise(noise, time.process_time() - begin, len(asked), growth)


def row(job: tuple[Setting, float]) -> Row:
    """All searches of one ε."""
    setting, epsilon = job
    interval = setting.interval(epsilon)
    poisson = searched(
        lambda noise: setting.accountant(noise, interval), epsilon, setting.guess(epsilon)
    )
    noise = {"Poisson": poisson}
    for scheme in ("bins", "shuffles"):
        shuffles = scheme == "shuffles"
        noise[scheme] = searched(
            lambda noise, shuffles=shuffles: setting.hidden(noise, shuffles).epsilon(DELTA),
            epsilon,
            poisson.multiplier * (_SHUFFLES if shuffles else 1.0),
        )
    begin = time.process_time()
    sight = place_in_sight(setting, epsilon)
    noise["in sight"] = Noise(sight, time.process_time() - begin, 0, 0.0)
    own = setting.sampled(poisson.multiplier).epsilon(DELTA)
    theirs = setting.accountant(poisson.multiplier, interval)
    return Row(setting, epsilon, noise, theirs / own - 1.0)


def jobs() -> Iterator[tuple[Setting, float]]:
    """All settings."""
    for epochs, batches, adjacency in itertools.product(
        (10, 1, 100), reversed(BATCHES), ADJACENCIES
    ):
        for epsilon in EPSILONS:
            yield Setting(adjacency, batches, epochs), epsilon


# What is shown.


def noises(rows: list[Row]) -> Table:
    """Noise multipliers of all settings, with ratios."""
    table = Table(
        title=f"The least noise multiplier, δ = 1e-6; in brackets over that of {SCHEMES[0]}",
        caption="Above: dp-accounting's ε over pabi's, for the noise that dp-accounting asks for.",
    )
    for column in ("adjacency", "epochs", "batches", "ε", *SCHEMES, "above", "seconds"):
        table.add_column(column, justify="left" if column == "adjacency" else "right")
    last = None
    for one in rows:
        head = one.setting.adjacency, one.setting.epochs
        if last not in (None, head):
            table.add_section()
        last = head
        cells = [plain(one.noise["Poisson"].multiplier, 4)]
        cells += [
            f"{plain(one.noise[scheme].multiplier, 4)} ({plain(one.ratio(scheme), 3)})"
            for scheme in SCHEMES[1:]
        ]
        seconds = [plain(one.noise[scheme].seconds, 2) for scheme in SCHEMES[:3]]
        table.add_row(
            one.setting.adjacency,
            str(one.setting.epochs),
            f"{one.setting.batches:,}",
            exact(one.epsilon),
            *cells,
            plain(one.above, 1),
            ", ".join(seconds),
        )
    return table


def oddities(rows: list[Row]) -> list[str]:
    """Where ε grows with the noise, bins ask for more than Poisson batches, or a search took a minute."""
    lines = []
    for one in rows:
        where = f"{one.setting}, ε = {exact(one.epsilon)}"
        for scheme, noise in one.noise.items():
            if noise.growth > _STEADY:
                lines.append(
                    f"{where}: ε of {scheme} grows with the noise, by {plain(noise.growth, 2)}"
                )
            if noise.seconds > 60.0:
                lines.append(f"{where}: {scheme} took {plain(noise.seconds, 3)} s")
        if one.ratio("bins") > 1.0:
            lines.append(f"{where}: bins ask for {plain(one.ratio('bins'), 6)} of Poisson's noise")
    return lines


def page(rows: list[Row]) -> str:
    """Ratios as Markdown, one table for each adjacency."""
    cells = {(one.setting, one.epsilon): one for one in rows}
    text = []
    for adjacency in ADJACENCIES:
        heads = [f"ε = {exact(epsilon)}" for epsilon in EPSILONS]
        text += [
            f"| `{adjacency}`: epochs | batches | {' | '.join(heads)} |",
            f"|{'---|' * (2 + len(heads))}",
        ]
        for epochs, batches in itertools.product(EPOCHS, BATCHES):
            here = [cells[Setting(adjacency, batches, epochs), epsilon] for epsilon in EPSILONS]
            ratios = [
                ", ".join(plain(one.ratio(scheme), 3) for scheme in SCHEMES[1:]) for one in here
            ]
            text.append(f"| {epochs} | {batches} | {' | '.join(ratios)} |")
        text.append("")
    day = datetime.now(UTC).date().isoformat()
    seconds = sum(noise.seconds for one in rows for noise in one.noise.values())
    end = f"Version {pabi.__version__}, dp-accounting {version('dp-accounting')}, {day}"
    return "\n".join([*text, f"{end}: {plain(seconds / 60.0, 2)} minutes of processing."])


def draw(rows: list[Row]) -> Figure:
    """Noise over that of Poisson batches, against batches an epoch, for 10 epochs."""
    colours = pabi.plotting.palette()
    figure, axes = plt.subplots(
        len(ADJACENCIES), len(EPSILONS), sharex=True, sharey=True, figsize=(12.0, 6.6)
    )
    looks = {"in sight": (1, "s"), "shuffles": (2, "^"), "bins": (0, "o")}
    names = {
        "in sight": "place in sight",
        "shuffles": "shuffles, one record to spare",
        "bins": "bins",
    }
    for (i, adjacency), (j, epsilon) in itertools.product(
        enumerate(ADJACENCIES), enumerate(EPSILONS)
    ):
        ax = axes[i, j]
        ax.axhline(1.0, color=colours.ink, linewidth=1.2, label="Poisson batches")
        some = [
            one
            for one in rows
            if (one.setting.adjacency, one.setting.epochs, one.epsilon)
            == (adjacency, DRAWN, epsilon)
        ]
        some.sort(key=lambda one: one.setting.batches)
        for scheme, (index, marker) in looks.items():
            ax.plot(
                [one.setting.batches for one in some],
                [one.ratio(scheme) for one in some],
                marker=marker,
                color=colours.cycle[index],
                linestyle=colours.lines[index],
                label=names[scheme],
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        ax.set_xticks(BATCHES, ["10", "10²", "10³", "10⁴"])
        ax.minorticks_off()
        ax.grid()
        name = adjacency.replace("_", "-")
        ax.set_title(f"{name}, ε = {exact(epsilon)}", fontsize=13)
    figure.supxlabel("batches an epoch", fontsize=14)
    figure.supylabel("noise over that of Poisson batches", fontsize=14)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


# Seconds of guarantees.


def timings() -> Table:
    """Of whole guarantees, with certificates, for 10⁴ batches an epoch."""
    table = Table(title="10,000 batches an epoch: seconds of processor time, the least of 3")
    for column in ("batches", "adjacency", "epochs", "noise", "ε", "guarantee and ε", "check"):
        table.add_column(column)
    schemes = {
        "bins": (pabi.BallsInBins(SIZE, redraw="epoch"), 10_000 * SIZE),
        "shuffles": (pabi.Reshuffle(SIZE, spare=1), 10_000 * SIZE + 1),
    }
    for (name, (batches, n)), adjacency, (epochs, multiplier) in itertools.product(
        schemes.items(), ADJACENCIES, ((1, 1.0), (1_000, 1.0))
    ):
        proven, checked, epsilon = [], [], math.nan
        for k in range(4):  # the first one warms up; each has a noise not seen before
            run = pabi.NoisySGD(
                pabi.Loss.nonconvex(1.0),
                n=n,
                batches=batches,
                epochs=epochs,
                step_size=0.1,
                noise_std=multiplier * (1.0 + 1e-7 * k) / SIZE,
                clip_norm=1.0,
                adjacency=adjacency,
                release="path",
            )
            begin = time.process_time()
            guarantee = run.guarantee(DELTA)
            epsilon = guarantee.epsilon(DELTA)
            middle = time.process_time()
            verdict = pabi.verify(guarantee)
            end = time.process_time()
            if not verdict.ok:
                raise SystemExit(f"{name}, {adjacency}, {epochs} epochs: {verdict.reason}")
            proven.append(middle - begin)
            checked.append(end - middle)
        table.add_row(
            name,
            adjacency,
            f"{epochs:,}",
            exact(multiplier),
            shown(epsilon, decimals=4),
            plain(min(proven[1:]), 3),
            plain(min(checked[1:]), 3),
        )
    return table


def hidden() -> Table:
    """Of the last iterate of shuffles with a spare place, 100 batches an epoch, a convex loss."""
    table = Table(
        title="Secret groups: seconds of processor time; calibrate to ε = 2, check within 10 and 9"
    )
    for column in ("adjacency", "epochs", "ε", "guarantee and ε", "check", "calibrate"):
        table.add_column(column)
    for adjacency, epochs in itertools.product(ADJACENCIES, (1, 2, 10)):
        run = pabi.NoisySGD(
            pabi.Loss.convex(1.0, gradient_bound=1.0),
            n=10_001,
            batches=pabi.Reshuffle(100, spare=1),
            epochs=epochs,
            step_size=0.5,
            noise_multiplier=1.5,
            adjacency=adjacency,
        )
        times = [time.process_time()]
        guarantee = run.guarantee(DELTA)
        epsilon = guarantee.epsilon(DELTA)
        times.append(time.process_time())
        verdict = pabi.verify(guarantee.certificate, seconds=60)
        times.append(time.process_time())
        pabi.calibrate(replace(run, noise_multiplier=None), epsilon=2.0, delta=DELTA)
        times.append(time.process_time())
        if not verdict.ok:
            raise SystemExit(f"groups, {adjacency}, {epochs} epochs: {verdict.reason}")
        seconds = [plain(b - a, 3) for a, b in itertools.pairwise(times)]
        table.add_row(adjacency, str(epochs), shown(epsilon, decimals=4), *seconds)
    return table


def main() -> int:
    """Search, and write; 1 if ε grows with the noise anywhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, default=Path("docs/tightness.md"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", pabi.PrivacyWarning)  # of δ = 1e-6 beside a million records
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for one in pool.map(row, jobs()):
            rows.append(one)
            noise = [
                (plain(x.multiplier, 5), x.evaluations, plain(x.seconds, 2))
                for x in one.noise.values()
            ]
            print(one.setting, one.epsilon, *noise, plain(one.above, 2), flush=True)
    order = {one: i for i, one in enumerate(ADJACENCIES)}
    rows.sort(key=lambda x: (order[x.setting.adjacency], x.setting.epochs, x.setting.batches))
    console = Console(width=150)
    console.print(noises(rows))
    console.print(timings())
    console.print(hidden())
    lines = oddities(rows)
    for line in lines:
        console.print(line)
    text = options.page.read_text("utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    options.page.write_text(f"{before}{START}\n{page(rows)}\n{END}{after}", "utf-8")
    with pabi.plotting.style("light"):
        where = options.figures / "networks.svg"
        draw(rows).savefig(where, metadata={"Date": None, "Creator": "pabi"})
    return int(any("grows" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())

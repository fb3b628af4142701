"""Published bounds beside what pabi proves, as a table and as a picture."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from pabi.describe.files import to_dict
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.literature import covering
from pabi.literature.axes import LABELS, Axis, Description, axis_of
from pabi.literature.published import CandidateBound, Published, Status, read
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import aligned, exact, shown, shown_down
from pabi.show.themes import axes_for, legend_within, palette
from pabi.tradeoff import Gaussian, TradeOff
from pabi.tradeoff.base import encode
from pabi.tradeoff.guarantee import Guarantee
from pabi.verification import verify

OURS, INSTANCE = "pabi", "exact instance"
_UNLIKE = ": not comparable, the run has "

Beside = Guarantee | Published | TradeOff | float

_COVERING: dict[type, tuple[CandidateBound, ...]] = {
    NoisySGD: covering.RUNS,
    NoisyIteration: covering.ITERATIONS,
    LangevinChain: covering.CHAINS,
    LangevinDiffusion: covering.DIFFUSIONS,
    ExponentialMechanism: covering.MECHANISMS,
    Unlearning: covering.UNLEARNING,
}


@dataclass(frozen=True)
class Row:
    """What one bound says of a run.

    Parameters
    ----------
    name : str
        "pabi", or module and theorem, e.g. "bok.theorem_4_5"; "exact instance" of the worst data sets known.
    source : str
        The paper and the theorem; of pabi's own row the method.
    status : str
        "sound", "refuted" or "unverified". Of what was handed over "stated", unless it is a guarantee of a
        description that `pabi.verify` accepts, or has a status of its own. Of the instance "attained": no
        guarantee can be below it.
    applies : bool
        Whether the run meets the hypotheses of the theorem.
    epsilon : float or None
        ε at the δ of the comparison; None where the bound does not apply.
    mu : float or None
        μ; None where the bound does not apply or is not Gaussian.
    note : str
        Where the bound does not apply, the hypothesis that fails; otherwise what is wrong with it,
        if anything. Of the instance what it is.
    """

    name: str
    source: str
    status: Status | Literal["stated", "attained"]
    applies: bool
    epsilon: float | None
    mu: float | None
    note: str


@dataclass(frozen=True)
class Comparison:
    """What the literature says of a run at one δ.

    It iterates as rows and prints as a table of those that apply. These come first, by increasing ε, pabi's
    own among them; then the others.

    Parameters
    ----------
    description : NoisySGD, NoisyIteration, another sampler or mechanism, or Unlearning
        What the bounds speak of.
    delta : float, in (0, 1)
        δ of every ε.
    rows : tuple of Row
        One of every bound, one of pabi, one of everything in `also`, and perhaps one of an instance.
    also : tuple of str
        The names of the rows that were handed over.
    functions : mapping of str to callable
        Those of them that are functions of the description. The others are known at the run's own length
        only.

    References
    ----------
    `source` of every row; docs, "Errata".
    """

    description: Description
    delta: float
    rows: tuple[Row, ...]
    also: tuple[str, ...] = ()
    functions: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of this name, e.g. "pabi" or "bok.theorem_4_5"."""
        for row in self.rows:
            if row.name == name:
                return row
        apply = ", ".join(row.name for row in self.rows if row.applies)
        raise KeyError(f"{name}: no row has this name; those that apply are {apply}")

    def __str__(self) -> str:
        return self.table()

    def table(self, every: bool = False) -> str:
        """The rows as text, those that do not apply counted in one line.

        Parameters
        ----------
        every : bool
            Whether to show those as well, each with the hypothesis that fails.

        Returns
        -------
        str
            A line for each row.

        Raises
        ------
        Nothing
            Rows are known when they are shown.

        References
        ----------
        `source` of every row; docs, "Errata".
        """
        table = [("bound", "status", f"ε at δ = {exact(self.delta)}", "μ", "")]
        folded = 0
        for row in self.rows:
            if not (every or row.applies or row.name in (OURS, INSTANCE, *self.also)):
                folded += 1
                continue
            show = shown_down if row.name == INSTANCE else shown
            epsilon = "—" if row.epsilon is None else show(row.epsilon)
            mu = "—" if row.mu is None else shown(row.mu)
            note = textwrap.shorten(row.note, 90, placeholder=" …")
            table.append((row.source, row.status, epsilon, mu, note))
        lines = aligned(table)
        if folded:
            bounds = "1 bound does not" if folded == 1 else f"{folded} bounds do not"
            lines.append(f"{bounds} apply: print(comparison.table(every=True)) says why")
        return "\n".join(lines)

    def to_dict(
        self, along: str | None = None, values: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """All rows, those that do not apply too, as JSON can hold them.

        Parameters
        ----------
        along, values : str and sequence of float, optional
            As of `plot`: the rows at every value, in place of those at the run's own.

        Returns
        -------
        dict
            The "description" as in a run file, "delta", and "rows": of each what `Row` has, its "delta", and
            with `along` the value by that name. An infinite ε or μ is "inf".

        Raises
        ------
        InvalidInput
            As of `plot`.

        References
        ----------
        `source` of every row; docs, "Errata".
        """
        rows = [
            {**row, "epsilon": encode(row["epsilon"]), "mu": encode(row["mu"])}  # None stays None
            for row in self._records(along, values)
        ]
        return {"description": to_dict(self.description), "delta": self.delta, "rows": rows}

    def to_csv(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        along: str | None = None,
        values: Sequence[float] | None = None,
    ) -> str | None:
        """All rows, those that do not apply too, as comma-separated values with a header.

        Parameters
        ----------
        path : str or path, optional
            A file to write; one that is there is replaced. None: the text is returned.
        along, values : str and sequence of float, optional
            As of `plot`: the rows at every value, in place of those at the run's own.

        Returns
        -------
        str or None
            The text; None where it was written to a file.

        Raises
        ------
        InvalidInput
            As of `plot`.

        References
        ----------
        `source` of every row; docs, "Errata".
        """
        rows = self._records(along, values)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if path is None:
            return text.getvalue()
        Path(path).write_text(text.getvalue(), encoding="utf-8")
        return None

    def _records(self, along: str | None, values: Sequence[float] | None) -> list[dict[str, Any]]:
        """Every row as a dictionary, at every value of an axis, or at the run's own."""
        if along is None and values is None:
            return [{"delta": self.delta, **asdict(row)} for row in self.rows]
        axis = axis_of(self.description, self.delta, along, values)
        return [
            {axis.name: value, "delta": delta, **asdict(row)}
            for value, delta, rows in self._varied(axis)
            for row in rows
        ]

    def _varied(self, axis: Axis) -> Iterator[tuple[float, float, tuple[Row, ...]]]:
        """(value, δ, rows) at every value of an axis."""
        instance = any(row.name == INSTANCE for row in self.rows)
        for value in axis.values:
            run, delta = axis.at(value)
            there = compare(run, delta, also=self.functions, instance=instance)
            yield value, delta, there.rows

    def plot(
        self,
        ax: Any = None,
        *,
        along: str | None = None,
        values: Sequence[float] | None = None,
    ) -> Any:
        """Draw ε against the length of the run, or along another axis, for every bound that applies.

        Sound bounds are solid, refuted ones dashed, unverified ones dotted. Every value is
        accounted anew, which takes some seconds for sampled batches. What stands in `also` is a
        single marker, at the run's own value, or a line where it is a function. An exact instance is a
        line, below which no bound is true.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; the default is a new figure.
        along : str, optional
            What varies: of noisy SGD "epochs", "steps", "noise_multiplier", "n" or "delta"; of an iteration
            "steps" or "delta"; of a chain "steps", "n" or "delta"; of a diffusion "time", "n" or "delta"; of
            an exponential mechanism "n" or "delta"; of forgetting "delta". None: the length.
        values : sequence of float, optional
            The values that it takes, all above 0. None: up to the run's own length, from a quarter to four
            times its noise or n, or δ from 1e-10 to 1/n.

        Returns
        -------
        matplotlib axes
            Those that were drawn on.

        Raises
        ------
        InvalidInput
            For an exponential mechanism and forgetting, which have no length, for steps or a temperature that
            vary, for another axis, and for values that it cannot take.

        References
        ----------
        `source` of every row; docs, "Errata".
        """

        return draw(self, axis_of(self.description, self.delta, along, values), ax)


def compare(
    run: Description,
    delta: float = 1e-5,
    *,
    also: Mapping[str, Beside | Callable[[Any], Beside]] = MappingProxyType({}),
    instance: bool = False,
) -> Comparison:
    """What every published bound says of a description, beside pabi's own guarantee.

    Rényi bounds are taken at the best order they admit. The bounds are evaluated as printed: one
    that is refuted or unverified is no guarantee, and may lie below the truth.

    Parameters
    ----------
    run : NoisySGD, NoisyIteration, LangevinChain, LangevinDiffusion, ExponentialMechanism or Unlearning
        A run, a sampler, an exponential mechanism or forgetting.
    delta : float, in (0, 1)
        δ of every ε.
    also : mapping of str to Guarantee, Published, trade-off function, number or callable
        What else is to be shown, by a name of its own: guarantees of other mechanisms or from other
        libraries, published numbers ("gdp", "tradeoff", or "epsilon" at this δ), objects of `pabi.tradeoff`,
        and numbers, which are ε at this δ. A function gets a description and returns one of these, or raises
        NotApplicable; `plot` asks it at every length. All are shown as they are: whether they are about this
        run is the user's word.
    instance : bool
        Whether to put the worst neighbouring data sets that are known beside them, whose ε is exact: what is
        below it is no guarantee, and is marked as refuted. Takes up to some seconds, along an axis at every
        value.

    Returns
    -------
    Comparison
        One row of every bound, one of pabi, one of everything in `also`, and that of the instance.

    Raises
    ------
    InvalidInput
        For another δ, for what is no such description, and for an `also` of other things or of names that
        bounds have.

    References
    ----------
    `source` of every row; ε by the conversions of `pabi.convert`; docs, "Errata" and "Theory", 22.
    """
    delta = validate.number("delta", delta, above=0.0, below=1.0)
    require(type(run) in _COVERING, "run", f"expected a description, got {type(run).__name__}")
    rows = [*(_row(one, run, delta) for one in _COVERING[type(run)]), own_row(run, delta)]
    others = _others(also, {INSTANCE, *(row.name for row in rows)}, run, delta)
    functions: dict[str, Any] = {name: bound for name, bound in also.items() if _is_function(bound)}
    every = [*rows, *others]
    if validate.flag("instance", instance):
        every = _beside_instance(every, run, delta)
    return Comparison(run, delta, tuple(sorted(every, key=_rank)), tuple(also), functions)


def _beside_instance(rows: Sequence[Row], run: Description, delta: float) -> list[Row]:
    """The rows, refuted where an exact instance costs more, and its own."""
    from pabi.audits.auditing import worst

    try:
        if not isinstance(run, NoisySGD):
            raise NotApplicable("an exact instance is known of noisy SGD only")
        worst_one, law = worst(run, delta)
    except NotApplicable as no:
        return [*rows, Row(INSTANCE, INSTANCE, "attained", False, None, None, no.reason)]
    least = max(law.epsilon(delta), law.swapped().epsilon(delta))
    note = f"below what data sets attain, {shown_down(least)}"

    def held(row: Row) -> Row:
        below = row.epsilon is not None and row.epsilon < least and _UNLIKE not in row.note
        return replace(row, status="refuted", note=note) if below else row

    return [
        *map(held, rows),
        Row(INSTANCE, INSTANCE, "attained", True, least, None, worst_one.sentence),
    ]


def _others(also: Any, names: Collection[str], run: Description, delta: float) -> list[Row]:
    """A row for everything that was handed over. Raises InvalidInput."""
    validate.instance("also", also, Mapping, "a mapping from names,")
    for name in also:
        must_be(
            isinstance(name, str) and name.strip() and name not in names,
            "also",
            "names that no bound has",
            name,
        )
    return [_row_beside(name, bound, run, delta) for name, bound in also.items()]


def _is_function(bound: Any) -> bool:
    """Whether it is asked of a description. A trade-off function is callable, of error rates."""
    return callable(bound) and not isinstance(bound, TradeOff)


def _row_beside(name: str, bound: Any, run: Description, delta: float) -> Row:
    """What a bound, or what a function makes of the description, says."""
    if not _is_function(bound):
        return _other(name, bound, run, delta)
    try:
        return _other(name, bound(run), run, delta)
    except NotApplicable as no:
        return Row(name, name, "stated", False, None, None, no.reason)


def _other(name: str, bound: Any, run: Description, delta: float) -> Row:
    match bound:
        case Guarantee():
            proven = verify(bound).scope == "run"
            status: Status | Literal["stated"] = "sound" if proven else "stated"
            note = f"{bound.method}, under {bound.adjacency}{_unlike(bound, run)}"
            return Row(name, name, status, True, bound.epsilon(delta), bound.mu, note)
        case Published(kind="gdp" | "tradeoff" | "epsilon"):
            require(
                bound.status in get_args(Status),
                "also",
                f"expected the status of {name!r} to be one of {', '.join(get_args(Status))}, got "
                f"{bound.status!r}",
            )
            epsilon, mu = read(bound, delta)
            must_be(epsilon >= 0.0, "also", f"an ε ≥ 0 of {name!r}", epsilon)
            return Row(name, name, bound.status, True, epsilon, mu, bound.note or bound.source)
        case TradeOff():
            mu = bound.mu if isinstance(bound, Gaussian) else None
            return Row(name, name, "stated", True, bound.epsilon(delta), mu, bound.kind)
        case int() | float() if not isinstance(bound, bool):
            must_be(bound >= 0.0, "also", f"an ε ≥ 0 of {name!r}", bound)
            return Row(name, name, "stated", True, float(bound), None, "ε as stated")
        case Published():
            raise InvalidInput(
                "also", f"expected a bound that has an ε, got {name!r} of kind {bound.kind!r}"
            )
        case other:
            raise InvalidInput(
                "also",
                "expected a Guarantee, Published, a trade-off function, ε or a function of the description "
                f"as {name!r}, got a {type(other).__name__}",
            )


def _unlike(guarantee: Guarantee, run: Description) -> str:
    """What makes a guarantee another one than the run's: whom it protects, against what."""
    others = [
        f"{name} {theirs!r}"
        for name in ("adjacency", "unit")
        if (theirs := getattr(run, name, None)) not in (None, getattr(guarantee, name))
    ]
    return f"{_UNLIKE}{' and '.join(others)}" if others else ""


def own_row(run: Description, delta: float) -> Row:
    """pabi's guarantee as a row."""
    try:
        own = run.guarantee(delta)
    except NotApplicable as no:
        return Row(OURS, OURS, "sound", False, None, None, no.reason)
    return Row(OURS, f"pabi, {own.method}", "sound", True, own.epsilon(delta), own.mu, "proven")


def _row(candidate: CandidateBound, run: Description, delta: float) -> Row:
    bound = candidate.bound
    name = f"{bound.__module__.rsplit('.', 1)[-1]}.{bound.__name__}"
    try:
        epsilon, mu = candidate.evaluate(run, delta)
    except NotApplicable as no:
        return Row(name, bound.source, bound.status, False, None, None, no.reason)
    return Row(name, bound.source, bound.status, True, epsilon, mu, bound.note)


def _rank(row: Row) -> tuple[bool, float, bool]:
    """By ε; of those equal but for rounding pabi's first."""
    epsilon = math.inf if row.epsilon is None else float(shown(row.epsilon, 9))
    return not row.applies, epsilon, row.name != OURS


# ε against the length of the run, for every published bound that applies.


# Lines of one status are told apart by these, besides their colours.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_POINTS = ("*", "p", "h", "8", "d")
_EQUAL = 1e-9  # relative: curves that no picture shows apart
_STYLES: dict[str, Any] = {
    "sound": "-",
    "refuted": (0, (5, 2)),
    "unverified": (0, (1, 1.5)),
    "stated": (0, (5, 1.5, 1, 1.5)),
    "attained": (0, (8, 2, 1, 2, 1, 2)),
}


def draw(comparison: Comparison, axis: Axis, ax: Any = None) -> Any:
    """Draw the picture on `ax` (None for a new figure) and return the axes.

    Sound bounds are solid, refuted ones dashed, unverified ones dotted, stated ones both, pabi's thick and
    without markers. Bounds that coincide everywhere share a line. What is known at one length only is a
    marker.
    """
    own = ax is None
    ax = axes_for(ax, figsize=(10, 5.4))
    columns = [rows for _, _, rows in comparison._varied(axis)]
    names = {row.name for column in columns for row in column if row.applies}
    labels = {row.name: _label(row) for row in comparison.rows}
    curves = {
        name: np.array([_epsilon(column, name) for column in columns]) for name in sorted(names)
    }
    status = {row.name: row.status for row in comparison.rows}
    x = np.array(axis.values, dtype=np.float64)
    order = sorted((n for n in names if n != OURS), key=lambda n: _last(curves[n]))
    colours, top = palette(), _top(curves)
    for k, group in enumerate(_merged(order, curves, status)):
        first = group[0]
        beyond = "" if np.any(curves[first] <= top) else "\n(beyond the top)"
        ax.plot(
            x,
            curves[first],
            linestyle=_STYLES[status[first]],
            color=colours.cycle[1 + k % (len(colours.cycle) - 1)],
            label="\n= ".join(labels[name] for name in group) + beyond,
            linewidth=1.8,
            marker=_MARKERS[k % len(_MARKERS)],
            markersize=5.5,
            markevery=_marked(curves[first], k) or None,
        )
    if OURS in curves:
        thick = {"color": colours.ours, "label": labels[OURS], "linewidth": 3.6, "zorder": 0.9}
        ax.plot(x, curves[OURS], "-", **thick)
    points = {
        row.name: row
        for row in comparison.rows
        if row.name in comparison.also
        and row.name not in comparison.functions
        and x[0] <= axis.own <= x[-1]
    }
    for k, row in enumerate(points.values()):
        mark = _POINTS[k % len(_POINTS)]
        colour = colours.cycle[1 + (len(order) + k) % (len(colours.cycle) - 1)]
        place = ([axis.own], [row.epsilon])
        ax.plot(
            *place, mark, color=colour, label=_label(row), markersize=9, clip_on=False, zorder=3
        )
    shown = curves | {name: np.array([_epsilon(comparison.rows, name)]) for name in points}
    epsilon = "ε" if axis.name == "delta" else f"ε at δ = {exact(comparison.delta)}"
    ax.set(xlabel=LABELS.get(axis.name, axis.name), ylabel=epsilon)
    _dress(ax, shown, x, own=own)
    return ax


def _epsilon(rows: tuple[Row, ...], name: str) -> float:
    epsilon = next(row.epsilon for row in rows if row.name == name)
    return math.nan if epsilon is None or not epsilon > 0.0 else epsilon


def _last(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.inf


def _merged(names: list[str], curves: dict[str, Array], status: dict[str, Any]) -> list[list[str]]:
    """The names by groups of equal curves and status."""
    groups: list[list[str]] = []
    for name in names:
        for group in groups:
            same = np.allclose(curves[name], curves[group[0]], rtol=_EQUAL, equal_nan=True)
            if same and status[name] == status[group[0]]:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _marked(values: Array, k: int) -> list[int]:
    """Three or four points of a curve, other ones for every `k`, so that markers do not hide one another."""
    there = np.flatnonzero(np.isfinite(values))
    every = max(1, len(there) // 3)
    return [int(i) for i in there[(2 * k) % every :: every]]


def _label(row: Row) -> str:
    if row.name == OURS:
        return row.source
    doubt = "" if row.status == "sound" else f", {row.status}"
    authors, _, theorem = re.sub(r" \([A-Za-z].*", "", row.source).rpartition(", ")
    names = re.sub(r" \d{4}$", "", authors).split(", ")
    short = f"{names[0]} et al." if len(names) > 2 else " & ".join(names)
    theorem = theorem.replace("Theorem", "Thm").replace("Corollary", "Cor.")
    return f"{short}, {theorem}{doubt}" if authors else f"{row.source}{doubt}"


def _top(curves: dict[str, Array]) -> float:
    """The largest ε that is shown: within 300 times pabi's."""
    most = math.inf
    own = curves.get(OURS)
    if own is not None and np.isfinite(own).any():
        most = 300.0 * float(np.nanmax(own[np.isfinite(own)]))
    shown = [c[np.isfinite(c) & (c <= most)] for c in curves.values()]
    return float(np.max(np.concatenate(shown), initial=0.0))


def _dress(ax: Any, curves: dict[str, Array], x: Array, *, own: bool) -> None:
    """Axes, title and legend; `own`: whether the figure is ours, with room beside the axes."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    top = _top(curves)
    low = min(float(np.nanmin(c[np.isfinite(c)], initial=math.inf)) for c in curves.values())
    ax.set(
        title=("What is known of this run, " if own else "What is known of this run,\n")
        + "of which only the last iterate is released",
        xlim=(float(x[0]), float(x[-1])) if x[-1] > x[0] else None,
        ylim=(0.8 * low, 1.4 * top),
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.25, which="major")
    about: dict[str, Any] = {
        "title": "solid: sound; dashed: refuted;\ndotted: unverified; dash-dotted: stated",
        "alignment": "left",
        "title_fontsize": "small",
        "labelspacing": 0.8,
    }
    if own:
        beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "fontsize": "small"}
        ax.legend(frameon=False, **beside, **about)
    else:
        legend_within(ax, loc="best", **about)
    bottom, top = ax.get_ylim()
    ax.yaxis.set_minor_formatter("{x:g}" if top < 175.0 * bottom else "")

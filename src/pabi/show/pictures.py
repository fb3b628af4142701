"""Pictures of guarantees, audits, draws and mixing."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pabi.account.mixing import total_variation_bound
from pabi.describe.accounted import HIDDEN
from pabi.describe.losses import Loss
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import escaped, shown, shown_down
from pabi.show.themes import (
    Palette,
    above_epsilons,
    axes_for,
    below_errors,
    keep_within,
    legend_within,
    palette,
    palette_of,
    style,
)
from pabi.tradeoff import Product
from pabi.tradeoff.guarantee import limits

if TYPE_CHECKING:
    from pabi.audits.auditing import Audit
    from pabi.audits.laws import LawPair
    from pabi.tradeoff.guarantee import Guarantee

# Pictures of draws and of mixing: posteriors, traces, and total variation against steps.


_MOST_COORDINATES = 6
_MOST_CHAINS = 4  # traces told apart in one picture
_MOST_POINTS = 2_000  # of a trace
_FEW = 30  # draws, shown one by one rather than counted


def plot_path(values: Array, ax: Any, discard: int, names: Any) -> Any:
    """Posterior and trace of each coordinate, (coordinates, 2) axes."""
    flat, labels = _coordinates(values, names)
    axes = _axes(ax, (len(labels), 2), (9.0, 2.1 * len(labels) + 0.5), [2, 3])
    for i, label in enumerate(labels):
        _posterior(axes[i, 0], flat[:, discard:, i].ravel(), label)
        _trace(axes[i, 1], flat[:, :, i], discard, label)
    axes[0, 0].set_title(_posterior_title(flat[:, discard:, 0].size))
    axes[0, 1].set_title(_trace_title(len(flat)))
    axes[-1, 1].set_xlabel("draw")
    return axes


def plot_posterior(values: Array, ax: Any, names: Any) -> Any:
    """The posterior of each coordinate, across chains and draws, (coordinates,) axes."""
    flat, labels = _coordinates(values, names)
    columns = min(3, len(labels))
    rows = math.ceil(len(labels) / columns)
    if ax is None:
        height = 1.3 if flat[:, :, 0].size < _FEW else 2.5
        size = (3.4 * columns + 0.3, height * rows + 0.5)
        grid = _axes(None, (rows, columns), size, None).ravel()
        for spare in grid[len(labels) :]:
            spare.set_visible(False)
        axes = grid[: len(labels)]
        grid[0].figure.suptitle(_posterior_title(flat[:, :, 0].size))
    else:
        axes = _axes(ax, (len(labels),), None, None)
    for i, label in enumerate(labels):
        _posterior(axes[i], flat[:, :, i].ravel(), label)
    return axes


def _coordinates(values: Array, names: Any) -> tuple[Array, list[str]]:
    """(chains, draws, coordinates) and their names."""
    shape = values.shape[2:]
    flat = values.reshape(*values.shape[:2], -1)
    if names is None:
        names = [f"x[{', '.join(map(str, i))}]" if i else "x" for i in np.ndindex(*shape)]
    labels = [str(name) for name in names]
    require(
        len(labels) == flat.shape[2],
        "names",
        f"expected {flat.shape[2]}, one a coordinate, got {len(labels)}",
    )
    return flat[:, :, :_MOST_COORDINATES], labels[:_MOST_COORDINATES]


def _axes(ax: Any, shape: tuple[int, ...], size: Any, widths: Any) -> Any:
    if ax is None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(
            *shape, figsize=size, squeeze=False, layout="constrained", width_ratios=widths
        )
        engine: Any = figure.get_layout_engine()
        engine.set(wspace=0.06, hspace=0.04)
    axes = np.asarray(ax, dtype=object)
    require(
        axes.size == math.prod(shape), "ax", f"expected axes of shape {shape}, got {axes.shape}"
    )
    return axes.reshape(shape)


def _posterior(ax: Any, draws: Array, label: str) -> None:
    """A histogram with its mean and central 90 %; few draws as ticks."""
    colours = palette()
    if draws.size < _FEW:
        ax.vlines(draws, 0.0, 0.7, color=colours.ours, linewidth=1.8)
        ax.set_ylim(0.0, 1.0)
    else:
        bins = min(60, max(10, round(2.0 * draws.size ** (1 / 3))))
        ax.hist(draws, bins=bins, density=True, color=colours.shade, linewidth=0)
        low, mean, high = np.quantile(draws, 0.05), np.mean(draws), np.quantile(draws, 0.95)
        ax.axvline(mean, color=colours.other, linewidth=1.8)
        ax.plot(
            [low, high],
            [0.0, 0.0],
            color=colours.other,
            linewidth=5,
            solid_capstyle="butt",
            clip_on=False,
        )
    ax.set_xlabel(label)
    ax.locator_params(axis="x", nbins=5)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _trace(ax: Any, draws: Array, discard: int, label: str) -> None:
    length = draws.shape[1]
    every = -(-length // _MOST_POINTS)
    at = np.arange(0, length, every)
    for path, colour in zip(draws[:_MOST_CHAINS], palette().cycle, strict=False):
        ax.plot(at, path[at], "-", color=colour, linewidth=0.7)
    if discard:
        ax.axvspan(0, discard, color=palette().neutral, alpha=0.18, linewidth=0)
        # The way to the posterior may be much longer than the posterior is wide.
        low, high = float(np.min(draws[:, discard:])), float(np.max(draws[:, discard:]))
        room = 0.25 * (high - low)
        if room > 0.0:
            ax.set_ylim(low - room, high + room)
    ax.set_xlim(0, max(length - 1, 1))
    ax.set_ylabel(label)
    ax.spines[["top", "right"]].set_visible(False)


def _posterior_title(draws: int) -> str:
    return "draws" if draws < _FEW else "posterior: mean and central 90 %"


def _trace_title(chains: int) -> str:
    if chains == 1:
        return "trace"
    return (
        f"trace, {chains} chains"
        if chains <= _MOST_CHAINS
        else f"trace, {_MOST_CHAINS} of {chains} chains"
    )


# The bound on total variation against steps, beside an estimate from chains that begin far apart.


class Estimate(NamedTuple):
    """How far apart the laws of two samples are, measured by a test.

    The test is chosen on one half of each sample and read on the other half.

    Parameters
    ----------
    advantage : float, in [0, 1]
        The difference of the shares of both samples that pass the test.
    lower : float, in [0, 1]
        A lower confidence bound on the total variation of the laws.
    """

    advantage: float
    lower: float


def total_variation_estimate(
    first: ArrayLike, second: ArrayLike, confidence: float = 0.99
) -> Estimate:
    """How far apart the laws of two samples surely are: no larger than their total variation.

    The test is a threshold along the direction of the difference of the means, chosen on the even
    draws and read on the odd ones.

    Parameters
    ----------
    first : array, (k, d), k ≥ 4
        Independent draws of one law.
    second : array, (k, d), k ≥ 4
        Independent draws of the other law.
    confidence : float, in (0, 1)
        The probability with which `lower` holds, by Hoeffding's inequality.

    Returns
    -------
    Estimate
        The advantage of the test, and a lower bound on the total variation.

    Raises
    ------
    InvalidInput
        For another confidence, and for samples of other shapes or values.

    References
    ----------
    docs, "Mixing".
    """
    level = validate.number("confidence", confidence, above=0.0, below=1.0)
    samples = []
    for name, draws in (("first", first), ("second", second)):
        values = np.asarray(draws, dtype=np.float64)
        require(
            values.ndim == 2 and len(values) >= 4 and np.isfinite(values).all(),
            name,
            f"expected finite (k, d) draws, k ≥ 4, got {values.shape}",
        )
        samples.append(values)
    require(
        samples[0].shape[1] == samples[1].shape[1],
        "second",
        f"expected points of length {samples[0].shape[1]}",
    )
    direction = samples[0][::2].mean(axis=0) - samples[1][::2].mean(axis=0)
    if not direction.any():
        direction = np.ones_like(direction)
    seen, fresh = ([x[k::2] @ direction for x in samples] for k in (0, 1))
    threshold = _best_threshold(*seen)
    shares = [float(np.mean(x > threshold)) for x in fresh]
    advantage = shares[0] - shares[1]
    # Each share is a mean of m numbers in [0, 1]; their difference is off by √(ln(1/α)/m) at most.
    m = min(len(x) for x in fresh)
    lower = advantage - math.sqrt(-math.log1p(-level) / m)
    return Estimate(max(0.0, advantage), max(0.0, lower))


def _best_threshold(first: Array, second: Array) -> float:
    """Where the empirical distribution functions differ most."""
    points = np.sort(np.concatenate([first, second]))
    below = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (first, second)]
    return float(points[np.argmax(below[1] - below[0])])


def plot(
    loss: Loss,
    diameter: float,
    step_size: float,
    steps: int,
    inverse_temperature: float = 1.0,
    *,
    gradient: Callable[[Array], ArrayLike] | None = None,
    prox: Any = None,
    starts: tuple[ArrayLike, ArrayLike] | None = None,
    chains: int = 4000,
    random_state: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the bound on the distance to the stationary law against the number of steps.

    With a gradient also what is measured is drawn: chains run from each of two starts. They are run
    for the picture alone, which shows what no guarantee speaks of: use public or made-up data.

    Parameters
    ----------
    loss : Loss
        As for `pabi.mixing_time`.
    diameter : float, above 0
        D, the diameter of the set.
    step_size : float, above 0
        η, the size of a step of the chain.
    steps : int, at least 1
        The largest number of steps that is drawn.
    inverse_temperature : float, above 0
        β, what the mean loss is multiplied by.
    gradient : callable, (chains, *shape) ↦ (chains, *shape), optional
        The gradient of the mean loss, regulariser included.
    prox : proximal map, optional
        The proximal map onto the set.
    starts : pair of arrays of the shape of a point, optional
        Two points, as far apart as the set allows; needed with a gradient.
    chains : int, at least 4
        How many chains are run from each start.
    random_state : int, optional
        Seed of the chains.
    ax : matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib axes
        Those that were drawn on.

    Raises
    ------
    InvalidInput
        Naming the field that is wrong, and for a gradient without starts.

    References
    ----------
    docs, "Mixing"; compare Bravo, Flores-Mella, Guzmán, Theorem 4.2.
    """
    validate.integer("steps", steps, at_least=1)
    ax = axes_for(ax, figsize=(6.4, 4.2))
    counts = np.unique(np.geomspace(1, steps, 60).round().astype(np.int64))
    bounds = total_variation_bound(loss, diameter, step_size, counts, inverse_temperature)
    ax.plot(counts, bounds, "-", color=palette().ours, linewidth=2.2, label="proven: at most")
    if gradient is not None:
        if starts is None:
            raise InvalidInput("starts", "missing: two points, as far apart as the set allows")
        measured = _measured(
            gradient,
            prox,
            starts,
            counts[::4],
            chains=chains,
            random_state=random_state,
            step_size=step_size,
            inverse_temperature=inverse_temperature,
        )
        low = [one.advantage - one.lower for one in measured]
        ax.errorbar(
            counts[::4],
            [one.advantage for one in measured],
            yerr=[low, np.zeros(len(low))],
            fmt="o",
            color=palette().other,
            markersize=4,
            capsize=2,
            label=f"measured between two starts, {chains} chains each\n(bars: surely at least, 99 %)",
        )
    ax.set(
        xscale="log",
        xlabel="steps",
        ylabel="total variation",
        ylim=(0.0, 1.02),
        title="How soon the chain forgets where it began",
    )
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _measured(
    gradient: Callable[[Array], ArrayLike],
    prox: Any,
    starts: tuple[ArrayLike, ArrayLike],
    counts: Any,
    *,
    chains: int,
    random_state: int | None,
    step_size: float,
    inverse_temperature: float,
) -> list[Estimate]:
    """The estimates after each of `counts` steps."""
    from pabi.sampling.chains import each_chain

    generator = np.random.default_rng(random_state)
    points = [np.asarray(start, dtype=np.float64) for start in starts]
    project = each_chain(prox, points[0].shape)
    clouds = [np.repeat(point[None], chains, axis=0) for point in points]
    h, sigma = step_size * inverse_temperature, math.sqrt(2.0 * step_size)
    estimates = []
    for k in range(1, int(counts[-1]) + 1):
        for i, x in enumerate(clouds):
            moved = x - h * np.asarray(gradient(x)) + sigma * generator.standard_normal(x.shape)
            clouds[i] = project(moved, h)
        if k in counts:
            one, other = (x.reshape(chains, -1) for x in clouds)
            estimates.append(total_variation_estimate(one, other))
    return estimates


# The pictures of a guarantee and of an audit, on axes of their own or within a page.


def plot_guarantee(guarantee: Guarantee, ax: Any = None) -> Any:
    """Draw (left) the trade-off curve and (right) ε against δ, each beside composition.

    Parameters
    ----------
    guarantee : Guarantee
        What to draw.
    ax : pair of matplotlib axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    array of matplotlib axes, (2,)
        Those that were drawn on.

    Raises
    ------
    InvalidInput
        For other than two axes.
    """
    ax = axes_for(ax, 1, 2, figsize=(11, 4.8))
    axes = np.ravel(np.asarray(ax, dtype=object))
    require(axes.size == 2, "ax", f"expected a pair of axes, got {axes.size}")
    _draw_tradeoff(guarantee, axes[0])
    _draw_epsilon(guarantee, axes[1])
    # Once both are there: a panel makes room for the other one's labels.
    for panel, place in zip(axes, ("upper right", "best"), strict=True):
        legend_within(panel, loc=place)
    return axes


def _curves(guarantee: Guarantee, colours: Palette) -> list[tuple[Any, str, str, str]]:
    released = "last iterate" if HIDDEN in guarantee.assumptions else "release"
    method = "; ".join((guarantee.method, *limits(guarantee.assumptions)))
    method = method.replace("$", r"\$")  # between two of them matplotlib reads formulas
    curves = [(guarantee.curve, f"{released} ({method})", colours.ours, "-")]
    if guarantee.composition is not None and guarantee.method != "composition":
        curves.append((guarantee.composition, "every iterate (composition)", colours.other, "--"))
    return curves


def _draw_tradeoff(guarantee: Guarantee, ax: Any) -> None:
    # So fine that the line is below the curve by less than it is wide.
    fpr = np.concatenate(([0.0], np.logspace(-6, -2, 120), np.linspace(0.011, 1.0, 560)))
    for curve, label, colour, dashes in _curves(guarantee, palette()):
        corners = below_errors(fpr, np.asarray(curve(fpr)))
        ax.plot(*corners, dashes, color=colour, label=label, linewidth=2)
    about = {"ylabel": "false-negative rate (at least)", "title": "What an attacker must accept"}
    _finish_errors(ax, **about, yticks=np.linspace(0.0, 1.0, 6))


def _finish_errors(ax: Any, **about: Any) -> None:
    """The line of perfect privacy, and axes of error rates."""
    ax.plot([0, 1], [1, 0], ":", color=palette().neutral, label="perfect privacy")
    ax.set(xlabel="attacker's false-positive rate", xlim=(0, 1), ylim=(0, 1.02), **about)
    ax.set_aspect("equal")


def _draw_epsilon(guarantee: Guarantee, ax: Any) -> None:
    top, marks = 0.0, []
    for curve, label, colour, dashes in _curves(guarantee, palette()):
        # A product is composed anew for every δ; its curve is smooth.
        deltas = np.logspace(-12, -2, 31 if isinstance(curve, Product) else 161)
        epsilons = np.array([curve.epsilon(float(d)) for d in deltas])
        top = max(top, float(np.max(epsilons[np.isfinite(epsilons)], initial=0.0)))
        corners = above_epsilons(deltas, epsilons)
        ax.plot(*corners, dashes, color=colour, label=label, linewidth=2)
        marks.append(_mark(guarantee, curve, colour, ax))
    ax.set_xscale("log")
    ax.set(
        xlabel="δ", ylabel="ε (at most)", title="The (ε, δ) guarantee", ylim=(0, top * 1.08 or 1)
    )
    ax.grid(alpha=0.25)
    for mark in marks:
        if mark is not None:
            keep_within(ax, mark)


def _mark(guarantee: Guarantee, curve: Any, colour: str, ax: Any) -> Any:
    """The reading at the δ the guarantee was tuned at; None if there is none to show."""
    delta = guarantee.tuned_at
    if not delta or not 1e-12 <= delta <= 1e-2:
        return None
    epsilon = curve.epsilon(delta)
    if np.isfinite(epsilon):
        ax.plot([delta], [epsilon], "o", color=colour)
        return ax.annotate(
            f"ε = {shown(epsilon, 4)}",
            (delta, epsilon),
            textcoords="offset points",
            xytext=(8, 8),
            color=colour,
        )
    return None


# The picture of a guarantee within a page: SVG whose colours are variables of the page's style.


_COLOURS = ("ours", "other", "ink", "neutral", "paper")
_SIZE = (11.0, 4.8)
# What no page needs, and what would name another place: comments, metadata and namespaces.
_BESIDE = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|\sxmlns(:\w+)?=\"[^\"]*\"", re.DOTALL)


def variables() -> str:
    """The style that sets the colours of pictures and page, for light and dark screens; prints are light."""
    light, dark = (_set(palette_of(theme)) for theme in ("light", "dark"))
    return f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def inline_picture(guarantee: Guarantee) -> str:
    """What `guarantee.plot()` draws, as an element of HTML."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    file = io.StringIO()
    with style("light") as colours:
        figure = Figure(figsize=_SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        plot_guarantee(guarantee, figure.subplots(1, 2))
        figure.savefig(file, format="svg")
    return _themed(file.getvalue(), colours)


def _themed(svg: str, colours: Palette) -> str:
    """The element alone, with variables in place of the colours of a palette."""
    element = _BESIDE.sub("", svg[svg.index("<svg") :]).replace("xlink:href=", "href=")
    for name in _COLOURS:
        element = re.sub(re.escape(getattr(colours, name)), f"var(--{name})", element, flags=re.I)
    label = 'role="img" aria-label="The trade-off curve, and ε against δ"'
    return element.strip().replace("<svg", f"<svg {label}", 1)


def _set(colours: Palette) -> str:
    values = {name: getattr(colours, name) for name in _COLOURS}
    faint = f"color-mix(in srgb, {colours.neutral} 22%, transparent)"
    return " ".join(f"--{name}: {value};" for name, value in (values | {"line": faint}).items())


# The picture of a guarantee beside its table in a notebook: its curve alone, small, and without matplotlib,
# which takes a second and writes ten times as much into the notebook.


_WIDE, _HIGH, _LEFT, _TOP = 260, 200, 44, 12  # pixels of the panel, and of what is left and above


def small_picture(guarantee: Guarantee) -> str:
    """The trade-off curve as an element of HTML; nowhere above what is proven, also where it is rounded."""
    colours = palette_of("light")
    fpr = np.concatenate(([0.0], np.geomspace(1e-4, 0.2, 80), np.linspace(0.22, 1.0, 40)))
    lines = [
        (below_errors(fpr, np.asarray(curve(fpr))), label.partition(" (")[0], colour, dashes)
        for curve, label, colour, dashes in _curves(guarantee, colours)
    ]
    perfect = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    lines.append((perfect, "perfect privacy", colours.neutral, ":"))
    drawn = [_small_line(k, *line) for k, line in enumerate(lines)]
    low, right, middle = _TOP + _HIGH, _LEFT + _WIDE, _TOP + _HIGH // 2
    places = ((_LEFT, "0"), (_LEFT + _WIDE // 2, "0.5"), (right, "1"))
    heights = ((low, "0"), (middle, "0.5"), (_TOP, "1"))
    width, height = right + 12, low + 40
    return "".join(
        [
            f'<svg role="img" aria-label="The trade-off curve" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" '
            f'fill="{colours.ink}"><rect width="{width}" height="{height}" fill="{colours.paper}"/>',
            f'<path d="M{_LEFT} {_TOP}V{low}H{right}" fill="none" stroke="{colours.ink}"/>',
            *(f'<text x="{x}" y="{low + 14}" text-anchor="middle">{t}</text>' for x, t in places),
            *(
                f'<text x="{_LEFT - 5}" y="{y + 4}" text-anchor="end">{t}</text>'
                for y, t in heights
            ),
            f'<text x="{_LEFT + _WIDE // 2}" y="{low + 31}" text-anchor="middle">'
            "attacker\u2019s false-positive rate</text>",
            f'<text transform="translate(13 {middle}) rotate(-90)" text-anchor="middle">'
            "false-negative rate (at least)</text>",
            *drawn,
            "</svg>",
        ]
    )


def _small_line(k: int, points: tuple[Array, Array], label: str, colour: str, dashes: str) -> str:
    """A line and, above all curves, the `k`-th entry of the legend."""
    # Corners are moved to the left and down, where less is promised.
    corners = " ".join(
        f"{shown_down(_LEFT + _WIDE * x, decimals=1)},{shown(_TOP + _HIGH * (1.0 - y), decimals=1)}"
        for x, y in zip(*points, strict=True)
    )
    pattern = {"-": "none", "--": "6 3", ":": "2 3"}[dashes]
    stroke = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{pattern}"'
    x, y = _LEFT + _WIDE - 124, _TOP + 10 + 16 * k
    entry = (
        f'<path d="M{x} {y}h26" {stroke}/><text x="{x + 32}" y="{y + 4}">{escaped(label)}</text>'
    )
    return f'<polyline points="{corners}" {stroke}/>{entry}'


# The picture of an audit: what is promised, what the worst instance costs, and what trainings refute.


def plot_audit(audit: Audit, ax: Any = None) -> Any:
    """Draw the trade-off curves of the guarantee and of the instance, and the points of the trainings."""
    ax = axes_for(ax, 1, 1, figsize=(5.6, 5.2))
    colours = palette()
    fpr = np.concatenate(([0.0], np.logspace(-6, -2, 60), np.linspace(0.011, 1.0, 280)))
    promised = below_errors(fpr, np.asarray(audit.guarantee.curve(fpr)))
    ax.plot(*promised, color=colours.ours, linewidth=2, label="guarantee")
    if audit.law is not None:
        ax.plot(*exact_curve(audit.law), "--", color=colours.other, label="exact instance")
    label = f"{audit.trainings} trainings"
    ax.plot(*audit.curve.T, "o", color=colours.other, markersize=5, label=label)
    _finish_errors(ax, ylabel="false-negative rate", title="What an attacker got")
    legend_within(ax, loc="upper right")
    return ax


def exact_curve(law: LawPair) -> tuple[Array, Array]:
    """(false-positive rates, false-negative rates) of the likelihood-ratio tests of an instance, hundreds.

    Tests that are not drawn are between two that are, on or below their chord.
    """
    _, fpr, fnr = law.rates
    some = np.searchsorted(fpr, np.linspace(0.0, fpr[-1], 400))
    some = np.unique(np.append(some, np.searchsorted(-fnr, -np.linspace(0.0, fnr[0], 400))))
    some = some[some < len(fpr)]
    return np.append(0.0, fpr[some]), np.append(1.0, fnr[some])

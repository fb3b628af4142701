"""Pictures are legible on light and on dark paper, and for readers who lack one kind of cone."""

import itertools
from itertools import combinations

import matplotlib
import numpy as np
import pytest

import pabi
from pabi.show.themes import palette, style

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.collections import Collection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

VISION = {
    "all cones": "1 0 0 0 1 0 0 0 1",
    "protanopia": "0.152286 1.052583 -0.204868 0.114503 0.786281 0.099216 -0.003882 -0.048116 1.051998",
    "deuteranopia": "0.367322 0.860646 -0.227968 0.280085 0.672501 0.047413 -0.01182 0.04294 0.968881",
    "tritanopia": "1.255528 -0.076749 -0.178779 -0.078411 0.930809 0.147602 0.004733 0.691367 0.3039",
}
VISION = {name: np.array(row.split(), float).reshape(3, 3) for name, row in VISION.items()}
XYZ = "0.4124564 0.3575761 0.1804375 0.2126729 0.7151522 0.072175 0.0193339 0.119192 0.9503041"
XYZ = np.array(XYZ.split(), float).reshape(3, 3)
# Stone, Szafir, Setlur 2014: half of all viewers see two marks of a size of s degrees differ from
# ½·(A + B/s) on, along each axis of CIELAB. A line of style(), 2.4 points wide, is 0.1° from half a metre.
JUST_SEEN = 0.5 * (np.array([10.16, 10.68, 10.70]) + np.array([1.50, 3.08, 5.74]) / 0.1)
THEMES = ("light", "dark")


def linear(colour):
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB, white D65."""
    t = XYZ @ np.clip(rgb, 0.0, 1.0) / XYZ.sum(axis=1)
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """WCAG 2.1."""
    low, high = sorted(float(linear(c) @ XYZ[1]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def apart(one, other, vision):
    """The difference of two lines, in units of one that is just seen."""
    return float(
        np.linalg.norm((lab(vision @ linear(one)) - lab(vision @ linear(other))) / JUST_SEEN)
    )


def test_the_measures_are_right():
    assert contrast("black", "white") == pytest.approx(21.0)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.01)  # WCAG's own example
    np.testing.assert_allclose(lab(linear("white")), [100, 0, 0], atol=1e-3)
    np.testing.assert_allclose(lab(linear("red")), [53.24, 80.09, 67.20], atol=0.02)
    # Rows of the simulations add up to 1: greys stay grey.
    for matrix in VISION.values():
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=2e-6)
    red, green = "#c04000", "#5a7000"
    assert apart(red, green, VISION["deuteranopia"]) < 0.3 * apart(red, green, np.eye(3))


def test_colours_are_told_apart_and_from_the_paper():
    for theme in THEMES:
        with style(theme) as colours:
            assert palette() == colours, theme
            for colour in (*colours.cycle, colours.ink, colours.neutral, colours.shade):
                assert contrast(colour, colours.paper) >= 3.0, colour  # graphical objects
            for colour in (colours.ink, colours.neutral, colours.ours, colours.other):
                assert contrast(colour, colours.paper) >= 4.5, colour  # text
    for vision, theme in itertools.product(VISION, THEMES):
        with style(theme) as colours:
            for one, other in combinations(colours.cycle[:5], 2):
                assert apart(one, other, VISION[vision]) >= 1.0, (one, other)


def test_colours_come_with_line_styles():
    for theme in THEMES:
        with style(theme) as colours:
            assert len(set(colours.lines[:5])) == 5, theme
            assert len(colours.lines) == len(colours.cycle) == len(set(colours.cycle)), theme
            figure, ax = plt.subplots()
            drawn = [ax.plot([0, 1], [0, k])[0] for k in range(4)]
            assert [line.get_color() for line in drawn] == list(colours.cycle[:4]), theme
            dashes = [line._dash_pattern[1] for line in drawn]
            assert len({tuple(dash or ()) for dash in dashes}) == 4
            plt.close(figure)


def test_the_palette_follows_the_background():
    with style("light") as light, style("dark") as dark:
        assert palette() == dark
        with plt.style.context("default"):
            assert palette() == light
        with plt.rc_context({"axes.facecolor": "none", "figure.facecolor": "white"}):
            assert palette() == light
    with plt.style.context("dark_background"):
        assert palette() == dark
    assert palette() == light
    with pytest.raises(pabi.InvalidInput, match="theme"), style("sepia"):
        pass


# Every picture of the library.

RUN = pabi.NoisySGD(
    pabi.Loss.weakly_convex(weak_convexity=0.01, smoothness=1.0),
    n=400,
    batches=pabi.Cyclic(100),
    epochs=3,
    step_size=0.05,
    noise_multiplier=10.0,
    clip_norm=1.0,
)


def draws(chains, steps, release="path"):
    run = pabi.LangevinChain(
        pabi.Loss.strongly_convex(1.0, 1.0, gradient_bound=1.0),
        n=100,
        inverse_temperature=1.0,
        step_size=0.1,
        steps=steps,
        chains=chains,
        release=release,
    )
    with pytest.warns(pabi.PrivacyWarning):
        return pabi.sampling.langevin(run, lambda x: x, np.zeros(2), random_state=0)


PICTURES = {
    "guarantee": lambda: RUN.guarantee(1e-5).plot(),
    "published bounds": lambda: pabi.literature.compare(RUN, 1e-5).plot(),
    "mixing": lambda: pabi.mixing.plot(
        *(pabi.Loss.convex(1.0), 2.0, 0.05, 30),
        gradient=np.zeros_like,
        prox=pabi.prox.ball(1.0),
        starts=([1.0], [-1.0]),
        chains=50,
        random_state=0,
    ),
    "traces": lambda: draws(3, 60).plot(discard=10),
    "posterior": lambda: draws(40, 20, "last").plot(),
    "few draws": lambda: draws(5, 20, "last").plot(),
}


def colours_of(artist):
    """Of what is visible of it, with opacity."""
    if isinstance(artist, Text):
        yield artist.get_color() if artist.get_text().strip() else None
    elif isinstance(artist, Line2D):
        drawn = artist.get_linestyle() not in ("None", "") or artist.get_marker() not in (
            "None",
            "",
        )
        yield artist.get_color() if drawn and len(artist.get_xdata()) else None
    elif isinstance(artist, Patch):
        yield artist.get_facecolor() if artist.get_fill() else artist.get_edgecolor()
    elif isinstance(artist, Collection):
        yield from artist.get_edgecolor()


def seen(figure):
    """Every drawn element with its colour as it appears, but for the paper itself."""
    paper = np.array(to_rgb(figure.axes[0].get_facecolor()))
    frames = {figure.patch, *(ax.patch for ax in figure.axes)}
    grids = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                grids |= {tick.gridline, *(() if tick.get_visible() else tick.get_children())}
        if legend := ax.get_legend():
            frames.add(legend.get_frame())
    for artist in figure.findobj():
        if not artist.get_visible() or artist in frames | grids:
            continue
        for colour in colours_of(artist):
            if colour is None:
                continue
            *rgb, alpha = to_rgba(colour, artist.get_alpha())
            yield artist, paper + alpha * (np.array(rgb) - paper), alpha, paper


OTHERS = [("default", "guarantee"), ("dark_background", "traces")]


@pytest.mark.parametrize(("theme", "name"), [*itertools.product(THEMES, PICTURES), *OTHERS])
def test_nothing_hides_on_the_paper(name, theme):
    with style(theme) if theme in THEMES else plt.style.context(theme):
        figure = np.ravel(PICTURES[name]())[0].figure
        figure.canvas.draw()
        found = list(seen(figure))
        assert len(found) > 20
        for artist, colour, alpha, paper in found:
            # Translucent areas stand back on purpose.
            least = 3.0 if alpha >= 0.8 else 1.15
            assert contrast(colour, paper) >= least or alpha == 0.0, (artist, colour)
        plt.close("all")

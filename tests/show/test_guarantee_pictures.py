"""The picture shows the guarantee's own numbers, beside composition's."""

import dataclasses
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

import pabi
from pabi.literature import compare
from pabi.numbers.locking import OutOfTime
from pabi.show.pictures import _curves, small_picture
from pabi.show.themes import palette

matplotlib.use("Agg")

_RUN = {"batches": pabi.ShuffleOnce(100), "epochs": 10, "step_size": 0.5, "noise_std": 0.04}
RUN = pabi.NoisySGD(pabi.Loss.logistic(feature_norm=1.0, l2=0.01), n=10_000, **_RUN)


def test_what_is_released_is_said():
    for released, changes in (("last iterate", {}), ("release", {"release": "path"})):
        run = dataclasses.replace(RUN, n=400, batches=pabi.Cyclic(100), **changes)
        (_, label, *_), *_ = _curves(run.guarantee(), palette())
        assert label.startswith(f"{released} (")
    left, _ = RUN.guarantee().for_testing().plot()
    assert "testing only" in left.get_lines()[0].get_label()


@pytest.fixture(autouse=True)
def _close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_lines_are_the_curves():
    guarantee = RUN.guarantee()
    left, right = guarantee.plot()
    ours, composed, perfect = left.get_lines()
    for line, curve in ((ours, guarantee.tradeoff), (composed, guarantee.composition)):
        x, y = map(np.asarray, line.get_data())
        np.testing.assert_array_equal(
            y[:-1], curve(x[1:])
        )  # the next one's, so that no chord is above
        assert np.all(y <= curve(x))
    assert list(perfect.get_ydata()) == [1, 0]
    curve = right.get_lines()[0]
    x, y = map(np.asarray, curve.get_data())
    true = np.array([guarantee.epsilon(d) for d in x])
    assert np.all((true <= y) & (y <= 1.01 * true))
    between = np.array([guarantee.epsilon(d) for d in np.sqrt(x[:-1] * x[1:])])
    assert np.all(between <= (y[:-1] + y[1:]) / 2)  # a chord shows no less than is proven
    assert right.get_xscale() == "log"
    for ax in (left, right):
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_title()


def test_a_notebook_has_the_curve_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    guarantee = RUN.guarantee()
    tree = ElementTree.fromstring(small_picture(guarantee))
    lines = [
        np.array([pair.split(",") for pair in line.get("points").split()], float)
        for line in tree.iter("polyline")
    ]
    (left, top), (right, bottom) = lines[-1]  # of perfect privacy
    assert len(lines) == 3
    assert (left, top) < (right, bottom)
    for line, curve in zip(lines, (guarantee.tradeoff, guarantee.composition), strict=False):
        fpr, fnr = ((line - [left, bottom]) / [right - left, top - bottom]).T
        at = np.linspace(0.0, 1.0, 1001)
        drawn, true = np.interp(at, fpr, fnr), np.asarray(curve(at))
        assert np.all(drawn <= true + 1e-9)
        assert np.all(drawn >= true - 0.04)  # the fall from point to point, and a pixel
    assert small_picture(guarantee) in guarantee._repr_html_()


@pytest.mark.parametrize("failure", [OutOfTime(), ValueError("<b>"), MemoryError()], ids=repr)
def test_a_table_is_shown_without_its_picture(failure, monkeypatch):
    def fails(self, rates):
        raise failure

    guarantee = RUN.guarantee()
    monkeypatch.setattr(type(guarantee.curve), "__call__", fails)
    html = guarantee._repr_html_()
    assert html.startswith("<table>")
    assert "<svg" not in html
    assert ("plot() draws it" in html) == isinstance(failure, OutOfTime)


def test_draws_into_given_axes():
    import matplotlib.pyplot as plt

    _, given = plt.subplots(1, 2)
    assert list(RUN.guarantee().plot(given)) == list(given)
    with pytest.raises(pabi.InvalidInput, match="pair of axes"):
        RUN.guarantee().plot(given[0])
    # Without a comparison, and without a finite ε.
    for noise in (1.0, 0.0):
        assert len(pabi.NoisyIteration(1.0, 1.0, noise, steps=1).guarantee().plot()[0].lines) >= 2


def drawn_in_small_panels(what, size):
    """The panels that were drawn into, of a figure of this size with two of them."""
    import matplotlib.pyplot as plt

    _, panels = plt.subplots(1, 2, figsize=size)
    if what == "guarantee":
        RUN.guarantee().plot(panels)
        return list(panels)
    compare(RUN, delta=1e-5).plot(panels[0])
    return [panels[0]]


PANELS = [("guarantee", (6.4, 4.8)), ("guarantee", (8, 4)), ("guarantee", (5, 5))]


@pytest.mark.parametrize(("what", "size"), [*PANELS, ("comparison", (5, 5))], ids=str)
def test_a_legend_stays_in_its_panel_and_off_the_curves(what, size):
    for ax in drawn_in_small_panels(what, size):
        ax.figure.draw_without_rendering()
        panel, legend = ax.get_window_extent(), ax.get_legend().get_window_extent()
        assert panel.x0 <= legend.x0 < legend.x1 <= panel.x1
        assert panel.y0 <= legend.y0 < legend.y1 <= panel.y1
        for line in ax.lines:
            x, y = line.get_transform().transform(line.get_xydata()).T
            dense = np.linspace(0, len(x) - 1, 50 * len(x))  # between the vertices as well
            x, y = (np.interp(dense, np.arange(len(x)), value) for value in (x, y))
            under = (legend.x0 < x) & (x < legend.x1) & (legend.y0 < y) & (y < legend.y1)
            assert not under.any()
        for text in ax.texts:
            place = text.get_window_extent()
            assert panel.x0 <= place.x0 < place.x1 <= panel.x1
            assert not legend.overlaps(place)

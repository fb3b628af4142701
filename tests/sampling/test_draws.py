"""Draws: what can be read off them, and what may not be."""

import importlib

import matplotlib
import numpy as np
import pytest

import pabi
from pabi.numbers import errors
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.sampling import Draws, gibbs_rejection, langevin
from support.every_case import refused, refuses

matplotlib.use("Agg")

LOSS = pabi.Loss.logistic(1.0, l2=0.1)


@pytest.fixture(autouse=True)
def _close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def draws(release="path", chains=4, shape=(2,), steps=400):
    given = {"n": 200, "inverse_temperature": 1.0, "step_size": 0.5, "steps": steps}
    chain = pabi.LangevinChain(LOSS, chains=chains, release=release, **given)
    return langevin(chain, lambda x: x, np.zeros(shape), random_state=2, delta=1e-3)


def exact(count=50, p=2):
    mechanism = pabi.ExponentialMechanism(LOSS, n=200, dimension=p, diameter=2.0, epsilon=1.0)
    given = {"random_state": 0, "draws": count, "delta": 1e-3}
    return gibbs_rejection(mechanism, lambda x: 0.1 * np.sum(x**2, axis=1), **given)


def test_arviz_has_the_draws_and_their_cost():
    for found, shape in ((draws(), (4, 400, 2)), (draws("last"), (4, 1, 2)), (exact(), (1, 50, 2))):
        tree = found.to_arviz()
        x = tree["posterior"]["x"]
        assert x.dims[:2] == ("chain", "draw")
        assert x.shape == shape
        np.testing.assert_array_equal(x.values, found.values)
        x.values[:] = 0.0
        assert np.any(found.values)
        attributes = tree["posterior"].attrs
        assert float(attributes["epsilon"]) == found.guarantee.epsilon(1e-3)
        assert attributes["adjacency"] == "replace_one"


def test_arviz_has_the_draws_under_their_names():
    """The extra is enough for a summary: arviz-stats has functions of trees with its own extra only."""
    found = draws(shape=(2, 2))
    tree = found.to_arviz(names="abcd", discard=399)["posterior"]
    assert [float(tree[name].values[3, 0]) for name in "abcd"] == list(found.values[3, -1].ravel())
    table = importlib.import_module("arviz_stats").summary(found.to_arviz(names="abcd"))
    assert list(table["mean"]) == pytest.approx(found.values.mean(axis=(0, 1)).ravel(), abs=0.01)
    refuses(found.to_arviz, {"names": [["a", "b", "c"], "abca"], "discard": [400]})


@pytest.mark.parametrize("module", ["arviz_base", "arviz_stats.base"])
def test_without_the_extra(module, monkeypatch):
    real = importlib.import_module

    def missing(name, *args):
        if name == module:
            raise ModuleNotFoundError(name)
        return real(name, *args)

    monkeypatch.setattr(errors, "import_module", missing)
    read = draws().to_arviz if module == "arviz_base" else draws().diagnostics
    with pytest.raises(InvalidInput, match=r"pip install '\.\[sampling\]'") as caught:
        read()
    assert caught.value.field == module.partition(".")[0].replace("_", "-")
    assert "\n" not in str(caught.value)


def test_diagnostics_of_an_autoregression():
    """x ← x/2 + Z: an effective draw takes (1 + ρ)/(1 − ρ) = 3 of them, and chains agree."""
    found = draws(steps=20_000).diagnostics(discard=100)
    assert found.r_hat.shape == (2,)
    assert np.all(found.r_hat < 1.002)
    # The relative spread of an estimated effective size of 2.6·10⁴ draws is a few per cent.
    assert found.ess_bulk == pytest.approx(np.full(2, 4 * 19_900 / 3), rel=0.15)
    assert np.all(found.ess_tail < 4 * 19_900)
    assert np.all(found.ess_tail > 4 * 19_900 / 4)
    assert str(found).startswith("R̂ ≤ 1.00")


def test_diagnostics_of_chains_that_disagree_or_of_a_hidden_path():
    one = draws(chains=4)
    apart = one.values + np.arange(4.0)[:, None, None]
    assert np.all(Draws(apart, one.guarantee, one.chain, "path").diagnostics().r_hat > 1.3)
    with pytest.raises(NotApplicable, match="only last iterates were released"):
        draws("last").diagnostics()
    for discard in (-1, 400, 397, 0.5):
        refused("discard", one.diagnostics, discard)


def test_pictures_show_the_draws():
    found = draws(shape=(2, 2))
    axes = found.plot(discard=100)
    assert axes.shape == (4, 2)
    labels = [ax.get_ylabel() for ax in axes[:, 1]]
    assert labels == ["x[0, 0]", "x[0, 1]", "x[1, 0]", "x[1, 1]"]
    for i in range(4):
        kept = found.values.reshape(4, 400, 4)[:, 100:, i]
        assert axes[i, 0].get_lines()[0].get_xdata()[0] == pytest.approx(kept.mean())
        heights = [(p.get_width(), p.get_height()) for p in axes[i, 0].patches]
        assert sum(w * h for w, h in heights) == pytest.approx(1.0)
        traces = axes[i, 1].get_lines()
        assert len(traces) == 4
        drawn = found.values.reshape(4, 400, 4)[2, :, i]
        np.testing.assert_array_equal(traces[2].get_ydata(), drawn)


def test_pictures_in_given_axes_of_last_iterates_and_of_many_coordinates():
    import matplotlib.pyplot as plt

    _, given = plt.subplots(2, 2)
    assert list(draws().plot(given).ravel()) == list(given.ravel())
    assert draws(shape=(40,), steps=20).plot().shape == (6, 2)
    assert draws("last", shape=(), steps=20).plot().shape == (1,)
    found = draws("last", chains=300, shape=(3,), steps=5)
    axes = found.plot(names=["a", "b", "c"])
    assert [ax.get_xlabel() for ax in axes] == ["a", "b", "c"]
    assert axes[1].get_lines()[0].get_xdata()[0] == pytest.approx(found.values[:, 0, 1].mean())
    ticks = [segment[0, 0] for segment in exact(5).plot()[0].collections[0].get_segments()]
    np.testing.assert_array_equal(ticks, exact(5).values[0, :, 0])
    refused("ax", draws().plot, given[0])
    refused("names", draws().plot, names=["one"])

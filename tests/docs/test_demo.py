"""The demo: its peer is as strong as it says, it runs on what is installed, and newcomers can read it."""

import json
import math
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest

from support.scripts import load

ROOT = Path(__file__).parents[2]
DEMO_FILE = ROOT / "examples" / "demo.py"
GRID = ROOT / "benchmarks" / "proving_ground" / "results" / "peers" / "digits.json"
EXCESS = 1.0004  # of the noise multiplier, by the demo's docstring
MOST_LINES = 130
LIGHT = 0.9


DEMO = load(DEMO_FILE)
CASES = [(epsilon, settings) for epsilon, both in DEMO.SETTINGS.items() for settings in both]


def published(epsilon):
    records = json.loads(GRID.read_text("utf-8"))
    (record,) = (r for r in records if r["peer"] == "DP-SGD" and r["epsilon"] == epsilon)
    return record


@pytest.mark.parametrize("epsilon", DEMO.SETTINGS)
def test_the_settings_of_dp_sgd_are_the_best_and_the_twelfth_of_the_grid(epsilon):
    record = published(epsilon)
    keys = ("step_size", "batch_size", "epochs", "clip_norm")
    cells = {tuple(cell[key] for key in keys): cell["accuracy"] for cell in record["cells"]}
    assert len(cells) == 24
    best, middling = DEMO.SETTINGS[epsilon]
    chosen = record["cells"][record["best"]["accuracy"]["cell"]]
    assert best == tuple(chosen[key] for key in keys)
    assert cells[best] == max(cells.values())
    assert cells[middling] == sorted(cells.values(), reverse=True)[11]


@pytest.mark.parametrize(("epsilon", "settings"), CASES)
def test_dp_sgd_gets_the_noise_that_dp_accounting_asks_for(epsilon, settings, monkeypatch):
    """Enough by dp-accounting's own account of every iterate, and at most 0.04 % more than that."""
    import dp_accounting as dp

    runs = []

    def keep(run, gradients, x0):
        runs.append(run)
        return SimpleNamespace(x=x0)

    monkeypatch.setattr(DEMO, "train", keep)
    X, y, _, _ = DEMO.digits()
    DEMO.dp_sgd(epsilon, settings, X, y)
    (run,) = runs
    assert run.adjacency == "zero_out"
    _, size, epochs, clip_norm = settings
    steps = math.ceil(len(X) / size) * epochs
    assert run.steps == steps
    noise = run.noise_std * size / clip_norm

    def cost(multiplier):
        accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        step = dp.PoissonSampledDpEvent(size / len(X), dp.GaussianDpEvent(multiplier))
        return accountant.compose(step, steps).get_epsilon(DEMO.DELTA)

    assert cost(noise) <= epsilon < cost(noise / EXCESS)


def test_the_digits_are_those_of_the_grid_and_newcomers_can_read_it():
    """The peer's settings were chosen on the same rows, the same split and the same test digits."""
    theirs = load(ROOT / "benchmarks" / "datasets.py").digits()
    for mine, other in zip(DEMO.digits(), theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert len(DEMO_FILE.read_text("utf-8").splitlines()) < MOST_LINES


def test_the_demo_shows_a_table_a_picture_and_a_verified_guarantee(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(DEMO, "TRAININGS", 2)
    monkeypatch.setattr(DEMO, "SETTINGS", {1.0: DEMO.SETTINGS[1.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a PrivacyWarning above all
        DEMO.main()
    printed = capsys.readouterr().out
    (row,) = re.findall(r"^│ 1 .*$", printed, re.MULTILINE)
    means = [float(mean) for mean in re.findall(r"([\d.]+) ± [\d.]+", row)]
    assert len(means) == 3
    assert all(60.0 < mean < 100.0 for mean in means)
    assert "proven: ε = 1 at δ = 1e-05" in printed
    every, last = re.search(
        r"ε = (\S+) if every iterate is charged, ε = (\S+) for", printed
    ).groups()
    assert float(last) <= 1.0 < float(every)
    assert printed.count("  • ") >= 10
    picture = matplotlib.image.imread(tmp_path / "demo.png")
    assert picture[:5, :, :3].min() > LIGHT
    assert picture[..., :3].min() < 1.0 - LIGHT

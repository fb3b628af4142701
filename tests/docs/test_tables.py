"""Tables of pages that state what pabi computes: cells are computed again, and every extra is named."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits

import pabi
from pabi.learn import PrivateLogisticRegression, bound_rows
from pabi.showing import shown
from support.scripts import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
INDEX = (ROOT / "docs" / "index.md").read_text("utf-8")
TIGHTNESS = load(ROOT / "benchmarks" / "tightness.py")
LIBRARIES = load(ROOT / "benchmarks" / "libraries.py")
RUN = load(ROOT / "docs" / "front.py").RUN  # in a fixed order


def rows(text, heading):
    """The cells of the table below a heading, without its head."""
    section = text.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" *") for cell in line.strip("| ").split("|")] for line in lines[1:]]


# README: what the same run costs.


def costs(run, delta=1e-5):
    """ε if every iterate is charged, and of the last one."""
    guarantee = run.guarantee(delta=delta)
    return guarantee.composition.epsilon(delta), guarantee.epsilon(delta)


def weakly_convex():
    return pabi.NoisySGD(
        pabi.Loss.weakly_convex(weak_convexity=0.01, smoothness=1.0),
        n=1_000,
        batches=pabi.Cyclic(100),
        epochs=100,
        step_size=0.05,
        noise_multiplier=10.0,
        clip_norm=1.0,
        prox=pabi.prox.l1(0.001),
    )


def chain():
    return pabi.LangevinChain(
        pabi.Loss.logistic(feature_norm=1.0, l2=0.04),
        n=1_000,
        inverse_temperature=1_000.0,
        step_size=0.001,
        steps=2_000,
        prox=pabi.prox.ball(4.0),
    )


def network():
    return pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=50_000,
        batches=pabi.Poisson(500),
        epochs=10,
        step_size=0.5,
        noise_multiplier=1.1,
        clip_norm=1.0,
        adjacency="zero_out",
    )


def demo():
    """Of the demo's classifier, second moments included."""
    pixels, digit = load_digits(return_X_y=True)
    model = PrivateLogisticRegression(1.0, 1e-5, adjacency="zero_out", classes=range(10))
    model.fit(bound_rows(pixels[:1_400] / 16.0, 1.0), digit[:1_400])
    moments, training = model.moments_.guarantee(1e-5), model.run_.guarantee(1e-5)
    every = moments.curve.compose(training.composition)
    return every.epsilon(1e-5), model.guarantee_.epsilon(1e-5)


COSTS = {
    "the run above": lambda: costs(replace(RUN, batches=pabi.ShuffleOnce(1_500))),
    "the same": lambda: costs(RUN),
    "the demo's classifier": demo,
    "a clipped": lambda: costs(weakly_convex()),
    "one draw": lambda: costs(chain()),
    "a network": lambda: costs(network(), delta=1e-6),
}
STATED = rows(README, "## What the same run costs")


def test_every_run_of_the_readme_is_computed():
    assert [told for told, _, _ in STATED] == [
        next(told for told, _, _ in STATED if told.startswith(name)) for name in COSTS
    ]


@pytest.mark.parametrize("name", COSTS)
def test_the_readme_states_what_its_runs_cost(name):
    (told,) = ((every, last) for run, every, last in STATED if run.startswith(name))
    assert told == tuple(shown(epsilon, decimals=2) for epsilon in COSTS[name]())


@pytest.mark.parametrize("text", [README, INDEX], ids=["README", "index"])
def test_every_extra_is_named(text):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(re.findall(r"`([\w-]+)`", text.partition("\n## Install")[2].partition("\n## ")[0]))
    assert set(project["optional-dependencies"]) - named == set()


# How tight: some rows that take no time.

CHEAP = [("logistic, l2 = 0.01", "Cyclic"), ("logistic, l2 = 0.01", "ShuffleOnce")]


@pytest.mark.parametrize(("loss", "batches"), CHEAP)
def test_the_page_has_the_instances_and_guarantees_of_today(loss, batches):
    page = (ROOT / "docs" / "tightness.md").read_text("utf-8")
    n, size, epochs = TIGHTNESS.SETTINGS[0]
    table = rows(page, f"### n = {n}, batches of {size}, {epochs} epochs")
    (told,) = (cells[1:] for cells in table if cells[0] == loss)
    described = next(
        (name, run)
        for name, run in TIGHTNESS.descriptions()
        if (name, type(run.batches).__name__) == (loss, batches)
    )
    found, _ = TIGHTNESS.row(described)
    kinds = [kind for kind in TIGHTNESS.GOALS if kind != "FullBatch"]
    assert told[kinds.index(batches)] == TIGHTNESS.cell(found)
    assert 1.0 <= found.ratio < 2.0


# Benchmarks: nothing tight lies far below pabi.

BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def part_of_benchmarks(part):
    """The cells of the table of a part, the head first."""
    text = BENCHMARKS.split(f"<!-- {part}: start -->")[1].split(f"<!-- {part}: end -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_every_part_of_the_benchmarks_has_a_table_with_versions_and_a_day():
    for part in LIBRARIES.PARTS:
        head, *others = part_of_benchmarks(part)
        assert others
        assert all(len(row) == len(head) for row in others)
    assert (
        len(re.findall(r"^pabi [\d.]+, .*; \d{4}-\d\d-\d\d; `benchmarks/", BENCHMARKS, re.M)) == 3
    )


@pytest.mark.parametrize("row", part_of_benchmarks("accounting")[1:], ids=lambda row: row[0])
def test_the_page_of_benchmarks_says_what_pabi_says(row):
    head = part_of_benchmarks("accounting")[0]
    epsilon = LIBRARIES.accounted()[row[0]]["pabi"]()
    assert row[1].split(" ")[0] == shown(epsilon, decimals=3)
    others = [
        float(cell.split(" ")[0]) for name, cell in zip(head[2:], row[2:], strict=True) if cell
    ]
    # pabi rounds up by at most a thousandth, the page by another.
    assert epsilon < 1.002 * min(others)


# PyTorch: what batches cost.

WAYS = (
    pabi.Poisson(500),
    pabi.BallsInBins(500, redraw="epoch"),
    pabi.Reshuffle(499, spare=50_000 % 499),
    pabi.Reshuffle(500),
)
PAGE = ROOT / "docs" / "howto" / "pytorch.md"
ROWS = [
    [float(cell) for cell in line.strip("| ").split("|")]
    for line in PAGE.read_text("utf-8").splitlines()
    if re.fullmatch(r"\|( [\d.]+ \|){7}", line)
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]:g}-{row[1]:g}")
def test_the_table_of_ways_to_batch_is_what_pabi_computes(row):
    noise, epochs, *cells, epsilon = row
    run = replace(network(), epochs=int(epochs), noise_multiplier=noise, release="path")
    for way, cell in zip(WAYS, cells, strict=True):
        told = replace(run, batches=way)
        assert told.steps_per_epoch == 100
        assert cell == float(shown(told.guarantee(1e-6).epsilon(1e-6), 3))
    # δ of N(μ, 1) beside N(0, 1) with μ² = epochs / noise², at the last digit and at one below it.
    mu = epochs**0.5 / noise

    def delta(e):
        return norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu))

    digit = 10.0 ** (np.floor(np.log10(epsilon)) - 2)
    assert delta(epsilon) <= 1e-6 < delta(epsilon - 1.001 * digit)


def test_the_table_of_ways_to_batch_is_whole():
    assert len(ROWS) == 3

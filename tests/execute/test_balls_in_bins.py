"""Records thrown into bins: uniformly, once, summed over `size`, never cut, never shown.

Which rows a step asks for is noted by its gradients; which step it is they read off the iterate, of which one
coordinate shrinks by the regulariser at every step. Seeds are fixed; p-values below 10⁻⁶ fail.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

import pabi
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.learn import train
from pabi.numbers.errors import InvalidInput
from support.unpriced import Unpriced

pytestmark = pytest.mark.filterwarnings("ignore::pabi.numbers.errors.PrivacyWarning")

RARE = 1e-6
KEPT = 0.9  # of the clock at every step
START = [1.0, 0.0]


@pytest.fixture(autouse=True)
def free(monkeypatch):
    """No accounting, no rounding of the result, no waiting for the disk."""

    monkeypatch.setattr(NoisySGD, "guarantee", lambda self, delta=1e-5, position=None: Unpriced())
    monkeypatch.setattr("pabi.execute.hiding.GRID", 2.0**-100)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def run_of(n, size, cap=None, **changes):
    given = {
        "epochs": 3,
        "step_size": 0.1,
        "noise_std": 1e-6,
        "gradient_sensitivity": 1.0,
    } | changes
    loss = Loss.convex(smoothness=1.0, l2=(1.0 - KEPT) / 0.1)
    return NoisySGD(loss, n=n, batches=pabi.BallsInBins(size, cap), **given)


class Crash(BaseException):
    """What no sensible handler catches."""


class Noted:
    """Gradients of a clock and of a sum of 2^i; `steps`: the rows that each step asked for."""

    def __init__(self, crash_at=None):
        self.steps, self._crash_at = {}, crash_at

    def __call__(self, x, rows):
        assert len(rows) > 0
        k = round(np.log(x[0]) / np.log(KEPT))
        if self._crash_at is not None and k >= self._crash_at:
            raise Crash
        self.steps.setdefault(k, []).extend(rows.tolist())
        return np.stack([np.zeros(len(rows)), 2.0**rows], axis=1)


def bins_of(run, seed, **others) -> tuple:
    """The rows of every step with data, as sorted tuples."""
    noted = Noted()
    train(run, noted, START, seed, **others)
    assert set(noted.steps) <= set(range(run.data_steps))
    return tuple(tuple(sorted(noted.steps.get(k, []))) for k in range(run.data_steps))


def law_of(n, bins, cap=None) -> dict:
    """{the rows of all bins: probability}, over all ways to throw."""
    law: Counter = Counter()
    for fallen in itertools.product(range(bins), repeat=n):
        rows = [tuple(i for i in range(n) if fallen[i] == j) for j in range(bins)]
        held = tuple(() if cap is not None and len(r) > cap else r for r in rows)
        law[held] += float(bins) ** -n
    return law


def assert_law(observed, law):
    """Pearson's chi-squared test; nothing outside of the law may occur."""
    counts = Counter(observed)
    assert set(counts) <= set(law)
    total = len(observed)
    assert min(law.values()) * total >= 5.0
    statistic = sum((counts[v] - p * total) ** 2 / (p * total) for v, p in law.items())
    assert chi2.sf(statistic, len(law) - 1) > RARE
    # Numbers that agree too well would not be independent draws.
    assert chi2.cdf(statistic, len(law) - 1) > RARE or len(law) < 10


@pytest.mark.parametrize("runs", [600, pytest.param(8000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    ("n", "size", "cap"),
    [(3, 1, None), (4, 2, None), (5, 3, None), (4, 2, 2), (3, 1, 1), (4, 2, 3)],
)
def test_every_assignment_has_its_own_probability(n, size, cap, runs):
    run = run_of(n, size, cap, epochs=1)
    bins = -(-n // size)
    assert run.steps == bins
    generator = np.random.default_rng(n * 100 + size * 10 + (cap or 0))
    assert_law([bins_of(run, generator) for _ in range(runs)], law_of(n, bins, cap))


def test_another_law_would_be_noticed():
    """That of bins of equal size, as a permutation fills them."""
    law = law_of(4, 2)
    generator = np.random.default_rng(0)
    equal = []
    for _ in range(600):
        order = generator.permutation(4)
        equal.append((tuple(sorted(order[:2].tolist())), tuple(sorted(order[2:].tolist()))))
    with pytest.raises(AssertionError):
        assert_law(equal, law)


@pytest.mark.parametrize(("epochs", "cooldown"), [(4, 0), (2.5, 3), (0.5, 0)])
@pytest.mark.parametrize("cap", [None, 3])
def test_the_bins_are_the_same_in_every_epoch(epochs, cooldown, cap):
    run = run_of(12, 3, cap, epochs=epochs, cooldown_steps=cooldown)
    for seed in range(20):
        found = bins_of(run, seed)
        assert len(found) == round(4 * epochs)
        assert all(found[k] == found[k % 4] for k in range(len(found)))
        rows = [row for held in found[:4] for row in held]
        assert len(set(rows)) == len(rows)
        assert set(rows) <= set(range(12))
        if cap is None and epochs >= 1:
            assert sorted(rows) == list(range(12))


def test_bins_beyond_the_cap_are_empty_and_never_cut():
    """As often as a binomial is beyond it; the records of one are in none of the others."""
    run, over, seeds = run_of(12, 3, 3, epochs=1), 0, 300
    for seed in range(seeds):
        found = bins_of(run, seed)
        assert max(map(len, found)) <= 3
        missing = 12 - sum(map(len, found))
        assert missing != 1  # one record alone is never left out
        over += missing > 0
        assert missing == 0 or missing > 3
    assert over > seeds / 2


@pytest.mark.parametrize(("size", "cap"), [(3, None), (3, 4), (1, 1)])
def test_sums_are_divided_by_the_size(size, cap):
    """Whatever the bin holds: the last iterate by hand, but for noise of a millionth."""
    run = run_of(7, size, cap, epochs=2, cooldown_steps=2)
    for seed in range(10):
        noted = Noted()
        result = train(run, noted, START, seed)
        x = 0.0
        for k in range(run.steps):
            total = sum(2.0**row for row in noted.steps.get(k, []))
            x = KEPT * x - 0.1 * total / size
        assert result.x[1] == pytest.approx(x, abs=1e-5)
        assert result.x[0] == pytest.approx(KEPT**run.steps, abs=1e-5)


@pytest.mark.parametrize("at", [1, 3, 5, 8])
def test_a_resumed_run_goes_on_with_the_same_bins(tmp_path, at):
    """From a file that its owner alone may read, and that is gone at the end."""
    run = run_of(40, 10, epochs=4)
    for seed in range(5):
        path, before, after = tmp_path / f"{seed}.ckpt", Noted(at), Noted()
        with pytest.raises(Crash):
            train(run, before, START, seed, checkpoint=path, checkpoint_seconds=0.0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        train(run, after, START, 1000 + seed, resume=path)
        assert list(tmp_path.iterdir()) == []
        assert set(before.steps) == set(range(at))
        assert set(after.steps) == set(range(at, run.steps))
        steps = before.steps | after.steps
        for k in range(run.steps):
            assert sorted(steps[k]) == sorted(steps[k % 4])
        assert sorted(itertools.chain(*(steps[k] for k in range(4)))) == list(range(40))


def test_a_resumed_run_leaves_the_same_bins_empty(tmp_path):
    run = run_of(12, 3, 3, epochs=4)
    for seed in range(20):
        path, before, after = tmp_path / f"{seed}.ckpt", Noted(6), Noted()
        with pytest.raises(Crash):
            train(run, before, START, seed, checkpoint=path, checkpoint_seconds=0.0)
        train(run, after, START, 99, resume=path)
        steps = before.steps | after.steps
        assert all(sorted(steps.get(k, [])) == sorted(steps.get(k % 4, [])) for k in range(16))


def test_the_file_of_other_bins_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    with pytest.raises(Crash):
        train(run_of(12, 3), Noted(6), START, 0, checkpoint=path, checkpoint_seconds=0.0)
    for other in (run_of(12, 3, 12), run_of(12, 4), run_of(13, 3)):
        with pytest.raises(InvalidInput, match="^resume: "):
            train(other, Noted(), START, 0, resume=path)


def test_bins_come_from_the_operating_system():
    """Forty records fall alike twice by chance with probability 4⁻⁴⁰."""
    found = {bins_of(run_of(40, 10, epochs=1), None) for _ in range(2)}
    assert len(found) == 2
    assert bins_of(run_of(40, 10), 5) == bins_of(run_of(40, 10), 5) != bins_of(run_of(40, 10), 6)


def test_nothing_shows_the_bins(capfd):
    """Not the result, not the screen; and of an exception, no frame of the package but that of `train`."""
    result = train(run_of(12, 3), Noted(), START, 0, progress=False)
    assert set(vars(result)) == {"x", "guarantee", "run"}
    assert capfd.readouterr() == ("", "")
    with pytest.raises(Crash) as caught:
        train(run_of(12, 3), Noted(6), START, 0)
    trace, kept = caught.value.__traceback__, []
    while trace is not None:
        where = trace.tb_frame
        if where.f_globals.get("__name__", "").startswith("pabi") and where.f_code.co_name not in (
            "train",
            "train_and_keep",
        ):
            kept += where.f_locals.values()
        trace = trace.tb_next
    hidden = (np.ndarray, np.random.Generator, list, tuple, dict)
    assert not any(isinstance(value, hidden) and len(np.shape(value)) for value in kept)
    assert not any("BatchRows" in str(type(value).__mro__) for value in kept)

"""Secret steps: which labels a run has, what they are worth, and which runs have none."""

import math

import numpy as np
import pytest

import pabi
from pabi import BallsInBins, NotApplicable, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_steps
from pabi.account.best import outcomes
from pabi.tradeoff import Product
from support.certificates import granted

DELTA = 1e-5
EPSILONS = (0.0, 0.1, 0.5, 1.0)


def run(**changes):
    fields = {"loss": pabi.Loss.unknown(), "n": 1000, "batches": BallsInBins(100), "epochs": 1}
    fields |= {"step_size": 0.1, "clip_norm": 1.0, "noise_multiplier": 2.0, "adjacency": "zero_out"}
    return pabi.NoisySGD(**{**fields, **changes})


def curve_of(**changes):
    return secret_steps.apply(run(**changes), DELTA).curve


def factors_of(**changes):
    """[(factor, times)], of an allocation alone as well."""
    curve = curve_of(**changes)
    return list(curve.factors) if isinstance(curve, Product) else [(curve, 1)]


def labels_of(curve):
    """Sorted (size, share of a label, count)."""
    groups = zip(curve.sizes, curve.shares, curve.counts, strict=True)
    return sorted((a, w / n, n) for w, a, n in ((w, a, n) for a, w, n in groups))


def near(*labels):
    return [pytest.approx(label, rel=1e-9) for label in labels]


@pytest.mark.parametrize(("adjacency", "opposite"), [("zero_out", False), ("replace_one", True)])
def test_bins(adjacency, opposite):
    """They are seen again in every epoch; some may not be reached."""
    for epochs, labels in (
        (1, [(0.5, 0.1, 10)]),
        (4, [(1.0, 0.1, 10)]),
        (2.6, [(math.sqrt(0.5), 0.1, 4), (math.sqrt(0.75), 0.1, 6)]),
        (0.5, [(0.5, 0.1, 5)]),
    ):
        curve = curve_of(epochs=epochs, adjacency=adjacency)
        assert (curve.opposite, curve.displaces) == (opposite, False)
        assert labels_of(curve) == near(*labels)
        assert math.fsum(curve.shares) == pytest.approx(min(1.0, epochs))


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_bins_drawn_anew(adjacency):
    ((full, times), (part, once)) = sorted(
        factors_of(batches=BallsInBins(100, redraw="epoch"), epochs=3.4, adjacency=adjacency),
        key=lambda factor: -factor[1],
    )
    assert (times, once) == (3, 1)
    assert labels_of(full) == near((0.5, 0.1, 10))
    assert labels_of(part) == near((0.5, 0.1, 4))


def test_a_short_last_batch():
    """It is divided by the size of the others, and less likely."""
    curve = curve_of(batches=Reshuffle(300, spare=50))
    assert curve.displaces
    assert labels_of(curve) == near((0.5, 0.05, 1), (0.5, 0.3, 3))


@pytest.mark.parametrize("batches", [Reshuffle(100, spare=1), ShuffleOnce(100, spare=1)])
def test_a_spare_place(batches):
    changes = {"batches": batches, "n": 1001, "epochs": 3}
    ((curve, times),) = factors_of(**changes)
    size, expected = (0.5, 3) if batches.kind == "reshuffle" else (math.sqrt(0.75), 1)
    assert times == expected
    assert labels_of(curve) == near((size, 100.0 / 1001.0, 10))


def test_an_epoch_of_a_shuffle_that_ends_early_has_spare_places():
    """The last batch of the full one before it is the hub."""
    early, full = sorted(dict(factors_of(batches=Reshuffle(100), epochs=1.5)), key=lambda f: f.hub)
    assert (early.hub, full.hub) == (0.0, pytest.approx(0.5))
    assert labels_of(early) == near((0.5, 0.1, 5))
    assert labels_of(full) == near((0.5, 0.1, 9))


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_a_shuffle_of_all_records(adjacency):
    """Once or anew: as long as every batch is used once, the last one is the hub."""
    for batches, epochs in ((Reshuffle(100), 3), (ShuffleOnce(100), 1)):
        ((curve, times),) = factors_of(batches=batches, epochs=epochs, adjacency=adjacency)
        assert (times, curve.opposite, curve.displaces) == (epochs, adjacency != "zero_out", True)
        assert curve.hub == pytest.approx(0.5)
        assert labels_of(curve) == near((0.5, 0.1, 9))


def test_a_hub_has_the_noise_and_the_share_of_the_last_batch():
    """Which may be short, and is then divided by the size of the others."""
    noise = {"noise_multiplier": [2.0, 4.0, 2.5, 1.5], "steps": 4, "epochs": None}
    curve = curve_of(batches=ShuffleOnce(300), **noise)
    assert curve.hub == pytest.approx(1.0 / 1.5)
    assert labels_of(curve) == near((0.25, 0.3, 1), (0.4, 0.3, 1), (0.5, 0.3, 1))


def test_where_one_epoch_hides_a_place_all_have_a_hub():
    """Of which the checker knows no mixture with places in sight."""
    noise = {"noise_multiplier": [2.0] * 10 + [0.5] * 10, "steps": 20, "epochs": None}
    factors = dict(factors_of(batches=Reshuffle(100), **noise))
    assert sorted(curve.hub for curve in factors) == [pytest.approx(0.5), pytest.approx(2.0)]
    assert granted(secret_steps.apply, run(batches=Reshuffle(100), **noise), DELTA)


def test_noise_that_varies():
    noise = [2.0] * 10 + [4.0] * 5 + [2.0] * 5
    varied = {"epochs": None, "steps": 20, "noise_multiplier": noise}
    assert labels_of(curve_of(**varied)) == near(
        (math.sqrt(0.3125), 0.1, 5), (math.sqrt(0.5), 0.1, 5)
    )
    # An epoch drawn anew counts as one of its least noise.
    ((curve, times),) = factors_of(batches=BallsInBins(100, redraw="epoch"), **varied)
    assert times == 2
    assert labels_of(curve) == near((0.5, 0.1, 10))


def test_many_sizes_are_rounded_up_to_a_few():
    noise = np.linspace(2.0, 3.0, 10).tolist()
    curve = curve_of(epochs=None, steps=10, noise_multiplier=noise)
    assert len(set(curve.sizes)) <= 8
    assert sum(curve.counts) == 10
    assert math.fsum(curve.shares) == pytest.approx(1.0)
    found = sorted(a for a, _, n in labels_of(curve) for _ in range(n))
    exact = sorted(1.0 / x for x in noise)
    assert all(a >= b * (1.0 - 1e-12) for a, b in zip(found, exact, strict=True))
    assert found[-1] == pytest.approx(exact[-1], rel=1e-9)
    assert max(a / b for a, b in zip(found, exact, strict=True)) <= 1.5 ** (1.0 / 7.0) * 1.0001


def test_a_cap_may_fail():
    capped = curve_of(batches=BallsInBins(100, 150))
    failure = capped.failure
    assert 1e-6 < failure < 1e-4
    anew = curve_of(batches=BallsInBins(100, 150, redraw="epoch"), epochs=3).failure
    assert anew == pytest.approx(3.0 * failure, rel=1e-9)
    assert capped.epsilon(DELTA) > curve_of().epsilon(DELTA)
    assert capped.epsilon(failure / 2.0) == math.inf


def test_runs_without_secret_steps():
    shuffles = ((Reshuffle(1000), 1), (ShuffleOnce(100), 3), (ShuffleOnce(100), 1.1))
    cases = [({"batches": batches, "epochs": e}, "every place") for batches, e in shuffles]
    cases += [({"batches": x}, "fixed order") for x in (pabi.Cyclic(100), pabi.FullBatch())]
    cases += [({"batches": x}, "drawn afresh") for x in (pabi.Poisson(100), pabi.FixedSize(100))]
    cases += [({"batches": Reshuffle(100), "noise_multiplier": 0.6}, "every place")]
    stated = {"adjacency": "replace_one", "clip_norm": None, "gradient_sensitivity": 1.0}
    cases += [(stated | {"noise_multiplier": None, "noise_std": 0.1}, "stated sensitivity")]
    for changes, why in cases:
        with pytest.raises(NotApplicable, match=why):
            secret_steps.apply(run(**changes), DELTA)


CHANGES = [{"epochs": 2.6}, {"batches": BallsInBins(100, redraw="epoch"), "epochs": 2}]
CHANGES += [{"batches": Reshuffle(100), "epochs": 0.5, "noise_multiplier": 4.0}]
CHANGES += [{"batches": Reshuffle(100)}, {"noise_multiplier": 0.8}]


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_never_above_composition(changes, adjacency):
    description = run(adjacency=adjacency, **changes)
    found = {one.name: one.guarantee for one in outcomes(description, DELTA)}
    secret, known = found["secret steps"], found["composition"]
    for delta in (1e-2, DELTA):
        assert secret.epsilon(delta) <= known.epsilon(delta) * (1.0 + 3e-4) + 1e-9
    for epsilon in EPSILONS:
        assert secret.delta(epsilon) <= known.delta(epsilon) * (1.0 + 2e-3)
    assert description.guarantee(DELTA).epsilon(DELTA) <= known.epsilon(DELTA) * (1.0 + 1e-9)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_it_is_worth_as_much_for_the_path_as_for_the_last_iterate(adjacency):
    last, path = (run(adjacency=adjacency, release=what) for what in ("last", "path"))
    assert path.guarantee(DELTA).method == "secret steps"
    assert path.guarantee(DELTA).epsilon(DELTA) == last.guarantee(DELTA).epsilon(DELTA)
    assert secret_steps.apply(path, DELTA).curve == secret_steps.apply(last, DELTA).curve

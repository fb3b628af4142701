"""Shuffled batches against other bounds: exact worlds of few records are in the falsification tests."""

import math

import numpy as np
import pytest

import pabi
from pabi import Cyclic, FullBatch, Loss, NoisySGD, NotApplicable, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_order, shifted_interpolation
from pabi.account.facts.positions import OrderedView
from support.every_case import every

DELTA = 0.01


def describe(batches, **changes):
    fields = {"loss": Loss.convex(smoothness=1.0, l2=0.03), "n": 50, "batches": batches}
    fields |= {"epochs": 6, "step_size": 0.5, "noise_std": 1.0, "gradient_sensitivity": 8.0}
    return NoisySGD(**{**fields, **changes})


EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


@every("batches", [ShuffleOnce, Reshuffle])
def test_one_step_with_records_left_out_is_the_mixture_by_hand(batches):
    """A step on 2 of 5 records: δ = 2/5·δ_μ, μ = L/(b·ς), which is attained with the batch in sight."""
    given = {"epochs": 1, "step_size": 1.0, "noise_std": 1.0, "gradient_sensitivity": 3.0}
    run = NoisySGD(Loss.convex(1.0), 5, batches(2, spare=3), **given)
    g, one = secret_order.apply(run, DELTA).curve, pabi.tradeoff.Gaussian(3.0 / 2.0)
    for epsilon in EPSILONS:
        assert g.delta(epsilon) == pytest.approx(0.4 * one.delta(epsilon), rel=1e-9)


LATER_IS_WORSE = [
    *({}, {"epochs": 2.5}, {"epochs": 0.4}, {"epochs": 1}, {"cooldown_steps": 9}),
    *({"diameter": 0.6}, {"diameter": 0.6, "cooldown_steps": 4}),
    {"epochs": None, "steps": 33, "step_size": np.linspace(0.1, 1.0, 33)},
    {"epochs": None, "steps": 33, "noise_std": np.linspace(2.0, 0.5, 33)},
    {"loss": Loss.logistic(feature_norm=1.0), "gradient_sensitivity": None, "clip_norm": 0.5},
]
EARLIER_CAN_BE_WORSE = [
    {"loss": Loss.nonconvex(0.2)},
    {"loss": Loss.nonconvex(0.2), "cooldown_steps": 3},
    {"epochs": None, "steps": 33, "step_size": np.linspace(1.0, 0.1, 33)},
]
VARIANTS = [*LATER_IS_WORSE, *EARLIER_CAN_BE_WORSE]


@every("changes", VARIANTS)
@every("size", [5, 8])
def test_mean_of_the_positions(changes, size):
    """δ = Σ_j |B_j|/n · δ_{G(μ_j)}, with μ_j that of a cyclic run."""
    curve = secret_order.apply(describe(ShuffleOnce(size), **changes), DELTA).curve
    cyclic = describe(Cyclic(size), **changes)
    starts = range(0, 50, size)
    known = [shifted_interpolation.apply(cyclic, DELTA, j).curve for j in range(len(starts))]
    worst = shifted_interpolation.apply(cyclic, DELTA).curve.mu
    assert max(curve.mus) == pytest.approx(worst, rel=1e-12)
    for epsilon in EPSILONS:
        shares = [min(size, 50 - start) / 50 for start in starts]
        mean = sum(s * k.delta(epsilon) for s, k in zip(shares, known, strict=True))
        assert curve.delta(epsilon) == pytest.approx(mean, rel=1e-9, abs=1e-300)


def test_reshuffling_is_at_most_the_worst_of_the_last_epochs():
    """Every case of reshuffling is no worse than the record at the end of every epoch."""
    for changes in ({}, {"epochs": 2.5}, {"cooldown_steps": 9}, {"diameter": 0.6}):
        fresh = secret_order.apply(describe(Reshuffle(8), **changes), DELTA).curve
        # Moving all uses to the very end of their epochs, the partial one included.
        run = describe(Cyclic(8), **changes)
        c, s, sigma = OrderedView(run).arrays
        k = np.arange(run.steps)
        ends = (k < run.data_steps) & ((k % 7 == 6) | (k == run.data_steps - 1))
        worst = pabi.NoisyIteration(
            c, np.where(ends, s, 0.0), sigma, diameter=changes.get("diameter")
        ).guarantee(delta=DELTA)
        top = max(part.mu for part in getattr(fresh, "parts", [fresh]))
        assert top <= worst.mu * (1 + 1e-9)
        for epsilon in EPSILONS:
            assert fresh.delta(epsilon) <= worst.delta(epsilon) * (1 + 1e-9)


def test_many_positions_are_rounded_to_later_ones():
    """Beyond a limit positions are pooled: never below the mean of all, and close to it."""
    run = describe(ShuffleOnce(1), n=5000, epochs=3, gradient_sensitivity=2.0)
    curve = secret_order.apply(run, DELTA).curve
    assert len(curve.parts) <= 2048
    cyclic = describe(Cyclic(1), n=5000, epochs=3, gradient_sensitivity=2.0)
    sample = np.unique(np.concatenate([np.arange(0, 4900, 70), np.arange(4900, 5000)]))
    mus = np.array([shifted_interpolation.apply(cyclic, DELTA, int(j)).curve.mu for j in sample])
    assert np.all(np.diff(mus) >= -1e-15)
    # Below, each position counts as the sampled one before it; above, as the one after it.
    gaps = np.diff(np.append(sample, 5000))
    for epsilon in (0.0, 0.5, 1.0):
        deltas = np.array([pabi.tradeoff.Gaussian(m).delta(epsilon) for m in mus])
        below = float((gaps * deltas).sum()) / 5000
        above = float((gaps * np.append(deltas[1:], deltas[-1])).sum()) / 5000
        assert curve.delta(epsilon) >= below * (1 - 1e-9)
        assert curve.delta(epsilon) <= above * 1.02


@pytest.mark.parametrize(
    "changes", [*EARLIER_CAN_BE_WORSE, {"epochs": 3, "loss": Loss.convex(1.0), "step_size": 2.5}]
)
def test_reshuffling_needs_later_uses_to_be_worse(changes):
    run = describe(Reshuffle(8), **changes)
    with pytest.raises(NotApplicable):
        secret_order.apply(run, DELTA)
    with pytest.raises(NotApplicable, match="an earlier use can be worse than a later one"):
        secret_order.reshuffled(OrderedView(run), run.order)
    g = run.guarantee(delta=DELTA)
    assert g.method in ("latest uses", "epoch by epoch", "composition")


def test_what_has_no_secret_order_or_no_hidden_path():
    hidden = [
        describe(batches, **changes)
        for batches in (ShuffleOnce(8), Reshuffle(8))
        for changes in ({"release": "path"}, {"update": "other"})
    ]
    for description in (*hidden, describe(Cyclic(8)), describe(FullBatch())):
        with pytest.raises(NotApplicable):
            secret_order.apply(description, DELTA)


def test_composition_of_a_path_knows_how_often_a_record_is_used():
    """Three batches, seven steps: a third of the records is read thrice, the rest twice."""
    run = describe(ShuffleOnce(2), n=6, epochs=None, steps=7, release="path")
    g = run.guarantee(delta=DELTA)
    assert list(g.curve.mus) == pytest.approx([4.0 * math.sqrt(2), 4.0 * math.sqrt(3)])
    assert g.curve.weights == pytest.approx([2 / 3, 1 / 3])

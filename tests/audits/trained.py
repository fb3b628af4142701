"""That what an instance trains has the law that is computed for it; and cases that several files share."""

from __future__ import annotations

import numpy as np

import pabi


def orders(size: int, spare: int) -> list[pabi.Batches]:
    """Every way to draw batches of this size."""
    drawn = [pabi.ShuffleOnce, pabi.Reshuffle, pabi.BallsInBins]
    return [
        *(pabi.FullBatch(), pabi.Cyclic(size), *(kind(size) for kind in drawn)),
        *(pabi.ShuffleOnce(size, spare=spare), pabi.Reshuffle(size, spare=spare)),
        *(pabi.BallsInBins(size, redraw="epoch"), pabi.Poisson(size), pabi.FixedSize(size)),
    ]


def named(batches: pabi.Batches) -> str:
    """The type; with options, the whole."""
    options = getattr(batches, "spare", 0) or getattr(batches, "redraw", "once") != "once"
    return repr(batches) if options else type(batches).__name__


def statistics(instance, pair, seed, move=0.0, cells=30):
    """Pearson's χ², of at most `cells` − 1 degrees of freedom, of models of either data set."""
    rng = np.random.default_rng(seed)
    for gradient, masses in ((instance.record, pair.one), (instance.other, pair.other)):
        x = instance.trained(gradient, 20_000, rng)
        x = x + move * x.std()
        cell = np.minimum((np.cumsum(masses) * cells).astype(int), cells - 1)
        counts = np.bincount(cell[np.searchsorted(pair.edges, x, side="right")], minlength=cells)
        expected = np.bincount(cell, masses, minlength=cells) * len(x)
        used = expected > 5.0
        assert counts[~used].sum() < 60
        yield float(np.sum(np.square(counts - expected)[used] / expected[used]))


def assert_not_dearer(instance, guarantee):
    """That an instance costs no more than is promised, at two δ and in both orders."""
    pair = instance.pair()
    for delta in (1e-5, 1e-2):
        promised = guarantee.epsilon(delta) * (1.0 + 1e-9)
        assert pair.epsilon(delta) <= promised, instance
        assert pair.swapped().epsilon(delta) <= promised, instance

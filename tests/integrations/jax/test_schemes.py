"""The batch selection of jax-privacy as schemes of pabi: what is drawn is counted."""

# ruff: noqa: E402  (imports that need the framework come after the line that asks for it)

from __future__ import annotations

import math
import re

import numpy as np

from pabi import BallsInBins, FixedSize, Poisson
from support.every_case import every, refused
from support.frameworks import framework

framework("jax")
selection = framework("jax_privacy.batch_selection")

from pabi.integrations.jax import from_batch_selection

N, STEPS = 40, 3000


def shares(strategy):
    """(n,) how often each record is drawn, and the sizes of all batches."""
    counts, sizes = np.zeros(N), []
    for batch in strategy.batch_iterator(N, np.random.default_rng(0)):
        assert len(set(batch.tolist())) == len(batch)
        counts[batch] += 1
        sizes.append(len(batch))
    return counts / len(sizes), sizes


BINS = selection.BallsInBinsSampling(iterations=14, cycle_length=7)


def test_poisson_batches_and_those_of_fixed_size():
    for strategy, scheme in (
        (selection.CyclicPoissonSampling(0.15, STEPS), Poisson(6, probability=0.15)),
        (selection.FixedBatchSampling(batch_size=6, iterations=STEPS), FixedSize(6)),
    ):
        assert from_batch_selection(strategy, n=N, divisor=6) == scheme
        found, sizes = shares(strategy)
        assert np.abs(found - 0.15).max() < 6 * math.sqrt(0.15 * 0.85 / STEPS)  # standard errors
        assert set(sizes) == {6} if scheme == FixedSize(6) else len(set(sizes)) > 5


def test_bins():
    scheme = from_batch_selection(BINS, n=N, divisor=6)
    assert (scheme, scheme.order(N, 14).period) == (BallsInBins(6, redraw="once"), 7)
    found, sizes = shares(BINS)
    assert np.all(found == 1 / 7)
    assert sizes[:7] == sizes[7:]
    batches = [set(batch.tolist()) for batch in BINS.batch_iterator(N, 3)]
    assert batches[:7] == batches[7:]


REFUSED = [
    (selection.CyclicPoissonSampling(0.1, 5, cycle_length=2), 6, "strategy", "in a cycle of 2"),
    (selection.CyclicPoissonSampling(0.1, 5, truncated_batch_size=9), 6, "strategy", "are cut"),
    (selection.CyclicPoissonSampling(0.0, 5), 6, "probability", "> 0"),
    (selection.FixedBatchSampling(6, 5, replace=True), 6, "strategy", "with replacement"),
    (selection.FixedBatchSampling(6, 5), 7, "divisor", "expected 6"),
    (selection.BallsInBinsSampling(5, 7), 5, "divisor", "= 7"),
    (selection.BMinSepSampling(0.1, 5, 2), 6, "strategy", "BMinSepSampling"),
    ("poisson", 6, "strategy", "got a str"),
    (selection.FixedBatchSampling(6, 5), 0, "divisor", "≥ 1|in 1"),
]


@every("strategy, divisor, field, reason", REFUSED)
def test_what_no_scheme_fits(strategy, divisor, field, reason):
    message = refused(field, from_batch_selection, strategy, n=N, divisor=divisor)
    assert re.search(reason, message), message

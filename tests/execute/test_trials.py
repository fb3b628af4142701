"""Draws of numbers of trials and of secret orders: exact inversion, and every order as likely as another."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chisquare
from tests.support.falsification.selections import masses

from pabi.execute import batches as module
from pabi.execute.batches import Buckets, drawn_order, is_order, whole_order
from pabi.execute.checkpoint import TrialLaw, secret_generator
from support.every_case import every, refused


@every(("gamma", "shape"), [(0.1, 1.0), (0.1, 0.0), (0.3, -0.5), (0.2, 2.5), (0.9, 0.0)])
def test_draws_follow_the_law(gamma: float, shape: float):
    """χ² over cells of at least 20 expected draws; it fails by chance once in a million runs."""
    law, generator, draws = TrialLaw(gamma, shape), secret_generator(), 4000
    drawn = np.array([law.draw(generator) for _ in range(draws)])
    expected = draws * masses(gamma, shape, 400)
    cells = int(np.argmax(expected < 20.0)) or 1
    counts = np.bincount(np.minimum(drawn, cells + 1), minlength=cells + 2)[1:]
    rest = draws - expected[:cells].sum()
    statistic = ((counts[:-1] - expected[:cells]) ** 2 / expected[:cells]).sum()
    statistic += (counts[-1] - rest) ** 2 / rest
    assert statistic < stats.chi2(cells).isf(1e-6)


class Scripted:
    """A generator that gives these bytes."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def bytes(self, count: int) -> bytes:
        return self.words.pop(0).to_bytes(count, "little")


def test_a_draw_in_doubt_reveals_more_bits():
    """P(K = 1) = 1/2 exactly: a uniform number that begins with 2⁶³ − 1 units of 2⁻⁶⁴ ends at the edge."""
    law = TrialLaw(0.5, 1.0)
    cases = {(2**63 - 1, 0): 1, (2**63, 7): 2, (0,): 1, (2**64 - 1, 7): 65}
    assert all(law.draw(Scripted(*words)) == drawn for words, drawn in cases.items())


@every("shape", [-0.5, 0.0, 1.0])
def test_quantiles(shape: float):
    cumulative, law = np.cumsum(masses(0.05, shape, 2000)), TrialLaw(0.05, shape)
    for share in (0.5, 0.99):
        assert law.quantile(share) == int(np.argmax(cumulative >= share)) + 1
    for gamma in (0.0, 1.0):
        refused("gamma", TrialLaw, gamma, shape)
    refused("shape", TrialLaw, 0.5, -1.0)


@pytest.mark.parametrize("n", [module.BUCKET + 1, 5 * module.BUCKET - 7])
def test_many_records_are_all_there_once(n):
    secret = drawn_order(n, np.random.default_rng(4))
    order = whole_order(secret, n)
    assert np.array_equal(np.sort(order), np.arange(n))
    assert is_order(secret, n)
    assert is_order(order, n)
    # A uniform order has about one fixed point, and neighbours anywhere.
    assert np.sum(order == np.arange(n)) < 15
    assert np.mean(np.abs(np.diff(order))) == pytest.approx(n / 3.0, rel=0.02)
    for none in (np.zeros(5, int), np.arange(6), np.zeros(4, int)):
        assert not is_order(none, 5)


@pytest.mark.parametrize(("n", "bucket"), [(3, 1), (3, 2), (5, 2)])
def test_every_order_is_as_likely(monkeypatch, n, bucket):
    """All orders of a few records, in buckets of which each has as many as chance has it."""
    monkeypatch.setattr(module, "BUCKET", bucket)
    generator = np.random.default_rng(5)
    counts = dict.fromkeys(permutations(range(n)), 0)
    for _ in range(60 * len(counts)):
        counts[tuple(whole_order(drawn_order(n, generator), n).tolist())] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_the_order_is_that_of_the_buckets():
    n = 3 * module.BUCKET
    buckets = Buckets(drawn_order(n, np.random.default_rng(6)), n)
    label = np.concatenate([labels for _, labels in buckets.labels()])
    parts = [np.flatnonzero(label == j) for j in range(buckets.count)]
    parts = [part[buckets.inside(j, len(part))] for j, part in enumerate(parts)]
    assert np.array_equal(np.concatenate(parts), whole_order(buckets.secret, n))
    assert buckets.sizes().tolist() == [len(part) for part in parts]

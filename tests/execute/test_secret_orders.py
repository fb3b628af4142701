"""Secret orders: every one is as likely, few records as before, and many the same in memory and on a disk."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from pabi.execute import secret_orders as module
from pabi.execute.secret_orders import Buckets, drawn_order, is_order, whole_order
from support.execution import every


def test_few_records_are_permuted_at_once():
    order = drawn_order(1000, np.random.default_rng(3))
    assert np.array_equal(order, np.random.default_rng(3).permutation(1000))
    assert whole_order(order, 1000) is order


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


@every(("n", "bucket"), [(3, 1), (3, 2), (5, 2)])
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


def test_keys_differ_from_draw_to_draw():
    generator, n = np.random.default_rng(7), module.BUCKET + 1
    keys = {tuple(drawn_order(n, generator).tolist()) for _ in range(20)}
    assert len(keys) == 20


@every("secret", [np.zeros(5, int), np.arange(6), np.zeros(4, int)])
def test_what_is_no_order(secret):
    assert not is_order(secret, 5)

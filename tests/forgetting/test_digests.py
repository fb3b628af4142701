"""Digests tell records apart, and say nothing without the key."""

from __future__ import annotations

import hashlib

import numpy as np
from scipy.sparse import csr_matrix

from pabi.forgetting.digests import digests_of, same_rows, without
from support.in_turn import in_turn

RNG = np.random.default_rng(3)
X = np.where(RNG.random((5000, 4)) < 0.4, 0.0, RNG.standard_normal((5000, 4)))
Y, KEY = RNG.integers(3, size=5000), bytes(range(32))


def test_a_digest_is_blake2b_of_the_row_and_what_belongs_to_it():
    weights = RNG.random(5000)
    digests = digests_of(X, Y, weights, KEY)
    for row in (0, 4095, 4096, 4999):
        text = np.array([*X[row], Y[row], weights[row]], dtype="<f8").tobytes()
        digest = hashlib.blake2b(text, digest_size=16, key=KEY).digest()
        assert digests[row].tobytes() == digest


@in_turn("form", [csr_matrix, np.asfortranarray, lambda x: x[::1] * 1.0])
def test_the_form_of_a_table_does_not_matter(form):
    assert np.array_equal(digests_of(form(X), Y, None, KEY), digests_of(X, Y, None, KEY))
    assert np.array_equal(
        digests_of(-X * -1.0 * -1.0 * -1.0, Y, None, KEY), digests_of(X, Y, None, KEY)
    )


@in_turn("place", ["row", "target", "weight", "key"])
def test_every_part_matters(place):
    rows, targets, weights, key = X.copy(), Y.copy(), np.ones(5000), KEY
    before = digests_of(rows, targets, weights, key)
    if place == "row":
        rows[77, 2] = np.nextafter(rows[77, 2], 9.0)
    elif place == "target":
        targets[77] += 1
    elif place == "weight":
        weights[77] = 0.5
    else:
        key = bytes(32)
    after = digests_of(rows, targets, weights, key)
    differing = np.flatnonzero(np.any(before != after, axis=1))
    assert differing.tolist() == (list(range(5000)) if place == "key" else [77])
    assert not same_rows(before, after, np.array([], dtype=np.intp))
    assert same_rows(before, after, np.array([77])) is (place != "key")


def test_forgotten_records_have_none():
    digests = digests_of(X, Y, None, KEY)
    left = without(digests, np.array([2, 5]))
    assert not np.any(left[[2, 5]])
    assert np.array_equal(left[[0, 1, 3, 4]], digests[[0, 1, 3, 4]])

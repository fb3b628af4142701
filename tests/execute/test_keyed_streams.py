"""Secret streams that follow from a key, so that a computation may be done again elsewhere."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pabi.execute.randomness import (
    KEY_BYTES,
    Randomness,
    drawn_from,
    keyed_generator,
    secret_generator,
)


def drawn():
    """Numbers of two secret streams."""
    return [secret_generator().random() for _ in range(2)]


def test_a_key_decides_all_streams_within():
    several = []
    for _ in range(2):
        with drawn_from(keyed_generator(bytes(KEY_BYTES))):
            several.append(drawn())
    with drawn_from(keyed_generator(b"\1" * KEY_BYTES)):
        other = drawn()
    assert several[0] == several[1]
    assert len({*several[0], *other}) == 4


def test_a_key_decides_nothing_outside():
    """Afterwards, after an error, and in another thread, keys are the operating system's."""
    elsewhere = []
    with pytest.raises(ValueError, match="an error"), drawn_from(keyed_generator(bytes(KEY_BYTES))):
        first = drawn()
        thread = threading.Thread(target=lambda: elsewhere.extend(drawn()))
        thread.start()
        thread.join()
        raise ValueError("an error")
    assert len({*first, *elsewhere, *drawn()}) == 6


def test_an_inner_key_leaves_the_outer_one():
    with drawn_from(keyed_generator(bytes(KEY_BYTES))):
        expected = drawn()
    with drawn_from(keyed_generator(bytes(KEY_BYTES))):
        first = secret_generator().random()
        with drawn_from(keyed_generator(b"\1" * KEY_BYTES)):
            drawn()
        assert [first, secret_generator().random()] == expected


def test_a_key_is_that_of_the_cipher():
    """The first block of ChaCha20 under a key of zeros, nonce and counter 0.

    Source: RFC 7539, appendix A.1, test vector 1.
    """
    block = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    words = keyed_generator(bytes(KEY_BYTES)).bit_generator.random_raw(4)
    assert np.asarray(words, "<u8").tobytes().hex() == block


def test_keys_are_fresh_or_follow_from_a_seed():
    fresh = Randomness(None)
    assert len({*fresh.keys(3), *fresh.keys(3)}) == 6
    assert Randomness(7).keys(3) == Randomness(7).keys(3)
    assert len({*Randomness(7).keys(3), *Randomness(8).keys(3)}) == 6
    assert {len(key) for key in (*fresh.keys(2), *Randomness(7).keys(2))} == {KEY_BYTES}

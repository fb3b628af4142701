"""Where noise comes from: the cipher's published streams, the law of its numbers, and what is kept of it."""

import threading
import warnings

import numpy as np
import pytest

from pabi import PrivacyWarning
from pabi.execute.checkpoint import (
    KEY_BYTES,
    Randomness,
    drawn_from,
    keyed_generator,
    randomness_from,
    secret_generator,
)
from support.every_case import every, refused

# RFC 8439, Appendix A.1, test vectors 1 to 4: (key, block, first bytes of the block). The nonce is 0.
VECTORS = [
    (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    (bytes(31) + b"\x01", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    (
        b"\x00\xff" + bytes(30),
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca",
    ),
]


@pytest.fixture
def keyed(monkeypatch):
    """A generator whose key the system is made to give."""

    def make(key):
        monkeypatch.setattr("os.urandom", {KEY_BYTES: key}.get)
        return secret_generator()

    return make


@every(("key", "block", "stream"), VECTORS)
def test_the_stream_is_the_published_one(keyed, key, block, stream):
    """Key bytes in the order in which the system gave them, blocks of 512 bits."""
    raw = keyed(key).bit_generator.random_raw(8 * (block + 1))
    found = np.asarray(raw, dtype="<u8").tobytes()[64 * block :]
    assert found.hex().startswith(stream)


def test_secret_randomness_holds_nothing():
    """No generator stands in what a debugger shows of the caller."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = randomness_from(None)
    assert found.secret
    assert vars(found) == {"random_state": None}
    assert repr(found) == "Randomness(random_state=None)"
    one, other = found.generator(), found.generator()
    assert one.bytes(16) != other.bytes(16)


@every("seed", [0, 7, np.int32(7), np.uint8(0)])
def test_a_seed_is_numpys_own(seed):
    with pytest.warns(PrivacyWarning, match="random_state was given: .* leave it None") as caught:
        found = randomness_from(seed)  # on behalf of this very line
    assert caught[0].filename == __file__
    assert not found.secret
    assert type(found.random_state) is int
    assert found.generator().bytes(16) == np.random.default_rng(int(seed)).bytes(16)


def test_a_generator_is_used_as_it_is():
    """It goes on where it was, and the caller sees how far it got."""
    own, twin = np.random.default_rng(3), np.random.default_rng(3)
    assert own.random() == twin.random()
    with pytest.warns(PrivacyWarning):
        found = randomness_from(own)
    assert found.generator() is own
    assert found.generator().bytes(8) == twin.bytes(8)
    assert not Randomness(own).secret


NO_SEEDS = [
    *(-1, np.int64(-1), False, 1.0, "1", b"1", [1], np.random.RandomState(0), np.array(3)),
    *(np.random.PCG64(0), np.random.SeedSequence(1)),
]


@every("state", NO_SEEDS)
def test_nothing_else_is_taken_for_a_seed(state):
    """Without a warning that says that it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "expected " in refused("random_state", randomness_from, state)


def drawn():
    """Numbers of two secret streams."""
    return [secret_generator().random() for _ in range(2)]


def test_a_key_decides_all_streams_within():
    """An inner one leaves the outer one."""
    several, outer = [], bytes(KEY_BYTES)
    for _ in range(2):
        with drawn_from(keyed_generator(outer)):
            several.append(drawn())
    with drawn_from(keyed_generator(outer)):
        first = secret_generator().random()
        with drawn_from(keyed_generator(b"\1" * KEY_BYTES)):
            other = drawn()
        again = [first, secret_generator().random()]
    assert several[0] == several[1] == again
    assert len({*again, *other}) == 4


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


def test_keys_are_fresh_or_follow_from_a_seed():
    """All of their 256 bits are used."""
    fresh = Randomness(None)
    assert len({*fresh.keys(3), *fresh.keys(3)}) == 6
    assert Randomness(7).keys(3) == Randomness(7).keys(3)
    assert len({*Randomness(7).keys(3), *Randomness(8).keys(3)}) == 6
    assert {len(key) for key in (*fresh.keys(2), *Randomness(7).keys(2))} == {KEY_BYTES}
    keys = (bytes(1 if i == byte else 0 for i in range(32)) for byte in range(32))
    assert len({keyed_generator(key).bit_generator.random_raw() for key in keys}) == 32

"""Where noise comes from: the cipher's published streams, the law of its numbers, and what is kept of it.

That every run has a key of its own from the operating system, all of whose bits count, and that seeds are
marked, is tested with the engine. Keys are fixed here; a right generator fails a test with probability 10⁻⁶.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

from pabi import InvalidInput, PrivacyWarning
from pabi.execute.randomness import KEY_BYTES, Randomness, randomness_from, secret_generator

RARE = 1e-6
DRAWS = 100_000

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
        monkeypatch.setattr("os.urandom", lambda n: key)
        return secret_generator()

    return make


@pytest.fixture
def generator(keyed):
    return keyed(bytes(range(KEY_BYTES)))


@pytest.mark.parametrize(("key", "block", "stream"), VECTORS)
def test_the_stream_is_the_published_one(keyed, key, block, stream):
    """Key bytes in the order in which the system gave them, blocks of 512 bits."""
    raw = keyed(key).bit_generator.random_raw(8 * (block + 1))
    found = np.asarray(raw, dtype="<u8").tobytes()[64 * block :]
    assert found.hex().startswith(stream)


def assert_even(counts, expected):
    """Pearson's test; counts that agree too well are no independent draws either."""
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    assert RARE / 2 < chi2.cdf(statistic, len(counts) - 1) < 1 - RARE / 2


def test_noise_is_normal(generator):
    """As a whole, and out to where one draw in ten thousand lies."""
    draws = generator.standard_normal(DRAWS)
    assert kstest(draws, norm.cdf).pvalue > RARE
    for z in (3.0, 3.5):
        p = 2 * norm.sf(z)
        low, high = binom.ppf([RARE / 4, 1 - RARE / 4], DRAWS, p)
        assert low <= np.sum(np.abs(draws) > z) <= high


@pytest.mark.parametrize("lag", [1, 2, 3, 64])
def test_noise_of_different_steps_is_uncorrelated(generator, lag):
    """Σ x_k·x_{k+lag}/√m is nearly standard normal."""
    draws = generator.standard_normal(DRAWS)
    m = DRAWS - lag
    score = float(draws[:-lag] @ draws[lag:]) / np.sqrt(m)
    assert abs(score) < norm.isf(RARE / 2)


def test_bytes_are_even(generator):
    counts = np.bincount(np.frombuffer(generator.bytes(256 * 500), dtype=np.uint8), minlength=256)
    assert_even(counts, np.full(256, 500.0))


def test_permutations_are_even(generator):
    """All orders of four, by their rank."""
    rank = np.array([64, 16, 4, 1])
    orders = np.array([generator.permutation(4) for _ in range(24 * 200)]) @ rank
    values, counts = np.unique(orders, return_counts=True)
    assert len(values) == 24
    assert_even(counts, np.full(24, 200.0))


# What is kept.


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


@pytest.mark.parametrize("seed", [0, 7, np.int32(7), np.uint8(0)])
def test_a_seed_is_numpys_own(seed):
    with pytest.warns(PrivacyWarning, match="random_state was given: .* leave it None") as caught:
        found = randomness_from(seed, stacklevel=1)  # on behalf of this very line
    assert caught[0].filename == __file__
    assert not found.secret
    assert type(found.random_state) is int
    assert found.generator().bytes(16) == np.random.default_rng(int(seed)).bytes(16)


def test_a_generator_is_used_as_it_is():
    """It goes on where it was, and the caller sees how far it got."""
    own, twin = np.random.default_rng(3), np.random.default_rng(3)
    own.standard_normal(5)
    twin.standard_normal(5)
    with pytest.warns(PrivacyWarning):
        found = randomness_from(own)
    assert found.generator() is own
    assert found.generator().bytes(8) == twin.bytes(8)
    assert not Randomness(own).secret


@pytest.mark.parametrize(
    "state", [-1, np.int64(-1), False, 1.0, "1", b"1", [1], np.random.RandomState(0), np.array(3),
              np.random.PCG64(0), np.random.SeedSequence(1)],
    ids=lambda s: f"{type(s).__name__}",
)  # fmt: skip
def test_nothing_else_is_taken_for_a_seed(state):
    """Without a warning that says that it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match="^random_state: expected ") as refused:
            randomness_from(state)
    assert refused.value.field == "random_state"

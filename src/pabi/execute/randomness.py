"""Where the noise and the secret batches of a training run come from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx

from pabi.convert.mixtures import checked_shape
from pabi.numbers import validate
from pabi.numbers.errors import PrivacyWarning, warn

KEY_BYTES = 32
_KEYS: ContextVar[np.random.Generator | None] = ContextVar("keys of secret streams", default=None)


def secret_generator() -> np.random.Generator:
    """A generator whose key is fresh from the operating system, or from the stream of `drawn_from`."""
    source = _KEYS.get()
    return keyed_generator(os.urandom(KEY_BYTES) if source is None else source.bytes(KEY_BYTES))


def keyed_generator(key: bytes) -> np.random.Generator:
    """A numpy Generator over ChaCha20 under this key of 256 bits.

    Nobody who sees a released iterate can predict its stream, which a Mersenne Twister or a PCG
    with a recoverable state does not promise. Source: D. J. Bernstein, "ChaCha, a variant of
    Salsa20", 2008; `randomgen.ChaCha`, whose `key` is used as it stands, unlike its `seed`.
    """
    from randomgen import ChaCha

    return np.random.Generator(ChaCha(key=int.from_bytes(key, "little"), rounds=20))


@contextmanager
def drawn_from(generator: np.random.Generator) -> Iterator[None]:
    """A context in which the keys of secret streams come from `generator`, in this thread alone.

    What is computed in it is a function of that stream, so that it may be computed again: a second time it
    gives what it gave before. `generator` has to be as secret as what it stands in for. Threads that are
    started in it draw from the operating system.
    """
    token = _KEYS.set(generator)
    try:
        yield
    finally:
        _KEYS.reset(token)


@dataclass(frozen=True)
class Randomness:
    """Where a run will draw from: a stream that is secret, or one for tests.

    The generator is made by `generator()` where nothing else can see it: who holds it can subtract the
    noise. A caller's frame is shown by debuggers and error trackers while it runs; this object says nothing
    there that the caller did not pass.
    """

    random_state: int | np.random.Generator | None

    @property
    def secret(self) -> bool:
        """Whether nobody can know the draws."""
        return self.random_state is None

    def generator(self) -> np.random.Generator:
        """The generator to draw from, once."""
        if self.random_state is None:
            return secret_generator()
        return np.random.default_rng(self.random_state)

    def keys(self, count: int) -> list[bytes]:
        """So many keys of streams that are independent of one another, once; in place of `generator`."""
        if self.random_state is None:
            return [os.urandom(KEY_BYTES) for _ in range(count)]
        generator = np.random.default_rng(self.random_state)
        return [generator.bytes(KEY_BYTES) for _ in range(count)]


def is_secret(random_state: Any) -> bool:
    """Whether nobody can know what is drawn from it, without a warning; InvalidInput as `randomness_from`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return randomness_from(random_state).secret


def randomness_from(random_state: Any) -> Randomness:
    """The source of randomness that `random_state` stands for.

    `random_state`: None for `secret_generator`; an int ≥ 0 or a numpy Generator for tests, with a
    PrivacyWarning, because whoever knows it can subtract the noise. Raises InvalidInput otherwise.
    """
    if random_state is None:
        return Randomness(None)
    if isinstance(random_state, (int, np.integer)):
        random_state = validate.integer("random_state", random_state, at_least=0)
    else:
        expected = "None, an int ≥ 0 or a numpy Generator"
        validate.instance("random_state", random_state, np.random.Generator, expected)
    warn(
        "random_state was given: the noise is reproducible, so the result is for testing only; "
        "leave it None to protect anyone",
        PrivacyWarning,
    )
    return Randomness(random_state)


# How many trials a private selection makes: exact draws from the truncated negative binomial law.


_BITS = 64  # of a uniform number that are revealed at a time


class TrialLaw:
    """P(K = k) ∝ (1 − γ)^k·Π_{l<k} (l + η)/(l + 1) for k ≥ 1; η the `shape` in (−1, 10], γ `gamma` in (0, 1).

    Draws are exact: a uniform number is revealed bit by bit until balls around the distribution function
    leave no doubt between which two of its values the number lies. With the shape near −1 a draw may be
    astronomically large, and then takes as long.
    """

    def __init__(self, gamma: float, shape: float) -> None:
        self.gamma = validate.number("gamma", gamma, above=0.0, below=1.0)
        self.shape = checked_shape(shape)

    def draw(self, generator: np.random.Generator) -> int:
        """One draw, an integer ≥ 1, from the bits of `generator`."""
        revealed = bits = 0
        while True:
            revealed = revealed << _BITS | int.from_bytes(generator.bytes(_BITS // 8), "little")
            bits += _BITS
            drawn = self._between(revealed, bits)
            if drawn is not None:
                return drawn

    def quantile(self, share: float) -> int:
        """The least k with P(K ≤ k) ≥ `share` in (0, 1), to the rounding of doubles: for plans only."""
        weight = float(self._first())
        total, k = weight, 1
        while total < share:
            weight *= (1.0 - self.gamma) * (k + self.shape) / (k + 1)
            total, k = total + weight, k + 1
        return k

    def _between(self, revealed: int, bits: int) -> int | None:
        """The k whose range of the distribution function holds [u, u + 2^−bits] for sure; None in doubt."""
        with ctx.workprec(2 * bits + 64):
            unit = arb(2) ** -bits
            low, high = arb(revealed) * unit, arb(revealed + 1) * unit
            rest, eta = 1 - arb(self.gamma), arb(self.shape)
            weight, total, k = self._first(), arb(0), 1
            while True:
                above = total + weight
                if high <= above:
                    return k if low >= total else None
                if not low >= above:
                    return None
                weight = weight * rest * (k + eta) / (k + 1)
                total, k = above, k + 1

    def _first(self) -> Any:
        """A ball of P(K = 1) = η(1 − γ)/(γ^−η − 1), for η = 0 of (1 − γ)/log(1/γ)."""
        g, eta = arb(self.gamma), arb(self.shape)
        if self.shape == 0.0:
            return (1 - g) / -g.log()
        return eta * (1 - g) / (-eta * g.log()).expm1()

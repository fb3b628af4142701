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

from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning

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


def randomness_from(random_state: Any, *, stacklevel: int = 2) -> Randomness:
    """The source of randomness that `random_state` stands for.

    `random_state`: None for `secret_generator`; an int ≥ 0 or a numpy Generator for tests, with a
    PrivacyWarning, because whoever knows it can subtract the noise. Raises InvalidInput otherwise.
    """
    if random_state is None:
        return Randomness(None)
    if isinstance(random_state, (int, np.integer)):
        random_state = validate.integer("random_state", random_state, at_least=0)
    elif not isinstance(random_state, np.random.Generator):
        kind = type(random_state).__name__
        raise InvalidInput(
            "random_state", f"expected None, an int ≥ 0 or a numpy Generator, got a {kind}"
        )
    warnings.warn(
        "random_state was given: the noise is reproducible, so the result is for testing only; "
        "leave it None to protect anyone",
        PrivacyWarning,
        stacklevel=stacklevel + 1,
    )
    return Randomness(random_state)

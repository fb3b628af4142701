"""Random numbers of a run, and the files from which it goes on.

A checkpoint holds a hidden iterate and the secret order of the records. Whoever reads it knows more than the
guarantee allows, so the file is readable by its owner only and is removed when the run ends. It holds what
the guarantee rests on beside the description, noise that can be reproduced among it: what was assumed of one
part of a run is assumed of the whole. It holds no state of the random generator: noise and sampled batches
after a restart are drawn afresh, so that no draw is ever used twice, not even when one checkpoint is resumed
twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from flint import arb, ctx

from pabi.budget.files import sync_folder
from pabi.describe import updates
from pabi.describe.runs import NoisySGD
from pabi.execute.batches import Secret, fits
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, PrivacyWarning, require, warn
from pabi.numbers.locking import holding, only_name
from pabi.numbers.mixtures import checked_shape
from pabi.numbers.rounding import Array

# Secret files: readable by their owner only, and at any moment the old one or the new one.


def partial_of(path: Path) -> Path:
    """Where the next content of the file is written before it takes the file's name."""
    return path.with_name(f".{path.name}.partial")


def write_secret(path: Path, content: Any) -> None:
    """Gives the file, no link, this content (bytes), which survives a loss of power. Raises OSError; the file
    is then as it was."""
    partial = partial_of(path)
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()  # of a crash while it was written
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


_FORMAT, _WITHOUT_ASSUMPTIONS = "pabi.checkpoint.3", "pabi.checkpoint.1"
_UPDATE = "update_"  # of the names of what the update keeps


@dataclass(frozen=True)
class State:
    """What a run is after `step` steps: all that the next step depends on.

    `assumed`: the assumptions so far beside what the description implies.
    """

    step: int
    x: Array
    secret: Secret | None
    assumed: tuple[str, ...] = ()
    update: updates.State = ()

    def arrays(self) -> dict[str, Any]:
        """What of it is arrays, by name."""
        order = {} if self.secret is None else {"order": self.secret}
        update = {f"{_UPDATE}{i}": array for i, array in enumerate(self.update)}
        return {"x": self.x, **order, **update}

    @classmethod
    def of(cls, step: Any, arrays: Mapping[str, Any], assumed: Any) -> Self:
        """The state of these arrays, whatever stands among them."""
        count = sum(name.startswith(_UPDATE) for name in arrays)
        update = tuple(np.array(arrays[f"{_UPDATE}{i}"]) for i in range(count))
        secret = np.array(arrays["order"]) if "order" in arrays else None
        return cls(step, np.array(arrays["x"]), secret, tuple(assumed), update)


class Checkpoint:
    """A file that is rewritten atomically every `seconds` while a run is under way."""

    def __init__(
        self, path: str | os.PathLike[str], run: NoisySGD, start: Array, seconds: float
    ) -> None:
        """`start`: where the run begins, by which its iterates are known to be of a certain size."""
        self._path = only_name(path)
        self._run, self._digest = run, _digest(run)
        self._start = start
        self._seconds = seconds
        self._last = time.monotonic()

    def refuse_existing(self) -> None:
        """Raises InvalidInput where a file is in the way, which may be the only copy of somebody's work, and
        where its folder is missing, before a minute of training is lost."""
        require(
            not self._path.exists(),
            "checkpoint",
            f"{self._path} exists: pass it as resume, or remove it to start over",
        )
        require(
            self._path.parent.is_dir(),
            "checkpoint",
            f"cannot write {self._path}: No such file or directory",
        )

    def write_if_due(self, state: State) -> None:
        """Writes `state` if the last writing is `seconds` ago or longer, and steps are left."""
        due = time.monotonic() - self._last >= self._seconds
        if due and state.step < self._run.steps:
            self.write(state)
            self._last = time.monotonic()

    def write(self, state: State) -> None:
        """Writes `state`, in one step: at any moment the file is the old one or the new one."""
        content = io.BytesIO()
        np.savez(
            content,
            format=_FORMAT,
            run=self._digest,
            step=state.step,
            start=self._start,
            assumed=json.dumps(state.assumed),
            **state.arrays(),
        )
        try:
            write_secret(self._path, content.getbuffer())
        except OSError as bad:
            raise InvalidInput("checkpoint", f"cannot write {self._path}: {bad.strerror}") from None

    def assumed(self) -> tuple[str, ...]:
        """The assumptions of the run so far. Raises InvalidInput as `read` does."""
        return self.read().assumed

    def read(self) -> State:
        """The state that `write` wrote for the same run. Raises InvalidInput for anything else."""
        try:
            with np.load(self._path, allow_pickle=False) as held:
                form, digest = str(held["format"]), str(held["run"])
                if form == _FORMAT:
                    step, start = np.array(held["step"]), np.array(held["start"])
                    assumed = json.loads(str(held["assumed"]))
                    state = State.of(step, held, assumed)
        except OSError as bad:
            reason = bad.strerror or "not a checkpoint"
            raise InvalidInput("resume", f"cannot read {self._path}: {reason}") from None
        except MemoryError:
            raise InvalidInput("resume", f"cannot read {self._path}: not enough memory") from None
        except Exception:  # of whatever kind: numpy raises many over a damaged file
            raise InvalidInput("resume", f"{self._path} is not a checkpoint of pabi") from None
        require(
            form != _WITHOUT_ASSUMPTIONS,
            "resume",
            f"{self._path} is of pabi 0.1, which did not write down whether the noise was reproducible: "
            "start over",
        )
        require(form == _FORMAT, "resume", f"{self._path} is not a checkpoint of this version")
        require(
            digest == self._digest and state.x.shape == self._start.shape,
            "resume",
            f"{self._path} belongs to another run",
        )
        require(
            np.array_equal(start, self._start),
            "x0",
            f"expected the start of the run that {self._path} is of",
        )
        require(
            isinstance(assumed, list) and all(isinstance(a, str) for a in assumed),
            "resume",
            f"{self._path} is not a checkpoint of pabi",
        )
        require(
            step.dtype.kind == "i"
            and step.shape == ()
            and state.x.dtype == np.float64
            and 0 <= step < self._run.steps + (self._run.release == "path")
            and np.all(np.isfinite(state.x))
            and (state.secret is None or state.secret.dtype.kind == "i")
            and fits(self._run, state.secret)
            and self._updates(state.update),
            "resume",
            f"{self._path} holds a state that no run can be in",
        )
        return replace(state, step=int(step))

    def _updates(self, update: updates.State) -> bool:
        """Whether it is a state that the run's update can be in."""
        fresh = self._run.rule.start(self._start)
        alike = len(update) == len(fresh) and all(
            array.shape == like.shape
            and array.dtype == like.dtype
            and bool(np.all(np.isfinite(array)))
            for array, like in zip(update, fresh, strict=True)
        )
        return alike and self._run.rule.reaches(update)

    def remove(self) -> None:
        """Removes the file, and what a crash may have left of a part of it."""
        for file in (self._path, partial_of(self._path)):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()


def _digest(run: NoisySGD) -> str:
    from pabi.describe.files import to_dict

    table = to_dict(run)
    if "name" in table.get("prox", {}):  # a map of the user's, whose repr may show an address
        table["prox"]["name"] = type(run.prox).__qualname__
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


# Where the noise and the secret batches of a training run come from.


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


def drawn_from(generator: np.random.Generator) -> contextlib.AbstractContextManager[None]:
    """A context in which the keys of secret streams come from `generator`, in this thread alone.

    What is computed in it is a function of that stream, so that it may be computed again: a second time it
    gives what it gave before. `generator` has to be as secret as what it stands in for. Threads that are
    started in it draw from the operating system.
    """
    return holding(_KEYS, generator)


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
    PrivacyWarning, because whoever knows it can subtract the noise.
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

"""Batches for a training loop of one's own, drawn as a description says: in secret.

`torch.utils.data.DataLoader(batch_sampler=…)` takes the samplers. PyTorch's own shuffling draws from a
generator whose seed somebody may know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pabi.describe.batches import BallsInBins, Batches, Poisson, Reshuffle, ShuffleOnce
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.batches import batch_rows, fits
from pabi.execute.checkpoint import randomness_from
from pabi.execute.records import numbers_of
from pabi.integrations.torch.library import torch
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require

_KEYS = {"batches", "n", "order", "secret", "used"}
_STATE = "expected what a sampler's state_dict returned"


class SecretSampler:
    """The batches of one epoch after another, drawn in secret.

    `scheme` is the batch scheme as a run states it, and `size` what every batch sum is divided by, however
    many of the `n` records the batch has. `secret`: whether nobody can know the batches.

    Every pass over it is one epoch, from the first batch on: also one that comes after a pass that was broken
    off. A loader with worker processes asks for batches in the main process, some of them before they are
    used.
    """

    def __init__(self, scheme: Batches, n: int, random_state: Any) -> None:
        # Only batches are read off it.
        run = NoisySGD(Loss.unknown(), n, scheme, 1.0, step_size=1.0, noise_std=1.0, clip_norm=1.0)
        randomness = randomness_from(random_state)
        self.scheme, self.n, self.size = scheme, run.n, run.batch_size
        self.secret = randomness.secret
        self._per_epoch, self._run = run.steps_per_epoch, run
        self._generator = randomness.generator()
        self._batches = batch_rows(run, self._generator)
        self._pass = self._first = self._given = 0

    def __len__(self) -> int:
        """Batches of an epoch, the short last one and empty ones included."""
        return self._per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch, each as the numbers of its records; an empty one counts as a step.

        After `load_state_dict` those that are left of one. Raises InvalidInput, naming `sampler`, where
        another pass was begun meanwhile, which may have drawn another order.
        """
        self._pass += 1
        own, first, self._first = self._pass, self._first, 0
        for step in range(first, self._per_epoch):
            require(
                own == self._pass, "sampler", "expected one pass at a time: another one was begun"
            )
            rows = self._batches.batch(step)
            self._given = step + 1
            yield [] if rows is None else np.asarray(numbers_of(rows)).tolist()

    def state_dict(self, used: int | None = None) -> dict[str, Any]:
        """What is needed to go on in the middle of an epoch, in plain numbers and texts.

        It holds the secret order in force: keep it as secret as a checkpoint, and off backups. It holds no
        generator, so that nothing in it tells orders that are drawn later.

        Parameters
        ----------
        used : int, optional
            The batches of this epoch that steps were taken with, those before an interruption included. None:
            all that were handed out. A loader with worker processes is handed batches before the loop gets
            them, by default two a worker: count in the loop, or these batches are lost.

        Returns
        -------
        dict
            What `load_state_dict` takes. `torch.save` keeps it.

        Raises
        ------
        InvalidInput
            For a `used` above what was handed out.
        """
        most = self._given
        count = most if used is None else validate.integer("used", used, at_least=0, at_most=most)
        count %= self._per_epoch
        secret = self._batches.secret
        return {
            "batches": to_dict(self._run)["batches"],
            "n": self.n,
            "order": None if secret is None or not self._keeps(count) else secret.tolist(),
            "secret": self.secret,
            "used": count,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where a sampler of the same scheme was: the next pass has what is left of the epoch.

        Parameters
        ----------
        state_dict : dict
            As `state_dict` returns it. Batches that are drawn at every step, and orders of later epochs, are
            drawn afresh. An epoch of which no batch was used is, too, unless there is one order for all.

        Raises
        ------
        InvalidInput
            For the state of another scheme, or one that no sampler can be in. The sampler is then as it was.
        """
        require(isinstance(state_dict, Mapping) and set(state_dict) == _KEYS, "state_dict", _STATE)
        own = {"batches": to_dict(self._run)["batches"], "n": self.n}
        require(
            {name: state_dict[name] for name in own} == own,
            "state_dict",
            f"expected one of {self!r}",
        )
        used, secret = state_dict["used"], _order(state_dict["order"])
        require(type(used) is int and 0 <= used < self._per_epoch, "state_dict", _STATE)
        fresh = secret is None and (used == 0 or self._run.order.fresh)
        require(fresh or (self._keeps(used) and fits(self._run, secret)), "state_dict", _STATE)
        self._batches = batch_rows(self._run, self._generator, secret)
        self.secret = self.secret and state_dict["secret"] is True
        self._first = self._given = used
        self._pass += 1  # what a pass before has left is of another order

    def _keeps(self, used: int) -> bool:
        """Whether the order in force is needed after so many batches of the epoch."""
        return used > 0 or bool(getattr(self._run.order, "once", False))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, scheme={self.scheme!r})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("sampler", "draws secret batches, which are neither copied nor stored")


class ShuffleOnceSampler(SecretSampler):
    """Batches of one secret permutation of the records, the same in every epoch.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        Records of a batch. The last batch of an epoch may be short. It is not dropped, and its sum is divided
        by `size` like any other.
    spare : int, ≥ 0
        Records that are in no batch, the last ones of the permutation: the same in every epoch.
    random_state : None, int or numpy Generator
        None (default): a permutation from a ChaCha generator keyed by the operating system. Anything else is
        for tests: a PrivacyWarning.

    Attributes
    ----------
    scheme : Batches
        `pabi.ShuffleOnce(size, spare)`, the batches of a run.
    secret : bool
        Whether nobody can know the order.

    Raises
    ------
    InvalidInput
        `n`, a `size` above n − spare, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.ShuffleOnce`; docs, "Secret order".
    """

    def __init__(self, n: int, size: int, *, spare: int = 0, random_state: Any = None) -> None:
        super().__init__(ShuffleOnce(size, spare), n, random_state)


class BallsInBinsSampler(SecretSampler):
    """Batches into one of which every record is put at random, in secret: once, or in every epoch anew.

    An epoch has the same number of batches always, and no batch is cut. A batch may be empty, and one beyond
    the cap is. It is a step all the same: of noise and regulariser, with no data. `collate` makes None of it,
    and `collate_like` a batch without rows.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        What every batch sum is divided by. There are ⌈n/size⌉ batches.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one.
    redraw : str
        "once" (default): a record keeps its batch in all epochs. "epoch": it is put into one anew in every
        epoch.
    random_state : None, int or numpy Generator
        As for `ShuffleOnceSampler`.

    Attributes
    ----------
    scheme : Batches
        `pabi.BallsInBins(size, cap, redraw=redraw)`, the batches of a run.
    secret : bool
        Whether nobody can know the order.

    Raises
    ------
    InvalidInput
        `n`, a `size` above it, a `cap` below `size`, another `redraw`, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.BallsInBins`; Chua et al. 2025.
    """

    def __init__(
        self,
        n: int,
        size: int,
        *,
        cap: int | None = None,
        redraw: str = "once",
        random_state: Any = None,
    ) -> None:
        super().__init__(BallsInBins(size, cap, redraw=redraw), n, random_state)


class ReshuffleSampler(SecretSampler):
    """Batches of a secret permutation of the records, a fresh one in every epoch.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        Records of a batch. The last batch of an epoch may be short. It is not dropped, and its sum is divided
        by `size` like any other.
    spare : int, ≥ 0
        Records that are in no batch, the last ones of the permutation: others in every epoch. With n % size
        of them all batches are full, as those of `DataLoader(shuffle=True, drop_last=True)` are.
    random_state : None, int or numpy Generator
        As for `ShuffleOnceSampler`.

    Attributes
    ----------
    scheme : Batches
        `pabi.Reshuffle(size, spare)`, the batches of a run.
    secret : bool
        Whether nobody can know the orders.

    Raises
    ------
    InvalidInput
        `n`, a `size` above n − spare, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.Reshuffle`; docs, "Secret order".
    """

    def __init__(self, n: int, size: int, *, spare: int = 0, random_state: Any = None) -> None:
        super().__init__(Reshuffle(size, spare), n, random_state)


class PoissonSampler(SecretSampler):
    """Batches that are drawn afresh at every step: each record is in one with probability size/n, by itself.

    A batch may be empty, and one beyond the cap is. It is a step all the same: of noise and regulariser, with
    no data. `collate` makes None of it. A record's gradient must be the same to the last bit wherever in a
    batch it stands.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        What every batch sum is divided by, and the expected records of a batch. An epoch is ⌈n/size⌉ batches.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one.
    random_state : None, int or numpy Generator
        As for `ShuffleOnceSampler`.

    Attributes
    ----------
    scheme : Batches
        `pabi.Poisson(size, cap)`, the batches of a run.
    secret : bool
        Whether nobody can know the batches.

    Raises
    ------
    InvalidInput
        `n`, a `size` above it, a `cap` below `size`, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.Poisson`.
    """

    def __init__(
        self, n: int, size: int, *, cap: int | None = None, random_state: Any = None
    ) -> None:
        super().__init__(Poisson(size, cap), n, random_state)


def collate(batch: list[Any]) -> Any:
    """A batch as PyTorch stacks it, None for an empty one: `collate_fn` of a loader.

    Parameters
    ----------
    batch : list
        Records of a dataset.

    Returns
    -------
    whatever `torch.utils.data.default_collate` returns, or None

    Raises
    ------
    InvalidInput
        PyTorch is missing.
    """
    return torch().utils.data.default_collate(batch) if batch else None


def collate_like(example: Any) -> Callable[[list[Any]], Any]:
    """A `collate_fn` that makes of an empty batch one without rows, which loops like Opacus' can take.

    Parameters
    ----------
    example : record of a dataset
        Made up, or not: only its form, shapes and types are kept.

    Returns
    -------
    callable
        What stacks a batch as PyTorch does; every array of an empty one has shape (0, …).

    Raises
    ------
    InvalidInput
        PyTorch is missing.
    """
    return partial(_stacked, _without_rows(torch().utils.data.default_collate([example])))


def _stacked(empty: Any, batch: list[Any]) -> Any:
    return torch().utils.data.default_collate(batch) if batch else empty


def _without_rows(batch: Any) -> Any:
    """A stacked batch of one record as it is without that."""
    if isinstance(batch, Mapping):
        return {name: _without_rows(part) for name, part in batch.items()}
    if isinstance(batch, torch().Tensor):
        return batch.new_empty((0, *batch.shape[1:]))
    if all(isinstance(part, str | bytes) for part in batch):  # texts, one of every record
        return []
    parts = [_without_rows(part) for part in batch]
    return type(batch)(*parts) if hasattr(batch, "_fields") else parts


def _order(stored: Any) -> NDArray[np.intp] | None:
    """A secret order of a state, of whatever content."""
    if stored is None:
        return None
    require(
        isinstance(stored, list) and all(type(number) is int for number in stored),
        "state_dict",
        _STATE,
    )
    try:
        return np.array(stored, dtype=np.intp)
    except OverflowError:
        raise InvalidInput("state_dict", _STATE) from None

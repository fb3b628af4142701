"""Batches for a training loop of one's own, drawn as a description says: in secret.

`torch.utils.data.DataLoader(batch_sampler=…)` takes them. PyTorch's own shuffling draws from a generator
whose seed somebody may know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from pabi.describe.batches import BallsInBins, Batches, Poisson, Reshuffle, ShuffleOnce
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute.batches import batch_rows
from pabi.execute.dense_blocks import Rows
from pabi.execute.randomness import randomness_from
from pabi.execute.records import numbers_of
from pabi.integrations.torch.library import torch
from pabi.numbers.errors import InvalidInput


class SecretSampler:
    """The batches of one epoch after another, drawn in secret.

    `scheme` is the batch scheme as a run states it, and `size` what every batch sum is divided by, however
    many of the `n` records the batch has. `secret`: whether nobody can know the batches.
    """

    def __init__(self, scheme: Batches, n: int, random_state: Any) -> None:
        # Only batches are read off it.
        run = NoisySGD(Loss.unknown(), n, scheme, 1.0, step_size=1.0, noise_std=1.0, clip_norm=1.0)
        randomness = randomness_from(random_state, stacklevel=3)
        self.scheme, self.n, self.size = scheme, run.n, run.batch_size
        self.secret = randomness.secret
        self._per_epoch = run.steps_per_epoch
        self._batches = batch_rows(run, randomness.generator())

    def __len__(self) -> int:
        """Batches of an epoch, the short last one and empty ones included."""
        return self._per_epoch

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of an epoch, each as the numbers of its records; an empty one counts as a step."""
        for step in range(self._per_epoch):
            yield _listed(self._batches.batch(step))

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
    random_state : None, int or numpy Generator
        None (default): a permutation from a ChaCha generator keyed by the operating system. Anything else is
        for tests: a PrivacyWarning.

    Attributes
    ----------
    scheme : Batches
        `pabi.ShuffleOnce(size)`, the batches of a run.
    secret : bool
        Whether nobody can know the order.

    Raises
    ------
    InvalidInput
        `n`, a `size` above it, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.ShuffleOnce`; docs, "Secret order".
    """

    def __init__(self, n: int, size: int, *, random_state: Any = None) -> None:
        super().__init__(ShuffleOnce(size), n, random_state)


class BallsInBinsSampler(SecretSampler):
    """Batches into one of which every record is put at random, once, in secret; the same in every epoch.

    A batch may be empty, and one beyond the cap is. It is a step all the same: of noise and regulariser, with
    no data. `collate` makes None of it.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        What every batch sum is divided by. There are ⌈n/size⌉ batches.
    cap : int, optional, ≥ size
        A batch of more than `cap` records is replaced by an empty one.
    random_state : None, int or numpy Generator
        As for `ShuffleOnceSampler`.

    Attributes
    ----------
    scheme : Batches
        `pabi.BallsInBins(size, cap)`, the batches of a run.
    secret : bool
        Whether nobody can know the order.

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
    `pabi.BallsInBins`; Chua et al. 2025.
    """

    def __init__(
        self, n: int, size: int, *, cap: int | None = None, random_state: Any = None
    ) -> None:
        super().__init__(BallsInBins(size, cap), n, random_state)


class ReshuffleSampler(SecretSampler):
    """Batches of a secret permutation of the records, a fresh one in every epoch.

    Parameters
    ----------
    n : int
        Records.
    size : int, ≥ 1
        Records of a batch. The last batch of an epoch may be short. It is not dropped, and its sum is divided
        by `size` like any other.
    random_state : None, int or numpy Generator
        As for `ShuffleOnceSampler`.

    Attributes
    ----------
    scheme : Batches
        `pabi.Reshuffle(size)`, the batches of a run.
    secret : bool
        Whether nobody can know the orders.

    Raises
    ------
    InvalidInput
        `n`, a `size` above it, or `random_state`.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None.

    References
    ----------
    `pabi.Reshuffle`; docs, "Secret order".
    """

    def __init__(self, n: int, size: int, *, random_state: Any = None) -> None:
        super().__init__(Reshuffle(size), n, random_state)


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


def _listed(rows: Rows | None) -> list[int]:
    return [] if rows is None else np.asarray(numbers_of(rows)).tolist()

"""Which rows each step of a run uses, as the order of its description says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from pabi.describe.orders import FixedSizes, FreshSubsets, KnownUses, RandomSizes, SecretOrder
from pabi.describe.runs import NoisySGD
from pabi.execute.binomial import Binomial
from pabi.execute.dense_blocks import Rows
from pabi.execute.secret_orders import Secret, drawn_order, is_order, whole_order
from pabi.numbers.errors import InvalidInput


class Arranged(Protocol):
    """Rows that lie in the order in which they are used."""

    def arrange(self, secret: Secret | None, again: bool = False) -> None:
        """Puts them into a secret order, or into their own; `again`: for more than one epoch."""


class BatchRows(ABC):
    """The batches of a run, one a step.

    `secret`: what they are cut by and what a checkpoint must hold to go on in the same order, None where
    the rows keep theirs or every batch is drawn afresh. No sampled batch is kept.
    """

    secret: Secret | None = None

    @abstractmethod
    def batch(self, step: int) -> Rows | None:
        """The rows of `step` (0-based), None for an empty batch; steps are asked for in order."""


def batch_rows(
    run: NoisySGD,
    generator: np.random.Generator,
    secret: Secret | None = None,
    arranged: Arranged | None = None,
) -> BatchRows:
    """The batches of `run`, one a step.

    `secret`: the secret order in force, where a run goes on. `arranged`: rows that are put into a permuted
    order themselves, so that batches are places in it. Raises InvalidInput for batches that are not trained
    here.
    """
    order = run.order
    match order:
        case KnownUses():
            return _Listed(run)
        case SecretOrder():
            return _in_secret_order(run, order, generator, secret, arranged)
        case FreshSubsets():
            return _Sampled(run, order, generator)
        case _:
            assert_never(order)


def fits(run: NoisySGD, secret: Secret | None) -> bool:
    """Whether a run can be in this secret order, or has none and there is none."""
    order = run.order
    match order:
        case KnownUses() | FreshSubsets():
            return secret is None
        case SecretOrder():
            return secret is not None and _fits(run, order, secret)
        case _:
            assert_never(order)


def _in_secret_order(
    run: NoisySGD,
    order: SecretOrder,
    generator: np.random.Generator,
    secret: Secret | None,
    arranged: Arranged | None,
) -> BatchRows:
    match order.sizes:
        case FixedSizes():
            return _Permuted(run, order.once, generator, secret, arranged)
        case RandomSizes():
            return _Binned(run, order, generator, secret)
        case _:
            assert_never(order.sizes)


def _fits(run: NoisySGD, order: SecretOrder, secret: Secret) -> bool:
    match order.sizes:
        case FixedSizes():
            return is_order(secret, run.n)
        case RandomSizes():
            return secret.shape == (run.n,) and bool(
                np.all((secret >= 0) & (secret < order.period))
            )
        case _:
            assert_never(order.sizes)


class _Listed(BatchRows):
    """Rows as they are, batch after batch."""

    def __init__(self, run: NoisySGD) -> None:
        self._n, self._size, self._per_epoch = run.n, run.batch_size, run.steps_per_epoch

    def batch(self, step: int) -> Rows | None:
        return self._places(step)

    def _places(self, step: int) -> slice:
        """Where in the order the batch lies."""
        first = step % self._per_epoch * self._size
        return slice(first, min(first + self._size, self._n))


class _Permuted(_Listed):
    """Rows in an order drawn once, or afresh for every epoch."""

    def __init__(
        self,
        run: NoisySGD,
        once: bool,
        generator: np.random.Generator,
        secret: Secret | None,
        arranged: Arranged | None,
    ) -> None:
        super().__init__(run)
        self._once, self._generator, self._arranged = once, generator, arranged
        self._again = once and run.data_steps > run.steps_per_epoch
        self.secret, self._order = secret, None if secret is None else self._in(secret)

    def batch(self, step: int) -> Rows | None:
        if self.secret is None or (step % self._per_epoch == 0 and not self._once):
            self.secret = drawn_order(self._n, self._generator)
            self._order = self._in(self.secret)
        part = self._places(step)
        return part if self._order is None else self._order[part]

    def _in(self, secret: Secret) -> NDArray[np.intp] | None:
        """The rows in this order; None where they lie in it themselves."""
        if self._arranged is None:
            return whole_order(secret, self._n)
        self._arranged.arrange(secret, self._again)
        return None


class _Binned(BatchRows):
    """Rows in the batch that each was put into, once, independently of all others.

    A batch beyond the cap is empty.
    """

    def __init__(
        self,
        run: NoisySGD,
        order: SecretOrder,
        generator: np.random.Generator,
        secret: Secret | None,
    ) -> None:
        if not order.once:
            raise InvalidInput("batches", "expected bins that are drawn once")
        self._per_epoch, self._most = order.period, order.sizes.most
        self.secret = generator.integers(order.period, size=run.n) if secret is None else secret
        self._rows = np.argsort(self.secret, kind="stable")  # ascending within each batch
        self._ends = np.cumsum(np.bincount(self.secret, minlength=order.period))

    def batch(self, step: int) -> Rows | None:
        j = step % self._per_epoch
        rows = self._rows[self._ends[j - 1] if j else 0 : self._ends[j]]
        return rows if 0 < rows.size <= self._most else None


class _Sampled(BatchRows):
    """A fresh batch at every step: its size, then a uniformly random set of that size, in ascending order.

    With a binomial size every record is in the set with the order's probability, independently of the others.
    A set beyond the cap is never drawn, let alone cut: the batch is empty.
    """

    def __init__(self, run: NoisySGD, order: FreshSubsets, generator: np.random.Generator) -> None:
        self._n, self._most, self._generator = run.n, order.sizes.most, generator
        match order.sizes:
            case FixedSizes():
                self._size: Callable[[], int] = lambda: run.batch_size
            case RandomSizes():
                sizes = Binomial(run.n, order.probability)
                self._size = lambda: sizes.draw(generator)
            case _:
                assert_never(order.sizes)

    def batch(self, step: int) -> Rows | None:
        size = self._size()
        if size == 0 or size > self._most:
            return None
        # Uniform over sets, though not over their orders: Floyd's algorithm for few among many.
        rows = self._generator.choice(self._n, size, replace=False, shuffle=False)
        return np.sort(rows).astype(np.intp, copy=False)

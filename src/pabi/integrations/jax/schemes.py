"""The batch selection of jax-privacy as batch schemes of pabi."""

from __future__ import annotations

from typing import Any

from pabi.describe.batches import BallsInBins, Batches, FixedSize, Poisson
from pabi.describe.runs import COUNT
from pabi.numbers.errors import InvalidInput, extra


def from_batch_selection(strategy: Any, *, n: int, divisor: int) -> Batches:
    """The batch scheme that a strategy of jax-privacy draws.

    Parameters
    ----------
    strategy : jax_privacy.batch_selection.BatchSelectionStrategy
        `CyclicPoissonSampling` with cycle_length=1, `BallsInBinsSampling` or `FixedBatchSampling`.
    n : int
        Records.
    divisor : int
        What the training divides a batch's sum by, whatever the batch's own length.

    Returns
    -------
    Batches
        `Poisson`, `BallsInBins` or `FixedSize`. A run has as many steps as `strategy.iterations` says.

    Raises
    ------
    InvalidInput
        For a strategy that no scheme fits: cycles of Poisson batches, b-min-sep sampling, batches that are
        cut, draws with replacement, and a divisor other than the size of fixed batches, or one of which
        ⌈n/divisor⌉ is not the number of bins.

    References
    ----------
    docs, "I use optax".
    """
    selection = extra("jax_privacy.batch_selection", "jax")
    n, divisor = COUNT("n", n), COUNT("divisor", divisor)
    if type(strategy) is selection.CyclicPoissonSampling:
        return _poisson(strategy, divisor)
    if type(strategy) is selection.BallsInBinsSampling:
        return _bins(strategy, n, divisor)
    if type(strategy) is selection.FixedBatchSampling:
        return _fixed(strategy, divisor)
    raise _refusal(f"a {type(strategy).__name__}")


def _refusal(what: str) -> InvalidInput:
    return InvalidInput("strategy", f"expected batches that pabi has a scheme for, got {what}")


def _poisson(strategy: Any, divisor: int) -> Poisson:
    if strategy.cycle_length != 1:
        raise _refusal(f"Poisson sampling in a cycle of {strategy.cycle_length}")
    if strategy.truncated_batch_size is not None:
        raise _refusal("batches that are cut: one record's membership then depends on the others")
    return Poisson(divisor, probability=strategy.sampling_prob)


def _bins(strategy: Any, n: int, divisor: int) -> BallsInBins:
    bins = BallsInBins(divisor)
    if bins.per_epoch(n) != strategy.cycle_length:
        raise InvalidInput(
            "divisor",
            f"expected one with ⌈n/divisor⌉ = {strategy.cycle_length}, the number of bins, got {divisor}",
        )
    return bins


def _fixed(strategy: Any, divisor: int) -> FixedSize:
    if strategy.replace:
        raise _refusal("draws with replacement: a record can be in a batch twice")
    if strategy.batch_size != divisor:
        raise InvalidInput(
            "divisor", f"expected {strategy.batch_size}, the size of batches, got {divisor}"
        )
    return FixedSize(divisor)

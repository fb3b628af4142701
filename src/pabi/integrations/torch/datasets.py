"""Records out of PyTorch's datasets, what is done with them, and modules tried on made-up rows."""

from __future__ import annotations

import collections
import copy
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from pabi.budget.ledger import reserved
from pabi.describe.runs import NoisySGD
from pabi.execute.checkpoint import is_secret
from pabi.execute.engine import (
    PerRecordGradients,
    Trained,
    TrainOptions,
    assumed_before,
    train_and_keep,
)
from pabi.execute.hiding import unshown
from pabi.integrations.datasets import REPEATED, repeats
from pabi.integrations.torch.library import same_draws, torch
from pabi.learn.plans import together
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array
from pabi.tradeoff.guarantee import TESTING, Guarantee

_PAIRS = "expected a map-style dataset of pairs (input tensor, target)"


def dataset_of(source: Any, run: NoisySGD | None = None) -> Any:
    """The dataset of a `DataLoader` that hands on every record once and as it is; anything else as it is.

    Batches are those of the `run`, so the loader's order does not count. Raises InvalidInput for a loader
    that may choose among records or change them, and whose batches have another size.
    """
    data = torch().utils.data
    if not isinstance(source, data.DataLoader):
        return source
    sampler, dataset = source.sampler, source.dataset
    if isinstance(dataset, data.IterableDataset):
        return dataset  # refused for what it is
    whole = type(sampler) is data.SequentialSampler or (
        type(sampler) is data.RandomSampler
        and not sampler.replacement
        and sampler.num_samples == len(dataset)
    )
    plain = (
        type(source) is data.DataLoader
        and whole
        and sampler.data_source is dataset
        and (source.batch_sampler is None or type(source.batch_sampler) is data.BatchSampler)
        and source.collate_fn in (data.default_collate, data.default_convert)
        and source.worker_init_fn is None
    )
    require(
        plain,
        "dataset",
        "expected loader.dataset, or a plain DataLoader, whose batches the run's take the place of; got "
        "one with a sampler, a collate_fn or a worker_init_fn of its own",
    )
    if run is not None and source.batch_size not in (None, 1):  # which nobody stated
        _refuse_other_batches(source, run)
    return dataset


def _refuse_other_batches(loader: Any, run: NoisySGD) -> None:
    """Raises InvalidInput for a loader that says something else of its batches than the run."""
    size = run.batch_size
    require(
        loader.batch_size == size,
        "dataset",
        f"expected a DataLoader of the run's batch size, {size}, or its .dataset, got {loader.batch_size}",
    )
    left = len(loader.dataset) % size if loader.drop_last else 0
    require(
        left in (0, getattr(run.batches, "spare", 0)),
        "dataset",
        f"expected a DataLoader without drop_last, or a run that leaves {left} records out of every epoch, "
        f"such as batches=pabi.Reshuffle({size}, spare={left})",
    )


@dataclass(frozen=True, eq=False)
class Pairs:
    """A dataset of pairs (input tensor, target), all of the dtypes and shapes of the first.

    PyTorch stacks numbers of several dtypes as those of one, by which a record would change what the others
    are. Here each is put by itself into a batch whose dtypes and shapes are fixed.

    `workers`: processes that fetch records where all of them are read in order.
    """

    dataset: Any
    workers: int = 0

    def __post_init__(self) -> None:
        require(
            hasattr(self.dataset, "__len__") and hasattr(self.dataset, "__getitem__"),
            "dataset",
            f"{_PAIRS}, which has a length, got a {type(self.dataset).__name__}",
        )
        require(len(self.dataset), "dataset", f"{_PAIRS}, got none")
        require(not repeats(self.dataset), "dataset", f"expected every record once, got {REPEATED}")
        self.some([0])

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def tensors(self) -> tuple[Any, Any] | None:
        """All inputs and all targets, where the dataset is nothing but these two tensors."""
        data = torch().utils.data
        if type(self.dataset) is data.TensorDataset and len(self.dataset.tensors) == 2:
            return self.dataset.tensors  # type: ignore[no-any-return]
        return None

    def some(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """(inputs, targets) of these rows, stacked."""
        if self.tensors is not None:
            inputs, targets = self.tensors
            chosen = torch().as_tensor(rows)
            return _pair((inputs[chosen], targets[chosen]))
        return unshown(
            "dataset", lambda: _stacked(self._like, [self.dataset[int(i)] for i in rows])
        )

    @cached_property
    def _like(self) -> tuple[Any, Any]:
        """The first record, of whose pair only dtypes and shapes are used."""
        return unshown("dataset", lambda: _converted(self.dataset[0]))

    def in_order(self, size: int) -> Iterator[tuple[Any, Any]]:
        """(inputs, targets) of all rows, `size` at a time."""
        if self.tensors is not None:
            inputs, targets = self.tensors
            for first in range(0, len(self), size):
                yield inputs[first : first + size], targets[first : first + size]
            return
        together = partial(_stacked, self._like)
        loader = torch().utils.data.DataLoader(
            self.dataset, size, num_workers=self.workers, collate_fn=together
        )
        batches = unshown("dataset", lambda: iter(loader))
        while (batch := unshown("dataset", lambda: next(batches, None))) is not None:
            yield batch


def _stacked(like: tuple[Any, Any], records: list[Any]) -> tuple[Any, Any]:
    """(inputs, targets) in memory whose layout, by which kernels are chosen, no record has a say in."""
    inputs, targets = (
        torch().empty((len(records), *part.shape), dtype=part.dtype) for part in like
    )
    for row, record in enumerate(records):
        for part, value in zip((inputs, targets), _converted(record), strict=True):
            require(
                (value.dtype, value.shape) == (part.dtype, part.shape[1:]),
                "dataset",
                f"{_PAIRS}, all of the dtypes and shapes of the first, got others",
            )
            part[row] = value.detach()
    return inputs, targets


def _converted(record: Any) -> tuple[Any, Any]:
    """The pair that a record is, as tensors, whatever other records are."""
    return _pair([_tensor(part) for part in record] if isinstance(record, tuple | list) else record)


def _tensor(part: Any) -> Any:
    if isinstance(part, int | float | np.ndarray | np.generic):
        doubles = torch().float64 if type(part) is float else None
        return torch().as_tensor(part, dtype=doubles)
    return part


def _pair(batch: Any) -> tuple[Any, Any]:
    pytorch = torch()
    require(
        isinstance(batch, tuple | list) and len(batch) == 2,
        "dataset",
        f"{_PAIRS}, such as TensorDataset(inputs, targets), got a {type(batch).__name__}",
    )
    require(
        all(isinstance(part, pytorch.Tensor) for part in batch),
        "dataset",
        f"{_PAIRS}, got {' and '.join(type(part).__name__ for part in batch)}",
    )
    require(
        not any(part.is_complex() for part in batch),
        "dataset",
        f"{_PAIRS}, both of real numbers, got complex ones",
    )
    return batch[0], batch[1]


def made_up(like: Any, count: int, seed: int) -> Any:
    """`count` rows of the shape and type of the rows of `like`, which no record has a say in.

    Numbers are normal; integers, which may be those of words or classes, are 0 or 1.
    """
    pytorch = torch()
    generator = pytorch.Generator().manual_seed(seed)
    shape = (count, *like.shape[1:])
    if like.is_floating_point() or like.is_complex():
        return pytorch.randn(shape, generator=generator, dtype=pytorch.float64).to(like.dtype)
    return pytorch.randint(0, 2, shape, generator=generator).to(like.dtype)


# Tries a module on made-up rows: whether what it makes of a row depends on other rows, or on earlier
# ones.
#
# A layer counts by what it does, whatever its class is called. No record is looked at, so that what is
# refused says nothing about any.


ROWS = 4
_TOLERANCE = 1e-5  # relative to the largest number of an output: roundings may depend on other rows
# What torch keeps of a module; buffers are compared by their values, parameters are what is trained.
_OWN = ("_parameters", "_buffers", "_modules")
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def apart(module: Any) -> Any:
    """A copy of a module that shares nothing with it. Raises InvalidInput where it does, or has hooks."""
    refuse_hooks(module)
    other = copy.deepcopy(module)
    mine = {id(each) for each in (*module.modules(), *module.parameters(), *module.buffers())}
    require(
        not any(
            id(each) in mine for each in (*other.modules(), *other.parameters(), *other.buffers())
        ),
        "module",
        "expected one that copy.deepcopy copies, got one that it shares",
    )
    return other


def refuse_hooks(module: Any) -> None:
    """Raises InvalidInput for hooks and modes that see what goes through a module, or all modules."""
    modes = (
        *torch().overrides._get_current_function_mode_stack(),
        *torch().utils._python_dispatch._get_current_dispatch_mode_stack(),
    )
    # The mode of a default device is PyTorch's own, which loads its module when the first is made.
    from torch.utils._device import DeviceContext

    require(
        all(type(mode) is DeviceContext for mode in modes),
        "module",
        "expected no mode of PyTorch's around it, got one that sees records",
    )
    of_all = vars(torch().nn.modules.module).items()
    require(
        not any(hooks for name, hooks in of_all if re.fullmatch(r"_global_\w+_hooks", name)),
        "module",
        "expected no hooks of all modules, got one: it would see every record",
    )
    for name, layer in module.named_modules():
        require(
            not any(getattr(layer, kind) for kind in _HOOKS),
            name or "module",
            "expected no hooks, got one: it would see every record, and what it keeps leaves with the "
            "module",
        )


class Unchanged:
    """Buffers and attributes of a module as they are now."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        self._attributes = dict(_attributes(module))

    def refuse_changed(self, mode: str) -> None:
        """Raises InvalidInput for a buffer or an attribute that is another one now, naming it."""
        self.refuse_buffers(mode)
        now = dict(_attributes(self._module))
        for name in sorted(now.keys() | self._attributes.keys()):
            require(
                _alike(now.get(name), self._attributes.get(name)),
                name,
                "an attribute that changes with what the module sees, and would keep it",
            )

    def refuse_buffers(self, mode: str) -> None:
        """Raises InvalidInput for a buffer that has other values now, naming it."""
        for name, buffer in self._module.named_buffers():
            require(
                name in self._buffers and _same(buffer, self._buffers[name]),
                name,
                f"a buffer that learns from batches in {mode} mode, which nothing accounts for",
            )


def _attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """What a module's layers hold beside parameters and buffers, of lists and the like what is in them."""
    for name, layer in module.named_modules():
        for key, value in vars(layer).items():
            if key not in _OWN:
                yield f"{name}.{key}".lstrip("."), _held(value)


def _held(value: Any) -> Any:
    """What shows whether a value is the same: itself, its contents, or how often a tensor was written to."""
    if isinstance(value, dict):
        return value, [*value.keys(), *map(_held, value.values())]
    if isinstance(value, list | set | tuple | collections.deque):
        return value, [_held(each) for each in value]
    if isinstance(value, torch().Tensor) and not value.is_inference():
        return value, [value._version]
    return value, []


def _alike(one: Any, other: Any) -> bool:
    if not (isinstance(one, tuple) and isinstance(other, tuple)):
        return one is other
    (value, parts), (another, others) = one, other
    numbers = isinstance(value, int | float | str | bool) and type(value) is type(another)
    if value is not another and not (numbers and value == another):
        return False
    return len(parts) == len(others) and all(
        _alike(p, q) if isinstance(p, tuple) else p is q or p == q
        for p, q in zip(parts, others, strict=True)
    )


def refuse_dependent(
    module: Any, through: Callable[[Any], Any], like: Any, mode: str, count: int = ROWS
) -> None:
    """Raises InvalidInput where what `through` makes of a row depends on other rows, or the module on rows.

    `like`: inputs, of which only shape and type are looked at. `count`: how many rows go through it together,
    as they will in earnest.
    """
    refuse_batch_statistics(module)
    rows = made_up(like, count, 0)
    before = Unchanged(module)
    one = tried(through, rows)
    after = Unchanged(module)  # attributes that are made at first use are made of made-up rows
    # The last one, too: of rows that are taken for a sequence each depends on those before.
    for own in sorted({0, count - 1}):
        others = made_up(like, count, 1)
        others[own] = rows[own]
        other = tried(through, others)
        after.refuse_changed(mode)
        before.refuse_buffers(mode)
        require(
            one.shape[:1] == (count,), "module", f"expected one output a record, got {_shape(one)}"
        )
        require(
            close(one[own], other[own]),
            "module",
            f"what it makes of a row depends on the other rows in {mode} mode: a record would count more "
            "than once",
        )


def refuse_random(through: Callable[[Any], Any], like: Any, count: int) -> None:
    """Raises InvalidInput where `through` makes different things of the same rows."""
    rows = made_up(like, count, 0)
    require(
        close(through(rows), through(rows)),
        "module",
        "expected features without chance in eval mode, got others of the same rows",
    )


def refuse_batch_statistics(module: Any) -> None:
    """Raises InvalidInput for layers that normalise by the batch, naming the first."""
    batch_norm = torch().nn.modules.batchnorm._BatchNorm
    for name, layer in module.named_modules():
        by_batch = isinstance(layer, batch_norm)
        require(
            not (by_batch and (layer.training or layer.running_mean is None)),
            name or "module",
            f"{type(layer).__name__} computes with the other rows of a batch: use GroupNorm or "
            "LayerNorm, or put it into eval mode with statistics of public data",
        )


def tried(through: Callable[[Any], Any], rows: Any) -> Any:
    """What it makes of made-up rows, with the same draws every time."""
    try:
        with same_draws():
            return through(rows)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            "module", f"it fails on made-up rows {_shape(rows)}, {rows.dtype}: {error}"
        ) from error


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool(torch().equal(one.nan_to_num(), other.nan_to_num()))


def close(one: Any, other: Any) -> bool:
    """Whether they differ by no more than roundings do."""
    one, other = one.detach().double(), other.detach().double()
    size = float(one.abs().nan_to_num(0.0).max()) if one.numel() else 0.0
    return bool(torch().allclose(one, other, rtol=0.0, atol=_TOLERANCE * size, equal_nan=True))


def _shape(tensor: Any) -> str:
    return f"of shape {tuple(tensor.shape)}"


# What is to be done with a dataset, whatever it is that is trained; and what comes of it.


FROZEN = "what the module holds and does not train, buffers included, was not computed from these records"
BY_RECORD = (
    "what the dataset, the module and the loss make of a record depends, to the last bit, on that record, "
    "the parameters and draws that are independent of all records; they keep and show nothing of it"
)
SAME = (
    "all parts of an interrupted training used the same module, which made the same of every record"
)
COMPOSED = "composition"  # the method that the rounding of gradients does not harm


@dataclass(frozen=True, eq=False)
class ModuleTask:
    """A run on a dataset, and how it is carried out."""

    run: NoisySGD
    pairs: Pairs
    options: TrainOptions

    @cached_property
    def proven(self) -> Guarantee:
        """What the run costs. Raises NotApplicable where no analysis covers it."""
        return self.options.guarantee_of(self.run)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is assumed of a module where the training goes on from a file."""
        return () if self.options.resume is None else (SAME,)

    def reserved(
        self, sentences: tuple[str, ...], *before: Guarantee, x0: Array
    ) -> AbstractContextManager[Any]:
        """The reservation of all that is released, `before` included, which the data wait for.

        `x0`: the starting point, by which a checkpoint is known. Raises InvalidInput where it does not serve.
        """
        assumed = assumed_before(self.run, x0, self.options)
        secret = is_secret(self.options.random_state) and TESTING not in assumed
        sentences += tuple(sentence for sentence in assumed if sentence != TESTING)
        whole = together(*before, self.proven).assuming(*sentences)
        return reserved(self.options.ledger, whole, secret=secret)

    def execute(self, gradients: PerRecordGradients, start: Array) -> Trained:
        """The last iterate, of what is reserved already."""
        own = replace(self.options, ledger=None, proven=self.proven)
        return train_and_keep(None, self.run, gradients, start, own)

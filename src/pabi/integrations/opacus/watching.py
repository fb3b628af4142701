"""Whose steps an accountant sees, and whether they are the steps of the optimiser and of nobody else.

What is read off an optimiser says what its next step does, if nothing stands between the two: no hook, no
method of the user's, no change of the parameters from one step to the next. What is unknown is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra

_torch: Any = extra("torch", "opacus")
_torch_optimizers: Any = extra("torch.optim.optimizer", "opacus")

_FLOATS = (_torch.float32, _torch.float64)
_WORDS = {1: _torch.uint8, 2: _torch.int16, 4: _torch.int32, 8: _torch.int64}
_SEEDED = 2**32  # torch's own seeds have 53 bits: one below it was most likely written by hand
_UNSET = 67280421310721  # the seed of every generator that is made and not seeded


class WatchedSteps:
    """The optimiser whose steps were seen, and its parameters as the last of them left them.

    The parameters are those of hidden iterates: they stay here.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer: Any = weakref.ref(optimizer)
        self._parameters = list(optimizer.params)
        self._left: list[Any] | None = None
        self._due = False  # whether the next of torch's steps is one that was looked at
        self.most = 0  # records of one step
        optimizer.original_optimizer.register_step_post_hook(self._keep)

    def look(self, optimizer: Any, hook: Any, *, parts: bool) -> None:
        """Raises InvalidInput unless the step about to be taken is the described one's next."""
        if self._optimizer() is not optimizer:
            raise InvalidInput(
                "optimizer",
                "expected the one whose steps were seen before: an engine accounts for one model; make a "
                "PrivacyEngine for each",
            )
        self.refuse_changed()
        self._refuse_hooks(optimizer, hook)
        refuse_short_numbers(optimizer)
        if optimizer._is_last_step_skipped and not parts:
            raise InvalidInput(
                "parts",
                "expected describe(…, parts=True) where BatchMemoryManager cuts batches into parts; steps "
                "skipped by hand (signal_skip_step) count a record more often than the run says",
            )
        if not parts:
            self.most = max(self.most, _records_of(optimizer))
        self._due = True

    def refuse_changed(self) -> None:
        """Raises InvalidInput where parameters are not what the last step left."""
        optimizer = self._optimizer()
        if self._left is None or optimizer is None:
            return
        now = list(optimizer.params)
        same = len(now) == len(self._parameters) and all(
            one is other and _same(one, left)
            for one, other, left in zip(now, self._parameters, self._left, strict=True)
        )
        if not same:
            raise InvalidInput(
                "parameters",
                "expected those that the last step left, got some that were changed since, which no run "
                "describes",
            )

    def _refuse_hooks(self, optimizer: Any, hook: Any) -> None:
        inner = optimizer.original_optimizer
        strangers = [f"method {name!r} of your own" for o in (optimizer, inner) for name in _own(o)]
        if optimizer.step_hook is not hook:
            strangers.append("step hook but the engine's")
        others = [
            *inner._optimizer_step_pre_hooks.values(),
            *(each for each in inner._optimizer_step_post_hooks.values() if each != self._keep),
            *_torch_optimizers._global_optimizer_pre_hooks.values(),
            *_torch_optimizers._global_optimizer_post_hooks.values(),
        ]
        others += [p for p in self._parameters if p._backward_hooks]
        others += [p for p in self._parameters if p._post_accumulate_grad_hooks]
        if others:
            strangers.append("hooks on parameters or around torch's step")
        if strangers:
            raise InvalidInput(
                "optimizer",
                f"expected no {strangers[0]}: what it does to a step, no run describes",
            )

    def _keep(self, *_: Any) -> None:
        if self._due:
            self._left = [parameter.detach().clone() for parameter in self._parameters]
        self._due = False


def refuse_short_numbers(optimizer: Any) -> None:
    """Raises InvalidInput where parameters or gradients are no numbers of single or double precision."""
    seen = [parameter.dtype for parameter in optimizer.params]
    seen += [part.dtype for parameter in optimizer.params for part in _samples(parameter)]
    for dtype in seen:
        if dtype not in _FLOATS:
            raise InvalidInput(
                "dtype",
                f"expected parameters and gradients of float32 or float64, got {dtype}: how shorter numbers "
                "round, and what complex ones mean, no guarantee covers",
            )


def shapes_of(optimizer: Any) -> tuple[tuple[int, ...], ...]:
    """Of all parameters that it trains."""
    return tuple(tuple(map(int, parameter.shape)) for parameter in optimizer.params)


def is_reproducible(optimizer: Any) -> bool:
    """Whether somebody may know the noise: a generator of the user's, or a seed that looks chosen."""
    if optimizer.secure_mode:
        return False
    devices = {parameter.device for parameter in optimizer.params}
    seeds = [_torch.initial_seed()]
    seeds += [
        _torch.cuda.default_generators[d.index or 0].initial_seed()
        for d in devices
        if d.type == "cuda"
    ]
    return optimizer.generator is not None or any(seed < _SEEDED for seed in seeds)


def draws_reproducibly(loader: Any) -> bool:
    """Whether the seed of a loader, or of its samplers, is one that was written down."""
    batches = loader.batch_sampler
    holders = (loader, batches, getattr(batches, "sampler", None))
    return any(_is_chosen(getattr(holder, "generator", None)) for holder in holders)


def _is_chosen(generator: Any) -> bool:
    try:
        seed = None if generator is None else generator.initial_seed()
    except RuntimeError:  # of a device without seeds, as secure generators have
        return False
    return seed is not None and (seed < _SEEDED or seed == _UNSET)


def _own(optimizer: Any) -> Iterator[str]:
    """Names of methods that were put in the place of the class's; a scheduler counts steps in this way."""
    for name, value in vars(optimizer).items():
        replaced = callable(value) and hasattr(type(optimizer), name)
        if replaced and not getattr(value, "_wrapped_by_lr_sched", False):
            yield name


def _samples(parameter: Any) -> list[Any]:
    """The gradients of records, batch by batch; none where they are clipped without being held."""
    samples = getattr(parameter, "grad_sample", None)
    return [] if samples is None else samples if isinstance(samples, list) else [samples]


def _records_of(optimizer: Any) -> int:
    return max(sum(len(part) for part in _samples(p)) for p in optimizer.params)


def _same(one: Any, other: Any) -> bool:
    """Whether they are the same to the last bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    word = _WORDS[one.element_size()]
    return bool(_torch.equal(one.detach().view(word), other.to(one.device).view(word)))

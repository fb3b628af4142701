"""What a step of an Opacus optimiser does, read off it: its noise, clipping, divisor, rate and update.

Opacus clips, sums, adds noise, divides, and lets torch's optimiser make a step of the result. Weight decay is
added by torch's optimiser, outside of clipping and noise. So it is the regulariser of a description.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from pabi.describe import updates
from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.numbers.errors import InvalidInput, extra, must_be, require
from pabi.numbers.validate import one_of

# Whose steps an accountant sees, and whether they are the steps of the optimiser and of nobody else.
#
# What is read off an optimiser says what its next step does, if nothing stands between the two: no hook,
# no method of the user's, no change of the parameters from one step to the next. What is unknown is
# refused.


_torch: Any = extra("torch", "opacus")
_torch_optimizers: Any = extra("torch.optim.optimizer", "opacus")

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
        require(
            self._optimizer() is optimizer,
            "optimizer",
            "expected the one whose steps were seen before: an engine accounts for one model; make a "
            "PrivacyEngine for each",
        )
        self.refuse_changed()
        self._refuse_hooks(optimizer, hook)
        refuse_short_numbers(optimizer)
        require(
            parts or not optimizer._is_last_step_skipped,
            "parts",
            "expected describe(…, parts=True) where BatchMemoryManager cuts batches into parts; steps "
            "skipped by hand (signal_skip_step) count a record more often than the run says",
        )
        if not parts:
            records = (sum(map(len, _samples(parameter))) for parameter in optimizer.params)
            self.most = max(self.most, *records)
        self._due = True

    def refuse_changed(self) -> None:
        """Raises InvalidInput where parameters are not what the last step left."""
        optimizer = self._optimizer()
        if self._left is None or optimizer is None:
            return
        now = list(optimizer.params)
        require(
            len(now) == len(self._parameters)
            and all(
                one is other and _same(one, left)
                for one, other, left in zip(now, self._parameters, self._left, strict=True)
            ),
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
            *(p for p in self._parameters if p._backward_hooks or p._post_accumulate_grad_hooks),
        ]
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
    samples = (part for parameter in optimizer.params for part in _samples(parameter))
    for part in (*optimizer.params, *samples):
        require(
            part.dtype in (_torch.float32, _torch.float64),
            "dtype",
            f"expected parameters and gradients of float32 or float64, got {part.dtype}: how shorter "
            "numbers round, and what complex ones mean, no guarantee covers",
        )


def is_reproducible(optimizer: Any) -> bool:
    """Whether somebody may know the noise: a generator of the user's, or a seed that looks chosen."""
    if optimizer.secure_mode:
        return False
    devices = {parameter.device for parameter in optimizer.params}
    own = [_torch.cuda.default_generators[d.index or 0] for d in devices if d.type == "cuda"]
    seeds = [_torch.initial_seed(), *(generator.initial_seed() for generator in own)]
    return optimizer.generator is not None or any(seed < _SEEDED for seed in seeds)


def draws_reproducibly(loader: Any) -> bool:
    """Whether the seed of a loader, or of its samplers, is one that was written down."""
    batches = loader.batch_sampler
    holders = (loader, batches, getattr(batches, "sampler", None))
    # pabi's own samplers say of themselves that somebody may know what they draw.
    return any(getattr(holder, "secret", True) is False for holder in holders) or any(
        _is_chosen(getattr(holder, "generator", None)) for holder in holders
    )


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


def _same(one: Any, other: Any) -> bool:
    """Whether they are the same to the last bit."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    word = _WORDS[one.element_size()]
    return bool(_torch.equal(one.detach().view(word), other.to(one.device).view(word)))


_optimizers: Any = extra("opacus.optimizers", "opacus")
_schedulers: Any = extra("torch.optim.lr_scheduler", "opacus")

WHOLE, PER_LAYER, GHOST = "whole gradients", "per layer", "ghost"
_CLIPPING: Mapping[str, str] = MappingProxyType(
    {
        "DPOptimizer": WHOLE,
        "DPPerLayerOptimizer": PER_LAYER,
        "DPOptimizerFastGradientClipping": GHOST,
    }
)
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "AdaClipDPOptimizer": "its clipping norm follows the exact number of records drawn, and a count "
        "of which one record moves 1 where the noise is made for 1/2: no accountant charges for that",
    }
)
_DISTRIBUTED = "it sees one worker's share: describe the whole run as a NoisySGD"
_PUBLIC = ("params", "initial_lr", "foreach", "fused", "differentiable", "capturable")
EVERY = one_of("epoch", "step")
_ROUNDED = 2.0**-22  # relative: what single precision makes of a norm

Group = dict[str, Any]


@dataclass(frozen=True)
class StepSettings:
    """What the next step of an optimiser does. Nothing in it depends on data.

    `secure`: whether noise comes from Opacus' secure generator. `accumulated`: batches that were summed into
    one step. `seeded`: whether somebody may know the noise.
    """

    noise_multiplier: float
    max_grad_norm: float
    divisor: int
    learning_rate: float
    weight_decay: float
    update: Update
    clipping: str
    secure: bool
    accumulated: int = 1
    shapes: tuple[tuple[int, ...], ...] = ()
    seeded: bool = False

    def to_dict(self) -> dict[str, Any]:
        """A table of numbers and texts."""
        return {**asdict(self), "update": self.update.to_dict()}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> StepSettings:
        """What `to_dict` wrote. Raises InvalidInput, and TypeError for other fields."""
        update = updates.rule_of(updates.from_dict(table["update"]))
        shapes = tuple(map(tuple, table.get("shapes", ())))
        return cls(**{**table, "update": update, "shapes": shapes})


def settings_of(optimizer: Any) -> StepSettings:
    """The settings of an Opacus optimiser as they are now.

    Raises InvalidInput, naming `optimizer`, for one whose steps cost what pabi cannot say.
    """
    clipping = _clipping_of(optimizer)
    refuse_short_numbers(optimizer)
    _refuse_other_norms(optimizer, clipping)
    groups = optimizer.param_groups
    return StepSettings(
        noise_multiplier=float(optimizer.noise_multiplier),
        max_grad_norm=float(optimizer.max_grad_norm),
        divisor=_divisor_of(optimizer),
        learning_rate=float(groups[0]["lr"]),
        weight_decay=float(groups[0].get("weight_decay", 0.0)),
        update=update_of(optimizer.original_optimizer, groups),
        clipping=clipping,
        secure=bool(optimizer.secure_mode),
        shapes=tuple(tuple(map(int, parameter.shape)) for parameter in optimizer.params),
        seeded=is_reproducible(optimizer),
    )


def _clipping_of(optimizer: Any) -> str:
    name = type(optimizer).__name__
    require(
        type(optimizer) is getattr(_optimizers, name, None),
        "optimizer",
        f"expected one of Opacus' optimisers, as make_private returns it, got a {name}",
    )
    require(name in _CLIPPING, "optimizer", f"{name}: {_REFUSED.get(name, _DISTRIBUTED)}")
    require(
        not hasattr(optimizer, "_adjusted_noise_multiplier"),
        "optimizer",
        f"{name} with adaptive clipping: expected a fixed norm",
    )
    return _CLIPPING[name]


def _refuse_other_norms(optimizer: Any, clipping: str) -> None:
    """Raises InvalidInput where layers are clipped to other norms than the noise is made for."""
    if clipping != PER_LAYER:
        return
    norms = _torch.Tensor(optimizer.max_grad_norms).norm().item()  # as Opacus takes it at the start
    must_be(
        len(optimizer.max_grad_norms) == len(optimizer.params)
        and norms <= optimizer.max_grad_norm * (1.0 + _ROUNDED),
        "max_grad_norm",
        f"{norms!r} or more, the norm of the layers' max_grad_norms, one a parameter",
        optimizer.max_grad_norm,
    )


def _divisor_of(optimizer: Any) -> int:
    """What the noisy sum is divided by: 1 where the loss is a sum. Raises InvalidInput."""
    if optimizer.loss_reduction == "sum":
        return 1
    divisor = optimizer.expected_batch_size
    must_be(
        divisor == int(divisor) and divisor >= 1, "expected_batch_size", "an integer ≥ 1", divisor
    )
    return int(divisor)


def update_of(inner: Any, groups: Sequence[Group]) -> Update:
    """What torch's optimiser makes of noisy gradients: `Other` wherever pabi has no such update.

    Every update is post-processing of the noisy gradients, so that `Other` is always true.
    """
    if any(_settings(group) != _settings(groups[0]) for group in groups):
        return Other()
    group = groups[0]
    if type(inner) is _torch.optim.SGD:
        return _descent(group)
    if type(inner) is _torch.optim.Adam:
        return _adam(group)
    return Other()


def _settings(group: Group) -> Group:
    """What a group's parameters are treated by, but for what changes no step."""
    return {key: value for key, value in group.items() if key not in _PUBLIC}


def _descent(group: Group) -> Update:
    momentum, dampening = float(group["momentum"]), float(group["dampening"])
    if group["maximize"] or not 0.0 <= momentum < 1.0 or (momentum and dampening):
        return Other()
    return Momentum(momentum, bool(group["nesterov"])) if momentum else SGD()


def _adam(group: Group) -> Update:
    odd = group["maximize"], group["amsgrad"], group.get("decoupled_weight_decay", False)
    if any(odd) or not group["eps"] > 0.0:
        return Other()
    first, second = map(float, group["betas"])
    return Adam((first, second), float(group["eps"]))


# Schedules.


def learning_rates(
    optimizer: Any, scheduler: Any, passes: int, *, steps: int, every: str
) -> tuple[list[float], Update]:
    """The rates of so many passes of `steps` steps each, and the update that all of them take.

    A copy of the scheduler is run ahead on a stand-in without parameters; the optimiser does not change.
    `every`: what the training loop calls `scheduler.step()` after.
    """
    inner = optimizer.original_optimizer
    if scheduler is None:
        return [float(inner.param_groups[0]["lr"])], update_of(inner, inner.param_groups)
    _check_scheduler(scheduler, optimizer)
    stand_in = _stand_in(inner.param_groups)
    ahead = copy.deepcopy(scheduler, {id(optimizer): stand_in, id(inner): stand_in})
    rates: list[float] = []
    rules: set[Update] = set()
    for _ in range(passes if every == "epoch" else passes * steps):
        rates += [float(stand_in.param_groups[0]["lr"])] * (steps if every == "epoch" else 1)
        rules.add(update_of(inner, stand_in.param_groups))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the stand-in took no step
            ahead.step()
    return rates, rules.pop() if len(rules) == 1 else Other()


def _check_scheduler(scheduler: Any, optimizer: Any) -> None:
    kind = type(scheduler).__name__
    require(
        not isinstance(scheduler, _schedulers.ReduceLROnPlateau),
        "scheduler",
        f"{kind} follows a metric: a schedule that depends on the data voids the guarantee",
    )
    require(
        isinstance(scheduler, _schedulers.LRScheduler),
        "scheduler",
        f"expected a torch LRScheduler, got a {kind}",
    )
    require(
        getattr(scheduler, "optimizer", None) in (optimizer, optimizer.original_optimizer),
        "scheduler",
        f"this {kind} is not one of the optimiser that is given",
    )
    require(
        scheduler.last_epoch <= 0,
        "scheduler",
        f"expected one before its first step, got one after {scheduler.last_epoch}",
    )


def _stand_in(groups: Sequence[Group]) -> Any:
    """An optimiser with these groups' settings and no parameter of the model."""
    copies = [
        {
            **{key: value for key, value in group.items() if key != "params"},
            "params": [_torch.zeros(1)],
        }
        for group in groups
    ]
    return _torch.optim.SGD(copies, lr=1.0)

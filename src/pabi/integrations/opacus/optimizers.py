"""What a step of an Opacus optimiser does, read off it: its noise, clipping, divisor, rate and update.

Opacus clips, sums, adds noise, divides, and lets torch's optimiser make a step of the result. Weight decay is
added by torch's optimiser, outside of clipping and noise. So it is the regulariser of a description.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from pabi.describe import updates
from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.integrations.opacus.watching import is_reproducible, refuse_short_numbers, shapes_of
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra
from pabi.numbers.fields import one_of

_optimizers: Any = extra("opacus.optimizers", "opacus")
_torch: Any = extra("torch", "opacus")
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

Group = dict[str, Any]


@dataclass(frozen=True)
class StepSettings:
    """What the next step of an optimiser does. Nothing in it depends on data.

    `clipping`: how gradients are clipped. `secure`: whether noise comes from Opacus' secure generator.
    `accumulated`: batches that were summed into one step. `shapes`: of the parameters. `seeded`: whether
    somebody may know the noise.
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
        shapes=shapes_of(optimizer),
        seeded=is_reproducible(optimizer),
    )


def _clipping_of(optimizer: Any) -> str:
    name = type(optimizer).__name__
    if type(optimizer) is not getattr(_optimizers, name, None):
        what = "one of Opacus' optimisers, as make_private returns it"
        raise InvalidInput("optimizer", f"expected {what}, got a {name}")
    if name not in _CLIPPING:
        raise InvalidInput("optimizer", f"{name}: {_REFUSED.get(name, _DISTRIBUTED)}")
    if hasattr(optimizer, "_adjusted_noise_multiplier"):
        raise InvalidInput("optimizer", f"{name} with adaptive clipping: expected a fixed norm")
    return _CLIPPING[name]


def _divisor_of(optimizer: Any) -> int:
    """What the noisy sum is divided by: 1 where the loss is a sum. Raises InvalidInput."""
    if optimizer.loss_reduction == "sum":
        return 1
    divisor = optimizer.expected_batch_size
    if divisor != int(divisor) or divisor < 1:
        raise InvalidInput("expected_batch_size", f"expected an integer ≥ 1, got {divisor!r}")
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
    `every`: what the training loop calls `scheduler.step()` after. Raises InvalidInput.
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
    if isinstance(scheduler, _schedulers.ReduceLROnPlateau):
        raise InvalidInput(
            "scheduler",
            f"{kind} follows a metric: a schedule that depends on the data voids the guarantee",
        )
    if not isinstance(scheduler, _schedulers.LRScheduler):
        raise InvalidInput("scheduler", f"expected a torch LRScheduler, got a {kind}")
    if getattr(scheduler, "optimizer", None) not in (optimizer, optimizer.original_optimizer):
        raise InvalidInput("scheduler", f"this {kind} is not one of the optimiser that is given")
    if scheduler.last_epoch > 0:
        raise InvalidInput(
            "scheduler", f"expected one before its first step, got one after {scheduler.last_epoch}"
        )


def _stand_in(groups: Sequence[Group]) -> Any:
    """An optimiser with these groups' settings and no parameter of the model."""
    copies = [
        {**{key: value for key, value in group.items() if key != "params"}, "params": [_nothing()]}
        for group in groups
    ]
    return _torch.optim.SGD(copies, lr=1.0)


def _nothing() -> Any:
    return _torch.zeros(1)

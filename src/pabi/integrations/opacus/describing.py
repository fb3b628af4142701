"""From an optimiser and a loader of Opacus to the description of the run that they do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pabi.describe.batches import Poisson
from pabi.describe.linear_losses import LINEAR_LOSSES
from pabi.describe.losses import Loss, checked_loss
from pabi.describe.runs import NoisySGD
from pabi.describe.updates import Momentum, Other, Update
from pabi.integrations.opacus.loaders import DrawnBatches, drawn_by
from pabi.integrations.opacus.optimizers import EVERY, WHOLE, learning_rates, settings_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import Check
from pabi.numbers.rounding import fraction_down
from pabi.numbers.showing import exact

_PASSES: Check = partial(validate.integer, at_least=1)
Shapes = tuple[tuple[int, ...], ...]
_ADDED = 1e-6  # to norms, by Opacus, before it divides the clipping norm by them


def from_opacus(
    optimizer: Any,
    loader: Any,
    *,
    loss: Loss,
    epochs: int,
    scheduler: Any = None,
    scheduler_every: str = "epoch",
    adjacency: Any = "zero_out",
    release: str = "last",
) -> NoisySGD:
    """The run that an optimiser and a loader of Opacus do, from the start of training to its end.

    Give what `make_private` returned, before the first step. Neither changes.

    Opacus draws each record with probability 1/len(loader), and divides sums by
    `optimizer.expected_batch_size`: for 60 000 records in batches of 256 by 255, with probability 1/235. The
    description has both numbers. Without Poisson sampling, where the divisor D is not the size b of batches,
    it has the step size ηb/D and the regulariser λD/b, which take the same steps.

    Parameters
    ----------
    optimizer : opacus.optimizers.DPOptimizer
        SGD, with momentum or without, and Adam become the updates of these names, everything else "other".
        Clipping per layer and ghost clipping are accounted by composition alone.
    loader : torch.utils.data.DataLoader
        A `DPDataLoader` is `Poisson`. A loader that shuffles is `Reshuffle`, one that does not is `Cyclic`,
        and one with a sampler of `pabi.integrations.torch` is what that says.
    loss : Loss
        What is known of one record's loss, before clipping. The regulariser is the optimiser's
        `weight_decay`; a loss that states an `l2` has to state the same. Opacus scales whole gradients down.
        For predictions of more than one number, such as softmax, the result is no gradient of any function,
        and steps may expand: a gradient bound of at most max_grad_norm − 10⁻⁶ avoids that. A bias is the
        weight of a constant feature 1, which `feature_norm` counts: √(R² + 1) for rows of norm R.
    epochs : int, ≥ 1
        Passes over the loader.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        Before its first step. A copy of it says the step size of every step.
    scheduler_every : str
        "epoch" or "step": what the training loop calls `scheduler.step()` after.
    adjacency : str
        "zero_out" (default), which is nearest to Opacus' adding or removing a record, or "replace_one".
    release : str
        "last", or "path" where other models than the last are published.

    Returns
    -------
    NoisySGD
        What `PabiAccountant.describe` takes, and `guarantee`.

    Raises
    ------
    InvalidInput
        For an optimiser or a loader that no description fits, naming which: adaptive clipping, distributed
        training, sampling with replacement, `drop_last=True` with a remainder under shuffling, a scheduler
        that follows a metric, no noise. Parameters of less than single precision. `loss` is that of a linear
        model, and another module is trained; `feature_norm` of at most 1 where a bias is trained.

    References
    ----------
    docs, "I have an Opacus run".
    """
    step, drawn = settings_of(optimizer), drawn_by(loader)
    refuse_other_weights(loss, step.shapes)
    passes = _PASSES("epochs", epochs)
    every = EVERY("scheduler_every", scheduler_every)
    rates, update = learning_rates(optimizer, scheduler, passes, steps=drawn.steps, every=every)
    scale, batches = scaled(drawn, step.divisor)
    if scale != 1 and not (update.plain or isinstance(update, Momentum)):
        update = Other()  # whose steps are not linear in the gradient
    return NoisySGD(
        _described(loss, step.weight_decay, scale, norm=step.max_grad_norm, how=step.clipping),
        n=drawn.n,
        batches=batches,
        steps=passes * drawn.steps,
        step_size=_sizes(rates, scale),
        clip_norm=step.max_grad_norm,
        noise_multiplier=step.noise_multiplier,
        adjacency=adjacency,
        update=_plainly(update),
        release=release,
    )


def scaled(drawn: DrawnBatches, divisor: int) -> tuple[Fraction, Any]:
    """(by how much larger a described step size is than the learning rate, the batches described)."""
    if isinstance(drawn.batches, Poisson):
        return Fraction(1), replace(drawn.batches, size=divisor)
    return Fraction(drawn.batches.batch_size(drawn.n), divisor), drawn.batches


def _sizes(rates: list[float], scale: Fraction) -> Any:
    """Step sizes: a number where all are the same. Off by a unit in the last place, where scaled."""
    sizes = np.array(rates) if scale == 1 else np.array([float(Fraction(r) * scale) for r in rates])
    return float(sizes[0]) if np.all(sizes == sizes[0]) else sizes


def _plainly(update: Update) -> str | Update:
    return "sgd" if update.plain else update


def _described(loss: Loss, decay: float, scale: Fraction, *, norm: float, how: str) -> Loss:
    """What is known of the loss under Opacus' clipping, with its weight decay. Raises InvalidInput."""
    checked_loss(loss)
    if loss.l2 not in (0.0, decay):
        raise InvalidInput(
            "loss",
            f"expected an l2 of 0, or of the optimiser's weight_decay = {exact(decay)}, which is outside of "
            f"clipping, got {exact(loss.l2)}",
        )
    l2 = fraction_down(Fraction(decay) / scale)
    if how != WHOLE or _nearly_clipped(loss, norm):
        return Loss.unknown(l2, gradient_bound=loss.gradient_bound)
    return loss.with_l2(l2)


def refuse_other_weights(loss: Loss, shapes: Shapes) -> None:
    """Raises InvalidInput for the loss of a linear model, unless what is trained may be its weights."""
    if checked_loss(loss).kind not in LINEAR_LOSSES:
        return
    weights = [shape for shape in shapes if len(shape) != 1]
    biases = [shape for shape in shapes if len(shape) == 1]
    if [len(shape) for shape in weights] != [2] or biases not in ([], [weights[0][:1]]):
        shown = ", ".join(map(str, shapes)) or "none that are known"
        raise InvalidInput(
            "loss",
            f"expected one weight (outputs, features), and a bias or none, for {loss.kind}, the loss of a "
            f"linear model, got parameters of shape {shown}: of another module say Loss.unknown()",
        )
    _refuse_other_outputs(loss, weights[0][0])
    norm = dict(loss.parameters).get("feature_norm")
    if biases and norm is not None and norm <= 1.0:
        raise InvalidInput(
            "feature_norm",
            "expected more than 1, since a bias is trained: it is the weight of a constant feature 1, so "
            f"that rows of norm R count as √(R² + 1); got {exact(norm)}",
        )


def _refuse_other_outputs(loss: Loss, outputs: int) -> None:
    parameters = dict(loss.parameters)
    response, classes = LINEAR_LOSSES[loss.kind].response, parameters.get("classes")
    if response in ("sign", "number"):
        expected, fits = "1 output", outputs == 1
    elif classes is not None:
        expected, fits = f"{classes} outputs", outputs == classes
    else:
        expected, fits = "at least 2 outputs", response == "vector" or outputs >= 2
    if not fits:
        raise InvalidInput("loss", f"expected {expected} for {loss.kind}, got {outputs}")


def _nearly_clipped(loss: Loss, norm: float) -> bool:
    """Whether gradients that the norm leaves alone are scaled down a little, by norm/(‖g‖ + 10⁻⁶).

    The map g ↦ g·min(1, C/(‖g‖ + 10⁻⁶)) is proximal, since ‖g‖ ↦ ‖g‖·min(1, C/(‖g‖ + 10⁻⁶)) rises, no steeper
    than ‖g‖. So what is proven of clipping holds of it (docs, "Theory", 8), but that a norm above all
    gradients changes none: that is true where a gradient is a number times a fixed vector, and elsewhere
    nothing is claimed.
    """
    bound = loss.gradient_bound
    return not loss.glm and bound is not None and norm - _ADDED < bound <= norm

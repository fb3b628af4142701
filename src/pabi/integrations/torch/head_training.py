"""Trains a linear head on the features that the layers before it make of every record, once.

With its features a head is a linear model. It is trained as such by two matrix products a step, with the loss
that the run describes; on the CPU it is the very computation of `pabi.learn.train`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.linear_loss import LinearLoss
from pabi.describe.linear_losses import executable
from pabi.describe.losses import Loss
from pabi.describe.second_moments import NoisySecondMoments
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records
from pabi.execute.row_maps import RowMap
from pabi.guarantees.guarantee import Guarantee
from pabi.integrations.torch.heads import Head
from pabi.integrations.torch.products import PRODUCTS, DeviceRecords, multiplies, refuse_emulation
from pabi.integrations.torch.tasks import BY_RECORD, FROZEN, ModuleTask, Result
from pabi.learn.rows import warn_if_shortened
from pabi.learn.sentences import PREPROCESSING
from pabi.learn.whitening import released_moments, together, whitening
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, down

_LARGER = (
    "some rows exceed the feature_norm that is stated, of which the constant of a bias takes its part, and "
    "are scaled down while the head is trained, but not in the module: normalise features in the module, or "
    "state a larger norm, from public knowledge"
)


@dataclass(frozen=True, eq=False)
class Preparation:
    """What becomes of features before the head is trained.

    `scaling`: of the constant feature whose weight is the bias, None where there is none. `moments`: the
    release by which rows are mapped, None where they are not. `device`: where the module computes.
    """

    scaling: float | None
    moments: NoisySecondMoments | None
    device: Any


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows as the run sees them. `row_map`: what made them of the features, None where nothing did."""

    records: Records
    row_map: RowMap | None
    before: tuple[Guarantee, ...]

    def start(self, weights: Array) -> Array:
        """The weights of these rows that stand for `weights` of the features."""
        if self.row_map is None:
            return weights
        if self.row_map.diagonal:
            return np.asarray(weights / self.row_map.applied(np.ones((len(weights), 1))))
        applied = self.row_map.applied(np.eye(len(weights)))
        return np.asarray(np.linalg.solve(applied, weights))

    def end(self, theta: Array) -> Array:
        """The weights of the features that stand for `theta` of these rows."""
        return theta if self.row_map is None else self.row_map.applied(theta)


def train_head(head: Head, task: ModuleTask, preparation: Preparation, fresh: Head) -> Result:
    """Trains the layer of `head`, whose module the records go through, and puts the weights into `fresh`."""
    head.module.train(False).to(preparation.device)
    head.refuse_unfit(task.pairs)
    loss = _executable(head, task.run.loss)
    products = multiplies(preparation.device, task.run)
    if products:
        refuse_emulation()
    norm = _norm_beside(_largest(task.run.loss, preparation.moments), preparation.scaling)
    sentences = _sentences(head, products=products)
    with task.reserved(sentences, preparation.moments):
        features, targets = head.table(task.pairs)
        device = preparation.device if products else None
        records = _records(features, norm, preparation.scaling, device)
        warn_if_shortened(records, stacklevel=4, advice=_LARGER)
        seen = _seen(records, task, preparation.moments, device=device, loss=loss)
        gradients = LossGradients(loss, seen.records, targets, _classes(head, loss))
        weights = head.weights(preparation.scaling)
        _refuse_other_targets(gradients, weights)
        result = task.execute(gradients, seen.start(weights).reshape(gradients.shape))
    fresh.set_weights(seen.end(result.x.reshape(weights.shape)), preparation.scaling)
    return Result(result.x, together(*seen.before, result.guarantee).assuming(*sentences))


def _sentences(head: Head, *, products: bool) -> tuple[str, ...]:
    """What the guarantee of a head assumes beside what follows from the run."""
    frozen = () if head.bare else (FROZEN, BY_RECORD)
    return (PREPROCESSING, *frozen, *((PRODUCTS,) if products else ()))


# Losses and their outputs.


def _executable(head: Head, stated: Loss) -> LinearLoss:
    """The loss to compute with. Raises InvalidInput where the head has other outputs than it."""
    loss = executable(stated.kind, **dict(stated.parameters))
    classes = dict(stated.parameters).get("classes")
    outputs = head.outputs
    if loss.response in ("sign", "number") and outputs != 1:
        raise InvalidInput("head", f"expected one output for {stated.kind}, got {outputs}")
    if loss.response == "class" and (outputs < 2 or classes not in (None, outputs)):
        expected = "at least two outputs" if classes is None else f"{classes} outputs"
        raise InvalidInput("head", f"expected {expected} for {stated.kind}, got {outputs}")
    return loss


def _classes(head: Head, loss: LinearLoss) -> int | None:
    return head.outputs if loss.response == "class" else None


def _refuse_other_targets(gradients: LossGradients, weights: Array) -> None:
    """Raises InvalidInput where targets of K numbers are not as many as the head has outputs."""
    outputs = gradients.shape[1] if len(gradients.shape) == 2 else 1
    if outputs != weights.shape[1]:
        raise InvalidInput("y", f"expected {weights.shape[1]} numbers a record, got {outputs}")


# Rows.


def _largest(loss: Loss, moments: NoisySecondMoments | None) -> float:
    """The norm that features may have, the constant of a bias included."""
    if moments is None:
        return float(dict(loss.parameters)["feature_norm"])
    return moments.feature_norm


def _norm_beside(norm: float, scaling: float | None) -> float:
    """R with R² + κ² ≤ norm², in exact arithmetic. Raises InvalidInput where no R > 0 is left."""
    if scaling is None:
        return norm
    left = Fraction(norm) ** 2 - Fraction(scaling) ** 2
    rest = math.sqrt(max(left, Fraction(0)))
    while Fraction(rest) ** 2 > left and rest > 0.0:
        rest = down(rest)
    if not rest > 0.0:
        raise InvalidInput(
            "feature_norm",
            f"expected more than {scaling!r} in the loss, which the constant of the bias takes, got {norm!r}",
        )
    return rest


def _records(features: NDArray[Any], norm: float, scaling: float | None, device: Any) -> Records:
    if device is None:
        return Records(features, norm, scaling)
    return DeviceRecords(features, norm, scaling, device)


def _seen(
    records: Records,
    task: ModuleTask,
    moments: NoisySecondMoments | None,
    *,
    device: Any,
    loss: LinearLoss,
) -> _Seen:
    """The rows themselves, or their images under the map that second moments are released for."""
    if moments is None:
        return _Seen(records, None, ())
    release = released_moments(moments, records, task.random_state, task.delta)
    # As the estimators do: the size of a row matters to a number, not to a class.
    equal = loss.response in ("sign", "class")
    norm = _largest(task.run.loss, None)
    row_map = whitening(release.values, moments, norm=norm, equal=equal)
    images = _records(row_map.table(records), norm, None, device)
    return _Seen(images, row_map, (release.guarantee,))

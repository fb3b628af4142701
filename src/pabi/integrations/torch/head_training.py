"""Trains a linear head on the features that the layers before it make of every record, once.

With its features a head is a linear model. It is trained as such by two matrix products a step, with the loss
that the run describes; on the CPU it is the very computation of `pabi.learn.train`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.losses import Loss
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.statistics import NoisySecondMoments
from pabi.describe.vector_losses import executable
from pabi.execute.engine import Trained
from pabi.execute.hiding import unshown
from pabi.execute.large_records import RowMap
from pabi.execute.linear_gradients import LossGradients
from pabi.execute.records import Records
from pabi.integrations.torch.datasets import (
    BY_RECORD,
    FROZEN,
    ModuleTask,
    Pairs,
    Unchanged,
    apart,
    refuse_dependent,
    refuse_random,
    tried,
)
from pabi.integrations.torch.library import (
    PRODUCTS,
    DeviceRecords,
    array_of,
    checked_module,
    device_named,
    multiplies,
    refuse_emulation,
    torch,
)
from pabi.learn.plans import PREPROCESSING, released_moments, together, whitening
from pabi.learn.rows import warn_if_shortened
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, down
from pabi.tradeoff.guarantee import Guarantee

# A linear layer at the end of a module: the features that it sees, its weights in and out.


AT_ONCE = 256  # rows that go through a module together


@dataclass(frozen=True, eq=False)
class Head:
    """A module and the linear layer that ends it, by its `name` in the module ("": the module itself)."""

    module: Any
    name: str

    @property
    def layer(self) -> Any:
        """The layer itself."""
        return self.module.get_submodule(self.name)

    @property
    def bare(self) -> bool:
        """Whether no layer stands before it."""
        return self.name == ""

    @property
    def width(self) -> int:
        """How many features it sees, its bias not counted."""
        return int(self.layer.in_features)

    @property
    def outputs(self) -> int:
        """K."""
        return int(self.layer.out_features)

    @property
    def has_bias(self) -> bool:
        """Whether it adds a constant."""
        return self.layer.bias is not None

    def weights(self, scaling: float | None) -> Array:
        """(width, K) its weights, with those of a last feature of constant `scaling` for the bias."""
        weights: Array = array_of(self.layer.weight).astype(np.float64).T
        if scaling is None:
            return weights
        return np.vstack([weights, array_of(self.layer.bias).astype(np.float64) / scaling])

    def set_weights(self, theta: Array, scaling: float | None) -> None:
        """Puts (width, K) weights in, in the layer's own precision."""
        pytorch, layer = torch(), self.layer
        with pytorch.no_grad():
            layer.weight.copy_(pytorch.as_tensor(theta[: self.width].T.copy()))
            if scaling is not None:
                layer.bias.copy_(pytorch.as_tensor(scaling * theta[-1]))

    def features(self, inputs: Any) -> Any:
        """(m, width) what the layer sees of m inputs."""
        return inputs if self.bare else self._pass(inputs)[0]

    def _pass(self, inputs: Any) -> tuple[Any, Any, Any]:
        """(what the layer sees, what it returns, what the module returns)."""
        seen: list[tuple[Any, Any]] = []
        handle = self.layer.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
        try:
            with torch().inference_mode():
                output = self.module(inputs)
        finally:
            handle.remove()
        if len(seen) != 1:
            raise InvalidInput(
                "head", f"expected a layer that a pass uses once, got one used {len(seen)} times"
            )
        return *seen[0], output

    def refuse_unfit(self, pairs: Pairs) -> None:
        """Raises InvalidInput unless the module maps every row by itself and ends in the layer.

        Only shape and type of a record are looked at.
        """
        like = pairs.some([0])[0]
        if self.bare:
            _refuse_shape(tuple(like.shape[1:]), self.width)
            return
        on = _on(self.layer.weight.device)
        together = _together(pairs)
        refuse_dependent(self.module, lambda x: self._pass(on(x))[0], like, "eval", together)
        refuse_random(lambda x: self._pass(on(x))[0], like, together)
        tried(lambda x: self._refuse_layers_behind(on(x)), like[:1])

    def _refuse_layers_behind(self, rows: Any) -> None:
        seen, own, output = self._pass(rows)
        _refuse_shape(tuple(seen.shape[1:]), self.width)
        same = isinstance(output, torch().Tensor) and output.numel() == own.numel()
        if not (same and torch().equal(output.reshape(-1), own.reshape(-1))):
            raise InvalidInput(
                "head",
                f"expected the layer whose output is the module's, got {self.name!r}: what stands behind it "
                "would change the loss",
            )

    def _of(self, inputs: Any, together: int) -> Any:
        """The features of some rows, by a call of so many."""
        if self.bare:
            return inputs
        missing = together - len(inputs)
        filled = torch().cat([inputs, inputs.new_zeros((missing, *inputs.shape[1:]))])
        return unshown("module", lambda: self.features(filled))[: len(inputs)]

    def table(self, pairs: Pairs) -> tuple[NDArray[Any], NDArray[Any]]:
        """((n, width) features, (n, …) targets) of all records, row by row."""
        on = _on(self.layer.weight.device)
        if self.bare and pairs.tensors is not None:
            inputs, targets = pairs.tensors
            return array_of(inputs), _targets(array_of(targets))
        # Of a type that no record has a say in, and a table of its own: not twice in memory at the end.
        features = np.empty((len(pairs), self.width), array_of(self.layer.weight[:0]).dtype)
        first, targets, together, before = 0, [], _together(pairs), Unchanged(self.module)
        for inputs, some in pairs.in_order(together):
            part = array_of(self._of(on(inputs), together))
            with np.errstate(all="ignore"):  # a warning of numbers too large would show a record
                features[first : first + len(part)] = part
            first += len(part)
            targets.append(array_of(some))
        before.refuse_changed("eval")
        return features, _targets(np.concatenate(targets))


def _together(pairs: Pairs) -> int:
    """Rows of every call of a module: the last ones are filled up, so that all calls are of one shape."""
    return min(AT_ONCE, len(pairs))


def head_name(module: Any, head: Any) -> str | None:
    """The name of the layer that is to be trained; None where all of the module is. Raises InvalidInput."""
    linear = torch().nn.Linear
    if head is None:
        return "" if type(module) is linear else None
    name = head if isinstance(head, str) else _name_of(module, head)
    layer = dict(module.named_modules()).get(name)
    if layer is None:
        raise InvalidInput("head", f"expected the name of a layer of the module, got {name!r}")
    if type(layer) is not linear:
        kind = type(layer).__name__
        raise InvalidInput("head", f"expected a torch.nn.Linear, got {name!r}, a {kind}")
    _refuse_shared(module, layer)
    return name


def _name_of(module: Any, layer: Any) -> str:
    for name, each in module.named_modules():
        if each is layer:
            return str(name)
    kind = type(layer).__name__
    raise InvalidInput("head", f"expected a layer of the module or its name, got a {kind}")


def _refuse_shared(module: Any, layer: Any) -> None:
    own = [id(parameter) for parameter in layer.parameters()]
    every = [id(p) for _, p in module.named_parameters(remove_duplicate=False)]
    if any(every.count(parameter) > 1 for parameter in own):
        raise InvalidInput("head", "expected weights of its own, got some that other layers share")


def _refuse_shape(shape: tuple[int, ...], width: int) -> None:
    if shape != (width,):
        raise InvalidInput("head", f"expected {width} features a record, got shape {shape}")


def _on(device: Any) -> Callable[[Any], Any]:
    return lambda tensor: tensor.to(device)


def _targets(targets: NDArray[Any]) -> NDArray[Any]:
    """Targets of shape (n, 1) as (n,)."""
    return targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets


# What a head sees of a dataset, computed once for several trainings.


def features(module: Any, dataset: Any, *, head: Any, device: Any = None, workers: int = 0) -> Any:
    """The dataset of pairs (what the head sees of an input, target), for several trainings of the same head.

    Train the layer itself on it: `train(module.head, features(module, dataset, head="head"), run)`. These
    features are private, as the records are.

    Parameters
    ----------
    module : torch.nn.Module
        The module, used as in `train`: in eval mode, every record by itself. It is left as it is.
    dataset : torch.utils.data.Dataset
        Map-style, of pairs (input tensor, target).
    head : str or torch.nn.Linear
        The linear layer that ends the module, or its name.
    device : str or torch.device, optional
        Where the module computes. None: where its parameters are.
    workers : int, ≥ 0
        Processes that load the dataset.

    Returns
    -------
    torch.utils.data.TensorDataset
        (n, width) features and targets, in the order of the dataset, on the CPU.

    Raises
    ------
    InvalidInput
        An argument is wrong, naming it, or the module is refused as in `train`.

    References
    ----------
    docs, "I have a PyTorch model".
    """
    pairs = Pairs(dataset, validate.integer("workers", workers, at_least=0))
    name = head_name(checked_module(module), head)
    if not name:
        raise InvalidInput("head", "expected a linear layer with others before it")
    own = apart(module)
    last = Head(own, name)
    own.train(False).to(device_named(device, own))
    last.refuse_unfit(pairs)
    tensors = (torch().as_tensor(part) for part in last.table(pairs))
    return torch().utils.data.TensorDataset(*tensors)


_LARGER = (
    "some rows exceed the feature_norm that is stated, of which the constant of a bias takes its part, and "
    "are scaled down while the head is trained, but not in the module: normalise features in the module, or "
    "state a larger norm, from public knowledge"
)


@dataclass(frozen=True, eq=False)
class Preparation:
    """What becomes of features before the head is trained.

    `scaling`: of the constant feature whose weight is the bias, None where there is none. `moments`: the
    release by which rows are mapped, None where they are not.
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


def train_head(head: Head, task: ModuleTask, preparation: Preparation, fresh: Head) -> Trained:
    """Trains the layer of `head`, whose module the records go through, and puts the weights into `fresh`."""
    head.module.train(False).to(preparation.device)
    head.refuse_unfit(task.pairs)
    loss = _executable(head, task.run.loss)
    products = multiplies(preparation.device, task.run)
    if products:
        refuse_emulation()
    norm = _norm_beside(_largest(task.run.loss, preparation.moments), preparation.scaling)
    sentences = _sentences(head, products=products)
    moments = preparation.moments
    before = () if moments is None else (moments.guarantee(task.options.delta),)
    with task.reserved(sentences, *before):
        features, targets = head.table(task.pairs)
        device = preparation.device if products else None
        records = _records(features, norm, preparation.scaling, device)
        warn_if_shortened(records, _LARGER)
        seen = _seen(records, task, moments, *before, device=device, loss=loss)
        gradients = LossGradients(loss, seen.records, targets, _classes(head, loss))
        weights = head.weights(preparation.scaling)
        _refuse_other_targets(gradients, weights)
        result = task.execute(gradients, seen.start(weights).reshape(gradients.shape))
    fresh.set_weights(seen.end(result.x.reshape(weights.shape)), preparation.scaling)
    whole = together(*seen.before, result.guarantee).assuming(*sentences)
    return replace(result, guarantee=whole)


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
    *before: Guarantee,
    device: Any,
    loss: LinearLoss,
) -> _Seen:
    """The rows themselves, or their images under the map that second moments are released for."""
    if moments is None:
        return _Seen(records, None, ())
    terms = replace(task.options, ledger=None, proven=before[0])
    release = released_moments(terms, moments, records)
    # The size of a row matters to a number, not to a class.
    equal = loss.response in ("sign", "class")
    norm = _largest(task.run.loss, None)
    row_map = whitening(release.values, moments, norm=norm, equal=equal)
    images = _records(row_map.table(records), norm, None, device)
    return _Seen(images, row_map, (release.guarantee,))

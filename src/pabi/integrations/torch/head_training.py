"""Trains a linear head on the features that the layers before it make of every record, once.

With its features a head is a linear model. It is trained as such by two matrix products a step, with the loss
that the run describes; on the CPU it is the very computation of `pabi.learn.train`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.losses import Loss
from pabi.describe.scalar_losses import LinearLoss
from pabi.describe.statistics import NoisySecondMoments
from pabi.describe.vector_losses import executable
from pabi.execute.blocks import refuse_emulation
from pabi.execute.engine import Trained
from pabi.execute.hiding import unshown
from pabi.execute.large_records import RowMap
from pabi.execute.linear_gradients import LossGradients, shifted
from pabi.execute.records import Records
from pabi.integrations.torch.datasets import (
    BY_RECORD,
    FROZEN,
    ModuleTask,
    Pairs,
    Unchanged,
    apart,
    close,
    dataset_of,
    made_up,
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
    torch,
)
from pabi.learn.plans import PREPROCESSING, released_moments, together, whitening
from pabi.learn.rows import warn_if_shortened
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require
from pabi.numbers.rounding import Array, down
from pabi.tradeoff.guarantee import Guarantee

# A linear layer at the end of a module: the features that it sees, its weights in and out.


AT_ONCE = 256  # rows that go through a module together
_NAMED = 8  # layers in a message: the last ones, among which a head is


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

    def _pass(self, inputs: Any, answer: float = 0.0) -> tuple[Any, Any, Any]:
        """(what the layer sees, what it is made to say, what the module makes of that).

        `answer`: about the mean of its outputs, which are all different, row by row, unless it is 0.
        """
        seen: list[tuple[Any, Any]] = []

        def hook(_: Any, args: Any, out: Any) -> Any:
            spread = 1.0 + 0.5 * torch().arange(out.numel()).sin().reshape(out.shape)
            out = answer * spread.to(out)
            seen.append((args[0], out))
            return out.clone()  # which others may add to in place

        handle = self.layer.register_forward_hook(hook)
        try:
            with torch().inference_mode():
                output = self.module(inputs)
        finally:
            handle.remove()
        require(
            len(seen) == 1,
            "head",
            f"expected a layer that a pass uses once, got one used {len(seen)} times",
        )
        return *seen[0], output

    def refuse_unfit(self, pairs: Pairs) -> bool:
        """Whether the module adds something of its frozen layers' to what the layer says.

        Raises InvalidInput unless it maps every row by itself and returns what the layer says, alone or with
        such an addition. Only shape and type of a record are looked at.
        """
        like = pairs.some([0])[0]
        if self.bare:
            _refuse_shape(tuple(like.shape[1:]), self.width)
            return False
        on, together = methodcaller("to", self.layer.weight.device), _together(pairs)
        refuse_dependent(self.module, lambda x: self._pass(on(x))[0], like, "eval", together)
        refuse_random(lambda x: self._pass(on(x))[0], like, together)
        offset = tried(lambda x: self._checked_offset(on(x)), made_up(like, together, 0))
        if not offset.any():
            return False
        refuse_dependent(self.module, lambda x: self._offset(on(x)), like, "eval", together)
        refuse_random(lambda x: self._offset(on(x)), like, together)
        return True

    def _checked_offset(self, rows: Any) -> Any:
        """(m, K) what the module adds to what the layer says. Raises InvalidInput for anything but a sum.

        Training is convex all the same: an offset is what the module returns where the layer says 0.
        """
        seen, none, offset = self._pass(rows)
        _refuse_shape(tuple(seen.shape[1:]), self.width)
        for answer in (0.0, -3.0, 20.0):
            _, own, output = self._pass(rows, answer)
            alike = isinstance(output, torch().Tensor) and output.numel() == own.numel()
            require(
                alike and close(output.reshape(own.shape), own + offset.reshape(own.shape)),
                "head",
                f"expected the layer whose output is the module's, or what frozen layers add to it, got "
                f"{self.name!r}: what stands behind it would change the loss",
            )
        return offset.reshape(none.shape)

    def _offset(self, inputs: Any) -> Any:
        _, none, offset = self._pass(inputs)
        return offset.reshape(none.shape)

    def _of(self, inputs: Any, together: int, offset: bool) -> tuple[Any, ...]:
        """The features of some rows, and their offset if there is one, by a call of so many."""
        if self.bare:
            return (inputs,)
        missing = together - len(inputs)
        filled = torch().cat([inputs, inputs.new_zeros((missing, *inputs.shape[1:]))])
        seen, none, output = unshown("module", lambda: self._pass(filled))
        both = (seen, output.reshape(none.shape)) if offset else (seen,)
        return tuple(part[: len(inputs)] for part in both)

    def table(
        self, pairs: Pairs, offset: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """((n, width) features, (n, …) targets, (n, K) offsets or None) of all records, row by row."""
        on = methodcaller("to", self.layer.weight.device)
        if self.bare and pairs.tensors is not None:
            inputs, targets = pairs.tensors
            return array_of(inputs), _targets(array_of(targets)), None
        # Of a type that no record has a say in, and tables of their own: not twice in memory at the end.
        kind = array_of(self.layer.weight[:0]).dtype
        widths = (self.width, self.outputs) if offset else (self.width,)
        tables = [np.empty((len(pairs), width), kind) for width in widths]
        first, targets, together, before = 0, [], _together(pairs), Unchanged(self.module)
        for inputs, some in pairs.in_order(together):
            parts = self._of(on(inputs), together, offset)
            for table, part in zip(tables, map(array_of, parts), strict=True):
                # A warning of numbers too large would show a record.
                with np.errstate(all="ignore"):
                    table[first : first + len(part)] = part
            first += len(inputs)
            targets.append(array_of(some))
        before.refuse_changed("eval")
        return tables[0], _targets(np.concatenate(targets)), tables[1] if offset else None


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
        named = [repr(own) for own, each in module.named_modules() if type(each) is linear]
        listed = ", ".join(["…", *named[-_NAMED:]] if len(named) > _NAMED else named)
        expected = f"the name of a linear layer of the module ({listed or 'it has none'})"
        raise InvalidInput("head", f"expected {expected}, got {name!r}")
    require(
        type(layer) is linear,
        "head",
        f"expected a torch.nn.Linear, got {name!r}, a {type(layer).__name__}",
    )
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
    require(
        not any(every.count(parameter) > 1 for parameter in own),
        "head",
        "expected weights of its own, got some that other layers share",
    )


def _refuse_shape(shape: tuple[int, ...], width: int) -> None:
    require(shape == (width,), "head", f"expected {width} features a record, got shape {shape}")


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
    dataset : torch.utils.data.Dataset or DataLoader
        As in `train`.
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
    pairs = Pairs(dataset_of(dataset), validate.integer("workers", workers, at_least=0))
    name = head_name(checked_module(module), head)
    if not name:
        raise InvalidInput("head", "expected a linear layer with others before it")
    own = apart(module)
    last = Head(own, name)
    own.train(False).to(device_named(device, own))
    require(
        not last.refuse_unfit(pairs),
        "head",
        f"expected the layer whose output is the module's, got {name!r}, to which others add: train the "
        "module itself, which knows what they add",
    )
    seen, targets, _ = last.table(pairs)
    return torch().utils.data.TensorDataset(*map(torch().as_tensor, (seen, targets)))


_LARGER = (
    "some rows exceed the feature_norm that is stated, of which the constant of a bias takes its part, and "
    "are scaled down while the head is trained, but not in the module: normalise features in the module, or "
    "state a larger norm, from public knowledge"
)


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


def train_head(
    head: Head,
    task: ModuleTask,
    fresh: Head,
    *,
    scaling: float | None,
    moments: NoisySecondMoments | None,
    device: Any,
) -> Trained:
    """Trains the layer of `head`, whose module the records go through, and puts the weights into `fresh`.

    `scaling`: of the constant feature whose weight is the bias, None where there is none. `moments`: the
    release by which rows are mapped, None where they are not.
    """
    head.module.train(False).to(device)
    offset = head.refuse_unfit(task.pairs)
    loss = _executable(head, task.run.loss)
    products = multiplies(device, task.run)
    if products:
        refuse_emulation()
    norm = _norm_beside(_largest(task.run.loss, moments), scaling)
    sentences = (*_sentences(head, products=products), *task.assumed)
    before = () if moments is None else (moments.guarantee(task.options.delta),)
    weights = head.weights(scaling)
    x0 = weights[:, 0] if loss.response in ("sign", "number") else weights
    with task.reserved(sentences, *before, x0=x0):
        features, targets, offsets = head.table(task.pairs, offset)
        device = device if products else None
        records = _records(features, norm, scaling, device)
        warn_if_shortened(records, _LARGER)
        # As the estimators do: the size of a row matters to a number, not to a class, unless offsets stand
        # beside it.
        equal = loss.response in ("sign", "class") and not offset
        seen = _seen(records, task, moments, *before, device=device, equal=equal)
        classes = head.outputs if loss.response == "class" else None
        gradients = LossGradients(loss, seen.records, targets, classes)
        _refuse_other_targets(gradients, weights)
        if offsets is not None:
            gradients = shifted(gradients, offsets)
        result = task.execute(gradients, seen.start(weights).reshape(gradients.shape))
    fresh.set_weights(seen.end(result.x.reshape(weights.shape)), scaling)
    # As features were computed; in train mode BatchNorm would learn what the module is shown.
    fresh.module.train(False)
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
    require(
        loss.response not in ("sign", "number") or outputs == 1,
        "head",
        f"expected one output for {stated.kind}, got {outputs}",
    )
    if loss.response == "class" and (outputs < 2 or classes not in (None, outputs)):
        expected = "at least two outputs" if classes is None else f"{classes} outputs"
        raise InvalidInput("head", f"expected {expected} for {stated.kind}, got {outputs}")
    return loss


def _refuse_other_targets(gradients: LossGradients, weights: Array) -> None:
    """Raises InvalidInput where targets of K numbers are not as many as the head has outputs."""
    outputs = gradients.shape[1] if len(gradients.shape) == 2 else 1
    require(
        outputs == weights.shape[1],
        "y",
        f"expected {weights.shape[1]} numbers a record, got {outputs}",
    )


# Rows.


def _largest(loss: Loss, moments: NoisySecondMoments | None) -> float:
    """The norm that features may have, the constant of a bias included."""
    stated = dict(loss.parameters)["feature_norm"] if moments is None else moments.feature_norm
    return float(stated)


def _norm_beside(norm: float, scaling: float | None) -> float:
    """R with R² + κ² ≤ norm², in exact arithmetic. Raises InvalidInput where no R > 0 is left."""
    if scaling is None:
        return norm
    left = Fraction(norm) ** 2 - Fraction(scaling) ** 2
    rest = math.sqrt(max(left, Fraction(0)))
    while Fraction(rest) ** 2 > left and rest > 0.0:
        rest = down(rest)
    must_be(
        rest > 0.0,
        "feature_norm",
        f"more than {scaling!r} in the loss, which the constant of the bias takes",
        norm,
    )
    return rest


def _records(features: NDArray[Any], norm: float, scaling: float | None, device: Any) -> Records:
    own = features, norm, scaling
    return Records(*own) if device is None else DeviceRecords(*own, device)


def _seen(
    records: Records,
    task: ModuleTask,
    moments: NoisySecondMoments | None,
    *before: Guarantee,
    device: Any,
    equal: bool,
) -> _Seen:
    """The rows themselves, or their images under the map that second moments are released for."""
    if moments is None:
        return _Seen(records, None, ())
    terms = replace(task.options, ledger=None, proven=before[0])
    release, norm = released_moments(terms, moments, records), _largest(task.run.loss, None)
    row_map = whitening(release.values, moments, norm=norm, equal=equal)
    images = _records(row_map.table(records), norm, None, device)
    return _Seen(images, row_map, (release.guarantee,))

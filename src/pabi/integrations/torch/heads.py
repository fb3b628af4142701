"""A linear layer at the end of a module: the features that it sees, its weights in and out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.execute.hiding import unshown
from pabi.integrations.torch.datasets import Pairs
from pabi.integrations.torch.library import array_of, torch
from pabi.integrations.torch.trials import Unchanged, refuse_dependent, refuse_random, tried
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

AT_ONCE = 256  # rows that go through a module together


@dataclass(frozen=True, eq=False)
class Head:
    """A module and the linear layer that ends it.

    `name`: of the layer in the module, "" where it is the module itself.
    """

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

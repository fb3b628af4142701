"""The parts of a step that JAX traces: clipped sums, noisy directions, updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pabi.describe.updates import SGD, Adam, Momentum, Update
from pabi.execute.clipping import refuse_small
from pabi.execute.sums import Limit
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP

_OUTSIDE = ("callback", "debug", "print", "infeed", "outfeed")


class Carried(NamedTuple):
    """What a step hands on: the iterate, and the state of the update."""

    x: Any
    state: Any


def gradients_of(
    jax: Any, loss: Any, *, limit: Limit, one_by_one: bool
) -> Callable[[Any, Any, Any], Any]:
    """(x, batch, whether a row holds a record) ↦ the sum of the clipped gradients.

    `one_by_one`: in a loop whose every turn is the same program, so that a record's gradient does not depend
    on its place, as it may where many are computed at once.
    """
    numpy = jax.numpy
    if limit.clip is not None:
        refuse_small(limit.clip)

    def clipped(x: Any, example: Any, held: Any) -> Any:
        gradient = jax.grad(loss)(x, example)
        usable = held & numpy.all(numpy.isfinite(gradient))
        return _clipped(jax, numpy.where(usable, gradient, 0.0), limit)

    def total(x: Any, batch: Any, held: Any) -> Any:
        if one_by_one:
            each = jax.lax.map(lambda pair: clipped(x, *pair), (batch, held))
        else:
            each = jax.vmap(clipped, in_axes=(None, 0, 0))(x, batch, held)
        return numpy.sum(each, axis=0)

    return total


def _clipped(jax: Any, gradient: Any, limit: Limit) -> Any:
    """As `pabi.execute.clipping.clip_norms`, for one vector: its true norm never exceeds the bound."""
    numpy = jax.numpy
    gradient = gradient * limit.shrink
    if limit.clip is None:
        return gradient
    peak = numpy.max(numpy.abs(gradient), initial=0.0)
    unit = gradient / numpy.where(peak > 0.0, peak, 1.0)
    length = numpy.maximum(numpy.sqrt(numpy.sum(unit * unit)), 1.0)
    target = limit.clip / length * (1.0 - (gradient.size + 16) * HALF_ULP)
    return numpy.where(peak > target, unit * target, gradient)


def direction_of(jax: Any, x: Any, gradient: Any, *, column: Any, l2: float) -> Any:
    """The noisy gradient with its regulariser; rounded to a grid where the update keeps a state."""
    numpy = jax.numpy
    noisy = gradient + column["noise"]
    grid = column["grid"]
    unit = numpy.where(grid > 0.0, grid, 1.0)
    noisy = numpy.where(grid > 0.0, numpy.rint(noisy / unit) * unit, noisy)
    return l2 * x + noisy


def moved(jax: Any, rule: Update, optimizer: Any) -> Callable[[Carried, Any, Any], Carried]:
    """(what is carried, direction, the step's numbers) ↦ what the step hands on."""
    if optimizer is not None:
        return lambda carried, direction, column: _by_optax(optimizer, carried, direction)
    along = _along(jax, rule)

    def step(carried: Carried, direction: Any, column: Any) -> Carried:
        way, state = along(direction, carried.state, column["k"])
        return Carried(carried.x - column["step_size"] * way, state)

    return step


def _by_optax(optimizer: Any, carried: Carried, direction: Any) -> Carried:
    updates, state = optimizer.update(direction, carried.state, carried.x)
    return Carried(carried.x + updates, state)


def refuse_callbacks(jax: Any, field: str, traced: Any) -> None:
    """Raises InvalidInput where a traced program calls back to Python, as what prints does."""
    for name in _operations(jax, traced.jaxpr):
        if any(word in name for word in _OUTSIDE):
            raise InvalidInput(
                field,
                f"expected what JAX computes by itself, got a call to Python ({name}), which could show a "
                "record or a hidden iterate",
            )


def _operations(jax: Any, program: Any) -> Iterator[str]:
    """The names of all operations, those of inner programs as well."""
    for operation in program.eqns:
        yield operation.primitive.name
        for value in jax.tree.leaves(
            list(operation.params.values()), is_leaf=lambda each: hasattr(each, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _operations(jax, inner)


def _along(jax: Any, rule: Update) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """(direction, state, k) ↦ (what the step subtracts over η, the state after it)."""
    numpy = jax.numpy
    match rule:
        case SGD():
            return lambda direction, state, k: (direction, state)
        case Momentum(momentum=momentum, nesterov=nesterov):

            def momentum_step(direction: Any, state: Any, k: Any) -> tuple[Any, Any]:
                velocity = momentum * state[0] + direction
                return direction + momentum * velocity if nesterov else velocity, (velocity,)

            return momentum_step
        case Adam(betas=(first, second), eps=eps):

            def adam_step(direction: Any, state: Any, k: Any) -> tuple[Any, Any]:
                mean = first * state[0] + (1.0 - first) * direction
                square = second * state[1] + (1.0 - second) * numpy.square(direction)
                scale = numpy.sqrt(square / (1.0 - second ** (k + 1.0))) + eps
                return mean / (1.0 - first ** (k + 1.0)) / scale, (mean, square)

            return adam_step
        case _:
            raise InvalidInput("update", f"expected one that is executed here, got {rule!r}")

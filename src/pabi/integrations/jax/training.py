"""Executes a described run with gradients by JAX, many steps in one compiled loop.

Noise and batches come from the host. They are drawn there from the generator of `pabi.learn.train`, ChaCha
with 256 bits of key from the operating system, and are arguments of the loop. JAX's own generator, Threefry
2×32, has keys of 64 bits, and its normal numbers come from single random words, so that large ones are
missing: neither is what a guarantee assumes of noise.

Everything is in double precision, whatever JAX is set to. On the same noise the iterate is that of
`pabi.learn.train`, but for the rounding of sums, for which clipping leaves the same room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pabi.budget.ledger import Ledger
from pabi.describe.batches import BallsInBins, Batches, FixedSize, FixedSizes, Poisson
from pabi.describe.runs import COUNT, NoisySGD
from pabi.describe.updates import SGD, Adam, Momentum, Other, Update
from pabi.execute.batches import batch_rows
from pabi.execute.blocks import refuse_small
from pabi.execute.checkpoint import Randomness
from pabi.execute.hiding import (
    Terms,
    checked,
    grid_of,
    on_grid,
    refuse_unenforceable,
    starting_point,
    unshown,
    walk_of,
)
from pabi.execute.records import numbers_of
from pabi.execute.sums import Limit, noise_factor
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, extra
from pabi.numbers.rounding import HALF_ULP, Array
from pabi.tradeoff.guarantee import Guarantee

# The parts of a step that JAX traces: clipped sums, noisy directions, updates.


_SHORTEST, _LONGEST = 1e-140, 1e140  # of vectors whose lengths are computed by their squares
_TINIEST = 2.0**-1000  # far above the least double over the unit of rounding
_OUTSIDE = ("callback", "debug", "print", "infeed", "outfeed")


class Carried(NamedTuple):
    """What a step hands on: the iterate, and the state of the update."""

    x: Any
    state: Any


class VectorProduct(NamedTuple):
    """The only use of a matrix of parameters: its product with one vector.

    `leaf`: which parameter it is. `operation`: where the product stands in the program. `vector`: which of
    its operands is the vector. `first`: whether that meets the first axis of the matrix.
    """

    leaf: int
    operation: int
    vector: int
    first: bool


def products_of(program: Any, count: int) -> list[VectorProduct]:
    """Those of the first `count` inputs, the parameters, that a record's loss multiplies with one vector, and
    uses for nothing else.

    The gradient in such a matrix is an outer product. Its norm is the product of two norms, and sums of many
    are one product of matrices, so that no gradient is ever formed.
    """
    products = []
    for leaf, parameter in enumerate(program.invars[:count]):
        uses = [
            (number, place)
            for number, operation in enumerate(program.eqns)
            for place, operand in enumerate(operation.invars)
            if operand is parameter
        ]
        if len(uses) == 1 and not any(result is parameter for result in program.outvars):
            [(number, place)] = uses
            if _multiplies(program.eqns[number], place):
                ((axis,), _) = _axes(program.eqns[number], place)
                products.append(VectorProduct(leaf, number, 1 - place, axis == 0))
    return products


def _multiplies(operation: Any, place: int) -> bool:
    """Whether it is the product of a matrix, or vector, at this place with a vector, both of doubles."""
    if operation.primitive.name != "dot_general":
        return False
    matrix, vector = (operation.invars[i].aval for i in (place, 1 - place))
    summed, both = _axes(operation, place)
    doubles = matrix.dtype == vector.dtype == operation.outvars[0].aval.dtype == np.float64
    return doubles and vector.ndim == 1 and matrix.ndim <= 2 and len(summed) == 1 and not both


def _axes(operation: Any, place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of an operand of a product that are summed over, and those that both operands have."""
    summed, both = operation.params["dimension_numbers"]
    return tuple(summed[place]), tuple(both[place])


def _probed(jax: Any, closed: Any, products: list[VectorProduct]) -> Callable[..., list[Any]]:
    """(*inputs, *probes) ↦ the loss, and the vectors of the products: the program with a probe added to each
    product. The gradient in the probe is that in the product."""
    operations, probes = list(closed.jaxpr.eqns), []
    for product in sorted(products, key=lambda one: -one.operation):
        [result] = operations[product.operation].outvars
        sum_of = jax.make_jaxpr(jax.numpy.add)(result.aval, result.aval).jaxpr
        ((one, probe), [added]) = sum_of.invars, sum_of.eqns
        operations[product.operation] = operations[product.operation].replace(outvars=[one])
        operations.insert(product.operation + 1, added.replace(outvars=[result]))
        probes.append((product, probe))
    by_product = dict(probes)
    program = closed.jaxpr
    vectors = [program.eqns[one.operation].invars[one.vector] for one in products]
    changed = program.replace(
        invars=[*program.invars, *(by_product[one] for one in products)],
        outvars=[*program.outvars, *vectors],
        eqns=operations,
        debug_info=program.debug_info.with_unknown_names(),
    )
    # A module of its own, which `import jax` alone does not load.
    core = extra("jax.extend.core", "jax")
    run: Callable[..., list[Any]] = core.jaxpr_as_fun(closed.replace(jaxpr=changed))
    return run


def gradients_of(
    jax: Any, program: Any, params: Any, *, limit: Limit, one_by_one: bool
) -> Callable[[Any, Any, Any], Any]:
    """(parameters, batch, whether a row holds a record) ↦ the sum of the clipped gradients, a vector.

    `program`: of the loss of a record. `params`: parameters of these shapes. `one_by_one`: in a loop whose
    every turn is the same program, so that a record's gradient does not depend on its place, as it may where
    many are computed at once.
    """
    numpy = jax.numpy
    if limit.clip is not None:
        refuse_small(limit.clip)

    sizes = [np.size(leaf) for leaf in jax.tree.leaves(params)]
    products = products_of(program.jaxpr, len(sizes))
    replay = _probed(jax, program, products)
    rest = sorted({*range(len(sizes))} - {product.leaf for product in products})
    shapes = [program.eqns[product.operation].outvars[0].aval.shape for product in products]
    # The least double times a longer vector would be more than a rounding of the bound.
    longest = _LONGEST if limit.clip is None else min(_LONGEST, limit.clip / _TINIEST)
    ends = np.cumsum([*(sizes[k] for k in rest), *map(math.prod, shapes)])

    def total(point: Any, batch: Any, held: Any) -> Any:
        leaves = jax.tree.leaves(point)

        def clipped(pair: Any) -> Any:
            """The clipped gradient in what is left, that in the products, and the vectors of these."""
            example, here = pair

            def probed(others: list[Any], probes: list[Any]) -> Any:
                every = list(leaves)
                for k, other in zip(rest, others, strict=True):
                    every[k] = other
                value, *vectors = replay(*every, *jax.tree.leaves(example), *probes)
                return value, vectors

            at = [leaves[k] for k in rest], [numpy.zeros(shape) for shape in shapes]
            (own, residuals), vectors = jax.grad(probed, (0, 1), has_aux=True)(*at)
            lengths = [_length(jax, vector) for vector in vectors]
            own += [r * length for r, length in zip(residuals, lengths, strict=True)]
            # As long as the whole gradient.
            gradient = numpy.concatenate([numpy.ravel(part) for part in own])
            usable = here & numpy.all(numpy.isfinite(gradient))
            for length in lengths:
                usable &= length <= longest
            gradient = _clipped(jax, numpy.where(usable, gradient, 0.0), limit, sum(sizes))
            over = [numpy.ones(ends[-1] - sum(map(math.prod, shapes)))]
            for shape, length in zip(shapes, lengths, strict=True):
                over.append(numpy.full(math.prod(shape), numpy.where(length > 0.0, length, 1.0)))
            shares = numpy.where(usable, gradient / numpy.concatenate(over), 0.0)
            return shares, [numpy.where(usable, vector, 0.0) for vector in vectors]

        each = jax.lax.map if one_by_one else (lambda f, pairs: jax.vmap(f)(pairs))
        shares, vectors = each(clipped, (batch, held))
        parts = numpy.split(shares, ends[:-1], axis=1)
        sums: dict[int, Any] = {
            k: numpy.sum(part, axis=0) for k, part in zip(rest, parts, strict=False)
        }
        for product, part, rows in zip(products, parts[len(rest) :], vectors, strict=True):
            sums[product.leaf] = rows.T @ part if product.first else part.T @ rows
        return numpy.concatenate([numpy.ravel(sums[k]) for k in range(len(sizes))])

    return total


def _length(jax: Any, vector: Any) -> Any:
    """The Euclidean norm; 0 where it is so small that its square loses digits, ∞ where that overflows."""
    length = jax.numpy.sqrt(jax.numpy.sum(vector * vector))
    return jax.numpy.where(length < _SHORTEST, 0.0, length)


def _clipped(jax: Any, gradient: Any, limit: Limit, size: int) -> Any:
    """As `pabi.execute.blocks.clip_norms`, for one vector: its true norm never exceeds the bound.

    `size`: of all parameters. It makes room for the roundings of lengths of products, too.
    """
    numpy = jax.numpy
    gradient = gradient * limit.shrink
    if limit.clip is None:
        return gradient
    peak = numpy.max(numpy.abs(gradient), initial=0.0)
    unit = gradient / numpy.where(peak > 0.0, peak, 1.0)
    length = numpy.maximum(numpy.sqrt(numpy.sum(unit * unit)), 1.0)
    target = limit.clip / length * (1.0 - (size + 16) * HALF_ULP)
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


_HELD = 1 << 22  # numbers of noise and batches on the device at once (32 MB)
_NEVER = 2.0**-100  # the probability of a batch for which the loop is compiled anew
OF_ITS_OWN = (
    "per_example_loss is computed from the parameters and one record alone, and shows neither"
)
PLACES = "a record's gradient is the same to the last bit wherever it stands in a batch"


@dataclass(frozen=True, eq=False)
class JaxTrained:
    """The model that a run trained by JAX releases, with its guarantee.

    Attributes
    ----------
    params : pytree of float64 arrays
        The last iterate, of the structure and shapes of the parameters that training began with, read-only.
    guarantee : Guarantee
        What its release costs.
    run : NoisySGD
        The description that was both accounted and executed.

    References
    ----------
    docs, "I use optax".
    """

    params: Any
    guarantee: Guarantee
    run: NoisySGD


def train(
    params: Any,
    per_example_loss: Callable[[Any, Any], Any],
    data: Any,
    run: NoisySGD,
    *,
    optimizer: Any = None,
    delta: float = 1e-5,
    random_state: int | np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> JaxTrained:
    """The last iterate of `run` on your data, with its guarantee; every gradient is JAX's.

    A step is that of `pabi.learn.train`: each record's gradient is clipped by its norm over all parameters,
    and the sum is divided by `run.batch_size`. A gradient that is not finite counts as 0.

    Parameters
    ----------
    params : pytree of arrays
        Where training starts, chosen without looking at the data.
    per_example_loss : callable
        (params, example) ↦ the loss of one record, a scalar, without the regulariser, in functions of JAX.
        `example` is what `data` has of one record.
    data : pytree of arrays
        The first axis of each is the records.
    run : NoisySGD
        What to do, with plain clipping and no proximal map. What it says of the loss has to hold of
        `per_example_loss`.
    optimizer : optax.GradientTransformation, optional
        What makes a step of a noisy gradient, its learning rate included, for a run with update="other":
        composition alone applies. It sees noisy gradients and public parameters, never the data.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    random_state : None, int or numpy Generator
        None (default): noise and batches from a ChaCha generator keyed by the operating system. Anything else
        is for tests: a PrivacyWarning, and a guarantee that says so.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read.

    Returns
    -------
    JaxTrained
        The last parameters, the guarantee, and `run`.

    Raises
    ------
    InvalidInput
        JAX is not installed, `params`, `data` or `optimizer` are not what is said above, or `run` is not
        executed here. Chains that need more than a noisy gradient in one vector, complex numbers, and calls
        back to Python, such as `jax.debug.print`. What `pabi.learn.train` refuses is refused here.
    NotApplicable
        No analysis covers the run; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    The iteration of Bok, Su, Altschuler 2024, §4 (their `noisy SGD`).
    """
    jax = extra("jax", "jax")
    _refuse_untrained(run, optimizer)
    terms = Terms(delta=delta, random_state=random_state, ledger=ledger)
    # JAX can be told to stop at numbers that are not finite, which would show a record, and to run Python
    # itself instead of what it compiles, which would see records.
    with (
        jax.enable_x64(True),
        jax.disable_jit(False),
        jax.debug_nans(False),
        jax.debug_infs(False),
    ):
        start, unravel = _flat(jax, params)
        records = _records(jax, data, run.n)
        validate.function("per_example_loss", per_example_loss)
        program = _program_of(jax, per_example_loss, params=unravel(start), records=records)
        _refuse_other_chains(jax, optimizer, start)
        proven = checked(terms.guarantee_of(run), *walk_of(run, start[None]))
        proven = proven.assuming(OF_ITS_OWN, *([PLACES] if run.order.fresh else []))

        loop = _Loop(jax, run, (program, unravel), optimizer, start)

        def execute(randomness: Randomness) -> Array:
            return loop.last(start, records, randomness.generator())

        x, guarantee = terms.release(proven, execute)
        return JaxTrained(jax.tree.map(_read_only, unravel(x)), guarantee, run)


def _refuse_untrained(run: NoisySGD, optimizer: Any) -> None:
    """Raises InvalidInput for a run that is not executed here, or not by this optimiser."""
    other = isinstance(run, NoisySGD) and isinstance(run.rule, Other)
    refuse_unenforceable(replace(run, update="sgd") if other and optimizer is not None else run)
    if optimizer is not None and not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        kind = type(optimizer).__name__
        raise InvalidInput("optimizer", f"expected an optax.GradientTransformation, got a {kind}")
    if optimizer is not None and not other:
        raise InvalidInput(
            "update",
            f'expected "other" for an optimizer, which composition alone covers, got {run.update!r}',
        )
    if run.unit != "record":
        raise InvalidInput(
            "unit", 'expected "record": pabi.learn.train averages the gradients of users'
        )
    if run.prox is not None:
        raise InvalidInput("prox", "expected none: pabi.learn.train applies proximal maps")
    capped = dict(run.loss.parameters).get("residual_cap", 1.0) != 1.0
    if run.clipping != "norm" or capped:
        field = "residual_cap" if capped else "clipping"
        raise InvalidInput(
            field, "expected whole gradients clipped by norm: pabi.learn.train clips residuals"
        )


def _flat(jax: Any, params: Any) -> tuple[Array, Callable[[Any], Any]]:
    """(the parameters as one vector of doubles, what makes parameters of a vector)."""
    leaves = jax.tree.leaves(params)
    if not leaves or any(np.asarray(leaf).dtype.kind != "f" for leaf in leaves):
        raise InvalidInput("params", "expected a pytree of arrays of floating-point numbers")
    doubles = jax.tree.map(partial(np.asarray, dtype=np.float64), params)
    # A module of its own, which `import jax` alone does not load.
    flat, unravel = extra("jax.flatten_util", "jax").ravel_pytree(doubles)
    return starting_point(flat), unravel


def _records(jax: Any, data: Any, n: int) -> Any:
    """The data on the device. Raises InvalidInput unless every array has n rows of real numbers."""
    lengths = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(data)}
    if lengths != {n}:
        seen = ", ".join(map(str, sorted(lengths))) or "no arrays"
        raise InvalidInput("data", f"expected arrays of n = {n} rows each, got {seen}")
    records = unshown("data", lambda: jax.tree.map(jax.numpy.asarray, data))
    if any(leaf.dtype.kind == "c" for leaf in jax.tree.leaves(records)):
        raise InvalidInput("data", "expected real numbers, got complex ones")
    return records


def _program_of(jax: Any, loss: Any, *, params: Any, records: Any) -> Any:
    """The program of a record's loss. Raises InvalidInput unless that is a real scalar that JAX computes by
    itself.

    Only shapes are looked at.
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), records)
    shape = jax.eval_shape(loss, params, one)
    if getattr(shape, "shape", None) != ():
        raise InvalidInput("per_example_loss", f"expected a scalar for one record, got {shape}")
    if shape.dtype.kind != "f":
        raise InvalidInput("per_example_loss", f"expected a real number, got {shape.dtype}")
    refuse_callbacks(jax, "per_example_loss", jax.make_jaxpr(jax.grad(loss))(params, one))
    return jax.make_jaxpr(loss)(params, one)


def _refuse_other_chains(jax: Any, optimizer: Any, start: Array) -> None:
    """Raises InvalidInput unless a chain steps by noisy gradients alone; no record is there yet."""
    if optimizer is None:
        return
    traced, failure = None, ""
    try:
        carried = Carried(start, optimizer.init(start))
        step = moved(jax, Other(), optimizer)
        several = partial(jax.lax.scan, lambda each, way: (step(each, way, None), None))
        traced = jax.make_jaxpr(several)(carried, np.zeros((2, *start.shape)))
    except Exception as error:
        failure = type(error).__name__
    if traced is None:
        raise InvalidInput(
            "optimizer",
            "expected a chain that makes a step of a noisy gradient alone, all parameters in one vector, got "
            f"one that fails ({failure}): masks for a pytree, and what follows values of the loss (plateau, "
            "L-BFGS), are not among them",
        )
    refuse_callbacks(jax, "optimizer", traced)


def _read_only(leaf: Any) -> Array:
    values = np.array(leaf)
    values.flags.writeable = False
    return values


class _Loop:
    """The steps of a run, compiled for parts of it that the device holds."""

    def __init__(
        self, jax: Any, run: NoisySGD, loss: tuple[Any, Any], optimizer: Any, start: Array
    ) -> None:
        """`loss`: its program, and what makes parameters of a vector."""
        self._jax, self._run, self._optimizer = jax, run, optimizer
        self._width = _width(run)
        limit = Limit.of(run, self._width)
        program, self._unravel = loss
        self._sum = gradients_of(
            jax, program, self._unravel(start), limit=limit, one_by_one=run.order.fresh
        )
        self._step = moved(jax, run.rule, optimizer)
        self._part = jax.jit(self._steps)

    def last(self, start: Array, records: Any, generator: np.random.Generator) -> Array:
        """The last iterate. Every local here is secret but the result."""
        carried = Carried(start, self._state(start))
        for columns in self._columns(start, generator):
            carried = self._part(carried, records, columns)
        run, x = self._run, np.array(carried.x, dtype=np.float64)
        if run.rule.plain:
            step_sizes, noises = run.schedule(run.steps - 1, run.steps)
            x = on_grid(x, float(step_sizes[0]) * float(noises[0] * noise_factor(run)))
        return x

    def _state(self, start: Array) -> Any:
        return (
            self._run.rule.start(start) if self._optimizer is None else self._optimizer.init(start)
        )

    def _steps(self, carried: Any, records: Any, columns: Any) -> Any:
        """So many steps in turn; traced by JAX."""
        return self._jax.lax.scan(partial(self._one, records), carried, columns)[0]

    def _one(self, records: Any, carried: Any, column: Any) -> Any:
        jax, run = self._jax, self._run
        rows = column["rows"]
        batch = jax.tree.map(lambda leaf: leaf[rows], records)
        gradient = self._sum(self._unravel(carried.x), batch, rows >= 0) / run.batch_size
        direction = direction_of(jax, carried.x, gradient, column=column, l2=run.loss.l2)
        return self._step(carried, direction, column), None

    def _columns(self, start: Array, generator: np.random.Generator) -> Iterator[dict[str, Any]]:
        """What so many steps need from the host, drawn in the order of `pabi.learn.train`."""
        run, factor = self._run, noise_factor(self._run)
        batches = batch_rows(run, generator)
        together = max(1, _HELD // (start.size + self._width))
        for first in range(0, run.steps, together):
            end = min(first + together, run.steps)
            step_sizes, stated = run.schedule(first, end)
            stds = stated * factor
            rows, noise = [], []
            for k in range(first, end):
                batch = batches.batch(k) if k < run.data_steps else None
                rows.append(np.zeros(0, dtype=np.intp) if batch is None else numbers_of(batch))
                noise.append(stds[k - first] * generator.standard_normal(start.shape))
            grids = [None if run.rule.plain else grid_of(float(std)) for std in stds]
            yield {
                "rows": _filled(rows, self._width),
                "noise": np.array(noise),
                "step_size": step_sizes,
                "grid": np.array([grid or 0.0 for grid in grids]),
                "k": np.arange(first, end),
            }


def _width(run: NoisySGD) -> int:
    """Records of a batch that the loop is compiled for: the largest, but for a probability of nothing."""
    sizes = run.order.sizes
    return sizes.most if isinstance(sizes, FixedSizes) else max(1, sizes.covered(_NEVER)[0])


def _filled(batches: list[Any], width: int) -> Array:
    """(steps, width) row numbers, −1 where there is no record."""
    widest = max([width, *(len(batch) for batch in batches)])
    rows = np.full((len(batches), widest), -1)
    for filled, batch in zip(rows, batches, strict=True):
        filled[: len(batch)] = batch
    return rows


# The batch selection of jax-privacy as batch schemes of pabi.


def from_batch_selection(strategy: Any, *, n: int, divisor: int) -> Batches:
    """The batch scheme that a strategy of jax-privacy draws.

    Parameters
    ----------
    strategy : jax_privacy.batch_selection.BatchSelectionStrategy
        `CyclicPoissonSampling` with cycle_length=1, `BallsInBinsSampling` or `FixedBatchSampling`.
    n : int
        Records.
    divisor : int
        What the training divides a batch's sum by, whatever the batch's own length.

    Returns
    -------
    Batches
        `Poisson`, `BallsInBins`, whose bins are drawn once for all cycles, or `FixedSize`. A run has as many
        steps as `strategy.iterations` says.

    Raises
    ------
    InvalidInput
        For a strategy that no scheme fits: cycles of Poisson batches, b-min-sep sampling, batches that are
        cut, draws with replacement, and a divisor other than the size of fixed batches, or one of which
        ⌈n/divisor⌉ is not the number of bins.

    References
    ----------
    docs, "I use optax".
    """
    selection = extra("jax_privacy.batch_selection", "jax")
    n, divisor = COUNT("n", n), COUNT("divisor", divisor)
    if type(strategy) is selection.CyclicPoissonSampling:
        return _poisson(strategy, divisor)
    if type(strategy) is selection.BallsInBinsSampling:
        return _bins(strategy, n, divisor)
    if type(strategy) is selection.FixedBatchSampling:
        return _fixed(strategy, divisor)
    raise _refusal(f"a {type(strategy).__name__}")


def _refusal(what: str) -> InvalidInput:
    return InvalidInput("strategy", f"expected batches that pabi has a scheme for, got {what}")


def _poisson(strategy: Any, divisor: int) -> Poisson:
    if strategy.cycle_length != 1:
        raise _refusal(f"Poisson sampling in a cycle of {strategy.cycle_length}")
    if strategy.truncated_batch_size is not None:
        raise _refusal("batches that are cut: one record's membership then depends on the others")
    return Poisson(divisor, probability=strategy.sampling_prob)


def _bins(strategy: Any, n: int, divisor: int) -> BallsInBins:
    bins = BallsInBins(divisor)
    if bins.per_epoch(n) != strategy.cycle_length:
        raise InvalidInput(
            "divisor",
            f"expected one with ⌈n/divisor⌉ = {strategy.cycle_length}, the number of bins, got {divisor}",
        )
    return bins


def _fixed(strategy: Any, divisor: int) -> FixedSize:
    if strategy.replace:
        raise _refusal("draws with replacement: a record can be in a batch twice")
    if strategy.batch_size != divisor:
        raise InvalidInput(
            "divisor", f"expected {strategy.batch_size}, the size of batches, got {divisor}"
        )
    return FixedSize(divisor)

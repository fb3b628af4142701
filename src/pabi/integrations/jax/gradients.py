"""Sums of clipped gradients by JAX, most of which are never formed.

A layer multiplies a matrix of parameters with one vector. A record's gradient in that matrix is an outer
product: its norm follows from both factors, and the sum over a batch is one product of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pabi.execute.blocks import refuse_small
from pabi.execute.sums import Limit
from pabi.numbers.errors import extra
from pabi.numbers.rounding import HALF_ULP

_SHORTEST, _LONGEST = 1e-140, 1e140  # of vectors whose lengths are computed by their squares
_TINIEST = 2.0**-1000  # far above the least double over the unit of rounding


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
        # A new function: of one that it knows JAX returns the same program, with the same variables.
        sum_of = jax.make_jaxpr(lambda a, b: a + b)(result.aval, result.aval).jaxpr
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
    return core.jaxpr_as_fun(closed.replace(jaxpr=changed))  # type: ignore[no-any-return]


def gradients_of(
    jax: Any, program: Any, params: Any, *, limit: Limit, one_by_one: bool
) -> Callable[[Any, Any, Any], Any]:
    """(parameters, batch, whether a row holds a record) ↦ the sum of the clipped gradients, a vector.

    `program`: of the loss of a record. `params`: parameters of these shapes. `one_by_one`: in a loop whose
    every turn is the same program, so that a record's gradient does not depend on its place, nor on whether
    others are finite, as it may where many are computed at once.
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

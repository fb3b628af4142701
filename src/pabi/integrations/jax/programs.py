"""What the programs that JAX traced of a user's functions do, and what they may not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pabi.numbers.errors import extra, require

_OUTSIDE = ("callback", "debug", "print", "infeed", "outfeed")
# XLA multiplies every record's kernels with all records and keeps its own: 0·∞ is NaN for the others. So it
# may where rows are multiplied by groups. Then come functions of the user's that are given all records at
# once, and random bits, which are those of the first record's key for all.
_MIXED = (
    "conv_general_dilated",
    "ragged_dot_general",
    "custom_vmap_call",
    "ffi_call",
    "rng_bit_generator",
)
_POINTS, _ROUNDINGS = (
    8,
    1e-6,
)  # at which gradients are compared, and how far directions may be apart
_THREEFRY = "key<fry>"  # the keys of which several at once are used each by itself


def operations(jax: Any, program: Any) -> Iterator[Any]:
    """All operations, those of inner programs as well."""
    for operation in program.eqns:
        yield operation
        for value in jax.tree.leaves(
            list(operation.params.values()), is_leaf=lambda each: hasattr(each, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from operations(jax, inner)


def refuse_callbacks(jax: Any, field: str, traced: Any) -> None:
    """Raises InvalidInput where a traced program calls back to Python, as what prints does."""
    for operation in operations(jax, traced.jaxpr):
        name = operation.primitive.name
        require(
            not any(word in name for word in _OUTSIDE),
            field,
            f"expected what JAX computes by itself, got a call to Python ({name}), which could show a "
            "record or a hidden iterate",
        )


def mixes(jax: Any, traced: Any) -> bool:
    """Whether what is computed of several records at once may depend on the others."""
    return any(
        operation.primitive.name in _MIXED
        or any(kind.startswith("key<") and kind != _THREEFRY for kind in _types(operation))
        for operation in operations(jax, traced.jaxpr)
    )


def refuse_short(jax: Any, field: str, traced: Any) -> None:
    """Raises InvalidInput where a traced program makes shorter numbers of doubles."""
    for operation in operations(jax, traced.jaxpr):
        shorter = {str(result.aval.dtype) for result in operation.outvars if _is_short(result)}
        doubles = any(_dtype(operand) == np.float64 for operand in operation.invars)
        name = operation.primitive.name
        require(
            not (doubles and shorter) and name != "reduce_precision",
            field,
            "expected double precision throughout, since rounding may carry runs of a hidden path apart, "
            f'got {", ".join(sorted(shorter)) or "fewer digits"} ({name}); release="path" allows it',
        )


def refuse_several_directions(jax: Any, field: str, traced: Any) -> None:
    """Raises InvalidInput where a traced gradient of one record, in its first inputs, the parameters, is not
    a multiple of one vector wherever it is taken, as that of a linear model with one output is.

    Made-up records are looked at, and no others.
    """
    kinds, generator = [variable.aval for variable in traced.jaxpr.invars], np.random.default_rng(0)
    if not all(isinstance(kind.dtype, np.dtype) for kind in kinds):
        return  # nothing is made up for keys
    count = len(traced.jaxpr.outvars)
    example = [_made_up(kind, generator) for kind in kinds[count:]]
    # A module of its own, which `import jax` alone does not load.
    gradient = jax.jit(extra("jax.extend.core", "jax").jaxpr_as_fun(traced))
    gradients = [
        gradient(*(_made_up(kind, generator) for kind in kinds[:count]), *example)
        for _ in range(_POINTS)
    ]
    rows = np.array([np.concatenate([np.ravel(leaf) for leaf in each]) for each in gradients])
    norms = np.linalg.norm(rows, axis=1)
    rows = rows[(norms > 0.0) & np.isfinite(norms)]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    require(
        np.all(np.abs(rows @ rows.T) > 1.0 - _ROUNDINGS),
        field,
        "expected gradients of a record that are multiples of one vector, as the loss of the run says (glm), "
        "got others for made-up numbers: a network is pabi.Loss.unknown(), and l2 belongs to the run alone",
    )


def _made_up(kind: Any, generator: np.random.Generator) -> Any:
    """Numbers of a type and shape; whole ones may be labels or places in a table."""
    whole = kind.dtype.kind in "iub"
    drawn = generator.integers(0, 2, kind.shape) if whole else generator.normal(size=kind.shape)
    return np.asarray(drawn, dtype=kind.dtype)


def _dtype(variable: Any) -> Any:
    return getattr(variable.aval, "dtype", None)


def _types(operation: Any) -> list[str]:
    return [str(_dtype(variable)) for variable in (*operation.invars, *operation.outvars)]


def _is_short(variable: Any) -> bool:
    kind = _dtype(variable)
    # Of the short types that numpy lacks, such as bfloat16, the kind is "V".
    return isinstance(kind, np.dtype) and kind.kind in "fV" and kind.itemsize < 8

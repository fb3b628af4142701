"""What the programs that JAX traced of a user's functions do, and what they may not do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
_POINTS = 8  # at which gradients are compared
_ROUNDINGS = 1e-6  # relative: by how much they may be apart
_THREEFRY = "key<fry>"  # the keys of which several at once are used each by itself
_KEYS = {_THREEFRY: "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}  # their names


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


def refuse_networks(jax: Any, field: str, traced: Any, *, outputs: bool) -> None:
    """Raises InvalidInput where a traced gradient of one record, in its first inputs, the parameters, is not
    such as that of a linear model wherever it is taken: a multiple of one vector, or with several `outputs`
    one of these for each, in every array of more than one dimension.

    Made-up records are looked at, and no others.
    """
    gradients = _at_made_up_points(jax, field, traced)
    if outputs:
        fine, expected = all(map(_by_outputs, zip(*gradients, strict=True))), "for each output"
    else:
        flat = [np.concatenate([np.ravel(leaf) for leaf in each]) for each in gradients]
        fine, expected = _along_one(np.array(flat).T), "as the loss of the run says (glm)"
    require(
        fine,
        field,
        f"expected gradients of a record that are multiples of one vector, {expected}, got others for "
        "made-up numbers: a network is pabi.Loss.unknown(), and l2 belongs to the run alone",
    )


def _by_outputs(gradients: Sequence[Any]) -> bool:
    """Whether gradients in one array are x ⊗ r of the same x, r of some of the array's first dimensions or of
    some of its last ones."""
    shape = np.shape(gradients[0])
    for first in range(1, len(shape)):
        tables = [np.reshape(leaf, (math.prod(shape[:first]), -1)) for leaf in gradients]
        if _along_one(np.hstack(tables)) or _along_one(np.vstack(tables).T):
            return True
    return len(shape) < 2


def _along_one(columns: Any) -> bool:
    """Whether all columns are multiples of one; those that are not finite do not count."""
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    norms = np.linalg.norm(columns, axis=0)
    if not norms.any():
        return True
    along = columns[:, norms.argmax()] / norms.max()
    rest = columns - np.outer(along, along @ columns)
    return bool((np.linalg.norm(rest, axis=0) <= _ROUNDINGS * norms).all())


def _at_made_up_points(jax: Any, field: str, traced: Any) -> list[Any]:
    """The gradients of one made-up record at several points, each in all arrays of parameters. Raises
    InvalidInput for a record with keys of a kind for which nothing can be made up."""
    kinds, generator = [variable.aval for variable in traced.jaxpr.invars], np.random.default_rng(0)
    count = len(traced.jaxpr.outvars)
    example = [
        _made_up(kind, generator) if isinstance(kind.dtype, np.dtype) else _keys(jax, field, kind)
        for kind in kinds[count:]
    ]
    # A module of its own, which `import jax` alone does not load.
    gradient = jax.jit(extra("jax.extend.core", "jax").jaxpr_as_fun(traced))
    return [
        gradient(*(_made_up(kind, generator) for kind in kinds[:count]), *example)
        for _ in range(_POINTS)
    ]


def _made_up(kind: Any, generator: np.random.Generator) -> Any:
    """Numbers of a type and shape; whole ones may be labels or places in a table."""
    whole = kind.dtype.kind in "iub"
    drawn = generator.integers(0, 2, kind.shape) if whole else generator.normal(size=kind.shape)
    return np.asarray(drawn, dtype=kind.dtype)


def _keys(jax: Any, field: str, kind: Any) -> Any:
    """Keys of a type and shape."""
    name = _KEYS.get(str(kind.dtype))
    require(name is not None, field, f"expected keys of JAX's own generators, got {kind.dtype}")
    key = jax.random.key(0, impl=name)
    return jax.random.split(key, kind.shape) if kind.shape else key


def _dtype(variable: Any) -> Any:
    return getattr(variable.aval, "dtype", None)


def _types(operation: Any) -> list[str]:
    return [str(_dtype(variable)) for variable in (*operation.invars, *operation.outvars)]


def _is_short(variable: Any) -> bool:
    kind = _dtype(variable)
    # Of the short types that numpy lacks, such as bfloat16, the kind is "V".
    return isinstance(kind, np.dtype) and kind.kind in "fV" and kind.itemsize < 8

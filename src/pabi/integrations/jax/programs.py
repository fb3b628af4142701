"""What the programs that JAX traced of a user's functions do, and what they may not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pabi.numbers.errors import require

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
        made = {str(result.aval.dtype) for result in operation.outvars if _is_short(result)}
        doubles = any(_dtype(operand) == np.float64 for operand in operation.invars)
        name = operation.primitive.name
        require(
            not (doubles and made) and name != "reduce_precision",
            field,
            "expected double precision throughout, since rounding may carry runs of a hidden path apart, "
            f'got {", ".join(sorted(made)) or "fewer digits"} ({name}); release="path" allows it',
        )


def _dtype(variable: Any) -> Any:
    return getattr(variable.aval, "dtype", None)


def _types(operation: Any) -> list[str]:
    return [str(_dtype(variable)) for variable in (*operation.invars, *operation.outvars)]


def _is_short(variable: Any) -> bool:
    kind = _dtype(variable)
    # Of the short types that numpy lacks, such as bfloat16, the kind is "V".
    return isinstance(kind, np.dtype) and kind.kind in "fV" and kind.itemsize < 8

"""The kinds of losses, one row of a table each: parameters, facts, sentences.

To add a kind, write its row here, or its class in `pabi.describe.linear_losses` if it is the loss of a
linear model, and its constructor in `pabi.describe.losses`. The verifier derives everything for itself, and
needs a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from pabi.describe.gradient_steps import dissipative
from pabi.describe.linear_losses import LINEAR_LOSSES, kind_of
from pabi.describe.loss_facts import (
    ITERATES,
    Constraints,
    Facts,
    Kind,
    Pairs,
    Parameters,
    curvature_known,
    holder_pairs,
)
from pabi.describe.moduli import Modulus, finite_or_unbounded
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import NONNEGATIVE, POSITIVE, SHARE, flag, optional
from pabi.numbers.rounding import TINY, fraction_up, up

# What may be said of most losses; see `Facts`.
_CLIPPING: Constraints = {"glm": flag, "separable": flag}
_OPTIONS: Constraints = {"gradient_bound": optional(POSITIVE), **_CLIPPING}


def _stated(p: Parameters) -> dict[str, Any]:
    return {
        "gradient_bound": p.get("gradient_bound"),
        "glm": bool(p.get("glm", False)),
        "separable": bool(p.get("separable", False)),
    }


# Smooth losses, by their curvature.


def _smooth(
    least: Callable[[Parameters], float],
    required: Constraints,
    ordered: tuple[str, str] | None = None,
) -> Kind:
    """The kind of losses of curvature [least, smoothness]."""
    return Kind(
        required={**required, "smoothness": POSITIVE},
        optional=_OPTIONS,
        ordered=ordered,
        facts=lambda p: Facts((least(p), p["smoothness"]), **_stated(p)),
        sentences=curvature_known,
    )


# Convex losses that need not be smooth.


def _lipschitz(p: Parameters) -> Facts:
    stated = _stated(p) | {"gradient_bound": p["constant"]}
    return Facts(convex_holder=((0.0, 2.0 * p["constant"]),), **stated)


def _about_lipschitz(subject: str, p: Parameters, _: Facts) -> list[str]:
    return [
        f"{subject} is convex, with subgradients of norm at most {p['constant']!r}, on {ITERATES}"
    ]


def _weakly_smooth(p: Parameters) -> Facts:
    smooth = [m for exponent, m in p["pairs"] if exponent == 1.0]
    bound = p.get("gradient_bound")
    bounded: Pairs = () if bound is None else ((0.0, 2.0 * bound),)
    curvature = (0.0, min(smooth)) if smooth else None
    return Facts(curvature, convex_holder=(*p["pairs"], *bounded), **_stated(p))


def _about_weakly_smooth(subject: str, p: Parameters, _: Facts) -> list[str]:
    pairs = ", ".join(f"{m!r}·‖x − y‖^{q!r}" for q, m in p["pairs"])
    return [f"{subject} is convex on all of ℝ^d, and its gradients differ by at most {pairs} there"]


# Losses with a Hölder gradient that need not be convex.

# ln of the distances at which a tangent touches: between two, it is at most 2 % of the power too high.
_TANGENTS = [math.log(1e-9) + 0.75 * i for i in range(56)]
_ABOVE = 1.0 + 1e-12  # above the roundings of logarithms and powers


def _holder(p: Parameters) -> Facts:
    constant = p["constant"]
    return Facts((-constant, constant) if p["exponent"] == 1.0 else None, **_stated(p))


def _holder_rows(p: Parameters, step: Fraction, clips: bool) -> list[Modulus]:
    """Tangents of δ + eMδ^p, which is concave.

    A clip moves no two gradients apart, so that it survives any.
    """
    exponent, product = p["exponent"], fraction_up(step * Fraction(p["constant"]))
    if exponent == 1.0:
        return [
            finite_or_unbounded(Modulus.linear, fraction_up(1 + step * Fraction(p["constant"])))
        ]
    if exponent == 0.0:
        return [finite_or_unbounded(Modulus.affine, 1.0, product)]
    rows = []
    for log in _TANGENTS:
        power = (math.log(product) + exponent * log) if product > 0.0 else -math.inf
        rise, shift = power - log + math.log(exponent), power + math.log1p(-exponent)
        if max(rise, shift) < 700.0:
            slope = up(1.0 + math.exp(rise) * _ABOVE)
            rows.append(
                finite_or_unbounded(Modulus.affine, slope, max(math.exp(shift) * _ABOVE, TINY))
            )
    return rows


def _about_holder(subject: str, p: Parameters, _: Facts) -> list[str]:
    differ = f"{p['constant']!r}·‖x − y‖^{p['exponent']!r}"
    return [f"{subject} has gradients that differ by at most {differ} on {ITERATES}"]


# Dissipative losses.


def _dissipative(p: Parameters) -> Facts:
    smoothness = p["smoothness"]
    return Facts((-smoothness, smoothness), dissipative=(p["offset"], p["rate"]), **_stated(p))


def _dissipative_rows(p: Parameters, step: Fraction, clips: bool) -> list[Modulus]:
    if clips:
        return []
    offset, rate, smoothness = (Fraction(p[name]) for name in ("offset", "rate", "smoothness"))
    return [dissipative(step, offset=offset, rate=rate, smoothness=smoothness)]


def _about_dissipative(subject: str, p: Parameters, facts: Facts) -> list[str]:
    return [
        *curvature_known(subject, p, facts),
        f"its gradients g satisfy ⟨g(x) − g(y), x − y⟩ ≥ {p['rate']!r}·‖x − y‖² − {p['offset']!r} there",
    ]


# Convex–concave functions.


def _saddle(p: Parameters) -> Facts:
    return Facts(gradient_bound=p["constant"], monotone=p.get("smoothness", math.inf))


def _about_saddle(subject: str, p: Parameters, _: Facts) -> list[str]:
    smooth = f" and {p['smoothness']!r}-Lipschitz" if "smoothness" in p else ""
    return [
        f"{subject} is convex in the variables that descend and concave in those that ascend; its field is "
        f"of norm at most {p['constant']!r}{smooth}, on {ITERATES}"
    ]


# Losses of which nothing is known but perhaps the size of their gradients.


def _unknown(p: Parameters) -> Facts:
    return Facts(None, p.get("gradient_bound"))


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **{name: kind_of(cls) for name, cls in LINEAR_LOSSES.items()},
        "convex": _smooth(lambda p: 0.0, {}),
        "strongly_convex": _smooth(
            lambda p: p["strong_convexity"],
            {"strong_convexity": POSITIVE},
            ("strong_convexity", "smoothness"),
        ),
        "nonconvex": _smooth(lambda p: -p["smoothness"], {}),
        "weakly_convex": _smooth(
            lambda p: -p["weak_convexity"],
            {"weak_convexity": POSITIVE},
            ("weak_convexity", "smoothness"),
        ),
        "lipschitz": Kind(
            required={"constant": POSITIVE},
            optional=_CLIPPING,
            facts=_lipschitz,
            sentences=_about_lipschitz,
        ),
        "weakly_smooth": Kind(
            required={"pairs": holder_pairs},
            optional=_OPTIONS,
            facts=_weakly_smooth,
            sentences=_about_weakly_smooth,
        ),
        "holder": Kind(
            required={"exponent": SHARE, "constant": POSITIVE},
            optional=_OPTIONS,
            facts=_holder,
            rows=_holder_rows,
            sentences=_about_holder,
        ),
        "dissipative": Kind(
            required={"offset": NONNEGATIVE, "rate": POSITIVE, "smoothness": POSITIVE},
            optional=_OPTIONS,
            facts=_dissipative,
            rows=_dissipative_rows,
            sentences=_about_dissipative,
        ),
        "saddle": Kind(
            required={"constant": POSITIVE},
            optional={"smoothness": optional(POSITIVE)},
            facts=_saddle,
            sentences=_about_saddle,
        ),
        "unknown": Kind(
            required={}, optional=_OPTIONS, facts=_unknown, sentences=lambda subject, p, facts: []
        ),
    }
)


def checked(kind: str, stated: Parameters) -> dict[str, Any]:
    """`stated` with every parameter checked and converted, in the same order. Raises InvalidInput."""
    if kind not in KINDS:
        raise InvalidInput("kind", f"expected one of {', '.join(KINDS)}, got {kind!r}")
    row, values = KINDS[kind], dict(stated)
    for name, check in row.required.items():
        if name not in values:
            raise InvalidInput(name, f"missing: a {kind} loss needs it")
        values[name] = check(name, values[name])
    for name in sorted(set(values) - {*row.required, *row.optional}):
        raise InvalidInput(name, f"a {kind} loss has no such parameter")
    for name, check in row.optional.items():
        if name in values:
            values[name] = check(name, values[name])
    if row.ordered is not None:
        low, high = row.ordered
        if values[low] > values[high]:
            raise InvalidInput(
                low, f"expected at most {high} = {values[high]!r}, got {values[low]!r}"
            )
    return values

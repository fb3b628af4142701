"""What several draws of the same kind cost together."""

from __future__ import annotations

from dataclasses import replace

from pabi.guarantees.guarantee import INDEPENDENT, Composed, Guarantee


def repeated(guarantee: Guarantee, times: int) -> Guarantee:
    """The guarantee of `times` independent releases that each have this one.

    It is that of `pabi.compose`, with the method named once. Source: Dong, Roth, Su 2022, Thm 3.2.
    """
    if times == 1:
        return guarantee
    reference = guarantee.composition
    return replace(
        guarantee,
        curve=guarantee.curve.self_compose(times),
        composition=None if reference is None else reference.self_compose(times),
        method=f"{guarantee.method}, {times} times",
        assumptions=(*guarantee.assumptions, INDEPENDENT),
        proof=None if guarantee.proof is None else Composed([guarantee] * times),
    )

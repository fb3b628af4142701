"""What a guarantee of releases that were chosen one after the other assumes (docs, "Theory", 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.showing import exact
from pabi.tradeoff import RenyiDP

ENTERED = (
    "every release from the same data was entered in one ledger before its data were read, and each was "
    "chosen from earlier releases and from what does not depend on the data"
)


def refusing_above(mu: float) -> str:
    """The sentence that a ledger refused whatever would have brought Σμ² above the square of `mu`.

    Parameters
    ----------
    mu : float
        The bound, μ ≥ 0.

    Returns
    -------
    str
    """
    return (
        f"the ledger refused every release that would have brought the sum of μ² above {exact(mu)}², a bound "
        "fixed before the first of them"
    )


def refusing_divergences_above(order: float, rho: float) -> str:
    """The sentence that a ledger refused whatever would have brought the sum of divergences above `rho`.

    Parameters
    ----------
    order : float
        The order of the Rényi divergences, > 1.
    rho : float
        The bound, ≥ 0.

    Returns
    -------
    str
    """
    return (
        "the ledger refused every release that would have brought the sum of Rényi divergences of order "
        f"{exact(order)} above {exact(rho)}, both fixed before the first of them"
    )


@dataclass(frozen=True, eq=False)
class AdaptivelyComposed:
    """The proof of releases that were chosen one after the other: those of its parts, and the bound."""

    parts: Sequence[Guarantee]
    mu: float
    theorem: ClassVar[str] = "adaptive composition"

    def written(self) -> dict[str, Any]:
        """The certificate of every part, and the bound, which is the claim."""
        return {"parts": _payloads(self.parts), "claim": {"mu": self.mu}}


@dataclass(frozen=True, eq=False)
class AdaptivelyComposedDivergences:
    """The same under a bound on the sum of Rényi divergences of one order."""

    parts: Sequence[Guarantee]
    order: float
    rho: float
    theorem: ClassVar[str] = "adaptive composition of divergences"

    def written(self) -> dict[str, Any]:
        """The certificate of every part, and the order and the bound, which are the claim."""
        claim = {"tradeoff": RenyiDP(self.order, self.rho).to_dict()}
        return {"parts": _payloads(self.parts), "claim": claim}


def _payloads(parts: Sequence[Guarantee]) -> list[dict[str, Any] | None]:
    every = [part.certificate for part in parts]
    return [None if c is None else c.payload for c in every]

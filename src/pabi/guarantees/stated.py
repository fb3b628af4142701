"""A mechanism that pabi did not make, known by its trade-off function alone.

Nothing derives that function here: it is taken as its owner states it, and one of the assumptions says so.
What a checker can still do is to compare every reading with it, and to compose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, assert_never

from pabi.numbers.errors import InvalidInput
from pabi.tradeoff import (
    ApproxDP,
    Best,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    Grouped,
    Laplace,
    Mixture,
    PoissonReplaced,
    PoissonSubsampled,
    PrivacyLossDistribution,
    Product,
    RenyiDP,
    SecretMixture,
    Selected,
    Subsampled,
    TradeOff,
)
from pabi.tradeoff.directions import one_order
from pabi.tradeoff.kinds import Curve, known_curve

# Of random batches: a certificate holds them in products alone.
_DRAWN = Subsampled | PoissonSubsampled | PoissonReplaced | FixedSizeSubsampled
_MOST_SECRET = 64  # equal mixtures of which a label stays secret, in one certificate


def stated_sentence(method: str, source: str) -> str:
    """The sentence that nobody but its owner vouches for a mechanism.

    Parameters
    ----------
    method, source : str
        What the mechanism is called, and where its trade-off function comes from.

    Returns
    -------
    str
    """
    return (
        f"the mechanism {method!r} reveals no more than the stated trade-off function, whatever was "
        f"released before it: so says {source!r}, and no checker derives it"
    )


def stated_curve(tradeoff: object) -> Curve:
    """`tradeoff` if a mechanism may be stated by it: of a known kind, and for both orders of the data sets.

    A random batch is a product of one factor.

    Parameters
    ----------
    tradeoff : object
        What the owner of a mechanism states.

    Returns
    -------
    TradeOff
        The same function.

    Raises
    ------
    InvalidInput
        For anything else.
    """
    curve = known_curve(tradeoff)
    if isinstance(curve, _DRAWN):
        curve = Product(((curve, 1),))  # as which a certificate holds it
    if one_order(curve.orientation):
        raise InvalidInput(
            "tradeoff",
            f"expected a function for both orders of the data sets, got {curve!r}; use .symmetrised()",
        )
    return curve


def words(field: str, value: Any) -> str:
    """`value` if it is a text that says something. Raises InvalidInput naming `field`."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(field, f"expected a text, got {value!r}")
    return value


def sentences(field: str, values: Any) -> tuple[str, ...]:
    """`values` as a tuple of texts. Raises InvalidInput naming `field`."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidInput(field, f"expected a sequence of sentences, got {values!r}")
    return tuple(words(field, value) for value in values)


def writable(curve: TradeOff) -> bool:
    """Whether a certificate can hold the function: closed forms, products, bests, selections, groups."""
    match known_curve(curve):
        case Gaussian() | Mixture() | BoundedRange() | RenyiDP():
            return True
        case Subsampled() | PoissonSubsampled() | PoissonReplaced() | FixedSizeSubsampled():
            return True
        case SecretMixture():
            return True
        case Selected(base=base) | Grouped(base=base):
            return writable(base)
        case Laplace(probability=p):
            return p == 1.0
        case ApproxDP(delta_0=delta):
            return delta == 0.0
        case Product(factors=factors):
            mixtures = sum(k for factor, k in factors if isinstance(factor, Mixture))
            secret = max(
                (k for factor, k in factors if isinstance(factor, SecretMixture)), default=0
            )
            few = mixtures <= 1 and secret <= _MOST_SECRET
            return few and all(writable(factor) for factor, _ in factors)
        case Best(parts=parts):
            alone = any(isinstance(part, _DRAWN) for part in parts)
            return not alone and all(map(writable, parts))
        case PrivacyLossDistribution():
            return False
        case other:
            assert_never(other)


@dataclass(frozen=True, eq=False)
class StatedProof:
    """The certificate of a stated mechanism: its name, and the function that is claimed."""

    curve: TradeOff
    method: str
    source: str
    theorem: ClassVar[str] = "stated mechanism"

    def written(self) -> dict[str, Any]:
        """The body of the certificate."""
        return {
            "mechanism": {"method": self.method, "source": self.source},
            "claim": {"tradeoff": self.curve.to_dict()},
        }

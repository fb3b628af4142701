"""A mechanism that pabi did not make, known by its trade-off function alone.

Nothing derives that function here: it is taken as its owner states it, and one of the assumptions says so.
What a checker can still do is to compare every reading with it, and to compose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from pabi.convert.gdp import gdp_epsilon_bounds, gdp_to_delta
from pabi.describe.accounted import RETRAINED, Compared
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import down
from pabi.numbers.search import bisected
from pabi.numbers.showing import exact, shown
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
from pabi.tradeoff.base import one_order
from pabi.tradeoff.kinds import Curve, known_curve

# The Gaussian that agrees with a trade-off function at one δ, to compare releases by one number.


def mu_equivalent(curve: TradeOff, delta: float) -> float:
    """The least μ at which a Gaussian's ε at δ is no less than the curve's, a double above it."""
    if isinstance(curve, Gaussian):
        return curve.mu
    epsilon = curve.epsilon(delta)
    if math.isinf(epsilon):
        return math.inf
    if epsilon == 0.0:  # many Gaussians have that: the one that reveals as much at ε = 0
        reached = curve.delta(0.0)  # what is computed of G(μ) is at most an ulp above the truth
        return _least(lambda mu: reached == 0.0 or down(down(gdp_to_delta(mu, 0.0))) >= reached)
    return _least(lambda mu: gdp_epsilon_bounds(mu, delta)[0] >= epsilon)


def _least(holds: Callable[[float], bool]) -> float:
    """The least μ ≥ 0 from which on `holds` is true, a double above it; ∞ beyond the doubles."""
    if holds(0.0):
        return 0.0
    high = 1.0
    while high < math.inf and not holds(high):
        high *= 2.0
    return bisected(holds, 0.0, high)[1] if high < math.inf else high


# What a guarantee is, in a few words.


_WHOM = {"record": "one record", "user": "one user, with all records of that user"}
_WITHDRAWN = {
    "record": "the withdrawn records, all together",
    "user": "the withdrawn users, all together, with all records of each",
}
_ADJACENT: dict[Compared, tuple[str, str]] = {  # of one unit, of several
    "replace_one": ("{} is replaced by any other", "{} are replaced by any others"),
    "zero_out": ("the contribution of {} becomes zero, while n and all divisors stay",) * 2,
    "retrained": (
        "the model that went on after the requests is compared with one that was retrained, for as many "
        "steps, on the data as they are after the last of them",
    )
    * 2,
}
_GROUPS = "groups of "


def whom(adjacency: Compared, unit: str) -> str:
    """Whom a guarantee protects."""
    names = _WITHDRAWN if adjacency == RETRAINED else _WHOM
    return names.get(unit, f"{unit}, each group as a whole")


def adjacent(adjacency: Compared, unit: str) -> str:
    """What two adjacent data sets differ by, or what is compared where records were forgotten."""
    one, several = _ADJACENT[adjacency]
    if unit.startswith(_GROUPS):
        return several.format(f"up to {unit.removeprefix(_GROUPS)}")
    return one.format(f"one {unit}")


def curve_in_words(curve: TradeOff) -> str:
    """What kind of trade-off function it is, with its μ where it has some; short whatever its size."""
    match curve:
        case Mixture() as mixture:
            low, high = (shown(mixture.parts[k].mu, 4) for k in (0, -1))
            return f"average over {len(mixture.parts)} cases, μ from {low} to {high}"
        case Best() as best:
            return f"the best of {len(best.parts)} bounds"
        case Product() as product:
            return f"a product of {sum(k for _, k in product.factors)} factors"
        case Selected() as selection:
            return f"the best of {exact(selection.mean_trials)} runs, in the mean"
        case Grouped() as chain:
            return f"a chain of {chain.size}"
        case RenyiDP() as divergence:
            return (
                f"a Rényi divergence of {shown(divergence.rho)} at order {exact(divergence.order)}"
            )
        case Gaussian() as gaussian:
            return f"μ = {shown(gaussian.mu)}"
        case other:
            return repr(other)


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

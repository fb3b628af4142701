"""What a guarantee is, in a few words."""

from __future__ import annotations

from pabi.describe.neighbours import RETRAINED, Compared
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import Best, Gaussian, Grouped, Mixture, Product, RenyiDP, Selected, TradeOff

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

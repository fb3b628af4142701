"""Private selection, and releases chosen one after the other: what is guaranteed of all together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pabi.describe.accounted import checked_adjacency, require_alike, selection_sentences
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.mixtures import checked_shape, gamma_of
from pabi.numbers.rounding import Array, fraction_up
from pabi.numbers.showing import exact
from pabi.numbers.validate import exactly
from pabi.tradeoff import Gaussian, Mixture, TradeOff, average, selected
from pabi.tradeoff.certificate import Proof, Written
from pabi.tradeoff.guarantee import Guarantee
from pabi.tradeoff.mixture import merged
from pabi.tradeoff.product import rounded, unrounded

# What a guarantee of releases that were chosen one after the other assumes (docs, "Theory", 16).


ENTERED = (
    "every release from the same data was entered in one ledger before its data were read, and each was "
    "chosen from earlier releases and from what does not depend on the data"
)


def refusing_above(mu: float) -> str:
    """The sentence that a ledger refused whatever would have brought Σμ² above the square of `mu`."""
    return (
        f"the ledger refused every release that would have brought the sum of μ² above {exact(mu)}², a bound "
        "fixed before the first of them"
    )


def refusing_divergences_above(order: float, rho: float) -> str:
    """The sentence that a ledger refused whatever would have brought the sum of divergences above `rho`."""
    return (
        "the ledger refused every release that would have brought the sum of Rényi divergences of order "
        f"{exact(order)} above {exact(rho)}, both fixed before the first of them"
    )


def adaptively_composed(theorem: str, parts: Sequence[Guarantee], **claim: Any) -> Proof:
    """The proof of releases that were chosen one after the other: those of its parts, and the bound."""
    return Written(theorem, lambda: {"parts": [part._payload for part in parts], "claim": claim})


NAME = "private selection"
SOURCE = "docs, Theory, 17 (Theorem 23); Papernot, Steinke 2022, Definition 1"
_MOST_PARTS = 1024  # of an average over settings; more are raised onto a grid


def select(
    guarantee: Guarantee | Sequence[Guarantee],
    mean_trials: float,
    shape: float = 0.0,
    *,
    scoring: Guarantee | None = None,
) -> Guarantee:
    """The guarantee of releasing the best of K independent runs, K drawn in secret.

    K has the truncated negative binomial law: P(K = k) is proportional to (1 − γ)^k·Π_{l<k} (l + η)/(l + 1)
    for k ≥ 1, with γ from its mean. What is better must follow from what the runs release, such as a score on
    public data. The runs that were not the best, their number and how long they took stay hidden.

    Parameters
    ----------
    guarantee : Guarantee or sequence of Guarantee
        That of one run, its score included. Of several, one is drawn at every run, all equally likely: they
        have the same trade-off function, or Gaussians and mixtures of them.
    mean_trials : float
        E[K], in [1.01, 10⁶].
    shape : float
        η in (−1, 10]: 0 is the logarithmic law, 1 the geometric one. A smaller one costs less, but
        K varies more.
    scoring : Guarantee, optional
        Of the score alone, where a part of the records scores and does not train. A record is in one part, so
        that the worse of both counts. It is Gaussian.

    Returns
    -------
    Guarantee
        At every ε, δ is at most E[K]·δ(ε − (η + 1)·log R), δ of one run. Its certificate has
        those of the runs.

    Raises
    ------
    InvalidInput
        For numbers out of range, for anything but guarantees of one adjacency and unit, for those of
        forgetting, and for trade-off functions that have no average or no maximum here.

    References
    ----------
    docs, "Theory", 17; Papernot, Steinke 2022; Koskela, Redberg, Wang 2024.
    """
    trials = (guarantee,) if isinstance(guarantee, Guarantee) else tuple(guarantee)
    every = trials if scoring is None else (*trials, scoring)
    _check_alike(every)
    eta = checked_shape(shape)
    gamma = gamma_of(mean_trials, eta)
    base = _average([one.curve for one in trials])
    if scoring is not None:
        base = _worse(base, scoring.curve)
    curve = selected(base, mean_trials, eta)
    sentences = selection_sentences(eta, gamma, len(trials), scoring is not None)
    proven = all(one.proof is not None for one in every)

    def written() -> dict[str, Any]:
        return {
            "trials": [one._payload for one in trials],
            "scoring": None if scoring is None else scoring._payload,
            "shape": eta,
            "gamma": gamma,
            "claim": {"tradeoff": curve.to_dict()},
        }

    return Guarantee(
        curve,
        trials[0].adjacency,
        NAME,
        SOURCE,
        tuple(dict.fromkeys((*(a for one in every for a in one.assumptions), *sentences))),
        trials[0].tuned_at,
        besides=tuple(dict.fromkeys(a for one in every for a in one.besides)),
        unit=trials[0].unit,
        proof=Written(NAME, written) if proven else None,
    )


def _check_alike(guarantees: Sequence[Any]) -> None:
    """InvalidInput unless these are guarantees of pabi's, at least one, with one adjacency and unit."""
    require(guarantees, "guarantee", "expected at least one")
    for one in guarantees:
        exactly("guarantee", one, Guarantee, "a pabi.Guarantee")
        for name in ("adjacency", "unit"):
            require_alike(name, getattr(guarantees[0], name), getattr(one, name))
    checked_adjacency(
        guarantees[0].adjacency
    )  # nothing is proven of the best of models that forgot


def _average(curves: Sequence[TradeOff]) -> TradeOff:
    """What a run reveals that draws one of several settings, all equally likely, and shows which."""
    if all(curve == curves[0] for curve in curves):
        return curves[0]
    share, parts = Fraction(1, len(curves)), [unrounded(curve) for curve in curves]
    cases = ((mu, share * weight) for curve, _ in parts for mu, weight in _cases(curve))
    return rounded(_mixture(cases), max(r for _, r in parts))


def _worse(base: TradeOff, scoring: TradeOff) -> TradeOff:
    """A function below both: every case at least as bad as the score's."""
    if not isinstance(scoring, Gaussian):
        raise InvalidInput("scoring", "expected a Gaussian guarantee")
    least, (one, r) = scoring.mu, unrounded(base)
    return rounded(_mixture((max(mu, least), weight) for mu, weight in _cases(one)), r)


def _cases(curve: TradeOff) -> list[tuple[float, Fraction]]:
    """(μ, probability) of a Gaussian or of a mixture of them. Raises InvalidInput for any other."""
    match curve:
        case Gaussian():
            return [(curve.mu, Fraction(1))]
        case Mixture():
            pairs = zip(curve.parts, curve.weights, strict=True)
            return [(part.mu, Fraction(weight)) for part, weight in pairs]
        case _:
            raise InvalidInput(
                "guarantee",
                f"expected Gaussians or mixtures where several are combined, got a {curve.kind}: give every "
                "setting the same trade-off function",
            )


def _mixture(cases: Iterable[tuple[float, Fraction]]) -> TradeOff:
    weights = merged(cases)
    if len(weights) > _MOST_PARTS:
        raised = _on_grid(np.array(list(weights))).tolist()
        weights = merged(zip(raised, weights.values(), strict=True))
    return average(list(weights), [fraction_up(weight) for weight in weights.values()])


def _on_grid(mus: Array) -> Array:
    """The μ raised onto a grid of 1024 points that ends at the largest of them; ∞ stays."""
    finite = mus[np.isfinite(mus)]
    grid = np.linspace(finite.min(), finite.max(), _MOST_PARTS)
    at = np.searchsorted(grid, mus)
    return np.where(at < grid.size, grid[np.minimum(at, grid.size - 1)], mus)

"""Scores of private records: what one record moves is bounded, and sums are exact.

Either a record adds a number in [0, 1] to a mean, or every pair of a positive and a negative record adds
something to a sum (docs, "Theory", 17). Numbers and shares are rounded down to whole units of 2⁻³⁰.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.describe.accounted import Adjacency, changed
from pabi.execute.sums import UserRows
from pabi.numbers.errors import require
from pabi.numbers.rounding import Array

_UNITS = 1 << 30
LEAST_PROBABILITY = (
    0.01  # probabilities of the own class below it count as it: log-losses are bounded
)
_DEAREST = -math.log(LEAST_PROBABILITY)


@dataclass(frozen=True)
class PrivateScore:
    """How private records score a model.

    `of`: (model, X, labels) ↦ (m,) numbers in [0, 1], one a record; of pairs any numbers, by which positive
    records should stand above negative ones. `pairs`: whether pairs are compared. `needs`: the method of the
    model that it takes. `called`: what noise is on, and `unit`: how much of it the mean's unit is.
    """

    of: Callable[[Any, Any, NDArray[Any]], Array]
    called: str
    pairs: bool = False
    needs: str = "predict"
    unit: float = 1.0

    def refuse_other(self, name: str, model: Any, classes: int | None) -> None:
        """Raises InvalidInput for a model that the score does not go with. `classes`: how many, if known."""
        require(
            not self.pairs or classes in (None, 2),
            "scoring",
            f"{name} expects two classes, got {classes}",
        )
        require(
            hasattr(model, self.needs),
            "scoring",
            f"{name} expects probabilities, which a {type(model).__name__} has not",
        )

    def exact(
        self, model: Any, X: Any, labels: NDArray[Any], users: UserRows | None, adjacency: Adjacency
    ) -> float:
        """The score, which one record or user moves by 1/n at most."""
        n = len(labels) if users is None else users.users
        numbers = self.of(model, X, labels)
        shares = np.ones(len(labels)) if users is None else users.shares
        weights = np.floor(shares * _UNITS).astype(np.int64)
        if self.pairs:
            whole = changed(adjacency) * n * n * _UNITS * _UNITS
            return _of_pairs(numbers, weights, _places(labels, model.classes_)) / whole
        terms = np.floor(np.nan_to_num(np.clip(numbers, 0.0, 1.0)) * _UNITS).astype(np.int64)
        total = sum(map(mul, terms.tolist(), weights.tolist()))
        return float(total / (n * _UNITS * _UNITS))


def _of_pairs(numbers: Array, weights: NDArray[np.int64], places: NDArray[np.intp]) -> int:
    """Σ w_i·w_j·(±1, or 0) over pairs of a positive i and a negative j, by which of them has more.

    Who has no number is in no pair, and neither is who has neither label.
    """
    there = ~np.isnan(numbers)
    positive, negative = (there & (places == k) for k in (1, 0))
    order = np.argsort(numbers[negative], kind="stable")
    ordered = numbers[negative][order]
    reached = np.concatenate([[0], np.cumsum(weights[negative][order])])
    below = reached[np.searchsorted(ordered, numbers[positive], side="left")]
    above = reached[-1] - reached[np.searchsorted(ordered, numbers[positive], side="right")]
    return sum(map(mul, weights[positive].tolist(), (below - above).tolist()))


def _places(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """(m,) the place of each record's label among the classes, −1 of any other, whatever it is."""
    pairs = list(enumerate(classes.tolist()))
    places = (next((k for k, c in pairs if _alike(c, one)), -1) for one in labels.tolist())
    return np.fromiter(places, np.intp, len(labels))


def _alike(guess: Any, label: Any) -> bool:
    """Whether a guess is the label; what cannot be compared is no hit."""
    try:
        return bool(guess == label)
    except (TypeError, ValueError):
        return False


def _predicted(method: str, model: Any, X: Any, *shape: int) -> NDArray[Any]:
    values = np.asarray(getattr(model, method)(X))
    require(
        values.shape == shape,
        "estimator",
        f"expected predictions of shape {shape}, got {values.shape}",
    )
    return values


def _hits(model: Any, X: Any, labels: NDArray[Any]) -> Array:
    """1 where the label is the one predicted: a record adds 0 or 1, whatever it holds."""
    guesses = _predicted("predict", model, X, len(labels)).tolist()
    return np.fromiter(map(_alike, guesses, labels.tolist()), np.float64, len(labels))


def _of_own_class(model: Any, X: Any, labels: NDArray[Any]) -> Array:
    """The probability of each record's class; 0 where that is none of the model's."""
    shares = _predicted("predict_proba", model, X, len(labels), len(model.classes_))
    places = _places(labels, model.classes_)
    own = np.take_along_axis(shares, np.maximum(places, 0)[:, None], axis=1)[:, 0]
    return np.where(places < 0, 0.0, np.nan_to_num(own))


def _log_losses(model: Any, X: Any, labels: NDArray[Any]) -> Array:
    """1 + log(p)/log(100), of the probability p of the own class, at least 1 %."""
    likely = np.clip(_of_own_class(model, X, labels), LEAST_PROBABILITY, 1.0)
    # One by one: a logarithm of an array may depend, in its last bit, on where the number stands.
    return 1.0 + np.fromiter(map(math.log, likely.tolist()), np.float64, len(labels)) / _DEAREST


def _ranks(model: Any, X: Any, labels: NDArray[Any]) -> Array:
    """What the model ranks records by."""
    if hasattr(model, "predict_proba"):
        return _predicted("predict_proba", model, X, len(labels), 2)[:, 1]
    return _predicted("decision_function", model, X, len(labels)).astype(np.float64)


def _positives(model: Any, X: Any, labels: NDArray[Any]) -> Array:
    """1 where the second class is predicted: the area under its curve is the balanced accuracy."""
    guesses = _predicted("predict", model, X, len(labels))
    return _places(guesses, model.classes_).astype(np.float64)


SCORES = {
    "accuracy": PrivateScore(_hits, "the accuracy"),
    "balanced_accuracy": PrivateScore(_positives, "the balanced accuracy", pairs=True),
    "neg_log_loss": PrivateScore(_log_losses, "the log-loss", needs="predict_proba", unit=_DEAREST),
    "roc_auc": PrivateScore(_ranks, "the AUC", pairs=True),
}

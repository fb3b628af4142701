"""Audits of one training with many canaries, each of which is in the data or not by the toss of a coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from pabi.audits.auditing import Trainer
from pabi.audits.canaries import coefficients, many_canaries
from pabi.describe.runs import NoisySGD
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact, shown, shown_down

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)  # of the canaries that are guessed
_MOST_EPSILON = 50.0


@dataclass(frozen=True)
class OneRunAudit:
    """What guesses about the canaries of one training refute.

    It is much weaker than many trainings: the canaries share one model, δ counts once for each of them, and a
    record moves a coordinate of its own, which no worst instance does.

    Attributes
    ----------
    canaries, guesses, correct : int
        How many there were, how many were guessed, how many guesses were right.
    delta, confidence : float
        Of `epsilon_lower`.
    epsilon_lower : float
        The ε at `delta` that the guesses refute.
    guarantee : Guarantee
        What is promised.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """

    canaries: int
    guesses: int
    correct: int
    delta: float
    confidence: float
    epsilon_lower: float
    guarantee: Guarantee

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is wrong of what was trained, with the stated confidence."""
        return self.epsilon_lower > self.guarantee.epsilon(self.delta)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"audit       {'REFUTED' if self.refuted else 'not refuted'}",
                f"canaries    {self.canaries}, {self.correct} of {self.guesses} guesses right, "
                f"confidence {exact(self.confidence)}",
                f"epsilon     at least {shown_down(self.epsilon_lower, 4)} at delta {exact(self.delta)}",
                f"guarantee   {shown(self.guarantee.epsilon(self.delta), 4)}",
            ]
        )


def one_run(
    run: NoisySGD,
    train: Trainer,
    *,
    canaries: int = 1_000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> OneRunAudit:
    """Train one model with many canaries, and guess which of them were in the data.

    Each canary has a coordinate of its own, so that the model has as many coefficients as there are canaries.
    The largest coefficients are guessed in and the smallest out, for five numbers of guesses, which share
    what the confidence leaves.

    Parameters
    ----------
    run : NoisySGD
        What is promised to be done.
    train : callable
        (X, y) ↦ coefficients or a fitted estimator, one coefficient a canary and no other.
    canaries : int
        At most n.
    delta : float, in [0, 1)
        Where ε is read.
    confidence : float, in (0, 1)
        Of the lower bound.
    random_state : None, int or numpy Generator
        Of the coins.

    Returns
    -------
    OneRunAudit
        A lower bound beside the guarantee.

    Raises
    ------
    InvalidInput
        For an argument out of its range, and for a trainer that returns another number of coefficients.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Alg. 1.
    """
    m = validate.integer("canaries", canaries, at_least=10, at_most=run.n, of="n = ")
    at = validate.number("delta", delta, at_least=0.0, below=1.0)
    sure = validate.number("confidence", confidence, above=0.0, below=1.0)
    guarantee = run.guarantee(at)
    included = np.random.default_rng(random_state).random(m) < 0.5
    data = many_canaries(run, included)
    scores = coefficients(train(data.X, data.y))
    if len(scores) != m:
        raise InvalidInput("train", f"expected {m} coefficients, got {len(scores)}")
    ranked = included[np.argsort(scores, kind="stable")]
    error = (1.0 - sure) / len(_SHARES)
    best = (-1.0, 0, 0)
    for share in _SHARES:
        k = max(1, round(share * m / 2.0))
        correct = int(np.sum(ranked[-k:]) + np.sum(~ranked[:k]))
        bound = refuted_epsilon(m, 2 * k, correct, delta=at, error=error)
        best = max(best, (bound, 2 * k, correct))
    return OneRunAudit(m, best[1], best[2], at, sure, best[0], guarantee)


def chance(canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float) -> float:
    """How likely at most so many guesses are right, or more, if training is (ε, δ)-private.

    Parameters
    ----------
    canaries, guesses, correct : int
        How many there are, how many are guessed, and the right ones.
    epsilon, delta : float
        What is tested.

    Returns
    -------
    float
        An upper bound on the probability of `correct` right guesses or more.

    Raises
    ------
    Nothing.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """
    right = 1.0 / (1.0 + np.exp(-epsilon))
    fewer = binom.pmf(np.arange(correct - 1, -1, -1), guesses, right)
    sums = np.cumsum(fewer) / np.arange(1, correct + 1)
    slack = 2.0 * canaries * delta * float(np.max(sums, initial=0.0))
    return min(1.0, float(binom.sf(correct - 1, guesses, right)) + slack)


def refuted_epsilon(
    canaries: int, guesses: int, correct: int, *, delta: float, error: float
) -> float:
    """The largest ε that so many right guesses refute; 0 where they refute none.

    Parameters
    ----------
    canaries, guesses, correct : int
        How many there are, how many are guessed, and the right ones.
    delta : float, in [0, 1)
        The δ.
    error : float, in (0, 1)
        How likely the bound may be too large.

    Returns
    -------
    float
        A lower bound on ε.

    Raises
    ------
    Nothing.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """

    def refuted(epsilon: float) -> bool:
        return chance(canaries, guesses, correct, epsilon=epsilon, delta=delta) <= error

    low, high = 0.0, _MOST_EPSILON
    if not refuted(low):
        return 0.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low

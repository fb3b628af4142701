"""Sharing a budget among the steps of a pipeline, before any of them sees data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pabi.budget.filters import GaussianFilter
from pabi.convert.gdp import gdp_epsilon_bounds
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import down

PREPARATION = 0.15  # of μ²: what preparing a table takes by default, all steps together


def split_epsilon(
    epsilon: float,
    delta: float,
    shares: Sequence[float] = (PREPARATION, 1.0 - PREPARATION),
    *,
    failure: float = 0.0,
) -> tuple[float, ...]:
    """The ε of each step of a pipeline, at one δ, such that all of them together cost (ε, δ).

    Steps that are Gaussian, or above a Gaussian, compose to the root of the sum of their μ². Each gets its
    share of μ².

    Parameters
    ----------
    epsilon, delta : float, > 0, delta below 1
        What all steps may cost together.
    shares : sequence of float, > 0
        Of μ², one for each step; they add up to 1 at most. The default is a preparation and a model.
    failure : float, in [0, delta)
        The part of δ that `PrivateCategories` and other steps with levels that are not declared may fail
        with: a fifth of `delta` for each such step.

    Returns
    -------
    tuple of float
        ε of each step at `delta`, rounded down. `guarantee_of` of the fitted pipeline is the proof.

    Raises
    ------
    InvalidInput
        For a number out of range, and for shares that add up to more than 1.

    References
    ----------
    Dong, Roth, Su 2022, Cor. 3.3; docs, "Prepare data privately".
    """
    target = validate.number("epsilon", epsilon, above=0.0)
    at = validate.number("delta", delta, above=0.0, below=1.0)
    lost = validate.number("failure", failure, at_least=0.0, below=at)
    each = _shares(shares)
    whole = gaussian_mu(target, at - lost)
    return tuple(gdp_epsilon_bounds(down(whole * down(math.sqrt(s))), at)[0] for s in each)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ of a Gaussian that is (ε, δ)-DP, rounded down."""
    return GaussianFilter.of(epsilon, delta).mu


def _shares(shares: Any) -> list[float]:
    try:
        each = [validate.number("shares", share, above=0.0) for share in shares]
    except TypeError:
        raise InvalidInput("shares", "expected a sequence of numbers") from None
    if not each or math.fsum(each) > 1.0 + 1e-12:
        raise InvalidInput("shares", "expected numbers that add up to 1 at most")
    return each

"""What transformers that learn statistics of columns privately have in common: the plan, then the release.

A plan follows from public numbers alone: how many records and columns there are, and the settings. `fit`
reserves what the plan costs, releases what it says, and keeps what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pabi.budget.filters import GaussianFilter
from pabi.budget.ledger import check_ledger, reserved
from pabi.describe.accounted import checked_adjacency, checked_unit
from pabi.describe.statistics import NoisyColumnStatistics
from pabi.execute.checkpoint import randomness_from
from pabi.execute.hiding import unseen
from pabi.execute.large_tables import computed_apart, in_memory, large_table
from pabi.execute.sources import Parts
from pabi.execute.tables import tagged
from pabi.learn.pipelines import notes_of
from pabi.learn.plans import ONE_FIT, PREPROCESSING, together
from pabi.learn.rows import (
    AllOrNothing,
    Budgeted,
    count_fit,
    fitted_before,
    users_of_rows,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.gaussian import gdp_epsilon_bounds
from pabi.numbers.rounding import Array, down, up
from pabi.numbers.showing import exact, plain, shown
from pabi.tradeoff.guarantee import Guarantee

# Sharing a budget among the steps of a pipeline, before any of them sees data.


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
    require(
        each and not math.fsum(each) > 1.0 + 1e-12,
        "shares",
        "expected numbers that add up to 1 at most",
    )
    return each


@dataclass(frozen=True)
class ColumnsPlan:
    """What `fit` of a private transformer would release of a table of this size.

    All of it follows from public numbers. The method `plan` of a transformer makes one; `fit` executes the
    same.

    Attributes
    ----------
    releases : tuple of NoisyColumnStatistics
        In turn; empty where nothing is learnt.
    delta : float
        δ of the target.

    References
    ----------
    docs, "Prepare data privately".
    """

    releases: tuple[NoisyColumnStatistics, ...]
    delta: float

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What all releases cost together, None without any; `fit` adds what it assumes of the data."""
        if not self.releases:
            return None
        return together(*(release.guarantee(self.delta) for release in self.releases))

    def __str__(self) -> str:
        if self.guarantee is None:
            return "nothing is released"
        lines = [
            f"privacy  ε = {shown(self.guarantee.epsilon(self.delta))}, δ = {exact(self.delta)}"
        ]
        for one in self.releases:
            asking = f", {one.questions} of each" if one.questions > 1 else ""
            lines.append(
                f"{one.statistic:<8} of {one.columns} columns{asking}, noise {plain(one.column_noise_std)}"
            )
        return "\n".join(lines)


@tagged(input_tags__allow_nan=True, non_deterministic=True)
class PrivateColumns(Budgeted):
    """`fit` and `plan` of a transformer that releases statistics of columns.

    Subclasses say what is planned (`_planned`), and what is learnt (`_learnt`).
    """

    def plan(self, n: int, d: int, unit: str | None = None) -> ColumnsPlan:
        """What `fit` would release of a table of n records, or users, and d columns; no data are needed.

        Parameters
        ----------
        n, d : int
            Records, or users, and columns.
        unit : str, optional
            "record", or "user" for a fit with `groups`: n is then the number of users. None: "user" where
            `users` are declared.

        Returns
        -------
        ColumnsPlan
            Its `guarantee` is that of the fitted transformer, without what `fit` assumes of the data.

        Raises
        ------
        InvalidInput
            An argument of the constructor is wrong; the error names it.
        TargetUnreachable
            Noise would hide all there is to learn; its `best` is an ε at which it would not.
        """
        validate.integer("n", n, at_least=1)
        validate.integer("d", d, at_least=1)
        checked_adjacency(self.adjacency)
        delta = validate.number("delta", self.delta, above=0.0, below=1.0)
        validate.number("epsilon", self.epsilon, above=0.0)
        own = ("record" if self.users is None else "user") if unit is None else checked_unit(unit)
        return ColumnsPlan(tuple(replace(one, unit=own) for one in self._planned(n, d)), delta)

    def fit(self, X: ArrayLike, y: Any = None, *, groups: ArrayLike | None = None) -> Self:
        """This transformer, with what it learns of the columns released.

        Parameters
        ----------
        X : (n, d) array-like, pandas frame, or LargeTable
            The table. What `LargeTable` takes is read in passes; paths need it.
        y : ignored
            For pipelines. Where it names a column of a large table, that is no feature.
        groups : (n,) array-like, optional
            The user of every row, by any id, or the name of a column of a large table. The guarantee is then
            of whole users: of each one row is looked at, drawn at random.

        Returns
        -------
        self
            The transformer, with the attributes that end in an underscore.

        Raises
        ------
        InvalidInput
            An argument of the constructor or X is wrong; the error names it, and no value of the table. It is
            a ValueError, as scikit-learn's own checks of X raise.
        TargetUnreachable
            Noise would hide all there is to learn; its `best` is an ε at which it would not.
        BudgetExceeded
            Less is left in `ledger`; nothing has then been computed from the data.

        Warns
        -----
        PrivacyWarning
            `random_state` is not None. This estimator, or a clone of it, was fitted before and has no
            `ledger`. Each once in a process.
        """
        with AllOrNothing(self):
            check_ledger(self.ledger)
            X = large_table(X) or X  # one table, of which groups are read as well
            table = self._read(X, y, groups, reset=True).counted()
            rows, columns = table.shape
            users, of_users = users_of_rows(in_memory(X, groups, "groups"), self.users, rows)
            of_users += computed_apart(X, groups)
            n, unit = (rows, "record") if users is None else (users.users, "user")
            plan = self.plan(n, columns, unit)
            around = fitted_before(self, strict=self.strict)
            if plan.guarantee is None:
                learnt, guarantee = self._learnt(table, (), None), None
            else:
                randomness = randomness_from(self.random_state)
                cost = plan.guarantee.assuming(PREPROCESSING, *of_users)

                def learn() -> Mapping[str, Any]:
                    generator = randomness.generator()
                    seen = table if users is None else table.picked(users.drawn(generator))
                    return self._learnt(seen, plan.releases, generator)

                with reserved(self.ledger, cost, secret=randomness.secret):
                    count_fit(self)
                    learnt = unseen(learn)
                guarantee = cost.assuming(ONE_FIT, *around)
                guarantee = guarantee if randomness.secret else guarantee.for_testing()
            vars(self).update(learnt)
            self.releases_, self.guarantee_ = plan.releases, guarantee
            if guarantee is not None:
                self.guarantee_ = guarantee.noting(notes_of(self))
        return self

    # What subclasses say.

    def _planned(self, n: int, d: int) -> tuple[NoisyColumnStatistics, ...]:
        """What is released, noise included, from public numbers alone."""
        raise NotImplementedError

    def _learnt(
        self,
        table: Parts,
        releases: tuple[NoisyColumnStatistics, ...],
        generator: np.random.Generator | None,
    ) -> Mapping[str, Any]:
        """The attributes to be kept, computed from noisy statistics and public numbers alone."""
        raise NotImplementedError

    # What they share.

    def _rules(self) -> Mapping[str, Any]:
        """Numbers, NaN where one is missing."""
        return {"sparse": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}

    def _with_noise(self, blank: NoisyColumnStatistics, mu: float) -> NoisyColumnStatistics:
        return replace(blank, noise_std=up(up(blank.sensitivity) / mu))

    def _mu(self) -> float:
        """The μ of the budget."""
        return gaussian_mu(self.epsilon, self.delta)

    def _blank(self, n: int, d: int, statistic: Any, **changes: Any) -> NoisyColumnStatistics:
        own = checked_adjacency(self.adjacency)
        return NoisyColumnStatistics(n, d, statistic, adjacency=own, **changes)

    def _declared(self, ranges: Any, d: int) -> Array | None:
        """(2, d): declared (low, high) of every column, None without any. Raises InvalidInput."""
        names = getattr(self, "feature_names_in_", None)
        if isinstance(ranges, dict) and names is None and not hasattr(self, "n_features_in_"):
            names = list(ranges)  # a plan before any table
        centre, reach = validate.centres_and_reaches(
            validate.by_column(ranges, names, d), d, sparse=False
        )
        return (
            None if centre is None or reach is None else np.stack([centre - reach, centre + reach])
        )


def onto_unit(values: Array, ranges: Array) -> Array:
    """The values clipped to (low, high) of their columns and mapped onto [−1, 1]; NaN stays."""
    low, high = ranges
    centre, reach = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
    return np.asarray(np.clip((np.clip(values, low, high) - centre) / reach, -1.0, 1.0))

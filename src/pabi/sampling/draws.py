"""What a sampler releases, and what can be made of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from pabi.describe.langevin import LangevinChain
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.execute.checkpoint import Randomness, keyed_generator
from pabi.execute.hiding import Machines
from pabi.numbers import validate
from pabi.numbers.errors import NotApplicable, extra, must_be, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown, shown_down
from pabi.tradeoff.guarantee import Guarantee

_FEWEST = 4  # draws a chain, for halves to have a variance


@dataclass(frozen=True)
class Diagnostics:
    """Convergence diagnostics of the chains of a released path.

    Attributes
    ----------
    r_hat : array of the shape of a point
        Rank-normalised split R̂, the larger of location and scale.
    ess_bulk, ess_tail : array of the shape of a point
        Effective numbers of draws, all chains together, for the mean and for the 5 % and 95 % quantiles.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021.
    """

    r_hat: Array
    ess_bulk: Array
    ess_tail: Array

    def __str__(self) -> str:
        return (
            f"R̂ ≤ {shown(np.max(self.r_hat), decimals=3)}; "
            f"effective draws ≥ {shown_down(np.min(self.ess_bulk), decimals=0)} (bulk), "
            f"{shown_down(np.min(self.ess_tail), decimals=0)} (tails)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Released:
    """Draws and what their release costs."""

    values: Array
    guarantee: Guarantee

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.guarantee!r}, values of shape {self.values.shape})"

    def to_arviz(self, *, names: Any = None, discard: int = 0) -> Any:
        """The draws as an xarray.DataTree, for ArviZ.

        Parameters
        ----------
        names : list of str, optional
            Names of the coordinates: each becomes a variable of its own.
        discard : int, ≥ 0
            First draws of every chain to leave out, the warm-up of a path.

        Returns
        -------
        xarray.DataTree
            Its group `posterior` has a variable `x` of dimensions (chain, draw, …), or with `names` a
            variable (chain, draw) for each coordinate: copies of the values. What all draws cost, those that
            are left out included, is among the group's attributes.

        Raises
        ------
        InvalidInput
            `names` are not one a coordinate, all different, `discard` leaves no draw, or the extra `sampling`
            is not installed.
        """
        # Copies: what is made of them elsewhere does not reach into the release.
        draws = self._after(discard).copy()
        variables = {"x": draws} if names is None else _by_name(draws, names)
        attributes = {"adjacency": self.guarantee.adjacency, "method": self.guarantee.method}
        if self.guarantee.tuned_at:
            attributes["delta"] = repr(self.guarantee.tuned_at)
            attributes["epsilon"] = repr(self.guarantee.epsilon(self.guarantee.tuned_at))
        with warnings.catch_warnings():
            # Many chains of one draw each are meant.
            warnings.filterwarnings(
                "ignore", "Found chain dimension to be longer than draw", UserWarning
            )
            return extra("arviz_base", "sampling").from_dict(
                {"posterior": variables}, attrs={"posterior": attributes}
            )

    def _after(self, discard: int) -> Array:
        draws = self.values.shape[1]
        validate.integer("discard", discard, at_least=0, at_most=draws - 1)
        return self.values[:, discard:]


def _by_name(draws: Array, names: Any) -> dict[str, Array]:
    """(chains, draws) of every coordinate under its name."""
    labels = [str(name) for name in names]
    flat = draws.reshape(*draws.shape[:2], -1)
    count = flat.shape[2]
    require(len(labels) == count, "names", f"expected {count}, one a coordinate, got {len(labels)}")
    must_be(len(set(labels)) == count, "names", "different ones", labels)
    return {label: flat[:, :, i] for i, label in enumerate(labels)}


@dataclass(frozen=True, eq=False, repr=False)
class Draws(_Released):
    """The draws that chains release, with their guarantee.

    Attributes
    ----------
    values : (chains, draws, *shape) float64 array
        The draws, read-only; one a chain where only the last iterate is released.
    guarantee : Guarantee
        What the release of all of it costs.
    chain : LangevinChain or NoisySGD
        The description that was both accounted and executed.
    release : str
        "last" or "path".

    References
    ----------
    docs, "Sampling".
    """

    chain: LangevinChain | NoisySGD
    release: str = "last"

    def diagnostics(self, discard: int = 0) -> Diagnostics:
        """R̂ and effective numbers of draws of a released path.

        Parameters
        ----------
        discard : int, ≥ 0
            First draws of every chain to leave out.

        Returns
        -------
        Diagnostics
            For each coordinate.

        Raises
        ------
        NotApplicable
            Only the last iterate is released. Whether a hidden path has converged is a fact about that path,
            and to show it is another, dearer release.
        InvalidInput
            `discard` leaves fewer than four draws a chain, or the extra `sampling` is not installed.
        """
        if self.release != "path":
            raise NotApplicable(
                'only last iterates were released: diagnostics are read off a path, release="path"'
            )
        draws = self._after(discard)
        require(
            draws.shape[1] >= _FEWEST,
            "discard",
            f"expected at least {_FEWEST} draws a chain to be left, got {draws.shape[1]}",
        )
        stats = extra("arviz_stats.base", "sampling").array_stats
        axes = {"chain_axis": 0, "draw_axis": 1}
        return Diagnostics(
            np.asarray(stats.rhat(draws, **axes)),
            np.asarray(stats.ess(draws, **axes, method="bulk")),
            np.asarray(stats.ess(draws, **axes, method="tail", prob=(0.05, 0.95))),
        )

    def plot(self, ax: Any = None, *, discard: int = 0, names: Any = None) -> Any:
        """Draw the posterior of each coordinate, beside its trace where the path is released.

        At most six coordinates are drawn.

        Parameters
        ----------
        ax : array of matplotlib axes, optional
            (coordinates, 2) for a path and (coordinates,) otherwise. None: those of a new figure.
        discard : int, ≥ 0
            First draws of every chain that the posterior of a path leaves out.
        names : list of str, optional
            Names of the coordinates.

        Returns
        -------
        array
            The matplotlib axes.

        Raises
        ------
        InvalidInput
            `discard` leaves no draw of a path, or `ax` or `names` do not fit the coordinates.
        """
        from pabi.show.pictures import plot_path, plot_posterior

        if self.release == "path":
            self._after(discard)
            return plot_path(self.values, ax, discard, names)
        return plot_posterior(self.values, ax, names)


@dataclass(frozen=True, eq=False, repr=False)
class ExactDraws(_Released):
    """The draws that an exponential mechanism releases, with their guarantee.

    Attributes
    ----------
    values : (1, draws, p) float64 array
        Independent exact draws, read-only.
    guarantee : Guarantee
        What all of them together cost.
    mechanism : ExponentialMechanism or IteratedExponentialMechanism
        The description that was both accounted and executed, once for each draw.

    References
    ----------
    docs, "Sampling".
    """

    mechanism: ExponentialMechanism | IteratedExponentialMechanism

    def plot(self, ax: Any = None, *, names: Any = None) -> Any:
        """Draw the posterior of each coordinate, at most six of them.

        Parameters
        ----------
        ax : (coordinates,) array of matplotlib axes, optional
            None: those of a new figure.
        names : list of str, optional
            Names of the coordinates.

        Returns
        -------
        array
            The matplotlib axes.

        Raises
        ------
        InvalidInput
            `ax` or `names` do not fit the coordinates.
        """
        from pabi.show.pictures import plot_posterior

        return plot_posterior(self.values, ax, names)


# Draws that are computed here, or in independent parts on other machines.


class Work(Protocol):
    """Independent draws, all but their randomness."""

    def __len__(self) -> int:
        """How many there are."""

    def part(self, some: range) -> Self:
        """Those alone."""

    def values(self, generator: np.random.Generator) -> Array:
        """(len(self), …) what is released of them."""


def drawn(work: Work, randomness: Randomness, machines: Machines | None) -> Array:
    """(len(work), …) draws. Every part has a stream of its own; every local here is secret but the result."""
    if machines is None:
        return work.values(randomness.generator())
    parts = _cut(len(work), machines.together)
    keys = randomness.keys(len(parts))
    questions = zip(parts, keys, strict=True)
    return np.concatenate(list(machines.results(_Answer(work), questions)))


@dataclass(frozen=True, eq=False, repr=False)
class _Answer:
    """The draws of a part as a function of its key."""

    work: Work

    def __call__(self, question: tuple[range, bytes]) -> Array:
        some, key = question
        return self.work.part(some).values(keyed_generator(key))


def _cut(count: int, parts: int) -> Sequence[range]:
    """0..count − 1 in at most so many parts, none empty, as equal as can be."""
    parts = max(1, min(parts, count))
    ends = [count * i // parts for i in range(parts + 1)]
    return [range(*ends) for ends in pairwise(ends)]

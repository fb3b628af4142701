"""Every published bound on one description beside pabi's own guarantee."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.guarantees.guarantee import Guarantee
from pabi.literature import (
    covering_iterations,
    covering_langevin,
    covering_runs,
    covering_unlearning,
)
from pabi.literature.published import Published, Status
from pabi.literature.reading import CandidateBound, read
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import exact, shown

OURS = "pabi"

Description = (
    NoisySGD
    | NoisyIteration
    | LangevinChain
    | LangevinDiffusion
    | ExponentialMechanism
    | Unlearning
)

_COVERING: dict[type, tuple[CandidateBound, ...]] = {
    NoisySGD: covering_runs.CANDIDATES,
    NoisyIteration: covering_iterations.CANDIDATES,
    LangevinChain: covering_langevin.CHAINS,
    LangevinDiffusion: covering_langevin.DIFFUSIONS,
    ExponentialMechanism: covering_langevin.MECHANISMS,
    Unlearning: covering_unlearning.CANDIDATES,
}


@dataclass(frozen=True)
class Row:
    """What one bound says of a run.

    Parameters
    ----------
    name : str
        "pabi", or module and theorem, e.g. "bok.theorem_4_5".
    source : str
        The paper and the theorem; of pabi's own row the method.
    status : str
        "sound", "refuted" or "unverified".
    applies : bool
        Whether the run meets the hypotheses of the theorem.
    epsilon : float or None
        ε at the δ of the comparison; None where the bound does not apply.
    mu : float or None
        μ; None where the bound does not apply or is not Gaussian.
    note : str
        Where the bound does not apply, the hypothesis that fails; otherwise what is wrong with it,
        if anything.
    """

    name: str
    source: str
    status: Status
    applies: bool
    epsilon: float | None
    mu: float | None
    note: str


@dataclass(frozen=True)
class Comparison:
    """What the literature says of a run at one δ.

    It iterates as rows and prints as a table. The rows that apply come first, by increasing ε,
    pabi's own among them; then the others.

    Parameters
    ----------
    description : NoisySGD, NoisyIteration, another sampler or mechanism, or Unlearning
        What the bounds speak of.
    delta : float, in (0, 1)
        δ of every ε.
    rows : tuple of Row
        One of every bound, one of pabi, and one of everything in `also`.
    also : tuple of str
        The names of the rows that were handed over as they are. They are known at the run's own length only.

    References
    ----------
    `source` of every row; docs, "Errata".
    """

    description: Description
    delta: float
    rows: tuple[Row, ...]
    also: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of this name, e.g. "pabi" or "bok.theorem_4_5"."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        table = [("bound", "status", f"ε at δ = {exact(self.delta)}", "μ", "")]
        for row in self.rows:
            epsilon = "—" if row.epsilon is None else shown(row.epsilon)
            mu = "—" if row.mu is None else shown(row.mu)
            note = textwrap.shorten(row.note, 90, placeholder=" …")
            table.append((row.source, row.status, epsilon, mu, note))
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        return "\n".join(
            "  ".join(
                [*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[4]]
            ).rstrip()
            for line in table
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw ε against the length of the run for every bound that applies.

        Sound bounds are solid, refuted ones dashed, unverified ones dotted. Every length is
        accounted anew, which takes some seconds for sampled batches. What stands in `also` is a
        single marker, at the run's own length.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; the default is a new figure.

        Returns
        -------
        matplotlib axes
            Those that were drawn on.

        Raises
        ------
        InvalidInput
            For an exponential mechanism and forgetting, which have no length, and for steps or a
            temperature that vary.

        References
        ----------
        `source` of every row; docs, "Errata".
        """
        from pabi.draw.comparison import draw

        return draw(self, ax)


def compare(
    run: Description,
    delta: float = 1e-5,
    *,
    also: Mapping[str, Guarantee | Published] = MappingProxyType({}),
) -> Comparison:
    """What every published bound says of a description, beside pabi's own guarantee.

    Rényi bounds are taken at the best order they admit. The bounds are evaluated as printed: one
    that is refuted or unverified is no guarantee, and may lie below the truth.

    Parameters
    ----------
    run : NoisySGD, NoisyIteration, LangevinChain, LangevinDiffusion, ExponentialMechanism or Unlearning
        A run, a sampler, an exponential mechanism or forgetting.
    delta : float, in (0, 1)
        δ of every ε.
    also : mapping of str to Guarantee or Published
        What else is to be shown, by a name of its own: guarantees of other mechanisms or from other
        libraries, and published numbers ("gdp", "tradeoff", or "epsilon" at this δ). They are shown as they
        are: whether they are about this run is the user's word.

    Returns
    -------
    Comparison
        One row of every bound, one of pabi, and one of everything in `also`.

    Raises
    ------
    InvalidInput
        For another δ, for what is no such description, and for an `also` of other things or of names that
        bounds have.

    References
    ----------
    `source` of every row; ε by the conversions of `pabi.convert`; docs, "Errata".
    """
    delta = validate.number("delta", delta, above=0.0, below=1.0)
    if type(run) not in _COVERING:
        raise InvalidInput("run", f"expected a description, got {type(run).__name__}")
    rows = [_row(candidate, run, delta) for candidate in _COVERING[type(run)]]
    rows.append(own_row(run, delta))
    others = _others(also, {row.name for row in rows}, delta)
    return Comparison(run, delta, tuple(sorted([*rows, *others], key=_rank)), tuple(also))


def _others(also: Any, names: Collection[str], delta: float) -> list[Row]:
    """A row for everything that was handed over. Raises InvalidInput."""
    if not isinstance(also, Mapping):
        raise InvalidInput("also", f"expected a mapping from names, got a {type(also).__name__}")
    for name in also:
        if not isinstance(name, str) or not name.strip() or name in names:
            raise InvalidInput("also", f"expected names that no bound has, got {name!r}")
    return [_other(name, bound, delta) for name, bound in also.items()]


def _other(name: str, bound: Any, delta: float) -> Row:
    match bound:
        case Guarantee():
            note = f"{bound.method}, under {bound.adjacency}"
            return Row(name, name, "sound", True, bound.epsilon(delta), bound.mu, note)
        case Published(kind="gdp" | "tradeoff" | "epsilon"):
            epsilon, mu = read(bound, delta)
            return Row(name, name, bound.status, True, epsilon, mu, bound.note or bound.source)
        case Published():
            raise InvalidInput(
                "also", f"expected a bound that has an ε, got {name!r} of kind {bound.kind!r}"
            )
        case other:
            article = f"a {type(other).__name__}"
            raise InvalidInput(
                "also", f"expected a Guarantee or Published as {name!r}, got {article}"
            )


def own_row(run: Description, delta: float) -> Row:
    """pabi's guarantee as a row."""
    try:
        own = run.guarantee(delta)
    except NotApplicable as no:
        return Row(OURS, OURS, "sound", False, None, None, no.reason)
    return Row(OURS, f"pabi, {own.method}", "sound", True, own.epsilon(delta), own.mu, "proven")


def _row(candidate: CandidateBound, run: Description, delta: float) -> Row:
    bound = candidate.bound
    name = f"{bound.__module__.rsplit('.', 1)[-1]}.{bound.__name__}"
    try:
        epsilon, mu = candidate.evaluate(run, delta)
    except NotApplicable as no:
        return Row(name, bound.source, bound.status, False, None, None, no.reason)
    return Row(name, bound.source, bound.status, True, epsilon, mu, bound.note)


def _rank(row: Row) -> tuple[bool, float, bool]:
    """By ε; of those equal but for rounding pabi's first."""
    epsilon = math.inf if row.epsilon is None else float(shown(row.epsilon, 9))
    return not row.applies, epsilon, row.name != OURS

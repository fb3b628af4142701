"""Every published bound on one description beside pabi's own guarantee."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, get_args

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
from pabi.literature.published import CandidateBound, Published, Status, read
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, must_be, require
from pabi.numbers.showing import aligned, exact, shown
from pabi.tradeoff import Gaussian, TradeOff
from pabi.verification import verify

OURS = "pabi"

Description = (
    NoisySGD
    | NoisyIteration
    | LangevinChain
    | LangevinDiffusion
    | ExponentialMechanism
    | Unlearning
)

Beside = Guarantee | Published | TradeOff | float

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
        "sound", "refuted" or "unverified". Of what was handed over "stated", unless it is a guarantee of a
        description that `pabi.verify` accepts, or has a status of its own.
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
    status: Status | Literal["stated"]
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
        The names of the rows that were handed over.
    functions : mapping of str to callable
        Those of them that are functions of the description. The others are known at the run's own length
        only.

    References
    ----------
    `source` of every row; docs, "Errata".
    """

    description: Description
    delta: float
    rows: tuple[Row, ...]
    also: tuple[str, ...] = ()
    functions: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

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
        return "\n".join(aligned(table))

    def plot(self, ax: Any = None) -> Any:
        """Draw ε against the length of the run for every bound that applies.

        Sound bounds are solid, refuted ones dashed, unverified ones dotted. Every length is
        accounted anew, which takes some seconds for sampled batches. What stands in `also` is a
        single marker, at the run's own length, or a line where it is a function.

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
    also: Mapping[str, Beside | Callable[[Any], Beside]] = MappingProxyType({}),
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
    also : mapping of str to Guarantee, Published, trade-off function, number or callable
        What else is to be shown, by a name of its own: guarantees of other mechanisms or from other
        libraries, published numbers ("gdp", "tradeoff", or "epsilon" at this δ), objects of `pabi.tradeoff`,
        and numbers, which are ε at this δ. A function gets a description and returns one of these, or raises
        NotApplicable; `plot` asks it at every length. All are shown as they are: whether they are about this
        run is the user's word.

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
    require(type(run) in _COVERING, "run", f"expected a description, got {type(run).__name__}")
    rows = [*(_row(one, run, delta) for one in _COVERING[type(run)]), own_row(run, delta)]
    others = _others(also, {row.name for row in rows}, run, delta)
    functions: dict[str, Any] = {name: bound for name, bound in also.items() if _is_function(bound)}
    return Comparison(
        run, delta, tuple(sorted([*rows, *others], key=_rank)), tuple(also), functions
    )


def _others(also: Any, names: Collection[str], run: Description, delta: float) -> list[Row]:
    """A row for everything that was handed over. Raises InvalidInput."""
    validate.instance("also", also, Mapping, "a mapping from names")
    for name in also:
        if not isinstance(name, str) or not name.strip() or name in names:
            raise InvalidInput("also", f"expected names that no bound has, got {name!r}")
    return [_row_beside(name, bound, run, delta) for name, bound in also.items()]


def _is_function(bound: Any) -> bool:
    """Whether it is asked of a description. A trade-off function is callable, of error rates."""
    return callable(bound) and not isinstance(bound, TradeOff)


def _row_beside(name: str, bound: Any, run: Description, delta: float) -> Row:
    """What a bound, or what a function makes of the description, says."""
    if not _is_function(bound):
        return _other(name, bound, run, delta)
    try:
        return _other(name, bound(run), run, delta)
    except NotApplicable as no:
        return Row(name, name, "stated", False, None, None, no.reason)


def _other(name: str, bound: Any, run: Description, delta: float) -> Row:
    match bound:
        case Guarantee():
            proven = verify(bound).scope == "run"
            status: Status | Literal["stated"] = "sound" if proven else "stated"
            note = f"{bound.method}, under {bound.adjacency}{_unlike(bound, run)}"
            return Row(name, name, status, True, bound.epsilon(delta), bound.mu, note)
        case Published(kind="gdp" | "tradeoff" | "epsilon"):
            require(
                bound.status in get_args(Status),
                "also",
                f"expected the status of {name!r} to be one of {', '.join(get_args(Status))}, got "
                f"{bound.status!r}",
            )
            epsilon, mu = read(bound, delta)
            must_be(epsilon >= 0.0, "also", f"an ε ≥ 0 of {name!r}", epsilon)
            return Row(name, name, bound.status, True, epsilon, mu, bound.note or bound.source)
        case TradeOff():
            mu = bound.mu if isinstance(bound, Gaussian) else None
            return Row(name, name, "stated", True, bound.epsilon(delta), mu, bound.kind)
        case int() | float() if not isinstance(bound, bool):
            must_be(bound >= 0.0, "also", f"an ε ≥ 0 of {name!r}", bound)
            return Row(name, name, "stated", True, float(bound), None, "ε as stated")
        case Published():
            raise InvalidInput(
                "also", f"expected a bound that has an ε, got {name!r} of kind {bound.kind!r}"
            )
        case other:
            article = f"a {type(other).__name__}"
            raise InvalidInput(
                "also",
                "expected a Guarantee, Published, a trade-off function, ε or a function of the description "
                f"as {name!r}, got {article}",
            )


def _unlike(guarantee: Guarantee, run: Description) -> str:
    """What makes a guarantee another one than the run's: whom it protects, against what."""
    others = [
        f"{name} {theirs!r}"
        for name in ("adjacency", "unit")
        if (theirs := getattr(run, name, None)) not in (None, getattr(guarantee, name))
    ]
    return f": not comparable, the run has {' and '.join(others)}" if others else ""


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

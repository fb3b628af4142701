"""What each analysis says of a description, and which changes would make it cost less."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple, assert_never

import numpy as np

from pabi.account.analyses.shifted_interpolation import DEFAULT_DELTA
from pabi.account.best import best_guarantee, best_of, outcomes
from pabi.describe.batches import (
    FAILING,
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    FreshSubsets,
    FullBatch,
    KnownUses,
    Poisson,
    Reshuffle,
    SecretOrder,
    ShuffleOnce,
)
from pabi.describe.files import Description
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import aligned, exact, plain, shown, shown_down
from pabi.tradeoff import Gaussian, TradeOff
from pabi.tradeoff.guarantee import Guarantee

SLOW = 2.0  # seconds of one guarantee, beyond which no other run is accounted for
_MORE = 2.0  # seconds that changes may take, for each that all analyses of the run took
_AT_LEAST = 1.0  # seconds that they may always take
_WORTH = 0.95  # what must be left of ε for a change to be worth telling
_MOST = 3
_LEAST = 1e-300  # curvature of which 2 over it is a double


@dataclass(frozen=True)
class Change:
    """Another training that would cost less.

    Attributes
    ----------
    what : str
        The fields of the description that differ.
    epsilon : float
        The ε of its guarantee at the δ asked for, an upper bound.
    description : NoisySGD
        The other training. Its guarantee is not one of the run that was explained.
    training : str
        What has to be done in another way.
    """

    what: str
    epsilon: float
    description: NoisySGD
    training: str


class _Edit(NamedTuple):
    """What differs, how to train then, and the fields."""

    what: str
    training: str
    fields: Mapping[str, Any]


@np.errstate(all="ignore")  # what overflows is no change
def changes(
    description: Description, delta: float, epsilon: float, seconds: float
) -> tuple[Change, ...]:
    """At most three changes of a run that lower its ε at `delta` by more than 5 %, the best first.

    `seconds`: what all its analyses took. Above `SLOW` nothing is tried, and no change is begun that would
    likely end later than after twice as long, or a second.
    """
    if not isinstance(description, NoisySGD) or seconds > SLOW:
        return ()
    first, others = _edits(description, delta)
    better, dearest = list[Change](), 0.0
    end = perf_counter() + max(_AT_LEAST, _MORE * seconds)
    for edit in chain([first] if first is not None else [], others):
        started = perf_counter()
        if started + dearest > end:
            break
        change = _accounted(description, edit, delta)
        dearest = max(dearest, perf_counter() - started)
        if change is not None and change.epsilon < _WORTH * epsilon:
            better.append(change)
        if change is not None and edit is first:
            epsilon = min(epsilon, change.epsilon)  # what comes on top must be worth it
    return tuple(sorted(better, key=lambda change: change.epsilon)[:_MOST])


def advice(description: Description) -> tuple[str, ...]:
    """Sentences about changes that have no number, because it depends on what only the user knows."""
    if isinstance(description, NoisySGD) and description.loss.kind == "unknown":
        return (
            "nothing is known of this loss, so that no step is known to forget, and only batches can hide a "
            "record, best in bins that are drawn in every epoch anew; forgetting would count for "
            "another model, a linear one such as a head on frozen features (Loss.logistic(feature_norm)); of "
            "a network no bound on the curvature is known: state none",
        )
    if isinstance(description, NoisySGD) and _has_kinks(description.loss):
        return (
            "this loss may have kinks, at which steps push two models apart, so that little is forgotten; "
            "rounded off, forgetting would count: Loss.smoothed_hinge for the hinge loss, Loss.huber for "
            "absolute errors, Loss.convex(smoothness, gradient_bound=…) for pinball losses and others",
        )
    return ()


def _has_kinks(loss: Loss) -> bool:
    """Whether it is convex and of no known curvature."""
    return loss.has_potential and loss.least_curvature is not None and loss.curvature is None


def _accounted(run: NoisySGD, edit: _Edit, delta: float) -> Change | None:
    try:
        other = replace(run, **edit.fields)
        epsilon = best_guarantee(other, delta).epsilon(delta)
    except (InvalidInput, NotApplicable):
        return None
    return Change(edit.what, epsilon, other, edit.training)


def _edits(run: NoisySGD, delta: float) -> tuple[_Edit | None, Iterator[_Edit]]:
    """What must change before anything else helps, None if nothing must, and every other change with it.

    A run whose path is seen, whose update has no modulus or whose steps expand pays for about every step,
    whatever else changes.
    """
    first = _together([edit for rule in _BLOCKING if (edit := rule(run, delta)) is not None])
    alone = (edit for rule in _OF_ANY_LOSS if (edit := rule(run)) is not None)
    others = (edit for rule in _RULES if (edit := rule(run)) is not None)
    if first is None:
        return None, chain(others, alone)
    both = ([first, edit] for edit in others if not first.fields.keys() & edit.fields.keys())
    return first, chain((edit for pair in both if (edit := _together(pair)) is not None), alone)


def _together(edits: list[_Edit]) -> _Edit | None:
    if not edits:
        return None
    fields = {name: value for edit in edits for name, value in edit.fields.items()}
    return _Edit(
        " and ".join(edit.what for edit in edits),
        "; ".join(edit.training for edit in edits),
        fields,
    )


# The changes, each for the runs that it says something to.


def _drawn_once(run: NoisySGD) -> _Edit | None:
    """A secret order that every epoch has in common."""
    match run.batches:
        case Reshuffle(size=size, spare=spare):
            return _drawn(ShuffleOnce(size, spare), "shuffle once, not every epoch")
        case BallsInBins(redraw="epoch"):
            once = replace(run.batches, redraw="once")
            return _drawn(once, "put every record into a batch once, not every epoch")
        case Cyclic(size=size):
            return _drawn(ShuffleOnce(size), "shuffle once, in secret")
        case Poisson(size=size) | FixedSize(size=size):
            return _drawn(ShuffleOnce(size), "shuffle once, in place of drawing every batch")
        case _:
            return None


def _drawn(batches: Batches, training: str) -> _Edit:
    """Batches of another kind, and what draws them so."""
    training = f"your loader must {training}"
    return _Edit(f"batches={called(batches)}", training, {"batches": batches})


def called(batches: Batches) -> str:
    """The constructor's call, with what has to be stated."""
    own = {f.name: getattr(batches, f.name) for f in fields(batches)}
    options = [f.name for f in fields(batches) if f.name != "size" and own[f.name] != f.default]
    stated = [str(own["size"]), *(f"{name}={own[name]!r}" for name in options)]
    return f"{type(batches).__name__}({', '.join(stated)})"


def _binned(run: NoisySGD) -> _Edit | None:
    """Bins that are drawn in every epoch anew: of all batches they hide a record best if steps are seen."""
    batches = BallsInBins(run.batch_size, redraw="epoch")
    if isinstance(run.batches, FullBatch) or run.batches == batches:
        return None
    return _drawn(batches, "put every record into a batch by itself, in every epoch anew")


def _spared(run: NoisySGD) -> _Edit | None:
    """Records that are left out: at least those that do not fill a batch."""
    match run.batches:
        case ShuffleOnce(size=size, spare=0) | Reshuffle(size=size, spare=0):
            size -= run.n % size == 0  # so that there are some
        case _:
            return None
    if size < 1 or not (spare := run.n % size):
        return None
    batches = type(run.batches)(size, spare=spare)
    return _drawn(batches, "leave out the records that do not fill a batch (drop_last)")


def _nonexpansive(run: NoisySGD, delta: float) -> _Edit | None:
    """The largest steps that push no two models apart, where some do."""
    largest = _largest_nonexpansive(run, delta)
    if largest is None or np.all(np.asarray(run.step_size) <= largest):
        return None
    alike = not isinstance(run.step_size, np.ndarray)
    steps = largest if alike else np.minimum(run.step_size, largest)
    what = "step_size=" if alike else "step_size at most "
    training = "take smaller steps, none of which pushes two models apart"
    return _Edit(what + exact(largest), training, {"step_size": steps})


def _smoothed(run: NoisySGD, delta: float) -> _Edit | None:
    """A convex loss with the most curvature at which no step pushes two models apart, where none is known."""
    if not _has_kinks(run.loss):
        return None
    parts = run.fractions(FAILING * (delta or DEFAULT_DELTA))
    fraction = float(max(*parts.full, *parts.last))
    room = 2.0 / float(np.max(run.step_size)) - run.loss.l2
    if not _LEAST < room < 1.0 / _LEAST:
        return None
    most = float(shown_down(room / fraction, 3))
    bound = run.loss.gradient_bound
    smooth = Loss.convex(most, run.loss.l2, gradient_bound=bound, glm=run.loss.glm)
    stated = f", l2={exact(run.loss.l2)}" if run.loss.l2 else ""
    stated += "" if bound is None else f", gradient_bound={exact(bound)}"
    return _Edit(
        f"loss=Loss.convex({exact(most)}{stated})",
        "round off the kinks of the loss, so that its gradients have this Lipschitz constant",
        {"loss": smooth},
    )


def _largest_nonexpansive(run: NoisySGD, delta: float) -> float | None:
    loss, clipping = run.loss, (run.clip_norm, run.clipping)
    curvature = loss.effective_curvature(*clipping)
    parts = run.fractions(FAILING * (delta or DEFAULT_DELTA))
    fractions = {*parts.full, *parts.last}
    if curvature is None:
        return None
    steepest = loss.l2 + float(max(fractions)) * curvature[1]
    if not _LEAST < steepest < 1.0 / _LEAST:
        return None
    largest = float(shown_down(2.0 / steepest, 3))
    size = np.array([largest])
    slopes = [loss.slopes(size, clipping[0], f, clipping[1])[0] for f in fractions]
    return largest if max(slopes) <= 1.0 else None


def _constant(run: NoisySGD) -> _Edit | None:
    if not isinstance(run.step_size, np.ndarray) or np.ptp(run.step_size) == 0.0:
        return None
    mean = float(plain(np.mean(run.step_size[: run.data_steps]), 4))
    training = "take steps of one size, the mean of the schedule"
    return _Edit(f"step_size={exact(mean)}", training, {"step_size": mean})


def _cooled(run: NoisySGD) -> _Edit | None:
    """One epoch without data at the end, where the worst record is one that is used last."""
    match run.order:
        case FreshSubsets():
            return None
        case KnownUses() | SecretOrder():
            more = run.steps_per_epoch
        case _:
            assert_never(run.order)
    if run.cooldown_steps or more > run.steps:
        return None
    longer = {
        name: np.append(schedule, np.full(more, schedule[-1]))
        for name in ("step_size", "noise_std", "noise_multiplier")
        if isinstance(schedule := getattr(run, name), np.ndarray)
    }
    training = "end with an epoch of noise and regulariser alone, which costs accuracy"
    fields = {"cooldown_steps": more, "total_steps": run.steps + more, **longer}
    return _Edit(f"cooldown_steps={more}", training, fields)


_LAST = _Edit('release="last"', "show nobody an earlier model", {"release": "last"})
_PLAIN = _Edit('update="sgd"', "train with plain steps of this size", {"update": "sgd"})
_BLOCKING: tuple[Callable[[NoisySGD, float], _Edit | None], ...] = (
    lambda run, _: None if run.release == "last" else _LAST,
    lambda run, _: None if run.rule.plain else _PLAIN,
    _smoothed,
    _nonexpansive,
)
# What helps whatever the loss is, and if every iterate is shown. It takes longest to account for.
_OF_ANY_LOSS: tuple[Callable[[NoisySGD], _Edit | None], ...] = (_binned, _spared)
_RULES: tuple[Callable[[NoisySGD], _Edit | None], ...] = (_constant, _drawn_once, _cooled)

# Every analysis of a description side by side, with its result or the reason why it does not apply.


OwnBound = Callable[[Any], TradeOff | Guarantee]


@dataclass(frozen=True)
class AnalysisRow:
    """One analysis of an `Explanation`: what it proves, or the reason why it does not apply.

    Attributes
    ----------
    method : str
        The name of the analysis.
    applies : bool
        Whether it covers the description.
    reason : str or None
        Why it does not; None where it does.
    epsilon : float or None
        ε at the δ asked for, an upper bound; None where it does not apply.
    mu : float or None
        The Gaussian-DP parameter; None where the bound is not Gaussian or does not apply.
    """

    method: str
    applies: bool
    reason: str | None
    epsilon: float | None
    mu: float | None


@dataclass(frozen=True)
class Explanation:
    """All analyses of a description at one δ; iterates as rows and prints as a table.

    Attributes
    ----------
    rows : tuple of AnalysisRow
        One row for each analysis, and one for each bound of the user's own. Analyses that apply come first,
        the guarantee on top and the others by ε; then own bounds that apply; then what does not apply.
    delta : float in [0, 1)
        The δ asked for.
    best : Guarantee or None
        The guarantee that `guarantee(delta)` returns; None if no analysis applies.
    description : Description
        What was explained.
    seconds : float
        What the analyses took.
    """

    rows: tuple[AnalysisRow, ...]
    delta: float
    best: Guarantee | None
    description: Description = field(repr=False)
    seconds: float = field(repr=False, compare=False)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Other trainings that would cost at least 5 % less at δ, at most three, the best first.

        They are accounted for on first access, which takes about twice as long as the explanation. None are
        tried where that took over 2 seconds, nor for what is no run of noisy SGD.
        """
        epsilon = math.inf if self.best is None else self.best.epsilon(self.delta)
        return changes(self.description, self.delta, epsilon, self.seconds)

    @property
    def advice(self) -> tuple[str, ...]:
        """What would help as well, in sentences: changes whose ε depends on what only the user knows."""
        return advice(self.description)

    @property
    def refusals(self) -> tuple[tuple[str, str], ...]:
        """(names, reason) for what does not apply; analyses of one reason are named together."""
        names: dict[str, list[str]] = {}
        for row in self.rows:
            if row.reason is not None:
                names.setdefault(row.reason, []).append(row.method)
        return tuple((", ".join(alike), reason) for reason, alike in names.items())

    def __iter__(self) -> Iterator[AnalysisRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        table = [("method", f"ε at δ = {exact(self.delta)}", "μ", "")]
        for row in self.rows:
            if row.epsilon is not None:
                mu = "—" if row.mu is None else shown(row.mu)
                best = self.best is not None and row.method == self.best.method
                table.append((row.method, shown(row.epsilon), mu, "the guarantee" if best else ""))
        return "\n".join([*aligned(table), *self.closing("ε = ")])

    def closing(self, epsilon: str) -> list[str]:
        """The lines below the table: what does not apply, and what to change for a smaller ε.

        Parameters
        ----------
        epsilon : str
            What stands before a value of ε.

        Returns
        -------
        list of str

        Raises
        ------
        Nothing.
        """
        lines = [f"  {names}: {reason}" for names, reason in self.refusals]
        lines = ["does not apply", *lines] if lines else []
        now = "" if self.best is None else f" instead of {shown(self.best.epsilon(self.delta))}"
        better = [
            f"  with {change.what}: {epsilon}{shown(change.epsilon)}{now} ({change.training})"
            for change in self.changes
        ]
        better += [f"  {sentence}" for sentence in self.advice]
        if isinstance(self.description, NoisySGD) and self.seconds > SLOW:
            better.append(f"  no change was tried: accounting took {plain(self.seconds, 2)} s")
        return [*lines, *(["what another training would cost", *better] if better else [])]


def explain(
    description: Description,
    delta: float = 1e-5,
    also: Sequence[OwnBound] | Mapping[str, OwnBound] = (),
) -> Explanation:
    """Every analysis of `description` with its ε at `delta`.

    `also`: bounds of one's own, by name. They are shown for comparison and never become the guarantee.
    """
    started = perf_counter()
    answers = outcomes(description, delta)
    seconds = perf_counter() - started
    try:
        best: Guarantee | None = best_of(answers, delta)
    except NotApplicable:
        best = None
    rows = [
        AnalysisRow(o.name, False, o.reason or "refused", None, None)
        if o.guarantee is None
        else _row(o.name, o.guarantee.curve, delta)
        for o in answers
    ]
    # Of equals but for roundings the guarantee is on top.
    rows.sort(key=lambda row: (best is None or row.method != best.method, row.epsilon or 0.0))
    if not isinstance(also, Mapping):
        also = {str(getattr(bound, "__name__", repr(bound))): bound for bound in also}
    for name, bound in also.items():
        if not callable(bound):
            kind = type(bound).__name__
            raise InvalidInput(
                "also", f"expected a function of the description as {name!r}, got a {kind}"
            )
        try:
            curve = bound(description)
        except NotApplicable as no:
            rows.append(AnalysisRow(name, False, no.reason, None, None))
            continue
        curve = curve.curve if isinstance(curve, Guarantee) else curve
        if not isinstance(curve, TradeOff):
            kind = type(curve).__name__
            raise InvalidInput("also", f"expected {name} to return a trade-off object, got {kind}")
        rows.append(_row(name, curve, delta))
    rows.sort(key=lambda row: not row.applies)
    return Explanation(tuple(rows), delta, best, description, seconds)


def _row(name: str, curve: TradeOff, delta: float) -> AnalysisRow:
    mu = curve.mu if isinstance(curve, Gaussian) else None
    return AnalysisRow(name, True, None, curve.epsilon(delta), mu)

"""Executes the run that was accounted: the same description, read by a trainer.

Only the last iterate leaves this package. Nothing else that depends on an iterate or on the order of
the batches is printed, logged, returned, or left behind in an exception; a checkpoint, where one is
asked for, is a secret file that is removed at the end.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pabi.budget.ledger import Ledger, reserved
from pabi.describe.accounted import checked_unit
from pabi.describe.batches import KnownUses
from pabi.describe.losses import CONVEX
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.describe.updates import Update
from pabi.describe.vector_losses import executable
from pabi.execute.batches import BatchRows, batch_rows
from pabi.execute.checkpoint import Checkpoint, State, randomness_from, secret_generator
from pabi.execute.computed_steps import EXACT, loss_of, paid_for, rests_on
from pabi.execute.hiding import (
    Terms,
    checked,
    hides,
    mapped,
    refuse_unenforceable,
    released,
    starting_point,
    unseen,
    walk_of,
)
from pabi.execute.linear_gradients import LinearGradients, LossGradients, fast_sum
from pabi.execute.noise import StepNoise
from pabi.execute.progress import progress_bar
from pabi.execute.records import refuse_longer, seen_norm
from pabi.execute.sums import (
    GradientSum,
    RemoteGradients,
    UserRows,
    checked_groups,
    least_move,
    noise_factor,
    per_record_sum,
    stated_sum,
)
from pabi.numbers import validate
from pabi.numbers.errors import must_be, require
from pabi.numbers.rounding import Array, up
from pabi.tradeoff.certificate import released_notes
from pabi.tradeoff.guarantee import TESTING, Guarantee

PerRecordGradients = Callable[[Array, NDArray[np.intp]], ArrayLike]
ClippedGradientSum = Callable[[Array, NDArray[np.intp], float | None], ArrayLike]
Watch = Callable[[int, Array], None]
Keep = Callable[..., None]  # (State, the iterate that will be released)

_EQUAL = 1.0 + 1e-9  # constants that are equal but for roundings differ by less

RESUMED = (
    "all parts of an interrupted run used the same records, and nothing that was computed from its "
    "checkpoints is released but what one run releases"
)
BY_RECORD = (
    "per_record_gradients, or the residual of LinearGradients, computes each record's gradient, to the last "
    "bit, from that record and the point alone; it keeps and shows nothing"
)
CLIPS_ITSELF = (
    "clipped_gradient_sum clips each record's gradient to the bound it is given and returns the sum of "
    "the batch, rounding included"
)


@dataclass(frozen=True, eq=False)
class Trained:
    """The model that a training run releases, with its guarantee.

    Attributes
    ----------
    x : float64 array
        The last iterate, read-only, of the shape of the starting point.
    guarantee : Guarantee
        What its release costs; its notes have the version, the date and the hash of `x`.
    run : NoisySGD
        The description that was both accounted and executed.

    References
    ----------
    docs, "Training".
    """

    x: Array
    guarantee: Guarantee
    run: NoisySGD


def train(
    run: NoisySGD,
    per_record_gradients: PerRecordGradients | RemoteGradients | None = None,
    x0: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    *,
    clipped_gradient_sum: ClippedGradientSum | None = None,
    delta: float = 1e-5,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = False,
    watch: Watch | None = None,
    ledger: Ledger | None = None,
    groups: UserRows | ArrayLike | None = None,
) -> Trained:
    """The last iterate of `run` on your data, with its guarantee.

    Every step is x ← prox(x − η(G/b + λx + ξ), η), or what `run.update` makes of the direction G/b + λx +
    ξ: G the float64 sum of the batch's clipped gradients, b = `run.batch_size` whatever the batch's own
    length, λ the loss's `l2`, applied exactly, and ξ ~ N(0, ς²I) with ς = `run.gradient_noise_std`. A
    cool-down step has G = 0, and so has one whose batch is empty: no record was drawn, or more than the
    cap. Each record's gradient is clipped to `run.record_gradient_bound`, so that the sensitivity is
    enforced even where the loss already promises it; only a run that states its `gradient_sensitivity` is
    taken at its word. The clipping leaves room for the rounding of the sum (see `pabi.execute.sums`; losses
    that are strongly convex or dissipative get as much more noise instead). Noise is exact on a grid, so that
    low-order bits say nothing. Where the guarantee needs the path to stay hidden, computed steps are charged
    for what they may be off by, as the `rounding` of the run that is returned; the noise is then added to the
    iterate, with the other sign.

    Parameters
    ----------
    run : NoisySGD
        What to do. Batch j of an epoch holds rows jb..(j+1)b − 1 of 0..n − 1, permuted once
        (`ShuffleOnce`) or afresh every epoch (`Reshuffle`); the last `spare` of a permutation are in
        none. Or every row draws its batch, once or afresh every epoch (`BallsInBins`); or every step
        draws its batch, b rows (`FixedSize`) or each row with probability b/n (`Poisson`).
    per_record_gradients : callable
        (x, rows) ↦ (len(rows), *x.shape): each record's gradient at x, unclipped and without the
        regulariser, for the (m,) integer array `rows`, a batch or a part of one, never empty. Each
        is computed from x and its own record alone. It must not keep or show what it is given, and
        must return finite numbers for every conceivable record: an error is seen by everyone. Linear
        models (`LogisticGradients` and its kin) are summed by two matrix products instead of being
        called. They have to be those of the run's loss; rows that have no norm are scaled down to its
        `feature_norm`.
    x0 : array
        The starting point, chosen without looking at the data.
    random_state : None, int or numpy Generator
        None (default): noise, permutations and sampled batches from a ChaCha generator keyed by the
        operating system. Anything else is for tests: a PrivacyWarning, and a guarantee that says so.
    clipped_gradient_sum : callable, in place of `per_record_gradients`
        (x, rows, clip_norm) ↦ x.shape: the sum of the batch's gradients, each clipped to
        `clip_norm` (None where the run states its sensitivity). Its clipping becomes an assumption.
    delta : float
        At which the guarantee is chosen; it is valid at every δ.
    checkpoint : path, optional
        A file, not there yet, that is rewritten every `checkpoint_seconds` and removed at the end.
        It holds a hidden iterate: keep it secret, and off backups.
    resume : path, optional
        The checkpoint of the same run from the same `x0` on the same data, from which to go on; it is kept
        up to date unless `checkpoint` names another file. Noise and sampled batches are drawn afresh.
    checkpoint_seconds : float, ≥ 0, in seconds
        The least time between two writings of the checkpoint.
    progress : bool
        Whether to show steps and time on standard error.
    watch : callable, optional
        (step, x) after every step, only for a run with `release="path"`. With `checkpoint` or `resume` the
        file is rewritten before every call, so that no step is shown twice with different noise.
    ledger : pabi.Ledger, optional
        The budget that the release is reserved in, before data are read. The reservation of an interrupted
        run covers the run that resumes it: with `ledger` as well it is charged anew.
    groups : (m,) array-like
        The user of every row, for a run with `unit="user"`: batches are then of users, all rows of a user are
        in one batch, and each row's gradient is clipped before their mean is taken. Integers 0..n − 1 number
        the users; any other ids are numbered here, which takes batches in a secret or random order, or one
        batch. Users without rows contribute nothing.


    Returns
    -------
    Trained
        The last iterate, its guarantee, and `run`.

    Raises
    ------
    InvalidInput
        `diameter` where it is only assumed, `update` that is not executed here, `x0`, `random_state`, a
        checkpoint of another run, or gradients of the wrong shape, not finite, or not in doubles where the
        path is hidden. `x0`, `prox` or `noise_std` where iterates may grow so large that doubles are coarse
        against the noise. A gradient bound below 1e-200, which scaling does not keep, or so large that a
        sum may be infinite.
    NotApplicable
        No analysis covers the run; nothing has then been computed from the data.
    BudgetExceeded
        Less is left in `ledger`; nothing has then been computed from the data.

    Warns
    -----
    PrivacyWarning
        `random_state` is not None, or δ is large for n records.

    References
    ----------
    The iteration of Bok, Su, Altschuler 2024, §4 (their `noisy SGD`).
    """
    options = TrainOptions(
        delta=delta,
        random_state=random_state,
        ledger=ledger,
        clipped_gradient_sum=clipped_gradient_sum,
        checkpoint=checkpoint,
        resume=resume,
        checkpoint_seconds=checkpoint_seconds,
        progress=progress,
        watch=watch,
        groups=groups,
        assumed=taken(per_record_gradients),
    )
    return train_and_keep(None, run, per_record_gradients, x0, options)


def taken(gradients: object) -> tuple[str, ...]:
    """What is assumed of gradients that are not of a class of pabi's own."""
    own = isinstance(gradients, LossGradients | RemoteGradients)
    ours = own and type(gradients).__module__.startswith("pabi.")
    return () if ours or gradients is None else (BY_RECORD,)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(Terms):
    """How `train` trains, by the names of its arguments; `assumed`: what a guarantee assumes as well."""

    clipped_gradient_sum: ClippedGradientSum | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 60.0
    progress: bool = False
    watch: Watch | None = None
    groups: UserRows | ArrayLike | None = None
    assumed: tuple[str, ...] = ()


def train_and_keep(
    keep: Keep | None,
    run: NoisySGD,
    gradients: PerRecordGradients | RemoteGradients | None,
    x0: ArrayLike | None,
    options: TrainOptions,
) -> Trained:
    """What `train` returns, for trainers of pabi's own.

    `keep`: what gets the secret state after the last step, to keep it secret, and the iterate that is
    released. It has no place in the public function: whoever may see a state sees a hidden iterate.
    """
    refuse_unenforceable(run)
    gradients = _within_norm(run, gradients)
    start = starting_point(x0)
    require(
        options.watch is None or run.release == "path",
        "watch",
        'only a run with release="path" may be watched',
    )
    # Neither depends on the data. A checkpoint is of the run as it is computed, with its noise and rounding.
    of_steps = start.shape, float(np.linalg.norm(start)), _own(run, gradients)
    proven = options.proven
    if proven is None:
        run, proven = paid_for(run, options.delta, *of_steps)
    proven = computable(run, proven, start)
    gradient_sum = gradient_sum_of(run, gradients, options.clipped_gradient_sum, options.groups)
    files = _files(run, start, options)
    randomness = randomness_from(options.random_state)
    sentences = [*options.assumed, *unseen(files.assumed)]
    sentences += [] if options.clipped_gradient_sum is None else [CLIPS_ITSELF]
    if isinstance(gradients, RemoteGradients):
        sentences += gradients.assumed
    # Where the rows of a large table lie.
    layout = gradients.layout if isinstance(gradients, LinearGradients) else None
    sentences += () if layout is None else layout.assumed
    secret = randomness.secret and TESTING not in sentences
    if hides(proven):
        sentences += rests_on(run, *of_steps)
    elif run.rounding and files.resumed is not None:
        sentences.append(EXACT)  # the steps before may have been those of a hidden path
    proven = proven.assuming(*(sentence for sentence in sentences if sentence != TESTING))
    guarantee = proven if secret else proven.for_testing()

    def execute() -> Array:
        state = files.state(start, run.rule)
        require(
            set(state.assumed) <= set(sentences),
            "resume",
            "expected the checkpoint that was read before: another process has written it since",
        )
        with progress_bar(options.progress, run.steps, state.step) as advance:
            after_step = _Aftermath(files.current, guarantee.besides, options.watch, advance)
            arranged = layout if options.groups is None else None
            source = randomness.generator()
            x, last = walked(
                run,
                run,
                gradient_sum,
                state,
                batch_rows(run, source, state.secret, arranged),
                draw=lambda k: k if k < run.data_steps else None,
                hidden=hides(guarantee),
                generator=source,
                after_step=after_step,
            )
        if keep is not None:
            keep(replace(last, assumed=guarantee.besides), x)
        return x

    with reserved(options.ledger, proven, secret=secret), contextlib.ExitStack() as laid_out:
        # Rows that lie on a disk in their order are removed, however training ends.
        if layout is not None:
            laid_out.callback(layout.close)
        x = released(execute)
    files.remove()
    return Trained(x, guarantee.noting(released_notes({"x": x})), run)


def computable(run: NoisySGD, proven: Guarantee, start: Array) -> Guarantee:
    """The guarantee, with what it assumes of iterates from `start` on. Raises InvalidInput where public
    numbers say that doubles do not hold them, or their noise: before anything is reserved."""
    with np.errstate(over="ignore"):  # of noise that is refused
        StepNoise(float(np.max(run.gradient_noise_std)), least_move(run), start.size)
    return checked(proven, *walk_of(run, start[None]))


def gradient_sum_of(
    run: NoisySGD,
    per_record_gradients: PerRecordGradients | RemoteGradients | None,
    clipped_gradient_sum: ClippedGradientSum | None = None,
    groups: UserRows | ArrayLike | None = None,
) -> GradientSum:
    """The sum of a batch's clipped gradients, as `train` takes it. Raises InvalidInput."""
    require(
        (per_record_gradients is None) != (clipped_gradient_sum is None),
        "per_record_gradients",
        "expected exactly one of per_record_gradients and clipped_gradient_sum, got "
        + ("neither" if per_record_gradients is None else "both"),
    )
    for name, value in (
        ("per_record_gradients", per_record_gradients),
        ("clipped_gradient_sum", clipped_gradient_sum),
    ):
        require(
            value is None or callable(value) or isinstance(value, RemoteGradients),
            name,
            f"expected a callable, got a {type(value).__name__}",
        )
    remote, gradients = _parted(per_record_gradients)
    _refuse_other_loss(run, gradients)
    users = _users(run, groups, clipped_gradient_sum is not None)
    if clipped_gradient_sum is not None:
        return stated_sum(clipped_gradient_sum, run)
    assert gradients is not None
    if remote is not None:
        _refuse_other_rows(run, remote.n, users)
    elif isinstance(gradients, LinearGradients):
        _refuse_other_rows(run, gradients.records.n, users)
    if isinstance(gradients, LinearGradients):
        stated = dict(run.loss.parameters).get("feature_norm")
        if stated is not None:
            refuse_longer(gradients.records, stated, " in the loss")
        _refuse_steeper(run, gradients)
        _refuse_another(run, gradients)
    return clipped_sum(run, gradients, users) if remote is None else remote.sum_for(run, users)


def _within_norm(
    run: NoisySGD, gradients: PerRecordGradients | RemoteGradients | None
) -> PerRecordGradients | RemoteGradients | None:
    """The gradients at rows within the norm that the loss states, where nothing else bounds them."""
    stated = dict(run.loss.parameters).get("feature_norm")
    if stated is None or not isinstance(gradients, LinearGradients):
        return gradients
    return gradients._within_norm(stated)


def _parted(
    gradients: PerRecordGradients | RemoteGradients | None,
) -> tuple[RemoteGradients | None, PerRecordGradients | None]:
    """(those on other machines if they are, those that show what is to be refused)."""
    if isinstance(gradients, RemoteGradients):
        return gradients, gradients.example
    return None, gradients


def clipped_sum(
    run: NoisySGD, gradients: PerRecordGradients, groups: UserRows | None = None
) -> GradientSum:
    """The sum of the clipped gradients of records in memory; see `per_record_sum`."""
    if not isinstance(gradients, LinearGradients):
        return per_record_sum(gradients, run, groups)
    if run.clipping == "coordinates":
        return per_record_sum(gradients._each, run, groups)
    return fast_sum(gradients, run, groups)


def _refuse_other_rows(run: NoisySGD, rows: int, users: UserRows | None) -> None:
    """Raises InvalidInput unless the rows are those that the run describes."""
    if users is not None:
        checked_groups(users, run.n, rows)
    else:
        require(rows == run.n, "n", f"expected {rows}, the rows of X, got {run.n}")


def _own(run: NoisySGD, gradients: PerRecordGradients | RemoteGradients | None) -> bool:
    """Whether gradients are those of the run's loss at x·θ, one of pabi's, by products of pabi's own."""
    own = _parted(gradients)[1]
    return isinstance(own, LossGradients) and own._offsets is None and loss_of(run) is not None


def _users(run: NoisySGD, groups: UserRows | ArrayLike | None, summed: bool) -> UserRows | None:
    """The rows of every user, None in a run of records. `summed`: whether sums are stated.

    Raises InvalidInput unless groups are given just where the run needs them.
    """
    if groups is None:
        require(
            checked_unit(run.unit) != "user" or summed,
            "groups",
            'missing: a run with unit "user" needs a user a row',
        )
        return None
    must_be(checked_unit(run.unit) == "user", "unit", '"user" in a run with groups', run.unit)
    require(
        not summed,
        "groups",
        "expected per_record_gradients: a stated sum takes the means of users by itself",
    )
    users = checked_groups(groups, run.n)
    require(
        users.placed or run.steps_per_epoch == 1 or not isinstance(run.order, KnownUses),
        "groups",
        f"expected integers 0..{run.n - 1}, since batches are in a known order: which batch a user is in "
        "must not depend on the ids of others",
    )
    return users


def _refuse_steeper(run: NoisySGD, gradients: LinearGradients) -> None:
    """Raises InvalidInput for gradients of more curvature than the loss states: they are another loss's."""
    records, stated = gradients.records, run.loss.curvature
    if gradients.steepness is None or records.feature_norm is None or stated is None:
        return
    most = gradients.steepness * seen_norm(records.feature_norm, records.intercept_scaling) ** 2
    require(
        most <= stated[1] * _EQUAL,
        "loss",
        f"expected one of curvature up to {most!r} or more, that of {type(gradients).__name__}, got "
        f"{stated[1]!r}",
    )


def _refuse_another(run: NoisySGD, gradients: LinearGradients) -> None:
    """Raises InvalidInput for gradients of another loss of pabi's, or of none such as the run describes."""
    described, own = loss_of(run), gradients.loss if isinstance(gradients, LossGradients) else None
    require(
        described is None or own is None or described.covers(own),
        "loss",
        f"expected that of the gradients, {own!r}, got {described!r}",
    )
    outputs = math.prod(gradients.shape[1:])
    require(
        not run.loss.glm or outputs == 1,
        "loss",
        f"expected one without glm: gradients of {outputs} predictors are no number times a fixed vector",
    )
    # Of one record the Hessian has the rank of its predictors.
    require(
        run.loss.holds_of_zero or gradients.shape[0] == 1,
        "loss",
        f"expected no {run.loss.kind} loss: a record of a linear model is flat in most directions; state a "
        "regulariser as l2",
    )
    # What is known of it has to hold of smaller multiples.
    require(
        run.loss.scalable or not gradients.has_weights,
        "loss",
        "expected one without strong convexity, which weights of records would lessen",
    )


def _refuse_other_loss(run: NoisySGD, gradients: PerRecordGradients | None) -> None:
    """Raises InvalidInput where the loss is clipped convexly and nothing shows that the gradients are.

    Scaling a gradient down to the same norm is no substitute: steps on what comes out of it can expand.
    """
    parameters = dict(run.loss.parameters)
    if run.clipping not in CONVEX and parameters.get("residual_cap", 1.0) == 1.0:
        return
    loss = executable(run.loss.kind, **parameters)
    field = "clipping" if run.clipping in CONVEX else "residual_cap"
    own = gradients.loss if isinstance(gradients, LossGradients) else None
    require(
        own is not None and loss.covers(own),
        field,
        f"expected the gradients of pabi.learn for {loss!r}, which is clipped by its residuals; other "
        "gradients, or sums of them, are not known to be",
    )


@dataclass(frozen=True)
class _Files:
    """The checkpoint to go on from, and the one to keep up to date; None where there is none."""

    resumed: Checkpoint | None
    current: Checkpoint | None

    def assumed(self) -> list[str]:
        """The assumptions of the parts of the run before the interruption."""
        return [] if self.resumed is None else [*self.resumed.assumed(), RESUMED]

    def state(self, start: Array, rule: Update) -> State:
        """The state to begin with: that of the checkpoint, or the start of the run."""
        if self.resumed is None:
            return State(0, start, None, update=rule.start(start))
        return self.resumed.read()

    def remove(self) -> None:
        """Removes both checkpoints, once the run is over."""
        for file in (self.resumed, self.current):
            if file is not None:
                file.remove()


def assumed_before(run: NoisySGD, x0: ArrayLike, options: TrainOptions) -> tuple[str, ...]:
    """The assumptions of the parts of the run before an interruption, for trainers that read data first.

    Raises InvalidInput as `train` does where a checkpoint does not serve.
    """
    return tuple(unseen(_files(run, starting_point(x0), options).assumed))


def _files(run: NoisySGD, start: Array, options: TrainOptions) -> _Files:
    checkpoint, resume, seconds = options.checkpoint, options.resume, options.checkpoint_seconds
    validate.number("checkpoint_seconds", seconds, at_least=0.0)
    resumed = None if resume is None else Checkpoint(resume, run, start, seconds)
    if checkpoint is None:
        return _Files(resumed, resumed)
    current = Checkpoint(checkpoint, run, start, seconds)
    if resume is None or os.fspath(resume) != os.fspath(checkpoint):
        current.refuse_existing()
    return _Files(resumed, current)


class _Aftermath:
    """What happens after a step, none of which is seen unless the path is released."""

    def __init__(
        self,
        file: Checkpoint | None,
        assumed: tuple[str, ...],
        watch: Watch | None,
        advance: Callable[[], None],
    ) -> None:
        self._file, self._assumed, self._watch, self._advance = file, assumed, watch, advance

    def __call__(self, state: State) -> None:
        state = replace(state, assumed=self._assumed)
        if self._file is not None and self._watch is not None:
            # What is shown is shown once: a resumed run goes on after it, and never takes the step again.
            self._file.write(state)
        elif self._file is not None:
            self._file.write_if_due(state)
        if self._watch is not None:
            self._watch(state.step, state.x.copy())
        self._advance()


def walked(
    run: NoisySGD,
    whole: NoisySGD,
    gradient_sum: GradientSum,
    state: State,
    batches: BatchRows,
    *,
    draw: Callable[[int], int | None],
    hidden: bool,
    generator: np.random.Generator,
    after_step: Callable[[State], None],
) -> tuple[Array, State]:
    """(the last iterate as it is released, the state as it is). Every local here is secret but the former.

    `whole`: the run whose schedule the steps are of, up to its end. `draw`: the batch of a step, as the
    orders count them, None where it uses no data. `hidden`: whether the guarantee needs the path to stay
    hidden.
    """
    end = whole.steps
    step_sizes = np.broadcast_to(np.asarray(whole.step_size, dtype=np.float64), end)
    stated = np.asarray(whole.gradient_noise_std, dtype=np.float64)
    noise_stds = np.broadcast_to(stated * noise_factor(run), end)
    x, update, l2, rule = state.x, state.update, run.loss.l2, run.rule
    moved = least_move(run)
    for k in range(state.step, end):
        step_size, noise_std = float(step_sizes[k]), float(noise_stds[k])
        gradient = np.zeros(x.shape)
        number = draw(k)
        rows = None if number is None else batches.batch(number)
        if rows is not None:
            gradient = gradient_sum(x, rows) / run.batch_size
        if hidden:
            # The iterate with its noise is a rounding of the real one, and no more than that is handed on.
            x, update = rule.step(x, l2 * x + gradient, step_size, update, k)
            with_noise = StepNoise(up(step_size * noise_std), step_size * moved, x.size)
            x = with_noise(x, generator)
        else:
            # Noise first of all, while the rounding is what the clipping left room for: all that follows is
            # post-processing of a sum with noise that is exact.
            noisy = StepNoise(noise_std, moved, x.size)(gradient, generator)
            x, update = rule.step(x, l2 * x + noisy, step_size, update, k)
        if run.prox is not None:
            x = mapped(run.prox(x, step_size), x.shape)
        state = State(k + 1, x, batches.secret, update=update)
        after_step(state)
    # Its own memory, not a view of something hidden.
    return np.array(x, dtype=np.float64), state


# Goes on with a run that was trained, as the description of its forgetting says.
#
# The steps follow on the last iterate as it was before rounding, in the order that the run drew, with
# noise that is drawn afresh. What the gradients are of withdrawn records is the caller's: zero.


def go_on(
    unlearning: Unlearning,
    gradients: PerRecordGradients,
    state: State,
    generator: np.random.Generator | None = None,
    groups: UserRows | None = None,
    *,
    hidden: bool = True,
) -> tuple[Array, State]:
    """(the last iterate as it is released, the secret state as it is) after the last request's steps.

    `gradients`: of the loss's records, as for `train`; zero for all that are withdrawn. `state`: before the
    last request's steps. `generator`: None for noise from the operating system. `groups`: the rows of users,
    of whom all contributions are zero that are withdrawn. `hidden`: whether what was proven needs the path
    to stay hidden.
    """
    run = unlearning.run
    require(
        state.step == unlearning.last and state.step != unlearning.steps,
        "state",
        f"expected one after {unlearning.last} steps, of {unlearning.steps}, got one after {state.step}",
    )
    gradient_sum = gradient_sum_of(run, gradients, groups=groups)

    def execute() -> tuple[Array, State]:
        source = secret_generator() if generator is None else generator
        return walked(
            run,
            unlearning.whole,
            gradient_sum,
            state,
            batch_rows(run, source, state.secret),
            draw=lambda k: k - run.cooldown_steps,
            hidden=hidden,
            generator=source,
            after_step=lambda _: None,
        )

    return unseen(execute)


def enforceable(guarantee: Guarantee, unlearning: Unlearning, start: Array) -> Guarantee:
    """A guarantee of this forgetting, where its proof survives doubles. Raises InvalidInput."""
    whole = unlearning.whole
    if hides(guarantee):
        sentences = rests_on(whole, start.shape, float(np.linalg.norm(start)))
    else:  # the training may have hidden its path
        sentences = (EXACT,) if whole.rounding else ()
    return checked(guarantee.assuming(*sentences), *walk_of(whole, start[None]))

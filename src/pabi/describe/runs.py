"""Descriptions of runs of noisy SGD: what happens to the data, nothing about what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, assert_never, runtime_checkable

import numpy as np

from pabi.describe import batches, updates
from pabi.describe.accounted import (
    ADJACENCY,
    HIDDEN,
    IF_ANY,
    SHOWN,
    UNIT,
    Accounted,
    Adjacency,
    Unit,
    adjacent,
    changed,
    same,
    those_that_hold,
    warn_of_large_delta,
)
from pabi.describe.batches import (
    Batches,
    FixedSizes,
    Fractions,
    FreshSubsets,
    KnownUses,
    Order,
    RandomSizes,
    SecretOrder,
    fractions,
)
from pabi.describe.losses import CONVEX, LOSS, Loss, no_residual
from pabi.describe.updates import Update, evaluated, stated_by_function
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import Array, down, fraction_up, times_down, times_up
from pabi.numbers.validate import Check, answering, by, convert, keep, one_of, optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pabi.describe.iteration import NoisyIteration
    from pabi.tradeoff.guarantee import Guarantee

# What other libraries call the fields of a run, with what a run calls them.


_MOMENTUM = "of which every iterate is charged (composition)"

OTHER_KEYWORDS = {
    "momentum": f"a run has no such field: write update=pabi.updates.Momentum({{}}), {_MOMENTUM}",
    "nesterov": f"belongs to the update: write update=pabi.updates.Momentum(0.9, nesterov={{}}), {_MOMENTUM}",
    "dampening": (
        "pabi.updates.Momentum has none: write update=pabi.updates.Momentum(…) without it, or "
        'update="other" for what is trained elsewhere'
    ),
    "weight_decay": "belongs to the loss, as its regulariser: write loss.with_l2({})",
    "l2": "belongs to the loss: write loss.with_l2({})",
    "lr": "a run calls it step_size: write step_size={}",
    "learning_rate": "a run calls it step_size: write step_size={}",
    "batch_size": "the scheme has the size: of DataLoader(shuffle=True) write batches=pabi.Reshuffle({})",
    **dict.fromkeys(
        ("max_grad_norm", "l2_norm_clip", "l2_clip_norm"),
        "a run calls it clip_norm: write clip_norm={}",
    ),
    **dict.fromkeys(("iterations", "num_steps"), "a run calls it steps: write steps={}"),
    "num_epochs": "a run calls it epochs: write epochs={}",
    "optimizer": (
        "a run calls it update: write update=pabi.updates.Momentum(0.9), pabi.updates.Adam(), or "
        '"other" for what pabi does not know'
    ),
    "delta": "belongs to the guarantee: write run.guarantee(delta={})",
    "epsilon": "a run has noise: find what meets it by pabi.calibrate(run, epsilon={}, delta=…)",
}

# The same for trainers, which are given a run.

OF_THE_RUN = {
    "epochs": "the run has them: write NoisySGD(…, epochs={})",
    "batch_size": "the run has it: write NoisySGD(…, batches=pabi.Reshuffle({}))",
    **dict.fromkeys(("lr", "learning_rate"), "the run has it: write NoisySGD(…, step_size={})"),
    **dict.fromkeys(
        ("max_grad_norm", "l2_norm_clip", "l2_clip_norm", "clip_norm"),
        "the run has it: write NoisySGD(…, clip_norm={})",
    ),
    "noise_multiplier": "the run has it: write NoisySGD(…, noise_multiplier={})",
    "target_epsilon": "train calls it epsilon: write epsilon={}",
    "target_delta": "train calls it delta: write delta={}",
}

# What the author of a run of noisy SGD states, checked, and what follows from it.


MOST = 10**18  # records or steps
COUNT: Check = partial(validate.integer, at_least=1, at_most=MOST)
RELEASE: Check = one_of("last", "path")
_BINARY = 1e-9  # relative: 2.2 epochs of 5 batches are 11 steps, whatever 2.2 is in binary


@runtime_checkable
class Prox(Protocol):
    """A proximal map of a closed convex function: nonexpansive, x ↦ p(x, step_size)."""

    @property
    def diameter(self) -> float | None:
        """The diameter of its range, None if unbounded."""

    def __call__(self, x: Any, step_size: float) -> Any:
        """The map's value at x, an array of the same shape; `step_size`: η."""


@dataclass(frozen=True, eq=False, init=False)
class NoisySGD(Accounted):
    """A run of noisy SGD, X ← Π(X − η(g(X) + λX + ξ)), of which the last iterate is released.

    g is the sum of the batch's (clipped) gradients over `size`, whatever the batch's own length, and
    ξ ~ N(0, ς²I).

    Parameters
    ----------
    loss : Loss
        One record's loss and the ℓ2 regulariser λ, which is applied exactly at every step.
    n : int
        Records, or enrolled users.
    batches : Batches
        `FullBatch()`, `Cyclic(size)`, `ShuffleOnce(size, spare=0)`, `BallsInBins(size, cap=None)`,
        `Reshuffle(size, spare=0)`, `FixedSize(size)` or `Poisson(size, cap=None)`. An epoch is ⌈n/size⌉
        steps, ⌈(n − spare)/size⌉ where some records are in no batch, or as many as a Poisson scheme states.
    epochs : float, optional
        Passes over the data, rounded up to whole batches. Cool-down steps come on top.
    steps : int, optional
        All steps, cool-down included, in place of `epochs`.
    step_size : float, (steps,) array or callable
        η > 0, one per step, cool-down included. A function of the step k is asked for k = 0, …, steps − 1,
        ten million steps at most. The field then holds the numbers; `dataclasses.replace` and `calibrate`
        ask for more where there are more steps. Files, copies and pickles have the numbers alone.
    noise_std : float or (steps,) array, optional
        ς > 0, per coordinate, of the noise on (gradient sum)/size, in units of the gradient.
    noise_multiplier : float or (steps,) array, optional
        ς·size/clip_norm in place of `noise_std` (the loss's gradient bound stands in for a missing
        clip_norm). With neither, only `calibrate` works.
    clip_norm : float, optional
        C: each record's gradient is clipped to this norm.
    clipping : str
        "norm": the gradient is scaled down. "coordinates": each of its d coordinates is clipped to
        clip_norm/√d, which bounds the norm as well and leaves a separable loss separable. "residual": the
        loss of a linear model is clipped convexly, to a convex function below it whose gradients are of norm
        clip_norm at most. "ball": the same, but for the softmax loss, whose K residuals are bounded by their
        norm, not by the one of the record's class: longer gradients within the same bounds, and a root to be
        found for each record. The gradients of `pabi.learn` train both, and no others.
    gradient_sensitivity : float, optional
        L: the largest change of the batch's gradient sum between adjacent data sets, where known. Not
        with sampled batches, where one record also displaces others, but for `Poisson` under
        "zero_out".
    adjacency : str
        "replace_one" (default) or "zero_out", or the dp_accounting.NeighboringRelation of that meaning.
    prox : Prox, optional
        A proximal map applied after every step.
    diameter : float, optional
        A bound on the distance of any two iterates. Given without `prox` it is an assumption.
    cooldown_steps : int
        Final steps with regulariser and noise but without data.
    update : str or Update
        "sgd", one of `pabi.updates`, or "other" for what is trained elsewhere: but for plain descent only
        composition applies.
    release : str
        "last", or "path": then only composition applies.
    unit : str
        "record" or "user": whom the guarantee protects. With "user", n and batches count users. A user
        contributes the mean of the clipped gradients of their records, and 0 without any; the loss of a
        record must then be one that the loss 0 is as well, so neither strongly convex nor dissipative.
    rounding : float
        In [0, 1]: how far computed steps may be from exact ones over the whole run, those that follow
        requests to forget included: the root of the sum of the squares of error over noise. 0 is exact
        arithmetic. Trainers of pabi set it.
    total_steps : int, optional
        What `dataclasses.replace` hands on: the number of steps, where neither `epochs` nor `steps` says it.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Bok, Su, Altschuler 2024, §4; docs, Theory, 9, Theorem 59, of `rounding`.
    """

    loss: Loss = field(metadata=LOSS)
    n: int = field(metadata=by(COUNT))
    batches: Batches = field(metadata=by(lambda _, value: batches.checked(value)))
    epochs: float | None
    total_steps: int
    step_size: Any
    noise_std: Any
    noise_multiplier: Any
    clip_norm: float | None = field(metadata=IF_ANY)
    gradient_sensitivity: float | None = field(metadata=IF_ANY)
    adjacency: Adjacency = field(metadata=ADJACENCY)
    prox: Prox | None
    diameter: float | None
    cooldown_steps: int = field(metadata=by(partial(validate.integer, at_least=0, at_most=MOST)))
    update: str | Update = field(metadata=by(lambda _, value: updates.checked(value)))
    release: str = field(metadata=by(RELEASE))
    clipping: str = field(metadata=by(one_of("norm", "coordinates", *CONVEX)))
    unit: Unit = field(metadata=UNIT)
    rounding: float = field(metadata=by(validate.SHARE))

    @answering(OTHER_KEYWORDS)
    def __init__(
        self,
        loss: Loss,
        n: int,
        batches: Batches,
        epochs: float | None = None,
        steps: int | None = None,
        step_size: Any = None,
        noise_std: Any = None,
        noise_multiplier: Any = None,
        *,
        clip_norm: float | None = None,
        gradient_sensitivity: float | None = None,
        adjacency: Any = "replace_one",
        prox: Prox | None = None,
        diameter: float | None = None,
        cooldown_steps: int = 0,
        update: str | Update = "sgd",
        release: str = "last",
        clipping: str = "norm",
        unit: str = "record",
        rounding: float = 0.0,
        total_steps: int | None = None,
    ) -> None:
        keep(
            self,
            loss=loss,
            n=n,
            batches=batches,
            epochs=epochs,
            step_size=step_size,
            noise_std=noise_std,
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            gradient_sensitivity=gradient_sensitivity,
            adjacency=adjacency,
            prox=prox,
            diameter=diameter,
            cooldown_steps=cooldown_steps,
            update=update,
            release=release,
            clipping=clipping,
            unit=unit,
            rounding=rounding,
        )
        self.__post_init__()
        self._check_steps(steps, total_steps)
        self._check_gradients()
        self._check_rest()

    def _schedule(self, name: str, value: Any) -> Any:
        if name == "step_size" and stated_by_function(value):
            return value  # checked where the function was asked, for so many steps
        schedule = validate.schedule(name, value, positive=True)
        if isinstance(schedule, np.ndarray) and len(schedule) != self.steps:
            raise InvalidInput(
                name,
                f"expected {self.steps} entries, one per step (cool-down included), got {len(schedule)}",
            )
        return schedule

    def _check_steps(self, steps: int | None, total: int | None) -> None:
        """Stores how many there are: as `steps` says, or `epochs`, or else as handed on (`total`)."""
        cooldown, _ = self.cooldown_steps, self.batch_size
        if self.epochs is not None and steps is not None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got both")
        if self.epochs is not None:
            keep(self, total_steps=_steps_of(self.epochs, self.steps_per_epoch) + cooldown)
            return
        stated = total if steps is None else steps
        if stated is None:
            raise InvalidInput("epochs", "expected exactly one of epochs and steps, got neither")
        stated = COUNT("steps", stated)
        most = stated - 1
        validate.integer("cooldown_steps", cooldown, at_least=0, at_most=most, of="steps − 1 = ")
        keep(self, total_steps=stated)

    def _check_gradients(self) -> None:
        if self.noise_std is not None and self.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier", "expected at most one of noise_std and noise_multiplier"
            )
        if self.gradient_sensitivity is not None:
            for other in ("clip_norm", "noise_multiplier"):
                if getattr(self, other) is not None:
                    raise InvalidInput(
                        "gradient_sensitivity", f"expected it alone, got it together with {other}"
                    )
            require(
                self._sensitivity_may_be_stated,
                "gradient_sensitivity",
                f"a {self.batches.kind} batch holds the record in place of others or not at all: what "
                "the adjacent pair differ by is not enough; give clip_norm, or a loss with a "
                "gradient bound",
            )
        elif self.record_gradient_bound is None:
            raise InvalidInput(
                "clip_norm",
                "missing: nothing bounds one record's gradient; give clip_norm, gradient_sensitivity, "
                "or a loss with a gradient bound",
            )

    @property
    def _sensitivity_may_be_stated(self) -> bool:
        """Whether what the adjacent pair differ by bounds what a record adds to a batch."""
        match self.order:
            case KnownUses() | SecretOrder():
                return True
            case FreshSubsets() as order:
                return changed(self.adjacency) == 1 and not order.displaces
            case _:
                assert_never(self.order)

    def _check_rest(self) -> None:
        require(self.step_size is not None, "step_size", "missing: a run needs it")
        schedule = self._schedule
        keep(self, step_size=evaluated(self.step_size, self.steps))
        convert(
            self,
            step_size=schedule,
            noise_std=optional(schedule),
            noise_multiplier=optional(schedule),
        )
        if self.prox is not None and not (callable(self.prox) and hasattr(self.prox, "diameter")):
            raise InvalidInput(
                "prox", f"expected a map p(x, step_size) with a diameter, got {self.prox!r}"
            )
        stated = getattr(self.prox, "diameter", None)
        for name, value in (("diameter", self.diameter), ("prox.diameter", stated)):
            if value is not None:
                validate.number(name, value, above=0.0)
        if isinstance(self.diameter, np.generic):  # assumptions show it as Python writes it
            keep(self, diameter=self.diameter.item())
        require(
            self.unit != "user" or self.loss.holds_of_zero,
            "unit",
            f'expected "record" for a {self.loss.kind} loss: the mean over the records of a user who has '
            "none is 0, which is not strongly convex or dissipative; state the loss as convex or "
            "nonconvex, with its quadratic part in l2",
        )
        if self.clipping != "norm" and self.clip_norm is None:
            raise InvalidInput("clip_norm", f"missing: clipping={self.clipping!r} needs a norm")
        if self.clipping in CONVEX and not self.loss.has_residual:
            raise InvalidInput("clipping", no_residual(self.loss.kind))
        if self.clipping == "ball" and "residual_cap" in dict(self.loss.parameters):
            raise InvalidInput(
                "clipping", 'expected "residual" for a loss with a residual_cap, got "ball"'
            )

    @property
    def steps(self) -> int:
        """All steps, cool-down included."""
        return self.total_steps

    @property
    def order(self) -> Order:
        """Which steps use a record, and who knows.

        Raises InvalidInput for batches that pabi does not know.
        """
        return batches.order_of(self.batches, self.n, self.data_steps)

    @property
    def rule(self) -> Update:
        """The update that every step takes."""
        return updates.rule_of(self.update)

    @property
    def batch_size(self) -> int:
        """b, by which every batch sum is divided."""
        return self.batches.batch_size(self.n)

    @property
    def steps_per_epoch(self) -> int:
        """l = ⌈n/size⌉, the steps of one pass over the data."""
        return self.batches.per_epoch(self.n)

    @property
    def data_steps(self) -> int:
        """Steps that use data: all but the cool-down."""
        return self.steps - self.cooldown_steps

    @property
    def record_gradient_bound(self) -> float | None:
        """The largest norm of one record's (clipped) gradient: the lesser of clip_norm and the loss's."""
        bounds = [b for b in (self.clip_norm, self.loss.gradient_bound) if b is not None]
        return min(bounds) if bounds else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisySGD):
            return NotImplemented
        return self.rule == other.rule and all(
            same(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
            if f.name != "update"
        )

    __hash__ = None

    def __getstate__(self) -> dict[str, Any]:
        """The constructor's arguments, those that are None left out; of step sizes only the numbers."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if stated_by_function(self.step_size):
            values["step_size"] = np.array(self.step_size)
        return {name: value for name, value in values.items() if value is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, **state)

    @property
    def sensitivity(self) -> float:
        """L: how far one record moves a batch's gradient sum under `adjacency`.

        In a batch of fixed size a record takes the place of another, under either adjacency.
        """
        if self.gradient_sensitivity is not None:
            return self.gradient_sensitivity
        bound = self.record_gradient_bound
        assert bound is not None
        return 2.0 * bound if self.order.displaces else changed(self.adjacency) * bound

    @property
    def gradient_noise_std(self) -> float | Array:
        """ς, as stated or from the multiplier, rounded down; a float or (steps,) array.

        Raises InvalidInput if the run has no noise yet.
        """
        if self.noise_std is not None:
            return self.noise_std  # type: ignore[no-any-return]
        if self.noise_multiplier is None:
            raise InvalidInput(
                "noise_std", "missing: give noise_std or noise_multiplier, or calibrate"
            )
        unit = self.clip_norm if self.clip_norm is not None else self.loss.gradient_bound
        assert unit is not None
        if isinstance(self.noise_multiplier, np.ndarray):
            scaled: Array = np.nextafter(
                times_down(self.noise_multiplier, unit) / self.batch_size, 0.0
            )
        else:
            scaled = down(down(self.noise_multiplier * unit) / self.batch_size)  # type: ignore[assignment]
        if not np.all(scaled > 0.0):
            raise InvalidInput("noise_multiplier", "the noise it stands for underflows to zero")
        return scaled

    @property
    def range_diameter(self) -> float:
        """D: the least of the proximal map's and the stated diameter, ∞ if there is none."""
        bounds = [self.diameter, getattr(self.prox, "diameter", None)]
        return min((float(d) for d in bounds if d is not None), default=math.inf)

    @property
    def constant(self) -> bool:
        """Whether step size and noise are the same at every step."""
        varied = isinstance(self.step_size, np.ndarray)
        return not (varied or isinstance(self.gradient_noise_std, np.ndarray))

    def fractions(self, failing: float = 0.0) -> Fractions:
        """The records of a batch over what its sum is divided by.

        Parameters
        ----------
        failing : float, in [0, 1]
            How likely it may be that a batch of random size has more records.

        Returns
        -------
        Fractions
            The numbers between which they lie.

        Raises
        ------
        InvalidInput
            For batches that pabi does not know.
        """
        return fractions(self.order.sizes, self.batch_size, failing)

    def schedule(self, first: int, end: int) -> tuple[Array, Array]:
        """Step sizes and noises of some steps in turn.

        Parameters
        ----------
        first, end : int
            The steps `first`, …, `end` − 1, counted from 0.

        Returns
        -------
        (array, array), each (end − first,)
            η, and ς, the noise on the gradient.

        Raises
        ------
        InvalidInput
            If the run has no noise yet.
        """

        def part(x: Any) -> Array:
            return x[first:end] if isinstance(x, np.ndarray) else np.full(end - first, float(x))

        return part(self.step_size), part(self.gradient_noise_std)

    def step_constants(self, step_sizes: Array, noise: Array) -> tuple[Array, Array]:
        """Sensitivities and noises of steps, in units of the iterate.

        Parameters
        ----------
        step_sizes : array
            η.
        noise : array of the same shape
            ς, the noise on the gradient.

        Returns
        -------
        (array, array) of the same shape
            s_k of a batch with the record in it, rounded up, and σ_k, rounded down.

        Raises
        ------
        Nothing.
        """
        per_record = fraction_up(Fraction(self.sensitivity) / self.batch_size)
        return times_up(step_sizes, per_record), np.nextafter(step_sizes * noise, 0.0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the user must be able to stand behind for a guarantee of this run to hold."""
        return run_sentences(self)

    def iteration(self, position: int | None = None) -> NoisyIteration:
        """The normal form of the run, as one record sees it.

        Parameters
        ----------
        position : int, optional
            The batch of the record, counted from 0; None for the worst record.

        Returns
        -------
        NoisyIteration
            The run in normal form.

        Raises
        ------
        InvalidInput
            For a position that the run does not have, where no record is the worst, and for a run with
            `rounding`.

        References
        ----------
        docs, "The worst record".
        """
        from pabi.account.best import iteration

        return iteration(self, position)

    def guarantee(self, delta: float = 1e-5, position: int | None = None) -> Guarantee:
        """The best proven guarantee, chosen at one δ and valid at every δ.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ at which analyses are compared.
        position : int, optional
            The batch, counted from 0, of a run with known positions whose records alone the guarantee is of.

        Returns
        -------
        Guarantee
            Its `source` names the theorem.

        Raises
        ------
        InvalidInput
            For a δ or a position outside of its range.
        NotApplicable
            When no analysis covers the run.

        Warns
        -----
        PrivacyWarning
            When `delta` exceeds 1/n.
        """
        warn_of_large_delta(self.n, delta)
        return self._best(delta, position)

    def unlearning(
        self,
        delta: float = 1e-5,
        *,
        steps: int | None = None,
        epochs: float | None = None,
        records: int = 1,
        requests: Sequence[tuple[float, int]] = (),
        published: bool = False,
    ) -> Guarantee:
        """What is promised of a model that forgets: it is nearly one that was retrained without the records.

        After a request training goes on, from the next batch, with the gradients of the records that were
        withdrawn at zero (under "replace_one": with those of the records that take their places). The model
        is compared with one trained for as many steps like that from the beginning, in both orders. Exactly
        one of `epochs`, `steps` and `requests` is stated. The step size goes on with the function that it
        was given as, or with its last entry, and so does the noise.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ at which analyses are compared.
        steps : int, optional
            The steps after the request; 0 for the model as it is.
        epochs : float, optional
            The same in passes over the data, rounded up to whole batches.
        records : int
            How many records are withdrawn together; users, where `unit` is "user".
        requests : sequence of (float, int)
            (epochs after a request, records, or users, that it withdraws) for requests one after another;
            what is promised is about the model after the last one.
        published : bool
            Whether a model was handed out before the last request's steps, and the promise is made to those
            who know it. This needs a diameter.

        Returns
        -------
        Guarantee
            Of adjacency "retrained".

        Raises
        ------
        InvalidInput
            For a δ out of its range, and for an argument that is wrong.
        NotApplicable
            When no analysis covers it, and where a model that was handed out leaves nothing to promise.

        Warns
        -----
        PrivacyWarning
            When `delta` exceeds 1/n.

        References
        ----------
        docs, "Theory", 21.
        """
        from pabi.account.forgetting import described, guarantee_of

        warn_of_large_delta(self.n, delta)
        unlearning = described(
            self,
            steps=steps,
            epochs=epochs,
            records=records,
            requests=requests,
            published=published,
        )
        return guarantee_of(unlearning, delta)

    def epochs_to_forget(self, epsilon: float, delta: float, records: int = 1) -> int:
        """The fewest whole epochs after which records that are withdrawn together are forgotten.

        Parameters
        ----------
        epsilon : float > 0
            The target, that of `unlearning`.
        delta : float in (0, 1)
            The δ of the target.
        records : int
            How many records are withdrawn together; users, where `unit` is "user".

        Returns
        -------
        int
            Epochs; their guarantee has been computed and meets the target. 0 if the model meets it as it is.
            Where steps expand, fewer might meet it as well.

        Raises
        ------
        TargetUnreachable
            When no number meets the target.
        InvalidInput
            For an argument that is out of range.

        References
        ----------
        docs, "Theory", 21.
        """
        from pabi.account.forgetting import fewest_epochs

        return fewest_epochs(self, epsilon, delta, records)

    def with_noise_to_forget(
        self, epsilon: float, delta: float, *, epochs: float = 1, records: int = 1
    ) -> NoisySGD:
        """This run with the least noise at which so many epochs are enough to forget records.

        Parameters
        ----------
        epsilon : float > 0
            The target, that of `unlearning`.
        delta : float in (0, 1)
            The δ of the target.
        epochs : float
            The epochs after the request.
        records : int
            How many records are withdrawn together; users, where `unit` is "user".

        Returns
        -------
        NoisySGD
            Its `noise_std`, or its `noise_multiplier` where it has one, is changed. A schedule is scaled.

        Raises
        ------
        TargetUnreachable
            When no noise meets the target.
        InvalidInput
            For an argument that is out of range.

        References
        ----------
        docs, "Theory", 21.
        """
        from pabi.account.forgetting import least_noise

        return least_noise(self, epsilon, delta, epochs=epochs, records=records)


def _steps_of(epochs: Any, per_epoch: int) -> int:
    """The number of steps with data in so many passes. Raises InvalidInput."""
    exact = validate.number("epochs", epochs, above=0.0) * per_epoch
    require(exact <= MOST, "epochs", f"expected at most {MOST} steps in all, got {epochs!r} epochs")
    whole = round(exact)
    return whole if abs(exact - whole) <= _BINARY * exact else math.ceil(exact)


# The sentences about a run that a guarantee of it rests on.


ONE_SIDE = (
    "every record has one label, and neither it nor the features change during the training: its gradients "
    "stay on one side"
)


def run_sentences(
    run: NoisySGD, hidden: bool = True, position: int | None = None
) -> tuple[str, ...]:
    """What a guarantee of `run` rests on.

    `hidden`: whether it needs the path to stay hidden. `position`: the only batch it speaks of.
    """
    bound = run.loss.gradient_bound
    return those_that_hold(
        *adjacent(run.adjacency, run.unit),
        HIDDEN if hidden else SHOWN,
        position is not None
        and f"the {run.unit} is one of batch {position} (0-based); no other {run.unit} is spoken of",
        run.batches.sentence,
        *_about_sizes(run),
        f"every batch sum of gradients, the short last one included, is divided by {run.batch_size}",
        "noise is Gaussian, fresh at every step, independent of the data and never revealed",
        "the starting point, the schedule and all settings do not depend on the data",
        _about_clipping(run),
        run.gradient_sensitivity is None
        and bound == run.record_gradient_bound
        and f"each record's gradient has norm at most {bound!r}",
        not hidden and "each step depends on the data only through the noisy gradients so far",
        *(_about_moduli(run) if hidden else ()),
    )


def _about_clipping(run: NoisySGD) -> str | None:
    """How far one unit moves a batch, or what is clipped so that it moves no farther; None if nothing is."""
    if run.gradient_sensitivity is not None:
        return (
            f"one {run.unit} moves a batch's gradient sum by at most {run.gradient_sensitivity!r} "
            "(gradient_sensitivity)"
        )
    if run.clipping in CONVEX:
        by = {"residual": "by its residual", "ball": "by the norm of its residuals"}[run.clipping]
        return (
            f"each record's loss is clipped convexly, {by}, so that its gradient has norm at most "
            f"{run.clip_norm!r}"
        )
    how = {"norm": "to norm {c!r}", "coordinates": "coordinate by coordinate to {c!r}/√d"}
    clipped = f"each record's gradient is clipped {how[run.clipping].format(c=run.clip_norm)}"
    return clipped if run.loss.clips(run.clip_norm, run.clipping) else None


def _about_sizes(run: NoisySGD) -> list[str]:
    """What happens with batches that are too large."""
    sizes = run.order.sizes
    match sizes:
        case FixedSizes() | RandomSizes(cap=None):
            return []
        case RandomSizes(cap=cap):
            sentence = f"a batch of more than {cap} {run.unit}s is replaced by an empty one, never truncated"
        case _:
            assert_never(sizes)
    if changed(run.adjacency) == 1:
        sentence += (
            f"; a {run.unit} whose gradient is taken as zero is drawn and counted like any other"
        )
    return [sentence]


def _about_moduli(run: NoisySGD) -> tuple[str, ...]:
    l2, proven = run.loss.l2, getattr(run.prox, "diameter", None)
    return those_that_hold(
        *run.loss.sentences,
        l2 > 0.0
        and f"the regulariser {l2!r}·‖x‖²/2 is applied exactly, outside clipping and batch",
        run.prox is not None
        and f"the proximal map {run.prox!r} is nonexpansive and does not depend on the data",
        proven is not None and f"the range of {run.prox!r} has diameter at most {proven!r}",
        run.diameter is not None
        and (proven is None or run.diameter < proven)
        and f"any two iterates are at most {run.diameter!r} apart (diameter)",
        run.cooldown_steps > 0 and f"the last {run.cooldown_steps} steps use no data",
    )

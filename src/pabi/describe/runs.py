"""Descriptions of runs: what happens to the data, nothing about what it costs.

A description is frozen and complete. The accountant reads it and the trainer executes it, so that
what was accounted is what ran.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pabi.describe.accounted import warn_of_large_delta
from pabi.describe.neighbours import changed
from pabi.describe.orders import Fractions, fractions
from pabi.describe.run_sentences import run_sentences as run_sentences
from pabi.describe.stated_run import MOST as MOST
from pabi.describe.stated_run import Prox as Prox
from pabi.describe.stated_run import StatedRun
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array, down, fraction_up, times_down, times_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pabi.describe.iteration import NoisyIteration
    from pabi.guarantees.guarantee import Guarantee


@dataclass(frozen=True, eq=False, init=False)
class NoisySGD(StatedRun):
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
        `FullBatch()`, `Cyclic(size)`, `ShuffleOnce(size)`, `BallsInBins(size, cap=None)`,
        `Reshuffle(size)`, `FixedSize(size)` or `Poisson(size, cap=None)`. An epoch is ⌈n/size⌉ steps,
        or as many as a Poisson scheme states.
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
    total_steps : int, optional
        What `dataclasses.replace` hands on: the number of steps, where neither `epochs` nor `steps` says it.

    Raises
    ------
    InvalidInput
        For a field that is wrong, naming it.

    References
    ----------
    Bok, Su, Altschuler 2024, §4.
    """

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
        return not any(isinstance(x, np.ndarray) for x in (self.step_size, self.gradient_noise_std))

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
            For a position that the run does not have, and where no record is the worst.

        References
        ----------
        docs, "The worst record".
        """
        from pabi.account.bare_iteration import iteration

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

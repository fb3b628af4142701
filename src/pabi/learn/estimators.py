"""What the private linear models have in common: from constructor arguments to a trained run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from pabi.account.calibration import met
from pabi.account.targets import Target, gaussian_price
from pabi.budget.ledger import check_ledger
from pabi.describe.accounted import changed, checked_adjacency, checked_unit
from pabi.describe.batches import Batches
from pabi.describe.losses import CONVEX, Loss
from pabi.describe.runs import COUNT, NoisySGD
from pabi.describe.statistics import NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.updates import evaluated
from pabi.execute.computed_steps import as_computed, settled
from pabi.execute.engine import TrainOptions, computable, train_and_keep
from pabi.execute.hiding import refuse_unenforceable, too_little_noise
from pabi.execute.large_tables import computed_apart, in_memory
from pabi.execute.sources import Parts
from pabi.execute.state_files import Keeping, kept_in, noting_state
from pabi.execute.tables import checked
from pabi.learn import plans
from pabi.learn.forgetting import ForgettingModel, refuse_unforgettable
from pabi.learn.plans import (
    MOST_WEIGHT,
    ONE_FIT,
    PREPROCESSING,
    SHARE,
    TOO_NOISY,
    TYPICAL,
    Size,
    TrainingPlan,
    fine_enough,
    planned,
    released_moments,
    resolves,
    together,
    whitening,
)
from pabi.learn.rows import (
    CheckedRows,
    Given,
    count_fit,
    fitted_before,
    number_or_auto,
    users_of_rows,
    warn_if_shortened,
)
from pabi.learn.schema import sample_weights, times
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, must_be, require, warn_once
from pabi.numbers.rounding import TINY, Array
from pabi.tradeoff.guarantee import Guarantee

_ROOTS = 200_000  # records times classes for which roots are found in some seconds
_LEAST_LEFT = 1e-6  # of a budget


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearModel(ForgettingModel, BaseEstimator):  # type: ignore[misc]
    """Shared by the estimators; it knows features, schedules and noise, not losses.

    As a dataclass it has a constructor that stores its arguments as they are, with the signature from which
    scikit-learn reads the names of parameters.
    """

    l2: float | str = "auto"
    epochs: float | str = "auto"
    batches: Batches | str = "auto"
    step_size: Any = "auto"
    cooldown_epochs: float | str = "auto"
    clip_norm: float | str | None = "auto"
    clipping: str = "auto"
    precondition: float | str | None = "auto"
    linear_predictor: bool | str = "auto"
    verbose: bool = False
    max_sample_weight: float | None = None

    _EQUAL: ClassVar[bool] = True  # whether preconditioned rows are brought to one norm
    _CLIP: ClassVar[float | None] = None  # clip_norm by default, over the norm of rows
    _ENOUGH: ClassVar[float] = math.inf  # times 1/M for every column: the longest path worth taking
    # How much of predictors noise may be, of one and of several.
    _PARTS: ClassVar[tuple[float, float]] = (plans.PART_OF_ONE, plans.PART_OF_CLASSES)
    _UNIT: ClassVar[str] = "units of y"  # of predictors
    _FALLING: ClassVar[bool] = False  # whether step sizes fall by default

    def _loss(self, size: Size) -> tuple[Loss, float]:
        """(what is known of the loss, how large predictors usually are) for a table of this size."""
        raise NotImplementedError

    # Fitting.

    def _planned(self, n: int, d: int, outputs: int, unit: str | None = None) -> TrainingPlan:
        """What is to be done with n rows, or users, of d columns, for so many predictors.

        A search hands on what it planned for its next trial as `plan_made`.
        """
        unit = ("record" if self.users is None else "user") if unit is None else unit
        n, d = COUNT("n", n), COUNT("d", d)
        if self.linear_predictor != "auto":
            validate.flag("linear_predictor", self.linear_predictor)
        constant, norm = self._intercept_feature is not None, self._seen_norm(d)
        size = Size(n, d + constant, outputs, norm, checked_unit(unit), constant)
        plan: TrainingPlan | None = self.__dict__.pop("plan_made", None)
        if plan is not None and plan.size == size:
            return plan
        loss, signal = self._loss(size)
        counts, moments = self._target_counts(size), self._moments(size)
        before = tuple(one.guarantee(self.delta) for one in (counts, moments) if one is not None)
        run, cost, linear = self._run(loss, size, signal, before, mapped=moments is not None)
        refuse_unenforceable(run)
        computable(run, cost, np.zeros((size.width, outputs)))
        scale, unit = self._scale_of_plans()
        return TrainingPlan(
            run,
            moments,
            self.delta,
            size,
            signal=scale * signal,
            unit=unit,
            scale=scale,
            costs=(*before, cost),
            linear=linear,
            counts=counts,
        )

    def _scale_of_plans(self) -> tuple[float, str]:
        """(what one unit of the predictor that is trained amounts to, in which unit), before any data."""
        return self._scale_of_predictors(), self._UNIT

    def _train(
        self,
        X: Any,
        targets: Parts,
        outputs: int = 1,
        *,
        beside: Given,
        weights: Parts | None = None,
        sentences: tuple[str, ...] = (),
    ) -> None:
        """Accounts and executes the run on checked `X` and `targets`; sets what `fit` sets.

        `beside`: the users and weights of rows. `weights`: further ones, in [0, 1]. `sentences`: what the
        guarantee assumes beside what is assumed of every fit.
        """
        check_ledger(self.ledger)
        records = self._records(X)  # checks the bounds that the norm follows from
        targets.counted(records.n)
        groups, of_groups = users_of_rows(beside.groups, self.users, records.n)
        own = sample_weights(beside.weights, self.max_sample_weight, records.n)
        rows = CheckedRows(X, records, targets, times(weights, own), groups)
        sentences += (*of_groups, *(() if own is None else (MOST_WEIGHT,)), *beside.assumed)
        n, unit = (records.n, "record") if groups is None else (groups.users, "user")
        plan = self._planned(n, self.n_features_in_, outputs, unit)
        sentences += fitted_before(self, strict=self.strict)
        if beside.state is not None:
            refuse_unforgettable(beside.state, plan.run)
        warn_if_shortened(records)
        keeping = None if beside.state is None else kept_in(beside.state, self.ledger)
        # Both releases are one reservation; what other fits cost is in the ledger as well.
        cost = noting_state(plan.guarantee.assuming(PREPROCESSING, *sentences), keeping)
        with self._options().reserved(cost):
            count_fit(self)
            self._execute(plan, rows, sentences, keeping)

    def _both(
        self, X: Any, y: Any, beside: Given, held: Callable[[Any], Any], **kwargs: Any
    ) -> tuple[Any, Parts, Given]:
        """(the rows to be fitted to, their targets, users and weights, which are read into memory).

        `held`: what is made of targets in memory before they are checked with X.
        """
        if (table := self._large(X, y, beside.groups, beside.weights)) is None:
            X, y = checked(self, X, held(y), **kwargs)
            return X, Parts.of(y, "y"), beside
        require(
            beside.state is None,
            "keep_state",
            "expected None for a table that is read in passes: it takes one in memory",
        )
        apart = computed_apart(table, y, beside.groups, beside.weights)
        groups = in_memory(table, beside.groups, "groups")
        weights = in_memory(table, beside.weights, "sample_weight")
        return table, table.beside(y), Given(groups, weights, assumed=apart)

    def _execute(
        self,
        plan: TrainingPlan,
        rows: CheckedRows,
        sentences: tuple[str, ...],
        keeping: Keeping | None,
    ) -> None:
        """Executes the plan on the rows; sets what `fit` sets."""
        run, moments, outputs = plan.run, plan.moments, plan.size.outputs
        records, groups = rows.records, rows.groups
        before: tuple[Guarantee, ...] = ()
        preconditioner, seen = None, records
        if plan.counts is not None:
            targets, own = self._ranged(self._options(plan.costs[0]), plan.counts, rows)
            rows, before = rows._replace(targets=targets), (own,)
        if moments is not None:
            terms = self._options(plan.costs[len(before)])
            released = released_moments(terms, moments, records, groups)
            before = (*before, released.guarantee)
            preconditioner = whitening(
                released.values,
                moments,
                norm=plan.size.norm,
                equal=self._EQUAL and not plan.linear,
                unbiased=plan.linear,
            )
            seen = preconditioner.mapped(records, anywhere=groups is not None)
        gradients = self._gradients(seen, rows.targets, run.loss)
        self.run_, self.moments_, self.preconditioner_ = run, moments, preconditioner
        result = train_and_keep(
            self._keeping(keeping, rows, sentences),
            run,
            gradients if rows.weights is None else gradients.weighted(rows.weights),
            np.zeros(gradients.shape),
            replace(self._options(plan.costs[-1]), groups=groups),
        )
        self.guarantee_ = together(*before, result.guarantee).assuming(
            PREPROCESSING, ONE_FIT, *sentences
        )
        self.n_iter_ = int(run.steps)
        self._set_coefficients(result.x.reshape(records.width, outputs))
        self._note_parameters()

    def _options(self, proven: Guarantee | None = None) -> TrainOptions:
        """Those of a fit, or of a part of it that costs `proven` and is reserved with the others."""
        return TrainOptions(
            delta=self.delta,
            random_state=self.random_state,
            ledger=self.ledger if proven is None else None,
            proven=proven,
            progress=bool(self.verbose),
        )

    def _of_range(self) -> tuple[str, ...]:
        """What a guarantee assumes of the range of targets."""
        return ()

    def _target_counts(self, size: Size) -> NoisyColumnStatistics | None:
        """The release for the range of targets, None where there is none."""
        return None

    def _ranged(
        self, terms: TrainOptions, counts: NoisyColumnStatistics, rows: CheckedRows
    ) -> tuple[Parts, Guarantee]:
        """(targets as training sees them, by what was released of their range; what that cost)."""
        raise NotImplementedError

    def _moments(self, size: Size) -> NoisySecondMoments | None:
        """The release for preconditioning, None where there is none."""
        automatic = isinstance(self.precondition, str) and self.precondition == "auto"
        if self.precondition is None or (automatic and self.noise_std is not None):
            return None
        share = number_or_auto("precondition", self.precondition, None, above=0.0, below=1.0)
        epsilon, delta = self._price()
        moments = planned(
            size.n,
            size.width,
            norm=size.norm,
            epsilon=epsilon,
            delta=delta,
            adjacency=self.adjacency,
            share=SHARE if share is None else share,
            unit=size.unit,
        )
        if resolves(moments):
            return fine_enough(moments) if share is None else moments
        if share is not None:
            warn_once(TOO_NOISY, UserWarning)
        return None

    def _run(
        self,
        loss: Loss,
        size: Size,
        signal: float,
        before: tuple[Guarantee, ...],
        *,
        mapped: bool,
    ) -> tuple[NoisySGD, Guarantee, bool]:
        """The run that the arguments ask for, noise included, after what is released `before`; its cost,
        and whether predictors are to be linear."""
        assert loss.curvature is not None
        n, drift = size.n, signal * self._PARTS[size.outputs > 1]
        reach = self._reach(size, drift, loss.curvature[1])
        usual_bound = self._clip(loss, size.norm) or loss.gradient_bound
        assert usual_bound is not None
        far = self._EQUAL and mapped and reach >= plans.FAR * usual_bound
        linear = self.linear_predictor is True or (
            self.linear_predictor == "auto" and far and size.outputs == 1
        )
        usual = self._usual(size.norm, mapped=mapped, linear=linear)
        widest = reach * size.norm / usual / plans.FAR if far else 0.0
        clip_norm = self._clip(loss, usual, at_least=widest)
        clipping = self._way_to_clip(n, size.outputs) if clip_norm is not None else "norm"
        curvature = loss.effective_curvature(clip_norm, clipping) or loss.curvature
        bound = clip_norm or loss.gradient_bound
        assert bound is not None
        l2 = number_or_auto("l2", self.l2, 0.0, at_least=0.0)
        longest = self._enough(size) if mapped or not self._EQUAL else math.inf
        epsilon, delta = self._price()
        task = plans.Task(
            n=n,
            gradient=bound,
            curvature=curvature[1] + l2,
            feature_norm=usual,
            drift=drift,
            epsilon=epsilon,
            delta=delta,
            adjacency=checked_adjacency(self.adjacency),
            left=_left(before, plans.budget(epsilon, delta)),
            longest=longest * size.width / curvature[1],
            falling=self._FALLING or far,
        )
        chosen = plans.settings(task, self._fixed(n))
        run = NoisySGD(
            loss.with_l2(l2),
            n=n,
            batches=chosen.batches,
            epochs=chosen.epochs,
            step_size=self.step_size if callable(self.step_size) else chosen.step_size,
            noise_std=self.noise_std,
            clip_norm=clip_norm,
            clipping=clipping,
            adjacency=self.adjacency,
            cooldown_steps=chosen.cooldown_steps,
            unit=size.unit,
        )
        shape = (size.width, size.outputs)
        if self.noise_std is not None:
            run = as_computed(run, shape)
            return run, run.guarantee(delta), linear
        # About what the noise will be, were the path no secret: most roundings then suffice at once.
        each = run.sensitivity / run.batch_size * math.sqrt(chosen.epochs + 1.0)
        guess = replace(run, noise_std=each / plans.budget(epsilon, delta))
        run = replace(run, rounding=min(1.0, 4.0 * as_computed(guess, shape).rounding))
        answer = settled(run, lambda run: met(run, self._target(), before), shape)
        return *self._hidden(*answer, size, bound), linear

    def _enough(self, size: Size) -> float:
        """The longest path worth taking over 1/M for every column."""
        return self._ENOUGH

    def _reach(self, size: Size, drift: float, curvature: float) -> float:
        """The path on which noise moves a predictor by `drift`, over 1/M for every column, times what
        gradients are clipped to."""
        moved = changed(checked_adjacency(self.adjacency)) * size.norm * size.width
        return drift * size.n * plans.budget(*self._price()) * curvature / moved

    def _hidden(
        self, run: NoisySGD, cost: Guarantee, size: Size, bound: float
    ) -> tuple[NoisySGD, Guarantee]:
        """The run with noise that rounding can be hidden in, where a large ε asks for less; its cost."""
        start = np.zeros((1, size.width, size.outputs))
        while run.noise_std < bound and too_little_noise(cost, run, start):
            run = replace(run, noise_std=2.0 * run.noise_std)
            cost = run.guarantee(self.delta)
        return run, cost

    def _price(self) -> tuple[float, float]:
        """(ε, δ) for the rules that choose settings; of another target those of a Gaussian that meets it."""
        target = self._target()
        return gaussian_price(target), target.chosen_at

    def _target(self) -> Target:
        """What `fit` may cost."""
        delta = validate.number("delta", self.delta, above=0.0, below=1.0)
        if not isinstance(self.epsilon, Target):
            epsilon = validate.number("epsilon", self.epsilon, above=0.0)
            return Target(epsilon=epsilon, delta=delta)
        for name in ("epsilon", "delta"):
            value = getattr(self.epsilon, name)
            must_be(value is None, "epsilon", f"a number, or a Target without {name}", self.epsilon)
        return replace(self.epsilon, delta=delta)

    def _fixed(self, n: int) -> plans.Fixed:
        """The settings that the arguments decide."""
        return plans.Fixed(
            self._batches(n),
            number_or_auto("epochs", self.epochs, None, above=0.0, at_most=1e9),
            self._first_step_size(),
            number_or_auto("cooldown_epochs", self.cooldown_epochs, None, at_least=0.0),
        )

    def _first_step_size(self) -> float | None:
        """What the rule takes for the step size, None where it chooses: of a function the value at k = 0."""
        if callable(self.step_size):
            return float(evaluated(self.step_size, 1)[0])
        return number_or_auto("step_size", self.step_size, None, above=0.0)

    def _batches(self, n: int) -> Batches | None:
        if isinstance(self.batches, str) and self.batches == "auto":
            return None
        if not isinstance(self.batches, Batches):
            raise InvalidInput(
                "batches",
                f'expected "auto", FullBatch(), ShuffleOnce(size), Poisson(size), …, got {self.batches!r}',
            )
        self.batches.batch_size(n)
        return self.batches

    def _usual(self, norm: float, *, mapped: bool, linear: bool) -> float:
        """The norm of rows that the rule has in mind, where none is longer than `norm`.

        Where rows keep their proportions and gradients are clipped to what the usual row needs, its norm.
        """
        usual = self._CLIP is not None and mapped and (linear or not self._EQUAL)
        return norm / math.sqrt(TYPICAL) if usual else norm

    def _clip(self, loss: Loss, norm: float, at_least: float = 0.0) -> float | None:
        """The norm that gradients are clipped to, for rows of usually this norm.

        None where the loss's own bound is as small. `at_least`: where the rule chooses it.
        """
        assert loss.gradient_bound is not None
        validate.choice("clipping", self.clipping, ("auto", "norm", *CONVEX))
        if self.clip_norm is None:
            return None
        usual = math.inf if self._CLIP is None else max(self._CLIP * norm, at_least)
        clip = number_or_auto("clip_norm", self.clip_norm, usual, above=0.0)
        return clip if clip < loss.gradient_bound else None

    def _way_to_clip(self, n: int, outputs: int) -> str:
        """How; "auto": by the norm of all residuals where there are several and roots take some seconds."""
        usual = "ball" if outputs > 1 and n * outputs <= _ROOTS else "residual"
        return usual if self.clipping == "auto" else self.clipping

    # Reading a fitted model.

    def _set_coefficients(self, theta: Array) -> None:
        """`coef_` (K, d) and `intercept_` (K,) in the units of X, from θ of shape (width, K)."""
        if self.preconditioner_ is not None:
            theta = self.preconditioner_.applied(theta)
        weights = theta[: self._width].T.copy()
        constant = self.intercept_scaling * theta[-1] if self.fit_intercept else 0.0
        centre, reach = self._map()
        self.coef_ = weights / reach
        self.intercept_ = constant - self.coef_ @ centre

    @property
    def _offset(self) -> float:
        """The prediction at weights 0, a part of `intercept_`."""
        return 0.0

    def _seen_weights(self) -> Array:
        """(width, K): the weights of rows as the model sees them, from `coef_` and `intercept_`."""
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_) - self._offset
        centre, reach = self._map()
        theta = (coef * reach).T
        if self.fit_intercept:
            # The constant's weight, so that intercept_ is unaffected by the scaling of rows.
            theta = np.vstack([theta, (intercept + coef @ centre) / self.intercept_scaling])
        return theta

    def _predictor(self, X: Any) -> tuple[Array, Array]:
        """(linear predictor (n, K), norms (n,)) of the vectors the model sees.

        These are rows, which were checked, brought within the declared bounds as in training.
        """
        records, theta = self._records(X), self._seen_weights()
        predictor, norm = np.empty((records.n, theta.shape[1])), np.empty(records.n)
        for block in records.blocks(slice(0, records.n)):
            predictor[block.part] = records.predictor(block, theta)
            norm[block.part] = block.norm
        if self._scales_rows:
            assert self.preconditioner_ is not None
            factors, norm = self.preconditioner_.scales(records)
            predictor *= factors[:, None]
        elif self.linear_predictor_:
            norm[:] = self._usual_norm()
        return predictor + self._offset, norm

    def _usual_norm(self) -> float:
        """`_usual` of the fitted model."""
        mapped, norm = self.preconditioner_ is not None, self._seen_norm(self._width)
        return self._usual(norm, mapped=mapped, linear=self.linear_predictor_)

    def _most(self, norm: Array) -> Array | None:
        """(m, 1): the sizes to which residuals of records of these norms were clipped, None if they were not.

        With one predictor that is what scaling a gradient down does, too.
        """
        if self.run_.clip_norm is None or not (self.run_.clipping in CONVEX or self.run_.loss.glm):
            return None
        return np.asarray(self.run_.clip_norm / np.maximum(norm, TINY)[:, None])


def _left(before: tuple[Guarantee, ...], mu: float) -> float:
    """The share of a budget's μ² that Gaussian releases leave."""
    return max(1.0 - sum((one.mu or 0.0) ** 2 for one in before) / mu**2, _LEAST_LEFT)

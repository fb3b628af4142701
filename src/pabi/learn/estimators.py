"""What the private linear models have in common: from constructor arguments to a trained run."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pabi.account.calibration import calibrate
from pabi.describe.batches import Batches
from pabi.describe.losses import CONVEX, Loss
from pabi.describe.neighbours import checked_adjacency
from pabi.describe.runs import NoisySGD
from pabi.describe.second_moments import NoisySecondMoments
from pabi.describe.step_sizes import evaluated
from pabi.execute.engine import train
from pabi.execute.linear_gradients import LinearGradients
from pabi.execute.records import Records, seen_norm
from pabi.guarantees.guarantee import Guarantee
from pabi.learn import defaults
from pabi.learn.rows import BoundedRows, number_or_auto, warn_if_shortened
from pabi.learn.sentences import ONE_FIT, PREPROCESSING
from pabi.learn.whitening import (
    SHARE,
    TOO_NOISY,
    planned,
    released_moments,
    resolves,
    together,
    whitening,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import TINY, Array
from pabi.numbers.warning import warn_once


@dataclass(eq=False, repr=False)
class PrivateLinearModel(BoundedRows, BaseEstimator):  # type: ignore[misc]
    """Shared by the estimators; it knows features, schedules and noise, not losses.

    As a dataclass it has a constructor that stores its arguments as they are, with the signature from which
    scikit-learn reads the names of parameters.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    feature_norm: float | str = "auto"
    _: KW_ONLY
    l2: float | str = "auto"
    epochs: float | str = "auto"
    batches: Batches | str = "auto"
    adjacency: str = "replace_one"
    noise_std: float | None = None
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    random_state: Any = None
    feature_ranges: Any = None
    step_size: Any = "auto"
    cooldown_epochs: float | str = "auto"
    clip_norm: float | str | None = "auto"
    clipping: str = "residual"
    precondition: float | str | None = "auto"
    verbose: bool = False

    _EQUAL: ClassVar[bool] = True  # whether preconditioned rows are brought to one norm

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        """(gradients, what is known of the loss, size of predictors) for rows of norm ≤ `norm`."""
        raise NotImplementedError

    # Fitting.

    def _train(
        self, X: Any, targets: NDArray[Any], outputs: int = 1, sentences: tuple[str, ...] = ()
    ) -> None:
        """Accounts and executes the run on checked `X` and `targets`; sets what `fit` sets.

        `sentences`: what the guarantee assumes beside what is assumed of every fit.
        """
        records = self._records(X)  # checks the bounds that the norm follows from
        norm = seen_norm(self._row_norm(), self._intercept_feature)
        gradients, loss, signal = self._model(records, targets, norm)
        moments = self._moments(records.n, records.width, norm)
        warn_if_shortened(records, stacklevel=4)
        before = () if moments is None else (moments.guarantee(self.delta),)
        run = self._run(loss, records.n, records.width, outputs, signal, before)
        preconditioner = None
        if moments is not None:
            released = released_moments(moments, records, self.random_state, self.delta)
            before = (released.guarantee,)
            preconditioner = whitening(released.values, moments, norm=norm, equal=self._EQUAL)
            gradients, _, _ = self._model(preconditioner.mapped(records), targets, norm)
        result = train(
            run,
            gradients,
            np.zeros(gradients.shape),
            self.random_state,
            delta=self.delta,
            progress=bool(self.verbose),
        )
        self.guarantee_ = together(*before, result.guarantee).assuming(
            PREPROCESSING, ONE_FIT, *sentences
        )
        self.run_, self.moments_, self.preconditioner_ = run, moments, preconditioner
        self.n_iter_ = int(run.steps)
        self._set_coefficients(result.x.reshape(records.width, outputs))

    def _moments(self, n: int, width: int, norm: float) -> NoisySecondMoments | None:
        """The release for preconditioning, None where there is none."""
        automatic = isinstance(self.precondition, str) and self.precondition == "auto"
        if self.precondition is None or (automatic and self.noise_std is not None):
            return None
        share = number_or_auto("precondition", self.precondition, above=0.0, below=1.0)
        epsilon, delta = self._target()
        moments = planned(
            n,
            width,
            norm=norm,
            epsilon=epsilon,
            delta=delta,
            adjacency=self.adjacency,
            share=SHARE if share is None else share,
        )
        if resolves(moments):
            return moments
        if share is not None:
            warn_once(TOO_NOISY, UserWarning, stacklevel=4)
        return None

    def _run(
        self,
        loss: Loss,
        n: int,
        width: int,
        outputs: int,
        signal: float,
        besides: tuple[Guarantee, ...],
    ) -> NoisySGD:
        """The run that the arguments ask for, noise included, beside what else is released."""
        problem, fixed = self._problem(loss, n, width, outputs, signal)
        chosen = defaults.settings(problem, fixed)
        assert loss.gradient_bound is not None
        clip_norm = chosen.clip * loss.gradient_bound if chosen.clip < 1.0 else None
        run = NoisySGD(
            loss.with_l2(chosen.l2),
            n=n,
            batches=chosen.batches,
            epochs=chosen.epochs,
            step_size=self.step_size if callable(self.step_size) else chosen.step_size,
            noise_std=self.noise_std,
            clip_norm=clip_norm,
            clipping="norm" if clip_norm is None else self.clipping,
            adjacency=self.adjacency,
            cooldown_steps=chosen.cooldown_steps,
        )
        if self.noise_std is not None:
            return run
        return calibrate(run, self.epsilon, self.delta, besides=besides)

    def _target(self) -> tuple[float, float]:
        epsilon = validate.number("epsilon", self.epsilon, above=0.0)
        return epsilon, validate.number("delta", self.delta, above=0.0, below=1.0)

    def _problem(
        self, loss: Loss, n: int, width: int, outputs: int, signal: float
    ) -> tuple[defaults.Task, defaults.Fixed]:
        epsilon, delta = self._target()
        curvature, gradient = loss.curvature, loss.gradient_bound
        assert curvature is not None
        assert gradient is not None
        adjacency = checked_adjacency(self.adjacency)
        fixed = defaults.Fixed(
            self._batches(n),
            number_or_auto("epochs", self.epochs, above=0.0, at_most=1e9),
            self._first_step_size(),
            number_or_auto("cooldown_epochs", self.cooldown_epochs, at_least=0.0),
            self._clip(loss),
            number_or_auto("l2", self.l2, at_least=0.0),
        )
        problem = defaults.Task(
            n,
            width,
            outputs,
            curvature[1],
            gradient,
            seen_norm(self._row_norm(), self._intercept_feature),
            signal,
            epsilon,
            delta,
            adjacency,
            clippable=loss.glm or self.clipping in CONVEX,
        )
        return problem, fixed

    def _first_step_size(self) -> float | None:
        """What the rule takes for the step size, None where it chooses: of a function the value at k = 0."""
        if callable(self.step_size):
            return float(evaluated(self.step_size, 1)[0])
        return number_or_auto("step_size", self.step_size, above=0.0)

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

    def _clip(self, loss: Loss) -> float | None:
        """The gradient bound over the loss's own; None leaves it to the rule."""
        validate.choice("clipping", self.clipping, ("norm", *CONVEX))
        if self.clip_norm is None:
            return 1.0
        clip = number_or_auto("clip_norm", self.clip_norm, above=0.0)
        if clip is None:
            return self._unstated_clip
        assert loss.gradient_bound is not None
        return min(1.0, clip / loss.gradient_bound)

    @property
    def _unstated_clip(self) -> float | None:
        """The same where `clip_norm` is "auto"."""
        return 1.0

    # Reading a fitted model.

    def _set_coefficients(self, theta: Array) -> None:
        """`coef_` (K, d) and `intercept_` (K,) in the units of X, from θ of shape (width, K)."""
        if self.preconditioner_ is not None:
            theta = self.preconditioner_.applied(theta)
        weights = theta[: self.n_features_in_].T.copy()
        constant = np.zeros(len(weights))
        if self.fit_intercept:
            constant = self.intercept_scaling * theta[-1]
        centre, reach = self._map()
        self.coef_ = weights / reach
        self.intercept_ = constant - self.coef_ @ centre

    @property
    def _offset(self) -> float:
        """The prediction at weights 0, a part of `intercept_`."""
        return 0.0

    def _predictor(self, X: Any) -> tuple[Array, Array]:
        """(linear predictor (n, K), norms (n,)) of the vectors the model sees.

        These are rows brought within the declared bounds, as in training. Raises NotFittedError.
        """
        check_is_fitted(self)
        records = self._records(self._checked(X, reset=False))
        centre, reach = self._map()
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_) - self._offset
        theta = (coef * reach).T
        if records.intercept_scaling is not None:
            # The constant's weight, so that intercept_ is unaffected by the scaling of rows.
            last = (intercept + coef @ centre) / records.intercept_scaling
            theta = np.vstack([theta, last])
        predictor, norm = np.empty((records.n, theta.shape[1])), np.empty(records.n)
        for block in records.blocks(slice(0, records.n)):
            predictor[block.part] = records.predictor(block, theta)
            norm[block.part] = block.norm
        if self.preconditioner_ is not None:
            factors, norm = self.preconditioner_.scales(records)
            predictor *= factors[:, None]
        return predictor + self._offset, norm

    def _most(self, norm: Array) -> Array | None:
        """(m, 1): the sizes to which residuals of records of these norms were clipped, None if they were not.

        With one predictor that is what scaling a gradient down does, too.
        """
        if self.run_.clip_norm is None or not (self.run_.clipping in CONVEX or self.run_.loss.glm):
            return None
        most: Array = self.run_.clip_norm / np.maximum(norm, TINY)[:, None]
        return most

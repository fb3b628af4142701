"""What the private linear models have in common: from constructor arguments to a trained run."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from pabi.account.calibration import calibrate
from pabi.describe.batches import Batches
from pabi.describe.losses import Loss
from pabi.describe.neighbours import checked_adjacency
from pabi.describe.runs import NoisySGD
from pabi.describe.step_sizes import evaluated
from pabi.execute.engine import train
from pabi.execute.linear_gradients import LinearGradients
from pabi.execute.records import Records, seen_norm
from pabi.learn import defaults
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput
from pabi.numbers.margins import HALF_ULP
from pabi.numbers.rounding import TINY, Array
from pabi.numbers.warning import warn_once

PREPROCESSING = "preprocessing used no private data"
ONE_FIT = "this is one fit; what searches and refits cost has to be added"
LABELS = "the label set is public"

_DTYPES = (np.float64, np.float32, np.uint8, np.int8, np.int16, np.int32, np.int64)


@dataclass(eq=False, repr=False)
class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
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
    verbose: bool = False

    def _model(
        self, records: Records, targets: NDArray[Any], norm: float
    ) -> tuple[LinearGradients, Loss, float]:
        """(gradients, what is known of the loss, size of predictors) for rows of norm ≤ `norm`."""
        raise NotImplementedError

    # Fitting.

    def _checked(self, X: Any, **kwargs: Any) -> Any:
        """scikit-learn's checks, without the data that some of its complaints show."""
        try:
            return validate_data(self, X, accept_sparse="csr", dtype=_DTYPES, **kwargs)
        except ValueError as bad:
            problem = str(bad)
            if "could not convert" in problem:
                problem = "expected numbers, got text"
            elif "array=" in problem:
                problem = (
                    problem.partition(":\narray=")[0] + ". Reshape your data: one row a record"
                )
            elif "Complex data" in problem:
                problem = "Complex data not supported"
            else:
                raise
            raise InvalidInput("X", problem) from None

    def _records(self, X: Any) -> Records:
        """The rows of `X` within the declared bounds."""
        return Records(X, self._row_norm(), self._intercept_feature, self._ranges())

    def _row_norm(self) -> float:
        """R, as stated or √d for d features in [−1, 1]; without ranges 1."""
        norm = number_or_auto("feature_norm", self.feature_norm)
        if norm is not None or self.feature_ranges is None:
            return 1.0 if norm is None else norm
        # Above √d by more than `Records` rounds norms up, so that no row within the ranges is scaled.
        d: int = self.n_features_in_
        return math.sqrt(d) * (1.0 + (d + 32) * HALF_ULP)

    @property
    def _intercept_feature(self) -> float | None:
        return self.intercept_scaling if self.fit_intercept else None

    def _ranges(self) -> Any:
        if not isinstance(self.feature_ranges, dict):
            return self.feature_ranges
        names = getattr(self, "feature_names_in_", None)
        return _by_column(self.feature_ranges, names, self.n_features_in_)

    def _train(
        self, X: Any, targets: NDArray[Any], outputs: int = 1, sentences: tuple[str, ...] = ()
    ) -> None:
        """Accounts and executes the run on checked `X` and `targets`; sets what `fit` sets.

        `sentences`: what the guarantee assumes beside what is assumed of every fit.
        """
        records = self._records(X)  # checks the bounds that the norm follows from
        norm = seen_norm(self._row_norm(), self._intercept_feature)
        gradients, loss, signal = self._model(records, targets, norm)
        if records.shortened:
            # One bit, for whoever holds the data; the model does not store it, and nothing is counted.
            warn_once(
                "some rows exceed feature_norm or feature_ranges and were scaled down: give wider "
                "feature_ranges or a larger feature_norm, from public knowledge; this warning "
                "depends on the data: keep it to yourself",
                UserWarning,
                stacklevel=3,
            )
        run = self._run(loss, records.n, records.width, outputs, signal)
        result = train(
            run,
            gradients,
            np.zeros(gradients.shape),
            self.random_state,
            delta=self.delta,
            progress=bool(self.verbose),
        )
        self.guarantee_ = result.guarantee.assuming(PREPROCESSING, ONE_FIT, *sentences)
        self.run_ = run
        self.n_iter_ = int(run.steps)
        self._set_coefficients(result.x.reshape(records.width, outputs))

    def _run(self, loss: Loss, n: int, width: int, outputs: int, signal: float) -> NoisySGD:
        """The run that the arguments ask for, noise included."""
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
        return run if self.noise_std is not None else calibrate(run, self.epsilon, self.delta)

    def _problem(
        self, loss: Loss, n: int, width: int, outputs: int, signal: float
    ) -> tuple[defaults.Task, defaults.Fixed]:
        epsilon = validate.number("epsilon", self.epsilon, above=0.0)
        delta = validate.number("delta", self.delta, above=0.0, below=1.0)
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
            clippable=loss.glm or self.clipping == "residual",
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
        validate.choice("clipping", self.clipping, ("norm", "residual"))
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
        weights = theta[: self.n_features_in_].T.copy()
        constant = np.zeros(len(weights))
        if self.fit_intercept:
            constant = self.intercept_scaling * theta[-1]
        centre, reach = self._map()
        self.coef_ = weights / reach
        self.intercept_ = constant - self.coef_ @ centre

    def _map(self) -> tuple[Array, Array]:
        """Centres and half widths of the declared ranges, 0 and 1 without them."""
        d = self.n_features_in_
        blank = Records(np.zeros((1, d)), ranges=self._ranges())
        return (
            np.zeros(d) if blank.centre is None else blank.centre,
            np.ones(d) if blank.reach is None else blank.reach,
        )

    def _predictor(self, X: Any) -> tuple[Array, Array]:
        """(linear predictor (n, K), norms (n,)) of the vectors the model sees.

        These are rows brought within the declared bounds, as in training. Raises NotFittedError.
        """
        check_is_fitted(self)
        records = self._records(self._checked(X, reset=False))
        centre, reach = self._map()
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        theta = (coef * reach).T
        if records.intercept_scaling is not None:
            # The constant's weight, so that intercept_ is unaffected by the scaling of rows.
            last = (intercept + coef @ centre) / records.intercept_scaling
            theta = np.vstack([theta, last])
        predictor, norm = np.empty((records.n, theta.shape[1])), np.empty(records.n)
        for block in records.blocks(slice(0, records.n)):
            predictor[block.part] = records.predictor(block, theta)
            norm[block.part] = block.norm
        return predictor, norm

    def _most(self, norm: Array) -> Array | None:
        """(m, 1): the sizes to which residuals of records of these norms were clipped, None if they were not.

        With one predictor that is what scaling a gradient down does, too.
        """
        if self.run_.clip_norm is None or not (
            self.run_.clipping == "residual" or self.run_.loss.glm
        ):
            return None
        most: Array = self.run_.clip_norm / np.maximum(norm, TINY)[:, None]
        return most

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def number_or_auto(name: str, value: Any, **bounds: float) -> float | None:
    """A number the user gave, None for "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise InvalidInput(name, f'expected "auto" or a number, got {value!r}')
        return None
    return validate.number(name, value, **bounds)


def _by_column(ranges: dict[Any, Any], names: Any, d: int) -> Array:
    """Ranges given by column name or number, as (2, d)."""
    columns = list(range(d)) if names is None else [str(name) for name in names]
    for name in ranges:
        if name not in columns:
            raise InvalidInput("feature_ranges", f"there is no column {name!r}")
    for name in columns:
        if name not in ranges:
            raise InvalidInput("feature_ranges", f"missing: a range for column {name!r}")
    try:
        return np.array([ranges[name] for name in columns], dtype=np.float64).reshape(d, 2).T
    except (TypeError, ValueError):
        raise InvalidInput("feature_ranges", "expected pairs (low, high)") from None

"""What a private search would do, settled before any trial: tables, settings, their budget, its cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pabi.budget.ledger import Ledger
from pabi.describe.accounted import changed, checked_adjacency, checked_unit
from pabi.describe.statistics import NoisyAccuracy
from pabi.execute.cells import cells_of, typed
from pabi.execute.checkpoint import TrialLaw
from pabi.execute.large_tables import large_table
from pabi.execute.sources import Parts
from pabi.execute.sums import UserRows
from pabi.learn.estimators import PrivateLinearModel
from pabi.learn.guards import count_users, counted_apart, fitted_to
from pabi.learn.imputer import PrivateCategories, learns_levels
from pabi.learn.pipelines import assumed_known, guarantee_of
from pabi.learn.plans import ONE_FIT, TrainingPlan, together
from pabi.learn.private_scores import SCORES
from pabi.learn.schema import targets_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable, must_be, require
from pabi.numbers.mixtures import checked_mean, checked_shape, gamma_of
from pabi.numbers.showing import aligned, exact, plain, shown
from pabi.tradeoff import Gaussian, Mixture
from pabi.tradeoff.guarantee import Composed, Guarantee, compose
from pabi.tradeoff.product import unrounded
from pabi.tradeoff.selection import select

# Settings that change what a trial costs, or how it draws: the search decides them.
FORBIDDEN = ("epsilon", "delta", "adjacency", "noise_std", "random_state", "ledger", "users")
_NEAR = 0.995  # of the target: as much as a search for the budget of one trial wants
# Of steps: what would show every trial, or let trials share what one of them drew.
_OVERRULED = {"memory": None, "verbose": False}
_ROUNDS = 16
_LEAST_SHAPE = -0.5  # below it the number of trials has no variance to speak of
_MOST = 0.99  # of the draws need at most so many trials, as a plan says

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Sized:
    """A setting with the public numbers that its cost follows from.

    `model`: as the setting has it, unfitted. `n`, `d`: rows, or users, and columns of its last step.
    `outputs`: classes or targets. `before`: what steps before the last one cost. `unit`: "record" or "user".
    `assumed`: what is assumed of known steps before the last one.
    """

    settings: Settings
    model: Any
    n: int
    d: int
    outputs: int
    before: tuple[Guarantee, ...] = ()
    unit: str = "record"
    assumed: tuple[str, ...] = ()

    def plan(self, epsilon: float, delta: float) -> TrainingPlan:
        """What the last step does in a trial with this setting, at (ε, δ)."""
        last = last_step(budgeted(clone(self.model), epsilon, delta))
        plan: TrainingPlan = last.plan(self.n, self.d, self.outputs, unit=self.unit)
        return plan


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """What a search would do, and what it costs. All of it follows from public numbers.

    Attributes
    ----------
    settings : tuple of dict
        The settings, of which every trial draws one, all equally likely.
    epsilon, delta : float
        The budget of the private estimator in one trial.
    scoring_noise : float or None
        Standard deviation of the noise on the mean, or on the sum over pairs, of private records; None where
        public records score.
    scoring : str
        What private records measure: one of `PrivateSearchCV`'s.
    gamma, shape : float
        γ and η of the law of the number of trials.
    guarantee : Guarantee
        What the release of the best trial costs; `fit` adds what it assumes of the data.
    total : Guarantee
        The same composed with the releases in `besides`, which is what meets the target.
    expected_trials : float
        E[K], so many fits are to be expected.
    most_trials : int
        So many fits are enough in 99 % of all searches.
    trials : tuple of Guarantee
        What one trial costs with each of the settings.
    plans : tuple of TrainingPlan
        What the private estimator does in one, with each of the settings.

    References
    ----------
    docs, "Tune honestly".
    """

    settings: tuple[Settings, ...]
    epsilon: float
    delta: float
    scoring_noise: float | None
    gamma: float
    shape: float
    guarantee: Guarantee
    total: Guarantee
    expected_trials: float
    most_trials: int
    trials: tuple[Guarantee, ...]
    plans: tuple[TrainingPlan, ...]
    scoring: str = "accuracy"

    def __str__(self) -> str:
        rows = (
            ("privacy", self._reading(self.guarantee)),
            *((("in all", self._reading(self.total)),) if self.total is not self.guarantee else ()),
            ("one trial", f"ε = {shown(self.epsilon)}, δ = {shown(self.delta)}"),
            ("settings", f"{len(self.settings)}, drawn with replacement"),
            (
                "trials",
                f"{exact(self.expected_trials)} in the mean, at most {self.most_trials} in 99% of searches",
            ),
            ("scores", "public" if self.scoring_noise is None else self._noise(self.scoring_noise)),
        )
        return "\n".join(aligned(rows))

    def _noise(self, noise: float) -> str:
        """The noise in units of the score; of pairs, where there are as many positives as negatives."""
        score = SCORES[self.scoring]
        if not score.pairs:
            return f"noise {plain(score.unit * noise)} on {score.called}"
        whole = 2.0 * changed(checked_adjacency(self.guarantee.adjacency)) * noise
        return f"noise {plain(whole)} on {score.called} of even classes, more of uneven ones"

    def _reading(self, guarantee: Guarantee) -> str:
        at = guarantee.tuned_at or self.delta
        return f"ε = {shown(guarantee.epsilon(at))}, δ = {exact(at)}"


@dataclass(frozen=True, kw_only=True)
class SearchTarget:
    """What a search is to cost, and how it draws.

    `scored`: how many private records score, 0 if public ones do, and `scoring` by what. `besides`: other
    releases that the target holds with.
    """

    epsilon: float
    delta: float
    mean_trials: float
    shape: float
    scored: int
    scoring: str = "accuracy"
    besides: tuple[Guarantee, ...] = ()


def planned(target: SearchTarget, sized: Sequence[Sized]) -> SearchPlan:
    """The plan for these settings whose selection meets the target."""
    mean, shape = checked_mean(target.mean_trials), checked_shape(target.shape)
    require(
        not shape < _LEAST_SHAPE,
        "shape",
        f"expected a number ≥ {exact(_LEAST_SHAPE)}, got {exact(shape)}",
    )
    law = TrialLaw(gamma_of(mean, shape), shape)
    delta, most = target.delta / mean, law.quantile(_MOST)

    def cost(epsilon: float) -> SearchPlan:
        plans = tuple(one.plan(epsilon, delta) for one in sized)
        trials = tuple(
            together(*one.before, plan.guarantee) for one, plan in zip(sized, plans, strict=True)
        )
        noise = _scoring_noise(trials, target.scored) if target.scored else None
        scoring = None if noise is None else scored(noise, target, trials[0])
        whole = select(trials, mean, shape, scoring=scoring)
        return SearchPlan(
            settings=tuple(one.settings for one in sized),
            epsilon=epsilon,
            delta=delta,
            scoring_noise=noise,
            gamma=law.gamma,
            shape=law.shape,
            guarantee=whole,
            total=compose(*target.besides, whole) if target.besides else whole,
            expected_trials=mean,
            most_trials=most,
            trials=trials,
            plans=plans,
            scoring=target.scoring,
        )

    best = _largest(cost, target)
    whole = replace(best.guarantee, tuned_at=target.delta)
    total = replace(best.total, tuned_at=target.delta) if target.besides else whole
    return replace(best, guarantee=whole, total=total)


def _largest(cost: Callable[[float], SearchPlan], target: SearchTarget) -> SearchPlan:
    """The largest budget of one trial, up to 0.5 %, with which the whole meets the target."""
    best, low, high = None, 0.0, target.epsilon
    guess, least = 0.4 * target.epsilon, math.inf
    for _ in range(_ROUNDS):
        now = cost(guess)
        total = now.total.epsilon(target.delta)
        least = min(least, total)
        if total <= target.epsilon:
            best, low = now, guess
            if total >= _NEAR * target.epsilon:
                break
        else:
            high = guess
        aimed = guess * 0.5 * (1.0 + _NEAR) * target.epsilon / total
        guess = aimed if low < aimed < high else 0.5 * (low + high)
    if best is None:
        raise TargetUnreachable(
            f"epsilon = {exact(target.epsilon)} at delta = {exact(target.delta)} cannot be met: the best "
            f"reachable is epsilon = {shown(least)}",
            least,
        )
    return best


# Scores of private records.


def _scoring_noise(trials: Sequence[Guarantee], records: int) -> float:
    """The standard deviation at which the score reveals no more than a trial does in any case."""
    return 1.0 / (records * min(map(_least_mu, trials)))


def _least_mu(trial: Guarantee) -> float:
    curve, _ = unrounded(trial.curve)
    if isinstance(curve, Gaussian):
        return curve.mu
    if isinstance(curve, Mixture):
        return min(part.mu for part in curve.parts if part.mu > 0.0)
    raise InvalidInput(
        "validation_share", f"expected Gaussian trials or mixtures, got a {curve.kind}"
    )


def scored(noise: float, target: SearchTarget, trial: Guarantee) -> Guarantee:
    """What a score over so many private records costs: one of them moves it by 1/records."""
    adjacency, unit = checked_adjacency(trial.adjacency), checked_unit(trial.unit)
    release = NoisyAccuracy(
        target.scored, noise, adjacency, unit, pairs=SCORES[target.scoring].pairs
    )
    return release.guarantee(trial.tuned_at or 0.0)


# Settings.


def drawn_settings(
    distributions: Mapping[str, Any], count: int, generator: np.random.Generator
) -> list[Settings]:
    """All combinations of lists, if they are at most `count`; otherwise so many draws."""
    names = list(distributions)
    refuse_forbidden(names)
    values = [_checked_values(name, distributions[name]) for name in names]
    listed = all(isinstance(one, list) for one in values)
    if listed and math.prod(len(one) for one in values) <= count:
        return [dict(zip(names, one, strict=True)) for one in product(*values)]
    return [
        {name: _drawn(one, generator) for name, one in zip(names, values, strict=True)}
        for _ in range(count)
    ]


def refuse_forbidden(names: Sequence[str]) -> None:
    """InvalidInput, by name, for a setting that the search decides."""
    for name in names:
        must_be(isinstance(name, str), "param_distributions", "names", name)
        require(
            name.rpartition("__")[2] not in FORBIDDEN,
            name,
            "expected no setting of privacy or randomness: the search decides it",
        )


def _checked_values(name: str, values: Any) -> Any:
    """A distribution with `rvs`, or the list of values."""
    if hasattr(values, "rvs"):
        return values
    if isinstance(values, str) or not hasattr(values, "__len__") or len(values) == 0:
        raise InvalidInput(
            name,
            f"expected a list of values or a distribution with rvs, got {validate.excerpt(values)}",
        )
    return list(values)


def _drawn(values: Any, generator: np.random.Generator) -> Any:
    if hasattr(values, "rvs"):
        return values.rvs(random_state=generator)
    return values[int(generator.integers(len(values)))]


# Models.


def last_step(model: Any) -> Any:
    """The private estimator: the model, or the last step of a pipeline. Raises InvalidInput for any other."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    validate.instance("estimator", last, PrivateLinearModel, "an estimator of pabi.learn")
    return last


def budgeted(model: Any, epsilon: float, delta: float) -> Any:
    """`model`, its private estimator set to this budget."""
    last_step(model).set_params(epsilon=epsilon, delta=delta)
    return model


def with_settings(estimator: Any, settings: Settings, classes: NDArray[Any] | None) -> Any:
    """A copy of the estimator with a setting, and with the label set, which may be more than that of a part.

    Raises InvalidInput where it states noise, a random state or a ledger, in which trials could be counted.
    """
    model = clone(estimator).set_params(
        **{name: clone(v, safe=False) for name, v in settings.items()}
    )
    shared = (name for name in model.get_params() if name.rpartition("__")[2] in _OVERRULED)
    model.set_params(**{name: _OVERRULED[name.rpartition("__")[2]] for name in shared})
    last = last_step(model)
    for name in ("noise_std", "random_state"):
        require(getattr(last, name) is None, name, "expected None: the search decides it")
    require(
        last.ledger is None, "ledger", "expected None: give it to the search, which is one release"
    )
    if classes is not None and getattr(last, "classes", None) is None:
        last.set_params(classes=classes)
    return model


# What trains and what scores, and what of it is public.


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What trains, `rows` of them, and what scores: public records, or a private part of the data."""

    X: Any
    y: Any
    X_scoring: Any
    y_scoring: Any
    rows: int
    groups: UserRows | None = None
    groups_scoring: UserRows | None = None

    @property
    def trained(self) -> int:
        """How many records, or users, train."""
        return self.rows if self.groups is None else self.groups.users

    @property
    def ids(self) -> Any:
        """The numbers of the users of what trains, None of records."""
        return None if self.groups is None else self.groups.users_of_rows()

    @property
    def cells(self) -> Parts:
        """The targets, each as it is."""
        table = large_table(self.X)
        return Parts.of(typed(targets_of(self.y))) if table is None else table.beside(self.y)

    @property
    def scored(self) -> int:
        """How many score."""
        groups = self.groups_scoring
        return int(_num_samples(self.y_scoring)) if groups is None else groups.users


def measured(
    estimator: Any, settings: Settings, tables: Tables, classes: NDArray[Any] | None
) -> Sized:
    """The setting with the public numbers that its cost follows from, by the tables."""
    model = with_settings(estimator, settings, classes)
    count_users(model, None if tables.groups is None else tables.groups.users)
    before, width, assumed = _preceding(model, tables)
    outputs = _outputs(tables.cells.first()) if classes is None else len(classes)
    unit = "record" if tables.groups is None else "user"
    return Sized(settings, model, tables.trained, width, outputs, before, unit, assumed)


def sized_blindly(estimator: Any, settings: Settings, n: int, d: int, outputs: int) -> Sized:
    """The same, of a table of this size that nobody has seen."""
    model = with_settings(estimator, settings, None)
    require(
        not (
            isinstance(model, Pipeline) and any(hasattr(s, "epsilon") for _, s in model.steps[:-1])
        ),
        "estimator",
        "a plan without data knows one private step only",
    )
    return Sized(settings, model, n, d, outputs)


def _preceding(model: Any, tables: Tables) -> tuple[tuple[Guarantee, ...], int, tuple[str, ...]]:
    """(What the steps before the last one cost, how many columns they give, what is assumed of them): all of
    it is public."""
    if not isinstance(model, Pipeline) or len(model.steps) == 1:
        return (), _width_of(tables.X, tables.y), ()
    _refuse_before(model[:-1])
    fitted = counted_apart(clone(model[:-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted_to(fitted, tables.X, tables.y, groups=tables.ids)
    large = large_table(tables.X) is not None
    image = fitted.transform(tables.X if large else _safe_indexing(tables.X, [0]))
    require(
        not large or large_table(image) is not None,
        "estimator",
        "expected steps of this library for a large table, one that made an array is among them",
    )
    width, assumed = _width_of(image, tables.y), assumed_known(fitted)
    try:
        whole = guarantee_of(fitted, strict=False)
    except InvalidInput as no:
        if no.field != "model":
            raise
        return (), width, assumed
    return (_of_any_fit(whole),), width, assumed


def _refuse_before(steps: Pipeline) -> None:
    """Raises InvalidInput where what a plan needs would be private, or trials could be counted."""
    for step in steps.get_params(deep=True).values():
        require(
            not (isinstance(step, PrivateCategories) and learns_levels(step)),
            "estimator",
            "expected declared levels in a PrivateCategories: how many columns it gives is private, and "
            "a plan states it beforehand",
        )
        require(
            not isinstance(getattr(step, "ledger", None), Ledger),
            "ledger",
            "expected None: give it to the search, which is one release",
        )


def _of_any_fit(guarantee: Guarantee) -> Guarantee:
    """The same without the sentence that searches have to be added, where one release carries it."""
    if isinstance(guarantee.proof, Composed):
        return guarantee
    assumptions, besides = (
        tuple(a for a in sentences if a != ONE_FIT)
        for sentences in (guarantee.assumptions, guarantee.besides)
    )
    return replace(guarantee, assumptions=assumptions, besides=besides)


def _width_of(X: Any, y: Any) -> int:
    """How many columns the features have."""
    table = large_table(X)
    return int(np.shape(X)[1]) if table is None else table.without(y).width()


def rows_of(X: Any, y: Any) -> int:
    """How many rows a table has. Raises InvalidInput unless it has columns, and y as many rows."""
    if (table := large_table(X)) is not None:
        return table.beside(y).counted().rows or 0
    shape = np.shape(X)
    require(len(shape) == 2, "X", f"expected shape (n, d), got {shape}")
    require(cells_of(y).shape[:1] == shape[:1], "y", "expected as many rows as X has")
    return int(shape[0])


def labels_of(y: Any) -> NDArray[Any]:
    """(n,) labels, none changed by what the others are. Raises InvalidInput for another shape."""
    labels = typed(targets_of(y))
    require(labels.ndim == 1, "y", f"expected shape (n,), one label a record, got {labels.shape}")
    return labels


def _outputs(table: NDArray[Any]) -> int:
    """How many targets a record has."""
    return 1 if table.ndim == 1 else int(table.shape[1])

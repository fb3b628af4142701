"""Private search: the best of a random number of fits, at a total that is stated beforehand."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from pabi.budget.ledger import check_ledger, reserved
from pabi.describe.accounted import checked_adjacency
from pabi.execute.cells import typed
from pabi.execute.checkpoint import (
    KEY_BYTES,
    Randomness,
    TrialLaw,
    drawn_from,
    keyed_generator,
    randomness_from,
)
from pabi.execute.hiding import Machines, unseen
from pabi.execute.large_tables import computed_apart, in_memory, large_table
from pabi.execute.noise import grid_for, noisy
from pabi.execute.sums import UserRows
from pabi.learn.guards import counted_apart, fitted_to
from pabi.learn.pipelines import assumed_unknown, guarantee_of, keep_whole
from pabi.learn.plans import LABELS, PREPROCESSING, WEIGHTS
from pabi.learn.private_scores import SCORES
from pabi.learn.rows import (
    AllOrNothing,
    PrivateStep,
    count_fit,
    fitted_before,
    turns_hidden,
    users_of_rows,
)
from pabi.learn.search_plans import (
    SearchPlan,
    SearchTarget,
    Settings,
    Sized,
    Tables,
    budgeted,
    drawn_settings,
    labels_of,
    last_step,
    measured,
    planned,
    rows_of,
    sized_blindly,
)
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, require
from pabi.numbers.rounding import HALF_ULP, up
from pabi.tradeoff.guarantee import Guarantee, require_besides

_BY_THE_GRID = 2.0**-22  # of what one record moves, what rounding a sum of hits may add
_SHARE = validate.optional(partial(validate.number, above=0.0, below=1.0))
SCORED_PUBLICLY = "the records that score the trials are public"
SCORED_ALONE = (
    "a prediction for a scoring record depends on that record and on the trial's model alone"
)


@dataclass(frozen=True, eq=False, repr=False)
class _Ticket:
    """What a trial follows from: the place of its setting, and the key of all that it draws."""

    place: int
    key: bytes


@dataclass(frozen=True, eq=False, repr=False)
class _Trial:
    """A fitted model and its score."""

    score: float
    settings: Settings
    model: Any


def _has(name: str) -> Any:
    """Whether the best model, or else the estimator, has a method of this name."""

    def check(search: PrivateSearchCV) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return available_if(check)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(PrivateStep, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Random search over settings whose total privacy is stated beforehand, and proven.

    A trial draws a setting, fits the estimator privately and scores it. Their number is drawn in secret from
    the law of `pabi.select`. The best one is released; the others, their scores and their number are
    forgotten. Every trial gets the budget with which this meets (ε, δ).

    Scores come from public records, given to `fit`, or from a part of the records that does not train
    (`validation_share`). Then the score has Gaussian noise, and a record is protected whether it trains or
    scores. There is no refit.

    Parameters
    ----------
    estimator : estimator of pabi.learn, or Pipeline that ends in one
        What is fitted; its `epsilon` and `delta` are set by the search. Other private steps cost what they
        state, in every trial.
    param_distributions : dict of str to list or distribution
        As of scikit-learn's RandomizedSearchCV: values by the name of a parameter, or a distribution with
        `rvs`. epsilon, delta, adjacency, noise_std and random_state are refused.
    epsilon, delta : float, > 0, delta below 1
        The target, of the whole search.
    mean_trials : float, in [1.01, 10⁶]
        The mean number of trials.
    shape : float, in [−1/2, 10]
        η of the law of their number: 0 is logarithmic, 1 geometric. A smaller one costs less privacy, and the
        number varies more.
    scoring : str or callable, optional
        As of scikit-learn; None is the estimator's own score. With `validation_share` "accuracy" (or None),
        "neg_log_loss", of probabilities of at least 1 %, or for two classes "roc_auc" or "balanced_accuracy".
        Where one class is rare, accuracies of models differ by less than noise.
    validation_share : float in (0, 1), optional
        The share of the records that score and do not train, chosen at random without a look at them.
    candidates : int, ≥ 1
        How many settings are drawn beforehand; trials draw from these. All combinations, where lists have
        no more.
    slot_seconds : float, > 0, optional
        `fit` returns at a whole multiple of so many seconds after its start. How long a search takes tells
        how many trials there were.
    random_state : None, int or numpy Generator
        None: all draws from the operating system's entropy. Anything else makes the search reproducible, for
        tests only, and the guarantee says so.
    besides : sequence of Guarantee
        Other releases from the same records, such as `[guarantee_of(prepared)]` of transformers that were
        fitted before. The target is then that of all of them together; `guarantee_` stays that of the search.
    ledger : pabi.Ledger, optional
        The budget that the whole search is reserved in, once, before any trial. It has to have an `order`:
        no Gaussian that pabi knows lies below a selection.

    Attributes
    ----------
    best_estimator_ : estimator
        The released model. Its `guarantee_` is that of the search, and so is that of each private step in it.
    best_params_ : dict
        Its setting.
    guarantee_ : Guarantee
        What the whole search costs.
    plan_ : SearchPlan
        What was planned before any trial.
    n_features_in_ : int
        d, the columns of X.

    Notes
    -----
    Warnings and progress of single trials are not shown. A pipeline's `memory` is not used: trials would
    share what one of them drew.

    References
    ----------
    docs, "Tune honestly"; docs, "Theory", 17.
    """

    estimator: Any
    param_distributions: Any
    _: KW_ONLY
    epsilon: float
    delta: float
    mean_trials: float = 10.0
    shape: float = 0.0
    scoring: Any = None
    validation_share: float | None = None
    candidates: int = 20
    slot_seconds: float | None = None
    random_state: Any = None
    besides: Any = ()
    ledger: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        X_public: ArrayLike | None = None,
        y_public: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """This search, with the best model.

        Parameters
        ----------
        X : (n, d) array-like or LargeTable
            The private records' features, of the kind that the estimator takes. A large table is read in
            passes, by every trial anew; it needs public records that score.
        y : (n,) array-like
            Their targets; of a large table the name of a column, or what stands beside it.
        X_public, y_public : array-like, optional
            Public records that score. Without them `validation_share` says which private records do.
        groups : (n,) array-like, optional
            The user of every row, by any id, for all private steps; of a large table also the name of a
            column. The enrolled users are those that the `users` of the last step declares. A user trains or
            scores with all rows.

        Returns
        -------
        self
            The search, with the attributes that end in an underscore.

        Raises
        ------
        InvalidInput
            An argument of the constructor or a table is wrong, or the records that score are stated twice or
            not at all. It is a ValueError.
        TargetUnreachable
            No budget of one trial meets ε at δ.
        BudgetExceeded
            Less is left in the ledger.

        Warns
        -----
        PrivacyWarning
            `random_state` is not None. The estimator has a step that is not known to treat every row by
            itself. This search, or a clone of it, was fitted before and has no `ledger`.
        """
        fit_on(None, self, X, y, X_public=X_public, y_public=y_public, groups=groups)
        return self

    def plan(self, n: int, d: int, outputs: int = 2) -> SearchPlan:
        """What a search over a table of this size would do, and what it costs, without any data.

        Parameters
        ----------
        n, d : int, ≥ 1
            Rows that train, and columns that the estimator sees.
        outputs : int, ≥ 1
            The number of classes, or of targets.

        Returns
        -------
        SearchPlan
            The budget of one trial, how many trials there are in the mean and in 99 % of searches, and the
            guarantee. Settings are drawn anew by `fit` where there are more than `candidates`.

        Raises
        ------
        InvalidInput, TargetUnreachable
            As for `fit`. InvalidInput also for pipelines with several private steps.
        """
        settings = drawn_settings(
            self.param_distributions, self._candidates(), Randomness(None).generator()
        )
        sized = [sized_blindly(self.estimator, one, n, d, outputs) for one in settings]
        share = self._share()
        scored = 0 if share is None else max(1, round(n * share / (1.0 - share)))
        return planned(self._target(scored), sized)

    # What was asked for.

    def _target(self, scored: int) -> SearchTarget:
        return SearchTarget(
            epsilon=validate.number("epsilon", self.epsilon, above=0.0),
            delta=validate.number("delta", self.delta, above=0.0, below=1.0),
            mean_trials=self.mean_trials,
            shape=self.shape,
            scored=scored,
            scoring=self._scoring() if scored else "accuracy",
            besides=self._besides(),
        )

    def _besides(self) -> tuple[Guarantee, ...]:
        validate.instance("besides", self.besides, list | tuple, "a list of guarantees")
        for one in self.besides:
            require_besides("besides", one)
        return tuple(self.besides)

    def _candidates(self) -> int:
        require(
            isinstance(self.param_distributions, Mapping),
            "param_distributions",
            "expected a dict of names to values",
        )
        return validate.integer("candidates", self.candidates, at_least=1)

    def _share(self) -> float | None:
        share: float | None = _SHARE("validation_share", self.validation_share)
        return share

    def _scored_publicly(self, X_public: Any, y_public: Any) -> bool:
        """Whether public records score. Raises InvalidInput unless just one kind of records does."""
        require(
            (X_public is None) == (y_public is None),
            "y_public",
            "expected X_public and y_public together",
        )
        share = self._share()
        require(
            (X_public is None) != (share is None),
            "validation_share",
            "expected either it, for private records that score, or X_public and y_public of fit",
        )
        if share is not None:
            self._scoring()
        return share is None

    def _scoring(self) -> str:
        """What private records score by. Raises InvalidInput for what nothing is proven of."""
        name = "accuracy" if self.scoring is None else self.scoring
        require(
            isinstance(name, str) and name in SCORES and is_classifier(self.estimator),
            "scoring",
            f"private records score classifiers, by {', '.join(SCORES)}: one of them moves it by little",
        )
        SCORES[name].refuse_other(name, last_step(self.estimator), None)
        return name

    def _parted(
        self, X: Any, y: Any, generator: np.random.Generator, users: UserRows | None
    ) -> Tables:
        """The records in two parts, by their places alone, or by their users' numbers."""
        n, share = _num_samples(X) if users is None else users.users, self._share()
        assert share is not None
        m = round(n * share)
        require(0 < m < n, "validation_share", f"expected one that leaves both parts some of {n}")
        places = generator.permutation(n)
        score, train = np.sort(places[:m]), np.sort(places[m:])
        own = {}
        if users is not None:
            own = {"groups": users.among(train), "groups_scoring": users.among(score)}
            score, train = users.rows(score), users.rows(train)
        labels = labels_of(y)
        return Tables(
            X=_safe_indexing(X, train),
            y=typed(labels[train]),
            X_scoring=_safe_indexing(X, score),
            y_scoring=labels[score],
            rows=len(train),
            **own,
        )

    # Settings and their sizes.

    def _sized(self, tables: Tables, generator: np.random.Generator) -> list[Sized]:
        """Every setting, with the public numbers that its cost follows from."""
        settings = drawn_settings(self.param_distributions, self._candidates(), generator)
        classes = self._classes(tables)
        if classes is not None and self.validation_share is not None:
            name = self._scoring()
            SCORES[name].refuse_other(name, last_step(self.estimator), len(classes))
        return [measured(self.estimator, one, tables, classes) for one in settings]

    def _classes(self, tables: Tables) -> NDArray[Any] | None:
        """The labels of all private records, None for a regressor or where they are declared."""
        last = last_step(self.estimator)
        if not is_classifier(last):
            return None
        if last.classes is not None:
            return np.unique(np.asarray(last.classes))
        try:
            if self.validation_share is None:
                return tables.cells.labels()
            every = tables.cells.array.astype(object), tables.y_scoring.astype(object)
            return np.unique(typed(np.concatenate(every)))
        except TypeError:
            raise InvalidInput("y", "expected labels of one kind") from None

    # Trials.

    def _best(
        self,
        tables: Tables,
        sized: Sequence[Sized],
        source: Randomness,
        machines: Machines | None,
    ) -> _Trial:
        """The best of the trials; how many there were, and all others, are gone when it returns."""
        plan = self.plan_
        own = copy(self)
        own.ledger = None  # the budget is reserved here, once, wherever trials are made
        trials = _Trials(own, tables, sized, source)

        def search() -> _Trial:
            generator = source.generator()
            count = TrialLaw(plan.gamma, plan.shape).draw(generator)
            tickets = (
                _Ticket(int(generator.integers(len(sized))), generator.bytes(KEY_BYTES))
                for _ in range(count)
            )
            every = map(trials, tickets) if machines is None else machines.results(trials, tickets)
            return max(every, key=attrgetter("score"))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how many there are, and of which setting
            return unseen(search)

    def _score(self, model: Any, tables: Tables, generator: np.random.Generator) -> float:
        """How good a trial is, by what it releases alone; −∞ for what is no number."""
        noise = self.plan_.scoring_noise
        if noise is None:
            scorer = check_scoring(model, scoring=self.scoring)
            score = float(scorer(model, tables.X_scoring, tables.y_scoring))
            return -math.inf if math.isnan(score) else score
        own = SCORES[self.plan_.scoring].exact(
            model,
            tables.X_scoring,
            tables.y_scoring,
            tables.groups_scoring,
            checked_adjacency(self.plan_.guarantee.adjacency),
        )
        # One record moves n times the score by 1; two roundings of two tables' scores may add to that.
        n = tables.scored
        grid = grid_for(_BY_THE_GRID, noise * n)
        raised = up(noise * n * (1.0 + grid + 4.0 * HALF_ULP * n))
        return float(noisy(np.array(own * n), raised, grid, generator)) / n

    def _guarantee(self, sized: Sequence[Sized], public: bool) -> Guarantee:
        """That of the search, with what it assumes of the data, if its draws are secret."""
        last = [last_step(one.model) for one in sized]
        declared = last_step(self.estimator)
        labels = is_classifier(declared) and declared.classes is None
        weighted = any(getattr(one, "class_weight", None) is not None for one in last)
        certified: Guarantee = self.plan_.guarantee.assuming(
            PREPROCESSING,
            *((LABELS,) if labels else ()),
            *((WEIGHTS,) if weighted else ()),
            *(sentence for one in last for sentence in one._of_range()),
            *(sentence for one in sized for sentence in one.assumed),
            SCORED_PUBLICLY if public else SCORED_ALONE,
        )
        return certified

    # The best model.

    @_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: ArrayLike) -> Any:
        """What the best model predicts of X, (m, d)."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Any:
        """The best model's probabilities of the classes, (m, K)."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> Any:
        """The best model's decision function at X, (m, d)."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The best model's score on other records, by `scoring`.

        The score of private data is another release, which `guarantee_` does not cover.

        Parameters
        ----------
        X : (m, d) array-like or LargeTable
            Features.
        y : (m,) array-like, or str
            Targets, or the name of a column of a large table.

        Returns
        -------
        float
            What the scorer gives, or the model's own score.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        """
        check_is_fitted(self)
        scorer = check_scoring(self.best_estimator_, scoring=self.scoring)
        return float(scorer(self.best_estimator_, X, in_memory(X, y, "y")))

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that the best model knows."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.classes_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.input_tags = own.estimator_type, own.input_tags
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        return tags


@dataclass(frozen=True, eq=False, repr=False)
class _Trials:
    """The trials of a search, each a function of its ticket, wherever it is made and if it is made again."""

    search: PrivateSearchCV
    tables: Tables
    sized: Sequence[Sized]
    source: Randomness

    def __call__(self, ticket: _Ticket) -> _Trial:
        search, sized = self.search, self.sized[ticket.place]
        generator = keyed_generator(ticket.key)
        with turns_hidden(), drawn_from(generator):
            model = self._fitted(ticket.place, generator)
        require(
            guarantee_of(model, strict=False).curve == search.plan_.trials[ticket.place].curve,
            "estimator",
            "a fit costs something else than its plan says",
        )
        return _Trial(search._score(model, self.tables, generator), sized.settings, model)

    def _fitted(self, place: int, generator: np.random.Generator) -> Any:
        plan, tables = self.search.plan_, self.tables
        model = budgeted(clone(self.sized[place].model), plan.epsilon, plan.delta)
        last_step(model).plan_made = plan.plans[place]
        counted_apart(model)  # how many trials there are stays hidden
        alone = (name for name in model.get_params() if name.rpartition("__")[2] == "n_jobs")
        model.set_params(**dict.fromkeys(alone))  # other processes would count them
        if not self.source.secret:
            last_step(model).set_params(random_state=int(generator.integers(2**31)))
        return fitted_to(model, tables.X, tables.y, groups=tables.ids)


def fit_on(
    machines: Machines | None,
    search: PrivateSearchCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    X_public: ArrayLike | None = None,
    y_public: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> PrivateSearchCV:
    """What `search.fit` returns; the trials are made on `machines`, None for this one."""
    began = time.monotonic()
    with AllOrNothing(search):
        check_ledger(search.ledger)
        slot = validate.optional(validate.POSITIVE)("slot_seconds", search.slot_seconds)
        source = randomness_from(search.random_state)
        public = search._scored_publicly(X_public, y_public)
        unknown = assumed_unknown(search.estimator, strict=False)
        generator = source.generator()
        if (large := large_table(X)) is not None:
            _refuse_large(machines, public)
            X = large  # one table, of which groups and every trial read
        rows = rows_of(X, y)
        apart = computed_apart(X, y, groups)
        groups = in_memory(X, groups, "groups")
        users, of_users = users_of_rows(groups, last_step(search.estimator).users, rows)
        tables = (
            Tables(X=X, y=y, X_scoring=X_public, y_scoring=y_public, rows=rows, groups=users)
            if public
            else search._parted(X, y, generator, users)
        )
        sized = search._sized(tables, generator)
        search.plan_ = planned(search._target(0 if public else tables.scored), sized)
        del generator  # it would stand in this frame while trials run
        certified = search._guarantee(sized, public).assuming(
            *of_users,
            *unknown,
            *fitted_before(search, strict=False),
            *apart,
            *(() if machines is None else machines.assumed),
        )
        with reserved(search.ledger, certified, secret=source.secret):
            count_fit(search)
            best = search._best(tables, sized, source, machines)
        certified = certified if source.secret else certified.for_testing()
        search.guarantee_ = keep_whole(best.model, certified)  # one trial's would promise too much
        search.best_estimator_, search.best_params_ = best.model, dict(best.settings)
        if hasattr(best.model, "n_features_in_"):
            search.n_features_in_ = best.model.n_features_in_
    _wait(began, slot)
    return search


def _refuse_large(machines: Machines | None, public: bool) -> None:
    """Raises InvalidInput for a search that a table in passes is not read for."""
    require(
        machines is None,
        "X",
        "expected a table in memory on other machines, got one that is read in passes",
    )
    require(
        public,
        "validation_share",
        "expected X_public and y_public for a table that is read in passes: it is not parted",
    )


def _wait(began: float, slot: float | None) -> None:
    """Sleeps until a whole multiple of the slot has passed."""
    if slot is not None:
        passed = time.monotonic() - began
        time.sleep(math.ceil(passed / slot) * slot - passed)

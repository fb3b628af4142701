"""Audits: what an attacker gets, beside what is promised."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from pabi.audits import laws
from pabi.audits.conformity import FEWEST, Conformity, Reach, TrainerTests
from pabi.audits.instances import Known, instances, nearby
from pabi.audits.laws import LawPair, Point
from pabi.audits.probes import CanaryData, canary_pair, coefficients, many_canaries
from pabi.describe.runs import NoisySGD
from pabi.execute.progress import progress_bar
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, require
from pabi.numbers.locking import tick, ticking, waiting
from pabi.numbers.rounding import Array, bisected
from pabi.numbers.showing import aligned, exact, shown, shown_down
from pabi.tradeoff.guarantee import Guarantee

# What an audit showed.


_UNTESTED = "not tested: that takes a trainer of models of one number, without an intercept"
_EQUAL = 1.0 + 1e-9  # beyond the roundings of divergences that are equal


@dataclass(frozen=True, eq=False)
class Audit:
    """What attackers of models that were trained on two neighbouring data sets got, beside what is promised.

    Attributes
    ----------
    guarantee : Guarantee
        What is promised.
    instance : str
        The data sets, in a few words.
    trainings : int
        Models, half of them of either data set. Where laws are not known, half of them chose direction and
        thresholds, and the bounds count the others.
    delta : float
        The δ of `epsilon_lower`.
    confidence : float
        With which all bounds of the audit hold together.
    points : tuple of Point
        The tests, with upper bounds on their errors.
    law : LawPair or None
        The exact laws of what the instance releases; None where the trainer is not pabi's description.
    seconds : float
        How long it took.
    conformity : Conformity or None
        Whether a trainer's models follow the law that the run has; None without a trainer, and where its
        models are not one number each.
    reach : Reach or None
        What so many trainings of a trainer find, as it was before they began.

    References
    ----------
    docs, "Audits"; Dong, Roth, Su 2022, §2.
    """

    guarantee: Guarantee
    instance: str
    trainings: int
    delta: float
    confidence: float
    points: tuple[Point, ...]
    law: LawPair | None
    seconds: float
    conformity: Conformity | None = None
    reach: Reach | None = None

    @property
    def epsilon_lower(self) -> float:
        """The ε at `delta` that the trainings refute: with the stated confidence no less is true."""
        return self.epsilon(self.delta)

    def epsilon(self, delta: float) -> float:
        """The ε at another δ that the trainings refute; the confidence is that of all together.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ.

        Returns
        -------
        float
            A lower bound on the ε of what was trained; 0 if the trainings show nothing.

        Raises
        ------
        InvalidInput
            For a δ out of its range.
        """
        return laws.epsilon(self.points, validate.number("delta", delta, at_least=0.0, below=1.0))

    @property
    def mu_lower(self) -> float:
        """The μ that the trainings refute: what was trained is not μ-GDP for any less."""
        return laws.mu(self.points)

    @property
    def curve(self) -> Array:
        """(k, 2) upper bounds on the errors of tests: no trade-off function above these points is right."""
        return np.array([[point.fpr, point.fnr] for point in self.points])

    @property
    def exact(self) -> float | None:
        """The ε at `delta` of the instance itself, from its exact laws; None where they are not known."""
        return self.exact_epsilon(self.delta)

    def exact_epsilon(self, delta: float) -> float | None:
        """The ε of the instance at a δ, from below.

        Parameters
        ----------
        delta : float, in [0, 1)
            The δ.

        Returns
        -------
        float or None
            None where the laws are not known.

        Raises
        ------
        InvalidInput
            For a δ out of its range.
        """
        at = validate.number("delta", delta, at_least=0.0, below=1.0)
        if self.law is None:
            return None
        return max(self.law.epsilon(at), self.law.swapped().epsilon(at))

    @property
    def exact_mu(self) -> float | None:
        """The least μ for which the instance is μ-GDP, from below; None where its laws are not known."""
        return None if self.law is None else self.law.mu

    @property
    def resolved_delta(self) -> float:
        """A δ that so many trainings resolve."""
        return max(self.delta, laws.resolved(self.trainings // 2))

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is wrong of what was trained: with the stated confidence by the trainings, or
        for certain by the exact laws."""
        return laws.refutes(self.points, self.guarantee.curve) or self._exceeded

    @property
    def not_as_described(self) -> bool:
        """Whether the trainer does something else than the run says, with the stated confidence. What it does
        may still keep the promise, which is `refuted` or not by itself."""
        return self.conformity is not None and self.conformity.refuted

    @property
    def _exceeded(self) -> bool:
        """Whether the instance itself costs more than is promised."""
        return any(
            (instance := self.exact_epsilon(delta)) is not None
            and instance > self.guarantee.epsilon(delta) * _EQUAL
            for delta in self.deltas
        )

    @property
    def deltas(self) -> tuple[float, ...]:
        """The δ that are shown."""
        return tuple(dict.fromkeys((self.delta, self.resolved_delta)))

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain numbers.

        Returns
        -------
        dict
            JSON-ready.

        Raises
        ------
        Nothing.
        """
        readings = [
            {
                "delta": delta,
                "epsilon_lower": self.epsilon(delta),
                "exact": self.exact_epsilon(delta),
                "guarantee": self.guarantee.epsilon(delta),
            }
            for delta in self.deltas
        ]
        return {
            "refuted": self.refuted,
            "not_as_described": None if self.conformity is None else self.not_as_described,
            "p_value": None if self.conformity is None else self.conformity.p_value,
            "reach": None if self.reach is None else self.reach.to_dict(),
            "instance": self.instance,
            "trainings": self.trainings,
            "confidence": self.confidence,
            "readings": readings,
            "mu_lower": self.mu_lower,
            "exact_mu": self.exact_mu,
            "mu": self.guarantee.mu,
            "curve": self.curve.tolist(),
            "adjacency": self.guarantee.adjacency,
            "method": self.guarantee.method,
            "seconds": self.seconds,
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off curves of the guarantee and of the instance, and the points of the trainings.

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
        Nothing.
        """
        from pabi.show.pictures import plot_audit

        return plot_audit(self, ax)

    @property
    def _described(self) -> list[str]:
        if self.conformity is not None:
            return [f"as described   {self.conformity}"]
        return [] if self.law is not None else [f"as described   {_UNTESTED}"]

    def __str__(self) -> str:
        rows = [["", *(f"epsilon at delta {exact(d)}" for d in self.deltas), "mu"]]
        lower = [shown_down(self.epsilon(d), 4) for d in self.deltas]
        rows.append(["trainings show", *lower, shown_down(self.mu_lower, 4)])
        if self.law is not None:
            instance = [shown_down(self.exact_epsilon(d) or 0.0, 4) for d in self.deltas]
            rows.append(["exact instance", *instance, shown_down(self.law.mu, 4)])
        promised = [shown(self.guarantee.epsilon(d), 4) for d in self.deltas]
        mu = self.guarantee.mu
        rows.append(["guarantee", *promised, "-" if mu is None else shown(mu, 4)])
        return "\n".join(
            [
                f"audit          {'REFUTED' if self.refuted else 'not refuted'}",
                *self._described,
                f"instance       {self.instance}",
                f"trainings      {self.trainings}, confidence {exact(self.confidence)}",
                f"adjacency      {self.guarantee.adjacency}",
                *aligned(rows),
            ]
        )


Trainer = Callable[[Array, NDArray[Any]], Any]
"""(X, y) ↦ coefficients, or a fitted estimator."""

_AT_ONCE = 50_000  # models that are trained side by side
_FLAT = 1e-9  # of its largest entry: a column that varies less is constant
_LEAST = 1e-200
_BEGINS = 2  # instances near which worse ones are looked for,
_ROUNDS = 4  # so often at most


def audit(
    run: NoisySGD,
    *,
    train: Trainer | None = None,
    trainings: int = 100_000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Audit:
    """Attack a run: train many models on two neighbouring data sets and count how well they are told apart.

    Without `train`, the run is executed on the worst instance that is known, one number a model and thousands
    of models side by side, and models are scored by their exact likelihood ratio. The instance's exact
    divergence stands beside what the trainings show.

    With `train`, somebody else's trainer is given four data sets of one column. Two are neighbours with a
    canary. Half of their models choose the direction and the thresholds, the other half are counted. The
    models of all four are compared with models of the run on the same data, which finds a trainer that does
    something else, however private (`not_as_described`). What so many trainings find is `reach`, which
    `pabi.audits.reach` says beforehand.

    Parameters
    ----------
    run : NoisySGD
        What is promised to be done.
    train : callable, optional
        (X, y) ↦ coefficients or a fitted estimator: a trainer of the linear model whose loss the run has. It
        draws new noise at every call. As described is a start at 0, with the rows as they are, without an
        intercept; the bounds hold for any start that is not chosen by looking at data.
    trainings : int
        Models, as many of each data set; at least 100.
    delta : float, in [0, 1)
        Where ε is read.
    confidence : float, in (0, 1)
        With which all bounds hold together.
    random_state : None, int or numpy Generator
        Of the trainings without `train`, and of the models that its models are compared with; no data are at
        stake.
    progress : bool
        Whether to show trainings and time on standard error, and with `train` the reach before it begins.
        Without it a terminal or a notebook has one line, from two seconds on, that says what is done.

    Returns
    -------
    Audit
        Lower bounds beside the guarantee. They prove what is not private, and never that something is.

    Raises
    ------
    InvalidInput
        For an argument out of its range; with `train`, for a loss without canaries.
    NotApplicable
        When no analysis covers the run, or no worst instance is known for it.

    References
    ----------
    Nasr et al. 2021; Clopper, Pearson 1934; docs, "Audits".
    """
    validate.instance("run", run, NoisySGD, "a NoisySGD")
    total = validate.integer("trainings", trainings, at_least=FEWEST)
    at = validate.number("delta", delta, at_least=0.0, below=1.0)
    sure = validate.number("confidence", confidence, above=0.0, below=1.0)
    require(
        train is None or callable(train),
        "train",
        f"expected a callable, got a {type(train).__name__}",
    )
    guarantee, generator = run.guarantee(at), np.random.default_rng(random_state)
    if train is None:
        return _of_run(run, guarantee, total // 2, (at, sure), generator, progress)
    return _of_trainer(run, guarantee, train, total, (at, sure), generator, progress)


def _of_run(
    run: NoisySGD,
    guarantee: Guarantee,
    count: int,
    read: tuple[float, float],
    generator: np.random.Generator,
    progress: bool,
) -> Audit:
    """`count`: models of either data set. `read`: δ and confidence."""
    begin, (at, sure) = time.perf_counter(), read
    with waiting("looking for the worst data sets"):
        instance, law = worst(run, at)
        aims = laws.Aims((at, max(at, laws.resolved(count))), guarantee.curve, count, sure)
        thresholds = aims.thresholds(*law.rates)
    with _watched(progress, 2 * count) as advance:
        null, other = _scores(instance, law, count, generator, advance)
    points = laws.counted(null, other, thresholds, sure)
    seconds = time.perf_counter() - begin
    return Audit(guarantee, instance.sentence, 2 * count, at, sure, tuple(points), law, seconds)


def _of_trainer(
    run: NoisySGD,
    guarantee: Guarantee,
    train: Trainer,
    total: int,
    read: tuple[float, float],
    generator: np.random.Generator,
    progress: bool,
) -> Audit:
    """`total`: models of all data sets together. `read`: δ and confidence."""
    begin, (at, sure) = time.perf_counter(), read
    pair = canary_pair(run)
    plan, within_reach = None, None
    with contextlib.suppress(NotApplicable), waiting("choosing what is tested"):
        plan = TrainerTests(run, total, sure, generator)
        within_reach = plan.reach()
    if progress and within_reach is not None:
        print(within_reach, file=sys.stderr)
    data = pair if plan is None else plan.data
    count, sure_of_each = total // len(data), sure if plan is None else 0.5 * (1.0 + sure)
    with _watched(progress, len(data) * count) as advance:
        outputs = [_outputs(train, one, count, advance) for one in data]
    null, other = outputs[1][0], outputs[0][0]
    deltas = (at, max(at, laws.resolved(count)))
    points = _split(null, other, guarantee, deltas, sure_of_each)
    conformity = None
    if plan is not None and all(x.shape[1] == 1 and plain for x, plain in outputs):
        conformity = plan.tested([x[:, 0] for x, _ in outputs])
    return Audit(
        guarantee,
        "one canary among zero rows",
        2 * count,
        at,
        sure,
        tuple(points),
        None,
        time.perf_counter() - begin,
        conformity,
        within_reach,
    )


@contextlib.contextmanager
def _watched(progress: bool, trainings: int) -> Iterator[Callable[[], None]]:
    """A function to call after every training: it moves a bar where one is asked for, and says otherwise that
    the work goes on."""
    if progress:
        with progress_bar(progress, trainings, label="auditing") as advance:
            yield advance
    else:
        with waiting(f"auditing, {trainings} trainings"):
            yield tick


def audit_outputs(
    promise: NoisySGD | Guarantee,
    null: ArrayLike,
    other: ArrayLike,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> Audit:
    """What models show that were trained elsewhere, on two neighbouring data sets.

    Half of the models choose a direction, that between the means with each column in units of its variance,
    and thresholds. The other half are counted.

    Parameters
    ----------
    promise : NoisySGD or Guarantee
        What is promised to be done, or of what was done.
    null, other : (m,) or (m, d) array-like
        What each model releases: of one data set, and of the other. Models are independent of each other.
    delta : float, in [0, 1)
        Where ε is read.
    confidence : float, in (0, 1)
        With which all bounds hold together.

    Returns
    -------
    Audit
        Its law is not known.

    Raises
    ------
    InvalidInput
        For other than as many models of either data set, at least 50.

    References
    ----------
    docs, "Audits".
    """
    at = validate.number("delta", delta, at_least=0.0, below=1.0)
    sure = validate.number("confidence", confidence, above=0.0, below=1.0)
    validate.instance("promise", promise, NoisySGD | Guarantee, "a NoisySGD or a Guarantee")
    begin = time.perf_counter()
    promised = promise.guarantee(at) if isinstance(promise, NoisySGD) else promise
    tables = [_table(name, value) for name, value in (("null", null), ("other", other))]
    require(
        tables[0].shape == tables[1].shape,
        "other",
        f"expected the shape of null, {tables[0].shape}",
    )
    count = len(tables[0])
    points = _split(tables[0], tables[1], promised, (at, max(at, laws.resolved(count))), sure)
    seconds = time.perf_counter() - begin
    name = "models that were trained elsewhere"
    return Audit(promised, name, 2 * count, at, sure, tuple(points), None, seconds)


def worst(run: NoisySGD, delta: float) -> tuple[Known, LawPair]:
    """The instance of a run with the largest ε at `delta`, in the worse order, and its laws."""
    costs, refusal = _costs(instances(run), delta)
    if not costs:
        raise refusal or NotApplicable("no worst instance is known")
    best = costs[0]
    for begin in costs[:_BEGINS]:
        for _ in range(_ROUNDS):
            better, _ = _costs(nearby(begin[1]), delta)
            if not better or better[0][0] <= begin[0]:
                break
            begin = better[0]
        best = max(best, begin, key=lambda one: one[0])
    return best[1], best[2]


_Found = tuple[float, Known, LawPair]


def _costs(tried: Sequence[Known], delta: float) -> tuple[list[_Found], NotApplicable | None]:
    """(its ε, the instance, its laws), the largest ε first, and why others have no laws."""
    costs: list[_Found] = []
    refusal: NotApplicable | None = None
    for instance in ticking(tried):
        try:
            law = instance.pair()
        except NotApplicable as no:
            refusal = no
            continue
        costs.append((max(law.epsilon(delta), law.swapped().epsilon(delta)), instance, law))
    return sorted(costs, key=lambda one: -one[0]), refusal


def _scores(
    instance: Known,
    law: LawPair,
    count: int,
    generator: np.random.Generator,
    advance: Callable[[], None],
) -> tuple[Array, Array]:
    """(count,) scores of models of the second data set, and of the first."""

    def scored(gradient: float) -> Iterator[Array]:
        for first in range(0, count, _AT_ONCE):
            size = min(_AT_ONCE, count - first)
            yield law.scores(instance.trained(gradient, size, generator))
            for _ in range(size):
                advance()

    null = np.concatenate(list(scored(instance.other)))
    return null, np.concatenate(list(scored(instance.record)))


def _outputs(
    train: Trainer, data: CanaryData, count: int, advance: Callable[[], None]
) -> tuple[Array, bool]:
    """((count, d) coefficients of models, whether there is nothing beside them)."""
    models, alone = [], True
    for _ in range(count):
        model = train(data.X.copy(), data.y.copy())
        models.append(coefficients(model))
        alone = alone and not np.any(getattr(model, "intercept_", 0.0))
        advance()
    require(
        len({len(model) for model in models}) <= 1,
        "train",
        "expected as many coefficients of every model",
    )
    return np.stack(models), alone


def _split(
    null: Array,
    other: Array,
    guarantee: Guarantee,
    deltas: tuple[float, ...],
    confidence: float,
) -> list[laws.Point]:
    """The points of the second half of the models, with what the first half chose."""
    half = len(null) // 2
    direction = _direction(null[:half], other[:half])
    scores = null @ direction, other @ direction
    aims = laws.Aims(deltas, guarantee.curve, len(null) - half, confidence)
    thresholds = aims.thresholds(*laws.guessed(scores[0][:half], scores[1][:half]))
    return laws.counted(scores[0][half:], scores[1][half:], thresholds, confidence)


def _direction(null: Array, other: Array) -> Array:
    """The difference of the means, each column in units of its own variance: what is noisy counts little."""
    apart = other.mean(axis=0) - null.mean(axis=0)
    variances = 0.5 * (null.var(axis=0) + other.var(axis=0))
    scale = np.maximum(np.abs(null), np.abs(other)).max(axis=0)
    weights = apart / np.maximum(variances, np.square(_FLAT * scale) + _LEAST)
    return np.asarray(weights / (np.linalg.norm(weights) or 1.0))


def _table(field: str, value: ArrayLike) -> Array:
    expected = f"expected finite numbers of {FEWEST // 2} models or more"
    try:
        table = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, expected) from None
    table = table[:, None] if table.ndim == 1 else table
    require(
        table.ndim == 2 and 2 * len(table) >= FEWEST and np.isfinite(table).all(), field, expected
    )
    return table


# Audits of one training with many canaries, each of which is in the data or not by the toss of a coin.


_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)  # of the canaries that are guessed
_MOST_EPSILON = 50.0


@dataclass(frozen=True)
class OneRunAudit:
    """What guesses about the canaries of one training refute.

    It is much weaker than many trainings: the canaries share one model, δ counts once for each of them, and a
    record moves a coordinate of its own, which no worst instance does.

    Attributes
    ----------
    canaries, guesses, correct : int
        How many there were, how many were guessed, how many guesses were right.
    delta, confidence : float
        Of `epsilon_lower`.
    epsilon_lower : float
        The ε at `delta` that the guesses refute.
    guarantee : Guarantee
        What is promised.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """

    canaries: int
    guesses: int
    correct: int
    delta: float
    confidence: float
    epsilon_lower: float
    guarantee: Guarantee

    @property
    def refuted(self) -> bool:
        """Whether the guarantee is wrong of what was trained, with the stated confidence."""
        return self.epsilon_lower > self.guarantee.epsilon(self.delta)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"audit       {'REFUTED' if self.refuted else 'not refuted'}",
                f"canaries    {self.canaries}, {self.correct} of {self.guesses} guesses right, "
                f"confidence {exact(self.confidence)}",
                f"epsilon     at least {shown_down(self.epsilon_lower, 4)} at delta {exact(self.delta)}",
                f"guarantee   {shown(self.guarantee.epsilon(self.delta), 4)}",
            ]
        )


def one_run(
    run: NoisySGD,
    train: Trainer,
    *,
    canaries: int = 1_000,
    delta: float = 1e-5,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> OneRunAudit:
    """Train one model with many canaries, and guess which of them were in the data.

    Each canary has a coordinate of its own, so that the model has as many coefficients as there are canaries.
    The largest coefficients are guessed in and the smallest out, for five numbers of guesses, which share
    what the confidence leaves.

    Parameters
    ----------
    run : NoisySGD
        What is promised to be done.
    train : callable
        (X, y) ↦ coefficients or a fitted estimator, one coefficient a canary and no other.
    canaries : int
        At most n.
    delta : float, in [0, 1)
        Where ε is read.
    confidence : float, in (0, 1)
        Of the lower bound.
    random_state : None, int or numpy Generator
        Of the coins.

    Returns
    -------
    OneRunAudit
        A lower bound beside the guarantee.

    Raises
    ------
    InvalidInput
        For an argument out of its range, and for a trainer that returns another number of coefficients.

    References
    ----------
    Steinke, Nasr, Jagielski 2023, Alg. 1.
    """
    m = validate.integer("canaries", canaries, at_least=10, at_most=run.n, of="n = ")
    at = validate.number("delta", delta, at_least=0.0, below=1.0)
    sure = validate.number("confidence", confidence, above=0.0, below=1.0)
    guarantee = run.guarantee(at)
    included = np.random.default_rng(random_state).random(m) < 0.5
    data = many_canaries(run, included)
    scores = coefficients(train(data.X, data.y))
    require(len(scores) == m, "train", f"expected {m} coefficients, got {len(scores)}")
    ranked = included[np.argsort(scores, kind="stable")]
    error = (1.0 - sure) / len(_SHARES)
    best = (-1.0, 0, 0)
    for share in _SHARES:
        k = max(1, round(share * m / 2.0))
        correct = int(np.sum(ranked[-k:]) + np.sum(~ranked[:k]))
        bound = refuted_epsilon(m, 2 * k, correct, delta=at, error=error)
        best = max(best, (bound, 2 * k, correct))
    return OneRunAudit(m, best[1], best[2], at, sure, best[0], guarantee)


def chance(canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of so many right guesses or more, if training is (ε, δ)-private.

    Source: Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """
    right = 1.0 / (1.0 + np.exp(-epsilon))
    fewer = binom.pmf(np.arange(correct - 1, -1, -1), guesses, right)
    sums = np.cumsum(fewer) / np.arange(1, correct + 1)
    slack = 2.0 * canaries * delta * float(np.max(sums, initial=0.0))
    return min(1.0, float(binom.sf(correct - 1, guesses, right)) + slack)


def refuted_epsilon(
    canaries: int, guesses: int, correct: int, *, delta: float, error: float
) -> float:
    """The largest ε that so many right guesses refute, too large with probability `error` at most; 0 for
    none.

    Source: Steinke, Nasr, Jagielski 2023, Thm 5.2.
    """

    def possible(epsilon: float) -> bool:
        return chance(canaries, guesses, correct, epsilon=epsilon, delta=delta) > error

    if possible(0.0):
        return 0.0
    return bisected(possible, 0.0, _MOST_EPSILON, close=lambda low, high: high - low <= 1e-6)[0]

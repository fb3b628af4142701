"""Finding the value of one parameter at which a run meets a privacy target.

Each parameter moves ε monotonically, so that the boundary is bracketed and then narrowed. What is
returned has been accounted and meets the target, whatever the search did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from pabi.account.analyses.writing import rounding_of
from pabi.account.best import Outcome, best_of, least_of, outcomes
from pabi.account.targets import Target, composed, gaussian_of
from pabi.describe.accounted import warn_of_large_delta
from pabi.describe.files import KINDS, Description
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.describe.unlearning import Unlearning
from pabi.describe.updates import stated_by_function
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable, require
from pabi.numbers.locking import waiting
from pabi.numbers.rounding import bisected_whole, bracketed, next_to_root
from pabi.numbers.showing import plain, shown
from pabi.tradeoff import Gaussian, Mixture, Product, RandomAllocation, TradeOff, average
from pabi.tradeoff.guarantee import Guarantee
from pabi.tradeoff.product import rounded, unrounded

Calibrated = TypeVar("Calibrated", bound=Description)

_NOISES = ("noise_std", "noise_multiplier")
_ANALYSES = 3  # how many are asked alone in turn before all are asked every time
_MOST = 10**9  # epochs or steps beyond which "any number" is the answer
_WHOLE = ("epochs", "steps", "size", "chains")
# Relative, of what a target reads: how much more is granted than was hoped for, and at most.
_GRANTED, _ROOM = 1e-11, 1e-4
_RELATIVE = 1e-10  # how closely a continuous parameter meets its boundary
_FARTHEST = 690.0  # the logarithm of a continuous parameter that is looked at
_RELATIVE_COMPOSED = 1e-4  # where ε is composed numerically to 1e-3, as with random batches


def calibrated_of(run: Any) -> tuple[str, ...]:
    """The parameters of a description that may be calibrated, none of anything else."""
    return next((kind.calibrated for kind in KINDS.values() if type(run) is kind.of), ())


@validate.answering(
    {
        "target_epsilon": "calibrate calls it epsilon: write epsilon={}",
        "eps": "calibrate calls it epsilon: write epsilon={}",
        "target_delta": "calibrate calls it delta: write delta={}",
    }
)
def calibrate(
    run: Calibrated,
    epsilon: float | None = None,
    delta: float | None = None,
    parameter: str | None = None,
    *,
    mu: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    besides: Sequence[Guarantee] = (),
) -> Calibrated:
    """`run` with `parameter` changed so that its guarantee meets a target.

    The target is one of `epsilon` (with `delta`), `mu`, `advantage` and `tpr` (with `fpr`). It is read from
    the proven trade-off function, rounded against the run. Continuous parameters meet the boundary to a
    relative 1e-9; with random batches, and where `besides` are composed with the run numerically, to about
    1e-2. Nothing depends on data.

    Parameters
    ----------
    run : NoisySGD, a sampler, a mechanism, a noisy statistic or Unlearning
        The description to be changed.
    epsilon : float > 0, optional
        The largest ε at `delta`.
    delta : float in (0, 1), optional
        The δ of `epsilon`. Other targets are met by `run.guarantee(delta)`; 1e-5 if it is not given.
    parameter : str, optional
        What is changed; None for the first one named here. Of noisy SGD the least "noise_std" or
        "noise_multiplier" (a schedule is scaled as a whole), the most "epochs", "steps" or "clip_norm", or
        the "size" of batches nearest to the boundary. Of a Langevin chain the most "inverse_temperature",
        "steps" or "chains". Of a diffusion the most "inverse_temperature" or "time". Of an exponential
        mechanism the most "inverse_temperature" or "epsilon". Of an iterated one its "epsilons", scaled as a
        whole. Of second moments the least "noise_std" or "noise_multiplier", of statistics of columns and of
        an accuracy the least "noise_std", and of forgetting the noise of its run. Units are those of the
        parameter.
    mu : float > 0, optional
        The largest μ of Gaussian differential privacy. Where the order of batches is secret or random, the
        known μ is that of the worst order, so that other targets need less noise.
    advantage : float in (0, 1), optional
        The largest membership advantage, TPR − FPR.
    tpr : float in (0, 1), optional
        The largest true-positive rate of a membership attack at `fpr`.
    fpr : float in (0, 1), optional
        The false-positive rate of that attack, below `tpr`.
    besides : sequence of Guarantee
        What other releases from the same data cost, which share the budget: the target is that of
        `pabi.compose(*besides, run.guarantee(delta))`.

    Returns
    -------
    same type as `run`
        Its guarantee has been computed and, with those of `besides`, meets the target.

    Raises
    ------
    TargetUnreachable
        When no value meets the target, or `besides` exceed it; its `best` is the least value seen of what the
        target bounds, that of `besides` where they exceed it.
    InvalidInput
        For no target or several, where the parameter cannot change the guarantee, where any number of epochs
        or steps or any time meets the target, and for an argument that is out of range or of another type;
        for `besides` of another adjacency or unit than the run's, of tests, of one batch's records alone, or
        whose certificates do not verify.

    Warns
    -----
    PrivacyWarning
        When `delta` exceeds 1/n.

    References
    ----------
    docs, "Meet a privacy target".
    """
    require(
        not (
            isinstance(run, ExponentialMechanism) and isinstance(delta, (int, float)) and delta == 0
        ),
        "delta",
        "expected a number > 0 and < 1, got 0: what is private at δ = 0 is described with its epsilon",
    )
    target = Target(epsilon=epsilon, delta=delta, mu=mu, advantage=advantage, tpr=tpr, fpr=fpr)
    return met(run, target, besides, parameter)[0]


def met(
    run: Calibrated,
    target: Target,
    besides: Sequence[Guarantee] = (),
    parameter: str | None = None,
) -> tuple[Calibrated, Guarantee]:
    """(the run that `calibrate` returns, its guarantee, which is that of the last candidate as a rule)."""
    names = calibrated_of(run)
    if not names:
        raise InvalidInput(
            "run", f"expected a pabi.NoisySGD, a sampler or a mechanism, got {type(run).__name__}"
        )
    parameter = validate.choice("parameter", names[0] if parameter is None else parameter, names)
    spent = composed(besides, run)
    if target.delta is not None:
        warn_of_large_delta(getattr(run, "n", None), target.delta)
    if spent is not None and (cost := target.cost(spent)) > target.most:
        raise TargetUnreachable(
            f"{target} cannot be met: the releases in besides alone cost {target.name} = {shown(cost)}",
            cost,
        )
    refused: frozenset[str] = frozenset()
    room = 0.0 if parameter in _WHOLE else _GRANTED
    with waiting(f"calibrating {parameter}"):
        while True:
            search = _Search(
                parameter, target, sampled=_sampled(run), spent=spent, without=refused, room=room
            )
            calibrated: Calibrated = search.calibrated(run)
            answers = search.answers(calibrated)
            guarantee = best_of(answers, target.chosen_at)
            if search.in_all(guarantee.curve) <= target.most:
                return calibrated, guarantee
            # The kernel refused what seemed to be best: then it is not asked again. Or it found more.
            lost = {o.name for o in answers if o.proposal is not None and o.curve is None}
            if not lost and room > _ROOM:
                raise search.unreachable()
            refused, room = refused | lost, room if lost else 100.0 * (room or _GRANTED)


def _sampled(description: Any) -> bool:
    """Whether batches are drawn afresh at every step."""
    run = getattr(description, "run", description)
    return isinstance(run, NoisySGD) and run.order.fresh


def _resized(value: Any, x: float) -> Any:
    """`x`; for a schedule, one in proportion to `value` whose largest entry is `x`."""
    if np.ndim(value) == 0:
        return x
    schedule = np.asarray(value, dtype=np.float64)
    return x * (schedule / float(np.max(schedule)))


def _refuse_schedules(run: Any, reason: str) -> None:
    """InvalidInput for the first parameter that has one number a step, and no function that gives more."""
    for field in ("step_size", "noise_std", "noise_multiplier"):
        value = getattr(run, field, None)
        if isinstance(value, np.ndarray) and not stated_by_function(value):
            hint = "; give a function of the step" if field == "step_size" else ""
            raise InvalidInput(field, f"given one per step, it fixes {reason}{hint}")


class _Search:
    """Accounts candidates and remembers the least cost."""

    def __init__(
        self,
        parameter: str,
        target: Target,
        *,
        sampled: bool,
        spent: TradeOff | None,
        without: frozenset[str],
        room: float,
    ) -> None:
        self.parameter, self.target, self.without = parameter, target, without
        self.most_cost = target.most * (1.0 - room)
        self.spent = spent
        self.close = _RELATIVE_COMPOSED if sampled else _RELATIVE
        self.best, self.at = math.inf, math.nan
        self.method: str | None = None  # the analysis that is asked alone
        self._known: dict[tuple[str | None, float], float] = {}
        self._last: tuple[Any, list[Outcome]] | None = None  # of which all analyses were asked

    def calibrated(self, run: Any) -> Any:
        """`run` with the parameter changed. Raises TargetUnreachable and InvalidInput."""
        name, sgd = self.parameter, isinstance(run, NoisySGD)
        if name in _NOISES:
            return self.noise(run)
        if sgd and run.noise_std is None and run.noise_multiplier is None:
            raise InvalidInput("noise_std", f"missing: calibrating {name} needs a noise")
        if name == "clip_norm":
            return self.clip(run)
        if name == "size":
            return self.size(run)
        return self.length(run) if sgd or name in _WHOLE else self.scale(run)

    def cost(self, run: Any, at: float) -> float:
        """What a candidate costs, in the terms of the target, whose parameter is `at`."""
        if (self.method, at) not in self._known:
            self._known[self.method, at] = self._accounted(run)
        value = self._known[self.method, at]
        if value < self.best:
            self.best, self.at = value, at
        return value

    def _accounted(self, run: Any) -> float:
        if self.method is not None:
            [alone] = outcomes(run, self.target.chosen_at, only=self.method)
            if alone.proposal is not None:
                return self.in_all(alone.proposal.curve)
        return self.in_all(self._best(run)[1])

    def answers(self, run: Any) -> list[Outcome]:
        """What all analyses say of a candidate."""
        if self._last is None or self._last[0] != run:
            every = outcomes(run, self.target.chosen_at)
            self._last = run, [o for o in every if o.name not in self.without]
        return self._last[1]

    def _best(self, run: Any) -> tuple[str, TradeOff]:
        """The name of the best analysis of a candidate, and what that proves."""
        best = least_of(self.answers(run), self.target.chosen_at)
        assert best.curve is not None
        return best.name, best.curve

    def in_all(self, own: TradeOff) -> float:
        """What a candidate costs together with what is spent."""
        factors = own.factors if isinstance(own, Product) else ()
        if any(isinstance(factor, RandomAllocation) for factor, _ in factors):
            self.close = _RELATIVE_COMPOSED  # to compose them takes a second, and is read to 1e-3
        if self.spent is None:
            return self.target.cost(own)
        curve = self.spent.compose(own)
        if not isinstance(unrounded(curve)[0], (Gaussian, Mixture)):
            self.close = _RELATIVE_COMPOSED
        return self.target.cost(curve)

    def best_analysis(self, run: Any, at: float) -> str:
        """The name of the best analysis of a candidate."""
        name, curve = self._best(run)
        if (name, at) not in self._known:
            self._known[name, at] = self.in_all(curve)
        return name

    def unreachable(self) -> TargetUnreachable:
        """The error that names the least cost seen."""
        name = self.target.name
        reached = (
            f"no finite {name} is known of what is proven here"
            if math.isinf(self.best)
            else f"the best reachable is {name} = {shown(self.best)}, at {self.parameter} = {plain(self.at)}"
        )
        also = "" if self.spent is None else ", besides included"
        return TargetUnreachable(
            f"{self.target} cannot be met by {self.parameter}: {reached}{also}", self.best
        )

    # Continuous parameters.

    def noise(self, description: Any) -> Any:
        """The description with the least noise; of a forgetting, in its run."""
        forgets = isinstance(description, Unlearning)
        run, name = description.run if forgets else description, self.parameter
        other = "noise_multiplier" if name == "noise_std" else "noise_std"

        def with_noise(x: float) -> Any:
            changes: dict[str, Any] = {name: _resized(getattr(run, name), x)}
            changes |= {other: None} if other in calibrated_of(run) else {}
            changed = replace(run, **changes)
            return replace(description, run=changed) if forgets else changed

        guess = 1.0
        if name == "noise_std":
            guess = run.sensitivity / (run.batch_size if isinstance(run, NoisySGD) else 1)
        return with_noise(self._boundary(with_noise, guess, rising=False))

    def scale(self, run: Any) -> Any:
        """The description with its parameter, with which ε grows, times the factor that meets the target."""
        name = self.parameter
        value = getattr(run, name)
        if callable(value):
            raise InvalidInput(name, "a function of time is not scaled: give a number or an array")
        changes: dict[str, Any] = {}
        if value is None:  # an exponential mechanism described by the other of the two
            other = {"epsilon": "inverse_temperature", "inverse_temperature": "epsilon"}[name]
            value, changes = 1.0, {other: None}
        unit = float(np.max(value))

        def scaled(x: float) -> Any:
            return replace(run, **changes, **{name: _resized(value, x)})

        most = _MOST * unit
        if name == "time" and (limit := self.cost(scaled(most), most)) <= self.most_cost:
            raise InvalidInput(
                name,
                f"any {name} meets {self.target}: it tends to {shown(limit)}; choose one",
            )
        return scaled(self._boundary(scaled, unit, rising=True))

    def clip(self, run: NoisySGD) -> NoisySGD:
        """The run with the largest clip norm, at most the loss's own gradient bound."""
        require(
            run.noise_multiplier is None,
            "noise_multiplier",
            "the noise grows with clip_norm, which then changes nothing: give noise_std",
        )
        if run.gradient_sensitivity is not None:
            raise InvalidInput("gradient_sensitivity", "it stands in for clip_norm: leave it out")
        own = run.loss.gradient_bound
        bound = math.inf if own is None else own

        def clipped(x: float) -> NoisySGD:
            return replace(run, clip_norm=x)

        if bound < math.inf and self.cost(clipped(bound), bound) <= self.most_cost:
            return clipped(bound)
        guess = bound if run.clip_norm is None else run.clip_norm
        return clipped(self._boundary(clipped, guess, rising=True, most=bound))

    def _boundary(
        self,
        build: Callable[[float], Any],
        x: float,
        rising: bool,
        most: float = math.inf,
    ) -> float:
        """The value nearest to the boundary that meets the target, sought from `x` on.

        The analysis that is best at one value is as a rule the best nearby, so that it is asked alone until
        its boundary is found. If another one is better there, the search goes on with that one.
        """

        def cost(x: float) -> float:
            return self.cost(build(x), x)

        method = self.best_analysis(build(x), x)
        if self.target.name == "mu" and math.isinf(self._known[method, x]):
            raise self.unreachable()  # some analyses have no Gaussian below them, whatever the noise
        if self.parameter in _NOISES:
            x = self._foreseen(build(x), x)
            method = self.best_analysis(build(x), x)
        for _ in range(_ANALYSES):
            self.method = method
            try:
                x = self._boundary_alone(cost, x, rising, most)
            except TargetUnreachable:
                break
            method = self.best_analysis(build(x), x)
            if method == self.method:
                return x
        self.method = None
        return self._boundary_alone(cost, x, rising, most)

    def _foreseen(self, run: Any, x: float) -> float:
        """About where the boundary is, by what is proposed of `run`, with noise `x`: with k times the noise
        every part G(μ) of it is as a rule G(μ/k)."""
        mus: tuple[float, ...]
        r = rounding_of(run)
        match unrounded(self._best(run)[1])[0]:
            case Gaussian(mu):
                mus, weights = (mu - 2.0 * r,), (1.0,)
            case Mixture(parts, weights):
                mus = tuple(part.mu for part in parts)
            case _:
                return x

        def cost(at: float) -> float:
            return self.in_all(rounded(average([mu * x / at for mu in mus], weights), r))

        try:
            return self._boundary_alone(cost, x, rising=False, most=math.inf)
        except TargetUnreachable:
            return x

    def _boundary_alone(
        self, cost: Callable[[float], float], guess: float, rising: bool, most: float
    ) -> float:
        """The value nearest to the boundary where it costs what `cost` says."""

        def parameter(log_x: float) -> float:
            # The value that was asked for is the value that is returned.
            return guess if log_x == math.log(guess) else math.exp(log_x)

        def excess(log_x: float) -> float:
            value = cost(parameter(log_x))
            gap = math.log(share(value)) - aim
            if value > self.most_cost:  # the logarithms may round to equal
                return max(gap, 0.0) + 0.5 * near
            return gap + 0.5 * near if gap < -near else 0.0

        def share(value: float) -> float:
            """About the candidate's own μ where it and what is spent cost `value` together."""
            mu = gaussian_of(self.target, value)
            return min(math.sqrt(max((mu - spent) * (mu + spent), 1e-300)), 1e300)

        spent = 0.0
        if self.spent is not None:
            spent = gaussian_of(self.target, self.target.cost(self.spent))
        aim = math.log(share(self.most_cost))
        near = 0.1 * self.close  # a cost so little below the target is at the boundary
        # At first μ is about in proportion, or inversely.
        bracket = bracketed(
            excess, math.log(guess), rising=rising, most=math.log(most), farthest=_FARTHEST
        )
        if bracket is None:
            raise self.unreachable()
        (a, fa), (b, fb) = bracket
        good, bad = (b, a) if fb <= 0.0 else (a, b)
        if fb != 0.0 and (fa > 0.0) != (fb > 0.0):
            good = next_to_root(excess, good, bad, self.close)
        return parameter(good)

    # Whole numbers.

    def length(self, run: Any) -> Any:
        """The description with the most epochs, steps or chains."""
        name = self.parameter
        sgd = isinstance(run, NoisySGD)
        _refuse_schedules(run, f"their number: {name} cannot change")

        def of(k: int) -> Any:
            changes: dict[str, Any] = {"epochs": None, "steps": None} if sgd else {}
            return replace(run, **changes | {name: k})

        least = run.cooldown_steps + 1 if sgd and name == "steps" else 1
        if sgd and name == "steps" and self.cost(of(least), least) > self.most_cost:
            # A use that has no step before it is dearer than one late in an epoch.
            least += run.steps_per_epoch - 1
        return self.most(of, least)

    def most(self, of: Callable[[int], Any], least: int) -> Any:
        """The description of the largest number that meets the target, from `least` on."""
        if self.cost(of(least), least) > self.most_cost:
            raise self.unreachable()
        low, high = least, 2 * least
        while high <= _MOST and self.cost(of(high), high) <= self.most_cost:
            low, high = high, 2 * high
        if high > _MOST:
            raise InvalidInput(
                self.parameter,
                f"any number of {self.parameter} meets {self.target}: after {low} of them it is "
                f"{shown(self.cost(of(low), low))}; choose one",
            )
        return of(self._last_good(of, low, high))

    def size(self, run: NoisySGD) -> NoisySGD:
        """The run with the size of batches nearest to the boundary."""
        if "size" not in {f.name for f in fields(run.batches)}:
            raise InvalidInput("size", f"a {run.batches.kind} run has no size to calibrate")

        def of(size: int) -> NoisySGD:
            return replace(run, batches=replace(run.batches, size=size))  # type: ignore[call-arg]

        if run.epochs is not None:
            _refuse_schedules(run, "the steps per epoch and so size")
        places = run.n - getattr(run.batches, "spare", 0)
        most = min(places, getattr(run.batches, "cap", None) or places)
        first, last = self.cost(of(1), 1), self.cost(of(most), most)
        good, bad = (most, 1) if last < first else (1, most)
        if min(first, last) > self.most_cost:
            raise self.unreachable()
        if max(first, last) <= self.most_cost:
            return of(bad)
        return of(self._last_good(of, good, bad))

    def _last_good(self, of: Callable[[int], Any], good: int, bad: int) -> int:
        """The value next to the boundary that meets the target, bisected between `good` and `bad`."""
        return bisected_whole(lambda k: self.cost(of(k), k) <= self.most_cost, bad, good)[1]

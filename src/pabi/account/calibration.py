"""Finding the value of one parameter at which a run meets a privacy target.

Each parameter moves ε monotonically, so that the boundary is bracketed and then narrowed. What is
returned has been accounted and meets the target, whatever the search did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from pabi.account.best import best_guarantee
from pabi.describe.accounted import warn_of_large_delta
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.orders import Order
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.showing import exact, plain, shown

PARAMETERS: dict[type, tuple[str, ...]] = {
    NoisySGD: ("noise_std", "noise_multiplier", "epochs", "steps", "clip_norm", "size"),
    LangevinChain: ("inverse_temperature", "steps"),
    LangevinDiffusion: ("inverse_temperature", "time"),
    ExponentialMechanism: ("inverse_temperature", "epsilon"),
    IteratedExponentialMechanism: ("epsilons",),
}
Calibrated = TypeVar(
    "Calibrated",
    NoisySGD,
    LangevinChain,
    LangevinDiffusion,
    ExponentialMechanism,
    IteratedExponentialMechanism,
)

_MOST = 10**9  # epochs or steps beyond which "any number" is the answer
_RELATIVE = 1e-10  # how closely a continuous parameter meets its boundary
_RELATIVE_SAMPLED = 1e-4  # with random batches, whose ε is composed numerically to 1e-3


def calibrate(
    run: Calibrated, epsilon: float, delta: float, parameter: str | None = None
) -> Calibrated:
    """`run` with `parameter` changed so that its guarantee at `delta` is at most `epsilon`.

    Continuous parameters meet the boundary to a relative 1e-9, with random batches to about 1e-2. Nothing
    depends on data.

    Parameters
    ----------
    run : NoisySGD, LangevinChain, LangevinDiffusion, ExponentialMechanism or IteratedExponentialMechanism
    epsilon : float > 0
        The target.
    delta : float in (0, 1)
    parameter : str, optional
        What is changed; None for the first one named here. Of noisy SGD the least "noise_std" or
        "noise_multiplier" (a schedule is scaled as a whole), the most "epochs", "steps" or "clip_norm", or
        the "size" of batches nearest to the boundary. Of a Langevin chain the most "inverse_temperature" or
        "steps". Of a diffusion the most "inverse_temperature" or "time". Of an exponential mechanism the
        most "inverse_temperature" or "epsilon". Of an iterated one its "epsilons", scaled as a whole. Units
        are those of the parameter.

    Returns
    -------
    same type as `run`
        Its guarantee has been computed and meets the target.

    Raises
    ------
    TargetUnreachable
        When no value meets the target; its `best` is the least ε seen.
    InvalidInput
        Where the parameter cannot change the guarantee, where any number of epochs or steps or any time meets
        the target, and for an argument that is out of range or of another type.

    Warns
    -----
    PrivacyWarning
        When `delta` exceeds 1/n.

    References
    ----------
    Docs, "Meet a privacy target".
    """
    if type(run) not in PARAMETERS:
        raise InvalidInput(
            "run", f"expected a pabi.NoisySGD, a sampler or a mechanism, got {type(run).__name__}"
        )
    known = PARAMETERS[type(run)]
    target = validate.number("epsilon", epsilon, above=0.0)
    validate.number("delta", delta, above=0.0, below=1.0)
    parameter = validate.choice("parameter", known[0] if parameter is None else parameter, known)
    warn_of_large_delta(run.n, delta)
    order = _order(run)
    sampled = order is not None and order.fresh
    search = _Search(parameter, target, delta, sampled=sampled)
    found: Calibrated
    if isinstance(run, NoisySGD):
        found = _of_sgd(search, run)
    elif parameter == "steps":
        found = search.length(run)
    else:
        found = search.scale(run)
    return found


def _order(description: Any) -> Order | None:
    """Which steps use a record; None for what has no batches."""
    if isinstance(description, LangevinChain):
        description = description.run
    return description.order if isinstance(description, NoisySGD) else None


def _of_sgd(search: _Search, run: NoisySGD) -> Any:
    parameter = search.parameter
    if parameter in ("noise_std", "noise_multiplier"):
        return search.noise(run)
    if run.noise_std is None and run.noise_multiplier is None:
        raise InvalidInput("noise_std", f"missing: calibrating {parameter} needs a noise")
    if parameter == "clip_norm":
        return search.clip(run)
    if parameter == "size":
        return search.size(run)
    return search.length(run)


class _Search:
    """Accounts candidates and remembers the least ε."""

    def __init__(self, parameter: str, target: float, delta: float, sampled: bool) -> None:
        self.parameter, self.target, self.delta = parameter, target, delta
        self.close = _RELATIVE_SAMPLED if sampled else _RELATIVE
        self.best, self.at = math.inf, math.nan

    def epsilon(self, run: Any, at: float) -> float:
        value = best_guarantee(run, self.delta).epsilon(self.delta)
        if value < self.best:
            self.best, self.at = value, at
        return value

    def unreachable(self) -> TargetUnreachable:
        return TargetUnreachable(
            f"epsilon = {exact(self.target)} at delta = {exact(self.delta)} cannot be met by "
            f"{self.parameter}: the best reachable is epsilon = {shown(self.best)}, "
            f"at {self.parameter} = {plain(self.at)}",
            self.best,
        )

    # Continuous parameters.

    def noise(self, run: NoisySGD) -> NoisySGD:
        name = self.parameter
        other = "noise_multiplier" if name == "noise_std" else "noise_std"
        given = getattr(run, name)
        shape = given / float(np.max(given)) if isinstance(given, np.ndarray) else None

        def with_noise(x: float) -> NoisySGD:
            changes: dict[str, Any] = {name: x if shape is None else x * shape, other: None}
            return replace(run, **changes)

        guess = 1.0 if name == "noise_multiplier" else run.sensitivity / run.batch_size
        x = self._boundary(with_noise, guess, rising=False)
        return with_noise(x)

    def scale(self, run: Any) -> Any:
        """A parameter with which ε grows, times whatever factor meets the target."""
        name = self.parameter
        given = getattr(run, name)
        if callable(given):
            raise InvalidInput(name, "a function of time is not scaled: give a number or an array")
        other = {"epsilon": "inverse_temperature", "inverse_temperature": "epsilon"}.get(name)
        changes: dict[str, Any] = {}
        if given is None:  # an exponential mechanism described by the other of the two
            given, changes = 1.0, {str(other): None}
        unit = float(np.max(given))
        shape = np.asarray(given, dtype=np.float64) / unit

        def scaled(x: float) -> Any:
            value: Any = x if shape.ndim == 0 else x * shape
            return replace(run, **changes, **{name: value})

        if name == "time" and self.epsilon(far := scaled(_MOST * unit), unit) <= self.target:
            limit = self.epsilon(far, unit)
            raise InvalidInput(
                name,
                f"any {name} meets epsilon = {exact(self.target)}: it tends to {shown(limit)}; choose one",
            )
        return scaled(self._boundary(scaled, unit, rising=True))

    def clip(self, run: NoisySGD) -> NoisySGD:
        if run.noise_multiplier is not None:
            raise InvalidInput(
                "noise_multiplier",
                "the noise grows with clip_norm, which then changes nothing: give noise_std",
            )
        if run.gradient_sensitivity is not None:
            raise InvalidInput("gradient_sensitivity", "it stands in for clip_norm: leave it out")
        bound = run.loss.gradient_bound

        def clipped(x: float) -> NoisySGD:
            return replace(run, clip_norm=x)

        if bound is not None and self.epsilon(clipped(bound), bound) <= self.target:
            return clipped(bound)
        guess = run.clip_norm if run.clip_norm is not None else bound
        assert guess is not None
        return clipped(self._boundary(clipped, guess, rising=True, most=bound))

    def _boundary(
        self,
        build: Callable[[float], Any],
        guess: float,
        rising: bool,
        most: float | None = None,
    ) -> float:
        """The value nearest to the boundary that meets the target."""

        def excess(log_x: float) -> float:
            x = math.exp(log_x)
            value = self.epsilon(build(x), x)
            gap = math.log(min(max(value, 1e-300), 1e300)) - math.log(self.target)
            # The logarithms may round to equal; the comparison itself must not.
            return max(gap, 1e-300) if value > self.target else min(gap, 0.0)

        step = math.log(4.0)
        a = math.log(guess)
        fa = excess(a)
        # Walk towards the boundary until it is behind us.
        direction = step if (fa > 0.0) != rising else -step
        while True:
            b = a + direction
            if most is not None and b >= math.log(most):
                b = math.log(most)
            if not -690.0 < b < 690.0:
                raise self.unreachable()
            fb = excess(b)
            if (fa > 0.0) != (fb > 0.0):
                break
            if most is not None and b == math.log(most):
                break
            a, fa = b, fb
        good, bad = (b, a) if fb <= 0.0 else (a, b)
        if fb != 0.0 and (fa > 0.0) != (fb > 0.0):
            from scipy.optimize import brentq

            root = brentq(excess, min(a, b), max(a, b), xtol=self.close, rtol=1e-14)
            sign = 1.0 if good > bad else -1.0
            nudge = 0.0
            while excess(root + sign * nudge) > 0.0:
                nudge = max(2.0 * nudge, self.close)
                if abs(root + sign * nudge - good) < nudge or nudge > abs(good - bad):
                    return math.exp(good)
            good = root + sign * nudge
        return math.exp(good)

    # Whole numbers.

    def length(self, run: Any) -> Any:
        name = self.parameter
        sgd = isinstance(run, NoisySGD)
        for field in ("step_size", "noise_std", "noise_multiplier"):
            if isinstance(getattr(run, field, None), np.ndarray):
                raise InvalidInput(
                    field, f"given one per step, it fixes their number: {name} cannot change"
                )

        def of(k: int) -> Any:
            changes: dict[str, Any] = {"epochs": None, "steps": None} if sgd else {}
            return replace(run, **changes | {name: k})

        least = run.cooldown_steps + 1 if sgd and name == "steps" else 1
        if self.epsilon(of(least), least) > self.target:
            raise self.unreachable()
        low, high = least, 2 * least
        while high <= _MOST and self.epsilon(of(high), high) <= self.target:
            low, high = high, 2 * high
        if high > _MOST:
            limit = self.epsilon(of(low), low)
            raise InvalidInput(
                name,
                f"any number of {name} meets epsilon = {exact(self.target)}: "
                f"after {low} of them it is {shown(limit)}; choose one",
            )
        return of(self._last_good(of, low, high))

    def size(self, run: NoisySGD) -> NoisySGD:
        if "size" not in {f.name for f in fields(run.batches)}:
            raise InvalidInput("size", f"a {run.batches.kind} run has no size to calibrate")

        def of(size: int) -> NoisySGD:
            return replace(run, batches=replace(run.batches, size=size))  # type: ignore[call-arg]

        for field in ("step_size", "noise_std", "noise_multiplier"):
            if run.epochs is not None and isinstance(getattr(run, field), np.ndarray):
                raise InvalidInput(
                    field, "given one per step, it fixes the steps per epoch and so size"
                )
        most = min(run.n, getattr(run.batches, "cap", None) or run.n)
        first, last = self.epsilon(of(1), 1), self.epsilon(of(most), most)
        good, bad = (most, 1) if last < first else (1, most)
        if min(first, last) > self.target:
            raise self.unreachable()
        if max(first, last) <= self.target:
            return of(bad)
        return of(self._last_good(of, good, bad))

    def _last_good(self, of: Callable[[int], Any], good: int, bad: int) -> int:
        """Bisection between a value that meets the target and one that does not."""
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            if self.epsilon(of(middle), middle) <= self.target:
                good = middle
            else:
                bad = middle
        return good

"""Mechanisms without steps of their own, and chains and diffusions of Langevin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from flint import arb, ctx

from pabi.account.analyses import composition, shifted_interpolation
from pabi.account.analyses.writing import DescribedProof
from pabi.account.facts.positions import growth_of
from pabi.describe.files import to_dict
from pabi.describe.langevin import (
    LangevinChain,
    LangevinDiffusion,
    by_cells,
)
from pabi.describe.mechanisms import (
    ExponentialMechanism,
    IteratedExponentialMechanism,
)
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import (
    NoisyAccuracy,
    NoisyColumnStatistics,
    NoisySecondMoments,
)
from pabi.numbers.errors import NotApplicable
from pabi.numbers.gaussian import normal_tail, upper
from pabi.numbers.rounding import fraction_down, fraction_up
from pabi.tradeoff import ApproxDP, Best, BoundedRange, Gaussian, Product, TradeOff
from pabi.tradeoff.certificate import Certificate
from pabi.verification.granting import Proposal

# Statistics of columns: a Gaussian mechanism, and for levels that are not declared a probability of
# failure.
#
# One record moves all numbers together by s, which is G(s/σ), whatever thresholds were chosen by earlier
# answers. A level that one record alone brings is shown with probability Q(z) in a column, and in some of
# d columns with probability δ₀ = 1 − (1 − Q(z))^d; apart from that it is the same Gaussian (docs,
# "Theory", 18).


COLUMNS = "column statistics"
_BITS = 400


def column_statistics(
    statistics: NoisyColumnStatistics, delta: float, position: int | None = None
) -> Proposal:
    """The guarantee of one release of noisy statistics of columns."""
    noise = Fraction(statistics.column_noise_std)
    gaussian = Gaussian(fraction_up(Fraction(statistics.sensitivity) / noise))
    curve: TradeOff = gaussian
    if statistics.threshold is not None:
        curve = Product([(gaussian, 1)], failure_of(statistics.threshold, statistics.columns))
    return DescribedProof(COLUMNS, statistics, curve)


def failure_of(threshold: float, columns: int) -> float:
    """δ₀ = 1 − (1 − Q(z))^d, rounded up: some level of d that one record alone has is shown."""
    with ctx.workprec(_BITS):
        tail = normal_tail(arb(threshold))
        return min(1.0, upper(-(columns * (-tail).log1p()).expm1()))


# The Gaussian mechanism: what one record moves by s, released with Gaussian noise of σ, is G(s/σ).
#
# The noise on second moments is the same in every direction of the space that they lie in, symmetric
# matrices with the Frobenius norm or vectors of sums of squares. One record moves them by R² at most, or
# by √2·R² if another comes in its place (docs, "Second moments"). One of n records moves an accuracy by
# 1/n.


GAUSSIAN = "Gaussian mechanism"


def of_moments(moments: NoisySecondMoments, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of one release of noisy second moments, Gaussian and exact but for roundings."""
    return _gaussian_of(moments, moments.moment_noise_std)


def of_accuracy(accuracy: NoisyAccuracy, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of one release of a noisy accuracy, Gaussian and exact but for roundings."""
    return _gaussian_of(accuracy, accuracy.accuracy_noise_std)


def _gaussian_of(release: NoisySecondMoments | NoisyAccuracy, noise_std: float) -> Proposal:
    curve = Gaussian(fraction_up(Fraction(release.sensitivity) / Fraction(noise_std)))
    return DescribedProof(GAUSSIAN, release, curve)


# The exponential mechanism: a bounded range whatever the loss, and a Gaussian bound from its curvature.
#
# Adjacent densities ∝ exp(−κL) on a set of diameter D have a log-likelihood ratio within an interval of
# length κ·(sup − inf)(L_D − L_D') ≤ κΔD: a bounded range (Dong, Durfee, Rogers 2020). As the stationary
# law of a reflected diffusion of inverse temperature κ it is Gaussian-DP as well, μ² = κD'(2Δ − mD'), D'
# = min(D, Δ/m) (docs, "Diffusions"; for dissipative losses see `pabi.account.facts.positions`). Both
# hold, so that the least δ of both does at every ε.


BOTH, RANGE, GIBBS = "bounded range and Gibbs measure", "bounded range", "Gibbs measure"
_BELOW_LIMIT_EXPONENTIAL = (
    1.0 - 1e-12
)  # of z*: the spread's slope is 0 there, so that nothing is lost
Mechanism = ExponentialMechanism | IteratedExponentialMechanism


def both(mechanism: Mechanism, delta: float, position: int | None = None) -> Proposal:
    """The better of both bounds at every ε. Raises NotApplicable for a loss of unknown curvature."""
    return _proof(mechanism, BOTH, Best((_range(mechanism), _gaussian(mechanism))))


def bounded_range(mechanism: Mechanism, delta: float, position: int | None = None) -> Proposal:
    """The guarantee from the range of the log-likelihood ratio."""
    return _proof(mechanism, RANGE, _range(mechanism))


def gibbs(mechanism: Mechanism, delta: float, position: int | None = None) -> Proposal:
    """The guarantee from the curvature. Raises NotApplicable for a loss of unknown curvature."""
    return _proof(mechanism, GIBBS, _gaussian(mechanism))


def _range(mechanism: Mechanism) -> TradeOff:
    return _curve(mechanism, lambda one: BoundedRange(one.range))


def _gaussian(mechanism: Mechanism) -> TradeOff:
    return _curve(mechanism, lambda one: Gaussian(gibbs_mu(one)))


def _curve(mechanism: Mechanism, once: Callable[[ExponentialMechanism], TradeOff]) -> TradeOff:
    """What `once` says of one mechanism; of an iterated one, of all its rounds together."""
    if isinstance(mechanism, ExponentialMechanism):
        return once(mechanism)
    rounds = range(len(mechanism.epsilons))
    return _composed(mechanism, [once(mechanism.mechanism(i)) for i in rounds])


def _composed(mechanism: IteratedExponentialMechanism, curves: list[TradeOff]) -> TradeOff:
    """The curve of all rounds. With split records a part that the record is not in is free, and the worse
    part counts.

    Both parts are max(Σ_{i<k} ε_i, ε_k)-differentially private; and both are covered by the product of the
    earlier rounds with ε_k in place of the largest where that is smaller.
    """
    *before, last = curves
    if mechanism.split is None or not before:
        return reduce(TradeOff.compose, curves)
    first = reduce(TradeOff.compose, before)
    if isinstance(first, Gaussian) and isinstance(last, Gaussian):
        return Gaussian(max(first.mu, last.mu))
    ranges = [c.epsilon_0 for c in before if isinstance(c, BoundedRange)]
    assert isinstance(last, BoundedRange)
    if last.epsilon_0 <= max(ranges):
        return first
    total = fraction_up(sum(map(Fraction, ranges), Fraction(0)))
    if len(before) == 1:
        return last
    pure = ApproxDP(max(total, last.epsilon_0), 0.0)
    largest = ranges.index(max(ranges))
    exchanged = [*before[:largest], last, *before[largest + 1 :]]
    return Best((pure, reduce(TradeOff.compose, exchanged)))


def gibbs_mu(mechanism: ExponentialMechanism) -> float:
    """√(κD'(2Δ − mD')), D' = min(D, Δ/m), about. Raises NotApplicable without a curvature."""
    lo = mechanism.least_curvature
    if lo is None:
        raise NotApplicable(f"nothing is known of the curvature of a {mechanism.loss.kind} loss")
    m = Fraction(lo)
    gap, d = Fraction(mechanism.gap), Fraction(mechanism.diameter)
    within = d if m <= 0 else min(d, gap / m)
    square = fraction_up(Fraction(mechanism.kappa) * within * (2 * gap - m * within))
    growth = growth_of(mechanism.loss, mechanism.gap)
    if growth is not None:
        spread = growth.spread(min(mechanism.diameter, growth.limit * _BELOW_LIMIT_EXPONENTIAL))
        if spread > _SMALLEST:
            square = min(square, fraction_up(2 * Fraction(mechanism.kappa) * Fraction(spread)))
    return math.sqrt(square)


def _proof(mechanism: Mechanism, name: str, curve: TradeOff) -> Proposal:
    stated: dict[str, Any] = {}
    if isinstance(mechanism, IteratedExponentialMechanism):
        stated = {"rounds": [[r.diameter, r.inverse_temperature] for r in mechanism.rounds]}
    return DescribedProof(name, mechanism, curve, stated)


# Langevin diffusions: the path, and the last point, whose privacy loss converges.
#
# The distance z of two paths that share their noise obeys z' ≤ −mβz + βΔ, m the least curvature of L and
# Δ the gap of the gradients; shifting one path towards the other at the rate a costs ∫a²/2 dt (the limit
# of noisy iterations with σ² = 2η). With e = e^(−βmR), over a window R that ends at T and begins at
# distance w the best shifts cost μ² = βm(w·e + (Δ/m)(1 − e))²/(1 − e²). From w = 0 at R = T that is
# (Δ²β/m)·tanh(βmT/2) for m > 0, while for m ≤ 0 paying at once, (Δ²/2)·β²T, is best; from w = D the best
# window gives βD(2Δ − mD), whatever the sign of m. (For dissipative losses see
# `pabi.account.facts.positions`.) Proofs: docs, "Diffusions".


PATH, LAST = "path", "last point"
_TIME = 1e-9  # relative, beyond those of the time that a path takes from one distance to another
_BELOW_LIMIT = 1.0 - 1e-6  # of z*: nearer to it the time has lost its digits
_ABOVE_LIMIT = 1.0 + 1e-12  # of z*, and of its spread: above their roundings
# Times and spreads that are smaller lose digits; larger times overflow.
_SMALLEST, _LARGEST = 1e-290, 1e300


def path(diffusion: LangevinDiffusion, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the whole path, μ² = (Δ²/2)∫β_t²dt."""
    if not diffusion.constant:
        return composition.of_iteration(by_cells(diffusion, hidden=False), 0.0)
    return _closed(diffusion, _path_square(diffusion), PATH, {})


def last_point(diffusion: LangevinDiffusion, delta: float, position: int | None = None) -> Proposal:
    """The guarantee of the point at the end."""
    if diffusion.release != "last":
        raise NotApplicable("the path is released, so nothing is forgotten")
    if diffusion.least_curvature is None:
        raise NotApplicable(f"nothing is known of the curvature of a {diffusion.loss.kind} loss")
    if not diffusion.constant:
        return shifted_interpolation.of_iteration(by_cells(diffusion, hidden=True), 0.0)
    square = _from_the_start(diffusion)
    begin: dict[str, float | None] = {"window": None}
    for key, bound in (("window", gibbs_window(diffusion)), ("distance", _dissipative(diffusion))):
        if bound is not None and bound[0] < square:
            square, begin = bound[0], {key: bound[1]}
    return _closed(diffusion, square, LAST, begin)


# Products are taken of rationals, so that none under- or overflows on the way.


def _path_square(diffusion: LangevinDiffusion) -> float:
    beta, gap = Fraction(diffusion.inverse_temperature), Fraction(diffusion.gap)
    return fraction_up(gap * gap * beta * beta * Fraction(diffusion.time) / 2)


def _from_the_start(diffusion: LangevinDiffusion) -> float:
    """μ² from equal starts: the path's, times tanh(x)/x with x = βmT/2 where m > 0."""
    m = diffusion.least_curvature
    assert m is not None
    if not m > 0.0:
        return _path_square(diffusion)
    beta, gap = Fraction(diffusion.inverse_temperature), Fraction(diffusion.gap)
    x = fraction_down(beta * Fraction(m) * Fraction(diffusion.time) / 2)
    if x > 1.0:
        return fraction_up(gap * gap * beta / Fraction(m)) * math.tanh(min(x, 20.0))
    return _path_square(diffusion) * (math.tanh(x) / x if x > 0.0 else 1.0)


def gibbs_window(diffusion: LangevinDiffusion) -> tuple[float, float] | None:
    """(βD(2Δ − mD), its window R = −ln(1 − mD/Δ)/(βm)); None without a D < Δ/m, or where R > T."""
    m, d, gap = diffusion.least_curvature, diffusion.diameter, diffusion.gap
    if d is None or m is None:
        return None
    curved, far, slope = Fraction(m), Fraction(d), Fraction(gap)
    beta = Fraction(diffusion.inverse_temperature)
    y = fraction_up(curved * far / slope)
    if not y < 1.0:
        return None
    window = fraction_up(far / (beta * slope)) * (1.0 if y == 0.0 else -math.log1p(-y) / y)
    square = fraction_up(beta * far * (2 * slope - curved * far))
    return (square, window) if window <= diffusion.time else None


def _dissipative(diffusion: LangevinDiffusion) -> tuple[float, float] | None:
    """(2β∫_0^d (Δ + g), d), d the lesser of D and what can be reached in half the time, or just above z*
    where that is next to z*; None for losses that are not dissipative, or a D that is out of reach anyway."""
    growth = growth_of(diffusion.loss, diffusion.gap)
    if growth is None:
        return None
    beta, time = diffusion.inverse_temperature, diffusion.time
    scaled, limit = min(beta * time, _LARGEST), growth.limit
    if not scaled > _SMALLEST:
        return None
    d = growth.reached(0.5 * scaled * (1.0 + _TIME))
    if diffusion.diameter is not None:
        most = limit * _BELOW_LIMIT if d is None else d
        d = diffusion.diameter if diffusion.diameter < most else d
    if d is not None and not growth.time(d) <= scaled * (1.0 - _TIME):
        return None
    spread = growth.spread(limit) * _ABOVE_LIMIT if d is None else growth.spread(d)
    if not _SMALLEST < spread < math.inf:
        return None
    # A hair more, so that of equals the window is taken, which needs fewer digits to be proven.
    square = fraction_up(2 * Fraction(beta) * Fraction(spread)) * _ABOVE_LIMIT
    return square, limit * _ABOVE_LIMIT if d is None else d


def _closed(
    diffusion: LangevinDiffusion, square: float, name: str, begin: dict[str, float | None]
) -> Proposal:
    """The proof of μ² = `square`. `begin`: the "window" that begins at distance D (None: the whole time,
    from 0), or the "distance" from which paths on a dissipative loss return."""
    mu = math.inf if math.isnan(square) else math.sqrt(square)
    return DescribedProof(name, diffusion, Gaussian(mu), begin)


# Langevin chains: every chain is a run of noisy SGD, and independent chains compose.
#
# x ← Π(x − ηβ∇L(x) + √(2η)Z) takes gradient steps of size ηβ with noise σ² = 2η. Source: Bok, Su,
# Altschuler 2024, Prop. 5.1; Dong, Roth, Su 2022, Thm 3.2 for several chains.


Analysis = Callable[[NoisySGD, float, None], Proposal]


@dataclass(frozen=True, eq=False)
class ChainProof(Proposal):
    """The proof of independent chains. `one`: that of one of them as noisy SGD."""

    subject: LangevinChain
    one: Proposal

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the chains, and the certificate of one; if there is one, what that
        claims."""
        one = Certificate.of(self.one, self.subject.adjacency).payload
        claims = ("claim",) if self.subject.chains == 1 else ()
        return {"run": to_dict(self.subject), "one": one} | {x: one[x] for x in claims if x in one}


def of_chain(
    analysis: Analysis, chain: LangevinChain, delta: float, position: int | None = None
) -> Proposal:
    """The proof of all chains together, from what `analysis` proves of one."""
    one = analysis(chain.run, delta, None)
    curve = one.curve if chain.chains == 1 else one.curve.self_compose(chain.chains)
    return ChainProof(one.theorem, chain, curve, one)

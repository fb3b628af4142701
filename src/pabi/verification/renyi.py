"""Rényi divergences of what is proven, computed anew, rounded up (docs, "Theory", 16, Lemma 22b).

Of order α and of the pair (P, Q) behind a factor it is log M/(α − 1), M = E_Q (dP/dQ)^α. The M of independent
factors multiply. Where a factor is a mixture of normal distributions, M is an integral over the line. Between
two ends it is computed in balls (`acb.integral`, whose error bounds are proven). Beyond them it is at most
that of the parts, one by one, because x^α·y^(1−α) is jointly convex and homogeneous.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flint import acb, arb, ctx, fmpq

from pabi.verification.arithmetic import above, double_above, exact, fraction_of, in_time, timed
from pabi.verification.bounds import Bounds, JointBound, read_bounds, square_below, total_of
from pabi.verification.factors import Factor
from pabi.verification.factors.closed_forms import (
    BoundedRanges,
    Gaussians,
    Laplaces,
    PureFactors,
    Rounding,
)
from pabi.verification.factors.divergences import Divergences, Selection, Selections
from pabi.verification.factors.mixtures import (
    DISPLACING,
    REPLACED,
    Sampled,
    SampledGaussians,
    whole_mu,
)

_PRECISION = 128  # bits, of integrals
_ERRORS = (arb(2) ** -40, arb(2) ** -96)  # relative: of a moment that is far from 1, and of any
_MOST_CALLS = 1_000_000  # of an integrand
_NEGLIGIBLE = 100.0  # nats: what lies beyond the ends of an integral is about e^−100
_MOST = 1e9  # an exponent beyond which nothing is integrated


def least_divergence(bounds: Bounds, order: float) -> Any:
    """A rational ρ that the divergence of this order does not exceed, by the best of several bounds.

    None where no finite one is known.
    """
    every = [rho for bound in timed(bounds) if (rho := divergence(bound, order)) is not None]
    return min(every, default=None)


def divergence(bound: JointBound, order: float) -> Any:
    """The same of one bound: the worse order of the data sets, each with all its factors.

    Of a release that is G(r) away from an exact one it is at most (1 + r)·(ρ + αr·(1 + r/2)), ρ that of the
    exact one of order α(1 + r)². For D_α(P‖Q) ≤ kα/(kα − 1)·D_β(P‖M) + D_kα(M‖Q), β = (kα − 1)/(k − 1): take
    k = 1 + r where M is exact and P is not, then k = 1 + 1/r where M is exact and Q is not.
    """
    r = exact(bound.get(Rounding).r)
    if r == 0:
        return _exactly(bound, order)
    alpha, square = exact(order), square_below(bound)
    below = None if square is None else alpha * square / 2
    own = _exactly(bound, double_above(fraction_of(alpha * (1 + r) ** 2)))
    if own is None:
        return below
    near = (1 + r) * (own + alpha * r * (1 + r / 2))
    return near if below is None else min(near, below)


def _exactly(bound: JointBound, order: float) -> Any:
    """The same of the factors, without rounding."""
    totals = []
    for turned in (False, True):
        own = (f for f in bound.factors if type(f) is not Rounding)
        total = total_of((1, _of_factor(factor, order, turned)) for factor in own)
        if total is None:
            return None
        totals.append(total)
    return max(totals)


def _of_factor(factor: Factor, order: float, turned: bool) -> Any:
    match factor:
        case Gaussians(parts=parts):
            return _of_public_mixture(parts, order)
        case SampledGaussians(entries=entries):
            used = [f for f in timed(entries) if f.times and f.probability > 0.0 and f.mu > 0.0]
            return total_of((f.times, _of_sampled(f, order, turned)) for f in used)
        case BoundedRanges(entries=entries):
            return total_of((n, _of_bounded_range(e, order)) for e, n in timed(entries))
        case PureFactors(entries=entries):
            return total_of((n, _of_pure(e, order)) for e, n in timed(entries))
        case Laplaces(entries=entries):
            return total_of((n, _of_laplace(e, order)) for e, n in timed(entries))
        case Divergences(entries=entries):
            return total_of((d.times, exact(d.rho) if order <= d.order else None) for d in entries)
        case Selections(entries=entries):
            return total_of((one.times, _of_selection(one, order)) for one in timed(entries))
        case _:  # a probability with which nothing is promised, secret places, which have one, and groups
            return None


def _of_log(log_moment: Any, order: float, most: Any = None) -> Any:
    """A rational number not below log M/(α − 1), nor above `most`; None for what is no number."""
    value = log_moment / (arb(order) - 1)
    if not value.is_finite():
        return most
    rho = max(fmpq(0), above(value))
    return rho if most is None else min(rho, most)


# Closed forms.


def _of_gaussian(mu: float, order: float) -> Any:
    """αμ²/2."""
    return None if math.isinf(mu) else exact(order) * exact(mu) * exact(mu) / 2


def _of_public_mixture(parts: Sequence[Any], order: float) -> Any:
    """M = 1 + Σ w·(M_μ − 1), the label being known; weights of small μ may be left out."""
    used = [(w, mu) for w, mu in parts if w > 0 and mu > 0.0]
    if len({mu for _, mu in used}) <= 1 and all(w >= 1 for w, _ in used):
        return _of_gaussian(max((mu for _, mu in used), default=0.0), order)
    excess = arb(0)
    for weight, mu in timed(used):
        rho = _of_gaussian(mu, order)
        if rho is None:
            return None
        excess += (
            arb(fmpq(weight.numerator, weight.denominator)) * (arb(rho) * (arb(order) - 1)).expm1()
        )
    return _of_log(excess.log1p(), order)


def _of_pure(epsilon: float, order: float) -> Any:
    """M = (e^(αε) + e^((1−α)ε))/(e^ε + 1)."""
    e, a = arb(epsilon), arb(order)
    ratio = ((1 - 2 * a) * e).exp().log1p() - (-e).exp().log1p()
    return _of_log((a - 1) * e + ratio, order, exact(epsilon))


def _of_bounded_range(epsilon: float, order: float) -> Any:
    """M = sinh((α − ½)ε)/((2α − 1)·sinh(ε/2))."""
    if epsilon == 0.0:
        return fmpq(0)
    e, a = arb(epsilon), arb(order)
    # Divided by e^((α−½)ε) and e^(ε/2), so that nothing overflows.
    ratio = ((1 - 2 * a) * e).expm1() / (-e).expm1() / (2 * a - 1)
    return _of_log((a - 1) * e + ratio.log(), order, exact(epsilon))


def _of_laplace(epsilon: float, order: float) -> Any:
    """M = (α·e^((α−1)ε) + (α − 1)·e^(−αε))/(2α − 1)."""
    e, a = arb(epsilon), arb(order)
    ratio = (a + (a - 1) * ((1 - 2 * a) * e).exp()) / (2 * a - 1)
    return _of_log((a - 1) * e + ratio.log(), order, exact(epsilon))


def _of_selection(one: Selection, order: float) -> Any:
    """That of one run, and log E[K]/(α − 1) + c."""
    own = least_divergence(read_bounds(json.loads(one.base)), order)
    if own is None:
        return None
    more = _of_log(arb(one.mean_trials).log(), order)
    return own + more + exact(one.log_ratio)


# Integrals.


class _Normals(NamedTuple):
    """A normal distribution of weight w and variance 1 in each of P and Q: around a in P, around b in Q."""

    weight: Any
    a: Any
    b: Any


def _of_sampled(factor: Sampled, order: float, turned: bool) -> Any:
    whole = _of_gaussian(whole_mu(factor), order)
    share, size = factor.probability, max(factor.mu, *factor.sizes)
    p = arb(share if isinstance(share, float) else fmpq(share.numerator, share.denominator))
    if share >= 1 or whole is None or not order * order * size * size < _MOST:
        return whole
    with ctx.workprec(_PRECISION):
        if factor.kind == DISPLACING:
            moment = _displaced(factor.turned() if turned else factor, p, order)
        else:
            mu, zero = arb(factor.mu), arb(0)
            pair = (mu, -mu if factor.kind == REPLACED else zero)
            a, b = pair[::-1] if turned else pair
            moment = _moment([_Normals(1 - p, zero, zero), _Normals(p, a, b)], order)
        return _of_log(moment.log(), order, whole)


def _displaced(factor: Sampled, p: Any, order: float) -> Any:
    """M of a record that displaces others: the losses above 0 are those of one pair, those below 0 of another
    one seen from its second law, and the rest lies at 0 (`anew.sums`)."""
    rest, moment = arb(1), arb(0)
    for size, power in zip(factor.sizes, (order, 1.0 - order), strict=True):
        a, b = arb(size), arb(size) - arb(factor.mu)
        normals = [_Normals(1 - p, arb(0), arb(0)), _Normals(p, a, b)]
        middle = (a + b) / 2
        moment += _moment(normals, power, middle)
        # What lies above the middle under P, or under Q where that is the first law.
        rest -= sum(
            (n.weight * _tail(middle - (n.a if power > 0 else n.b)) for n in normals), arb(0)
        )
    return moment + rest


def _moment(normals: Sequence[_Normals], power: float, start: Any = None) -> Any:
    """A ball of ∫ P^s·Q^(1−s) for s = `power` above 1 or below 0, from `start` on or over the whole line."""
    s = arb(power)
    centres = [s * n.a + (1 - s) * n.b for n in normals]
    sizes = [s * (s - 1) * (n.a - n.b) ** 2 / 2 for n in normals]
    ends = [_ends(c, size) for c, size in zip(centres, sizes, strict=True)]
    begin = arb(min(low for low, _ in ends)) if start is None else start
    if not begin.is_exact():
        return arb("inf")  # an integral has ends that are numbers
    end = arb(max(float(begin) + 1.0, *(high for _, high in ends)))

    def integrand(z: Any, analytic: bool) -> Any:
        in_time()
        p = sum((n.weight * (n.a * z - n.a * n.a / 2).exp() for n in normals), acb(0))
        q = sum((n.weight * (n.b * z - n.b * n.b / 2).exp() for n in normals), acb(0))
        log = s * p.log(analytic) + (1 - s) * q.log(analytic)
        return (log - z * z / 2).exp()

    whole = arb(0)
    for error in _ERRORS:
        if not whole > 2:
            whole = (
                acb.integral(integrand, begin, end, rel_tol=error, eval_limit=_MOST_CALLS).real
                / (2 * arb.pi()).sqrt()
            )
    for n, c, size in zip(normals, centres, sizes, strict=True):
        beyond = _tail(end - c) + (_tail(c - begin) if start is None else 0)
        whole += (n.weight * size.exp() * beyond).union(arb(0))
    return whole


def _ends(centre: Any, size: Any) -> tuple[float, float]:
    """Between which a part of P^s·Q^(1−s), e^size times a normal density, lies but for e^−100 or so."""
    middle, reach = float(centre.mid()), math.sqrt(2.0 * (float(size.mid()) + _NEGLIGIBLE))
    return middle - reach, middle + reach


def _tail(z: Any) -> Any:
    """A ball of P(Z > z), Z normal."""
    return (z / arb(2).sqrt()).erfc() / 2

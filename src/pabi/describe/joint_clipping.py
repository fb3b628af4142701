"""Losses of K predictors clipped together: the multiplier that brings their derivatives to a norm.

For losses of K margins the maximiser over ‖p‖ ≤ B of ⟨p, t⟩ − Σ ℓ*(p_k), at margins t, is p = −s with
s_k = −ℓ'(t_k + λs_k), where λ ≥ 0 is such that ‖s‖ = B if the derivatives at t are longer (docs, "Convex
clipping"). ‖s‖ falls as λ grows. For the softmax loss see `softmax_within`. What is returned has the norm B
then, and is off by a few units in the last place, which is proven. It depends on the record alone, whatever
others there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.exponential import OFF, exponential
from pabi.numbers.rounding import HALF_ULP, TINY, Array, added, row_norms, two_product_error

_TURNS = 1_000  # of Newton's method: about ten, and for minute norms one for every unit of a logit
_ULPS = 4.0 * np.finfo(np.float64).eps
_LEAST_GUESS = 1e-3  # of a multiplier
_OWN_TURNS, _BELOW_ONE = 8, 0.999  # the latter of a first guess
_FAR_APART = 1e100  # beyond all predictors that occur
_FAR = 1e300  # beyond all margins and multipliers that occur, so that their products end somewhere
_LEAST_LOGIT, _LEAST_BALL = -690.0, 1e-60  # of a class whose probability matters to no such ball
_NEAR = 0.1  # below 1/9
_SMALL, _LOST = 1e-3, 1e-300  # of a shift of logits; what e^−708 is off by, and what underflows
FARTHEST = 1e6  # gap of predictors up to which many digits decide where a root was not met
_DIGITS, _HALVINGS = 400, 200  # bits and turns of that


def logistic_within(margins: Array, most: Array) -> Array:
    """(m, K) derivatives of K logistic losses clipped together to the norms `most`.

    Whatever was found, `_logistic_off` says how far it is from the maximiser; where that is more than
    `logistic_off`, many digits decide.
    """
    t = np.clip(margins, -_FAR, _FAR).T
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        s, off = _logistic_off(t, most, _logits(t, most))
    farthest = np.abs(t).max(axis=0)
    unproven = ~(off <= logistic_off(len(t), farthest))
    for i in np.flatnonzero(unproven & (farthest < FARTHEST)):
        s[:, i] = _logistic_in_many_digits(t[:, i], float(most[i]))
    return _shortened(s.T, most)


def logistic_off(classes: int, farthest: Any) -> Any:
    """By how much `logistic_within` is off at most, where no margin is farther than that from 0."""
    root = 16.0 * (farthest + 64.0) + 8.0 * (classes + 64.0)
    return HALF_ULP * math.sqrt(classes) * root


def _shortened(s: Array, most: Array) -> Array:
    """−s, rows that are too long scaled to the norms `most`."""
    return np.asarray(-s * np.minimum(most / row_norms(s), 1.0)[:, None])


def _logits(t: Array, most: Array) -> tuple[Array, Array]:
    """(log s − log(1 − s), λ): Newton's method for λ, within an interval that holds it, from 0."""
    low, high = np.zeros(len(most)), np.minimum(_largest_multiplier(t, most), _FAR)
    multiplier, u, some = np.zeros(len(most)), np.empty(t.shape), np.arange(len(most))
    for _ in range(_TURNS):
        at, ball = multiplier[some], most[some]
        u[:, some] = _logit(t[:, some], at)
        here = _Lengths.at(u[:, some], ball)
        low[some] = np.where(here.excess > 0.0, at, low[some])
        high[some] = np.where(here.excess > 0.0, high[some], at)
        # For 1/‖s‖, which is nearly linear in the multiplier.
        bend, share = here.s * here.rest, here.s / here.unit
        longer = here.excess * np.square(here.unit / ball)
        fall = added(share * share * bend / (1.0 + at * bend)) * np.square(here.unit / ball)
        fall /= 1.0 + longer
        guess = at + longer / (1.0 + np.sqrt(1.0 + longer)) / np.maximum(fall, TINY)
        inside = (guess > low[some]) & (guess < high[some])
        guess = np.where(inside, guess, 0.5 * (low[some] + high[some]))
        near = np.abs(here.excess) <= np.minimum(_ULPS * (here.size + here.grain), _FAR)
        # What is NaN, of a predictor that is, stays so; and so does what is short enough as it is.
        open_ = ~near & (high[some] - low[some] > _ULPS * high[some]) & (np.abs(here.excess) >= 0.0)
        some, guess = some[open_], guess[open_]
        if not len(some):
            break
        multiplier[some] = guess
    return u, multiplier


@dataclass(frozen=True, kw_only=True)
class _Lengths:
    """What there is at logits u: s, 1 − s, and ‖s‖² − B² in units of `unit`², with all digits.

    For B > 1/2 it is Σ s² over the u ≤ 0, less Σ (1 − s)(1 + s) over the j others, less B² − j. `size`: the
    sum of the sizes of what is summed over classes; `slope`: by how much ‖s‖² grows as all u do; `grain`: by
    how much as all grow by a share of themselves; `rounded`: what `excess` is off by at most.
    """

    s: Array
    rest: Array
    unit: Array
    excess: Array
    size: Array
    slope: Array
    grain: Array
    rounded: Array

    @classmethod
    def at(cls, u: Array, most: Array) -> _Lengths:
        weight = exponential(-np.abs(u))
        more, less = 1.0 / (1.0 + weight), weight / (1.0 + weight)
        s, rest = np.where(u > 0.0, more, less), np.where(u > 0.0, less, more)
        unit, full = np.minimum(most, 1.0), (u > 0.0) & (most > 0.5)
        share = s / unit
        parts = np.where(full, -rest * (1.0 + s) / (unit * unit), share * share)
        count, slopes = full.sum(axis=0), 2.0 * share * share * rest
        lack = np.where(count == 0, np.square(most / unit), _less(most, count) / np.square(unit))
        size, k = added(np.abs(parts)), len(u)
        return cls(
            s=s,
            rest=rest,
            unit=unit,
            excess=added(parts) - lack,
            size=size,
            slope=added(slopes),
            grain=added(slopes * np.abs(u)),
            # s and 1 − s are off by 10 units, so that parts are by 23 at most.
            rounded=HALF_ULP * ((k + 45.0) * size + 8.0 * np.abs(lack)) + k * _LOST,
        )


def _less(most: Array, count: Any) -> Array:
    """B² less a whole number, to within three units in the last place, so that its sign is right."""
    square = most * most
    return np.asarray((square - count) + two_product_error(most, most, square))


def _logistic_off(t: Array, most: Array, root: tuple[Array, Array]) -> tuple[Array, Array]:
    """(s at the logits of the root, by how much they are off together at most).

    `root`: u and λ ≥ 0, of which nothing else is taken for granted.

    Moved by one c all u have the norm B and are the maximiser at margins that are off by r = u + c + λs + t,
    so that they are no farther from that at t than ‖r‖/(4 + λ/2). Without c, the square of what s is off by
    is at most what ‖s‖² is off by. Source: docs, "Theory", 9 (Lemma 59c).
    """
    (u, multiplier), classes = root, len(t)
    here = _Lengths.at(u, most)
    pull = multiplier * here.s
    ulps = HALF_ULP * (2.0 * (np.abs(u) + np.abs(t)) + 16.0 * pull) + _LOST * multiplier
    residual = row_norms((np.abs(u + t + pull) + ulps).T)
    lacking = np.abs(here.excess) + here.rounded
    # At λ = 0 what is too short is right.
    lacking = np.where((multiplier == 0.0) & (here.excess <= -here.rounded), 0.0, lacking)
    move, longest = lacking / here.slope, math.sqrt(classes)
    by_move = 0.76 * longest * np.where(move <= _SMALL, move, np.inf)
    off = np.minimum(
        residual / (4.0 + 0.5 * multiplier) + by_move,
        residual / 4.0 + here.unit * np.sqrt(lacking),
    )
    # s is off by 10 units of itself, and scaled to its norm.
    off += HALF_ULP * (classes + 24.0) * np.minimum(most, longest)
    return here.s, np.minimum(np.where(most >= _LEAST_BALL, off, np.inf), 2.001 * most)


def _logistic_in_many_digits(t: Array, most: float) -> Array:
    """s of one record: bisection for λ, and for each Newton's method for every logit.

    As s falls with λ, what ‖s‖² is off by is no less than the square of what s is off by.
    """
    from flint import arb, ctx  # seldom needed, and slow to load

    def size(margin: Any, multiplier: Any) -> Any:
        u = min(-margin, arb(0)) if margin + multiplier / 2 >= 0 else arb(0)
        for _ in range(_HALVINGS):
            s = 1 / (1 + (-u).exp())
            move = (u + multiplier * s + margin) / (1 + multiplier * s * (1 - s))
            u = (u - move).mid()
            if abs(move.mid()) < arb(2) ** (-_DIGITS // 2):
                break
        return 1 / (1 + (-u).exp())

    with ctx.workprec(_DIGITS):
        margins = [arb(one) for one in t.tolist()]
        return _halved(
            lambda multiplier: [size(one, multiplier) for one in margins],
            lambda s: sum((one * one for one in s), arb(0)),
            most,
        )


def _largest_multiplier(t: Array, most: Array) -> Array:
    """A multiplier that no record exceeds: at ‖s‖ = B some s_k is between B/√K and B."""
    least = most / np.sqrt(len(t))
    # λ = (−t − logit s)/s for that s_k.
    logit = np.log(least) - np.log1p(-np.minimum(least, 0.5))
    return np.asarray((np.max(-t, axis=0).clip(min=0.0) - logit.clip(max=0.0) + 1.0) / least)


def _logit(margins: Array, multiplier: Array) -> Array:
    """The root u of u + λσ(u) + t, which grows with u: σ(u) = 1/(1 + e^−u) is s with s = 1/(1 + e^(t + λs)).

    It is convex for u < 0 and concave for u > 0, so that Newton's method goes straight to the root from 0, or
    from −t where that is nearer: it is no less than the root.
    """
    u = np.where(margins + 0.5 * multiplier >= 0.0, np.minimum(-margins, 0.0), 0.0)
    unit = _ULPS * (1.0 + np.abs(margins))  # what is computed of a step is off by so much
    open_ = np.ones(u.shape, dtype=bool)
    for _ in range(_TURNS):
        s = 1.0 / (1.0 + np.exp(-u))
        move = (u + multiplier * s + margins) / (1.0 + multiplier * s * (1.0 - s))
        u = np.where(open_, u - move, u)
        open_ &= np.abs(move) > unit + _ULPS * np.abs(u)
        if not open_.any():
            break
    return np.asarray(np.where(multiplier == 0.0, -margins, u))


def hinge_within(margins: Array, most: Array, smoothing: float) -> Array:
    """(m, K) derivatives of K smoothed hinge losses clipped together to the norms `most`.

    s_k = min(1, d_k/g) with d = max(0, 1 − t) and g = γ + λ, so that ‖s‖² is the least, over j, of j and the
    sum of d_k²/g² for all but the j largest: g is the least number from γ on at which one of these is B² or
    less. A g that is off by a relative ε leaves s off by ε‖s‖ at most.
    """
    d = np.maximum(1.0 - margins, 0.0)
    classes = d.shape[1]
    peak = np.max(d, axis=1)[:, None]  # in units of which no square overflows
    rest = np.cumsum(np.square(np.sort(d / peak, axis=1)), axis=1)[:, ::-1]  # without the j largest
    left = _less(most[:, None], np.arange(classes))
    widths = peak * np.sqrt(rest / np.where(left > 0.0, left, 1.0))
    width = np.min(np.where(left > 0.0, widths, np.inf), axis=1)
    width = np.where(_less(most, classes) >= 0.0, 0.0, width)
    return _shortened(np.minimum(1.0, d / np.maximum(width, smoothing)[:, None]), most)


def hinge_off(classes: int) -> float:
    """By how much `hinge_within` is off at most: its sums of K squares and norms of K numbers, of B ≤ √K."""
    return HALF_ULP * math.sqrt(classes) * (classes + 32.0)


def softmax_within(z: Array, y: NDArray[np.intp], most: Array) -> Array:
    """(m, K) derivatives of the softmax loss clipped to the norms `most`, which its own exceed.

    They are p = q − e_y with log q = z − λp + const, for the λ and the constant at which Σ p = 0 and ‖p‖ = B.
    In units of B, with q_k = Bρ_k for the other classes, p_y = −Bβ, Λ = λB and t = z − z_y,

        log ρ_k + Λρ_k = t_k − ν − log B,   Λβ − log(1 − Bβ) = ν,   Σ ρ = β,   β² + Σ ρ² = 1,

    which loses no digits however small B is. β² + Σ ρ² falls as Λ grows, with the ν at which Σ ρ = β.

    Whatever was found, `_off` says how far it is from the maximiser for B ≤ 1; where that is more than
    `softmax_off`, many digits decide.
    """
    every = np.arange(len(y))
    other = np.arange(z.shape[1]) != y[:, None]
    gaps = z[other].reshape(len(y), -1) - z[every, y][:, None]
    t = np.clip(gaps, -_FAR_APART, _FAR_APART).T
    q, off = _off(t, most, _in_ball(t, most))
    farthest = np.abs(t).max(axis=0)
    for i in np.flatnonzero((off > softmax_off(z.shape[1], farthest)) & (farthest < FARTHEST)):
        q[:, i] = _in_many_digits(t[:, i], float(most[i]))
    beta = added(q)
    scale = most / np.sqrt(np.square(beta) + added(np.square(q)))
    p = np.empty(z.shape)
    p[other] = (scale * q).T.ravel()
    p[every, y] = -scale * beta
    return p


def softmax_off(classes: int, farthest: Any) -> Any:
    """By how much `softmax_within` is off at most, in units of B ≤ 1, where no predictor is farther than that
    from the one of the record's class."""
    root = 96.0 * math.sqrt(classes) * (farthest + 64.0)
    return HALF_ULP * (root + 25.0 * classes * (classes + 20.0))


def _off(t: Array, most: Array, root: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """(q of the other classes, by how much they are off together at most, in units of B).

    `root`: ρ, β and Λ, of which nothing is taken for granted. q are the probabilities at logits v near it,
    but for a relative ε. At v + λp instead of t they would be the maximiser over the ball of their own norm
    N. With r = v + λp − t, which is 0 for y, its root mean square m by q, its largest size M, and N off by a
    relative δ, they are off by 2√K·m + 3K√K·M² + (5K + 8)δ + 5ε, if K²M + √(2Kδ) ≤ 1/9. Source: docs,
    "Theory", 9 (Lemma 59b).
    """
    classes, (rho, beta, multiplier) = len(t) + 1, root
    v = np.maximum(np.log(most * rho) - np.log1p(-most * beta), _LEAST_LOGIT)
    # What the norm lacks is laid upon the residual, which counts for less.
    _, rest, longer = _at(v, most)
    multiplier = multiplier / most * (1.0 + longer)
    v = np.maximum(v - longer / rest, _LEAST_LOGIT)
    q, _, longer = _at(v, most)
    beta = added(q)
    # Any multiplier will do, so that of the least squares of the residual.
    lever = q + beta
    multiplier -= added(q * lever * (v + multiplier * lever - t)) / added(q * lever * lever)
    pull = np.maximum(multiplier, 0.0) * lever
    apart = v + pull - t
    # What q and the sum β, of K in blocks of 8, are off by is a part of it, but for what all classes share.
    ulps = HALF_ULP * (4.0 * (np.abs(v) + np.abs(t)) + (24.0 + classes / 8.0) * pull)
    # A probability next to 0 that should be less still is off by no more than itself.
    lost = (v <= _LEAST_LOGIT + 1.0) & (apart >= 0.0) & (most >= _LEAST_BALL)
    r = np.where(lost, 0.0, np.abs(apart) + ulps)
    mean = np.sqrt(added(q * r * r) / beta)
    largest = r.max(axis=0)
    of_residual = math.sqrt(classes) * (2.0 * mean + 3.0 * classes * np.square(largest))
    relative = 2.0 * OFF + (2.0 * classes + 4.0) * HALF_ULP
    longer = np.abs(longer) + relative + (classes + 8.0) * HALF_ULP
    near = classes * classes * largest + np.sqrt(2.0 * classes * longer) <= _NEAR
    # A unit of δ more, for the norm is made B once more.
    off = of_residual + (5.0 * classes + 9.0) * longer + 6.0 * relative
    return q, np.where(near, off, np.inf)


def _at(v: Array, most: Array) -> tuple[Array, Array, Array]:
    """(q, q_y, by what the norm is too long, relative) at the logits v, that of y being 0."""
    weight = exponential(v)
    rest = 1.0 / (1.0 + added(weight))
    q = weight * rest
    return q, rest, np.sqrt(np.square(added(q)) + added(np.square(q))) / most - 1.0


def _in_many_digits(t: Array, most: float) -> Array:
    """q of the other classes, one record's: bisection for λ, and for each Newton's method for the constant c.

    q_k = W(λe^(a_k + c))/λ, a = t and a_y = λ. Their sum is convex in c and falls towards 1 from where one of
    them is 1; W is Lambert's function.
    """
    from flint import arb, ctx  # seldom needed, and slow to load

    with ctx.workprec(_DIGITS):

        def at(multiplier: Any) -> list[Any]:
            logits = [*(arb(one) for one in t.tolist()), multiplier]
            c = multiplier - max(logits, key=lambda one: one.mid())
            for _ in range(_HALVINGS):
                parts = [(multiplier * (one + c).exp()).lambertw() for one in logits]
                over = sum(parts, arb(0)) / multiplier - 1
                if not abs(over.mid()) > arb(2) ** (-_DIGITS // 2):
                    break
                c = (c - over * multiplier / sum((w / (1 + w) for w in parts), arb(0))).mid()
            return [w / multiplier for w in parts[:-1]]

        return _halved(
            at, lambda q: sum(q, arb(0)) ** 2 + sum((one * one for one in q), arb(0)), most
        )


def _halved(
    at: Callable[[Any], list[Any]], square: Callable[[list[Any]], Any], most: float
) -> Array:
    """What there is at the least λ ≥ 0 at which the norm, which falls, is at most `most`."""
    from flint import arb

    def too_long(multiplier: Any) -> bool:
        return bool(square(at(multiplier)).mid() > arb(most) ** 2)

    low, high = arb(0), arb(1)
    while too_long(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = ((low + high) / 2).mid()
        low, high = (middle, high) if too_long(middle) else (low, middle)
    return np.array([float(one.mid()) for one in at(high)])


def _in_ball(t: Array, most: Array) -> tuple[Array, Array, Array]:
    """(ρ, β, Λ): Newton's method for Λ, within an interval that holds it."""
    rho, beta = np.empty(t.shape), np.empty(len(most))
    low, multiplier, high, level = _where(t, most)
    unit = _ULPS * (1.0 + np.abs(t).max(axis=0))
    some = np.arange(len(most))
    for _ in range(_TURNS):
        here = _Balance.at(multiplier[some], level[some], t=t[:, some], most=most[some])
        rho[:, some], beta[some], level[some] = here.rho, here.beta, here.level
        length, at = np.sqrt(here.square), multiplier[some]
        low[some] = np.where(length > 1.0, at, low[some])
        high[some] = np.where(length > 1.0, high[some], at)
        # For 1/length, which is nearly linear.
        guess = at + 2.0 * (length - 1.0) * here.square / np.maximum(here.fall, TINY)
        inside = (guess > low[some]) & (guess < high[some])
        guess = np.where(inside, guess, 0.5 * (low[some] + high[some]))
        # What is NaN, of a predictor that is, stays so.
        open_ = (np.abs(length - 1.0) > unit[some]) & (high[some] - low[some] > _ULPS * high[some])
        some, guess = some[open_], guess[open_]
        if not len(some):
            break
        level[some] += here.drift[open_] * (guess - at[open_])
        multiplier[some] = guess
    return rho, beta, multiplier


@dataclass(frozen=True, kw_only=True)
class _Balance:
    """What there is at Λ where Σ ρ = β: ν, ρ, β, β² + Σ ρ², by how much that falls and ν grows with Λ."""

    level: Array
    rho: Array
    beta: Array
    square: Array
    fall: Array
    drift: Array

    @classmethod
    def at(cls, multiplier: Array, level: Array, *, t: Array, most: Array) -> _Balance:
        """Newton's method for ν, from `level`.

        β − Σ ρ rises with ν and is concave, so that it goes straight to the root once it is below.
        """
        from scipy.special import wrightomega

        top, open_ = np.log(multiplier / most) + t, np.ones(len(most), dtype=bool)
        unit = _ULPS * (1.0 + np.abs(t).max(axis=0))
        for _ in range(_TURNS):
            rho = wrightomega(top - level) / multiplier
            beta, rest = _own(multiplier, level, most)
            weight, stiff = rho / (1.0 + multiplier * rho), multiplier + most / rest
            w0 = added(weight) + 1.0 / stiff
            rise = (added(rho) - beta) / w0
            open_ &= np.abs(rise) > unit + _ULPS * np.abs(level)
            if not open_.any():
                break
            level = np.where(open_, level + rise, level)
        w1 = added(weight * rho) - beta / stiff
        w2 = added(weight * rho * rho) + beta * beta / stiff
        return cls(
            level=level,
            rho=rho,
            beta=beta,
            square=np.square(beta) + added(np.square(rho)),
            fall=2.0 * (w2 - w1 * w1 / w0),
            drift=-w1 / w0,
        )


def _own(multiplier: Array, level: Array, most: Array) -> tuple[Array, Array]:
    """β with Λβ − log(1 − Bβ) = ν, and 1 − Bβ, each without loss of digits.

    By Newton's method from above, since the left side is convex; where Bβ is nearly 1 by Wright's function.
    """
    from scipy.special import wrightomega

    slope = multiplier / most
    rest = wrightomega(np.log(slope) + slope - level) / slope
    small = rest > 0.5
    beta = np.where(small, np.minimum(level / (multiplier + most), 0.5 / most), (1.0 - rest) / most)
    for _ in range(_OWN_TURNS):
        part = np.where(small, most * beta, 0.0)
        move = (multiplier * beta - np.log1p(-part) - level) / (multiplier + most / (1.0 - part))
        beta = np.where(small, beta - move, beta)
    return beta, np.where(small, 1.0 - most * beta, rest)


def _where(t: Array, most: Array) -> tuple[Array, Array, Array, Array]:
    """Λ at least, at first and at most, and ν at first: if the other classes kept their proportions."""
    peak, classes = t.max(axis=0), len(t) + 1
    share = np.exp(t - peak)
    total = added(share)
    ratio = added(np.square(share / total))
    beta = np.minimum(1.0 / np.sqrt(1.0 + ratio), _BELOW_ONE / most)
    logit = np.log(most * beta) - np.log1p(-most * beta)
    # The largest ρ is between 1/K and β, and the logarithm of its share at most t − Λ(ρ + β).
    high = classes * (np.maximum(peak, 0.0) + np.maximum(np.log(classes / most), 0.0) + 1.0)
    first = np.clip((peak + np.log(total) - logit) / (beta * (1.0 + ratio)), _LEAST_GUESS, high)
    return np.zeros(len(most)), first, high, first * beta - np.log1p(-most * beta)

"""Private selection: the best of K runs, K of a truncated negative binomial law, costs E[K]·δ(ε − c).

Here c = (η + 1)·log R, where R is any r ≥ 1 with δ(log r) ≤ (r − 1)·γ/(1 − γ) (docs, "Theory", 17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from pabi.describe.accounted import selection_sentences
from pabi.tradeoff import TradeOff
from pabi.verification.arithmetic import (
    Refused,
    above,
    closed,
    double_below,
    fraction_of,
    nonnegative,
    timed,
)
from pabi.verification.bounds import Bounds, JointBound, read_bounds, uncovered
from pabi.verification.factors.closed_forms import (
    BoundedRanges,
    Gaussians,
    Laplaces,
    PureFactors,
    Rounding,
)
from pabi.verification.factors.divergences import Selections
from pabi.verification.subjects import Trials
from pabi.verification.theorem import Finding, Payload, ProofCheck, Proven, named

_METHOD = "private selection"
_SOURCE = "docs, Theory, 17 (Theorem 23); Papernot, Steinke 2022, Definition 1"
_GREATEST_SHAPE = 1000.0


def _check(subject: Trials, payload: Payload) -> Proven:
    shape, gamma = _shape(payload["shape"]), nonnegative("gamma", payload["gamma"])
    if not 0.0 < gamma < 1.0:
        raise Refused(f"gamma: expected a number in (0, 1), got {gamma!r}")
    curve = _claimed(payload["claim"])
    base = read_bounds(curve["base"])
    _check_base(subject, base)
    mean = nonnegative("mean_trials", curve["mean_trials"])
    if not _mean(gamma, shape) <= arb(mean):
        raise Refused(f"mean_trials: the law of the certificate has a mean above {mean!r}")
    ratio = nonnegative("log_ratio", curve["log_ratio"])
    log = double_below(Fraction(ratio) / (1 + Fraction(shape)))
    most = arb(log).expm1() * arb(gamma) / (1 - arb(gamma))
    if not any(_at_most(bound, log, most) for bound in base):
        raise Refused(f"log_ratio: {ratio!r} could not be proven to be large enough")
    sentences = [a for finding in subject.findings for a in finding.assumptions]
    law = selection_sentences(shape, gamma, len(subject.trials), bool(subject.scored))
    return Proven((*sentences, *law), (JointBound.of(Selections.read(curve, 1)),))


def _claimed(claim: Any) -> Any:
    """The claimed trade-off function in JSON, of the kind that the theorem proves."""
    closed("the claim", claim, ("tradeoff",))
    curve = claim["tradeoff"]
    if curve["kind"] != "selected":
        raise Refused(f"claim: a selection proves no {curve['kind']!r}")
    return curve


def _shape(value: Any) -> float:
    """η > −1. Refused for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused(f"shape: expected a number, got {value!r}")
    if not -1.0 < value <= _GREATEST_SHAPE:
        raise Refused(f"shape: expected a number above −1, at most 1000, got {value!r}")
    return float(value)


def _mean(gamma: float, shape: float) -> Any:
    """A ball of E[K]: η(1 − γ)/(γ(1 − γ^η)), or (1 − γ)/(γ·log(1/γ)) for η = 0."""
    g, eta = arb(gamma), arb(shape)
    if shape == 0.0:
        return (1 - g) / (-g * g.log())
    return eta * (1 - g) / (-g * (eta * g.log()).expm1())


# One run.


def _check_base(subject: Trials, base: Bounds) -> None:
    """Refuse a claim of one run that reveals less than a run may, to a record that trains or scores."""
    for bounds in (_average(subject.trials), *(f.proven for f in subject.scored)):
        gap = uncovered(bounds, base)
        if gap is not None:
            raise Refused(f"base: {gap}")


def _average(trials: Sequence[Finding]) -> Bounds:
    """What a run proves that draws one of these settings, all equally likely."""
    for each in ([one.proven for one in trials], [one.claimed for one in trials]):
        if all(bounds == each[0] for bounds in each):
            return each[0]
    share, parts, square = Fraction(1, len(trials)), [], Fraction(0)
    for one in timed(trials):
        bound = one.proven[0]
        if any(type(factor) not in (Gaussians, Rounding) for factor in bound.factors):
            raise Refused("trials: only Gaussians and mixtures of them are averaged")
        parts += [(share * weight, mu) for weight, mu in bound.parts]
        square = max(square, bound.get(Rounding).square)
    return (JointBound.of(Gaussians(tuple(parts)), Rounding(square)),)


# δ of one run.


def _at_most(bound: JointBound, log: float, most: Any) -> bool:
    """Whether δ(log) of a bound is at most `most`, a ball, for sure."""
    if most >= 1:
        return True
    if (gaussians := bound.only(Gaussians)) is not None:
        parts = timed(gaussians.parts)
        terms = (arb(fmpq(w.numerator, w.denominator)) * _gaussian(mu, log) for w, mu in parts)
        return bool(sum(terms, arb(0)) <= most)
    for kind, delta in (
        (PureFactors, _pure),
        (BoundedRanges, _bounded_range),
        (Laplaces, _laplace),
    ):
        single = bound.only(kind)
        if single is not None and single.size == 1:
            return bool(delta(single.entries[0][0], log) <= most)
    at = double_below(-fraction_of(above(-most)))
    return 0.0 < at < 1.0 and TradeOff.from_dict(bound.curve()).epsilon(at) <= log


def _gaussian(mu: float, log: float) -> Any:
    """A ball of δ of G(μ) at log ≥ 0: Φ(−log/μ + μ/2) − e^log·Φ(−log/μ − μ/2)."""
    if mu == 0.0 or math.isinf(mu):
        return arb(0 if mu == 0.0 else 1)
    m, e = arb(mu), arb(log)
    root = arb(2).sqrt()
    near, far = ((e / m - m / 2) / root).erfc() / 2, ((e / m + m / 2) / root).erfc() / 2
    return near - e.exp() * far


def _pure(epsilon: float, log: float) -> Any:
    """A ball of δ of ε-DP at log ≥ 0: (e^ε − e^log)/(e^ε + 1)."""
    if log >= epsilon:
        return arb(0)
    return -(arb(log) - arb(epsilon)).expm1() / (1 + (-arb(epsilon)).exp())


def _bounded_range(epsilon: float, log: float) -> Any:
    """A ball of δ of a bounded range at log ≥ 0: (1 − e^(−(ε − log)/2))²/(1 − e^−ε)."""
    if log >= epsilon:
        return arb(0)
    return ((arb(log) - arb(epsilon)) / 2).expm1() ** 2 / -(-arb(epsilon)).expm1()


def _laplace(epsilon: float, log: float) -> Any:
    """A ball of δ of the Laplace mechanism at log ≥ 0: 1 − e^((log − ε)/2)."""
    if log >= epsilon:
        return arb(0)
    return -((arb(log) - arb(epsilon)) / 2).expm1()


THEOREMS = {
    _METHOD: {
        Trials: ProofCheck(
            ("trials", "scoring", "shape", "gamma", "claim"), _check, named(_METHOD, _SOURCE)
        )
    }
}

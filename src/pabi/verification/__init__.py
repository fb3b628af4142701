"""The independent checker: does a certificate prove what it claims?

It shares no code with the solvers. Slopes, sensitivities and noises are derived again from the embedded
description, in exact rational arithmetic. Payments are replayed in doubles where their error is proven not
to matter, and in ball arithmetic elsewhere, so that a "yes" does not depend on rounding. It is written to be
read:

- `arithmetic` takes in what a stranger sends; `certificates` checks one certificate;
- `replay` goes through payments, `roundings` through schedules, many steps at once;
- `subjects` tells what it is about, and `derivation`, `ordered_runs`, `drawn_runs`, `forgetting`, `samplers`
  what the description says of it; `schemes` is all that is known of batches, `losses` of losses;
- `theorems` holds a file for each family of theorems, `cases` replays what is paid for each case, and
  `places` tells which records these have to be about;
- `factors` holds the kinds of what bounds are made of;
- `bounds` compares what is claimed with what is proven;
- `anew` composes ε once more, for whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import ctx

from pabi.numbers.errors import InvalidInput
from pabi.numbers.showing import exact, shown
from pabi.numbers.validate import flag, integer, number
from pabi.tradeoff import Best, Product, RandomAllocation, TradeOff
from pabi.tradeoff.certificate import Certificate
from pabi.tradeoff.guarantee import FORMAT, Guarantee
from pabi.verification.arithmetic import (
    BITS,
    Limits,
    NoCertificate,
    positions,
    reason,
    received,
    short,
    within,
)
from pabi.verification.bounds import Bounds, JointBound, implied
from pabi.verification.certificates import check
from pabi.verification.factors.closed_forms import Gaussians, Part
from pabi.verification.theorem import Finding, Names, stated_since

__all__ = ["Verdict", "implied", "not_implied", "verify"]

_SIZE, _DEPTH, _UNPACKED, _POSITIONS, _SECONDS = 8 << 20, 64, 32 << 20, 200_000, 9.0
_ROUNDED = 1e-12  # relative: more than two readings of one curve differ
_FACTOR = 2_000  # positions that one more factor of a product is worth where its ε is computed


@dataclass(frozen=True)
class Verdict:
    """What the checker found of a certificate (docs, "Certificates").

    Attributes
    ----------
    ok : bool
        Whether the certificate proves what it claims.
    reason : str
        What is proven, or why the certificate is refused, in one sentence.
    mu : float or None
        The proven Gaussian parameter μ ≥ 0, which may be infinite. None for a mixture, for a product with
        sampled Gaussians, for several bounds that hold together, and for a refused certificate.
    adjacency : str or None
        "replace_one" or "zero_out"; None for a refused certificate.
    assumptions : tuple of str
        The sentences that the proof rests on.
    scope : str or None
        "run" if everything was derived again from the description, "iteration" if steps were taken as
        stated; None for a refused certificate.
    parts : tuple of (Fraction, float)
        (probability, μ) for every case of a mixture of Gaussians; one case for a single Gaussian.
    product : JointBound or None
        The claimed factors, where they are more than a mixture of Gaussians.
    bounds : tuple of JointBound
        All that is claimed and proven. Several bounds hold at the same time.
    names : tuple of Names
        Every (method, source) that a guarantee with this certificate may state.
    reading : (float, float) or None
        An (ε, δ) that is proven: the stated one of a guarantee, read from the trade-off function that is
        proven and, of a product, no less than a single factor reveals; or of an older certificate.
    unit : str or None
        "record" or "user", or groups of them, such as "groups of 5 records"; None for a refused certificate.
    """

    ok: bool
    reason: str
    mu: float | None
    adjacency: str | None
    assumptions: tuple[str, ...]
    scope: str | None
    parts: tuple[Part, ...] = ()
    product: JointBound | None = None
    bounds: Bounds = ()
    names: tuple[Names, ...] = ()
    reading: tuple[float, float] | None = None
    unit: str | None = None

    def __str__(self) -> str:
        """What was found, in one line: accepted or refused, and why."""
        return f"{'accepted' if self.ok else 'refused'}: {self.reason}"


def verify(
    certificate: Certificate | Guarantee | dict[str, Any] | str,
    *,
    size: int = _SIZE,
    depth: int = _DEPTH,
    unpacked: int = _UNPACKED,
    positions: int = _POSITIONS,
    seconds: float = _SECONDS,
    again: bool = False,
) -> Verdict:
    """Checks a certificate, or a guarantee with its certificate.

    A certificate may come from a stranger: what would take more than the limits is refused. The defaults suit
    a service: an answer comes within 10 s and 500 MB. Long runs with moduli that are not linear need more.

    Parameters
    ----------
    certificate : Certificate, Guarantee, dict or str
        The object, its dictionary, or its JSON.
    size : int
        The most characters of JSON.
    depth : int
        The deepest nesting of the JSON.
    unpacked : int
        The most bytes of all packed arrays together.
    positions : int
        The most steps, or positions of a record, that are gone through one by one.
    seconds : float
        The most processor time, in seconds. The checker refuses at its first look at the clock after that.
    again : bool
        Whether the ε that a guarantee states of sampled or secret batches is composed once more, by code
        that has nothing in common with what read it. That takes seconds, and refuses what it cannot prove,
        which may be true: of a large ε its sums have few digits.

    Returns
    -------
    Verdict
        Whether the certificate proves what it claims, and what is proven or why it is refused.

    Raises
    ------
    InvalidInput
        For what is no certificate or guarantee at all: another type, text that is not JSON, another format
        or version. Whatever else is wrong with it is a verdict. Also for limits that are no numbers.

    References
    ----------
    Bok, Su, Altschuler 2024, Thm C.3, for the payments; docs, "Certificates".
    """
    limits = Limits(
        size=integer("size", size, at_least=0),
        depth=integer("depth", depth, at_least=0),
        unpacked=integer("unpacked", unpacked, at_least=0),
        positions=integer("positions", positions, at_least=0),
        seconds=number("seconds", seconds),
    )
    flag("again", again)
    if isinstance(certificate, Guarantee) and type(certificate) is not Guarantee:
        kind = type(certificate).__name__  # whose readings may be its own
        raise InvalidInput("certificate", f"expected a pabi.Guarantee, got a {kind}")
    try:
        if isinstance(certificate, Guarantee):
            _ = certificate.certificate  # to prove takes its own time
        with within(limits):
            return _of_anything(certificate, limits, again)
    except NoCertificate as no:
        raise InvalidInput(no.field, no.expected) from None
    except Exception as bad:  # whatever a stranger wrote
        return _refusal(reason(bad))


def _of_anything(certificate: Any, limits: Limits, again: bool) -> Verdict:
    if isinstance(certificate, Guarantee):
        return _of_guarantee(certificate, again)
    if type(certificate) is Certificate:
        return verdict_on(certificate)
    data = received(certificate, limits)
    if data["format"] == FORMAT:
        return _of_guarantee(Guarantee.from_dict(data), again, data)
    return verdict_on(Certificate(data))


def verdict_on(certificate: Certificate, payload: dict[str, Any] | None = None) -> Verdict:
    """The verdict on a certificate, which keeps it; `payload`: its own, where it was read before."""
    try:
        # NaN and ∞ are refused where they are met; numpy's warnings would go to whoever asked.
        with ctx.workprec(BITS), np.errstate(all="ignore"):
            verdict = _acceptance(check(payload or certificate.payload))
    except Exception as bad:
        verdict = _refusal(reason(bad))
    certificate.accept(verdict)
    return verdict


def _of_guarantee(
    guarantee: Guarantee, again: bool, stated: dict[str, Any] | None = None
) -> Verdict:
    """The verdict on a guarantee: its certificate, and all that it or the file `stated` says."""
    proof = guarantee.certificate
    if proof is None:
        return _refusal("there is no certificate to verify")
    verdict = verdict_on(proof)
    if not verdict.ok:
        return verdict
    stated = guarantee.to_dict() if stated is None else stated
    gap = not_implied(verdict, stated)
    return _read(verdict, stated, again) if gap is None else _refusal(gap)


def _read(verdict: Verdict, guarantee: dict[str, Any], again: bool) -> Verdict:
    """The verdict with the ε at δ that an implied guarantee states; `again`: refused where the checker's own
    composition proves no ε so small."""
    epsilon, delta = guarantee.get("epsilon", "inf"), guarantee.get("delta", 0.0)
    if epsilon == "inf" or not 0.0 < delta < 1.0:
        return verdict
    epsilon = float(epsilon)
    # Of Gaussians the trade-off function has been read in closed form.
    of_gaussians = all(bound.only(Gaussians) for bound in verdict.bounds)
    if again and not of_gaussians and all(bound.composed for bound in verdict.bounds):
        own = min(bound.epsilon(delta, epsilon) for bound in verdict.bounds)
        if not own <= epsilon:
            proven = f"ε = {shown(own)}" if math.isfinite(own) else "no ε"
            return _refusal(
                f"epsilon: the checker proves {proven} at δ = {exact(delta)}, not {epsilon!r}"
            )
    before, at = verdict.reading or (math.inf, delta)
    if at == delta and before < epsilon:
        return verdict
    reading = epsilon, delta
    return replace(verdict, reading=reading, reason=_proven(reading, verdict.bounds))


def _refusal(why: str) -> Verdict:
    return Verdict(False, short(why), None, None, (), None)


def _acceptance(finding: Finding) -> Verdict:
    """The verdict on a certificate that proves what it claims."""
    one, *others = finding.claimed
    alone = one.composed and not others
    gaussians = one.only(Gaussians) if alone and finding.reading is None else None
    return Verdict(
        ok=True,
        reason=_proven(finding.reading, finding.claimed),
        mu=None if gaussians is None else gaussians.mu,
        adjacency=finding.adjacency,
        assumptions=finding.assumptions,
        scope=finding.scope,
        parts=() if gaussians is None else gaussians.parts,
        product=one if alone and gaussians is None else None,
        bounds=finding.claimed,
        names=finding.names,
        reading=finding.reading,
        unit=finding.unit,
    )


def _proven(reading: tuple[float, float] | None, bounds: Bounds) -> str:
    """What an accepted certificate proves, in one sentence."""
    what = " and ".join(bound.text for bound in bounds)
    if reading is None:
        return f"proven: {what}"
    return f"proven: ε = {shown(reading[0])} at δ = {exact(reading[1])} ({what})"


def not_implied(verdict: Verdict, guarantee: dict[str, Any]) -> str | None:
    """None if an accepted certificate implies all that a guarantee (as a dictionary) states but for its
    notes, or the reason why not."""
    gap = implied(verdict.bounds, verdict.adjacency, verdict.assumptions, guarantee)
    if gap is not None:
        return gap
    stated = guarantee.get("unit", "record")
    if stated != verdict.unit:
        return f"unit: the certificate is about {verdict.unit!r}, not {stated!r}"
    method, source = guarantee["method"], guarantee["source"]
    if not {Names(method, source), Names(method, stated_since(source))} & {*verdict.names}:
        names = " or ".join(f"{method!r} ({source})" for method, source in verdict.names[:2])
        return f"method: the certificate proves {names}, not {method!r}, {source!r}"
    return _misread(guarantee) if "epsilon" in guarantee else None


def _misread(guarantee: dict[str, Any]) -> str | None:
    """Why the (ε, δ) that a guarantee states does not follow from its trade-off function; None if it does."""
    epsilon, delta = float(guarantee["epsilon"]), guarantee["delta"]  # which may be "inf"
    if delta >= 1.0 or math.isinf(epsilon):
        return None
    _check_factors(guarantee["tradeoff"])
    curve = TradeOff.from_dict(guarantee["tradeoff"])
    if epsilon < (alone := _least(curve, delta) * (1.0 - _ROUNDED)):
        return f"epsilon: a single factor reveals {alone!r} at δ = {delta!r}, more than {epsilon!r}"
    # A reading of either kind, ε at δ or δ at ε, is the same number as before.
    if curve.epsilon(delta) <= epsilon or curve.delta(epsilon) <= delta:
        return None
    proven = curve.epsilon(delta)
    return f"epsilon: the trade-off function proves {proven!r} at δ = {delta!r}, not {epsilon!r}"


def _least(curve: TradeOff, delta: float) -> float:
    """What a curve reveals at `delta` at least, without composing anything: as much as each factor alone."""
    if isinstance(curve, Best):
        return min(_least(part, delta) for part in curve.parts)
    factors = [factor for factor, _ in curve.factors] if isinstance(curve, Product) else []
    # Of a secret place nothing is known from below; its ε, from above, would take seconds.
    others = (factor for factor in factors if not isinstance(factor, RandomAllocation))
    return max((factor.epsilon_bounds(delta)[0] for factor in others), default=0.0)


def _check_factors(curve: dict[str, Any]) -> None:
    """Refuse products of more different factors than are composed within the limits."""
    for part in _every_part(curve):
        factors = [f for f in part.get("factors", ()) if f["kind"] != "gaussian"]
        positions(f"{len(factors)} factors, which count as steps", _FACTOR * len(factors))


def _every_part(curve: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A trade-off function in JSON, and all that it is made of."""
    yield curve
    inner = (*curve.get("parts", ()), *curve.get("factors", ()), curve.get("base"))
    for part in inner:
        if isinstance(part, dict):
            yield from _every_part(part)

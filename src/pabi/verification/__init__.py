"""The independent checker: does a certificate prove what it claims?

It shares no code with the solvers. Slopes, sensitivities and noises are derived again from the embedded
description, in exact rational arithmetic (`derivation`), and payments are replayed in ball arithmetic
(`arithmetic`), so that a "yes" does not depend on floating-point rounding. It is written to be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import ctx

from pabi.certificate import FORMAT, VERSIONS, Certificate, check_format
from pabi.encoding import nesting, parse_json
from pabi.errors import InvalidInput
from pabi.guarantee import FORMAT as GUARANTEE
from pabi.guarantee import INDEPENDENT, Guarantee
from pabi.guarantee import VERSIONS as GUARANTEE_VERSIONS
from pabi.tradeoff import TradeOff
from pabi.verification.arithmetic import BITS
from pabi.verification.claims import (
    Bounds,
    Factors,
    Part,
    all_together,
    check_claim,
    check_reading,
    implied,
)
from pabi.verification.limits import Limits, positions, within
from pabi.verification.names import Names, names_of
from pabi.verification.reading import HEADER, closed, sentences
from pabi.verification.refusal import Refused

__all__ = ["Verdict", "not_implied", "verify"]

_SIZE, _DEPTH, _UNPACKED, _POSITIONS, _SECONDS = 8 << 20, 64, 32 << 20, 200_000, 9.0
# Characters of JSON for every object or array: read, each takes a hundred bytes or two.
_SPARSE = 16
_SENTENCE = 1000  # characters of a reason
_FACTOR = 2_000  # positions that one more factor of a product is worth where its ε is computed


@dataclass(frozen=True)
class Verdict:
    """What the checker found.

    `ok`, and the `reason` in one sentence. `mu`: the proven Gaussian parameter, None for a mixture,
    whose `parts` are (probability, μ), for a `product` with sampled Gaussians, and for several `bounds`
    that hold together. `scope`: "run" when everything was derived again from the description, "iteration"
    when the steps were taken as stated. `assumptions`: what it rests on. `bounds`: all that is proven.
    `names`: the (method, source) that a guarantee may state. Source: docs, "Certificates".
    """

    ok: bool
    reason: str
    mu: float | None
    adjacency: str | None
    assumptions: tuple[str, ...]
    scope: str | None
    parts: tuple[Part, ...] = ()
    product: Factors | None = None
    bounds: Bounds = ()
    names: tuple[tuple[str, str], ...] = ()


def verify(
    certificate: Certificate | Guarantee | dict[str, Any] | str,
    *,
    size: int = _SIZE,
    depth: int = _DEPTH,
    unpacked: int = _UNPACKED,
    positions: int = _POSITIONS,
    seconds: float = _SECONDS,
) -> Verdict:
    """The verdict on a certificate or on a guarantee with its certificate (objects, dicts or JSON).

    A certificate may come from a stranger: what would take more than the limits is refused. `size`:
    characters of JSON; `depth`: of its nesting; `unpacked`: bytes of all packed arrays; `positions`: steps or
    positions of a record that are gone through one by one; `seconds`: of processor time, after which it is
    refused at the next look at the clock. Long runs with varying schedules need more than the defaults,
    which suit a service: an answer comes within 10 s and 500 MB.

    Raises InvalidInput for what is no certificate or guarantee at all: another type, text that is not JSON,
    another format or version. Whatever else is wrong is a verdict. Source: docs, "Certificates"; Bok, Su,
    Altschuler 2024, Thm C.3.
    """
    limits = Limits(size, depth, unpacked, positions, seconds)
    try:
        if isinstance(certificate, Guarantee):
            _ = certificate.certificate  # to prove takes its own time
        with within(limits):
            return _of_anything(certificate, limits)
    except _NoCertificate as no:
        raise InvalidInput(no.field, no.expected) from None
    except Exception as bad:  # whatever a stranger wrote
        return _no(_reason(bad))


def _of_anything(certificate: Any, limits: Limits) -> Verdict:
    if isinstance(certificate, Guarantee):
        return _of_guarantee(certificate)
    if isinstance(certificate, Certificate):
        return _of_certificate(certificate)
    data = _received(certificate, limits)
    if data["format"] == GUARANTEE:
        return _of_guarantee(Guarantee.from_dict(data), data)
    return _of_certificate(Certificate(data))


class _NoCertificate(Exception):
    """What is no certificate at all."""

    def __init__(self, bad: InvalidInput) -> None:
        self.field, self.expected = bad.field, _short(str(bad).removeprefix(f"{bad.field}: "))


def _reason(bad: Exception) -> str:
    """Why there is no proof, in one sentence."""
    if isinstance(bad, Refused):
        return str(bad)
    if isinstance(bad, KeyError):
        return f"malformed certificate: {bad.args[0] if bad.args else ''} is missing"
    if isinstance(bad, RecursionError):
        return "malformed certificate: nested too deeply"
    if isinstance(bad, MemoryError):
        return "memory: there is not enough to go through it"
    return f"malformed certificate: {bad}"


def _received(certificate: Any, limits: Limits) -> dict[str, Any]:
    """A certificate or guarantee as an object of a format and version that are known."""
    text = certificate
    if not isinstance(certificate, str):
        if not isinstance(certificate, dict):
            kind = type(certificate).__name__
            raise _NoCertificate(InvalidInput("json", f"expected an object, got {kind}"))
        _check_object(certificate, limits)
        text = Certificate(certificate).to_json()
    if len(text) > limits.size:
        raise Refused(f"size: {len(text)} characters are more than are read (size: {limits.size})")
    # What does not begin as an object is none, however deep.
    if text.lstrip().startswith("{"):
        _check_nesting(*nesting(text, limits.depth, limits.size // _SPARSE), limits)
    try:
        data = parse_json(text)
        guarantee = isinstance(data, dict) and data.get("format") == GUARANTEE
        form = (GUARANTEE, GUARANTEE_VERSIONS) if guarantee else (FORMAT, VERSIONS)
        return check_format(data, *form)
    except InvalidInput as bad:
        raise _NoCertificate(bad) from None


def _check_object(value: Any, limits: Limits) -> None:
    """Refuse an object that is too large or deep, or that holds itself, before it is walked through."""
    level, opened, left = [value], 0, limits.size
    for depth in range(1, limits.depth + 2):
        opened += len(level)
        _check_nesting(depth, opened, limits)
        inner: list[Any] = []
        for x in level:
            # The same text or list may be there many times.
            own = [*x, *x.values()] if isinstance(x, dict) else x
            left -= 1 + len(x) + sum(len(y) for y in own if isinstance(y, str))
            if left < 0:
                raise Refused(f"size: larger than what is read (size: {limits.size})")
            inner.extend(y for y in own if isinstance(y, (dict, list, tuple)))
        level = inner
        if not level:
            return


def _check_nesting(depth: int, opened: int, limits: Limits) -> None:
    if depth > limits.depth:
        raise Refused(f"depth: nested more than {limits.depth} deep (depth)")
    if opened > limits.size // _SPARSE:
        raise Refused(
            f"size: {opened} objects and arrays are more than are read (size: {limits.size})"
        )


def _of_certificate(certificate: Certificate) -> Verdict:
    try:
        # NaN and ∞ are refused where they are met; numpy's warnings would go to whoever asked.
        with ctx.workprec(BITS), np.errstate(all="ignore"):
            payload = certificate.payload
            verdict = replace(_yes(_checked(payload)), names=names_of(payload))
    except Exception as bad:
        verdict = _no(_reason(bad))
    certificate.accept(verdict)
    return verdict


def _of_guarantee(guarantee: Guarantee, stated: dict[str, Any] | None = None) -> Verdict:
    """The verdict on its certificate, and on all that it states; `stated`: the file that it is from."""
    proof = guarantee.certificate
    if proof is None:
        return _no("there is no certificate to verify")
    verdict = _of_certificate(proof)
    if not verdict.ok:
        return verdict
    gap = not_implied(verdict, guarantee.to_dict() if stated is None else stated)
    return verdict if gap is None else _no(gap)


def _no(reason: str) -> Verdict:
    return Verdict(False, _short(reason), None, None, (), None)


def _short(reason: str) -> str:
    """`reason`, however much it quotes."""
    return reason if len(reason) <= _SENTENCE else reason[: _SENTENCE - 1] + "…"


def not_implied(verdict: Verdict, guarantee: dict[str, Any]) -> str | None:
    """None if an accepted certificate implies all that a guarantee (as a dictionary) states but for its
    notes, or the reason why not."""
    gap = implied(verdict.bounds, verdict.adjacency, verdict.assumptions, guarantee)
    if gap is not None:
        return gap
    if Names(guarantee["method"], guarantee["source"]) not in verdict.names:
        known = " or ".join(f"{method!r} ({source})" for method, source in verdict.names[:2])
        return f"method: the certificate proves {known}, not {guarantee['method']!r}, {guarantee['source']!r}"
    return _misread(guarantee) if "epsilon" in guarantee else None


def _misread(guarantee: dict[str, Any]) -> str | None:
    """Why the (ε, δ) that a guarantee states does not follow from its trade-off function; None if it does."""
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    epsilon = math.inf if epsilon == "inf" else float(epsilon)
    if delta >= 1.0 or math.isinf(epsilon):
        return None
    _check_factors(guarantee["tradeoff"])
    curve = TradeOff.from_dict(guarantee["tradeoff"])
    # A reading of either kind, ε at δ or δ at ε, is the same number as before.
    if curve.epsilon(delta) <= epsilon or curve.delta(epsilon) <= delta:
        return None
    proven = curve.epsilon(delta)
    return f"epsilon: the trade-off function proves {proven!r} at δ = {delta!r}, not {epsilon!r}"


def _check_factors(curve: dict[str, Any]) -> None:
    """Refuse products of more different factors than are composed within the limits."""
    for part in (curve, *curve.get("parts", ())):
        factors = [f for f in part.get("factors", ()) if f["kind"] != "gaussian"]
        positions(f"{len(factors)} factors, which count as steps", _FACTOR * len(factors))


class _Finding(NamedTuple):
    """What a certificate claims, what was proven, and (ε, δ) where one of sampled factors says so."""

    adjacency: str
    assumptions: tuple[str, ...]
    scope: str
    claimed: Bounds
    proven: Bounds
    reading: tuple[float, float] | None = None


def _checked(payload: dict[str, Any]) -> _Finding:
    check_format(payload, FORMAT, VERSIONS)
    if payload["version"] == 1 and "assumes" in payload:
        raise Refused("assumes: unknown key in a certificate of version 1")
    assumed = sentences("assumes", payload["assumes"]) if payload["version"] > 1 else ()
    found = _composed(payload) if payload["theorem"] == "composed" else _alone(payload)
    if payload["adjacency"] != found.adjacency:
        raise Refused(f"adjacency: expected {found.adjacency!r}, got {payload['adjacency']!r}")
    return found._replace(assumptions=tuple(dict.fromkeys((*found.assumptions, *assumed))))


def _alone(payload: dict[str, Any]) -> _Finding:
    if payload["run"] is None:
        from pabi.verification.iterations import check_iteration

        adjacency, assumptions, bound = check_iteration(payload)
        proven: Bounds = (bound,)
        scope = "iteration"
    else:
        from pabi.verification.runs import check_run

        adjacency, assumptions, proven = check_run(payload, _part)
        scope = "run"
    claimed = check_claim(payload["claim"], proven)
    reading = None
    if "product" in payload["claim"]:
        reading = check_reading(payload["reading"], claimed[0])
    elif "reading" in payload:
        raise Refused("reading: only of a product")
    return _Finding(adjacency, assumptions, scope, claimed, proven, reading)


def _part(payload: dict[str, Any]) -> tuple[str, tuple[str, ...], Bounds]:
    """(adjacency, assumptions, what is proven) of a certificate that is part of another."""
    found = _checked(payload)
    return found.adjacency, found.assumptions, found.proven


def _yes(found: _Finding) -> Verdict:
    adjacency, assumptions, scope, claimed, _, reading = found
    one, *others = claimed
    if others or one.ranges or one.pure:
        what = " and ".join(map(_told, claimed))
        return Verdict(True, f"proven: {what}", None, adjacency, assumptions, scope, bounds=claimed)
    if one.sampled or one.failure or reading:
        what = f"product of {one.size} factors"
        if reading is not None:
            what = f"ε = {reading[0]!r} at δ = {reading[1]!r} ({what})"
        return Verdict(
            True, f"proven: {what}", None, adjacency, assumptions, scope, (), one, claimed
        )
    values = {value for _, value in one.parts}
    mu = values.pop() if len(values) == 1 else None
    return Verdict(
        True,
        f"proven: {_told(one)}",
        mu,
        adjacency,
        assumptions,
        scope,
        one.parts,
        None,
        claimed,
    )


def _told(bound: Factors) -> str:
    """One bound in words."""
    if bound.sampled or ((bound.ranges or bound.pure) and bound.size > 1):
        return f"product of {bound.size} factors"
    if bound.ranges:
        return f"a bounded range of {bound.ranges[0][0]!r}"
    if bound.pure:
        return f"ε = {bound.pure[0][0]!r} at δ = 0"
    values = {value for _, value in bound.parts}
    return (
        f"μ = {values.pop()!r}"
        if len(values) == 1
        else f"a mixture of {len(bound.parts)} positions"
    )


def _composed(payload: dict[str, Any]) -> _Finding:
    payloads, adjacency = payload["parts"], payload["adjacency"]
    closed("the certificate", payload, (*HEADER, "parts"))
    positions("parts", len(payloads))
    total: Bounds = (Factors(((Fraction(1), 0.0),)),)
    said: list[str] = []
    scopes = set()
    for i, part in enumerate(payloads):
        try:
            found = _checked(part)
        except Refused as refusal:
            raise Refused(f"part {i + 1}: {refusal}") from None
        if found.adjacency != adjacency:
            raise Refused(
                f"part {i + 1}: expected adjacency {adjacency!r}, got {found.adjacency!r}"
            )
        sampled = any(bound.sampled for bound in found.claimed)
        total = all_together(total, found.claimed if sampled else found.proven)
        said.extend(found.assumptions)
        scopes.add(found.scope)
    if not payloads:
        raise Refused("nothing is composed")
    scope = "run" if scopes == {"run"} else "iteration"
    said.append(INDEPENDENT)
    return _Finding(adjacency, tuple(dict.fromkeys(said)), scope, total, total)

"""The independent checker: does a certificate prove what it claims?

It shares no code with the solvers. Slopes, sensitivities and noises are derived again from the embedded
description, in exact rational arithmetic (`derivation`), and payments are replayed in ball arithmetic
(`arithmetic`), so that a "yes" does not depend on floating-point rounding. It is written to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from flint import ctx

from pabi.certificate import FORMAT, VERSION, Certificate, check_format, parse_json
from pabi.errors import InvalidInput
from pabi.guarantee import FORMAT as GUARANTEE
from pabi.guarantee import INDEPENDENT, Guarantee
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
from pabi.verification.refusal import Refused

__all__ = ["Verdict", "implied", "verify"]


@dataclass(frozen=True)
class Verdict:
    """What the checker found.

    `ok`, and the `reason` in one sentence. `mu`: the proven Gaussian parameter, None for a mixture,
    whose `parts` are (probability, μ), for a `product` with sampled Gaussians, and for several `bounds`
    that hold together. `scope`: "run" when everything was derived again from the description, "iteration"
    when the steps were taken as stated. `assumptions`: what it rests on. `bounds`: all that is proven.
    Source: docs, "Certificates".
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


def verify(certificate: Certificate | Guarantee | dict[str, Any] | str) -> Verdict:
    """The verdict on a certificate or on a guarantee with its certificate (objects, dicts or JSON).

    Raises InvalidInput for text that is not JSON, of another format or version, or a guarantee that
    cannot be read. Source: docs, "Certificates"; Bok, Su, Altschuler 2024, Thm C.3.
    """
    if isinstance(certificate, Guarantee):
        proof = certificate.certificate
        if proof is None:
            return _no("there is no certificate to verify")
        verdict = verify(proof)
        return _with_claims(verdict, certificate.to_dict())
    if isinstance(certificate, str):
        certificate = parse_json(certificate)
    if isinstance(certificate, dict) and certificate.get("format") == GUARANTEE:
        guarantee = Guarantee.from_dict(certificate)
        return verify(guarantee)
    if not isinstance(certificate, Certificate):
        certificate = Certificate(check_format(certificate, FORMAT, VERSION))
    certificate.verdict = _verify(certificate.payload)
    return certificate.verdict


def _with_claims(verdict: Verdict, guarantee: dict[str, Any]) -> Verdict:
    if not verdict.ok:
        return verdict
    gap = implied(verdict.bounds, verdict.adjacency, verdict.assumptions, guarantee)
    return verdict if gap is None else _no(gap)


def _no(reason: str) -> Verdict:
    return Verdict(False, reason, None, None, (), None)


def _verify(payload: dict[str, Any]) -> Verdict:
    try:
        with ctx.workprec(BITS):
            return _yes(_checked(payload))
    except Refused as refusal:
        return _no(str(refusal))
    except InvalidInput as bad:
        return _no(f"malformed certificate: {bad}")
    except KeyError as bad:
        return _no(f"malformed certificate: {bad.args[0]} is missing")
    except (TypeError, ValueError, IndexError, ArithmeticError, AttributeError) as bad:
        return _no(f"malformed certificate: {bad}")
    except RecursionError:
        return _no("malformed certificate: nested too deeply")


class _Finding(NamedTuple):
    """What a certificate claims, what was proven, and (ε, δ) where one of sampled factors says so."""

    adjacency: str
    assumptions: tuple[str, ...]
    scope: str
    claimed: Bounds
    proven: Bounds
    reading: tuple[float, float] | None = None


def _checked(payload: dict[str, Any]) -> _Finding:
    if payload["theorem"] == "composed":
        return _composed(payload["parts"], payload["adjacency"])
    if payload["run"] is None:
        from pabi.verification.iterations import check_iteration

        adjacency, assumptions, bound = check_iteration(payload)
        proven: Bounds = (bound,)
        scope = "iteration"
    else:
        from pabi.verification.runs import check_run

        adjacency, assumptions, proven = check_run(payload)
        scope = "run"
    if payload["adjacency"] != adjacency:
        raise Refused(f"adjacency: expected {adjacency!r}, got {payload['adjacency']!r}")
    claimed = check_claim(payload["claim"], proven)
    reading = None
    if "product" in payload["claim"]:
        reading = check_reading(payload["reading"], claimed[0])
    return _Finding(adjacency, assumptions, scope, claimed, proven, reading)


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


def _composed(payloads: list[dict[str, Any]], adjacency: str) -> _Finding:
    total: Bounds = (Factors(((Fraction(1), 0.0),)),)
    said: list[str] = []
    scopes = set()
    for i, payload in enumerate(payloads):
        try:
            found = _checked(check_format(payload, FORMAT, VERSION))
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

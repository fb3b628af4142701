"""Checking one certificate: what it is about, what its theorem proves of that, and what it claims."""

from __future__ import annotations

from typing import Any

from pabi.tradeoff.certificate import FORMAT, VERSIONS, check_format
from pabi.verification.arithmetic import HEADER, Refused, closed, sentences
from pabi.verification.bounds import check_claim
from pabi.verification.theorem import Finding, Payload, ProofCheck, Theorem
from pabi.verification.theorems import keys_of, table


def check(payload: Payload) -> Finding:
    """What a certificate proves and claims. Refused if it proves less than it claims, or says more."""
    # Reads descriptions, and takes longer to load than all that this module imports.
    from pabi.verification.subjects import subject_of

    check_format(payload, FORMAT, VERSIONS)
    assumed = _assumed(payload)
    theorem = _theorem(payload["theorem"])
    subject = subject_of(payload, check)
    proof: ProofCheck | None = theorem.get(type(subject))
    if proof is None:
        closed("the certificate", payload, (*HEADER, *keys_of(type(subject)), *subject.keys))
        raise Refused(f"theorem: the checker knows no {payload['theorem']!r} {subject.CALLED}")
    closed("the certificate", payload, (*HEADER, *proof.keys, *subject.keys))
    result = proof.check(subject, payload)
    assumptions, proven = result.assumptions, subject.computed(result)
    claimed, reading = proven, None
    if "claim" in proof.keys:
        claimed = check_claim(payload, proven)
        if "product" in payload["claim"]:
            from pabi.verification.anew import check_reading  # of older files

            reading = check_reading(payload["reading"], claimed[0])
        elif "reading" in payload:
            raise Refused("reading: only of a product")
    if payload["adjacency"] != subject.adjacency:
        raise Refused(f"adjacency: expected {subject.adjacency!r}, got {payload['adjacency']!r}")
    if payload.get("unit", "record") != subject.unit:
        raise Refused(f"unit: expected {subject.unit!r}, got {payload.get('unit', 'record')!r}")
    return Finding(
        adjacency=subject.adjacency,
        unit=subject.unit,
        nulls=subject.nulls,
        compared=subject.compared,
        assumptions=tuple(dict.fromkeys((*assumptions, *assumed))),
        scope=subject.scope,
        claimed=claimed,
        proven=proven,
        names=proof.names(subject),
        reading=reading,
    )


def _assumed(payload: Payload) -> tuple[str, ...]:
    """What the release assumes beside its description."""
    if payload["version"] > 1:
        return sentences("assumes", payload["assumes"])
    if "assumes" in payload:
        raise Refused("assumes: unknown key in a certificate of version 1")
    return ()


def _theorem(name: Any) -> Theorem:
    if not isinstance(name, str) or name not in table():
        raise Refused(f"theorem: the checker knows no {name!r}")
    return table()[name]

"""A mechanism that somebody states by its trade-off function.

Nothing is derived. The sentence among the assumptions says that the function is taken as it is stated; what
is checked is that a guarantee says no more than that.
"""

from __future__ import annotations

from pabi.guarantees.stated import stated_sentence
from pabi.verification.claims import read_bounds
from pabi.verification.subjects import StatedMechanism
from pabi.verification.theorem import Names, Payload, ProofCheck, Proven


def _check(subject: StatedMechanism, payload: Payload) -> Proven:
    bounds = read_bounds(payload["claim"]["tradeoff"])
    return Proven((stated_sentence(subject.method, subject.source),), bounds)


def _names(subject: StatedMechanism) -> tuple[Names, ...]:
    return (Names(subject.method, subject.source),)


THEOREMS = {
    "stated mechanism": {StatedMechanism: ProofCheck(("mechanism", "claim"), _check, _names)}
}

"""The kernel: what makes a guarantee of a description.

Search (`pabi.account`) proposes the name of a theorem, and the numbers that are to prove something by it.
Nothing of that is believed. The kernel sees that the certificate is about the description that was asked for,
lets the checker prove it, and takes from the checker what was found, how the proof is called and what it
assumes. So a mistake in search is a refusal or a larger ε, and never a number that is too small.

What has to be right for a number to be right is this room and those that it imports, of which search is none:

- `describe` and `numbers`: what a description says, as JSON, and its assumptions in sentences;
- `verification`: what follows from it for one record, and what a theorem proves of that;
- `tradeoff`: what is read from the trade-off function that was proven.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pabi.describe.files import Description, to_dict
from pabi.describe.iteration import Groups, NoisyIteration
from pabi.describe.langevin import LangevinDiffusion, by_cells, diffusion_sentences
from pabi.describe.moduli import table_of
from pabi.numbers.encoding import read_floats
from pabi.numbers.locking import OutOfTime, in_time
from pabi.tradeoff import TradeOff
from pabi.tradeoff.certificate import Certificate
from pabi.tradeoff.guarantee import Guarantee, reading
from pabi.verification import not_implied, verdict_on
from pabi.verification.arithmetic import Refused, groups, reason
from pabi.verification.bounds import claimed_curve

COMPOSITION = "composition"  # the only theorem about bare iterations for which slopes do not matter


@dataclass(frozen=True, eq=False)
class Proposal(ABC):
    """What search proposes of `subject`, by `theorem`. `curve`: about what it hopes to prove."""

    theorem: str
    subject: Any
    curve: TradeOff

    def epsilon(self, delta: float) -> float:
        """About the ε at `delta` that is hoped for."""
        return reading(self.curve, delta)

    @abstractmethod
    def written(self) -> dict[str, Any]:
        """The body of a certificate, as JSON can hold it: the subject and what proves it. Where it claims
        nothing, what is found is claimed."""


def grant(description: Description, proposal: Proposal, position: int | None = None) -> Guarantee:
    """The guarantee of a description that a proposal proves; of the records in batch `position` only, where
    there is one.

    Raises Refused where the checker does not accept it, or where it is about something else. There is no
    limit on what it may take but the time that the caller has.
    """
    theorem = proposal.theorem
    if type(theorem) is not str:  # whose equality is its own
        raise Refused("theorem: expected a name")
    stated, besides = _spoken_of(description, theorem)
    # As it is now, whatever search does while it writes.
    table = None if isinstance(stated, NoisyIteration) else json.dumps(to_dict(stated))
    try:
        certificate = Certificate.of(proposal, description.adjacency, besides, description.unit)
        payload = certificate.payload
        if payload["theorem"] != theorem:
            raise Refused(f"theorem: expected {theorem!r}")
        if isinstance(stated, NoisyIteration):
            _check_steps(stated, payload)
        elif json.dumps(payload["run"]) != table:
            raise Refused("run: the proof is about another description")
        _check_position(position, payload)
    except OutOfTime:
        raise
    except Exception as bad:  # whatever search wrote
        raise Refused(reason(bad)) from None
    verdict = verdict_on(certificate, payload)
    if not verdict.ok:
        in_time()  # a caller's time that is over is no refusal
        raise Refused(verdict.reason)
    certificate = Certificate(payload)  # with what was found
    certificate.accept(verdict)
    name = verdict.names[0] if stated is description else verdict.names[-1]
    guarantee = Guarantee(
        TradeOff.from_dict(claimed_curve(payload["claim"])),  # what is read is what is compared
        description.adjacency,
        name.method,
        name.source,
        verdict.assumptions,
        besides=besides,
        unit=description.unit,
        proof=certificate,
    )
    gap = not_implied(verdict, guarantee.to_dict())
    if gap is not None:
        raise Refused(gap)
    return guarantee


def _spoken_of(description: Description, theorem: str) -> tuple[Description, tuple[str, ...]]:
    """What the certificate speaks of, and what it has to assume for that to cover the description: a
    diffusion of varying temperature is the iteration of its cells."""
    if not isinstance(description, LangevinDiffusion) or description.constant:
        return description, ()
    hidden = theorem != COMPOSITION
    if hidden and description.release != "last":
        raise Refused("release: the theorem needs a hidden path")
    return by_cells(description, hidden), diffusion_sentences(description, hidden)


def _check_position(position: int | None, payload: dict[str, Any]) -> None:
    """Refuse a certificate about other records; that of one chain says it of all."""
    for one in (payload, payload.get("one", {})):
        if one.get("position") not in (None, position):
            raise Refused("position: the proof is about other records")


def _check_steps(iteration: NoisyIteration, payload: dict[str, Any]) -> None:
    """Refuse unless the steps that a certificate takes as stated are those of the iteration, and equally far
    apart at most."""
    if payload["run"] is not None:
        raise Refused("run: the proof is about another description")
    if payload["diameter"] != iteration.diameter or payload["start"] != iteration.start:
        raise Refused("diameter, start: the proof is about another iteration")
    schedule, theorem = iteration.schedule, payload["theorem"]
    slopes = theorem != COMPOSITION and "moduli" not in payload
    if "groups" in payload:
        stated = _repeated(groups(payload["groups"]), slopes)
        same = isinstance(schedule, Groups) and _repeated(schedule, slopes) == stated
    else:
        columns = schedule.columns() if isinstance(schedule, Groups) else schedule
        own: dict[str, Any] = dict(zip(("c", "s", "sigma"), columns, strict=True))
        if not slopes:
            del own["c"]
        steps = payload["steps"]
        same = all(np.array_equal(own[x], read_floats(x, steps[x])) for x in own)
    if not same or ("moduli" in payload and not _same_moduli(iteration, payload)):
        raise Refused("steps: the proof is about others")


def _repeated(schedule: Iterable[tuple[int, Iterable[Any]]], slopes: bool) -> list[Any]:
    return [
        (times, [(x.n, x.c if slopes else 0.0, x.s, x.sigma) for x in stretches])
        for times, stretches in schedule
    ]


def _same_moduli(iteration: NoisyIteration, payload: dict[str, Any]) -> bool:
    """Whether the moduli are those of the steps; of a function, whether it is no larger than is stated."""
    every, tables, (case,) = iteration.every_modulus, payload["moduli"], payload["cases"]
    which = payload["which"]
    index = [0] * len(every) if which is None else read_floats("which", which).astype(int).tolist()
    points = zip(*(read_floats(x, case.get(x, [])).tolist() for x in ("at", "values")), strict=True)
    for k, (modulus, i) in enumerate(zip(every, index, strict=True)):
        if tables[i] != table_of(modulus):
            return False
        if tables[i] is None and k >= case.get("tau", len(every)):
            at, value = next(points)
            if not modulus(at) <= value:
                return False
    return True

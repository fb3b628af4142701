"""What analyses propose: the bodies of certificates (docs, "Certificates").

Proofs of runs of noisy SGD say for each case, a record's position with its probability, which payments
prove its μ; those of random batches which factors there are and what they amount to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, assert_never

import numpy as np

from pabi.account.facts.positions import OrderedView, Uses
from pabi.account.shifts.epochs import Advance, Record, Shifts
from pabi.account.shifts.nonlinear import StepPayments
from pabi.account.shifts.periodic import PeriodicShifts
from pabi.account.shifts.start import Start
from pabi.describe.batches import Fractions
from pabi.describe.files import Description, to_dict
from pabi.describe.iteration import Groups, NoisyIteration, Schedule, Steps
from pabi.describe.unlearning import Unlearning
from pabi.numbers import encoding
from pabi.numbers.rounding import Array
from pabi.tradeoff import Gaussian, Product, TradeOff
from pabi.tradeoff.guarantee import reading
from pabi.tradeoff.product import rounded
from pabi.verification.granting import Proposal

# The cases that a proof under a secret order distinguishes.


class Case(NamedTuple):
    """An event of probability `weight`, under which the record's uses are no worse than `uses`.

    `ranges`: of positions, [first, last] for each epoch that is averaged over, in the order in which
    they are used last; None for an epoch that misses the record.
    """

    uses: Uses
    weight: Fraction
    ranges: tuple[tuple[int, int] | None, ...]


COLUMNS = ("c", "s", "sigma")

_EQUAL = 1.0 + 1e-10  # beyond what roundings make of equal bounds


def where_nothing(mu: float) -> dict[str, Any]:
    """An infinite μ, which no payments have to prove; a finite one is for the kernel to find."""
    return {} if math.isfinite(mu) else {"mu": "inf"}


def groups(schedule: Groups) -> list[Any]:
    """Run-length encoded steps, as JSON."""
    return [[g.times, [[x.n, x.c, x.s, x.sigma] for x in g.stretches]] for g in schedule]


def columns(steps: Steps) -> dict[str, Any]:
    """Steps written out, as JSON."""
    return {name: encoding.floats(x) for name, x in zip(COLUMNS, steps, strict=True)}


def shifts_of(shifts: Shifts) -> dict[str, Any]:
    """Where the shifts begin, and the payments, as JSON."""
    match shifts:
        case PeriodicShifts():
            return _by_length(shifts)
        case Start():
            return _by_block(shifts)
        case StepPayments():
            return _by_step(shifts)
        case Advance():
            return _in_advance(shifts)
        case _:
            assert_never(shifts)


def _by_length(shifts: PeriodicShifts) -> dict[str, Any]:
    blocks = [{"times": b.times, "groups": groups(Groups(b.groups))} for b in shifts.blocks]
    return {
        "tau": shifts.skipped if shifts.distance else 0,
        "distance": shifts.distance,
        "skipped": shifts.skipped,
        "blocks": blocks,
    }


def _by_step(payments: StepPayments) -> dict[str, Any]:
    """The payments of every step, as JSON; none where nothing is proven."""
    if not math.isfinite(payments.square):
        return {}
    return {
        "tau": payments.first,
        "distance": float(payments.z[0]),
        "payments": encoding.floats(payments.a),
    }


def _in_advance(shifts: Advance) -> dict[str, Any]:
    """The payments before the others begin, and where the difference is after each step, as JSON."""
    before = shifts.before.shifts
    out = {"tau": 0, "distance": 0.0} if before is None else shifts_of(before)
    n, z, _ = shifts.between
    stated = {"paid": shifts.paid, "begin": shifts.begin, "ahead": shifts.ahead}
    return out | stated | {"n": encoding.floats(n), "z": encoding.floats(z)}


def _by_block(shifts: Start) -> dict[str, Any]:
    payments = shifts.payments
    finite = math.isfinite(payments.energy)
    return {
        "tau": shifts.tau,
        "distance": shifts.distance,
        "first": payments.first,
        "unit": shifts.unit,
        "ends": encoding.integers(payments.ends if finite else []),
        "q": encoding.floats(np.asarray(payments.q) if finite else []),
        **({"shift": encoding.integers(payments.shift)} if payments.shift.any() else {}),
    }


Of = TypeVar("Of", bound=Proposal)


def rounding_of(description: Description) -> float:
    """The `rounding` of a run, or of the run of a forgetting; 0 of what has none."""
    run = description.run if isinstance(description, Unlearning) else description
    return float(getattr(run, "rounding", 0.0))


def computed(proof: Of) -> Of:
    """A proof that needs the path to stay hidden, of steps as they are computed: it speaks of exact ones, so
    that its curve is widened by how far the others may be from them. A proof of every iterate adds up what
    the computed steps themselves reveal."""
    r = rounding_of(proof.subject)
    return replace(proof, curve=rounded(proof.curve, r)) if r > 0.0 else proof


def least(curves: Sequence[TradeOff], delta: float) -> int:
    """Which has the least ε at `delta`, the first of those that are equal but for roundings.

    One that costs more than another by all that is known of it is not read.
    """
    hopes = [one._underestimate(delta) for one in curves]
    losses = [math.inf] * len(curves)
    for i in sorted(range(len(curves)), key=hopes.__getitem__):
        if hopes[i] <= min(losses):
            losses[i] = reading(curves[i], delta)
    return next(i for i, e in enumerate(losses) if e <= min(losses) * _EQUAL)


def but_for(curve: TradeOff, sizes: Fractions) -> TradeOff:
    """The curve, but that nothing is claimed where a batch is larger than `sizes` cover."""
    return Product([(curve, 1)], sizes.failure) if sizes.failure > 0.0 else curve


@dataclass(frozen=True, eq=False)
class RunProof(Proposal):
    """The proof of a run in which every record has a place in the epoch. `records` are those that can be
    the worst, or, each with its case, those that a secret order averages over; none where composition needs
    none. `cap`: of batches of random size, where slopes or moduli cover no more. `view`: whose steps are
    written out where records were solved step by step. `alike`: whether all steps with data are taken to be
    alike and the cool-down is left out; None where every step has a slope of its own. `resting`: the
    distances after all epochs but the last, whose steps alone the cases are about. `demands`: of
    forgetting, which records are in which batches; "uses" where the cases say so."""

    records: Sequence[tuple[Record, Case | None]] = ()
    position: int | None = None
    cap: int | None = None
    view: OrderedView | None = None
    alike: bool | None = None
    resting: Array | None = None
    demands: str | None = None

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the run, and what proves something of each record."""
        resting = None if self.resting is None else encoding.floats(self.resting)
        some = {"cap": self.cap, "demands": self.demands, "alike": self.alike, "resting": resting}
        out: dict[str, Any] = {
            "run": to_dict(self.subject),
            "position": self.position,
            **{name: stated for name, stated in some.items() if stated is not None},
        }
        if self.view is not None and any(isinstance(r.shifts, Start) for r, _ in self.records):
            out["steps"] = columns(self.view.arrays) if self.view.stated else None
        return out | {"cases": [_case_of(record, case) for record, case in self.records]}


def _case_of(record: Record, case: Case | None) -> dict[str, Any]:
    """Which record a case is about, how likely it is (None: it is the only one), and its payments."""
    uses = record.uses
    out: dict[str, Any] = {
        "uses": [uses.first, uses.epochs, list(uses.then)],
        **where_nothing(record.mu),
    }
    if case is not None:
        out["weight"] = [case.weight.numerator, case.weight.denominator]
        out["ranges"] = [None if r is None else list(r) for r in case.ranges]
    return out if record.shifts is None else out | shifts_of(record.shifts)


@dataclass(frozen=True, eq=False)
class SampledProof(Proposal):
    """The proof of a run with random batches: the factors claimed, and the `plan` of payments that needs
    them. `cap`: of batches of random size, where slopes cover no more."""

    plan: Callable[[], dict[str, Any]] = dict
    cap: int | None = None

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the run, the factors claimed, fewer kinds of them than are proven, and
        the plan."""
        return {
            "run": to_dict(self.subject),
            "position": None,
            "claim": {"tradeoff": self.curve.to_dict()},
            "plan": self.plan(),
            **({} if self.cap is None else {"cap": self.cap}),
        }


@dataclass(frozen=True, eq=False)
class IterationProof(Proposal):
    """The proof of a bare iteration, whose steps are taken as stated. `solved`: the schedule in the form in
    which its shifts were found, None for composition, for which no slope matters."""

    subject: NoisyIteration
    curve: Gaussian
    solved: tuple[Schedule, Shifts] | None = None

    def claimed(self) -> dict[str, Any]:
        """That nothing is proven, where it is so."""
        nothing = where_nothing(self.curve.mu)
        return {"claim": nothing} if nothing else {}

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the steps and the payments."""
        schedule = _without_slopes(self.subject.schedule) if self.solved is None else self.solved[0]
        steps = (
            {"steps": columns(schedule)}
            if isinstance(schedule, Steps)
            else {"groups": groups(schedule)}
        )
        return {
            "run": None,
            **self.claimed(),
            "diameter": self.subject.diameter,
            "start": self.subject.start,
            **steps,
            "cases": [] if self.solved is None else [shifts_of(self.solved[1])],
        }


def _without_slopes(schedule: Schedule) -> Schedule:
    """The steps with 0 in place of slopes that are not known."""
    if isinstance(schedule, Steps):
        return schedule._replace(c=np.nan_to_num(schedule.c))
    return Groups(
        g._replace(stretches=tuple(x._replace(c=float(np.nan_to_num(x.c))) for x in g.stretches))
        for g in schedule
    )


@dataclass(frozen=True, eq=False)
class DescribedProof(Proposal):
    """The proof of a description that says all there is to check, but for what is `stated` besides."""

    stated: Mapping[str, Any] = field(default_factory=dict)

    def written(self) -> dict[str, Any]:
        """The body of the certificate: the description."""
        return {"run": to_dict(self.subject), **self.stated}

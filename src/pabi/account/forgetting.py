"""What a run of noisy SGD promises of forgetting: the guarantee, the fewest epochs and the least noise; and
what forgetting costs those who stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pabi.account.analyses.unlearning import require_given
from pabi.account.best import best_guarantee
from pabi.account.calibration import calibrate
from pabi.describe.runs import MOST, NoisySGD
from pabi.describe.unlearning import Unlearning, pairs_of
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable
from pabi.numbers.locking import waiting
from pabi.numbers.rounding import bisected_whole
from pabi.numbers.showing import exact, plain, shown
from pabi.tradeoff import TradeOff
from pabi.tradeoff.base import decode, encode
from pabi.tradeoff.guarantee import Guarantee

_MOST_STEPS, _MOST_VARYING = 1 << 40, 1_000_000  # beyond which a target counts as out of reach
_DOUBLINGS = 5  # of the epochs without less ε, after which it does as well
_LESS = 1.0 - 1e-9  # what counts as less
BILL = "those_who_stay"  # the key under notes
BEARABLE = 1.1  # times the ε of the training: beyond it those who stay lose

With = Callable[[Guarantee], Guarantee]


def described(
    run: NoisySGD,
    *,
    steps: int | None = None,
    epochs: float | None = None,
    records: int = 1,
    requests: Sequence[tuple[float, int]] = (),
    published: bool = False,
) -> Unlearning:
    """The forgetting that these arguments of `run.unlearning` describe. Raises InvalidInput."""
    stated = [x for x in (steps, epochs, requests or None) if x is not None]
    if len(stated) != 1:
        raise InvalidInput(
            "epochs", f"expected exactly one of epochs, steps and requests, got {len(stated)}"
        )
    if not requests:
        later = _steps_of(run, epochs) if steps is None else steps
        return Unlearning(run, [(later, records)], published=published)
    if records != 1:
        raise InvalidInput(
            "records", f"expected them in requests, beside the epochs, got {records!r} as well"
        )
    pairs = [(_steps_of(run, k), m) for k, m in pairs_of(requests, "epochs")]
    return Unlearning(run, pairs, published=published)


def _steps_of(run: NoisySGD, epochs: Any) -> int:
    """The steps of so many passes over the data, whole batches; 0 for none."""
    passes = validate.number("epochs", epochs, at_least=0.0)
    most = MOST // run.steps_per_epoch
    if passes > most:
        raise InvalidInput("epochs", f"expected at most {most}, got {epochs!r}")
    whole = round(passes * run.steps_per_epoch)
    near = math.isclose(passes * run.steps_per_epoch, whole, rel_tol=1e-9)
    return whole if near else math.ceil(passes * run.steps_per_epoch)


def guarantee_of(unlearning: Unlearning, delta: float) -> Guarantee:
    """The best proven guarantee of forgetting, with the bill. Raises NotApplicable and InvalidInput."""
    if unlearning.published:
        require_given(unlearning)
    return with_bill(unlearning, best_guarantee(unlearning, delta), delta)


# What it costs those who stay.


class Price(NamedTuple):
    """What those who stay pay for a model. `epsilon`: of that model alone; `released`: of all models that are
    out then; `epochs`: what it takes. ∞ where nothing is proven."""

    epsilon: float
    released: float
    epochs: float

    def noted(self) -> dict[str, Any]:
        """For JSON."""
        every = self._asdict()
        return {"epochs": every.pop("epochs")} | {name: encode(x) for name, x in every.items()}


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What forgetting costs those who stay, in ε at `delta`, under the adjacency of the training.

    `before`: the training, and what is out by now. `going_on`: None where only retraining was asked for.
    `retraining`: another run of the same description without the records, with noise and order of its own.
    """

    delta: float
    before: Price
    retraining: Price
    going_on: Price | None = None

    @property
    def dear(self) -> bool:
        """Whether those who stay lose by going on, more than they would notice."""
        return self.going_on is not None and not (
            self.going_on.epsilon <= BEARABLE * self.before.epsilon
        )

    def noted(self) -> dict[str, Any]:
        """As notes of a guarantee."""
        ways = {"before": self.before, "going_on": self.going_on, "retraining": self.retraining}
        every = {name: cost.noted() for name, cost in ways.items() if cost is not None}
        return {BILL: {"delta": self.delta, **every}}


def bill(
    delta: float,
    training: TradeOff | None,
    released: TradeOff | None,
    epochs: float,
    going_on: tuple[TradeOff | None, TradeOff | None, float] | None = None,
) -> Bill:
    """The bill of a training that costs `training` and takes so many epochs, when `released` is what all
    models cost that are out. `going_on`: (of the model alone, of all that is out then, the epochs of it).

    None stands for what nothing is proven of.
    """

    def read(curve: TradeOff | None) -> float:
        return math.inf if curve is None else curve.epsilon(delta)

    both = None if training is None or released is None else released.compose(training)
    alone = read(training)
    on = None if going_on is None else Price(read(going_on[0]), read(going_on[1]), going_on[2])
    before = Price(alone, alone if released is training else read(released), epochs)
    return Bill(
        delta=delta, before=before, going_on=on, retraining=Price(alone, read(both), epochs)
    )


def bill_of(unlearning: Unlearning, delta: float) -> Bill:
    """What this forgetting costs those who stay, if nothing but the models of the run was released."""
    run, per_epoch = unlearning.run, unlearning.run.steps_per_epoch
    proven = _proven(run, delta)
    training = None if proven is None else proven.curve
    staying = _proven(of_those_who_stay(unlearning), delta)
    path = None if staying is None else staying.composition
    # A record whose gradient became zero is covered where all that is known of the loss holds of zero as
    # well. A cool-down before other steps is in no proof. What all iterates cost needs neither.
    covered = run.adjacency == "replace_one" or (run.loss.scalable and run.loss.holds_of_zero)
    alone = None if staying is None else staying.curve
    if not covered or run.cooldown_steps:
        alone = path
    return bill(
        delta,
        training,
        training,
        run.steps / per_epoch,
        (alone, path, (unlearning.steps - run.steps) / per_epoch),
    )


def of_those_who_stay(unlearning: Unlearning) -> NoisySGD:
    """All steps as one run of those who stay."""
    return replace(unlearning.whole, cooldown_steps=0)


def _proven(run: NoisySGD, delta: float) -> Guarantee | None:
    """What a run costs, None where no analysis covers it."""
    try:
        return best_guarantee(run, delta)
    except NotApplicable:
        return None


def with_bill(unlearning: Unlearning, promised: Guarantee, delta: float) -> Guarantee:
    """A guarantee of forgetting whose notes have the bill."""
    return promised.noting(bill_of(unlearning, delta).noted())


def read_bill(notes: Mapping[str, Any]) -> Bill | None:
    """The bill that notes have, None where they have none; nobody has checked it."""
    try:
        noted = notes[BILL]
        delta = validate.number("delta", noted["delta"], at_least=0.0, below=1.0)
        ways = {name: _read_cost(noted[name]) for name in noted if name != "delta"}
        return Bill(delta=delta, **ways)
    except (InvalidInput, KeyError, TypeError, ValueError, OverflowError):
        return None


def _read_cost(noted: Any) -> Price:
    read = {name: decode(name, noted[name]) for name in Price._fields}
    if not all(x >= 0.0 for x in read.values()) or not math.isfinite(read["epochs"]):
        raise InvalidInput(BILL, "expected numbers ≥ 0")
    return Price(**read)


def bill_in_words(bill: Bill) -> tuple[str, ...]:
    """The bill in sentences."""
    alone = f"epsilon = {shown(bill.before.epsilon)} at delta = {exact(bill.delta)}"
    several = bill.before.released != bill.before.epsilon
    out = f", {shown(bill.before.released)} with all that is out" if several else ""
    lines = [f"the training of {_epochs(bill.before.epochs)} cost them {alone}{out}"]
    if bill.going_on is not None:
        lines.append(f"going on: {_way(bill.going_on)}")
    return (*lines, f"retraining: {_way(bill.retraining)}")


def _way(cost: Price) -> str:
    return (
        f"{_epochs(cost.epochs)}, epsilon = {shown(cost.epsilon)} by the new model alone, at most "
        f"{shown(cost.released)} with all models that were out before"
    )


def _epochs(count: float) -> str:
    digits = 9 if count == round(count) else 3
    return "1 epoch" if count == 1 else f"{plain(count, digits)} epochs"


def refuse_dear(bill: Bill) -> None:
    """Raises InvalidInput where those who stay would lose."""
    on, anew = bill.going_on, bill.retraining
    if on is None or not bill.dear:
        return
    raise InvalidInput(
        "accept_loss",
        f"going on would take {_epochs(on.epochs)} and raise the epsilon of all who stay from "
        f"{shown(bill.before.epsilon)}, that of the fit, to {shown(on.epsilon)} at delta = "
        f"{exact(bill.delta)}; retraining "
        f"takes {_epochs(anew.epochs)} and leaves it at {shown(anew.epsilon)}: expected retrain=True "
        "(--retrain), or accept_loss=True (--accept-loss)",
    )


def fewest_epochs(run: NoisySGD, epsilon: float, delta: float, records: int) -> int:
    """The least number found of whole epochs after which `records` are forgotten at (epsilon, delta).

    It is the fewest where ε does not grow with the epochs, as without steps that expand. Raises
    TargetUnreachable, and InvalidInput for what is out of range.
    """
    return fewest_after(run, (), epsilon, delta, records)[0]


def fewest_after(
    run: NoisySGD,
    earlier: Sequence[tuple[int, int]],
    epsilon: float,
    delta: float,
    records: int,
    *,
    least: int = 0,
    together: With | None = None,
) -> tuple[int, Guarantee]:
    """(the same number, from `least` on, of a request after others; what is promised then).

    `earlier`: (steps after it, records) of the requests before. `together`: adds to a guarantee what else
    has to be forgotten. Raises as `fewest_epochs` does.
    """
    target = validate.number("epsilon", epsilon, above=0.0)
    validate.number("delta", delta, above=0.0, below=1.0)
    search = _Epochs(run, target, delta, records, tuple(earlier), together)
    with waiting("counting epochs"):
        low, high = least, max(1, 2 * least)
        if search.enough(low):
            return low, search.promised[low]
        while not search.enough(high):
            if search.hopeless(high):
                raise search.unreachable(high)
            low, high = high, 2 * high
        _, high = bisected_whole(search.enough, low, high)
    return high, search.promised[high]


class _Epochs:
    """Tries numbers of epochs and remembers the least ε."""

    def __init__(
        self,
        run: NoisySGD,
        target: float,
        delta: float,
        records: int,
        earlier: tuple[tuple[int, int], ...],
        together: With | None,
    ) -> None:
        self.run, self.target, self.delta, self.records = run, target, delta, records
        self.earlier, self.together = earlier, together
        self.least, self.in_vain = math.inf, 0
        self.promised: dict[int, Guarantee] = {}

    def enough(self, epochs: int) -> bool:
        """Whether so many epochs meet the target."""
        requests = [*self.earlier, (_steps_of(self.run, epochs), self.records)]
        guarantee = best_guarantee(Unlearning(self.run, requests), self.delta)
        if self.together is not None:
            guarantee = self.together(guarantee)
        self.promised[epochs] = guarantee
        value = guarantee.epsilon(self.delta)
        self.in_vain = 0 if value < self.least * _LESS else self.in_vain + 1
        self.least = min(self.least, value)
        return value <= self.target

    def hopeless(self, epochs: int) -> bool:
        """Whether more epochs did not help for long, or are too many to be looked at."""
        repeats = self.run.constant and not self.run.order.fresh
        most = _MOST_STEPS if repeats else _MOST_VARYING
        return self.in_vain >= _DOUBLINGS or epochs * self.run.steps_per_epoch > most

    def unreachable(self, epochs: int) -> TargetUnreachable:
        """The error that names the least ε seen."""
        return TargetUnreachable(
            f"epsilon = {exact(self.target)} at delta = {exact(self.delta)} cannot be met by epochs: after "
            f"{epochs} of them the least seen is epsilon = {shown(self.least)}; retraining without the "
            "records always does",
            self.least,
        )


def least_noise(
    run: NoisySGD, epsilon: float, delta: float, *, epochs: float, records: int
) -> NoisySGD:
    """The run with the least noise at which so many epochs are enough. Raises TargetUnreachable and
    InvalidInput."""
    name = "noise_std" if run.noise_multiplier is None else "noise_multiplier"
    if run.noise_std is None and run.noise_multiplier is None:
        run = replace(run, noise_std=1.0)
    return calibrate(described(run, epochs=epochs, records=records), epsilon, delta, name).run

"""How a request is met: the fewest epochs, and what is promised after them.

What else was released from the records that are forgotten, such as second moments for preconditioning, is
not retrained. It is counted by what it costs the whole group: a release of G(μ) says of m records no more
than G(mμ), whether they are forgotten afterwards or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pabi.account.best import best_guarantee
from pabi.account.forgetting import Bill, bill, fewest_after
from pabi.describe.accounted import warn_of_large_delta
from pabi.describe.neighbours import RETRAINED
from pabi.describe.unlearning import Unlearning
from pabi.forgetting.states import SecretState
from pabi.guarantees.guarantee import INDEPENDENT, Guarantee
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import Gaussian, TradeOff

_ANEW = (
    "the model was trained from the beginning, with noise and an order of its own, while the contributions "
    "of the forgotten records were zero, and n and all divisors stayed (retrained)",
    "the model is looked at by itself; no model handed out before it is known",
    "which records are forgotten, and when, does not depend on any model that was handed out",
)
FEWEST = 1  # epochs: a request is never met by doing nothing


@dataclass(frozen=True)
class PlannedRequest:
    """How a request will be met: `epochs` follow on it, and `guarantee` is promised; the `bill` is that of
    those who stay."""

    unlearning: Unlearning
    epochs: int
    guarantee: Guarantee
    bill: Bill


def planned_request(
    state: SecretState,
    records: int,
    *,
    epsilon: float,
    delta: float,
    besides: Sequence[Guarantee] = (),
) -> PlannedRequest:
    """How a request to forget so many records more is met at (epsilon, delta).

    `besides`: what other releases from the same records cost one of them. Raises TargetUnreachable,
    NotApplicable and InvalidInput.
    """
    run, every = state.forgettable, len(state.forgotten) + records
    others = [_of_all(one, every) for one in besides]
    _refuse_dear(others, every, epsilon, delta)
    warn_of_large_delta(run.n, delta)
    epochs, promised = fewest_after(
        run,
        state.requests,
        epsilon,
        delta,
        records,
        least=FEWEST,
        together=lambda proven: with_others(proven, others),
    )
    steps = epochs * run.steps_per_epoch
    costs = bill_of_state(state, (steps, records))
    return PlannedRequest(
        state.unlearning(steps, records), epochs, promised.noting(costs.noted()), costs
    )


def promised_anew(
    state: SecretState,
    records: int,
    *,
    epsilon: float,
    delta: float,
    besides: Sequence[Guarantee] = (),
) -> Guarantee:
    """What is promised of a training that never saw the forgotten records, and so many more.

    The model has the very law of the one that it is compared with. Releases `besides` it keep the records.
    Raises TargetUnreachable and InvalidInput.
    """
    every = len(state.forgotten) + records
    others = [_of_all(one, every) for one in besides]
    target = validate.number("epsilon", epsilon, above=0.0)
    at = validate.number("delta", delta, above=0.0, below=1.0)
    _refuse_dear(others, every, target, at)
    warn_of_large_delta(state.run.n, at)
    exactly = Guarantee(
        Gaussian(0.0), RETRAINED, "retraining", "docs, Forget records", _ANEW, tuned_at=at
    )
    return with_others(exactly, others).noting(bill_of_state(state).noted())


def bill_of_state(state: SecretState, request: tuple[int, int] | None = None) -> Bill:
    """What those who stay pay for a request of so many (steps, records), and what for retraining.

    It is read at the δ of the model. What preconditioning released counts once for every training, and so
    does every training that this one took the place of.
    """
    delta, run = float(state.facts["settings"]["delta"]), state.run
    once = () if state.moments is None else (best_guarantee(state.moments, delta).curve,)
    before = (*earlier_trainings(state), *once)
    first = best_guarantee(run, delta).curve
    going_on = None
    if request is not None:
        whole = best_guarantee(state.run_after(request), delta)
        alone, every = _composed(*once, whole.curve), _composed(*before, whole.composition)
        going_on = alone, every, request[0] / run.steps_per_epoch
    return bill(
        delta,
        _composed(*once, first),
        released_by(state),
        run.steps / run.steps_per_epoch,
        going_on,
    )


def released_by(state: SecretState) -> TradeOff | None:
    """What all models cost together that the state was of, with what was released for them. None where
    nothing is proven."""
    delta = float(state.facts["settings"]["delta"])
    now = best_guarantee(state.run_after(), delta)
    once = () if state.moments is None else (best_guarantee(state.moments, delta).curve,)
    # One model is out of this training, or several that lie on one path.
    own = now.composition if state.requests else now.curve
    return _composed(*earlier_trainings(state), *once, own)


def earlier_trainings(state: SecretState) -> tuple[TradeOff | None, ...]:
    """What the trainings cost, with all models on their paths, that this one took the place of; None for what
    nothing is proven of."""
    earlier = state.facts.get("earlier", ())
    return tuple(None if curve is None else TradeOff.from_dict(curve) for curve in earlier)


def _composed(*curves: TradeOff | None) -> TradeOff | None:
    """What the releases cost together. None where nothing is proven of one."""
    proven = [curve for curve in curves if curve is not None]
    return reduce(TradeOff.compose, proven) if len(proven) == len(curves) else None


def _of_all(release: Guarantee, records: int) -> Guarantee:
    """What a release costs all that are forgotten together."""
    if release.adjacency != "zero_out" or release.unit != "record":
        raise InvalidInput(
            "besides",
            'expected guarantees of records under "zero_out", as what is forgotten becomes zero, got one of '
            f"a {release.unit} under {release.adjacency!r}",
        )
    return release.for_groups(records)


def _refuse_dear(others: Sequence[Guarantee], records: int, epsilon: float, delta: float) -> None:
    """TargetUnreachable where what else was released costs more than the target by itself."""
    if not others:
        return
    curve = reduce(TradeOff.compose, (one.curve for one in others))
    cost = replace(others[0], curve=curve, proof=None).epsilon(delta)
    if not cost < epsilon:
        raise TargetUnreachable(
            f"epsilon = {exact(epsilon)} at delta = {exact(delta)} cannot be met: what was released of the "
            f"records before the training, such as second moments for preconditioning, says of {records} of "
            f"them as much as epsilon = {shown(cost)}, and no step takes it back",
            cost,
        )


def with_others(forgetting: Guarantee, others: Sequence[Guarantee]) -> Guarantee:
    """A guarantee of forgetting of a model together with releases that keep the records, of which `others`
    are the guarantees for all that are forgotten.

    It has no certificate where there are any: checkers join no releases of a training with one of forgetting.
    """
    if not others:
        return forgetting
    curves = (forgetting.curve, *(one.curve for one in others))
    sentences = [a for one in (forgetting, *others) for a in one.assumptions]
    besides = [a for one in (forgetting, *others) for a in one.besides]
    return Guarantee(
        reduce(TradeOff.compose, curves),
        RETRAINED,
        " + ".join(one.method for one in (forgetting, *others)),
        "; ".join(dict.fromkeys(one.source for one in (forgetting, *others)))
        + "; Dong, Roth, Su 2022, Thm 3.2",
        tuple(dict.fromkeys((*sentences, INDEPENDENT))),
        forgetting.tuned_at,
        besides=tuple(dict.fromkeys(besides)),
    )

"""How a request is met: the fewest epochs, and what is promised after them.

What else was released from the records that are forgotten, such as second moments for preconditioning, is
not retrained. It is counted by what it costs the whole group: a release of G(μ) says of m records no more
than G(mμ), whether they are forgotten afterwards or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pabi.account.forgetting import fewest_after
from pabi.describe.accounted import warn_of_large_delta
from pabi.describe.neighbours import RETRAINED
from pabi.describe.unlearning import Unlearning
from pabi.forgetting.states import SecretState
from pabi.guarantees.guarantee import INDEPENDENT, Guarantee
from pabi.numbers.errors import InvalidInput, TargetUnreachable
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import TradeOff

FEWEST = 1  # epochs: a request is never met by doing nothing


@dataclass(frozen=True)
class PlannedRequest:
    """How a request will be met: `epochs` follow on it, and `guarantee` is promised."""

    unlearning: Unlearning
    epochs: int
    guarantee: Guarantee


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
    unlearning = state.unlearning(epochs * run.steps_per_epoch, records)
    return PlannedRequest(unlearning, epochs, promised)


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

"""Goes on with a run that was trained, as the description of its forgetting says.

The steps follow on the last iterate as it was before rounding, in the order that the run drew, with noise
that is drawn afresh. What the gradients are of withdrawn records is the caller's: zero.
"""

from __future__ import annotations

import numpy as np

from pabi.describe.unlearning import Unlearning
from pabi.execute.batches import batch_rows
from pabi.execute.checkpoint import State
from pabi.execute.engine import PerRecordGradients, WalkedSteps, gradient_sum_of, walked
from pabi.execute.hiding import checked, unseen, walk_of
from pabi.execute.randomness import secret_generator
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array


def go_on(
    unlearning: Unlearning,
    gradients: PerRecordGradients,
    state: State,
    generator: np.random.Generator | None = None,
) -> tuple[Array, State]:
    """(the last iterate as it is released, the secret state as it is) after the last request's steps.

    `gradients`: of the loss's records, as for `train`; zero for all that are withdrawn. `state`: before the
    last request's steps. `generator`: None for noise from the operating system. Raises InvalidInput.
    """
    run = unlearning.run
    if state.step != unlearning.last or state.step == unlearning.steps:
        raise InvalidInput(
            "state",
            f"expected one after {unlearning.last} steps, of {unlearning.steps}, got one after {state.step}",
        )
    gradient_sum = gradient_sum_of(run, gradients)
    walked_steps = WalkedSteps(run, unlearning.whole, lambda k: k - run.cooldown_steps)

    def execute() -> tuple[Array, State]:
        source = secret_generator() if generator is None else generator
        batches = batch_rows(run, source, state.secret)
        return walked(
            walked_steps, gradient_sum, state, batches, generator=source, after_step=lambda _: None
        )

    return unseen(execute)


def enforceable(guarantee: Guarantee, unlearning: Unlearning, start: Array) -> Guarantee:
    """A guarantee of this forgetting, where its proof survives doubles. Raises InvalidInput."""
    return checked(guarantee, *walk_of(unlearning.whole, start[None]))

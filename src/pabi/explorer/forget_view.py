"""What forgetting takes: epochs after a request against ε."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pabi.account.best import best_guarantee
from pabi.account.forgetting import Bill, bill_in_words, bill_of, described
from pabi.describe.runs import NoisySGD
from pabi.explorer.controls import number_in, state_in, text_of, whole
from pabi.explorer.run_view import Event, point
from pabi.explorer.state import read
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable
from pabi.numbers.showing import exact, shown

_MOST = 16  # numbers of epochs that are drawn


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a request to forget. `request`: {"state": what the controls hold}."""
    state = state_in(request)
    picked = read(state)
    run, delta = picked.description, picked.delta
    if not isinstance(run, NoisySGD):
        raise InvalidInput("further", "expected a run of noisy SGD: nothing else forgets here")
    records = whole("records", text_of(state, "records"))
    target = number_in(state, "forget_target")
    fewest: int | None = None
    bill: Bill | None = None
    try:
        fewest = run.epochs_to_forget(target, delta, records)
    except TargetUnreachable as no:
        text = (
            f"no number of epochs is proven to reach it; the best is ε = {shown(no.best)}. "
            "Training anew without them always does"
        )
    else:
        forgetting = described(run, epochs=fewest, records=records)
        text = _sentence(fewest, best_guarantee(forgetting, delta).epsilon(delta))
        bill = bill_of(forgetting, delta)
    yield (
        "forget",
        {
            "epochs": None if fewest is None else exact(fewest),
            "text": text,
            "records": exact(records),
            "target": exact(target),
            "limit": target,
            "delta": exact(delta),
            "steps": None if fewest is None else exact(fewest * run.steps_per_epoch),
            "staying": [] if bill is None else list(bill_in_words(bill)),
            "dear": bill is not None and bill.dear,
        },
    )
    points = []
    for epochs in _grid(fewest):
        try:
            forgetting = described(run, epochs=epochs, records=records)
            epsilon = best_guarantee(forgetting, delta).epsilon(delta)
        except NotApplicable:
            continue
        points.append(point(float(epochs), epsilon, shown(epsilon), exact(epochs)))
        yield "curve", {"chart": "forget", "series": "after the request", "points": points}


def _sentence(epochs: int, cost: float) -> str:
    if epochs == 0:
        return f"the model is as good as retrained already: ε = {shown(cost)}"
    return f"then the model is as good as retrained up to ε = {shown(cost)}"


def _grid(fewest: int | None) -> list[int]:
    """Numbers of epochs from 0 to twice those that are enough."""
    top = 2 * max(fewest or 10, 4)
    every = max(1, -(-top // _MOST))
    return sorted({*range(0, top + 1, every), *([] if fewest is None else [fewest])})

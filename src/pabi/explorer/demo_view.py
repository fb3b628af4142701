"""A training on public data that come with scikit-learn, at an ε of the page.

While it runs it shows steps and time, and nothing of the model, which a training has to keep to itself.
"""

from __future__ import annotations

import contextvars
import math
import queue
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from pabi.execute.progress import heard_by
from pabi.explorer.controls import number_in, state_in, text_of
from pabi.explorer.run_view import Event, assumptions
from pabi.explorer.state import state_of
from pabi.numbers import validate
from pabi.numbers.showing import accuracy, exact, plain, shown

_PAUSE = 0.1  # seconds between two signs of life
_SHARE = 0.25  # of the records, kept to see how well the model does


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a training. `request`: {"state"}, with `demo_epsilon`, `demo_data` and `demo_delta`."""
    state = state_in(request)
    epsilon = number_in(state, "demo_epsilon", above=0.0)
    delta = number_in(state, "demo_delta", above=0.0, below=1.0)
    kind = validate.choice("demo_data", text_of(state, "demo_data"), ("cancer", "digits"))
    yield "progress", {"over": 0, "steps": 0, "text": "reading the data and planning"}
    train, test, classes, ranges = _data(kind)
    model = _model(epsilon, delta, classes, ranges)
    yield from _trained(model, train)
    x, y = test
    share = float(np.mean(model.predict(x) == y))
    plainly = _without_privacy(train, test)
    width = math.sqrt(max(share * (1.0 - share), 0.25 / len(y)) / len(y))
    run = model.run_
    yield (
        "trained",
        {
            "epsilon": shown(model.guarantee_.epsilon(delta)),
            "delta": exact(delta),
            "target": exact(epsilon),
            "accuracy": accuracy(share, width),
            "without": accuracy(plainly, width),
            "records": exact(len(train[1])),
            "tested": exact(len(y)),
            "epochs": exact(run.epochs) if run.epochs is not None else exact(run.steps),
            "before": model.moments_ is not None,
            "method": model.guarantee_.method,
            "state": state_of(run, delta),
        },
    )
    yield "assumptions", {"rows": assumptions(model.guarantee_)}


def _data(kind: str) -> tuple[Any, Any, list[int], Any]:
    """Records to train with and to test on, the classes, and the public ranges of the features."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    bunch = datasets.load_digits() if kind == "digits" else datasets.load_breast_cancer()
    x = np.asarray(bunch.data, dtype=np.float64)
    # Public knowledge about public data; of data of one's own the ranges must not be looked up in them.
    low, high = (0.0, 16.0) if kind == "digits" else (x.min(axis=0), x.max(axis=0))
    scaled = (x - low) / (high - low) - 0.5
    a, b, c, d = train_test_split(scaled, bunch.target, test_size=_SHARE, random_state=0)
    return (
        (a, c),
        (b, d),
        list(range(len(bunch.target_names))),
        float(np.max(np.linalg.norm(scaled, axis=1))),
    )


def _model(epsilon: float, delta: float, classes: list[int], norm: float) -> Any:
    from pabi.learn import PrivateLogisticRegression

    return PrivateLogisticRegression(
        epsilon=epsilon, delta=delta, feature_norm=norm, classes=classes, verbose=True
    )


def _trained(model: Any, train: tuple[Any, Any]) -> Iterator[Event]:
    """Fits the model in a thread, and tells how far it is."""
    signs: queue.Queue[tuple[int, int] | Exception | None] = queue.Queue()

    def fit() -> None:
        try:
            with heard_by(lambda over, steps: signs.put((over, steps))):
                model.fit(*train)
        except Exception as bad:
            signs.put(bad)
        signs.put(None)

    begin, last = perf_counter(), 0.0
    threading.Thread(target=contextvars.copy_context().run, args=(fit,), daemon=True).start()
    while (sign := signs.get()) is not None:
        if isinstance(sign, Exception):
            raise sign
        spent = perf_counter() - begin
        if spent - last > _PAUSE or sign[0] == sign[1]:
            last = spent
            text = f"step {exact(sign[0])} of {exact(sign[1])}, {plain(spent, decimals=1)} s"
            yield "progress", {"over": sign[0], "steps": sign[1], "text": text}


def _without_privacy(train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """How well the same kind of model does that protects nobody."""
    from sklearn.linear_model import LogisticRegression

    return float(LogisticRegression(max_iter=1000).fit(*train).score(*test))

"""The views of the page beside the run: budget, check, files, forgetting, demo."""

from __future__ import annotations

import contextvars
import json
import math
import queue
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from pabi.account.best import best_guarantee
from pabi.account.forgetting import Bill, bill_in_words, bill_of, described
from pabi.budget.filters import Book, GaussianFilter, book_of
from pabi.budget.ledger import Ledger, LedgerReport, refuse_another_unit, report_of
from pabi.cli.explorer.run_view import (
    assumptions,
    attack_texts,
    epsilon_curves,
    gain,
    point,
    tradeoff_curves,
)
from pabi.cli.explorer.state import (
    Event,
    number_in,
    read,
    rows_of,
    state_in,
    state_of,
    state_of_table,
    text_in,
    text_of,
    whole,
)
from pabi.describe.accounted import USUAL_DELTA
from pabi.describe.files import description_in, from_dict, run_file, tables_in, to_dict
from pabi.describe.runs import NoisySGD
from pabi.execute.progress import heard_by
from pabi.numbers import validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable, require
from pabi.numbers.showing import accuracy, exact, plain, shown, shown_down
from pabi.show.report import report_on, stated_in
from pabi.tradeoff import Gaussian
from pabi.tradeoff.certificate import whom
from pabi.tradeoff.guarantee import Guarantee
from pabi.verification import Verdict, verify

# Whether a file's guarantee is to be trusted: the verdict, and what people have to stand behind.


_SCOPES = {
    "run": "everything was derived again from the description of the training",
    "iteration": "only the arithmetic was checked; the steps were taken as stated",
    None: "",
}


def check_events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a file that was dropped. `request`: {"text": that of the file}."""
    text = text_in(request)
    guarantee, verdict = checked(text)
    yield "verdict", _verdict(verdict, guarantee)
    if guarantee is None:
        return
    yield "training", {"rows": _trained_check(guarantee, _delta(guarantee, verdict))}
    word = _of_the_file(text, verdict) if verdict.ok else set()
    rows = [row | {"word": row["text"] in word} for row in assumptions(guarantee)]
    yield "assumptions", {"rows": rows}
    yield "attacks", {"texts": attack_texts(guarantee)}
    yield from tradeoff_curves(guarantee)
    yield from epsilon_curves(guarantee)


def _of_the_file(text: str, verdict: Verdict) -> set[str]:
    """The assumptions of an accepted file that its description does not imply."""
    from pabi.cli.reading import stated_besides
    from pabi.cli.verifying import parted

    data = parse_json(text)
    return {*parted(verdict, data)[1], *stated_besides(data, verdict)}


def checked(text: str) -> tuple[Guarantee | None, Verdict]:
    """The guarantee in a file, None where its proof is refused; and the verdict. Raises InvalidInput."""
    require(
        text.lstrip()[:1] == "{",
        "file",
        "expected a guarantee or certificate (JSON); run files are opened under Run",
    )
    try:
        verdict = verify(text)
    except InvalidInput as bad:
        reason = str(bad) if '"format"' in text else "it has no format"
        raise InvalidInput(
            "file", f"expected a guarantee or certificate of pabi: {reason}"
        ) from None
    try:
        return stated_in(text, verdict), verdict
    except InvalidInput:  # it cannot even be taken apart, as the verdict says
        return None, verdict


def _delta(guarantee: Guarantee, verdict: Verdict) -> float:
    stated = guarantee.tuned_at if verdict.reading is None else verdict.reading[1]
    return stated if stated is not None and 0.0 < stated < 1.0 else USUAL_DELTA


def _trained_check(guarantee: Guarantee, delta: float) -> list[tuple[str, str]]:
    """What the file says was done, from which everything is proven; nothing where it describes no run."""
    proof = guarantee.to_dict(certificate=True).get("certificate") or {}
    return rows_of(from_dict(proof["run"]), delta) if "run" in proof else []


def _verdict(verdict: Verdict, guarantee: Guarantee | None) -> dict[str, Any]:
    base = {"ok": verdict.ok, "reason": verdict.reason, "scope": _SCOPES[verdict.scope]}
    if guarantee is None:
        return base
    delta = _delta(guarantee, verdict)
    return base | {
        "epsilon": shown(guarantee.epsilon(delta)),
        "delta": exact(delta),
        "mu": None if guarantee.mu is None else shown(guarantee.mu),
        "protects": whom(guarantee.adjacency, guarantee.unit),
        "method": guarantee.method,
        "source": guarantee.source,
        "gain": gain(guarantee)
        if verdict.ok
        else None,  # the word is no promise of an unproven one
    }


# A ledger as a timeline, and what one more release would take of its budget.


def budget_events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a ledger. `request`: {"text": its file's, "what": "target", "run" or "", "state"}.

    {"released": guarantees as [name, text], "state"} is a new ledger with their releases, as a file first.
    """
    text = _begun(request) if "released" in request else text_in(request)
    if "released" in request:
        yield "file", {"name": "people.ledger", "text": text}
    whole = text if text.endswith("\n") else f"{text}\n"
    try:
        book = book_of(whole.encode())
    except InvalidInput as bad:
        raise InvalidInput(
            "ledger", f"{bad}. A ledger is made by `pabi ledger`, or started below"
        ) from None
    report = report_of(book)
    yield "ledger", _ledger(report) | {"adding": _adding(book)}
    yield "curve", {"chart": "ledger", "series": "spent so far", "points": _timeline(report)}
    if request.get("what") in ("target", "run"):
        yield "what", _what_if(book, report, request)


def _begun(request: dict[str, Any]) -> str:
    """The text of a new ledger, which has an entry for each guarantee."""
    state, released = state_in(request), request["released"]
    require(isinstance(released, list), "released", "expected a list of files")
    epsilon = number_in(state, "budget_epsilon", above=0.0)
    delta = number_in(state, "budget_delta", above=0.0, below=1.0)
    guarantees = [_proven(one) for one in released]
    unit = guarantees[0].unit if guarantees else "record"
    with TemporaryDirectory() as folder:
        order = Ledger.best_order(guarantees, epsilon, delta) if guarantees else None
        ledger = Ledger(Path(folder) / "people.ledger", epsilon, delta, order=order, unit=unit)
        for guarantee in guarantees:
            ledger.spend(guarantee)
        return ledger.path.read_text("utf-8")


def _proven(file: Any) -> Guarantee:
    """The guarantee in a file, [name, text]. Raises InvalidInput where its proof is refused."""
    match file:
        case [str(name), str(text)]:
            guarantee, verdict = checked(text)
            if guarantee is None or not verdict.ok:
                raise InvalidInput(name, f"its proof is refused: {verdict.reason}")
            return guarantee
        case _:
            raise InvalidInput("released", "expected names and texts of files")


def _ledger(report: LedgerReport) -> dict[str, Any]:
    return {
        "epsilon": exact(report.epsilon),
        "limit": report.epsilon,
        "delta": exact(report.delta),
        "spent": shown(report.spent),
        "left": shown_down(report.epsilon_left),
        "unit": report.unit,
        "adjacency": report.adjacency,
        "symbol": report.symbol,
        "entries": [
            {
                "number": exact(entry.number),
                "at": entry.at,
                "method": entry.method,
                "charge": shown(entry.charge),
                "epsilon": shown(entry.epsilon),
                "remark": ", ".join(
                    ["reserved, not released yet"] * (not entry.committed)
                    + ["a test"] * entry.testing
                ),
            }
            for entry in report.entries
        ],
    }


def _adding(book: Book) -> str:
    """What of a budget adds up, since ε does not."""
    filters = book.opening.filter
    what = "μ²" if filters.symbol == "mu" else "the Rényi divergence"
    share = shown(book.spent / filters.limit, 3, percent=True)
    return (
        "ε does not add up: what is spent and what is left need not make the budget. "
        f"What adds up is {what}, of which {share} is spent."
    )


def _timeline(report: LedgerReport) -> list[Any]:
    later = (
        point(float(e.number), e.epsilon, shown(e.epsilon), f"{exact(e.number)}: {e.at}")
        for e in report.entries
    )
    return [point(0.0, 0.0, "0", "opened"), *later]


def _what_if(book: Book, report: LedgerReport, request: dict[str, Any]) -> dict[str, Any]:
    """Whether one more release is granted, and what is left then. Nothing is entered."""
    filters, delta = book.opening.filter, book.opening.delta
    state = state_in(request)
    if request["what"] == "run":
        guarantee = read(state).description.guarantee(delta)
        refuse_another_unit(report.unit, guarantee.unit)
        charge = filters.charge(guarantee.curve)
        what = f"the run of this page, ε = {shown(guarantee.epsilon(delta))} at δ = {exact(delta)}"
        unlike = report.adjacency not in (None, guarantee.adjacency)
    else:
        epsilon = number_in(state, "what_epsilon", above=0.0)
        at = number_in(state, "what_delta", above=0.0, below=1.0)
        # Of all mechanisms with this ε a Gaussian one: others may be charged more.
        charge = filters.charge(Gaussian(GaussianFilter.of(epsilon, at).mu))
        what = f"a Gaussian release with ε = {exact(epsilon)} at δ = {exact(at)}"
        unlike = False
    fits = charge < math.inf and book.spent + filters.size(charge) <= filters.limit
    after = book.spent + filters.size(charge) if fits else book.spent
    answer = {
        "what": what,
        "fits": fits and not unlike,
        "charge": f"{filters.symbol} = {shown(charge)}",
        "left": shown_down(filters.epsilon_left(after, delta)),
        "spent": shown(filters.epsilon(after, delta)),
        "more": _more(filters, book.spent, charge) if fits else "0",
    }
    if unlike:
        answer["reason"] = f"the ledger is about {report.adjacency}, and the run is not"
    return answer


def _more(filters: Any, spent: Fraction, charge: float) -> str:
    """How many such releases fit."""
    size = filters.size(charge)
    return "any number of" if size == 0 else exact((filters.limit - spent) // size)


# Files of a run: in, as what stands in the controls; out, as a run file, a guarantee or a report.


def imported(request: dict[str, Any]) -> Iterator[Event]:
    """{"text": a run file} as {"state": what the controls hold}."""
    table = tables_in(text_in(request), "run file")
    description_in(table)  # or its first mistake
    yield "state", {"state": state_of_table(table, USUAL_DELTA)}


def exported(request: dict[str, Any]) -> Iterator[Event]:
    """{"state"} as a run file that `pabi account` reads, and as a guarantee with its certificate."""
    picked = read(state_in(request))
    guarantee = picked.description.guarantee(picked.delta)
    comments = [
        f"epsilon {shown(guarantee.epsilon(picked.delta))} at delta {exact(picked.delta)}, "
        f"{guarantee.method}",
        f"adjacency {guarantee.adjacency}",
        f"what it costs: pabi account run.toml --delta {exact(picked.delta)}",
        "delta is no part of a run; to train: pabi.description.from_dict reads this file, and docs, Train, "
        "says which trainers take what it returns",
    ]
    yield "file", {"name": "run.toml", "text": run_file(to_dict(picked.description), comments)}
    table = guarantee.to_dict(certificate=True)
    yield "file", {"name": "guarantee.json", "text": json.dumps(table)}


def reported(request: dict[str, Any]) -> Iterator[Event]:
    """{"state"}, or {"text": a guarantee}, as a report: a page that can be kept, printed and signed."""
    if "text" in request:
        guarantee, verdict = checked(text_in(request))
        if guarantee is None:
            reason = f"its proof is refused, so that there is no report: {verdict.reason}"
            raise InvalidInput("file", reason)
        delta = _delta(guarantee, verdict)
    else:
        picked = read(state_in(request))
        guarantee, delta = picked.description.guarantee(picked.delta), picked.delta
        verdict = verify(guarantee)
    text = report_on(guarantee, "html", delta, verdict)
    yield "file", {"name": "report.html", "text": text}


# What forgetting takes: epochs after a request against ε.


_MOST = 16  # numbers of epochs that are drawn


def forget_events(request: dict[str, Any]) -> Iterator[Event]:
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
        how = "then the model is as good as retrained up to"
        if fewest == 0:
            how = "the model is as good as retrained already:"
        text = f"{how} ε = {shown(best_guarantee(forgetting, delta).epsilon(delta))}"
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


def _grid(fewest: int | None) -> list[int]:
    """Numbers of epochs from 0 to twice those that are enough."""
    top = 2 * max(fewest or 10, 4)
    every = max(1, -(-top // _MOST))
    return sorted({*range(0, top + 1, every), *([] if fewest is None else [fewest])})


# A training on public data that come with scikit-learn, at an ε of the page.
#
# While it runs it shows steps and time, and nothing of the model, which a training has to keep to itself.


_PAUSE = 0.1  # seconds between two signs of life
_SHARE = 0.25  # of the records, kept to see how well the model does


def demo_events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a training. `request`: {"state"}, with `demo_epsilon`, `demo_data` and `demo_delta`."""
    state = state_in(request)
    epsilon = number_in(state, "demo_epsilon", above=0.0)
    delta = number_in(state, "demo_delta", above=0.0, below=1.0)
    kind = validate.choice("demo_data", text_of(state, "demo_data"), ("cancer", "digits"))
    yield "progress", {"over": 0, "steps": 0, "text": "reading the data and planning"}
    # After the sign of life: this takes seconds.
    from sklearn.linear_model import LogisticRegression

    from pabi.learn import PrivateLogisticRegression

    train, test, classes, norm = _data(kind)
    model = PrivateLogisticRegression(
        epsilon=epsilon, delta=delta, feature_norm=norm, classes=classes, verbose=True
    )
    yield from _trained(model, train)
    x, y = test
    share = float(np.mean(model.predict(x) == y))
    plainly = float(LogisticRegression(max_iter=1000).fit(*train).score(*test))  # protects nobody
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
            "gain": gain(model.guarantee_),
            "state": state_of(run, delta),
        },
    )
    yield "assumptions", {"rows": assumptions(model.guarantee_)}


def _data(kind: str) -> tuple[Any, Any, list[int], float]:
    """Records to train with and to test on, the classes, and the largest norm of the features."""
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

"""What a run costs: ε first, then the curves and all else, as fast as each is known.

What only later events need is loaded when they are due, so that the first number does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

from pabi.account.best import Outcome, best_of, outcomes
from pabi.analyses import analyses_of
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.explorer.controls import CONTROLS
from pabi.explorer.curves import (
    EVERY,
    OURS,
    Event,
    Point,
    epsilon_curves,
    first_curves,
    point,
    tradeoff_curves,
)
from pabi.explorer.request import state_in
from pabi.explorer.state import Picked, differences, read, rows_of, state_of
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.showing import exact, plain, shown, shown_down

_LENGTH_SECONDS = 1.0  # for ε at other numbers of epochs
_LENGTHS = (3, 5, 9, 17)  # how many there are of them, finer with time
# Numbers of two tools can be compared only where they speak of the same.
_SAYS = {value: text for c in CONTROLS if c.name == "adjacency" for value, text in c.choices}
_COMPARED = (NoisySGD, LangevinChain, LangevinDiffusion, ExponentialMechanism)


def events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of the page's first view. `request`: {"state": what the controls hold}.

    {"state", "patient": true} asks for the changes alone, however long they take.
    """
    picked = read(state_in(request))
    patient = request.get("patient") is True
    answers: list[Outcome] = []
    # Of this process: what else the machine does makes no proof slower.
    started, spent, guarantee = perf_counter(), process_time(), None
    for best, last in growing(picked, answers):
        guarantee = best
        if patient:
            continue
        yield "number", number(best, picked, final=last)
        if not last:
            yield from first_curves(best)  # better proofs may take seconds
    seconds, spent = perf_counter() - started, process_time() - spent
    assert guarantee is not None
    if patient:
        yield _changes(picked, guarantee, 0.0)
        return
    yield "assumptions", {"rows": assumptions(guarantee)}
    yield "attacks", {"texts": attack_texts(guarantee)}
    yield from tradeoff_curves(guarantee)
    yield from epsilon_curves(guarantee)
    yield from _lengths(picked, seconds)
    if isinstance(picked.description, _COMPARED) and picked.delta > 0.0:
        yield "peers", {"rows": _peers(picked)}
    yield "analyses", {"rows": _analyses(picked, answers, guarantee)}
    yield _changes(picked, guarantee, spent)


def growing(picked: Picked, answers: list[Outcome]) -> Iterator[tuple[Guarantee, bool]]:
    """The best guarantee so far after each analysis, and whether all were asked; `answers` gets them all.

    Every one of them is a guarantee. Raises NotApplicable where there is none.
    """
    description, delta = picked.description, picked.delta
    names = [analysis.name for analysis in analyses_of(description)]
    least = math.inf
    for name in names:
        answers.extend(outcomes(description, delta, only=name))
        proven = answers[-1].guarantee
        if proven is not None and (epsilon := proven.epsilon(delta)) < least:
            least = epsilon
            yield best_of(answers, delta), False
    yield best_of(answers, delta), True


def number(guarantee: Guarantee, picked: Picked, *, final: bool) -> dict[str, Any]:
    """What stands on top of the page."""
    delta = picked.delta
    epsilon = guarantee.epsilon(delta)
    run = picked.description
    share = (
        delta * run.n if isinstance(run, NoisySGD) else None
    )  # of one over the number of records
    return {
        "epsilon": shown(epsilon),
        "delta": exact(delta),
        "of_one": None if share is None else plain(share, 2),
        "large": share is not None and share > 1.0,
        "rows": rows_of(run, delta),
        "mu": None if guarantee.mu is None else shown(guarantee.mu),
        "method": guarantee.method,
        "source": guarantee.source,
        "adjacency": guarantee.adjacency,
        "unit": guarantee.unit,
        "steps": exact(run.steps) if isinstance(run, NoisySGD) else None,
        "composition": _composition(guarantee, epsilon, delta),
        "final": final,
        "rest": picked.rest,
    }


def _composition(guarantee: Guarantee, epsilon: float, delta: float) -> str | None:
    """What releasing every model would cost."""
    if guarantee.composition is None:
        return None
    every = guarantee.composition.epsilon(delta)
    whose = _SAYS.get(guarantee.adjacency, guarantee.adjacency)
    text = f"ε = {shown(every)} if every model on the way were released ({whose})"
    if 0.0 < epsilon < every < math.inf:
        text += f", {shown_down(every / epsilon, 3)} times as much"
    return text


def assumptions(guarantee: Guarantee) -> list[dict[str, str]]:
    """Every assumption, and who stands behind it."""
    from pabi.reports.attesting import attesting

    every = guarantee.assumptions
    return [{"text": text, "who": attesting(text, every).value} for text in every]


def attack_texts(guarantee: Guarantee) -> list[str]:
    """What an attacker gains at most, in sentences: those of reports."""
    from pabi.reports.guarantee import attacks

    opening, items = attacks(guarantee)
    return [opening.text, *items.texts]


def _lengths(picked: Picked, seconds: float) -> Iterator[Event]:
    """ε against the number of epochs, the run's own among them."""
    run = picked.description
    if not isinstance(run, NoisySGD) or not run.constant or run.epochs is None:
        return
    begin, rows = perf_counter(), dict[float, tuple[Point, Point | None]]()
    for number_of in _LENGTHS:
        for epochs in _epochs(run.epochs, number_of):
            spent = perf_counter() - begin
            if rows and spent + seconds > max(_LENGTH_SECONDS, 2.0 * seconds):
                yield from _length_curves(rows)
                return
            if epochs not in rows:
                rows[epochs] = _at(run, epochs, picked.delta)
        yield from _length_curves(rows)


def _length_curves(rows: dict[float, tuple[Point, Point | None]]) -> Iterator[Event]:
    ordered = [rows[epochs] for epochs in sorted(rows)]
    ours, every = [own for own, _ in ordered], [other for _, other in ordered if other is not None]
    yield "curve", {"chart": "epochs", "series": OURS, "points": ours}
    if every:
        yield "curve", {"chart": "epochs", "series": EVERY, "points": every}


def _epochs(own: float, number_of: int) -> list[float]:
    """Numbers of epochs around a run's own, which is among them."""
    half = number_of // 2
    factors = [4.0 ** (k / half) for k in range(-half, half + 1)]
    return sorted({own if f == 1.0 else float(max(1, round(own * f))) for f in factors})


def _at(run: Any, epochs: float, delta: float) -> tuple[Point, Point | None]:
    """ε of the run with so many epochs, and of composition where that is another one."""
    text = plain(epochs)
    try:
        other = replace(run, epochs=epochs, steps=None)
        best = best_of(outcomes(other, delta), delta)
    except (InvalidInput, NotApplicable):
        return point(epochs, math.inf, shown(math.inf), text), None
    epsilon = best.epsilon(delta)
    own = point(epochs, epsilon, shown(epsilon), text)
    if best.composition is None or best.method == "composition":
        return own, None
    every = best.composition.epsilon(delta)
    return own, point(epochs, every, shown(every), text)


def _peers(picked: Picked) -> list[dict[str, Any]]:
    """Every bound that applies, as published, beside pabi's."""
    from pabi.literature.comparison import compare

    return [
        {
            "source": row.source,
            "status": row.status,
            "epsilon": "none" if row.epsilon is None else shown(row.epsilon),
            "note": row.note,
            "ours": row.name == "pabi",
        }
        for row in compare(picked.description, picked.delta)  # type: ignore[arg-type]
        if row.applies
    ]


def _analyses(picked: Picked, answers: list[Outcome], guarantee: Guarantee) -> list[dict[str, Any]]:
    """Every analysis, the best on top."""
    rows = []
    for answer in answers:
        proven = answer.guarantee
        rows.append(
            {
                "method": answer.name,
                "epsilon": None if proven is None else shown(proven.epsilon(picked.delta)),
                "reason": answer.reason,
                "best": answer.name == guarantee.method,
            }
        )
    rows.sort(key=lambda row: (not row["best"], row["epsilon"] is None))
    return rows


def _changes(picked: Picked, guarantee: Guarantee, seconds: float) -> Event:
    """The changes that would lower ε most, tried unless accounting took too long."""
    from pabi.account.changes import SLOW
    from pabi.account.explanation import Explanation

    delta = picked.delta
    explanation = Explanation((), delta, guarantee, picked.description, seconds)
    before, rows = state_of(picked.description, delta), []
    for change in explanation.changes:
        after = state_of(change.description, delta)
        rows.append(
            {
                "what": differences(before, after) or change.what,
                "epsilon": shown(change.epsilon),
                "training": change.training,
                "state": after,
            }
        )
    tried = seconds <= SLOW or not isinstance(picked.description, NoisySGD)
    return "changes", {"rows": rows, "advice": list(explanation.advice), "tried": tried}

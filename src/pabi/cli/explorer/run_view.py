"""The view of a run, and that of a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from pabi.account.analyses import analyses_of
from pabi.account.best import Outcome, best_of, outcomes
from pabi.account.calibration import calibrate
from pabi.account.changes import SLOW, Explanation, called
from pabi.account.targets import Target
from pabi.cli.explorer.state import (
    CONTROLS,
    Event,
    Picked,
    State,
    batches_in_words,
    differences,
    label_of,
    noise_of,
    number_in,
    read,
    rows_of,
    state_in,
    state_of,
    text_of,
)
from pabi.describe.batches import (
    BallsInBins,
    Batches,
    Cyclic,
    FixedSize,
    FullBatch,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.mechanisms import ExponentialMechanism
from pabi.describe.runs import NoisySGD
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, plain, shown, shown_down
from pabi.show.themes import above_epsilons, below_errors
from pabi.tradeoff import TradeOff
from pabi.tradeoff.guarantee import Guarantee

# Points of curves, finer with every event, until a second is over.
#
# A point's number is rounded as the page shows it, so that what is drawn is what stands in the table.
# Where a line is drawn it has corners of its own (`pabi.show.themes`): between two points it promises
# nothing that is not proven.


OURS, EVERY = "the guarantee", "every model released"
Point = dict[str, float | str | None]

_SECONDS = 0.6  # on a processor, that refining one curve may take
_DELTAS = (-12.0, -2.0)  # powers of ten
_COARSE, _REFINEMENTS = 11, 3
_READ = slice(None, None, 4)  # of the rates of false alarms: those that stand in the table


def point(x: float, y: float, y_text: str, x_text: str | None = None) -> Point:
    """A point and its texts; y is None where it is not finite."""
    return {
        "x": x,
        "y": float(y_text) if math.isfinite(y) else None,
        "xText": plain(x) if x_text is None else x_text,
        "yText": y_text,
    }


def refined(
    value: Callable[[float], Point], xs: Callable[[int], list[float]]
) -> Iterator[list[Point]]:
    """Points at the grids `xs(0)`, `xs(1)`, …, each of which contains the one before, while there is time."""
    begin, points = process_time(), dict[float, Point]()
    for level in range(_REFINEMENTS):
        grid = xs(level)
        for x in reversed(grid):  # where ε falls fastest
            if x not in points:
                points[x] = value(x)
                if level and process_time() - begin > _SECONDS:
                    yield [points[x] for x in sorted(points)]
                    return
        yield [points[x] for x in grid]


def named_curves(guarantee: Guarantee) -> list[tuple[str, TradeOff]]:
    """The curves of one picture: that of the guarantee, and composition where it is another one."""
    curves = [(OURS, guarantee.curve)]
    if guarantee.composition is not None and guarantee.method != "composition":
        curves.append((EVERY, guarantee.composition))
    return curves


def first_curves(guarantee: Guarantee) -> Iterator[Event]:
    """Both pictures of a guarantee that a better one may replace, with few points."""
    yield from tradeoff_curves(guarantee)
    for name, curve in named_curves(guarantee):
        yield _epsilons(name, [_epsilon(curve, delta) for delta in _deltas(0)])


def epsilon_curves(guarantee: Guarantee) -> Iterator[Event]:
    """ε against δ."""
    for name, curve in named_curves(guarantee):
        for points in refined(partial(_epsilon, curve), _deltas):
            yield _epsilons(name, points)


def _epsilons(name: str, points: list[Point]) -> Event:
    deltas, epsilons = (
        np.array([math.inf if p[axis] is None else p[axis] for p in points], dtype=np.float64)
        for axis in ("x", "y")
    )
    line = _corners(*above_epsilons(deltas, epsilons))
    return "curve", {"chart": "epsilon", "series": name, "points": points, "line": line}


def _corners(x: Array, y: Array) -> list[list[float]]:
    return [[float(a), float(b)] for a, b in zip(x, y, strict=True)]


def _deltas(level: int) -> list[float]:
    number = (_COARSE - 1) * 2**level + 1
    return [float(plain(10.0**power, 3)) for power in np.linspace(*_DELTAS, number)]


def _epsilon(curve: TradeOff, delta: float) -> Point:
    epsilon = curve.epsilon(delta)
    return point(delta, epsilon, shown(epsilon), exact(delta))


def tradeoff_curves(guarantee: Guarantee) -> Iterator[Event]:
    """The least rate of false negatives against that of false positives."""
    # Few digits each, so that a rate is what its text says.
    small = [float(plain(rate, 3)) for rate in np.geomspace(1e-6, 1e-2, 60)]
    rates = np.array([0.0, *small, *(k / 400 for k in range(5, 401))])
    for name, curve in named_curves(guarantee):
        errors = np.asarray(curve(rates))
        points = [
            point(float(a), float(b), shown_down(b), plain(a))
            for a, b in zip(rates[_READ], errors[_READ], strict=True)
        ]
        drawn = {"points": points, "line": _corners(*below_errors(rates, errors))}
        yield "curve", {"chart": "tradeoff", "series": name, **drawn}


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
        yield "gain", gain(best)
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

    Raises NotApplicable where there is none.
    """
    description, delta = picked.description, picked.delta
    least = math.inf
    for analysis in analyses_of(description):
        answers.extend(outcomes(description, delta, only=analysis.name))
        proposal = answers[-1].proposal
        if proposal is not None and (epsilon := proposal.epsilon(delta)) < least:
            least = epsilon
            try:
                best = best_of(answers, delta)
            except NotApplicable:  # all so far are refused
                continue
            yield best, False
    yield best_of(answers, delta), True


def number(guarantee: Guarantee, picked: Picked, *, final: bool) -> dict[str, Any]:
    """What stands on top of the page."""
    run, delta = picked.description, picked.delta
    epsilon = guarantee.epsilon(delta)
    # Of one over the number of records.
    share = delta * run.n if isinstance(run, NoisySGD) else None
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
    from pabi.show.attesting import attesting

    every = guarantee.assumptions
    return [{"text": text, "who": attesting(text, every).value} for text in every]


# What an attacker gains, in a word: how often the best guess of whether a record was used is right at most,
# where both are as likely. A coin is right half the time.
_GAINS = ((0.6, "little"), (0.75, "something"), (0.9, "much"), (1.0, "almost everything"))


def gain(guarantee: Guarantee) -> dict[str, Any]:
    """What an attacker gains at most: a word, its place among four, and the number behind it."""
    success = guarantee.bayes_success()
    level = sum(success > most for most, _ in _GAINS[:-1])
    return {
        "level": level,
        "word": _GAINS[level][1],
        "text": f"right in at most {shown(success, decimals=1, percent=True)} of guesses, a coin in 50%",
    }


def attack_texts(guarantee: Guarantee) -> list[str]:
    """What an attacker gains at most, in sentences: those of reports."""
    from pabi.show.report import attacks

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
    try:
        other = replace(run, epochs=epochs, steps=None)
        curves = named_curves(best_of(outcomes(other, delta), delta))
    except (InvalidInput, NotApplicable):
        return point(epochs, math.inf, shown(math.inf)), None
    epsilons = [curve.epsilon(delta) for _, curve in curves]
    own, *every = (point(epochs, epsilon, shown(epsilon)) for epsilon in epsilons)
    return own, every[0] if every else None


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
    rows = (
        {
            "method": answer.name,
            "epsilon": answer.guarantee and shown(answer.guarantee.epsilon(picked.delta)),
            "reason": answer.reason if answer.reason or answer.guarantee else "refused",
            "best": answer.name == guarantee.method,
        }
        for answer in answers
    )
    return sorted(rows, key=lambda row: (not row["best"], row["epsilon"] is None))


def _changes(picked: Picked, guarantee: Guarantee, seconds: float) -> Event:
    """The changes that would lower ε most, tried unless accounting took too long."""
    explanation = Explanation((), picked.delta, guarantee, picked.description, seconds)
    before = state_of(picked.description, picked.delta)
    rows = [
        {
            "what": differences(before, after := state_of(change.description, picked.delta))
            or change.what,
            "epsilon": shown(change.epsilon),
            "training": change.training,
            "state": after,
        }
        for change in explanation.changes
    ]
    tried = seconds <= SLOW or not isinstance(picked.description, NoisySGD)
    return "changes", {"rows": rows, "advice": list(explanation.advice), "tried": tried}


# The same run with batches drawn in every other way that there is for its size, at the same noise.


_SCHEMES: tuple[Callable[[int], Batches], ...] = (
    Cyclic,
    ShuffleOnce,
    Reshuffle,
    BallsInBins,
    partial(BallsInBins, redraw="epoch"),
    FixedSize,
    Poisson,
)


def scheme_events(request: dict[str, Any]) -> Iterator[Event]:
    """A row for each scheme of batches, from the quickest proof first. `request`: as for `events`."""
    picked = read(state_in(request))
    run = picked.description
    if not isinstance(run, NoisySGD) or isinstance(run.batches, FullBatch):
        yield "none", {"text": "There is no batch size here that other batches could have."}
        return
    proofs = [_Scheme(run, batches, picked.delta) for batches in _schemes_for(run)]
    for patient in (False, True):
        for place, scheme in enumerate(proofs):
            if not scheme.final:
                scheme.prove(patient=patient)
                yield "scheme", {"place": place, **scheme.row()}


def _schemes_for(run: NoisySGD) -> list[Batches]:
    """All schemes of the run's size, its own among them as it is, whatever that leaves out or caps."""

    def way(batches: Batches) -> tuple[str, str]:
        return batches.kind, getattr(batches, "redraw", "")

    schemes = [make(run.batch_size) for make in _SCHEMES]
    return [run.batches if way(run.batches) == way(other) else other for other in schemes]


class _Scheme:
    """The run with one scheme of batches, and what is proven of it so far."""

    def __init__(self, run: NoisySGD, batches: Batches, delta: float) -> None:
        self._batches, self._delta, self._own = batches, delta, batches is run.batches
        self._best: Guarantee | None = None
        self._state: dict[str, str] | None = None
        self._reason: str | None = None
        self._proofs: Iterator[tuple[Guarantee, bool]] = iter(())
        self.final = False
        try:
            other = run if self._own else replace(run, batches=batches)
        except InvalidInput as bad:
            self._reason = str(bad)
        else:
            self._state = state_of(other, delta)
            self._proofs = growing(Picked(other, delta, rest=False), [])

    def prove(self, *, patient: bool) -> None:
        """Takes the next proof; with `patient` all of them."""
        try:
            for best, final in self._proofs:
                self._best, self.final = best, final
                if not patient:
                    return
        except NotApplicable as no:
            self._reason = no.reason
        self.final = True

    def row(self) -> dict[str, Any]:
        """What the page shows of it."""
        best = self._best
        return {
            "batches": batches_in_words(self._batches),
            "call": called(self._batches),
            "own": self._own,
            "epsilon": None if best is None else shown(best.epsilon(self._delta)),
            "gain": None if best is None or not self.final else gain(best),
            "final": self.final,
            "reason": self._reason,
            "state": self._state,
        }


# The setting that meets a target, and two runs side by side.


_PARAMETERS = ("noise", "epochs", "size", "clip_norm")
# The controls of each target, and what they bound in words.
_TARGETS: Mapping[str, tuple[dict[str, str], str]] = {
    "epsilon": ({"epsilon": "target"}, "ε"),
    "mu": ({"mu": "target_mu"}, "μ"),
    "advantage": ({"advantage": "target_advantage"}, "the advantage of an attacker"),
    "tpr": (
        {"tpr": "target_tpr", "fpr": "target_fpr"},
        "the share of members found at a share of false alarms of {fpr}",
    ),
}


def _target(state: State, delta: float) -> tuple[Target, str]:
    """The target that the controls hold, and what it bounds in words. Raises InvalidInput."""
    controls, words = _TARGETS[
        validate.choice("target_of", text_of(state, "target_of"), tuple(_TARGETS))
    ]
    values = {name: number_in(state, control) for name, control in controls.items()}
    target = Target(**values, delta=delta)
    return target, words.format(fpr=target.fpr and exact(target.fpr))


def plan_events(request: dict[str, Any]) -> Iterator[Event]:
    """The events of a plan. `request`: {"state": what the controls hold, the target among them}."""
    state = state_in(request)
    picked = read(state)
    run = picked.description
    if not isinstance(run, NoisySGD):
        raise InvalidInput("further", "expected a run of noisy SGD; pabi calibrate plans others")
    target, bounded = _target(state, picked.delta)
    what = validate.choice("parameter", text_of(state, "parameter"), _PARAMETERS)
    noise = "noise_std" if run.noise_multiplier is None else "noise_multiplier"
    name = noise if what == "noise" else what
    met = calibrate(run, parameter=name, **asdict(target))
    if what in ("noise", "clip_norm"):
        # More noise, or a smaller clip norm, of six digits, which people can read and copy.
        legible = shown_down if name == "clip_norm" else shown
        changes: dict[str, Any] = {name: float(legible(getattr(met, name)))}
        met = replace(met, **changes)
    guarantee = met.guarantee(picked.delta)
    after = state_of(met, picked.delta)
    yield (
        "plan",
        {
            "parameter": what,
            "label": label_of(what)[1],
            "value": after.get(what, ""),
            "before": text_of({what: ""} | state, what),
            "epsilon": shown(guarantee.epsilon(picked.delta)),
            "delta": exact(picked.delta),
            "gain": gain(guarantee),
            "bounded": bounded,
            "reached": shown(target.cost(guarantee)),
            "target": exact(target.most),
            "method": guarantee.method,
            "noise": noise_of(met),
            "rows": rows_of(met, picked.delta),
            "state": after,
        },
    )


def comparison(request: dict[str, Any]) -> Iterator[Event]:
    """Two runs: {"a": what the controls hold, "b": the same of the other}."""
    sides = {side: read(state_in(request, side)) for side in ("a", "b")}
    states = {s: state_of(picked.description, picked.delta) for s, picked in sides.items()}
    for side, other in (("a", "b"), ("b", "a")):
        picked = sides[side]
        guarantee = picked.description.guarantee(picked.delta)
        readings = {
            "members that an attacker finds at most, with 1 % false alarms": shown(
                guarantee.tpr(0.01), decimals=2, percent=True
            ),
            "advantage of an attacker at most": shown(
                guarantee.advantage, decimals=2, percent=True
            ),
        }
        yield (
            "side",
            {
                "side": side,
                "number": number(guarantee, picked, final=True),
                "gain": gain(guarantee),
                "readings": readings,
                "differs": differences(states[other], states[side]) or "nothing",
            },
        )
        for source in (tradeoff_curves(guarantee), epsilon_curves(guarantee)):
            for name, data in source:
                if data["series"] == OURS:
                    yield name, data | {"series": side.upper()}

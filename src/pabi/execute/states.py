"""What a trained run leaves behind for later requests, as bytes. All of it is secret but the description.

It holds no state of a random generator: noise after a request is drawn afresh, and past noise is nowhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.account.best import best_guarantee
from pabi.account.forgetting import Bill, bill, fewest_after, of_those_who_stay
from pabi.describe.accounted import RETRAINED, SHOWN, Unit, warn_of_large_delta
from pabi.describe.files import from_dict, to_dict
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisySecondMoments
from pabi.describe.unlearning import Request, Unlearning
from pabi.execute.batches import fits
from pabi.execute.checkpoint import State
from pabi.execute.sums import UserRows
from pabi.numbers import validate
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable, require
from pabi.numbers.rounding import Array
from pabi.numbers.showing import exact, shown
from pabi.tradeoff import Gaussian, TradeOff
from pabi.tradeoff.guarantee import INDEPENDENT, Guarantee

# Keyed digests of records, by which a table is known to be the one that a run was trained on.
#
# Whoever lacks the key learns nothing of a record from its digest. A forgotten record has none any more.


DIGEST_BYTES, DIGEST_KEY_BYTES = 16, 32
_ROWS = 4096  # in memory at once as doubles

Digests = NDArray[np.uint8]


def digests_of(X: Any, targets: NDArray[Any], weights: Array | None, key: bytes) -> Digests:
    """(n, 16) digests of the rows of `X` (n, d) with their targets and weights, all as doubles.

    `X`: an array or a sparse matrix; 0 and −0 are the same.
    """
    n = X.shape[0]
    besides = [np.asarray(targets, dtype=np.float64).reshape(n, -1)]
    besides += [] if weights is None else [weights.reshape(n, 1)]
    digests = np.empty((n, DIGEST_BYTES), dtype=np.uint8)
    for first in range(0, n, _ROWS):
        part = slice(first, min(first + _ROWS, n))
        rows = X[part].toarray() if hasattr(X, "toarray") else X[part]
        table = _written(np.asarray(rows))
        others = _written(np.hstack([b[part] for b in besides]))
        each = (_digest(*pair, key) for pair in zip(table, others, strict=True))
        digests[part] = np.frombuffer(b"".join(each), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    return digests


def _written(rows: NDArray[Any]) -> list[memoryview]:
    """Each row as little-endian doubles; −0 becomes 0."""
    doubles = np.add(rows, 0.0, dtype=np.float64).astype("<f8", order="C", copy=False)
    content, width = memoryview(doubles.view(np.uint8).reshape(-1)), doubles.shape[1] * 8
    return [content[at : at + width] for at in range(0, len(content), width)]


def _digest(row: memoryview, others: memoryview, key: bytes) -> bytes:
    """The digest of a row and what belongs to it; widths are those of a table, so that none runs over."""
    digest = hashlib.blake2b(row, digest_size=DIGEST_BYTES, key=key)
    digest.update(others)
    return digest.digest()


def same_rows(digests: Digests, others: Digests, forgotten: NDArray[np.intp]) -> bool:
    """Whether all rows that are not forgotten have the same digests."""
    alike = np.all(digests == others, axis=1)
    alike[forgotten] = True
    return bool(np.all(alike))


def without(digests: Digests, forgotten: NDArray[np.intp]) -> Digests:
    """The digests, zeros in place of those of forgotten records."""
    left = digests.copy()
    left[forgotten] = 0
    return left


FORMAT = "pabi.state.1"
NO_TURN = "none"  # the name of states that were written before they had names
_PUBLIC = "public_"  # before the names of arrays that are no secrets
_UNREADABLE = (ValueError, KeyError, TypeError, EOFError, OverflowError, zipfile.BadZipFile)


@dataclass(frozen=True, eq=False)
class ForgottenRequest:
    """A line of the log: what was asked for, what was done, and what is promised since.

    Attributes
    ----------
    rows : tuple of int
        The rows that were forgotten, counted from 0.
    time : str
        When, in UTC (ISO 8601).
    steps : int
        The steps that were taken without them.
    guarantee : Guarantee
        Of adjacency "retrained", for all rows that were forgotten until then, with its certificate if it has
        one. Its notes have what it cost those who stay.
    retrained : bool
        Whether the steps are those of a new training, which never saw the rows.
    users : int or None
        How many users the rows are of, of a model that protects users.
    """

    rows: tuple[int, ...]
    time: str
    steps: int
    guarantee: Guarantee
    retrained: bool = False
    users: int | None = None

    @property
    def forgotten(self) -> int:
        """How many records, or users, were forgotten."""
        return len(self.rows) if self.users is None else self.users

    def to_dict(self) -> dict[str, Any]:
        """The line for JSON.

        Returns
        -------
        dict
            By name; the guarantee as its own file has it.
        """
        return {
            "rows": list(self.rows),
            "time": self.time,
            "steps": self.steps,
            "guarantee": json.loads(self.guarantee.to_json()),
            "retrained": self.retrained,
            "users": self.users,
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> ForgottenRequest:
        """The line that `to_dict` wrote.

        Parameters
        ----------
        table : mapping
            As `to_dict` writes it.

        Returns
        -------
        ForgottenRequest

        Raises
        ------
        InvalidInput
            For what is no guarantee.
        """
        return cls(
            guarantee=Guarantee.from_json(json.dumps(table["guarantee"])),
            rows=tuple(table["rows"]),
            time=table["time"],
            steps=table["steps"],
            retrained=table.get("retrained", False) is True,
            users=table.get("users"),
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SecretState:
    """A trained run as it stands, and what it has forgotten.

    `walk`: after its last step, as it was before rounding. `start`: where the training began. `shown`: the
    iterate as it was released. `digests`, `digest_key`: of the records. `facts`: what an estimator has to
    know, for JSON; `arrays`: the same that are arrays. `users`: the number of every row's user, None where
    records are protected.
    """

    run: NoisySGD
    walk: State
    start: Array
    shown: Array
    digests: Digests
    digest_key: bytes
    log: tuple[ForgottenRequest, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    users: NDArray[np.intp] | None = None

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return len(self.digests)

    @property
    def groups(self) -> UserRows | None:
        """The rows of every user, None where records are protected."""
        return None if self.users is None else UserRows.of(self.users, self.run.n)

    def counted(self, rows: NDArray[np.intp]) -> int:
        """How many records, or users, these rows are. Raises InvalidInput where they are a part of one's."""
        if self.users is None:
            return len(rows)
        if (count := whole_users(self.users, rows)) is None:
            raise InvalidInput(
                "rows",
                "expected all rows of every user: this model protects users, and forgets whole ones",
            )
        return count

    @property
    def withdrawn(self) -> int:
        """How many records, or users, were forgotten."""
        return sum(line.forgotten for line in self.log)

    @property
    def forgotten(self) -> NDArray[np.intp]:
        """The rows that were forgotten, ascending."""
        return np.array(sorted(row for line in self.log for row in line.rows), dtype=np.intp)

    @property
    def turn(self) -> str:
        """The random name of this state, another one for every state that was ever written."""
        return str(self.facts.get("turn", NO_TURN))

    @property
    def since(self) -> tuple[ForgottenRequest, ...]:
        """The requests on which this very training went on."""
        anew = [i for i, line in enumerate(self.log) if line.retrained]
        return self.log[anew[-1] + 1 :] if anew else self.log

    @property
    def requests(self) -> tuple[Request, ...]:
        """The same as a description of forgetting has them."""
        return tuple(Request(line.steps, line.forgotten) for line in self.since)

    @property
    def forgettable(self) -> NoisySGD:
        """The training as it forgets: contributions of withdrawn records become zero."""
        run = replace(self.run, adjacency="zero_out")
        require(
            np.array_equal(run.gradient_noise_std, self.run.gradient_noise_std),
            "noise_multiplier",
            "expected noise that is stated as noise_std",
        )
        return run

    def unlearning(self, steps: int, records: int) -> Unlearning:
        """The forgetting that so many steps more without so many records, or users, more make of it."""
        return Unlearning(self.forgettable, [*self.requests, (steps, records)])

    def run_after(self, *further: tuple[int, int]) -> NoisySGD:
        """All steps so far, and those of further requests, as one run of those who stay."""
        requests = [*self.requests, *further]
        if not requests:
            return self.run
        staying = of_those_who_stay(Unlearning(self.forgettable, requests))
        # Steps without data before others are in no proof: what all iterates cost covers them.
        shown = "path" if self.run.cooldown_steps else self.run.release
        return replace(staying, adjacency=self.run.adjacency, release=shown)

    @property
    def moments(self) -> NoisySecondMoments | None:
        """The release for preconditioning, None where there is none."""
        table = self.facts.get("moments")
        if table is None:
            return None
        moments = from_dict(table)
        assert isinstance(moments, NoisySecondMoments)
        return moments


def whole_users(users: NDArray[np.intp] | None, rows: Any) -> int | None:
    """How many users these rows are all of, None for a part of somebody's, and where there are no users."""
    if users is None:
        return None
    whose = np.unique(users[np.asarray(rows, np.intp)])
    return len(whose) if np.count_nonzero(np.isin(users, whose)) == len(rows) else None


def written(state: SecretState) -> bytes:
    """The state as bytes."""
    content = io.BytesIO()
    walk = state.walk
    head = {
        "format": FORMAT,
        "run": to_dict(state.run),
        "step": walk.step,
        "assumed": list(walk.assumed),
        "log": [line.to_dict() for line in state.log],
        "facts": dict(state.facts),
    }
    more: dict[str, Any] = {} if state.users is None else {"users": state.users.astype(np.int64)}
    more |= {f"{_PUBLIC}{name}": array for name, array in state.arrays.items()}
    np.savez(
        content,
        head=json.dumps(head),
        start=state.start,
        shown=state.shown,
        digests=state.digests,
        digest_key=np.frombuffer(state.digest_key, dtype=np.uint8),
        **more,
        **walk.arrays(),
    )
    return content.getvalue()


def read_state(content: bytes) -> SecretState:
    """The state that `written` wrote. Raises InvalidInput naming `state` for anything else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            head = json.loads(str(arrays["head"]))
            require(head["format"] == FORMAT, "state", f"expected one of the format {FORMAT}")
            state = _state(head, {name: np.array(arrays[name]) for name in arrays})
    except _UNREADABLE as bad:
        if isinstance(bad, InvalidInput) and bad.field == "state":
            raise
        raise InvalidInput("state", "expected one that pabi wrote") from None
    require(_possible(state), "state", "it is one that no run can be in")
    return state


def _state(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SecretState:
    run = from_dict(head["run"])
    if type(run) is not NoisySGD:
        raise InvalidInput("state", "expected one of a run of noisy SGD")
    return SecretState(
        run=run,
        walk=State.of(head["step"], arrays, head["assumed"]),
        start=arrays["start"],
        shown=arrays["shown"],
        digests=arrays["digests"],
        digest_key=arrays["digest_key"].tobytes(),
        log=tuple(map(ForgottenRequest.from_dict, head["log"])),
        facts=head["facts"],
        arrays={
            name.removeprefix(_PUBLIC): array
            for name, array in arrays.items()
            if name.startswith(_PUBLIC)
        },
        users=arrays["users"].astype(np.intp) if "users" in arrays else None,
    )


def _possible(state: SecretState) -> bool:
    """Whether a run can be in it."""
    run, walk, users = state.run, state.walk, state.users
    shapes = {walk.x.shape, state.start.shape, state.shown.shape}
    rows = [row for line in state.log for row in line.rows]
    return (
        walk.step == run.steps + sum(line.steps for line in state.since)
        and len(shapes) == 1
        and all(np.all(np.isfinite(x)) for x in (walk.x, state.start, state.shown))
        and fits(run, walk.secret)
        and (users is None) == (run.unit == "record")
        and state.digests.shape == (run.n if users is None else len(users), DIGEST_BYTES)
        and (users is None or bool(np.all((users >= 0) & (users < run.n))))
        and len(state.digest_key) == DIGEST_KEY_BYTES
        and len(set(rows)) == len(rows)
        and all(type(row) is int and 0 <= row < state.rows for row in rows)
        and all(line.users == whole_users(users, line.rows) for line in state.log)
    )


# How a request is met: the fewest epochs, and what is promised after them.
#
# What else was released from the records that are forgotten, such as second moments for preconditioning,
# is not retrained. It is counted by what it costs the whole group: a release of G(μ) says of m records no
# more than G(mμ), whether they are forgotten afterwards or not.


_ANEW = (
    "the model was trained from the beginning, with noise and an order of its own, while the contributions "
    "of the forgotten {}s were zero, and n and all divisors stayed (retrained)",
    "the model is looked at by itself; no model handed out before it is known",
    "which {}s are forgotten, and when, does not depend on any model that was handed out",
)
RETRAIN = "retrain=True (--retrain) trains anew without the rows"
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
    """How a request to forget so many records, or users, more is met at (epsilon, delta).

    `besides`: what other releases from the same records cost one of them. Raises TargetUnreachable,
    NotApplicable and InvalidInput.
    """
    run, every = state.forgettable, state.withdrawn + records
    if run.cooldown_steps and state.requests:
        raise NotApplicable(
            "a training that ended in steps without data (cooldown_epochs) went on once, and nothing is "
            f"proven of going on again: {RETRAIN}"
        )
    others = [_of_all(one, every, run.unit) for one in besides]
    _refuse_dear(others, every, epsilon, delta, "; " + RETRAIN if state.moments else "")
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
    every, unit = state.withdrawn + records, state.run.unit
    others = [_of_all(one, every, unit) for one in besides]
    target = validate.number("epsilon", epsilon, above=0.0)
    at = validate.number("delta", delta, above=0.0, below=1.0)
    _refuse_dear(others, every, target, at)
    warn_of_large_delta(state.run.n, at)
    exactly = Guarantee(
        Gaussian(0.0),
        RETRAINED,
        "retraining",
        "docs, Forget records",
        tuple(sentence.format(unit) for sentence in _ANEW),
        tuned_at=at,
        unit=unit,
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
        alone, every = _composed(*once, whole.curve), _composed(*before, _path_of(whole))
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
    own = _path_of(now) if state.requests else now.curve
    return _composed(*earlier_trainings(state), *once, own)


def _path_of(proven: Guarantee) -> TradeOff | None:
    """What all iterates cost, None where that is not known; of a run that shows them all it is the cost."""
    return proven.curve if SHOWN in proven.assumptions else proven.composition


def earlier_trainings(state: SecretState) -> tuple[TradeOff | None, ...]:
    """What the trainings cost, with all models on their paths, that this one took the place of; None for what
    nothing is proven of."""
    earlier = state.facts.get("earlier", ())
    return tuple(None if curve is None else TradeOff.from_dict(curve) for curve in earlier)


def _composed(*curves: TradeOff | None) -> TradeOff | None:
    """What the releases cost together. None where nothing is proven of one."""
    proven = [curve for curve in curves if curve is not None]
    return reduce(TradeOff.compose, proven) if len(proven) == len(curves) else None


def _of_all(release: Guarantee, records: int, unit: Unit) -> Guarantee:
    """What a release costs all that are forgotten together."""
    require(
        release.adjacency == "zero_out" and release.unit == unit,
        "besides",
        f'expected guarantees of {unit}s under "zero_out", as what is forgotten becomes zero, got one of '
        f"a {release.unit} under {release.adjacency!r}",
    )
    return release.for_groups(records)


def _refuse_dear(
    others: Sequence[Guarantee], records: int, epsilon: float, delta: float, advice: str = ""
) -> None:
    """TargetUnreachable where what else was released costs more than the target by itself."""
    if not others:
        return
    curve = reduce(TradeOff.compose, (one.curve for one in others))
    cost = replace(others[0], curve=curve, proof=None).epsilon(delta)
    if not cost < epsilon:
        raise TargetUnreachable(
            f"epsilon = {exact(epsilon)} at delta = {exact(delta)} cannot be met: what was released of the "
            f"records before the training, such as second moments for preconditioning, says of {records} of "
            f"them as much as epsilon = {shown(cost)}, and no step takes it back{advice}",
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
        unit=forgetting.unit,
    )

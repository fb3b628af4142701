"""What a trained run leaves behind for later requests, as bytes. All of it is secret but the description.

It holds no state of a random generator: noise after a request is drawn afresh, and past noise is nowhere.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.account.forgetting import of_those_who_stay
from pabi.describe.files import from_dict, to_dict
from pabi.describe.runs import NoisySGD
from pabi.describe.second_moments import NoisySecondMoments
from pabi.describe.unlearning import Request, Unlearning
from pabi.execute.batches import fits
from pabi.execute.checkpoint import State
from pabi.forgetting.digests import DIGEST_BYTES, DIGEST_KEY_BYTES, Digests
from pabi.guarantees.guarantee import Guarantee
from pabi.numbers.errors import InvalidInput
from pabi.numbers.rounding import Array

FORMAT = "pabi.state.1"
NO_TURN = "none"  # the name of states that were written before they had names
_UPDATE, _PUBLIC = "update_", "public_"  # before the names of arrays of these kinds
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
    """

    rows: tuple[int, ...]
    time: str
    steps: int
    guarantee: Guarantee
    retrained: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The line for JSON.

        Returns
        -------
        dict
            By name; the guarantee as its own file has it.
        """
        written = json.loads(self.guarantee.to_json())
        return {
            "rows": list(self.rows),
            "time": self.time,
            "steps": self.steps,
            "guarantee": written,
            "retrained": self.retrained,
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
        proven = Guarantee.from_json(json.dumps(table["guarantee"]))
        anew = table.get("retrained", False) is True
        return cls(tuple(table["rows"]), table["time"], table["steps"], proven, anew)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SecretState:
    """A trained run as it stands, and what it has forgotten.

    `run`: the training. `walk`: after its last step, as it was before rounding. `start`: where the training
    began. `shown`: the iterate as it was released. `digests`, `digest_key`: of the records. `log`: the
    requests so far. `facts`: what an estimator has to know, for JSON; `arrays`: the same that are arrays.
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
        return tuple(Request(line.steps, len(line.rows)) for line in self.since)

    @property
    def forgettable(self) -> NoisySGD:
        """The training as it forgets: contributions of withdrawn records become zero.

        Raises InvalidInput where the run with that adjacency has other noise.
        """
        run = replace(self.run, adjacency="zero_out")
        if not np.array_equal(run.gradient_noise_std, self.run.gradient_noise_std):
            raise InvalidInput("noise_multiplier", "expected noise that is stated as noise_std")
        return run

    def unlearning(self, steps: int, records: int) -> Unlearning:
        """The forgetting that so many steps more without so many records more make of it."""
        return Unlearning(self.forgettable, [*self.requests, (steps, records)])

    def run_after(self, *further: tuple[int, int]) -> NoisySGD:
        """All steps so far, and those of further requests, as one run of those who stay."""
        requests = [*self.requests, *further]
        if not requests:
            return self.run
        staying = of_those_who_stay(Unlearning(self.forgettable, requests))
        return replace(staying, adjacency=self.run.adjacency)

    @property
    def moments(self) -> NoisySecondMoments | None:
        """The release for preconditioning, None where there is none."""
        table = self.facts.get("moments")
        if table is None:
            return None
        moments = from_dict(table)
        assert isinstance(moments, NoisySecondMoments)
        return moments


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
    arrays: dict[str, Any] = {
        "head": json.dumps(head),
        "x": walk.x,
        "start": state.start,
        "shown": state.shown,
        "digests": state.digests,
        "digest_key": np.frombuffer(state.digest_key, dtype=np.uint8),
    }
    if walk.secret is not None:
        arrays["order"] = walk.secret
    arrays |= {f"{_UPDATE}{i}": array for i, array in enumerate(walk.update)}
    arrays |= {f"{_PUBLIC}{name}": array for name, array in state.arrays.items()}
    np.savez(content, **arrays)
    return content.getvalue()


def read_state(content: bytes) -> SecretState:
    """The state that `written` wrote. Raises InvalidInput naming `state` for anything else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            head = json.loads(str(arrays["head"]))
            if head["format"] != FORMAT:
                raise InvalidInput("state", f"expected one of the format {FORMAT}")
            state = _state(head, {name: np.array(arrays[name]) for name in arrays})
    except _UNREADABLE as bad:
        if isinstance(bad, InvalidInput) and bad.field == "state":
            raise
        raise InvalidInput("state", "expected one that pabi wrote") from None
    if not _possible(state):
        raise InvalidInput("state", "it is one that no run can be in")
    return state


def _state(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SecretState:
    run = from_dict(head["run"])
    if type(run) is not NoisySGD:
        raise InvalidInput("state", "expected one of a run of noisy SGD")
    updates = sum(name.startswith(_UPDATE) for name in arrays)
    return SecretState(
        run=run,
        walk=State(
            head["step"],
            arrays["x"],
            arrays.get("order"),
            tuple(head["assumed"]),
            tuple(arrays[f"{_UPDATE}{i}"] for i in range(updates)),
        ),
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
    )


def _possible(state: SecretState) -> bool:
    """Whether a run can be in it."""
    run, walk = state.run, state.walk
    shapes = {walk.x.shape, state.start.shape, state.shown.shape}
    rows = [row for line in state.log for row in line.rows]
    return (
        walk.step == run.steps + sum(line.steps for line in state.since)
        and len(shapes) == 1
        and all(np.all(np.isfinite(x)) for x in (walk.x, state.start, state.shown))
        and fits(run, walk.secret)
        and state.digests.shape == (run.n, DIGEST_BYTES)
        and len(state.digest_key) == DIGEST_KEY_BYTES
        and len(set(rows)) == len(rows)
        and all(type(row) is int and 0 <= row < run.n for row in rows)
    )

"""Which state is the last one: every state that is written has a random name, and who keeps the names of what
was written last can tell it from older copies, and from states of other models.

A ledger keeps them, in the notes of the releases that it grants: it tells wherever the file lies. Without one
the file beside the state does, which is lost with the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pabi.budget.ledger import Ledger, entries_noting, name_of
from pabi.forgetting.states import SecretState
from pabi.numbers.errors import InvalidInput

_NOTE = "state"  # the key under the notes of an entry


def first_name(ledger: Ledger | None) -> dict[str, Any]:
    """The facts of the first state of a model: its name, and the ledger that knows it."""
    turn = os.urandom(16).hex()
    return {"first": turn, "turn": turn, "ledger": None if ledger is None else name_of(ledger)}


def named_after(state: SecretState, ledger: Ledger | None) -> dict[str, Any]:
    """The facts of the state that takes the place of another; `ledger`: which it is entered in."""
    turn = os.urandom(16).hex()
    owner = state.facts.get("ledger") if ledger is None else name_of(ledger)
    return {"first": state.facts.get("first", turn), "turn": turn, "ledger": owner}


def noted_name(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the entry of a ledger notes of the state that is written after it was granted."""
    return {_NOTE: {name: facts[name] for name in ("first", "turn")}}


def refuse_stale(state: SecretState, ledger: Ledger | None) -> None:
    """Raises InvalidInput unless the ledger that the state was entered in, if any, knows it as the last one.

    One whose release was granted and not committed may have been written or not: either state may be the
    last one then.
    """
    owner = state.facts.get("ledger")
    if owner is None:
        return
    if ledger is None or name_of(ledger) != owner:
        raise InvalidInput(
            "ledger", "expected that of the fit: it tells the last state from older ones"
        )
    possible: list[str] = []
    for note, committed in entries_noting(ledger, _NOTE):
        if isinstance(note, dict) and note.get("first") == state.facts["first"]:
            possible = [*([] if committed else possible), str(note.get("turn"))]
    if state.turn not in possible:
        raise InvalidInput(
            "state",
            "the ledger knows a later one: this is an older copy, or one of another model",
        )

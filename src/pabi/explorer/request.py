"""What a page asks, taken apart; anything odd is one InvalidInput."""

from __future__ import annotations

from typing import Any

from pabi.numbers.errors import InvalidInput


def state_in(request: dict[str, Any], name: str = "state") -> dict[str, Any]:
    """What the controls hold, by their names."""
    state = request.get(name, {})
    if not isinstance(state, dict):
        raise InvalidInput(name, "expected an object")
    return state


def text_in(request: dict[str, Any]) -> str:
    """The text of a file."""
    text = request.get("text")
    if not isinstance(text, str):
        raise InvalidInput("file", "expected a file with text in UTF-8")
    return text.removeprefix("\ufeff")

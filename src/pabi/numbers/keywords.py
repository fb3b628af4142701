"""Keywords of other libraries, answered with what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pabi.numbers.errors import InvalidInput
from pabi.numbers.validate import excerpt

Init = TypeVar("Init", bound=Callable[..., None])


def answering(answers: Mapping[str, str]) -> Callable[[Init], Init]:
    """A decorator of constructors: keywords that are none of theirs raise InvalidInput with their answer.

    `answers`: by keyword, with {} for the value. Names that the constructor has are left to it, and unknown
    ones to Python. The signature stays that of the constructor.
    """

    def decorated(init: Init) -> Init:
        own = inspect.signature(init).parameters
        foreign = {name: answer for name, answer in answers.items() if name not in own}

        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            for name, value in kwargs.items():
                if name in foreign:
                    text = " ".join(excerpt(value).split())
                    raise InvalidInput(name, foreign[name].replace("{}", text))
            init(self, *args, **kwargs)

        return cast("Init", checked)

    return decorated

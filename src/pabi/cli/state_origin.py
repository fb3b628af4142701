"""What a secret state notes of the command that made it; `pabi forget` makes the estimator from it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pabi.cli.reading import read_text
from pabi.numbers.errors import InvalidInput

if TYPE_CHECKING:
    from pabi.cli.schema_file import Schema
    from pabi.execute.state_files import StateFile

_DIGITS = re.compile(r"\s*([0-9a-fA-F]{64})\s*")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A training by `pabi train`: the text of the schema, the model, the target, further arguments, and the
    column of users, if there is one."""

    schema: str
    model: str
    target: str
    arguments: dict[str, Any]
    groups: str | None = None

    def written(self) -> str:
        """As the note of a state."""
        return json.dumps(vars(self))

    @classmethod
    def read(cls, file: str, note: str) -> Origin:
        """What `written` wrote. Raises InvalidInput naming the file of the state."""
        try:
            return cls(**json.loads(note))
        except (ValueError, TypeError):
            raise InvalidInput(
                file,
                "expected a state that pabi train kept: one of a program is for that program",
            ) from None

    @property
    def declared(self) -> Schema:
        """What the schema declares."""
        from pabi.cli.schema_file import schema_of

        return schema_of("the schema", self.schema, self.model)


def state_file(file: str, key_file: str) -> StateFile:
    """The state in a file, with the key in another. Raises InvalidInput."""
    from pabi.execute.state_files import StateFile

    digits = _DIGITS.fullmatch(read_text(key_file, "a key file", most=4096))
    if digits is None:
        raise InvalidInput(
            "--key-file", "expected 64 hexadecimal digits, as of openssl rand -hex 32"
        )
    return StateFile(file, bytes.fromhex(digits[1]))

"""The page of the command line, written from the commands themselves so that no option can be left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

PAGE, MARK = "api/cli", "<!-- the commands -->"


def described(name: str, command: Any) -> Iterator[str]:
    """A command as Markdown: its help, its examples as they are, its arguments and options."""
    yield f"## {name}\n"
    for block in (command.help or "").replace("\b\n", "\b").split("\n\n"):
        if block.startswith("\b"):
            title, _, examples = block[1:].partition("\n")
            lines = [line.removeprefix("  ") for line in examples.split("\n")]
            yield title + "\n\n```bash\n" + "\n".join(lines) + "\n```\n"
        else:
            yield block + "\n"
    rows = [row(p) for p in command.params if not getattr(p, "hidden", False)]
    if rows:
        yield "| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def row(parameter: Any) -> str:
    value = f" {parameter.metavar}" if parameter.metavar else ""
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        names = ", ".join(
            f"`{name}{value}`" for name in (*parameter.opts, *parameter.secondary_opts)
        )
    said = (parameter.help or "").replace("|", "\\|")
    required = " Required." if parameter.required and "Required." not in said else ""
    default = parameter.default
    shown = isinstance(default, str | int | float) and not isinstance(default, bool)
    return f"| {names} | {said}{required}{f' Default: `{default}`.' if shown else ''} |"


def write(app: Sphinx, page: str, source: list[str]) -> None:
    if page != PAGE:
        return
    import typer

    from pabi.cli import app as commands

    group: Any = typer.main.get_command(commands)
    text = [*described("pabi", group)]
    for name, command in group.commands.items():
        text += described(f"pabi {name}", command)
    if MARK not in source[0]:
        raise ValueError(f"{page} has no line {MARK}")
    source[0] = source[0].replace(MARK, "\n".join(text))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

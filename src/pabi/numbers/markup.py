"""Text as HTML: everything is escaped here, so that no sentence of a file can become a tag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def escaped(text: object) -> str:
    """`text` for the content of an element or a quoted attribute, control characters as spaces."""
    return escape("".join(c if c.isprintable() else " " for c in str(text)))


def element(name: str, text: object) -> str:
    """An element with this text, escaped."""
    return f"<{name}>{escaped(text)}</{name}>"


def items(texts: Iterable[object]) -> str:
    """A list, an element for each text."""
    return f"<ul>{''.join(element('li', text) for text in texts)}</ul>"


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    lines = (
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table under a header."""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in header)
    lines = ("".join(element("td", cell) for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(summary: object, content: str) -> str:
    """`content`, which is HTML, shown once a reader asks for it."""
    return f"<details><summary>{escaped(summary)}</summary>{content}</details>"

"""Where the explorer is to be found: a socket of this machine, and an address that has the token.

It loads next to nothing, so that the browser can start while the server is loaded.
"""

from __future__ import annotations

import contextlib
import html
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from pabi.numbers.errors import InvalidInput

LONGEST = 6000  # characters of a query: that of the page's script


def listening(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 is any free one. Raises InvalidInput."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        stream.bind(("127.0.0.1", port))
        stream.listen(128)  # whoever opens the address at once waits, and is not turned away
    except (OSError, OverflowError) as bad:
        stream.close()
        reason = getattr(bad, "strerror", None) or bad
        raise InvalidInput("--port", f"{port} cannot be used: {reason}") from None
    return stream


def address(stream: socket.socket, token: str, query: str = "") -> str:
    """What the browser is given. The token stands after #, which browsers do not send."""
    port = stream.getsockname()[1]
    return f"http://127.0.0.1:{port}/{query and '?'}{query}#token={token}"


@contextlib.contextmanager
def private_page(place: str) -> Iterator[str]:
    """The address of a file that sends a browser to `place`, and that its owner alone can read.

    What a browser is started with is in the list of processes, which every user of the machine can read: the
    token must not be there.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="pabi-explore-", dir=runtime or None) as folder:
        page = Path(folder) / "explore.html"
        page.touch(0o600)
        link = html.escape(place)
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">pabi explore</a>\n',
            encoding="utf-8",
        )
        yield page.as_uri()


def query_of(link: str) -> str:
    """What a link to another explorer sets, as the address of this one has it.

    Parameters
    ----------
    link : str
        The link, or what stands after its question mark.

    Returns
    -------
    str
        Names and texts, encoded anew; whose server it was and its token are left out.

    Raises
    ------
    InvalidInput
        For what names no control of the page, or more than an address can hold.
    """
    from pabi.explorer.controls import names

    before, mark, after = link.strip().partition("#")[0].partition("?")
    pairs = parse_qsl(after if mark else before, keep_blank_values=True)
    if not pairs and not mark:
        raise InvalidInput(
            "--open", f"expected a link to the page, or what follows its ?, got {link!r}"
        )
    for name, _ in pairs:
        if name not in names():
            raise InvalidInput("--open", f"{name!r} is not on the page; expected such as epochs=50")
    query = urlencode(pairs)
    if len(query) > LONGEST:
        raise InvalidInput(
            "--open", f"expected at most {LONGEST} characters; open a run file instead"
        )
    return query

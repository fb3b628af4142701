"""Where the explorer is to be found, and what a link of somebody else sets there."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pabi.cli.explorer.server import LONGEST, address, listening, query_of
from pabi.cli.explorer.state import names
from pabi.numbers.errors import InvalidInput
from support.every_case import every

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(st.dictionaries(st.sampled_from(sorted(names())), TEXTS, min_size=1, max_size=6))
def test_a_link_sets_what_it_set_elsewhere(state):
    query = urlencode(state)
    for link in (query, f"http://127.0.0.1:41235/?{query}#token=abc", f"  ?{query} "):
        assert dict(parse_qsl(query_of(link), keep_blank_values=True)) == state


def test_tokens_hosts_and_lengths_of_addresses():
    assert query_of("http://127.0.0.1:1/?epochs=3#token=secret") == "epochs=3"
    assert query_of("http://127.0.0.1:1/?") == ""
    with pytest.raises(InvalidInput, match="run file"):
        query_of("further=" + "x" * LONGEST)
    with listening(0) as stream:
        port = stream.getsockname()[1]
        assert address(stream, "t") == f"http://127.0.0.1:{port}/#token=t"
        assert address(stream, "t", "n=5") == f"http://127.0.0.1:{port}/?n=5#token=t"
    from pathlib import Path

    import pabi.cli.explorer

    script = Path(pabi.cli.explorer.__file__).parent / "static" / "state.js"
    assert f"LONGEST = {LONGEST};" in script.read_text("utf-8")


@every(
    "link",
    [
        *("", "run.toml", "http://127.0.0.1:1/", "epoch=3", "?__proto__=1"),
        *("epochs=3&<script>=1", "token=x"),
    ],
)
def test_what_is_no_link_of_the_page_is_refused(link):
    with pytest.raises(InvalidInput, match="--open: ") as problem:
        query_of(link)
    assert "\n" not in str(problem.value)

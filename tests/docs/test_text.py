"""The example of texts: a row depends on its text alone, and a private model tells more than chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from support.scripts import load

EXAMPLE = load(Path(__file__).parents[2] / "examples" / "text.py")


def test_a_text_becomes_a_row_by_itself():
    hashed = HashingVectorizer(**EXAMPLE.SETTINGS)
    words = ["Draw a line.", "Solve a linear system.", "Draw a circle.", "x"]
    rows = hashed.transform(words)
    assert np.linalg.norm(rows.toarray(), axis=1).max() <= 1.0 + 1e-12
    alone = np.vstack([hashed.transform([text]).toarray() for text in reversed(words)])
    np.testing.assert_array_equal(rows.toarray()[::-1], alone)


def test_it_tells_more_than_chance(capsys):
    private, bare = EXAMPLE.main()
    out = capsys.readouterr().out
    assert "ε = 1.000" in out
    # Of 1419 texts to test on the larger class has 52 per cent; five standard deviations of chance.
    assert 0.52 + 5 * 0.5 / 1400**0.5 < private <= 1.0
    assert bare > private - 5 * 0.5 / 1400**0.5


def test_no_text_stands_twice_in_a_library(tmp_path, monkeypatch):
    (tmp_path / "__init__.py").write_text(
        'def f():\n    """One.\n\n    Two."""\n\ndef g():\n    """One."""\n'
    )
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(EXAMPLE, "find_spec", lambda _: spec)
    assert EXAMPLE.sentences("any") == ["One."]

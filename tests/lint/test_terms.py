"""How-to pages link a term of the field to the glossary where they first use it."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "howto").glob("*.md"))
TERMS = {
    "iterate": r"\biterates?\b",
    "modulus": r"\bmodul(?:us|i)\b",
    "shift": r"\bshift(?:s|ed)?\b",
    "cool-down": r"\bcool-?downs?\b|cooldown_steps",
}


def first_uses(text: str) -> dict[str, int]:
    """Where each term stands first, in sentences or in what examples print."""
    return {
        term: match.start()
        for term, words in TERMS.items()
        if (match := re.search(words, text, re.I))
    }


def test_terms_are_linked_at_their_first_use():
    for page in PAGES:
        text = page.read_text("utf-8")
        for term, place in first_uses(text).items():
            start = text.rfind("\n\n", 0, place)
            link = text.find(f"(../glossary.md#{term})", start)
            assert link >= 0, f"{page.name}: {term} is not linked"
            end = text.find("\n\n", place)
            assert link < end, f"{page.name}: {term} is used before it is linked"


def test_the_glossary_defines_them():
    glossary = (DOCS / "glossary.md").read_text("utf-8")
    for term in TERMS:
        assert f'<a id="{term}"></a>' in glossary
    assert "iterate" in first_uses("An iterate.")
    assert not first_uses("Nothing of the kind.")

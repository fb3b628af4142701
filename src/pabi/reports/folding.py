"""Sentences that differ in one number as one sentence: what differs between settings or releases."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def folded(sentences: Sequence[str]) -> tuple[str, ...]:
    """The sentences in their order, those that differ in one number alone joined where the first one stands.

    The numbers of a joined sentence stand ascending, as "2, 3 or 5".
    """
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_NUMBER.sub("#", sentence), []).append(sentence)
    return tuple(text for group in alike.values() for text in _joined(group))


def _joined(group: list[str]) -> list[str]:
    """One sentence where the group differs at one place, otherwise the group."""
    columns = list(zip(*map(_NUMBER.findall, group), strict=True))
    different = [place for place, values in enumerate(columns) if len(set(values)) > 1]
    if len(different) != 1:
        return group
    (place,) = different
    *others, last = sorted(columns[place], key=float)
    values = f"{', '.join(others)} or {last}"
    start, end = [match.span() for match in _NUMBER.finditer(group[0])][place]
    return [group[0][:start] + values + group[0][end:]]

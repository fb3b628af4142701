"""The laws of losses from which the checker composes, computed once a process: tests verify them often."""

from __future__ import annotations

import functools

import pytest

from pabi.verification import limits, products

_MOST = 1000  # laws, of some kilobytes each


def laws_once(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone.

    A law is a pure function of a factor, of what may be left out and of a spacing, which are its key. Time is
    checked as in what ships, and an array that is shared cannot be written to. Not for tests that plant a
    mistake in these laws.
    """
    law = functools.lru_cache(_MOST)(products._law)

    def remembered(factor: products.Sampled, tail: float, spacing: float) -> products.Law:
        limits.in_time()
        found = law(factor, tail, spacing)
        for array in (found.y, found.p):
            array.flags.writeable = False
        return found

    patch.setattr(products, "_law", remembered)

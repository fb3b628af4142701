"""What tests ask for very often and what depends on nothing but its arguments, made once a process."""

import functools

import pytest
import typer.main
import typer.testing

from pabi.verification import arithmetic
from pabi.verification.anew import laws, sums
from pabi.verification.factors.mixtures import Sampled

_MOST = 1000  # laws, of some kilobytes each


def laws_once(patch: pytest.MonkeyPatch) -> None:
    """The laws of losses from which the checker composes, until the patch is undone.

    A law is a pure function of a factor, of what may be left out and of a spacing, which are its key. Time is
    checked as in what ships, and an array that is shared cannot be written to. Not for tests that plant a
    mistake in these laws.
    """
    law = functools.lru_cache(_MOST)(laws.law_of)

    def remembered(factor: Sampled, tail: float, spacing: float) -> laws.Law:
        arithmetic.in_time()
        found = law(factor, tail, spacing)
        for array in (found.y, found.p):
            array.flags.writeable = False
        return found

    for module in (laws, sums):
        patch.setattr(module, "law_of", remembered)


def commands_once(patch: pytest.MonkeyPatch) -> None:
    """The command line, which typer otherwise makes anew of its functions for every command that is run."""
    made = functools.cache(typer.main.get_command)
    patch.setattr(typer.main, "get_command", made)
    patch.setattr(typer.testing, "_get_command", made)

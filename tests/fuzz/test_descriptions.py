"""Random descriptions: a guarantee that verifies and is monotone, or one line that says why there is none."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

import pabi
from support.fuzzing import descriptions

ALWAYS = 150
# How many are tried at night; a longer search sets more, such as PABI_DESCRIPTIONS=1000000.
NIGHTLY = int(os.environ.get("PABI_DESCRIPTIONS", "10000"))
PARTS = 20


def check(begin, end):
    outcome = descriptions.tried(range(begin, end))
    assert not outcome["wrong"], "\n".join(outcome["wrong"][:10])
    assert outcome["counted"]["guarantee"] > (end - begin) // 3


def test_a_slice():
    check(0, ALWAYS)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_at_night(part):
    check(NIGHTLY * part // PARTS, NIGHTLY * (part + 1) // PARTS)


def test_what_is_not_monotone_is_noticed(monkeypatch):
    """A run that is passed off as one of more noise, and one that is passed off as longer."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.1),
        n=9,
        batches=pabi.Cyclic(3),
        epochs=2,
        step_size=0.5,
        noise_std=1.0,
    )
    assert descriptions.problem_of(run, 1e-3) is None
    monkeypatch.setattr(descriptions, "more_noise", lambda run: replace(run, noise_std=0.9))
    assert descriptions.problem_of(run, 1e-3).startswith("more noise")
    even = replace(run, n=10)
    monkeypatch.setattr(
        descriptions, "longer", lambda run: replace(run, epochs=1, total_steps=None)
    )
    assert descriptions.problem_of(even, 1e-3).startswith("more epochs")

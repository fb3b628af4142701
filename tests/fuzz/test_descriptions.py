"""Random questions to the accountant: a verified, monotone guarantee, or one line that says why not."""

import os
import zlib
from collections import Counter
from dataclasses import replace

import pytest

import pabi
from support import daily
from support.fuzzing import answers, descriptions
from support.fuzzing.kinds import KINDS, Question, question

ALWAYS, AT_ONCE = 100, 5
# How many are tried at night, others every night; PABI_DESCRIPTIONS=1000000 asks for a long one.
NIGHTLY = int(os.environ.get("PABI_DESCRIPTIONS", "4000"))
PARTS = 10


def check(begin, end):
    outcome = answers.tried(range(begin, end))
    assert not outcome["wrong"], "\n".join(outcome["wrong"][:10])
    return outcome["counted"]["guarantee"]


# Question 2, a group of 4, has a certificate that takes longer to check than verify has by default.
@pytest.mark.parametrize("first", range(AT_ONCE, ALWAYS + AT_ONCE, AT_ONCE))
@pytest.mark.one_in(ALWAYS // AT_ONCE)
def test_a_slice(first):
    check(first, first + AT_ONCE)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_at_night(part):
    first = zlib.crc32(daily.seed().encode())
    begin, end = (first + NIGHTLY * i // PARTS for i in (part, part + 1))
    assert check(begin, end) > (end - begin) // 3


def test_every_kind_is_asked_for():
    asked = Counter()
    for seed in range(2000):
        try:
            asked[question(seed).kind] += 1
        except answers.REFUSALS:
            continue
    assert set(asked) == set(KINDS)


def test_what_is_not_monotone_is_noticed():
    """A run that is passed off as one of more noise, and one that is passed off as longer."""
    given = {"epochs": 2, "step_size": 0.5, "noise_std": 1.0}
    run = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.1), n=10, batches=pabi.Cyclic(3), **given)
    noisy, longer = descriptions.more_noise(run), descriptions.longer(run)
    honest = (("more noise", True, noisy.guarantee), ("more epochs", False, longer.guarantee))
    assert answers.problem_of(Question("run", run.guarantee, honest), 1e-3) is None
    louder = replace(run, noise_std=0.9).guarantee
    shorter = replace(run, epochs=1, total_steps=None).guarantee
    for wrong in (("more noise", True, louder), ("more epochs", False, shorter)):
        problem = answers.problem_of(Question("run", run.guarantee, (wrong,)), 1e-3)
        assert problem.startswith(wrong[0])

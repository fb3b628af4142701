"""What can go wrong, as a caller sees it."""

from __future__ import annotations

import pickle

import pytest

import pabi
from pabi.numbers.errors import InvalidInput, NotApplicable, PrivacyWarning, TargetUnreachable


def test_an_invalid_input_names_its_field():
    error = InvalidInput("step_size", "expected a finite number > 0, got 0.0")
    assert error.field == "step_size"
    assert str(error) == "step_size: expected a finite number > 0, got 0.0"


def test_a_reason_is_the_message():
    error = NotApplicable("the path is released")
    assert error.reason == str(error) == "the path is released"


def test_what_was_reached_comes_with_the_refusal():
    error = TargetUnreachable("no noise_std up to 1e9 gives ε ≤ 0.1", best=0.25)
    assert error.best == 0.25
    assert str(error) == "no noise_std up to 1e9 gives ε ≤ 0.1"


@pytest.mark.parametrize(
    ("error", "caught_by"),
    [
        (InvalidInput("n", "bad"), ValueError),
        (TargetUnreachable("no", best=1.0), ValueError),
        (PrivacyWarning("little"), UserWarning),
    ],
    ids=lambda x: getattr(x, "__name__", type(x).__name__),
)
def test_errors_are_caught_as_pythons_own(error, caught_by):
    assert isinstance(error, caught_by)


def test_what_does_not_apply_is_no_mistake_of_the_caller():
    """Code that catches ValueError for bad input must not swallow that no proof applies."""
    assert not isinstance(NotApplicable("the path is released"), ValueError)


@pytest.mark.parametrize(
    "name", ["InvalidInput", "NotApplicable", "TargetUnreachable", "PrivacyWarning"]
)
def test_errors_have_public_names(name):
    import pabi.numbers.errors as errors

    assert getattr(pabi, name) is getattr(errors, name)


@pytest.mark.parametrize(
    "error", [InvalidInput("n", "bad: 3"), NotApplicable("a reason"), TargetUnreachable("far", 0.5)]
)
def test_errors_survive_a_pool_of_workers(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)

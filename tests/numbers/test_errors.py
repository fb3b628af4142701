"""What can go wrong, as a caller sees it."""

from __future__ import annotations

import pickle

import pabi
from pabi.numbers import errors
from support.every_case import every

NO_NOISE = "no noise_std up to 1e9 gives ε ≤ 0.1"


@every(
    "error, said, attributes, python",
    [
        (errors.InvalidInput("n", "got 0"), "n: got 0", {"field": "n"}, ValueError),
        (errors.NotApplicable("no path"), "no path", {"reason": "no path"}, Exception),
        (errors.TargetUnreachable(NO_NOISE, best=0.25), NO_NOISE, {"best": 0.25}, ValueError),
        (errors.PrivacyWarning("little"), "little", {}, UserWarning),
    ],
)
def test_errors_say_what_is_wrong_and_survive_a_pool_of_workers(error, said, attributes, python):
    assert isinstance(error, python)
    assert getattr(pabi, type(error).__name__) is type(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == said
    assert vars(again) == vars(error)
    assert {name: getattr(again, name) for name in attributes} == attributes


def test_what_does_not_apply_is_no_mistake_of_the_caller():
    """Code that catches ValueError for bad input must not swallow that no proof applies."""
    assert not isinstance(errors.NotApplicable("the path is released"), ValueError)

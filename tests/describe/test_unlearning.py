"""What a description of forgetting holds, and what it refuses."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.describe.accounted import HIDDEN, USERS
from pabi.describe.files import from_dict, to_dict
from pabi.numbers.errors import InvalidInput
from support.every_case import every, refused, refuses

given = {"epochs": 2, "step_size": 0.5, "noise_std": 0.5, "adjacency": "zero_out"}
RUN = pabi.NoisySGD(pabi.Loss.logistic(1.0, l2=0.1), 20, pabi.Cyclic(5), **given)


def test_the_steps_go_on_with_the_last_entries_of_schedules():
    """Unless they are stated."""
    sizes, noises = np.linspace(0.5, 0.1, 8), np.linspace(1.0, 2.0, 8)
    run = replace(RUN, step_size=sizes, noise_std=noises)
    whole = pabi.Unlearning(run, [(3, 1)]).whole
    np.testing.assert_array_equal(whole.step_size, [*sizes, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(whole.noise_std, [*noises, 2.0, 2.0, 2.0])
    stated = pabi.Unlearning(RUN, [(3, 1)], step_size=[0.3, 0.2, 0.1]).whole.step_size
    np.testing.assert_array_equal(stated, [0.5] * 8 + [0.3, 0.2, 0.1])


def test_a_function_of_the_step_is_asked_for_the_later_steps():
    run = replace(RUN, step_size=lambda k: 1.0 / (k + 1))
    unlearning = pabi.Unlearning(run, [(3, 1)])
    expected = 1.0 / np.arange(1.0, 12.0)
    np.testing.assert_array_equal(unlearning.whole.step_size, expected)
    copy = pickle.loads(pickle.dumps(unlearning))  # which knows no function
    np.testing.assert_array_equal(copy.whole.step_size, expected)


def test_a_constant_run_stays_constant():
    whole = pabi.Unlearning(replace(RUN, epochs=10**8), [(3, 1)]).whole
    assert whole.constant
    assert whole.steps == 4 * 10**8 + 3


def test_stages_carry_the_records_of_later_requests():
    stages = pabi.Unlearning(RUN, [(3, 2), (5, 1), (4, 4)]).stages
    seen = [(s.first, s.end, s.carried, s.withdrawn) for s in stages]
    assert seen == [(0, 8, 7, 0), (8, 11, 5, 2), (11, 16, 4, 3)]


def test_what_is_wrong_is_named():
    def forgetting(run=RUN, requests=((3, 1),), **changes):
        return pabi.Unlearning(run, requests, **changes)

    wrong = [[], 3, [(1, 2, 3)], [(1, 12), (1, 9)]]
    table = {"run": ["run"], "step_size": [[0.1], 0.0], "published": [1], "requests": wrong}
    refuses(forgetting, table)
    refused("steps", forgetting, requests=[(-1, 1)])
    refused("steps", forgetting, requests=[(1.5, 1)])
    refused("records", forgetting, requests=[(1, 0)])
    refused("requests", forgetting, replace(RUN, unit="user"), [(1, 21)])
    refused("requests", forgetting, replace(RUN, cooldown_steps=2), [(1, 1), (1, 1)])


def test_what_is_assumed_says_what_is_compared():
    zeroed = pabi.Unlearning(RUN, [(3, 2)]).assumptions
    replaced = pabi.Unlearning(replace(RUN, adjacency="replace_one"), [(3, 2)]).assumptions
    assert "are zero from the first step on" in zeroed[0]
    assert "another one from the first step on" in replaced[0]
    assert "request 1 withdraws 2 of the records, after which 3 steps follow" in zeroed
    assert any("does not depend on the noise" in sentence for sentence in zeroed)


@every(
    ("adjacency", "compared"),
    [
        ("zero_out", "the contributions of the forgotten users are zero"),
        ("replace_one", "the records of each of the forgotten users are others, or none"),
    ],
)
def test_a_run_of_users_forgets_users(adjacency, compared):
    run = replace(RUN, unit="user", adjacency=adjacency)
    unlearning = pabi.Unlearning(run, [(3, 2)])
    assert unlearning.unit == "user"
    assert compared in unlearning.assumptions[0]
    assert USERS in unlearning.assumptions
    assert (
        "request 1 withdraws 2 of the users, after which 3 steps follow" in unlearning.assumptions
    )
    assert from_dict(to_dict(unlearning)) == unlearning
    # What else is assumed is what the training assumes, but for what is compared and who may look on.
    of_run = set(run.assumptions)
    assert of_run - set(unlearning.assumptions) == {run.assumptions[0], HIDDEN}
    with pytest.raises(InvalidInput, match="at most n = 20 users in all, got 21"):
        pabi.Unlearning(run, [(1, 21)])

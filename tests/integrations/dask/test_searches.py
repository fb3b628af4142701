"""A search on a cluster is the search on this machine, and leaves no more of its trials."""

import logging

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import pabi
from pabi.integrations.dask import fit_search
from pabi.integrations.dask.tasks import trusted
from pabi.learn import PrivateLogisticRegression, PrivateRanges, PrivateSearchCV, search
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from pabi.tradeoff.guarantee import TESTING
from support.clusters import assert_forgotten
from support.computed_once import computed_once

DELTA = 1e-5
SECRET = "4321.125"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Plans take most of the time, and are the same everywhere."""
    computed_once(monkeypatch)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X[:, 0] + 0.2 * rng.normal(size=n) > 0.0).astype(int)


X, Y = table(3000)
PUBLIC = dict(zip(("X_public", "y_public"), table(100, 9), strict=True))


def logistic(**fields):
    fixed = {"batches": pabi.FullBatch(), "epochs": 3, "precondition": None, "classes": [0, 1]}
    return PrivateLogisticRegression(adjacency="zero_out", **fixed, **fields)


def described(estimator=None, settings=None, **fields):
    stated = {"epsilon": 4.0, "delta": DELTA, "mean_trials": 6.0, "shape": 1.0} | fields
    own = {"clip_norm": [0.1, 0.5]} if settings is None else settings
    return PrivateSearchCV(logistic() if estimator is None else estimator, own, **stated)


def in_a_pipeline():
    ranges = PrivateRanges(0.8, 1e-6, adjacency="zero_out")
    settings = {"privatelogisticregression__clip_norm": [0.1, 0.5]}
    return described(make_pipeline(ranges, logistic()), settings)


CASES = {
    "public scores": (described, PUBLIC),
    "private scores": (lambda: described(validation_share=0.3), {}),
    "users": (
        lambda: described(logistic(users=100), validation_share=0.3),
        {"groups": np.arange(3000) % 100},
    ),
    "pipeline": (in_a_pipeline, PUBLIC),
}


def coefficients(model):
    return getattr(model, "steps", [(None, model)])[-1][1].coef_


@pytest.mark.parametrize("case", CASES)
def test_a_search_is_that_on_this_machine(client, case):
    """Over numbers of trials from one to more than are asked for at once."""
    make, options = CASES[case]
    for seed in range(4):
        here, there = (make().set_params(random_state=seed) for _ in range(2))
        here.fit(X, Y, **options)
        assert fit_search(there, X, Y, client=client, **options) is there
        assert there.best_params_ == here.best_params_
        one, other = coefficients(there.best_estimator_), coefficients(here.best_estimator_)
        assert np.max(np.abs(one - other)) <= 1e-12 * np.max(np.abs(other))
        assert vars(there).keys() == vars(here).keys()  # nothing else is kept
    assert_forgotten(client)


def test_noise_is_fresh_and_the_guarantee_has_one_assumption_more(client, caplog, capfd):
    """Nobody is told how many trials there were."""
    with caplog.at_level(logging.DEBUG, "pabi"):
        several = [fit_search(described(), X, Y, client=client, **PUBLIC) for _ in range(3)]
    assert "trial" not in caplog.text + "".join(capfd.readouterr())
    assert len({one.best_estimator_.coef_[0, 0] for one in several}) == 3
    there, here = several[0], described().fit(X, Y, **PUBLIC)
    assert there.guarantee_.curve == here.guarantee_.curve
    (more,) = set(there.guarantee_.assumptions) - set(here.guarantee_.assumptions)
    assert more.startswith(trusted("records, hidden iterates, and all trials"))
    assert there.best_estimator_.guarantee_ is there.guarantee_
    assert TESTING not in there.guarantee_.assumptions
    assert there.best_estimator_.random_state is None


def test_the_budget_is_reserved_once_and_here(client, tmp_path, monkeypatch):
    ledger = pabi.Ledger(tmp_path / "ledger.jsonl", epsilon=8.0, delta=1e-3, order=8.0)

    def travels(self):
        raise AssertionError("the ledger left this machine")

    monkeypatch.setattr(pabi.Ledger, "__reduce_ex__", lambda self, protocol: travels(self))
    charged = described(ledger=ledger)
    fit_search(charged, X, Y, client=client, **PUBLIC)
    assert charged.ledger is ledger
    assert len(ledger.report().entries) == 1
    monkeypatch.setattr("pabi.integrations.dask.tasks.Cluster.results", None)
    with pytest.raises(BudgetExceeded):
        fit_search(described(ledger=ledger, epsilon=20.0), X, Y, client=client, **PUBLIC)


def test_a_failing_trial_is_one_line_and_shows_nothing(client, caplog, capfd):
    def tells(model, X, y):
        raise ValueError(SECRET)

    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidInput) as no:
        fit_search(described(scoring=tells), X, Y, client=client, **PUBLIC)
    assert str(no.value) == "client: a worker failed: ValueError"
    assert SECRET not in caplog.text + "".join(capfd.readouterr())
    assert_forgotten(client)
    with pytest.raises(InvalidInput, match="^search: expected a PrivateSearchCV, got a PrivateLog"):
        fit_search(logistic(), X, Y, client=client)


def test_a_trial_is_a_function_of_its_ticket(monkeypatch):
    """So that it may be made again; without a random state, too."""
    trials = []
    call = search._Trials.__call__

    def twice(self, ticket):
        trials.append([call(self, ticket) for _ in range(2)])
        return trials[-1][0]

    monkeypatch.setattr(search._Trials, "__call__", twice)
    make, options = CASES["private scores"]
    make().fit(X, Y, **options)
    in_a_pipeline().fit(X, Y, **PUBLIC)
    for one, other in trials:
        assert one.score == other.score
        assert np.array_equal(coefficients(one.model), coefficients(other.model))
    assert len({coefficients(one.model)[0, 0] for one, _ in trials}) == len(trials)

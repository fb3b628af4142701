"""Scores of private records: those of scikit-learn, moved by one record or user by no more than is said."""

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score

import pabi
from pabi import learn
from pabi.execute.sums import UserRows
from pabi.learn.private_scores import LEAST_PROBABILITY, SCORES
from support.every_case import every, refused

CHANGED = {"zero_out": 1, "replace_one": 2}


class Model:
    """Two classes, 0 and 1; a row is the probability of the second one."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.column_stack([1.0 - np.asarray(X), X])

    def predict(self, X):
        return (np.asarray(X) > 0.5).astype(int)


def exact(name, X, labels, users=None, adjacency="zero_out"):
    held = np.empty(len(labels), dtype=object)
    held[:] = labels
    return SCORES[name].exact(Model(), np.asarray(X, dtype=float), held, users, adjacency)


@every("adjacency", CHANGED)
def test_they_are_those_of_scikit_learn(adjacency):
    rng = np.random.default_rng(0)
    X, y = rng.integers(1, 100, 400) / 100.0, (rng.random(400) < 0.1).astype(int)
    hard, held = Model().predict(X), list(y)
    pairs = CHANGED[adjacency] * 400**2 / (2.0 * y.sum() * (400 - y.sum()))
    loss = -math.log(LEAST_PROBABILITY) * (1.0 - exact("neg_log_loss", X, held))
    area, balanced = (
        0.5 + pairs * exact(name, X, held, adjacency=adjacency)
        for name in ("roc_auc", "balanced_accuracy")
    )
    assert exact("accuracy", X, held) == accuracy_score(y, hard)
    assert loss == pytest.approx(log_loss(y, np.clip(X, 0.01, 0.99)), rel=1e-8)
    assert area == pytest.approx(roc_auc_score(y, X), rel=1e-12)
    assert balanced == pytest.approx(balanced_accuracy_score(y, hard), rel=1e-12)


def farthest(name, adjacency, pairs, n):
    """How far apart the scores of two data sets are at most, in units of 1/n."""
    scores = (
        [exact(name, *zip(*rows, strict=True), users, adjacency) for rows, users in pair]
        for pair in pairs
    )
    return max(abs(one - other) for one, other in scores) * n


# What a record may be: its probability, and its label. One that is neither 0 nor 1 counts as zeroed.
RECORDS = [*itertools.product((0.2, 0.5, 0.7), (0, 1)), (math.nan, 1), (0.7, "other")]


@every("name", SCORES)
@every("adjacency", CHANGED)
def test_no_record_moves_a_score_by_more_than_is_said(name, adjacency):
    """All data sets of three records, and all their neighbours."""
    pairs = []
    for others in itertools.product(RECORDS, repeat=2):
        for one, other in itertools.combinations(RECORDS, 2):
            if adjacency == "replace_one" or "other" in (one[1], other[1]):
                pairs.append((((one, *others), None), ((other, *others), None)))
    attained = 2.0 / 3.0 if SCORES[name].pairs else 0.9  # of three records two are others
    if (name, adjacency) == ("balanced_accuracy", "replace_one"):
        attained /= 2.0  # of two values one is above, and none below as well
    assert attained <= farthest(name, adjacency, pairs, 3) + 1e-9 <= 1.0 + 1e-9


# What a user may be: up to two records.
ROWS = list(itertools.product((0.2, 0.7), (0, 1)))
USERS = [(), *((row,) for row in ROWS), *itertools.combinations_with_replacement(ROWS, 2)]


@every("name", SCORES)
@every("adjacency", CHANGED)
def test_no_user_moves_a_score_by_more_than_is_said(name, adjacency):
    """Three users with up to two rows each; one of them is changed, and may lose all rows."""

    def rows_of(users):
        rows = [row for user in users for row in user]
        ids = [k for k, user in enumerate(users) for _ in user]
        return rows, UserRows.of(np.array(ids), np.arange(3))

    rng, pairs = np.random.default_rng(1), []
    for _ in range(400):
        two = [USERS[k] for k in rng.integers(1, len(USERS), 2)]
        one, other = (USERS[k] for k in rng.choice(len(USERS), 2, replace=False))
        other = () if adjacency == "zero_out" else other
        if one != other:
            pairs.append((rows_of([one, *two]), rows_of([other, *two])))
    assert 0.3 <= farthest(name, adjacency, pairs, 3) <= 1.0


@every("adjacency", CHANGED)
def test_the_only_positive_attains_the_bound_but_for_itself(adjacency):
    """Above all negatives against below all of them, or against no record."""
    n, others = 50, [(0.5, 0)] * 49
    label = 1 if adjacency == "replace_one" else None
    pair = [((row, *others), None) for row in ((0.9, 1), (0.1, label))]
    assert farthest("roc_auc", adjacency, [pair], n) == pytest.approx((n - 1) / n)


@every("adjacency", CHANGED)
@every("unit", ["record", "user"])
def test_what_its_release_costs(adjacency, unit):
    release = pabi.NoisyAccuracy(300, 0.01, adjacency, unit, pairs=True)
    guarantee = release.guarantee(1e-5)
    assert guarantee.mu == pytest.approx(1.0 / 3.0, rel=1e-12)
    assert any("pairs of a positive and a negative" in one for one in guarantee.assumptions)
    assert release.assumptions != pabi.NoisyAccuracy(300, 0.01, adjacency, unit).assumptions


TWO = learn.PrivateLogisticRegression(classes=[0, 1])


@every(
    ("scoring", "told"),
    [("roc_auc", "AUC"), ("balanced_accuracy", "balanced"), ("neg_log_loss", "log-loss")],
)
def test_a_search_scores_by_it(scoring, told):
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.5, 0.5, size=(1500, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=1500) > 0.4).astype(int)
    stated = {"epsilon": 2.0, "delta": 1e-5, "validation_share": 0.3, "scoring": scoring}
    grid = {"clip_norm": [0.3, 0.6], "precondition": [None]}
    search = learn.PrivateSearchCV(TWO, grid, mean_trials=2.0, **stated)
    search.fit(X, y, groups=np.arange(1500) // 2)
    assert pabi.verify(search.guarantee_).ok
    assert search.guarantee_.epsilon(1e-5) <= 2.0
    assert search.guarantee_.unit == "user"
    assert told in str(search.plan_)


@every(
    ("estimator", "scoring", "told"),
    [
        (TWO, "f1", "classifiers, by accuracy, balanced"),
        (learn.PrivateLinearRegression(target_range=(0, 1)), "roc_auc", "score classifiers"),
        (learn.PrivateLogisticRegression(classes=[0, 1, 2]), "roc_auc", "two classes, got 3"),
        (learn.PrivateLinearSVC(classes=[0, 1]), "neg_log_loss", "probabilities, which a PrivateL"),
    ],
)
def test_other_scores_are_refused(estimator, scoring, told):
    stated = {"epsilon": 1.0, "delta": 1e-5, "validation_share": 0.3, "scoring": scoring}
    search = learn.PrivateSearchCV(estimator, {"l2": [0.0]}, **stated)
    assert told in refused("scoring", search.fit, np.zeros((60, 2)), [0, 1] * 30)

"""Estimators that protect users, and weights up to a declared largest."""

import inspect
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline, make_union

import pabi
from pabi.execute.linear_gradients import LinearGradients
from pabi.learn import (
    PrivateImputer,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateScaler,
    PrivateSearchCV,
    PrivateWhitener,
    SchemaEncoder,
    guarantee_of,
    id_columns,
)
from pabi.learn.plans import ENROLLED, MOST_WEIGHT
from pabi.learn.schema import sample_weights
from support.estimators import ALL
from support.every_case import every, refused

RNG = np.random.default_rng(1)
M, USERS, DELTA = 400, 130, 1e-3
X = RNG.uniform(-0.5, 0.5, size=(M, 3))
Y = (X[:, 0] + 0.1 * RNG.normal(size=M) > 0.0).astype(int)
IDS = RNG.integers(0, 100, size=M)


@every("estimator", ALL)
def test_n_counts_users_in_every_default(estimator):
    """Planned as for so many records, with a little more noise: for users nothing is paid in advance."""
    model = estimator(2.0, DELTA, users=USERS, random_state=0).fit(X, Y, groups=IDS)
    arguments = (2,) if hasattr(model, "classes_") else ()
    plan = estimator(2.0, DELTA).plan(USERS, 3, *arguments)
    by_user = estimator(2.0, DELTA).plan(USERS, 3, *arguments, unit="user")
    for run in (model.run_, by_user.run):
        assert (run.n, run.unit) == (USERS, "user")
        assert run.batches == plan.run.batches
        least = plan.run.gradient_noise_std
        assert least <= run.gradient_noise_std == by_user.run.gradient_noise_std < 1.1 * least
        assert np.array_equal(run.step_size, plan.run.step_size)
    assert model.guarantee_.unit == by_user.guarantee.unit == "user"
    assert model.guarantee_.epsilon(DELTA) == by_user.guarantee.epsilon(DELTA) <= 2.0
    assert ENROLLED not in model.guarantee_.assumptions
    assert f"{USERS} users" in str(by_user)


def test_secret_noise_is_certified_for_users():
    model = PrivateLogisticRegression(20.0, DELTA, users=USERS, precondition=0.3)
    verdict = pabi.verify(model.fit(X, Y, groups=IDS).guarantee_)
    assert (verdict.ok, verdict.unit) == (True, "user")
    assert (model.moments_.n, model.moments_.unit) == (USERS, "user")
    again = pabi.Guarantee.from_json(model.guarantee_.to_json())
    assert (again.unit, again.epsilon(DELTA)) == ("user", model.guarantee_.epsilon(DELTA))
    model = PrivateLogisticRegression(2.0, DELTA, random_state=0).fit(X, Y, groups=IDS)
    assert model.run_.n == len(set(IDS.tolist()))
    assert ENROLLED in model.guarantee_.assumptions
    model.set_params(users=USERS, batches=pabi.ShuffleOnce(30))  # of users
    assert model.fit(X, Y, groups=IDS.astype(str)).run_.steps_per_epoch == 5
    whitener = PrivateWhitener(20.0, DELTA, users=USERS).fit(X, groups=IDS)
    assert (whitener.moments_.n, whitener.guarantee_.unit) == (USERS, "user")


def test_a_user_weighs_as_much_as_another():
    """One user with 380 rows of the wrong label against 20 of the right one, almost without noise."""
    right = X[:20]
    labels = np.concatenate([(right[:, 0] > 0).astype(int), (X[20:, 0] <= 0).astype(int)])
    ids = np.concatenate([np.arange(20), np.full(380, 20)])
    settings = {"delta": DELTA, "noise_std": 1e-4, "epochs": 200, "clip_norm": None}
    settings["random_state"] = 0
    by_user = PrivateLogisticRegression(1.0, **settings).fit(X, labels, groups=ids)
    by_row = PrivateLogisticRegression(1.0, **settings).fit(X, labels)
    assert by_user.coef_[0, 0] > 0.0 > by_row.coef_[0, 0]


def prepared(**changes):
    """A pipeline whose preparation learns: side by side, in a pipeline of their own and in a union."""
    scaled = make_pipeline(PrivateImputer(30.0, DELTA), PrivateRanges(30.0, DELTA))
    both = make_union(PrivateWhitener(30.0, DELTA), PrivateScaler(30.0, DELTA))
    beside = make_column_transformer((scaled, [0]), (both, [1, 2]))
    return make_pipeline(beside, PrivateLogisticRegression(30.0, DELTA, classes=[0, 1], **changes))


def test_groups_reach_every_step_by_routing():
    pipeline = prepared()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline.fit(X, Y, groups=IDS)
    whole = guarantee_of(pipeline)
    verdict = pabi.verify(whole)
    assert (verdict.ok, verdict.unit, whole.unit) == (True, "user", "user")
    assert ENROLLED in whole.assumptions
    assert np.shape(pipeline.predict(X)) == (M,)


def test_steps_that_count_records_are_refused_with_those_that_count_users():
    pipeline = make_pipeline(PrivateRanges(30.0, DELTA), PrivateLogisticRegression(30.0, DELTA))
    pipeline.fit(X, Y, privatelogisticregression__groups=IDS)
    assert "expected 'record' throughout, got 'user' too" in refused("unit", guarantee_of, pipeline)
    both = {f"{name}__groups": IDS for name, _ in pipeline.steps}
    assert guarantee_of(pipeline.fit(X, Y, **both)).unit == "user"
    for estimator in (PrivateLogisticRegression(users=USERS), PrivateWhitener(users=USERS)):
        assert "missing" in refused("groups", estimator.fit, X, Y)
    refused("groups", PrivateLogisticRegression(2.0, DELTA).fit, X, Y, groups=IDS[1:])


def test_a_search_of_a_pipeline_hands_users_on():
    space = {"privatelogisticregression__epochs": [5.0]}
    total = {"epsilon": 200.0, "delta": 0.01, "mean_trials": 2.0, "validation_share": 0.25}
    search = PrivateSearchCV(prepared(users=USERS), space, random_state=1, **total)
    search.fit(X, Y, groups=IDS)
    trained = USERS - round(0.25 * USERS)
    best = search.best_estimator_
    assert search.guarantee_.unit == guarantee_of(best).unit == "user"
    assert search.guarantee_.epsilon(0.01) <= 200.0
    assert best[-1].run_.n == trained
    ranges = best[0].named_transformers_["pipeline"][-1]
    assert [release.n for release in ranges.releases_] == [trained]


@every("estimator", ALL)
def test_metadata_are_requested_by_name(estimator):
    with sklearn.config_context(enable_metadata_routing=True):
        requests = estimator().set_fit_request(sample_weight=False).get_metadata_routing()
    own = {"groups": True, "sample_weight": False, "keep_state": None}
    assert requests.fit.requests == own
    assert inspect.signature(estimator.fit).parameters["groups"].kind.name == "KEYWORD_ONLY"


def test_weights_are_divided_by_the_declared_largest(monkeypatch):
    seen, weighted = [], LinearGradients.weighted
    kept = lambda self, w: (seen.append(w.array), weighted(self, w))[1]  # noqa: E731
    monkeypatch.setattr(LinearGradients, "weighted", kept)
    stated = RNG.uniform(0.0, 4.0, size=M)
    own = {"max_sample_weight": 4.0, "class_weight": {0: 1.0, 1: 0.5}, "users": USERS}
    model = PrivateLogisticRegression(2.0, DELTA, random_state=0, **own)
    model.fit(X, Y, groups=IDS, sample_weight=stated)
    assert seen[0] == pytest.approx(stated / 4.0 * np.where(Y == 1, 0.5, 1.0))
    assert MOST_WEIGHT in model.guarantee_.assumptions
    plain = PrivateLogisticRegression(2.0, DELTA).plan(USERS, 3, 2).guarantee.epsilon(DELTA)
    assert model.guarantee_.epsilon(DELTA) == pytest.approx(plain, rel=1e-9)


def test_a_row_of_weight_zero_is_not_learnt_from_and_weights_have_a_largest():
    settings = {"delta": DELTA, "noise_std": 1e-3, "max_sample_weight": 1.0, "random_state": 0}
    flipped = np.where(np.arange(M) < 300, 1 - Y, Y)
    weights = np.where(np.arange(M) < 300, 0.0, 1.0)
    one = PrivateLogisticRegression(1.0, **settings).fit(X, flipped, sample_weight=weights)
    other = PrivateLogisticRegression(1.0, **settings).fit(X, Y, sample_weight=weights)
    assert one.coef_ == pytest.approx(other.coef_, abs=1e-12)
    assert sample_weights(None, 2.0, 3) is None
    assert sample_weights([0.0, 1.0, 7.0], 2.0, 3).array.tolist() == [0.0, 0.5, 1.0]


@every("estimator", [PrivateLogisticRegression, PrivateLinearRegression])
def test_wrong_weights_are_refused(estimator):
    for most in (None, 0.0):
        fit = estimator(max_sample_weight=most).fit
        refused("max_sample_weight", fit, X, Y, sample_weight=np.ones(M))
    for bad in (-np.ones(M), np.full(M, np.nan), np.ones(M - 1), ["a"] * M):
        refused("sample_weight", estimator(max_sample_weight=1.0).fit, X, Y, sample_weight=bad)


NAMES_OF_IDS = """
id ID Id patient Patient patient_id patientId patientid PatientID userID user-no customer.key ids
customers_number id_patient email e-mail contact_email ssn MRN uuid member_hash household
account_number case_id studentid voter_id
"""
OTHER_NAMES = """
_ age humid paid covid grid width idle video valid patient_age user_rating customer_type number key
name code income citizen student donor personality emails_sent subject_count x0 capital-gain
native-country
"""


def test_names_of_ids_are_told_once_in_order():
    for name in (*NAMES_OF_IDS.split(), "user name", "email address", "social security number"):
        assert id_columns([name]) == (name,)
    for name in (*OTHER_NAMES.split(), "", 3, None, 2.5, ("id",)):
        assert id_columns([name]) == (), name
    assert id_columns(["a", "user", 3, "id", "user"]) == ("user", "id")
    encoder = SchemaEncoder({"a": {"kind": "numeric", "range": [0, 1]}})
    for table in ({"a": [0.5], "user_id": [1]}, {"a": [0.5, 0.1], "user_id": [7, 7]}):
        with pytest.warns(UserWarning, match="^has anybody several rows. user_id looks like an id"):
            encoder.fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.fit({"a": [0.5], "b": [1]})

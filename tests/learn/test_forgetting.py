"""Estimators that forget: what they promise, what they take, and what they refuse."""

import json
import math
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import pabi
from pabi import learn
from pabi.describe.unlearning import Unlearning
from pabi.execute import engine
from pabi.execute.states import SecretState
from pabi.learn import forgetting, plans
from pabi.numbers.errors import InvalidInput, NotApplicable, TargetUnreachable
from support.estimators import each_estimator
from support.every_case import every, refused
from support.forgetting import DELTA, TARGET, D, N, X, Y, put_back, that_forgets


def estimator(kind=learn.PrivateLogisticRegression, **changes):
    return that_forgets(kind, 5.0, **({"l2": 0.1} | changes))


def fitted(file, kind=learn.PrivateLogisticRegression, **changes):
    return estimator(kind, **changes).fit(X, Y, keep_state=file)


def new_file(folders):
    return learn.StateFile(folders.mktemp("state") / "s", learn.StateFile.new_key())


GONE = {"delta": DELTA, "accept_loss": True}  # how most requests are made


def forgotten(model, rows, file, target=TARGET, table=X, labels=Y, **changes):
    return model.forget(table, labels, rows, target, state=file, **GONE | changes)


def promised(run, *requests):
    """ε of a run with requests of (steps, records)."""
    whole = replace(run, adjacency="zero_out")
    return Unlearning(whole, requests).guarantee(DELTA).epsilon(DELTA)


@each_estimator
def test_every_estimator_forgets(kind, file):
    # Relative residuals up to 3, as they are else, cost more than this target.
    narrow = {"residual_bound": 0.5} if kind is learn.PrivateGammaRegressor else {}
    model = fitted(file, kind, **narrow)
    newer = forgotten(model, [3, 4], file)
    proven = newer.unlearning_guarantee_
    assert proven.adjacency == "retrained"
    assert proven.epsilon(DELTA) <= TARGET
    assert np.shape(newer.coef_) == np.shape(model.coef_)
    assert not np.array_equal(newer.coef_, model.coef_)
    assert np.shape(newer.predict(X[:5])) == np.shape(model.predict(X[:5]))
    assert not hasattr(model, "unlearning_guarantee_")
    assert newer.guarantee_.epsilon(DELTA) >= 0.99 * model.guarantee_.epsilon(DELTA)
    for guarantee in (proven, newer.guarantee_):
        assert pabi.verify(guarantee.to_json()).ok


@pytest.mark.parametrize("far", [1e-9, math.inf])
def test_a_retrained_model_sees_rows_as_the_first_did(far, file, monkeypatch):
    """Whatever a later rule would choose."""
    monkeypatch.setattr(plans, "FAR", far)
    model = fitted(file, precondition=0.3)
    assert model.linear_predictor_ == (far < 1.0)
    monkeypatch.setattr(plans, "FAR", 1e-9 if far > 1.0 else math.inf)
    newer = model.forget(X, Y, [3, 4], TARGET, DELTA, state=file, retrain=True)
    assert newer.linear_predictor_ == model.linear_predictor_


def test_requests_add_up(file):
    model = fitted(file)
    first = forgotten(model, [3, 4], file)
    second = forgotten(first, [9], file)
    one, two = file.requests()
    assert (one.rows, two.rows, one.time <= two.time) == ((3, 4), (9,), True)
    run = replace(model.run_, adjacency="zero_out")
    assert first.run_.adjacency == model.run_.adjacency == "replace_one"
    epochs = max(1, run.epochs_to_forget(TARGET, DELTA, 2))
    assert one.steps == model.run_.steps_per_epoch * epochs
    assert first.n_iter_ == model.n_iter_ + one.steps == first.run_.steps
    assert first.unlearning_guarantee_.epsilon(DELTA) == promised(run, (one.steps, 2))
    truth = promised(run, (one.steps, 2), (two.steps, 1))
    assert second.unlearning_guarantee_.epsilon(DELTA) == truth <= TARGET
    again = learn.ForgottenRequest.from_dict(json.loads(json.dumps(one.to_dict())))
    assert (again.rows, again.steps, again.time) == (one.rows, one.steps, one.time)


@every("batches", [pabi.Reshuffle(50), pabi.BallsInBins(50, redraw="epoch")])
def test_orders_that_are_drawn_every_epoch(batches, tmp_path_factory):
    """The one in force lies in the file, and the steps that follow go on from it."""
    file = new_file(tmp_path_factory)
    model = fitted(file, batches=batches)
    newer = forgotten(model, [3, 4], file)
    assert newer.n_iter_ == model.n_iter_ + file.requests()[0].steps
    assert newer.n_iter_ % model.run_.steps_per_epoch == 0


def test_forgotten_records_have_no_say(file, monkeypatch):
    """With the noise of a list, what stands in forgotten rows does not change the model by a bit."""
    forgotten(fitted(file), [20], file)
    content = Path(file.path).read_bytes()

    def end(value, rows):
        """The coefficients after these rows were forgotten too, in a table that has this value there."""
        monkeypatch.setattr(engine, "secret_generator", lambda: np.random.default_rng(3))
        put_back(file, content)
        table, labels = X.copy(), Y.astype(float)
        table[[*rows, 20]], labels[[rows[0], 20]] = value, value
        return forgotten(estimator(), rows, file, table=table, labels=labels).coef_

    models = [end(value, [3, 4]) for value in (0.0, 0.5, -1e9, np.nan, np.inf)]
    assert all(np.array_equal(model, models[0]) for model in models)
    assert not np.array_equal(end(0.0, [3, 5]), models[0])  # another record less, another model


@pytest.mark.parametrize("retrain", [False, True])
def test_a_seed_is_never_used_again(file, retrain):
    """Noise is the system's when records are forgotten, or the difference of two models had none."""
    model = fitted(file, random_state=3)
    content, ends = Path(file.path).read_bytes(), []
    for _ in range(2):
        put_back(file, content)
        ends.append(forgotten(model, [3], file, retrain=retrain, accept_loss=not retrain))
    assert not np.any(ends[0].coef_ == ends[1].coef_)
    assert ends[0].random_state == 3
    assert any("test" in a for a in ends[0].unlearning_guarantee_.assumptions)
    assert ends[0].unlearning_guarantee_.certificate is None


@pytest.mark.parametrize("form", [csr_matrix, pd.DataFrame, np.asarray], ids=lambda f: f.__name__)
def test_tables_of_every_form(form, file):
    named = form is pd.DataFrame
    table, blank = form(X), form(np.where(np.arange(N)[:, None] == 7, 0.0, X))
    if named:
        table.columns = blank.columns = list("abc")
        blank = blank.astype(object)
        blank.iloc[7] = ""
    newer = forgotten(estimator().fit(table, Y, keep_state=file), [7], file, table=blank)
    assert newer.n_features_in_ == D
    assert hasattr(newer, "feature_names_in_") is named
    newer.predict(table)


def test_labels_of_text_may_be_blank(file):
    labels = np.where(Y == 1, "yes", "no")
    model = estimator(classes=["no", "yes"]).fit(X, labels, keep_state=file)
    blank = labels.astype(object)
    blank[[3, 4]] = ["", None]
    newer = forgotten(model, [3, 4], file, labels=blank)
    assert newer.classes_.tolist() == ["no", "yes"]
    assert set(newer.predict(X)) <= {"no", "yes"}


def test_weights_of_classes_and_records(file):
    weights = np.random.default_rng(6).random(N)
    changes = {"class_weight": {0: 1.0, 1: 0.5}, "max_sample_weight": 1.0}
    model = estimator(**changes).fit(X, Y, sample_weight=weights, keep_state=file)
    assert "expected the table of the fit" in refused("X", forgotten, model, [3], file)
    weights[3] = np.nan
    newer = forgotten(model, [3], file, sample_weight=weights)
    assert newer.unlearning_guarantee_.epsilon(DELTA) <= TARGET


def test_the_model_of_a_state_is_the_one_that_was_released(file):
    model, before = fitted(file), Path(file.path).read_bytes()
    assert " exists" in refused("keep_state", fitted, file)
    assert Path(file.path).read_bytes() == before
    assert np.array_equal(estimator().restored(file).coef_, model.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        newer = forgotten(
            model.set_params(verbose=False, strict=True), [3], file
        )  # changes nothing
    again = estimator().restored(file)
    assert np.array_equal(again.coef_, newer.coef_)
    assert np.array_equal(again.intercept_, newer.intercept_)
    for name in ("guarantee_", "unlearning_guarantee_"):
        one, other = getattr(again, name), getattr(newer, name)
        assert one.epsilon(DELTA) == other.epsilon(DELTA)
        assert one.assumptions == other.assumptions


def test_second_moments_are_counted_for_the_whole_group(file):
    """Preconditioning saw the rows: of two forgotten records the promise has twice the μ of its release."""
    changes = {"precondition": 0.1, "epochs": 8, "step_size": "auto"}
    model = fitted(file, **changes)
    with pytest.raises(TargetUnreachable, match="second moments for preconditioning"):
        forgotten(model, list(range(50)), file, 0.1)
    assert file.requests() == ()
    newer = forgotten(estimator(**changes), [3, 4], file, 6.0)
    noise = model.moments_.moment_noise_std
    moments = replace(model.moments_, adjacency="zero_out", noise_std=noise).guarantee(DELTA)
    [line] = file.requests()
    run = replace(model.run_, adjacency="zero_out")
    alone = Unlearning(run, [(line.steps, 2)]).guarantee(DELTA)
    both = alone.curve.compose(moments.for_groups(2).curve)
    proven = newer.unlearning_guarantee_
    assert moments.for_groups(2).mu == pytest.approx(2 * moments.mu)
    assert proven.delta(1.0) == replace(alone, curve=both, proof=None).delta(1.0)
    assert alone.epsilon(DELTA) < proven.epsilon(DELTA) <= 6.0
    assert proven.certificate is None
    assert np.array_equal(newer.preconditioner_.matrix, model.preconditioner_.matrix)


@pytest.mark.parametrize("retrain", [False, True])
def test_other_releases_are_composed_or_refused(file, retrain):
    """Nor does retraining take back private ranges: of two rows they say twice as much."""
    model = fitted(file)
    content = Path(file.path).read_bytes()
    moments = pabi.NoisySecondMoments(N, D, 1.0, adjacency="zero_out", noise_std=5.0)
    release = moments.guarantee(DELTA)
    way = {"retrain": retrain, "accept_loss": not retrain}
    newer = forgotten(model, [3, 4], file, 6.0, besides=[release], **way)
    own, twice = newer.unlearning_guarantee_, release.for_groups(2).epsilon(DELTA)
    assert own.epsilon(DELTA) == twice if retrain else own.epsilon(DELTA) > twice
    assert retrain or own.method == "unlearning + group privacy"
    put_back(file, content)
    for wrong in (replace(moments, adjacency="replace_one").guarantee(DELTA), own):
        refused("besides", forgotten, model, [3], file, 6.0, besides=[wrong], **way)


@pytest.mark.parametrize(
    ("changes", "beside", "field"),
    [
        ({"classes": None}, {}, "classes"),
        ({"cooldown_epochs": 1, "noise_std": np.linspace(1.0, 2.0, 36)}, {}, "noise_std"),
        ({}, {"keep_state": "a file"}, "keep_state"),
    ],
)
def test_fits_that_cannot_forget_are_refused(changes, beside, field, file):
    refused(field, estimator(**changes).fit, X, Y, **({"keep_state": file} | beside))
    assert not Path(file.path).exists()


# Users: all rows of one are forgotten together.

WHOSE = np.arange(N) % 60 * 7  # five rows each


def of_users(file, **changes):
    return estimator(**changes).fit(X, Y, groups=WHOSE, keep_state=file)


def test_users_are_forgotten_and_counted(file):
    model = of_users(file)
    for rows in ([1], np.flatnonzero(WHOSE == 7)[:4].tolist(), [*range(1, 241, 60), 2]):
        assert "expected all rows of every user" in refused("rows", forgotten, model, rows, file)
    assert file.requests() == ()
    newer = forgotten(model, WHOSE == 7, file)
    proven = newer.unlearning_guarantee_
    assert (proven.unit, newer.guarantee_.unit, newer.run_.n) == ("user", "user", 60)
    assert pabi.verify(proven.to_json()).unit == "user"
    blank = np.where((WHOSE == 7)[:, None], np.nan, X)
    last = forgotten(newer, np.isin(WHOSE, [14, 70]), file, 2 * TARGET, table=blank)
    lines = file.requests()
    assert [(line.users, len(line.rows)) for line in lines] == [(1, 5), (2, 10)]
    truth = promised(model.run_, (lines[0].steps, 1), (lines[1].steps, 2))
    assert last.unlearning_guarantee_.epsilon(DELTA) == truth
    assert np.array_equal(last.restored(file).coef_, last.coef_)


@every("anew, shares", [(False, None), (True, None), (True, 0.1)])
def test_who_forgot_a_user_has_the_model_that_was_trained_without_their_rows(
    anew, shares, tmp_path_factory
):
    """Wrong labels of the forgotten move weights by more than 1, noise by 1e-3·√(η/(2λ)) = 0.007."""
    gone, file = np.isin(WHOSE, np.arange(25) * 7), new_file(tmp_path_factory)
    labels = np.where(gone, 1 - Y, Y)
    settings = {"noise_std": 1e-3, "batches": pabi.FullBatch(), "epochs": 300, "clip_norm": None}
    settings |= {"l2": 0.02, "precondition": shares, "step_size": 2.0, "users": 60}
    model, without = (
        that_forgets(learn.PrivateLogisticRegression, 1e4, **settings) for _ in range(2)
    )
    model.fit(X, labels, groups=WHOSE, keep_state=file)
    newer = forgotten(model, gone, file, labels=labels, retrain=anew, accept_loss=not anew)
    without.fit(X[~gone], labels[~gone], groups=WHOSE[~gone])
    others = [np.append(one.coef_, one.intercept_) for one in (model, newer, without)]
    assert np.linalg.norm(others[1] - others[2]) < 0.1 * np.linalg.norm(others[0] - others[2])
    assert newer.run_.n == 60


def test_a_ledger_of_users_pays_for_retraining(file):
    ledger = pabi.Ledger(Path(file.path).with_name("book"), 20.0, DELTA, unit="user")
    newer = of_users(file, ledger=ledger).forget(
        X, Y, WHOSE == 7, TARGET, DELTA, state=file, retrain=True
    )
    proven = newer.unlearning_guarantee_
    assert (len(ledger.report().entries), proven.unit, proven.epsilon(DELTA)) == (2, "user", 0.0)
    assert "forgotten users were zero" in proven.assumptions[0]


def test_after_a_cool_down_a_model_goes_on_once(file):
    """Those who stay then have what all iterates cost: nothing less is proven."""
    model = fitted(file, cooldown_epochs=1, step_size=0.3)
    run, steps = model.run_, model.run_.steps
    assert run.cooldown_steps == run.steps_per_epoch
    refused("accept_loss", forgotten, model, [3], file, accept_loss=False)
    newer = forgotten(model, [3], file)
    [line] = file.requests()
    alone = promised(run, (line.steps, 1))
    assert newer.unlearning_guarantee_.epsilon(DELTA) == alone <= TARGET
    whole = {"epochs": None, "total_steps": steps + line.steps, "cooldown_steps": 0}
    path = replace(run, **whole, release="path").guarantee(DELTA)
    assert newer.guarantee_.epsilon(DELTA) == path.epsilon(DELTA)
    bill = newer.unlearning_guarantee_.notes["those_who_stay"]["going_on"]
    assert bill["epsilon"] == bill["released"] == path.epsilon(DELTA)
    with pytest.raises(NotApplicable, match="retrain=True"):
        forgotten(newer, [4], file)
    anew = forgotten(newer, [4], file, retrain=True, accept_loss=False)
    assert anew.run_ == model.run_
    assert anew.guarantee_.epsilon(DELTA) == model.guarantee_.epsilon(DELTA)
    assert [again.retrained for again in file.requests()] == [False, True]


def shuffled(table, labels):
    order = np.random.default_rng(0).permutation(N)
    return table[order], labels[order]


TABLES = {
    "a row less": (X[1:], Y[1:]),
    "another order": shuffled(X, Y),
    "other labels": (X, 1 - Y),
    "a row changed": (np.where(np.arange(N)[:, None] == 9, 0.1, X), Y),
}


@pytest.mark.parametrize(
    ("field", "changes", "settings"),
    [
        ("rows", {"rows": [N]}, {}),
        ("rows", {"rows": [8]}, {}),  # forgotten before
        ("y", {"labels": Y[1:]}, {}),
        *(("X", {"table": table, "labels": labels}, {}) for table, labels in TABLES.values()),
        ("epsilon", {"target": 0.0}, {}),
        ("delta", {"delta": 0.0}, {}),
        ("key", {"state": b"k" * 32}, {}),
        ("state", {}, {"kind": learn.PrivateLinearRegression}),
        ("intercept_scaling", {}, {"intercept_scaling": 2.0}),
        ("feature_norm", {}, {"feature_norm": 2.0}),
        ("classes", {}, {"classes": [0, 1, 2]}),
        ("ledger", {}, {"ledger": "a ledger"}),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(field, changes, settings, file):
    forgotten(fitted(file), [8], file)
    before, given = Path(file.path).read_bytes(), {"rows": [3]} | changes
    where = learn.StateFile(file.path, given.pop("state", file.key))
    with pytest.raises((InvalidInput, TargetUnreachable), match=f"^{field}\\b") as caught:
        forgotten(estimator(**settings), file=where, **given)
    assert "\n" not in str(caught.value)
    assert Path(file.path).read_bytes() == before


class Shown:
    """Like an array, and shown in part, as long arrays and frames are."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers, dtype=float)

    def __array__(self, *_, **__):
        return self.numbers

    def __len__(self):
        return len(self.numbers)

    def __repr__(self):
        return "[-1., ...]"


def test_settings_that_are_shown_in_part_are_compared_as_a_whole(file, monkeypatch):
    names = list("abc")
    one, other = [[-1.0] * D, [1.0] * D], [[-1.0] * D, [1.0] * (D - 1) + [0.5]]
    fitted(file, feature_ranges=Shown(one))
    for ranges in (Shown(other), other, pd.DataFrame(one, columns=names)):
        assert "\n" not in refused(
            "feature_ranges", forgotten, estimator(feature_ranges=ranges), [3], file
        )
    forgotten(estimator(feature_ranges=one), [3], file)
    # Earlier versions noted what is shown.
    monkeypatch.setattr(forgetting, "_text", repr)
    state = learn.StateFile(f"{file.path}.older", file.key)
    fitted(state, feature_ranges=Shown(one))
    monkeypatch.undo()
    forgotten(estimator(feature_ranges=Shown(one)), [3], state)


def test_errors_show_no_secret(file, monkeypatch):
    """Frames of an error are shown by debuggers: none holds the state, a table's digests or an iterate."""

    def broken(*arguments, **named):
        raise InvalidInput("state", "broken")

    model, secrets = fitted(file), (SecretState, forgetting.State, np.ndarray)
    for name in ("go_on", "write_state", "digests_of"):
        monkeypatch.setattr(forgetting, name, broken)
        with pytest.raises(InvalidInput, match="^state: broken") as caught:
            model.forget(list(X), list(Y), [3], TARGET, DELTA, state=file)
        monkeypatch.undo()
        frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
        seen = [value for frame in frames for value in frame.f_locals.values()]
        assert frames
        assert not any(isinstance(value, secrets) for value in seen)
    assert file.requests() == ()

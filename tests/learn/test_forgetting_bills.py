"""What forgetting costs those who stay: what is said, what is refused, and what retraining is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pabi
from pabi.account.forgetting import read_bill
from pabi.execute.state_files import state_in
from pabi.learn import PrivateLogisticRegression, StateFile, forgetting
from pabi.learn.rows import checked_rows
from pabi.numbers.errors import BudgetExceeded, InvalidInput
from pabi.numbers.showing import shown
from support.estimators import each_estimator
from support.every_case import every, refused
from support.forgetting import DELTA, TARGET, N, X, Y, put_back, that_forgets

STRICT = 0.2
# Without a regulariser steps hardly forget: it takes many of them.
DEAR = {"clip_norm": 0.1, "l2": 0.0}
CHEAP = DEAR | {"l2": 0.14}
NONE = np.array([], dtype=np.intp)


def estimator(kind=PrivateLogisticRegression, **changes):
    return that_forgets(kind, 1.0, **(DEAR | changes))


def kept(file, kind=PrivateLogisticRegression, **changes):
    return estimator(kind, **changes).fit(X, Y, keep_state=file)


def forgotten(model, rows, file, target=TARGET, **way):
    return model.forget(X, Y, rows, target, DELTA, state=file, **way)


def retrained(model, rows, file):
    return forgotten(model, rows, file, retrain=True)


def read(curve):
    return curve.epsilon(DELTA)


def test_the_bill_is_that_of_the_runs(file):
    """Of the run of all steps, of all its iterates, and of two runs: each asked for by itself."""
    model = estimator().fit(X, Y, keep_state=file)
    newer = model.forget(X, Y, [3, 4], STRICT, DELTA, state=file, accept_loss=True)
    [line] = file.requests()
    run = model.run_
    whole = replace(run, epochs=None, total_steps=run.steps + line.steps)
    alone = run.guarantee(DELTA)
    bill = read_bill(newer.unlearning_guarantee_.notes)
    assert bill.before == (read(alone), read(alone), 5.0)
    assert bill.going_on.epsilon == read(whole.guarantee(DELTA)) == read(newer.guarantee_)
    assert bill.going_on.epochs == line.steps / run.steps_per_epoch
    assert bill.going_on.released <= read(replace(whole, release="path").guarantee(DELTA)) * 1.0001
    assert bill.going_on.released >= bill.going_on.epsilon
    assert bill.retraining == (read(alone), read(pabi.compose(alone, alone)), 5.0)
    assert bill == read_bill(line.guarantee.notes)
    assert bill.dear


def test_going_on_is_refused_where_those_who_stay_lose(file):
    model = kept(file)
    before = Path(file.path).read_bytes()
    said = refused("accept_loss", forgotten, model, [3, 4], file, STRICT)
    assert Path(file.path).read_bytes() == before
    newer = forgotten(model, [3, 4], file, STRICT, accept_loss=True)
    bill = read_bill(newer.unlearning_guarantee_.notes)
    costs = [f" {shown(cost.epsilon)}" for cost in (bill.before, bill.going_on)]
    for word in ("retrain=True", "--retrain", "accept_loss=True", *costs):
        assert word in said
    assert newer.guarantee_.epsilon(DELTA) > 1.1 * model.guarantee_.epsilon(DELTA)


def test_small_losses_add_up(file):
    """Each request by itself would pass. All of them are held against the ε of the fit."""
    model = kept(file, **CHEAP)
    met = 0
    with pytest.raises(InvalidInput, match="^accept_loss: "):
        for row in range(60):
            model = forgotten(model, [row], file)
            met += 1
            assert model.guarantee_.epsilon(DELTA) <= 1.1 * 1.0
    assert met > 1
    assert file.requests()[-1].rows == (met - 1,)
    for word in ("retrain", "accept_loss"):
        refused(word, forgotten, model, [59], file, **{word: "yes"})


@each_estimator
def test_every_estimator_retrains(kind, file):
    model = kept(file, kind)
    newer = retrained(model, [3, 4], file)
    assert newer.run_ == model.run_
    assert newer.guarantee_.epsilon(DELTA) == model.guarantee_.epsilon(DELTA)
    assert newer.unlearning_guarantee_.epsilon(DELTA) == 0.0
    assert newer.unlearning_guarantee_.adjacency == "retrained"
    assert not np.array_equal(newer.coef_, model.coef_)
    assert np.array_equal(estimator(kind).restored(file).coef_, newer.coef_)
    [line] = file.requests()
    assert (line.rows, line.retrained, line.steps) == ((3, 4), True, model.run_.steps)


@pytest.mark.parametrize("precondition", [None, 0.2])
def test_a_retrained_model_never_saw_the_rows(file, monkeypatch, precondition):
    """With known noise forgotten rows change neither the new model nor its second moments by a bit."""
    changes = {"precondition": precondition, "step_size": "auto", "epochs": 3}
    estimator(**changes).fit(X, Y, keep_state=file)
    content, models = Path(file.path).read_bytes(), []
    anew = type(estimator())._trained_anew

    def seeded(self, *arguments):
        """As `_trained_anew`, with a seed where it has none."""
        execute = self._execute

        def known(*inner):
            self.random_state = 3
            execute(*inner)

        monkeypatch.setattr(self, "_execute", known, raising=False)
        return anew(self, *arguments)

    monkeypatch.setattr(type(estimator()), "_trained_anew", seeded)
    for value in (0.0, 0.5, -1e9, np.nan):
        put_back(file, content)
        table, labels = X.copy(), Y.astype(float)
        table[[3, 4]], labels[3] = value, value
        newer = estimator(**changes).forget(
            table, labels, [3, 4], TARGET, DELTA, state=file, retrain=True
        )
        models.append(newer.coef_)
    assert all(np.array_equal(model, models[0]) for model in models)
    put_back(file, content)
    other = X.copy()
    newer = estimator(**changes).forget(other, Y, [3, 5], TARGET, DELTA, state=file, retrain=True)
    assert not np.array_equal(newer.coef_, models[0])  # what is tested above would see a difference


def test_releases_add_up_over_retrainings(file):
    """Two retrainings: the third model alone costs as the first; all three together as three releases."""
    model = kept(file, precondition=0.2, step_size="auto")
    one = model.guarantee_
    for row in (3, 4):
        model = retrained(model, [row], file)
    bill = read_bill(model.unlearning_guarantee_.notes)
    assert model.moments_ is not None
    assert bill.before.epsilon == pytest.approx(read(one), rel=1e-12)
    assert bill.before.released == pytest.approx(read(pabi.compose(one, one)), rel=1e-9)
    assert bill.retraining.released == pytest.approx(read(pabi.compose(one, one, one)), rel=1e-9)
    assert model.guarantee_.epsilon(DELTA) == pytest.approx(read(one), rel=1e-12)


def test_going_on_after_a_retraining(file):
    """The training that goes on is the new one; the log has both, and rows are forgotten once."""
    model = kept(file, **CHEAP)
    third = forgotten(retrained(model, [3, 4], file), [9], file)
    lines = file.requests()
    assert [(line.rows, line.retrained) for line in lines] == [((3, 4), True), ((9,), False)]
    run = replace(model.run_, adjacency="zero_out")
    truth = run.unlearning(DELTA, steps=lines[1].steps, records=1)
    assert third.unlearning_guarantee_.epsilon(DELTA) == truth.epsilon(DELTA)
    assert third.n_iter_ == model.run_.steps + lines[1].steps
    bill = read_bill(third.unlearning_guarantee_.notes)
    both = read(pabi.compose(model.guarantee_, model.guarantee_))
    assert bill.going_on.released > bill.before.released == pytest.approx(both, rel=1e-9)
    assert "row 3 was forgotten before" in refused("rows", retrained, third, [3], file)


@pytest.fixture
def ledger(tmp_path):
    return pabi.Ledger(tmp_path / "a.ledger", 2.0, DELTA)


def test_a_retraining_is_charged(file, ledger):
    newer = kept(file, ledger=ledger)
    left = ledger.remaining()
    newer = retrained(newer, [3], file)
    assert ledger.remaining() < left
    assert len(ledger._read().committed) == 2
    # A third of ε = 1 is more than is left of ε = 2: nothing is changed.
    before = Path(file.path).read_bytes()
    with pytest.raises(BudgetExceeded):
        for row in range(4, 10):
            newer = retrained(newer, [row], file)
            before = Path(file.path).read_bytes()
    assert Path(file.path).read_bytes() == before


def test_a_ledger_is_not_left_out(file, ledger, tmp_path):
    """Whoever forgets without the ledger of the fit would make a second release that nobody counts."""
    model = kept(file, ledger=ledger, l2=0.1)
    for wrong in (None, pabi.Ledger(tmp_path / "other", 2.0, DELTA)):
        model.ledger = wrong
        for way in ({"retrain": True}, {"accept_loss": True}):
            refused("ledger", forgotten, model, [3], file, **way)
    assert "expected that of the fit" in refused("ledger", estimator(l2=0.1).restored, file)
    assert np.array_equal(estimator(l2=0.1, ledger=ledger).restored(file).coef_, model.coef_)


LATER = "not the state that was written here last"


def test_an_older_copy_is_noticed(file):
    """The log would lose rows, and the new model would be trained with them."""
    model = kept(file, **CHEAP)
    old = Path(file.path).read_bytes()
    newer = forgotten(model, [3], file)
    Path(file.path).write_bytes(old)
    for do in (
        lambda: forgotten(estimator(**CHEAP), [5], file),
        lambda: retrained(newer, [5], file),
        lambda: estimator(**CHEAP).restored(file),
        file.requests,
    ):
        assert LATER in refused("state", do)
    assert Path(file.path).read_bytes() == old
    put_back(file, old)  # and nothing beside it that tells: the newer model knows
    assert "expected that of this model" in refused("state", forgotten, newer, [5], file)


def test_another_models_state_is_noticed(file, tmp_path):
    one, other = kept(file, **CHEAP), StateFile(tmp_path / "other", file.key)
    kept(other, **CHEAP)
    assert "expected that of this model" in refused("state", forgotten, one, [5], other)
    Path(file.path).write_bytes(Path(other.path).read_bytes())
    assert LATER in refused("state", forgotten, estimator(**CHEAP), [5], file)


def test_a_folder_that_was_restored_is_noticed_by_the_ledger(file, ledger):
    """State and what stands beside it are both old: whoever has the ledger knows."""
    model = kept(file, **CHEAP, ledger=ledger)
    old = Path(file.path).read_bytes()
    newer, other = retrained(model, [3], file), estimator(**CHEAP, ledger=ledger)
    put_back(file, old)
    for who in (other, model, newer):
        assert "the ledger knows a later one" in refused("state", retrained, who, [5], file)
    assert "the ledger knows a later one" in refused("state", other.restored, file)


class Power(Exception):
    """It failed."""


def test_a_release_that_was_not_committed_leaves_either_state(file, ledger, monkeypatch):
    """A crash between the ledger and the state, on either side: whichever is there is the last one."""

    def fails_before(*arguments):
        raise Power

    model = kept(file, **CHEAP, ledger=ledger)
    with monkeypatch.context() as patch, pytest.raises(Power):
        patch.setattr(forgetting, "write_state", fails_before)
        retrained(model, [3], file)
    assert file.requests() == ()
    assert len(ledger._read().granted) == 2  # of which one was not committed
    again = estimator(**CHEAP, ledger=ledger).restored(file)
    assert np.array_equal(again.coef_, model.coef_)
    assert state_in(file).facts["first"] == state_in(file).turn


FIVE = np.array([5, 1], dtype=np.uint8)
MASK = np.arange(N) == 7


@every(
    ("rows", "places"),
    [
        *((rows, [1, 5]) for rows in ([5, 1], (5, 1), FIVE, [np.int64(5), 1])),
        *((range(2, 4), [2, 3]), (MASK, [7]), (MASK.tolist(), [7])),
    ],
)
def test_rows_are_positions_or_a_mask(rows, places):
    assert checked_rows(rows, N, NONE).tolist() == places


LABELLED = pd.DataFrame({"a": np.arange(N)}, index=np.arange(N)[::-1])


@every(
    "rows",
    [
        *(LABELLED.index[[3, 4]], LABELLED.index[LABELLED["a"] == 3], LABELLED["a"] == 3),
        *(LABELLED["a"].iloc[:2], pd.Index([3, 4]), pd.array([3, 4]), pd.array([True] * N)),
        *([True, 5], [5, False], [np.True_, 5], np.array([True, 5], dtype=object), [True]),
        *(np.zeros(N, dtype=bool), np.ones(N - 1, dtype=bool), [1.0], np.array([1.0]), ["1"]),
        *("12", b"12", {1, 2}, iter([1]), 5, None, [], [[1]], np.array([[1]])),
        *([-1], [N], [2**70], [3, 3], [np.nan], [None]),
    ],
)
def test_what_is_no_position_is_refused(rows):
    refused("rows", checked_rows, rows, N, NONE)


def test_labels_are_told_what_to_write(file):
    """The rows with the labels 3 and 4 stand at the positions n − 4 and n − 5."""
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(N)[::-1])
    model = estimator(**CHEAP).fit(frame, Y, keep_state=file)
    stated = {"epsilon": TARGET, "delta": DELTA, "state": file}
    wanted = frame.index[[N - 4, N - 5]]
    assert "get_indexer" in refused("rows", model.forget, frame, Y, wanted, **stated)
    model.forget(frame, Y, frame.index.get_indexer(wanted), **stated)
    assert file.requests()[0].rows == (N - 5, N - 4)

"""`pabi verify --model`: a model is the one only if everything that predicts is, and its guarantee."""

import copy
import functools
import hashlib
import json
import warnings

import numpy as np
import pytest
import skops.io
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, OrdinalEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import pabi
from pabi.cli.verifying import _compared
from pabi.learn import (
    PrivateLogisticRegression,
    PrivateRanges,
    PrivateScaler,
    SchemaEncoder,
    guarantee_of,
    model_hash,
)
from pabi.numbers.errors import InvalidInput
from support.every_case import every

DELTA = 1e-5
X = np.linspace([-1.0, 1.0, 0.2], [1.0, -0.5, 0.1], 600) / 1.5
Y = (X[:, 0] > 0.1).astype(int)


def logistic(**fields):
    stated = {"feature_norm": 1.0, "classes": [0, 1], "epochs": 2} | fields
    return PrivateLogisticRegression(2.0, DELTA, **stated)


@pytest.fixture(scope="module")
def bare():
    return logistic().fit(X, Y)


@pytest.fixture(scope="module")
def chain():
    steps = (PrivateRanges(2.0, DELTA), PrivateScaler(2.0, DELTA), Normalizer(), logistic())
    return make_pipeline(*steps).fit(X, Y)


def verdict(model, guarantee, tmp_path, **notes):
    file = str(tmp_path / "model.skops")
    skops.io.dump(model, file)
    data = json.loads(guarantee.to_json())
    for name, value in notes.items():
        data["notes"][name] = value
        if value is None:
            del data["notes"][name]
    return _compared(file, data)


def test_honest_models_are_the_ones(bare, chain, tmp_path):
    assert verdict(bare, bare.guarantee_, tmp_path).reason is None
    assert verdict(chain, guarantee_of(chain), tmp_path).reason is None
    both = pabi.compose(bare.guarantee_, guarantee_of(chain))
    assert verdict(bare, both, tmp_path).reason is None
    assert verdict(chain, both, tmp_path).reason is None


def in_front(step):
    return lambda model: make_pipeline(step.fit(X), model)


def changed(**attributes):
    def change(model):
        for name, value in attributes.items():
            setattr(model, name, value)
        return model

    return change


def within(name, **attributes):
    def change(model):
        for one, value in attributes.items():
            object.__setattr__(getattr(model, name), one, value)
        return model

    return change


OTHERS = {
    "a raw scaler in front": (in_front(StandardScaler()), "learn|holds|guarantee"),
    "another raw scaler": (in_front(MinMaxScaler()), "learn|holds|guarantee"),
    "a step that learns nothing": (in_front(Normalizer()), "steps, settings or fitted values"),
    "raw rows": (changed(rows_=X), "a PrivateLogisticRegression holds rows_"),
    "raw rows, hidden": (changed(_rows=X), "a PrivateLogisticRegression holds _rows"),
    "raw rows in the map": (within("preconditioner_", rows=X), "a RowMap holds rows"),
    "other bounds": (changed(feature_norm=2.0), "steps, settings"),
    "ranges": (changed(feature_ranges=(-2.0, 2.0)), "steps, settings"),
    "names": (changed(feature_names_in_=np.array([*"abc"], dtype=object)), "steps, settings"),
    "an intercept": (changed(fit_intercept=False), "steps, settings"),
    "another map": (within("preconditioner_", unit=3.0), "steps, settings"),
    "another run": (within("run_", clip_norm=0.125), "steps, settings"),
    "coefficients": (changed(coef_=np.ones((1, 3))), "released values"),
    "coefficients beside an honest copy": (
        lambda model: changed(best_estimator_=copy.deepcopy(model), coef_=-9 * model.coef_)(model),
        "released values|steps, settings",
    ),
    "a mask": (changed(intercept_=np.ma.MaskedArray([0.0], [True])), "a MaskedArray|released"),
}


def test_what_was_changed_is_not_the_one(bare, tmp_path):
    for how, (change, says) in OTHERS.items():
        found = verdict(change(copy.deepcopy(bare)), bare.guarantee_, tmp_path)
        assert found.reason is not None, how
        assert any(word in found.reason for word in says.split("|")), (how, found.reason)
    better = logistic(noise_std=50.0).fit(X, Y).guarantee_
    found = verdict(changed(guarantee_=better)(copy.deepcopy(bare)), bare.guarantee_, tmp_path)
    assert "changed after its fit" in found.reason
    # What is no part of an estimator has no hash, so that no guarantee notes it.
    with pytest.raises(InvalidInput, match="model: a PrivateLogisticRegression holds rows_"):
        model_hash(changed(rows_=X)(copy.deepcopy(bare)))


def test_a_step_of_a_pipeline_that_was_left_out_or_set_anew(chain, tmp_path):
    steps = [step for _, step in chain.steps]
    others = [make_pipeline(*steps[:k], *steps[k + 1 :]) for k in range(3)]
    others.append(copy.deepcopy(chain))
    others[-1][2].norm = "l1"
    for other in others:
        found = verdict(other, guarantee_of(chain), tmp_path)
        assert found.reason == "its steps, settings or fitted values are others"


def test_files_of_earlier_versions_are_what_they_are(bare, tmp_path):
    """They note what is released: this is compared, and said; what learnt beside it is named all the same."""
    found = verdict(bare, bare.guarantee_, tmp_path, models_sha256=None)
    assert (found.reason, found.whole) == (None, False)
    assert "not settings, nor steps that release nothing" in found.lines[1]


def around(model):
    return SelfTrainingClassifier(model).fit(X, np.where(np.arange(len(Y)) % 3, Y, -1))


LEARNT = {
    "in front": (in_front(StandardScaler()), "StandardScaler"),
    "of columns": (in_front(ColumnTransformer([("a", MinMaxScaler(), [0, 1, 2])])), "MinMaxScaler"),
    "around": (around, "SelfTrainingClassifier"),
    "that learns levels": (in_front(OrdinalEncoder()), "OrdinalEncoder"),
}
NOTES = [{}, {"models_sha256": None}]  # of this version, and of earlier ones


@pytest.mark.parametrize("how", LEARNT)
@every("notes", NOTES)
def test_a_step_that_learnt_is_named_whatever_the_notes_have(bare, tmp_path, how, notes):
    build, kind = LEARNT[how]
    found = verdict(build(copy.deepcopy(bare)), bare.guarantee_, tmp_path, **notes)
    assert "NOT the one" in found.lines[0]
    assert kind in found.lines[0]
    assert ("an earlier pabi wrote the file" in found.lines[1]) == bool(notes)


def test_arrays_are_compared_by_name_type_and_number(bare, tmp_path):
    """As of a training by JAX."""
    path, w = tmp_path / "a.npz", np.linspace(0.0, 1.0, 6).reshape(3, 2)
    arrays, data = {"b": np.zeros(()), "w": w}, json.loads(bare.guarantee_.to_json())
    data["notes"]["models_sha256"] = [model_hash(arrays)]

    def saved(save=np.savez, **changes):
        save(path, **(arrays | changes))
        return _compared(str(path), data)

    assert saved().same
    assert saved().names == ("b", "w")
    for other in (w.astype(np.float32), w.T, np.nextafter(w, 2.0), w[::-1]):
        assert not saved(w=other).same
    assert not saved(more=w).same
    with pytest.raises(InvalidInput, match="not compressed"):
        saved(np.savez_compressed)
    with pytest.raises(InvalidInput, match="allow_pickle"):
        saved(w=np.array([{}]))


@every("notes", NOTES)
def test_a_class_of_somebodys_own_is_named(bare, tmp_path, notes):
    with pytest.raises(InvalidInput, match="Plain"):
        verdict(make_pipeline(Plain(), bare), bare.guarantee_, tmp_path, **notes)


def test_what_cannot_be_seen_whole_has_no_hash():
    """Dates are no numbers either: as lists of numpy's those of nanoseconds would be."""
    hidden = [functools.partial(np.add, 1.0), np.ma.MaskedArray([1.0], [True])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nobody should use a matrix
        hidden.append(np.matrix([[1.0]]))
    for value in hidden:
        with pytest.raises(InvalidInput, match="model: expected nothing like a"):
            model_hash(Plain(value))
    for when in (np.array([0, 1], "M8[ns]"), np.array([0], "m8[ns]"), np.datetime64(1, "ns")):
        with pytest.raises(InvalidInput, match="model: expected no"):
            model_hash(Plain(when))


@every("name", ["random_state", "ledger", "strict", "verbose", "_turn", "_covers"])
def test_what_is_not_hashed_has_no_room_for_rows(bare, name):
    for rows in (X, X.tolist(), tuple(X.ravel().tolist()), X.tobytes(), {"rows": X}, "9" * 10_000):
        other = changed(**{name: rows})(copy.deepcopy(bare))
        with pytest.raises(InvalidInput, match=f"holds {name} of an unexpected kind"):
            model_hash(other)


def test_an_object_is_not_named_by_what_it_says_of_itself_and_columns_have_an_order(bare):
    models = [changed(__qualname__="same", whole=k)(Plain()) for k in (1, 2)]
    models += [bare, changed(best_estimator_=copy.deepcopy(bare))(make_pipeline(bare))]
    columns = {name: {"kind": "numeric", "range": [-3, 3]} for name in "ab"}
    models += [SchemaEncoder(columns), SchemaEncoder(dict(reversed(columns.items())))]
    assert len(set(map(model_hash, models))) == 6


@every("fields", [{"verbose": True}, {"strict": True}, {"random_state": 3}])
def test_what_says_nothing_of_an_output_is_not_hashed(bare, fields):
    assert model_hash(copy.deepcopy(bare).set_params(**fields)) == model_hash(bare)


class Plain(BaseEstimator):
    """Holds one of each kind."""

    def __init__(self, number=0.1):
        self.number = number


def test_the_hash_is_that_of_the_text_that_the_docs_describe():
    model = Plain()
    model.whole, model.pair = np.int64(3), (True, None)
    model.texts = np.array(["a", "é"], dtype=object)
    model.table = np.array([[1.5, -2.0]], dtype=">f8")
    model.settings, model.call = {"b": 1, "a": np.float32(0.5)}, np.log1p
    bytes_of = np.array([1.5, -2.0], dtype="<f8").tobytes()
    text = (
        f'{{"holds":{{"call":{{"name":"numpy.log1p"}},"number":{{"float":"{(0.1).hex()}"}},"pair":[true,null],'
        '"settings":{"pairs":[["b",1],["a",{"float":"0x1.0000000000000p-1"}]]},'
        f'"table":{{"array":["<f8",[1,2],"{hashlib.sha256(bytes_of).hexdigest()}"]}},"texts":["a","\\u00e9"],"whole":3}},"object":"Plain"}}'
    )
    assert model_hash(model) == hashlib.sha256(text.encode("ascii")).hexdigest()
    model.table = np.asfortranarray(model.table.astype("f8"))
    assert model_hash(model) == hashlib.sha256(text.encode("ascii")).hexdigest()

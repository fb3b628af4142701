"""`pabi verify` and `pabi report`: readings, what is derived and what is merely listed, models, reports."""

import contextlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import skops.io
from sklearn.pipeline import make_pipeline

import pabi
from pabi.learn import PrivateLogisticRegression, PrivateRanges, guarantee_of
from pabi.learn.plans import LEARNT, ONE_FIT, PREPROCESSING
from pabi.showing import shown
from pabi.tradeoff.guarantee import TESTING
from support import run_files
from support.every_case import every
from support.run_files import toml
from support.tables import assert_one_line, run
from support.tables import run as call

DELTA = 1e-5
X = np.linspace([-1.0, 1.0], [1.0, -0.5], 900) / 1.5
Y = (X[:, 0] > 0.1).astype(int)
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
RUN = pabi.NoisySGD(LOSS, n=1000, batches=pabi.Cyclic(100), epochs=2, step_size=0.5, noise_std=0.1)


def verified(text, *arguments):
    return run("verify", "-", *arguments, stdin=text)


def table(text, *arguments):
    status, out, err = verified(text, "--json", *arguments)
    assert err == ""
    return status, json.loads(out)


def test_other_uses_of_the_same_data_are_the_first_line():
    sentence = LEARNT.format(step="PCA", learns="mean")
    text = RUN.guarantee(DELTA).assuming(PREPROCESSING, sentence).to_json()
    status, out, _ = verified(text)
    assert status == 0
    assert out.splitlines()[0] == f"WARNING      {sentence}"
    assert table(text)[1]["warnings"] == [sentence]
    clean = RUN.guarantee(DELTA).assuming(PREPROCESSING, ONE_FIT).to_json()
    assert verified(clean).out.startswith("verdict")
    assert table(clean)[1]["warnings"] == []


@pytest.fixture(scope="module")
def model():
    """Moments, and training on random batches: a product, of which no certificate states a reading."""
    batches = pabi.Poisson(30)
    return PrivateLogisticRegression(1.0, DELTA, 1.0, classes=[0, 1], batches=batches).fit(X, Y)


def test_that_some_records_alone_are_protected_is_the_first_line():
    text = RUN.guarantee(DELTA, position=3).to_json()
    _, out, _ = verified(text, "--delta", "1e-5")
    assert out.splitlines()[0] == "WARNING      it protects records of batch 3 alone"
    assert table(text)[1]["warnings"] == ["it protects records of batch 3 alone"]


def test_json_says_what_the_text_says():
    guarantee = RUN.guarantee(DELTA)
    status, data = table(guarantee.to_json())
    assert status == 0
    assert data["ok"] is True
    assert (data["epsilon"], data["delta"]) == (guarantee.epsilon(DELTA), DELTA)
    assert data["mu"] == guarantee.mu
    assert (data["scope"], data["adjacency"], data["unit"]) == ("run", "replace_one", "record")
    derived = list(guarantee.assumptions)
    assert data["assumptions"] == {"derived": derived, "listed": [], "added": []}
    assert data["target"] is None
    assert data["notes"] == {"composition": guarantee.composition.to_dict()}
    for factor, expected in [(1.001, 0), (0.999, 1)]:
        limit = factor * guarantee.epsilon(DELTA)
        target = ("--epsilon", repr(limit), "--delta", repr(DELTA))
        status, data = table(guarantee.to_json(), *target)
        assert status == expected
        assert data["target"] == {"epsilon": limit, "delta": DELTA, "implied": status == 0}
    data = json.loads(RUN.guarantee(DELTA).to_json())
    data["certificate"]["claim"] = {"mu": 0.001}
    status, said = table(json.dumps(data))
    assert (status, said["ok"], bool(said["reason"])) == (1, False, True)


@every("batches", [pabi.Cyclic(100), pabi.ShuffleOnce(100)])
def test_epsilon_at_one_delta_and_delta_at_one_epsilon(batches):
    guarantee = replace(RUN, batches=batches).guarantee(DELTA)
    _, data = table(guarantee.to_json(), "--delta", "1e-7")
    assert data["epsilon"] == pytest.approx(guarantee.epsilon(1e-7), rel=1e-9)
    _, data = table(guarantee.to_json(), "--epsilon", "0.3")
    assert data["delta"] == pytest.approx(guarantee.delta(0.3), rel=1e-9)
    text = verified(guarantee.to_json(), "--epsilon", "0.3").out
    assert f"delta {shown(data['delta'])} at epsilon 0.3" in text


def test_a_product_is_read_at_any_delta_and_epsilon_as_in_python(model):
    """The checker's own composition: no less than the accountant's lower bound, hardly above its upper."""
    guarantee = model.guarantee_
    text = guarantee.to_json()
    for delta in (1e-4, 1e-7):
        lower, upper = guarantee.epsilon_bounds(delta, 1e-4)
        _, data = table(text, "--delta", repr(delta))
        assert lower <= data["epsilon"] <= upper * 1.005
    _, data = table(text, "--epsilon", "0.8")
    assert guarantee.epsilon_bounds(data["delta"], 1e-4)[0] <= 0.8
    assert data["delta"] <= guarantee.delta(0.8) * 1.2
    assert table(text, "--epsilon", "0")[1]["delta"] <= 1.0
    # A certificate alone states no reading: the coarsest grid of the checker gave 1.004 where 1 was proven.
    stated, (_, data) = guarantee.epsilon(DELTA), table(guarantee.certificate.to_json())
    assert stated * (1 - 1e-3) <= data["epsilon"] <= stated * 1.002
    for guarantee in (model.guarantee_, RUN.guarantee(DELTA)):
        verdict = pabi.verify(guarantee)
        status, out, _ = verified(guarantee.to_json())
        assert status == 0
        epsilon = shown(verdict.reading[0]) if verdict.reading else shown(guarantee.epsilon(DELTA))
        assert f"proven       epsilon {epsilon} at delta 1e-05" in out
        assert f"ε = {epsilon} at" in pabi.verify(guarantee.to_json()).reason


def test_what_only_the_file_says_is_listed_apart(model):
    data = json.loads(model.guarantee_.to_json())
    _, said = table(json.dumps(data))
    assert said["assumptions"]["listed"] == [PREPROCESSING, ONE_FIT]
    assert not {PREPROCESSING, ONE_FIT} & set(said["assumptions"]["derived"])
    alone = dict(data, assumptions=[a for a in data["assumptions"] if a != PREPROCESSING])
    status, out, _ = verified(json.dumps(alone))
    assert (status, PREPROCESSING in out) == (1, True)  # refused: its certificate carries it
    alone["certificate"]["assumes"] = [ONE_FIT]
    status, out, _ = verified(json.dumps(alone))
    listed = out.split("assumptions that only the file's word adds\n")[1].split("\nnotes")[0]
    # Nobody can tell: a reader sees what is missing.
    assert (status, listed) == (0, f"  - {ONE_FIT}")
    out = verified(RUN.guarantee(DELTA).to_json()).out
    assert "assumptions that only the file's word adds\n  (none)\n" in out


def test_labels_and_ranges_of_a_pipeline_are_compared(tmp_path):
    ranges = PrivateRanges(2.0, DELTA)
    whole = make_pipeline(ranges, PrivateLogisticRegression(2.0, DELTA, 1.0, classes=[0, 1]))
    text = guarantee_of(whole.fit(X, Y)).to_json()

    def said():
        skops.io.dump(whole, tmp_path / "model.skops")
        return table(text, "--model", str(tmp_path / "model.skops"))

    status, data = said()
    assert (status, data["model"]) == (0, True)
    file = str(tmp_path / "model.skops")
    assert "model        the one" in verified(text, "--model", file).out
    assert {"ranges_", "classes_", "coef_", "intercept_"} <= set(data["compared"])
    whole[-1].classes_ = whole[-1].classes_[::-1].copy()
    assert said()[1]["model"] is False
    whole[-1].classes_ = whole[-1].classes_[::-1].copy()
    assert said()[1]["model"] is True
    whole[0].ranges_ = 2.0 * whole[0].ranges_
    assert said()[1]["model"] is False
    status, out, _ = verified(text, "--model", file)
    assert status == 1
    assert "model        NOT the one (its released values are others)" in out
    assert "nothing of how the model was trained" in out


def test_models_that_cannot_be_compared(model, tmp_path):
    foreign, broken = tmp_path / "foreign.skops", tmp_path / "broken.skops"
    skops.io.dump({"a": np.random.default_rng(0)}, tmp_path / "dict.skops")
    broken.write_bytes(b"PK\x03\x04")
    skops.io.dump(contextlib.nullcontext(), foreign)
    text = model.guarantee_.to_json()
    for file, words in (
        (broken, "expected a model (skops, a state"),
        (foreign, "of pabi's types only"),
        (tmp_path / "dict.skops", "expected a"),
        (tmp_path / "nowhere.skops", "savez did): No such file"),
    ):
        assert_one_line(verified(text, "--model", str(file)), words)
    bare = RUN.guarantee(DELTA).to_json()
    assert_one_line(verified(bare, "--model", str(foreign)), "error: --model: ")


# `pabi report`.


RUN_FILE = toml(run_files.RUN, step_size=0.5, noise_std=0.1, clip_norm=None)


def undated(text):
    return re.sub(r"\d{4}-\d\d-\d\d", "", text)


@pytest.mark.parametrize("form", ["md", "html", "hf"])
def test_a_guarantee_a_certificate_and_a_run_have_one_report(form):
    guarantee = RUN.guarantee(DELTA)
    files = (guarantee.to_json(), guarantee.certificate.to_json(), RUN_FILE)
    reports = [call("report", "-", "--format", form, "--delta", "1e-6", stdin=f) for f in files]
    for status, out, err in reports:
        assert (status, err) == (0, "")
        assert shown(guarantee.epsilon(1e-6)) in out
        for sentence in guarantee.assumptions[:3]:
            assert sentence in out
    if form == "md":
        assert undated(reports[0][1]) == undated(guarantee.report("md", 1e-6))
        assert undated(reports[2][1]) == undated(RUN.guarantee(1e-6).report("md", 1e-6))


def test_other_descriptions_and_test_runs_have_reports():
    _, out, _ = call("report", "-", stdin=RUN.guarantee(1e-4).to_json())
    assert "| ε at δ = 0.0001 | " in out
    _, out, _ = call("report", "-", stdin=RUN_FILE)
    assert "| ε at δ = 1e-05 | " in out
    status, out, _ = call("report", "-", stdin=RUN.guarantee(DELTA).for_testing().to_json())
    assert (status, TESTING in out) == (0, True)
    moments = {"kind": "noisy_second_moments", "n": 100, "dimension": 3, "feature_norm": 1.0}
    status, out, _ = call("report", "-", stdin=toml(moments, noise_std=9.0))
    guarantee = pabi.NoisySecondMoments(100, 3, 1.0, noise_std=9.0).guarantee()
    assert status == 0
    assert "the sum without noise" in out
    assert shown(guarantee.epsilon(DELTA)) in out


def test_what_is_refused_has_no_report(tmp_path):
    data = json.loads(RUN.guarantee(DELTA).to_json())
    data["certificate"]["run"]["noise_std"] = 0.05
    out_file = tmp_path / "report.md"
    for form in (data, data["certificate"]):
        status, out, err = call("report", "-", "--out", str(out_file), stdin=json.dumps(form))
        assert (status, err, out_file.exists()) == (1, "", False)
        assert out.startswith("verdict      refused: ")


def test_out_and_force_and_everything_else_in_one_line(tmp_path):
    file, text = tmp_path / "report.html", RUN.guarantee(DELTA).to_json()
    arguments = ("report", "-", "--format", "html", "--out", str(file))
    assert call(*arguments, stdin=text) == (0, "", "")
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert_one_line(call(*arguments, stdin=text), "--force")
    assert call(*arguments, "--force", stdin=text).status == 0
    assert_one_line(call("report", "-", "--out", str(tmp_path / "no" / "r.md"), stdin=text))
    text = RUN.guarantee(DELTA).to_json()
    for option, value, field in [
        ("--format", "pdf", "format"),
        ("--delta", "0", "delta"),
        ("--delta", "x", "--delta"),
    ]:
        assert_one_line(call("report", "-", option, value, stdin=text), f"error: {field}: ")
    for text in ["", "{", "{}", "[]", "n = ", '{"format": "pabi.guarantee"}']:
        assert_one_line(call("report", "-", stdin=text))

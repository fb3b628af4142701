"""Numbers on the page are the library's, as the library formats them."""

import dataclasses
import json
import re
import tomllib
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

import pabi
from pabi.account.forgetting import bill_in_words, read_bill
from pabi.cli.explorer.run_view import gain
from pabi.cli.explorer.state import BEGINNINGS, read
from pabi.cli.explorer.workers import events
from pabi.describe.files import from_dict, to_dict
from pabi.literature import compare
from pabi.showing import exact, shown, shown_down
from pabi.tradeoff import Gaussian
from support.every_case import every

DELTA = 1e-6
STATE = {"batches": "shuffle_once", "n": "6000", "size": "600", "epochs": "8", "delta": "1e-6"}
LOSS = pabi.Loss.logistic(1.0, l2=0.01)
RUN = pabi.NoisySGD(
    LOSS, n=6000, batches=pabi.ShuffleOnce(600), epochs=8, step_size=0.5, noise_std=0.01
)


def answers(job, request):
    """The events of a job by their names, in order; none of them is an error."""
    found = {}
    for name, data in events(job, request):
        assert name != "error", data
        json.dumps(data, allow_nan=False)
        found.setdefault(name, []).append(data)
    return found


def refusal(job, request):
    """The one sentence of an error, which is the last event."""
    *_, (name, data) = events(job, request)
    assert name == "error"
    assert "\n" not in data["message"]
    return data


@pytest.fixture(scope="module")
def guarantee():
    return RUN.guarantee(DELTA)


@pytest.fixture(scope="module")
def seen():
    return answers("run", {"state": STATE})


def test_numbers_on_top_and_on_the_way_are_guarantees(seen, guarantee):
    last = seen["number"][-1]
    assert last["final"]
    assert last["epsilon"] == shown(guarantee.epsilon(DELTA))
    assert last["mu"] is None
    assert guarantee.mu is None
    assert last["method"] == guarantee.method
    assert last["delta"] == exact(DELTA)
    assert last["steps"] == exact(RUN.steps)
    rows = dict(last["rows"])  # what the answer holds for
    expected = {"records": "6000", "batches": "shuffled once, secretly", "δ": "1e-06"}
    expected |= {"ℓ2 regularisation": "0.01"}
    expected |= {"noise": "standard deviation 0.01 of the mean gradient"}
    assert rows == rows | expected
    assert "clipping" not in rows
    assert shown(guarantee.composition.epsilon(DELTA)) in last["composition"]
    # What is shown before the best proof is found is never too small.
    early = [float(data["epsilon"]) for data in seen["number"]]
    assert early == sorted(early, reverse=True)
    assert min(early) == float(shown(guarantee.epsilon(DELTA)))
    rows = {row.epsilon for row in RUN.explain(DELTA) if row.applies}
    assert {data["epsilon"] for data in seen["number"]} <= set(map(shown, rows))


def last_curve(seen, chart, series="the guarantee"):
    curves = [c for c in seen["curve"] if c["chart"] == chart and c["series"] == series]
    return curves[-1]["points"]


def test_curves_are_no_lower_than_the_guarantee(seen, guarantee):
    points = last_curve(seen, "epsilon")
    assert len(points) >= 11
    for p in points:
        assert p["yText"] == shown(guarantee.epsilon(p["x"]))
        assert p["y"] >= guarantee.epsilon(p["x"])
        # The δ that is read beside it is not below the one that was asked, so that the pair is proven.
        assert float(p["xText"]) >= p["x"] or p["xText"] == exact(p["x"])
        assert float(p["yText"]) >= guarantee.epsilon(float(p["xText"]))
    every = last_curve(seen, "epsilon", "every model released")
    for p in every:
        assert p["yText"] == shown(guarantee.composition.epsilon(p["x"]))
    points = last_curve(seen, "tradeoff")
    for p in points:
        assert p["yText"] == shown_down(guarantee.tradeoff(p["x"]))
        assert p["y"] <= guarantee.tradeoff(p["x"])
        assert float(p["yText"]) <= guarantee.tradeoff(float(p["xText"]))
    points = last_curve(seen, "epochs")
    assert len(points) >= 3
    assert 8.0 in {p["x"] for p in points}
    for p in points:
        other = dataclasses.replace(RUN, epochs=p["x"], steps=None)
        assert p["yText"] == shown(other.guarantee(DELTA).epsilon(DELTA))


def test_attacks_assumptions_proofs_and_published_bounds(seen, guarantee):
    text = " ".join(seen["attacks"][0]["texts"])
    for value in (guarantee.tpr(0.01), guarantee.advantage, guarantee.bayes_success()):
        assert shown(value, decimals=2, percent=True) in text
    report = guarantee.report("md")
    assert all(sentence in report for sentence in seen["attacks"][0]["texts"])
    rows = seen["assumptions"][0]["rows"]
    assert [row["text"] for row in rows] == list(guarantee.assumptions)
    assert all(row["who"] for row in rows)
    rows = {row["method"]: row for row in seen["analyses"][0]["rows"]}
    for row in RUN.explain(DELTA):
        told = rows[row.method]
        assert told["epsilon"] == (None if row.epsilon is None else shown(row.epsilon))
        assert told["reason"] == row.reason
    peers = {row["source"]: row for row in seen["peers"][0]["rows"]}
    for row in compare(RUN, DELTA):
        if row.applies:
            assert peers[row.source]["epsilon"] == shown(row.epsilon)
            assert peers[row.source]["status"] == row.status


@every("mu", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_what_an_attacker_gains_is_a_word_and_no_less_than_it_is(mu):
    guarantee = dataclasses.replace(RUN, release="path").guarantee(DELTA)
    told = gain(dataclasses.replace(guarantee, curve=Gaussian(mu), proof=None))
    right = Fraction(re.findall(r"[0-9.]+", told["text"])[0]) / 100
    assert 0.0 <= right - scipy.stats.norm.cdf(mu / 2.0) <= 1.1e-3
    most = {"little": 0.6, "something": 0.75, "much": 0.9, "almost everything": 1.0}
    assert [*most][told["level"]] == told["word"]
    assert told["word"] == next(
        word for word, p in most.items() if scipy.stats.norm.cdf(mu / 2) <= p
    )


def test_batches_are_compared_at_the_same_noise():
    """Of a network, of which only batches hide a record. What is shown on the way is never too small."""
    own = {"n": "6060", "epochs": "2", "batches": "shuffle_once", "spare": "60"}
    state = STATE | BEGINNINGS["a network"] | own
    run = read(state).description
    rows = answers("schemes", {"state": state})["scheme"]
    last = {row["place"]: row for row in rows}
    schemes = set()
    for row in last.values():
        taken = read(row["state"]).description
        assert taken == dataclasses.replace(run, batches=taken.batches)
        schemes.add((taken.batches.kind, getattr(taken.batches, "redraw", None)))
        guarantee = taken.guarantee(DELTA)
        assert row["epsilon"] == shown(guarantee.epsilon(DELTA))
        assert row["gain"] == gain(guarantee)
        assert row["own"] == (taken == run)
        early = [r["epsilon"] for r in rows if r["place"] == row["place"]]
        assert max(map(float, early)) == float(early[0]) >= float(row["epsilon"])
    kinds = {"cyclic", "shuffle_once", "reshuffle", "fixed_size", "poisson"}
    every = {(kind, None) for kind in kinds}
    assert schemes == every | {("balls_in_bins", "once"), ("balls_in_bins", "epoch")}
    # A schedule for so many steps does not suit batches that make other numbers of steps.
    listed = state | {"further": f"step_size = {[0.5] * run.steps}"}
    rows = [row for row in answers("schemes", {"state": listed})["scheme"] if row["final"]]
    assert [row["own"] for row in rows if row["reason"] is None] == [True]
    assert all((row["epsilon"] is None) == (row["reason"] is not None) for row in rows)
    assert answers("schemes", {"state": state | {"batches": "full_batch"}}).keys() == {"none"}


def test_a_change_is_the_run_that_it_says():
    seen = answers("run", {"state": STATE | {"batches": "cyclic"}})
    rows = seen["changes"][0]["rows"]
    alone = answers("run", {"state": STATE | {"batches": "cyclic"}, "patient": True})
    assert alone == {"changes": seen["changes"]}
    assert "batches: shuffled once, secretly" in {row["what"] for row in rows}
    for row in rows:
        changed = read(row["state"]).description
        assert row["epsilon"] == shown(changed.guarantee(DELTA).epsilon(DELTA))
        assert float(row["epsilon"]) < float(seen["number"][-1]["epsilon"])


def test_the_run_file_is_read_by_the_command_line(tmp_path, capsys, guarantee):
    from pabi.cli import main

    files = {f["name"]: f["text"] for f in answers("export", {"state": STATE})["file"]}
    assert to_dict(from_dict(tomllib.loads(files["run.toml"]))) == to_dict(RUN)
    (tmp_path / "run.toml").write_text(files["run.toml"], encoding="utf-8")
    assert main(["account", str(tmp_path / "run.toml"), "--delta", "1e-6"]) == 0
    assert shown(guarantee.epsilon(DELTA)) in capsys.readouterr().out
    assert pabi.verify(files["guarantee.json"]).ok
    (state,) = answers("import", {"text": files["run.toml"]})["state"]
    again = {
        f["name"]: f["text"]
        for f in answers("export", {"state": state["state"] | {"delta": "1e-6"}})["file"]
    }
    assert again == files


@pytest.mark.parametrize("parameter", ["noise", "size"])
def test_a_plan_is_that_of_calibrate(parameter):
    state = STATE | {"target": "0,7", "parameter": parameter}
    (plan,) = answers("plan", {"state": state})["plan"]
    field = "noise_std" if parameter == "noise" else parameter
    met = pabi.calibrate(RUN, 0.7, DELTA, field)
    if parameter == "noise":  # more of it, up to what people can copy
        assert met.noise_std <= float(plan["value"]) <= met.noise_std * (1 + 1e-5)
        assert len(plan["value"]) <= 10
        met = dataclasses.replace(met, noise_std=float(plan["value"]))
    else:
        assert plan["value"] == exact(met.batches.size)
    assert plan["epsilon"] == shown(met.guarantee(DELTA).epsilon(DELTA))
    assert float(plan["epsilon"]) <= 0.7
    assert read(plan["state"]).description == met


@pytest.mark.parametrize(
    ("of", "boxes", "cost"),
    [
        ("mu", {"target_mu": "0,5"}, lambda g: g.mu),
        ("advantage", {"target_advantage": "0.1"}, lambda g: g.advantage),
        ("tpr", {"target_tpr": "0.05", "target_fpr": "0.01"}, lambda g: g.tpr(0.01)),
    ],
)
def test_a_plan_meets_other_targets(of, boxes, cost):
    run = dataclasses.replace(RUN, batches=pabi.Cyclic(600))
    state = STATE | {"batches": "cyclic", "target_of": of} | boxes
    (plan,) = answers("plan", {"state": state})["plan"]
    met = dataclasses.replace(run, noise_std=float(plan["value"])).guarantee(DELTA)
    most = {"mu": 0.5, "advantage": 0.1, "tpr": 0.05}[of]
    assert 0.999 * most < cost(met) <= most
    assert (plan["reached"], plan["target"]) == (shown(cost(met)), exact(most))
    assert plan["epsilon"] == shown(met.epsilon(DELTA))


@pytest.mark.parametrize(
    ("boxes", "control", "mentions"),
    [
        ({"target": "1e-9", "parameter": "epochs"}, None, "1e-09 best"),
        ({"target": "-1"}, "target", "ε expected -1"),
        ({"target_of": "mu", "target_mu": "1e-9", "parameter": "epochs"}, None, "mu best"),
        ({"target_of": "mu", "target_mu": "a"}, "target_mu", "μ 'a'"),
        ({"target_of": "advantage", "target_advantage": "1"}, "target_advantage", "advantage < 1"),
        ({"target_of": "tpr", "target_tpr": "0.01"}, "target_tpr", "members guessing"),
        ({"target_of": "tpr", "target_fpr": "2"}, "target_fpr", "alarms < 1"),
        ({"target_of": "gain"}, "target_of", "bounded 'gain'"),
    ],
)
def test_a_plan_that_cannot_be_met_says_so(boxes, control, mentions):
    problem = refusal("plan", {"state": STATE | boxes})
    assert problem.get("control") == control
    assert all(word in problem["message"] for word in mentions.split())


def test_two_runs_side_by_side():
    other = STATE | {"noise": "0.02"}
    found = answers("compare", {"a": STATE, "b": other})
    a, b = found["side"]
    noisier = dataclasses.replace(RUN, noise_std=0.02)
    assert a["number"]["epsilon"] == shown(RUN.guarantee(DELTA).epsilon(DELTA))
    assert b["number"]["epsilon"] == shown(noisier.guarantee(DELTA).epsilon(DELTA))
    assert (a["differs"], b["differs"]) == ("noise: 0.01", "noise: 0.02")
    assert {c["series"] for c in found["curve"]} == {"A", "B"}


def test_forgetting(guarantee):
    state = STATE | {"records": "5", "forget_target": "1.5"}
    found = answers("forget", {"state": state})
    fewest = RUN.epochs_to_forget(1.5, DELTA, 5)
    assert found["forget"][0]["epochs"] == exact(fewest)
    bill = read_bill(RUN.unlearning(DELTA, epochs=fewest, records=5).notes)
    assert found["forget"][0]["staying"] == list(bill_in_words(bill))
    assert found["forget"][0]["dear"] == bill.dear
    assert shown(bill.going_on.epsilon) in found["forget"][0]["staying"][1]
    points = found["curve"][-1]["points"]
    assert float(fewest) in {p["x"] for p in points}
    for p in points[:: max(1, len(points) // 4)]:
        promised = RUN.unlearning(DELTA, epochs=int(p["x"]), records=5)
        assert p["yText"] == shown(promised.epsilon(DELTA))
    for problem in (
        refusal("forget", {"state": state | {"records": "0"}}),
        refusal("forget", {"state": state | {"forget_target": "0"}}),
    ):
        assert problem["control"] in ("records", "forget_target", "target")


# Files.


def test_an_honest_file_is_accepted(guarantee):
    found = answers("check", {"text": guarantee.to_json()})
    (verdict,) = found["verdict"]
    assert verdict["ok"]
    assert verdict["epsilon"] == shown(guarantee.epsilon(DELTA))
    assert verdict["delta"] == exact(DELTA)
    assert [row["text"] for row in found["assumptions"][0]["rows"]] == list(guarantee.assumptions)
    told = dict(found["training"][0]["rows"])
    assert (told["epochs"], told["noise"].split()[2], told["batch size"]) == ("8", "0.01", "600")
    (report,) = answers("report", {"text": guarantee.to_json()})["file"]
    assert shown(guarantee.epsilon(DELTA)) in report["text"]
    assert not any(row["word"] for row in found["assumptions"][0]["rows"])
    data = json.loads(guarantee.to_json())
    data["assumptions"].append("nobody looked")
    rows = answers("check", {"text": json.dumps(data)})["assumptions"][0]["rows"]
    assert [row["text"] for row in rows if row["word"]] == ["nobody looked"]


def test_a_file_that_claims_too_much_is_refused_and_shows_no_number(guarantee):
    data = json.loads(guarantee.to_json())
    data["certificate"]["run"]["noise_std"] = 1e-3
    for changed in (data, json.loads(guarantee.to_json()) | {"epsilon": 1e-3}):
        found = answers("check", {"text": json.dumps(changed)})
        (verdict,) = found["verdict"]
        assert not verdict["ok"]
        assert set(found) == {"verdict"}
        assert "epsilon" not in verdict
        assert "refused" in refusal("report", {"text": json.dumps(changed)})["message"]


@every("text", ["", "{", "[]", "{}", "n = 1", '{"format": "x"}', "<script>", "\x00"])
def test_what_is_no_guarantee_is_refused_in_a_sentence(text):
    assert refusal("check", {"text": text})["message"].startswith("file: expected")


def test_odd_requests_are_refused_in_a_sentence(guarantee):
    unproven = json.loads(guarantee.to_json()) | {"certificate": None}
    for text in (json.dumps(unproven), '{"a":' * 5000):
        (verdict,) = answers("check", {"text": text})["verdict"]
        assert not verdict["ok"]
        assert verdict.get("gain") is None
    for job in ("check", "budget", "import"):
        for request in ({}, {"text": 7}, {"text": None}, {"text": ["a"]}):
            assert refusal(job, request)["message"]
    for job in ("run", "plan", "forget", "export", "report", "demo"):
        assert refusal(job, {"state": [1]})["message"] == "state: expected an object"
        assert refusal(job, {"state": {"noise": {}, "demo_epsilon": {}}})["message"].endswith(
            "expected a text"
        )


@pytest.fixture
def ledger(tmp_path):
    book = pabi.Ledger(tmp_path / "people.ledger", 2.0, 1e-5)
    for target in (0.4, 0.6):
        book.spend(pabi.calibrate(RUN, target, 1e-5).guarantee(1e-5))
    return book


def test_a_ledger_is_shown_as_it_reports(ledger):
    found = answers("budget", {"text": ledger.path.read_text("utf-8")})
    (shown_ledger,), report = found["ledger"], ledger.report()
    assert shown_ledger["left"] == shown_down(ledger.remaining())
    assert shown_ledger["spent"] == shown(report.spent)
    share = float(re.findall(r"([0-9.]+)%", shown_ledger["adding"])[0]) / 100
    squares = sum(e.charge**2 for e in report.entries) / report.budget**2
    assert squares <= share * (1 + 1e-12) <= squares + 1e-3
    assert [e["epsilon"] for e in shown_ledger["entries"]] == [
        shown(e.epsilon) for e in report.entries
    ]
    assert "what" not in found


def test_what_if_agrees_with_the_ledger(ledger):
    """What it says would be left is left once the release is spent; the file is not touched before."""
    text = ledger.path.read_text("utf-8")
    state = STATE | {"noise": "0.02", "delta": "1e-5"}
    (what,) = answers("budget", {"text": text, "what": "run", "state": state})["what"]
    assert what["fits"]
    assert ledger.path.read_text("utf-8") == text
    ledger.spend(dataclasses.replace(RUN, noise_std=0.02).guarantee(1e-5))
    assert what["left"] == shown_down(ledger.remaining())
    assert what["spent"] == shown(ledger.report().spent)


def test_what_does_not_fit_is_refused_by_the_ledger_as_well(ledger):
    text = ledger.path.read_text("utf-8")
    left = ledger.remaining()
    for factor, fits in ((0.999, True), (1.001, False)):
        state = {"what_epsilon": exact(left * factor), "what_delta": "1e-5"}
        (what,) = answers("budget", {"text": text, "what": "target", "state": state})["what"]
        assert what["fits"] is fits
        assert what["more"] == ("1" if fits else "0")
    dear = dataclasses.replace(RUN, noise_std=1e-4)
    asked = {"text": text, "what": "run", "state": STATE | {"noise": "1e-4"}}
    (what,) = answers("budget", asked)["what"]
    assert not what["fits"]
    changed = text.replace('"charge":', '"charge": ', 1)
    assert "changed" in refusal("budget", {"text": changed})["message"]
    with pytest.raises(pabi.BudgetExceeded):
        ledger.spend(dear.guarantee(1e-5))


def test_a_ledger_is_started_with_what_is_out_proven_and_fits(guarantee):
    text = guarantee.to_json()
    state = {"budget_epsilon": "3", "budget_delta": "1e-5"}
    found = answers("budget", {"released": [["a", text], ["b", text]], "state": state})
    (file,), (shown_ledger,) = found["file"], found["ledger"]
    assert len(shown_ledger["entries"]) == 2
    assert shown_ledger["epsilon"] == "3"
    assert answers("budget", {"text": file["text"]})["ledger"][0] == shown_ledger
    empty = answers("budget", {"released": [], "state": state})["ledger"][0]
    assert (empty["entries"], float(empty["left"])) == ([], pytest.approx(3.0, rel=1e-4))
    forged = guarantee.to_json().replace('"noise_std": 0.01', '"noise_std": 0.005')
    assert forged != guarantee.to_json()
    state = {"budget_epsilon": "0.5", "budget_delta": "1e-6"}
    for released in (
        [["a.json", forged]],
        [["a.json", guarantee.to_json()]],
        ["a.json"],
        {},
        [[1, 2]],
    ):
        assert refusal("budget", {"released": released, "state": state})["message"]
    assert "a.json" in refusal("budget", {"released": [["a.json", forged]]})["message"]


# The demonstration.


def test_a_demo_shows_steps_and_nothing_of_the_model():
    found = answers("demo", {"state": {"demo_epsilon": "2", "demo_delta": "1e-4"}})
    assert set(found) <= {"progress", "trained", "assumptions", "warning"}
    for data in found["progress"]:
        assert set(data) == {"over", "steps", "text"}
        assert isinstance(data["over"], int)
    last = found["progress"][-1]
    assert last["over"] == last["steps"] > 0
    (trained,) = found["trained"]
    assert float(trained["epsilon"]) <= 2.0
    # No model at all is right in 63 % of these records, whatever it is trained on.
    assert 0.7 < float(trained["accuracy"].rstrip("%")) / 100 <= 1.0
    text = answers("export", {"state": trained["state"]})["file"][0]["text"]
    assert isinstance(from_dict(tomllib.loads(text)), pabi.NoisySGD)


def test_nothing_of_an_unexpected_error_is_lost(monkeypatch):
    from pabi.cli.explorer import workers

    def broken(_):
        yield "number", {}
        raise RuntimeError("odd")

    monkeypatch.setattr(workers, "calculation", lambda _: broken)
    assert "report this as a defect" in refusal("run", {})["message"]


def test_a_large_delta_is_warned_of_and_a_multiplier_is_at_least_the_noise():
    """Every time, and with the first number already."""

    def first(**changes):
        asked = events("run", {"state": STATE | changes})
        return next(data for name, data in asked if name == "number")

    for _ in range(2):
        number = first(delta="1e-3")
        assert number["large"]
        assert number["of_one"] == "6"
        assert np.isfinite(float(number["epsilon"]))
    assert not first()["large"]
    # Whoever trains with it in another tool adds no less noise than was accounted for.
    state = STATE | {"clip_norm": "0.7", "noise": "0.00123457", "size": "700"}
    rows = dict(answers("plan", {"state": state | {"target": "2"}})["plan"][0]["rows"])
    std, multiplier = (float(word) for word in rows["noise"].split() if word[0].isdigit())
    assert std * 700 / 0.7 <= multiplier <= std * 700 / 0.7 * (1 + 1e-5)


def test_changes_that_were_not_tried_are_not_said_to_help_nothing(monkeypatch):
    from pabi.account import changes

    monkeypatch.setattr(changes, "SLOW", 0.0)
    (found,) = answers("run", {"state": STATE | {"batches": "cyclic"}})["changes"]
    assert not found["tried"]
    assert found["rows"] == []

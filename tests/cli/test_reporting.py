"""`pabi report`: what is refused has no report, and every other file has the one of its guarantee."""

import json
import re

import pytest

import pabi
from pabi.showing import shown
from pabi.tradeoff.guarantee import TESTING
from support import run_files
from support.run_files import toml
from support.tables import assert_one_line
from support.tables import run as call

from .test_verify import DELTA, RUN

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
    nowhere = str(tmp_path / "no" / "r.md")
    assert_one_line(call("report", "-", "--out", nowhere, stdin=text))
    text = RUN.guarantee(DELTA).to_json()
    for option, value, field in [
        ("--format", "pdf", "format"),
        ("--delta", "0", "delta"),
        ("--delta", "x", "--delta"),
    ]:
        assert_one_line(call("report", "-", option, value, stdin=text), f"error: {field}: ")
    for text in ["", "{", "{}", "[]", "n = ", '{"format": "pabi.guarantee"}']:
        assert_one_line(call("report", "-", stdin=text))

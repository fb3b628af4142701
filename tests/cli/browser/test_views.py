"""The other views, in a browser: each journey to its end, with the library's numbers."""

import json
from dataclasses import replace

import pytest
import tomli_w

import pabi
from pabi.describe.files import to_dict
from pabi.showing import exact, shown, shown_down
from support.browsers import needs_chromium
from support.every_case import every
from support.explorers import OPENING as RUN
from support.explorers import explorer

pytestmark = needs_chromium

DELTA = 1e-5


@pytest.fixture
def view(page, server):
    """Opens one of the views."""

    def go(name):
        page.open(server.at(view=name))
        page.wait(lambda: page.one("body").get_attribute("data-view") == name)
        return page

    return go


# Plan


def test_the_noise_for_a_target_goes_into_the_run(view):
    page = view("plan")
    page.wait(lambda: page.shown("#planned"))  # before anything is asked
    first = page.text("#planned")
    assert 0.999 < replace(RUN, noise_std=float(first)).guarantee(DELTA).epsilon(DELTA) <= 1.0
    page.wait(lambda: "A, the controls B, the plan" in page.text("main thead"))
    page.write("target", "0,75")
    page.wait(lambda: page.text("#planned") != first)
    noise = float(page.text("#planned"))
    epsilon = replace(RUN, noise_std=noise).guarantee(DELTA).epsilon(DELTA)
    assert 0.749 < epsilon <= 0.75
    assert f"ε is at most {shown(epsilon)}" in page.text("main")
    page.press("Put it into the run")
    page.wait(lambda: page.one("body").get_attribute("data-view") == "run")
    assert page.answered() == shown(epsilon)


def test_another_target_is_chosen_by_keyboard(view):
    page = view("plan")
    assert not page.shown("#c-target_tpr")
    page.box("target_of").send_keys("members")
    page.wait(lambda: page.shown("#c-target_tpr") and page.shown("#c-target_fpr"))
    assert not page.shown("#c-target")
    page.box("target_tpr").send_keys("\ue009a", "\ue000", "0,03")  # Control and A
    page.box("target_fpr").send_keys("\ue007")  # Enter, which does nothing else
    page.wait(lambda: "the target is 0.03." in page.text("main"))
    met = replace(RUN, noise_std=float(page.text("#planned"))).guarantee(DELTA)
    assert 0.0299 < met.tpr(0.01) <= 0.03
    assert f"is at most {shown(met.tpr(0.01))}; the target is 0.03" in page.text("main")
    assert f"ε is at most {shown(met.epsilon(DELTA))} at δ = 1e-05" in page.text("main")


def test_how_many_epochs_a_target_affords_and_one_that_none_meets(view):
    page = view("plan")
    page.write("l2", "").write("target", "2").write("parameter", "epochs")
    page.wait(lambda: page.text(".epsilon").startswith("epochs"))
    epochs, run = float(page.text("#planned")), replace(RUN, loss=pabi.Loss.logistic(1.0))
    met, more = (
        replace(run, epochs=k).guarantee(DELTA).epsilon(DELTA) for k in (epochs, epochs + 1)
    )
    assert met <= 2.0 < more
    page.write("target", "-1")
    page.wait(lambda: page.text("#c-target-error"))
    assert "target ε" in page.text("main .alarm")
    page.write("target", "0.0001")
    page.wait(lambda: "best" in page.text("main .alarm"))
    assert "Traceback" not in page.text("main")


def test_two_runs_side_by_side_survive_a_reload(view):
    page = view("plan")
    page.press("Keep the controls as run A")
    page.write("batches", "shuffle_once")
    page.press("Keep the controls as run B")
    page.wait(lambda: "what differs" in page.text("main table"))
    other = replace(RUN, batches=pabi.ShuffleOnce(1_500))
    numbers = [shown(run.guarantee(DELTA).epsilon(DELTA)) for run in (RUN, other)]

    def compared():
        rows = [row.text for row in page.all("main table tbody tr")]
        return any(row.startswith("ε at most") and all(n in row for n in numbers) for row in rows)

    page.wait(compared)
    page.wait(lambda: "b=" in page.driver.execute_script("return location.search"))
    page.driver.refresh()
    page.wait(compared)


# Check


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "guarantee.json"
    guarantee = replace(RUN, batches=pabi.ShuffleOnce(1_500)).guarantee(DELTA)
    path.write_text(json.dumps(guarantee.to_dict(certificate=True)), encoding="utf-8")
    return path


def drop(page, path):
    page.one("main input[type=file]").send_keys(str(path))


def test_a_proven_file_is_accepted_and_its_assumptions_are_attested(view, certificate):
    page = view("check")
    drop(page, certificate)
    page.wait(lambda: page.shown("#verdict"))
    guarantee = pabi.Guarantee.from_json(certificate.read_text("utf-8"))
    assert page.text("#verdict").endswith("is accepted.")
    assert f"{shown(guarantee.epsilon(DELTA))} at δ = {exact(DELTA)}" in page.text(".facts")
    page.wait(lambda: page.all(".attest li"))
    told = [label.text for label in page.all(".attest label")]
    assert told[0].startswith("the model was trained exactly as described")
    assert all(
        text.startswith(assumption)
        for text, assumption in zip(told[1:], guarantee.assumptions, strict=True)
    )
    assert "noise standard deviation 0.01" in page.text("main table")
    for box in page.all(".attest input"):
        box.send_keys(" ")
    page.wait(lambda: "All are attested." in page.text("main"))
    page.press("Save the report")
    assert "<html" in page.download("report.html")


def test_a_forged_file_is_refused_with_the_reason(view, certificate, tmp_path):
    forged = json.loads(certificate.read_text("utf-8"))
    text = json.dumps(forged).replace('"noise_std": 0.01', '"noise_std": 0.005')
    assert text != json.dumps(forged)
    (tmp_path / "forged.json").write_text(text, encoding="utf-8")
    page = view("check")
    drop(page, tmp_path / "forged.json")
    page.wait(lambda: page.shown("#verdict"))
    reason = pabi.verify(text).reason
    assert not pabi.verify(text).ok
    told = page.text("#verdict")
    assert told.startswith("Do not rely on forged.json: its proof is refused. ")
    assert told.lower().endswith(f"{reason}.".lower())
    assert not page.all(".attest li") or not page.shown(".attest")


def complaint(page, path, content):
    """What the page says of a file, once nothing that was said before is left."""
    path.write_bytes(content)
    page.driver.execute_script(
        "document.querySelectorAll('main .alarm').forEach((e) => e.remove())"
    )
    drop(page, path)
    return page.wait(lambda: page.text("main .alarm"))


NO_GUARANTEES = (
    b"", b"\x00\xff\xfe", b"[1, 2]", b"{", b'{"format": 1}', b"kind = 'noisy_sgd'", b"[" * 99_999
)  # fmt: skip
NO_LEDGERS = (b"", b"no ledger\n", b"\x00\xff", b"{}\n", b"[[[[\n")


@every(("name", "contents"), [("check", NO_GUARANTEES), ("budget", NO_LEDGERS)])
def test_what_is_no_file_of_the_view_is_one_sentence(view, tmp_path, name, contents):
    page = view(name)
    for content in contents:
        told = complaint(page, tmp_path / "file", content)
        assert name == "budget" or "guarantee" in told
        assert "defect" not in told
        assert len(told) < 400


# Budget


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "people.ledger"
    book = pabi.Ledger(path, epsilon=2.0, delta=DELTA)
    for _ in range(2):
        book.spend(RUN.guarantee(DELTA))
    return path


def test_a_ledger_and_one_more_release(view, ledger):
    page = view("budget")
    drop(page, ledger)
    page.wait(lambda: page.text(".facts"))
    report = pabi.Ledger(ledger, epsilon=2.0, delta=DELTA).report()
    assert f"ε = {shown(report.spent)} so far" in page.text(".facts")
    assert f"ε = {shown_down(report.epsilon_left)} for one" in page.text(".facts")
    assert len(page.all("main tbody tr")) >= 2
    before = ledger.read_bytes()
    page.press("The run of this page")
    page.wait(lambda: page.text("#what"))
    assert page.text("#what").startswith("It fits")
    third = pabi.Ledger(ledger, epsilon=2.0, delta=DELTA)
    assert ledger.read_bytes() == before  # nothing is entered
    page.write("what_epsilon", "5")
    page.press("A release like this")
    page.wait(lambda: page.text("#what").startswith("It does not fit"))
    assert shown_down(third.remaining()) in page.text("main")


def test_a_ledger_is_started_on_the_page_and_saved(view, certificate, tmp_path):
    page = view("budget")
    page.write("budget_epsilon", "3")
    page.one("#released").send_keys(f"{certificate}")
    page.press("Start a ledger")
    page.wait(lambda: page.text(".facts"))
    page.press("Save the ledger")
    (tmp_path / "people.ledger").write_text(page.download("people.ledger"), encoding="utf-8")
    released = pabi.Guarantee.from_json(certificate.read_text("utf-8"))
    order = pabi.Ledger.best_order([released], 3.0, DELTA)
    book = pabi.Ledger(tmp_path / "people.ledger", epsilon=3.0, delta=DELTA, order=order)
    assert f"ε = {shown_down(book.remaining())} for one" in page.text(".facts")


# Forget


def test_forgetting_takes_the_library_s_epochs(view):
    page = view("forget")
    page.wait(lambda: page.text("#forgetting"))
    epochs = RUN.epochs_to_forget(1.0, DELTA, 50)
    assert page.text("#forgetting") == exact(epochs)
    epsilon = RUN.unlearning(DELTA, epochs=epochs, records=50).epsilon(DELTA)
    assert f"ε = {shown(epsilon)}" in page.text("main")
    page.write("records", "5")
    fewer = RUN.epochs_to_forget(1.0, DELTA, 5)
    page.wait(lambda: page.text("#forgetting") == exact(fewer))
    page.write("records", "5,5")
    page.wait(lambda: "whole number" in page.text("#c-records-error"))


# Demo


def test_a_model_is_trained_at_the_epsilon_that_was_asked(view):
    page = view("demo")
    page.write("demo_epsilon", "lots")
    page.press("Train")
    page.wait(lambda: "expected a number" in page.text("#c-demo_epsilon-error"))
    page.write("demo_epsilon", "2")
    page.press("Train")
    page.wait(lambda: page.shown("#accuracy"))
    assert page.text("#accuracy").endswith("%")
    sentence = next(p.text for p in page.all("main p") if p.text.startswith("ε is at most"))
    epsilon = float(sentence.split()[4])
    assert 1.9 < epsilon <= 2.0
    # What is trained is what is accounted: the same run, the same number or a smaller one for it alone.
    page.press("Show this run")
    page.wait(lambda: page.one("body").get_attribute("data-view") == "run")
    assert float(page.answered()) <= epsilon


def test_files_of_the_command_line_are_opened(page, tmp_path):
    path, run_file = tmp_path / "people.ledger", tmp_path / "run.toml"
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.02)
    given = {"n": 4000, "batches": pabi.Reshuffle(100), "epochs": 5, "step_size": 0.2}
    run = pabi.NoisySGD(loss, noise_std=0.05, **given)
    run_file.write_text(tomli_w.dumps(to_dict(run)), encoding="utf-8")
    book = pabi.Ledger(path, epsilon=20.0, delta=DELTA)
    book.spend(run.guarantee(DELTA))
    with explorer(run_file, "--ledger", path) as running:
        page.others = page.expected = [f"{running.origin}/"]  # which ends before the page does
        page.open(running.address)
        assert page.answered() == shown(run.guarantee(DELTA).epsilon(DELTA))
        assert page.box("n").get_attribute("value") == "4000"
        assert page.box("batches").get_attribute("value") == "reshuffle"
        page.go("budget")
        first = shown(book.report().spent)
        page.wait(lambda: f"ε = {first} so far" in page.text(".facts"))
        book.spend(run.guarantee(DELTA))  # by another program
        page.driver.refresh()
        second = shown(book.report().spent)
        page.wait(lambda: f"ε = {second} so far" in page.text(".facts"))
        assert first != second

"""The view of one run, in a browser: numbers are the library's, wrong input is said in its place."""

import re
import tomllib
from dataclasses import replace

import pabi
from pabi.describe.files import from_dict
from pabi.showing import shown
from support.browsers import needs_chromium
from support.explorers import OPENING as RUN

pytestmark = needs_chromium


def epsilon(run, delta=1e-5):
    return shown(run.guarantee(delta).epsilon(delta))


# One after the other on one page.
CHANGES = [
    (
        {"n": "30 000", "size": "500", "batches": "reshuffle", "adjacency": "zero_out"},
        {"n": 30_000, "batches": pabi.Reshuffle(500), "adjacency": "zero_out"},
        1e-5,
    ),
    (
        {"n": "60000", "size": "1500", "batches": "cyclic", "adjacency": "replace_one",
         "noise": "0,02", "cooldown_steps": "40", "delta": "1e-7"},
        {"noise_std": 0.02, "cooldown_steps": 40},
        1e-7,
    ),
    (
        {"noise": "0.01", "cooldown_steps": "", "delta": "1e-5", "l2": "", "epochs": "3",
         "release": "path"},
        {"loss": pabi.Loss.logistic(feature_norm=1.0), "epochs": 3, "release": "path"},
        1e-5,
    ),
]  # fmt: skip


def test_numbers_and_changes_are_those_of_the_library(opened):
    guarantee = RUN.guarantee(1e-5)
    assert opened.text("#epsilon") == shown(guarantee.epsilon(1e-5))
    facts = opened.text(".facts")
    assert guarantee.source in facts
    assert shown(guarantee.mu) in facts
    assert f"ε = {shown(guarantee.composition.epsilon(1e-5))} if every model" in facts
    for texts, changed, delta in CHANGES:
        assert opened.asked(**texts) == epsilon(replace(RUN, **changed), delta), texts


def test_a_slider_moves_the_box_and_the_number(opened):
    from selenium.webdriver.common.keys import Keys

    before = opened.text(".status")
    opened.one("[name=epochs] ~ input[type=range]").send_keys(Keys.PAGE_UP)
    opened.wait(lambda: opened.text(".status") != before)
    epochs = float(opened.box("epochs").get_attribute("value"))
    assert epochs > 50
    assert opened.answered() == epsilon(replace(RUN, epochs=epochs))


def test_a_network_begins_with_its_batches_compared(opened):
    before = opened.text(".status")
    colour = opened.one("#epsilon").value_of_css_property("color")
    opened.press("a network")  # Enter
    opened.wait(lambda: opened.text(".status") != before)
    opened.asked(size="6000", epochs="2")  # as quick as it can be
    opened.wait(
        lambda: opened.text("#schemes").count("○") + opened.text("#schemes").count("●") == 28
    )
    assert opened.box("loss").get_attribute("value") == "unknown"
    rows = opened.all("#schemes tbody tr")
    assert [row.text.split()[0] for row in rows if "this run" in row.text] == ["Poisson:"]
    assert opened.answered() in next(row.text for row in rows if "this run" in row.text)
    bins = next(row for row in rows if "redraw" in row.text)
    text, before = bins.text, opened.text(".status")
    bins.find_element("css selector", "button").send_keys("\ue007")
    opened.wait(lambda: opened.text(".status") != before)
    assert f" {opened.answered()} " in text.replace("\n", " ")
    assert opened.box("redraw").get_attribute("value") == "epoch"
    assert opened.driver.switch_to.active_element == opened.one("main")  # Tab goes on from there
    # What an attacker gains is said in words, and the colour is another one.
    opened.asked(batches="cyclic", noise="0.1")
    opened.wait(lambda: "An attacker gains almost everything" in opened.text(".hero"))
    assert opened.one("#epsilon").value_of_css_property("color") != colour


def test_small_numbers_are_written_in_one_way(opened):
    from selenium.webdriver.common.keys import Keys

    opened.asked(noise="1e-05")
    for move in (Keys.HOME, Keys.PAGE_UP):
        before = opened.text(".status")
        opened.one("[name=delta] ~ input[type=range]").send_keys(move)
        opened.wait(lambda before=before: opened.text(".status") != before)
        opened.answered()
    opened.wait(lambda: opened.shown("[data-chart=epsilon] .plot svg"))
    said = opened.driver.execute_script(
        "return [...document.querySelectorAll('#layout, #layout *')].flatMap((e) => [e.value ?? '',"
        " e.getAttribute('aria-valuetext') ?? '', ...[...e.childNodes].map((n) => n.nodeValue)]).join(' ')"
    )
    powers = set(re.findall(r"\de-(\d+)", said))
    assert {"05", "12"} <= powers
    assert all(len(power) > 1 for power in powers)


def test_a_button_applies_the_change_that_it_names(opened):
    opened.wait(lambda: opened.all(".changes button"))
    button = opened.one(".changes button")
    text = button.text
    before = opened.text(".status")
    button.send_keys("\ue007")
    opened.wait(lambda: opened.text(".status") != before)
    assert f"ε at most {opened.answered()} " in text


WRONG = {
    ("epochs", "many"): "expected a number",
    ("noise", "-1"): "noise",
    ("n", "12.5"): "whole number",
    ("n", "1,500"): "read in two ways",
    ("delta", "2"): "δ",
    ("size", "90000"): "batch size",
    ("further", "x = ["): "TOML",
    ("step_size", "1e999"): "finite",
}


def test_wrong_input_is_one_sentence_in_its_place(opened):
    right = opened.text("#epsilon")
    for (name, text), sentence in WRONG.items():
        before = opened.box(name).get_attribute("value")
        opened.write(name, text)
        opened.wait(lambda name=name: opened.text(f"#c-{name}-error"))
        error = opened.text(f"#c-{name}-error")
        assert sentence in error
        assert "\n" not in error
        assert "Traceback" not in error
        assert opened.box(name).get_attribute("aria-invalid") == "true"
        assert f"c-{name}-error" in opened.box(name).get_attribute("aria-describedby")
        assert opened.text("#epsilon") == "–"  # and no number of another run
        opened.write(name, before)
        opened.wait(lambda name=name: not opened.text(f"#c-{name}-error"))
        assert opened.answered() == right


def test_an_exported_run_file_is_the_run(opened, tmp_path):
    opened.asked(epochs="9", noise="0,03", batches="shuffle_once")
    opened.press("Run file")
    text = opened.download("run.toml")
    run = replace(RUN, epochs=9, noise_std=0.03, batches=pabi.ShuffleOnce(1_500))
    (tmp_path / "run.toml").write_text(text, encoding="utf-8")
    assert from_dict(tomllib.loads(text)) == run
    # And back: the page takes its own file.
    opened.asked(epochs="50", noise="0.01", batches="cyclic")
    before = opened.text(".status")
    opened.one("main input[type=file]").send_keys(str(tmp_path / "run.toml"))
    opened.wait(lambda: opened.text(".status") != before)
    assert opened.answered() == epsilon(run)
    assert opened.box("epochs").get_attribute("value") == "9"


def test_exported_guarantees_reports_and_pictures(opened):
    opened.press("Guarantee")
    guarantee = pabi.Guarantee.from_json(opened.download("guarantee.json"))
    assert pabi.verify(guarantee).ok
    assert shown(guarantee.epsilon(1e-5)) == opened.text("#epsilon")
    opened.press("Report")
    report = opened.download("report.html")
    assert "<html" in report
    assert report.count("<script") == 1  # which checks, and is named by its hash
    opened.wait(lambda: opened.shown("[data-chart=tradeoff] .plot svg"))
    opened.one("[data-chart=tradeoff] button").send_keys("\ue007")
    assert opened.download("pabi-tradeoff.svg").startswith("<svg")


def test_the_table_of_a_chart_has_the_library_s_numbers(opened):
    opened.wait(lambda: opened.shown("[data-chart=epsilon] .plot svg"))
    opened.one("[data-chart=epsilon] summary").send_keys("\ue007")  # Enter
    row = "[data-chart=epsilon] tbody tr"
    rows = opened.wait(lambda: [tuple(one.text.split()) for one in opened.all(row)])
    guarantee = RUN.guarantee(1e-5)
    for at in ("1e-05", "1e-06", "1e-08"):
        both = (guarantee.epsilon(float(at)), guarantee.composition.epsilon(float(at)))
        assert [value for delta, value in rows if delta == at] == [shown(value) for value in both]

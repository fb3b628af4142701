"""Nobody is kept out: axe-core finds nothing serious, light and dark, on phones and wide screens."""

import pytest

import pabi
from support.browsers import emulate, findings, needs_axe, needs_chromium
from support.explorers import VIEWS

pytestmark = [needs_chromium, needs_axe]

LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
RUN = pabi.NoisySGD(
    LOSS, n=6_000, batches=pabi.ShuffleOnce(size=1_500), epochs=5, step_size=0.5, noise_std=0.01
)


def filled(page, view, folder):
    """The view with an answer in it."""
    match view:
        case "run":
            page.press("a network")
            page.write("size", "6000").write("epochs", "1")
            page.wait(
                lambda: len(page.all("#schemes .gain")) == 7 and not page.all("#schemes.stale")
            )
            page.wait(lambda: page.all(".changes li") and page.shown("main .plot svg"))
        case "plan":
            page.press("Keep the controls as run A")
            page.press("Keep the controls as run B")
            page.wait(lambda: page.shown("#planned") and page.shown("main .plot svg"))
        case "check":
            path = folder / "guarantee.json"
            path.write_text(RUN.guarantee(1e-5).to_json(), encoding="utf-8")
            page.one("main input[type=file]").send_keys(str(path))
            page.wait(lambda: page.shown(".attest li") and page.shown("main .plot svg"))
        case "budget":
            pabi.Ledger(folder / "a.ledger", epsilon=2.0, delta=1e-5).spend(RUN.guarantee(1e-5))
            page.one("main input[type=file]").send_keys(str(folder / "a.ledger"))
            page.wait(lambda: page.shown("main .plot svg"))
            page.press("A release like this")
            page.wait(lambda: page.shown("#what"))
        case "forget":
            page.wait(lambda: page.shown("#forgetting") and page.shown("main .plot svg"))
        case "demo":
            page.press("Train")
            page.wait(lambda: page.shown("#accuracy"))


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(page, server, tmp_path, view):
    page.open(server.at(view=view))
    page.wait(lambda: page.one("body").get_attribute("data-view") == view)
    filled(page, view, tmp_path)
    for details in page.all("details:not([open]) > summary"):
        if details.is_displayed():
            details.send_keys("\ue007")  # what is folded is looked at as well
    found = []
    for width in (360, 1600):
        for theme in ("light", "dark"):
            emulate(page.driver, width=width, theme=theme)
            page.driver.execute_script("document.querySelector('#drawer').open = true")
            wide = page.driver.execute_script("return document.documentElement.scrollWidth")
            found += [f"{width} {theme}: {text}" for text in findings(page.driver)]
            found += [f"{width} {theme}: the page is {wide} wide"] * (wide > width)
    assert found == []


def test_axe_finds_nothing_serious_beside_errors(page, server):
    page.open(server.at(n="many"))
    page.wait(lambda: page.text("#c-n-error"))
    for theme in ("light", "dark"):
        emulate(page.driver, width=360, theme=theme)
        page.driver.execute_script("document.querySelector('#drawer').open = true")
        assert findings(page.driver) == []


def test_an_answer_is_told_to_screen_readers_and_charts_have_words_and_tables(opened):
    """What changes by itself is in a region that is read out; the box points to its error."""
    opened.wait(lambda: opened.shown("[data-chart=tradeoff] .plot svg"))
    for plot in opened.all(".plot[role=img]"):
        assert len(plot.get_attribute("aria-label")) > 40
    for figure in opened.all("figure.chart"):
        if figure.is_displayed():
            figure.find_element("css selector", "summary").send_keys("\ue007")
            opened.wait(lambda figure=figure: figure.find_elements("css selector", "tbody tr"))
    status = opened.one(".status")
    assert status.get_attribute("role") == "status"
    assert opened.text("#epsilon") in status.text
    opened.write("n", "many")
    opened.wait(lambda: opened.shown("[role=alert]"))
    box = opened.box("n")
    names = box.get_attribute("aria-describedby").split()
    pointed = " ".join(opened.text(f"#{name}") for name in names)
    assert "expected" in pointed
    assert box.accessible_name == "records"


def test_the_theme_is_that_of_the_reader(opened):
    papers = set()
    for theme in ("light", "dark"):
        emulate(opened.driver, theme=theme)
        papers.add(opened.one("body").value_of_css_property("background-color"))
    assert len(papers) == 2


def test_axe_finds_what_is_serious(driver):
    driver.get(
        "data:text/html,<html><title>a</title><p style='color: %23ccc'>pale</p><input><img src='a:b'>"
    )
    rules = {text.split()[0] for text in findings(driver)}
    assert {"color-contrast", "label", "image-alt", "html-has-lang"} <= rules

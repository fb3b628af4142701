"""Figures that answer, in a browser: by slider and pointer, in both themes, without a network or scripts."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.browsers import (
    chromium,
    complaints,
    emulate,
    findings,
    from_elsewhere,
    needs_axe,
    needs_chromium,
    requests,
)

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
NAMES = sorted(path.stem for path in FIGURES.glob("*.json"))

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with all figures, built as the documentation is."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "docs"
    source.mkdir()
    shutil.copytree(
        FIGURES,
        source / "figures",
        ignore=lambda _, names: [name for name in names if not name.startswith(tuple(NAMES))],
    )
    shutil.copytree(ROOT / "docs" / "_static", source / "_static")
    figures = "\n\n".join(
        f"````{{interactive}} figures/{name}.json\n:alt: what {name} shows\n\n"
        f"```{{image}} figures/{name}.svg\n:alt: of {name}\n```\n````"
        for name in NAMES
    )
    (source / "index.md").write_text(f"# Figures\n\n{figures}\n", encoding="utf-8")
    (source / "conf.py").write_text(
        f"import sys\nsys.path[:0] = [{str(ROOT / 'docs' / '_ext')!r}]\n"
        "extensions = ['myst_parser', 'interactive']\nhtml_theme = 'furo'\n"
        "html_static_path = ['_static']\nhtml_css_files = ['site.css']\n",
        encoding="utf-8",
    )
    build = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(source)]
    subprocess.run([*build, str(folder / "html")], check=True, timeout=200)
    return (folder / "html" / "index.html").as_uri()


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        yield driver


@pytest.fixture
def figures(driver, page):
    """The page's figures, once they answer."""
    return opened(driver, page)


def opened(driver, page):
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(page)
    WebDriverWait(driver, 20).until(
        lambda d: len(d.find_elements("css selector", ".interactive-chart svg")) == len(NAMES)
    )
    return driver.find_elements("css selector", ".interactive")


def readings(figure):
    """(place, {curve: value}) that a figure shows."""
    place = figure.find_element("css selector", "output").text
    items = [item.text.rpartition(": ") for item in figure.find_elements("css selector", "li")]
    return place, {name: value for name, _, value in items}


def drawn(k):
    return json.loads((FIGURES / f"{NAMES[k]}.json").read_text("utf-8"))


def values(told, place):
    return told["texts"][place], {c["name"]: c["texts"][place] for c in told["curves"]}


def test_a_figure_is_read_by_keyboard(driver, figures):
    from selenium.webdriver.common.keys import Keys

    for k, figure in enumerate(figures):
        told = drawn(k)
        slider = figure.find_element("css selector", "input")
        assert readings(figure) == values(told, told["start"])
        slider.send_keys(Keys.ARROW_LEFT)
        assert readings(figure) == values(told, told["start"] - 1)
        slider.send_keys(Keys.HOME)
        assert readings(figure) == values(told, 0)
        slider.send_keys(Keys.END)
        place, curves = values(told, -1)
        assert readings(figure) == (place, curves)
        spoken = slider.get_attribute("aria-valuetext")
        assert all(f"{name} {value}" in spoken for name, value in curves.items())
        assert slider.accessible_name.startswith(told["control"])


def test_the_pointer_chooses_the_nearest_place(driver, figures):
    from selenium.webdriver.common.action_chains import ActionChains

    for k, figure in enumerate(figures):
        told = drawn(k)
        chart = figure.find_element("css selector", ".interactive-chart svg")
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
        width = chart.size["width"]
        chosen = []
        for share in (-0.3, 0.0, 0.3, 0.46):
            ActionChains(driver).move_to_element_with_offset(chart, int(share * width), 0).perform()
            place, curves = readings(figure)
            row = told["texts"].index(place)
            assert (place, curves) == values(told, row)
            chosen.append(row)
        assert chosen == sorted(set(chosen))


def test_nothing_is_asked_of_other_places_and_nothing_goes_wrong(driver, page):
    requests(driver), complaints(driver)
    opened(driver, page)
    addresses = requests(driver)
    assert any(re.search(r"vega.min.js(\?|$)", address) for address in addresses)
    assert from_elsewhere(addresses, page.rpartition("/")[0]) == []
    assert complaints(driver) == []


@needs_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_nobody_is_kept_out(driver, page, width, theme):
    emulate(driver, width=width, theme=theme)
    for figure in opened(driver, page):
        figure.find_element("css selector", "summary").send_keys("\ue007")  # Enter
    # The theme's own parts are furo's; its fonts and rules are not what is tested here.
    assert findings(driver, "'.interactive'") == []
    emulate(driver)


def test_curves_follow_the_theme(driver, page):
    colours = set()
    for theme in ("light", "dark"):
        emulate(driver, theme=theme)
        opened(driver, page)
        line = driver.find_element("css selector", ".interactive-chart path[stroke^='var']")
        colours.add(line.value_of_css_property("stroke"))
    emulate(driver)
    assert len(colours) == 2


def test_without_scripts_there_are_pictures_and_a_table(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page)
        for figure in driver.find_elements("css selector", ".interactive"):
            assert figure.find_element("css selector", "img").is_displayed()
            assert not figure.find_element("css selector", ".interactive-chart").is_displayed()
            figure.find_element("css selector", "summary").send_keys("\ue007")  # Enter
            assert figure.find_element("css selector", "tbody td").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})

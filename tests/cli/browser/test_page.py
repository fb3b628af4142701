"""The page as a whole: reload, links, two tabs, the keyboard alone, and a server that goes away."""

import shlex
import signal

from support.browsers import chromium, emulate, needs_chromium
from support.explorers import Page, explorer

pytestmark = needs_chromium


def query(page):
    return page.driver.execute_script("return location.search")


def test_reload_keeps_what_is_set_and_the_address_no_token(opened, server):
    assert server.token not in opened.driver.current_url
    epsilon = opened.asked(epochs="11", noise="0,02")
    opened.wait(lambda: "epochs=11" in query(opened))
    opened.driver.refresh()
    opened.wait(lambda: opened.all("#tabs a"))
    assert opened.answered() == epsilon
    assert opened.box("epochs").get_attribute("value") == "11"


def test_a_link_opens_the_same_in_another_browser_with_the_token_alone(opened, server):
    epsilon = opened.asked(batches="reshuffle", epochs="12")
    opened.wait(lambda: "epochs=12" in query(opened))
    with chromium() as other:
        page = Page(other).open(f"{server.origin}/{query(opened)}")
        assert "pabi explore printed" in page.text("#trouble")
        assert not page.all("#tabs a")
        page.open(f"{server.origin}/{query(opened)}#token={server.token}")
        assert page.answered() == epsilon
        assert page.box("batches").get_attribute("value") == "reshuffle"


def test_what_is_shared_opens_on_another_server_as_it_was(opened, page):
    """The command that the page gives, given to a new `pabi explore`."""
    epsilon = opened.asked(batches="reshuffle", epochs="12", l2="")
    opened.one("#share summary").click()
    opened.wait(lambda: "epochs=12" in opened.text("#command"))
    words = shlex.split(opened.text("#command"))
    assert words[:3] == ["pabi", "explore", "--open"]
    with explorer(*words[2:]) as other:
        page.others, page.expected = [f"{other.origin}/"], [f"{other.origin}/api/"]
        page.open(other.address)
        assert page.answered() == epsilon
        assert page.box("l2").get_attribute("value") == ""


def test_back_returns_to_the_view_before(opened):
    opened.go("plan").write("epochs", "33").go("forget")
    for move, view in (("back", "plan"), ("back", "run"), ("forward", "plan")):
        getattr(opened.driver, move)()
        opened.wait(lambda view=view: opened.one("body").get_attribute("data-view") == view)
        assert opened.box("epochs").get_attribute("value") == ("50" if view == "run" else "33")


def test_two_tabs_do_not_disturb_each_other(opened, server):
    driver, first = opened.driver, opened.driver.current_window_handle
    one = opened.asked(epochs="5")
    driver.switch_to.new_window("tab")
    try:
        opened.open(server.address)
        assert opened.answered() != one
        driver.switch_to.window(first)
        assert opened.text("#epsilon") == one
        assert opened.box("epochs").get_attribute("value") == "5"
    finally:
        for handle in set(driver.window_handles) - {first}:
            driver.switch_to.window(handle)
            driver.close()
        driver.switch_to.window(first)


def test_only_the_last_of_many_moves_counts(opened):
    """Answers to earlier questions never overwrite the newest one."""
    opened.wait(lambda: opened.shown("[data-chart=epochs] .plot svg"))
    before = opened.text(".status")
    for epochs in range(20, 45):
        opened.write("epochs", str(epochs))
        assert opened.shown("[data-chart=epsilon]")  # pale, and not gone
    opened.wait(lambda: opened.text(".status") != before)
    quick = opened.answered()
    assert opened.asked(epochs="45") != quick
    assert opened.asked(epochs="44") == quick


def test_everything_is_reached_by_the_keyboard(opened):
    """Tab visits every control that is shown, in an order that follows the page, and never gets stuck."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    driver = opened.driver
    opened.wait(lambda: opened.all(".changes button"))
    driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    visited = []
    for _ in range(150):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        place = driver.execute_script(
            "const e = document.activeElement; if (e === document.body) return null;"
            "const style = getComputedStyle(e); const box = e.getBoundingClientRect();"
            "return [e.outerHTML.slice(0, 160), style.outlineStyle !== 'none' || e.closest('.drop') !== null,"
            " box.width > 0 && box.height > 0];"
        )
        if place is None or (visited and place[0] == visited[0][0]):
            break
        visited.append(place)
    assert "skip" in visited[0][0]
    elements = [html for html, _, _ in visited]
    shown = driver.execute_script(
        "return [...document.querySelectorAll('button, select, textarea, input, summary, a[href]')]"
        ".filter((e) => e.checkVisibility() && !e.disabled && !e.matches('.skip'))"
        ".map((e) => e.outerHTML.slice(0, 160))"
    )
    assert [html for html in shown if html not in elements] == []
    assert [html for html, outlined, _ in visited if not outlined] == []
    assert [html for html, _, sized in visited if not sized] == []
    for link in opened.all("#tabs a"):
        link.send_keys("\ue007")
        view = link.get_attribute("data-view")
        opened.wait(lambda view=view: opened.one("body").get_attribute("data-view") == view)
        assert link.get_attribute("aria-current") == "page"
        assert opened.one("main h2").is_displayed()
        assert link.text in driver.title


def test_what_is_below_the_edge_is_told_and_a_phone_has_a_low_header(opened):
    driver = opened.driver
    for width, height in ((1300, 900), (900, 900), (390, 844)):
        emulate(driver, width=width, height=height)
        opened.wait(lambda: opened.text("#more").startswith("More controls"))
        driver.execute_script("document.querySelector('#controls').scrollTo(0, 9999)")
        opened.wait(lambda: not opened.shown("#more"))
        driver.execute_script("document.querySelector('#controls').scrollTo(0, 0)")
        # The answer is seen while a slider moves.
        assert opened.one("#epsilon").rect["y"] < height - 100
    tops = {link.rect["y"] for link in opened.all("#tabs a")}
    assert len(tops) == 1
    assert opened.one("header").rect["height"] < 90  # pixels: two lines
    assert driver.execute_script("return document.documentElement.scrollWidth") == 390
    emulate(driver, width=360, height=800)
    assert all(link.rect["x"] + link.rect["width"] <= 360 for link in opened.all("#tabs a"))


def test_escape_folds_what_is_shared_and_returns_to_its_button(opened):
    summary = opened.one("#share summary")
    summary.send_keys("\ue007")  # Enter
    opened.wait(lambda: opened.shown("#command"))
    opened.button("Copy the command").send_keys("\ue00c")  # Esc
    assert not opened.shown("#command")
    assert opened.driver.switch_to.active_element == summary


def test_a_server_that_goes_away_is_told_and_comes_back(page):
    """The page says so, shows no number beside other settings, and goes on after a restart."""
    with explorer() as first:
        page.others, page.expected = [f"{first.origin}/"], [f"{first.origin}/"]
        page.open(first.address)
        epsilon = page.answered()
        first.kill()
        page.write("epochs", "60")
        page.wait(lambda: page.shown(".alarm"))
        assert "pabi explore has ended" in page.text(".alarm")
        assert "Failed to fetch" not in page.text("body")
        page.wait(lambda: page.text("#epsilon") != epsilon)
    driver, old = page.driver, page.driver.current_window_handle
    with explorer("--port", str(first.port)) as second:
        driver.switch_to.new_window("tab")
        page.open(second.address)  # the tab of the new address tells the old one its token
        assert page.answered() == epsilon
        assert not page.shown(".alarm")
        driver.close()
        driver.switch_to.window(old)
        page.write("epochs", "50")
        page.wait(lambda: page.text("#epsilon") == epsilon)
        assert not page.shown(".alarm")
        status, text = second.interrupt()
    # While curves are on their way. One line was there: that the page is on this machine alone.
    assert status in (0, 130, -signal.SIGINT)
    assert len(text.strip().splitlines()) <= 2
    assert "Traceback" not in text

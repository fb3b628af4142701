"""One server and one browser for a process; after each test, nothing was asked elsewhere or went wrong."""

import pytest

from support.browsers import chromium, complaints, emulate, from_elsewhere, requests
from support.explorers import Page, explorer


@pytest.fixture(scope="session")
def server():
    with explorer() as running:
        yield running


@pytest.fixture(scope="session")
def driver():
    with chromium() as driver:
        yield driver


@pytest.fixture
def page(driver, server):
    """An empty tab of the browser."""
    emulate(driver)
    driver.get("about:blank")
    requests(driver), complaints(driver)
    page = Page(driver)
    yield page
    assert from_elsewhere(requests(driver), f"{server.origin}/", *page.others) == []
    assert [text for text in complaints(driver) if not text.startswith(tuple(page.expected))] == []


@pytest.fixture
def opened(page, server):
    """The page as `pabi explore` opens it, with its first answer."""
    page.open(server.address)
    page.answered()
    return page

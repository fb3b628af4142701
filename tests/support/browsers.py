"""Debian's Chromium, driven by selenium, and axe-core, which looks for what keeps people out.

Tests that need them are skipped, and say so, where they are not installed: `.ci/run` installs Chromium, and
`make test` axe-core, where it can.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parents[2] / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
# Without those of the background Chromium asks for hosts of its maker's.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
# A page may load these schemes from wherever: they hold their contents.
_HERE = ("data:", "blob:", "about:", "chrome:", "chrome-untrusted:", "devtools:")

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs chromium and chromedriver: apt-get install chromium-driver",
)
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="needs axe-core from npm: make .axe")


@contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    """A browser with a new profile, which keeps a log of what its pages said and asked for."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    assert CHROMIUM
    assert DRIVER
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, *flags, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        prefs = {"download.default_directory": profile, "download.prompt_for_download": False}
        options.add_experimental_option("prefs", prefs)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # Selenium asks proxies of the environment for the driver on this machine otherwise.
        service = Service(DRIVER, env={**os.environ, "no_proxy": "127.0.0.1,localhost"})
        driver = webdriver.Chrome(options, service)
        driver.profile = Path(profile)
        try:
            yield driver
        finally:
            driver.quit()


def emulate(driver: Any, *, width: int = 1280, height: int = 900, theme: str = "light") -> None:
    """The size of the window, and what the reader's system prefers."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def requests(driver: Any) -> list[str]:
    """Addresses that pages asked for since the last call."""
    entries = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    names = {"Network.requestWillBeSent": "request", "Network.webSocketCreated": ""}
    sent = [(e["method"], e["params"]) for e in entries if e["method"] in names]
    return [p[names[m]]["url"] if names[m] else p["url"] for m, p in sent]


def from_elsewhere(addresses: list[str], *places: str) -> list[str]:
    """Those of the addresses that are at none of the places."""
    return [a for a in addresses if not a.startswith((*_HERE, *places))]


def complaints(driver: Any) -> list[str]:
    """Errors on pages since the last call, refusals of the page's own policy among them."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def findings(driver: Any, scope: str = "document") -> list[str]:
    """What axe-core finds serious or critical: the rule, its help, and the elements."""
    if not driver.execute_script("return 'axe' in window"):
        # By the protocol, because the page's policy lets no script of others run.
        driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text("utf-8")})
    found = driver.execute_async_script(
        f"const done = arguments[0]; axe.run({scope}, {{resultTypes: ['violations']}})"
        ".then((found) => done(found.violations), (bad) => done(String(bad)));"
    )
    assert isinstance(found, list), found
    return [
        f"{rule['id']} ({rule['impact']}): {rule['help']}: "
        + "; ".join(
            f"{node['target']} {node['html'][:120]} {node.get('failureSummary', '')}"
            for node in rule["nodes"][:4]
        )
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]

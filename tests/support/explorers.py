"""The explorer as its users have it: the command in a process of its own, and its page in a browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pabi

# What the page opens with.
OPENING = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.01),
    n=60_000,
    batches=pabi.Cyclic(size=1_500),
    epochs=50,
    step_size=0.5,
    noise_std=0.01,
)
VIEWS = ("run", "plan", "check", "budget", "forget", "demo")
SOON = 120  # seconds, on a machine that does much else


@dataclass
class Explorer:
    """A running `pabi explore`."""

    process: subprocess.Popen[str]
    address: str

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return "/".join(self.address.split("/")[:3])

    @property
    def port(self) -> int:
        return int(self.origin.rpartition(":")[2])

    @property
    def token(self) -> str:
        return self.address.rpartition("#token=")[2]

    def at(self, **query: str) -> str:
        """The address with something set, as a shared link has it."""
        from urllib.parse import urlencode

        return f"{self.origin}/?{urlencode(query)}#token={self.token}"

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: (status, what was said)."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=SOON)
        return self.process.returncode, said

    def kill(self) -> None:
        """As when the machine's memory is full."""
        self.process.kill()
        self.process.communicate(timeout=SOON)


@contextmanager
def explorer(*arguments: str | Path, folder: Path | None = None) -> Iterator[Explorer]:
    """`pabi explore` with these arguments."""
    command = [sys.executable, "-m", "pabi", "explore", "--no-browser", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", line)
        assert found, line + process.stdout.read()
        yield Explorer(process, found[0])
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=SOON)


class Page:
    """A page of the explorer in a browser, by what its users see: labels, headings, sentences."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.others: list[str] = []  # other places that a test asks on purpose
        self.expected: list[str] = []  # how errors begin that a test brings about

    def open(self, address: str) -> Page:
        # A change after # alone would not load the page anew.
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda: self.all("#tabs a") or self.shown("#trouble"))
        return self

    def wait(self, condition: Any, seconds: float = SOON) -> Any:
        """The first true value of `condition()`; elements that are gone by then count as no."""
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(
            self.driver, seconds, 0.05, ignored_exceptions=(StaleElementReferenceException,)
        )
        return waiting.until(lambda _: condition())

    def all(self, selector: str) -> Sequence[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """What is to be read there, nothing where it is not shown."""
        return " ".join(element.text for element in self.all(selector))

    def shown(self, selector: str) -> bool:
        return any(element.is_displayed() for element in self.all(selector))

    def go(self, view: str) -> Page:
        self.one(f"#tabs a[data-view={view}]").click()
        self.wait(lambda: self.one("body").get_attribute("data-view") == view)
        return self

    def box(self, name: str) -> Any:
        return self.one(f"[name={name}]")

    def write(self, name: str, text: str) -> Page:
        """Puts a text into a box, all at once, as pasting does."""
        self.driver.execute_script(
            "const [box, text] = arguments; box.value = text;"
            "box.dispatchEvent(new Event(box.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));",
            self.box(name),
            text,
        )
        return self

    def answered(self) -> str:
        """ε of the first view, once all proofs were asked."""
        self.wait(lambda: self.text(".status").startswith("ε is at most"))
        return self.text("#epsilon")

    def download(self, name: str) -> str:
        """The text of a file that the page handed to the browser; it is gone after that."""
        path = self.driver.profile / name
        self.wait(lambda: path.exists() and path.stat().st_size)
        text = path.read_text("utf-8")
        path.unlink()
        return text

    def asked(self, **texts: str) -> str:
        """ε of the first view after some boxes were filled in."""
        before = self.text(".status")
        for name, text in texts.items():
            self.write(name, text)
        self.wait(lambda: self.text(".status") != before)
        return self.answered()

    def press(self, text: str) -> None:
        """Enter on the first button whose text begins so."""
        self.button(text).send_keys("\ue007")

    def button(self, text: str) -> Any:
        """The first button that is shown and whose text begins so.

        Answers put new buttons into the place of old ones while they are gone through.
        """
        from selenium.common.exceptions import StaleElementReferenceException

        while True:
            try:
                shown = (b for b in self.all("button") if b.is_displayed())
                return next(b for b in shown if b.text.startswith(text))
            except StaleElementReferenceException:
                continue

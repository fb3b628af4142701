"""Every view of the explorer on one sheet: at 360, 900 and 1600 pixels, light and dark.

    PYTHONPATH=tests python benchmarks/contact_sheet.py [--out docs/figures] [--shots FOLDER] [VIEWS…]

It needs Chromium and selenium. The sheets are `explorer-light.webp` and `explorer-dark.webp`; with --shots
every picture is kept at its full size as well. The training of "Demo" is a real one, so that its accuracy
differs from sheet to sheet.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

import pabi
from support.browsers import chromium, emulate
from support.explorers import VIEWS, Page, explorer

WIDTHS = (1600, 900, 360)
TALLEST = 1900  # pixels of a page; what is below is cut off
SCALE = 0.5
GAP = 24
PAPER = {"light": "#c8ccd0", "dark": "#44484c"}
QUIET = 0.4  # seconds in which nothing moves any more


def files(folder: Path) -> tuple[Path, Path]:
    """A guarantee and a ledger with three releases, to be shown."""
    run = pabi.NoisySGD(
        pabi.Loss.logistic(feature_norm=1.0, l2=0.01),
        n=60_000,
        batches=pabi.ShuffleOnce(size=1_500),
        epochs=50,
        step_size=0.5,
        noise_std=0.01,
    )
    guarantee = run.guarantee(1e-5)
    certificate = folder / "guarantee.json"
    certificate.write_text(json.dumps(guarantee.to_dict(certificate=True)), encoding="utf-8")
    ledger = pabi.Ledger(folder / "people.ledger", epsilon=2.0, delta=1e-5)
    for _ in range(3):
        ledger.spend(guarantee)
    return certificate, folder / "people.ledger"


def shows_run(page: Page, _: Path) -> None:
    page.answered()
    page.button("a network").send_keys("\ue007")
    page.wait(lambda: len(page.all("#schemes .gain")) == 7 and not page.all("#schemes.stale"))
    page.wait(lambda: page.all(".changes li") and page.shown("[data-chart=epochs] .plot svg"))


def shows_plan(page: Page, _: Path) -> None:
    page.button("Keep the controls as run A").send_keys("\ue007")
    page.write("batches", "shuffle_once")
    page.button("Keep the controls as run B").send_keys("\ue007")
    page.wait(lambda: "what differs" in page.text("main table"))
    page.wait(lambda: page.all("#planned") and page.shown("main .plot svg"))


def shows_check(page: Page, certificate: Path) -> None:
    page.one("main input[type=file]").send_keys(str(certificate))
    page.wait(lambda: page.shown("#verdict") and page.shown("main .plot svg"))


def shows_budget(page: Page, _: Path) -> None:
    page.wait(lambda: page.shown("[data-chart=ledger] .plot svg"))
    page.button("A release like this").send_keys("\ue007")
    page.wait(lambda: page.shown("#what"))


def shows_forget(page: Page, _: Path) -> None:
    page.wait(lambda: page.shown("#forgetting") and page.shown("[data-chart=forget] .plot svg"))


def shows_demo(page: Page, _: Path) -> None:
    page.button("Train").send_keys("\ue007")
    page.wait(lambda: page.shown("#accuracy"))


STATES: dict[str, Callable[[Page, Path], None]] = {
    "run": shows_run,
    "plan": shows_plan,
    "check": shows_check,
    "budget": shows_budget,
    "forget": shows_forget,
    "demo": shows_demo,
}


def shots(views: list[str], folder: Path) -> None:
    """Takes a picture of each view at each width, in both themes, into a folder."""
    certificate, ledger = files(folder)
    with explorer("--ledger", ledger) as server, chromium() as driver:
        page = Page(driver)
        for view in views:
            emulate(driver, width=WIDTHS[0])
            page.open(server.at(view=view))
            STATES[view](page, certificate)
            for width in WIDTHS:
                for theme in ("light", "dark"):
                    emulate(driver, width=width, theme=theme)
                    if page.all("#drawer"):
                        # As the page opens at that width.
                        driver.execute_script(
                            "document.querySelector('#drawer').open = innerWidth > 760"
                        )
                    time.sleep(QUIET)
                    tall = driver.execute_script("return document.documentElement.scrollHeight")
                    emulate(driver, width=width, height=min(tall, TALLEST), theme=theme)
                    driver.execute_script("scrollTo(0, 0); document.activeElement.blur()")
                    time.sleep(QUIET)
                    driver.save_screenshot(str(folder / f"{view}-{width}-{theme}.png"))


def sheet(views: list[str], folder: Path, theme: str) -> Image.Image:
    """All pictures of a theme: a row for each view, a column for each width."""
    rows = [
        [Image.open(folder / f"{view}-{w}-{theme}.png").convert("RGB") for w in WIDTHS]
        for view in views
    ]
    small = [
        [
            im.resize((round(im.width * SCALE), round(im.height * SCALE)), Image.Resampling.LANCZOS)
            for im in row
        ]
        for row in rows
    ]
    width = GAP + sum(im.width + GAP for im in small[0])
    height = GAP + sum(max(im.height for im in row) + GAP for row in small)
    whole = Image.new("RGB", (width, height), PAPER[theme])
    top = GAP
    for row in small:
        left = GAP
        for im in row:
            whole.paste(im, (left, top))
            left += im.width + GAP
        top += max(im.height for im in row) + GAP
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("views", nargs="*", metavar="VIEWS", help=f"some of: {', '.join(VIEWS)}")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    parser.add_argument("--shots", type=Path, help="a folder that keeps the pictures")
    options = parser.parse_args()
    if unknown := sorted(set(options.views) - set(VIEWS)):
        parser.error(f"no view {', '.join(unknown)}; there are {', '.join(VIEWS)}")
    views = options.views or list(VIEWS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shots(views, folder)
        for theme in PAPER:
            path = options.out / f"explorer-{theme}.webp"
            sheet(views, folder, theme).save(path, quality=72, method=6)
            print(f"{path}: {path.stat().st_size // 1024} KiB")
        if options.shots:
            options.shots.mkdir(parents=True, exist_ok=True)
            for picture in folder.glob("*.png"):
                (options.shots / picture.name).write_bytes(picture.read_bytes())


if __name__ == "__main__":
    main()

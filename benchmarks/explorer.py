"""How soon the explorer answers: the first picture, a slider's number, and its curves.

    OMP_NUM_THREADS=1 PYTHONPATH=tests python benchmarks/explorer.py [--starts 10] [--moves 5]

Goals: the first picture 2 s after the command; after a slider's move the number in 150 ms and the curves in
2 s, each for 95 of 100 moves. A browser (Chromium, headless) measures by the clock, from the event of the
slider to the change of the page; what else runs on the machine counts there. So each question is asked once
more without a browser, and the time on a processor is noted that the explorer's processes take up to the
first number and up to the last curve. On an idle machine the two differ by the browser's part.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pabi.showing import plain
from support.browsers import chromium
from support.explorers import Explorer, Page, explorer

FIRST, NUMBER, CURVES = 2.0, 0.15, 2.0  # goals in seconds
# What differs from the page's defaults, and what a slider then moves.
DESCRIPTIONS: dict[str, tuple[dict[str, str], str]] = {
    "logistic, fixed order": ({}, "epochs"),
    "logistic, shuffled once": ({"batches": "shuffle_once"}, "noise"),
    "logistic, shuffled every epoch": ({"batches": "reshuffle"}, "epochs"),
    "logistic, batches at random, once": ({"batches": "balls_in_bins"}, "noise"),
    "logistic, fixed size at random": ({"batches": "fixed_size", "epochs": "20"}, "noise"),
    "logistic, Poisson": ({"batches": "poisson", "adjacency": "zero_out", "epochs": "20"}, "noise"),
    "all records at every step": ({"batches": "full_batch", "epochs": "200"}, "l2"),
    "softmax, clipped": ({"loss": "softmax", "clip_norm": "1", "batches": "shuffle_once"}, "l2"),
    "Huber, falling steps": ({"loss": "huber", "schedule": "linear", "step_size": "0.2"}, "noise"),
    "a network, Poisson": (
        {
            "loss": "unknown",
            "batches": "poisson",
            "l2": "",
            "clip_norm": "1",
            "noise_kind": "noise_multiplier",
            "noise": "1",
            "adjacency": "zero_out",
            "epochs": "20",
        },
        "noise",
    ),
    "hinge, smoothed": ({"loss": "smoothed_hinge", "batches": "reshuffle"}, "delta"),
    "weakly convex, clipped": (
        {
            "loss": "weakly_convex",
            "clip_norm": "1",
            "n": "1000",
            "size": "100",
            "step_size": "0.05",
        },
        "noise",
    ),
}
STARTS = {"epochs": "50", "noise": "0.01", "l2": "0.01", "delta": "1e-5"}  # of the page
SEEN: dict[
    int, dict[str, int]
] = {}  # of a process: nanoseconds of its tasks, those that ended among them
IDLE, PAUSE = 0.05, 0.3  # of the time on a processor, at most; seconds
FACTORS = (1.05, 0.9, 1.2, 0.8, 1.35)
_STOPWATCH = """
const [name, text, done] = arguments;
const box = document.querySelector(`[name=${name}]`);
const charts = ["epsilon", "tradeoff"].map((kind) => document.querySelector(`[data-chart=${kind}]`));
const answers = {};
const begin = performance.now();
const watch = new MutationObserver((changes) => {
  const now = (performance.now() - begin) / 1000;
  for (const { target } of changes) {
    if (target.id === "epsilon") answers.number ??= now;
    for (const chart of charts) {
      if (chart.contains(target) && target.closest(".plot") && !chart.classList.contains("stale")) {
        answers[chart.dataset.chart] ??= now;
      }
    }
  }
  if (answers.number && answers.epsilon && answers.tradeoff) {
    watch.disconnect();
    done([answers.number, Math.max(answers.epsilon, answers.tradeoff)]);
  }
});
watch.observe(document.body, {subtree: true, childList: true});
box.value = text;
box.dispatchEvent(new Event("input", {bubbles: true}));
"""


def tree(root: int) -> Iterator[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    todo = [root]
    while todo:
        process = todo.pop()
        yield process
        todo += parents.get(process, [])


def processor_seconds(root: int) -> float:
    """That the threads of a process and of all below it had so far."""
    tasks = SEEN.setdefault(root, {})
    for process in tree(root):
        for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
            try:
                tasks[str(task)] = int(task.read_text().split()[0])
            except (OSError, IndexError):
                continue
    return sum(tasks.values()) / 1e9


def first_pictures(page: Page, starts: int) -> list[tuple[float, float]]:
    """(seconds of the clock, of processors) from the command to the first number on the page."""
    rows = []
    for _ in range(starts):
        begin = time.perf_counter()
        with explorer() as server:
            page.driver.get(server.address)
            page.wait(lambda: page.text("#epsilon") not in ("", "…"))
            rows.append((time.perf_counter() - begin, processor_seconds(server.process.pid)))
            page.driver.get("about:blank")
    return rows


def idle(server: Explorer) -> float:
    """Seconds of processors so far, once nothing more is added to them."""
    before, now = -1.0, processor_seconds(server.process.pid)
    while now - before > IDLE * PAUSE:
        time.sleep(PAUSE)
        before, now = now, processor_seconds(server.process.pid)
    return now


def asked(server: Explorer, state: dict[str, str]) -> tuple[float, float, float]:
    """Seconds of processors to the first number, to the first curves in both charts, and to the last ones."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    begin = idle(server)
    connection.request("POST", "/api/run", json.dumps({"state": state}), headers)
    answer = connection.getresponse()
    number, curves, last, name = 0.0, 0.0, 0.0, ""
    charts = set()
    for line in iter(answer.readline, b""):
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            now = processor_seconds(server.process.pid) - begin
            if name == "number" and not number:
                number = now
            if name == "curve":
                charts.add(json.loads(line[6:])["chart"])
                if not charts <= {"epsilon", "tradeoff"}:
                    break
                last = now
                if len(charts) == 2 and not curves:
                    curves = now
            if name in ("peers", "analyses", "error"):
                break
    connection.close()
    return number, curves, last


def texts(state: dict[str, str], slider: str, count: int) -> list[str]:
    """What a slider's moves write into its box."""
    start = float(state.get(slider, STARTS[slider]))
    values = [start * factor for factor in FACTORS[:count]]
    return [plain(round(v) if slider == "epochs" else v, 3) for v in values]


def by_processors(server: Explorer, count: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    """(description, seconds of processors to the number, the first and the last curves) of every move."""
    for name, (state, slider) in DESCRIPTIONS.items():
        for text in texts(state, slider, count):
            yield name, asked(server, {**state, slider: text})


def by_the_clock(
    page: Page, server: Explorer, count: int
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """(description, seconds by the clock to the number and to the curves, in the browser) of every move."""
    for name, (state, slider) in DESCRIPTIONS.items():
        page.open(server.at(**state))
        page.answered()
        page.wait(lambda: page.shown("[data-chart=tradeoff] .plot svg"))
        for text in texts(state, slider, count):
            number, curves = page.driver.execute_async_script(_STOPWATCH, slider, text)
            yield name, (number, curves)


def percentile(values: list[float]) -> str:
    return plain(float(np.percentile(values, 95, method="higher")), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--moves", type=int, default=len(FACTORS), help="of each description")
    parser.add_argument("--clock", type=int, default=len(FACTORS), help="moves in the browser")
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {load()}"
    )
    with chromium() as driver:
        driver.set_script_timeout(300)
        page = Page(driver)
        starts = first_pictures(page, options.starts)
        print("\n| start | by the clock, s | of processors, s |\n|---|---|---|")
        for k, (clock, processor) in enumerate(starts, 1):
            print(f"| {k} | {plain(clock, 3)} | {plain(processor, 3)} |", flush=True)
        with explorer() as server:
            asked(server, {})  # the first picture, after which the fork server loads the library
            rows = listed("of processors", by_processors(server, options.moves))
            seen = listed("by the clock", by_the_clock(page, server, options.clock))
            driver.get("about:blank")
    clock, processor = (percentile([row[k] for row in starts]) for k in range(2))
    measured = f"{processor} s of processors, {clock} s by the clock"
    print(f"\nfirst picture, goal {plain(FIRST)} s: 95 of 100 within {measured}")
    for k, (what, goal) in enumerate((("number", NUMBER), ("curves", CURVES))):
        processor, clock = (percentile([row[k] for row in of]) for of in (rows, seen))
        print(
            f"{what}, goal {plain(goal)} s: 95 of 100 within {processor} s of processors "
            f"({len(rows)} moves), {clock} s by the clock ({len(seen)} moves)"
        )
    print(load())


def load() -> str:
    return "load " + ", ".join(plain(x, 3) for x in os.getloadavg())


def listed(how: str, rows: Iterator[tuple[str, tuple[float, ...]]]) -> list[tuple[float, ...]]:
    """The rows, after each was printed."""
    print(
        f"\n{how}\n\n| description | number, s | first curves, s | last curves, s |\n|---|---|---|---|"
    )
    every = []
    for name, row in rows:
        print(f"| {name} | {' | '.join(plain(x, 3) for x in row)} |", flush=True)
        every.append(row)
    return every


if __name__ == "__main__":
    main()

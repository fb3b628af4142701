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
    nanoseconds = 0
    for process in tree(root):
        for task in Path(f"/proc/{process}/task").glob("*/schedstat"):
            try:
                nanoseconds += int(task.read_text().split()[0])
            except (OSError, IndexError):
                continue
    return nanoseconds / 1e9


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


def asked(server: Explorer, state: dict[str, str]) -> tuple[float, float]:
    """Seconds of processors to the first number, and to the last of the two curves."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    begin = processor_seconds(server.process.pid)
    connection.request("POST", "/api/run", json.dumps({"state": state}), headers)
    answer = connection.getresponse()
    number, curves, name = 0.0, 0.0, ""
    for line in iter(answer.readline, b""):
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            now = processor_seconds(server.process.pid) - begin
            if name == "number" and not number:
                number = now
            if name == "curve" and json.loads(line[6:])["chart"] in ("epsilon", "tradeoff"):
                curves = now
            if name in ("peers", "analyses", "error"):
                break
    connection.close()
    return number, curves


def moves(page: Page, server: Explorer, count: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    """(description, (number, curves) by the clock in the browser and (number, curves) of processors)."""
    for name, (state, slider) in DESCRIPTIONS.items():
        page.open(server.at(**state))
        page.answered()
        page.wait(lambda: page.shown("[data-chart=tradeoff] .plot svg"))
        start = float(page.box(slider).get_attribute("value"))
        for factor in FACTORS[:count]:
            value = start * factor
            text = plain(round(value) if slider == "epochs" else value, 3)
            clock = page.driver.execute_async_script(_STOPWATCH, slider, text)
            page.answered()
            yield name, (*clock, *asked(server, {**state, slider: text}))


def percentile(values: list[float]) -> str:
    return plain(float(np.percentile(values, 95, method="higher")), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--moves", type=int, default=len(FACTORS), help="of each description")
    options = parser.parse_args()
    load = ", ".join(plain(x, 3) for x in os.getloadavg())
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load}"
    )
    with chromium() as driver:
        driver.set_script_timeout(300)
        page = Page(driver)
        starts = first_pictures(page, options.starts)
        print("\n| start | by the clock, s | of processors, s |\n|---|---|---|")
        for k, (clock, processor) in enumerate(starts, 1):
            print(f"| {k} | {plain(clock, 3)} | {plain(processor, 3)} |")
        print(
            "\n| description | number, s | curves, s | number, processor s | curves, processor s |"
        )
        print("|---|---|---|---|---|")
        rows = []
        with explorer() as server:
            for name, row in moves(page, server, options.moves):
                rows.append(row)
                print(f"| {name} | {' | '.join(plain(x, 3) for x in row)} |", flush=True)
            driver.get("about:blank")
    numbers, curves, number_cpu, curves_cpu = ([row[k] for row in rows] for k in range(4))
    slowest = plain(max(clock for clock, _ in starts), 3)
    print(f"\nfirst picture, goal {plain(FIRST)} s: at most {slowest} s by the clock")
    for what, goal, clock, processor in (
        ("number", NUMBER, numbers, number_cpu),
        ("curves", CURVES, curves, curves_cpu),
    ):
        print(
            f"{what}, goal {plain(goal)} s: 95 of 100 within {percentile(clock)} s by the clock, "
            f"{percentile(processor)} s of processors ({len(rows)} moves)"
        )
    load = ", ".join(plain(x, 3) for x in os.getloadavg())
    print(f"load {load}")


if __name__ == "__main__":
    main()

"""Draws the gallery: NAME.svg for every script beside this one, and docs/front.py.

    python examples/gallery/make.py [NAMES…] [--out docs/figures] [--theme light]

A script has a function `draw()` that returns a figure. The same bytes come out every time. One that has
a function `description()` puts its text into the file, where tests read which numbers were drawn. What
`readings()` returns is written to NAME.json, from which the documentation makes a figure that answers. The
documentation recolours light pictures where its pages are dark.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from pabi.plotting import style
from pabi.showing import plain

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
FIGURES = DOCS / "figures"
SCRIPTS = {
    path.stem.replace("_", "-"): path
    for path in (*sorted(HERE.glob("*.py")), DOCS / "front.py")
    if path != Path(__file__).resolve()
}


def load(name: str) -> Any:
    """The script of that name, as a module."""
    spec = spec_from_file_location(name.replace("-", "_"), SCRIPTS[name])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save(name: str, out: Path, theme: str = "light") -> None:
    """The picture of a script, and its numbers where it has some."""
    script = load(name)
    metadata = {"Date": None, "Creator": "pabi"}
    if hasattr(script, "description"):
        metadata["Description"] = script.description()
    with style(theme):
        figure = script.draw()
        figure.savefig(out / f"{name}.svg", metadata=metadata)
        plt.close(figure)
    if hasattr(script, "readings"):
        text = json.dumps(script.readings(), ensure_ascii=False, separators=(",", ":"))
        (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the gallery.")
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(SCRIPTS)}")
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(SCRIPTS)):
        parser.error(f"no picture {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or SCRIPTS:
        start = time.process_time()
        save(name, given.out, given.theme)
        print(f"{name}: {plain(time.process_time() - start, decimals=1)} s")


if __name__ == "__main__":
    main()

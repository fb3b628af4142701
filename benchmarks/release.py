"""Builds a release twice, compares the two, and uses it in clean environments.

`python benchmarks/release.py [--out dist] [--folder .matrix] [--unclean]` writes the wheel, the sdist and
their SHA-256 to `out`. Every file in them bears the date of the release, so that whoever builds them again
gets the same bytes. Then both are installed where nothing else is, under every Python that pabi supports and
with the lowest releases that it admits, and used away from the repository. A Python that is not on this
machine is named, and so is what was therefore not tried.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from matrix import ROOT, Line, install, interpreter, lowest
from pabi.numbers.version import __version__
from pabi.showing import plain

FIT = """
from pathlib import Path
from sklearn.datasets import load_breast_cancer
from pabi.learn import PrivateLogisticRegression
import pabi
X, y = load_breast_cancer(return_X_y=True)
model = PrivateLogisticRegression(epsilon=1.0, delta=1e-4, feature_norm=1.0, classes=[0, 1])
model.fit(X / 4000.0, y)
assert model.guarantee_.epsilon(1e-4) <= 1.0
assert pabi.verify(model.guarantee_).ok
assert model.score(X / 4000.0, y) > 0.7
Path("guarantee.json").write_text(model.guarantee_.to_json(), encoding="utf-8")
"""
COMMANDS = (
    ("verify", "guarantee.json", "--epsilon", "1", "--delta", "1e-4"),
    ("report", "guarantee.json", "--format", "html", "--out", "report.html"),
)


def lines() -> tuple[Line, ...]:
    """The newest releases under every Python that `pyproject.toml` names, and the lowest."""
    classifiers = (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', classifiers)
    return (
        Line("lowest", pythons[0], lowest(extras=())),
        *(Line(python, python) for python in pythons),
    )


def released_on() -> datetime.date:
    """The day that `CITATION.cff` states."""
    stated = re.search(r'^date-released: "(.+)"$', (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert stated is not None
    return datetime.date.fromisoformat(stated[1])


def clean_environment() -> dict[str, str]:
    """That of this process, without a way back to the repository."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PABI", "VIRTUAL"))}


def built(folder: Path) -> list[Path]:
    """The wheel and the sdist, the former built from the latter, every file of the day of the release."""
    day = datetime.datetime.combine(released_on(), datetime.time(), datetime.UTC)
    dated = clean_environment() | {"SOURCE_DATE_EPOCH": str(int(day.timestamp()))}
    command = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    done = subprocess.run(command, env=dated, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return sorted(folder.glob("pabi-*"))


def sha256(path: Path) -> str:
    """The digest of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tried(python: Path, folder: Path) -> None:
    """Uses what is installed; raises where something is not as it should be."""

    def call(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=folder, env=clean_environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    pabi = python.with_name("pabi")
    version = call(pabi, "--version")
    if version != f"pabi {__version__}\n":
        raise SystemExit(f"pabi --version: expected pabi {__version__}, got {version!r}")
    call(python, "-W", "error::DeprecationWarning:pabi", "-c", FIT)
    for command in COMMANDS:
        call(pabi, *command)
    if b"</html>" not in (folder / "report.html").read_bytes():
        raise SystemExit("pabi report: expected a page of HTML in report.html")


def rows(distributions: list[Path], folder: Path) -> Iterator[str]:
    """Tries everything, and says of each line what was tried or why not."""
    for line in lines():
        python = interpreter(line.python)
        if python is None:
            yield f"{line.name}: not tried, there is no Python {line.python} here"
            continue
        for distribution in distributions:
            begin = time.monotonic()
            own = install(python, folder / f"release-{line.name}", line.constraints, [distribution])
            with tempfile.TemporaryDirectory() as elsewhere:
                tried(own, Path(elsewhere))
            took = round(time.monotonic() - begin)
            yield f"{line.name}: Python {line.python}, {distribution.name}: works ({took} s)"


def main() -> int:
    """Build and try; 1 if the tree is not clean, or two builds differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--folder", type=Path, default=ROOT / ".matrix", help="of environments")
    parser.add_argument("--unclean", action="store_true", help="build what is not committed, too")
    options = parser.parse_args()
    begin = time.monotonic()
    state = ["git", "status", "--porcelain"]
    changed = subprocess.run(state, cwd=ROOT, capture_output=True, text=True).stdout
    if changed and not options.unclean:
        print(f"Not committed, and so no part of a release (--unclean builds it):\n{changed}")
        return 1
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        one, other = built(Path(first)), built(Path(second))
        different = [a.name for a, b in zip(one, other, strict=True) if sha256(a) != sha256(b)]
        if different:
            print(f"Two builds differ: {', '.join(different)}")
            return 1
        options.out.mkdir(parents=True, exist_ok=True)
        kept = [Path(shutil.copy(path, options.out)) for path in one]
    sums = "".join(f"{sha256(path)}  {path.name}\n" for path in kept)
    (options.out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(f"Of {released_on()}, built twice alike, in {options.out}:\n{sums}", flush=True)
    for row in rows(kept, options.folder):
        print(row, flush=True)
    print(f"{plain((time.monotonic() - begin) / 60, 2)} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

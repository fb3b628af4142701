"""The tests of the core under other Pythons, and with the lowest releases that `pyproject.toml` admits.

`python benchmarks/matrix.py [--only NAME …] [--one-case-in K] [--folder .matrix] [-- PYTEST ARGUMENTS]`
makes an environment for each line of the matrix and runs the tests there, with a log beside the environments.
A line whose interpreter is not on this machine is skipped, and said to be. The last line runs the tests where
a long double is a double, as on some platforms.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from pabi.showing import plain

ROOT = Path(__file__).parents[1]
EXTRAS = ("train", "forget")
TOOLS = ("dp-accounting>=0.6", "hypothesis>=6.100", "mpmath>=1.3", "pytest>=8", "quadprog>=0.1.13")
CORE = (
    *("account", "audits", "budget", "cli", "describe", "execute", "fuzz", "learn", "numbers"),
    *("tradeoff", "verification"),
)
# Not those that say how near a bound is to the optimum: with shorter numbers margins are wider.
SOUND = (
    "account/test_mixing.py",
    "account/test_random_batches.py",
    "falsification/test_quadratics.py",
    "falsification/test_quadratic_runs.py",
    "verification/test_honest_certificates.py",
    "verification/test_honest_random_runs.py",
)
REQUIREMENT = re.compile(r"^([\w.-]+)(\[[^]]*\])?>=([\d.]+)")


@dataclass(frozen=True)
class Line:
    """An interpreter, constraints for pip, options for pytest, and what it runs."""

    name: str
    python: str
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    tests: tuple[str, ...] = CORE

    @property
    def folder(self) -> str:
        """The name of its environment: lines of the same releases share one."""
        return "-".join([self.python, *self.constraints[:1]]).replace("==", "-").rstrip(".*")


def lowest(extras: Iterable[str] = EXTRAS) -> tuple[str, ...]:
    """The lowest release of each package that pabi and its extras admit, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    every = [*project["dependencies"], *(name for extra in extras for name in optional[extra])]
    return tuple(_lowest(requirement) for requirement in every)


def _lowest(requirement: str) -> str:
    match = REQUIREMENT.match(requirement)
    if match is None:
        raise SystemExit(f"pyproject.toml: expected a lower bound, got {requirement!r}")
    name, _, version = match.groups()
    parts = [*version.split("."), "0"][: max(2, version.count(".") + 1)]
    return f"{name}=={'.'.join(parts)}.*"


def matrix() -> tuple[Line, ...]:
    """All lines."""
    return (
        Line("lowest", "3.11", lowest()),
        # A later pyarrow needs numpy 2.
        Line("numpy-1.26", "3.12", ("numpy==1.26.*", "pyarrow==20.*")),
        Line("3.12", "3.12"),
        Line("3.13", "3.13"),
        Line("no-long-double", "3.13", (), ("-p", "support.plain_doubles"), SOUND),
    )


def interpreter(version: str) -> str | None:
    """The path of a Python of this version, or None."""
    found = which(f"python{version}")
    if found and _runs(found):
        return found
    root = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    kept = sorted(glob.glob(f"{root}/versions/{version}.*/bin/python{version}"))
    return kept[-1] if kept else None


def _runs(python: str) -> bool:
    """Whether it starts: some names are of version managers that have no such version."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def environment(line: Line, folder: Path) -> Path | None:
    """The Python of the environment of this line, made if it is not there; None without an interpreter."""
    python = interpreter(line.python)
    if python is None:
        return None
    place = folder / line.folder
    ready = place / "ready"
    if not ready.exists():
        wanted = ("--editable", f"{ROOT}[{','.join(EXTRAS)}]", *TOOLS)
        install(python, place, line.constraints, wanted)
        ready.touch()
    return place / "bin" / "python"


def install(
    python: str, place: Path, constraints: Iterable[str], wanted: Iterable[str | Path]
) -> Path:
    """The Python of a new environment in `place`, with what is wanted in it."""
    subprocess.run([python, "-m", "venv", "--clear", place], check=True)
    held, own = place / "constraints.txt", place / "bin" / "python"
    held.write_text("".join(f"{c}\n" for c in constraints))
    pip = [own, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", held]
    subprocess.run([*pip, *wanted], check=True)
    return own


def tested(line: Line, python: Path, options: argparse.Namespace) -> tuple[int, str, float]:
    """(the exit status of pytest, what failed and its last line, seconds of processor time)."""
    tests = options.arguments or [f"tests/{path}" for path in line.tests]
    fewer = ["-p", "support.each_test", "--one-case-in", str(options.one_case_in)]
    log = options.folder / f"{line.name}.log"
    command = [str(python), "-m", "pytest", "-q", "-m", "not nightly", "-p", "no:cacheprovider"]
    paths = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    begin = os.times()
    with log.open("w") as out:
        status = subprocess.run(
            [*command, *line.options, *fewer, "--draw", line.name, *tests],
            cwd=ROOT,
            env={**os.environ, **paths},
            stdout=out,
            check=False,
        ).returncode
    end = os.times()
    seconds = end.children_user + end.children_system - begin.children_user - begin.children_system
    lines = log.read_text("utf-8").splitlines() or ["no output"]
    told = [text for text in lines if text.startswith(("FAILED", "ERROR"))]
    return status, "\n".join([*told, lines[-1]]), seconds


def rows(options: argparse.Namespace) -> Iterator[bool]:
    """Runs the lines, prints a row of each, and says whether it passed."""
    for line in matrix():
        if options.only and line.name not in options.only:
            continue
        python = environment(line, options.folder)
        if python is None:
            print(f"{line.name}: skipped, there is no Python {line.python} here", flush=True)
            continue
        status, summary, seconds = tested(line, python, options)
        print(f"{line.name}: {summary} ({plain(seconds, 3)} s of processor time)", flush=True)
        yield status == 0


def main() -> int:
    """Run the matrix; 1 if a line failed or none ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of lines")
    parser.add_argument("--one-case-in", type=int, default=1, metavar="K", help="of every test")
    parser.add_argument("--folder", type=Path, default=ROOT / ".matrix")
    parser.add_argument(
        "arguments", nargs="*", help="for pytest, in place of the tests of the core"
    )
    passed = list(rows(parser.parse_args()))
    return int(not passed or not all(passed))


if __name__ == "__main__":
    sys.exit(main())

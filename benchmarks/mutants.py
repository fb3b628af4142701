"""How many small mistakes in the source do the tests of a day catch? Mutants drawn at random.

    python benchmarks/mutants.py --mutants 200 --seed 0 --processes 2
    python benchmarks/mutants.py tests/learn tests/cli --rooms learn cli    # of a part of the house

All mutants are planted at once into a copy of the tree, each asleep. The suite runs once and notes which
tests reach which mutant. Then a process that has collected the tests forks for every mutant, wakes it, and
runs the tests that reach it, the cheapest `--seconds` of them, until one fails. What is computed while tests
are collected sleeps on: a mutant that is reached only then counts as not reached.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Read by every process of the copy, those that tests start included.
PLANTED = """
import builtins, os
awake, reached = int(os.environ.get("PABI_MUTANT", -1)), set()
def _mutant(number):
    reached.add(number)
    return number == awake
builtins._mutant = _mutant
"""
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


def mutated(node: ast.AST) -> ast.expr | None:
    """The expression with one mistake in it, or None where none is made."""
    match node:
        case ast.Compare(left, [op], [right]):
            return ast.Compare(left, [COMPARED[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in COMPUTED:
            return ast.BinOp(left, COMPUTED[type(op)](), right)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Call(ast.Name(name), arguments, []) if name in CALLED:
            return ast.Call(ast.Name(CALLED[name]), arguments, [])
        case ast.Constant(bool(value)):
            return ast.Constant(not value)
        case ast.Constant(int(value)):
            return ast.Constant(value + 1)
        case ast.Constant(float(value)):
            return ast.Constant(1.1 * value or 1.0)
    return None


def expressions(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every expression that is computed, not one of types, patterns or texts, and what it may become."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "pattern", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if isinstance(tree, ast.If | ast.While) and field == "test":
                yield child, ast.Constant(False)  # a check that is left out
            if (wrong := mutated(child)) is not None:
                yield child, wrong
            yield from expressions(child)


def drawn(rooms: list[Path], count: int, seed: int) -> dict[Path, list[tuple[ast.expr, ast.expr]]]:
    """So many of all expressions, by file; of two that overlap the first drawn."""
    every = [
        (path, *pair)
        for path in sorted(path for room in rooms for path in room.rglob("*.py"))
        for pair in expressions(ast.parse(path.read_bytes()))
    ]
    random.Random(seed).shuffle(every)
    kept: dict[Path, list[tuple[ast.expr, ast.expr]]] = defaultdict(list)
    for path, node, wrong in every:
        if sum(map(len, kept.values())) == count:
            break
        if not any(
            begin(node) < end(other) and begin(other) < end(node) for other, _ in kept[path]
        ):
            kept[path].append((node, wrong))
    return kept


def begin(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def plant(tree: Path, rooms: list[str], count: int, seed: int) -> list[str]:
    """Writes the mutants into the tree, and returns what each of them is."""
    named: list[str] = []
    places = [tree / "src/pabi" / room for room in rooms]
    for path, pairs in drawn(places, count, seed).items():
        lines = path.read_bytes().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        text = b"".join(lines)
        for node, wrong in sorted(pairs, key=lambda pair: begin(pair[0]), reverse=True):
            first, last = (starts[line - 1] + column for line, column in (begin(node), end(node)))
            right, mistake = text[first:last], ast.unparse(ast.fix_missing_locations(wrong))
            new = b"((%s) if _mutant(%d) else (%s))" % (mistake.encode(), len(named), right)
            text = text[:first] + new + text[last:]
            place = f"{path.relative_to(tree)}:{node.lineno}"
            named.append(f"{place}: {' '.join(right.decode().split())} -> {mistake}")
        path.write_bytes(text)
    return named


# What follows runs inside of pytest.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached", help="folder of what tests reach")
    parser.addoption("--kill", help="these mutants, with commas")
    parser.addoption("--seconds", type=float)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    reached: set[int] = sys.modules["sitecustomize"].reached
    reached.clear()
    start = time.process_time()
    result = yield
    if not item.config.getoption("--kill"):
        line = json.dumps([item.nodeid, time.process_time() - start, sorted(reached)])
        with open(f"{item.config.getoption('--reached')}/{os.getpid()}.jsonl", "a") as file:
            file.write(line + "\n")
    return result


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not (kill := session.config.getoption("--kill")):
        return None
    folder, most = session.config.getoption("--reached"), session.config.getoption("--seconds")
    items = {item.nodeid: item for item in session.items}
    places = {item: i for i, item in enumerate(session.items)}
    tests: dict[int, list[tuple[float, str]]] = defaultdict(list)
    for path in Path(folder).glob("*.jsonl"):
        for line in path.read_text().splitlines():
            nodeid, seconds, reached = json.loads(line)
            for number in reached:
                tests[number].append((seconds, nodeid))
    for number in map(int, kill.split(",")):
        chosen, total = [], 0.0
        for seconds, nodeid in sorted(tests[number]):
            if (total := total + seconds + 0.01) < most and nodeid in items:
                chosen.append(items[nodeid])
        chosen.sort(key=places.__getitem__)  # so that tests share what their modules set up
        outcome = "not reached" if not tests[number] else "survives"
        while (end := failing(session, number, chosen, 5 * most + 30)) is not None:
            outcome = end if isinstance(end, str) else "killed"
            # A test that fails in a process of its own with no mistake awake says nothing.
            if isinstance(end, str) or failing(session, -1, [end], 5 * most + 30) is None:
                break
            chosen.remove(end)
            outcome = "survives"
        with open(f"{folder}/outcomes.txt", "a") as file:
            file.write(f"{number}\t{outcome}\t{len(tests[number])}\n")
    return True


def failing(
    session: pytest.Session, number: int, items: list[pytest.Item], most: float
) -> pytest.Item | str | None:
    """The first of the tests that fails with this mutant awake, in a process of its own."""
    heard, said = os.pipe()
    if (child := os.fork()) == 0:
        os.setpgid(0, 0)
        sys.modules["sitecustomize"].awake = number
        os.environ["PABI_MUTANT"] = str(number)
        before = session.testsfailed  # files that could not be collected
        for i, item in enumerate(items):
            following = items[i + 1] if i + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed > before:
                os.write(said, str(i).encode())
                break
        os._exit(0)
    os.close(said)
    ended, _, _ = select.select([heard], [], [], most)
    index = os.read(heard, 20).decode() if ended else ""
    os.close(heard)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ("out of time" if not ended else None) if not index else items[int(index)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tests", nargs="*", default=["tests"], help="folders of the tests that run")
    parser.add_argument("--rooms", nargs="+", default=["."], help="of src/pabi, to plant them in")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests for a mutant")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tree", type=Path, default=ROOT, help="whose tests, of the source here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree, reached = Path(folder, "tree"), Path(folder, "reached")
        reached.mkdir()
        shutil.copytree(given.tree, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "src"))
        shutil.copytree(ROOT / "src", tree / "src")
        if (shared := ROOT.parent / "shared").exists():  # real data, for the tests that use them
            Path(folder, "shared").symlink_to(shared)
        named = plant(tree, given.rooms, given.mutants, given.seed)
        (reached / "sitecustomize.py").write_text(PLANTED)
        run(tree, reached, *given.tests, "-n", str(given.processes), "--dist", "worksteal")
        numbers = [list(range(i, len(named), given.processes)) for i in range(given.processes)]
        waiting = [
            start(
                tree,
                reached,
                *given.tests,
                *("--kill", ",".join(map(str, some)), "--seconds", str(given.seconds)),
            )
            for some in numbers
        ]
        for process in waiting:
            process.wait()
        outcomes = [
            line.split("\t") for line in (reached / "outcomes.txt").read_text().splitlines()
        ]
    for number, outcome, tests in sorted(outcomes, key=lambda one: (one[1], int(one[0]))):
        print(f"{outcome:12} {tests:>6} tests  {named[int(number)]}")
    print(Counter(outcome for _, outcome, _ in outcomes))


def start(tree: Path, reached: Path, *options: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(map(str, (reached, tree / "src", Path(__file__).parent)))
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not nightly", "--ignore=tests/lint"]
    command += ["-p", "mutants", "--reached", str(reached), *options]
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PABI_TESTS_KEPT": ""}
    return subprocess.Popen(command, cwd=tree, env=env, stdout=subprocess.DEVNULL)


def run(tree: Path, reached: Path, *options: str) -> None:
    start(tree, reached, *options).wait()


if __name__ == "__main__":
    main()

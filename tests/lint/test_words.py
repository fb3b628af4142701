"""Words in the code: variables are nouns, and no two classes share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pabi

ROOT = Path(pabi.__file__).parent
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
# They say that something happened to a thing, and not what the thing is.
PARTICIPLES = {
    "asked",
    "done",
    "found",
    "given",
    "got",
    "kept",
    "known",
    "made",
    "meant",
    "said",
    "told",
    "wanted",
}


def variables(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of every variable, parameter and function of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node.lineno


def test_variables_are_nouns():
    named = [(file, *name) for file, tree in TREES.items() for name in variables(tree)]
    assert not [place for place in named if place[1].strip("_") in PARTICIPLES]


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(file)
    shared = {name for name, files in homes.items() if len(files) > 1}
    assert shared == {"PabiAccountant"}  # an accountant of Opacus, and one of dp-accounting

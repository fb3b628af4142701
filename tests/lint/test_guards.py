"""Every test tests something: none returns early, and none changes where modules are found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CHANGING = {
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
    "__setitem__",
}


def early_returns(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(test, line) of every return without a value, which lets a test pass that checked nothing."""
    for test in ast.walk(tree):
        is_function = isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and test.name.startswith("test_"):
            for node in ast.walk(test):
                if isinstance(node, ast.Return) and node.value is None:
                    yield test.name, node.lineno


def is_search_path(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) == "sys.path"


def path_changes(tree: ast.AST) -> Iterator[int]:
    """Lines that change `sys.path`, by assignment, deletion, a method of its own, or monkeypatch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            changed = any(is_search_path(target) for target in node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            changed = is_search_path(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, node.func.value
            changed = name == "syspath_prepend" or (name in CHANGING and is_search_path(owner))
        elif isinstance(node, ast.ImportFrom):
            changed = node.module == "sys" and any(alias.name == "path" for alias in node.names)
        else:
            changed = False
        if changed:
            yield node.lineno


def test_no_test_passes_over_nothing_or_changes_the_search_path():
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        assert not [*early_returns(tree)], path
        assert not [*path_changes(tree)], path


def test_a_guard_is_noticed():
    tree = ast.parse("def test_a(x):\n    for _ in x:\n        return\n\ndef helper():\n    return")
    assert [*early_returns(tree)] == [("test_a", 3)]


def test_a_change_of_the_search_path_is_noticed():
    for line in (
        "sys.path = []",
        "sys.path += ['x']",
        "sys.path[:0] = ['x']",
        "sys.path[0] = 'x'",
        "del sys.path[0]",
        "sys.path.insert(0, 'x')",
        "monkeypatch.syspath_prepend('x')",
        "from sys import path",
    ):
        assert [*path_changes(ast.parse(line))] == [1], line


def test_reading_the_search_path_is_allowed():
    assert not [*path_changes(ast.parse("places = ':'.join(sys.path); first = sys.path[0]"))]

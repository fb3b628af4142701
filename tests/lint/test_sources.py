"""The source: variables are nouns, no two classes share a name, and what is loaded by a name that is put
together at run time is listed. (Import statements are checked by import-linter, `[tool.importlinter]` in
pyproject.toml.) And every test tests something, and changes nowhere where modules are found."""

import ast
import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pabi
import pabi.learn

ROOT, TESTS = Path(pabi.__file__).parent, Path(__file__).parents[1]
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
# They say that something happened to a thing, and not what the thing is.
PARTICIPLE = re.compile("asked|done|found|given|got|kept|known|made|meant|said|told|wanted")


def variables(tree):
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
    assert not [place for place in named if PARTICIPLE.fullmatch(place[1].strip("_"))]


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(file)
    shared = {name for name, files in homes.items() if len(files) > 1}
    assert shared == {"PabiAccountant"}  # an accountant of Opacus, and one of dp-accounting


# Modules that are loaded by name.

LOADERS = {"import_module", "__import__", "exec", "eval", "spec_from_file_location", "run_module"}
TRUSTED = {
    ("__init__.py", "f'pabi.{name}'"): "public modules, on first use",
    ("__init__.py", "_LAZY[name]"): "public names, on first use",
    ("learn/__init__.py", "_LAZY[name]"): "the room's own estimators, on first use",
    ("features.py", "_LAZY[name]"): "the room's own transformers, on first use",
    ("literature/papers/__init__.py", "f'{__name__}.{_HOMES[name]}'"): "the room's own files",
    ("verification/discovery.py", "f'{package}.{file}'"): "a folder's own files, see below",
    ("numbers/errors.py", "module"): "other packages, see below",
    (
        "cli/explorer/workers.py",
        "f'pabi.cli.explorer.{module}'",
    ): "the table of jobs above it, of its own room",
}


def calls(name):
    """(file, call) of every call of a function of this name in the package."""
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called.rpartition(".")[2].lstrip("_") == name:
                yield file, node


def test_what_is_loaded_by_name_is_listed():
    found = {
        (file, ast.unparse(call.args[0]))
        for name in LOADERS
        for file, call in calls(name.lstrip("_"))
    }
    assert found == set(TRUSTED)


def test_lazy_names_of_estimators_stay_in_their_room():
    assert all(home.startswith("pabi.learn.") for home in pabi.learn._LAZY.values())


def test_lazy_public_names_have_a_home():
    assert not [home for home in set(filter(None, pabi._LAZY.values())) if find_spec(home) is None]


def test_the_checker_discovers_its_own_folders_only():
    called = {
        (file, *(ast.unparse(argument) for argument in call.args[:2]))
        for file, call in calls("declared")
        if file.startswith("verification/")
    }
    folders = ("verification/factors", "verification/theorems")
    assert called == {(f"{folder}/__init__.py", "__name__", "__path__") for folder in folders}


def test_extras_are_other_packages():
    named = [ast.literal_eval(call.args[0]) for _, call in calls("extra")]
    assert len(named) >= 5
    assert not [name for name in named if name.partition(".")[0] == "pabi"]


# Tests.

CHANGING = re.compile("append|clear|extend|insert|pop|remove|reverse|sort|__setitem__")


def early_returns(tree):
    """(test, line) of every return without a value, which lets a test pass that checked nothing."""
    for test in ast.walk(tree):
        is_function = isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and test.name.startswith("test_"):
            for node in ast.walk(test):
                if isinstance(node, ast.Return) and node.value is None:
                    yield test.name, node.lineno


def is_search_path(node):
    if isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) == "sys.path"


def path_changes(tree):
    """Lines that change `sys.path`, by assignment, deletion, a method of its own, or monkeypatch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            changed = any(is_search_path(target) for target in node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            changed = is_search_path(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, node.func.value
            changed = name == "syspath_prepend" or (
                CHANGING.fullmatch(name) is not None and is_search_path(owner)
            )
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
    # Reading is allowed.
    assert not [*path_changes(ast.parse("places = ':'.join(sys.path); first = sys.path[0]"))]

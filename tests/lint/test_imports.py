"""Imports that no import statement shows: modules that are loaded by a name put together at run time.

Import statements, lazy ones included, are checked by import-linter (`[tool.importlinter]` in pyproject.toml).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pabi
import pabi.learn

ROOT = Path(pabi.__file__).parent
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
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


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
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

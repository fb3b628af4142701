"""Shell completion: commands, options and the script that asks for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def pabi(*words, **environment):
    """What the command prints, in a process of its own: completion ends it."""
    command = [sys.executable, "-m", "pabi.cli", *words]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [
        ("pabi tr", "1", {"train"}),
        ("pabi ", "1", {"account", "predict", "schema", "train", "ledger", "verify"}),
        ("pabi train --gua", "2", {"--guarantee"}),
    ],
)
def test_what_bash_is_offered(words, place, expected):
    offered = pabi(_PABI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place).split()
    assert expected <= set(offered)
    assert all(word.startswith(words.split(" ")[-1]) for word in offered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_shown_and_installed(tmp_path, shell):
    assert "_PABI_COMPLETE" in pabi(_PABI_COMPLETE=f"source_{shell}")
    # Which shell runs the tests says nothing.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    assert "installed" in pabi("--install-completion", shell, **named)
    installed = [path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_PABI_COMPLETE" in text for text in installed)

"""Every example of the documentation is executed, and what it prints is compared with what the page shows.

A page is one test, its examples share a namespace and an empty folder, which they run in:

python      executed. A block without a language that follows shows what it prints; without one, every
            print says its output in a comment on the same line, numbers rounded as shown. `…` stands for
            anything. Or a block with prompts, as in an interactive session.
console     lines with `$ ` are commands, run by bash; what follows them is what they print.
toml        one whose first line is `# NAME.toml` is written to that file.

Comments `<!-- invisible-code: python` hold code that readers need not see. A page with the comment
`<!-- needs NAME -->` is skipped where that framework is missing.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import traceback
from itertools import zip_longest
from pathlib import Path

import pytest
from sybil import Document
from sybil.example import SybilFailure
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer

from support.frameworks import framework

ROOT = Path(__file__).parent.parent.parent
DOCS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("[a-z]*/*.md")]
PAGES = [ROOT / "README.md", *sorted(DOCS)]
PAGES = [page for page in PAGES if re.search("```(python|console)", page.read_text("utf-8"))]

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_FILE = re.compile(r"# (\S+\.toml)\b")
_NEEDS = re.compile(r"<!-- needs (\w+) -->")
_END = "\x1e"  # printed after every command


# What a page holds.


def examples(document):
    """The regions to execute, for sybil. `parsed` is (source, the output shown or None)."""
    fenced = list(FencedCodeBlockLexer(language=r"[^\n]*")(document))
    for hidden in DirectiveInHTMLCommentLexer("invisible-code", "python")(document):
        yield ready(hidden, python, hidden.lexemes["source"], None)
    for region, follower in zip_longest(fenced, fenced[1:]):
        language, source = region.lexemes["language"].strip(), region.lexemes["source"]
        shown = None
        if follower is not None and not follower.lexemes["language"].strip():
            between = document.text[region.end : follower.start]
            shown = None if between.strip() else follower.lexemes["source"]
        if language == "python":
            yield ready(region, python, source, shown)
        elif language == "console":
            yield ready(region, console, source, None)
        elif language == "toml" and _FILE.match(source):
            yield ready(region, written, source, None)


def ready(region, evaluator, source, shown):
    region.parsed = (str(source), None if shown is None else str(shown))
    region.evaluator = evaluator
    return region


# What becomes of an example: nothing, or what is wrong with it.


def session(example):
    """A block with prompts."""
    source = example.parsed[0].replace("…", "...")
    found = doctest.DocTestParser().get_doctest(
        source, example.namespace, example.path, example.path, example.line
    )
    found.globs = example.namespace  # what is defined stays defined on the page
    wrong = []
    doctest.DocTestRunner(optionflags=_FLAGS).run(found, out=wrong.append, clear_globs=False)
    return "".join(wrong)


def python(example):
    source, shown = example.parsed
    if source.lstrip().startswith(">>>"):
        return session(example)
    lines = source.split("\n")
    padding = "\n" * (example.line + (1 if lines else 0) - 1)
    printed_unseen, wrong = "", []
    for statement in ast.parse(padding + source, example.path).body:
        code = compile(ast.Module([statement], []), example.path, "exec")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, example.namespace)
        last_line = (padding + source).split("\n")[statement.end_lineno - 1]
        said = last_line[len(last_line.encode()[: statement.end_col_offset].decode()) :]
        if shown is None and output.getvalue() and "#" in said:
            if not agrees(said.partition("#")[2], output.getvalue()):
                wrong.append(f"{last_line.strip()}\nprints\n{output.getvalue()}")
        else:
            printed_unseen += output.getvalue()
    if shown is None and printed_unseen:
        wrong.append(f"The page does not show what it prints:\n{printed_unseen}")
    if shown is not None:
        wrong += compared(shown, printed_unseen)
    return "\n".join(wrong)


def compared(shown, printed):
    """What is wrong with the output that is shown."""
    wanted = shown.replace("…", "...").strip() + "\n"
    got = printed.replace("…", "...").strip() + "\n"
    checker = doctest.OutputChecker()
    if checker.check_output(wanted, got, _FLAGS):
        return []
    case = doctest.Example("", wanted)
    difference = checker.output_difference(case, got, _FLAGS | doctest.REPORT_NDIFF)
    return [difference, f"Printed:\n{got}"]


def agrees(comment, printed):
    """Whether a comment is what was printed, up to its end, `;` or `:`; numbers rounded as shown."""
    ends = [match.start() for match in re.finditer(r"[;:](?=\s)", comment)]
    return any(tells(comment[:end], printed) for end in (len(comment), *ends))


def tells(comment, printed):
    said, words = comment.split(), printed.split()
    for i, word in enumerate(said):
        if word == "…":
            return True
        if i >= len(words) or not same(word, words[i]):
            return False
    return len(said) == len(words)


def same(said, word):
    if _NUMBER.sub("#", said) != _NUMBER.sub("#", word):
        return False
    pairs = zip(_NUMBER.findall(said), _NUMBER.findall(word), strict=True)
    return all(rounded(a.replace("−", "-"), b.replace("−", "-")) for a, b in pairs)


def rounded(said, value):
    digits, _, exponent = said.partition("e")
    place = len(digits.partition(".")[2]) - int(exponent or 0)
    return abs(float(said) - float(value)) <= 0.5001 * 10.0**-place


def written(example):
    source, _ = example.parsed
    Path(_FILE.match(source)[1]).write_text(source, encoding="utf-8")
    return ""


def console(example):
    if shutil.which("bash") is None:
        pytest.skip("the examples of the command line need bash")
    source, _ = example.parsed
    commands = []
    shown = []
    for line in source.split("\n"):
        if line.startswith("$ "):
            commands.append(line[2:])
            shown.append("")
        elif commands and commands[-1].endswith("\\"):
            commands[-1] += f"\n{line}"
        elif commands:
            shown[-1] += f"{line}\n"
    ends = f"\n__status=$?; printf '{_END}'; (exit $__status)\n"
    script = "".join(command + ends for command in commands)
    path = f"{example.namespace['__bin__']}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8", "COLUMNS": "200"},
    )
    printed = done.stdout.decode().split(_END)[: len(commands)]
    wrong = []
    for command, expected, output in zip(commands, shown, printed, strict=True):
        found = compared(expected, output)
        wrong += [f"$ {command}", *found] if found else []
    return "\n".join(wrong)


# The pages.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, and beside it one with the command `pabi`."""
    commands, work = tmp_path / "bin", tmp_path / "work"
    commands.mkdir()
    work.mkdir()
    command = commands / "pabi"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pabi "$@"\n')
    command.chmod(0o755)
    import pabi

    path = [str(Path(pabi.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(work)
    return commands


def failures(page, commands):
    """What is wrong with a page's examples; after an exception the rest of them is left out."""
    document = Document.parse(str(page), examples)
    document.namespace["__bin__"] = str(commands)
    wrong = []
    for example in document:
        try:
            example.evaluate()
        except SybilFailure as failure:
            wrong.append(str(failure))
        except Exception:
            wrong.append(f"{page}, line {example.line}:\n{traceback.format_exc()}")
            break
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_page(page, folder):
    for module in _NEEDS.findall(page.read_text("utf-8")):
        framework(module)
    wrong = failures(page, folder)
    import matplotlib.pyplot as plt

    plt.close("all")
    assert not wrong, "\n\n".join(wrong)


# The test itself.

WRONG = {
    "output": "```python\nprint(1)\n```\n\n```\n2\n```\n",
    "unseen": "```python\nprint(1)\n```\n",
    "comment": "```python\nprint(1.25)  # 1.3\nprint(2.5)  # 2.4; no\n```\n",
    "exception": "```python\n1 / 0\n```\n",
    "command": "```console\n$ echo 1\n2\n```\n",
    "status": "```console\n$ pabi verify\n$ echo $?\n0\n```\n",
    "session": "```python\n>>> 1 + 1\n3\n```\n",
    "error in session": "```python\n>>> 1 / 0\n```\n",
    "too little": "```python\nprint('a\\nb')\n```\n\n```\na\n```\n",
}
RIGHT = {
    "output": "```python\nprint('a', 1)\n```\n\n```\na 1\n```\n",
    "session": "```python\n>>> x = 1\n\n```\n\n```python\n>>> x + 1\n2\n```\n",
    "ellipsis": "```python\nprint('a b c')\n```\n\n```\na … c\n```\n",
    "comment": "```python\nprint('x', 0.0031)  # x 0.003: rounded\nprint(1.19499e-5)  # 1.195e-05\n```\n",
    "file": "```toml\n# a.toml\nx = 1\n```\n\n```console\n$ tail -n 1 a.toml | cat\nx = 1\n```\n",
    "status": "```console\n$ false\n$ echo $?\n1\n```\n",
    "hidden": "<!-- invisible-code: python\nx = 1\n-->\n\n```python\nprint(x)  # 1\n```\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_wrong_examples_are_found(text, tmp_path, folder):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert failures(page, folder)


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_right_examples_pass(text, tmp_path, folder):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert not failures(page, folder)

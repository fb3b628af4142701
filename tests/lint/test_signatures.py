"""More than three arguments of one type are passed by name: a swapped pair would pass every type checker.

The test reads the source. A parameter counts by its annotation, `None` aside. What has no annotation is left
out, as is what is keyword-only. The fields of a dataclass or NamedTuple count where it is called with more
than three of one type by position; a starred argument stands for all the fields that are left.
"""

import ast
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import pabi
from support.every_case import every

ROOT = Path(pabi.__file__).parent
MOST = 3

# (file, name): why its arguments stay positional.
EXCEPTIONS = {
    ("describe/losses.py", "dissipative"): "public: the signature is fixed since 0.1.0",
    ("describe/losses.py", "poisson"): "public: the signature is fixed since 0.1.0",
    ("account/mixing.py", "mixing_time"): "public: the signature is fixed since 0.1.0",
}


class Finding(NamedTuple):
    file: str
    line: int
    name: str
    types: tuple[str, ...]


def type_of(annotation):
    """The annotation without `None`, its alternatives in order."""

    def alternatives(node):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from alternatives(node.left)
            yield from alternatives(node.right)
        else:
            yield ast.unparse(node)

    return " | ".join(sorted(set(alternatives(annotation)) - {"None"}))


def too_many(types):
    return tuple(sorted(kind for kind, count in Counter(types).items() if count > MOST))


def positional_types(function):
    parameters = (*function.args.posonlyargs, *function.args.args)
    return [type_of(p.annotation) for p in parameters if p.annotation is not None]


def field_types(cls):
    """Of the fields that a constructor takes by position, in order; None where none is generated."""
    decorators = {ast.unparse(d).partition("(")[0]: ast.unparse(d) for d in cls.decorator_list}
    generated = decorators.get("dataclass")
    if generated is None and "NamedTuple" not in {ast.unparse(base) for base in cls.bases}:
        return None
    if generated is not None and ("kw_only=True" in generated or "init=False" in generated):
        return None
    found = []
    for node in cls.body:
        if not isinstance(node, ast.AnnAssign):
            continue
        annotation = ast.unparse(node.annotation)
        if annotation == "KW_ONLY":
            break
        made_inside = node.value is not None and "init=False" in ast.unparse(node.value)
        if not annotation.startswith("ClassVar") and not made_inside:
            found.append(type_of(node.annotation))
    return found


def constructed_types(call, fields):
    """The types of the fields that a call fills by position."""
    filled = []
    for k, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            named = {keyword.arg for keyword in call.keywords}
            return [*filled, *fields[k : len(fields) - len(named)]]
        filled.extend(fields[k : k + 1])
    return filled


def calls(node, cls=None):
    """(the last part of what is called, the call); `cls(…)` by the name of the class around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            name = ast.unparse(child.func).rpartition(".")[2]
            yield (cls if name == "cls" and cls is not None else name), child
        yield from calls(child, child.name if isinstance(child, ast.ClassDef) else cls)


def module_of(file):
    return "pabi." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def findings(sources):
    """What takes too many arguments by position, over files by their path below the package."""
    trees = {file: ast.parse(text) for file, text in sources.items()}
    generated = {
        (module_of(file), node.name): fields
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (fields := field_types(node)) is not None
    }
    found = []
    for file, tree in trees.items():
        known = {
            name: fields for (home, name), fields in generated.items() if home == module_of(file)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if types := too_many(positional_types(node)):
                    found.append(Finding(file, node.lineno, node.name, types))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (fields := generated.get((node.module or "", alias.name))) is not None:
                        known[alias.asname or alias.name] = fields
        for name, call in calls(tree):
            if name in known and (types := too_many(constructed_types(call, known[name]))):
                found.append(Finding(file, call.lineno, name, types))
    return found


@pytest.fixture(scope="module")
def package():
    return findings(
        {
            str(path.relative_to(ROOT).as_posix()): path.read_text("utf-8")
            for path in sorted(ROOT.rglob("*.py"))
        }
    )


def test_no_function_takes_more_than_three_of_a_type_by_position(package):
    left = [
        f"{one.file}:{one.line}: {one.name} takes more than {MOST} × {', '.join(one.types)} by position"
        for one in package
        if (one.file, one.name) not in EXCEPTIONS
    ]
    assert not left, "\n".join(left)


def test_every_exception_is_needed(package):
    assert set(EXCEPTIONS) <= {(one.file, one.name) for one in package}


HEAD = "from dataclasses import dataclass, field, KW_ONLY\nfrom typing import NamedTuple\n"
FOUR = "    a: float\n    b: float\n    c: float\n    d: float | None = None\n"


@every(
    ("text", "names"),
    [
        ("def f(a: float, b: float, c: float, d: float | None = None): ...", ["f"]),
        ("def f(a: int, b: str, /, c: int, d: int, e: None | int): ...", ["f"]),
        ("def f(a: str | int, b: int | str, c: int | str | None, d: int | str): ...", ["f"]),
        ("def f():\n    def g(a: int, b: int, c: int, d: int): ...", ["g"]),
        ("def f(a: int, b: int, c: int, *, d: int): ...", []),
        ("def f(a: int, b: int, c: int, d: float): ...", []),
        ("class A:\n    async def f(self, a: int, b: int, c: int, d: int): ...", ["f"]),
        ("def f(a, b, c, d): ...", []),
        ("def f(*a: int): ...", []),
    ],
)
def test_functions_are_read_right(text, names):
    assert [one.name for one in findings({"a.py": text})] == names


@every(
    ("cls", "call", "found"),
    [
        (f"class A(NamedTuple):\n{FOUR}", "A(1, 2, 3, 4)", True),
        (f"class A(NamedTuple):\n{FOUR}", "A(1, 2, 3, d=4)", False),
        (f"class A(NamedTuple):\n{FOUR}", "A(1, *x)", True),
        (f"class A(NamedTuple):\n{FOUR}", "A(*x, d=4)", False),
        (f"@dataclass(frozen=True)\nclass A:\n{FOUR}", "A(1, 2, 3, 4)", True),
        (f"@dataclass(kw_only=True)\nclass A:\n{FOUR}", "A(1, 2, 3, 4)", False),
        (f"@dataclass\nclass A:\n    _: KW_ONLY\n{FOUR}", "A(1, 2, 3, 4)", False),
        (f"@dataclass\nclass A:\n    x: ClassVar[float]\n{FOUR}", "A(1, 2, 3)", False),
        (f"@dataclass\nclass A:\n    x: float = field(init=False)\n{FOUR}", "A(1, 2, 3)", False),
        (f"@dataclass\nclass A:\n{FOUR}    def f(cls): return cls(1, 2, 3, 4)", "", True),
        (f"class A:\n{FOUR}", "A(1, 2, 3, 4)", False),
    ],
)
def test_constructors_are_read_right(cls, call, found):
    here = findings({"a.py": f"{HEAD}{cls}\n{call}"})
    assert [one.name for one in here] == ["A"] * found
    there = findings(
        {"a.py": HEAD + cls, "b/c.py": f"from pabi.a import A as B\n{call.replace('A(', 'B(')}"}
    )
    assert bool(there) is found


def test_a_class_of_the_same_name_elsewhere_is_another():
    text = f"{HEAD}class A(NamedTuple):\n{FOUR}"
    assert not findings({"a.py": text, "b.py": "from elsewhere import A\nA(1, 2, 3, 4)"})

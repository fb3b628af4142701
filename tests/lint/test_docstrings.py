"""Every public name says by itself what it takes, gives, refuses and rests on, in numpydoc's sections."""

import inspect
import re
from typing import Any, NamedTuple

from support.public import looked_up, public

SECTION = re.compile(r"^([A-Z][a-z ]+)\n-{3,}\n", re.M)
FIELD = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) :", re.M)
KNOWN = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "Notes",
    "References",
    "Examples",
)
# What these compute is a theorem's: they say whose.
PROVEN = (
    "pabi.convert",
    "pabi.literature",
    "pabi.mixing",
    "pabi.mixing_time",
    "pabi.erm",
    "pabi.tradeoff",
)


class Thing(NamedTuple):
    """A public name; `function` without the wrapper of a property or a method of the class."""

    name: str
    function: Any
    is_property: bool


def things():
    listed = {}
    for name in public():
        found = looked_up(name)
        if inspect.ismodule(found):
            continue
        is_property = isinstance(found, property) or hasattr(found, "attrname")
        inner = getattr(found, "fget", None) or getattr(found, "func", None) or found
        inner = getattr(inner, "__func__", inner)
        listed.setdefault(id(inner), Thing(name, inner, is_property))
    return sorted(listed.values())


THINGS = things()
FUNCTIONS = [t for t in THINGS if inspect.isfunction(t.function) and not t.is_property]
# Without errors, which users catch and do not construct.
CLASSES = [
    t for t in THINGS if inspect.isclass(t.function) and not issubclass(t.function, Exception)
]


def document(thing):
    """The docstring, or that of the method of a base that it overrides."""
    text = inspect.getdoc(thing.function)
    if text is None:
        owner, _, member = thing.name.rpartition(".")
        text = inspect.getdoc(getattr(looked_up(owner), member))
    assert text, f"{thing.name} says nothing"
    return text


def sections(text):
    """The sections of a docstring by their titles."""
    starts = [*SECTION.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return {m[1]: text[m.end() : end] for m, end in zip(starts, ends, strict=False)}


def named(section):
    """The parameters or attributes that a section describes, in order."""
    return [name.lstrip("*") for line in FIELD.findall(section) for name in line.split(", ")]


def parameters(function):
    given = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in given if not name.startswith("_")]


def test_everything_says_what_it_is():
    for thing in THINGS:
        first = document(thing).split("\n\n")[0]
        assert len(first.split()) >= 3, f"{thing.name}: a sentence"
        assert first.rstrip()[-1] in ".:", f"{thing.name}: {first}"
        titles = list(sections(document(thing)))
        assert set(titles) <= set(KNOWN), thing.name
        assert titles == sorted(titles, key=KNOWN.index), f"{thing.name}: in numpydoc's order"


def test_functions_have_their_sections():
    for thing in FUNCTIONS:
        found, taken = sections(document(thing)), parameters(thing.function)
        assert named(found.get("Parameters", "")) == taken, thing.name
        gives = inspect.signature(thing.function).return_annotation not in (None, "None")
        assert ("Returns" in found or "Yields" in found) == gives, thing.name
        assert "Raises" in found or not taken, thing.name
        proven = thing.name.startswith(PROVEN) and taken
        assert "References" in found or not proven, thing.name


def test_classes_describe_their_fields():
    for thing in CLASSES:
        found = sections(document(thing))
        described = named(found.get("Parameters", "")) + named(found.get("Attributes", ""))
        constructed = [] if inspect.isabstract(thing.function) else parameters(thing.function)
        missing = sorted(set(constructed) - set(described))
        assert not missing, f"{thing.name}: {missing}"

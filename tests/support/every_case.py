"""Cases that cost little, tried one after the other in one test, and refusals that name a field."""

import contextlib
import functools
import inspect

import pytest

from pabi import InvalidInput


def every(names, cases):
    """As `pytest.mark.parametrize`, but one test: the first case that fails is named in a note.

    A case that is skipped ends itself and no other; where all are, the test is skipped.
    """
    cases = list(cases)  # of a test that is parametrized as well they are tried every time
    assert cases, names
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]

    def decorate(test):
        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name not in names]

        @functools.wraps(test)
        def tried(*args, **kwargs):
            skipped = []
            for case in cases:
                values = case if len(names) > 1 else [case]
                given = dict(zip(names, values, strict=True))
                with contextlib.ExitStack() as stack:
                    if "monkeypatch" in kwargs:  # what a case patches is undone before the next one
                        alone = stack.enter_context(kwargs["monkeypatch"].context())
                        given["monkeypatch"] = alone
                    try:
                        test(*args, **{**kwargs, **given})
                    except pytest.skip.Exception as skip:
                        skipped.append(skip)
                    except BaseException as error:
                        error.add_note(f"in the case {given}")
                        raise
            if len(skipped) == len(cases):
                raise skipped[0]

        tried.__signature__ = signature.replace(parameters=others)
        return tried

    return decorate


class Agreeable(str):
    """A text that says that it is equal to everything."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False


def refused(field, make, *args, **kwargs):
    """The message, of one line, of the refusal that names this field."""
    with pytest.raises(InvalidInput) as refusal:
        make(*args, **kwargs)
    assert refusal.value.field == field, str(refusal.value)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def refuses(make, table):
    """That `make(name=value)` is refused by name for all values of a table {name: values}."""
    for name, values in table.items():
        for value in values:
            try:
                refused(name, make, **{name: value})
            except BaseException as error:
                error.add_note(f"in the case {name} = {value!r}")
                raise

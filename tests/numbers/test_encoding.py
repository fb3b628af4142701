"""Numbers in JSON, against encoders and counts of our own, and rational arithmetic."""

import base64
import itertools
import json
import math
import struct
import zlib
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pabi.numbers import encoding
from support.every_case import every, refused


def packed(raw):
    return base64.b64encode(zlib.compress(raw, 1)).decode()


@every("count, list_", [(0, True), (64, True), (65, False), (1000, False)])
def test_the_form_is_the_documented_one(count, list_):
    """A list up to 64 numbers; then little-endian doubles, or differences of 64-bit integers."""
    values = (np.arange(count) ** 2 / 3.0).tolist()
    whole = (np.arange(count) ** 2 + 5).tolist()
    floats, integers = encoding.floats(values), encoding.integers(whole)
    if list_:
        assert (floats, integers) == (values, whole)
    else:
        assert set(floats) == {"f8"}
        raw = zlib.decompress(base64.b64decode(floats["f8"], validate=True))
        assert list(struct.unpack(f"<{count}d", raw)) == values
        raw = zlib.decompress(base64.b64decode(integers["i8"], validate=True))
        assert list(itertools.accumulate(struct.unpack(f"<{count}q", raw))) == whole


@given(st.lists(st.floats(allow_nan=False), max_size=9))
def test_packed_floats_of_any_program_are_read(values):
    """However few there are, whatever the level of compression, with every bit."""
    found = encoding.read_floats("x", {"f8": packed(struct.pack(f"<{len(values)}d", *values))})
    assert found.tobytes() == np.array(values).tobytes()


@given(st.lists(st.integers(-(2**40), 2**40), max_size=9))
def test_packed_integers_of_any_program_are_read(steps):
    found = encoding.read_integers("x", {"i8": packed(struct.pack(f"<{len(steps)}q", *steps))})
    assert found.tolist() == list(itertools.accumulate(steps))


GOOD = packed(struct.pack("<2d", 1.0, 2.0))
TWO = zlib.compress(bytes(8)) + zlib.compress(bytes(8))


BASE64 = "expected base64 of zlib-compressed numbers"
DAMAGED = [
    *(GOOD[:-4], "!" + GOOD[1:], GOOD + "\n", "", None, 16, ["f8"]),
    *(
        base64.b64encode(raw).decode()  # no stream, two, one and something else
        for raw in (b"no stream at all", TWO, zlib.compress(bytes(16)) + b"x")
    ),
]
NO_FLOATS = [None, 1.0, "1", [True], [1, None], ["1"], {}, {"i8": GOOD}, {"f8": GOOD, "x": 1}]
NO_INTEGERS = [None, 1, [True], [1.0], [2**62], [-(2**62)], {"f8": GOOD}, {}, [None], "1"]


@every(
    "read, key, others, whole",
    [
        (encoding.read_floats, "f8", [*NO_FLOATS, [[1.0]], [1j]], "whole doubles"),
        (encoding.read_integers, "i8", NO_INTEGERS, "whole 64-bit integers"),
    ],
)
def test_what_is_no_array_is_refused(read, key, others, whole):
    for text in DAMAGED:
        assert BASE64 in refused("x", read, "x", {key: text}), text
    for value in others:
        refused("x", read, "x", value)
    for size in (1, 7, 9, 12):
        assert whole in refused("x", read, "x", {key: packed(bytes(size))})


def test_numbers_that_no_double_holds_are_refused():
    assert "range of doubles" in refused("x", encoding.read_floats, "x", [10**400])
    assert encoding.read_floats("x", [2**53 + 1, 1]).tolist() == [2.0**53, 1.0]
    assert encoding.read_integers("x", [2**62 - 1]).tolist() == [2**62 - 1]


def test_what_may_be_unpacked_is_shared_by_all_arrays_within():
    """To the byte; a limit within another is one of its own, and outside there is none."""
    with encoding.unpacking_at_most(0):  # a list costs no room
        assert encoding.read_floats("x", [1.0, 2.0]).tolist() == [1.0, 2.0]
    eight, sixteen = {"f8": packed(bytes(8))}, {"f8": packed(bytes(16))}
    with encoding.unpacking_at_most(24):
        encoding.read_floats("x", sixteen)
        with encoding.unpacking_at_most(8):
            encoding.read_floats("x", eight)
            assert "unpacks to more" in refused("x", encoding.read_floats, "x", eight)
        assert "unpacks to more" in refused("x", encoding.read_floats, "x", sixteen)
        encoding.read_floats("x", eight)
        assert "unpacks to more" in refused("x", encoding.read_floats, "x", eight)
    assert encoding.read_floats("x", {"f8": packed(bytes(8000))}).size == 1000


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(json_values, st.sampled_from([None, 1]), st.booleans())
def test_valid_json_is_read_as_everybody_reads_it(value, indent, ascii_):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    assert encoding.parse_json(text) == value


digits = st.text("0123456789", min_size=1, max_size=20)


@given(st.booleans(), digits, digits, st.integers(-360, 330))
def test_a_number_is_the_nearest_double_or_none(minus, whole, part, exponent):
    """Refused is exactly what would read as ∞, or as 0 though it is not."""
    whole = whole.lstrip("0") or "0"
    text = f"{'-' * minus}{whole}.{part}e{exponent}"
    truth = Fraction(text)
    nearest = float(text)  # the language's own rounding
    lost = math.isinf(nearest) or (nearest == 0.0 and truth != 0)
    if lost:
        said = refused("json", encoding.parse_json, f"[{text}]")
        assert "beyond the range of doubles" in said
    else:
        found = encoding.parse_json(f"[{text}]")[0]
        assert abs(Fraction(found) - truth) <= Fraction(math.ulp(found)) / 2


@given(st.lists(st.sampled_from(["a", "b", "ab", "é", ""]), max_size=5))
def test_a_key_comes_once(keys):
    text = "{" + ", ".join(f"{json.dumps(k)}: {i}" for i, k in enumerate(keys)) + "}"
    if len(set(keys)) == len(keys):
        assert encoding.parse_json(text) == {k: i for i, k in enumerate(keys)}
    else:
        said = refused("json", encoding.parse_json, text)
        named = [k for k in keys if keys.count(k) > 1]
        assert said in [f"json: the key {k!r} comes twice" for k in named]


NO_JSON = [('{"a": 1,\n "b" 2}', "line 2, column 6"), ("", "line 1, column 1"), ("[1, 2", "line 1")]
NO_JSON += [(r'{"a": 1, "\u0061": 2}', "the key 'a' comes twice"), ("[1] 2", "line 1, column 5")]
NO_JSON += [("[NaN]", "NaN is not a number"), ("[-Infinity]", "-Infinity is not a number")]
NO_JSON += [("[" * 100_000, "nested too deeply")]
NO_JSON += [("[" + "1" * 5000 + "]", "a number that cannot be read")]


@every("text, said", NO_JSON)
def test_what_is_no_json_says_where(text, said):
    assert said in refused("json", encoding.parse_json, text)


def depth(value):
    """(how deep, how many) containers of a value that was read."""
    if not isinstance(value, (list, dict)):
        return 0, 0
    inner = [depth(x) for x in (value.values() if isinstance(value, dict) else value)]
    return 1 + max((d for d, _ in inner), default=0), 1 + sum(n for _, n in inner)


@settings(deadline=None)
@given(json_values, st.booleans())
def test_brackets_are_counted_as_they_are_read(value, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_)
    assert encoding.nesting(text, 1000, 1000) == depth(value)


def counted(text):
    """The same of any text, one character after the other: a backslash hides the one behind it."""
    deepest = here = opened = 0
    inside, characters = False, iter(text)
    for character in characters:
        if character == "\\":
            next(characters, None)
        elif character == '"':
            inside = not inside
        elif not inside and character in "[{":
            here, opened = here + 1, opened + 1
            deepest = max(deepest, here)
        elif not inside and character in "]}":
            here -= 1
    return deepest, opened


@given(st.text('[]{}"\\a', max_size=30))
def test_brackets_of_what_is_no_json_are_counted(text):
    assert encoding.nesting(text, 1000, 1000) == counted(text)


@given(st.text('[]{}"\\a', max_size=30), st.integers(0, 4), st.integers(0, 4))
def test_counting_ends_where_there_are_too_many(text, deep, many):
    """A limit that is kept changes nothing; one that is not is exceeded by one."""
    deepest, opened = encoding.nesting(text, 10**9, 10**9)
    found = encoding.nesting(text, deep, many)
    if deepest <= deep and opened <= many:
        assert found == (deepest, opened)
    else:
        assert found[0] == deep + 1 or found[1] == many + 1
        assert found[0] <= deep + 1
        assert found[1] <= many + 1

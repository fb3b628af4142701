"""Mutations of honest files, each a pure function of a seed: of bytes, and of what looks like a token."""

import random
import re
from collections.abc import Sequence

TOKENS = re.compile(rb'"[^"\n]*"|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|\w+|[\[\]{}:=,]')
ODD = (
    b"0", b"-0", b"-1", b"1", b"2", b"0.0", b"1e-300", b"5e-324", b"1e300", b"1e400", b"-1e400", b"nan",
    b"inf",    b"-inf", b"NaN", b"Infinity", b"9" * 400, b"9" * 5000, b"1000000000", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551616", b"true", b"false", b"null", b"[]", b"{}", b'""', b"[[]]",
    b"[0]", b"[1e300, 0.5]", b'"inf"', b'"\\u0000"', b'"\\ud800"', b'"\xe2\x88\x9e"', b"\xff", b"\0",
    b"\n", b"\r\n",
    b"[" * 100, b"[" * 2000, b'{"a":' * 100, b"'''", b'"""', b"#", b"=", b"1979-05-27T07:32:00Z",
    b"0x10", b"1_000",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], seed: int) -> bytes:
    """One of the seeds, mutated one to six times."""
    rng = random.Random(seed)
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(MUTATIONS)(rng, data, seeds)
    return data


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    """A stretch of the data, most often a short one."""
    first = rng.randrange(len(data) + 1)
    length = rng.choice((1, 2, 4, 8, 64, len(data)))
    return first, min(len(data), first + rng.randint(0, length))


def _token(rng: random.Random, data: bytes) -> tuple[int, int]:
    """Where a token of the data stands, near a random place."""
    match = TOKENS.search(data, rng.randrange(len(data) + 1)) or TOKENS.search(data)
    return match.span() if match else _span(rng, data)


def _put(data: bytes, span: tuple[int, int], part: bytes) -> bytes:
    return data[: span[0]] + part + data[span[1] :]


def _flipped(rng, data, seeds):
    if not data:
        return b"\0"
    place = rng.randrange(len(data))
    return _put(data, (place, place + 1), bytes([data[place] ^ 1 << rng.randrange(8)]))


def _overwritten(rng, data, seeds):
    span = _span(rng, data)
    return _put(data, span, rng.randbytes(span[1] - span[0]))


def _removed(rng, data, seeds):
    return _put(data, _span(rng, data), b"")


def _repeated(rng, data, seeds):
    first, last = _span(rng, data)
    return _put(data, (last, last), data[first:last] * rng.choice((1, 1, 2, 30)))


def _odd_token(rng, data, seeds):
    return _put(data, _token(rng, data), rng.choice(ODD))


def _inserted(rng, data, seeds):
    place = _span(rng, data)[0]
    return _put(data, (place, place), rng.choice(ODD))


def _another_token(rng, data, seeds):
    """A token of some seed in the place of another one."""
    other = rng.choice(seeds)
    first, last = _token(rng, other)
    return _put(data, _token(rng, data), other[first:last])


def _another_number(rng, data, seeds):
    first, last = _token(rng, data)
    try:
        value = float(data[first:last])
    except ValueError:
        return _put(data, (first, last), rng.choice(ODD))
    new = rng.choice(
        (-value, value / 2, value * 2, value + 1, value - 1, value * 1e9, value * 1e-9)
    )
    text = repr(int(new)) if b"." not in data[first:last] and abs(new) < 1e18 else repr(new)
    return _put(data, (first, last), text.encode())


def _token_removed(rng, data, seeds):
    return _put(data, _token(rng, data), b"")


def _line_repeated(rng, data, seeds):
    lines = data.splitlines(keepends=True) or [b""]
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"".join(lines)


def _line_removed(rng, data, seeds):
    lines = data.splitlines(keepends=True) or [b""]
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _line_of_another(rng, data, seeds):
    lines = data.splitlines(keepends=True) or [b""]
    lines[rng.randrange(len(lines))] = rng.choice(
        rng.choice(seeds).splitlines(keepends=True) or [b""]
    )
    return b"".join(lines)


def _spliced(rng, data, seeds):
    other = rng.choice(seeds)
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _cut(rng, data, seeds):
    return data[: rng.randrange(len(data) + 1)]


MUTATIONS = (
    _flipped, _overwritten, _removed, _repeated, _odd_token, _odd_token, _odd_token, _inserted,
    _another_token, _another_token, _another_number, _another_number, _token_removed, _line_repeated,
    _line_removed, _line_of_another, _spliced, _cut,
)  # fmt: skip

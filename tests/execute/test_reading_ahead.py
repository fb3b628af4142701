"""Reading by another thread: the same values in the same order, and one ahead."""

import threading

import pytest

from pabi.execute.reading_ahead import Ahead, ahead


def test_the_same_values():
    assert list(ahead(iter(range(10)))) == list(range(10))
    assert list(ahead(iter(()))) == []


def test_the_next_is_read_while_one_is_used():
    read = [threading.Event() for _ in range(3)]

    def values():
        for event in read:
            event.set()
            yield event

    rest = ahead(values())
    assert next(rest) is read[0]
    assert read[1].wait(5.0)
    assert not read[2].is_set()


def test_what_reading_raises_is_raised():
    def values():
        yield 1
        raise OSError("gone")

    rest = ahead(values())
    assert next(rest) == 1
    with pytest.raises(OSError, match="gone"):
        next(rest)


def test_parts_in_any_order_and_again():
    asked = []
    parts = Ahead(lambda k: asked.append(k) or k * k, 4)
    assert [parts.part(k) for k in (0, 1, 2, 3, 0, 1, 1, 3)] == [0, 1, 4, 9, 0, 1, 1, 9]
    parts.close()
    assert asked[:6] == [0, 1, 2, 3, 0, 1]


def test_a_part_that_cannot_be_read():
    def read(k):
        if k:
            raise OSError("gone")
        return k

    parts = Ahead(read, 2)
    assert parts.part(0) == 0
    with pytest.raises(OSError, match="gone"):
        parts.part(1)
    parts.close()

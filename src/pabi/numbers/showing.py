"""Numbers as text. Whatever pabi prints, draws or writes into a message is rounded here and nowhere else.

A guarantee must not look better than it is: `shown` rounds up, `shown_down` down. What was given is said
as it was given (`exact`), what was measured only as far as it was measured (`accuracy`), a paper's number
as the paper prints it (`as_printed`), and a number that promises nothing to the nearest (`plain`).

All take ints, floats, decimals and numpy's scalars. Digits are significant ones, without trailing zeros; or
with `decimals`, so many after the point. `percent` multiplies by 100, exactly, and appends the sign.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from html import escape
from numbers import Integral
from typing import SupportsFloat


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with its cells in columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def suggestion(name: str, names: Iterable[str], *, quoted: bool = False) -> str:
    """ "; did you mean …?", with the one of `names` that is most like `name`; "" where none is."""
    near = difflib.get_close_matches(name[:_NAME], sorted(names), n=1, cutoff=0.5)
    return "".join(f"; did you mean {repr(one) if quoted else one}?" for one in near)


def one_line(text: object) -> str:
    """`text` without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


_NAME = 80  # characters of a name that another could be meant by

# Text as HTML: everything is escaped here, so that no sentence of a file can become a tag.


def escaped(text: object) -> str:
    """`text` for the content of an element or a quoted attribute, control characters as spaces."""
    return escape("".join(c if c.isprintable() else " " for c in str(text)))


def element(name: str, text: object) -> str:
    """An element with this text, escaped."""
    return f"<{name}>{escaped(text)}</{name}>"


def items(texts: Iterable[object]) -> str:
    """A list, an element for each text."""
    return f"<ul>{''.join(element('li', text) for text in texts)}</ul>"


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    lines = (
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table under a header."""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in header)
    lines = ("".join(element("td", cell) for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(summary: object, content: str) -> str:
    """`content`, which is HTML, shown once a reader asks for it."""
    return f"<details><summary>{escaped(summary)}</summary>{content}</details>"


# Every double is a decimal of at most 767 digits; what is computed with so many is exact.
_EXACT = Context(prec=2000)


def shown(
    x: SupportsFloat, digits: int = 6, *, decimals: int | None = None, percent: bool = False
) -> str:
    """`x` rounded up: no privacy loss and no bound on a risk may be shown too small; "inf" for NaN.

    What is returned is, read as a decimal, at least `x`, and less than a unit of its last digit above.
    """
    # Where it is NaN nothing is promised.
    return "inf" if math.isnan(x) else _text(x, digits, decimals, percent, ROUND_CEILING)


def shown_down(
    x: SupportsFloat, digits: int = 6, *, decimals: int | None = None, percent: bool = False
) -> str:
    """`x` rounded down: a lower bound, such as an attacker's least error; "-inf" for NaN."""
    return "-inf" if math.isnan(x) else _text(x, digits, decimals, percent, ROUND_FLOOR)


def accuracy(share: SupportsFloat, width: SupportsFloat) -> str:
    """A measured `share` in per cent, rounded down, to the place of its uncertainty's first digit.

    `width`: the uncertainty, > 0, as a share too: 0.8837 ± 0.016 is "88%", and ± 0.004 "88.3%".
    """
    first = _decimal(width).scaleb(2, _EXACT).adjusted()
    return shown_down(share, decimals=max(0, -first), percent=True)


def exact(x: SupportsFloat) -> str:
    """`x` as it was given: the shortest text that reads as the same double. Stated ε and δ are shown so."""
    text = repr(int(x) if isinstance(x, Integral) else float(x))
    return text.removesuffix(".0")


def plain(
    x: SupportsFloat, digits: int = 6, *, decimals: int | None = None, percent: bool = False
) -> str:
    """`x` to the nearest: times, sizes, ratios, steps. Never a privacy loss, a risk or a bound on either."""
    return _text(x, digits, decimals, percent, ROUND_HALF_EVEN)


def as_printed(x: SupportsFloat, decimals: int, *, sign: bool = False) -> str:
    """A paper's number, computed anew, as papers print theirs: to the nearest, which promises nothing.

    `sign`: with "+" where it is not negative, as differences have it.
    """
    text = _text(x, 0, decimals, False, ROUND_HALF_EVEN)
    return f"+{text}" if sign and not text.startswith("-") else text


def _decimal(x: SupportsFloat) -> Decimal:
    if isinstance(x, Decimal):
        return x
    return Decimal(int(x)) if isinstance(x, Integral) else Decimal(float(x))


def _text(x: SupportsFloat, digits: int, decimals: int | None, percent: bool, rounding: str) -> str:
    if not math.isfinite(x):
        return repr(float(x))
    value = _decimal(x).scaleb(2 if percent else 0, _EXACT)
    if decimals is None:
        text = _significant(Context(digits, rounding).create_decimal(value), digits)
    else:
        unit = Decimal(1).scaleb(-decimals)
        text = f"{_unsigned_zero(value.quantize(unit, rounding, _EXACT)):f}"
    return f"{text}%" if percent else text


def _significant(value: Decimal, digits: int) -> str:
    """`value` as printf's %g has it: very large and very small ones with an exponent."""
    place = value.adjusted()
    if value.is_zero() or -5 < place < digits:
        return f"{_unsigned_zero(value).normalize(_EXACT):f}"
    mantissa = value.scaleb(-place, _EXACT).normalize(_EXACT)
    return f"{mantissa:f}e{place:+03d}"


def _unsigned_zero(value: Decimal) -> Decimal:
    return value.copy_abs() if value.is_zero() else value

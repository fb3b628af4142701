"""Numbers as text: the formatters against exact decimals, and no other formatting of a number anywhere."""

import ast
import doctest
import math
import re
import string
from decimal import Decimal, localcontext
from pathlib import Path

import matplotlib
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import pabi
from pabi.numbers.showing import accuracy, as_printed, exact, plain, shown, shown_down
from support.tables import unit

matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
FORMATTER = ROOT / "src" / "pabi" / "numbers" / "showing.py"
FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e3, 1e3),
    st.floats(-1e-300, 1e-300),
    st.integers(-(10**30), 10**30),
)
DIGITS = st.integers(1, 17)
DECIMALS = st.integers(0, 8)


@given(FINITE, DIGITS)
@example(5e-324, 2)
@example(1.7976931348623157e308, 1)
@example(999999.5, 6)
@example(-0.0, 1)
def test_significant_digits_are_rounded_to_the_right_side(x, digits):
    above, below = Decimal(shown(x, digits)), Decimal(shown_down(x, digits))
    nearest, true = Decimal(plain(x, digits)), Decimal(x)
    with localcontext(prec=2000):  # or the differences below are rounded themselves
        check_significant(above, below, nearest, true, digits)


def check_significant(above, below, nearest, true, digits):
    assert below <= true <= above
    assert nearest in (below, above)
    assert abs(nearest - true) == min(above - true, true - below)
    # A unit of the last of so many digits, of either end: 9.9 to 10 is a step of the smaller.
    step = Decimal(10) ** (true.adjusted() - digits + 1) if true else Decimal(0)
    assert above - true < step or above == true
    assert true - below < step or below == true
    for value in (above, below, nearest):
        assert len(value.normalize().as_tuple().digits) <= digits


@given(FINITE, DECIMALS, st.booleans())
def test_decimals_are_rounded_to_the_right_side(x, decimals, percent):
    above = shown(x, decimals=decimals, percent=percent)
    below = shown_down(x, decimals=decimals, percent=percent)
    nearest = plain(x, decimals=decimals, percent=percent)
    true = Decimal(x).scaleb(2 if percent else 0, pabi.numbers.showing._EXACT)
    for text in (above, below, nearest):
        assert text.endswith("%") == percent
        assert len(text.removesuffix("%").partition(".")[2]) == decimals
    a, b, c = (Decimal(text.removesuffix("%")) for text in (above, below, nearest))
    assert b <= true <= a
    assert c in (a, b)
    assert a - b <= unit(above.removesuffix("%"))
    if not percent:
        assert as_printed(x, decimals) == nearest
        assert Decimal(as_printed(x, decimals, sign=True)) == c


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_given_reads_as_the_same_double(x):
    assert float(exact(x)) == x
    assert not exact(x).endswith(".0")


@given(st.floats(0.0, 1.0), st.floats(1e-6, 1.0))
def test_an_accuracy_is_never_more_than_was_measured(share, width):
    text = accuracy(share, width)
    value, last = Decimal(text.removesuffix("%")), unit(text.removesuffix("%"))
    assert value <= Decimal(share).scaleb(2, pabi.numbers.showing._EXACT) < value + last
    # Not a digit below the first that is uncertain, and that one.
    assert last == 1 or last <= 100 * Decimal(width) < 10 * last


def test_examples():
    nan, inf = math.nan, math.inf
    assert shown(3.4826, 3) == "3.49"
    assert [shown(x) for x in (0.1, 1234567, 0)] == ["0.100001", "1.23457e+06", "0"]
    assert [shown(x, 2) for x in (1e-300, 5e-324)] == ["1.1e-300", "5e-324"]
    assert [shown(x, decimals=2) for x in (-0.0, -0.001, nan)] == ["0.00", "0.00", "inf"]
    # Nothing is promised of what is no number.
    assert [shown(x) for x in (inf, -inf, nan)] == ["inf", "-inf", "inf"]
    assert [shown_down(nan), plain(nan), exact(nan)] == ["-inf", "nan", "nan"]
    assert [shown(np.float32(0.1), 4), shown(np.array(2.5))] == ["0.1001", "2.5"]
    assert shown(np.int64(2**62 + 1), 30) == str(2**62 + 1)
    assert shown_down(0.8675, decimals=0, percent=True) == "86%"
    numbers = (1e-5, 1.0, np.float64(0.1), np.int64(3))
    assert [exact(x) for x in numbers] == ["1e-05", "1", "0.1", "3"]
    assert [plain(2.675, decimals=2), plain(12.5, decimals=0)] == ["2.67", "12"]
    assert as_printed(4.3392, 2) == "4.34"
    assert [as_printed(x, 3, sign=True) for x in (0.0037, -0.0037)] == ["+0.004", "-0.004"]
    assert [accuracy(0.8837, 0.016), accuracy(0.9199, 0.0028)] == ["88%", "91.9%"]


# No other formatting: the sources.

_SPEC = re.compile(
    r"(?:.?(?P<align>[<>=^]))?[-+ ]?z?#?(?P<width>0?[\d{}]*)[,_]?(?P<precision>\.[\d{}]+)?(?P<type>\w|%)?"
)
_PERCENT = re.compile(r"%(?:\(\w*\))?[-+ #0]*[\d*]*(?:\.[\d*]+)?[eEfFgG]")
# What else rounds numbers on their way to be read.
_ROUNDERS = {
    *("array2string", "array_str", "array_repr", "set_printoptions", "printoptions"),
    *("format_float_positional", "format_float_scientific", "set_string_function"),
    *("FormatStrFormatter", "PercentFormatter", "StrMethodFormatter", "EngFormatter"),
    *("savetxt", "to_string", "to_markdown", "to_latex", "set_eng_float_format", "format_string"),
    *("around", "round_", "quantize", "bar_label", "clabel"),
}
# Where rounding is arithmetic and shows nothing: (file, what is rounded).
_ARITHMETIC = {
    ("benchmarks/peers/diffprivlib_accuracy.py", "np.logspace(-4, 1, 11)")  # a grid of settings
}
_PRIVATE = {
    *("epsilon", "epsilons", "eps", "delta", "deltas", "mu", "mus", "rho", "advantage", "tpr"),
    *("risk", "bound", "bounds", "guarantee", "cost", "costs", "tradeoff", "composition"),
    *("rdp", "zcdp"),
}


def rounds(spec):
    """Whether a format spec could round a number. Nested fields are written {}; widths are harmless."""
    found = _SPEC.fullmatch(spec)
    if found is None:
        return True
    if "{}" in found["width"] and not found["align"]:
        return True  # it may be anything
    return bool(found["precision"]) or (found["type"] or "s") not in "sdxXobc"


def cuts_no_number(spec):
    """Whether a text keeps more characters than the longest double has: 24."""
    return re.fullmatch(r"\.\d+", spec) is not None and int(spec[1:]) > 24


def spec_of(node):
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts)


def template_rounds(text):
    """Whether a text, used as a template of `str.format`, would round."""
    try:
        return any(spec and rounds(re.sub(r"{[^}]*}", "{}", spec)) for _, _, spec, _ in
                   string.Formatter().parse(text))  # fmt: skip
    except ValueError:
        return False  # no template


def axes_labels(tree):
    """What only says where on an axis a tick is."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and called(node) in ("set_major_formatter", "set_minor_formatter")
        for inner in ast.walk(node)
    }


def called(node):
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def documentation(tree):
    """Texts that stand alone."""
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def names(node):
    """The words in the names that an expression mentions, and in the keys that it reads."""
    found = set()
    for inner in ast.walk(node):
        for field in ("id", "attr", "arg"):
            found |= words(getattr(inner, field, None) or "")
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            found |= words(str(inner.slice.value))
    return found


def words(name):
    return set(name.lower().split("_"))


def violations(source, path=""):
    """(line, what) of everything that shows a rounded number by other means than `pabi.showing`, or that
    takes a privacy loss or a bound for a plain number."""
    tree = ast.parse(source)
    exempt = axes_labels(tree) | documentation(tree)
    inner = {  # pieces of f-strings, which are no templates themselves
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if node in exempt:
            continue
        if isinstance(node, ast.FormattedValue):
            spec = spec_of(node.format_spec)
            if rounds(spec) and not (node.conversion != -1 and cuts_no_number(spec)):
                yield node.lineno, f"{{…:{spec}}}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node not in inner and template_rounds(node.value):
                yield node.lineno, repr(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            text = node.left.value if isinstance(node.left, ast.Constant) else ""
            if isinstance(text, str) and _PERCENT.search(text):
                yield node.lineno, repr(text)
        elif isinstance(node, ast.Call):
            yield from _call(node, path)
        elif isinstance(node, ast.Attribute | ast.alias):
            name = node.attr if isinstance(node, ast.Attribute) else node.name
            if name in _ROUNDERS:
                yield node.lineno, name
    yield from _handed_on(tree)


def _handed_on(tree):
    """Where the formatter of plain numbers is renamed or passed, so that nobody sees what it is given."""
    calls = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    known = {"showing.plain", "pabi.numbers.showing.plain"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "pabi.numbers.showing":
            found = [alias for alias in node.names if alias.name == "plain"]
            known |= {alias.name for alias in found}
            yield from ((node.lineno, "plain renamed") for alias in found if alias.asname)
    for node in ast.walk(tree):
        named = isinstance(node, ast.Name | ast.Attribute) and node not in calls
        if named and ast.unparse(node) in known:
            yield node.lineno, "plain handed on"


def _call(node, path):
    name = called(node)
    if name == "plain":
        for found in sorted(_PRIVATE & set().union(*map(names, [*node.args, *node.keywords]))):
            yield node.lineno, f"plain(… {found} …)"
    elif name == "round" and not _whole(node):
        number = node.args[0] if isinstance(node.func, ast.Name) else node.func.value
        if isinstance(number, ast.Name) and number.id in ("np", "numpy"):
            number = node.args[0]
        if (path, ast.unparse(number)) not in _ARITHMETIC:
            yield node.lineno, "round"
    elif name == "format" and isinstance(node.func, ast.Name) and len(node.args) > 1:
        spec = node.args[1]
        if not isinstance(spec, ast.Constant) or rounds(str(spec.value)):
            yield node.lineno, "format"
    elif name == "__format__":
        yield node.lineno, name


def _whole(node):
    """round(x), np.round(x) and x.round() round to whole numbers; what is then shown is one."""
    numpys = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "numpy")
    )
    return len(node.args) == (0 if numpys else 1) and not node.keywords


FILES = sorted(
    path
    for folder in ("src/pabi", "benchmarks", "examples", "docs/_ext")
    for path in (ROOT / folder).rglob("*.py")
    if path != FORMATTER
)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples(page):
    """The pieces of Python on a page, without prompts and what they print."""
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if ">>>" in block:
            yield from (found.source for found in doctest.DocTestParser().get_examples(block))
        else:
            yield block


def test_every_number_is_shown_by_the_formatter():
    assert len(FILES) > 150
    wrong = [
        f"{where}:{line}: {what}"
        for path in FILES
        for where in [path.relative_to(ROOT).as_posix()]
        for line, what in violations(path.read_text("utf-8"), where)
    ]
    assert not wrong, "\n".join(wrong)


def test_so_is_every_number_that_an_example_of_the_documentation_prints():
    sources = [(page, source) for page in PAGES for source in examples(page.read_text("utf-8"))]
    assert len(sources) > 100
    wrong = [
        f"{page.relative_to(ROOT)}: {what}"
        for page, source in sources
        for _, what in violations(source)
    ]
    assert not wrong, "\n".join(wrong)


# The test itself.


# Pieces of Python between bars.
ROUNDING = r"""
    f"{epsilon:.3g}"  ¦  f"{x:g}"  ¦  f"{x:.2%}"  ¦  f"{x:%}"  ¦  f"{x:e}"  ¦  f"{x:n}"
    f"{x:>10.2f}"  ¦  f"{x:,.0f}"  ¦  f"{x:.3}"  ¦  f"{x:.{digits}g}"  ¦  f"{x:{spec}}"
    f"{x!s:.4}"  ¦  f"{x:.60}"  ¦  f'{f(f"{x:.2f}")}'  ¦  "{:.2f}".format(x)
    text = "missed: {:.0%}"  ¦  "{x:.{d}f}".format(x=x, d=2)  ¦  "%.2f" % x
    "%g and %s" % (x, y)  ¦  "%(x)8.3e" % {"x": x}  ¦  format(x, ".2f")  ¦  format(x, spec)
    x.__format__(".2f")  ¦  round(x, 2)  ¦  round(x, ndigits=2)  ¦  np.round(x, 2)
    np.around(x, 2)  ¦  x.round(2)  ¦  x.round(decimals=2)  ¦  np.array2string(x)
    np.set_printoptions(precision=3)  ¦  with np.printoptions(precision=3): print(x)
    from numpy import array2string  ¦  ticker.FormatStrFormatter('%.2f')  ¦  table.to_string()
    np.savetxt(f, x)  ¦  Decimal(x).quantize(unit)  ¦  plain(epsilon)
    plain(run.guarantee(d).mu, 3)  ¦  plain(self.risk_bound, 4)  ¦  plain(found["epsilon"])
    plain(best.composition.delta(e))  ¦  showing.plain(100.0 * DELTA)  ¦  plain(rows[0].tpr(0.05))
    plain(x=epsilon)  ¦  from pabi.numbers.showing import plain; map(plain, epsilons)
    tell = showing.plain  ¦  from pabi.numbers.showing import plain as told  ¦  ax.bar_label(bars)
"""
NOT_ROUNDING = r"""
    f"{x}"  ¦  f"{x!r}"  ¦  f"{name:<{width}}"  ¦  f"{name:>8}"  ¦  f"{n:,}"  ¦  f"{n:02d}"
    f"{n:>{width}d}"  ¦  f"{shown(epsilon, 3):>10}"  ¦  f"{{x:g}}"  ¦  f"{given!r:.60}"
    "clipped to {c!r}".format(c=c)  ¦  "%s of %d" % (a, b)  ¦  k % 2  ¦  round(x)
    np.round(10.0**powers).astype(int)  ¦  np.geomspace(1, 9).round()  ¦  plain(seconds, 3)
    plain(1000 * step_size)  ¦  axis.set_major_formatter("{x:g}")
    axis.set_major_formatter(lambda value, _: f"{value:.0%}")
"""


def pieces(text):
    return [piece.strip() for piece in re.split("[¦\n]", text.strip())]


def test_planted_violations_are_found_and_nothing_else():
    missed = [source for source in pieces(ROUNDING) if not list(violations(source))]
    wrong = [source for source in pieces(NOT_ROUNDING) if list(violations(source))]
    assert (missed, wrong) == ([], [])
    assert not list(violations('"""A docstring about {x:.2f}."""'))


def test_planted_violations_on_a_page_are_found():
    page = """```python\nprint(1)\n```\n\n```python\n>>> print(f"{x:.2f}")\n0.12\n\n```\n"""
    assert [bool(list(violations(source))) for source in examples(page)] == [False, True]


def readings(figure):
    """The numbers said to be ε in any text of a figure but the ticks' labels."""
    from matplotlib.text import Text

    ticks = {
        label
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for label in axis.get_ticklabels(which="both")
    }
    texts = [text.get_text() for text in figure.findobj(Text) if text not in ticks]
    return [number for text in texts for number in re.findall(r"ε = ([\d.e+-]+)", text)]


def test_a_picture_shows_no_epsilon_too_small():
    """3.48259 was once drawn as 3.48, and 30.50628 as 30.5; here the first is 3.17091."""
    import matplotlib.pyplot as plt

    given = {"n": 60_000, "epochs": 50, "step_size": 0.05, "noise_std": 0.002}
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.0018)
    guarantee = pabi.NoisySGD(loss, batches=pabi.ShuffleOnce(1_500), **given).guarantee(1e-5)
    left, _ = guarantee.plot()
    said = readings(left.figure)
    plt.close(left.figure)
    true = [guarantee.epsilon(1e-5), guarantee.composition.epsilon(1e-5)]
    assert [f"{epsilon:.3g}" for epsilon in true] == ["3.17", "30.5"]  # nearer, and too small
    assert len(said) == len(true)
    for text, epsilon in zip(said, true, strict=True):
        assert 0 <= Decimal(text) - Decimal(epsilon) < unit(text), (text, epsilon)

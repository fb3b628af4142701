"""The same table as every source of a large one."""

import os
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# CI installs them for this Python (the group `dev`).
_INSTALLED = "CI" in os.environ and sys.version_info[:2] >= (3, 11)
NAMES = [f"x{j}" for j in range(5)]
FORMS = (
    "mapped",
    "npy",
    "zarr",
    "dask array",
    "dask frame",
    "parquet",
    "feather",
    "pattern",
    "dataset",
    "stream",
    "lazy frame",
)


def package(module: str) -> Any:
    """The module; skips the test that asks, and fails it where CI has installed the package."""
    if _INSTALLED:
        return import_module(module)
    return pytest.importorskip(module, reason=f"needs {module}: pip install --group dev")


def features(n: int, seed: int = 0) -> Any:
    """(n, 5) float32 rows, shorter and longer than 1."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 5), dtype=np.float32) * rng.uniform(0.1, 1.0, (n, 1)).astype(
        "f4"
    )


def labels(X: Any) -> Any:
    """(n,) 0 or 1."""
    return (X[:, 0] + 0.5 * X[:, 1] > 0.1).astype(np.int64)


def frame_of(X: Any, **others: Any) -> Any:
    """A pandas frame of the features and of other columns."""
    pandas = package("pandas")
    return pandas.DataFrame(X, columns=NAMES).assign(**others)


def write_parts(folder: Path, frame: Any, ending: str = "parquet", parts: int = 3) -> Path:
    """Writes some rows of a frame to each of some files."""
    package("pyarrow")
    folder.mkdir(exist_ok=True)
    bounds = np.linspace(0, len(frame), parts + 1).astype(int)
    for i, (first, last) in enumerate(pairwise(bounds)):
        part = frame.iloc[first:last].reset_index(drop=True)
        getattr(part, f"to_{ending}")(folder / f"part-{i}.{ending}")
    return folder


def table_in(form: str, X: Any, folder: Path, **options: Any) -> Any:
    """A LargeTable of X; parts and chunks end in odd places."""
    from pabi.learn import LargeTable

    n = len(X)
    if form in ("mapped", "npy"):
        np.save(folder / "X.npy", X)
        path = str(folder / "X.npy")
        return LargeTable(np.load(path, mmap_mode="r") if form == "mapped" else path, **options)
    if form == "zarr":
        return LargeTable(package("zarr").array(X, chunks=(n // 3 + 1, 5)), **options)
    if form == "dask array":
        chunks = (n // 4 + 1, 2)
        return LargeTable(package("dask.array").from_array(X, chunks=chunks), **options)
    if form == "dask frame":
        frame = package("dask.dataframe").from_pandas(frame_of(X), npartitions=3)
        return LargeTable(frame, **options)
    if form == "lazy frame":
        return LargeTable(package("polars").from_pandas(frame_of(X)).lazy(), **options)
    if form == "stream":
        table = package("pyarrow").Table.from_pandas(frame_of(X), preserve_index=False)
        return LargeTable(table.to_reader(n // 3 + 1), **options)
    parts = write_parts(folder / form, frame_of(X), "feather" if form == "feather" else "parquet")
    if form == "dataset":
        return LargeTable(package("pyarrow.dataset").dataset(parts), **options)
    return LargeTable(f"{parts}/*.parquet" if form == "pattern" else parts, **options)

"""Which paths are of arrays: `.npy` files, and folders of Zarr arrays. No array is opened."""

from __future__ import annotations

from pathlib import Path

_OF_ZARR = ("zarr.json", ".zarray")


def is_array_file(path: str) -> bool:
    """Whether it is the name of an `.npy` file, or a folder with a Zarr array in it."""
    return path.lower().endswith(".npy") or is_zarr(path)


def is_zarr(path: str) -> bool:
    """Whether it is a folder with a Zarr array in it."""
    return any((Path(path) / name).is_file() for name in _OF_ZARR)

"""The MNIST digits, from a file or from OpenML."""

from __future__ import annotations

import importlib.util
import zipfile
from typing import Any, NamedTuple

import numpy as np

from pabi.numbers.errors import InvalidInput

TRAINING = 60_000


class Digits(NamedTuple):
    """`X` (60000, 784) float32 pixels in [0, 1], `y` (60000,) labels 0..9; 10 000 of each to test on."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def read_digits(file: str | None) -> Digits:
    """MNIST from an .npz with x_train, y_train, x_test, y_test (the file that Keras distributes).

    Without a file, from OpenML by scikit-learn's loader, which keeps a copy in its data folder.

    InvalidInput naming `mnist` where neither can be had.
    """
    images, labels = _from_openml() if file is None else _from_file(file)
    if images.shape != (70_000, 784) or labels.shape != (70_000,):
        raise InvalidInput("mnist", f"expected 70 000 images of 784 pixels, got {images.shape}")
    X = np.asarray(images, dtype=np.float32) / np.float32(255.0)
    y = np.asarray(labels).astype(np.intp)
    return Digits(X=X[:TRAINING], y=y[:TRAINING], X_test=X[TRAINING:], y_test=y[TRAINING:])


def _from_file(file: str) -> tuple[Any, Any]:
    try:
        with np.load(file) as arrays:
            images = [arrays[name].reshape(-1, 784) for name in ("x_train", "x_test")]
            labels = [arrays[name] for name in ("y_train", "y_test")]
    # An empty file is an EOFError, an .npy, which is no archive, a TypeError.
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as bad:
        expected = "expected an .npz with x_train, y_train, x_test, y_test"
        raise InvalidInput("mnist", f"{expected}, got {file!r}: {bad}") from None
    return np.concatenate(images), np.concatenate(labels)


def _from_openml() -> tuple[Any, Any]:
    from sklearn.datasets import fetch_openml

    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        images, labels = fetch_openml(
            "mnist_784", version=1, return_X_y=True, as_frame=False, parser=parser
        )
    except Exception as bad:  # whatever a download can fail with
        reason = f"{type(bad).__name__}: {bad}".splitlines()[0]
        raise InvalidInput(
            "mnist", f"cannot be fetched ({reason}); give the file mnist.npz with --mnist"
        ) from None
    return images, labels

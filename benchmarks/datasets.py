"""Classification problems, prepared by fixed constants, whatever the data.

Every function returns `(X_train, y_train, X_test, y_test)`: features as float64 with each row of
Euclidean norm 1, labels as int64 counted from 0. A row is prepared from that row and from constants
declared in this file, never from a statistic of the data set, so that a guarantee for the training
which follows covers the preparation too. No constant column is added.

Adult, MNIST and Fashion-MNIST are read from a folder (see `data_folder`) with `adult-train.csv`,
`adult-test.csv`, `mnist.npz` and `fashion-mnist.npz`; digits and breast cancer come with scikit-learn;
mixtures of Gaussians are drawn.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

ADULT_RANGES = {  # column: (lowest, highest, whether on a logarithmic scale)
    0: (17, 90, False),  # age
    2: (0, 1_500_000, False),  # fnlwgt
    4: (1, 16, False),  # education-num
    10: (0, 99_999, True),  # capital-gain
    11: (0, 5_000, True),  # capital-loss
    12: (1, 99, False),  # hours-per-week
}

ADULT_LEVELS = {  # column: its levels; anything else, such as the "?" of a missing value, is all 0
    1: "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    3: "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm"
    " Bachelors Masters Prof-school Doctorate",
    5: "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated"
    " Widowed",
    6: "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners"
    " Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales"
    " Tech-support Transport-moving",
    7: "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    8: "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    9: "Female Male",
    13: "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France"
    " Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy"
    " Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal"
    " Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
}

# Ten measurements of cell nuclei, each as a mean over the nuclei of one image, as the standard error
# of that mean, and as the worst nuclei. All ranges start at 0; these are their round upper ends.
BREAST_CANCER_HIGHEST = (
    (25, 30, 150, 1500, 0.2, 0.3, 0.3, 0.15, 0.3, 0.1),
    (2, 3, 15, 150, 0.02, 0.1, 0.1, 0.03, 0.05, 0.01),
    (30, 50, 200, 2000, 0.25, 0.8, 0.8, 0.3, 0.6, 0.2),
)

MIXTURE_TEST = 10_000  # rows
MIXTURE_DISTANCE = 5.0  # of two means, in standard deviations, on average


def data_folder() -> Path:
    """The folder of the data that are read: `$PABI_DATA`, or else a folder kept beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("PABI_DATA", beside))


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Scale each row to norm 1, by itself."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def from_range(values: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Map the declared range to [-1, 1]; a value outside it goes to the nearer end."""
    return np.clip(2 * (values - lowest) / (highest - lowest) - 1, -1, 1)


def split(X: np.ndarray, y: np.ndarray, n_train: int) -> Arrays:
    """Split at random, by a permutation that depends on the number of rows alone."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    return X[train], y[train], X[test], y[test]


def adult(folder: Path | None = None) -> Arrays:
    """Does a person earn more than 50 000 dollars a year? 32 561 + 16 281 rows, 105 features."""
    folder = folder or data_folder()
    return *_adult_file(folder / "adult-train.csv"), *_adult_file(folder / "adult-test.csv")


def _adult_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    columns = np.array(rows).T
    features = []
    for column, (lowest, highest, logarithmic) in ADULT_RANGES.items():
        scale = np.log1p if logarithmic else np.asarray
        values = scale(columns[column].astype(np.float64))
        features.append(from_range(values, scale(lowest), scale(highest))[:, None])
    for column, levels in ADULT_LEVELS.items():
        features.append(columns[column][:, None] == np.array(levels.split()))
    labels = np.char.startswith(columns[14], ">50K")
    return unit_rows(np.hstack(features)), labels.astype(np.int64)


def mnist(folder: Path | None = None) -> Arrays:
    """Which digit was written? 60 000 + 10 000 rows, 784 pixels, 10 classes."""
    return _images((folder or data_folder()) / "mnist.npz")


def fashion_mnist(folder: Path | None = None) -> Arrays:
    """Which piece of clothing is it? 60 000 + 10 000 rows, 784 pixels, 10 classes."""
    return _images((folder or data_folder()) / "fashion-mnist.npz")


def _images(path: Path) -> Arrays:
    with np.load(path) as arrays:
        x_train, y_train, x_test, y_test = (
            arrays[name] for name in ("x_train", "y_train", "x_test", "y_test")
        )
    return (
        unit_rows(x_train.reshape(-1, 784) / 255.0),
        y_train.astype(np.int64),
        unit_rows(x_test.reshape(-1, 784) / 255.0),
        y_test.astype(np.int64),
    )


def digits() -> Arrays:
    """Which digit was written, on a small grid? 1400 + 397 rows, 64 pixels, 10 classes."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return split(unit_rows(X / 16.0), y.astype(np.int64), 1400)


def breast_cancer() -> Arrays:
    """Is a breast mass benign? 400 + 169 rows, 30 features."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    highest = np.ravel(BREAST_CANCER_HIGHEST)
    return split(unit_rows(from_range(X, np.zeros(30), highest)), y.astype(np.int64), 400)


def gaussian_mixture(n: int, d: int, *, classes: int, condition: float, seed: int) -> Arrays:
    """From which of several Gaussians, equally likely, was a row drawn? n + 10 000 rows, d features.

    All have the same covariance, diagonal, with the condition number `condition`, and means at random that
    are about as far apart as unlike images: weak directions say as much of the class as strong ones.
    """
    rng = np.random.default_rng(seed)
    scales = condition ** (-0.5 * np.linspace(0.0, 1.0, d))
    means = rng.normal(size=(classes, d)) * (MIXTURE_DISTANCE / (2.0 * d) ** 0.5)
    y = rng.integers(classes, size=n + MIXTURE_TEST)
    X = unit_rows((means[y] + rng.normal(size=(len(y), d))) * scales)
    return X[:n], y[:n], X[n:], y[n:]


DATASETS: dict[str, Callable[[], Arrays]] = {
    "adult": adult,
    "breast_cancer": breast_cancer,
    "digits": digits,
    "fashion_mnist": fashion_mnist,
    "mixture": partial(gaussian_mixture, 10_000, 200, classes=10, condition=100.0, seed=0),
    "mnist": mnist,
}
CLASSES: dict[str, int] = {
    "adult": 2,
    "breast_cancer": 2,
    "digits": 10,
    "fashion_mnist": 10,
    "mixture": 10,
    "mnist": 10,
}
EPSILONS: Sequence[float] = (0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5

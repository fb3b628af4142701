"""Problems that are drawn from seeds, each like a kind of real data."""

from __future__ import annotations

import numpy as np
from problem import Problem, classification, regression

Generator = np.random.Generator


def unit(X: np.ndarray) -> np.ndarray:
    """Each row scaled to norm 1."""
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)


def drawn(logits: np.ndarray, rng: Generator) -> np.ndarray:
    """A label for each row of logits, from its softmax."""
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def coin(logits: np.ndarray, rng: Generator) -> np.ndarray:
    """A label 0 or 1 for each logit."""
    return (rng.logistic(size=len(logits)) < logits).astype(np.int64)


def words(n: int, d: int, *, telling: int, length: int, seed: int) -> Problem:
    """Counts of words in short texts, by Zipf's law; the logit is sparse. Rows of norm 1, two classes.

    `telling`: how many words say something of the label. `length`: words in a text, on average.
    """
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(3.0, d + 3.0)
    counts = rng.poisson(length * shares / shares.sum(), size=(n, d))
    X = unit(np.log1p(counts))
    weights = np.zeros(d)
    weights[rng.choice(d // 8, telling, replace=False)] = 12.0 * rng.normal(size=telling)
    logits = X @ weights
    return classification(X, coin(logits - np.median(logits), rng), 2)


def embedding(n: int, d: int, *, classes: int, falling: float, seed: int) -> Problem:
    """The last layer of a network: non-negative, of low rank and correlated. Rows of norm 1.

    `falling`: the share of a class over that of the class before; 1 for equal shares.
    """
    rng = np.random.default_rng(seed)
    latent = 48
    shares = falling ** np.arange(classes)
    y = rng.choice(classes, size=n, p=shares / shares.sum())
    scales = np.arange(1.0, latent + 1.0) ** -0.5
    means = 0.45 * rng.normal(size=(classes, latent)) * scales
    inner = means[y] + rng.normal(size=(n, latent)) * scales
    layer = rng.normal(size=(latent, d)) / scales.sum() ** 0.5
    X = np.maximum(inner @ layer + 0.3 * rng.normal(size=(n, d)) - 0.2, 0.0)
    return classification(unit(X), y, classes)


def trees(n: int, d: int, *, depth: int, count: int, seed: int) -> Problem:
    """Thresholds of thresholds: the mean leaf of a few trees on uniform features. Two classes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    score = sum(leaves(X, depth, rng) for _ in range(count))
    return classification(X / d**0.5, coin(4.0 * score, rng), 2)


def leaves(X: np.ndarray, depth: int, rng: Generator) -> np.ndarray:
    """The leaf of each row in one tree. All nodes of a level split alike, so leaves are drawn per path."""
    columns = rng.integers(X.shape[1] // 2, size=depth)
    right = X[:, columns] > rng.uniform(-0.5, 0.5, size=depth)
    paths = right @ (1 << np.arange(depth))
    return rng.normal(size=1 << depth)[paths] + right @ rng.normal(size=depth) / depth**0.5


def rare(n: int, d: int, *, share: float, seed: int) -> Problem:
    """A rare event with a linear logit on correlated features. Two classes, `share` of ones."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(d, d)) * np.arange(1.0, d + 1.0) ** -0.5
    X = np.clip(
        rng.normal(size=(n, d)) @ mixing.T / np.linalg.norm(mixing, axis=1) / 3.0, -1.0, 1.0
    )
    logits = X @ (9.0 * rng.normal(size=d) / d**0.5)
    return classification(X / d**0.5, coin(logits - threshold(logits, share), rng), 2)


def threshold(logits: np.ndarray, share: float) -> float:
    """What to take off the logits, so that their mean probability is `share`."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        mean = np.mean(1.0 / (1.0 + np.exp(np.clip(middle - logits, -700.0, 700.0))))
        low, high = (middle, high) if mean > share else (low, middle)
    return high


def wide_mixture(n: int, d: int, *, classes: int, condition: float, seed: int) -> Problem:
    """Gaussians with a few strong directions and many weak ones. Rows of norm 1."""
    rng = np.random.default_rng(seed)
    scales = condition ** (-0.5 * np.linspace(0.0, 1.0, d))
    y = rng.integers(classes, size=n)
    means = rng.normal(size=(classes, d)) * (6.0 / (2.0 * d) ** 0.5)
    return classification(unit((means[y] + rng.normal(size=(n, d))) * scales), y, classes)


def heavy_tails(n: int, d: int, *, classes: int, seed: int) -> Problem:
    """Features by Student's t of two degrees; long rows are cut to norm 1, most are far shorter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.0, size=(n, d)) / (4.0 * d**0.5)
    return classification(X, drawn(X @ (6.0 * rng.normal(size=(d, classes))), rng), classes)


def ill_conditioned(n: int, d: int, *, condition: float, seed: int) -> Problem:
    """A linear target whose weak directions matter as much as the strong ones, with noise."""
    rng = np.random.default_rng(seed)
    scales = condition ** (-0.5 * np.linspace(0.0, 1.0, d))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    inner = rng.normal(size=(n, d))
    X = (inner * scales) @ basis.T / (1.2 * np.linalg.norm(scales))
    y = inner @ rng.normal(size=d) / d**0.5 + 0.5 * rng.normal(size=n)
    return regression(X, y, (-4.0, 4.0))


def heavy_linear(n: int, d: int, *, seed: int) -> Problem:
    """A linear target on heavy-tailed features, with heavy-tailed noise. Few features matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3.0, size=(n, d)) / (2.0 * d**0.5)
    weights = 4.0 * rng.normal(size=d) * np.arange(1.0, d + 1.0) ** -0.75
    return regression(X, X @ weights + 0.5 * rng.standard_t(3.0, size=n), (-5.0, 5.0))

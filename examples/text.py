"""A private classifier of texts: which library does the first sentence of a documentation come from?

    python examples/text.py

Every text becomes counts of its runs of three and four letters, hashed into 1024 columns, by itself: no
vocabulary is learnt from the texts, so nothing but the training has to be private. The rows have norm 1, and
`PrivateLogisticRegression` does the rest, at ε = 1. The texts are sentences that matplotlib and scipy ship,
which pabi needs anyway. They stand for messages, one from each person.
"""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from pabi.learn import PrivateLogisticRegression
from pabi.showing import accuracy, shown

EPSILON, DELTA = 1.0, 1e-5
LIBRARIES = ("matplotlib", "scipy")
SETTINGS = {"analyzer": "char_wb", "ngram_range": (3, 4), "n_features": 1024, "norm": "l2"}


def sentences(library: str) -> list[str]:
    """The first sentence or paragraph of every docstring of a library, none of them twice."""
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    found: dict[str, None] = {}
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found[" ".join(text.split("\n\n")[0].split())] = None
    return [text for text in found if text]


def texts() -> tuple[list[str], np.ndarray]:
    """(texts, the library of each as a number), in an order that is drawn once."""
    every = [sentences(library) for library in LIBRARIES]
    words = [text for some in every for text in some]
    labels = np.repeat(np.arange(len(every)), [len(some) for some in every])
    order = np.random.default_rng(0).permutation(len(words))
    return [words[i] for i in order], labels[order]


def main() -> tuple[float, float]:
    """Train, and print: (accuracy with privacy, without), on texts that were not trained on."""
    words, labels = texts()
    X = HashingVectorizer(**SETTINGS).transform(words)
    middle = 4 * len(words) // 5
    train, test = slice(middle), slice(middle, None)
    print(f"{middle} texts to train on, such as: {words[0]!r}")
    model = PrivateLogisticRegression(
        EPSILON, DELTA, feature_norm=1.0, classes=[0, 1], adjacency="zero_out"
    ).fit(X[train], labels[train])
    bare = LogisticRegression(C=10.0, max_iter=1_000).fit(X[train], labels[train])
    with_privacy = float(model.score(X[test], labels[test]))
    without = float(bare.score(X[test], labels[test]))
    spread = 0.5 / (len(words) - middle) ** 0.5
    spent = shown(model.guarantee_.epsilon(DELTA), decimals=3)
    print(f"accuracy at ε = {spent}, δ = {DELTA}: {accuracy(with_privacy, spread)}")
    print(f"accuracy without privacy: {accuracy(without, spread)}")
    print(f"always the larger class: {accuracy(float(np.mean(labels == 1)), spread)}")
    return with_privacy, without


if __name__ == "__main__":
    main()

"""Keyed digests of records, by which a table is known to be the one that a run was trained on.

Whoever lacks the key learns nothing of a record from its digest. A forgotten record has none any more.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pabi.numbers.rounding import Array

DIGEST_BYTES, DIGEST_KEY_BYTES = 16, 32
_ROWS = 4096  # in memory at once as doubles

Digests = NDArray[np.uint8]


def digests_of(X: Any, targets: NDArray[Any], weights: Array | None, key: bytes) -> Digests:
    """(n, 16) digests of the rows of `X` (n, d) with their targets and weights, all as doubles.

    `X`: an array or a sparse matrix; 0 and −0 are the same.
    """
    n = X.shape[0]
    besides = [np.asarray(targets, dtype=np.float64).reshape(n, -1)]
    besides += [] if weights is None else [weights.reshape(n, 1)]
    digests = np.empty((n, DIGEST_BYTES), dtype=np.uint8)
    for first in range(0, n, _ROWS):
        part = slice(first, min(first + _ROWS, n))
        rows = X[part].toarray() if hasattr(X, "toarray") else X[part]
        table = _written(np.asarray(rows))
        others = _written(np.hstack([b[part] for b in besides]))
        each = (_digest(*pair, key) for pair in zip(table, others, strict=True))
        digests[part] = np.frombuffer(b"".join(each), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
    return digests


def _written(rows: NDArray[Any]) -> list[memoryview]:
    """Each row as little-endian doubles; −0 becomes 0."""
    doubles = np.add(rows, 0.0, dtype=np.float64).astype("<f8", order="C", copy=False)
    content, width = memoryview(doubles.view(np.uint8).reshape(-1)), doubles.shape[1] * 8
    return [content[at : at + width] for at in range(0, len(content), width)]


def _digest(row: memoryview, others: memoryview, key: bytes) -> bytes:
    """The digest of a row and what belongs to it; widths are those of a table, so that none runs over."""
    digest = hashlib.blake2b(row, digest_size=DIGEST_BYTES, key=key)
    digest.update(others)
    return digest.digest()


def same_rows(digests: Digests, others: Digests, forgotten: NDArray[np.intp]) -> bool:
    """Whether all rows that are not forgotten have the same digests."""
    alike = np.all(digests == others, axis=1)
    alike[forgotten] = True
    return bool(np.all(alike))


def without(digests: Digests, forgotten: NDArray[np.intp]) -> Digests:
    """The digests, zeros in place of those of forgotten records."""
    left = digests.copy()
    left[forgotten] = 0
    return left

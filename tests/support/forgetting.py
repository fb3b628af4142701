"""A table and estimators that can forget rows of it."""

from pathlib import Path
from typing import Any

import numpy as np

from pabi.describe.batches import ShuffleOnce
from pabi.learn import StateFile
from support.estimators import CLASSIFIERS

N, D, DELTA, TARGET = 300, 3, 1e-4, 2.0
X = np.random.default_rng(5).uniform(-0.5, 0.5, (N, D))
Y = (X[:, 0] > 0.0).astype(int)


def that_forgets(kind: type, epsilon: float, **changes: Any) -> Any:
    """An estimator of the kind, of a few steps."""
    own: dict[str, Any] = {"cooldown_epochs": 0, "precondition": None, "step_size": 0.5}
    own |= {"epochs": 5, "batches": ShuffleOnce(50)}
    own |= {"classes": [0, 1]} if kind in CLASSIFIERS else {"target_range": (0.0, 1.0)}
    return kind(epsilon, DELTA, **(own | changes))


def put_back(file: StateFile, content: bytes) -> None:
    """An older copy of the file, and nothing beside it that tells of a later one."""
    Path(file.path).write_bytes(content)
    Path(file.path).with_name(f".{Path(file.path).name}.lock").unlink(missing_ok=True)

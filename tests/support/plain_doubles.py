"""A platform without long doubles: there numpy's is a double. `pytest -p support.plain_doubles` loads it.

It has to be loaded before pabi is, and refuses to be otherwise: names that were bound would keep theirs.
"""

import sys

import numpy as np

if any(name.partition(".")[0] == "pabi" for name in sys.modules):
    raise ImportError("support.plain_doubles: expected to be loaded before pabi")

np.longdouble = np.float64  # type: ignore[misc]

"""Frameworks are loaded by their own modules alone, and a missing one is named with what installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = ["torch", "opacus", "jax", "optax", "jax_privacy", "dask", "distributed"]


def printed(script):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_importing_pabi_loads_no_framework():
    script = (
        "import sys, pabi, pabi.learn, pabi.integrations; "
        f"print([name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    assert printed(script) == "[]"


@pytest.mark.parametrize(
    ("use", "missing", "extra"),
    [
        ("import pabi.integrations.opacus", "torch", "opacus"),
        ("import pabi.integrations.opacus", "opacus", "opacus"),
        ("from pabi.integrations.jax import train; train(1, len, 1, None)", "jax", "jax"),
        (
            "from pabi.integrations.jax import from_batch_selection as f; f(1, n=1, divisor=1)",
            "jax_privacy",
            "jax",
        ),
        (
            "from pabi.integrations.dask.workers import check_client as f; f(1)",
            "distributed",
            "dask",
        ),
    ],
)
def test_a_missing_framework_is_named(use, missing, extra):
    script = (
        f"import sys, pabi; sys.modules[{missing!r}] = None\n"
        f"try:\n    exec({use!r})\nexcept pabi.InvalidInput as error:\n    print(error)"
    )
    line = printed(script)
    assert "is not installed; in a checkout of pabi: pip install" in line
    assert line.endswith(f"'.[{extra}]'")
    assert "\n" not in line


def test_a_package_that_cannot_be_loaded_says_why(tmp_path):
    """As a pyarrow for numpy 2 does where numpy 1.26 is: to install it again would help nobody."""
    (tmp_path / "skops.py").write_text('raise ImportError("needs numpy\\n2.0 or newer")\n')
    line = printed(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pabi; from pabi.numbers.extras import extra\n"
        "try:\n    extra('skops', 'train')\nexcept pabi.InvalidInput as error:\n    print(error)"
    )
    assert line == "skops: is installed and cannot be loaded: needs numpy 2.0 or newer"

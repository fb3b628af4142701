"""Frameworks are loaded by their own modules alone, and a missing one is named with what installs it."""

import subprocess
import sys

import numpy as np

import pabi
from pabi.integrations import torch as integration
from support.every_case import refused

FRAMEWORKS = [
    "torch",
    "opacus",
    "jax",
    "optax",
    "jax_privacy",
    "dask",
    "distributed",
    "dp_accounting",
]


def printed(script):
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


HEAVY = ["scipy.special", "scipy.optimize", "scipy.stats", "sklearn", "randomgen", "matplotlib"]


def test_importing_pabi_stays_light_and_loads_no_framework():
    """Nor do samplers of batches for PyTorch."""
    script = (
        "import sys, pabi, pabi.tradeoff, pabi.learn; "
        f"early = [name for name in ['pabi.integrations', *{HEAVY}] if name in sys.modules]; "
        "import pabi.integrations, pabi.integrations.torch as torch; "
        "torch.ShuffleOnceSampler(4, 2); "
        f"print(early, [name for name in {FRAMEWORKS} if name in sys.modules])"
    )
    assert printed(script) == "[] []"


SELECT = "from pabi.integrations.jax import from_batch_selection as f; f(1, n=1, divisor=1)"
CHECK = "from pabi.integrations.dask.tasks import check_client as f; f(1)"
MISSING = [
    ("import pabi.integrations.opacus", "torch", "opacus"),
    ("import pabi.integrations.opacus", "opacus", "opacus"),
    ("import pabi.integrations.dp_accounting", "dp_accounting", "dp-accounting"),
    ("from pabi.integrations.jax import train; train(1, len, 1, None)", "jax", "jax"),
    (SELECT, "jax_privacy", "jax"),
    (CHECK, "distributed", "dask"),
]


WITHOUT = """
import sys, pabi
for use, missing in %r:
    sys.modules[missing] = None
    try:
        exec(use)
    except pabi.InvalidInput as error:
        print(error)
    for name in [missing, *(name for name in sys.modules if name.startswith("pabi.integrations"))]:
        del sys.modules[name]
"""


def test_a_missing_framework_is_named():
    lines = printed(WITHOUT % [case[:2] for case in MISSING]).split("\n")
    for line, (_, _, extra) in zip(lines, MISSING, strict=True):
        assert line.endswith(f"is not installed; in a checkout of pabi: pip install '.[{extra}]'")


def test_everything_that_needs_torch_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    step = {"step_size": 1.0, "noise_std": 1.0, "clip_norm": 1.0}
    described = pabi.NoisySGD(pabi.Loss.unknown(), 4, pabi.FullBatch(), 1.0, **step)
    rows = [(np.zeros(2), 0)] * 4
    for message in (
        refused("torch", integration.train, None, rows, described),
        refused("torch", integration.features, None, rows, head="0"),
        refused("torch", integration.load, "model.pt", None),
        refused("torch", integration.collate, [1]),
    ):
        assert "pip install '.[torch]'" in message


def test_a_package_that_cannot_be_loaded_says_why(tmp_path):
    """As a pyarrow for numpy 2 does where numpy 1.26 is: to install it again would help nobody."""
    (tmp_path / "skops.py").write_text('raise ImportError("needs numpy\\n2.0 or newer")\n')
    line = printed(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pabi; from pabi.numbers.errors import extra\n"
        "try:\n    extra('skops', 'train')\nexcept pabi.InvalidInput as error:\n    print(error)"
    )
    assert line == "skops: is installed and cannot be loaded: needs numpy 2.0 or newer"

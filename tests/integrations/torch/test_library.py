"""PyTorch is loaded when it is needed, and its absence says how to install it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import pabi
from pabi.integrations import torch as integration
from pabi.integrations.torch.library import same_draws
from support.frameworks import framework


def test_importing_loads_no_torch():
    script = (
        "import sys, pabi; assert 'pabi.integrations' not in sys.modules; "
        "import pabi.integrations.torch; "
        "pabi.integrations.torch.ShuffleOnceSampler(4, 2); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    described = pabi.NoisySGD(
        pabi.Loss.unknown(), 4, pabi.FullBatch(), 1.0, step_size=1.0, noise_std=1.0, clip_norm=1.0
    )
    calls = [
        lambda: integration.train(None, [(np.zeros(2), 0)] * 4, described),
        lambda: integration.features(None, [(np.zeros(2), 0)] * 4, head="0"),
        lambda: integration.load("model.pt", None),
        lambda: integration.collate([1]),
    ]
    for call in calls:
        with pytest.raises(pabi.InvalidInput, match=r"pip install '\.\[torch\]'") as caught:
            call()
        assert caught.value.field == "torch"


def test_trials_leave_the_draws_of_torch_alone():
    torch = framework("torch")
    before = torch.random.get_rng_state()
    with same_draws():
        one = torch.rand(3)
    with same_draws():
        other = torch.rand(3)
    assert torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)

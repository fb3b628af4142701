"""Products on a device: the sums of the host, in doubles.

Where there is no CUDA device, PyTorch's CPU stands in for one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import pabi
from pabi.execute.linear_gradients import LogisticGradients, SoftmaxGradients, SquaredGradients
from pabi.execute.sums import Limit
from pabi.integrations.torch import products
from pabi.integrations.torch.products import DeviceRecords, multiplies, refuse_emulation
from pabi.learn import Records
from support.every_case import every
from support.frameworks import framework
from support.modules import K, N, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")

X, CLASSES = table()
HOST = torch.device("cpu")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS = {
    "softmax": lambda records: SoftmaxGradients(records, CLASSES, K),
    "logistic": lambda records: LogisticGradients(records, CLASSES % 2),
    "squared": lambda records: SquaredGradients(records, X[:, 0], 0.5),
}


@every("dtype", [np.float32, np.float64])
@every("norm", [None, 1.0, 100.0])
@every("scaling", [None, 0.7])
@every("kind", KINDS)
def test_sums_are_those_of_the_host(kind, scaling, norm, dtype, monkeypatch):
    monkeypatch.setattr(products, "MOST_ROWS", 16)
    table_ = X.astype(dtype)
    host = KINDS[kind](Records(table_, norm, scaling))
    device = KINDS[kind](DeviceRecords(table_, norm, scaling, DEVICE))
    theta = np.random.default_rng(1).normal(size=host.shape)
    limit = Limit(0.4, 1.0 - 1e-12)
    for rows in (slice(0, N), slice(7, 50), np.random.default_rng(2).permutation(N)[:41]):
        one, other = (each.clipped_sum(theta, rows, limit) for each in (host, device))
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)


def test_a_run_is_the_same_on_a_device(monkeypatch):
    """From the choice of products to the trained module."""
    from pabi.integrations.torch import head_training

    stated = pabi.Loss.softmax(2.0)
    dataset, layer = pairs(X, CLASSES), linear(X.shape[1], K)
    host = integration.train(layer, dataset, run(stated, clip_norm=0.5), random_state=0)
    monkeypatch.setattr(head_training, "multiplies", lambda device, described: True)
    device = integration.train(
        layer, dataset, run(stated, clip_norm=0.5), device=DEVICE, random_state=0
    )
    np.testing.assert_allclose(device.x, host.x, rtol=0, atol=1e-10)
    assert products.PRODUCTS in device.guarantee.assumptions
    assert products.PRODUCTS not in host.guarantee.assumptions


def test_which_runs_are_multiplied_on_a_device():
    """Those in which a record keeps its place, and whose gradients are never formed one by one."""
    cuda, ordered = torch.device("cuda"), run(pabi.Loss.softmax(2.0), clip_norm=0.5)
    assert multiplies(cuda, ordered)
    assert not multiplies(HOST, ordered)
    assert not multiplies(torch.device("mps"), ordered)
    assert not multiplies(cuda, dataclasses.replace(ordered, batches=pabi.Poisson(16)))
    assert not multiplies(cuda, dataclasses.replace(ordered, clipping="coordinates"))
    assert multiplies(cuda, dataclasses.replace(ordered, batches=pabi.BallsInBins(16)))


def test_doubles_that_are_put_together_of_shorter_numbers_are_refused(monkeypatch):
    monkeypatch.delenv("CUBLAS_EMULATE_DOUBLE_PRECISION", raising=False)
    refuse_emulation()
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    with pytest.raises(pabi.InvalidInput, match="CUBLAS"):
        refuse_emulation()

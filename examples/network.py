"""A small network on Fashion-MNIST in fresh bins, and beside it with Opacus in Poisson batches.

    pip install '.[opacus]'
    python examples/network.py fashion-mnist.npz [--repeat 3]

The file has bytes `x_train` and `x_test`, 28 × 28 an image, and labels `y_train` and `y_test`, 0 to 9. The
guarantee covers the images of `x_train`, with every iterate released. Those of `x_test` are taken as public.
Two minutes on one core. Where Opacus is missing its rows say so.

Noise is from PyTorch's generator in both trainings, which is not made for secrets: for practice, not for
records of people.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from copy import deepcopy

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pabi
from pabi.integrations.torch import BallsInBinsSampler
from pabi.showing import accuracy, plain, shown

EPSILON, DELTA = 3.0, 1e-5
SIZE, EPOCHS, STEP_SIZE, CLIP_NORM = 600, 10, 2.0, 1.0
Trained = tuple[nn.Module, float, float]  # a network, its noise multiplier and its ε


def images(bytes_: np.ndarray, labels: np.ndarray) -> TensorDataset:
    """Every image by itself, by public constants."""
    pixels = torch.from_numpy(bytes_.reshape(-1, 1, 28, 28)).float() / 255
    return TensorDataset(pixels, torch.from_numpy(labels).long())


def network() -> nn.Sequential:
    """10 122 parameters, and no layer that makes of one image what depends on another."""
    first = nn.Conv2d(1, 8, kernel_size=5, stride=2, padding=2), nn.Tanh()
    second = nn.Conv2d(8, 16, kernel_size=4, stride=2, padding=1), nn.Tanh()
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(16 * 7 * 7, 10))


def described(n: int) -> pabi.NoisySGD:
    """What is trained, with the least noise for the target."""
    run = pabi.NoisySGD(
        pabi.Loss.unknown(),
        n=n,
        batches=pabi.BallsInBins(SIZE, redraw="epoch"),
        epochs=EPOCHS,
        step_size=STEP_SIZE,
        clip_norm=CLIP_NORM,
        adjacency="zero_out",
        release="path",
    )
    return pabi.calibrate(run, EPSILON, DELTA, parameter="noise_multiplier")


def in_fresh_bins(model: nn.Module, records: TensorDataset, run: pabi.NoisySGD) -> Trained:
    """Trains as `run` says: clipped gradients of single records, their sum over `size`, fresh noise."""

    def loss(parameters: dict, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        output = torch.func.functional_call(model, parameters, (image.unsqueeze(0),))
        return nn.functional.cross_entropy(output, label.unsqueeze(0))

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    sampler = BallsInBinsSampler(run.n, SIZE, redraw="epoch")
    weights = {name: p.detach() for name, p in model.named_parameters()}
    for _ in range(run.epochs):
        for rows in sampler:
            total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
            if rows:  # an empty bin is a step of noise alone
                each = gradients(weights, *records[rows])
                norms = sum(g.flatten(1).square().sum(1) for g in each.values()).sqrt()
                shares = (run.clip_norm / norms).clamp(max=1.0)
                total = {name: torch.tensordot(shares, g, 1) for name, g in each.items()}
            for name, weight in weights.items():
                noise = run.noise_multiplier * run.clip_norm * torch.randn_like(weight)
                weights[name] = weight - run.step_size * (total[name] + noise) / sampler.size
    model.load_state_dict(weights)
    return model, run.noise_multiplier, run.guarantee(DELTA).epsilon(DELTA)


def in_poisson_batches(model: nn.Module, records: TensorDataset) -> Trained:
    """The same with Opacus as it comes: its loader, its noise, its accountant."""
    from opacus import PrivacyEngine

    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=STEP_SIZE),
        data_loader=DataLoader(records, batch_size=SIZE),
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=CLIP_NORM,
    )
    for _ in range(EPOCHS):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model, optimizer.noise_multiplier, engine.get_epsilon(DELTA)


@torch.inference_mode()
def score(model: nn.Module, public: TensorDataset) -> float:
    """The share of public images that are told right."""
    inputs, labels = public.tensors
    return (model(inputs).argmax(1) == labels).double().mean().item()


def row(name: str, training: Callable[[], Trained], public: TensorDataset) -> Iterator[str]:
    """The cells of a training in the table."""
    begin = time.process_time()
    try:
        model, noise, epsilon = training()
    except ImportError as missing:
        yield from (name, f"skipped: no {missing.name}")
        return
    seconds = time.process_time() - begin
    share = score(model, public)
    width = (0.2 / len(public)) ** 0.5  # two standard deviations of such a share
    yield from (name, accuracy(share, width), shown(noise, decimals=3))
    yield from (shown(epsilon, decimals=3), plain(seconds, decimals=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=np.load, help="the images and labels, as .npz")
    parser.add_argument("--repeat", type=int, default=1, help="train so many times")
    options = parser.parse_args()
    records, public = (
        images(options.file[f"x_{part}"], options.file[f"y_{part}"]) for part in ("train", "test")
    )
    run = described(len(records))
    table = Table("batches", "test accuracy", "noise multiplier", f"ε at δ = {DELTA}", "seconds")
    for _ in range(options.repeat):
        start = network()
        ours, theirs = deepcopy(start), deepcopy(start)
        table.add_row(*row("fresh bins", lambda m=ours: in_fresh_bins(m, records, run), public))
        table.add_row(
            *row("Poisson, Opacus", lambda m=theirs: in_poisson_batches(m, records), public)
        )
    Console().print(table)


if __name__ == "__main__":
    main()

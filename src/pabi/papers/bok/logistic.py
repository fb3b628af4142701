"""The run of Tables 1 to 6: regularised logistic regression on MNIST, in batches of 1500."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pabi.convert import clt_mu, gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.batches import Cyclic
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok, ye_shokri
from pabi.papers.artefact import Part, Settings
from pabi.papers.results import Entry

DELTA = 1e-5
EPOCHS = (50, 100, 200)
L2 = (0.002, 0.004)
N, SIZE, STEP_SIZE, NOISE_STD, SENSITIVITY = 60_000, 1_500, 0.05, 0.01, 10.0
STEPS = N // SIZE  # an epoch
# Gradients of softmax regression are at most √2 times as long as the features: rows of norm 5/√2 have a
# sensitivity of 10, as the paper's clipped gradients do.
FEATURE_NORM = 0.5 * SENSITIVITY / 2.0**0.5

SAMPLED = (
    "Charging every iterate of NoisySGD. The paper's ε is numerical, to 0.001; its μ is the central limit "
    "theorem's, an approximation that is no guarantee."
)
CLIPPED = (
    "The guarantee is that of a training whose features have norm at most 5/√2. The paper clips the "
    "gradients of softmax regression at 5 instead, and such steps can expand: see the errata in the docs."
)


def run(epochs: int, l2: float) -> NoisySGD:
    """NoisyCGD with bounded features."""
    loss = Loss.softmax(feature_norm=FEATURE_NORM, l2=l2)
    return NoisySGD(
        loss, n=N, batches=Cyclic(SIZE), epochs=epochs, step_size=STEP_SIZE, noise_std=NOISE_STD
    )


def parts(settings: Settings) -> Mapping[str, Part]:
    """What pabi proves of every run, and ε of NoisySGD by composition."""
    work: dict[str, Part] = {}
    for epochs in EPOCHS:
        drawn = {"probability": SIZE / N, "mu": 2.0 / 3.0, "steps": STEPS * epochs, "delta": DELTA}
        work[f"sampled {epochs}"] = Part("sampled_composition", drawn)
        for l2 in L2:
            told = {"run": to_dict(run(epochs, l2)), "delta": DELTA}
            work[f"{epochs} {l2}"] = Part("proven", told)
    return work


def composition(epochs: int) -> float:
    """μ of NoisyCGD by composition."""
    return float(bok.theorem_4_4(L=SENSITIVITY, b=SIZE, noise_std=NOISE_STD, epochs=epochs))


def epsilon_of_composition(epochs: int) -> float:
    return gdp_to_epsilon(composition(epochs), DELTA)


def approximate_mu(epochs: int) -> float:
    """μ of NoisySGD by composition and the central limit theorem."""
    return clt_mu(SIZE / N, SENSITIVITY / (SIZE * NOISE_STD), STEPS * epochs)


def epsilon_of_renyi(epochs: int, l2: float) -> float:
    """ε of NoisyCGD by Ye and Shokri's Rényi bound."""
    divergence = ye_shokri.theorem_3_3(
        L=SENSITIVITY,
        b=SIZE,
        noise_std=NOISE_STD,
        slope=1.0 - STEP_SIZE * l2,
        batches_per_epoch=STEPS,
        epochs=epochs,
        order=2.0,
    )
    return rdp_to_epsilon(rho=0.5 * float(divergence), delta=DELTA)


def entry(
    epochs: int, l2: float | str, quantity: str, printed: str, ours: Any, remark: str = ""
) -> Entry:
    return Entry({"epochs": epochs, "λ": l2}, quantity, printed, float(ours), remark=remark)

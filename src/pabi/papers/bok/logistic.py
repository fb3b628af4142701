"""Tables 1, 3 and 4: privacy of regularised logistic regression on MNIST, in batches of 1500."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pabi.convert import clt_mu, gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.batches import Cyclic
from pabi.describe.files import to_dict
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok, ye_shokri
from pabi.papers.artefact import Artefact, Entry, Part, Settings, printed
from pabi.papers.bok import SOURCE

DELTA = 1e-5
EPOCHS = (50, 100, 200)
L2 = (0.002, 0.004)
N, SIZE, STEP_SIZE, NOISE_STD, SENSITIVITY = 60_000, 1_500, 0.05, 0.01, 10.0
STEPS = N // SIZE  # an epoch
# Gradients of softmax regression are at most √2 times as long as the features: rows of norm 5/√2 have a
# sensitivity of 10, as the paper's clipped gradients do.
FEATURE_NORM = 0.5 * SENSITIVITY / 2.0**0.5

# Epochs: composition of NoisyCGD and of NoisySGD; the paper's bound by λ, after RDP in Table 4.
TABLE_3 = {
    50: ("4.71", "1.03", {0.002: "0.99", 0.004: "0.99"}),
    100: ("6.67", "1.45", {0.002: "1.24", 0.004: "1.22"}),
    200: ("9.43", "2.05", {0.002: "1.59", 0.004: "1.51"}),
}
TABLE_4 = {
    50: ("30.51", "4.44", {0.002: ("5.82", "4.34"), 0.004: ("5.61", "4.32")}),
    100: ("49.88", "6.65", {0.002: ("7.61", "5.60"), 0.004: ("7.00", "5.51")}),
    200: ("83.83", "10.11", {0.002: ("9.88", "7.58"), 0.004: ("8.38", "7.09")}),
}

SAMPLED = (
    "This charges for every iterate of NoisySGD. The paper's ε is numerical, to 0.001. Its μ comes from the "
    "central limit theorem, which is an approximation and no guarantee."
)
CLIPPED = (
    "The guarantee is that of a training whose features have norm at most 5/√2. The paper instead "
    "clips the gradients of softmax regression at 5, and steps with such gradients can expand. See the "
    "errata in the docs."
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
            described = {"run": to_dict(run(epochs, l2)), "delta": DELTA}
            work[f"{epochs} {l2}"] = Part("proven", described)
    return work


def composition(epochs: int) -> float:
    """μ of NoisyCGD by composition."""
    return float(bok.theorem_4_4(L=SENSITIVITY, b=SIZE, noise_std=NOISE_STD, epochs=epochs))


def approximate_mu(epochs: int) -> float:
    """μ of NoisySGD by composition and the central limit theorem."""
    return clt_mu(SIZE / N, SENSITIVITY / (SIZE * NOISE_STD), STEPS * epochs)


def epsilon_by_renyi(epochs: int, l2: float) -> float:
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


def _entry(
    epochs: int, l2: float | str, quantity: str, printed: str, ours: Any, remark: str = ""
) -> Entry:
    return Entry({"epochs": epochs, "λ": l2}, quantity, printed, float(ours), remark=remark)


def _table_1(results: Mapping[str, Any]) -> Iterator[Entry]:
    """What Table 4 says of NoisyCGD at the smaller λ."""
    l2 = L2[0]
    for epochs, (composed, _, bounds) in TABLE_4.items():
        renyi, bound = bounds[l2]
        every = gdp_to_epsilon(composition(epochs), DELTA)
        proven = results[f"{epochs} {l2}"]["epsilon"]
        yield from (
            _entry(epochs, l2, "ε, GDP composition", composed, every),
            _entry(epochs, l2, "ε, RDP", renyi, epsilon_by_renyi(epochs, l2)),
            _entry(epochs, l2, "ε, the last iterate", bound, proven),
        )


def _table_3(results: Mapping[str, Any]) -> Iterator[Entry]:
    for epochs, (cyclic, sampled, bounds) in TABLE_3.items():
        every, drawn = composition(epochs), approximate_mu(epochs)
        yield from (
            _entry(epochs, "any", "μ, GDP composition, NoisyCGD", cyclic, every),
            _entry(epochs, "any", "μ, GDP composition, NoisySGD", sampled, drawn, SAMPLED),
        )
        for l2, bound in bounds.items():
            proven = results[f"{epochs} {l2}"]["mu"]
            yield _entry(epochs, l2, "μ, the last iterate, NoisyCGD", bound, proven)


def _table_4(results: Mapping[str, Any]) -> Iterator[Entry]:
    for epochs, (cyclic, sampled, bounds) in TABLE_4.items():
        every, drawn = gdp_to_epsilon(composition(epochs), DELTA), results[f"sampled {epochs}"]
        yield from (
            _entry(epochs, "any", "ε, GDP composition, NoisyCGD", cyclic, every),
            _entry(epochs, "any", "ε, GDP composition, NoisySGD", sampled, drawn, SAMPLED),
        )
        for l2, (renyi, bound) in bounds.items():
            proven = results[f"{epochs} {l2}"]["epsilon"]
            earlier = epsilon_by_renyi(epochs, l2)
            yield from (
                _entry(epochs, l2, "ε, RDP, NoisyCGD", renyi, earlier),
                _entry(epochs, l2, "ε, the last iterate, NoisyCGD", bound, proven),
            )


ARTEFACTS = {
    "table-1": Artefact(
        "ε of NoisyCGD on MNIST at δ = 1e-5",
        f"{SOURCE}, Table 1",
        printed(_table_1, CLIPPED),
        parts,
    ),
    "table-3": Artefact(
        "GDP parameters on MNIST", f"{SOURCE}, Table 3", printed(_table_3, CLIPPED), parts
    ),
    "table-4": Artefact(
        "ε on MNIST at δ = 1e-5, by algorithm and regulariser",
        f"{SOURCE}, Table 4",
        printed(_table_4, CLIPPED),
        parts,
    ),
}

"""Run files for the command line, as tables and as text, and strict JSON."""

import json
from pathlib import Path
from typing import Any

import tomli_w

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN: dict[str, Any] = {
    "n": 1000,
    "epochs": 2,
    "step_size": 0.05,
    "noise_std": 0.01,
    "clip_norm": 1.0,
    "loss": {"kind": "logistic", "feature_norm": 1.0, "l2": 0.01},
    "batches": {"kind": "cyclic", "size": 100},
}
ITERATED: dict[str, Any] = {
    "kind": "noisy_iteration",
    "contraction": [0.9, 0.9],
    "step_sensitivity": [0.1, 0.1],
    "step_noise_std": [0.1, 0.1],
}
_MECHANISM = {"loss": RUN["loss"], "dimension": 3, "diameter": 2.0}
_LANGEVIN = {"loss": RUN["loss"], "inverse_temperature": 50.0}
SAMPLERS: dict[str, dict[str, Any]] = {
    "langevin_chain": {
        **_LANGEVIN,
        "step_size": 1e-3,
        "steps": 500,
        "chains": 2,
        "prox": {"kind": "ball", "radius": 2.0},
    },
    "langevin_diffusion": {**_LANGEVIN, "time": 2.0, "diameter": 4.0},
    "exponential_mechanism": {**_MECHANISM, "epsilon": 1.0},
    "iterated_exponential_mechanism": {**_MECHANISM, "epsilons": [0.1, 0.2], "failure": 0.01},
    "noisy_second_moments": {
        "dimension": 3,
        "feature_norm": 2.0,
        "noise_multiplier": 4.0,
        "diagonal": True,
    },
}


def toml(table: dict[str, Any], **changes: Any) -> str:
    """A run file; a change to None leaves the key out."""
    return tomli_w.dumps({k: v for k, v in (table | changes).items() if v is not None})


def sampler(kind: str, **changes: Any) -> str:
    """The run file of a sampler, a mechanism or second moments."""
    return toml({"kind": kind, "n": 1000} | SAMPLERS[kind], **changes)


def read_json(text: str) -> Any:
    """Strict JSON: NaN and Infinity are refused."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)

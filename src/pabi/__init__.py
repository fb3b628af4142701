"""The tightest provable privacy guarantee for a model of which only the last iterate is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pabi.batches import (
    BallsInBins,
    Cyclic,
    FixedSize,
    FullBatch,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.errors import InvalidInput, NotApplicable, PrivacyWarning, TargetUnreachable
from pabi.iteration import NoisyIteration
from pabi.langevin import LangevinChain, LangevinDiffusion
from pabi.losses import Loss
from pabi.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.moduli import Modulus
from pabi.runs import NoisySGD

if TYPE_CHECKING:
    from pabi import (
        convert,
        erm,
        learn,
        literature,
        mixing,
        plotting,
        prox,
        sampling,
        tradeoff,
        updates,
    )
    from pabi.calibration import calibrate
    from pabi.certificate import Certificate
    from pabi.guarantee import Guarantee, compose
    from pabi.mixing import mixing_time
    from pabi.verification import Verdict, verify

__version__ = "0.1.0"

__all__ = [
    "BallsInBins",
    "Certificate",
    "Cyclic",
    "ExponentialMechanism",
    "FixedSize",
    "FullBatch",
    "Guarantee",
    "InvalidInput",
    "IteratedExponentialMechanism",
    "LangevinChain",
    "LangevinDiffusion",
    "Loss",
    "Modulus",
    "NoisyIteration",
    "NoisySGD",
    "NotApplicable",
    "Poisson",
    "PrivacyWarning",
    "Reshuffle",
    "ShuffleOnce",
    "TargetUnreachable",
    "Verdict",
    "calibrate",
    "compose",
    "convert",
    "erm",
    "learn",
    "literature",
    "mixing",
    "mixing_time",
    "plotting",
    "prox",
    "sampling",
    "tradeoff",
    "updates",
    "verify",
]

# Imported on first use, so that `import pabi` stays quick.
_LAZY = {
    "Certificate": "pabi.certificate",
    "Guarantee": "pabi.guarantee",
    "Verdict": "pabi.verification",
    "calibrate": "pabi.calibration",
    "compose": "pabi.guarantee",
    "mixing_time": "pabi.mixing",
    "verify": "pabi.verification",
    "convert": "",
    "erm": "",
    "learn": "",
    "literature": "",
    "mixing": "",
    "plotting": "",
    "prox": "",
    "sampling": "",
    "tradeoff": "",
    "updates": "",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pabi' has no attribute {name!r}")
    from importlib import import_module

    if not _LAZY[name]:
        return import_module(f"pabi.{name}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The tightest provable privacy guarantee for a model of which only the last iterate is released."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pabi.describe.batches import (
    BallsInBins,
    Cyclic,
    FixedSize,
    FullBatch,
    Poisson,
    Reshuffle,
    ShuffleOnce,
)
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinChain, LangevinDiffusion
from pabi.describe.losses import Loss
from pabi.describe.mechanisms import ExponentialMechanism, IteratedExponentialMechanism
from pabi.describe.moduli import Modulus
from pabi.describe.runs import NoisySGD
from pabi.describe.statistics import NoisyAccuracy, NoisyColumnStatistics, NoisySecondMoments
from pabi.describe.unlearning import Unlearning
from pabi.numbers.errors import (
    BudgetExceeded,
    InvalidInput,
    NotApplicable,
    PrivacyWarning,
    SamplingWarning,
    TargetUnreachable,
)
from pabi.numbers.version import __version__ as __version__

if TYPE_CHECKING:
    from pabi import (
        audits,
        convert,
        erm,
        features,
        learn,
        literature,
        mixing,
        plotting,
        prox,
        sampling,
        tradeoff,
        updates,
    )
    from pabi.account.calibration import calibrate
    from pabi.account.mixing import mixing_time
    from pabi.account.targets import Target
    from pabi.audits.auditing import audit
    from pabi.budget.ledger import Ledger
    from pabi.tradeoff.certificate import Certificate
    from pabi.tradeoff.guarantee import Guarantee, compose
    from pabi.tradeoff.selection import select
    from pabi.verification import Verdict, verify

# Silent unless the application configures logging.
logging.getLogger("pabi").addHandler(logging.NullHandler())

__all__ = [
    "BallsInBins",
    "BudgetExceeded",
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
    "Ledger",
    "Loss",
    "Modulus",
    "NoisyAccuracy",
    "NoisyColumnStatistics",
    "NoisyIteration",
    "NoisySGD",
    "NoisySecondMoments",
    "NotApplicable",
    "Poisson",
    "PrivacyWarning",
    "Reshuffle",
    "SamplingWarning",
    "ShuffleOnce",
    "Target",
    "TargetUnreachable",
    "Unlearning",
    "Verdict",
    "audit",
    "audits",
    "calibrate",
    "compose",
    "convert",
    "erm",
    "features",
    "learn",
    "literature",
    "mixing",
    "mixing_time",
    "plotting",
    "prox",
    "sampling",
    "select",
    "tradeoff",
    "updates",
    "verify",
]

# Imported on first use, so that `import pabi` stays quick.
_LAZY = {
    "Certificate": "pabi.tradeoff.certificate",
    "Guarantee": "pabi.tradeoff.guarantee",
    "Ledger": "pabi.budget.ledger",
    "Target": "pabi.account.targets",
    "Verdict": "pabi.verification",
    "audit": "pabi.audits.auditing",
    "audits": "",
    "calibrate": "pabi.account.calibration",
    "compose": "pabi.tradeoff.guarantee",
    "mixing_time": "pabi.account.mixing",
    "select": "pabi.tradeoff.selection",
    "verify": "pabi.verification",
    "convert": "",
    "erm": "",
    "features": "",
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

"""The losses of linear models, by name.

Trainers (`pabi.execute.linear_gradients`) and samplers (`pabi.sampling.linear_models`) compute with the very
objects from which the accountant's constants follow.
"""

from __future__ import annotations

from typing import Any

from pabi.describe.linear_loss import LinearLoss
from pabi.describe.loss_facts import Kind, curvature_known
from pabi.describe.scalar_losses import Huber, Logistic, PoissonLoss, SmoothedHinge, Squared
from pabi.describe.vector_losses import OneVsRest, Softmax, VectorHuber
from pabi.numbers.errors import InvalidInput
from pabi.numbers.fields import POSITIVE
from pabi.numbers.showing import exact

LINEAR_LOSSES: dict[str, type[LinearLoss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "one_vs_rest": OneVsRest,
    "squared": Squared,
    "huber": Huber,
    "vector_huber": VectorHuber,
    "smoothed_hinge": SmoothedHinge,
    "poisson": PoissonLoss,
}


def executable(kind: str, **parameters: Any) -> LinearLoss:
    """The loss of this kind and these parameters, checked, for trainers and samplers to compute with.

    There may be other parameters, such as `feature_norm`. Raises InvalidInput naming the parameter.
    """
    cls = LINEAR_LOSSES[kind]
    values = {name: check(name, parameters[name]) for name, check in cls.parameters.items()}
    values |= {n: check(n, parameters[n]) for n, check in cls.optional.items() if n in parameters}
    for name, most in cls.largest.items():
        if values[name] > most:
            raise InvalidInput(name, f"expected at most {exact(most)}, got {values[name]!r}")
    return cls.of(values)


def kind_of(cls: type[LinearLoss]) -> Kind:
    """Such a loss as the accountant knows it, for rows of norm at most `feature_norm`."""
    return Kind(
        required={"feature_norm": POSITIVE, **cls.parameters},
        optional=cls.optional,
        facts=lambda p: cls.of(p).facts(p["feature_norm"]),
        clipped=lambda p, clip_norm: cls.of(p).facts(p["feature_norm"], clip_norm),
        sentences=curvature_known,
    )

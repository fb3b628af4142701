"""Trade-off functions: f-differential privacy as objects."""

from __future__ import annotations

import pabi.tradeoff.kinds  # noqa: F401 - closes the table of kinds, for all that follow
from pabi.tradeoff.allocation import RandomAllocation
from pabi.tradeoff.answers import discrete_laplace, randomised_response
from pabi.tradeoff.approx_dp import ApproxDP, BoundedRange
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.best import Best
from pabi.tradeoff.gaussian import Gaussian, Identity
from pabi.tradeoff.grouped import Grouped, Selected, grouped, selected
from pabi.tradeoff.laplace import Laplace
from pabi.tradeoff.mixture import Mixture, SecretMixture, average
from pabi.tradeoff.privacy_loss import PrivacyLossDistribution
from pabi.tradeoff.product import Product
from pabi.tradeoff.renyi import RenyiDP
from pabi.tradeoff.subsampled import (
    FixedSizeSubsampled,
    PoissonReplaced,
    PoissonSubsampled,
    Subsampled,
)

__all__ = [
    "ApproxDP",
    "Best",
    "BoundedRange",
    "FixedSizeSubsampled",
    "Gaussian",
    "Grouped",
    "Identity",
    "Laplace",
    "Mixture",
    "PoissonReplaced",
    "PoissonSubsampled",
    "PrivacyLossDistribution",
    "Product",
    "RandomAllocation",
    "RenyiDP",
    "SecretMixture",
    "Selected",
    "Subsampled",
    "TradeOff",
    "average",
    "discrete_laplace",
    "grouped",
    "randomised_response",
    "selected",
]

"""Trade-off functions: f-differential privacy as objects."""

from __future__ import annotations

from pabi.tradeoff.approx_dp import ApproxDP
from pabi.tradeoff.base import TradeOff
from pabi.tradeoff.gaussian import Gaussian, Identity
from pabi.tradeoff.mixture import Mixture, average

__all__ = ["ApproxDP", "Gaussian", "Identity", "Mixture", "TradeOff", "average"]

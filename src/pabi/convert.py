"""Conversions between the currencies of differential privacy.

Every ε or δ returned is an upper bound on the truth and every trade-off value a lower bound, unless
the function's first paragraph says "numerical" or "approximation".
"""

from __future__ import annotations

from pabi.numbers.gaussian import gdp_to_delta, gdp_to_epsilon, gdp_to_rdp, gdp_to_zcdp
from pabi.numbers.mixtures import mixture_to_delta, mixture_to_epsilon, mixture_to_rdp
from pabi.numbers.renyi import clt_mu, delta_to_tradeoff, rdp_to_epsilon, tradeoff_to_delta
from pabi.numbers.vectorised import gaussian_delta

__all__ = [
    "clt_mu",
    "delta_to_tradeoff",
    "gaussian_delta",
    "gdp_to_delta",
    "gdp_to_epsilon",
    "gdp_to_rdp",
    "gdp_to_zcdp",
    "mixture_to_delta",
    "mixture_to_epsilon",
    "mixture_to_rdp",
    "rdp_to_epsilon",
    "tradeoff_to_delta",
]

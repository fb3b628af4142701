"""The guarantee, which `pabi` has too. Models that were saved by version 0.1.0 name this module."""

from pabi.tradeoff.guarantee import Guarantee, compose

__all__ = ["Guarantee", "compose"]

"""The loss, which `pabi` has too. Models that were saved by version 0.1.0 name this module."""

from pabi.describe.losses import Loss

__all__ = ["Loss"]

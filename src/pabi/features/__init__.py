"""Public features of images: maps that no data have a say in, so that they need no privacy budget."""

from pabi.features.scattering import Scattering

__all__ = ["Scattering"]

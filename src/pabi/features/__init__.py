"""Public features of images and tables: maps in which no data have a say, so they need no privacy budget."""

from pabi.features.random_features import RandomFeatures
from pabi.features.scattering import Scattering

__all__ = ["RandomFeatures", "Scattering"]

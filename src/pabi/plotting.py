"""The picture of a guarantee, and the colours of all of pabi's pictures."""

from pabi.show.pictures import plot_guarantee
from pabi.show.themes import Palette, palette, style

__all__ = ["Palette", "palette", "plot_guarantee", "style"]

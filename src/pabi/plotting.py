"""The picture of a guarantee, and the colours of all of pabi's pictures."""

from pabi.draw.guarantee import plot_guarantee
from pabi.draw.themes import Palette, palette, style

__all__ = ["Palette", "palette", "plot_guarantee", "style"]

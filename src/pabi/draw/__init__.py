"""Every picture, and the themes that they are drawn in."""

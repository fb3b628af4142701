"""Training as described, with everything but the last iterate hidden."""

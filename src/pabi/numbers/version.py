"""The version of pabi: here, so that every room may note it, and nowhere else."""

__version__ = "0.2.0"

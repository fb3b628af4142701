"""Dask: training on a cluster whose workers hold the records."""

from pabi.integrations.dask.training import train

__all__ = ["train"]

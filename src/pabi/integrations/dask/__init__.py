"""Dask: training on a cluster whose workers hold the records, and samplers and searches on its workers."""

from pabi.integrations.dask.sums import train
from pabi.integrations.dask.tasks import diffusion, fit_search, gibbs_rejection, langevin

__all__ = ["diffusion", "fit_search", "gibbs_rejection", "langevin", "train"]

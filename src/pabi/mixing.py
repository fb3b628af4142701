"""Mixing times of the projected Langevin chain. The full text is that of `pabi.account.mixing`."""

from pabi.account.mixing import __doc__ as __doc__
from pabi.account.mixing import mixing_time, total_variation_bound
from pabi.show.pictures import Estimate, plot, total_variation_estimate

__all__ = [
    "Estimate",
    "mixing_time",
    "plot",
    "total_variation_bound",
    "total_variation_estimate",
]

"""Mixing times of the projected Langevin chain. The full text is that of `pabi.account.mixing`."""

from pabi.account.mixing import __doc__ as __doc__
from pabi.account.mixing import mixing_time, total_variation_bound
from pabi.account.outlook import Outlook, outlook
from pabi.show.pictures import Estimate, plot, total_variation_estimate

__all__ = [
    "Estimate",
    "Outlook",
    "mixing_time",
    "outlook",
    "plot",
    "total_variation_bound",
    "total_variation_estimate",
]

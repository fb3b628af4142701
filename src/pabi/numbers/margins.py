"""Margins that outweigh rounding: relative errors of a few operations on doubles, each named once."""

from __future__ import annotations

HALF_ULP = 2.0**-53  # the largest relative error of one rounding
# A correctly rounded operation errs by a relative 2^-53 < 1.12e-16; exp, log and powers by twice that.
THREE_ROUNDINGS = 4e-16
EIGHT_ROUNDINGS = 1e-15
# For a logarithm near 0, and for the errors of a condition that a published number met.
MANY_ROUNDINGS = 1e-12

"""Lines through proven numbers that promise nothing more between them. Theory, section 24.

What is computed are numbers at some places; what is drawn is a line. A straight one from number to number
may lie on the flattering side of the curve, so these lines have other corners.
"""

from __future__ import annotations

import numpy as np

from pabi.numbers.rounding import Array

_ROUNDING = 1e-12  # of a corner, relative: more than a few operations in float64 lose


def above_epsilons(deltas: Array, epsilons: Array) -> tuple[Array, Array]:
    """Corners of a line that is nowhere below what is proven between these numbers.

    Parameters
    ----------
    deltas : ndarray, (n,)
        Increasing, above 0.
    epsilons : ndarray, (n,)
        An ε that is proven at each; ∞ and 0 are left out.

    Returns
    -------
    (ndarray, ndarray)
        δ and ε of the corners, to be joined where δ has a logarithmic axis, and ε one of either kind. The
        proven numbers are among them. Source: theory, Lemma 24.1.
    """
    # What is proven at a δ is proven at every larger one.
    proven = np.minimum.accumulate(epsilons)
    mask = np.isfinite(proven) & (proven > 0.0)
    x, y = deltas[mask], proven[mask]
    if x.size < 2:
        return x, y
    left, right, high, low = x[:-1], x[1:], y[:-1], y[1:]
    # e^ε at most falls in a line from δ to δ. In the logarithms of δ and ε that is a concave curve, and below
    # the lines that touch it at both ends.
    fall = -np.expm1(low - high) / (right - left)
    slope_left = -left * fall / high
    with np.errstate(over="ignore", invalid="ignore"):
        slope_right = -right * fall * np.exp(high - low) / low
    u, v, width = np.log(left), np.log(high), np.log(right / left)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (np.log(low / high) - slope_right * width) / ((slope_left - slope_right) * width)
    share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    at = np.exp(u + share * width)
    height = np.exp(v + slope_left * share * width) * (1.0 + _ROUNDING)
    corners_x = np.concatenate(([x[0]], np.column_stack((at, right)).ravel()))
    corners_y = np.concatenate(([y[0]], np.column_stack((height, low)).ravel()))
    return corners_x, corners_y


def below_errors(rates: Array, errors: Array) -> tuple[Array, Array]:
    """Corners of a line that is nowhere above a curve which falls, such as a trade-off function.

    Parameters
    ----------
    rates : ndarray, (n,)
        Increasing, the last one 1.
    errors : ndarray, (n,)
        The least errors at them.

    Returns
    -------
    (ndarray, ndarray)
        The same rates, each with the error at the next one. Source: theory, Lemma 24.2.
    """
    return rates, np.append(errors[1:], 0.0)

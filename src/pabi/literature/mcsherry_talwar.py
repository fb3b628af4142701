"""McSherry, Talwar 2007, *Mechanism Design via Differential Privacy*."""

from __future__ import annotations

from pabi.literature.published import published


@published("epsilon", "McSherry, Talwar 2007 (in Bok, Su, Altschuler 2024, §5.2)")
def exponential_mechanism(*, L: float, diameter: float) -> float:
    """The privacy parameter ε = 2LD, with δ = 0, of a draw from exp(−F) on a bounded set.

    F and F' are both L-Lipschitz, so that F − F' varies by at most 2LD.

    Parameters
    ----------
    L : float, above 0
        Lipschitz constant of F and of F'.
    diameter : float, above 0
        D, the diameter of the set, in units of the parameters.

    Returns
    -------
    Published
        `value` is ε.

    Raises
    ------
    TypeError
        For what is no number.

    References
    ----------
    McSherry, Talwar 2007 (in Bok, Su, Altschuler 2024, §5.2).
    """
    return 2.0 * L * diameter

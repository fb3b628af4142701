"""McSherry, Talwar 2007, *Mechanism Design via Differential Privacy*."""

from __future__ import annotations

from pabi.literature.published import published


@published("epsilon", "McSherry, Talwar 2007 (in Bok, Su, Altschuler 2024, §5.2)")
def exponential_mechanism(*, L: float, diameter: float) -> float:
    """ε = 2LD, with δ = 0, of a draw from exp(−F) on a set of diameter D.

    F and F' are both L-Lipschitz, so that F − F' varies by at most 2LD.
    """
    return 2.0 * L * diameter

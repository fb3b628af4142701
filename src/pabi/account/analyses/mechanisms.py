"""Langevin diffusions: the path, and the last point, whose privacy loss converges.

The distance z of two paths that share their noise obeys z' ≤ −mβz + βΔ, m the least curvature of L and Δ the
gap of the gradients; shifting one path towards the other at the rate a costs ∫a²/2 dt (the limit of noisy
iterations with σ² = 2η). With e = e^(−βmR), over a window R that ends at T and begins at distance w the
best shifts cost μ² = βm(w·e + (Δ/m)(1 − e))²/(1 − e²). From w = 0 at R = T that is
(Δ²β/m)·tanh(βmT/2) for m > 0, while for m ≤ 0 paying at once, (Δ²/2)·β²T, is best; from w = D the best
window gives βD(2Δ − mD), whatever the sign of m. (For dissipative losses see
`pabi.normal_forms.positions`.) Proofs: docs, "Diffusions".
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from pabi.analyses import composition, shifted_interpolation
from pabi.analyses.writing import DescribedProof
from pabi.describe.iteration import NoisyIteration
from pabi.describe.langevin import LangevinDiffusion, diffusion_sentences
from pabi.describe.losses import Loss
from pabi.guarantees.guarantee import Guarantee
from pabi.normal_forms.positions import growth_of
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import fraction_down, fraction_up
from pabi.tradeoff import Gaussian

PATH, LAST = "path", "last point"
PATH_SOURCE = "Ganesh, Thakurta, Upadhyay, Lemma C.1, as Gaussian DP"
LAST_SOURCE = "docs, Diffusions; Bok, Su, Altschuler 2024, Thm C.3 in the limit of small steps"
_MARGIN = 1.0 + 1e-13  # above the roundings of the closed forms
_TIME = 1e-9  # relative, beyond those of the time that a path takes from one distance to another
_BELOW_LIMIT = 1.0 - 1e-6  # of z*: nearer to it the time has lost its digits
_ABOVE_LIMIT = 1.0 + 1e-12  # of z*, and of its spread: above their roundings
# Times and spreads that are smaller lose digits; larger times overflow.
_SMALLEST, _LARGEST = 1e-290, 1e300


def path(diffusion: LangevinDiffusion, delta: float, position: int | None = None) -> Guarantee:
    """The guarantee of the whole path, μ² = (Δ²/2)∫β_t²dt."""
    if not diffusion.constant:
        cells = composition.apply(_flat_cells(diffusion), 0.0)
        return _relabelled(diffusion, cells, PATH, PATH_SOURCE, hidden=False)
    return _closed(diffusion, _path_square(diffusion), PATH, {})


def last_point(
    diffusion: LangevinDiffusion, delta: float, position: int | None = None
) -> Guarantee:
    """The guarantee of the point at the end. Raises NotApplicable where the path is released, and for a loss
    of unknown curvature."""
    if diffusion.release != "last":
        raise NotApplicable("the path is released, so nothing is forgotten")
    if diffusion.least_curvature is None:
        raise NotApplicable(f"nothing is known of the curvature of a {diffusion.loss.kind} loss")
    if not diffusion.constant:
        cells = shifted_interpolation.apply(diffusion.iteration(), 0.0)
        return _relabelled(diffusion, cells, LAST, LAST_SOURCE, hidden=True)
    square = _from_the_start(diffusion)
    begin: dict[str, float | None] = {"window": None}
    for key, bound in (("window", gibbs_window(diffusion)), ("distance", _dissipative(diffusion))):
        if bound is not None and bound[0] < square:
            square, begin = bound[0], {key: bound[1]}
    return _closed(diffusion, square, LAST, begin)


# Products are taken of rationals, so that none under- or overflows on the way.


def _path_square(diffusion: LangevinDiffusion) -> float:
    beta, gap = Fraction(diffusion.inverse_temperature), Fraction(diffusion.gap)
    return fraction_up(gap * gap * beta * beta * Fraction(diffusion.time) / 2)


def _from_the_start(diffusion: LangevinDiffusion) -> float:
    """μ² from equal starts: the path's, times tanh(x)/x with x = βmT/2 where m > 0."""
    m = diffusion.least_curvature
    assert m is not None
    if not m > 0.0:
        return _path_square(diffusion)
    beta, gap = Fraction(diffusion.inverse_temperature), Fraction(diffusion.gap)
    x = fraction_down(beta * Fraction(m) * Fraction(diffusion.time) / 2)
    if x > 1.0:
        return fraction_up(gap * gap * beta / Fraction(m)) * math.tanh(min(x, 20.0))
    return _path_square(diffusion) * (math.tanh(x) / x if x > 0.0 else 1.0)


def gibbs_window(diffusion: LangevinDiffusion) -> tuple[float, float] | None:
    """(βD(2Δ − mD), its window R = −ln(1 − mD/Δ)/(βm)); None without a D < Δ/m, or where R > T."""
    m, d, gap = diffusion.least_curvature, diffusion.diameter, diffusion.gap
    if d is None or m is None:
        return None
    curved, far, slope = Fraction(m), Fraction(d), Fraction(gap)
    beta = Fraction(diffusion.inverse_temperature)
    y = fraction_up(curved * far / slope)
    if not y < 1.0:
        return None
    window = fraction_up(far / (beta * slope)) * (1.0 if y == 0.0 else -math.log1p(-y) / y)
    square = fraction_up(beta * far * (2 * slope - curved * far))
    return (square, window) if window <= diffusion.time else None


def _dissipative(diffusion: LangevinDiffusion) -> tuple[float, float] | None:
    """(2β∫_0^d (Δ + g), d), d the lesser of D and what can be reached in half the time, or just above z*
    where that is next to z*; None for losses that are not dissipative, or a D that is out of reach anyway."""
    growth = growth_of(diffusion.loss, diffusion.gap)
    if growth is None:
        return None
    beta, time = diffusion.inverse_temperature, diffusion.time
    scaled, limit = min(beta * time, _LARGEST), growth.limit
    if not scaled > _SMALLEST:
        return None
    d = growth.reached(0.5 * scaled * (1.0 + _TIME))
    if diffusion.diameter is not None:
        most = limit * _BELOW_LIMIT if d is None else d
        d = diffusion.diameter if diffusion.diameter < most else d
    if d is not None and not growth.time(d) <= scaled * (1.0 - _TIME):
        return None
    spread = growth.spread(limit) * _ABOVE_LIMIT if d is None else growth.spread(d)
    if not _SMALLEST < spread < math.inf:
        return None
    square = fraction_up(2 * Fraction(beta) * Fraction(spread)) * _MARGIN
    return square, limit * _ABOVE_LIMIT if d is None else d


def _closed(
    diffusion: LangevinDiffusion, square: float, name: str, begin: dict[str, float | None]
) -> Guarantee:
    """The guarantee of μ² = `square`. `begin`: the "window" that begins at distance D (None: the whole time,
    from 0), or the "distance" from which paths on a dissipative loss return."""
    mu = math.inf if math.isnan(square) else math.sqrt(square) * _MARGIN
    hidden = name == LAST
    curve = Gaussian(mu)
    return Guarantee(
        curve,
        diffusion.adjacency,
        name,
        LAST_SOURCE if hidden else PATH_SOURCE,
        diffusion_sentences(diffusion, hidden),
        proof=DescribedProof(name, diffusion, curve, begin),
    )


def _flat_cells(diffusion: LangevinDiffusion) -> NoisyIteration:
    """The iteration of the cells as if nothing were forgotten: only s_k/σ_k means anything."""
    flat = replace(diffusion, loss=Loss.convex(1.0), gradient_gap=diffusion.gap)
    return flat.iteration(1)


def _relabelled(
    diffusion: LangevinDiffusion, cells: Guarantee, name: str, source: str, hidden: bool
) -> Guarantee:
    """The guarantee of the cells, as one of the diffusion."""
    of_diffusion = diffusion_sentences(diffusion, hidden)
    sentences = dict.fromkeys((*of_diffusion, *cells.assumptions))
    assumed = cells.assuming(*of_diffusion)
    return replace(assumed, method=name, source=source, assumptions=tuple(sentences))

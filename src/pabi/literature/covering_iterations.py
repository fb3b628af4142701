"""Which published bounds cover a noisy iteration in normal form, and what they say of it.

Some are about private runs, others about chains that differ only in where they start.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Linear, Modulus, Sqrt
from pabi.literature import altschuler_talwar, balle, bok, bravo, dong
from pabi.literature.published import Bound, require
from pabi.literature.reading import Candidate, Evaluate, Reading, read
from pabi.numbers.errors import NotApplicable
from pabi.numbers.showing import shown, shown_down


def _private(it: NoisyIteration) -> tuple[float, float, float]:
    """(c, s, σ) of equal steps from one starting point; c is NaN where no linear modulus is known."""
    require(it.start == 0.0, "one starting point")
    columns = [np.unique(np.asarray(x, dtype=np.float64)) for x in _columns(it)]
    require(all(len(x) == 1 for x in columns), "steps that are all alike")
    c, s, sigma = (float(x[0]) for x in columns)
    require(s > 0.0 and sigma > 0.0, "steps that use the record, with noise")
    return c, s, sigma


def _columns(it: NoisyIteration) -> tuple[Any, Any, Any]:
    return it.slopes, it.step_sensitivity, it.step_noise_std


def _it_composition(it: NoisyIteration, delta: float) -> Reading:
    require(it.start == 0.0, "one starting point")
    assert it.steps is not None
    columns = (np.asarray(x, dtype=np.float64) for x in _columns(it)[1:])
    s, sigma = (np.broadcast_to(x, it.steps) for x in columns)
    require(bool(np.all(sigma[s > 0.0] > 0.0)), "noise in every step that uses the record")
    return read(dong.corollary_3_3(mus=s[s > 0.0] / sigma[s > 0.0]), delta)


def _it_bok_4_2(it: NoisyIteration, delta: float) -> Reading:
    c, s, sigma = _private(it)
    require(c < 1.0, "steps that contract")
    assert it.steps is not None
    found = bok.theorem_4_2(L=s, n=1, noise_std=sigma, slope=c, steps=it.steps)
    return read(found, delta)


def _it_bok_4_3(it: NoisyIteration, delta: float) -> Reading:
    c, s, sigma = _private(it)
    require(c <= 1.0, "steps that do not expand")
    require(it.diameter is not None, "a set of finite diameter")
    assert it.steps is not None
    assert it.diameter is not None
    found = bok.theorem_4_3(
        L=s, n=1, noise_std=sigma, step_size=1.0, diameter=it.diameter, steps=it.steps
    )
    return read(found, delta)


def _chain(it: NoisyIteration) -> tuple[float, list[float], list[float], list[float]]:
    """(distance of the starts, κ, h, σ of every step) of chains with equal steps but for the start."""
    require(
        it.start > 0.0 and not np.any(np.asarray(it.step_sensitivity) > 0.0),
        "runs that differ only in where they start",
    )
    assert it.steps is not None
    moduli = it.moduli
    if moduli is None:
        slopes = np.broadcast_to(np.asarray(it.contraction, dtype=np.float64), it.steps)
        shapes = [(float(c) ** 2, 0.0) for c in slopes]
    else:
        listed = [moduli] * it.steps if isinstance(moduli, Modulus) else list(moduli)
        shapes = [_shape(m) for m in listed]
    sigma = np.broadcast_to(np.asarray(it.step_noise_std, dtype=np.float64), it.steps)
    require(bool(np.all(sigma > 0.0)), "noise in every step")
    require(all(k > 0.0 for k, _ in shapes), "slopes above 0")
    distance = min(it.start, math.inf if it.diameter is None else it.diameter)
    return distance, [k for k, _ in shapes], [h for _, h in shapes], [float(x) for x in sigma]


def _shape(modulus: Modulus) -> tuple[float, float]:
    if isinstance(modulus, Linear):
        return modulus.slope**2, 0.0
    if isinstance(modulus, Sqrt):
        return modulus.kappa, modulus.h
    raise NotApplicable("needs moduli √(κδ² + h)")


def _it_bravo_3_4(it: NoisyIteration, delta: float) -> Reading:
    distance, kappa, h, sigma = _chain(it)
    return read(bravo.theorem_3_4(kappa, h, sigma, distance), delta)


def _same(it: NoisyIteration) -> tuple[float, float, float, float]:
    distance, kappa, h, sigma = _chain(it)
    require(all(len(set(x)) == 1 for x in (kappa, h, sigma)), "steps that are all alike")
    return distance, kappa[0], h[0], sigma[0]


def _it_bravo_3_7(it: NoisyIteration, delta: float) -> Reading:
    distance, kappa, h, sigma = _same(it)
    require(kappa == 1.0 and h > 0.0, "moduli √(δ² + h)")
    assert it.steps is not None
    found = bravo.corollary_3_7(diameter=distance, h=h, step_noise_std=sigma, steps=it.steps)
    return read(found, delta)


def _it_linear(bound: Bound[...], lowest: float, highest: float) -> Evaluate:
    def evaluate(it: NoisyIteration, delta: float) -> Reading:
        distance, kappa, h, sigma = _same(it)
        require(h == 0.0, "linear moduli")
        require(lowest <= kappa <= highest, f"a slope in [{shown(lowest)}, {shown_down(highest)}]")
        given = {"diameter": distance, "step_noise_std": sigma, "steps": it.steps}
        if lowest < highest:
            given["kappa"] = kappa
        return read(bound(**given), delta)

    return evaluate


CANDIDATES = (
    Candidate(dong.corollary_3_3, _it_composition),
    Candidate(bok.theorem_4_2, _it_bok_4_2),
    Candidate(bok.theorem_4_3, _it_bok_4_3),
    Candidate(bravo.theorem_3_4, _it_bravo_3_4),
    Candidate(bravo.corollary_3_7, _it_bravo_3_7),
    Candidate(bravo.corollary_3_8, _it_linear(bravo.corollary_3_8, 0.0, math.inf)),
    Candidate(altschuler_talwar.contractive, _it_linear(altschuler_talwar.contractive, 0.0, 1.0)),
    Candidate(
        altschuler_talwar.proposition_2_10, _it_linear(altschuler_talwar.proposition_2_10, 1.0, 1.0)
    ),
    Candidate(balle.iterated_lipschitz, _it_linear(balle.iterated_lipschitz, 0.0, math.inf)),
)

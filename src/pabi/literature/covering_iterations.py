"""Which published bounds cover a noisy iteration in normal form, and what they say of it.

Some are about private runs, others about chains that differ only in where they start.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from pabi.describe.iteration import NoisyIteration
from pabi.describe.moduli import Linear, Modulus, Sqrt
from pabi.literature import altschuler_talwar, balle, bok, bravo, dong
from pabi.literature.published import Hypothesis, Terms, covers, needs, require
from pabi.numbers.errors import NotApplicable
from pabi.numbers.rounding import Array
from pabi.numbers.showing import shown, shown_down

# Private runs.


_ONE_START = needs("one starting point", lambda it: it.start == 0.0)


def _equal_steps(it: NoisyIteration) -> tuple[float, float, float]:
    """(c, s, σ) of equal steps from one starting point; c is NaN where no linear modulus is known."""
    _ONE_START(it)
    columns = [
        np.unique(np.asarray(x, dtype=np.float64))
        for x in (it.slopes, it.step_sensitivity, it.step_noise_std)
    ]
    require(all(len(x) == 1 for x in columns), "steps that are all alike")
    c, s, sigma = (float(x[0]) for x in columns)
    require(s > 0.0 and sigma > 0.0, "steps that use the record, with noise")
    return c, s, sigma


def _mus(it: NoisyIteration) -> Array:
    """μ of every step that uses the record."""
    _ONE_START(it)
    s, sigma = (_column(it, x) for x in (it.step_sensitivity, it.step_noise_std))
    require(bool(np.all(sigma[s > 0.0] > 0.0)), "noise in every step that uses the record")
    return s[s > 0.0] / sigma[s > 0.0]


def _column(it: NoisyIteration, values: Any) -> Array:
    """(steps,) values of every step."""
    assert it.steps is not None
    return np.broadcast_to(np.asarray(values, dtype=np.float64), it.steps)


_CONTRACTING = needs("steps that contract", lambda it: _equal_steps(it)[0] < 1.0)
_NONEXPANSIVE = needs("steps that do not expand", lambda it: _equal_steps(it)[0] <= 1.0)
_ON_A_SET = needs("a set of finite diameter", lambda it: it.diameter is not None)
_PRIVATE: Terms = {
    "L": lambda it: _equal_steps(it)[1],
    "n": lambda it: 1,
    "noise_std": lambda it: _equal_steps(it)[2],
    "step_size": lambda it: 1.0,
    "slope": lambda it: _equal_steps(it)[0],
    "steps": attrgetter("steps"),
    "diameter": attrgetter("diameter"),
}

# Chains.


class Chain(NamedTuple):
    """Equal steps from starts at a distance: κ, h and σ of every step."""

    distance: float
    kappa: list[float]
    h: list[float]
    sigma: list[float]


def _chain(it: NoisyIteration) -> Chain:
    require(
        it.start > 0.0 and not np.any(np.asarray(it.step_sensitivity) > 0.0),
        "runs that differ only in where they start",
    )
    assert it.steps is not None
    moduli = it.moduli
    if moduli is None:
        shapes = [(float(c) ** 2, 0.0) for c in _column(it, it.contraction)]
    else:
        listed = [moduli] * it.steps if isinstance(moduli, Modulus) else list(moduli)
        shapes = [_shape(m) for m in listed]
    sigma = _column(it, it.step_noise_std)
    require(bool(np.all(sigma > 0.0)), "noise in every step")
    kappa, h = (list(values) for values in zip(*shapes, strict=True))
    require(min(kappa) > 0.0, "slopes above 0")
    distance = min(it.start, math.inf if it.diameter is None else it.diameter)
    return Chain(distance, kappa, h, sigma.tolist())


def _shape(modulus: Modulus) -> tuple[float, float]:
    """(κ, h) of the modulus √(κδ² + h)."""
    if isinstance(modulus, Linear):
        return modulus.slope**2, 0.0
    if isinstance(modulus, Sqrt):
        return modulus.kappa, modulus.h
    raise NotApplicable("needs moduli √(κδ² + h)")


def _equal_chain(it: NoisyIteration) -> tuple[float, float, float]:
    """(κ, h, σ) of a chain whose steps are all alike."""
    columns = _chain(it)[1:]
    require(all(len(set(x)) == 1 for x in columns), "steps that are all alike")
    kappa, h, sigma = (x[0] for x in columns)
    return kappa, h, sigma


def _nonsmooth(it: NoisyIteration) -> None:
    kappa, h, _ = _equal_chain(it)
    require(kappa == 1.0 and h > 0.0, "moduli √(δ² + h)")


def _linear(lowest: float, highest: float) -> Hypothesis:
    """Linear moduli with squared slopes in this range."""

    def hypothesis(it: NoisyIteration) -> None:
        kappa, h, _ = _equal_chain(it)
        require(h == 0.0, "linear moduli")
        require(lowest <= kappa <= highest, f"a slope in [{shown(lowest)}, {shown_down(highest)}]")

    return hypothesis


_CHAIN: Terms = {
    "diameter": lambda it: _chain(it).distance,
    "kappa": lambda it: _chain(it).kappa,
    "h": lambda it: _chain(it).h,
    "sigma": lambda it: _chain(it).sigma,
}
_EQUAL_CHAIN: Terms = {
    "diameter": lambda it: _chain(it).distance,
    "kappa": lambda it: _equal_chain(it)[0],
    "h": lambda it: _equal_chain(it)[1],
    "step_noise_std": lambda it: _equal_chain(it)[2],
    "steps": attrgetter("steps"),
}

CANDIDATES = (
    covers(dong.corollary_3_3, {"mus": _mus}),
    covers(bok.theorem_4_2, _PRIVATE, _CONTRACTING),
    covers(bok.theorem_4_3, _PRIVATE, _NONEXPANSIVE, _ON_A_SET),
    covers(bravo.theorem_3_4, _CHAIN),
    covers(bravo.corollary_3_7, _EQUAL_CHAIN, _nonsmooth),
    covers(bravo.corollary_3_8, _EQUAL_CHAIN, _linear(0.0, math.inf)),
    covers(altschuler_talwar.contractive, _EQUAL_CHAIN, _linear(0.0, 1.0)),
    covers(altschuler_talwar.proposition_2_10, _EQUAL_CHAIN, _linear(1.0, 1.0)),
    covers(balle.iterated_lipschitz, _EQUAL_CHAIN, _linear(0.0, math.inf)),
)

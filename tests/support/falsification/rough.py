"""Nonconvex losses on a line whose gradients are Hölder continuous: |g(x) − g(y)| ≤ M|x − y|^p.

`Rough` gradients are ±ψ(u(x)), ψ(u) = M·2^(p−1)·sign(u)·|u|^p, u one of

    x − c                     the cusp: a pair that lies symmetrically about c attains the constant;
    a triangular wave         many cusps, of either sign;

and then cut to ±bound. Why M is the constant of ψ: for u ≥ 0 ≥ v the concavity of t^p gives
|u|^p + |v|^p ≤ 2^(1−p)·(|u| + |v|)^p, with equality for |u| = |v|; for uv > 0, ||u|^p − |v|^p| ≤ |u − v|^p.
A wave is 1-Lipschitz, and so is a cut, which keeps M. The minus sign is the worst: a step
x + e·ψ(x) moves a symmetric pair at distance δ to δ + e·M·δ^p, or to δ + 2e·bound where that is less.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from pabi import Loss, Modulus
from support.falsification.random_batches import ZERO, Constant, _loguniform
from support.falsification.walks import Rough, Training

TANGENTS = np.geomspace(1e-8, 1e4, 60)  # where the concave δ^p is touched


def stretched(exponent: float, constant: float, step: float, bound: float | None):
    """δ ↦ δ + e·min(M·δ^p, 2·bound), what a step e on such gradients does at most."""
    most = math.inf if bound is None else 2.0 * bound
    return lambda d: d + step * np.minimum(constant * np.asarray(d, dtype=float) ** exponent, most)


def modulus_above(
    exponent: float, constant: float, eta: float, l2: float, fraction: float, bound: float
) -> Modulus:
    """(1 − ηλ)·(δ + e·min(M·δ^p, 2·bound)), e = ηf/(1 − ηλ), from above: by tangents of the power."""
    kept, p = 1.0 - eta * l2, exponent
    assert kept > 0.0
    if fraction == 0.0:
        return Modulus.linear(kept)
    rows = [Modulus.affine(kept, 2.0 * eta * fraction * bound)]
    for a in TANGENTS.tolist():
        steep = eta * fraction * constant * p * a ** (p - 1.0)
        gap = eta * fraction * constant * (1.0 - p) * a**p
        rows.append(Modulus.affine(kept + steep, gap) if p < 1.0 else Modulus.linear(kept + steep))
    return Modulus.minimum(*rows)


@dataclass(frozen=True)
class RoughRun:
    """A training whose records all have gradients of this exponent and constant, cut at `bound`.

    `training.loss` says no more than the bound; `told` is the training that says all.
    """

    training: Training
    exponent: float
    constant: float
    bound: float
    clipped: bool

    def told(self) -> Training:
        """With the loss that is attacked."""
        facts = {} if self.clipped else {"gradient_bound": self.bound}
        loss = Loss.holder(exponent=self.exponent, constant=self.constant, **facts)
        l2 = self.training.loss.l2
        return replace(self.training, loss=loss.with_l2(l2) if l2 else loss)


def random_rough(rng, exponent: float, constant: float, bound: float, width: float, waves: bool):
    """A gradient within the assumptions, the worst ones preferred; `waves` only between walls."""
    pick = rng.random()
    if pick < 0.2:
        return Constant(float(rng.choice([-bound, bound])))
    centre = 0.0 if rng.random() < 0.4 else float(rng.uniform(-width, width))
    sign = -1.0 if pick < 0.8 else 1.0
    wave = width * float(rng.uniform(0.7, 2.0)) if waves and rng.random() < 0.2 else None
    return Rough(exponent, constant, centre, bound, sign, wave)


def random_rough_run(rng, walls: bool, most: int = 6, alike: bool = False) -> RoughRun:
    """A training at sizes at which steps matter. `alike`: all records but one are."""
    size, batches = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    t = int(rng.integers(1, most + 1))
    p = float(rng.choice([0.3, 0.5, 0.8, 1.0, rng.uniform(0.15, 1.0)]))
    bound = float(rng.choice([0.5, 1.0, 2.0]))
    eta = _loguniform(rng, 0.1, 1.5)
    noise = 2.0 * bound / (size * _loguniform(rng, 0.15, 4.0))
    diameter = eta * noise * _loguniform(rng, 0.4, 10.0) if walls else None
    width = diameter / 2 if walls else eta * (noise + bound)
    # A cusp that reaches the bound within the width, or does not.
    constant = bound * 2.0 ** (1.0 - p) / (width * _loguniform(rng, 0.05, 3.0)) ** p
    parts = (p, constant, bound, width, walls)
    one = random_rough(rng, *parts) if alike or rng.random() < 0.5 else None
    table = [[one or random_rough(rng, *parts) for _ in range(size)] for _ in range(batches)]
    position = int(rng.integers(0, batches))
    record = Constant(bound) if rng.random() < 0.5 else random_rough(rng, *parts)
    table[position][0] = record
    pick = rng.random()
    other = ZERO if pick < 0.25 else random_rough(rng, *parts)
    if pick > 0.5 and isinstance(record, Constant):
        other = Constant(-record.value)
    clipped = bool(rng.random() < 0.4)
    loss = Loss.unknown() if clipped else Loss.unknown(gradient_bound=bound)
    if rng.random() < 0.6:
        loss = loss.with_l2(_loguniform(rng, 0.05, 0.95) / eta)
    varied = 0.3 if rng.random() < 0.3 else 0.0
    training = Training(
        tuple(map(tuple, table)),
        position,
        other,
        tuple((eta * (1.0 + varied * rng.uniform(-1.0, 0.0, t))).tolist()),
        tuple((noise * (1.0 + varied * rng.uniform(-1.0, 1.0, t))).tolist()),
        loss,
        bound if clipped else None,
        None,
        diameter,
        start=float(rng.uniform(-width, width)) if rng.random() < 0.4 else 0.0,
        cooldown=int(rng.integers(0, t)) if rng.random() < 0.25 else 0,
    )
    return RoughRun(training, p, constant, bound, clipped)


def two_steps(exponent: float, change: float, stretch: float, noise: float) -> RoughRun:
    """A record that pulls by ±`change`/2 in a step of hardly any noise, and one that then pushes away from
    0: its step stretches their distance by the factor `stretch`, and its noise alone hides it."""
    constant = (stretch - 1.0) * change ** (1.0 - exponent)
    bound = max(change / 2, constant * 2.0 ** (exponent - 1.0) * (change / 2) ** exponent)
    cusp = Rough(exponent, constant, 0.0, 4.0 * bound)
    training = Training(
        ((Constant(change / 2),), (cusp,)),
        0,
        Constant(-change / 2),
        (1.0, 1.0),
        (1e-3 * change, noise),
        Loss.unknown(),
        sensitivity=change,
    )
    return RoughRun(training, exponent, constant, 4.0 * bound, True)


def radial(x: np.ndarray, centre: np.ndarray, exponent: float, constant: float) -> np.ndarray:
    """(m, d) ↦ −M·2^(p−1)·u‖u‖^(p−1), u = x − centre: as far as the cusp on a line in every direction."""
    u = x - centre
    size = np.linalg.norm(u, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            size > 0.0, -constant * 2.0 ** (exponent - 1.0) * u * size ** (exponent - 1.0), 0.0
        )


def cut(x: np.ndarray, bound: float) -> np.ndarray:
    """Rows scaled down to norm `bound`."""
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.minimum(1.0, bound / np.maximum(size, 1e-300))


def rough_base(rng, found, exponent: float, constant: float):
    """An instance of random batches or bins (`random_batches.Instance`, `thrown.Thrown`) whose gradients are
    put in place of by rough ones of its bound."""
    bound = found.clip if found.clip is not None else found.loss.gradient_bound
    width = found.diameter / 2 if found.diameter else 2.0 * max(found.eta) * max(found.noise)
    parts = (exponent, constant, bound, width, False)
    other = ZERO if found.other is ZERO else random_rough(rng, *parts)
    base = tuple((random_rough(rng, *parts), count) for _, count in found.base)
    return replace(found, base=base, record=random_rough(rng, *parts), other=other, clip=bound)

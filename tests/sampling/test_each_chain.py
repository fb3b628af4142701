"""Proximal maps act on each chain by itself, and as the maps of one point do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pabi import prox
from pabi.sampling.chains import each_chain
from support.every_case import every, refused

MAPS = [
    (None, (3,)),
    (prox.l1(0.7), (3,)),
    (prox.l2(0.7), (2, 3)),
    (prox.elastic_net(0.7, 0.2), (3,)),
    (prox.ball(1.0), (3,)),
    (prox.ball(1.0), ()),
    (prox.ball(1.0), (2, 2)),
    (prox.ball(0.5, center=[3.0, -1e8, 0.1]), (3,)),
    (prox.box(-1.0, 2.0), (3,)),
    (prox.box(-1.0, [2.0, 3.0, np.inf]), (3,)),
    (prox.box(0.0, 1.0, shape=(2, 2)), (2, 2)),
    (prox.simplex(), (5,)),
    (prox.simplex(3.0), (2, 2)),
    (prox.halfspace([1.0, 2.0, -0.5], 0.3), (3,)),
    (prox.halfspace([1.0, 2.0, -0.5], 0.0), (3,)),
    (prox.halfspace([[1.0], [-3.0]], -2.0), (2, 1)),
    (prox.nuclear_norm(0.4), (2, 3)),
    (lambda x, step: np.tanh(x) * step, (3,)),
]


def points(shape, rng):
    """Ordinary points, tiny and huge ones, corners, and the origin."""
    ordinary = rng.normal(size=(40, *shape)) * np.exp(rng.normal(size=(40, *(1,) * len(shape))))
    scaled = [ordinary[:4] * s for s in (1e-300, 1e-8, 1e8, 1e200, 1e307)]
    special = [np.zeros((1, *shape)), np.ones((1, *shape)), np.full((1, *shape), -np.inf)]
    return np.concatenate([ordinary, *scaled, *special])


@every("given, shape", MAPS)
def test_all_at_once_is_one_by_one(given, shape):
    x = points(shape, np.random.default_rng(3))
    kept = x.copy()
    with np.errstate(all="ignore"):
        together = each_chain(given, shape)(x, 0.3)
        alone = np.array([p if given is None else given(p, 0.3) for p in x])
    assert together.shape == x.shape
    np.testing.assert_array_equal(x, kept)
    if given is None:
        np.testing.assert_array_equal(together, x)
    else:
        # Up to the rounding of sums of a few terms, in units of the point or of the set (about 1).
        size = np.array([np.max(np.abs(p)) for p in x]).reshape(-1, *(1,) * len(shape))
        slack = 1000 * 2.0**-52 * np.clip(size, 1.0, np.finfo(float).max)
        assert np.all(np.abs(together - alone) <= slack)


@every("radius, centre", [(1.0, np.zeros(4)), (0.3, [1.0, -2.0, 5.0, 1e6]), (1e-150, np.zeros(4))])
def test_balls_are_never_left(radius, centre):
    x = np.random.default_rng(4).normal(size=(200, 4)) * radius * 1.2 + np.array(centre)
    ball = prox.ball(radius, center=centre if np.any(centre) else None)
    for y in each_chain(ball, (4,))(x, 1.0):
        offsets = [Fraction(a) - Fraction(b) for a, b in zip(y.tolist(), centre, strict=True)]
        assert sum(a**2 for a in offsets) <= Fraction(radius) ** 2


def test_halfspaces_are_never_left():
    rng = np.random.default_rng(5)
    normal, offset = [1.0, 0.3, -0.7], 0.1
    x = rng.normal(size=(300, 3))
    for a, b in zip(x, each_chain(prox.halfspace(normal, offset), (3,))(x, 1.0), strict=True):

        def level(p):
            return sum(Fraction(n) * Fraction(v) for n, v in zip(normal, p.tolist(), strict=True))

        assert level(b) <= Fraction(offset)
        if level(a) <= Fraction(offset):
            np.testing.assert_array_equal(a, b)


def test_simplices_are_never_left():
    x = np.random.default_rng(6).normal(size=(200, 7)) * 3
    for y in each_chain(prox.simplex(2.0), (7,))(x, 1.0):
        total = sum(map(Fraction, y.tolist()))
        assert np.all(y >= 0.0)
        assert 2 - Fraction(1, 10**13) <= total <= 2


def test_another_shape_is_refused():
    centred, box = prox.ball(1.0, center=[0.0, 0.0]), prox.box(0.0, [1.0, 2.0])
    for given in (centred, box, prox.halfspace([1.0], 1.0)):
        assert "expected one for points of shape" in refused("prox", each_chain, given, (3,))
    shorter = each_chain(lambda x, step: x[:1], (3,))
    refused("prox", shorter, np.zeros((2, 3)), 1.0)

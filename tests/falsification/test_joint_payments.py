"""Payments chosen for all bins together: attacks on the comparison of covariances, and exact runs in bins."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import pabi
from falsification.test_secret_places import KINDS, described, exact, instance, linear
from pabi.account.analyses import joint
from pabi.account.shifts.joint import Bins, grouped, spread
from support.falsification import claims
from support.falsification.claims import refuted
from support.falsification.mixtures import Mixture, hockey_sticks

EPSILONS = np.array([0.0, 0.3, 1.0, 2.0])
NODES = np.linspace(-7.0, 7.0, 57)
# For what seems to exceed a bound: of large moves the usual ones miss where most of the mass is.
FINE = np.linspace(-10.0, 10.0, 201)
# The rule is exact to a few times the squared spacing, at the kinks.
ERROR = 2e-3

pytestmark = pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")


def weights_of(nodes) -> np.ndarray:
    return np.exp(-0.5 * nodes**2) / math.sqrt(2.0 * math.pi) * (nodes[1] - nodes[0])


def bound(alpha, beta, opposite: bool, nodes=NODES) -> np.ndarray:
    """The right sides of the theorem for two places, in the worse order, by quadrature."""

    def ratio(sign):
        power = [np.exp(sign * m * nodes - 0.5 * m * m) for m in (*alpha, *beta)]
        one = power[0][:, None, None] * power[2][None, :, None]
        return 0.5 * (one + power[1][:, None, None] * power[3][None, None, :])

    one, other = ratio(1.0), ratio(-1.0) if opposite else 1.0
    weights = weights_of(nodes)
    p = np.einsum("i,j,k->ijk", weights, weights, weights)
    pairs = (one, other), (other, one)
    return np.array(
        [
            max(float(np.sum(p * np.maximum(a - math.exp(e) * b, 0.0))) for a, b in pairs)
            for e in EPSILONS
        ]
    )


def world(rng) -> Bins:
    """A run of two bins on a line."""
    steps = int(rng.integers(2, 7))
    data = steps - int(rng.integers(0, 2))
    c = np.where(rng.random(steps) < 0.4, 1.0, rng.uniform(0.2, 1.4, steps))
    s = rng.uniform(0.3, 2.0) * np.exp(rng.normal(0.0, 0.2, steps))
    return Bins(c, s, np.exp(rng.normal(0.0, 0.3, steps)), data, 2)


def plan(rng) -> np.ndarray:
    """Any plan: all payments that follow from one have to be sound."""
    return rng.uniform([0.0, -0.3, 0.0, 0.3, -0.2], [1.0, 1.0, 1.3, 3.0, 1.2])


def covered(places: Bins, payments, alike: bool):
    return spread(places.common(places.noises(range(2)), payments), alike)


def line(places: Bins, slopes, pulls, opposite: bool) -> np.ndarray:
    """δ of maps x ↦ slope·x and a record that pulls as said: mixtures of Gaussians on a line."""
    later = np.append(np.cumprod(slopes[:0:-1])[::-1], 1.0)
    deviation = math.sqrt(float(np.sum((later * places.sigma) ** 2)))
    k = np.arange(places.data)
    means = np.array([float(np.sum((later * pulls)[k[k % 2 == j]])) for j in (0, 1)]) / deviation
    half = np.full(2, 0.5)
    one, none = Mixture(half, means, np.ones(2)), Mixture(half, -means * opposite, np.ones(2))
    return hockey_sticks(one, none, EPSILONS).max(axis=0)


def on_lines(rng, opposite: bool) -> float:
    """By how much a run on a line exceeds the bound, at most 0 if that holds."""
    places = world(rng)
    alpha, beta = covered(places, places.paid(plan(rng)), opposite)
    least = 0.0 if rng.random() < 0.3 else rng.random()
    slopes = places.c * np.where(rng.random(places.c.size) < 0.6, 1.0, least)
    pulls = places.s * np.where(rng.random(places.s.size) < 0.85, 1.0, rng.uniform(-1.0, 1.0))
    truth = line(places, slopes, pulls, opposite)
    excess = float(np.max(truth - bound(alpha, beta, opposite)))
    return excess if excess <= ERROR else float(np.max(truth - bound(alpha, beta, opposite, FINE)))


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("opposite", [False, True])
def test_no_run_on_a_line_reveals_more(opposite, count):
    rng = np.random.default_rng([count, opposite])
    assert max(on_lines(rng, opposite) for _ in range(count)) <= ERROR


def kinked(rng, places: Bins, size: int = 401) -> np.ndarray:
    """δ of one run whose steps have slopes that vary with the state, by densities on a grid."""
    x = np.linspace(-14.0, 14.0, size)
    laws = np.zeros((3, size))
    laws[:, size // 2] = 1.0
    for k in range(places.c.size):
        low, high = np.sort(rng.normal(0.0, 1.5, 2))
        flat = places.c[k] * rng.choice([0.0, 0.5, 1.0])
        mapped = places.c[k] * np.clip(x, low, high) + flat * (x - np.clip(x, low, high))
        for j, law in enumerate(laws):
            moved = mapped + (places.s[k] if k < places.data and j == k % 2 else 0.0)
            apart = (x[:, None] - moved) / places.sigma[k]
            move = np.exp(-0.5 * apart**2)
            laws[j] = move @ (law / np.maximum(move.sum(axis=0), 1e-300))
    one, none = 0.5 * (laws[0] + laws[1]), laws[2]
    pairs = (one, none), (none, one)
    return np.array(
        [max(np.maximum(a - math.exp(e) * b, 0.0).sum() for a, b in pairs) for e in EPSILONS]
    )


@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.nightly)])
def test_no_run_with_kinks_reveals_more(count):
    rng = np.random.default_rng(count)
    for _ in range(count):
        places = world(rng)
        places = replace(places, c=np.minimum(places.c, 1.0), sigma=np.maximum(places.sigma, 0.7))
        alpha, beta = covered(places, places.paid(plan(rng)), False)
        assert np.all(kinked(rng, places) <= bound(alpha, beta, False) + ERROR)


def test_fixed_vectors_reveal_as_much():
    """Of two places α₁α₂ = K₁₂ can be met, so that the comparison loses nothing; less is caught."""
    for opposite, angle in product([False, True], [0.3, 1.2]):
        b = np.array([[1.1, 0.0], [0.8 * math.cos(angle), 0.8 * math.sin(angle)]])
        x, y = np.meshgrid(NODES, NODES, indexing="ij")

        def seen(sign, b=b, x=x, y=y):
            moves = [np.exp(sign * (u * x + v * y) - 0.5 * (u * u + v * v)) for u, v in b]
            return 0.5 * sum(moves)

        one, other = seen(1.0), seen(-1.0) if opposite else 1.0
        p = np.outer(weights_of(NODES), weights_of(NODES))
        truth = [np.sum(p * np.maximum(one - math.exp(e) * other, 0.0)) for e in EPSILONS]
        # α in proportion, so that both β are real.
        k = b @ b.T
        alpha = np.sqrt(k[0, 1] * np.diag(k) / math.sqrt(k[0, 0] * k[1, 1]))
        beta = np.sqrt(np.diag(k) - alpha**2)
        assert np.all(np.array(truth) <= bound(alpha, beta, opposite) + ERROR)
        assert np.all(truth[:3] > bound(0.9 * alpha, 0.9 * beta, opposite)[:3] + ERROR)


# Runs as described, and what is said of them.


@pytest.mark.parametrize("count", [1, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zero_out", [False, True])
def test_bins_are_never_safer_than_guaranteed(zero_out, kind, count, monkeypatch):
    """Whatever the plan: the best one takes longer to find than to refute."""
    rng = np.random.default_rng([count, zero_out, *kind.encode()])
    monkeypatch.setattr(joint, "best", lambda places, *_, **__: places.paid(plan(rng)))
    for _ in range(count):
        found = instance(rng, kind, zero_out)
        try:
            claim = joint.apply(described(found), float(10 ** rng.uniform(-5, -1))).curve
        except pabi.NotApplicable:  # it moves too much
            continue
        for i in rng.choice(claims.EPSILONS.size, 2, replace=False):
            said = claim.delta(float(claims.EPSILONS[i]))
            assert exact(found)[i] <= said + claims.ROUNDING[i], found


def test_what_bins_have_in_common_cannot_be_left_out(monkeypatch):
    """Two bins that forget nothing: paid for until the end, they move the same steps."""
    found = linear(2, 3, True, 1.2)
    monkeypatch.setattr(
        joint, "best", lambda places, *_, **__: places.paid(np.array([0, 0, 0, 1, 1.0]))
    )
    assert not refuted(exact(found), joint.apply(described(found), 1e-3).curve)
    monkeypatch.setattr(
        joint, "spread", lambda common, alike: (np.zeros(2), 0.5 * np.sqrt(np.diag(common)))
    )
    assert refuted(exact(found), joint.apply(described(found), 1e-3).curve)


def test_groups_are_at_their_largest():
    alpha, beta = np.array([0.3, 0.1, 0.2]), np.array([0.2, 0.5, 0.4])
    assert grouped(alpha, beta, 2) == [(0.3, 0.4, 2), (0.1, 0.5, 1)]


@pytest.mark.parametrize(
    "batches", [pabi.ShuffleOnce(1), pabi.BallsInBins(1, redraw="epoch"), pabi.Cyclic(1)]
)
def test_other_orders_are_refused(batches):
    with pytest.raises(pabi.NotApplicable):
        joint.apply(linear(3, 2, True).run(batches), 1e-3)
    with pytest.raises(pabi.NotApplicable, match="above the cap"):
        run = replace(described(linear(3, 2, True)), batches=pabi.BallsInBins(1, cap=2))
        joint.apply(run, 1e-3)

"""Secret groups: what labels move against its definition, and bounds against exact worlds."""

import itertools
import math

import numpy as np
import pytest

import pabi
from pabi import BallsInBins, Cyclic, Loss, NotApplicable, Reshuffle, ShuffleOnce
from pabi.account.analyses import secret_steps
from support.falsification.mixtures import Mixture, hockey_sticks

DELTA = 1e-5
ORDERS = (ShuffleOnce, Reshuffle)


def run(batches, n, l2=0.0, noise=1.5, adjacency="zero_out", **more):
    loss = Loss.convex(1.0, l2=l2, gradient_bound=1.0)
    given = {"step_size": 0.5, "noise_multiplier": noise, "adjacency": adjacency}
    return pabi.NoisySGD(loss, n, batches, **given | more)


def guarantee_of(description):
    return secret_steps.groups(description, DELTA)


@pytest.mark.parametrize(("adjacency", "known"), [("zero_out", 0.808), ("replace_one", 1.080)])
@pytest.mark.parametrize("order", ORDERS)
def test_one_epoch_has_its_known_number(order, adjacency, known):
    description = run(order(100, spare=1), 10001, epochs=1, adjacency=adjacency)
    assert guarantee_of(description).epsilon(DELTA) == pytest.approx(known, rel=0.01)
    if order is Reshuffle and adjacency == "zero_out":
        assert description.guarantee(DELTA).method == "secret groups"


def random_run(rng):
    size = int(rng.integers(1, 4))
    n = int(rng.integers(size + 1, 40))
    spare = int(rng.integers(1, n - size + 1))
    per_epoch = -(-(n - spare) // size)
    steps, cooldown = int(rng.integers(1, 3 * per_epoch + 2)), int(rng.integers(0, 4))
    eta = float(rng.uniform(0.05, 1.5))
    return run(
        ORDERS[rng.integers(2)](size, spare=spare),
        n,
        l2=float(rng.choice([0.0, rng.uniform(0.01, 0.5)])),
        step_size=eta * rng.uniform(0.4, 1.0, steps + cooldown) if rng.random() < 0.4 else eta,
        noise=float(rng.uniform(0.5, 3.0)),
        steps=steps + cooldown,
        cooldown_steps=cooldown,
    )


def test_random_runs_are_verified():
    """The checker works out by itself what labels move."""
    rng = np.random.default_rng(7)
    for _ in range(25):
        verdict = pabi.verify(guarantee_of(random_run(rng)))
        assert verdict.ok, verdict.reason


def members(order, n, size, spare, steps):
    """(ways, steps, n): who is in the batch of each step."""
    places = np.where(np.arange(n) < n - spare, np.arange(n) // size, -1)
    period = -(-(n - spare) // size)
    one = np.array(sorted(set(itertools.permutations(places.tolist()))))
    epochs = -(-steps // period)
    ways = [(i,) * epochs for i in range(len(one))]
    if order is Reshuffle:
        ways = list(itertools.product(range(len(one)), repeat=epochs))
    batch = one[np.array(ways)]
    k = np.arange(steps)
    return (batch[:, k // period] == (k % period)[None, :, None]).astype(float)


def world(rng):
    """(run, everything its batches can be): few records, steps that shrink or not."""
    order = ORDERS[rng.integers(2)]
    size = int(rng.integers(1, 3))
    n = int(rng.integers(size + 1, 7))
    spare = int(rng.integers(1, min(3, n - size + 1)))
    period = -(-(n - spare) // size)
    most = 2 * period if order is ShuffleOnce or n < 5 else period
    steps = int(rng.integers(1, most + 1))
    cooldown = int(rng.integers(0, 2))
    description = run(
        order(size, spare=spare),
        n,
        l2=float(rng.choice([0.0, 0.1, 0.4])),
        noise=float(np.exp(rng.uniform(-0.5, 1.2))),
        steps=steps + cooldown,
        cooldown_steps=cooldown,
        adjacency=str(rng.choice(["zero_out", "replace_one"])),
    )
    return description, members(order, n, size, spare, steps)


def mixture(description, inside, gradients):
    """The law of the last iterate on linear losses."""
    t, eta = description.steps, description.step_size
    c, b = 1.0 - eta * description.loss.l2, description.batch_size
    later = c ** np.arange(t - 1, -1, -1.0)
    pulls = inside @ gradients * (eta / b)
    means = pulls @ later[: inside.shape[1]]
    std = description.noise_multiplier * eta / b * math.sqrt(np.sum(later**2))
    ways = len(means)
    return Mixture(np.full(ways, 1.0 / ways), means, np.full(ways, std))


EPSILONS = np.array([0.0, 0.2, 0.5, 1.0, 2.0])


def largest_ratio(rng, count):
    """Of the true δ to the bound, over worlds and ε; none may be above 1."""
    largest = 0.0
    for _ in range(count):
        description, inside = world(rng)
        others = rng.choice([-1.0, 1.0], description.n) * rng.choice([1.0, rng.uniform()])
        if rng.random() < 0.5:
            others[:] = -1.0  # the record and whom it displaces are far apart
        others[0] = 1.0
        changed = others.copy()
        changed[0] = 0.0 if description.adjacency == "zero_out" else -1.0
        truth = hockey_sticks(
            *(mixture(description, inside, x) for x in (others, changed)), EPSILONS
        )
        bound = np.array([guarantee_of(description).delta(float(e)) for e in EPSILONS])
        truth = truth.max(axis=0)
        assert np.all(truth <= bound + 1e-13 * np.exp(EPSILONS)), (description, truth, bound)
        largest = max([largest, *(truth / bound)[truth > 1e-9]])
    return largest


@pytest.mark.parametrize(
    ("count", "least"), [(8, 0.5), pytest.param(2000, 0.95, marks=pytest.mark.nightly)]
)
def test_no_world_tells_more_than_is_proven(count, least):
    assert largest_ratio(np.random.default_rng(3), count) > least


def test_what_is_not_covered():
    given = {"n": 10001, "epochs": 1}
    stated = {"noise_multiplier": None, "noise_std": 1.0, "gradient_sensitivity": 1.0}
    once = ShuffleOnce(100, spare=1)
    for batches, changes, reason in (
        (BallsInBins(100), {}, "secret place"),
        (Cyclic(100), {}, "no secret order"),
        (ShuffleOnce(100), {"n": 10000}, "spare place"),
        (once, {"release": "path"}, "path is released"),
        (once, stated, "whose places"),
    ):
        with pytest.raises(NotApplicable, match=reason):
            guarantee_of(run(batches, **given | changes))

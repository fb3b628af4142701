"""The search against the accountant: no instance that it finds is less private than is proven."""

import math

import pytest

from pabi import Loss, Modulus
from pabi.tradeoff import Gaussian
from support.falsification.adversary import Knob, log_ratio, search
from support.falsification.random_batches import Constant, Line
from support.falsification.solver import solved_mu
from support.falsification.walks import Jumps, Moved, Odd, Step, Training, Walk, Well

EPSILONS = [0.0, 0.5]


def ratio(walk: Walk, claim, epsilons=EPSILONS) -> float:
    """The largest log(true δ/claimed δ) over some ε at which the truth is more than its error."""
    both, error = walk.delta(epsilons)
    if error > 1e-7:
        return -math.inf
    truth = both.max(axis=0) - error
    return max(
        log_ratio(t, float(claim.delta(e))) if t > 1e-4 else -math.inf
        for t, e in zip(truth.tolist(), epsilons, strict=True)
    )


def test_the_search_finds_a_corner_and_a_ridge():
    """The largest value is at a corner of one knob and along a line of two others."""
    knobs = {"x": Knob(0.1, 10.0, "log"), "y": Knob(-1.0, 1.0), "k": Knob(0, 9, "integer")}

    def score(point):
        return -abs(math.log(point["x"]) - point["y"]) - abs(point["k"] - 7.0) - (1.0 - point["y"])

    found = search(score, knobs, seed=0, instances=3000)
    assert found.score > -0.02
    assert found.point["k"] == 7.0
    assert found.instances <= 3000
    early = search(score, knobs, seed=0, instances=3000, enough=-3.0)
    assert early.instances < found.instances


def test_it_stops_where_there_is_no_instance():
    found = search(lambda point: -math.inf, {"x": Knob(0.0, 1.0)}, seed=0, instances=100)
    assert (found.score, found.instances) == (-math.inf, 100)


# Walks that jump, between walls or not; the accountant's solver for any modulus.

JUMPING = {"start": Knob(0.0, 2.0), "diameter": Knob(0.5, 6.0), "centre": Knob(-1.0, 1.0)}
for _k in range(3):
    JUMPING |= {f"slope {_k}": Knob(0.2, 1.3), f"jump {_k}": Knob(0.0, 2.0)}
    JUMPING |= {f"move {_k}": Knob(0.0, 1.5), f"sigma {_k}": Knob(0.2, 2.0, "log")}


def jumping_score(root: bool, walls: bool, told=lambda h: h):
    """`told`: what the accountant hears of a jump."""

    def score(point) -> float:
        steps, moduli, moves, stds = [], [], [], []
        for k in range(3):
            slope, jump = point[f"slope {k}"], point[f"jump {k}"]
            part = 0.7 * slope if root else slope
            piece = (part, jump * math.sqrt(1.0 - 0.49) if root else jump)
            odd = Odd((piece,), point["centre"] if k else 0.0)
            by = point[f"move {k}"] / 2
            maps = Moved(odd, -by), Moved(odd, by)
            steps.append(Step(maps, point[f"sigma {k}"], odd.kinks, odd.steepest))
            heard = told(jump)
            modulus = Modulus.sqrt(slope**2, heard**2) if root else Modulus.affine(slope, heard)
            moduli.append(modulus)
            moves.append(2 * by)
            stds.append(point[f"sigma {k}"])
        diameter = point["diameter"] if walls else math.inf
        start = min(point["start"], diameter)
        walk = Walk(steps, (-start / 2, start / 2), diameter / 2)
        return ratio(walk, Gaussian(solved_mu(moduli, moves, stds, diameter, start)))

    return score


@pytest.mark.parametrize("instances", [15, pytest.param(700, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("walls", [False, True], ids=["free", "walls"])
@pytest.mark.parametrize("root", [False, True], ids=["affine", "root"])
def test_jumping_walks(root, walls, instances):
    found = search(jumping_score(root, walls), JUMPING, seed=instances, instances=instances)
    assert -0.3 < found.score <= 0.0, found


@pytest.mark.parametrize("root", [False, True], ids=["affine", "root"])
def test_half_the_jump_is_found(root):
    short = jumping_score(root, False, told=lambda h: h / 2)
    assert search(short, JUMPING, seed=1, instances=300, enough=0.01).score > 0.01


# Training on losses of one number: two kinks, wells, constants, by public descriptions.

TRAINING = {
    "batches": Knob(1, 3, "integer"),
    "steps": Knob(1, 6, "integer"),
    "eta": Knob(0.05, 1.5, "log"),
    "noise": Knob(0.3, 8.0, "log"),
    "diameter": Knob(0.3, 20.0, "log"),
    "first kink": Knob(-1.0, 1.0),
    "second kink": Knob(-1.0, 1.0),
    "between": Knob(-1.0, 1.0),
    "position": Knob(0.0, 1.0),
    "l2": Knob(0.0, 0.5),
}


def lipschitz(point, walls: bool) -> Training:
    """|gradient| ≤ 1, from −1 through `between` to 1; the record pulls ahead, then back."""
    kinks = sorted(point[name] for name in ("first kink", "second kink"))
    others = Jumps(tuple(kinks), (-1.0, point["between"], 1.0))
    return _training(point, others, Constant(1.0), Constant(-1.0), Loss.lipschitz(1.0), walls)


def dissipative(point, walls: bool) -> Training:
    well = Well(1.0, 1.0 + 2.0 * abs(point["first kink"]), 0.5 + abs(point["between"]))
    loss = Loss.dissipative(well.depth**2 / 0.5, 0.5, max(1.0, well.slope - 1.0))
    record, other = (Well(1.0, well.slope, well.depth, 0.0, side) for side in (-0.5, 0.5))
    return _training(point, well, record, other, loss, walls, sensitivity=1.0)


def clipped(point, walls: bool) -> Training:
    """Convex, M = 1, clipped at 1, not known to be a scalar times a fixed vector."""
    others = Line(max(abs(point["between"]), 1e-3), 3.0 * point["first kink"], 1.0)
    return _training(
        point, others, Constant(1.0), Constant(-1.0), Loss.convex(1.0), walls, clip=1.0
    )


def _training(point, others, record, other, loss, walls, **more) -> Training:
    batches, t = int(point["batches"]), int(point["steps"])
    position = min(batches - 1, int(point["position"] * batches))
    table = [[others] for _ in range(batches)]
    table[position] = [record]
    return Training(
        tuple(map(tuple, table)),
        position,
        other,
        (point["eta"],) * t,
        (point["noise"],) * t,
        loss.with_l2(point["l2"]),
        diameter=point["diameter"] if walls else None,
        **more,
    )


@pytest.mark.filterwarnings("ignore::pabi.PrivacyWarning")
@pytest.mark.parametrize("instances", [20, pytest.param(600, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("walls", [False, True], ids=["free", "walls"])
@pytest.mark.parametrize("family", [lipschitz, dissipative, clipped])
def test_training(family, walls, instances):
    def score(point) -> float:
        found = family(point, walls)
        position = found.position if len(found.batches) > 1 else None
        return ratio(found.walk, found.run.guarantee(1e-3, position=position))

    found = search(score, TRAINING, seed=instances, instances=instances)
    assert -0.3 < found.score <= 0.0, found
